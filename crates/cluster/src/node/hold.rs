//! A copy of all servers' data as of one version, while clients go on.
//!
//! ```text
//!  asked A                 A                     B                    C
//!     │  Hold ────────────►│────────────────────►│───────────────────►│   decide nothing, tell what was decided
//!     │◄───────────────────│◄────────────────────│◄───────────────────│   nothing is under way any more
//!     │  version = the latest of their clocks                             ◄── all that was decided is in the copy
//!     │  Copy(version) ───►│────────────────────►│───────────────────►│   a checkpoint of each store
//!     │  Release ─────────►│────────────────────►│───────────────────►│   go on, with later versions
//! ```
//!
//! Whoever coordinates a transaction decides it in one place ([`Node::begin_change`] stands before that), and so do the few changes that
//! one server makes alone. While servers are held, clients wait; reads go on, but for those that wait for a write which is prepared. A hold
//! ends by itself, so that nobody waits for somebody who is gone; a copy that took longer is none.

use super::Node;
use super::peers::unexpected;
use super::state::State;
use crate::peer::{Request, Response};
use crate::vnode::ServerId;
use esker_model::{Error, Result, Version};
use futures_util::future::{join, join_all};
use std::sync::Arc;

/// After so long a hold ends by itself, in milliseconds.
const HOLD_MAX: u64 = 30_000;
/// How long what is under way may take to be done everywhere.
const QUIET_MAX: u64 = 8_000;

/// Who holds this server, and what is being decided.
#[derive(Debug, Default)]
pub(crate) struct Holding {
    held: Option<u64>,
    changing: usize,
    /// What is decided from now on takes later versions.
    cut: u64,
}

/// A change that is being made: none begins while the server is held.
pub(crate) struct Changing<'a>(&'a Node);

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.holding.changing -= 1;
        // Only who holds the server waits for this. Changes that wait for others would wake each other for ever.
        if state.holding.held.is_some() {
            state.wake();
        }
    }
}

/// Whether nothing is under way that some server has not done yet.
fn is_quiet(state: &mut State) -> Option<()> {
    let quiet =
        state.holding.changing == 0 && state.own.decided.is_empty() && state.committing.is_empty();
    quiet.then_some(())
}

impl Node {
    /// Waits while the server is held; what is then changed must be over when the answer is dropped.
    pub(crate) async fn begin_change(&self) -> Result<Changing<'_>> {
        let free = |state: &mut State| {
            let free = state.holding.held.is_none();
            state.holding.changing += usize::from(free);
            free.then_some(())
        };
        match self.until(HOLD_MAX + QUIET_MAX, free).await {
            Some(()) => Ok(Changing(self)),
            None => Err(Error::Unavailable(format!(
                "{} waits for one copy of the cluster after the other; try again",
                self.settings.id
            ))),
        }
    }

    /// The first version that may be decided at from now on: a copy has everything before it. The floor of a part that was prepared
    /// while the server was held may be the very version of the copy, and is no longer to be had.
    pub(crate) fn after_cut(&self) -> Version {
        Version(self.state().holding.cut).next()
    }

    /// Copies all servers' data to a folder that all of them see, each to its own place there: bytes, and the version that all copies
    /// are as of.
    pub async fn copy_all(self: &Arc<Self>, to: &str) -> Result<(u64, Version)> {
        self.check_serving()?;
        let id = self.clock.tick(self.time.now_millis()).0;
        let done = self.copy_held(id, to).await;
        let release = self
            .others()
            .map(|to| self.ask(to, Request::Release { id }));
        // Where nobody hears it, the hold ends by itself.
        let _ = join_all(release).await;
        self.release(id);
        done
    }

    fn others(&self) -> impl Iterator<Item = ServerId> {
        let me = self.settings.id;
        self.map.servers().iter().copied().filter(move |s| *s != me)
    }

    async fn copy_held(self: &Arc<Self>, id: u64, to: &str) -> Result<(u64, Version)> {
        let hold = self.others().map(|s| self.ask(s, Request::Hold { id }));
        let (mine, held) = join(self.hold(id), join_all(hold)).await;
        mine?;
        for answer in held {
            answer?;
        }
        // Answers bring clocks: this one is behind none.
        let version = self.newest();
        let copy = self.others().map(|server| {
            let to = to.to_owned();
            let request = Request::Copy { id, version, to };
            async move { (server, self.ask(server, request).await) }
        });
        let mine = self.copy(id, version, to.to_owned());
        let (mine, copies) = join(mine, join_all(copy)).await;
        let mut bytes = mine?;
        for (server, answer) in copies {
            match answer? {
                Response::Copied { bytes: more } => bytes += more,
                _ => return Err(unexpected(server)),
            }
        }
        Ok((bytes, version))
    }

    /// Decides nothing from now on, and waits until what was decided is done everywhere.
    pub(crate) async fn hold(self: &Arc<Self>, id: u64) -> Result<()> {
        {
            let mut state = self.state();
            if state.holding.held.is_some_and(|other| other != id) {
                return Err(Error::Unavailable(format!(
                    "{}: another copy of the cluster is being made; try again when it is done",
                    self.settings.id
                )));
            }
            state.holding.held = Some(id);
        }
        let (me, host) = (self.me.clone(), Arc::clone(&self.host));
        self.host.spawn(Box::pin(async move {
            host.sleep(HOLD_MAX).await;
            if let Some(node) = me.upgrade() {
                node.release(id);
            }
        }));
        if self.until(QUIET_MAX, is_quiet).await.is_none() {
            self.release(id);
            return Err(Error::Unavailable(format!(
                "{}: what was decided is not done everywhere after {} s: is a server away? Try again once all serve",
                self.settings.id,
                QUIET_MAX / 1_000
            )));
        }
        Ok(())
    }

    /// Copies its own data while it is held.
    pub(crate) async fn copy(
        self: &Arc<Self>,
        id: u64,
        version: Version,
        to: String,
    ) -> Result<u64> {
        self.clock.witness(version);
        {
            let mut state = self.state();
            check_held(&state, id)?;
            state.holding.cut = state.holding.cut.max(version.0);
        }
        let bytes = self.host.copy(to).await?;
        check_held(&self.state(), id)?;
        Ok(bytes)
    }

    /// Goes on.
    pub(crate) fn release(&self, id: u64) {
        let mut state = self.state();
        if state.holding.held == Some(id) {
            state.holding.held = None;
            state.wake();
        }
    }
}

fn check_held(state: &State, id: u64) -> Result<()> {
    if state.holding.held == Some(id) {
        return Ok(());
    }
    Err(Error::Unavailable(format!(
        "copying took longer than {} s, which is how long clients are let wait; the copy is of no use: try again, on faster storage or \
         while less is being written",
        HOLD_MAX / 1_000
    )))
}
