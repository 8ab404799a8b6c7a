//! The API traits. The embedded database and every remote client implement them; whoever stands above cannot
//! tell which it has. They are batch-shaped: one call takes a whole frontier, so that one call can be one
//! round trip.

use crate::error::Result;
use crate::id::{EdgeTypeId, VertexId, VertexTypeId};
use crate::key::EdgeKey;
use crate::mutation::{Batch, Commit};
use crate::record::UserAttribute;
use crate::schema::{Schema, SchemaChange};
use crate::traversal::{Budget, StopReason, TravelResult, Traversal};
use crate::value::{Properties, Value};
use crate::version::{Version, VersionRange};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A vertex as of some version.
#[derive(Debug, Clone, PartialEq)]
pub struct Vertex {
    /// Its id.
    pub id: VertexId,
    /// Its type.
    pub type_id: VertexTypeId,
    /// Its external key.
    pub key: String,
    /// The newest version of any of its parts, at or before the version asked for.
    pub version: Version,
    /// Whether it was deleted at `version`. A deleted vertex keeps type and key and nothing else.
    pub deleted: bool,
    /// Predefined attributes.
    pub attributes: Properties,
    /// User-defined attributes, sorted by name.
    pub user: Vec<UserAttribute>,
}

impl Vertex {
    /// `type:key`.
    pub fn name(&self, schema: &Schema) -> String {
        format!("{}:{}", schema.prefix(self.type_id), self.key)
    }

    /// The value of an attribute, predefined or user-defined (predefined first).
    pub fn attribute(&self, name: &str) -> Option<&Value> {
        self.attributes.get(name).or_else(|| {
            let i = self
                .user
                .binary_search_by(|a| a.name.as_str().cmp(name))
                .ok()?;
            self.user.get(i).map(|a| &a.value)
        })
    }
}

/// An edge as of some version.
#[derive(Debug, Clone, PartialEq)]
pub struct Edge {
    /// Source, type, destination.
    pub key: EdgeKey,
    /// When it took these properties.
    pub version: Version,
    /// Whether it was deleted at `version` (only histories and version ranges show those).
    pub deleted: bool,
    /// Its properties.
    pub properties: Properties,
}

/// Something that happened to a vertex.
#[derive(Debug, Clone, PartialEq)]
pub struct VertexEvent {
    /// When.
    pub version: Version,
    /// What.
    pub change: VertexChange,
    /// Whether it comes from the archive of compacted versions.
    pub archived: bool,
}

/// What can happen to a vertex.
#[derive(Debug, Clone, PartialEq)]
pub enum VertexChange {
    /// It was inserted, or its predefined attributes became these.
    Put(Properties),
    /// It was deleted.
    Deleted,
    /// A user-defined attribute took this value.
    Set(String, Value),
    /// A user-defined attribute was removed.
    Removed(String),
}

/// A version of an edge, in a history.
#[derive(Debug, Clone, PartialEq)]
pub struct EdgeEvent {
    /// The edge at that version.
    pub edge: Edge,
    /// Whether it comes from the archive of compacted versions.
    pub archived: bool,
}

/// Which edges of a frontier to read.
#[derive(Debug, Clone, PartialEq)]
pub struct EdgeSelect {
    /// Their types; empty for all, inverses included.
    pub types: Vec<EdgeTypeId>,
    /// Which of their versions.
    pub versions: Versions,
    /// Whether the caller wants properties; without them a scan decodes less.
    pub properties: bool,
}

/// Which vertices to go through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VertexSelect {
    /// Their type; specialisations of it count.
    pub type_id: VertexTypeId,
    /// Only those behind that one, by (type, id).
    pub after: Option<(VertexTypeId, VertexId)>,
    /// As they were then.
    pub as_of: Version,
    /// Whether those that were deleted by then show too, marked.
    pub deleted: bool,
}

impl VertexSelect {
    /// All of a type that exist now.
    pub const fn of(type_id: VertexTypeId) -> Self {
        Self {
            type_id,
            after: None,
            as_of: Version::MAX,
            deleted: false,
        }
    }
}

/// Which versions a read sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Versions {
    /// The newest at or before this one, if it is not a deletion. [`Version::MAX`] reads what is now.
    AsOf(Version),
    /// All inside the range, deletions among them (marked), newest first; archived versions too.
    Range(VersionRange),
}

impl Versions {
    /// What is now.
    pub const NOW: Self = Self::AsOf(Version::MAX);
}

/// Exact counts of a whole database.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Counts {
    /// Vertices that exist now, by type.
    pub vertices: Vec<(VertexTypeId, u64)>,
    /// Edges that exist now, by type; an edge and its inverse each count under their own type.
    pub edges: Vec<(EdgeTypeId, u64)>,
}

/// A vertex and how many edges of a type leave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Degree {
    /// Whose.
    pub vertex: VertexId,
    /// Of which edge type.
    pub edge_type: EdgeTypeId,
    /// How many.
    pub degree: u64,
}

/// One difference between two times.
#[derive(Debug, Clone, PartialEq)]
pub enum Difference {
    /// A vertex that is new, gone or changed: before and after, `None` where it did not exist.
    Vertex(Option<Vertex>, Option<Vertex>),
    /// An edge (in its defined direction) that is new, gone or changed.
    Edge(Option<Edge>, Option<Edge>),
}

/// Whether a caller wants more.
pub type Flow = ControlFlow<()>;

/// Whether work should stop: the caller pressed Ctrl-C, its deadline passed, its connection closed. Asked often;
/// must be cheap.
pub trait Cancel: Sync {
    /// True once work should stop.
    fn cancelled(&self) -> bool;

    /// What work that stopped for this reports: a deadline overrides it with [`StopReason::TimeOut`].
    fn reason(&self) -> StopReason {
        StopReason::Interrupted
    }
}

/// Never stops.
#[derive(Debug, Clone, Copy, Default)]
pub struct NeverCancel;

impl Cancel for NeverCancel {
    fn cancelled(&self) -> bool {
        false
    }
}

/// Reading. Every answer is consistent: one call never sees half of a batch.
pub trait GraphRead: Send + Sync {
    /// The schema as it is now.
    fn schema(&self) -> Result<Arc<Schema>>;

    /// Vertices by id, in the order asked for: `None` where nothing was ever inserted at or before that
    /// version; a deleted vertex comes back marked.
    fn read_vertices(&self, ids: &[VertexId], as_of: Version) -> Result<Vec<Option<Vertex>>>;

    /// Edges by key, in the order asked for: `None` where there is none as of that version.
    fn read_edges(&self, keys: &[EdgeKey], as_of: Version) -> Result<Vec<Option<Edge>>>;

    /// All selected edges that leave the vertices of a frontier, vertex by vertex in the order given, each vertex's
    /// edges by type and destination. The sink gets the index into the frontier with each edge.
    fn scan_edges(
        &self,
        frontier: &[VertexId],
        select: &EdgeSelect,
        sink: &mut dyn FnMut(usize, Edge) -> Flow,
    ) -> Result<()>;

    /// All selected vertices, by (type, id).
    fn scan_vertices(
        &self,
        select: &VertexSelect,
        sink: &mut dyn FnMut(Vertex) -> Flow,
    ) -> Result<()>;

    /// All that happened to a vertex in that range, newest first, archived versions included.
    fn vertex_history(&self, id: VertexId, range: VersionRange) -> Result<Vec<VertexEvent>>;

    /// All versions of one edge in that range, newest first, archived versions included.
    fn edge_history(&self, key: EdgeKey, range: VersionRange) -> Result<Vec<EdgeEvent>>;

    /// Exact number of edges of a type that leave each vertex now.
    fn degrees(&self, of: &[(VertexId, EdgeTypeId)]) -> Result<Vec<u64>>;

    /// The vertices with the most edges (of that type, or of any one type), most first.
    fn top_degrees(&self, edge_type: Option<EdgeTypeId>, limit: usize) -> Result<Vec<Degree>>;

    /// Exact counts by type.
    fn counts(&self) -> Result<Counts>;

    /// What differs between two times, in key order.
    fn diff(
        &self,
        before: Version,
        after: Version,
        sink: &mut dyn FnMut(Difference) -> Flow,
    ) -> Result<()>;

    /// Runs a traversal where the data is.
    fn travel(
        &self,
        traversal: &Traversal,
        budget: &Budget,
        cancel: &dyn Cancel,
    ) -> Result<TravelResult>;

    /// Whether a batch with this marker has been applied.
    fn applied(&self, once: &[u8]) -> Result<bool>;
}

/// Writing.
pub trait GraphWrite: GraphRead {
    /// Applies a batch, all or nothing. When it returns, the batch is as durable as the database's mode says.
    fn apply(&self, batch: Batch) -> Result<Commit>;

    /// Adds types and attributes, all or nothing; returns the schema after it.
    fn define(&self, changes: &[SchemaChange]) -> Result<Arc<Schema>>;
}
