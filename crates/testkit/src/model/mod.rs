//! The reference model: a versioned graph as a plain list of all events.
//!
//! It was written from the documentation of `esker_model::mutation` and `esker_model::graph`, not from the engine:
//! there is no current or superseded state, no cache and no counter. Every call is answered by examining all events.
//! Only an edge's defined direction is stored; the inverse is computed on demand.
//!
//! Mutations are in `apply`, reads in `read` and `travel`.

mod apply;
mod read;
mod travel;

pub use apply::{Applied, Refusal};
pub use travel::{Node, TraversalAnswer};

use esker_model::{EdgeKey, Properties, Schema, Value, Version, VertexId, VertexTypeId};
use std::collections::{BTreeMap, BTreeSet};

/// The state that began at a version, or (`None`) the end of the item.
#[derive(Debug, Clone, PartialEq)]
pub struct Event<T> {
    /// New value; `None` is a deletion or removal.
    pub value: Option<T>,
    /// Whether compaction has moved the event to the archive.
    pub archived: bool,
    /// Whether the event is an insertion that only made sure that the vertex exists.
    pub mention: bool,
}

/// All events of one item, by version.
#[derive(Debug, Clone, PartialEq)]
pub struct Timeline<T>(pub BTreeMap<Version, Event<T>>);

impl<T> Default for Timeline<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> Timeline<T> {
    /// Returns the state as of a version: since when, and the value (`None` if deleted). `None` if no event had happened.
    pub fn as_of(&self, version: Version) -> Option<(Version, Option<&T>)> {
        let (v, e) = self.0.iter().rfind(|(v, _)| **v <= version)?;
        Some((*v, e.value.as_ref()))
    }

    /// Whether the item exists as of a version.
    pub fn alive(&self, version: Version) -> bool {
        matches!(self.as_of(version), Some((_, Some(_))))
    }

    /// Returns the version of the newest event.
    pub fn newest(&self) -> Option<Version> {
        self.0.keys().next_back().copied()
    }

    /// Adds an event; replaces one at the same version.
    pub fn note(&mut self, version: Version, value: Option<T>) {
        self.0.insert(
            version,
            Event {
                value,
                archived: false,
                mention: false,
            },
        );
    }

    /// Archives events that no read as of `since` or later can see.
    fn archive(&mut self, since: Version) {
        let mut successor: Option<Version> = None;
        for (version, event) in self.0.iter_mut().rev().filter(|(_, e)| !e.archived) {
            event.archived = successor.is_some_and(|s| s <= since);
            successor = Some(*version);
        }
    }
}

/// All events of a vertex.
#[derive(Debug, Clone, PartialEq)]
pub struct VertexFacts {
    /// Type of the vertex.
    pub type_id: VertexTypeId,
    /// External key of the vertex.
    pub key: String,
    /// Earliest version at which the vertex was ever inserted.
    pub first: Version,
    /// Insertions, new versions and deletions.
    pub statics: Timeline<Properties>,
    /// User-defined attributes by name.
    pub attributes: BTreeMap<String, Timeline<Value>>,
}

impl VertexFacts {
    fn now(&self) -> Option<Version> {
        self.statics.newest()
    }

    fn gone_now(&self) -> bool {
        !self.statics.alive(Version::MAX)
    }

    /// Version of the newest event of the vertex and its attributes.
    fn latest(&self) -> Version {
        let attributes = self.attributes.values().filter_map(Timeline::newest);
        attributes
            .chain(self.statics.newest())
            .max()
            .unwrap_or(Version::ZERO)
    }
}

/// Reference model of a versioned graph.
#[derive(Debug, Clone, PartialEq)]
pub struct GraphModel {
    /// Schema of the graph.
    pub schema: Schema,
    /// All vertices that were ever inserted.
    pub vertices: BTreeMap<VertexId, VertexFacts>,
    /// All edges that were ever inserted, in their defined direction (symmetric ones from the smaller id).
    pub edges: BTreeMap<EdgeKey, Timeline<Properties>>,
    /// Idempotency keys of applied batches.
    pub applied_keys: BTreeSet<Vec<u8>>,
}

impl GraphModel {
    /// Creates an empty graph.
    pub fn new(schema: Schema) -> Self {
        Self {
            schema,
            vertices: BTreeMap::new(),
            edges: BTreeMap::new(),
            applied_keys: BTreeSet::new(),
        }
    }

    /// The key under which an edge is stored.
    fn defined(&self, key: EdgeKey) -> EdgeKey {
        let inverse = self.schema.inverse(key.edge_type);
        let symmetric = inverse == key.edge_type;
        let forward = self
            .schema
            .edge_type(key.edge_type)
            .is_some_and(|t| t.forward);
        let as_it_is = if symmetric {
            key.source <= key.destination
        } else {
            forward
        };
        if as_it_is { key } else { key.reversed(inverse) }
    }

    /// Archives events that no read as of `since` or later can see. Only histories show the difference.
    pub fn compact(&mut self, since: Version) {
        for vertex in self.vertices.values_mut() {
            vertex.statics.archive(since);
            vertex
                .attributes
                .values_mut()
                .for_each(|t| t.archive(since));
        }
        self.edges.values_mut().for_each(|t| t.archive(since));
    }

    /// Returns all versions of events.
    pub fn versions(&self) -> BTreeSet<Version> {
        let mut all = BTreeSet::new();
        for vertex in self.vertices.values() {
            all.extend(vertex.statics.0.keys());
            all.extend(vertex.attributes.values().flat_map(|t| t.0.keys()));
        }
        all.extend(self.edges.values().flat_map(|t| t.0.keys()));
        all
    }
}
