//! Threads for what touches the database, behind a bounded queue.

use crate::limits::{RETRY_MAX, RETRY_MIN};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Something to do.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// A queue and the threads that work it off. Threads are started when they are first needed.
pub(crate) struct Lane {
    name: &'static str,
    state: Mutex<State>,
    more: Condvar,
    threads_max: usize,
    waiting_max: usize,
    stack: Option<usize>,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    idle: usize,
    threads: Vec<JoinHandle<()>>,
    stopped: bool,
    /// What a job takes, in nanoseconds, as a moving average.
    nanos: u64,
}

/// There is no room in the queue.
#[derive(Debug)]
pub(crate) struct Full {
    /// What waits there.
    pub(crate) waiting: usize,
    /// When there will be room, most likely.
    pub(crate) after: Duration,
}

/// When to come back to a queue of that length.
pub(crate) fn retry_after(waiting: usize, each: Duration, threads: usize) -> Duration {
    let ahead = u32::try_from(waiting / threads.max(1)).unwrap_or(u32::MAX);
    each.saturating_mul(ahead).clamp(RETRY_MIN, RETRY_MAX)
}

impl Lane {
    pub(crate) fn new(name: &'static str, threads_max: usize, waiting_max: usize) -> Arc<Self> {
        Self::with_stack(name, threads_max, waiting_max, None)
    }

    /// The same, with threads that have so much stack.
    pub(crate) fn with_stack(
        name: &'static str,
        threads_max: usize,
        waiting_max: usize,
        stack: Option<usize>,
    ) -> Arc<Self> {
        Arc::new(Self {
            name,
            state: Mutex::default(),
            more: Condvar::new(),
            threads_max,
            waiting_max,
            stack,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a job, if there is room.
    pub(crate) fn submit(self: &Arc<Self>, job: Job) -> Result<(), Full> {
        let mut state = self.state();
        if state.jobs.len() >= self.waiting_max || state.stopped {
            let each = Duration::from_nanos(state.nanos);
            let waiting = state.jobs.len();
            let after = retry_after(waiting, each, self.threads_max);
            return Err(Full { waiting, after });
        }
        state.jobs.push_back(job);
        // A thread that was woken and has not got here yet counts as idle, and its job as waiting.
        if state.idle >= state.jobs.len() {
            drop(state);
            self.more.notify_one();
        } else if state.threads.len() < self.threads_max {
            let lane = Arc::clone(self);
            let mut builder = std::thread::Builder::new().name(self.name.to_owned());
            if let Some(stack) = self.stack {
                builder = builder.stack_size(stack);
            }
            let spawned = builder.spawn(move || lane.work());
            // Without a thread more, the others get to it.
            if let Ok(thread) = spawned {
                state.threads.push(thread);
            }
        }
        Ok(())
    }

    /// How many jobs wait.
    pub(crate) fn waiting(&self) -> usize {
        self.state().jobs.len()
    }

    fn work(&self) {
        let mut state = self.state();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                let began = Instant::now();
                // A panic ends its call; the thread goes on. The call's own guard answers.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
                let nanos = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
                state = self.state();
                state.nanos = state.nanos - state.nanos / 16 + nanos / 16;
                continue;
            }
            if state.stopped {
                return;
            }
            state.idle += 1;
            state = self
                .more
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }

    /// Lets the threads finish what is queued and end.
    pub(crate) fn stop(&self) {
        let threads = {
            let mut state = self.state();
            state.stopped = true;
            std::mem::take(&mut state.threads)
        };
        self.more.notify_all();
        for thread in threads {
            let _ = thread.join();
        }
    }
}
