//! Clients: threads with a connection each, distributed over the servers; their inserts, and the times.

use super::ClusterBench;
use super::servers::Servers;
use crate::comparison;
use crate::machine;
use crate::random::Random;
use crate::report::median;
use crate::source::{Graph, VERTEX_TYPE, vertex_id, vertex_key};
use esker::Database;
use esker_model::namespace::{Change, Namespace as _};
use esker_model::{
    Batch, EdgeTypeId, GraphRead as _, GraphWrite as _, Op, Properties, Value, VertexId, VertexRef,
    VertexTypeId,
};
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Time limit for background work that inserts leave to the servers, which is measured too.
const SETTLE_MAX: Duration = Duration::from_secs(5);
const SETTLE_INTERVAL: Duration = Duration::from_millis(250);
/// Edges per batch of an unmeasured load.
const LOAD_BATCH: usize = 1000;
/// Number of threads of an unmeasured load.
const LOADERS: usize = 8;

/// Opens connections, distributed over the servers in turn.
pub(super) fn connect(
    bench: &ClusterBench<'_>,
    servers: &Servers,
    clients: u32,
) -> anyhow::Result<Vec<Database>> {
    connect_with(bench, servers, clients, "")
}

/// Opens connections with options in their addresses.
pub(super) fn connect_with(
    bench: &ClusterBench<'_>,
    servers: &Servers,
    clients: u32,
    how: &str,
) -> anyhow::Result<Vec<Database>> {
    let targets = servers.targets();
    let options = bench.context.open_options();
    let each = targets.iter().cycle().take(clients as usize);
    Ok(each
        .map(|target| options.open(&format!("{target}{how}")))
        .collect::<Result<_, _>>()?)
}

/// The schema types of the benchmark, with builders of mutations.
#[derive(Debug, Clone, Copy)]
pub(super) struct Types {
    pub(super) node: VertexTypeId,
    pub(super) links: EdgeTypeId,
    property_bytes: usize,
}

impl Types {
    /// Defines the types in a new cluster.
    pub(super) fn define(bench: &ClusterBench<'_>, database: &Database) -> anyhow::Result<Self> {
        let schema = database.define(&comparison::types())?;
        Ok(Self {
            node: schema.vertex_type_id(VERTEX_TYPE)?,
            links: schema.edge_type_id(comparison::EDGE_TYPE)?,
            property_bytes: bench.shared.property_bytes as usize,
        })
    }

    pub(super) fn reference(&self, id: VertexId) -> VertexRef {
        VertexRef {
            id,
            type_id: self.node,
        }
    }

    /// Returns an edge between numbered vertices, with incompressible properties.
    pub(super) fn edge(&self, source: VertexId, destination: VertexId) -> Op {
        let mut properties = Properties::new();
        if self.property_bytes > 0 {
            let mut bytes = vec![0; self.property_bytes];
            let seed = destination
                .0
                .iter()
                .take(8)
                .fold(0, |n, b| n << 8 | u64::from(*b));
            Random::new(seed).fill(&mut bytes);
            properties = properties.with("payload", Value::Bytes(bytes));
        }
        Op::PutEdge {
            source: self.reference(source),
            edge_type: self.links,
            destination: self.reference(destination),
            properties,
        }
    }

    /// Returns a vertex with attributes.
    pub(super) fn vertex(&self, key: String, number: u32) -> Op {
        let label = format!("node {number} {}", "x".repeat(self.property_bytes));
        Op::PutVertex {
            vertex: self.reference(VertexId::of(VERTEX_TYPE, &key)),
            key,
            attributes: Properties::new()
                .with("label", label)
                .with("weight", f64::from(number)),
        }
    }
}

/// The results of a measured insert.
#[derive(Debug, Clone, Copy)]
pub(super) struct InsertResult {
    /// Number of edges, or of other items that are counted.
    pub(super) count: f64,
    /// Seconds from the common start of all clients to the end of the last one.
    pub(super) wall: f64,
    /// Processor time of the clients, with building the inserts.
    pub(super) client_cpu: f64,
    /// Processor time of the servers, with background work afterwards.
    pub(super) server_cpu: f64,
    /// Average number of cores kept busy by the benchmark until the last client ended.
    pub(super) busy: f64,
    /// Average number of cores kept busy by other programs in that time.
    pub(super) others: f64,
    /// Number of requests between servers.
    pub(super) peer_calls: f64,
    /// Median latency in microseconds.
    pub(super) p50: f64,
    /// 99th percentile of the latency in microseconds.
    pub(super) p99: f64,
}

impl InsertResult {
    pub(super) fn rate(&self) -> f64 {
        self.count / self.wall
    }

    /// Processor time per item in microseconds, all processes together.
    pub(super) fn cpu_micros(&self) -> f64 {
        (self.client_cpu + self.server_cpu) * 1e6 / self.count
    }

    /// Requests between servers per item.
    pub(super) fn peer_calls_each(&self) -> f64 {
        self.peer_calls / self.count
    }

    pub(super) fn server_micros(&self) -> f64 {
        self.server_cpu * 1e6 / self.count
    }
}

/// Returns the median of several rounds.
pub(super) fn middle(rounds: &[InsertResult], of: impl Fn(&InsertResult) -> f64) -> f64 {
    median(rounds.iter().map(of).collect())
}

/// The content of one client call.
pub(super) enum ClientCall {
    /// A batch of graph mutations.
    Batch(Batch),
    /// Changes of the namespace.
    Files(Vec<Change>),
}

impl From<Batch> for ClientCall {
    fn from(batch: Batch) -> Self {
        Self::Batch(batch)
    }
}

impl From<Vec<Change>> for ClientCall {
    fn from(changes: Vec<Change>) -> Self {
        Self::Files(changes)
    }
}

impl ClientCall {
    fn apply(self, database: &Database) -> esker_model::Result<()> {
        match self {
            Self::Batch(batch) => database.apply(batch).map(drop),
            Self::Files(changes) => database
                .change(None, &changes)?
                .into_iter()
                .try_for_each(|done| done.map(drop)),
        }
    }
}

/// The inserts of each client; each batch is built just before it is sent.
pub(super) struct Work<'w, T = Batch> {
    /// Returns the number of batches of a client.
    pub(super) batches: &'w (dyn Fn(usize) -> usize + Sync),
    /// Builds a client's batch with this number.
    pub(super) make: &'w (dyn Fn(usize, usize) -> T + Sync),
    /// Total number of items.
    pub(super) count: u64,
}

/// Runs all clients concurrently, each with one batch in flight.
pub(super) fn insert<T: Into<ClientCall>>(
    bench: &ClusterBench<'_>,
    servers: &mut Servers,
    clients: &[Database],
    work: &Work<'_, T>,
) -> anyhow::Result<InsertResult> {
    let barrier = Barrier::new(clients.len() + 1);
    let interrupt = &bench.context.interrupt;
    let one = |client: usize, database: &Database| -> esker_model::Result<Vec<u32>> {
        let batches = (work.batches)(client);
        let mut latencies = Vec::with_capacity(batches);
        barrier.wait();
        for number in 0..batches {
            if interrupt.stopped().is_some() {
                return Err(esker_model::Error::Interrupted);
            }
            let sent: ClientCall = (work.make)(client, number).into();
            let began = Instant::now();
            sent.apply(database)?;
            latencies.push(u32::try_from(began.elapsed().as_micros()).unwrap_or(u32::MAX));
        }
        Ok(latencies)
    };
    let calls_before = servers.peer_calls()?;
    let (before, result, after) = std::thread::scope(|scope| {
        let one = &one;
        let threads: Vec<_> = clients
            .iter()
            .enumerate()
            .map(|(client, database)| scope.spawn(move || one(client, database)))
            .collect();
        barrier.wait();
        let before = Clock::now(servers);
        let result: Vec<_> = threads
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect();
        (before, result, Clock::now(servers))
    });
    servers.all_alive()?;
    let mut latencies = Vec::new();
    for result in result {
        latencies.extend(result?);
    }
    latencies.sort_unstable();
    let at = |part: f64| {
        let index = (latencies.len() as f64 * part) as usize;
        f64::from(latencies.get(index).copied().unwrap_or(0))
    };
    let server_cpu = wait_for_idle(servers) - before.servers;
    let wall = (after.at - before.at).as_secs_f64();
    let ours = after.own - before.own + after.servers - before.servers;
    Ok(InsertResult {
        count: work.count as f64,
        wall,
        client_cpu: after.own - before.own,
        server_cpu,
        busy: ours / wall,
        others: ((after.machine - before.machine - ours) / wall).max(0.0),
        peer_calls: servers.peer_calls()? - calls_before,
        p50: at(0.5),
        p99: at(0.99),
    })
}

/// Clock readings at one time, in seconds.
struct Clock {
    at: Instant,
    own: f64,
    servers: f64,
    machine: f64,
}

impl Clock {
    fn now(servers: &Servers) -> Self {
        Self {
            at: Instant::now(),
            own: machine::process_seconds(),
            servers: servers.cpu_seconds(),
            machine: machine::busy_seconds(),
        }
    }
}

/// Returns the servers' processor time once they are nearly idle: splits continue after the inserts that caused them.
fn wait_for_idle(servers: &Servers) -> f64 {
    let until = Instant::now() + SETTLE_MAX;
    let mut last = servers.cpu_seconds();
    loop {
        std::thread::sleep(SETTLE_INTERVAL);
        let now = servers.cpu_seconds();
        // A tenth of a core, for the servers' periodic work.
        let idle = now - last <= SETTLE_INTERVAL.as_secs_f64() / 10.0;
        if idle || Instant::now() >= until {
            return now;
        }
        last = now;
    }
}

/// Returns an error unless the cluster has exactly this number of edges.
pub(super) fn check_edge_count(
    database: &Database,
    types: &Types,
    edges: u64,
) -> anyhow::Result<()> {
    let counts = database.counts()?;
    let counted = counts.edges.iter().find(|(t, _)| *t == types.links);
    let counted = counted.map_or(0, |(_, n)| *n);
    anyhow::ensure!(
        counted == edges,
        "the cluster counts {counted} edges after {edges} different ones were inserted"
    );
    Ok(())
}

/// Loads a graph with all its vertices, without measuring.
pub(super) fn load(
    bench: &ClusterBench<'_>,
    servers: &mut Servers,
    graph: &Graph,
) -> anyhow::Result<Types> {
    let clients = connect(bench, servers, LOADERS as u32)?;
    let Some(first) = clients.first() else {
        anyhow::bail!("there are no servers");
    };
    let types = Types::define(bench, first)?;
    let parts = |all: usize| move |client: usize| dealt(all.div_ceil(LOAD_BATCH), LOADERS, client);
    let range = |client: usize, number: usize, all: usize| {
        let start = (number * LOADERS + client) * LOAD_BATCH;
        start..(start + LOAD_BATCH).min(all)
    };
    let (vertices, edges) = (graph.ids.len(), graph.edges.len());
    let make = |client: usize, number: usize| {
        let mut batch = Batch::new();
        for n in range(client, number, vertices) {
            batch.push(types.vertex(vertex_key(n as u32), n as u32));
        }
        batch
    };
    let work = Work {
        batches: &parts(vertices),
        make: &make,
        count: vertices as u64,
    };
    insert(bench, servers, &clients, &work)?;
    let make = |client: usize, number: usize| {
        let mut batch = Batch::new();
        for (source, destination) in &graph.edges[range(client, number, edges)] {
            batch.push(types.edge(vertex_id(*source), vertex_id(*destination)));
        }
        batch
    };
    let work = Work {
        batches: &parts(edges),
        make: &make,
        count: edges as u64,
    };
    insert(bench, servers, &clients, &work)?;
    check_edge_count(first, &types, edges as u64)?;
    Ok(types)
}

/// Returns the share of the client with this number of `all` items dealt out in turn.
pub(super) fn dealt(all: usize, clients: usize, client: usize) -> usize {
    all / clients + usize::from(client < all % clients)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_dealt_out() {
        for (all, clients) in [(10, 3), (0, 4), (3, 8), (8, 8)] {
            let sum: usize = (0..clients).map(|c| dealt(all, clients, c)).sum();
            assert_eq!(sum, all);
        }
        assert_eq!([0, 1, 2].map(|c| dealt(10, 3, c)), [4, 3, 3]);
    }
}
