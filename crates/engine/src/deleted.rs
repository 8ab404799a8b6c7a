//! Vertices that were ever deleted: few, usually none, and then a traversal need not look at the vertices it reaches.

use crate::read::FirstError;
use esker_model::codec::Reader;
use esker_model::key::DELETED_INDEX_PREFIX;
use esker_model::{Error, Flow, Result, VertexId};
use esker_store::{KeyRange, Store, Table};
use foldhash::fast::FixedState;
use std::collections::HashSet;
use std::sync::{PoisonError, RwLock};

/// Kept in memory up to this many; beyond it every vertex counts as perhaps deleted (16 MiB of ids).
const IN_MEMORY_MAX: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct DeletedVertices(RwLock<Known>);

#[derive(Debug)]
enum Known {
    These(HashSet<VertexId, FixedState>),
    Many,
}

impl DeletedVertices {
    pub(crate) fn load(store: &dyn Store) -> Result<Self> {
        let mut these = HashSet::with_hasher(FixedState::default());
        let mut error = FirstError::default();
        store.scan(
            Table::Index,
            &KeyRange::prefix(&DELETED_INDEX_PREFIX),
            &mut |key, _| {
                let mut r = Reader::new(key);
                let id = r.u8("an index marker").and_then(|_| r.array("a vertex id"));
                these.insert(VertexId(
                    error.keep(id.map_err(|e| Error::corrupt("a row of table `index`", e)))?,
                ));
                if these.len() > IN_MEMORY_MAX {
                    Flow::Break(())
                } else {
                    Flow::Continue(())
                }
            },
        )?;
        error.into_result()?;
        let known = if these.len() > IN_MEMORY_MAX {
            Known::Many
        } else {
            Known::These(these)
        };
        Ok(Self(RwLock::new(known)))
    }

    /// Adds vertices, before their deletion becomes visible.
    pub(crate) fn add(&self, ids: &[VertexId]) {
        if ids.is_empty() {
            return;
        }
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Known::These(these) = &mut *known {
            these.extend(ids);
            if these.len() > IN_MEMORY_MAX {
                *known = Known::Many;
            }
        }
    }

    /// Whether no vertex was ever deleted.
    pub(crate) fn none(&self) -> bool {
        matches!(&*self.0.read().unwrap_or_else(PoisonError::into_inner), Known::These(t) if t.is_empty())
    }

    /// Whether a vertex may have been deleted at some time.
    pub(crate) fn maybe(&self, id: VertexId) -> bool {
        match &*self.0.read().unwrap_or_else(PoisonError::into_inner) {
            Known::These(these) => these.contains(&id),
            Known::Many => true,
        }
    }
}
