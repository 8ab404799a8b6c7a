//! Attributes of files that are held back and sent later, many at once (write-back, as `IndexFS` has it).
//!
//! A program that writes files tells their sizes and times again and again; only the last is worth a call. What is held
//! is lost with the process: whoever must know that it is there calls [`WriteBack::sync`].

use crate::Database;
use esker_model::namespace::{
    Change, Done, INLINE_BYTES_MAX, Kind, NamePath, Namespace, SetAttributes,
};
use esker_model::object::Asker;
use esker_model::{Error, Result};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Changes of one call.
const TOGETHER: usize = 1_000;
/// Failures that are kept until somebody asks.
const FAILURES_MAX: usize = 1_000;

/// How much is held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteBackOptions {
    /// So many changes at most; then they are sent.
    pub most: usize,
    /// For so long at most.
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

/// A change that was taken and could not be made.
#[derive(Debug)]
pub struct Failed {
    /// Of which file.
    pub path: NamePath,
    /// Why.
    pub error: Error,
}

/// Changes of sizes, times and modes that are held back for a while.
///
/// Changes of one path are made in the order in which they came; those of several paths in any order. What
/// [`Self::files`] and [`Self::change`] are asked for sees them all: they are sent before. Others see them once they are sent. Times
/// that are not given are those of the sending.
pub struct WriteBack<N: Namespace + 'static = Database> {
    inner: Arc<Inner<N>>,
    thread: Option<JoinHandle<()>>,
}

struct Inner<N> {
    files: N,
    asker: Option<Asker>,
    options: WriteBackOptions,
    state: Mutex<State>,
    changed: Condvar,
    /// Held by who sends: so that what came first is made first.
    sending: Mutex<()>,
}

#[derive(Default)]
struct State {
    held: Vec<Held>,
    /// The last change of a path that later ones may join.
    open: HashMap<NamePath, usize>,
    paths: HashSet<NamePath>,
    /// Some change who may do what.
    modes: bool,
    oldest: Option<Instant>,
    failures: Vec<Failed>,
    closed: bool,
}

struct Held {
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

/// What a change touches: two that touch the same are refused for the same reasons.
fn touches(set: &SetAttributes) -> (bool, bool, bool) {
    let times = set.atime.is_some() || set.mtime.is_some() || set.ctime.is_some();
    (
        set.size.is_some(),
        set.blocks.is_some(),
        times || set.mode.is_some(),
    )
}

/// Whether a change may be made with a later one, as one.
fn joins(first: &SetAttributes, then: &SetAttributes) -> bool {
    let sizes = match (first.size, then.size) {
        // What was cut off in between must not come back: of content that is kept in the database.
        (Some(a), Some(b)) => b <= a || a > INLINE_BYTES_MAX as u64,
        _ => true,
    };
    // What the first one sets, and the second one lets be now.
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

impl State {
    fn hold(&mut self, path: &NamePath, follow: bool, set: SetAttributes) {
        let last = self.open.get(path).copied();
        if let Some(held) = last.and_then(|last| self.held.get_mut(last))
            && held.follow == follow
            && joins(&held.set, &set)
        {
            join(&mut held.set, &set);
            return;
        }
        if set.mode.is_some() {
            // It may be what later ones are allowed by.
            self.open.clear();
            self.modes = true;
        }
        self.open.insert(path.clone(), self.held.len());
        self.paths.insert(path.clone());
        self.oldest.get_or_insert_with(Instant::now);
        self.held.push(Held {
            path: path.clone(),
            follow,
            set,
        });
    }

    fn take(&mut self) -> Vec<Held> {
        self.open.clear();
        self.paths.clear();
        self.modes = false;
        self.oldest = None;
        std::mem::take(&mut self.held)
    }

    /// What could not be sent comes before what came since.
    fn give_back(&mut self, mut held: Vec<Held>) {
        held.append(&mut self.take());
        self.paths = held.iter().map(|h| h.path.clone()).collect();
        self.modes = held.iter().any(|h| h.set.mode.is_some());
        self.oldest = Some(Instant::now());
        self.held = held;
    }

    fn fail(&mut self, path: NamePath, error: Error) {
        if self.failures.len() < FAILURES_MAX {
            self.failures.push(Failed { path, error });
        }
    }
}

impl<N: Namespace + 'static> Inner<N> {
    /// Sends what is held.
    fn send(&self) -> Result<()> {
        let _sending = lock(&self.sending);
        let mut held = lock(&self.state).take();
        while !held.is_empty() {
            let rest = held.split_off(held.len().min(TOGETHER));
            let change = |h: &Held| Change::Set {
                path: h.path.clone(),
                follow: h.follow,
                set: h.set.clone(),
            };
            let changes: Vec<Change> = held.iter().map(change).collect();
            match self.files.change(self.asker.as_ref(), &changes) {
                Ok(done) => {
                    let mut state = lock(&self.state);
                    for (held, done) in held.into_iter().zip(done) {
                        if let Err(e) = done {
                            state.fail(held.path, e);
                        }
                    }
                }
                Err(e) => {
                    // They say what is, not what is to be added: made twice they are made once.
                    held.extend(rest);
                    lock(&self.state).give_back(held);
                    return Err(e);
                }
            }
            held = rest;
        }
        Ok(())
    }

    /// Sends what has been held for long enough, until it is closed.
    fn work(&self) {
        let mut state = lock(&self.state);
        while !state.closed {
            let due = state.oldest.map(|oldest| oldest + self.options.age);
            let left = due.map(|due| due.saturating_duration_since(Instant::now()));
            state = match left {
                Some(Duration::ZERO) => {
                    drop(state);
                    // It stays held if it cannot be sent, and whoever syncs is told.
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
    /// Holds back changes of files on behalf of somebody.
    pub fn new(files: N, asker: Option<Asker>, options: WriteBackOptions) -> Result<Self> {
        let inner = Arc::new(Inner {
            files,
            asker,
            options,
            state: Mutex::default(),
            changed: Condvar::new(),
            sending: Mutex::default(),
        });
        let work = Arc::clone(&inner);
        let thread = std::thread::Builder::new()
            .name("esker-write-back".into())
            .spawn(move || work.work())
            .map_err(|e| Error::io("starting a thread that sends what is held back", e))?;
        Ok(Self {
            inner,
            thread: Some(thread),
        })
    }

    /// Changes attributes of a file, later. Owners and contents are changed at once, after all that is held.
    ///
    /// An error means that it was not taken; what happens to it later [`Self::sync`] tells.
    pub fn set(&self, path: &NamePath, follow: bool, set: SetAttributes) -> Result<()> {
        if set.uid.is_some() || set.gid.is_some() || set.content.is_some() {
            let path = path.clone();
            let mut done = self.change(&[Change::Set { path, follow, set }])?;
            return done.pop().map_or(Ok(()), |done| done.map(|_| ()));
        }
        if lock(&self.inner.state).held.len() >= self.inner.options.most.max(1) {
            self.inner.send()?;
        }
        let mut state = lock(&self.inner.state);
        let first = state.held.is_empty();
        state.hold(path, follow, set);
        drop(state);
        if first {
            self.inner.changed.notify_one();
        }
        Ok(())
    }

    /// Makes changes now. What is held is sent before, unless they are new files that it has nothing to do with.
    pub fn change(&self, changes: &[Change]) -> Result<Vec<Result<Done>>> {
        if !self.apart(changes) {
            self.inner.send()?;
        }
        self.inner.files.change(self.inner.asker.as_ref(), changes)
    }

    /// Whether it is all the same if changes are made before what is held.
    fn apart(&self, changes: &[Change]) -> bool {
        let state = lock(&self.inner.state);
        let apart = |change: &Change| match change {
            Change::Make(path, make) => {
                Kind::of_mode(make.mode) != Some(Kind::Symlink)
                    && !state.paths.contains(path)
                    && !state.paths.contains(&path.parent())
            }
            _ => false,
        };
        state.held.is_empty() || !state.modes && changes.iter().all(apart)
    }

    /// Sends what is held, and gives the namespace with it.
    pub fn files(&self) -> Result<&N> {
        self.inner.send()?;
        Ok(&self.inner.files)
    }

    /// Sends what is held; says what of all that was taken since the last time could not be made (1,000 of it at most). After an
    /// error it is held still.
    pub fn sync(&self) -> Result<Vec<Failed>> {
        self.inner.send()?;
        Ok(std::mem::take(&mut lock(&self.inner.state).failures))
    }

    /// How many changes are held.
    pub fn held(&self) -> usize {
        lock(&self.inner.state).held.len()
    }

    /// The same as [`Self::sync`], for the last time.
    pub fn close(self) -> Result<Vec<Failed>> {
        self.sync()
    }
}

/// What is held is sent; what becomes of it nobody is told.
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
    /// Holds back changes of attributes on behalf of somebody, and sends them together.
    pub fn write_back(
        &self,
        asker: Option<Asker>,
        options: WriteBackOptions,
    ) -> Result<WriteBack<Self>> {
        WriteBack::new(self.clone(), asker, options)
    }
}
