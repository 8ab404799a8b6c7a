//! Replay after a server was restored from its checkpoint: for a while it accepts only batches that clients send
//! again, and applies them in the order in which they were acknowledged before, each at its former version. So times,
//! object numbers and current rows come out as they were, as far as their clients still exist.

use super::Node;
use super::commit_queue::DecidedPart;
use super::state::{Replays, State};
use super::window::restoring;
use crate::peer::CommitPosition;
use esker_engine::SideWrites;
use esker_model::{Batch, Commit, GraphRead as _, Result, Version};
use futures_channel::oneshot;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Length of a further round in milliseconds: clients send a limited number of batches at once and then wait.
const ROUND_WAIT: u64 = 250;

/// Largest number of rounds; then other clients have waited enough.
const ROUNDS_MAX: u32 = 64;

impl Node {
    /// Whether the server accepts only what clients send again.
    pub fn replaying(&self) -> bool {
        self.state().replays.is_some()
    }

    /// Accepts a batch that was acknowledged before at that version, if the server is replaying; `None` if the batch
    /// is to be handled as any other.
    pub(crate) async fn replay(
        &self,
        batch: &Batch,
        at: Version,
    ) -> Option<Result<(Commit, Option<CommitPosition>)>> {
        let done = {
            let mut state = self.state();
            let replays = state.replays.as_mut()?;
            let (answer, done) = oneshot::channel();
            replays.next += 1;
            let key = (at, replays.next);
            replays.waiting.insert(key, (batch.clone(), answer));
            done
        };
        let done = done
            .await
            .unwrap_or_else(|_| Err(restoring(self.settings.id)));
        // A checkpoint contains the batch when it is answered.
        Some(done.map(|commit| (commit, None)))
    }

    /// Waits for batches that clients send again, and applies them. Must be called once all decisions of other
    /// servers are known.
    pub(crate) async fn replay_all(self: &Arc<Self>) -> Result<()> {
        let millis = self.settings.replay_millis;
        let lost = self.window.as_ref().is_some_and(|w| w.may_have_lost());
        if millis == 0 || !lost {
            return Ok(());
        }
        self.state().replays = Some(Replays::default());
        let mut pause = millis;
        for round in 0.. {
            self.host.sleep(pause).await;
            pause = ROUND_WAIT.min(millis);
            let waiting = {
                let mut state = self.state();
                let replays = state.replays.take().unwrap_or_default();
                if replays.waiting.is_empty() || round == ROUNDS_MAX {
                    // Atomically with the end of the last round: from now on batches are handled as usual.
                    state.serving = true;
                    for (_, answer) in replays.waiting.into_values() {
                        // A call that was cancelled waits for no answer.
                        let _ = answer.send(Err(restoring(self.settings.id)));
                    }
                    return Ok(());
                }
                state.replays = Some(Replays {
                    waiting: BTreeMap::new(),
                    next: replays.next,
                });
                replays.waiting
            };
            let mut done = Vec::with_capacity(waiting.len());
            for ((at, _), (batch, answer)) in waiting {
                done.push((answer, self.reapply(&batch, at).await));
            }
            self.harden()?;
            for (answer, commit) in done {
                let _ = answer.send(commit);
            }
        }
        Ok(())
    }

    /// Applies a batch at its former version.
    async fn reapply(self: &Arc<Self>, batch: &Batch, at: Version) -> Result<Commit> {
        if let Some(idempotency_key) = &batch.idempotency_key
            && self.engine.applied(idempotency_key)?
        {
            return Ok(Commit {
                version: at,
                applied: false,
                vertices_created: 0,
                edges_created: 0,
                unchanged: 0,
            });
        }
        let schema = self.engine.schema()?;
        let parts = self.parts(&schema, &batch.mutations);
        let mut parts = parts.into_iter();
        let (Some((server, part)), None) = (parts.next(), parts.next()) else {
            // Other servers have a part of the batch by now: the client sends it again when all serve.
            return Err(restoring(self.settings.id));
        };
        if server != self.settings.id {
            return Err(restoring(self.settings.id));
        }
        let side_writes = SideWrites {
            idempotency_key: batch.idempotency_key.clone(),
            ..SideWrites::default()
        };
        self.commit_part(DecidedPart {
            part,
            version: at,
            later: Vec::new(),
            side_writes,
            published: false,
        })
        .await
    }
}

/// Whether the server refuses other batches until the replay is done.
pub(crate) fn is_restoring(state: &State) -> bool {
    state.replays.is_some()
}
