//! Reading ahead (GraphMeta, section 5.2): while a server waits for the next step, it loads what that will need.
//!
//! What is loaded is the adjacency lists of vertices that are at home here and have been reached already: they go to the
//! engine's cache. A step that begins ends it.

use super::super::Node;
use super::walk::Walk;
use crate::peer::{HopAt, TravelPlace as Place};
use esker_model::traversal::{Budget, Strategy};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

/// Vertices read ahead between two looks at whether the step has begun.
const CHUNK: usize = 256;

impl Node {
    /// Begins to read ahead for the step after this one.
    pub(super) fn read_ahead(self: &Arc<Self>, walk: &Arc<Walk>, hop: HopAt, next: Place) {
        if std::mem::replace(&mut walk.state().reading_ahead, true) {
            return;
        }
        let walk = Arc::clone(walk);
        self.spawn(move |node| async move {
            while node.read_some(&walk, hop, next) {
                give_way().await;
            }
            walk.state().reading_ahead = false;
        });
    }

    /// More was reached: goes on reading ahead if this server waits for the next step already.
    pub(super) fn read_ahead_more(self: &Arc<Self>, walk: &Arc<Walk>, hop: HopAt) {
        if walk.begin.budget.strategy != Strategy::Prefetch {
            return;
        }
        let next = {
            let state = walk.state();
            let waits = state.waits_for == Some(hop.step) && !state.reading_ahead;
            state.next.filter(|_| waits)
        };
        if let Some(next) = next {
            self.read_ahead(walk, hop, next);
        }
    }

    /// Reads a little; whether there is more, and time.
    fn read_some(self: &Arc<Self>, walk: &Arc<Walk>, hop: HopAt, next: Place) -> bool {
        let over = |walk: &Walk| walk.step.load(Ordering::Acquire) != hop.step;
        if over(walk) || esker_model::Cancel::cancelled(&**walk) {
            return false;
        }
        let began = self.time.monotonic_micros();
        let chunk = {
            let mut state = walk.state();
            let (read, chunk) = state.reached_after(hop.step, hop.to, state.ahead, CHUNK);
            state.ahead += read;
            if read == 0 {
                return false;
            }
            chunk
        };
        let here: Vec<_> = {
            let state = self.state();
            let whole = |id: &&_| state.splits_of(**id).is_none();
            chunk.iter().filter(whole).copied().collect()
        };
        // Whatever fails here will fail again in the step, and be told there.
        let _ = self.engine.part_expand(
            &walk.plan,
            next.0,
            &here,
            &Budget::default(),
            &**walk,
            &mut |_, _, _| {},
        );
        let mut state = walk.state();
        state.prefetch_micros += self.time.monotonic_micros().saturating_sub(began);
        true
    }
}

/// Lets other futures run.
async fn give_way() {
    let mut given = false;
    std::future::poll_fn(|context| {
        if given {
            return Poll::Ready(());
        }
        given = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
