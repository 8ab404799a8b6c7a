//! Objects in a cluster with its troubles: each client creates, tags, moves and deletes objects of its own, under ID attributes
//! that all want, and knows of each what it must find.
//!
//! Nobody changes another's objects. So a client that has been answered knows its objects exactly, and whatever it then
//! searches through whichever server must show them so. What clients fight for is names: while one of them holds ID
//! attributes, none else may get them; and who is refused them must have met somebody that held them.

mod life;

use super::ask::{Ask, Told};
use super::check::Findings;
use super::client::Clients;
use super::cluster::{Cluster, Subject};
use super::exec::WORLD;
use super::facade::Facade;
use super::play::{Played, Scenario, Weather, started};
use super::weather::through;
use super::workload::Ground;
use crate::rng::Rng;
use esker_model::filter::{Comparison, Expr, Term, Test};
use esker_model::object::{Find, Found, Identity, ObjectId, ObjectKey};
use esker_model::{Properties, Schema, Value, Version};
use life::Life;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The tag with the client's number.
const CLIENT: &str = "client";
/// The tag that several objects get at once.
const PAIR: &str = "pair";
/// Names that all want, and steps of each.
const NAMES: usize = 2;
const STEPS: usize = 4;

/// An object as its client knows it.
#[derive(Debug, Clone, PartialEq)]
struct Mine {
    identity: Identity,
    tags: Properties,
}

/// When ID attributes were, or may have been, somebody's.
#[derive(Debug, Clone)]
struct Hold {
    identity: Identity,
    client: usize,
    /// When it began to try for them.
    from: u64,
    /// When it was answered that they are no longer its own.
    until: Option<u64>,
    /// Whether it has them for certain: it was answered, and has not begun to give them up.
    certain: bool,
}

/// What all clients know.
struct Shared {
    clients: Rc<Clients>,
    schema: std::sync::Arc<Schema>,
    holds: RefCell<Vec<Hold>>,
    mine: RefCell<Vec<BTreeMap<ObjectId, Mine>>>,
    /// Who was refused which ID attributes, all or some of them, from when to when.
    refusals: RefCell<Vec<(Vec<Identity>, u64, u64)>>,
    findings: RefCell<Findings>,
    /// Whether nothing goes wrong.
    calm: bool,
    applied: Cell<usize>,
    records: Cell<usize>,
}

/// Plays a seed's objects and checks everything. `tracing`: whether the last events are kept.
pub fn play(seed: u64, weather: Weather, tracing: bool) -> Played {
    play_scenario(Scenario::of(seed, weather, Subject::Nodes), tracing)
}

/// The same, with stores that die with their servers.
pub fn play_windows(seed: u64, weather: Weather, tracing: bool) -> Played {
    let mut scenario = Scenario::of(seed, weather, Subject::Nodes);
    scenario.shape.windows = true;
    play_scenario(scenario, tracing)
}

fn play_scenario(mut scenario: Scenario, tracing: bool) -> Played {
    let seed = scenario.seed;
    scenario.clients = 1 + (seed % 4) as usize;
    let cluster = Cluster::new(seed ^ 0x6f62_6a65, scenario.shape, tracing);
    let mut played = Played::default();
    if let Err(why) = play_on(&scenario, &cluster, &mut played) {
        played.findings.push(why);
    }
    played.sum_up(&cluster);
    played
}

fn play_on(scenario: &Scenario, cluster: &Rc<Cluster>, played: &mut Played) -> Result<(), String> {
    let facade = started(cluster, scenario.seed)?;
    let node = cluster.node(0).ok_or("server 0 is not there")?;
    let schema = node.schema().map_err(|e| e.to_string())?;
    drop(node);
    let all = Rc::new(Shared {
        clients: Clients::new(cluster, Ground::new(1), scenario.taste),
        schema,
        holds: RefCell::default(),
        mine: RefCell::new(vec![BTreeMap::new(); scenario.clients]),
        refusals: RefCell::default(),
        findings: RefCell::default(),
        calm: scenario.weather == Weather::Calm,
        applied: Cell::new(0),
        records: Cell::new(0),
    });
    let mut rng = Rng::new(scenario.seed ^ 0x6f62_6a73);
    let busy = &all.clients.busy;
    busy.set(scenario.clients);
    through(
        scenario,
        (cluster, &facade),
        &mut rng,
        &|| busy.get(),
        &mut |rng| {
            for client in 0..scenario.clients {
                let life = Rc::clone(&all).live(client, Rng::new(rng.next()), scenario.calls);
                cluster.exec.spawn(WORLD, Box::pin(life));
            }
        },
    )?;
    played.records = all.records.get();
    played.applied = all.applied.get();
    all.refused_rightly();
    played.findings.append(&mut all.findings.borrow_mut());
    all.at_rest(cluster, &facade, played)
}

impl Shared {
    fn finding(&self, what: String) {
        self.clients.cluster.shared().note(|| what.clone());
        self.findings.borrow_mut().push(what);
    }

    fn now(&self) -> u64 {
        self.clients.cluster.shared().now()
    }

    /// One client's life.
    async fn live(self: Rc<Self>, client: usize, mut rng: Rng, calls: usize) {
        let mut life = Life {
            all: &self,
            client,
            seen: Version::ZERO,
            steps: 0,
            number: 0,
        };
        for _ in 0..calls {
            life.step(&mut rng).await;
            if rng.percent(50) {
                let pause = rng.below(self.clients.cluster.shape.leisure) as u64;
                self.clients.cluster.shared().sleep(pause).await;
            }
        }
        self.clients.busy.set(self.clients.busy.get() - 1);
    }

    /// Somebody has been answered that it has ID attributes: nobody else may have them for certain.
    fn got(&self, client: usize, identity: &Identity, from: u64) {
        let mut holds = self.holds.borrow_mut();
        let other = holds.iter().find(|h| h.certain && h.identity == *identity);
        let other = other.map(|h| h.client);
        holds.push(Hold {
            identity: identity.clone(),
            client,
            from,
            until: None,
            certain: true,
        });
        drop(holds);
        if let Some(other) = other {
            self.finding(format!(
                "client {client} got {identity}, which client {other} has"
            ));
        }
    }

    /// Somebody begins to give ID attributes up, or has not got rid of them.
    fn set_certain(&self, client: usize, identity: &Identity, certain: bool) {
        let mut holds = self.holds.borrow_mut();
        let mut own = holds.iter_mut().rev();
        let own = own.find(|h| h.client == client && h.identity == *identity && h.until.is_none());
        if let Some(hold) = own {
            hold.certain = certain;
        }
    }

    fn gave(&self, client: usize, identity: &Identity) {
        let now = self.now();
        let mut holds = self.holds.borrow_mut();
        let mut own = holds.iter_mut().rev();
        let own = own.find(|h| h.client == client && h.identity == *identity && h.until.is_none());
        if let Some(hold) = own {
            hold.until = Some(now);
            hold.certain = false;
        }
    }

    /// Whoever was refused ID attributes met somebody that had them meanwhile: checked at the end, when all is known.
    fn refused_rightly(&self) {
        for (identities, begin, end) in &*self.refusals.borrow() {
            let holds = self.holds.borrow();
            let met = holds.iter().any(|h| {
                identities.contains(&h.identity)
                    && h.from <= *end
                    && h.until.is_none_or(|until| until >= *begin)
            });
            drop(holds);
            if !met {
                self.finding(format!(
                    "{identities:?} were refused from {begin} to {end} us, and nobody had any of them"
                ));
            }
        }
    }

    /// What all servers and all engines say in the end.
    fn at_rest(
        &self,
        cluster: &Rc<Cluster>,
        facade: &Facade,
        played: &mut Played,
    ) -> Result<(), String> {
        let newest = (0..cluster.len()).filter_map(|at| cluster.newest(at)).max();
        facade.seen.set(newest.unwrap_or(Version::ZERO));
        let mut known = BTreeMap::new();
        for mine in self.mine.borrow().iter() {
            known.extend(mine.clone());
        }
        let findings = &mut played.findings;
        for at in 0..cluster.len() {
            let told = facade.ask_at(at, &Ask::Find(Find::all(Expr::All)));
            let Told::Found(found, report) = told.map_err(|e| format!("at rest: {e}"))? else {
                return Err("an answer to something else".into());
            };
            if !report.complete || !report.missing.is_empty() {
                findings.push(format!("server {at} finds some at rest: {report:?}"));
            }
            differences(&known, &found, &format!("server {at} at rest"), findings);
            for client in 0..self.mine.borrow().len() {
                let told = facade.ask_at(at, &Ask::Find(Find::all(of_client(client))));
                let Told::Found(found, _) = told.map_err(|e| format!("at rest: {e}"))? else {
                    return Err("an answer to something else".into());
                };
                let mine = &self.mine.borrow()[client];
                differences(mine, &found, &format!("client {client} at rest"), findings);
            }
        }
        let keys: Vec<ObjectKey> = known.values().map(|m| m.identity.clone().into()).collect();
        let told = facade
            .ask(&Ask::Objects(keys))
            .map_err(|e| format!("at rest: {e}"))?;
        let Told::Objects(found) = told else {
            return Err("an answer to something else".into());
        };
        let ids: Vec<Option<ObjectId>> = found.iter().map(|f| f.as_ref().map(|f| f.id)).collect();
        let expected: Vec<Option<ObjectId>> = known.keys().map(|id| Some(*id)).collect();
        if ids != expected {
            findings.push(format!(
                "by ID attributes at rest: {ids:?}, not {expected:?}"
            ));
        }
        let Some(map) = cluster.map() else {
            return Err("the cluster has no map".into());
        };
        for at in 0..cluster.len() {
            let Some(engine) = cluster.engine_of(at) else {
                continue;
            };
            let told = super::ask::ask_engine(&engine, Ask::Find(Find::all(Expr::All)));
            let Ok(Told::Found(found, _)) = told else {
                findings.push(format!("engine {at} at rest: {told:?}"));
                continue;
            };
            for object in found {
                if map
                    .home(object.id.vertex())
                    .is_some_and(|home| home.0 as usize != at)
                {
                    findings.push(format!("object {} is on server {at}", object.id));
                }
            }
        }
        Ok(())
    }
}

/// All of a client's.
fn of_client(client: usize) -> Expr {
    Expr::Term(Term {
        name: CLIENT.into(),
        test: Test::Compare(Comparison::Eq, Value::I64(client as i64)),
    })
}

/// What is not as it should be.
fn differences(
    known: &BTreeMap<ObjectId, Mine>,
    found: &[Found],
    whose: &str,
    findings: &mut Findings,
) {
    let mut ids = BTreeSet::new();
    for object in found {
        if !ids.insert(object.id) {
            findings.push(format!("{whose}: object {} twice", object.id));
        }
        match known.get(&object.id) {
            None => findings.push(format!("{whose}: {object:?}, which should not be there")),
            Some(mine) => {
                if object.identity().as_ref() != Some(&mine.identity) || object.tags != mine.tags {
                    findings.push(format!("{whose}: {object:?}, not {mine:?}"));
                }
            }
        }
    }
    for (id, mine) in known {
        if !ids.contains(id) {
            findings.push(format!("{whose}: no object {id}: {mine:?}"));
        }
    }
}
