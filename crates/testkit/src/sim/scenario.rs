//! A complete run from one seed: a cluster, its clients and faults, then recovery, then all checks.

use super::blocking_client::BlockingClient;
use super::chaos::{FaultKinds, inject_faults};
use super::check::batches::{Order, Tags, order};
use super::check::{Findings, responses, rows};
use super::client::{Clients, Record};
use super::cluster::{Cluster, Shape, Subject};
use super::copies;
use super::exec::OUTSIDE;
use super::faulty_engine::EngineFault;
use super::moving::MoveStats;
use super::net::{Faults, Times};
use super::request::{ClientRequest, ClientResponse};
use super::workload::{WorkloadGraph, WorkloadParams};
use crate::compare;
use crate::history::START_MILLIS;
use crate::rng::Rng;
use crate::test_graph::{TestGraph, schema_changes};
use esker_cluster::Kind;
use esker_cluster::node::PAGE_ROWS;
use esker_model::{EdgeSelect, Version, VersionRange, Versions};
use esker_store::Durability;
use std::cell::Cell;
use std::fmt::Write as _;
use std::rc::Rc;

/// Number of the last events that are reported.
const EVENTS_REPORTED: usize = 300;
/// One minute of simulated time, in microseconds.
const MINUTE: u64 = 60_000_000;

/// Level of faults; each includes the previous ones, except as noted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultLevel {
    /// Several clients without faults.
    Faultless,
    /// Messages are lost, late or repeated.
    Messages,
    /// Servers pause and are cut off from each other, too.
    Pauses,
    /// Servers crash and restart, too.
    Crashes,
    /// All servers crash and restart as another number of servers, too.
    Resizes,
    /// Like `Crashes`; and servers move between processes, assigned by an etcd that stops occasionally.
    Moves,
}

impl FaultLevel {
    /// Returns the kinds of faults beyond those of messages, if any.
    pub fn fault_kinds(self) -> Option<FaultKinds> {
        let crashes = matches!(self, Self::Crashes | Self::Resizes | Self::Moves);
        (crashes || self == Self::Pauses).then_some(FaultKinds {
            crashes,
            pauses: true,
            partitions: true,
            resizes: self == Self::Resizes,
        })
    }
}

/// Parameters of a run.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// Seed from which everything follows.
    pub seed: u64,
    /// Parameters of the cluster.
    pub shape: Shape,
    /// Parameters of the workload.
    pub params: WorkloadParams,
    /// Number of concurrent clients.
    pub clients: usize,
    /// Number of calls of each client.
    pub calls: usize,
    /// Number of file vertices.
    pub files: usize,
    /// Level of faults to inject.
    pub level: FaultLevel,
    /// Probabilities of message faults.
    pub faults: Faults,
}

impl Scenario {
    /// Draws the parameters from a seed.
    pub fn of(seed: u64, level: FaultLevel, subject: Subject) -> Self {
        let mut rng = Rng::new(seed ^ 0x7363_656e);
        let vnodes = *rng.pick(&[4, 8, 16, 64]);
        let servers = (2 + rng.number_below(7) as u32).min(vnodes);
        let delay_max = *rng.pick(&[100, 1000, 10_000]);
        // A request may make its server call others, and those others: no timeout is so short that a call cannot succeed.
        let wait = delay_max * 30 + *rng.pick(&[50_000, 300_000, 2_000_000]);
        let shape = Shape {
            subject,
            fault: EngineFault::None,
            servers,
            vnodes,
            placement: *rng.pick(&[
                Kind::Dido,
                Kind::Dido,
                Kind::GigaPlus,
                Kind::EdgeCut,
                Kind::VertexCut,
            ]),
            threshold: 2 + rng.number_below(7) as u64,
            page_rows: *Rng::new(seed ^ 0x7061_6765).pick(&[1, 3, 20, PAGE_ROWS]),
            skew: *rng.pick(&[0, 5, 500]),
            times: Times {
                delay_min: 20,
                delay_max,
                wait,
            },
            timeout: if level == FaultLevel::Faultless {
                MINUTE
            } else {
                wait * (2 + rng.number_below(10) as u64)
            },
            engine: esker_engine::Settings {
                adjacency_bytes: *rng.pick(&[0, 1500, 1 << 20]),
                durability: Durability::Relaxed,
                pending_counters_max: *rng.pick(&[1, 20, 1 << 18]),
                group_commits: true,
                index_objects_least: 4,
                memtable_bytes: *rng.pick(&[1, 3000, 1 << 20]),
                row_cache_bytes: *rng.pick(&[0, 1 << 16]),
                bulk_load_rows_min: 1 << 13,
                lease_millis: 0,
            },
            windows: false,
            share: None,
            pause_max: 20_000,
            processes: 0,
            unfenced: false,
        };
        let wet = level != FaultLevel::Faultless;
        let mut often = |most: usize| if wet { rng.number_below(most) } else { 0 };
        let faults = Faults {
            lost_requests: often(30),
            lost_responses: often(30),
            repeated: often(50),
            late: often(30),
        };
        let scenario = Self {
            seed,
            shape,
            params: WorkloadParams {
                dated: rng.percent(15),
                conflict_free: rng.percent(85),
                changes_max: *rng.pick(&[3, 8, 20]),
                reads_percent: *rng.pick(&[30, 50, 60]),
                future: subject == Subject::Nodes,
            },
            clients: 1 + rng.number_below(4),
            calls: 8 + rng.number_below(20),
            files: 3 + rng.number_below(8),
            level,
            faults,
        };
        if level == FaultLevel::Moves {
            scenario.moving(&mut rng)
        } else {
            scenario
        }
    }

    /// Lengthens a run so that leases end while clients work, and makes some clients so patient that they hear from a
    /// process that was paused beyond its lease.
    fn moving(self, rng: &mut Rng) -> Self {
        let (pause_max, more) = *rng.pick(&[(1_500_000, 1), (300_000, 3), (100_000, 6)]);
        Self {
            calls: more * self.calls,
            shape: Shape {
                processes: 2 + rng.number_below(4),
                pause_max,
                timeout: *rng.pick(&[self.shape.timeout, 5_000_000, 10_000_000]),
                ..self.shape
            },
            ..self
        }
    }

    /// Runs the scenario with all checks. With `tracing` the last events are kept.
    pub fn run(&self, tracing: bool) -> RunReport {
        let cluster = Cluster::new(self.seed, self.shape, tracing);
        let mut report = RunReport::default();
        if let Err(why) = self.run_on(&cluster, &mut report) {
            report.findings.push(why);
        }
        report.collect(&cluster);
        report
    }

    fn run_on(&self, cluster: &Rc<Cluster>, report: &mut RunReport) -> Result<(), String> {
        let client_view = started(cluster, self.seed)?;
        let graph = WorkloadGraph::new(self.files);
        let clients = Clients::new(cluster, graph, self.params);
        let mut rng = Rng::new(self.seed ^ 0x0063_6c69);
        if !self.params.dated {
            let begin = clients.begin(Rng::new(rng.next()));
            cluster
                .exec
                .block_on(begin, MINUTE)
                .map_err(|e| format!("the first batch is not answered: {e:?}"))?;
        }
        cluster.set_faults(self.faults);
        let stop = Rc::new(Cell::new(false));
        if let Some(kinds) = self.level.fault_kinds() {
            let inject_faults = inject_faults(
                Rc::clone(cluster),
                Rng::new(rng.next()),
                kinds,
                Rc::clone(&stop),
            );
            cluster.exec.spawn(OUTSIDE, Box::pin(inject_faults));
        }
        if self.level == FaultLevel::Moves {
            let rng = Rng::new(rng.next());
            let copies = copies::make(Rc::clone(cluster), rng, Rc::clone(&stop));
            cluster.exec.spawn(OUTSIDE, Box::pin(copies));
        }
        clients.busy.set(self.clients);
        for client in 0..self.clients {
            let which = (client, self.clients);
            let life = Rc::clone(&clients).run_client(which, Rng::new(rng.next()), self.calls);
            cluster.exec.spawn(OUTSIDE, Box::pin(life));
        }
        // Faults may last a minute; after that the cluster must recover.
        let shared = cluster.shared();
        let working = async {
            while clients.busy.get() > 0 && shared.now() < 2 * MINUTE {
                shared.sleep(1000).await;
            }
        };
        let _ = cluster.exec.block_on(working, 3 * MINUTE);
        stop.set(true);
        shared.note(|| "no more faults".into());
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
                "{} ms after the last fault, {} clients wait, all servers serve: {}, polls: {}",
                (e.at - cleared) / 1000,
                clients.busy.get(),
                cluster.all_joined(),
                cluster.exec.polls()
            ));
        }
        // Faults in progress may have ended with a crash.
        client_view.wait(10_000_000);
        cluster
            .start_all()
            .map_err(|e| format!("a server cannot be opened again: {e}"))?;
        cluster
            .exec
            .block_on(cluster.joined(), MINUTE)
            .map_err(|e| format!("servers do not join: {e:?}"))?;
        client_view.wait(2 * MINUTE);
        let records = clients.records.borrow();
        report.records = records.len();
        self.run_checks(cluster, &clients, &records, &client_view, report)
    }

    fn run_checks(
        &self,
        cluster: &Rc<Cluster>,
        clients: &Clients,
        records: &[Record],
        client_view: &BlockingClient,
        report: &mut RunReport,
    ) -> Result<(), String> {
        let seen = records.iter().filter_map(|r| r.response.as_ref().ok());
        let seen = seen
            .map(ClientResponse::newest)
            .max()
            .unwrap_or(Version::ZERO);
        client_view.seen.set(seen);
        let schema = &clients.graph.graph.schema;
        let tags = collect_tags(client_view, &clients.graph)?;
        let findings = &mut report.findings;
        let faultless = self.level == FaultLevel::Faultless;
        let ordered = order(schema, records, &tags, &self.params, faultless, findings);
        report.applied = ordered.applied.len();
        if !findings.is_empty() {
            return Ok(());
        }
        if !self.params.dated && self.params.conflict_free {
            responses::check(&ordered, records, findings);
        }
        if self.shape.subject == Subject::Nodes {
            rows::check(cluster, client_view, schema, findings);
        }
        if !self.params.conflict_free {
            return Ok(());
        }
        let graph = &clients.graph.graph;
        let found = check_final_state(clients, &ordered, client_view, self.seed)
            .map_err(|why| format!("at rest: {why}"));
        // A change dated by its client may come after a copy and be before it.
        let found = match found {
            Ok(()) if !self.params.dated => {
                copies::check(cluster, &ordered.model, graph, self.seed)
            }
            found => found,
        };
        findings.extend(found.err());
        Ok(())
    }
}

/// Starts all servers, and defines the types that clients use.
pub fn started(cluster: &Rc<Cluster>, seed: u64) -> Result<BlockingClient, String> {
    cluster.start_all().map_err(|e| format!("starting: {e}"))?;
    cluster
        .exec
        .block_on(cluster.joined(), MINUTE)
        .map_err(|e| format!("servers do not join: {e:?}"))?;
    let client_view = BlockingClient::new(cluster, seed ^ 0x6661_6361);
    client_view
        .call(&ClientRequest::Define(schema_changes()))
        .map_err(|e| format!("defining types: {e}"))?;
    Ok(client_view)
}

/// Finds the tags of all batches.
pub fn collect_tags(client_view: &BlockingClient, graph: &WorkloadGraph) -> Result<Tags, String> {
    let mut tags = Tags::default();
    let ids = graph.tagged();
    let select = EdgeSelect {
        types: graph.run.into_iter().collect(),
        versions: Versions::Range(VersionRange::ALL),
        properties: true,
        after: None,
    };
    let scan = ClientRequest::Scan(ids.clone(), select, usize::MAX);
    match client_view.call(&scan).map_err(|e| format!("tags: {e}"))? {
        ClientResponse::Scanned(found) => tags.edges(&found),
        other => return Err(format!("tags: {other:?}")),
    }
    for id in ids {
        let history = ClientRequest::VertexHistory(id, VersionRange::ALL);
        match client_view
            .call(&history)
            .map_err(|e| format!("tags: {e}"))?
        {
            ClientResponse::VertexHistory(events) => tags.vertex(&events),
            other => return Err(format!("tags: {other:?}")),
        }
    }
    Ok(tags)
}

/// Compares the final state with the model.
fn check_final_state(
    clients: &Clients,
    ordered: &Order,
    client_view: &BlockingClient,
    seed: u64,
) -> compare::Compared {
    let mut rng = Rng::new(seed ^ 0x7265_7374);
    let (model, graph) = (&ordered.model, &clients.graph.graph);
    compare::as_of(client_view, model, graph, Version::MAX)?;
    compare::counters(client_view, model, graph, &mut rng)?;
    if rng.percent(15) {
        compare::compare(client_view, model, graph, &mut rng)?;
    }
    Ok(())
}

/// Result of a run.
#[derive(Debug, Default, Clone)]
pub struct RunReport {
    /// Descriptions of errors that were found.
    pub findings: Findings,
    /// Number of answered calls.
    pub records: usize,
    /// Number of applied batches.
    pub applied: usize,
    /// Number of responses that were compared with those of one engine.
    pub compared: usize,
    /// Number of leases granted.
    pub leases: usize,
    /// Number of directory partitions read as tables.
    pub tables: u64,
    /// Number of polls of tasks.
    pub polls: u64,
    /// Number of messages between servers.
    pub messages: u64,
    /// Statistics of moving servers.
    pub moves: MoveStats,
    /// Number of complete copies.
    pub copies: usize,
    /// Hash of all events: equal in equal runs.
    pub digest: u64,
    /// The last events of the trace.
    pub trace: Vec<String>,
}

impl RunReport {
    /// Adds the statistics of a cluster whose run is over.
    pub fn collect(&mut self, cluster: &Cluster) {
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

/// Runs a scenario; if a check fails, runs it again with a trace and reports everything.
///
/// # Panics
/// If a check fails.
pub fn run_or_explain(scenario: &Scenario) -> RunReport {
    let graph = WorkloadGraph::new(scenario.files).graph;
    explain(
        &format!("{scenario:?}"),
        &graph,
        EVENTS_REPORTED,
        &|tracing| scenario.run(tracing),
    )
}

/// Runs a simulation; if a check fails, runs it again with a trace and reports everything, with up to `events` of the
/// last events.
///
/// # Panics
/// If a check fails.
pub fn explain(
    what: &str,
    graph: &TestGraph,
    events: usize,
    play: &dyn Fn(bool) -> RunReport,
) -> RunReport {
    let run = |tracing| {
        let report = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| play(tracing)));
        report.unwrap_or_else(|panic| RunReport {
            findings: vec![format!(
                "a panic: {:?}",
                panic
                    .downcast_ref::<String>()
                    .cloned()
                    .or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()))
            )],
            ..RunReport::default()
        })
    };
    let report = run(false);
    if report.findings.is_empty() {
        return report;
    }
    let again = run(true);
    let same = report.digest == again.digest;
    let short = |lines: &[String], most: usize| -> String {
        let cut = |line: &String| -> String {
            let line = readable(graph, line);
            line.chars().take(most).collect()
        };
        lines.iter().map(cut).collect::<Vec<_>>().join("\n")
    };
    let last = again.trace.len().saturating_sub(events);
    panic!(
        "{what}\n{} findings (the same again: {same}):\n{}\nThe last events:\n{}",
        report.findings.len(),
        short(&report.findings, 60000),
        short(again.trace.get(last..).unwrap_or_default(), 700),
    );
}

/// Replaces ids and types by names, and versions by milliseconds since the beginning.
fn readable(graph: &TestGraph, text: &str) -> String {
    let mut text = text.to_owned();
    for (name, vertex) in &graph.vertices {
        let name = name.to_string();
        text = text.replace(&format!("{vertex:?}"), &name);
        text = text.replace(&format!("{:?}", vertex.id), &name);
    }
    for (t, edge_type) in graph.schema.edge_types() {
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
