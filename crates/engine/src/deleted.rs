//! The set of vertices that were ever deleted. It is usually empty, and then a traversal need not read the vertices it reaches.

use crate::read::FirstError;
use esker_model::key::{DELETED_INDEX_PREFIX, IndexKey};
use esker_model::{Error, Flow, Result, VertexId};
use esker_store::{KeyRange, Store, Table};
use foldhash::fast::FixedState;
use std::collections::HashSet;
use std::sync::{PoisonError, RwLock};

/// Largest set kept in memory (16 MiB of ids); beyond it every vertex counts as possibly deleted.
const IN_MEMORY_MAX: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct DeletedVertices(RwLock<DeletedSet>);

#[derive(Debug)]
enum DeletedSet {
    Listed(HashSet<VertexId, FixedState>),
    TooMany,
}

impl DeletedVertices {
    pub(crate) fn load(store: &dyn Store) -> Result<Self> {
        let mut these = HashSet::with_hasher(FixedState::default());
        let mut error = FirstError::default();
        store.scan(
            Table::Index,
            &KeyRange::prefix(&DELETED_INDEX_PREFIX),
            &mut |key, _| {
                let corrupt = |e| Error::corrupt("a row of table `index`", e);
                if let IndexKey::Deleted(id) = error.keep(IndexKey::decode(key).map_err(corrupt))? {
                    these.insert(id);
                }
                if these.len() > IN_MEMORY_MAX {
                    Flow::Break(())
                } else {
                    Flow::Continue(())
                }
            },
        )?;
        error.into_result()?;
        let known = if these.len() > IN_MEMORY_MAX {
            DeletedSet::TooMany
        } else {
            DeletedSet::Listed(these)
        };
        Ok(Self(RwLock::new(known)))
    }

    /// Adds vertices, before their deletion becomes visible.
    pub(crate) fn add(&self, ids: &[VertexId]) {
        if ids.is_empty() {
            return;
        }
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let DeletedSet::Listed(these) = &mut *known {
            these.extend(ids);
            if these.len() > IN_MEMORY_MAX {
                *known = DeletedSet::TooMany;
            }
        }
    }

    /// Whether no vertex was ever deleted.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(&*self.0.read().unwrap_or_else(PoisonError::into_inner), DeletedSet::Listed(t) if t.is_empty())
    }

    /// Whether a vertex may have been deleted at some time.
    pub(crate) fn may_contain(&self, id: VertexId) -> bool {
        match &*self.0.read().unwrap_or_else(PoisonError::into_inner) {
            DeletedSet::Listed(these) => these.contains(&id),
            DeletedSet::TooMany => true,
        }
    }
}
