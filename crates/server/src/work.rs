//! Thread pools for work on the database, behind bounded queues.

use crate::client::Client;
use crate::limits::{RETRY_MAX, RETRY_MIN};
use crate::metrics::Histogram;
use crate::shares::{FairQueue, Share, Taker};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

tokio::task_local! {
    /// Client whose request is being accepted; clients' queued jobs take turns.
    pub(crate) static CLIENT: Arc<Client>;
}

/// A job of a thread pool.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// A queue and the threads that run its jobs. Threads are started when they are first needed.
pub(crate) struct Lane {
    name: &'static str,
    state: Mutex<LaneState>,
    /// Signals to idle threads of both classes.
    more: [Condvar; 2],
    threads_max: [usize; 2],
    waiting_max: usize,
    options: LaneOptions,
    origin: Instant,
    /// Times in microseconds for which jobs have waited.
    waits: Histogram<20>,
}

/// Properties of the threads of a lane.
#[derive(Default)]
pub(crate) struct LaneOptions {
    /// Number of threads that only run jobs of clients without another running job, while other clients have some.
    pub(crate) reserved: usize,
    /// Stack of each thread in bytes; the system's default if `None`.
    pub(crate) stack: Option<usize>,
    /// Whether the jobs take long. Their threads then run at a lower priority, so that short calls and network threads need not wait for
    /// a processor. Has no effect on an idle machine.
    pub(crate) background: bool,
    /// Whether clients take turns by jobs instead of shares of the threads' time.
    pub(crate) by_count: bool,
}

/// Niceness of threads with long jobs, which gives them a tenth of the normal weight.
const BACKGROUND_NICE: i32 = 10;
/// Niceness of reserved threads with long jobs, which gives them four times the weight of the others: one client's job does not wait for
/// a processor behind all jobs of another client.
const RESERVED_NICE: i32 = 4;

struct LaneState {
    queue: FairQueue<Job>,
    /// Idle threads and all threads; those for any client, and the reserved ones.
    idle: [usize; 2],
    started: [usize; 2],
    threads: Vec<JoinHandle<()>>,
    stopped: bool,
}

/// Positions of the two classes of threads in the lists of a lane.
const COMMON: usize = 0;
const RESERVED: usize = 1;

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
        let reserved = options.reserved.min(threads_max.saturating_sub(1));
        Arc::new(Self {
            name,
            state: Mutex::new(LaneState {
                queue: FairQueue::new(options.by_count),
                idle: [0; 2],
                started: [0; 2],
                threads: Vec::new(),
                stopped: false,
            }),
            more: [Condvar::new(), Condvar::new()],
            threads_max: [(threads_max - reserved).max(1), reserved],
            waiting_max,
            options,
            origin: Instant::now(),
            waits: Histogram::new(16),
        })
    }

    fn state(&self) -> MutexGuard<'_, LaneState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nanoseconds since the lane was made.
    fn now(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Queues a job of the client whose request is being accepted, if there is room.
    pub(crate) fn submit(self: &Arc<Self>, job: Job) -> Result<(), QueueFull> {
        match CLIENT.try_with(Arc::clone) {
            Ok(client) => self.submit_of(&client.share, job),
            Err(_) => self.submit_of(&Share::default(), job),
        }
    }

    fn submit_of(self: &Arc<Self>, share: &Share, job: Job) -> Result<(), QueueFull> {
        let mut state = self.state();
        let own = state.queue.waiting_of(&share.client);
        let waiting = state.queue.waiting();
        // A single client may fill at most half of the queue.
        if own >= self.waiting_max.div_ceil(2) || waiting >= self.waiting_max || state.stopped {
            let each = Duration::from_nanos(state.queue.average());
            let after = retry_after(waiting, each, self.threads_max.iter().sum());
            return Err(QueueFull { waiting, after });
        }
        state.queue.push(share, self.now(), job);
        let for_reserved = state.queue.is_for_reserved(&share.client)
            && (state.idle[RESERVED] > 0 || self.spawn(&mut state, RESERVED));
        // A thread that was woken and does not run yet counts as idle, and its job as waiting.
        if !for_reserved && state.idle[COMMON] < state.queue.waiting() {
            self.spawn(&mut state, COMMON);
        }
        self.wake(&state);
        Ok(())
    }

    /// Starts another thread of a class, if there may be more of them. If none can be started, the existing ones run the jobs.
    fn spawn(self: &Arc<Self>, state: &mut LaneState, class: usize) -> bool {
        if state.started[class] >= self.threads_max[class] {
            return false;
        }
        let lane = Arc::clone(self);
        let mut builder = std::thread::Builder::new().name(self.name.to_owned());
        if let Some(stack) = self.options.stack {
            builder = builder.stack_size(stack);
        }
        let Ok(thread) = builder.spawn(move || lane.work(class)) else {
            return false;
        };
        state.threads.push(thread);
        state.started[class] += 1;
        true
    }

    /// Wakes one idle thread of each class. A thread that finds no job for its class sleeps again.
    fn wake(&self, state: &LaneState) {
        for (idle, more) in state.idle.iter().zip(&self.more) {
            if *idle > 0 {
                more.notify_one();
            }
        }
    }

    /// Number of waiting jobs.
    pub(crate) fn waiting(&self) -> usize {
        self.state().queue.waiting()
    }

    /// Times in microseconds for which jobs have waited.
    pub(crate) fn waits(&self) -> &Histogram<20> {
        &self.waits
    }

    fn work(&self, class: usize) {
        if self.options.background {
            let nice = if class == RESERVED && !self.options.by_count {
                RESERVED_NICE
            } else {
                BACKGROUND_NICE
            };
            // Affects this thread only. If it fails, the jobs run at normal priority.
            let _ = rustix::process::nice(nice);
        }
        let mut state = self.state();
        loop {
            let taker = if class == RESERVED {
                Taker::Reserved
            } else {
                Taker::Common {
                    spares: state.idle[RESERVED] > 0 && !state.stopped,
                }
            };
            if let Some(taken) = state.queue.take(taker, self.now()) {
                if state.queue.waiting() > 0 {
                    self.wake(&state);
                }
                drop(state);
                self.waits.record(taken.waited / 1_000);
                // A panic ends its call, which answers when it is dropped; the thread continues.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(taken.job));
                state = self.state();
                state.queue.finish(&taken.started, self.now());
                continue;
            }
            if state.stopped {
                return;
            }
            if state.queue.waiting() > 0 {
                // The job is one for the other class.
                self.more[1 - class].notify_one();
            }
            state.idle[class] += 1;
            let woken = self.more[class].wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
            state.idle[class] -= 1;
        }
    }

    /// Lets the threads finish the queued jobs and end.
    pub(crate) fn stop(&self) {
        let threads = {
            let mut state = self.state();
            state.stopped = true;
            std::mem::take(&mut state.threads)
        };
        self.more.iter().for_each(Condvar::notify_all);
        for thread in threads {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn client(name: &str) -> Share {
        Share {
            client: name.into(),
            weight: 1,
        }
    }

    /// Jobs of a client that has queued many do not delay those of another. `shares::simulation` tests the order in general.
    #[test]
    fn clients_take_turns() {
        let options = LaneOptions {
            by_count: true,
            ..LaneOptions::default()
        };
        let lane = Lane::new("test", 1, 1_000, options);
        let (go, wait) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let (begin, begun) = mpsc::channel();
        let first = Box::new(move || {
            begin.send(()).unwrap();
            wait.recv().unwrap();
        });
        lane.submit_of(&client("greedy"), first).unwrap();
        begun.recv().unwrap();
        for (name, n) in (0..400)
            .map(|n| ("greedy", n))
            .chain([("one", 0), ("two", 0), ("two", 1)])
        {
            let tell = tell.clone();
            let job = Box::new(move || tell.send((name, n)).unwrap());
            lane.submit_of(&client(name), job).unwrap();
        }
        go.send(()).unwrap();
        let first: Vec<_> = told.iter().take(6).collect();
        assert_eq!(
            first,
            [
                ("one", 0),
                ("two", 0),
                ("greedy", 0),
                ("two", 1),
                ("greedy", 1),
                ("greedy", 2)
            ]
        );
        lane.stop();
        assert_eq!(lane.waiting(), 0);
    }

    /// A client's long jobs leave threads for other clients, and its queue leaves room for theirs.
    #[test]
    fn one_client_leaves_threads_and_queue_space() {
        let options = LaneOptions {
            reserved: 1,
            ..LaneOptions::default()
        };
        let lane = Lane::new("test", 4, 10, options);
        let (go, wait) = mpsc::channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        let (tell, told) = mpsc::channel();
        let mut taken = 0;
        for _ in 0..20 {
            let wait = Arc::clone(&wait);
            let job = Box::new(move || {
                let _ = wait.lock().unwrap().recv();
            });
            taken += usize::from(lane.submit_of(&client("greedy"), job).is_ok());
        }
        assert!((5..=8).contains(&taken), "{taken}");
        for _ in 0..3 {
            let tell = tell.clone();
            let job = Box::new(move || tell.send(()).unwrap());
            lane.submit_of(&client("other"), job).unwrap();
            told.recv().unwrap();
        }
        drop(go);
        lane.stop();
        assert_eq!(lane.waiting(), 0);
    }

    /// Threads of both classes run all jobs of many clients, also those that are queued when the lane stops.
    #[test]
    fn no_job_is_lost() {
        for round in 0..200 {
            let options = LaneOptions {
                reserved: round % 4,
                ..LaneOptions::default()
            };
            let lane = Lane::new("test", 4, 10_000, options);
            let (tell, told) = mpsc::channel();
            for n in 0..100 {
                let tell = tell.clone();
                let job = Box::new(move || tell.send(n).unwrap());
                let name = ["a", "b", "c"][n * n % 3];
                lane.submit_of(&client(name), job).unwrap();
                if round % 2 == 0 && n % 10 == 0 {
                    // The threads become idle now and then.
                    told.recv().unwrap();
                }
            }
            drop(tell);
            if round % 3 == 0 {
                lane.stop();
            }
            let left = told.iter().count();
            assert_eq!(left, if round % 2 == 0 { 90 } else { 100 }, "round {round}");
            lane.stop();
        }
    }
}
