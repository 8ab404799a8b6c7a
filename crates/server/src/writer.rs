//! The thread through which all writes of all clients go: what gathers while one group commits is the next group. A group
//! is two commits at most: one of batches, one of changes of files.

use crate::call::Call;
use crate::limits::{GROUP_BATCHES_MAX, GROUP_BYTES_MAX};
use crate::names;
use crate::service::Service;
use crate::work::{Full, retry_after};
use esker_model::namespace::Changes;
use esker_model::{Batch, Commit, Error, Result};
use esker_rpc::convert::commit_out;
use esker_rpc::proto::reply::Reply;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What is to be written.
pub(crate) enum What {
    Batch(Batch),
    Files(Changes),
}

impl From<Batch> for What {
    fn from(batch: Batch) -> Self {
        Self::Batch(batch)
    }
}

impl From<Changes> for What {
    fn from(changes: Changes) -> Self {
        Self::Files(changes)
    }
}

/// A write and who asked for it.
struct Write {
    what: What,
    sync: bool,
    call: Call,
}

/// The queue of batches.
pub(crate) struct Writer {
    state: Mutex<State>,
    more: Condvar,
    waiting_max: usize,
}

#[derive(Default)]
struct State {
    writes: VecDeque<Write>,
    idle: bool,
    stopped: bool,
    /// What a batch takes, in nanoseconds, as a moving average over groups.
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a batch, if there is room; else gives the call back.
    #[allow(
        clippy::result_large_err,
        reason = "a refused call goes back whole, to be answered"
    )]
    pub(crate) fn submit(&self, what: What, sync: bool, call: Call) -> Result<(), (Call, Full)> {
        let mut state = self.state();
        let waiting = state.writes.len();
        if waiting >= self.waiting_max || state.stopped {
            let after = retry_after(waiting, Duration::from_nanos(state.nanos), 1);
            return Err((call, Full { waiting, after }));
        }
        state.writes.push_back(Write { what, sync, call });
        let idle = std::mem::take(&mut state.idle);
        drop(state);
        if idle {
            self.more.notify_one();
        }
        Ok(())
    }

    /// How many batches wait.
    pub(crate) fn waiting(&self) -> usize {
        self.state().writes.len()
    }

    /// Whether nothing is written just now. The next write may begin at any time.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.state();
        state.idle && state.writes.is_empty()
    }

    /// Lets the thread finish what is queued and end.
    pub(crate) fn stop(&self) {
        self.state().stopped = true;
        self.more.notify_all();
    }

    /// The next group; `None` once stopped.
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

    /// What the thread does.
    pub(crate) fn work(&self, service: &Service) {
        while let Some(group) = self.next() {
            let began = Instant::now();
            let count = group.len() as u64;
            // A panic loses the group, whose calls are answered by their guards, and not the server.
            let apply = std::panic::AssertUnwindSafe(|| apply(service, group));
            let _ = std::panic::catch_unwind(apply);
            let nanos =
                u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX) / count.max(1);
            let mut state = self.state();
            state.nanos = state.nanos - state.nanos / 16 + nanos / 16;
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
            What::Batch(batch) => {
                service.metrics.batches.record(batch.len() as u64);
                batches.push(batch);
                batch_calls.push(write.call);
            }
            What::Files(changes) => {
                service.metrics.batches.record(changes.changes.len() as u64);
                files.push(changes);
                file_calls.push(write.call);
            }
        }
    }
    let mut commits = if batches.is_empty() {
        Vec::new()
    } else {
        service.database.apply_together(batches)
    };
    let mut changed = if files.is_empty() {
        Vec::new()
    } else {
        service.database.change_together(&files)
    };
    if sync && let Err(e) = service.database.persist() {
        // Nobody in the group can be told what became of theirs alone.
        failed_after(&mut commits, &e);
        failed_after(&mut changed, &e);
    }
    for (call, commit) in batch_calls.into_iter().zip(commits) {
        tell(service, call, commit);
    }
    for (call, done) in file_calls.into_iter().zip(changed) {
        names::tell(service, call, done);
    }
}

fn failed_after<T>(writes: &mut [Result<T>], why: &Error) {
    for write in writes.iter_mut().filter(|w| w.is_ok()) {
        *write = Err(Error::Unavailable(format!(
            "the batch was applied but could not be made to survive a power failure: {why}"
        )));
    }
}

/// Answers a call with what became of its batch.
pub(crate) fn tell(service: &Service, call: Call, commit: Result<Commit>) {
    match commit {
        Ok(commit) => {
            service.saw(commit.version);
            call.done(Reply::Apply(commit_out(&commit)));
        }
        Err(e) => call.failed(&e),
    }
}
