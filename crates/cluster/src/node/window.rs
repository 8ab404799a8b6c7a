//! Ephemeral stores (SoMeta, section II-H): what a server has told other servers survives its loss; what it has
//! acknowledged to a client that retains its batches need not.
//!
//! Commits of the store are numbered. Before anything that other servers depend on leaves this one (a vote, an
//! applied part, a decision, splits of a vertex), a checkpoint must contain all commits up to it: [`Node::harden`].
//! So to the others, a restored server has forgotten nothing except batches that concerned it alone; their clients
//! send them again.

use super::Node;
use super::peers::unexpected;
use crate::peer::{CommitPosition, Request, Response};
use crate::vnode::ServerId;
use esker_model::{Error, Result};
use futures_util::future::join_all;

/// The commits of a server's store that no checkpoint contains yet; implemented by the host.
pub trait Window: Send + Sync {
    /// Returns the number of the last commit.
    fn written(&self) -> u64;
    /// Returns the number of the last commit that a checkpoint contains.
    fn persisted(&self) -> u64;
    /// Waits until a checkpoint contains all commits so far. Fails only if another process owns the store by now, or
    /// if it is closed.
    fn harden(&self) -> Result<()>;
    /// Waits like [`Self::harden`], but also fails if no storage accepts the checkpoint now.
    fn try_harden(&self) -> Result<()>;
    /// Whether commits before the store was opened may have been lost.
    fn may_have_lost(&self) -> bool;
}

impl Node {
    /// Waits until everything written here so far survives the loss of the machine as intended.
    pub(crate) fn harden(&self) -> Result<()> {
        self.window.as_ref().map_or(Ok(()), |w| w.harden())
    }

    /// Waits like [`Self::harden`] for work that can be repeated: fails while no storage accepts a checkpoint.
    pub(crate) fn try_harden(&self) -> Result<()> {
        self.window.as_ref().map_or(Ok(()), |w| w.try_harden())
    }

    /// Returns the number of the last commit that a checkpoint contains; 0 for a store that is not ephemeral.
    pub(crate) fn persisted(&self) -> u64 {
        self.window.as_ref().map_or(0, |w| w.persisted())
    }

    /// Returns the position until which the client must retain the batch that was just applied here, if it must. A
    /// client that retains nothing waits.
    pub(crate) fn position_to_retain(&self, retain: bool) -> Result<Option<CommitPosition>> {
        let Some(window) = &self.window else {
            return Ok(None);
        };
        let number = window.written();
        // A batch that was applied before may be in the window still.
        if window.persisted() >= number {
            return Ok(None);
        }
        if !retain {
            window.try_harden()?;
            return Ok(None);
        }
        Ok(Some(CommitPosition {
            server: self.settings.id,
            incarnation: self.incarnation,
            number,
        }))
    }

    /// Returns the last commits that checkpoints contain, of each server that answers. With `persist`, all servers
    /// first write a checkpoint of what they have, and one that does not answer is an error.
    pub async fn windows(&self, persist: bool) -> Result<Vec<CommitPosition>> {
        let Some(window) = &self.window else {
            return Ok(Vec::new());
        };
        let others: Vec<ServerId> = self.map.servers().to_vec();
        let ask = others
            .iter()
            .filter(|server| **server != self.settings.id)
            .map(|server| self.window_of(*server, persist));
        // Other servers write theirs meanwhile.
        let answers = join_all(ask);
        let answers = if persist {
            let answers = answers.await;
            window.try_harden()?;
            answers
        } else {
            answers.await
        };
        let mut all = vec![CommitPosition {
            server: self.settings.id,
            incarnation: self.incarnation,
            number: window.persisted(),
        }];
        for answer in answers {
            match answer {
                Ok(position) => all.push(position),
                Err(e) if persist => return Err(e),
                Err(_) => {}
            }
        }
        Ok(all)
    }

    async fn window_of(&self, server: ServerId, persist: bool) -> Result<CommitPosition> {
        let request = if persist {
            Request::Persist
        } else {
            Request::Ping
        };
        let answer = self.call_peer(server, request).await?;
        match answer.outcome? {
            Response::Done => Ok(CommitPosition {
                server,
                incarnation: answer.incarnation,
                number: answer.persisted,
            }),
            _ => Err(unexpected(server)),
        }
    }
}

/// Error of a restored server that waits for what its clients send again.
pub(crate) fn restoring(id: ServerId) -> Error {
    Error::Unavailable(format!(
        "{id} was restored from its checkpoint and waits for clients to send writes again; try again"
    ))
}
