//! The graph as a principal sees it, with files named by their present paths.
//!
//! A [`View`] reads on behalf of a principal. Vertices of files are keyed by their present paths, and are visible only if the
//! principal may read the file: its mode bits grant it, and those of each directory above grant search permission (what
//! `access(2)` with `R_OK` answers). Objects are visible by their own mode; deleted ones by their last mode. All other vertices are
//! visible to every principal. A share shows vertices that permissions hide ([`crate::shares`]). The rule is in
//! [`esker_model::visibility`]. An invisible vertex does not exist for the principal: its edges are left out, no traversal passes
//! through it, and no count includes it.

use crate::Engine;
use crate::names::CommittedRows;
use crate::names::vertex_paths::{FileState, VertexPaths};
use crate::read::{read_vertex, vertex_record};
use crate::shares::OpenLineages;
use esker_model::namespace::Inode;
use esker_model::object::{ObjectId, Principal};
use esker_model::record::VertexRecord;
use esker_model::visibility::{Access, ItemAccess, sees};
use esker_model::{EdgeKey, Result, Schema, Version, Vertex, VertexId, VertexTypeId};
use esker_store::Snapshot;
use std::cell::RefCell;
use std::collections::HashMap;

/// Number of decisions that one call remembers.
const REMEMBERED_MAX: usize = 1 << 16;

/// The graph as a principal sees it. `None` is the owner of the database, who sees everything.
#[derive(Debug, Clone, Copy)]
pub struct View<'e> {
    pub(crate) engine: &'e Engine,
    pub(crate) principal: Option<&'e Principal>,
}

/// The part of one snapshot that a principal may see.
pub(crate) struct Visibility<'s> {
    schema: &'s Schema,
    /// `None` sees everything.
    principal: Option<&'s Principal>,
    read: &'s dyn Snapshot,
    paths: VertexPaths<'s, CommittedRows<'s, dyn Snapshot + 's>>,
    /// Shares that are open to the principal.
    shares: OpenLineages,
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
            self.decide(id, &state.item(self.principal))
        })
    }

    /// Decides by the permissions of an item, or by a share that names it.
    fn decide(&self, id: VertexId, item: &ItemAccess) -> Result<bool> {
        Ok(sees(self.principal, item, None)
            || self.shares.of_item(self.read, id, |share| {
                sees(self.principal, item, Some(share))
            })?)
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
        self.remember(id, || self.decide(id, &self.item(id)?))
    }

    /// Returns what decides who may see a vertex, given its id alone.
    pub(crate) fn item(&self, id: VertexId) -> Result<ItemAccess> {
        let record = vertex_record(self.read, id)?;
        if ObjectId::of_vertex(id).is_some() {
            return self.object(id, record);
        }
        let vertex = record.as_ref().map(|r| (r.type_id, r.key.as_str()));
        let state = self.paths.state(self.schema, id, vertex)?;
        Ok(state.item(self.principal))
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

    pub(crate) fn sees_edge(&self, key: &EdgeKey) -> Result<bool> {
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
    pub(crate) fn show(&self, mut vertex: Vertex) -> Result<Option<Vertex>> {
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
        self.with_items(principal, |visibility| call(Some(visibility)))
    }

    /// Runs `call` with what the principal sees now, and what decides it.
    pub(crate) fn with_items<T>(
        &self,
        principal: Option<&Principal>,
        call: impl FnOnce(&Visibility<'_>) -> Result<T>,
    ) -> Result<T> {
        let principal = Principal::limited(principal);
        let shares = self.open_lineages(principal);
        let (snapshot, schema) = (self.store.snapshot()?, self.schema_now());
        let rows = CommittedRows(&*snapshot);
        call(&Visibility {
            schema: &schema,
            principal,
            read: &*snapshot,
            paths: VertexPaths::new(&rows),
            shares,
            seen: RefCell::default(),
        })
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

    pub(crate) fn with<T>(
        &self,
        call: impl FnOnce(Option<&Visibility<'_>>) -> Result<T>,
    ) -> Result<T> {
        self.engine.with_visibility(self.principal, call)
    }

    /// Runs `some` with what the principal sees, or `all` if that is everything.
    pub(crate) fn guarded<T>(
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
