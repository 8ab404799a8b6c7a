//! The two sides of a comparison, with their keys and values.
//!
//! An edge is two rows, itself and its inverse, with one value: `[00][version 8][properties]`, as documented in
//! `esker_model::record`. Esker builds them from mutations; the key-value store gets them ready-made.

use super::random::Random;
use super::source::{Graph, VERTEX_TYPE, vertex_key};
use super::timed::Bench;
use esker::raw::{Raw, StoreSettings};
use esker::{Database, Durability};
use esker_model::key::{EDGE_KEY_BYTES, EdgeKey, vertex};
use esker_model::record::{EdgeRecord, UserAttribute, VertexRecord};
use esker_model::schema::AttributeDefinition;
use esker_model::{
    Batch, EdgeTypeId, GraphRead as _, GraphWrite as _, Mutation, NeverCancel, Op, Properties,
    Schema, SchemaChange, Value, ValueKind, Version, VertexRef, VertexTypeId,
};
use esker_terminal::args::EngineArg;
use esker_terminal::context::Context;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

pub(crate) const EDGE_TYPE: &str = "links";
const INVERSE: &str = "isLinkedBy";
/// Versions start in 2023, one millisecond apart per batch: earlier than the clock.
const FIRST_MILLIS: u64 = 1_700_000_000_000;
/// Edges converted at once.
const CHUNK: usize = 1 << 19;

/// Type numbers and sizes for building rows of numbered vertices and edges.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) node: VertexTypeId,
    pub(crate) links: EdgeTypeId,
    inverse: EdgeTypeId,
    property_bytes: usize,
    batch: usize,
}

/// Rows of edges: two keys for each value.
#[derive(Default)]
pub(crate) struct EdgeRows {
    /// Keys, each with the index of its value.
    keys: Vec<([u8; EDGE_KEY_BYTES], usize)>,
    values: Vec<Vec<u8>>,
}

impl EdgeRows {
    /// The rows in the order of their keys.
    pub(crate) fn sorted(mut self) -> Self {
        self.keys.sort_unstable();
        self
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let rows = self.keys.iter();
        rows.map(|(key, value)| (key.as_slice(), self.values[*value].as_slice()))
    }
}

impl Shape {
    fn of(schema: &Schema, bench: &Bench<'_>) -> anyhow::Result<Self> {
        let links = schema.edge_type_id(EDGE_TYPE)?;
        Ok(Self {
            node: schema.vertex_type_id(VERTEX_TYPE)?,
            links,
            inverse: schema.inverse(links),
            property_bytes: bench.args.property_bytes as usize,
            batch: bench.args.batch as usize,
        })
    }

    pub(crate) fn vertex(&self, graph: &Graph, number: u32) -> VertexRef {
        VertexRef {
            id: graph.ids[number as usize],
            type_id: self.node,
        }
    }

    /// Returns the version of the batch that an edge belongs to.
    fn version(&self, edge: usize) -> Version {
        Version::new(FIRST_MILLIS + (edge / self.batch) as u64, 0)
    }

    fn properties(&self, edge: usize) -> Properties {
        if self.property_bytes == 0 {
            return Properties::new();
        }
        let mut bytes = vec![0; self.property_bytes];
        Random::new(edge as u64).fill(&mut bytes);
        Properties::new().with("payload", Value::Bytes(bytes))
    }

    fn edge(&self, graph: &Graph, edge: usize) -> Mutation {
        let (source, destination) = graph.edges[edge];
        Mutation {
            version: Some(self.version(edge)),
            op: Op::PutEdge {
                source: self.vertex(graph, source),
                edge_type: self.links,
                destination: self.vertex(graph, destination),
                properties: self.properties(edge),
            },
        }
    }

    /// Returns all edges of a graph, for a bulk load.
    pub(crate) fn edges<'g>(
        &'g self,
        graph: &'g Graph,
        bench: &'g Bench<'_>,
    ) -> impl Iterator<Item = esker_model::Result<Mutation>> + 'g {
        (0..graph.edges.len()).map(move |i| {
            if i % 4096 == 0 && bench.context.interrupt.stopped().is_some() {
                return Err(esker_model::Error::Interrupted);
            }
            Ok(self.edge(graph, i))
        })
    }

    /// Returns edges as a batch of mutations.
    pub(crate) fn batch(&self, graph: &Graph, edges: Range<usize>) -> Batch {
        Batch {
            mutations: edges.map(|i| self.edge(graph, i)).collect(),
            idempotency_key: None,
        }
    }

    /// Returns edges as rows of the key-value store.
    pub(crate) fn rows(&self, graph: &Graph, edges: Range<usize>) -> EdgeRows {
        let mut rows = EdgeRows::default();
        for i in edges {
            let (source, destination) = graph.edges[i];
            let key = EdgeKey {
                source: graph.ids[source as usize],
                edge_type: self.links,
                destination: graph.ids[destination as usize],
            };
            let both = [key.encode(), key.reversed(self.inverse).encode()];
            let value = rows.values.len();
            rows.keys.extend(both.map(|key| (key, value)));
            let mut value = Vec::with_capacity(self.property_bytes + 32);
            EdgeRecord {
                deleted: false,
                version: self.version(i),
                properties: self.properties(i),
            }
            .encode(&mut value);
            rows.values.push(value);
        }
        rows
    }

    fn attributes(number: u32) -> (Properties, Properties) {
        let fixed = Properties::new()
            .with("label", format!("node number {number}"))
            .with("weight", f64::from(number));
        let user = Properties::new()
            .with("checked", number.is_multiple_of(2))
            .with("note", format!("about {number}"));
        (fixed, user)
    }

    /// Returns a vertex's row as Esker writes it.
    fn vertex_row(&self, number: u32) -> Vec<u8> {
        let version = self.version(0);
        let (attributes, user) = Self::attributes(number);
        let record = VertexRecord {
            deleted: false,
            mentioned: false,
            first: version,
            latest: version,
            static_version: version,
            type_id: self.node,
            key: vertex_key(number),
            attributes,
            user: user
                .into_iter()
                .map(|(name, value)| UserAttribute {
                    name,
                    version,
                    value,
                })
                .collect(),
        };
        let mut row = Vec::new();
        record.encode(&mut row);
        row
    }
}

/// Creates a database with the types of the benchmark.
pub(crate) fn create(bench: &Bench<'_>, path: &Path) -> anyhow::Result<(Database, Shape)> {
    let options = bench
        .context
        .open_options()
        .engine(bench.args.engine.into());
    let database = Database::init(&path.to_string_lossy(), &options)?;
    let shape = define(bench, &database)?;
    Ok((database, shape))
}

/// Defines the types of the benchmark in a new database.
pub(crate) fn define(bench: &Bench<'_>, database: &Database) -> anyhow::Result<Shape> {
    let schema = database.define(&types())?;
    Shape::of(&schema, bench)
}

/// One vertex type and one edge type.
pub(crate) fn types() -> [SchemaChange; 2] {
    let attribute = |name: &str, kind| AttributeDefinition {
        name: name.to_owned(),
        kind,
    };
    [
        SchemaChange::VertexType {
            name: VERTEX_TYPE.to_owned(),
            parent: None,
            attributes: vec![
                attribute("label", ValueKind::String),
                attribute("weight", ValueKind::F64),
            ],
        },
        SchemaChange::EdgeType {
            name: EDGE_TYPE.to_owned(),
            inverse: INVERSE.to_owned(),
            source: VERTEX_TYPE.to_owned(),
            destination: VERTEX_TYPE.to_owned(),
        },
    ]
}

/// Opens an existing database.
pub(crate) fn reopen(bench: &Bench<'_>, path: &Path) -> anyhow::Result<(Database, Shape)> {
    let database = bench.context.open_options().open(&path.to_string_lossy())?;
    let shape = Shape::of(&*database.schema()?, bench)?;
    Ok((database, shape))
}

/// The key-value store with the periodic sync that a database's host does.
pub(crate) struct Bare {
    raw: Arc<Raw>,
    /// The sync thread ends when this is dropped.
    stop: Option<Sender<()>>,
    syncing: Option<JoinHandle<()>>,
}

/// Default interval of syncs with relaxed durability.
const SYNC_INTERVAL: Duration = Duration::from_millis(100);

impl std::ops::Deref for Bare {
    type Target = Raw;

    fn deref(&self) -> &Raw {
        &self.raw
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.syncing.take() {
            // The panic was printed; the measurements remain valid.
            let _ = thread.join();
        }
    }
}

/// Opens the key-value store with a database's settings for the same memory, and its sync interval.
pub(crate) fn bare(bench: &Bench<'_>, path: &Path) -> anyhow::Result<Bare> {
    bare_at(bench.context, bench.args.engine, path)
}

/// Opens the key-value store at a path, for a benchmark without a graph.
pub(crate) fn bare_at(context: &Context, engine: EngineArg, path: &Path) -> anyhow::Result<Bare> {
    let memory_bytes = esker::raw::store_memory(context.globals.memory);
    let settings = StoreSettings {
        memory_bytes,
        ..StoreSettings::default()
    };
    let raw = Arc::new(Raw::open(engine.into(), path, &settings)?);
    let (stop, stopped) = mpsc::channel();
    let syncing = (context.durability() == Durability::Relaxed).then(|| {
        let raw = Arc::clone(&raw);
        std::thread::spawn(move || {
            while stopped.recv_timeout(SYNC_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                // The next write would fail too and report the error.
                let _ = raw.persist();
            }
        })
    });
    Ok(Bare {
        raw,
        stop: Some(stop),
        syncing,
    })
}

/// The durability of commits, for both sides.
pub(crate) fn durability(bench: &Bench<'_>) -> Durability {
    bench.context.durability()
}

/// Inserts the vertices with two predefined and two user-defined attributes.
pub(crate) fn put_vertices(
    bench: &Bench<'_>,
    database: &Database,
    shape: &Shape,
    graph: &Graph,
) -> anyhow::Result<()> {
    let numbers: Vec<u32> = (0..graph.ids.len() as u32).collect();
    let version = shape.version(0);
    for chunk in numbers.chunks(4096) {
        bench.check_interrupt()?;
        let mut batch = Batch::new();
        for number in chunk {
            let vertex = shape.vertex(graph, *number);
            let (attributes, set) = Shape::attributes(*number);
            batch.push_at(
                version,
                Op::PutVertex {
                    vertex,
                    key: vertex_key(*number),
                    attributes,
                },
            );
            batch.push_at(
                version,
                Op::SetAttributes {
                    vertex,
                    set,
                    remove: Vec::new(),
                },
            );
        }
        database.apply(batch)?;
    }
    Ok(())
}

/// Bulk-loads the graph into a database, and compacts it.
pub(crate) fn load(
    bench: &Bench<'_>,
    database: &Database,
    shape: &Shape,
    graph: &Graph,
) -> anyhow::Result<()> {
    bench.say(&format!(
        "loading {} edges",
        esker_terminal::units::count(graph.edges.len() as u64)
    ));
    put_vertices(bench, database, shape, graph)?;
    let mut edges = shape.edges(graph, bench);
    database.bulk_load(&mut edges, &mut |_| {})?;
    database.compact(None, &NeverCancel)?;
    Ok(())
}

/// Bulk-loads the same rows into the key-value store, and compacts it.
pub(crate) fn load_bare(
    bench: &Bench<'_>,
    raw: &Raw,
    shape: &Shape,
    graph: &Graph,
) -> anyhow::Result<()> {
    let mut vertices: Vec<_> = (0..graph.ids.len() as u32).collect();
    vertices.sort_unstable_by_key(|n| graph.ids[*n as usize]);
    let rows: Vec<_> = vertices
        .into_iter()
        .map(|n| (vertex(graph.ids[n as usize]), shape.vertex_row(n)))
        .collect();
    raw.load(rows.iter().map(|(k, v)| (k.as_slice(), v.as_slice())))?;
    load_bare_edges(bench, raw, shape, graph, &mut |load| load())?;
    raw.compact()?;
    Ok(())
}

/// Loads the rows of all edges, some hundred thousand at a time. `timed` receives the measured work: sorting and loading,
/// without building the rows.
pub(crate) fn load_bare_edges(
    bench: &Bench<'_>,
    raw: &Raw,
    shape: &Shape,
    graph: &Graph,
    timed: &mut dyn FnMut(&mut dyn FnMut() -> esker_model::Result<()>) -> esker_model::Result<()>,
) -> anyhow::Result<()> {
    for start in (0..graph.edges.len()).step_by(CHUNK) {
        bench.check_interrupt()?;
        let rows = shape.rows(graph, start..(start + CHUNK).min(graph.edges.len()));
        timed(&mut || {
            let mut sorted: Vec<_> = rows.rows().collect();
            sorted.sort_unstable();
            raw.load(sorted.iter().copied())
        })?;
    }
    Ok(())
}
