//! Prefetching (GraphMeta, section 5.2): while a server waits for the next step, it loads what that step will need.
//!
//! It loads the adjacency lists of vertices whose home is here and which have been reached already into the engine's
//! cache. The beginning of a step ends it.

use super::super::Node;
use super::share::TraversalShare;
use crate::peer::{ChainPosition, HopAt};
use esker_model::traversal::{Budget, Strategy};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

/// Vertices prefetched between two checks whether the step has begun.
const CHUNK: usize = 256;

impl Node {
    /// Begins to prefetch for the step after this one.
    pub(super) fn prefetch(
        self: &Arc<Self>,
        share: &Arc<TraversalShare>,
        hop: HopAt,
        next: ChainPosition,
    ) {
        if std::mem::replace(&mut share.state().prefetching, true) {
            return;
        }
        let share = Arc::clone(share);
        self.spawn(move |node| async move {
            while node.prefetch_chunk(&share, hop, next) {
                yield_now().await;
            }
            share.state().prefetching = false;
        });
    }

    /// Continues to prefetch after more vertices were reached, if this server already waits for the next step.
    pub(super) fn resume_prefetch(self: &Arc<Self>, share: &Arc<TraversalShare>, hop: HopAt) {
        if share.begin.budget.strategy != Strategy::Prefetch {
            return;
        }
        let next = {
            let state = share.state();
            let waits = state.waits_for == Some(hop.step) && !state.prefetching;
            state.next.filter(|_| waits)
        };
        if let Some(next) = next {
            self.prefetch(share, hop, next);
        }
    }

    /// Prefetches one chunk; returns whether there is more, and time for it.
    fn prefetch_chunk(
        self: &Arc<Self>,
        share: &Arc<TraversalShare>,
        hop: HopAt,
        next: ChainPosition,
    ) -> bool {
        let over = |share: &TraversalShare| share.step.load(Ordering::Acquire) != hop.step;
        if over(share) || esker_model::Cancel::cancelled(&**share) {
            return false;
        }
        let began = self.time.monotonic_micros();
        let chunk = {
            let mut state = share.state();
            let (read, chunk) = state.reached_after(hop.step, hop.to, state.prefetched, CHUNK);
            state.prefetched += read;
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
        // An error here will occur again in the step, and be reported there.
        let _ = self.engine.part_expand(
            &share.plan,
            next.0,
            &here,
            &Budget::default(),
            &**share,
            &mut |_, _, _| {},
        );
        let mut state = share.state();
        state.prefetch_micros += self.time.monotonic_micros().saturating_sub(began);
        true
    }
}

/// Lets other futures run.
async fn yield_now() {
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
