//! Shares of lineages: rows in table `meta`, and a copy of all shares in memory without the items that they open.
//!
//! A read on behalf of a principal selects the shares that are open to it once. For a vertex that permissions hide it then looks
//! up one row for each of them, and reads nothing without any. Module `sharing` makes and ends shares.

use esker_model::key::{SHARES_PREFIX, decode_share, shared_item};
use esker_model::object::Principal;
use esker_model::sharing::{OpenShares, ShareId, SharedLineage, item_owner};
use esker_model::visibility::ItemShare;
use esker_model::{Error, Flow, Result, VertexId};
use esker_store::{KeyRange, Snapshot, Store, Table};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// All shares of a database, by number.
#[derive(Debug, Default)]
pub(crate) struct Shares(RwLock<Arc<BTreeMap<ShareId, SharedLineage>>>);

impl Shares {
    /// Reads all shares of a database.
    pub(crate) fn load(store: &dyn Store) -> Result<Self> {
        let (mut all, mut failed) = (BTreeMap::new(), Ok(()));
        store.scan(
            Table::Meta,
            &KeyRange::prefix(SHARES_PREFIX),
            &mut |key, row| {
                let share = decode_share(key).and_then(|id| SharedLineage::decode(id, row));
                match share {
                    Ok(share) => {
                        all.insert(share.id, share);
                        Flow::Continue(())
                    }
                    Err(e) => {
                        failed = Err(Error::corrupt("a share in table `meta`", e));
                        Flow::Break(())
                    }
                }
            },
        )?;
        failed.map(|()| Self(RwLock::new(Arc::new(all))))
    }

    /// Returns all shares, as they are now.
    pub(crate) fn now(&self) -> Arc<BTreeMap<ShareId, SharedLineage>> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the shares that are open to a principal. The time is read only if there are shares.
    pub(crate) fn open_to(
        &self,
        principal: &Principal,
        now_millis: impl FnOnce() -> u64,
    ) -> OpenLineages {
        let all = self.now();
        if all.is_empty() {
            return OpenLineages::default();
        }
        let now_millis = now_millis();
        let open = |s: &&SharedLineage| s.is_for(principal, now_millis);
        OpenLineages {
            shares: all.values().filter(open).cloned().collect(),
            now_millis,
        }
    }

    /// Replaces all shares; the caller holds the write lock.
    pub(crate) fn set(&self, all: BTreeMap<ShareId, SharedLineage>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(all);
    }
}

/// The shares that are open to a principal during one call.
#[derive(Debug, Default)]
pub(crate) struct OpenLineages {
    shares: Vec<SharedLineage>,
    now_millis: u64,
}

impl OpenLineages {
    /// Returns the numbers and versions of the shares.
    pub(crate) fn versions(self) -> OpenShares {
        self.shares.into_iter().map(|s| (s.id, s.made)).collect()
    }

    /// Whether `opens` accepts one of the shares that name an item.
    pub(crate) fn of_item(
        &self,
        read: &dyn Snapshot,
        item: VertexId,
        opens: impl Fn(&ItemShare<'_>) -> bool,
    ) -> Result<bool> {
        for share in &self.shares {
            let mut owner = None;
            read.get_with(Table::Meta, &shared_item(share.id, item), &mut |row| {
                owner = Some(item_owner(row));
            })?;
            let Some(owner) = owner else { continue };
            let named = ItemShare {
                share,
                owner: owner.map_err(|e| Error::corrupt("an item of a share", e))?,
                now_millis: self.now_millis,
            };
            if opens(&named) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
