//! Thread pools for work on the database, behind bounded queues.

use crate::limits::{RETRY_MAX, RETRY_MIN};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

tokio::task_local! {
    /// Client whose request is being accepted; clients' queued jobs take turns.
    pub(crate) static CLIENT: Arc<str>;
}

/// A job of a thread pool.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// A queue and the threads that run its jobs. Threads are started when they are first needed.
pub(crate) struct Lane {
    name: &'static str,
    state: Mutex<LaneState>,
    more: Condvar,
    threads_max: usize,
    waiting_max: usize,
    options: LaneOptions,
}

/// Properties of the threads of a lane.
#[derive(Default)]
pub(crate) struct LaneOptions {
    /// Number of threads that a single client cannot occupy.
    pub(crate) reserved: usize,
    /// Stack of each thread in bytes; the system's default if `None`.
    pub(crate) stack: Option<usize>,
    /// Whether the jobs take long. Their threads then run at a lower priority, so that short calls and network threads need not wait for
    /// a processor. Has no effect on an idle machine.
    pub(crate) background: bool,
}

/// Niceness of threads with long jobs, which gives them a tenth of the normal weight.
const BACKGROUND_NICE: i32 = 10;

/// Jobs of one client in this pool.
#[derive(Default)]
struct ClientJobs {
    jobs: VecDeque<Job>,
    running: usize,
}

#[derive(Default)]
struct LaneState {
    /// State by client; a client without waiting or running jobs has no entry.
    clients: HashMap<Arc<str>, ClientJobs>,
    /// Clients with waiting jobs, each once, in the order of their turns.
    turns: VecDeque<Arc<str>>,
    waiting: usize,
    idle: usize,
    threads: Vec<JoinHandle<()>>,
    stopped: bool,
    /// Moving average of the time per job, in nanoseconds.
    nanos: u64,
}

/// Error: the queue is full.
#[derive(Debug)]
pub(crate) struct QueueFull {
    /// Number of waiting jobs.
    pub(crate) waiting: usize,
    /// Time after which there will probably be room.
    pub(crate) after: Duration,
}

/// Time after which to retry at a queue of this length.
pub(crate) fn retry_after(waiting: usize, each: Duration, threads: usize) -> Duration {
    let ahead = u32::try_from(waiting / threads.max(1)).unwrap_or(u32::MAX);
    each.saturating_mul(ahead).clamp(RETRY_MIN, RETRY_MAX)
}

impl Lane {
    pub(crate) fn new(
        name: &'static str,
        threads_max: usize,
        waiting_max: usize,
        options: LaneOptions,
    ) -> Arc<Self> {
        Arc::new(Self {
            name,
            state: Mutex::default(),
            more: Condvar::new(),
            threads_max,
            waiting_max,
            options,
        })
    }

    fn state(&self) -> MutexGuard<'_, LaneState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a job of the client whose request is being accepted, if there is room.
    pub(crate) fn submit(self: &Arc<Self>, job: Job) -> Result<(), QueueFull> {
        let client = CLIENT.try_with(Arc::clone).unwrap_or_default();
        self.submit_of(client, job)
    }

    fn submit_of(self: &Arc<Self>, client: Arc<str>, job: Job) -> Result<(), QueueFull> {
        let mut state = self.state();
        let own = state.clients.get(&client).map_or(0, |own| own.jobs.len());
        // A single client may fill at most half of the queue.
        if own >= self.waiting_max.div_ceil(2) || state.waiting >= self.waiting_max || state.stopped
        {
            let each = Duration::from_nanos(state.nanos);
            let waiting = state.waiting;
            let after = retry_after(waiting, each, self.threads_max);
            return Err(QueueFull { waiting, after });
        }
        if own == 0 {
            state.turns.push_back(Arc::clone(&client));
        }
        state.clients.entry(client).or_default().jobs.push_back(job);
        state.waiting += 1;
        if state.idle > 0 {
            self.more.notify_one();
        }
        // A thread that was woken and does not run yet counts as idle, and its job as waiting.
        if state.idle < state.waiting && state.threads.len() < self.threads_max {
            let lane = Arc::clone(self);
            let mut builder = std::thread::Builder::new().name(self.name.to_owned());
            if let Some(stack) = self.options.stack {
                builder = builder.stack_size(stack);
            }
            let spawned = builder.spawn(move || lane.work());
            // If no thread can be started, the existing ones run the job.
            if let Ok(thread) = spawned {
                state.threads.push(thread);
            }
        }
        Ok(())
    }

    /// Number of waiting jobs.
    pub(crate) fn waiting(&self) -> usize {
        self.state().waiting
    }

    /// Takes the next job: that of the first client in turn that does not have as many threads as one client may.
    fn next(&self, state: &mut LaneState) -> Option<(Arc<str>, Job)> {
        let most = self
            .threads_max
            .saturating_sub(self.options.reserved)
            .max(1);
        let may = |client: &Arc<str>| {
            let own = state.clients.get(client);
            own.is_some_and(|own| own.running < most)
        };
        let at = state.turns.iter().position(may)?;
        let client = state.turns.remove(at)?;
        let own = state.clients.get_mut(&client)?;
        let job = own.jobs.pop_front()?;
        own.running += 1;
        state.waiting -= 1;
        if !own.jobs.is_empty() {
            state.turns.push_back(Arc::clone(&client));
        }
        Some((client, job))
    }

    fn work(&self) {
        if self.options.background {
            // Affects this thread only. If it fails, the jobs run at normal priority.
            let _ = rustix::process::nice(BACKGROUND_NICE);
        }
        let mut state = self.state();
        loop {
            if let Some((client, job)) = self.next(&mut state) {
                drop(state);
                let began = Instant::now();
                // A panic ends its call, which answers when it is dropped; the thread continues.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
                let nanos = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
                state = self.state();
                state.nanos = state.nanos - state.nanos / 16 + nanos / 16;
                if let Some(own) = state.clients.get_mut(&client) {
                    own.running -= 1;
                    if own.running == 0 && own.jobs.is_empty() {
                        state.clients.remove(&client);
                    }
                }
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

    /// Lets the threads finish the queued jobs and end.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn client(name: &str) -> Arc<str> {
        name.into()
    }

    /// Jobs of a client that has queued many do not delay those of another.
    #[test]
    fn clients_take_turns() {
        let lane = Lane::new("test", 1, 1_000, LaneOptions::default());
        let (go, wait) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let (begin, begun) = mpsc::channel();
        let first = Box::new(move || {
            begin.send(()).unwrap();
            wait.recv().unwrap();
        });
        lane.submit_of(client("greedy"), first).unwrap();
        begun.recv().unwrap();
        for (name, n) in (0..400)
            .map(|n| ("greedy", n))
            .chain([("one", 0), ("two", 0), ("two", 1)])
        {
            let tell = tell.clone();
            let job = Box::new(move || tell.send((name, n)).unwrap());
            lane.submit_of(client(name), job).unwrap();
        }
        go.send(()).unwrap();
        let first: Vec<_> = told.iter().take(6).collect();
        assert_eq!(
            first,
            [
                ("greedy", 0),
                ("one", 0),
                ("two", 0),
                ("greedy", 1),
                ("two", 1),
                ("greedy", 2)
            ]
        );
        lane.stop();
        assert!(lane.state().clients.is_empty());
    }

    /// A client's long jobs leave threads for other clients, and its queue leaves room for theirs.
    #[test]
    fn one_client_leaves_threads_and_queue_space() {
        let lane = Lane::new(
            "test",
            4,
            10,
            LaneOptions {
                reserved: 1,
                ..LaneOptions::default()
            },
        );
        let (go, wait) = mpsc::channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        let (tell, told) = mpsc::channel();
        let mut taken = 0;
        for _ in 0..20 {
            let wait = Arc::clone(&wait);
            let job = Box::new(move || {
                let _ = wait.lock().unwrap().recv();
            });
            taken += usize::from(lane.submit_of(client("greedy"), job).is_ok());
        }
        assert!((5..=8).contains(&taken), "{taken}");
        let job = Box::new(move || tell.send(()).unwrap());
        lane.submit_of(client("other"), job).unwrap();
        told.recv().unwrap();
        drop(go);
        lane.stop();
    }
}
