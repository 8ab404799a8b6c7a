//! Who watches files: what a client was answered about paths, and what has happened to them since.
//!
//! A watcher is a long call. A question that names it is answered only once all directories of its path are watched, so that
//! whatever makes the answer another one is told later than the answer was read. Directories are watched by their ids, for all
//! the paths by which they were asked about; a change of an entry tells of the entry, of its directory (whose times follow from it),
//! and, where directories come or go, of all below. Nothing is told of paths that lead through symbolic links: they are not
//! [covered](Watcher::cover).

use esker::{Engine, NameNow, NamesNews};
use esker_model::namespace::{Errno, Kind, NamePath, Namespace as _};
use esker_model::{Error, Result, VertexId};
use esker_rpc::proto::watch_files_reply::{Happened, What};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// Watchers at a time: each has a thread.
const WATCHERS_MAX: usize = 256;
/// Those of one client: one key, one user of this machine, one token.
const WATCHERS_EACH: usize = 32;
/// Directories that one watches, by the paths that they were asked about by; the one that was asked about least lately is given up
/// for a new one, and that is told.
const PATHS_MAX: usize = if cfg!(test) { 16 } else { 1 << 16 };
/// What happened and was not told yet; beyond it, all that is told is that something did.
const WAITING_MAX: usize = 1 << 17;
/// How often directories are looked at anew that move while they begin to be watched.
const ATTEMPTS_MAX: usize = 4;

/// All watchers of a server.
#[derive(Default)]
pub(crate) struct Watchers {
    all: Arc<Mutex<All>>,
}

#[derive(Default)]
struct All {
    last: u64,
    open: BTreeMap<u64, (Arc<str>, Arc<Watcher>)>,
    hears: bool,
}

/// One of them.
pub(crate) struct Watcher {
    engine: Weak<Engine>,
    held: Mutex<Held>,
    wake: Condvar,
}

/// A path that is watched.
struct Place {
    directory: VertexId,
    turn: u64,
}

#[derive(Default)]
struct Held {
    /// By path. Where one is, those above it are.
    paths: BTreeMap<Box<[u8]>, Place>,
    directories: HashMap<VertexId, BTreeSet<Box<[u8]>>>,
    /// By when they were asked about last; a directory's turn comes after that of what is below it.
    turns: BTreeMap<u64, Box<[u8]>>,
    turn: u64,
    happened: Vec<Happened>,
    touched: BTreeSet<VertexId>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watchers {
    /// A new one of a client, and its number.
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
        if !all.hears {
            all.hears = true;
            let others = Arc::downgrade(&self.all);
            engine.hear_names(Arc::new(move |news| {
                if let Some(all) = others.upgrade() {
                    let open: Vec<_> = lock(&all)
                        .open
                        .values()
                        .map(|(_, w)| Arc::clone(w))
                        .collect();
                    open.iter().for_each(|watcher| watcher.hear(news));
                }
            }));
        }
        all.last += 1;
        let watcher = Arc::new(Watcher {
            engine: Arc::downgrade(engine),
            held: Mutex::default(),
            wake: Condvar::new(),
        });
        let number = all.last;
        all.open.insert(number, (client, Arc::clone(&watcher)));
        Ok((number, watcher))
    }

    /// That one, if it is there.
    pub(crate) fn get(&self, number: u64) -> Option<Arc<Watcher>> {
        let all = lock(&self.all);
        all.open.get(&number).map(|(_, w)| Arc::clone(w))
    }

    pub(crate) fn close(&self, number: u64) {
        let watcher = lock(&self.all).open.remove(&number);
        if let Some((_, watcher)) = watcher {
            watcher.forget_all(&mut lock(&watcher.held));
        }
    }
}

/// The path of a name in a directory.
fn below(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let directory = if directory == b"/" { b"" } else { directory };
    [directory, b"/", name].concat()
}

/// The directories of a path, the root first, and last the path itself.
fn ways(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = path.iter().enumerate().skip(1).filter(|(_, b)| **b == b'/');
    let parents = slashes.filter_map(|(at, _)| path.get(..at));
    let itself = (path != b"/").then_some(path);
    std::iter::once(&b"/"[..]).chain(parents).chain(itself)
}

impl Watcher {
    /// Begins to watch all directories of a path, itself if it is one. False if it leads through a symbolic link.
    pub(crate) fn cover(&self, path: &NamePath) -> Result<bool> {
        let Some(engine) = self.engine.upgrade() else {
            return Ok(false);
        };
        if path.handle().is_some() {
            return Ok(false);
        }
        'anew: for _ in 0..ATTEMPTS_MAX {
            let bytes = path.as_bytes();
            // From below: a directory's turn comes after that of what is below it.
            let all: Vec<&[u8]> = ways(bytes).collect();
            let mut new = Vec::new();
            for way in &all {
                if lock(&self.held).paths.contains_key(*way) {
                    continue;
                }
                let inode = match engine.stat(None, &NamePath::parse(way)?, false) {
                    Ok(inode) => inode,
                    // What is there is watched: it will be told what comes.
                    Err(Error::File(e))
                        if matches!(e.errno, Errno::NotFound | Errno::NotDirectory) =>
                    {
                        break;
                    }
                    Err(e) => return Err(e),
                };
                match inode.kind() {
                    Kind::Directory => new.push((*way, inode.id)),
                    Kind::Symlink if way.len() < bytes.len() => return Ok(false),
                    _ => break,
                }
            }
            if new.is_empty() {
                self.turn(&all);
                return Ok(true);
            }
            let ids: Vec<VertexId> = new.iter().map(|(_, id)| *id).collect();
            engine.watch_directories(&ids);
            {
                let mut held = lock(&self.held);
                let twice: Vec<VertexId> = new
                    .iter()
                    .filter_map(|(way, id)| held.keep(way, *id))
                    .collect();
                engine.unwatch_directories(&twice);
            }
            self.turn(&all);
            self.give_up(&engine);
            // They may have moved while nobody watched.
            for (way, id) in new {
                let now = engine.stat(None, &NamePath::parse(way)?, false);
                let held = lock(&self.held);
                let kept = held.paths.get(way).is_some_and(|p| p.directory == id);
                drop(held);
                if !kept || !now.is_ok_and(|inode| inode.id == id) {
                    self.forget(way);
                    continue 'anew;
                }
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// These were asked about now.
    fn turn(&self, ways: &[&[u8]]) {
        let mut held = lock(&self.held);
        for way in ways.iter().rev() {
            held.turn(way);
        }
    }

    /// Lets go of what was asked about least lately, if there is too much.
    fn give_up(&self, engine: &Engine) {
        let mut held = lock(&self.held);
        while held.paths.len() > PATHS_MAX {
            let Some((_, path)) = held.turns.first_key_value() else {
                return;
            };
            let path = path.clone();
            let ids = held.forget_below(&path);
            engine.unwatch_directories(&ids);
            held.tell(path.into(), What::Missed);
        }
        drop(held);
        self.wake.notify_all();
    }

    fn forget(&self, path: &[u8]) {
        let ids = lock(&self.held).forget_below(path);
        if let Some(engine) = self.engine.upgrade() {
            engine.unwatch_directories(&ids);
        }
    }

    fn forget_all(&self, held: &mut Held) {
        let ids = held.forget_below(b"/");
        if let Some(engine) = self.engine.upgrade() {
            engine.unwatch_directories(&ids);
        }
    }

    /// A commit did that. The writer waits.
    fn hear(&self, news: &[NamesNews]) {
        let mut held = lock(&self.held);
        for one in news {
            match one {
                NamesNews::Entry {
                    directory,
                    name,
                    now,
                } => {
                    let Some(paths) = held.directories.get(directory).cloned() else {
                        continue;
                    };
                    for way in paths {
                        let path = below(&way, name.as_bytes());
                        let what = match now {
                            NameNow::Gone => What::Gone,
                            NameNow::Remade => What::Missed,
                            NameNow::Made | NameNow::Changed => What::Changed,
                        };
                        if !matches!(now, NameNow::Changed) {
                            let ids = held.forget_below(&path);
                            if let Some(engine) = self.engine.upgrade().filter(|_| !ids.is_empty())
                            {
                                engine.unwatch_directories(&ids);
                            }
                        }
                        held.tell(path, what);
                    }
                }
                NamesNews::Times(directory) => {
                    let paths = held.directories.get(directory).cloned();
                    for way in paths.into_iter().flatten() {
                        held.tell(way.into(), What::Changed);
                    }
                }
                NamesNews::Touched(id) if !held.paths.is_empty() => {
                    held.touched.insert(*id);
                }
                NamesNews::Touched(_) => {}
                NamesNews::Anything => {
                    self.forget_all(&mut held);
                    held.happened.clear();
                    held.tell(b"/".to_vec(), What::Missed);
                }
            }
        }
        if held.happened.len() + held.touched.len() > WAITING_MAX {
            self.forget_all(&mut held);
            held.happened.clear();
            held.touched.clear();
            held.tell(b"/".to_vec(), What::Missed);
        }
        let any = !held.happened.is_empty() || !held.touched.is_empty();
        drop(held);
        if any {
            self.wake.notify_all();
        }
    }

    /// What has happened since it was asked for last; waits for it so long.
    pub(crate) fn take(&self, patience: Duration) -> Vec<Happened> {
        let mut held = lock(&self.held);
        if held.happened.is_empty() && held.touched.is_empty() {
            held = self
                .wake
                .wait_timeout(held, patience)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        let mut happened = std::mem::take(&mut held.happened);
        let touched: Vec<VertexId> = std::mem::take(&mut held.touched).into_iter().collect();
        drop(held);
        if touched.is_empty() {
            return happened;
        }
        let paths = self.engine.upgrade().map(|e| e.paths_of(&touched));
        match paths {
            Some(Ok(paths)) => {
                let held = lock(&self.held);
                happened.extend(paths.into_iter().filter_map(|path| {
                    let parent = path.iter().rposition(|b| *b == b'/')?;
                    let parent = path.get(..parent.max(1))?;
                    held.paths.contains_key(parent).then_some(Happened {
                        path,
                        what: What::Changed.into(),
                    })
                }));
            }
            None => {}
            Some(Err(_)) => happened.push(Happened {
                path: b"/".to_vec(),
                what: What::Missed.into(),
            }),
        }
        happened
    }
}

impl Held {
    /// Keeps a directory that is watched; which one is not for this path any more.
    fn keep(&mut self, path: &[u8], directory: VertexId) -> Option<VertexId> {
        self.turn += 1;
        let place = Place {
            directory,
            turn: self.turn,
        };
        self.turns.insert(place.turn, path.into());
        let before = self.paths.insert(path.into(), place);
        if let Some(before) = &before {
            self.turns.remove(&before.turn);
            self.leave(before.directory, path);
        }
        self.directories
            .entry(directory)
            .or_default()
            .insert(path.into());
        before.map(|place| place.directory)
    }

    fn leave(&mut self, directory: VertexId, path: &[u8]) {
        if let Some(paths) = self.directories.get_mut(&directory) {
            paths.remove(path);
            if paths.is_empty() {
                self.directories.remove(&directory);
            }
        }
    }

    fn turn(&mut self, path: &[u8]) {
        let next = self.turn + 1;
        if let Some(place) = self.paths.get_mut(path) {
            self.turn = next;
            self.turns.remove(&place.turn);
            place.turn = next;
            self.turns.insert(next, path.into());
        }
    }

    /// Forgets a path and all below it: which directories are not watched for them any more.
    fn forget_below(&mut self, path: &[u8]) -> Vec<VertexId> {
        let prefix = below(path, b"");
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
            let Some(place) = self.paths.remove(&path) else {
                continue;
            };
            self.turns.remove(&place.turn);
            ids.push(place.directory);
            self.leave(place.directory, &path);
        }
        ids
    }

    fn tell(&mut self, path: Vec<u8>, what: What) {
        let what = what.into();
        // A directory is told of for each of its entries: the last of these few is enough.
        let mut last = self.happened.iter().rev().take(4);
        if last
            .find(|h| h.path == path)
            .is_some_and(|h| h.what == what)
        {
            return;
        }
        self.happened.push(Happened { path, what });
    }
}

#[cfg(test)]
#[allow(
    clippy::indexing_slicing,
    reason = "a test that goes beyond the end has failed"
)]
mod tests;
