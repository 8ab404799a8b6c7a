//! Budget checks of a traversal: between vertices, and within one that has very many edges.

use crate::Clock;
use esker_model::Cancel;
use esker_model::traversal::{Budget, StopReason};
use std::cell::Cell;

/// A traversal's budget of time and edges, and its cancellation.
pub(crate) struct Stopper<'e> {
    cancel: &'e dyn Cancel,
    clock: &'e dyn Clock,
    /// Deadline in microseconds of the monotonic clock.
    deadline: Option<u64>,
    edges_max: Option<u64>,
    edges: Cell<u64>,
}

impl<'e> Stopper<'e> {
    pub(crate) fn new(budget: &Budget, cancel: &'e dyn Cancel, clock: &'e dyn Clock) -> Self {
        let micros = budget.millis.map(|ms| ms.saturating_mul(1000));
        Self {
            cancel,
            clock,
            deadline: micros.map(|m| clock.monotonic_micros().saturating_add(m)),
            edges_max: budget.edges,
            edges: Cell::new(0),
        }
    }

    /// Counts edges that were read.
    pub(crate) fn looked_at(&self, edges: u64) {
        self.edges.set(self.edges.get() + edges);
    }

    /// Takes back edges that were counted and are read again.
    pub(crate) fn uncount(&self, edges: u64) {
        self.edges.set(self.edges.get().saturating_sub(edges));
    }

    /// Returns the reason why the traversal must stop now, if any.
    pub(crate) fn must_stop(&self) -> Option<StopReason> {
        if self.cancel.cancelled() {
            return Some(self.cancel.reason());
        }
        if self.edges_max.is_some_and(|max| self.edges.get() > max) {
            return Some(StopReason::Edges);
        }
        self.deadline
            .is_some_and(|d| self.clock.monotonic_micros() >= d)
            .then_some(StopReason::TimeOut)
    }
}
