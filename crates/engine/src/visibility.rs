//! The graph as a principal sees it, with files named by their present paths.
//!
//! A [`View`] reads on behalf of a principal. Vertices of files are keyed by their present paths, and are visible only if the
//! principal may read the file: its mode bits grant it, and those of each directory above grant search permission (what
//! `access(2)` with `R_OK` answers). Objects are visible by their own mode; deleted ones by their last mode. All other vertices are
//! visible to every principal. The rule is in [`esker_model::visibility`]. An invisible vertex does not exist for the principal: its
//! edges are left out, no traversal passes through it, and no count includes it.

use crate::Engine;
use crate::filtered_stats;
use crate::names::CommittedRows;
use crate::names::vertex_paths::{FileState, VertexPaths};
use crate::read::{read_vertex, vertex_record};
use crate::traverse;
use esker_model::namespace::Inode;
use esker_model::object::{ObjectId, Principal};
use esker_model::record::VertexRecord;
use esker_model::traversal::{Budget, TravelResult};
use esker_model::visibility::{Access, ItemAccess, sees};
use esker_model::{
    Cancel, Counts, Degree, DiffSelect, Difference, Edge, EdgeEvent, EdgeKey, EdgeSelect,
    EdgeTypeId, Flow, GraphRead, Result, Schema, Traversal, Version, VersionRange, Vertex,
    VertexEvent, VertexId, VertexSelect, VertexTypeId,
};
use esker_store::Snapshot;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Number of decisions that one call remembers.
const REMEMBERED_MAX: usize = 1 << 16;

/// The graph as a principal sees it. `None` is the owner of the database, who sees everything.
#[derive(Debug, Clone, Copy)]
pub struct View<'e> {
    engine: &'e Engine,
    principal: Option<&'e Principal>,
}

/// The part of one snapshot that a principal may see.
pub(crate) struct Visibility<'s> {
    schema: &'s Schema,
    /// `None` sees everything.
    principal: Option<&'s Principal>,
    read: &'s dyn Snapshot,
    paths: VertexPaths<'s, CommittedRows<'s, dyn Snapshot + 's>>,
    seen: RefCell<HashMap<VertexId, bool>>,
}

impl Visibility<'_> {
    /// Whether any vertex may be hidden.
    pub(crate) fn hides(&self) -> bool {
        self.principal.is_some()
    }

    /// The principal, if any vertex may be hidden from it.
    pub(crate) fn principal(&self) -> Option<&Principal> {
        self.principal
    }

    /// Whether the principal sees a vertex that is not an object, given its type and key if it exists.
    fn sees_other(&self, id: VertexId, vertex: Option<(VertexTypeId, &str)>) -> Result<bool> {
        self.remember(id, || {
            let state = self.paths.state(self.schema, id, vertex)?;
            Ok(state.shows(self.principal))
        })
    }

    fn remember(&self, id: VertexId, decide: impl FnOnce() -> Result<bool>) -> Result<bool> {
        if !self.hides() {
            return Ok(true);
        }
        if let Some(seen) = self.seen.borrow().get(&id) {
            return Ok(*seen);
        }
        let seen = decide()?;
        let mut all = self.seen.borrow_mut();
        if all.len() >= REMEMBERED_MAX {
            all.clear();
        }
        all.insert(id, seen);
        Ok(seen)
    }

    /// Whether the principal sees a vertex, given its id alone.
    pub(crate) fn sees_id(&self, id: VertexId) -> Result<bool> {
        self.remember(id, || {
            let record = vertex_record(self.read, id)?;
            if ObjectId::of_vertex(id).is_some() {
                return Ok(sees(self.principal, self.object(id, record)?));
            }
            let vertex = record.as_ref().map(|r| (r.type_id, r.key.as_str()));
            let state = self.paths.state(self.schema, id, vertex)?;
            Ok(state.shows(self.principal))
        })
    }

    /// Returns what decides who may see an object.
    fn object(&self, id: VertexId, record: Option<VertexRecord>) -> Result<ItemAccess> {
        let attributes = match record {
            None => return Ok(ItemAccess::Vertex),
            Some(record) if record.deleted => {
                // The record of a deleted object no longer has its mode; read the version before.
                let before = Version(record.static_version.0.saturating_sub(1));
                read_vertex(self.read, id, before)?.map(|v| v.attributes)
            }
            Some(record) => Some(record.attributes),
        };
        Ok(ItemAccess::Object(
            attributes.as_ref().map(Access::of_attributes),
        ))
    }

    fn sees_edge(&self, key: &EdgeKey) -> Result<bool> {
        Ok(self.sees_id(key.source)? && self.sees_id(key.destination)?)
    }

    fn sees_vertex(&self, vertex: &Vertex) -> Result<bool> {
        // The present mode decides, not the one at the version read.
        if ObjectId::of_vertex(vertex.id).is_some() {
            return self.sees_id(vertex.id);
        }
        self.sees_other(vertex.id, Some((vertex.type_id, &vertex.key)))
    }

    /// Replaces the key of a file's vertex by its present path.
    pub(crate) fn name(&self, vertex: &mut Vertex) -> Result<()> {
        let of = Some((vertex.type_id, vertex.key.as_str()));
        let state = self.paths.state(self.schema, vertex.id, of)?;
        if let Some(key) = state.key(self.principal) {
            vertex.key = key;
        }
        Ok(())
    }

    /// Returns the vertex with its present path, or `None` if the principal may not see it.
    fn show(&self, mut vertex: Vertex) -> Result<Option<Vertex>> {
        if !self.sees_vertex(&vertex)? {
            return Ok(None);
        }
        self.name(&mut vertex)?;
        Ok(Some(vertex))
    }
}

impl Engine {
    /// Runs `call` with what the principal sees now, or with `None` if all is visible under its stored keys.
    fn with_visibility<T>(
        &self,
        principal: Option<&Principal>,
        call: impl FnOnce(Option<&Visibility<'_>>) -> Result<T>,
    ) -> Result<T> {
        let principal = Principal::limited(principal);
        if principal.is_none() && !self.names.any() {
            return call(None);
        }
        let (snapshot, schema) = (self.store.snapshot()?, self.schema_now());
        let rows = CommittedRows(&*snapshot);
        call(Some(&Visibility {
            schema: &schema,
            principal,
            read: &*snapshot,
            paths: VertexPaths::new(&rows),
            seen: RefCell::default(),
        }))
    }
}

impl Engine {
    /// Returns the inode of each vertex that is a live file; `None` for others. A directory's inode lacks the attributes that
    /// are derived from its entries.
    pub fn inodes_of(&self, vertices: &[Vertex]) -> Result<Vec<Option<Inode>>> {
        self.with_visibility(None, |visibility| {
            let of = |vertex: &Vertex| -> Result<Option<Inode>> {
                let Some(visibility) = visibility else {
                    return Ok(None);
                };
                let of = Some((vertex.type_id, vertex.key.as_str()));
                Ok(
                    match visibility.paths.state(visibility.schema, vertex.id, of)? {
                        FileState::Live(place) => Some(place.into_inode()),
                        FileState::Unknown | FileState::Gone(_) | FileState::Inconsistent => None,
                    },
                )
            };
            vertices.iter().map(of).collect()
        })
    }
}

impl<'e> View<'e> {
    /// Creates a view for a principal.
    pub fn new(engine: &'e Engine, principal: Option<&'e Principal>) -> Self {
        let principal = Principal::limited(principal);
        Self { engine, principal }
    }

    fn with<T>(&self, call: impl FnOnce(Option<&Visibility<'_>>) -> Result<T>) -> Result<T> {
        self.engine.with_visibility(self.principal, call)
    }

    /// Runs `some` with what the principal sees, or `all` if that is everything.
    fn guarded<T>(
        &self,
        all: impl FnOnce() -> Result<T>,
        some: impl FnOnce(&Visibility<'_>) -> Result<T>,
    ) -> Result<T> {
        if self.principal.is_none() {
            return all();
        }
        self.with(|visibility| match visibility {
            Some(visibility) => some(visibility),
            None => all(),
        })
    }
}

/// Records the error of a failed result in `slot`, for use in sinks.
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
        self.with(|visibility| match visibility {
            None => Ok(found),
            Some(visibility) => found
                .into_iter()
                .map(|v| v.map_or(Ok(None), |v| visibility.show(v)))
                .collect(),
        })
    }

    fn read_edges(&self, keys: &[EdgeKey], as_of: Version) -> Result<Vec<Option<Edge>>> {
        let all = || self.engine.read_edges(keys, as_of);
        self.guarded(all, |visibility| {
            let mut found = all()?;
            for edge in &mut found {
                if let Some(e) = edge
                    && !visibility.sees_edge(&e.key)?
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
        if self.principal.is_none() {
            return self.engine.scan_edges(frontier, select, sink);
        }
        self.with(|visibility| {
            let mut error = Ok(());
            self.engine
                .scan_edges(frontier, select, &mut |i, edge| match visibility {
                    Some(visibility) => match keep(&mut error, visibility.sees_edge(&edge.key)) {
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
        self.with(|visibility| {
            let Some(visibility) = visibility else {
                return self.engine.scan_vertices(select, sink);
            };
            let mut error = Ok(());
            self.engine.scan_vertices(select, &mut |vertex| match keep(
                &mut error,
                visibility.show(vertex),
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
        self.guarded(all, |visibility| {
            if visibility.sees_id(id)? {
                all()
            } else {
                Ok(Vec::new())
            }
        })
    }

    fn edge_history(&self, key: EdgeKey, range: VersionRange) -> Result<Vec<EdgeEvent>> {
        let all = || self.engine.edge_history(key, range);
        self.guarded(all, |visibility| {
            if visibility.sees_edge(&key)? {
                all()
            } else {
                Ok(Vec::new())
            }
        })
    }

    fn degrees(&self, of: &[(VertexId, EdgeTypeId)]) -> Result<Vec<u64>> {
        if self.principal.is_none() {
            return self.engine.degrees(of);
        }
        filtered_stats::degrees(self, of)
    }

    /// Counts all edges that a principal sees, which takes as long as reading them.
    fn top_degrees(&self, edge_type: Option<EdgeTypeId>, limit: usize) -> Result<Vec<Degree>> {
        if self.principal.is_none() {
            return self.engine.top_degrees(edge_type, limit);
        }
        filtered_stats::top_degrees(self, edge_type, limit)
    }

    /// Counts everything that a principal sees, which takes as long as reading it.
    fn counts(&self) -> Result<Counts> {
        let counts = self.engine.counts()?;
        if self.principal.is_none() {
            return Ok(counts);
        }
        filtered_stats::counts(self, counts)
    }

    fn diff(&self, select: &DiffSelect, sink: &mut dyn FnMut(Difference) -> Flow) -> Result<()> {
        self.with(|visibility| {
            let Some(visibility) = visibility else {
                return self.engine.diff(select, sink);
            };
            let mut error = Ok(());
            let show = |vertex: Option<Vertex>| vertex.map_or(Ok(None), |v| visibility.show(v));
            self.engine.diff(select, &mut |difference| {
                let shown =
                    match difference {
                        Difference::Vertex(old, new) => show(old).and_then(|old| {
                            let new = show(new)?;
                            Ok((old.is_some() || new.is_some())
                                .then_some(Difference::Vertex(old, new)))
                        }),
                        Difference::Edge(old, new) => {
                            let key = old.as_ref().or(new.as_ref()).map(|e| e.key);
                            key.map_or(Ok(false), |key| visibility.sees_edge(&key))
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
        self.with(|visibility| traverse::run(self.engine, traversal, budget, cancel, visibility))
    }

    fn applied(&self, idempotency_key: &[u8]) -> Result<bool> {
        self.engine.applied(idempotency_key)
    }
}
