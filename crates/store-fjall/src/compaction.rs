//! The threads that merge tables.
//!
//! fjall's own worker only flushes (see `tuning`). These threads sleep until a memtable was sealed or a bulk load has
//! finished, merge until nothing is left to merge, and sleep again. A failed merge (a full disk) is retried, and its
//! error is kept for writers that wait for the merge.

use crate::tuning;
use fjall::{AbstractTree, Database, Keyspace};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Pause while a flush is under way.
const FLUSH_PAUSE: Duration = Duration::from_millis(20);
/// Pause after a failed merge.
const FAILURE_PAUSE: Duration = Duration::from_secs(1);

#[derive(Default)]
struct CompactionState {
    /// Number of wake-ups so far; a thread sleeps while it has handled them all.
    wakeups: u64,
    stop: bool,
    /// Error of the last merge; `None` after a success.
    failure: Option<String>,
}

#[derive(Default)]
struct Signal {
    state: Mutex<CompactionState>,
    changed: Condvar,
}

impl Signal {
    fn state(&self) -> MutexGuard<'_, CompactionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The compaction threads; dropping this waits for the merge that is under way.
pub(crate) struct Compaction {
    signal: Arc<Signal>,
    threads: Vec<JoinHandle<()>>,
}

impl Compaction {
    pub(crate) fn start(
        database: &Database,
        tables: &[Keyspace],
        threads: usize,
    ) -> std::io::Result<Self> {
        let signal = Arc::new(Signal::default());
        signal.state().wakeups = 1;
        let mut this = Self {
            signal,
            threads: Vec::new(),
        };
        for index in 0..threads {
            let signal = Arc::clone(&this.signal);
            let database = database.clone();
            let mut tables = tables.to_vec();
            // Each thread begins with another table, so that they do not all wait for the same one.
            let turn = index % tables.len().max(1);
            tables.rotate_left(turn);
            let thread = std::thread::Builder::new()
                .name("esker:compaction".to_owned())
                .spawn(move || run(&signal, &database, &tables))?;
            this.threads.push(thread);
        }
        Ok(this)
    }

    /// Wakes the threads: there may be tables to merge, now or once a flush is finished.
    pub(crate) fn wake(&self) {
        self.signal.state().wakeups += 1;
        self.signal.changed.notify_all();
    }

    /// Returns the error of the last merge, if it failed.
    pub(crate) fn failure(&self) -> Option<String> {
        self.signal.state().failure.clone()
    }
}

impl Drop for Compaction {
    fn drop(&mut self) {
        self.signal.state().stop = true;
        self.signal.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has written its message to the standard error stream already.
            let _ = thread.join();
        }
    }
}

fn run(signal: &Signal, database: &Database, tables: &[Keyspace]) {
    let strategy = Arc::new(tuning::levels());
    let mut seen = 0;
    loop {
        {
            let mut state = signal.state();
            while state.wakeups == seen && !state.stop {
                state = signal
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            seen = state.wakeups;
            if state.stop {
                return;
            }
        }
        loop {
            let flushing = tables.iter().any(|t| t.tree.sealed_memtable_count() > 0);
            let mut merged = false;
            let mut failure = None;
            for table in tables {
                if signal.state().stop {
                    return;
                }
                let before = table.tree.current_version().id();
                let oldest = database.supervisor.snapshot_tracker.get_seqno_safe_to_gc();
                match table.tree.compact(strategy.clone(), oldest) {
                    Ok(()) => merged |= table.tree.current_version().id() != before,
                    Err(error) => failure = Some(error.to_string()),
                }
            }
            let pause = match (&failure, flushing && !merged) {
                (Some(_), _) => Some(FAILURE_PAUSE),
                (None, true) => Some(FLUSH_PAUSE),
                (None, false) => None,
            };
            let mut state = signal.state();
            state.failure = failure;
            if let Some(pause) = pause {
                // A stop ends the pause; so does a wake-up, which is harmless.
                let (after, _) = signal
                    .changed
                    .wait_timeout(state, pause)
                    .unwrap_or_else(PoisonError::into_inner);
                state = after;
            } else if !merged {
                break;
            }
            if state.stop {
                return;
            }
        }
    }
}
