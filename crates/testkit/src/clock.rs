//! A clock that tests set: it stands still, jumps and steps back as they say.

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
    /// Microseconds that pass at each look at the monotonic clock.
    micros_a_look: AtomicU64,
    gate: Mutex<Gate>,
    moved: Condvar,
}

#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
enum Gate {
    #[default]
    Open,
    /// The next who asks for the time waits.
    Closed,
    /// Somebody waits.
    Waiting,
}

impl SimClock {
    /// A clock that shows so many milliseconds since 1970.
    pub fn at(millis: u64) -> Self {
        let clock = Self::default();
        clock.set(millis);
        clock
    }

    /// Sets the time, also backwards.
    pub fn set(&self, millis: u64) {
        self.0.millis.store(millis, Ordering::SeqCst);
    }

    /// Moves it on, or back.
    pub fn advance(&self, millis: i64) {
        self.set(self.millis().saturating_add_signed(millis));
    }

    /// What it shows.
    pub fn millis(&self) -> u64 {
        self.0.millis.load(Ordering::SeqCst)
    }

    /// Moves the monotonic clock on.
    pub fn pass_micros(&self, micros: u64) {
        self.0.micros.fetch_add(micros, Ordering::SeqCst);
    }

    /// From now on each look at the monotonic clock takes so many microseconds.
    pub fn each_look_takes(&self, micros: u64) {
        self.0.micros_a_look.store(micros, Ordering::SeqCst);
    }

    /// The next one who asks for the time waits until [`Self::release`]: a writer stands still in mid-commit.
    pub fn hold(&self) {
        *self.gate() = Gate::Closed;
    }

    /// Returns once somebody waits.
    pub fn held(&self) {
        let mut gate = self.gate();
        while *gate != Gate::Waiting {
            gate = self
                .0
                .moved
                .wait(gate)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets everybody pass.
    pub fn release(&self) {
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
        let step = self.0.micros_a_look.load(Ordering::SeqCst);
        self.0.micros.fetch_add(step, Ordering::SeqCst)
    }
}
