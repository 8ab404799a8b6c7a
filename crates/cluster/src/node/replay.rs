//! A server that was restored from its checkpoint: for a while it takes only what clients send again, and does that in the order in
//! which it was acknowledged before, each batch at the version that it had. So times, numbers of objects and what is current come
//! out as they were, as far as the clients are there still.

use super::window::restoring;
use super::{Node, State};
use crate::peer::Held;
use esker_engine::Beside;
use esker_model::{Batch, Commit, GraphRead as _, Result, Version};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

/// Once something came again, more may: clients send so much at once and then wait. In milliseconds.
const MORE: u64 = 250;

/// So often, then the others have waited enough.
const ROUNDS_MAX: u32 = 64;

/// Batches that wait for the others, by the version that they were acknowledged at.
#[derive(Debug, Default)]
pub(crate) struct Replays {
    waiting: BTreeMap<(Version, u64), (Batch, Arc<Slot>)>,
    next: u64,
}

/// Where a batch's answer goes.
#[derive(Debug, Default)]
struct Slot {
    state: Mutex<(Option<Result<Commit>>, Option<Waker>)>,
}

impl Slot {
    fn answer(&self, answer: Result<Commit>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = Some(answer);
        if let Some(waker) = state.1.take() {
            waker.wake();
        }
    }

    async fn wait(&self) -> Result<Commit> {
        std::future::poll_fn(|context| {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(answer) = state.0.take() {
                return Poll::Ready(answer);
            }
            state.1 = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }
}

impl Node {
    /// Whether it takes what clients send again, and nothing else.
    pub fn replaying(&self) -> bool {
        self.state().replays.is_some()
    }

    /// Takes a batch that was acknowledged before at that version, if this is the time for it; `None` if it is one like any other.
    pub(crate) async fn replay(
        &self,
        batch: &Batch,
        at: Version,
    ) -> Option<Result<(Commit, Option<Held>)>> {
        let slot = {
            let mut state = self.state();
            let replays = state.replays.as_mut()?;
            let slot = Arc::new(Slot::default());
            replays.next += 1;
            let place = (at, replays.next);
            let waits = (batch.clone(), Arc::clone(&slot));
            replays.waiting.insert(place, waits);
            slot
        };
        // It is in a checkpoint when it is answered.
        Some(slot.wait().await.map(|commit| (commit, None)))
    }

    /// Waits for what clients send again, and does it. To be called once nothing is decided that was not heard of.
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
            pause = MORE.min(millis);
            let waiting = {
                let mut state = self.state();
                let replays = state.replays.take().unwrap_or_default();
                if replays.waiting.is_empty() || round == ROUNDS_MAX {
                    // At once: what comes now is like any other.
                    state.serving = true;
                    for (_, slot) in replays.waiting.into_values() {
                        slot.answer(Err(restoring(self.settings.id)));
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
            for ((at, _), (batch, slot)) in waiting {
                done.push((slot, self.apply_again(&batch, at)));
            }
            self.harden()?;
            for (slot, answer) in done {
                slot.answer(answer);
            }
        }
        Ok(())
    }

    /// Does a batch at the version that it had.
    fn apply_again(self: &Arc<Self>, batch: &Batch, at: Version) -> Result<Commit> {
        if let Some(marker) = &batch.once
            && self.engine.applied(marker)?
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
            // Other servers have a part of it by now: it comes again when all serve.
            return Err(restoring(self.settings.id));
        };
        if server != self.settings.id {
            return Err(restoring(self.settings.id));
        }
        let beside = Beside {
            once: batch.once.clone(),
            ..Beside::default()
        };
        self.do_part(&part, at, &[], beside)
    }
}

/// What is refused while others come first.
pub(crate) fn is_restoring(state: &State) -> bool {
    state.replays.is_some()
}
