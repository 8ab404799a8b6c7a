//! The thread that does all clients' writes. Writes that arrive during one group commit form the next group. A group is two commits at
//! most: one of batches, one of changes to files.

use crate::call::Call;
use crate::limits::{GROUP_BATCHES_MAX, GROUP_BYTES_MAX, INLINE_GROUP_MUTATIONS};
use crate::names;
use crate::service::Service;
use crate::work::{QueueFull, retry_after};
use esker_model::namespace::Changes;
use esker_model::{Batch, Commit, Error, Result};
use esker_rpc::convert::commit_out;
use esker_rpc::proto::reply::Reply;
use std::collections::VecDeque;
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

/// Queue of writes with its thread's state.
pub(crate) struct Writer {
    state: Mutex<WriterState>,
    more: Condvar,
    waiting_max: usize,
}

#[derive(Default)]
struct WriterState {
    writes: VecDeque<Write>,
    idle: bool,
    stopped: bool,
    /// Moving average over groups of the time per batch, in nanoseconds.
    nanos: u64,
}

impl Writer {
    pub(crate) fn new(waiting_max: usize) -> Self {
        Self {
            state: Mutex::default(),
            more: Condvar::new(),
            waiting_max,
        }
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
        let mut state = self.state();
        let waiting = state.writes.len();
        if waiting >= self.waiting_max || state.stopped {
            let after = retry_after(waiting, Duration::from_nanos(state.nanos), 1);
            return Err((call, QueueFull { waiting, after }));
        }
        state.writes.push_back(Write { what, sync, call });
        let idle = std::mem::take(&mut state.idle);
        drop(state);
        if idle {
            self.more.notify_one();
        }
        Ok(())
    }

    /// Number of queued writes.
    pub(crate) fn waiting(&self) -> usize {
        self.state().writes.len()
    }

    /// Whether no write is in progress. The next write may begin at any time.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.state();
        state.idle && state.writes.is_empty()
    }

    /// Lets the thread finish the queued writes and end.
    pub(crate) fn stop(&self) {
        self.state().stopped = true;
        self.more.notify_all();
    }

    /// Takes the next group; `None` once stopped.
    fn next(&self) -> Option<Vec<Write>> {
        let mut state = self.state();
        while state.writes.is_empty() {
            if state.stopped {
                return None;
            }
            state.idle = true;
            state = self
                .more
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let (mut bytes, mut count) = (0, 0);
        for write in &state.writes {
            bytes += write.call.bytes();
            if count == GROUP_BATCHES_MAX || (count > 0 && bytes > GROUP_BYTES_MAX) {
                break;
            }
            count += 1;
        }
        Some(state.writes.drain(..count).collect())
    }

    /// Runs the writer's thread until it is stopped.
    pub(crate) fn work(&self, service: &Service) {
        while let Some(group) = self.next() {
            let began = Instant::now();
            let count = group.len() as u64;
            // A panic loses only the group, whose calls are answered when they are dropped; the server continues.
            let apply = std::panic::AssertUnwindSafe(|| apply(service, group));
            let _ = std::panic::catch_unwind(apply);
            let nanos =
                u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX) / count.max(1);
            let mut state = self.state();
            state.nanos = state.nanos - state.nanos / 16 + nanos / 16;
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
