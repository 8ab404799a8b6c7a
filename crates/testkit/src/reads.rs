//! The interface that is compared with the model: the calls of `GraphRead`, on one thread or several.

use esker_model::traversal::{Budget, TravelResult};
use esker_model::{
    Counts, Degree, DiffSelect, Difference, Edge, EdgeEvent, EdgeKey, EdgeSelect, EdgeTypeId, Flow,
    GraphRead, NeverCancel, Result, Traversal, Version, VersionRange, Vertex, VertexEvent,
    VertexId, VertexSelect,
};

/// The calls of `GraphRead`, without its requirement to be shared between threads.
#[allow(missing_docs, reason = "each is that of GraphRead")]
pub trait Reads {
    fn read_vertices(&self, ids: &[VertexId], as_of: Version) -> Result<Vec<Option<Vertex>>>;
    fn read_edges(&self, keys: &[EdgeKey], as_of: Version) -> Result<Vec<Option<Edge>>>;
    fn scan_edges(
        &self,
        frontier: &[VertexId],
        select: &EdgeSelect,
        sink: &mut dyn FnMut(usize, Edge) -> Flow,
    ) -> Result<()>;
    fn scan_vertices(
        &self,
        select: &VertexSelect,
        sink: &mut dyn FnMut(Vertex) -> Flow,
    ) -> Result<()>;
    fn vertex_history(&self, id: VertexId, range: VersionRange) -> Result<Vec<VertexEvent>>;
    fn edge_history(&self, key: EdgeKey, range: VersionRange) -> Result<Vec<EdgeEvent>>;
    fn degrees(&self, of: &[(VertexId, EdgeTypeId)]) -> Result<Vec<u64>>;
    fn top_degrees(&self, edge_type: Option<EdgeTypeId>, limit: usize) -> Result<Vec<Degree>>;
    fn counts(&self) -> Result<Counts>;
    fn diff(&self, select: &DiffSelect, sink: &mut dyn FnMut(Difference) -> Flow) -> Result<()>;
    fn travel(&self, traversal: &Traversal, budget: &Budget) -> Result<TravelResult>;
    fn applied(&self, idempotency_key: &[u8]) -> Result<bool>;
}

impl<G: GraphRead> Reads for G {
    fn read_vertices(&self, ids: &[VertexId], as_of: Version) -> Result<Vec<Option<Vertex>>> {
        GraphRead::read_vertices(self, ids, as_of)
    }

    fn read_edges(&self, keys: &[EdgeKey], as_of: Version) -> Result<Vec<Option<Edge>>> {
        GraphRead::read_edges(self, keys, as_of)
    }

    fn scan_edges(
        &self,
        frontier: &[VertexId],
        select: &EdgeSelect,
        sink: &mut dyn FnMut(usize, Edge) -> Flow,
    ) -> Result<()> {
        GraphRead::scan_edges(self, frontier, select, sink)
    }

    fn scan_vertices(
        &self,
        select: &VertexSelect,
        sink: &mut dyn FnMut(Vertex) -> Flow,
    ) -> Result<()> {
        GraphRead::scan_vertices(self, select, sink)
    }

    fn vertex_history(&self, id: VertexId, range: VersionRange) -> Result<Vec<VertexEvent>> {
        GraphRead::vertex_history(self, id, range)
    }

    fn edge_history(&self, key: EdgeKey, range: VersionRange) -> Result<Vec<EdgeEvent>> {
        GraphRead::edge_history(self, key, range)
    }

    fn degrees(&self, of: &[(VertexId, EdgeTypeId)]) -> Result<Vec<u64>> {
        GraphRead::degrees(self, of)
    }

    fn top_degrees(&self, edge_type: Option<EdgeTypeId>, limit: usize) -> Result<Vec<Degree>> {
        GraphRead::top_degrees(self, edge_type, limit)
    }

    fn counts(&self) -> Result<Counts> {
        GraphRead::counts(self)
    }

    fn diff(&self, select: &DiffSelect, sink: &mut dyn FnMut(Difference) -> Flow) -> Result<()> {
        GraphRead::diff(self, select, sink)
    }

    fn travel(&self, traversal: &Traversal, budget: &Budget) -> Result<TravelResult> {
        GraphRead::travel(self, traversal, budget, &NeverCancel)
    }

    fn applied(&self, idempotency_key: &[u8]) -> Result<bool> {
        GraphRead::applied(self, idempotency_key)
    }
}
