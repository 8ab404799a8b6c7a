//! Records of the executor in the slots of a plan.

use super::Context;
use crate::plan::Slot;

/// The beginning of an operator's run, if a profile is requested.
#[derive(Clone, Copy)]
pub(super) struct Began(Option<u64>);

impl Began {
    pub(super) fn now(ctx: &Context<'_>) -> Self {
        Self(ctx.profile.then(|| ctx.nanos()))
    }

    /// Records the run's time, and the number of solutions before and after it.
    pub(super) fn end(self, ctx: &Context<'_>, slot: &Slot, rows_in: usize, rows_out: usize) {
        let Some(began) = self.0 else {
            return;
        };
        let nanos = ctx.nanos().saturating_sub(began);
        slot.record(|record| {
            record.runs += 1;
            record.rows_in += rows_in as u64;
            record.rows_out += rows_out as u64;
            record.nanos += nanos;
        });
    }
}

impl Context<'_> {
    /// Returns the time in nanoseconds, 0 without a clock. Times of a view could reveal what it hides.
    pub(super) fn nanos(&self) -> u64 {
        let clock = self.options.clock.filter(|_| !self.is_view());
        clock.map_or(0, |clock| clock())
    }

    /// Records what an operator chose, if a profile is requested.
    pub(super) fn chose(&self, slot: &Slot, what: impl FnOnce() -> String) {
        if self.profile {
            slot.record(|record| record.choose(what()));
        }
    }

    /// Runs a function while `rows` more solutions suffice for an enclosing UNION or GRAPH: this lowers the limits of its inputs.
    pub(super) fn with_rows_left<T>(&self, rows: usize, run: impl FnOnce() -> T) -> T {
        let before = self.rows_left.replace(rows);
        let result = run();
        self.rows_left.set(before);
        result
    }

    /// Returns the number of solutions that suffices: an operator's own limit, or what is left of an enclosing operator's.
    pub(super) fn at_most(&self, limit: Option<usize>) -> Option<usize> {
        limit.map(|n| n.min(self.rows_left.get()))
    }
}
