//! Ctrl-C: Python notes a signal, and who works without the GIL asks for it now and then.

use crate::error::raise;
use esker_model::{Cancel, Result};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long work goes on before the signals are looked at again.
const PERIOD: Duration = Duration::from_millis(50);
/// How many questions are answered without a look at the clock.
const QUESTIONS: u32 = 32;

/// Asks Python whether a signal came that its handler turned into an exception. Only Python's main thread gets those.
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

    /// Calls Python while the work waits; what it raises ends the work and is raised by it.
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

/// Does work without the GIL. It may be interrupted where it asks its argument; then what the signal's handler raised is
/// raised, whatever the work said.
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
