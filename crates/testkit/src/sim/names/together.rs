//! Files in a cluster with its troubles: each client makes, renames, links and removes files of its own, under names that it
//! uses once, and all of them fight for directories in one that they share.
//!
//! Nobody changes another's files. So a client that has been answered knows what it has. Where it was not, a change was done
//! whole or not at all: of a file that was renamed exactly one name is left.

use super::opened::Holding;
use super::{NamesTold, Outcome, Refusal, whole};
use crate::names::path;
use crate::rng::Rng;
use crate::sim::ask::{Ask, Told};
use crate::sim::cluster::{Cluster, Subject};
use crate::sim::exec::WORLD;
use crate::sim::facade::Facade;
use crate::sim::files::{FileFaults, Share};
use crate::sim::net::Faults;
use crate::sim::play::{Played, Scenario, Weather, started};
use crate::sim::weather::through;
use esker_cluster::Kind;
use esker_model::namespace::{
    Call, Change, Changes, Errno, Inode, Looked, Make, NamePath, Open, SetAttributes,
};
use esker_model::{Error, Version, VertexId};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Directories that all fight for.
const CONTESTED: [&str; 3] = ["x", "y", "z"];

/// What a client knows of one of its names.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Known {
    /// It is there.
    There,
    /// It is not.
    Gone,
    /// Nobody said.
    Perhaps,
    /// It is there exactly if that other name is not.
    Or(NamePath),
}

/// Files by path, as one client knows them.
type Mine = BTreeMap<NamePath, Known>;

/// What a client was promised of a file.
struct Promised {
    path: NamePath,
    inode: Inode,
    until: u64,
}

struct Shared {
    cluster: Rc<Cluster>,
    mine: RefCell<Vec<Mine>>,
    busy: Cell<usize>,
    applied: Cell<usize>,
    records: Cell<usize>,
    promises: Cell<usize>,
    findings: RefCell<Vec<String>>,
}

/// Plays a seed and checks everything.
pub fn play(seed: u64, weather: Weather, tracing: bool) -> Played {
    let mut scenario = Scenario::of(seed, weather, Subject::Nodes);
    scenario.clients = 1 + (seed % 7) as usize;
    // A resize is of stopped servers, which have promised nothing.
    if weather != Weather::Flood {
        scenario.shape.engine.promises = [0, 20, 100, 400][(seed % 4) as usize];
    }
    // Deaths and lost messages are enough to leave files behind.
    scenario.shape.share = Share::of(seed, weather != Weather::Calm || seed.is_multiple_of(2));
    play_as(&scenario, tracing)
}

/// Partitions come back to servers that have given them, and whose givers do not know yet that they have arrived: where partition `n`
/// lies on the `n`-th of three servers, the third comes from the first, which had the second one's. Most answers are lost.
pub fn play_back(seed: u64, tracing: bool) -> Played {
    let mut scenario = Scenario::of(seed, Weather::Rain, Subject::Nodes);
    scenario.clients = 4;
    scenario.calls = 30;
    scenario.shape.servers = 3;
    scenario.shape.vnodes = 64;
    scenario.shape.threshold = 2 + seed % 4;
    scenario.shape.placement = if seed.is_multiple_of(2) {
        Kind::Dido
    } else {
        Kind::GigaPlus
    };
    scenario.faults = Faults {
        lost_questions: 0,
        lost_answers: 200,
        repeated: 0,
        late: 0,
    };
    scenario.shape.share = Some(Share {
        least: 0,
        faults: FileFaults::default(),
        blind: 0,
    });
    play_as(&scenario, tracing)
}

fn play_as(scenario: &Scenario, tracing: bool) -> Played {
    let seed = scenario.seed;
    let cluster = Cluster::new(seed ^ 0x6669_6c65, scenario.shape, tracing);
    let mut played = Played::default();
    if let Err(why) = play_on(scenario, &cluster, &mut played) {
        played.findings.push(why);
    }
    played.sum_up(&cluster);
    played
}

fn play_on(scenario: &Scenario, cluster: &Rc<Cluster>, played: &mut Played) -> Result<(), String> {
    let facade = started(cluster, scenario.seed)?;
    let all = Rc::new(Shared {
        cluster: Rc::clone(cluster),
        mine: RefCell::new(vec![Mine::new(); scenario.clients]),
        busy: Cell::new(scenario.clients),
        applied: Cell::new(0),
        records: Cell::new(0),
        promises: Cell::new(0),
        findings: RefCell::default(),
    });
    let mut begin = vec![directory("/s")];
    begin.extend((0..scenario.clients).map(|n| directory(&format!("/c{n}"))));
    let made = facade.ask(&ask(begin)).map_err(|e| e.to_string())?;
    if !matches!(&made, Told::Names(NamesTold::Changed(done, _)) if done.iter().all(Result::is_ok))
    {
        return Err(format!("the first directories are not made: {made:?}"));
    }
    let mut rng = Rng::new(scenario.seed ^ 0x006e_616d);
    through(
        scenario,
        (cluster, &facade),
        &mut rng,
        &|| all.busy.get(),
        &mut |rng| {
            for client in 0..scenario.clients {
                let rng = Rng::new(rng.next());
                let opens = Rng::new(scenario.seed ^ client as u64 ^ 0x6f70_656e);
                let life = Rc::clone(&all).live(client, (rng, opens), 2 * scenario.calls);
                cluster.exec.spawn(WORLD, Box::pin(life));
            }
        },
    )?;
    played.records = all.records.get();
    played.applied = all.applied.get();
    played.promises = all.promises.get();
    played.tables = cluster.files.read_count();
    played.findings.append(&mut all.findings.borrow_mut());
    all.at_rest(&facade, &mut played.findings)?;
    whole::check(cluster, &mut played.findings)?;
    let left = cluster.files.names();
    if !left.is_empty() {
        played
            .findings
            .push(format!("files are left on shared storage: {left:?}"));
    }
    Ok(())
}

fn ask(changes: Vec<Change>) -> Ask {
    Ask::Names(Box::new(Call::Change(Changes {
        asker: None,
        changes,
        once: None,
        again: false,
    })))
}

fn directory(at: &str) -> Change {
    Change::Make(path(at), Make::new(0o4_0777, 0, 0))
}

fn file(at: &NamePath) -> Change {
    Change::Make(at.clone(), Make::new(0o10_0666, 0, 0))
}

impl Shared {
    /// One client's life.
    async fn live(self: Rc<Self>, client: usize, (mut rng, mut opens): (Rng, Rng), calls: usize) {
        let mut promised = Vec::new();
        let mut held = BTreeMap::new();
        for number in 0..calls {
            self.step(client, number, &mut rng).await;
            if opens.percent(15) {
                self.hold(client, &mut held, &mut opens).await;
            }
            if self.cluster.shape.engine.promises > 0 {
                self.look(client, &mut promised, &mut rng).await;
            }
            if rng.percent(50) {
                let pause = rng.below(self.cluster.shape.leisure) as u64;
                self.cluster.shared().sleep(pause).await;
            }
        }
        self.busy.set(self.busy.get() - 1);
    }

    /// Asks once: a change that is asked for again is another one.
    async fn change(&self, client: usize, rng: &mut Rng, changes: Vec<Change>) -> Vec<Outcome> {
        let count = changes.len();
        let shared = self.cluster.shared();
        let at = rng.below(self.cluster.len());
        shared.note(|| format!("client {client} asks server {at}: {changes:?}"));
        let patience = self.cluster.shape.patience;
        let told = self
            .cluster
            .ask(at, ask(changes), Version::ZERO, patience)
            .await;
        shared.note(|| format!("client {client} hears from server {at}: {told:?}"));
        self.records.set(self.records.get() + 1);
        let outcomes = match told {
            Ok(Told::Names(NamesTold::Changed(done, _))) if done.len() == count => done,
            Ok(other) => vec![Err(Refusal::Other(format!("{other:?}"))); count],
            Err(e) => vec![Err(Refusal::from(e)); count],
        };
        let done = outcomes.iter().filter(|o| o.is_ok()).count();
        self.applied.set(self.applied.get() + done);
        for outcome in &outcomes {
            if let Err(Refusal::Other(why)) = outcome {
                self.findings
                    .borrow_mut()
                    .push(format!("client {client} is told {why}"));
            }
        }
        outcomes
    }

    /// Asks for a file with a promise, and looks whether what was promised before is so: whoever else says something.
    async fn look(&self, client: usize, promised: &mut Vec<Promised>, rng: &mut Rng) {
        let (a, b) = (*rng.pick(&CONTESTED), *rng.pick(&CONTESTED));
        let at = path(&format!("/s/{a}/{b}"));
        let at = match self.one_of_mine(client, rng) {
            Some(mine) if rng.percent(70) => mine,
            _ => at,
        };
        let patience = self.cluster.shape.patience;
        let now = || self.cluster.shared().now();
        // The server that has it promises.
        for server in 0..self.cluster.len() {
            let sent = now();
            let ask = Ask::Promised(at.clone());
            let told = self.cluster.ask(server, ask, Version::ZERO, patience).await;
            if let Ok(Told::Promised(inode, millis @ 1..)) = told {
                self.promises.set(self.promises.get() + 1);
                promised.push(Promised {
                    path: at,
                    inode: *inode,
                    until: sent + u64::from(millis) * 1_000,
                });
                break;
            }
        }
        promised.retain(|promise| now() < promise.until);
        for promise in &*promised {
            let call = Call::Stat {
                asker: None,
                path: promise.path.clone(),
                follow: false,
            };
            let at = rng.below(self.cluster.len());
            let ask = Ask::Names(Box::new(call));
            let told = self.cluster.ask(at, ask, Version::ZERO, patience).await;
            if now() >= promise.until {
                continue;
            }
            let wrong = match &told {
                Ok(Told::Names(NamesTold::Inode(inode))) => **inode != promise.inode,
                Ok(_) | Err(Error::File(_)) => true,
                Err(_) => false,
            };
            if wrong {
                let what = format!(
                    "client {client} was promised {:?} of {} and server {at} says {told:?}",
                    promise.inode, promise.path
                );
                self.findings.borrow_mut().push(what);
            }
        }
    }

    /// Opens one of its files, or writes to one that it has open and looks at it: it is the same file with what was written, whatever
    /// became of its names.
    async fn hold(&self, client: usize, held: &mut BTreeMap<VertexId, Holding>, rng: &mut Rng) {
        let patience = self.cluster.shape.patience;
        let ask = |call: Call, at: usize| {
            let ask = Ask::Names(Box::new(call));
            self.cluster.ask(at, ask, Version::ZERO, patience)
        };
        if held.len() < 4
            && rng.percent(50)
            && let Some(mine) = self.one_of_mine(client, rng)
        {
            let how = Open::BOTH;
            let (asker, path) = (None, mine.clone());
            let at = rng.below(self.cluster.len());
            match ask(Call::Look { asker, path, how }, at).await {
                Ok(Told::Names(NamesTold::Looked(Looked::Found(path, inode)))) => {
                    held.entry(inode.id).or_insert_with(|| Holding::new(path));
                }
                Err(Error::File(e)) => {
                    let outcome = Err(Refusal::File(e.errno));
                    self.odd(client, "cannot open", &mine, &outcome);
                }
                _ => {}
            }
            return;
        }
        let which = rng.below(held.len().max(1));
        let Some(holding) = held.values_mut().nth(which) else {
            return;
        };
        let outcome = self
            .change(client, rng, vec![holding.append()])
            .await
            .remove(0);
        if holding.appended(&outcome).is_err() {
            self.odd(client, "cannot write to", &holding.path, &outcome);
        }
        let call = Call::Stat {
            asker: None,
            path: holding.path.clone(),
            follow: false,
        };
        let told = ask(call, rng.below(self.cluster.len())).await;
        if let Some(wrong) = holding.wrong(&told) {
            let mut findings = self.findings.borrow_mut();
            findings.push(format!("client {client} has open: {wrong}"));
        }
    }

    fn one_of_mine(&self, client: usize, rng: &mut Rng) -> Option<NamePath> {
        let all = self.mine.borrow();
        let mine = all.get(client)?.iter();
        let there: Vec<&NamePath> = mine
            .filter(|(_, known)| **known == Known::There)
            .map(|(path, _)| path)
            .collect();
        (!there.is_empty()).then(|| there[rng.below(there.len())].clone())
    }

    fn set(&self, client: usize, path: &NamePath, known: Known) {
        if let Some(mine) = self.mine.borrow_mut().get_mut(client) {
            mine.insert(path.clone(), known);
        }
    }

    /// A refusal that nobody's doing explains.
    fn odd(&self, client: usize, what: &str, path: &NamePath, outcome: &Outcome) {
        let what = format!("client {client} {what} {path}, which is its own: {outcome:?}");
        self.findings.borrow_mut().push(what);
    }

    async fn step(&self, client: usize, number: usize, rng: &mut Rng) {
        // In its own directory, or between others' in the shared one.
        let place = if rng.percent(50) {
            format!("/c{client}")
        } else {
            "/s".into()
        };
        let fresh = path(&format!("{place}/{client}-{number}"));
        // Some clients do little else than fight.
        let fights = if client.is_multiple_of(2) { 10 } else { 40 };
        match rng.below(fights) {
            0..=2 => {
                let outcome = self.change(client, rng, vec![file(&fresh)]).await.remove(0);
                match &outcome {
                    Ok(()) => self.set(client, &fresh, Known::There),
                    Err(Refusal::Unavailable(_)) => self.set(client, &fresh, Known::Perhaps),
                    Err(_) => self.odd(client, "cannot make", &fresh, &outcome),
                }
            }
            3 => {
                let many: Vec<NamePath> = (0..2 + rng.below(12))
                    .map(|n| path(&format!("{fresh}-{n}")))
                    .collect();
                let changes = many.iter().map(file).collect();
                let outcomes = self.change(client, rng, changes).await;
                for (at, outcome) in many.iter().zip(&outcomes) {
                    match outcome {
                        Ok(()) => self.set(client, at, Known::There),
                        Err(Refusal::Unavailable(_)) => self.set(client, at, Known::Perhaps),
                        Err(_) => self.odd(client, "cannot make", at, outcome),
                    }
                }
            }
            4 => {
                let Some(at) = self.one_of_mine(client, rng) else {
                    return;
                };
                let change = vec![Change::Unlink(at.clone())];
                let outcome = self.change(client, rng, change).await.remove(0);
                match &outcome {
                    Ok(()) => self.set(client, &at, Known::Gone),
                    Err(Refusal::Unavailable(_)) => self.set(client, &at, Known::Perhaps),
                    Err(_) => self.odd(client, "cannot remove", &at, &outcome),
                }
            }
            5..=6 => {
                let Some(at) = self.one_of_mine(client, rng) else {
                    return;
                };
                let change = vec![Change::Rename {
                    from: at.clone(),
                    to: fresh.clone(),
                    no_replace: rng.percent(50),
                }];
                let outcome = self.change(client, rng, change).await.remove(0);
                match &outcome {
                    Ok(()) => {
                        self.set(client, &at, Known::Gone);
                        self.set(client, &fresh, Known::There);
                    }
                    Err(Refusal::Unavailable(_)) => {
                        self.set(client, &at, Known::Or(fresh.clone()));
                        self.set(client, &fresh, Known::Or(at));
                    }
                    Err(_) => self.odd(client, "cannot rename", &at, &outcome),
                }
            }
            7 => {
                let Some(at) = self.one_of_mine(client, rng) else {
                    return;
                };
                let change = vec![Change::Link {
                    from: at.clone(),
                    to: fresh.clone(),
                }];
                let outcome = self.change(client, rng, change).await.remove(0);
                match &outcome {
                    Ok(()) => self.set(client, &fresh, Known::There),
                    Err(Refusal::Unavailable(_)) => self.set(client, &fresh, Known::Perhaps),
                    Err(_) => self.odd(client, "cannot link", &at, &outcome),
                }
            }
            8 => {
                let Some(at) = self.one_of_mine(client, rng) else {
                    return;
                };
                let set = SetAttributes {
                    mode: Some(0o600 + rng.below(8) as u32),
                    ..SetAttributes::default()
                };
                let change = vec![Change::Set {
                    path: at.clone(),
                    follow: true,
                    set,
                }];
                let outcome = self.change(client, rng, change).await.remove(0);
                if let Err(Refusal::File(_)) = &outcome {
                    self.odd(client, "cannot change", &at, &outcome);
                }
            }
            _ => self.fight(client, rng).await,
        }
    }

    /// Directories come and go, with what is in them, by everybody's hand.
    async fn fight(&self, client: usize, rng: &mut Rng) {
        let name = *rng.pick(&CONTESTED);
        let contested = path(&format!("/s/{name}"));
        let within = path(&format!("/s/{name}/{}", rng.pick(&CONTESTED)));
        let change = match rng.below(7) {
            0..=1 => directory(&format!("/s/{name}")),
            2 => file(&within),
            3 => Change::Unlink(within),
            4 => Change::Rmdir(contested),
            5 => Change::Rename {
                from: contested,
                to: path(&format!("/s/{}", rng.pick(&CONTESTED))),
                no_replace: false,
            },
            _ => Change::Rename {
                from: within,
                to: path(&format!("/s/{}/{name}", rng.pick(&CONTESTED))),
                no_replace: false,
            },
        };
        let outcome = self.change(client, rng, vec![change]).await.remove(0);
        let expected = [
            Errno::NotFound,
            Errno::Exists,
            Errno::NotEmpty,
            Errno::Invalid,
            Errno::NotDirectory,
            Errno::IsDirectory,
        ];
        if let Err(Refusal::File(errno)) = &outcome
            && !expected.contains(errno)
        {
            self.findings
                .borrow_mut()
                .push(format!("client {client} is told {errno:?}"));
        }
    }

    /// What every server shows in the end.
    fn at_rest(&self, facade: &Facade, findings: &mut Vec<String>) -> Result<(), String> {
        for at in 0..self.cluster.len() {
            let mut places = vec!["/s".to_owned()];
            places.extend((0..self.mine.borrow().len()).map(|n| format!("/c{n}")));
            let mut there = Vec::new();
            for place in places {
                there.extend(listed(facade, at, &path(&place))?);
            }
            for (client, mine) in self.mine.borrow().iter().enumerate() {
                for (path, known) in mine {
                    let is = there.contains(path);
                    let right = match known {
                        Known::There => is,
                        Known::Gone => !is,
                        Known::Perhaps => true,
                        Known::Or(other) => is != there.contains(other),
                    };
                    if !right {
                        findings.push(format!(
                            "server {at}: {path} of client {client} is {}, and it knows: {known:?}",
                            if is { "there" } else { "not there" }
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}

/// What a server says is in a directory.
fn listed(facade: &Facade, at: usize, directory: &NamePath) -> Result<Vec<NamePath>, String> {
    let mut all = Vec::new();
    let mut after = None;
    loop {
        let call = Call::List {
            asker: None,
            path: directory.clone(),
            after,
            limit: 20,
            directories: false,
        };
        let told = facade.ask_at(at, &Ask::Names(Box::new(call)));
        match told {
            Ok(Told::Names(NamesTold::Page(entries, more))) => {
                after = entries.last().map(|(cookie, _)| *cookie);
                all.extend(entries.iter().map(|(_, e)| directory.join(&e.name)));
                if !more {
                    return Ok(all);
                }
            }
            other => return Err(format!("server {at} lists {directory}: {other:?}")),
        }
    }
}
