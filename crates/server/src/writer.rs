//! The thread that does all clients' writes. Writes that arrive during one group commit form the next group. A group is two commits at
//! most: one of batches, one of changes to files. The writes of one client keep their order; those of several clients are taken by fair
//! shares of the thread's time.

use crate::call::Call;
use crate::limits::{GROUP_BATCHES_MAX, GROUP_BYTES_MAX, INLINE_GROUP_MUTATIONS};
use crate::names;
use crate::service::Service;
use crate::shares::{FairQueue, Started, Taker};
use crate::work::{QueueFull, retry_after};
use esker_model::namespace::Changes;
use esker_model::{Batch, Commit, Error, Result};
use esker_rpc::convert::commit_out;
use esker_rpc::proto::reply::Reply;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The content of a write.
pub(crate) enum WriteContent {
    Batch(Batch),
    Files(Changes),
}

impl From<Batch> for WriteContent {
    fn from(batch: Batch) -> Self {
        Self::Batch(batch)
    }
}

impl From<Changes> for WriteContent {
    fn from(changes: Changes) -> Self {
        Self::Files(changes)
    }
}

/// A queued write with its call.
struct Write {
    what: WriteContent,
    sync: bool,
    call: Call,
}

/// Writes of one group commit.
struct WriteGroup {
    writes: Vec<Write>,
    /// For each write, its client and its size in bytes.
    taken: Vec<(Started, usize)>,
    /// Time at which the writes were taken, in nanoseconds since the writer was made.
    at: u64,
}

/// Queue of writes with its thread's state.
pub(crate) struct Writer {
    state: Mutex<WriterState>,
    more: Condvar,
    waiting_max: usize,
    origin: Instant,
}

struct WriterState {
    queue: FairQueue<Write>,
    idle: bool,
    stopped: bool,
}

/// Bytes that each write counts besides its request, as its part of the time of a group.
const WRITE_BYTES: usize = 64;

impl Writer {
    /// Creates the queue; with `by_count` clients take turns by writes.
    pub(crate) fn new(waiting_max: usize, by_count: bool) -> Self {
        let state = WriterState {
            queue: FairQueue::new(by_count),
            idle: false,
            stopped: false,
        };
        Self {
            state: Mutex::new(state),
            more: Condvar::new(),
            waiting_max,
            origin: Instant::now(),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn state(&self) -> MutexGuard<'_, WriterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a write, if there is room; else returns the call.
    #[allow(
        clippy::result_large_err,
        reason = "a refused call goes back whole, to be answered"
    )]
    pub(crate) fn submit(
        &self,
        what: WriteContent,
        sync: bool,
        call: Call,
    ) -> Result<(), (Call, QueueFull)> {
        let share = call.state.client().share.clone();
        let mut state = self.state();
        let waiting = state.queue.waiting();
        // A single client may fill at most half of the queue.
        let own = state.queue.waiting_of(&share.client);
        if own >= self.waiting_max.div_ceil(2) || waiting >= self.waiting_max || state.stopped {
            let after = retry_after(waiting, Duration::from_nanos(state.queue.average()), 1);
            return Err((call, QueueFull { waiting, after }));
        }
        let write = Write { what, sync, call };
        state.queue.push(&share, self.now(), write);
        let idle = std::mem::take(&mut state.idle);
        drop(state);
        if idle {
            self.more.notify_one();
        }
        Ok(())
    }

    /// Number of queued writes.
    pub(crate) fn waiting(&self) -> usize {
        self.state().queue.waiting()
    }

    /// Whether no write is in progress. The next write may begin at any time.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.state();
        state.idle && state.queue.waiting() == 0
    }

    /// Lets the thread finish the queued writes and end.
    pub(crate) fn stop(&self) {
        self.state().stopped = true;
        self.more.notify_all();
    }

    /// Takes the next group; `None` once stopped.
    fn next(&self) -> Option<WriteGroup> {
        let mut state = self.state();
        while state.queue.waiting() == 0 {
            if state.stopped {
                return None;
            }
            state.idle = true;
            state = self
                .more
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let mut group = WriteGroup {
            writes: Vec::new(),
            taken: Vec::new(),
            at: self.now(),
        };
        let mut bytes = 0;
        while group.writes.len() < GROUP_BATCHES_MAX && bytes < GROUP_BYTES_MAX {
            let taker = Taker::Common { spares: false };
            let Some(taken) = state.queue.take(taker, group.at) else {
                break;
            };
            let size = taken.job.call.bytes();
            bytes += size;
            group.taken.push((taken.started, size + WRITE_BYTES));
            group.writes.push(taken.job);
        }
        Some(group)
    }

    /// Divides the time of a group among the clients of its writes, by size.
    fn finish(&self, taken: &[(Started, usize)], at: u64) {
        let nanos = u128::from(self.now().saturating_sub(at));
        let all: usize = taken.iter().map(|(_, size)| size).sum();
        let mut state = self.state();
        for (started, size) in taken {
            let part = nanos * *size as u128 / all.max(1) as u128;
            let part = u64::try_from(part).unwrap_or(u64::MAX);
            state.queue.finish(started, at.saturating_add(part));
        }
    }

    /// Runs the writer's thread until it is stopped.
    pub(crate) fn work(&self, service: &Service) {
        while let Some(group) = self.next() {
            let WriteGroup { writes, taken, at } = group;
            // A panic loses only the group, whose calls are answered when they are dropped; the server continues.
            let apply = std::panic::AssertUnwindSafe(|| apply(service, writes));
            let _ = std::panic::catch_unwind(apply);
            self.finish(&taken, at);
        }
    }
}

/// Small batches of one message of a client. The thread that receives them writes them as one group if no other write is in progress.
#[derive(Default)]
pub(crate) struct InlineGroup {
    batches: Vec<Batch>,
    calls: Vec<Call>,
    mutations: usize,
}

impl InlineGroup {
    /// Adds a batch that may be written by this thread, and writes the group if it is full.
    pub(crate) fn add(&mut self, service: &Service, batch: Batch, call: Call) {
        self.mutations += batch.len();
        self.batches.push(batch);
        self.calls.push(call);
        if self.mutations >= INLINE_GROUP_MUTATIONS {
            self.write(service);
        }
    }

    /// Writes all batches, or passes them to the writer.
    pub(crate) fn write(&mut self, service: &Service) {
        let Self { batches, calls, .. } = std::mem::take(self);
        if batches.is_empty() {
            return;
        }
        let sizes: Vec<u64> = batches.iter().map(|batch| batch.len() as u64).collect();
        match service.database.try_apply_all(batches) {
            Ok(commits) => {
                service.metrics.groups.record(sizes.len() as u64);
                sizes
                    .iter()
                    .for_each(|n| service.metrics.batches.record(*n));
                for (call, commit) in calls.into_iter().zip(commits) {
                    respond(service, call, commit);
                }
            }
            Err(batches) => {
                for (batch, call) in batches.into_iter().zip(calls) {
                    if let Err((call, full)) = service.writer.submit(batch.into(), false, call) {
                        service.reject(call, &full);
                    }
                }
            }
        }
    }
}

fn apply(service: &Service, group: Vec<Write>) {
    service.metrics.groups.record(group.len() as u64);
    let (mut batches, mut batch_calls) = (Vec::with_capacity(group.len()), Vec::new());
    let (mut files, mut file_calls) = (Vec::new(), Vec::new());
    let mut sync = false;
    for write in group {
        sync |= write.sync;
        match write.what {
            WriteContent::Batch(batch) => {
                service.metrics.batches.record(batch.len() as u64);
                batches.push(batch);
                batch_calls.push(write.call);
            }
            WriteContent::Files(changes) => {
                service.metrics.batches.record(changes.changes.len() as u64);
                files.push(changes);
                file_calls.push(write.call);
            }
        }
    }
    let mut commits = if batches.is_empty() {
        Vec::new()
    } else {
        service.database.apply_all(batches)
    };
    let mut changed = if files.is_empty() {
        Vec::new()
    } else {
        service.database.change_all(&files)
    };
    if sync && let Err(e) = service.database.persist() {
        // The sync covers the group, so that its failure concerns every write in it.
        failed_after(&mut commits, &e);
        failed_after(&mut changed, &e);
    }
    for (call, commit) in batch_calls.into_iter().zip(commits) {
        respond(service, call, commit);
    }
    for (call, done) in file_calls.into_iter().zip(changed) {
        names::respond(service, call, done);
    }
}

fn failed_after<T>(writes: &mut [Result<T>], why: &Error) {
    for write in writes.iter_mut().filter(|w| w.is_ok()) {
        *write = Err(Error::Undecided(format!(
            "the batch was applied but could not be made durable: {why}"
        )));
    }
}

/// Answers a call with the outcome of its batch.
pub(crate) fn respond(service: &Service, call: Call, commit: Result<Commit>) {
    match commit {
        Ok(commit) => {
            service.note_version(commit.version);
            call.done(Reply::Apply(commit_out(&commit)));
        }
        Err(e) => call.failed(&e),
    }
}
