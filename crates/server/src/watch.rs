//! Watches on files: the paths about which a client has asked, and the changes to them since.
//!
//! A watcher is a long call. A request that names a watcher is answered only after all directories of its path are watched, so that every
//! change that invalidates the answer is notified after the answer was read. Directories are watched by their ids, for all paths by which
//! they were requested. A change to an entry notifies the entry, its directory (whose times depend on it), and, when a directory appears
//! or disappears, everything below. Paths that lead through symbolic links get no notifications: they are not [covered](Watcher::cover).

use esker::{Engine, EntryChange, NamesChange};
use esker_model::namespace::{Errno, Kind, NamePath, Namespace as _};
use esker_model::{Error, Result, VertexId};
use esker_rpc::proto::watch_files_reply::{ChangeKind, Happened};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// Watchers at a time; each has a thread.
const WATCHERS_MAX: usize = 256;
/// Watchers of one client: one key, one user of this machine, one token.
const WATCHERS_EACH: usize = 32;
/// Paths of directories that one watcher watches. The least recently requested one is dropped for a new one, and its loss is notified.
const PATHS_MAX: usize = if cfg!(test) { 16 } else { 1 << 16 };
/// Queued notifications of a watcher; beyond this number they are replaced by one that says that anything may have changed.
const WAITING_MAX: usize = 1 << 17;
/// Attempts at watching a path whose directories move meanwhile.
const ATTEMPTS_MAX: usize = 4;

/// All watchers of a server.
#[derive(Default)]
pub(crate) struct Watchers {
    all: Arc<Mutex<WatchersState>>,
}

#[derive(Default)]
struct WatchersState {
    last: u64,
    open: BTreeMap<u64, (Arc<str>, Arc<Watcher>)>,
    subscribed: bool,
}

/// One watcher of a client.
pub(crate) struct Watcher {
    engine: Weak<Engine>,
    state: Mutex<WatcherState>,
    wake: Condvar,
}

/// A watched path of a directory.
struct WatchedPath {
    directory: VertexId,
    last_use: u64,
}

#[derive(Default)]
struct WatcherState {
    /// Watched directories by path. Invariant: the parents of each path are watched, too.
    paths: BTreeMap<Box<[u8]>, WatchedPath>,
    directories: HashMap<VertexId, BTreeSet<Box<[u8]>>>,
    /// Paths by the time of their last use; a directory comes after the paths below it.
    by_last_use: BTreeMap<u64, Box<[u8]>>,
    last_use: u64,
    happened: Vec<Happened>,
    touched: BTreeSet<VertexId>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watchers {
    /// Opens a watcher for a client; returns its number.
    pub(crate) fn open(
        &self,
        engine: &Arc<Engine>,
        client: Arc<str>,
    ) -> Result<(u64, Arc<Watcher>)> {
        let mut all = lock(&self.all);
        let own = all.open.values().filter(|(of, _)| *of == client).count();
        if own >= WATCHERS_EACH {
            return Err(Error::Limit {
                what: format!("the number of watches of files that {client} has at this server"),
                got: own as u64 + 1,
                limit: WATCHERS_EACH as u64,
            });
        }
        if all.open.len() >= WATCHERS_MAX {
            return Err(Error::Limit {
                what: "the number of those who watch files of this server".into(),
                got: all.open.len() as u64 + 1,
                limit: WATCHERS_MAX as u64,
            });
        }
        if !all.subscribed {
            all.subscribed = true;
            let others = Arc::downgrade(&self.all);
            engine.set_names_listener(Arc::new(move |news| {
                if let Some(all) = others.upgrade() {
                    let open: Vec<_> = lock(&all)
                        .open
                        .values()
                        .map(|(_, w)| Arc::clone(w))
                        .collect();
                    open.iter().for_each(|watcher| watcher.notify(news));
                }
            }));
        }
        all.last += 1;
        let watcher = Arc::new(Watcher {
            engine: Arc::downgrade(engine),
            state: Mutex::default(),
            wake: Condvar::new(),
        });
        let number = all.last;
        all.open.insert(number, (client, Arc::clone(&watcher)));
        Ok((number, watcher))
    }

    /// Looks up a watcher by its number.
    pub(crate) fn get(&self, number: u64) -> Option<Arc<Watcher>> {
        let all = lock(&self.all);
        all.open.get(&number).map(|(_, w)| Arc::clone(w))
    }

    pub(crate) fn close(&self, number: u64) {
        let watcher = lock(&self.all).open.remove(&number);
        if let Some((_, watcher)) = watcher {
            watcher.forget_all(&mut lock(&watcher.state));
        }
    }
}

/// Path of a name in a directory.
fn join_path(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let directory = if directory == b"/" { b"" } else { directory };
    [directory, b"/", name].concat()
}

/// The directories of a path, the root first, and last the path itself.
fn ancestors(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = path.iter().enumerate().skip(1).filter(|(_, b)| **b == b'/');
    let parents = slashes.filter_map(|(at, _)| path.get(..at));
    let itself = (path != b"/").then_some(path);
    std::iter::once(&b"/"[..]).chain(parents).chain(itself)
}

impl Watcher {
    /// Watches all directories of a path, and the path itself if it is one. False if it leads through a symbolic link.
    pub(crate) fn cover(&self, path: &NamePath) -> Result<bool> {
        let Some(engine) = self.engine.upgrade() else {
            return Ok(false);
        };
        if path.handle().is_some() {
            return Ok(false);
        }
        'anew: for _ in 0..ATTEMPTS_MAX {
            let bytes = path.as_bytes();
            // Bottom-up when used: a directory's turn comes after that of the paths below it.
            let all: Vec<&[u8]> = ancestors(bytes).collect();
            let mut new = Vec::new();
            for ancestor in &all {
                if lock(&self.state).paths.contains_key(*ancestor) {
                    continue;
                }
                let inode = match engine.stat(None, &NamePath::parse(ancestor)?, false) {
                    Ok(inode) => inode,
                    // The existing parents are watched, so that the creation of the path is notified.
                    Err(Error::File(e))
                        if matches!(e.errno, Errno::NotFound | Errno::NotDirectory) =>
                    {
                        break;
                    }
                    Err(e) => return Err(e),
                };
                match inode.kind() {
                    Kind::Directory => new.push((*ancestor, inode.id)),
                    Kind::Symlink if ancestor.len() < bytes.len() => return Ok(false),
                    _ => break,
                }
            }
            if new.is_empty() {
                self.touch(&all);
                return Ok(true);
            }
            let ids: Vec<VertexId> = new.iter().map(|(_, id)| *id).collect();
            engine.watch_directories(&ids);
            {
                let mut state = lock(&self.state);
                let twice: Vec<VertexId> = new
                    .iter()
                    .filter_map(|(ancestor, id)| state.insert(ancestor, *id))
                    .collect();
                engine.unwatch_directories(&twice);
            }
            self.touch(&all);
            self.evict(&engine);
            // The directories may have moved before they were watched.
            for (ancestor, id) in new {
                let now = engine.stat(None, &NamePath::parse(ancestor)?, false);
                let state = lock(&self.state);
                let kept = state.paths.get(ancestor).is_some_and(|p| p.directory == id);
                drop(state);
                if !kept || !now.is_ok_and(|inode| inode.id == id) {
                    self.forget(ancestor);
                    continue 'anew;
                }
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Marks paths as used now.
    fn touch(&self, ancestors: &[&[u8]]) {
        let mut state = lock(&self.state);
        for ancestor in ancestors.iter().rev() {
            state.touch(ancestor);
        }
    }

    /// Drops the least recently used paths if there are too many.
    fn evict(&self, engine: &Engine) {
        let mut state = lock(&self.state);
        while state.paths.len() > PATHS_MAX {
            let Some((_, path)) = state.by_last_use.first_key_value() else {
                return;
            };
            let path = path.clone();
            let ids = state.forget_below(&path);
            engine.unwatch_directories(&ids);
            state.queue(path.into(), ChangeKind::Missed);
        }
        drop(state);
        self.wake.notify_all();
    }

    fn forget(&self, path: &[u8]) {
        let ids = lock(&self.state).forget_below(path);
        if let Some(engine) = self.engine.upgrade() {
            engine.unwatch_directories(&ids);
        }
    }

    fn forget_all(&self, state: &mut WatcherState) {
        let ids = state.forget_below(b"/");
        if let Some(engine) = self.engine.upgrade() {
            engine.unwatch_directories(&ids);
        }
    }

    /// Queues notifications of a commit. The writer waits for this function.
    fn notify(&self, news: &[NamesChange]) {
        let mut state = lock(&self.state);
        for one in news {
            match one {
                NamesChange::Entry {
                    directory,
                    name,
                    now,
                } => {
                    let Some(paths) = state.directories.get(directory).cloned() else {
                        continue;
                    };
                    for ancestor in paths {
                        let path = join_path(&ancestor, name.as_bytes());
                        let what = match now {
                            EntryChange::Gone => ChangeKind::Gone,
                            EntryChange::Remade => ChangeKind::Missed,
                            EntryChange::Made | EntryChange::Changed => ChangeKind::Changed,
                        };
                        if !matches!(now, EntryChange::Changed) {
                            let ids = state.forget_below(&path);
                            if let Some(engine) = self.engine.upgrade().filter(|_| !ids.is_empty())
                            {
                                engine.unwatch_directories(&ids);
                            }
                        }
                        state.queue(path, what);
                    }
                }
                NamesChange::Times(directory) => {
                    let paths = state.directories.get(directory).cloned();
                    for ancestor in paths.into_iter().flatten() {
                        state.queue(ancestor.into(), ChangeKind::Changed);
                    }
                }
                NamesChange::Touched(id) if !state.paths.is_empty() => {
                    state.touched.insert(*id);
                }
                NamesChange::Touched(_) => {}
                NamesChange::Anything => {
                    self.forget_all(&mut state);
                    state.happened.clear();
                    state.queue(b"/".to_vec(), ChangeKind::Missed);
                }
            }
        }
        if state.happened.len() + state.touched.len() > WAITING_MAX {
            self.forget_all(&mut state);
            state.happened.clear();
            state.touched.clear();
            state.queue(b"/".to_vec(), ChangeKind::Missed);
        }
        let any = !state.happened.is_empty() || !state.touched.is_empty();
        drop(state);
        if any {
            self.wake.notify_all();
        }
    }

    /// Takes the queued notifications; waits for some for up to `patience`.
    pub(crate) fn take(&self, patience: Duration) -> Vec<Happened> {
        let mut state = lock(&self.state);
        if state.happened.is_empty() && state.touched.is_empty() {
            state = self
                .wake
                .wait_timeout(state, patience)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        let mut happened = std::mem::take(&mut state.happened);
        let touched: Vec<VertexId> = std::mem::take(&mut state.touched).into_iter().collect();
        drop(state);
        if touched.is_empty() {
            return happened;
        }
        let paths = self.engine.upgrade().map(|e| e.paths_of(&touched));
        match paths {
            Some(Ok(paths)) => {
                let state = lock(&self.state);
                happened.extend(paths.into_iter().filter_map(|path| {
                    let parent = path.iter().rposition(|b| *b == b'/')?;
                    let parent = path.get(..parent.max(1))?;
                    state.paths.contains_key(parent).then_some(Happened {
                        path,
                        kind: ChangeKind::Changed.into(),
                    })
                }));
            }
            None => {}
            Some(Err(_)) => happened.push(Happened {
                path: b"/".to_vec(),
                kind: ChangeKind::Missed.into(),
            }),
        }
        happened
    }
}

impl WatcherState {
    /// Adds a watched directory; returns the directory that had this path before.
    fn insert(&mut self, path: &[u8], directory: VertexId) -> Option<VertexId> {
        self.last_use += 1;
        let watched = WatchedPath {
            directory,
            last_use: self.last_use,
        };
        self.by_last_use.insert(watched.last_use, path.into());
        let before = self.paths.insert(path.into(), watched);
        if let Some(before) = &before {
            self.by_last_use.remove(&before.last_use);
            self.remove_directory_path(before.directory, path);
        }
        self.directories
            .entry(directory)
            .or_default()
            .insert(path.into());
        before.map(|watched| watched.directory)
    }

    fn remove_directory_path(&mut self, directory: VertexId, path: &[u8]) {
        if let Some(paths) = self.directories.get_mut(&directory) {
            paths.remove(path);
            if paths.is_empty() {
                self.directories.remove(&directory);
            }
        }
    }

    fn touch(&mut self, path: &[u8]) {
        let next = self.last_use + 1;
        if let Some(watched) = self.paths.get_mut(path) {
            self.last_use = next;
            self.by_last_use.remove(&watched.last_use);
            watched.last_use = next;
            self.by_last_use.insert(next, path.into());
        }
    }

    /// Removes a path and all below it; returns the directories that were watched for them.
    fn forget_below(&mut self, path: &[u8]) -> Vec<VertexId> {
        let prefix = join_path(path, b"");
        let prefix = if path == b"/" { b"/".to_vec() } else { prefix };
        let within = (
            Bound::Included(prefix.clone().into_boxed_slice()),
            Bound::Unbounded,
        );
        let mut all: Vec<Box<[u8]>> = self
            .paths
            .range::<Box<[u8]>, _>(within)
            .map(|(path, _)| path)
            .take_while(|path| path.starts_with(&prefix))
            .cloned()
            .collect();
        if path != b"/" && self.paths.contains_key(path) {
            all.push(path.into());
        }
        let mut ids = Vec::with_capacity(all.len());
        for path in all {
            let Some(watched) = self.paths.remove(&path) else {
                continue;
            };
            self.by_last_use.remove(&watched.last_use);
            ids.push(watched.directory);
            self.remove_directory_path(watched.directory, &path);
        }
        ids
    }

    fn queue(&mut self, path: Vec<u8>, kind: ChangeKind) {
        let kind = kind.into();
        // Each change of an entry repeats its directory; comparing with the last four notifications suffices.
        let mut last = self.happened.iter().rev().take(4);
        if last
            .find(|h| h.path == path)
            .is_some_and(|h| h.kind == kind)
        {
            return;
        }
        self.happened.push(Happened { path, kind });
    }
}

#[cfg(test)]
#[allow(
    clippy::indexing_slicing,
    reason = "a test that goes beyond the end has failed"
)]
mod tests;
