//! Promises of several servers: an answer depends on its entry's row, on its vertex, which may be at home elsewhere, and on directories, which
//! all servers change together.
//!
//! Each server remembers what it has promised itself (`esker_engine`, `names::promise`). Whoever prepares a part of a transaction waits for its
//! own promises first. What is prepared is read by nobody, so between a promise and the answer that it is for nothing changes.

use super::place::View;
use crate::node::Node;
use crate::peer::{Change, NamesCall, NamesReply, Part};
use esker_engine::{Placed as _, RowPlace};
use esker_model::namespace::{Answer, Call, Inode, NamePath};
use esker_model::object::Asker;
use esker_model::{Error, Result, Version, VertexId};
use std::sync::Arc;

/// For so many milliseconds at most a part waits for promises.
const WAIT_MAX: u64 = 100;

impl Node {
    /// A file's attributes, and for how many milliseconds from now on they stay so: 0 where that is not promised. Only the server
    /// that has its entry promises anything.
    pub async fn stat_promised(
        self: &Arc<Self>,
        asker: Option<Asker>,
        path: NamePath,
        follow: bool,
        seen: Version,
    ) -> Result<(Inode, u32)> {
        let promised = self.promise_of(asker.as_ref(), &path, follow).await;
        let call = Call::Stat {
            asker,
            path,
            follow,
        };
        let Answer::Inode(inode) = self.names(call, seen).await? else {
            return Err(Error::Unavailable("an answer to something else".into()));
        };
        // It may have moved to a server that does not know of the promise.
        let here = |entry: &[u8]| View(self).place(entry) == RowPlace::Here;
        let millis = match promised {
            Some((id, entry, millis)) if id == inode.id && here(&entry) => millis,
            _ => 0,
        };
        Ok((inode, millis))
    }

    /// Promises what will be read of a path from now on.
    async fn promise_of(
        self: &Arc<Self>,
        asker: Option<&Asker>,
        path: &NamePath,
        follow: bool,
    ) -> Option<(VertexId, Vec<u8>, u32)> {
        if !self.engine.has_promised() || self.check_serving().is_err() {
            return None;
        }
        let own = self
            .run_spread(|view, fetched| {
                self.engine
                    .promise_spread(asker, (path, follow), view, fetched)
            })
            .await;
        let (id, entry, millis) = own.ok()?.filter(|(_, _, millis)| *millis > 0)?;
        let call = NamesCall::Promise { vertex: id };
        match self.ask_names(self.home(id), call).await {
            Ok(NamesReply::Promised(theirs)) => Some((id, entry, millis.min(theirs))),
            _ => None,
        }
    }

    /// For how many milliseconds something that a part changes is promised to stay as it is.
    pub(crate) fn promised(&self, part: &Part) -> u64 {
        if !self.engine.has_promised() {
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
        self.engine.promised(&rows, &vertices, &[], ways)
    }

    /// Waits a while for what a part changes that is promised. Not for long: who asked waits, too, and comes again.
    pub(crate) async fn let_promises_pass(&self, part: &Part) {
        let millis = self.promised(part);
        if millis > 0 {
            self.host.sleep(millis.min(WAIT_MAX)).await;
        }
    }

    /// For how many milliseconds any server has promised that directories stay as they are. While a change of them is prepared
    /// nobody looks anything up: it is not to wait then.
    pub(super) async fn ways_promised(self: &Arc<Self>) -> u64 {
        if !self.engine.has_promised() {
            return 0;
        }
        match self.ask_names_of_all(&NamesCall::Promised).await {
            Ok(all) => {
                let millis = all.iter().map(|(_, reply)| match reply {
                    NamesReply::Promised(millis) => u64::from(*millis),
                    _ => 0,
                });
                millis.max().unwrap_or(0)
            }
            // Who prepares it is told.
            Err(_) => 0,
        }
    }
}
