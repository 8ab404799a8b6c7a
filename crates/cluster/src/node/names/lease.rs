//! Leases over several servers. A cached answer depends on the row of its entry, on its vertex, whose home may be
//! another server, and on directories, which all servers change together.
//!
//! Each server remembers the leases that it has granted itself (`esker_engine`). A participant waits for its own
//! leases before it prepares a part. Prepared rows cannot be read, so nothing changes between granting a lease and
//! the answer that it belongs to.

use super::row_owner::NodeRows;
use crate::node::Node;
use crate::peer::{Change, NamesCall, NamesReply, Part};
use esker_engine::{RowLocation, RowPlacement as _};
use esker_model::namespace::{Answer, Call, Inode, NamePath};
use esker_model::object::Principal;
use esker_model::{Error, Result, Version, VertexId};
use std::sync::Arc;

/// Longest time that a part waits for leases, in milliseconds.
const WAIT_MAX: u64 = 100;

impl Node {
    /// Returns a file's attributes and the duration of the lease on them in milliseconds, 0 for none. Only the server
    /// that has the entry grants leases.
    pub async fn stat_with_lease(
        self: &Arc<Self>,
        principal: Option<Principal>,
        path: NamePath,
        follow: bool,
        seen: Version,
    ) -> Result<(Inode, u32)> {
        let leased = self.lease_path(principal.as_ref(), &path, follow).await;
        let call = Call::Stat {
            principal,
            path,
            follow,
        };
        let Answer::Inode(inode) = self.names(call, seen).await? else {
            return Err(Error::OtherRelease(
                "a response of another kind than the request's: use the same release on all servers"
                    .into(),
            ));
        };
        // The entry may have moved to a server that does not know of the lease.
        let here = |entry: &[u8]| NodeRows(self).locate(entry) == RowLocation::Local;
        let millis = match leased {
            Some((id, entry, millis)) if id == inode.id && here(&entry) => millis,
            _ => 0,
        };
        Ok((inode, millis))
    }

    /// Leases everything that a read of the path depends on.
    async fn lease_path(
        self: &Arc<Self>,
        principal: Option<&Principal>,
        path: &NamePath,
        follow: bool,
    ) -> Option<(VertexId, Vec<u8>, u32)> {
        if !self.engine.has_leases() || self.check_serving().is_err() {
            return None;
        }
        let own = self
            .run_distributed(|rows, fetched| {
                self.own_names()
                    .lease(principal, (path, follow), rows, fetched)
            })
            .await;
        let (id, entry, millis) = own.ok()?.filter(|(_, _, millis)| *millis > 0)?;
        let call = NamesCall::LeaseVertex { vertex: id };
        match self.request_names(self.home(id), call).await {
            Ok(NamesReply::LeaseMillis(theirs)) => Some((id, entry, millis.min(theirs))),
            _ => None,
        }
    }

    /// Longest remaining duration of leases on what a part changes, in milliseconds.
    pub(crate) fn lease_millis(&self, part: &Part) -> u64 {
        if !self.engine.has_leases() {
            return 0;
        }
        let (mut rows, mut vertices, mut ways) = (Vec::new(), Vec::new(), false);
        for op in &part.ops {
            match &op.change {
                Change::Names(names) => {
                    ways |= names.structure;
                    rows.extend(names.rows.iter().map(|row| row.key.clone()));
                }
                Change::Vertex(_) => op.change.depends_on(&mut |id| vertices.push(id)),
                _ => {}
            }
        }
        self.own_names()
            .lease_millis_left(&rows, &vertices, &[], ways)
    }

    /// Waits for leases on what a part changes, but not for long: the coordinator waits, too, and tries again.
    pub(crate) async fn wait_for_leases(&self, part: &Part) {
        let millis = self.lease_millis(part);
        if millis > 0 {
            self.host.sleep(millis.min(WAIT_MAX)).await;
        }
    }

    /// Longest remaining duration of directory leases on any server, in milliseconds. While a directory change is
    /// prepared no lookup can run, so it must not wait then.
    pub(super) async fn directory_lease_millis(self: &Arc<Self>) -> u64 {
        if !self.engine.has_leases() {
            return 0;
        }
        match self.request_names_of_all(&NamesCall::DirectoryLeases).await {
            Ok(all) => {
                let millis = all.iter().map(|(_, reply)| match reply {
                    NamesReply::LeaseMillis(millis) => u64::from(*millis),
                    _ => 0,
                });
                millis.max().unwrap_or(0)
            }
            // The coordinator notices the error when it prepares the change.
            Err(_) => 0,
        }
    }
}
