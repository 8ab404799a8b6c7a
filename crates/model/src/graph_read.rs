//! The API traits for graphs, and reads of a graph as data. The embedded database and all remote clients implement the
//! traits, so that code above cannot tell which one it uses. Calls are batched: one call takes a whole frontier and can be
//! one round trip. The socket of a folder's owner and the connection to a server carry the same calls:
//!
//! ```text
//!  caller   GraphRead of any kind           one that retries: GraphAttempts
//!           RemoteGraph                     method  -> GraphCall; items -> result
//!           GraphTransport                  bytes there and back
//!  answerer GraphCall::answer               GraphCall -> method of a GraphRead; result -> items
//! ```
//!
//! A new read is a method of [`GraphRead`], for whose other parts here the compiler asks: a variant of [`GraphCall`], its code
//! and name, an arm of [`GraphCall::answer`], a method of [`RemoteGraph`], and one of the implementation by attempts.

#![deny(clippy::indexing_slicing)]

use crate::codec::{DecodeError, Reader};
use crate::namespace::Entry;
use crate::object::Principal;
use crate::resume::{EdgesResume, VerticesResume};
use crate::traversal::{Budget, TravelResult};
use crate::wire::{self, TravelAssembly, Wire};
use crate::{
    Batch, Cancel, Commit, Counts, Degree, DiffSelect, Difference, Edge, EdgeEvent, EdgeKey,
    EdgeSelect, EdgeTypeId, Error, Flow, Result, Schema, SchemaChange, Traversal, Version,
    VersionRange, Vertex, VertexEvent, VertexId, VertexSelect, wire_enum, wire_struct,
};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Read access to a graph. Every call reads one snapshot and never sees a part of a batch.
pub trait GraphRead: Send + Sync {
    /// Returns the current schema.
    fn schema(&self) -> Result<Arc<Schema>>;

    /// Reads vertices by id; the result keeps the order of `ids`. `None` where no vertex was inserted at or before
    /// `as_of`; a deleted vertex is returned marked as deleted.
    fn read_vertices(&self, ids: &[VertexId], as_of: Version) -> Result<Vec<Option<Vertex>>>;

    /// Reads edges by key; the result keeps the order of `keys`. `None` where no edge exists as of that version.
    fn read_edges(&self, keys: &[EdgeKey], as_of: Version) -> Result<Vec<Option<Edge>>>;

    /// Scans the selected edges that leave the vertices of a frontier: vertex by vertex in the given order, each
    /// vertex's edges by type and destination. The sink gets each edge with the index of its vertex in the frontier.
    fn scan_edges(
        &self,
        frontier: &[VertexId],
        select: &EdgeSelect,
        sink: &mut dyn FnMut(usize, Edge) -> Flow,
    ) -> Result<()>;

    /// Scans the selected vertices in the order (type, id).
    fn scan_vertices(
        &self,
        select: &VertexSelect,
        sink: &mut dyn FnMut(Vertex) -> Flow,
    ) -> Result<()>;

    /// Reads the changes of a vertex in the range, newest first, archived versions included.
    fn vertex_history(&self, id: VertexId, range: VersionRange) -> Result<Vec<VertexEvent>>;

    /// Reads the versions of one edge in the range, newest first, archived versions included.
    fn edge_history(&self, key: EdgeKey, range: VersionRange) -> Result<Vec<EdgeEvent>>;

    /// Returns the exact number of edges of a type that leave each vertex now.
    fn degrees(&self, of: &[(VertexId, EdgeTypeId)]) -> Result<Vec<u64>>;

    /// Returns the vertices with the most edges (of that type, or of any one type), highest degree first.
    fn top_degrees(&self, edge_type: Option<EdgeTypeId>, limit: usize) -> Result<Vec<Degree>>;

    /// Returns exact counts by type.
    fn counts(&self) -> Result<Counts>;

    /// Passes the selected differences between two versions to the sink, in the order of keys ([`Difference::key`]).
    fn diff(&self, select: &DiffSelect, sink: &mut dyn FnMut(Difference) -> Flow) -> Result<()>;

    /// Runs a traversal where the data is stored.
    fn travel(
        &self,
        traversal: &Traversal,
        budget: &Budget,
        cancel: &dyn Cancel,
    ) -> Result<TravelResult>;

    /// Whether a batch with this idempotency key has been applied.
    fn applied(&self, idempotency_key: &[u8]) -> Result<bool>;

    /// Passes all entries of the namespace as of a version to the sink, each with the id of its directory, in no order; an
    /// entry may be repeated. The root is an entry of no directory (an id of zeros). A file whose content was in a data
    /// file and has changed since has [`Content::Object`] with an empty path. Only for the owner of the database.
    ///
    /// # Errors
    /// An error of kind `Invalid` where past entries are not known: before the retention, on a cluster, for a principal.
    ///
    /// [`Content::Object`]: crate::namespace::Content::Object
    fn past_files(
        &self,
        _as_of: Version,
        _sink: &mut dyn FnMut(VertexId, Entry) -> Flow,
    ) -> Result<()> {
        Err(Error::Invalid(
            "files as of a past time can be listed in a folder or through its server, and not on a cluster".into(),
        ))
    }
}

/// Write access to a graph.
pub trait GraphWrite: GraphRead {
    /// Applies a batch atomically. When the call returns, the batch is as durable as the database's durability mode
    /// says.
    fn apply(&self, batch: Batch) -> Result<Commit>;

    /// Adds types and attributes atomically. Returns the new schema.
    fn define(&self, changes: &[SchemaChange]) -> Result<Arc<Schema>>;
}

/// A call of [`GraphRead`] with its arguments.
#[derive(Debug, Clone, PartialEq)]
pub enum GraphCall {
    /// [`GraphRead::schema`].
    Schema,
    /// [`GraphRead::read_vertices`].
    ReadVertices(Vec<VertexId>, Version),
    /// [`GraphRead::read_edges`].
    ReadEdges(Vec<EdgeKey>, Version),
    /// [`GraphRead::scan_edges`].
    ScanEdges(Vec<VertexId>, EdgeSelect),
    /// [`GraphRead::scan_vertices`].
    ScanVertices(VertexSelect),
    /// [`GraphRead::vertex_history`].
    VertexHistory(VertexId, VersionRange),
    /// [`GraphRead::edge_history`].
    EdgeHistory(EdgeKey, VersionRange),
    /// [`GraphRead::degrees`].
    Degrees(Vec<(VertexId, EdgeTypeId)>),
    /// [`GraphRead::top_degrees`].
    TopDegrees(Option<EdgeTypeId>, usize),
    /// [`GraphRead::counts`].
    Counts,
    /// [`GraphRead::diff`].
    Diff(DiffSelect),
    /// [`GraphRead::travel`].
    Travel(Traversal, Budget),
    /// [`GraphRead::applied`].
    Applied(Vec<u8>),
    /// [`GraphRead::past_files`].
    PastFiles(Version),
}

wire_enum!(GraphCall {
    0 Schema,
    1 ReadVertices(ids, as_of),
    2 ReadEdges(keys, as_of),
    3 ScanEdges(frontier, select),
    4 ScanVertices(select),
    5 VertexHistory(id, range),
    6 EdgeHistory(key, range),
    7 Degrees(of),
    8 TopDegrees(edge_type, limit),
    9 Counts,
    10 Diff(select),
    11 Travel(traversal, budget),
    12 Applied(idempotency_key),
    13 PastFiles(as_of),
});

/// A call on behalf of a principal. The encoding begins with that of the call.
#[derive(Debug, Clone, PartialEq)]
pub struct GraphCallAs {
    /// The call to answer.
    pub call: GraphCall,
    /// Principal that gets only what it may see.
    pub principal: Principal,
}

wire_struct!(GraphCallAs { call, principal });

/// Destination of the items of an answer.
pub trait AnswerSink {
    /// Takes an item; breaks if the caller wants no more.
    fn item(&mut self, item: &impl Wire) -> Flow;
}

impl GraphCall {
    /// Names of the methods, by the codes of the calls.
    pub const NAMES: [&str; 14] = [
        "schema",
        "read_vertices",
        "read_edges",
        "scan_edges",
        "scan_vertices",
        "vertex_history",
        "edge_history",
        "degrees",
        "top_degrees",
        "counts",
        "diff",
        "travel",
        "applied",
        "past_files",
    ];

    /// Whether the answer depends on the principal of the call.
    pub fn depends_on_principal(&self) -> bool {
        !matches!(self, Self::Schema | Self::Applied(_))
    }

    /// Whether the answer may take long, so that its caller sets no time limit.
    pub fn is_long(&self) -> bool {
        !matches!(
            self,
            Self::Schema
                | Self::ReadVertices(..)
                | Self::ReadEdges(..)
                | Self::Degrees(_)
                | Self::Applied(_)
        )
    }

    /// Number of vertices or edges that the call names; 0 for calls that name none.
    pub fn named_rows(&self) -> usize {
        match self {
            Self::ReadVertices(ids, _) | Self::ScanEdges(ids, _) => ids.len(),
            Self::ReadEdges(keys, _) => keys.len(),
            Self::Degrees(of) => of.len(),
            _ => 0,
        }
    }

    /// Vertices that the call names, in order.
    pub fn named_vertices(&self) -> Vec<VertexId> {
        match self {
            Self::ReadVertices(ids, _) | Self::ScanEdges(ids, _) => ids.clone(),
            Self::VertexHistory(id, _) => vec![*id],
            Self::Degrees(of) => of.iter().map(|(id, _)| *id).collect(),
            _ => Vec::new(),
        }
    }

    /// Edges that the call names, in order.
    pub fn named_edges(&self) -> &[EdgeKey] {
        match self {
            Self::ReadEdges(keys, _) => keys,
            Self::EdgeHistory(key, _) => std::slice::from_ref(key),
            _ => &[],
        }
    }

    /// Makes the call on `graph`, passes the items of the result to `out`, and returns the encoded rest of the result. After
    /// `out` broke off the rest is meaningless.
    pub fn answer(
        &self,
        graph: &dyn GraphRead,
        cancel: &dyn Cancel,
        out: &mut impl AnswerSink,
    ) -> Result<Vec<u8>> {
        match self {
            Self::Schema => return Ok(wire::encode(&*graph.schema()?)),
            Self::ReadVertices(ids, as_of) => send_all(out, &graph.read_vertices(ids, *as_of)?),
            Self::ReadEdges(keys, as_of) => send_all(out, &graph.read_edges(keys, *as_of)?),
            Self::ScanEdges(frontier, select) => {
                graph.scan_edges(frontier, select, &mut |i, edge| out.item(&(i, edge)))?;
            }
            Self::ScanVertices(select) => graph.scan_vertices(select, &mut |v| out.item(&v))?,
            Self::VertexHistory(id, range) => send_all(out, &graph.vertex_history(*id, *range)?),
            Self::EdgeHistory(key, range) => send_all(out, &graph.edge_history(*key, *range)?),
            Self::Degrees(of) => return Ok(wire::encode(&graph.degrees(of)?)),
            Self::TopDegrees(edge_type, limit) => {
                send_all(out, &graph.top_degrees(*edge_type, *limit)?);
            }
            Self::Counts => return Ok(wire::encode(&graph.counts()?)),
            Self::Diff(select) => graph.diff(select, &mut |d| out.item(&d))?,
            Self::Travel(traversal, budget) => {
                return Ok(send_traversal(
                    out,
                    graph.travel(traversal, budget, cancel)?,
                ));
            }
            Self::Applied(key) => return Ok(wire::encode(&graph.applied(key)?)),
            Self::PastFiles(as_of) => {
                graph.past_files(*as_of, &mut |directory, entry| {
                    out.item(&(directory, entry))
                })?;
            }
        }
        Ok(Vec::new())
    }
}

fn send_all<T: Wire>(out: &mut impl AnswerSink, items: &[T]) {
    let _ = items.iter().try_for_each(|item| out.item(item));
}

/// Passes the result of a traversal to `out` in pieces, and returns the encoded rest.
pub fn send_traversal(out: &mut impl AnswerSink, result: TravelResult) -> Vec<u8> {
    let sent = wire::pieces(result, |piece| match out.item(piece) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(()),
    });
    sent.map_or_else(|()| Vec::new(), |rest| wire::encode(&rest))
}

/// Sends calls to the process that has the graph.
pub trait GraphTransport: Send + Sync {
    /// Sends a call, passes a reader at each item of its answer to `item`, and returns the encoded rest of the result. The rest is
    /// meaningless if `item` broke off.
    fn exchange(
        &self,
        call: GraphCall,
        cancel: Option<&dyn Cancel>,
        item: &mut dyn FnMut(&mut Reader<'_>) -> Result<Flow, DecodeError>,
    ) -> Result<Vec<u8>>;

    /// Records a version that an answer was as of, for callers whose later answers must include it.
    fn record_version(&self, _version: Version) {}
}

/// A graph that another process has: encodes calls and decodes their answers.
#[derive(Debug)]
pub struct RemoteGraph<'a, T>(pub &'a T);

impl<T: GraphTransport> RemoteGraph<'_, T> {
    fn value<V: Wire>(&self, call: GraphCall) -> Result<V> {
        let mut no_items = |r: &mut Reader<'_>| Err(r.error("no items"));
        let rest = self.0.exchange(call, None, &mut no_items)?;
        wire::decode(&rest).map_err(damaged)
    }

    fn stream<I: Wire>(&self, call: GraphCall, sink: &mut dyn FnMut(I) -> Flow) -> Result<()> {
        let item = &mut |r: &mut Reader<'_>| I::take(r).map(&mut *sink);
        self.0.exchange(call, None, item).map(|_| ())
    }

    fn list<I: Wire>(&self, call: GraphCall) -> Result<Vec<I>> {
        let mut items = Vec::with_capacity(call.named_rows());
        self.stream(call, &mut |item| {
            items.push(item);
            ControlFlow::Continue(())
        })?;
        Ok(items)
    }

    /// Requests one item for each vertex or edge that the call names.
    fn one_each<I: Wire>(&self, call: GraphCall) -> Result<Vec<I>> {
        let rows = call.named_rows();
        same_number(self.list(call)?, rows)
    }
}

fn damaged(e: DecodeError) -> Error {
    Error::corrupt("answer of the process that has the database", e)
}

fn same_number<I>(items: Vec<I>, rows: usize) -> Result<Vec<I>> {
    if items.len() == rows {
        return Ok(items);
    }
    Err(Error::OtherRelease(format!(
        "the process that has the database answered a call about {rows} rows with {}: use the same release on both sides",
        items.len()
    )))
}

impl<T: GraphTransport> GraphRead for RemoteGraph<'_, T> {
    fn schema(&self) -> Result<Arc<Schema>> {
        self.value(GraphCall::Schema).map(Arc::new)
    }

    fn read_vertices(&self, ids: &[VertexId], as_of: Version) -> Result<Vec<Option<Vertex>>> {
        self.one_each(GraphCall::ReadVertices(ids.to_vec(), as_of))
    }

    fn read_edges(&self, keys: &[EdgeKey], as_of: Version) -> Result<Vec<Option<Edge>>> {
        self.one_each(GraphCall::ReadEdges(keys.to_vec(), as_of))
    }

    fn scan_edges(
        &self,
        frontier: &[VertexId],
        select: &EdgeSelect,
        sink: &mut dyn FnMut(usize, Edge) -> Flow,
    ) -> Result<()> {
        let call = GraphCall::ScanEdges(frontier.to_vec(), select.clone());
        self.stream(call, &mut |(i, edge)| sink(i, edge))
    }

    fn scan_vertices(
        &self,
        select: &VertexSelect,
        sink: &mut dyn FnMut(Vertex) -> Flow,
    ) -> Result<()> {
        self.stream(GraphCall::ScanVertices(*select), sink)
    }

    fn vertex_history(&self, id: VertexId, range: VersionRange) -> Result<Vec<VertexEvent>> {
        self.list(GraphCall::VertexHistory(id, range))
    }

    fn edge_history(&self, key: EdgeKey, range: VersionRange) -> Result<Vec<EdgeEvent>> {
        self.list(GraphCall::EdgeHistory(key, range))
    }

    fn degrees(&self, of: &[(VertexId, EdgeTypeId)]) -> Result<Vec<u64>> {
        same_number(self.value(GraphCall::Degrees(of.to_vec()))?, of.len())
    }

    fn top_degrees(&self, edge_type: Option<EdgeTypeId>, limit: usize) -> Result<Vec<Degree>> {
        self.list(GraphCall::TopDegrees(edge_type, limit))
    }

    fn counts(&self) -> Result<Counts> {
        self.value(GraphCall::Counts)
    }

    fn diff(&self, select: &DiffSelect, sink: &mut dyn FnMut(Difference) -> Flow) -> Result<()> {
        self.stream(GraphCall::Diff(*select), sink)
    }

    fn travel(
        &self,
        traversal: &Traversal,
        budget: &Budget,
        cancel: &dyn Cancel,
    ) -> Result<TravelResult> {
        let mut assembly = TravelAssembly::default();
        let call = GraphCall::Travel(traversal.clone(), *budget);
        let rest = self.0.exchange(call, Some(cancel), &mut |r| {
            assembly.take(r).map(ControlFlow::Continue)
        })?;
        let result = assembly.finish(wire::decode(&rest).map_err(damaged)?);
        // Readers of the paths find nodes by these numbers.
        if let Some(paths) = &result.paths {
            let mut parents = paths.nodes.iter().flat_map(|node| &node.parents);
            if parents.any(|step| step.parent as usize >= paths.nodes.len()) {
                let expected = "the number of a node for each parent in the paths";
                return Err(damaged(DecodeError { at: 0, expected }));
            }
        }
        self.0.record_version(result.as_of);
        Ok(result)
    }

    fn applied(&self, idempotency_key: &[u8]) -> Result<bool> {
        self.value(GraphCall::Applied(idempotency_key.to_vec()))
    }

    fn past_files(
        &self,
        as_of: Version,
        sink: &mut dyn FnMut(VertexId, Entry) -> Flow,
    ) -> Result<()> {
        let sink = &mut |(directory, entry)| sink(directory, entry);
        self.stream(GraphCall::PastFiles(as_of), sink)
    }
}

/// A graph whose reads are repeated where that helps, for example after the process that has it ended. A repeated scan continues
/// after the last item that its sink received.
pub trait GraphAttempts: Send + Sync {
    /// Calls `read` with the graph until it succeeds or a repetition cannot help.
    fn attempt<T>(
        &self,
        cancel: Option<&dyn Cancel>,
        read: &mut dyn FnMut(&dyn GraphRead) -> Result<T>,
    ) -> Result<T>;
}

impl<A: GraphAttempts> GraphRead for A {
    fn schema(&self) -> Result<Arc<Schema>> {
        self.attempt(None, &mut |graph| graph.schema())
    }

    fn read_vertices(&self, ids: &[VertexId], as_of: Version) -> Result<Vec<Option<Vertex>>> {
        self.attempt(None, &mut |graph| graph.read_vertices(ids, as_of))
    }

    fn read_edges(&self, keys: &[EdgeKey], as_of: Version) -> Result<Vec<Option<Edge>>> {
        self.attempt(None, &mut |graph| graph.read_edges(keys, as_of))
    }

    fn scan_edges(
        &self,
        frontier: &[VertexId],
        select: &EdgeSelect,
        sink: &mut dyn FnMut(usize, Edge) -> Flow,
    ) -> Result<()> {
        let mut resume = EdgesResume::default();
        self.attempt(None, &mut |graph| {
            let (from, rest, select) = resume.rest(frontier, select);
            graph.scan_edges(rest, &select, &mut |i, edge| {
                resume.pass(from + i, edge, sink)
            })
        })
    }

    fn scan_vertices(
        &self,
        select: &VertexSelect,
        sink: &mut dyn FnMut(Vertex) -> Flow,
    ) -> Result<()> {
        let mut resume = VerticesResume::after(select.after);
        self.attempt(None, &mut |graph| {
            let rest = VertexSelect {
                after: resume.position(),
                ..*select
            };
            graph.scan_vertices(&rest, &mut |vertex| resume.pass(vertex, sink))
        })
    }

    fn vertex_history(&self, id: VertexId, range: VersionRange) -> Result<Vec<VertexEvent>> {
        self.attempt(None, &mut |graph| graph.vertex_history(id, range))
    }

    fn edge_history(&self, key: EdgeKey, range: VersionRange) -> Result<Vec<EdgeEvent>> {
        self.attempt(None, &mut |graph| graph.edge_history(key, range))
    }

    fn degrees(&self, of: &[(VertexId, EdgeTypeId)]) -> Result<Vec<u64>> {
        self.attempt(None, &mut |graph| graph.degrees(of))
    }

    fn top_degrees(&self, edge_type: Option<EdgeTypeId>, limit: usize) -> Result<Vec<Degree>> {
        self.attempt(None, &mut |graph| graph.top_degrees(edge_type, limit))
    }

    fn counts(&self) -> Result<Counts> {
        self.attempt(None, &mut |graph| graph.counts())
    }

    fn diff(&self, select: &DiffSelect, sink: &mut dyn FnMut(Difference) -> Flow) -> Result<()> {
        let mut start_after = select.start_after;
        self.attempt(None, &mut |graph| {
            let rest = DiffSelect {
                start_after,
                ..*select
            };
            graph.diff(&rest, &mut |difference| {
                start_after = difference.key();
                sink(difference)
            })
        })
    }

    fn travel(
        &self,
        traversal: &Traversal,
        budget: &Budget,
        cancel: &dyn Cancel,
    ) -> Result<TravelResult> {
        self.attempt(Some(cancel), &mut |graph| {
            graph.travel(traversal, budget, cancel)
        })
    }

    fn applied(&self, idempotency_key: &[u8]) -> Result<bool> {
        self.attempt(None, &mut |graph| graph.applied(idempotency_key))
    }

    fn past_files(
        &self,
        as_of: Version,
        sink: &mut dyn FnMut(VertexId, Entry) -> Flow,
    ) -> Result<()> {
        self.attempt(None, &mut |graph| graph.past_files(as_of, sink))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NeverCancel;
    use crate::traversal::{PathNode, PathStep, Paths};

    /// A process that answers each traversal with this result.
    struct Answer(TravelResult);

    struct Items(Vec<u8>);

    impl AnswerSink for Items {
        fn item(&mut self, item: &impl Wire) -> Flow {
            item.put(&mut self.0);
            ControlFlow::Continue(())
        }
    }

    impl GraphTransport for Answer {
        fn exchange(
            &self,
            _: GraphCall,
            _: Option<&dyn Cancel>,
            item: &mut dyn FnMut(&mut Reader<'_>) -> Result<Flow, DecodeError>,
        ) -> Result<Vec<u8>> {
            let mut items = Items(Vec::new());
            let rest = send_traversal(&mut items, self.0.clone());
            let mut r = Reader::new(&items.0);
            while r.remaining() > 0 {
                let _ = item(&mut r).map_err(damaged)?;
            }
            Ok(rest)
        }
    }

    fn answer(parent: u32) -> Answer {
        let id = VertexId::default();
        let edge = EdgeKey {
            source: id,
            edge_type: EdgeTypeId(0),
            destination: id,
        };
        let version = Version(7);
        let step = PathStep {
            parent,
            edge,
            version,
        };
        let node = |parents| PathNode {
            level: 0,
            vertex: id,
            end: true,
            parents,
        };
        Answer(TravelResult {
            sets: Vec::new(),
            paths: Some(Paths {
                nodes: vec![node(Vec::new()), node(vec![step])],
            }),
            complete: true,
            stopped: Vec::new(),
            profile: Vec::new(),
            servers: Vec::new(),
            as_of: version,
        })
    }

    /// Paths of a broken or malicious server name no nodes that are not there.
    #[test]
    fn paths_of_another_process_are_checked() {
        let chain = Traversal::parse("v(\"user:1\")").unwrap();
        let travel =
            |answer: &Answer| RemoteGraph(answer).travel(&chain, &Budget::default(), &NeverCancel);
        let good = answer(0);
        assert_eq!(travel(&good).unwrap(), good.0);
        assert!(
            travel(&answer(2))
                .unwrap_err()
                .to_string()
                .contains("number of a node")
        );
    }
}
