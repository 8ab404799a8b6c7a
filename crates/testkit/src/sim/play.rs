//! A whole run from one seed: a cluster, its clients and its troubles, then rest, then all the checks.

use super::ask::{Ask, Told};
use super::chaos::{Dangers, trouble};
use super::check::batches::{Order, Tags, order};
use super::check::{Findings, questions, rows};
use super::client::{Clients, Record};
use super::cluster::{Cluster, Shape, Subject};
use super::copies;
use super::exec::WORLD;
use super::facade::Facade;
use super::liar::Lie;
use super::moving::Moves;
use super::net::{Faults, Times};
use super::workload::{Ground, Taste};
use crate::compare;
use crate::history::START_MILLIS;
use crate::rng::Rng;
use crate::world::{World, schema_changes};
use esker_cluster::Kind;
use esker_model::{EdgeSelect, Version, VersionRange, Versions};
use esker_store::Durability;
use std::cell::Cell;
use std::fmt::Write as _;
use std::rc::Rc;

/// Of the last events, so many are told.
const TOLD: usize = 300;
/// A virtual minute.
const MINUTE: u64 = 60_000_000;

/// How hard it gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weather {
    /// Several clients; nothing goes wrong.
    Calm,
    /// Messages are lost, late, repeated.
    Rain,
    /// Servers stand still and do not hear each other, too.
    Wind,
    /// Servers die and come back, too.
    Storm,
    /// All of them die and come back as another number of servers, too.
    Flood,
    /// As in a storm; and servers move between processes, as an etcd says, which stops now and then.
    Tide,
}

impl Weather {
    /// What may go wrong, if more than messages do.
    pub fn dangers(self) -> Option<Dangers> {
        let deaths = matches!(self, Self::Storm | Self::Flood | Self::Tide);
        (deaths || self == Self::Wind).then_some(Dangers {
            deaths,
            pauses: true,
            cuts: true,
            resizes: self == Self::Flood,
        })
    }
}

/// A run to be.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// Everything is drawn from it.
    pub seed: u64,
    /// What the cluster is like.
    pub shape: Shape,
    /// What the clients do.
    pub taste: Taste,
    /// How many there are.
    pub clients: usize,
    /// How often each calls.
    pub calls: usize,
    /// How many files there are.
    pub files: usize,
    /// How hard it gets.
    pub weather: Weather,
    /// What goes wrong with messages.
    pub faults: Faults,
}

impl Scenario {
    /// What a seed stands for.
    pub fn of(seed: u64, weather: Weather, subject: Subject) -> Self {
        let mut rng = Rng::new(seed ^ 0x7363_656e);
        let vnodes = *rng.pick(&[4, 8, 16, 64]);
        let servers = (2 + rng.below(7) as u32).min(vnodes);
        let delay_max = *rng.pick(&[100, 1000, 10_000]);
        // A question may make its server ask others, and those others: nobody is so impatient that it cannot succeed.
        let wait = delay_max * 30 + *rng.pick(&[50_000, 300_000, 2_000_000]);
        let shape = Shape {
            subject,
            lie: Lie::None,
            servers,
            vnodes,
            placement: *rng.pick(&[
                Kind::Dido,
                Kind::Dido,
                Kind::GigaPlus,
                Kind::EdgeCut,
                Kind::VertexCut,
            ]),
            threshold: 2 + rng.below(7) as u64,
            skew: *rng.pick(&[0, 5, 500]),
            times: Times {
                delay_min: 20,
                delay_max,
                wait,
            },
            patience: if weather == Weather::Calm {
                MINUTE
            } else {
                wait * (2 + rng.below(10) as u64)
            },
            engine: esker_engine::Settings {
                adjacency_bytes: *rng.pick(&[0, 1500, 1 << 20]),
                durability: Durability::Relaxed,
                pending_counters_max: *rng.pick(&[1, 20, 1 << 18]),
                group_commits: true,
                index_objects_least: 4,
                staged_bytes: *rng.pick(&[1, 3000, 1 << 20]),
                entries_bytes: *rng.pick(&[0, 1 << 16]),
                sorted_least: 1 << 13,
                promises: 0,
            },
            windows: false,
            share: None,
            leisure: 20_000,
            processes: 0,
            heedless: false,
        };
        let wet = weather != Weather::Calm;
        let mut often = |most: usize| if wet { rng.below(most) } else { 0 };
        let faults = Faults {
            lost_questions: often(30),
            lost_answers: often(30),
            repeated: often(50),
            late: often(30),
        };
        let scenario = Self {
            seed,
            shape,
            taste: Taste {
                dated: rng.percent(15),
                polite: rng.percent(85),
                changes_max: *rng.pick(&[3, 8, 20]),
                questions: *rng.pick(&[30, 50, 60]),
                future: subject == Subject::Nodes,
            },
            clients: 1 + rng.below(4),
            calls: 8 + rng.below(20),
            files: 3 + rng.below(8),
            weather,
            faults,
        };
        if weather == Weather::Tide {
            scenario.moving(&mut rng)
        } else {
            scenario
        }
    }

    /// The same, long enough for leases to end while clients are at work, and with some clients so patient that they hear what a process
    /// says that has stood still for longer than its lease.
    fn moving(self, rng: &mut Rng) -> Self {
        let (leisure, more) = *rng.pick(&[(1_500_000, 1), (300_000, 3), (100_000, 6)]);
        Self {
            calls: more * self.calls,
            shape: Shape {
                processes: 2 + rng.below(4),
                leisure,
                patience: *rng.pick(&[self.shape.patience, 5_000_000, 10_000_000]),
                ..self.shape
            },
            ..self
        }
    }

    /// Plays it and checks everything. `tracing`: whether the last events are kept.
    pub fn play(&self, tracing: bool) -> Played {
        let cluster = Cluster::new(self.seed, self.shape, tracing);
        let mut played = Played::default();
        if let Err(why) = self.play_on(&cluster, &mut played) {
            played.findings.push(why);
        }
        played.sum_up(&cluster);
        played
    }

    fn play_on(&self, cluster: &Rc<Cluster>, played: &mut Played) -> Result<(), String> {
        let facade = started(cluster, self.seed)?;
        let ground = Ground::new(self.files);
        let clients = Clients::new(cluster, ground, self.taste);
        let mut rng = Rng::new(self.seed ^ 0x0063_6c69);
        if !self.taste.dated {
            let begin = clients.begin(Rng::new(rng.next()));
            cluster
                .exec
                .block_on(begin, MINUTE)
                .map_err(|e| format!("the first batch is not answered: {e:?}"))?;
        }
        cluster.set_faults(self.faults);
        let stop = Rc::new(Cell::new(false));
        if let Some(dangers) = self.weather.dangers() {
            let trouble = trouble(
                Rc::clone(cluster),
                Rng::new(rng.next()),
                dangers,
                Rc::clone(&stop),
            );
            cluster.exec.spawn(WORLD, Box::pin(trouble));
        }
        if self.weather == Weather::Tide {
            let rng = Rng::new(rng.next());
            let copies = copies::make(Rc::clone(cluster), rng, Rc::clone(&stop));
            cluster.exec.spawn(WORLD, Box::pin(copies));
        }
        clients.busy.set(self.clients);
        for client in 0..self.clients {
            let which = (client, self.clients);
            let life = Rc::clone(&clients).live(which, Rng::new(rng.next()), self.calls);
            cluster.exec.spawn(WORLD, Box::pin(life));
        }
        // Trouble may last a minute; after that all must come right.
        let shared = cluster.shared();
        let working = async {
            while clients.busy.get() > 0 && shared.now() < 2 * MINUTE {
                shared.sleep(1000).await;
            }
        };
        let _ = cluster.exec.block_on(working, 3 * MINUTE);
        stop.set(true);
        shared.note(|| "the weather clears".into());
        let cleared = shared.now();
        cluster.net.join_all();
        cluster.set_faults(Faults::default());
        let mended = async {
            loop {
                if let Err(e) = cluster.start_all() {
                    cluster.complain(format!("a server cannot be opened again: {e}"));
                    return;
                }
                cluster.net.join_all();
                if cluster.all_joined() && clients.busy.get() == 0 {
                    return;
                }
                shared.sleep(10_000).await;
            }
        };
        if let Err(e) = cluster.exec.block_on(mended, 5 * MINUTE) {
            return Err(format!(
                "{} ms after the last trouble {} clients wait, all servers serve: {}, polls: {}",
                (e.at - cleared) / 1000,
                clients.busy.get(),
                cluster.all_joined(),
                cluster.exec.polls()
            ));
        }
        // Trouble that was under way may have ended with a death.
        facade.wait(10_000_000);
        cluster
            .start_all()
            .map_err(|e| format!("a server cannot be opened again: {e}"))?;
        cluster
            .exec
            .block_on(cluster.joined(), MINUTE)
            .map_err(|e| format!("servers do not join: {e:?}"))?;
        facade.wait(2 * MINUTE);
        let records = clients.records.borrow();
        played.records = records.len();
        self.judge(cluster, &clients, &records, &facade, played)
    }

    fn judge(
        &self,
        cluster: &Rc<Cluster>,
        clients: &Clients,
        records: &[Record],
        facade: &Facade,
        played: &mut Played,
    ) -> Result<(), String> {
        let seen = records.iter().filter_map(|r| r.told.as_ref().ok());
        let seen = seen.map(Told::newest).max().unwrap_or(Version::ZERO);
        facade.seen.set(seen);
        let schema = &clients.ground.world.schema;
        let tags = collect_tags(facade, &clients.ground)?;
        let findings = &mut played.findings;
        let calm = self.weather == Weather::Calm;
        let ordered = order(schema, records, &tags, &self.taste, calm, findings);
        played.applied = ordered.placed.len();
        if !findings.is_empty() {
            return Ok(());
        }
        if !self.taste.dated && self.taste.polite {
            questions::check(&ordered, records, findings);
        }
        if self.shape.subject == Subject::Nodes {
            rows::check(cluster, facade, schema, findings);
        }
        if !self.taste.polite {
            return Ok(());
        }
        let world = &clients.ground.world;
        let found =
            at_rest(clients, &ordered, facade, self.seed).map_err(|why| format!("at rest: {why}"));
        // What is dated by whoever writes it may come after a copy and be before it.
        let found = match found {
            Ok(()) if !self.taste.dated => copies::check(cluster, &ordered.model, world, self.seed),
            found => found,
        };
        findings.extend(found.err());
        Ok(())
    }
}

/// Starts all servers, and defines the types that clients use.
pub fn started(cluster: &Rc<Cluster>, seed: u64) -> Result<Facade, String> {
    cluster.start_all().map_err(|e| format!("starting: {e}"))?;
    cluster
        .exec
        .block_on(cluster.joined(), MINUTE)
        .map_err(|e| format!("servers do not join: {e:?}"))?;
    let facade = Facade::new(cluster, seed ^ 0x6661_6361);
    facade
        .ask(&Ask::Define(schema_changes()))
        .map_err(|e| format!("defining types: {e}"))?;
    Ok(facade)
}

/// Finds all tags.
pub fn collect_tags(facade: &Facade, ground: &Ground) -> Result<Tags, String> {
    let mut tags = Tags::default();
    let ids = ground.tagged();
    let select = EdgeSelect {
        types: ground.run.into_iter().collect(),
        versions: Versions::Range(VersionRange::ALL),
        properties: true,
    };
    let scan = Ask::Scan(ids.clone(), select, usize::MAX);
    match facade.ask(&scan).map_err(|e| format!("tags: {e}"))? {
        Told::Scanned(found) => tags.edges(&found),
        other => return Err(format!("tags: {other:?}")),
    }
    for id in ids {
        let history = Ask::VertexHistory(id, VersionRange::ALL);
        match facade.ask(&history).map_err(|e| format!("tags: {e}"))? {
            Told::VertexHistory(events) => tags.vertex(&events),
            other => return Err(format!("tags: {other:?}")),
        }
    }
    Ok(tags)
}

/// What is left, against the model.
fn at_rest(clients: &Clients, ordered: &Order, facade: &Facade, seed: u64) -> compare::Compared {
    let mut rng = Rng::new(seed ^ 0x7265_7374);
    let (model, world) = (&ordered.model, &clients.ground.world);
    compare::as_of(facade, model, world, Version::MAX)?;
    compare::counters(facade, model, world, &mut rng)?;
    if rng.percent(15) {
        compare::compare(facade, model, world, &mut rng)?;
    }
    Ok(())
}

/// What came of it.
#[derive(Debug, Default, Clone)]
pub struct Played {
    /// What is wrong.
    pub findings: Findings,
    /// Calls that were answered.
    pub records: usize,
    /// Batches applied.
    pub applied: usize,
    /// Promises that were made.
    pub promises: usize,
    /// Partitions of directories that were read as tables.
    pub tables: u64,
    /// How often a task went on.
    pub polls: u64,
    /// Messages between servers.
    pub messages: u64,
    /// How servers moved.
    pub moves: Moves,
    /// Copies that were made.
    pub copies: usize,
    /// The same for the same run.
    pub digest: u64,
    /// The last events.
    pub trace: Vec<String>,
}

impl Played {
    /// Takes over what a cluster can tell of a run that is over.
    pub fn sum_up(&mut self, cluster: &Cluster) {
        self.findings.extend(cluster.complaints());
        self.polls = cluster.exec.polls();
        self.messages = cluster.net.sent();
        self.copies = cluster.net.copies().made();
        let moving = cluster.moving.as_ref();
        self.moves = moving.map(|moving| moving.moves()).unwrap_or_default();
        self.digest = cluster.exec.digest();
        self.trace = cluster.shared().trace();
    }
}

/// Plays a scenario; if something is wrong, plays it again with a trace and tells it all.
///
/// # Panics
/// If something is wrong.
pub fn play_or_explain(scenario: &Scenario) -> Played {
    let world = Ground::new(scenario.files).world;
    explain(&format!("{scenario:?}"), &world, TOLD, &|tracing| {
        scenario.play(tracing)
    })
}

/// Plays something; if something is wrong, plays it again with a trace and tells it all, with so many of the last events.
///
/// # Panics
/// If something is wrong.
pub fn explain(what: &str, world: &World, events: usize, play: &dyn Fn(bool) -> Played) -> Played {
    let run = |tracing| {
        let played = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| play(tracing)));
        played.unwrap_or_else(|panic| Played {
            findings: vec![format!(
                "a panic: {:?}",
                panic
                    .downcast_ref::<String>()
                    .cloned()
                    .or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()))
            )],
            ..Played::default()
        })
    };
    let played = run(false);
    if played.findings.is_empty() {
        return played;
    }
    let again = run(true);
    let same = played.digest == again.digest;
    let short = |lines: &[String], most: usize| -> String {
        let cut = |line: &String| -> String {
            let line = readable(world, line);
            line.chars().take(most).collect()
        };
        lines.iter().map(cut).collect::<Vec<_>>().join("\n")
    };
    let last = again.trace.len().saturating_sub(events);
    panic!(
        "{what}\n{} findings (the same again: {same}):\n{}\nThe last events:\n{}",
        played.findings.len(),
        short(&played.findings, 60000),
        short(again.trace.get(last..).unwrap_or_default(), 700),
    );
}

/// Names for ids and types, milliseconds since the beginning for versions.
fn readable(world: &World, text: &str) -> String {
    let mut text = text.to_owned();
    for (name, vertex) in &world.vertices {
        let name = name.to_string();
        text = text.replace(&format!("{vertex:?}"), &name);
        text = text.replace(&format!("{:?}", vertex.id), &name);
    }
    for (t, edge_type) in world.schema.edge_types() {
        text = text.replace(&format!("{t:?}"), &edge_type.name);
    }
    let mut parts = text.split("Version(");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (digits, rest) = part.split_once(')').unwrap_or((part, ""));
        match digits.parse().map(Version) {
            Ok(Version::MAX) => out.push_str("@now"),
            Ok(v) => {
                let millis = v.millis() as i64 - START_MILLIS as i64;
                // Writing to a string does not fail.
                let _ = write!(out, "@{millis}~{}", v.logical());
            }
            Err(_) => {
                let _ = write!(out, "Version({digits})");
            }
        }
        out.push_str(rest);
    }
    out.replace("Mutation { version: None, op: ", "{")
        .replace("Properties(", "(")
        .replace("EdgeKey { source: ", "{")
}
