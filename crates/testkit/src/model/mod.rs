//! The reference model: a versioned graph as a plain list of everything that happened.
//!
//! Written from the documentation of `esker_model::mutation` and `esker_model::graph`, not from the engine: nothing is
//! current, nothing superseded, nothing cached, there are no counters. Every question is answered by looking at all
//! events. Only an edge's defined direction is kept; its inverse is made when asked for.
//!
//! What happens in [`apply`], what is asked in [`read`] and [`travel`].

mod apply;
mod read;
mod travel;

pub use apply::{Applied, Refusal};
pub use travel::{Node, TravelAnswer};

use esker_model::{EdgeKey, Properties, Schema, Value, Version, VertexId, VertexTypeId};
use std::collections::{BTreeMap, BTreeSet};

/// What something became at a version, or (`None`) that it ended there.
#[derive(Debug, Clone, PartialEq)]
pub struct Event<T> {
    /// The value; `None` is a deletion or removal.
    pub value: Option<T>,
    /// Whether compaction has moved it to the archive.
    pub archived: bool,
    /// An insertion that only made sure that the vertex is there.
    pub mention: bool,
}

/// Everything that happened to one thing.
#[derive(Debug, Clone, PartialEq)]
pub struct Timeline<T>(pub BTreeMap<Version, Event<T>>);

impl<T> Default for Timeline<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> Timeline<T> {
    /// What it is as of a version: when it became that, and what (`None`: gone). `None` if nothing had happened.
    pub fn as_of(&self, version: Version) -> Option<(Version, Option<&T>)> {
        let (v, e) = self.0.iter().rfind(|(v, _)| **v <= version)?;
        Some((*v, e.value.as_ref()))
    }

    /// Whether it exists as of a version.
    pub fn alive(&self, version: Version) -> bool {
        matches!(self.as_of(version), Some((_, Some(_))))
    }

    /// The version of the newest event.
    pub fn newest(&self) -> Option<Version> {
        self.0.keys().next_back().copied()
    }

    /// Takes note; what happened at the same version before is replaced.
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

    /// Archives what nobody can see as of `since` or later.
    fn archive(&mut self, since: Version) {
        let mut successor: Option<Version> = None;
        for (version, event) in self.0.iter_mut().rev().filter(|(_, e)| !e.archived) {
            event.archived = successor.is_some_and(|s| s <= since);
            successor = Some(*version);
        }
    }
}

/// Everything that happened to a vertex.
#[derive(Debug, Clone, PartialEq)]
pub struct VertexFacts {
    /// Its type.
    pub type_id: VertexTypeId,
    /// Its external key.
    pub key: String,
    /// The earliest version at which it was ever inserted.
    pub first: Version,
    /// Insertions, new versions, deletions.
    pub statics: Timeline<Properties>,
    /// User-defined attributes.
    pub attributes: BTreeMap<String, Timeline<Value>>,
}

impl VertexFacts {
    fn now(&self) -> Option<Version> {
        self.statics.newest()
    }

    fn gone_now(&self) -> bool {
        !self.statics.alive(Version::MAX)
    }

    /// The version of the newest event of any of its parts.
    fn latest(&self) -> Version {
        let attributes = self.attributes.values().filter_map(Timeline::newest);
        attributes
            .chain(self.statics.newest())
            .max()
            .unwrap_or(Version::ZERO)
    }
}

/// A versioned graph.
#[derive(Debug, Clone, PartialEq)]
pub struct GraphModel {
    /// Its schema.
    pub schema: Schema,
    /// All vertices that were ever inserted.
    pub vertices: BTreeMap<VertexId, VertexFacts>,
    /// All edges that were ever inserted, in their defined direction (symmetric ones from the smaller id).
    pub edges: BTreeMap<EdgeKey, Timeline<Properties>>,
    /// Markers of batches that were applied.
    pub markers: BTreeSet<Vec<u8>>,
}

impl GraphModel {
    /// An empty graph.
    pub fn new(schema: Schema) -> Self {
        Self {
            schema,
            vertices: BTreeMap::new(),
            edges: BTreeMap::new(),
            markers: BTreeSet::new(),
        }
    }

    /// The key that an edge is kept under.
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

    /// Moves what nobody sees as of `since` or later into the archive. Histories say so of it, and nothing else does.
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

    /// All versions that anything happened at.
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
