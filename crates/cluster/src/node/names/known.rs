//! What every server knows of all: whether there are files at all, and whether the graph has vertices of files.
//!
//! Where there are none, nobody asks others about them. So whoever makes the first one tells all others before, once; a server
//! that starts exchanges with all what they know.

use crate::node::Node;
use crate::node::peers::unexpected;
use crate::peer::{KnownOfFiles, NamesCall, NamesReply};
use crate::vnode::ServerId;
use esker_model::{Op, Result};
use futures_util::future::join_all;
use std::sync::Arc;

/// There is a namespace.
pub(crate) const FILES: u8 = 1;
/// The graph has vertices of files.
pub(crate) const VERTICES: u8 = 2;

impl Node {
    /// Whether something may be so somewhere.
    pub(crate) fn has_heard(&self, what: u8) -> bool {
        self.state().known.heard & what != 0
    }

    /// What this server's own rows say. To be called before it joins the others.
    pub(crate) fn look_at_names(&self) {
        let (files, vertices) = self.engine.knows_files();
        let own = (u8::from(files) * FILES) | (u8::from(vertices) * VERTICES);
        self.state().known.heard |= own;
    }

    /// Takes note of what another server knows; says what is known here.
    pub(super) fn hear(&self, theirs: KnownOfFiles) -> KnownOfFiles {
        let known = {
            let mut state = self.state();
            state.known.heard |= theirs.heard;
            state.known.told |= theirs.told;
            state.known
        };
        self.engine
            .note_files(known.heard & FILES != 0, known.heard & VERTICES != 0);
        known
    }

    /// From now on something is so: all servers are told, unless one of them knows that all were.
    pub(crate) async fn tell_all(self: &Arc<Self>, what: u8) -> Result<()> {
        let all_know = |node: &Self| node.state().known.told & what == what;
        if all_know(self) {
            return Ok(());
        }
        let servers = self.map.servers().to_vec();
        let told = servers
            .iter()
            .map(|server| self.exchange_known(*server, what));
        let told = join_all(told).await;
        if all_know(self) {
            return Ok(());
        }
        told.into_iter().collect::<Result<()>>()?;
        self.state().known.told |= what;
        // Who is away later is not needed then.
        self.spawn(|node| async move {
            let others = servers.iter().filter(|s| **s != node.settings.id);
            join_all(others.map(|server| node.exchange_known(*server, 0))).await;
        });
        Ok(())
    }

    /// All that this server has heard is told to all, if they are there.
    pub(crate) async fn tell_all_heard(self: &Arc<Self>) {
        let heard = self.state().known.heard;
        // Else whoever makes the first change tries again.
        let _ = self.tell_all(heard).await;
    }

    /// Tells a server what is known here, and learns what is known there.
    pub(crate) async fn exchange_known(self: &Arc<Self>, server: ServerId, what: u8) -> Result<()> {
        let news = KnownOfFiles {
            heard: what,
            told: 0,
        };
        let known = self.hear(news);
        match self.ask_names(server, NamesCall::Know(known)).await? {
            NamesReply::Known(theirs) => {
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
