//! A store that lies where it is fast and dies with its machine, and checkpoints of it where they survive (SoMeta, section II-H):
//! each commit goes to the live store and into a window in memory; the window is written as one file (a segment) after so many
//! writes, after so long, or when somebody waits for it.
//!
//! Suggested reading order: `esker_store::segment` (files), [`manifest`] (which of them count), [`place`] (where they go),
//! [`keeper`] (who writes them), [`restore`].

mod keeper;
mod manifest;
mod place;
mod restore;

use crate::limits::WINDOW_BYTES;
use esker_model::{Error, Flow, Result};
use esker_store::segment::put_commit;
use esker_store::{
    BulkLoad, Cursor, Durability, KeyRange, Read, Snapshot, Store, StoreStats, Table, WriteBatch,
};
use keeper::{Keeper, State};
use manifest::{Manifest, Span};
use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Lies in a folder that holds a live store, and may be emptied.
const LIVE_FILE: &str = "LIVE";

/// A live store, and where and when checkpoints of it are written. Plain data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowOptions {
    /// The folder of the live store, this database's alone: it is emptied when the database is opened.
    pub live: PathBuf,
    /// Folders for checkpoints, the fastest first. The first that has room takes each.
    pub to: Vec<PathBuf>,
    /// So many bytes are left free in each.
    pub reserve: u64,
    /// After so many commits a checkpoint is written …
    pub writes: u64,
    /// … or after so long, whichever comes first.
    pub every: Duration,
    /// Checkpoints are replaced by one of all rows once they have so many bytes, and more than the one of that kind before.
    pub base_least: u64,
}

/// What a window has done and holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WindowFigures {
    /// Commits so far, through all times that the database was opened.
    pub written: u64,
    /// Those that a checkpoint holds.
    pub persisted: u64,
    /// For how long the oldest that none holds has waited.
    pub age: Duration,
    /// Files written since the database was opened: segments.
    pub segments: u64,
    /// Their bytes.
    pub segment_bytes: u64,
    /// Files with all rows, written since then.
    pub bases: u64,
    /// Where the last of all these files lies.
    pub place: Option<PathBuf>,
    /// Why nothing can be written, if so.
    pub trouble: Option<String>,
}

/// What is known of the window of an open database. Cheap to clone.
#[derive(Clone)]
pub struct Window {
    keeper: Arc<Keeper>,
}

impl std::fmt::Debug for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Window").finish_non_exhaustive()
    }
}

impl Window {
    /// The number of the last commit.
    pub fn written(&self) -> u64 {
        self.keeper.state().last
    }

    /// The number of the last commit that a checkpoint holds.
    pub fn persisted(&self) -> u64 {
        self.keeper.state().persisted
    }

    /// Waits until a checkpoint holds all commits so far, however long no storage has room for it. Fails only if another process has
    /// the database by now, or it is closed.
    pub fn harden(&self) -> Result<()> {
        self.harden_to(self.written())
    }

    /// The same, but it fails, too, if no storage takes the checkpoint now.
    pub fn try_harden(&self) -> Result<()> {
        self.keeper.wait_for(self.written())
    }

    fn harden_to(&self, last: u64) -> Result<()> {
        loop {
            match self.keeper.wait_for(last) {
                Err(Error::Unavailable(_)) => {}
                done => return done,
            }
        }
    }

    /// Whether commits before the database was opened may have been lost: it was not closed in good order.
    pub fn may_have_lost(&self) -> bool {
        self.keeper.may_have_lost
    }

    /// For whoever only looks at the database, or copies it: if it may have lost something, it goes on saying so after it was closed.
    pub fn stay_as_found(&self) {
        self.keeper.stay_as_found();
    }

    /// Figures.
    pub fn figures(&self) -> WindowFigures {
        self.keeper.figures()
    }
}

/// The live store with its window.
pub(crate) struct WindowStore {
    keeper: Arc<Keeper>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// Where the manifest of a database's checkpoint lies in its folder.
pub(crate) fn home(folder: &Path) -> PathBuf {
    folder.join("checkpoint")
}

/// Whether the store of the database in a folder lies elsewhere, and dies with its machine.
pub fn is_window(folder: &Path) -> bool {
    Manifest::path(&home(folder)).is_file()
}

/// Removes the files of a database's checkpoint that lie outside its folder, for who is about to remove the folder: nothing is
/// known of them afterwards. Does nothing about a database without checkpoints.
pub fn remove_checkpoint(folder: &Path) -> Result<()> {
    let home = home(folder);
    let Some(manifest) = Manifest::read(&home)? else {
        return Ok(());
    };
    for place in manifest.folders.iter().filter(|place| **place != home) {
        // Nobody else would: the store's number is in their names.
        place::clear_drafts(place, manifest.store);
        // What is not there (any more) needs not be removed.
        for name in place::list(place, manifest.store).unwrap_or_default() {
            let path = place.join(name.text());
            std::fs::remove_file(&path)
                .map_err(|e| Error::io(format!("removing `{}`", path.display()), e))?;
        }
    }
    Ok(())
}

impl WindowStore {
    /// Makes a live store out of the checkpoint, if there is one, and goes on with it. `open` makes an empty store in a folder that
    /// it can have to itself; `generation` is of the lock that the caller holds.
    pub(crate) fn open(
        folder: &Path,
        options: &WindowOptions,
        generation: u64,
        create: bool,
        open: impl FnOnce(&Path) -> Result<Arc<dyn Store>>,
    ) -> Result<Self> {
        let home = home(folder);
        let mut manifest = match Manifest::read(&home)? {
            // One of a database whose making was cut short.
            _ if create => fresh(),
            Some(manifest) => manifest,
            None => {
                return Err(Error::Target(format!(
                    "`{}` has no checkpoint: it was made with durability \"relaxed\" or \"sync\", and that cannot change; set \
                     that in the cluster's file again, or give it another `storage`",
                    folder.display()
                )));
            }
        };
        empty(&options.live)?;
        let store = open(&options.live.join("store"))?;
        let restored = restore::restore(&manifest, &*store)?;
        // Behind the restore: this makes folders, and one that is missing says something.
        place::probe(&options.to, options.reserve)?;
        for folder in &manifest.folders {
            place::clear_drafts(folder, manifest.store);
        }
        let (before, first) = manifest.open;
        if restored.last >= first {
            manifest.spans.push(Span {
                generation: before,
                first,
                last: restored.last,
            });
        }
        manifest.open = (generation, restored.last + 1);
        let closed = std::mem::take(&mut manifest.closed);
        manifest.write(&home)?;
        let keeper = Keeper::new(store, options.clone(), home, manifest, restored, !closed);
        let thread = {
            let keeper = Arc::clone(&keeper);
            std::thread::Builder::new()
                .name("esker-window".into())
                .spawn(move || keeper.work())
                .map_err(|e| Error::io("starting a thread", e))?
        };
        Ok(Self {
            keeper,
            thread: Some(thread),
        })
    }

    /// For those who look after it.
    pub(crate) fn window(&self) -> Window {
        Window {
            keeper: Arc::clone(&self.keeper),
        }
    }

    fn store(&self) -> &dyn Store {
        &*self.keeper.store
    }
}

fn fresh() -> Manifest {
    Manifest {
        store: RandomState::new().hash_one(std::process::id()),
        open: (0, 1),
        ..Manifest::default()
    }
}

/// Empties the folder of a live store; refuses one that holds something else.
fn empty(live: &Path) -> Result<()> {
    let failed = |doing: &str, e| Error::io(format!("{doing} `{}`", live.display()), e);
    crate::modes::create_private_all(live).map_err(|e| failed("making", e))?;
    let mark = live.join(LIVE_FILE);
    let mut entries = std::fs::read_dir(live).map_err(|e| failed("reading", e))?;
    if entries.next().is_some() && !mark.is_file() {
        return Err(Error::Target(format!(
            "`{}` holds something else than a live store, and would be emptied: name another folder as `checkpoint.live`",
            live.display()
        )));
    }
    std::fs::write(
        &mark,
        "Esker live store: made from its checkpoint each time\n",
    )
    .map_err(|e| failed("writing in", e))?;
    match std::fs::remove_dir_all(live.join("store")) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(failed("emptying", e)),
        _ => Ok(()),
    }
}

impl Drop for WindowStore {
    fn drop(&mut self) {
        self.keeper.stop();
        if let Some(thread) = self.thread.take() {
            // One that panicked has written what it could.
            let _ = thread.join();
        }
    }
}

impl Read for WindowStore {
    fn get_with(&self, table: Table, key: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.store().get_with(table, key, sink)
    }

    fn scan(
        &self,
        table: Table,
        range: &KeyRange,
        sink: &mut dyn FnMut(&[u8], &[u8]) -> Flow,
    ) -> Result<()> {
        self.store().scan(table, range, sink)
    }

    fn cursor(&self, table: Table, range: &KeyRange) -> Result<Box<dyn Cursor + '_>> {
        self.store().cursor(table, range)
    }
}

impl Store for WindowStore {
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>> {
        self.store().snapshot()
    }

    fn commit(&self, batch: WriteBatch, durability: Durability) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        batch.check()?;
        let mut state = self.keeper.room()?;
        // One lock over both, so that the window has the order of the store.
        let before = state.filling.len();
        put_commit(&mut state.filling, &batch);
        if let Err(e) = self.store().commit(batch, Durability::Relaxed) {
            state.filling.truncate(before);
            return Err(e);
        }
        let last = self.keeper.committed(&mut state);
        drop(state);
        match durability {
            // It is in the live store: whoever is told that it failed would go on as if it were not.
            Durability::Sync => self.window().harden_to(last),
            Durability::Relaxed => Ok(()),
        }
    }

    fn persist(&self) -> Result<()> {
        let last = self.keeper.state().last;
        self.keeper.wait_for(last)
    }

    fn bulk_load(&self, table: Table) -> Result<Box<dyn BulkLoad + '_>> {
        Ok(Box::new(Load {
            keeper: &self.keeper,
            inner: self.store().bulk_load(table)?,
            table,
            rows: WriteBatch::default(),
        }))
    }

    fn compact(&self) -> Result<()> {
        self.store().compact()
    }

    fn checkpoint(&self, directory: &Path) -> Result<u64> {
        self.store().checkpoint(directory)
    }

    fn stats(&self) -> Result<StoreStats> {
        self.store().stats()
    }
}

/// A bulk load: what it loads goes into the window as one commit.
struct Load<'a> {
    keeper: &'a Keeper,
    inner: Box<dyn BulkLoad + 'a>,
    table: Table,
    rows: WriteBatch,
}

impl BulkLoad for Load<'_> {
    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.inner.push(key, value)?;
        self.rows.put(self.table, key, value);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<()> {
        let mut state = self.keeper.room()?;
        self.inner.finish()?;
        put_commit(&mut state.filling, &self.rows);
        let last = self.keeper.committed(&mut state);
        drop(state);
        // It promises to be durable.
        self.keeper.wait_for(last)
    }
}

/// Bytes that wait to be written, at most.
const WAITING_BYTES_MAX: usize = 4 * WINDOW_BYTES;

impl State {
    /// Whether a segment is to be written now.
    fn due(&self, options: &WindowOptions) -> bool {
        self.last > self.persisted
            && (self.stop
                || self.retry
                || self.forced > self.persisted
                || self.last - self.persisted >= options.writes
                || self.bytes >= WINDOW_BYTES
                || self
                    .oldest
                    .is_some_and(|at| Instant::now() >= at + options.every))
    }
}

#[cfg(test)]
mod tests;
