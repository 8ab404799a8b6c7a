//! A copy of all servers' data as of one version, while clients continue.
//!
//! ```text
//!  client    A                     B                    C
//!     │  Pause ───────────►│────────────────────►│───────────────────►│   decide nothing, deliver what was decided
//!     │◄───────────────────│◄────────────────────│◄───────────────────│   no transaction is in progress any more
//!     │  version = the latest of their clocks                             ◄── all that was decided is in the copy
//!     │  Copy(version) ───►│────────────────────►│───────────────────►│   a checkpoint of each store
//!     │  Resume ──────────►│────────────────────►│───────────────────►│   continue, with later versions
//! ```
//!
//! A coordinator decides a transaction in one place, after [`Node::begin_change`]; so are the few changes that one
//! server makes alone. While servers are paused, clients wait; reads continue, except those that wait for a prepared
//! write. A pause ends by itself, so that no server waits for a coordinator that failed; a copy that took longer is
//! invalid.

use super::Node;
use super::peers::unexpected;
use super::state::State;
use crate::peer::{Request, Response};
use crate::vnode::ServerId;
use esker_model::{Error, Result, Version};
use futures_util::future::{join, join_all};
use std::sync::Arc;

/// Time after which a pause ends by itself, in milliseconds.
const PAUSE_MAX: u64 = 30_000;
/// Time limit for applying transactions in progress on all servers, in milliseconds.
const QUIET_MAX: u64 = 8_000;

/// A change in progress; none begins while the server is paused.
pub(crate) struct ChangeGuard<'a>(&'a Node);

impl Drop for ChangeGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.pausing.changing -= 1;
        // Only the owner of the pause waits for this. Changes that wait for each other would otherwise wake each
        // other for ever.
        if state.pausing.paused_by.is_some() {
            state.wake();
        }
    }
}

/// Whether no transaction that server `own`, which is this one, coordinates is in progress, or not applied everywhere yet.
fn is_quiet(own: ServerId, state: &mut State) -> Option<()> {
    let quiet = state.pausing.changing == 0
        && !state.own.decided.keys().any(|tx| tx.server == own)
        && state.in_doubt.is_empty()
        && state.committing.is_empty();
    quiet.then_some(())
}

impl Node {
    /// Waits while the server is paused. The change must be complete when the returned guard is dropped.
    pub(crate) async fn begin_change(&self) -> Result<ChangeGuard<'_>> {
        let free = |state: &mut State| {
            let free = state.pausing.paused_by.is_none();
            state.pausing.changing += usize::from(free);
            free.then_some(())
        };
        match self.wait_until(PAUSE_MAX + QUIET_MAX, free).await {
            Some(()) => Ok(ChangeGuard(self)),
            None => Err(Error::Busy(format!(
                "{} is kept waiting by one copy of the cluster after another; try again",
                self.settings.id
            ))),
        }
    }

    /// Begins a change unless the server is paused.
    pub(crate) fn try_begin_change(&self) -> Option<ChangeGuard<'_>> {
        let mut state = self.state();
        if state.pausing.paused_by.is_some() {
            return None;
        }
        state.pausing.changing += 1;
        Some(ChangeGuard(self))
    }

    /// Returns the first version at which a transaction may now be decided: a copy contains everything before it. The
    /// floor of a part that was prepared during the pause may equal the version of the copy and must not be used.
    pub(crate) fn min_version_after_copy(&self) -> Version {
        Version(self.state().pausing.copy_version).next()
    }

    /// Copies all servers' data to a folder that all of them see, each to its own subfolder. Returns the bytes
    /// written and the version of the copy.
    pub async fn copy_all(self: &Arc<Self>, to: &str) -> Result<(u64, Version)> {
        self.check_serving()?;
        let id = self.clock.tick(self.time.now_millis()).0;
        let done = self.copy_paused(id, to).await;
        let resume = self
            .peer_ids()
            .map(|to| self.request(to, Request::Resume { id }));
        // A server that does not receive the message resumes by itself.
        let _ = join_all(resume).await;
        self.resume(id);
        done
    }

    fn peer_ids(&self) -> impl Iterator<Item = ServerId> {
        let me = self.settings.id;
        self.map.servers().iter().copied().filter(move |s| *s != me)
    }

    async fn copy_paused(self: &Arc<Self>, id: u64, to: &str) -> Result<(u64, Version)> {
        let pause = self
            .peer_ids()
            .map(|s| self.request(s, Request::Pause { id }));
        let (mine, paused) = join(self.pause(id), join_all(pause)).await;
        mine?;
        for answer in paused {
            answer?;
        }
        // Responses carry clocks, so this clock is now behind none.
        let version = self.newest();
        let copy = self.peer_ids().map(|server| {
            let to = to.to_owned();
            let request = Request::Copy { id, version, to };
            async move { (server, self.request(server, request).await) }
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

    /// Stops deciding transactions, and waits until all decisions are applied on all servers.
    pub(crate) async fn pause(self: &Arc<Self>, id: u64) -> Result<()> {
        {
            let mut state = self.state();
            if state.pausing.paused_by.is_some_and(|other| other != id) {
                return Err(Error::Busy(format!(
                    "{}: another copy of the cluster is being made; try again when it is done",
                    self.settings.id
                )));
            }
            state.pausing.paused_by = Some(id);
        }
        let (me, host) = (self.me.clone(), Arc::clone(&self.host));
        self.host.spawn(Box::pin(async move {
            host.sleep(PAUSE_MAX).await;
            if let Some(node) = me.upgrade() {
                node.resume(id);
            }
        }));
        if self
            .wait_until(QUIET_MAX, |state| is_quiet(self.settings.id, state))
            .await
            .is_none()
        {
            self.resume(id);
            return Err(Error::Unavailable(format!(
                "{}: decided batches are not applied on all servers after {} s: is a server down? Try again once all serve",
                self.settings.id,
                QUIET_MAX / 1_000
            )));
        }
        Ok(())
    }

    /// Copies this server's own data while it is paused.
    pub(crate) async fn copy(
        self: &Arc<Self>,
        id: u64,
        version: Version,
        to: String,
    ) -> Result<u64> {
        self.clock.witness(version);
        {
            let mut state = self.state();
            check_paused(&state, id)?;
            state.pausing.copy_version = state.pausing.copy_version.max(version.0);
        }
        let bytes = self.host.copy(to).await?;
        check_paused(&self.state(), id)?;
        Ok(bytes)
    }

    /// Resumes after the pause with this id.
    pub(crate) fn resume(&self, id: u64) {
        let mut state = self.state();
        if state.pausing.paused_by == Some(id) {
            state.pausing.paused_by = None;
            state.wake();
        }
    }
}

fn check_paused(state: &State, id: u64) -> Result<()> {
    if state.pausing.paused_by == Some(id) {
        return Ok(());
    }
    Err(Error::Unavailable(format!(
        "copying took longer than {} s, the longest that clients may wait; the copy is unusable: \
         try again, on faster storage or while less is being written",
        PAUSE_MAX / 1_000
    )))
}
