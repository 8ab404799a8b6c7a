//! A clock that tests control: it stops, jumps and goes backwards on request.

use esker_engine::Clock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// A simulated clock. Clones show the same time.
#[derive(Debug, Clone, Default)]
pub struct SimClock(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    millis: AtomicU64,
    micros: AtomicU64,
    /// Microseconds that pass at each reading of the monotonic clock.
    micros_per_reading: AtomicU64,
    gate: Mutex<Gate>,
    moved: Condvar,
}

#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
enum Gate {
    #[default]
    Open,
    /// The next reader blocks.
    Closed,
    /// A reader is blocked.
    Waiting,
}

impl SimClock {
    /// Creates a clock that shows `millis` milliseconds since 1970.
    pub fn at(millis: u64) -> Self {
        let clock = Self::default();
        clock.set(millis);
        clock
    }

    /// Sets the time, also backwards.
    pub fn set(&self, millis: u64) {
        self.0.millis.store(millis, Ordering::SeqCst);
    }

    /// Moves the time forwards or backwards.
    pub fn advance(&self, millis: i64) {
        self.set(self.millis().saturating_add_signed(millis));
    }

    /// Returns the time in milliseconds since 1970.
    pub fn millis(&self) -> u64 {
        self.0.millis.load(Ordering::SeqCst)
    }

    /// Advances the monotonic clock.
    pub fn pass_micros(&self, micros: u64) {
        self.0.micros.fetch_add(micros, Ordering::SeqCst);
    }

    /// Makes each reading of the monotonic clock advance it by `micros` microseconds.
    pub fn set_micros_per_reading(&self, micros: u64) {
        self.0.micros_per_reading.store(micros, Ordering::SeqCst);
    }

    /// Blocks the next reader of the time until [`Self::unblock`]: a writer stops in the middle of a commit.
    pub fn block_next_reader(&self) {
        *self.gate() = Gate::Closed;
    }

    /// Waits until a reader is blocked.
    pub fn wait_until_blocked(&self) {
        let mut gate = self.gate();
        while *gate != Gate::Waiting {
            gate = self
                .0
                .moved
                .wait(gate)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets all blocked readers continue.
    pub fn unblock(&self) {
        *self.gate() = Gate::Open;
        self.0.moved.notify_all();
    }

    fn gate(&self) -> std::sync::MutexGuard<'_, Gate> {
        self.0.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for SimClock {
    fn now_millis(&self) -> u64 {
        let mut gate = self.gate();
        if *gate == Gate::Closed {
            *gate = Gate::Waiting;
            self.0.moved.notify_all();
            while *gate == Gate::Waiting {
                gate = self
                    .0
                    .moved
                    .wait(gate)
                    .unwrap_or_else(PoisonError::into_inner);
            }
        }
        self.millis()
    }

    fn monotonic_micros(&self) -> u64 {
        let step = self.0.micros_per_reading.load(Ordering::SeqCst);
        self.0.micros.fetch_add(step, Ordering::SeqCst)
    }
}
