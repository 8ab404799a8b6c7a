//! One graph in an embedded database and in clusters of several sizes: traversals of all must give one result, that of
//! the model.

use super::blocking_client::BlockingClient;
use super::cluster::{Cluster, Shape, Subject};
use super::faulty_engine::EngineFault;
use super::net::Times;
use super::request::ClientRequest;
use super::scenario::{FaultLevel, Scenario, started};
use crate::compare::{self, Compared};
use crate::history::{START_MILLIS, traversal};
use crate::model::GraphModel;
use crate::reads::Reads as _;
use crate::rng::Rng;
use crate::test_graph::{NAMES, TestGraph};
use esker_cluster::Kind;
use esker_cluster::node::PAGE_ROWS;
use esker_model::traversal::{Budget, StopReason, Strategy, TravelResult};
use esker_model::{Batch, ErrorKind, Mutation, Op, Properties, Traversal, Version};
use esker_store::Durability;

/// Numbers of servers of the clusters.
const SERVERS: [u32; 3] = [1, 2, 5];
/// One minute of simulated time, in microseconds.
const MINUTE: u64 = 60_000_000;

/// Counts of compared traversals.
#[derive(Debug, Clone, Copy, Default)]
pub struct TravelCounts {
    /// Number of random chains that were compared.
    pub chains: usize,
    /// Number of traversals whose result was compared.
    pub traversals: usize,
    /// Number of chains that a limit or a bound on steps stopped.
    pub stopped: usize,
    /// Number of chains that returned whole paths.
    pub paths: usize,
    /// Number of chains whose last working set was not empty.
    pub reached: usize,
    /// Number of traversals that a budget of edges or bytes stopped.
    pub cut: usize,
}

impl TravelCounts {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: Self) {
        self.chains += other.chains;
        self.traversals += other.traversals;
        self.stopped += other.stopped;
        self.paths += other.paths;
        self.reached += other.reached;
        self.cut += other.cut;
    }
}

/// A database under test, with its name in messages.
struct Subjected {
    name: String,
    client: BlockingClient,
    /// Whether it is one engine, which ignores strategies.
    embedded: bool,
}

/// Kills a server and starts a traversal through another one, which cannot finish it. Returns the milliseconds until it was refused.
///
/// # Errors
/// The cluster did not start, or the traversal had a result.
pub fn wait_without_server(seed: u64) -> Result<u64, String> {
    let shape = Shape {
        servers: 2,
        // Requests to the dead server fail soon, so the pauses are nearly all of the time.
        times: Times {
            wait: 10_000,
            ..Times::default()
        },
        ..Scenario::of(seed, FaultLevel::Faultless, Subject::Nodes).shape
    };
    let cluster = Cluster::new(seed, shape, false);
    let client = started(&cluster, seed)?;
    cluster.kill(1);
    let chain = "v(\"job:1\").rtn()";
    let chain = Traversal::parse_at(chain, 0).map_err(|e| e.render(chain))?;
    let began = client.now();
    match client.call_at(0, &ClientRequest::Travel(chain, Budget::default())) {
        Err(e) if e.kind() == ErrorKind::Unavailable => Ok((client.now() - began) / 1_000),
        other => Err(format!("without server 1: {other:?}")),
    }
}

/// Compares random chains over a random graph.
///
/// # Errors
/// What differs, and where.
pub fn run(seed: u64, chains: usize) -> Result<TravelCounts, String> {
    let mut rng = Rng::new(seed ^ 0x7472_6176);
    let graph = random_graph(&mut rng);
    let subjects = subjects(seed, &mut rng)?;
    let model = write(&graph, &subjects, &mut rng)?;
    let mut counts = TravelCounts::default();
    for number in 0..chains {
        let chain = traversal(&graph, &mut rng);
        compare_chain(&graph, &model, &subjects, &chain, &mut rng, &mut counts).map_err(|why| {
            graph.readable(&format!("seed {seed}, chain {number}: {chain}\n{why}"))
        })?;
    }
    Ok(counts)
}

fn random_graph(rng: &mut Rng) -> TestGraph {
    let mut names: Vec<String> = NAMES.iter().map(|&name| name.to_owned()).collect();
    names.extend((0..rng.number_below(20)).map(|n| format!("file:more{n}")));
    names.extend((0..rng.number_below(5)).map(|n| format!("job:more{n}")));
    TestGraph::of(&names)
}

/// Starts an embedded database and clusters.
fn subjects(seed: u64, rng: &mut Rng) -> Result<Vec<Subjected>, String> {
    let engine = esker_engine::Settings {
        adjacency_bytes: *rng.pick(&[0, 1500, 1 << 20]),
        durability: Durability::Relaxed,
        pending_counters_max: 1 << 18,
        group_commits: true,
        index_objects_least: 4,
        memtable_bytes: *rng.pick(&[1, 3000, 1 << 20]),
        row_cache_bytes: 0,
        bulk_load_rows_min: 1 << 13,
        lease_millis: 0,
    };
    let mut shape = Shape {
        subject: Subject::OneEngine,
        fault: EngineFault::None,
        servers: 1,
        vnodes: *rng.pick(&[8, 16, 64]),
        placement: *rng.pick(&[Kind::Dido, Kind::GigaPlus, Kind::EdgeCut, Kind::VertexCut]),
        threshold: 2 + rng.number_below(7) as u64,
        skew: 0,
        times: Times {
            delay_min: 20,
            delay_max: 100,
            wait: MINUTE / 4,
        },
        timeout: MINUTE,
        engine,
        windows: false,
        share: None,
        pause_max: 20_000,
        page_rows: *rng.pick(&[1, 3, 20, PAGE_ROWS]),
        processes: 0,
        unfenced: false,
    };
    let start = |name: String, shape: Shape| {
        let cluster = Cluster::new(seed, shape, false);
        let client = started(&cluster, seed).map_err(|why| format!("{name}: {why}"))?;
        // All versions of the changes are in the past.
        client.wait(10_000_000);
        let embedded = shape.subject == Subject::OneEngine;
        Ok::<_, String>(Subjected {
            name,
            client,
            embedded,
        })
    };
    let mut subjects = vec![start("embedded".into(), shape)?];
    shape.subject = Subject::Nodes;
    for servers in SERVERS {
        shape.servers = servers;
        let name = format!("{servers} servers, {:?}", shape.placement);
        subjects.push(start(name, shape)?);
    }
    Ok(subjects)
}

/// Writes the same random changes to all databases and to the model. Each change has a version of its own, so that the
/// databases are equal.
fn write(graph: &TestGraph, subjects: &[Subjected], rng: &mut Rng) -> Result<GraphModel, String> {
    let mut model = GraphModel::new(graph.schema.clone());
    let mut number = 0;
    let mut dated = |op: Op| {
        number += 1;
        let version = Version::new(START_MILLIS + number / 4, (number % 4) as u16);
        Mutation {
            version: Some(version),
            op,
        }
    };
    let mut batches = vec![Batch::new()];
    for (name, vertex) in &graph.vertices {
        // An edge to a vertex that is inserted later leads to it in a traversal of an earlier time: no single answer.
        batches[0].mutations.push(dated(Op::EnsureVertex {
            vertex: *vertex,
            key: name.key.clone(),
        }));
    }
    for _ in 0..4 + rng.number_below(30) {
        let mut batch = Batch::new();
        for _ in 0..=rng.number_below(8) {
            batch.mutations.push(dated(random_op(graph, rng)));
        }
        batches.push(batch);
    }
    for batch in batches {
        let expected = model.apply(&batch, Version::ZERO).is_ok();
        for subject in subjects {
            let response = subject.client.call(&ClientRequest::Apply(batch.clone()));
            if response.is_ok() != expected {
                return Err(format!(
                    "{}: the model applies it: {expected}; {response:?} to {batch:?}",
                    subject.name
                ));
            }
        }
    }
    Ok(model)
}

fn random_op(graph: &TestGraph, rng: &mut Rng) -> Op {
    let (name, vertex) = graph.vertex(rng);
    let (source, edge_type, destination) = graph.edge(rng);
    match rng.number_below(100) {
        0..4 => Op::DeleteVertex { vertex },
        4..12 => Op::EnsureVertex {
            vertex,
            key: name.key,
        },
        12..20 => Op::SetAttributes {
            vertex,
            set: Properties::new().with("tag", rng.number_below(3) as i64),
            remove: Vec::new(),
        },
        20..28 => Op::DeleteEdge {
            source,
            edge_type,
            destination,
        },
        _ => Op::PutEdge {
            source,
            edge_type,
            destination,
            properties: Properties::new().with("bytes", rng.number_below(3) as i64),
        },
    }
}

fn compare_chain(
    graph: &TestGraph,
    model: &GraphModel,
    subjects: &[Subjected],
    chain: &Traversal,
    rng: &mut Rng,
    counts: &mut TravelCounts,
) -> Compared {
    let budget = Budget {
        steps: rng.percent(15).then(|| rng.number_below(5) as u32),
        ..Budget::default()
    };
    let answer = model
        .travel_steps(chain, budget.steps)
        .ok_or("the model refuses it")?;
    let tight = Budget {
        edges: rng.percent(50).then(|| rng.number_below(30) as u64),
        bytes: rng.percent(50).then(|| rng.number_below(800) as u64),
        ..budget
    };
    let mut first: Option<(String, TravelResult)> = None;
    let mut first_cut: Option<(String, TravelResult)> = None;
    for subject in subjects {
        for strategy in Strategy::ALL {
            let budget = Budget { strategy, ..budget };
            let name = format!("{}, {}, {budget:?}", subject.name, strategy.name());
            let result = subject.client.travel(chain, &budget);
            let result = result.map_err(|e| format!("{name}: {e}"))?;
            counts.traversals += 1;
            compare::travelled(&result, &answer, chain).map_err(|why| format!("{name}: {why}"))?;
            if result.stopped != answer.stopped {
                let (found, expected) = (&result.stopped, &answer.stopped);
                return Err(format!("{name}: stops {found:?}, expected {expected:?}"));
            }
            check_as_of(graph, &result, chain).map_err(|why| format!("{name}: {why}"))?;
            compare_results(&mut first, &name, result)?;
            if subject.embedded {
                break;
            }
        }
        let name = format!("{}, {tight:?}", subject.name);
        let result = subject.client.travel(chain, &tight);
        let result = result.map_err(|e| format!("{name}: {e}"))?;
        counts.traversals += 1;
        compare::travelled(&result, &answer, chain).map_err(|why| format!("{name}: {why}"))?;
        counts.cut += usize::from(is_cut(&result));
        compare_cut(&mut first_cut, &name, result)?;
    }
    counts.chains += 1;
    counts.stopped += usize::from(!answer.stopped.is_empty());
    counts.paths += usize::from(chain.return_paths);
    let last = answer.sets.last().map_or(0, |(_, set)| set.len());
    counts.reached += usize::from(last > 0);
    Ok(())
}

/// The version of the result is the one that the chain demands; for the present, one that sees all changes.
fn check_as_of(graph: &TestGraph, result: &TravelResult, chain: &Traversal) -> Compared {
    let newest = Version::new(START_MILLIS + 2 + graph.vertices.len() as u64 / 4, 0);
    let ended = |until: Version| until <= newest;
    let right = match (chain.as_of, chain.versions) {
        (_, Some(range)) if ended(range.until) => result.as_of.next() == range.until,
        (_, Some(range)) => result.as_of < range.until,
        (Some(as_of), None) => result.as_of == as_of,
        (None, None) => result.as_of >= newest && result.as_of < Version::MAX,
    };
    if right {
        return Ok(());
    }
    Err(format!("it is as of {:?}", result.as_of))
}

/// Compares what must be equal in all databases: sets and paths in their order, and stops.
fn compare_results(
    first: &mut Option<(String, TravelResult)>,
    name: &str,
    result: TravelResult,
) -> Compared {
    let Some((other, expected)) = first else {
        *first = Some((name.to_owned(), result));
        return Ok(());
    };
    if result.sets == expected.sets && result.paths == expected.paths {
        return Ok(());
    }
    Err(format!(
        "{name}:\n{:?}\n{:?}\n{other}:\n{:?}\n{:?}",
        result.sets, result.paths, expected.sets, expected.paths
    ))
}

fn is_cut(result: &TravelResult) -> bool {
    let by_budget = |reason| matches!(reason, StopReason::Edges | StopReason::Bytes);
    result.stopped.iter().any(|stop| by_budget(stop.reason))
}

/// A budget stops a traversal in all databases or in none, in the same step.
fn compare_cut(
    first: &mut Option<(String, TravelResult)>,
    name: &str,
    result: TravelResult,
) -> Compared {
    let Some((other, expected)) = first else {
        *first = Some((name.to_owned(), result));
        return Ok(());
    };
    let stops = |result: &TravelResult| {
        let stops = result.stopped.iter();
        stops.map(|s| (s.reason, s.step)).collect::<Vec<_>>()
    };
    let (found, wanted) = (stops(&result), stops(expected));
    if found == wanted {
        return Ok(());
    }
    Err(format!("{name} stops at {found:?}, {other} at {wanted:?}"))
}
