//! Stores that die with their machines (SoMeta, section II-H): what a server has told the others survives its death, what it has told
//! a client that keeps its batches need not.
//!
//! The store's commits are numbered. Before anything that other servers build on leaves this one (that a part can be done or is done,
//! a decision, how a vertex has split), a checkpoint holds all commits up to it: [`Node::harden`]. So to the others a server that comes
//! back is one that has forgotten nothing but batches of its own that it alone was concerned with; their clients send them again.

use super::Node;
use super::peers::unexpected;
use crate::peer::{Held, Request, Response};
use crate::vnode::ServerId;
use esker_model::{Error, Result};
use futures_util::future::join_all;

/// The commits of a server's store that no checkpoint holds yet. The host's.
pub trait Window: Send + Sync {
    /// The number of the last commit.
    fn written(&self) -> u64;
    /// The number of the last one that a checkpoint holds.
    fn persisted(&self) -> u64;
    /// Waits until a checkpoint holds all commits so far. Fails only if the store is another process's by now, or closed.
    fn harden(&self) -> Result<()>;
    /// The same, but it fails, too, if no storage takes the checkpoint now.
    fn try_harden(&self) -> Result<()>;
    /// Whether commits before the store was opened may have been lost.
    fn may_have_lost(&self) -> bool;
}

impl Node {
    /// Waits until what was written here so far survives the death of the machine as it is to survive.
    pub(crate) fn harden(&self) -> Result<()> {
        self.window.as_ref().map_or(Ok(()), |w| w.harden())
    }

    /// The same for what can be asked again: fails while no storage takes a checkpoint.
    pub(crate) fn try_harden(&self) -> Result<()> {
        self.window.as_ref().map_or(Ok(()), |w| w.try_harden())
    }

    /// The last commit that a checkpoint holds; 0 where there are none.
    pub(crate) fn persisted(&self) -> u64 {
        self.window.as_ref().map_or(0, |w| w.persisted())
    }

    /// What a client has to keep of a batch that was just applied here, if anything. A client that keeps nothing waits.
    pub(crate) fn held(&self, hold: bool) -> Result<Option<Held>> {
        let Some(window) = &self.window else {
            return Ok(None);
        };
        let number = window.written();
        // One that was applied before may be in the window still.
        if window.persisted() >= number {
            return Ok(None);
        }
        if !hold {
            window.try_harden()?;
            return Ok(None);
        }
        Ok(Some(Held {
            server: self.settings.id,
            incarnation: self.incarnation,
            number,
        }))
    }

    /// Which commits checkpoints hold, of each server that answers; with `persist`, all that they had when they were asked, and a server
    /// that does not answer is an error.
    pub async fn windows(&self, persist: bool) -> Result<Vec<Held>> {
        let Some(window) = &self.window else {
            return Ok(Vec::new());
        };
        let others: Vec<ServerId> = self.map.servers().to_vec();
        let ask = others
            .iter()
            .filter(|server| **server != self.settings.id)
            .map(|server| self.window_of(*server, persist));
        // The others write theirs meanwhile.
        let answers = join_all(ask);
        let answers = if persist {
            let answers = answers.await;
            window.try_harden()?;
            answers
        } else {
            answers.await
        };
        let mut all = vec![Held {
            server: self.settings.id,
            incarnation: self.incarnation,
            number: window.persisted(),
        }];
        for answer in answers {
            match answer {
                Ok(held) => all.push(held),
                Err(e) if persist => return Err(e),
                Err(_) => {}
            }
        }
        Ok(all)
    }

    async fn window_of(&self, server: ServerId, persist: bool) -> Result<Held> {
        let request = if persist {
            Request::Persist
        } else {
            Request::Ping
        };
        let answer = self.ask_answer(server, request).await?;
        match answer.outcome? {
            Response::Done => Ok(Held {
                server,
                incarnation: answer.incarnation,
                number: answer.persisted,
            }),
            _ => Err(unexpected(server)),
        }
    }
}

/// A server that was restored, and waits for what its clients send again.
pub(crate) fn restoring(id: ServerId) -> Error {
    Error::Unavailable(format!(
        "{id} was restored from its checkpoint and waits for what clients send again; try again"
    ))
}
