//! A graph in a map: all recorded events, with reads that scan all of them.

use esker_model::traversal::{Budget, TravelResult, Traversal};
use esker_model::{
    Cancel, Counts, Degree, DiffSelect, Difference, Edge, EdgeEvent, EdgeKey, EdgeSelect,
    EdgeTypeId, Flow, GraphRead, Properties, Result, Schema, SchemaChange, Value, Version,
    VersionRange, Versions, Vertex, VertexEvent, VertexId, VertexName, VertexSelect, VertexTypeId,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Events in version order; `None` is a deletion.
type History = BTreeMap<Version, Option<Properties>>;

pub(super) struct Recorded {
    schema: Schema,
    names: BTreeMap<VertexId, (VertexTypeId, String)>,
    vertices: BTreeMap<VertexId, History>,
    edges: BTreeMap<EdgeKey, History>,
    /// Number of calls of `scan_edges`.
    pub(super) scans: AtomicU64,
}

/// The version at that many seconds.
pub(super) fn at(seconds: u64) -> Version {
    Version::new(seconds * 1000, 0)
}

/// Properties of an event with a start and an end, in seconds.
pub(super) fn lasting(start: u64, end: u64) -> Properties {
    let nanos = |s: u64| Value::Timestamp(s as i64 * 1_000_000_000);
    Properties::new()
        .with("start", nanos(start))
        .with("end", nanos(end))
}

impl Recorded {
    pub(super) fn new() -> Self {
        Self {
            schema: Schema::default(),
            names: BTreeMap::new(),
            vertices: BTreeMap::new(),
            edges: BTreeMap::new(),
            scans: AtomicU64::new(0),
        }
    }

    pub(super) fn define(&mut self, change: &SchemaChange) {
        self.schema.apply(change).unwrap();
    }

    pub(super) fn id(&self, name: &str) -> VertexId {
        VertexName::parse(name)
            .unwrap()
            .resolve(&self.schema)
            .unwrap()
            .id
    }

    /// Inserts a vertex, or a new version of it.
    pub(super) fn put(&mut self, name: &str, version: Version, attributes: Properties) -> VertexId {
        let parsed = VertexName::parse(name).unwrap();
        let vertex = parsed.resolve(&self.schema).unwrap();
        self.names.insert(vertex.id, (vertex.type_id, parsed.key));
        self.vertices
            .entry(vertex.id)
            .or_default()
            .insert(version, Some(attributes));
        vertex.id
    }

    pub(super) fn delete(&mut self, name: &str, version: Version) {
        let id = self.id(name);
        self.vertices.entry(id).or_default().insert(version, None);
    }

    /// Inserts an edge and its inverse, and missing end vertices.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "every caller makes them for this call"
    )]
    pub(super) fn link(
        &mut self,
        source: &str,
        edge: &str,
        destination: &str,
        version: Version,
        properties: Properties,
    ) {
        let ends = [source, destination].map(|name| {
            let id = self.id(name);
            let known = self.vertices.get(&id).and_then(|h| h.keys().next());
            if known.is_none_or(|first| *first > version) {
                self.put(name, version, Properties::new());
            }
            id
        });
        self.record(ends, edge, version, Some(&properties));
    }

    pub(super) fn unlink(&mut self, source: &str, edge: &str, destination: &str, version: Version) {
        let ends = [self.id(source), self.id(destination)];
        self.record(ends, edge, version, None);
    }

    fn record(
        &mut self,
        [source, destination]: [VertexId; 2],
        edge: &str,
        version: Version,
        properties: Option<&Properties>,
    ) {
        let edge_type = self.schema.edge_type_id(edge).unwrap();
        let key = EdgeKey {
            source,
            edge_type,
            destination,
        };
        let inverse = key.reversed(self.schema.inverse(edge_type));
        for key in [key, inverse] {
            self.edges
                .entry(key)
                .or_default()
                .insert(version, properties.cloned());
        }
    }

    /// Records a typical job: an execution that reads some files and then writes some, a second apart.
    pub(super) fn job(&mut self, name: &str, reads: &[&str], writes: &[&str], seconds: u64) {
        for file in reads {
            self.link(name, "read", file, at(seconds), Properties::new());
        }
        for file in writes {
            self.link(name, "write", file, at(seconds + 1), Properties::new());
        }
    }
}

fn value_as_of(history: &History, as_of: Version) -> Option<(Version, Option<&Properties>)> {
    history
        .range(..=as_of)
        .next_back()
        .map(|(v, p)| (*v, p.as_ref()))
}

impl GraphRead for Recorded {
    fn schema(&self) -> Result<Arc<Schema>> {
        Ok(Arc::new(self.schema.clone()))
    }

    fn read_vertices(&self, ids: &[VertexId], as_of: Version) -> Result<Vec<Option<Vertex>>> {
        let read = |id: &VertexId| {
            let (version, attributes) = value_as_of(self.vertices.get(id)?, as_of)?;
            let (type_id, key) = self.names.get(id)?.clone();
            Some(Vertex {
                id: *id,
                type_id,
                key,
                version,
                deleted: attributes.is_none(),
                attributes: attributes.cloned().unwrap_or_default(),
                user: Vec::new(),
            })
        };
        Ok(ids.iter().map(read).collect())
    }

    fn read_edges(&self, keys: &[EdgeKey], as_of: Version) -> Result<Vec<Option<Edge>>> {
        let read = |key: &EdgeKey| {
            let (version, properties) = value_as_of(self.edges.get(key)?, as_of)?;
            Some(Edge {
                key: *key,
                version,
                deleted: false,
                properties: properties?.clone(),
            })
        };
        Ok(keys.iter().map(read).collect())
    }

    fn scan_edges(
        &self,
        frontier: &[VertexId],
        select: &EdgeSelect,
        sink: &mut dyn FnMut(usize, Edge) -> Flow,
    ) -> Result<()> {
        self.scans.fetch_add(1, Ordering::Relaxed);
        for (i, source) in frontier.iter().enumerate() {
            let from = EdgeKey {
                source: *source,
                edge_type: EdgeTypeId(0),
                destination: VertexId::default(),
            };
            let of_source = self
                .edges
                .range(from..)
                .take_while(|(k, _)| k.source == *source);
            for (key, history) in of_source {
                if !select.types.is_empty() && !select.types.contains(&key.edge_type) {
                    continue;
                }
                let edge = |version: &Version, properties: Option<&Properties>| Edge {
                    key: *key,
                    version: *version,
                    deleted: properties.is_none(),
                    properties: properties.cloned().unwrap_or_default(),
                };
                let edges: Vec<Edge> = match select.versions {
                    Versions::AsOf(as_of) => value_as_of(history, as_of)
                        .filter(|(_, p)| p.is_some())
                        .map(|(v, p)| edge(&v, p))
                        .into_iter()
                        .collect(),
                    Versions::Range(range) => history
                        .iter()
                        .rev()
                        .filter(|(v, _)| range.contains(**v))
                        .map(|(v, p)| edge(v, p.as_ref()))
                        .collect(),
                };
                for edge in edges {
                    if sink(i, edge).is_break() {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    fn edge_history(&self, key: EdgeKey, range: VersionRange) -> Result<Vec<EdgeEvent>> {
        let history = self.edges.get(&key).into_iter().flatten().rev();
        Ok(history
            .filter(|(v, _)| range.contains(**v))
            .map(|(version, p)| EdgeEvent {
                edge: Edge {
                    key,
                    version: *version,
                    deleted: p.is_none(),
                    properties: p.clone().unwrap_or_default(),
                },
                archived: false,
            })
            .collect())
    }

    fn scan_vertices(&self, _: &VertexSelect, _: &mut dyn FnMut(Vertex) -> Flow) -> Result<()> {
        unreachable!("lineage asks for no such thing")
    }

    fn vertex_history(&self, _: VertexId, _: VersionRange) -> Result<Vec<VertexEvent>> {
        unreachable!("lineage asks for no such thing")
    }

    fn degrees(&self, _: &[(VertexId, EdgeTypeId)]) -> Result<Vec<u64>> {
        unreachable!("lineage asks for no such thing")
    }

    fn top_degrees(&self, _: Option<EdgeTypeId>, _: usize) -> Result<Vec<Degree>> {
        unreachable!("lineage asks for no such thing")
    }

    fn counts(&self) -> Result<Counts> {
        unreachable!("lineage asks for no such thing")
    }

    fn diff(&self, _: &DiffSelect, _: &mut dyn FnMut(Difference) -> Flow) -> Result<()> {
        unreachable!("lineage asks for no such thing")
    }

    fn travel(&self, _: &Traversal, _: &Budget, _: &dyn Cancel) -> Result<TravelResult> {
        unreachable!("lineage asks for no such thing")
    }

    fn applied(&self, _: &[u8]) -> Result<bool> {
        unreachable!("lineage asks for no such thing")
    }
}
