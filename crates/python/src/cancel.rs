//! Ctrl-C: Python records a signal, and work without the GIL checks for it from time to time.

use crate::error::raise;
use esker_model::{Cancel, Result};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Interval between checks of Python's signals.
const PERIOD: Duration = Duration::from_millis(50);
/// Number of calls of `cancelled` between two checks of the clock.
const QUESTIONS: u32 = 32;

/// Checks whether the handler of a Python signal raised an exception. Only Python's main thread gets signals.
pub(crate) struct Signals {
    asked: AtomicU32,
    stopped: AtomicBool,
    state: Mutex<(Instant, Option<PyErr>)>,
}

impl Signals {
    fn new() -> Self {
        Self {
            asked: AtomicU32::new(0),
            stopped: AtomicBool::new(false),
            state: Mutex::new((Instant::now(), None)),
        }
    }

    /// Calls Python during the work; an exception ends the work and is raised by it. Returns whether to continue.
    pub(crate) fn call(&self, call: impl FnOnce(Python<'_>) -> PyResult<()>) -> bool {
        if let Err(e) = Python::attach(call) {
            self.stop(e);
        }
        !self.stopped.load(Relaxed)
    }

    fn stop(&self, error: PyErr) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.1.get_or_insert(error);
        self.stopped.store(true, Relaxed);
    }
}

impl Cancel for Signals {
    fn cancelled(&self) -> bool {
        if self.stopped.load(Relaxed) {
            return true;
        }
        if !self.asked.fetch_add(1, Relaxed).is_multiple_of(QUESTIONS) {
            return false;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.0.elapsed() < PERIOD {
            return false;
        }
        state.0 = Instant::now();
        drop(state);
        #[expect(
            clippy::redundant_closure_for_method_calls,
            reason = "the method itself is of one lifetime only"
        )]
        let goes_on = self.call(|py| py.check_signals());
        !goes_on
    }
}

/// Runs work without the GIL. The work can be interrupted where it checks its argument; the exception of the signal's handler is
/// then raised, whatever the work returned.
pub(crate) fn work<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&Signals) -> Result<T> + Send,
) -> PyResult<T> {
    let signals = Signals::new();
    let done = py.detach(|| work(&signals));
    let raised = signals
        .state
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
        .1;
    match (raised, done) {
        (Some(raised), _) => Err(raised),
        (None, Ok(done)) => Ok(done),
        (None, Err(e)) => Err(raise(py, &e)),
    }
}
