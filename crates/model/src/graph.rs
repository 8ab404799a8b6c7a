//! The types of the API for graphs: vertices, edges, histories, and selections of them.

use crate::id::{EdgeTypeId, VertexId, VertexTypeId};
use crate::key::{EdgeKey, RowKey};
use crate::record::UserAttribute;
use crate::schema::Schema;
use crate::traversal::StopReason;
use crate::value::{Properties, Value};
use crate::version::{Version, VersionRange};
use std::ops::ControlFlow;

/// State of a vertex as of some version.
#[derive(Debug, Clone, PartialEq)]
pub struct Vertex {
    /// Id of the vertex.
    pub id: VertexId,
    /// Type of the vertex.
    pub type_id: VertexTypeId,
    /// External key of the vertex.
    pub key: String,
    /// The newest version of any part of the vertex, at or before the requested version.
    pub version: Version,
    /// Whether the vertex was deleted at `version`. A deleted vertex has a type and a key and no attributes.
    pub deleted: bool,
    /// Predefined attributes of the vertex.
    pub attributes: Properties,
    /// User-defined attributes, sorted by name.
    pub user: Vec<UserAttribute>,
}

impl Vertex {
    /// Returns the vertex's name, `type:key`.
    pub fn name(&self, schema: &Schema) -> String {
        format!("{}:{}", schema.prefix(self.type_id), self.key)
    }

    /// Returns the value of an attribute, predefined or user-defined (predefined first).
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

/// State of an edge as of some version.
#[derive(Debug, Clone, PartialEq)]
pub struct Edge {
    /// Source, type and destination of the edge.
    pub key: EdgeKey,
    /// The version at which the edge took these properties.
    pub version: Version,
    /// Whether the edge was deleted at `version`. Only histories and version ranges contain such edges.
    pub deleted: bool,
    /// Properties of the edge.
    pub properties: Properties,
}

/// One change in the history of a vertex.
#[derive(Debug, Clone, PartialEq)]
pub struct VertexEvent {
    /// The version of the change.
    pub version: Version,
    /// The kind of change and its values.
    pub change: VertexChange,
    /// Whether it comes from the archive of compacted versions.
    pub archived: bool,
}

/// Kinds of changes to a vertex.
#[derive(Debug, Clone, PartialEq)]
pub enum VertexChange {
    /// The vertex was inserted, or its predefined attributes were replaced by these.
    Put(Properties),
    /// The vertex was deleted.
    Deleted,
    /// A user-defined attribute was set to this value.
    Set(String, Value),
    /// A user-defined attribute was removed.
    Removed(String),
}

/// One version in the history of an edge.
#[derive(Debug, Clone, PartialEq)]
pub struct EdgeEvent {
    /// State of the edge at that version.
    pub edge: Edge,
    /// Whether it comes from the archive of compacted versions.
    pub archived: bool,
}

/// Selection of edges for a scan over a frontier.
#[derive(Debug, Clone, PartialEq)]
pub struct EdgeSelect {
    /// Types of the edges; empty for all types, inverses included.
    pub types: Vec<EdgeTypeId>,
    /// Versions of the edges.
    pub versions: Versions,
    /// Whether the caller needs properties; a scan without them decodes less.
    pub properties: bool,
    /// Exclusive start among the edges of the frontier's first vertex, by (type, destination): the cursor of the page before. The other
    /// vertices of the frontier are scanned from their first edges.
    pub after: Option<(EdgeTypeId, VertexId)>,
}

/// Selection of vertices for a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VertexSelect {
    /// Type of the vertices; specialisations of it are included.
    pub type_id: VertexTypeId,
    /// Exclusive start of the scan, by (type, id): the cursor of the page before.
    pub after: Option<(VertexTypeId, VertexId)>,
    /// Version as of which vertices are read.
    pub as_of: Version,
    /// Whether vertices deleted by that version are returned too, marked as deleted.
    pub deleted: bool,
}

impl VertexSelect {
    /// Selects all vertices of a type that exist now.
    pub const fn of(type_id: VertexTypeId) -> Self {
        Self {
            type_id,
            after: None,
            as_of: Version::MAX,
            deleted: false,
        }
    }
}

/// Versions that a read sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Versions {
    /// The newest version at or before this one, unless it is a deletion. [`Version::MAX`] reads the current state.
    AsOf(Version),
    /// All versions in the range, newest first, deletions (marked) and archived versions included.
    Range(VersionRange),
}

impl Versions {
    /// The current state of everything.
    pub const NOW: Self = Self::AsOf(Version::MAX);
}

/// Exact counts of a whole database.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Counts {
    /// Number of vertices that exist now, by type.
    pub vertices: Vec<(VertexTypeId, u64)>,
    /// Number of edges that exist now, by type; an edge and its inverse each count under their own type.
    pub edges: Vec<(EdgeTypeId, u64)>,
}

/// The degree of a vertex for one edge type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Degree {
    /// Id of the vertex.
    pub vertex: VertexId,
    /// Type of the counted edges.
    pub edge_type: EdgeTypeId,
    /// Number of edges of that type that leave the vertex.
    pub degree: u64,
}

/// One difference between the graph at two versions.
#[derive(Debug, Clone, PartialEq)]
pub enum Difference {
    /// A vertex that was created, deleted or changed: its state before and after, `None` where it did not exist.
    Vertex(Option<Vertex>, Option<Vertex>),
    /// An edge (in its defined direction) that was created, deleted or changed: its state before and after.
    Edge(Option<Edge>, Option<Edge>),
}

impl Difference {
    /// Returns the key of the vertex or edge; `None` if neither side exists, which no difference has.
    pub fn key(&self) -> Option<RowKey> {
        match self {
            Self::Vertex(before, after) => {
                let vertex = before.as_ref().or(after.as_ref());
                vertex.map(|v| RowKey::Vertex(v.id))
            }
            Self::Edge(before, after) => {
                let edge = before.as_ref().or(after.as_ref());
                edge.map(|e| RowKey::Edge(e.key))
            }
        }
    }
}

/// Selection of differences between two versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiffSelect {
    /// Version of the first side.
    pub before: Version,
    /// Version of the second side; it may also be the earlier one.
    pub after: Version,
    /// Exclusive start, in the order of keys: the cursor of the page before.
    pub start_after: Option<RowKey>,
}

impl DiffSelect {
    /// Selects all differences between two versions.
    pub const fn between(before: Version, after: Version) -> Self {
        Self {
            before,
            after,
            start_after: None,
        }
    }
}

/// Return value of sinks: whether the caller wants more items.
pub type Flow = ControlFlow<()>;

/// A request to stop: the caller pressed Ctrl-C, its deadline passed, or its connection closed. It is polled often, so
/// the check must be cheap.
pub trait Cancel: Sync {
    /// Returns true once work should stop.
    fn cancelled(&self) -> bool;

    /// Returns the reason that work which stopped for this reports. A deadline overrides it with
    /// [`StopReason::TimeOut`].
    fn reason(&self) -> StopReason {
        StopReason::Interrupted
    }
}

/// A [`Cancel`] that never stops.
#[derive(Debug, Clone, Copy, Default)]
pub struct NeverCancel;

impl Cancel for NeverCancel {
    fn cancelled(&self) -> bool {
        false
    }
}
