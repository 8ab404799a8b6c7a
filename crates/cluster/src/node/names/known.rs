//! What every server knows of all: whether there are files at all, and whether the graph has vertices of files.
//!
//! Where there are none, nobody asks others about them. So whoever makes the first one tells all others before, once; a server
//! that starts exchanges with all what they know.

use crate::node::Node;
use crate::node::peers::unexpected;
use crate::peer::{NamesCall, NamesReply};
use esker_model::{Op, Result};
use futures_util::future::join_all;
use std::sync::Arc;

/// There is a namespace.
pub(crate) const FILES: u64 = 1;
/// The graph has vertices of files.
pub(crate) const VERTICES: u64 = 2;

/// What a node knows, in bits.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// What is so somewhere.
    heard: u64,
    /// What all others have heard, too.
    told: u64,
}

impl Node {
    /// Whether something may be so somewhere.
    pub(crate) fn has_heard(&self, what: u64) -> bool {
        self.state().known.heard & what != 0
    }

    /// What this server's own rows say. To be called before it joins the others.
    pub(crate) fn look_at_names(&self) {
        let (files, vertices) = self.engine.knows_files();
        let own = (u64::from(files) * FILES) | (u64::from(vertices) * VERTICES);
        self.state().known.heard |= own;
    }

    /// Takes note of what another server knows; says what is known here.
    pub(super) fn hear(&self, what: u64) -> u64 {
        let heard = {
            let mut state = self.state();
            state.known.heard |= what;
            state.known.heard
        };
        self.engine
            .note_files(heard & FILES != 0, heard & VERTICES != 0);
        heard
    }

    /// From now on something is so: all servers are told, if they were not.
    pub(crate) async fn tell_all(self: &Arc<Self>, what: u64) -> Result<()> {
        if self.state().known.told & what == what {
            return Ok(());
        }
        let servers = self.map.servers().to_vec();
        let told = servers
            .iter()
            .map(|server| self.exchange_known(*server, what));
        for done in join_all(told).await {
            done?;
        }
        self.state().known.told |= what;
        Ok(())
    }

    /// Tells a server what is known here, and learns what is known there.
    pub(crate) async fn exchange_known(
        self: &Arc<Self>,
        server: crate::vnode::ServerId,
        what: u64,
    ) -> Result<()> {
        let what = self.hear(what);
        match self.ask_names(server, NamesCall::Know { what }).await? {
            NamesReply::Count(theirs) => {
                self.hear(theirs);
                Ok(())
            }
            _ => Err(unexpected(server)),
        }
    }

    /// The same with whether changes of the graph make vertices of files.
    pub(crate) async fn tell_of_vertices<'o>(
        self: &Arc<Self>,
        ops: impl Iterator<Item = &'o Op>,
    ) -> Result<()> {
        if self.state().known.told & VERTICES != 0 {
            return Ok(());
        }
        let mut makes = ops.filter_map(|op| match op {
            Op::PutVertex { vertex, .. } | Op::EnsureVertex { vertex, .. } => Some(vertex.type_id),
            _ => None,
        });
        if makes.any(|type_id| self.engine.is_file_type(type_id)) {
            self.tell_all(VERTICES).await?;
        }
        Ok(())
    }
}
