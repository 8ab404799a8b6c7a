//! Mutations: requested changes, in batches that apply whole or not at all.

use crate::id::{EdgeTypeId, VertexId, VertexRef};
use crate::limits::SMALL_BATCH_MUTATIONS_MAX;
use crate::object::{Identity, ObjectId};
use crate::value::Properties;
use crate::version::Version;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// A single change of the graph.
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// Inserts a vertex, or a new version of it. Its predefined attributes become exactly these.
    PutVertex {
        /// Vertex to insert.
        vertex: VertexRef,
        /// External key of the vertex (the id is computed from it).
        key: String,
        /// Predefined attributes, as the schema declares them.
        attributes: Properties,
    },
    /// Makes sure that a vertex exists at this version; an existing vertex is not changed. A vertex created this way is
    /// only *mentioned*: an insertion at an earlier version that arrives later replaces it, so that the order of
    /// arrival does not matter.
    EnsureVertex {
        /// Vertex that must exist.
        vertex: VertexRef,
        /// External key of the vertex.
        key: String,
    },
    /// Sets and removes single predefined attributes of a vertex that exists at this version; its other attributes keep
    /// their values. Later versions that are stored already do not change.
    ChangeVertex {
        /// Vertex to change.
        vertex: VertexRef,
        /// Attributes to set, as the schema declares them.
        set: Properties,
        /// Names of the attributes to remove.
        remove: Vec<String>,
    },
    /// Sets and removes user-defined attributes of an existing vertex.
    SetAttributes {
        /// Vertex to change.
        vertex: VertexRef,
        /// Attributes to set.
        set: Properties,
        /// Names of the attributes to remove.
        remove: Vec<String>,
    },
    /// Marks a vertex as deleted. Its history and its edges (facts about the past) stay.
    DeleteVertex {
        /// Vertex to delete.
        vertex: VertexRef,
    },
    /// Inserts an edge, or a new version of it, and its inverse. Its properties become exactly these.
    PutEdge {
        /// Vertex where the edge starts.
        source: VertexRef,
        /// Type of the edge.
        edge_type: EdgeTypeId,
        /// Vertex where the edge ends.
        destination: VertexRef,
        /// All properties of the edge.
        properties: Properties,
    },
    /// Marks an edge and its inverse as deleted.
    DeleteEdge {
        /// Vertex where the edge starts.
        source: VertexRef,
        /// Type of the edge.
        edge_type: EdgeTypeId,
        /// Vertex where the edge ends.
        destination: VertexRef,
    },
    /// Creates an object with a number that the database assigns, at the commit's version. Refused if an object has
    /// these ID attributes already.
    CreateObject {
        /// ID attributes of the new object.
        identity: Identity,
        /// Other predefined attributes, as the schema declares them for the type `Object`.
        attributes: Properties,
        /// User-defined tags; null is a tag without a value.
        tags: Properties,
    },
    /// Gives an object other ID attributes, at the commit's version. Its tags, edges and history stay with it. Refused
    /// if another object has the new ID attributes, or if this one no longer has the old ones.
    MoveObject {
        /// Number of the object.
        object: ObjectId,
        /// The present ID attributes.
        from: Identity,
        /// The new ID attributes.
        to: Identity,
    },
}

impl Op {
    /// The vertex on whose home server the change is made; of an edge, its source.
    pub fn home_vertex(&self) -> VertexId {
        match self {
            Self::PutVertex { vertex, .. }
            | Self::EnsureVertex { vertex, .. }
            | Self::ChangeVertex { vertex, .. }
            | Self::SetAttributes { vertex, .. }
            | Self::DeleteVertex { vertex } => vertex.id,
            Self::PutEdge { source, .. } | Self::DeleteEdge { source, .. } => source.id,
            Self::CreateObject { identity, .. } => identity.prefix().home_vertex(),
            Self::MoveObject { object, .. } => object.vertex(),
        }
    }
}

/// A change and the version at which it takes effect.
#[derive(Debug, Clone, PartialEq)]
pub struct Mutation {
    /// The version of the change, if its source knows it; else the commit's own version. A version older than the
    /// stored one becomes part of the history, so the order of arrival does not matter.
    pub version: Option<Version>,
    /// The change to make.
    pub op: Op,
}

/// Changes that apply atomically and become visible together.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Batch {
    /// Changes in order: a later one sees the effect of an earlier one.
    pub mutations: Vec<Mutation>,
    /// Idempotency key: a batch whose key has been applied before changes nothing. Importers use the identity of the
    /// source, remote clients the identity of the request, so that both can repeat a batch safely.
    pub idempotency_key: Option<Vec<u8>>,
}

impl Batch {
    /// Creates an empty batch.
    pub const fn new() -> Self {
        Self {
            mutations: Vec::new(),
            idempotency_key: None,
        }
    }

    /// Adds a change at the commit's version.
    pub fn push(&mut self, op: Op) {
        self.mutations.push(Mutation { version: None, op });
    }

    /// Adds a change at the given version.
    pub fn push_at(&mut self, version: Version, op: Op) {
        self.mutations.push(Mutation {
            version: Some(version),
            op,
        });
    }

    /// Returns the number of changes.
    pub fn len(&self) -> usize {
        self.mutations.len()
    }

    /// The vertex whose home server coordinates the batch in a cluster, so that retries through any server meet at one coordinator and the
    /// batch is applied once. It is the vertex of the first change; of an edge the destination, towards which edges move. `None` for large
    /// and empty batches: all servers have parts of a large one anyhow, so the server that receives it coordinates it.
    pub fn coordinating_vertex(&self) -> Option<VertexId> {
        if self.len() > SMALL_BATCH_MUTATIONS_MAX {
            return None;
        }
        self.mutations.first().map(|m| match &m.op {
            Op::PutEdge { destination, .. } | Op::DeleteEdge { destination, .. } => destination.id,
            op => op.home_vertex(),
        })
    }

    /// Whether the batch has no changes.
    pub fn is_empty(&self) -> bool {
        self.mutations.is_empty()
    }
}

/// Names of the ends of edges, for callers that name vertices by text. An edge stores the ids of its ends, which are hashes of their names:
/// the name of a vertex that nobody inserted would be lost.
#[derive(Debug, Default)]
pub struct NamedEnds {
    mentions: Vec<Mutation>,
    /// Index in `mentions` by vertex.
    indexes: HashMap<VertexId, usize>,
}

impl NamedEnds {
    /// Adds an end of an edge that is inserted at a version. Objects are left out: their names are numbers in their ids.
    pub fn add(&mut self, version: Option<Version>, vertex: VertexRef, key: String) {
        if ObjectId::of_vertex(vertex.id).is_some() {
            return;
        }
        match self.indexes.entry(vertex.id) {
            Entry::Occupied(index) => {
                if let Some(mention) = self.mentions.get_mut(*index.get()) {
                    // No version of its own is the commit's, the latest.
                    let earlier = [mention.version, version].into_iter().flatten().min();
                    mention.version = earlier;
                }
            }
            Entry::Vacant(index) => {
                index.insert(self.mentions.len());
                let op = Op::EnsureVertex { vertex, key };
                self.mentions.push(Mutation { version, op });
            }
        }
    }

    /// Adds a mention of each vertex behind the other mutations of a batch, whose positions stay.
    pub fn append_to(self, batch: &mut Batch) {
        batch.mutations.extend(self.mentions);
    }
}

/// The result of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commit {
    /// The version of all changes without one of their own. A client that sends it with later reads sees its own
    /// writes.
    pub version: Version,
    /// Whether the batch was applied; false if its idempotency key had been applied before.
    pub applied: bool,
    /// Number of vertices that are new, or exist again after a deletion.
    pub vertices_created: u64,
    /// Number of edges that are new, or exist again after a deletion; inverses are not counted.
    pub edges_created: u64,
    /// Number of changes that had no effect because the state was already the requested one.
    pub unchanged: u64,
}
