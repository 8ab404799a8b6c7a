//! Mutations: what a writer asks for, in batches that apply whole or not at all.

use crate::id::{EdgeTypeId, VertexRef};
use crate::object::{Identity, ObjectId};
use crate::value::Properties;
use crate::version::Version;

/// One change.
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// Inserts a vertex, or a new version of it: its predefined attributes become exactly these.
    PutVertex {
        /// Which.
        vertex: VertexRef,
        /// Its external key (the id is made from it).
        key: String,
        /// Predefined attributes, as the schema declares them.
        attributes: Properties,
    },
    /// Makes sure that a vertex exists at that version; changes nothing about one that does. Where it makes one, that is
    /// a mention: it gives way to an insertion at an earlier version that arrives later, so that the order of arrival
    /// does not matter.
    EnsureVertex {
        /// Which.
        vertex: VertexRef,
        /// Its external key.
        key: String,
    },
    /// Sets and removes single predefined attributes of a vertex that exists at that version; the others stay as they are
    /// there. What it is at later versions that are known already does not change.
    ChangeVertex {
        /// Which.
        vertex: VertexRef,
        /// Those to set, as the schema declares them.
        set: Properties,
        /// Those to remove, by name.
        remove: Vec<String>,
    },
    /// Sets and removes user-defined attributes of an existing vertex.
    SetAttributes {
        /// Which.
        vertex: VertexRef,
        /// Those to set.
        set: Properties,
        /// Those to remove, by name.
        remove: Vec<String>,
    },
    /// Marks a vertex as gone. Its past, and its edges (facts about the past), stay.
    DeleteVertex {
        /// Which.
        vertex: VertexRef,
    },
    /// Inserts an edge, or a new version of it, and its inverse.
    PutEdge {
        /// Where it starts.
        source: VertexRef,
        /// Its type.
        edge_type: EdgeTypeId,
        /// Where it ends.
        destination: VertexRef,
        /// Its properties: exactly these.
        properties: Properties,
    },
    /// Marks an edge and its inverse as gone.
    DeleteEdge {
        /// Where it starts.
        source: VertexRef,
        /// Its type.
        edge_type: EdgeTypeId,
        /// Where it ends.
        destination: VertexRef,
    },
    /// Creates an object; refused if there is one with these ID attributes. The database gives it its number. It takes the
    /// commit's version.
    CreateObject {
        /// Its ID attributes.
        identity: Identity,
        /// Other predefined attributes, as the schema declares them for the type `Object`.
        attributes: Properties,
        /// User-defined tags; null is a tag without a value.
        tags: Properties,
    },
    /// Gives an object other ID attributes; refused if another object has them, or if this one no longer has the old ones.
    /// Its tags, edges and history stay with it. It takes the commit's version.
    MoveObject {
        /// Which.
        object: ObjectId,
        /// What it is found by.
        from: Identity,
        /// What it is to be found by.
        to: Identity,
    },
}

/// A change, and when it holds from.
#[derive(Debug, Clone, PartialEq)]
pub struct Mutation {
    /// When it happened, if its source knows; else the commit's own version. A version older than what is
    /// stored goes into the past, where it belongs: order of arrival does not matter.
    pub version: Option<Version>,
    /// The change.
    pub op: Op,
}

/// Changes that apply all or none, and are seen all or none.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Batch {
    /// In order: a later one sees what an earlier one did.
    pub mutations: Vec<Mutation>,
    /// If set: a batch whose marker has been applied before changes nothing. Importers use the identity of
    /// the source, remote clients the identity of the request, so that both can be repeated safely.
    pub once: Option<Vec<u8>>,
}

impl Batch {
    /// An empty batch.
    pub const fn new() -> Self {
        Self {
            mutations: Vec::new(),
            once: None,
        }
    }

    /// Adds a change that holds from the commit on.
    pub fn push(&mut self, op: Op) {
        self.mutations.push(Mutation { version: None, op });
    }

    /// Adds a change that holds from that version on.
    pub fn push_at(&mut self, version: Version, op: Op) {
        self.mutations.push(Mutation {
            version: Some(version),
            op,
        });
    }

    /// Number of changes.
    pub fn len(&self) -> usize {
        self.mutations.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.mutations.is_empty()
    }
}

/// What a commit did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commit {
    /// The version that changes without one of their own took. A client that carries it reads its own writes.
    pub version: Version,
    /// False if the batch's marker said that it had been applied before.
    pub applied: bool,
    /// Vertices that are new (or new again).
    pub vertices_created: u64,
    /// Edges that are new (or new again), inverses not counted.
    pub edges_created: u64,
    /// Changes that found everything as they would have left it.
    pub unchanged: u64,
}
