//! Ctrl-C and `--timeout`: the first asks work to stop, the second Ctrl-C kills the process.

use esker_model::Cancel;
use esker_model::traversal::StopReason;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Exit code after a second Ctrl-C, as shells have it: 128 + SIGINT.
const KILLED: i32 = 130;

/// Reason why work was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// Ctrl-C or SIGTERM stopped the work.
    Interrupted,
    /// The time of `--timeout` is over.
    TimedOut,
}

impl Stopped {
    /// Returns the reason as text for users.
    pub fn name(self) -> &'static str {
        match self {
            Self::Interrupted => "interrupted",
            Self::TimedOut => "time-out",
        }
    }
}

/// Flag and deadline that stop work. Cheap to check and to clone.
#[derive(Debug, Clone)]
pub struct Interrupt {
    signalled: Arc<AtomicBool>,
    deadline: Option<Instant>,
}

impl Interrupt {
    /// Catches SIGINT and SIGTERM: the first sets the flag, the second ends the process at once.
    pub fn install() -> io::Result<Self> {
        let signalled = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // The order matters: the shutdown must check the flag before the same signal sets it.
            signal_hook::flag::register_conditional_shutdown(
                signal,
                KILLED,
                Arc::clone(&signalled),
            )?;
            signal_hook::flag::register(signal, Arc::clone(&signalled))?;
        }
        Ok(Self {
            signalled,
            deadline: None,
        })
    }

    /// Returns a copy whose deadline is `timeout` from now.
    #[must_use]
    pub fn with_timeout(&self, timeout: Option<Duration>) -> Self {
        Self {
            signalled: Arc::clone(&self.signalled),
            deadline: timeout.and_then(|t| Instant::now().checked_add(t)),
        }
    }

    /// Clears an earlier Ctrl-C; the shell does so before each command.
    pub fn reset(&self) {
        self.signalled.store(false, Ordering::Relaxed);
    }

    /// Returns the reason to stop, if there is one.
    pub fn stopped(&self) -> Option<Stopped> {
        if self.signalled.load(Ordering::Relaxed) {
            Some(Stopped::Interrupted)
        } else if self.deadline.is_some_and(|d| Instant::now() >= d) {
            Some(Stopped::TimedOut)
        } else {
            None
        }
    }

    /// An interrupt that no signal sets and that has no deadline.
    pub fn never() -> Self {
        Self {
            signalled: Arc::new(AtomicBool::new(false)),
            deadline: None,
        }
    }
}

impl Cancel for Interrupt {
    fn cancelled(&self) -> bool {
        self.stopped().is_some()
    }

    fn reason(&self) -> StopReason {
        match self.stopped() {
            Some(Stopped::TimedOut) => StopReason::TimeOut,
            Some(Stopped::Interrupted) | None => StopReason::Interrupted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_in_the_past_stops_work_as_timed_out() {
        let interrupt = Interrupt::never();
        assert_eq!(interrupt.stopped(), None);
        let late = interrupt.with_timeout(Some(Duration::ZERO));
        assert_eq!(late.stopped(), Some(Stopped::TimedOut));
        interrupt.signalled.store(true, Ordering::Relaxed);
        assert_eq!(late.stopped(), Some(Stopped::Interrupted));
        late.reset();
        assert!(!interrupt.cancelled());
    }
}
