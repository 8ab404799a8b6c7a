//! Calls about shares of lineages: sharing, revoking, listing.

use crate::Engine;
use crate::shares::OpenLineages;
use crate::txn::{CommitKind, lock};
use esker_model::key::{share as share_key, shared_item, shared_items_prefix};
use esker_model::limits::{SHARE_VERTICES_MAX, SHARES_MAX, SHARES_OF_USER_MAX};
use esker_model::object::Principal;
use esker_model::sharing::{OpenShares, ShareId, SharedLineage, SharingTerms, item_value};
use esker_model::visibility::sees;
use esker_model::{Error, Flow, Result, Version, VertexId};
use esker_store::{KeyRange, Table};
use std::collections::BTreeMap;

impl Engine {
    /// Returns the shares that are open to a principal now.
    pub(crate) fn open_lineages(&self, principal: Option<&Principal>) -> OpenLineages {
        principal.map_or_else(OpenLineages::default, |principal| {
            self.shares.open_to(principal, || self.clock.now_millis())
        })
    }

    /// Returns the numbers and versions of the shares that are open to a principal now, for caches of what it sees.
    pub fn open_shares(&self, principal: Option<&Principal>) -> OpenShares {
        self.open_lineages(Principal::limited(principal)).versions()
    }

    /// Returns the shares that a principal made or that are for it; all of them for the owner of the database.
    pub fn shares(&self, principal: Option<&Principal>) -> Vec<SharedLineage> {
        let now = self.clock.now_millis();
        let concerns = |s: &&SharedLineage| {
            Principal::limited(principal).is_none_or(|p| s.by == Some(p.uid) || s.is_for(p, now))
        };
        self.shares
            .now()
            .values()
            .filter(concerns)
            .cloned()
            .collect()
    }

    /// Shares those of the vertices that are files and objects. A principal shares only what it sees and owns. A share with the
    /// same number is replaced, and shares that have ended are removed.
    pub fn share(
        &self,
        principal: Option<&Principal>,
        mut terms: SharingTerms,
        vertices: &[VertexId],
    ) -> Result<SharedLineage> {
        let principal = Principal::limited(principal);
        let (by, now) = (principal.map(|p| p.uid), self.clock.now_millis());
        terms.normalize(now)?;
        if vertices.len() > SHARE_VERTICES_MAX {
            return Err(Error::Limit {
                what: "a shared lineage's number of vertices".into(),
                got: vertices.len() as u64,
                limit: SHARE_VERTICES_MAX as u64,
            });
        }
        let items = self.items_to_share(principal, vertices)?;
        if items.is_empty() {
            return Err(Error::Invalid(match by {
                Some(uid) => format!(
                    "user {uid} owns no file and no object in this lineage, so there is nothing to share"
                ),
                None => {
                    "this lineage has no files and no objects, so everybody sees it already".into()
                }
            }));
        }
        let mut writer = lock(&self.writer);
        let mut all = (*self.shares.now()).clone();
        let id = terms.id(by);
        let ended = |s: &&SharedLineage| s.id == id || s.has_ended(now);
        let removed: Vec<ShareId> = all.values().filter(ended).map(|s| s.id).collect();
        all.retain(|id, _| !removed.contains(id));
        let own = all.values().filter(|s| by.is_some() && s.by == by).count();
        for (count, most) in [(all.len(), SHARES_MAX), (own, SHARES_OF_USER_MAX)] {
            if count >= most {
                return Err(Error::Limit {
                    what: "the number of shares, for which one must be revoked first,".into(),
                    got: count as u64 + 1,
                    limit: most as u64,
                });
            }
        }
        let removed = removed.iter().map(|id| self.rows_of_share(*id));
        let removed: Vec<Vec<u8>> = removed.collect::<Result<Vec<_>>>()?.concat();
        let mut share = SharedLineage {
            id,
            terms,
            by,
            made: Version::ZERO,
            items: items.len() as u64,
        };
        self.commit(&mut writer, CommitKind::Local, &*self.store, |group| {
            share.made = group.tick();
            for key in &removed {
                group.overlay.remove(Table::Meta, key);
            }
            group
                .overlay
                .put(Table::Meta, share_key(id), share.encode());
            for (item, owner) in &items {
                let key = shared_item(id, *item);
                group.overlay.put(Table::Meta, key, item_value(*owner));
            }
            Ok(())
        })?;
        all.insert(id, share.clone());
        self.shares.set(all);
        drop(writer);
        self.store.persist()?;
        Ok(share)
    }

    /// Ends a share that the principal made, or any share for the owner of the database. Returns the share; `None` for an unknown
    /// number.
    pub fn revoke_share(
        &self,
        principal: Option<&Principal>,
        id: ShareId,
    ) -> Result<Option<SharedLineage>> {
        let mut writer = lock(&self.writer);
        let mut all = (*self.shares.now()).clone();
        let principal = Principal::limited(principal);
        let Some(share) = all
            .remove(&id)
            .filter(|s| principal.is_none_or(|p| s.by == Some(p.uid)))
        else {
            return Ok(None);
        };
        let rows = self.rows_of_share(id)?;
        self.commit(&mut writer, CommitKind::Local, &*self.store, |group| {
            group.tick();
            for key in &rows {
                group.overlay.remove(Table::Meta, key);
            }
            Ok(())
        })?;
        self.shares.set(all);
        drop(writer);
        self.store.persist()?;
        Ok(Some(share))
    }

    /// Returns the files and objects among vertices that a principal may share, each with its owner.
    fn items_to_share(
        &self,
        principal: Option<&Principal>,
        vertices: &[VertexId],
    ) -> Result<BTreeMap<VertexId, i64>> {
        self.with_items(principal, |visibility| {
            let mut items = BTreeMap::new();
            for id in vertices {
                let item = visibility.item(*id)?;
                let Some(owner) = item.owner() else { continue };
                let may = principal.is_none_or(|p| owner == p.uid && sees(principal, &item, None));
                if may {
                    items.insert(*id, owner);
                }
            }
            Ok(items)
        })
    }

    /// Returns the keys of all rows of a share.
    fn rows_of_share(&self, id: ShareId) -> Result<Vec<Vec<u8>>> {
        let mut keys = vec![share_key(id)];
        let items = KeyRange::prefix(&shared_items_prefix(id));
        self.store.scan(Table::Meta, &items, &mut |key, _| {
            keys.push(key.to_vec());
            Flow::Continue(())
        })?;
        Ok(keys)
    }
}
