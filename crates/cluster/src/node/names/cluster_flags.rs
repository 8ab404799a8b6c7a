//! Flags that all servers share: whether any files exist, and whether the graph has vertices of files.
//!
//! No server is asked about files before the first one exists. So the server that makes the first one announces it to all
//! others before, once; a starting server exchanges flags with all others.

use crate::node::Node;
use crate::node::peers::unexpected;
use crate::peer::{ClusterFlags, NamesCall, NamesReply};
use crate::vnode::ServerId;
use esker_model::{Op, Result};
use futures_util::future::join_all;
use std::sync::Arc;

/// Flag: a namespace exists.
pub(crate) const FILES: u8 = 1;
/// Flag: the graph has vertices of files.
pub(crate) const VERTICES: u8 = 2;

impl Node {
    /// Whether a flag may be set on any server.
    pub(crate) fn has_flag(&self, flag: u8) -> bool {
        self.state().flags.known & flag != 0
    }

    /// Sets the flags that follow from this server's own rows. Must be called before the server joins the others.
    pub(crate) fn load_flags(&self) {
        let (files, vertices) = self.own_names().has_files();
        let own = (u8::from(files) * FILES) | (u8::from(vertices) * VERTICES);
        self.state().flags.known |= own;
    }

    /// Merges another server's flags; returns the result.
    pub(super) fn merge_flags(&self, theirs: ClusterFlags) -> ClusterFlags {
        let known = {
            let mut state = self.state();
            state.flags.known |= theirs.known;
            state.flags.known_by_all |= theirs.known_by_all;
            state.flags
        };
        self.own_names()
            .note_files(known.known & FILES != 0, known.known & VERTICES != 0);
        known
    }

    /// Sets a flag and announces it to all servers, unless all are known to have it.
    pub(crate) async fn announce_flag(self: &Arc<Self>, flag: u8) -> Result<()> {
        let all_have = |node: &Self| node.state().flags.known_by_all & flag == flag;
        if all_have(self) {
            return Ok(());
        }
        let servers = self.map.servers().to_vec();
        let results = servers
            .iter()
            .map(|server| self.exchange_flags(*server, flag));
        let results = join_all(results).await;
        if all_have(self) {
            return Ok(());
        }
        results.into_iter().collect::<Result<()>>()?;
        self.state().flags.known_by_all |= flag;
        // A second exchange makes the announcement unnecessary on the others, even if a server is down later.
        self.spawn(|node| async move {
            let others = servers.iter().filter(|s| **s != node.settings.id);
            join_all(others.map(|server| node.exchange_flags(*server, 0))).await;
        });
        Ok(())
    }

    /// Announces all flags that are set here to the servers that are up.
    pub(crate) async fn announce_all_flags(self: &Arc<Self>) {
        let known = self.state().flags.known;
        // If it fails, the server that makes the first change tries again.
        let _ = self.announce_flag(known).await;
    }

    /// Sends flags to a server, and merges its flags.
    pub(crate) async fn exchange_flags(self: &Arc<Self>, server: ServerId, flag: u8) -> Result<()> {
        let news = ClusterFlags {
            known: flag,
            known_by_all: 0,
        };
        let known = self.merge_flags(news);
        match self
            .request_names(server, NamesCall::ExchangeFlags(known))
            .await?
        {
            NamesReply::Flags(theirs) => {
                self.merge_flags(theirs);
                Ok(())
            }
            _ => Err(unexpected(server)),
        }
    }

    /// Announces the flag for vertices of files if one of the operations makes such a vertex.
    pub(crate) async fn announce_file_vertices<'o>(
        self: &Arc<Self>,
        ops: impl Iterator<Item = &'o Op>,
    ) -> Result<()> {
        if self.state().flags.known_by_all & VERTICES != 0 {
            return Ok(());
        }
        let mut makes = ops.filter_map(|op| match op {
            Op::PutVertex { vertex, .. } | Op::EnsureVertex { vertex, .. } => Some(vertex.type_id),
            _ => None,
        });
        if makes.any(|type_id| self.own_names().is_file_type(type_id)) {
            self.announce_flag(VERTICES).await?;
        }
        Ok(())
    }
}
