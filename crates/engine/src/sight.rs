//! What someone sees of the graph, and by which names.
//!
//! A [`View`] reads for somebody. Vertices that are files of the namespace go by their present paths, and show only if the
//! asker may read them: their mode bits say so, and those of each directory above them let the asker through (what
//! `access(2)` with `R_OK` answers). Objects show by their own mode, by the last that they had once they are deleted. Whatever else
//! the graph holds, everybody sees. The rule is in [`esker_model::visibility`]. What is not seen is not there: an edge to it does not
//! show, no walk leads through it, and nothing counts it.

use crate::Engine;
use crate::names::places::{Known, Places};
use crate::names::{Committed, file_kind};
use crate::read::{read_vertex, vertex_record};
use crate::seen;
use crate::traverse;
use esker_model::namespace::Inode;
use esker_model::object::{Asker, ObjectId};
use esker_model::traversal::{Budget, TravelResult};
use esker_model::visibility::{Access, READ};
use esker_model::{
    Cancel, Counts, Degree, Difference, Edge, EdgeEvent, EdgeKey, EdgeSelect, EdgeTypeId, Flow,
    GraphRead, Properties, Result, Schema, Traversal, Version, VersionRange, Vertex, VertexEvent,
    VertexId, VertexSelect, VertexTypeId,
};
use esker_store::Snapshot;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The graph as someone sees it. `None` is whoever owns the database, and sees all.
#[derive(Debug, Clone, Copy)]
pub struct View<'e> {
    engine: &'e Engine,
    asker: Option<&'e Asker>,
}

/// What someone sees at one moment.
pub(crate) struct Sight<'s> {
    schema: &'s Schema,
    /// `None` sees all.
    asker: Option<&'s Asker>,
    read: &'s dyn Snapshot,
    places: Places<'s, Committed<'s, dyn Snapshot + 's>>,
    seen: RefCell<HashMap<VertexId, bool>>,
}

impl Sight<'_> {
    /// Whether something may be hidden.
    pub(crate) fn hides(&self) -> bool {
        self.asker.is_some()
    }

    /// On whose behalf, if something may be hidden from them.
    pub(crate) fn asker(&self) -> Option<&Asker> {
        self.asker
    }

    /// Whether the asker sees a vertex of which this is known.
    fn sees(
        &self,
        id: VertexId,
        type_id: VertexTypeId,
        key: &str,
        own: &Properties,
    ) -> Result<bool> {
        let Some(asker) = self.asker else {
            return Ok(true);
        };
        if let Some(seen) = self.seen.borrow().get(&id) {
            return Ok(*seen);
        }
        let seen = if ObjectId::of_vertex(id).is_some() {
            Access::of_attributes(own).lets(Some(asker), READ)
        } else {
            match file_kind(self.schema, type_id) {
                None => true,
                Some(kind) => self.places.of(id, kind, key)?.shows(self.asker),
            }
        };
        self.seen.borrow_mut().insert(id, seen);
        Ok(seen)
    }

    /// The same for a vertex of which only the id is known.
    pub(crate) fn sees_id(&self, id: VertexId) -> Result<bool> {
        let Some(asker) = self.asker else {
            return Ok(true);
        };
        if let Some(seen) = self.seen.borrow().get(&id) {
            return Ok(*seen);
        }
        let record = vertex_record(self.read, id)?;
        let seen = match record {
            Some(record) if record.gone && ObjectId::of_vertex(id).is_some() => {
                // What was deleted says no more whose it was.
                let before = Version(record.static_version.0.saturating_sub(1));
                read_vertex(self.read, id, before)?
                    .is_some_and(|v| Access::of_attributes(&v.attributes).lets(Some(asker), READ))
            }
            Some(record) => {
                return self.sees(id, record.type_id, &record.key, &record.attributes);
            }
            None => {
                let known = self.places.by_whereabouts(id)?;
                known.is_none_or(|known| known.shows(self.asker))
            }
        };
        self.seen.borrow_mut().insert(id, seen);
        Ok(seen)
    }

    fn sees_edge(&self, key: &EdgeKey) -> Result<bool> {
        Ok(self.sees_id(key.source)? && self.sees_id(key.destination)?)
    }

    fn sees_vertex(&self, vertex: &Vertex) -> Result<bool> {
        // What decides is what is now, not what was at the time asked for.
        if ObjectId::of_vertex(vertex.id).is_some() {
            return self.sees_id(vertex.id);
        }
        self.sees(vertex.id, vertex.type_id, &vertex.key, &vertex.attributes)
    }

    /// Gives a file's vertex its present path as key.
    pub(crate) fn name(&self, vertex: &mut Vertex) -> Result<()> {
        if let Some(kind) = file_kind(self.schema, vertex.type_id)
            && let Some(key) = self
                .places
                .of(vertex.id, kind, &vertex.key)?
                .key(self.asker)
        {
            vertex.key = key;
        }
        Ok(())
    }

    /// The vertex as the asker sees it, if they do.
    fn show(&self, mut vertex: Vertex) -> Result<Option<Vertex>> {
        if !self.sees_vertex(&vertex)? {
            return Ok(None);
        }
        self.name(&mut vertex)?;
        Ok(Some(vertex))
    }
}

impl Engine {
    /// Calls with what someone sees now, or with nothing where that is everything, by the names that are stored.
    fn with_sight<T>(
        &self,
        asker: Option<&Asker>,
        call: impl FnOnce(Option<&Sight<'_>>) -> Result<T>,
    ) -> Result<T> {
        let asker = Asker::limited(asker);
        if asker.is_none() && !self.names.any() {
            return call(None);
        }
        let (snapshot, schema) = (self.store.snapshot()?, self.schema_now());
        let rows = Committed(&*snapshot);
        call(Some(&Sight {
            schema: &schema,
            asker,
            read: &*snapshot,
            places: Places::new(&rows),
            seen: RefCell::default(),
        }))
    }
}

impl Engine {
    /// What files are, of which these are vertices: nothing of those that are no files, or are gone. Of a directory without what
    /// follows from its entries.
    pub fn inodes_of(&self, vertices: &[Vertex]) -> Result<Vec<Option<Inode>>> {
        self.with_sight(None, |sight| {
            let of = |vertex: &Vertex| -> Result<Option<Inode>> {
                let Some(sight) = sight else { return Ok(None) };
                let Some(kind) = file_kind(sight.schema, vertex.type_id) else {
                    return Ok(None);
                };
                Ok(match sight.places.of(vertex.id, kind, &vertex.key)? {
                    Known::Here(place) => Some(place.into_inode()),
                    Known::Nothing | Known::Gone(_) | Known::Lost => None,
                })
            };
            vertices.iter().map(of).collect()
        })
    }
}

impl<'e> View<'e> {
    /// For somebody.
    pub fn new(engine: &'e Engine, asker: Option<&'e Asker>) -> Self {
        let asker = Asker::limited(asker);
        Self { engine, asker }
    }

    fn with<T>(&self, call: impl FnOnce(Option<&Sight<'_>>) -> Result<T>) -> Result<T> {
        self.engine.with_sight(self.asker, call)
    }

    /// Calls with what the asker sees, if that is not everything.
    fn guarded<T>(
        &self,
        all: impl FnOnce() -> Result<T>,
        some: impl FnOnce(&Sight<'_>) -> Result<T>,
    ) -> Result<T> {
        if self.asker.is_none() {
            return all();
        }
        self.with(|sight| match sight {
            Some(sight) => some(sight),
            None => all(),
        })
    }
}

/// Keeps the first error that a sink meets.
fn keep<T>(slot: &mut Result<()>, result: Result<T>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(e) => {
            *slot = Err(e);
            None
        }
    }
}

impl GraphRead for View<'_> {
    fn schema(&self) -> Result<Arc<Schema>> {
        self.engine.schema()
    }

    fn read_vertices(&self, ids: &[VertexId], as_of: Version) -> Result<Vec<Option<Vertex>>> {
        let found = self.engine.read_vertices(ids, as_of)?;
        self.with(|sight| match sight {
            None => Ok(found),
            Some(sight) => found
                .into_iter()
                .map(|v| v.map_or(Ok(None), |v| sight.show(v)))
                .collect(),
        })
    }

    fn read_edges(&self, keys: &[EdgeKey], as_of: Version) -> Result<Vec<Option<Edge>>> {
        let all = || self.engine.read_edges(keys, as_of);
        self.guarded(all, |sight| {
            let mut found = all()?;
            for edge in &mut found {
                if let Some(e) = edge
                    && !sight.sees_edge(&e.key)?
                {
                    *edge = None;
                }
            }
            Ok(found)
        })
    }

    fn scan_edges(
        &self,
        frontier: &[VertexId],
        select: &EdgeSelect,
        sink: &mut dyn FnMut(usize, Edge) -> Flow,
    ) -> Result<()> {
        if self.asker.is_none() {
            return self.engine.scan_edges(frontier, select, sink);
        }
        self.with(|sight| {
            let mut error = Ok(());
            self.engine
                .scan_edges(frontier, select, &mut |i, edge| match sight {
                    Some(sight) => match keep(&mut error, sight.sees_edge(&edge.key)) {
                        Some(true) => sink(i, edge),
                        Some(false) => ControlFlow::Continue(()),
                        None => ControlFlow::Break(()),
                    },
                    None => sink(i, edge),
                })?;
            error
        })
    }

    fn scan_vertices(
        &self,
        select: &VertexSelect,
        sink: &mut dyn FnMut(Vertex) -> Flow,
    ) -> Result<()> {
        self.with(|sight| {
            let Some(sight) = sight else {
                return self.engine.scan_vertices(select, sink);
            };
            let mut error = Ok(());
            self.engine.scan_vertices(select, &mut |vertex| match keep(
                &mut error,
                sight.show(vertex),
            ) {
                Some(Some(vertex)) => sink(vertex),
                Some(None) => ControlFlow::Continue(()),
                None => ControlFlow::Break(()),
            })?;
            error
        })
    }

    fn vertex_history(&self, id: VertexId, range: VersionRange) -> Result<Vec<VertexEvent>> {
        let all = || self.engine.vertex_history(id, range);
        self.guarded(all, |sight| {
            if sight.sees_id(id)? {
                all()
            } else {
                Ok(Vec::new())
            }
        })
    }

    fn edge_history(&self, key: EdgeKey, range: VersionRange) -> Result<Vec<EdgeEvent>> {
        let all = || self.engine.edge_history(key, range);
        self.guarded(all, |sight| {
            if sight.sees_edge(&key)? {
                all()
            } else {
                Ok(Vec::new())
            }
        })
    }

    fn degrees(&self, of: &[(VertexId, EdgeTypeId)]) -> Result<Vec<u64>> {
        if self.asker.is_none() {
            return self.engine.degrees(of);
        }
        seen::degrees(self, of)
    }

    /// For an asker, all that they see is counted, which takes as long as reading it.
    fn top_degrees(&self, edge_type: Option<EdgeTypeId>, limit: usize) -> Result<Vec<Degree>> {
        if self.asker.is_none() {
            return self.engine.top_degrees(edge_type, limit);
        }
        seen::top_degrees(self, edge_type, limit)
    }

    /// For an asker, all that they see is counted, which takes as long as reading it.
    fn counts(&self) -> Result<Counts> {
        let counts = self.engine.counts()?;
        if self.asker.is_none() {
            return Ok(counts);
        }
        seen::counts(self, counts)
    }

    fn diff(
        &self,
        before: Version,
        after: Version,
        sink: &mut dyn FnMut(Difference) -> Flow,
    ) -> Result<()> {
        self.with(|sight| {
            let Some(sight) = sight else {
                return self.engine.diff(before, after, sink);
            };
            let mut error = Ok(());
            let show = |vertex: Option<Vertex>| vertex.map_or(Ok(None), |v| sight.show(v));
            self.engine.diff(before, after, &mut |difference| {
                let shown =
                    match difference {
                        Difference::Vertex(old, new) => show(old).and_then(|old| {
                            let new = show(new)?;
                            Ok((old.is_some() || new.is_some())
                                .then_some(Difference::Vertex(old, new)))
                        }),
                        Difference::Edge(old, new) => {
                            let key = old.as_ref().or(new.as_ref()).map(|e| e.key);
                            key.map_or(Ok(false), |key| sight.sees_edge(&key))
                                .map(|seen| seen.then_some(Difference::Edge(old, new)))
                        }
                    };
                match keep(&mut error, shown) {
                    Some(Some(difference)) => sink(difference),
                    Some(None) => ControlFlow::Continue(()),
                    None => ControlFlow::Break(()),
                }
            })?;
            error
        })
    }

    fn travel(
        &self,
        traversal: &Traversal,
        budget: &Budget,
        cancel: &dyn Cancel,
    ) -> Result<TravelResult> {
        self.with(|sight| traverse::run(self.engine, traversal, budget, cancel, sight))
    }

    fn applied(&self, once: &[u8]) -> Result<bool> {
        self.engine.applied(once)
    }
}
