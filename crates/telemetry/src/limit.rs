//! Limits on spans, because clients may ask for traces of all their requests.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Traces that a process begins or continues in one second.
const TRACES_PER_SECOND: u64 = 1_000;
/// Spans of one trace in a process.
pub(crate) const SPANS_PER_TRACE: u64 = 512;

/// Counts traces by second.
#[derive(Debug)]
pub(crate) struct TraceLimit {
    start: Instant,
    /// Number of the second, and traces in it (the lower 32 bits).
    window: AtomicU64,
}

impl TraceLimit {
    pub(crate) fn new() -> Self {
        Self {
            start: Instant::now(),
            window: AtomicU64::new(0),
        }
    }

    /// Whether another trace may be recorded now.
    pub(crate) fn admits(&self) -> bool {
        self.admits_in(self.start.elapsed().as_secs())
    }

    fn admits_in(&self, second: u64) -> bool {
        let next = |window: u64| {
            let (now, count) = (window >> 32, window & u64::from(u32::MAX));
            match now == second {
                true if count >= TRACES_PER_SECOND => None,
                true => Some(window + 1),
                false => Some(second << 32 | 1),
            }
        };
        self.window
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, next)
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_has_its_traces() {
        let limit = TraceLimit::new();
        for second in [0, 1, 7] {
            let admitted = (0..2 * TRACES_PER_SECOND).filter(|_| limit.admits_in(second));
            assert_eq!(admitted.count() as u64, TRACES_PER_SECOND, "{second}");
        }
    }
}
