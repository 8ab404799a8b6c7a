//! Start-time fair queueing: each client has a virtual time, which grows by the thread time of its jobs, divided by its weight. The next
//! job is of the waiting client with the earliest virtual time.
//!
//! The time of a job is not known before it ends. A running job therefore counts as its client's average, or as the time that it has
//! taken so far if that is longer, and as its real time once it has ended. A client that had no jobs starts at the virtual time of the
//! job that was taken last, so that it gets no credit for the time without jobs.

use super::Share;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Number of clients without jobs whose virtual times are kept at least.
const IDLE_KEPT: usize = 64;
/// Units of virtual time in a nanosecond of a client of weight 1. All weights up to 10 divide it.
const UNITS: u128 = 2_520;
/// Time that each job counts if clients take turns by jobs.
const COUNTED_NANOS: u128 = 1;

/// Class of the thread that asks for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taker {
    /// A thread for any job. `spares` says whether an idle thread waits for clients without a running job.
    Common { spares: bool },
    /// A thread for clients without a running job, while other clients have some.
    Reserved,
}

/// A job that was taken from the queue.
#[derive(Debug)]
pub(crate) struct Taken<J> {
    pub(crate) job: J,
    /// Time for which the job waited, in nanoseconds.
    pub(crate) waited: u64,
    /// Client and start of the job, for [`FairQueue::finish`].
    pub(crate) started: Started,
}

/// Client and start of a running job.
#[derive(Debug)]
pub(crate) struct Started {
    client: Arc<str>,
    at: u64,
}

#[derive(Debug)]
struct ClientQueue<J> {
    /// Waiting jobs with the times at which they arrived.
    jobs: VecDeque<(u64, J)>,
    weight: u32,
    /// Virtual time of all jobs that have ended.
    settled: u128,
    running: u64,
    /// Sum of the times at which the running jobs began.
    began: u128,
    /// Moving average of the time of a job, in nanoseconds.
    average: u64,
    /// Number of the client's turn, for clients with equal virtual times.
    turn: u64,
}

impl<J> ClientQueue<J> {
    fn is_idle(&self) -> bool {
        self.running == 0 && self.jobs.is_empty()
    }

    fn virtual_time(&self, now: u64, by_count: bool) -> u128 {
        let running = u128::from(self.running);
        let nanos = if by_count {
            running * COUNTED_NANOS
        } else {
            let elapsed = (running * u128::from(now)).saturating_sub(self.began);
            elapsed.max(running * u128::from(self.average))
        };
        self.settled + nanos * UNITS / u128::from(self.weight)
    }
}

/// Jobs of several clients. All times are nanoseconds of a monotonic clock of the caller.
#[derive(Debug)]
pub(crate) struct FairQueue<J> {
    /// State by client, with some clients that have no jobs now.
    clients: HashMap<Arc<str>, ClientQueue<J>>,
    /// Virtual time of the job that was taken last, at its start; with no job left, the latest end of a job.
    last_start: u128,
    latest_end: u128,
    /// Number of clients from which on those that no longer matter are removed.
    forget_at: usize,
    waiting: usize,
    running: u64,
    turns: u64,
    /// Moving average of the time of a job over all clients, in nanoseconds.
    average: u64,
    /// Whether all jobs count the same, however long they take.
    by_count: bool,
}

fn moving(average: u64, nanos: u64) -> u64 {
    average - average / 16 + nanos / 16
}

impl<J> FairQueue<J> {
    /// Creates a queue; with `by_count` clients take turns by jobs, without weights.
    pub(crate) fn new(by_count: bool) -> Self {
        Self {
            clients: HashMap::new(),
            last_start: 0,
            latest_end: 0,
            forget_at: IDLE_KEPT,
            waiting: 0,
            running: 0,
            turns: 0,
            average: 0,
            by_count,
        }
    }

    /// Number of waiting jobs.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Number of waiting jobs of one client.
    pub(crate) fn waiting_of(&self, client: &str) -> usize {
        self.clients.get(client).map_or(0, |own| own.jobs.len())
    }

    /// Moving average of the time of a job, in nanoseconds.
    pub(crate) fn average(&self) -> u64 {
        self.average
    }

    /// Adds a job of a client.
    pub(crate) fn push(&mut self, share: &Share, now: u64, job: J) {
        let (average, start) = (self.average, self.last_start);
        let own = self
            .clients
            .entry(Arc::clone(&share.client))
            .or_insert_with(|| ClientQueue {
                jobs: VecDeque::new(),
                weight: share.weight,
                settled: start,
                running: 0,
                began: 0,
                average,
                turn: 0,
            });
        own.weight = if self.by_count {
            super::WEIGHT
        } else {
            share.weight.max(1)
        };
        if own.is_idle() {
            own.settled = own.settled.max(start);
        }
        if own.jobs.is_empty() {
            self.turns += 1;
            own.turn = self.turns;
        }
        own.jobs.push_back((now, job));
        self.waiting += 1;
    }

    /// Whether a reserved thread may take a job of this client.
    fn is_light(&self, own: &ClientQueue<J>) -> bool {
        own.running == 0 && self.running > 0
    }

    /// Whether a reserved thread could take the next job of a client.
    pub(crate) fn is_for_reserved(&self, client: &str) -> bool {
        let own = self.clients.get(client);
        own.is_some_and(|own| !own.jobs.is_empty() && self.is_light(own))
    }

    /// Takes the next job that a thread of this class may run.
    pub(crate) fn take(&mut self, taker: Taker, now: u64) -> Option<Taken<J>> {
        let mut first: Option<(u128, u64, &Arc<str>)> = None;
        for (client, own) in &self.clients {
            let may = match taker {
                Taker::Reserved => self.is_light(own),
                Taker::Common { spares } => !(spares && self.is_light(own)),
            };
            if own.jobs.is_empty() || !may {
                continue;
            }
            let time = own.virtual_time(now, self.by_count);
            if first.is_none_or(|(least, turn, _)| (time, own.turn) < (least, turn)) {
                first = Some((time, own.turn, client));
            }
        }
        let (time, _, client) = first?;
        let client = Arc::clone(client);
        let own = self.clients.get_mut(&client)?;
        let (arrived, job) = own.jobs.pop_front()?;
        own.running += 1;
        own.began += u128::from(now);
        self.turns += 1;
        own.turn = self.turns;
        self.last_start = self.last_start.max(time);
        self.waiting -= 1;
        self.running += 1;
        Some(Taken {
            job,
            waited: now.saturating_sub(arrived),
            started: Started { client, at: now },
        })
    }

    /// Adds the time of a job that has ended to its client's virtual time.
    pub(crate) fn finish(&mut self, started: &Started, now: u64) {
        let nanos = now.saturating_sub(started.at);
        self.average = moving(self.average, nanos);
        self.running = self.running.saturating_sub(1);
        let counted = if self.by_count {
            COUNTED_NANOS
        } else {
            u128::from(nanos)
        };
        if let Some(own) = self.clients.get_mut(&started.client) {
            own.running = own.running.saturating_sub(1);
            own.began = own.began.saturating_sub(u128::from(started.at));
            own.average = moving(own.average, nanos);
            own.settled += counted * UNITS / u128::from(own.weight);
            self.latest_end = self.latest_end.max(own.settled);
        }
        if self.waiting == 0 && self.running == 0 {
            self.last_start = self.last_start.max(self.latest_end);
        }
        if self.clients.len() > self.forget_at {
            // A client that starts anew gets this virtual time in any case.
            let start = self.last_start;
            self.clients
                .retain(|_, own| !own.is_idle() || own.settled > start);
            self.forget_at = IDLE_KEPT.max(2 * self.clients.len());
        }
    }
}
