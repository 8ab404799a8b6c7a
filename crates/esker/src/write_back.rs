//! Write-behind of file attributes: changes are buffered and sent in batches, as in `IndexFS`.
//!
//! A program that writes files updates their sizes and times repeatedly; only the last update is worth a call. Buffered
//! changes are lost with the process; [`WriteBack::sync`] makes sure that they were sent.

use crate::Database;
use esker_model::namespace::{
    AppliedChange, Change, INLINE_BYTES_MAX, Kind, NamePath, Namespace, SetAttributes,
};
use esker_model::object::Principal;
use esker_model::{Error, Result};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Maximum of changes in one call.
const CHANGES_PER_CALL: usize = 1_000;
/// Maximum of failures kept until [`WriteBack::sync`] returns them.
const FAILURES_MAX: usize = 1_000;

/// Limits of the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteBackOptions {
    /// Maximum of buffered changes; one more sends them all.
    pub most: usize,
    /// Maximum time that a change stays buffered.
    pub age: Duration,
}

impl Default for WriteBackOptions {
    fn default() -> Self {
        Self {
            most: 10_000,
            age: Duration::from_millis(500),
        }
    }
}

/// A buffered change that failed when it was sent.
#[derive(Debug)]
pub struct FailedChange {
    /// Path of the file.
    pub path: NamePath,
    /// Cause of the failure.
    pub error: Error,
}

/// Buffer for changes of sizes, times and modes.
///
/// Changes of one path are made in their order, those of different paths in any order. [`Self::files`] and
/// [`Self::change`] send the buffer first and so see all changes; other clients see them once they are sent. A time that
/// is set to "now" is the time of sending.
pub struct WriteBack<N: Namespace + 'static = Database> {
    inner: Arc<Inner<N>>,
    thread: Option<JoinHandle<()>>,
}

struct Inner<N> {
    files: N,
    principal: Option<Principal>,
    options: WriteBackOptions,
    state: Mutex<Buffer>,
    changed: Condvar,
    /// Lock for sending, which keeps the order of the changes.
    sending: Mutex<()>,
}

#[derive(Default)]
struct Buffer {
    buffered: Vec<BufferedChange>,
    /// Index of the last change of a path, into which later ones may be merged.
    open: HashMap<NamePath, usize>,
    paths: HashSet<NamePath>,
    /// Whether a buffered change affects permissions.
    modes: bool,
    oldest: Option<Instant>,
    failures: Vec<FailedChange>,
    closed: bool,
}

struct BufferedChange {
    path: NamePath,
    follow: bool,
    set: SetAttributes,
}

impl<N: Namespace + 'static> fmt::Debug for WriteBack<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteBack")
            .field("options", &self.inner.options)
            .finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The groups of attributes that a change sets: size, blocks, times and mode. Changes of the same groups fail for the
/// same reasons.
fn touches(set: &SetAttributes) -> (bool, bool, bool) {
    let times = set.atime.is_some() || set.mtime.is_some() || set.ctime.is_some();
    (
        set.size.is_some(),
        set.blocks.is_some(),
        times || set.mode.is_some(),
    )
}

/// Whether a change may be merged with a later one.
fn joins(first: &SetAttributes, then: &SetAttributes) -> bool {
    let sizes = match (first.size, then.size) {
        // Content in the database that a truncation in between has cut off must not reappear.
        (Some(a), Some(b)) => b <= a || a > INLINE_BYTES_MAX as u64,
        _ => true,
    };
    // Times that the first change sets explicitly and the second one sets to the current time.
    let earlier = first.mtime.is_some() && then.mtime.is_none() && then.size.is_some()
        || first.ctime.is_some() && then.ctime.is_none();
    sizes && !earlier && first.mode.is_none() && touches(first) == touches(then)
}

fn join(first: &mut SetAttributes, then: &SetAttributes) {
    first.mode = then.mode.or(first.mode);
    first.size = then.size.or(first.size);
    first.blocks = then.blocks.or(first.blocks);
    first.atime = then.atime.or(first.atime);
    first.mtime = then.mtime.or(first.mtime);
    first.ctime = then.ctime.or(first.ctime);
}

impl Buffer {
    fn push_change(&mut self, path: &NamePath, follow: bool, set: SetAttributes) {
        let last = self.open.get(path).copied();
        if let Some(buffered) = last.and_then(|last| self.buffered.get_mut(last))
            && buffered.follow == follow
            && joins(&buffered.set, &set)
        {
            join(&mut buffered.set, &set);
            return;
        }
        if set.mode.is_some() {
            // Later changes may depend on the new permissions.
            self.open.clear();
            self.modes = true;
        }
        self.open.insert(path.clone(), self.buffered.len());
        self.paths.insert(path.clone());
        self.oldest.get_or_insert_with(Instant::now);
        self.buffered.push(BufferedChange {
            path: path.clone(),
            follow,
            set,
        });
    }

    fn take(&mut self) -> Vec<BufferedChange> {
        self.open.clear();
        self.paths.clear();
        self.modes = false;
        self.oldest = None;
        std::mem::take(&mut self.buffered)
    }

    /// Puts changes that could not be sent before those added since.
    fn put_back(&mut self, mut buffered: Vec<BufferedChange>) {
        buffered.append(&mut self.take());
        self.paths = buffered.iter().map(|h| h.path.clone()).collect();
        self.modes = buffered.iter().any(|h| h.set.mode.is_some());
        self.oldest = Some(Instant::now());
        self.buffered = buffered;
    }

    fn fail(&mut self, path: NamePath, error: Error) {
        if self.failures.len() < FAILURES_MAX {
            self.failures.push(FailedChange { path, error });
        }
    }
}

impl<N: Namespace + 'static> Inner<N> {
    /// Sends all buffered changes.
    fn send(&self) -> Result<()> {
        let _sending = lock(&self.sending);
        let mut buffered = lock(&self.state).take();
        while !buffered.is_empty() {
            let rest = buffered.split_off(buffered.len().min(CHANGES_PER_CALL));
            let change = |h: &BufferedChange| Change::Set {
                path: h.path.clone(),
                follow: h.follow,
                set: h.set.clone(),
            };
            let changes: Vec<Change> = buffered.iter().map(change).collect();
            match self.files.change(self.principal.as_ref(), &changes) {
                Ok(done) => {
                    let mut state = lock(&self.state);
                    for (buffered, done) in buffered.into_iter().zip(done) {
                        if let Err(e) = done {
                            state.fail(buffered.path, e);
                        }
                    }
                }
                Err(e) => {
                    // The changes set absolute values, so sending them again is harmless.
                    buffered.extend(rest);
                    lock(&self.state).put_back(buffered);
                    return Err(e);
                }
            }
            buffered = rest;
        }
        Ok(())
    }

    /// Sends changes that have reached the maximum age, until the buffer is closed.
    fn work(&self) {
        let mut state = lock(&self.state);
        while !state.closed {
            let due = state.oldest.map(|oldest| oldest + self.options.age);
            let left = due.map(|due| due.saturating_duration_since(Instant::now()));
            state = match left {
                Some(Duration::ZERO) => {
                    drop(state);
                    // On failure the changes stay buffered, and the next sync reports the error.
                    let _ = self.send();
                    lock(&self.state)
                }
                Some(left) => {
                    let waited = self.changed.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => {
                    let waited = self.changed.wait(state);
                    waited.unwrap_or_else(PoisonError::into_inner)
                }
            };
        }
    }
}

impl<N: Namespace + 'static> WriteBack<N> {
    /// Buffers changes of files for a principal and starts the sending thread.
    pub fn new(files: N, principal: Option<Principal>, options: WriteBackOptions) -> Result<Self> {
        let inner = Arc::new(Inner {
            files,
            principal,
            options,
            state: Mutex::default(),
            changed: Condvar::new(),
            sending: Mutex::default(),
        });
        let work = Arc::clone(&inner);
        let thread = std::thread::Builder::new()
            .name("esker-write-back".into())
            .spawn(move || work.work())
            .map_err(|e| Error::io("starting a thread that sends buffered changes", e))?;
        Ok(Self {
            inner,
            thread: Some(thread),
        })
    }

    /// Changes attributes of a file later. Changes of owners and contents are made at once, after all buffered changes.
    ///
    /// An error means that the change was not accepted; [`Self::sync`] reports failures of accepted changes.
    pub fn set(&self, path: &NamePath, follow: bool, set: SetAttributes) -> Result<()> {
        if set.uid.is_some() || set.gid.is_some() || set.content.is_some() {
            let path = path.clone();
            let mut done = self.change(&[Change::Set { path, follow, set }])?;
            return done.pop().map_or(Ok(()), |done| done.map(|_| ()));
        }
        if lock(&self.inner.state).buffered.len() >= self.inner.options.most.max(1) {
            self.inner.send()?;
        }
        let mut state = lock(&self.inner.state);
        let first = state.buffered.is_empty();
        state.push_change(path, follow, set);
        drop(state);
        if first {
            self.inner.changed.notify_one();
        }
        Ok(())
    }

    /// Makes changes now. Sends the buffered changes first, unless all changes create new files that are independent of
    /// them.
    pub fn change(&self, changes: &[Change]) -> Result<Vec<Result<AppliedChange>>> {
        if !self.is_independent(changes) {
            self.inner.send()?;
        }
        self.inner
            .files
            .change(self.inner.principal.as_ref(), changes)
    }

    /// Whether the changes can be made before the buffered ones without any difference.
    fn is_independent(&self, changes: &[Change]) -> bool {
        let state = lock(&self.inner.state);
        let is_independent = |change: &Change| match change {
            Change::Create(path, make) => {
                Kind::of_mode(make.mode) != Some(Kind::Symlink)
                    && !state.paths.contains(path)
                    && !state.paths.contains(&path.parent())
            }
            _ => false,
        };
        state.buffered.is_empty() || !state.modes && changes.iter().all(is_independent)
    }

    /// Sends all buffered changes and returns the namespace.
    pub fn files(&self) -> Result<&N> {
        self.inner.send()?;
        Ok(&self.inner.files)
    }

    /// Sends all buffered changes and returns those that failed since the last call, at most 1,000. After an error the
    /// changes stay buffered.
    pub fn sync(&self) -> Result<Vec<FailedChange>> {
        self.inner.send()?;
        Ok(std::mem::take(&mut lock(&self.inner.state).failures))
    }

    /// Number of buffered changes.
    pub fn buffered(&self) -> usize {
        lock(&self.inner.state).buffered.len()
    }

    /// Sends all buffered changes and closes the buffer, with the result of [`Self::sync`].
    pub fn close(self) -> Result<Vec<FailedChange>> {
        self.sync()
    }
}

/// Sends all buffered changes; failures are lost.
impl<N: Namespace + 'static> Drop for WriteBack<N> {
    fn drop(&mut self) {
        lock(&self.inner.state).closed = true;
        self.inner.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = self.inner.send();
    }
}

impl Database {
    /// Creates a buffer for attribute changes of a principal.
    pub fn write_back(
        &self,
        principal: Option<Principal>,
        options: WriteBackOptions,
    ) -> Result<WriteBack<Self>> {
        WriteBack::new(self.clone(), principal, options)
    }
}
