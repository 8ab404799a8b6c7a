//! Ephemeral stores: a store on a fast local disk that is lost with its machine, and checkpoints of it on durable storage
//! (SoMeta, section II-H). Each commit goes to the live store and into a window in memory. The window is written as one
//! file (a segment) after a number of writes, after a time, or when a caller waits for it.
//!
//! Suggested reading order: `esker_store::segment` (file format), [`manifest`] (valid files), [`storage`] (folders),
//! [`writer`] (writing), [`restore`].

mod checkpoint_writer;
mod manifest;
mod restore;
mod storage;

use crate::limits::WINDOW_BYTES;
use checkpoint_writer::{CheckpointWriter, WindowState};
use esker_model::{Error, ErrorKind, Flow, Result};
use esker_store::segment::put_commit;
use esker_store::{
    BulkLoad, Cursor, Durability, KeyRange, Read, Snapshot, Store, StoreStats, Table, WriteBatch,
};
use manifest::{Manifest, Span};
use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// File that marks a folder as the folder of a live store, which may be emptied.
const LIVE_FILE: &str = "LIVE";

/// Folder of the live store, and when and where its checkpoints are written. Plain data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowOptions {
    /// Folder of the live store, used by this database only: it is emptied when the database is opened.
    pub live: PathBuf,
    /// Folders for checkpoints, the fastest first. The first one with enough space takes each file.
    pub to: Vec<PathBuf>,
    /// Bytes that are left free in each folder.
    pub reserve: u64,
    /// Number of commits after which a segment is written …
    pub writes: u64,
    /// … or the time after which it is written, whichever comes first.
    pub every: Duration,
    /// Minimum size in bytes of the segments that are replaced by a base; they must also be larger than the last base.
    pub base_least: u64,
}

/// Progress and counters of a window.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WindowFigures {
    /// Number of commits since the database was created.
    pub written: u64,
    /// Number of commits that a checkpoint contains.
    pub persisted: u64,
    /// Age of the oldest commit that no checkpoint contains.
    pub age: Duration,
    /// Number of segments written since the database was opened.
    pub segments: u64,
    /// Size of those segments in bytes.
    pub segment_bytes: u64,
    /// Number of bases written since the database was opened.
    pub bases: u64,
    /// Folder of the file written last.
    pub last_folder: Option<PathBuf>,
    /// Reason why no checkpoint can be written, if so.
    pub write_error: Option<String>,
}

/// Access to the window of an open database. Cheap to clone.
#[derive(Clone)]
pub struct Window {
    writer: Arc<CheckpointWriter>,
}

impl std::fmt::Debug for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Window").finish_non_exhaustive()
    }
}

impl Window {
    /// Number of the last commit.
    pub fn written(&self) -> u64 {
        self.writer.state().last
    }

    /// Number of the last commit that a checkpoint contains.
    pub fn persisted(&self) -> u64 {
        self.writer.state().persisted
    }

    /// Waits until a checkpoint contains all commits so far, however long no storage has space for it. Fails only if
    /// another
    /// process has taken over the database, or the database is closed.
    pub fn harden(&self) -> Result<()> {
        self.harden_to(self.written())
    }

    /// Waits like [`Self::harden`], but also fails if no storage accepts the checkpoint now.
    pub fn try_harden(&self) -> Result<()> {
        self.writer.wait_for(self.written())
    }

    fn harden_to(&self, last: u64) -> Result<()> {
        loop {
            match self.writer.wait_for(last) {
                Err(e) if e.kind() == ErrorKind::Unavailable => {}
                done => return done,
            }
        }
    }

    /// Whether commits made before the database was opened may have been lost, because it was not closed properly.
    pub fn may_have_lost(&self) -> bool {
        self.writer.may_have_lost
    }

    /// Keeps the mark that commits may have been lost when the database is closed, for tools that only read or copy the
    /// database.
    pub fn preserve_loss_mark(&self) {
        self.writer.preserve_loss_mark();
    }

    /// Present progress and counters of the window.
    pub fn figures(&self) -> WindowFigures {
        self.writer.figures()
    }
}

/// The live store with its window.
pub(crate) struct WindowStore {
    writer: Arc<CheckpointWriter>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// Folder of the manifest inside a database's folder.
pub(crate) fn home(folder: &Path) -> PathBuf {
    folder.join("checkpoint")
}

/// Whether the database in a folder has an ephemeral store.
pub fn is_window(folder: &Path) -> bool {
    Manifest::path(&home(folder)).is_file()
}

/// Removes the checkpoint files of a database that are outside its folder, before the folder is removed and the list of
/// them is lost. Does nothing for a database without checkpoints.
pub fn remove_checkpoint(folder: &Path) -> Result<()> {
    let home = home(folder);
    let Some(manifest) = Manifest::read(&home)? else {
        return Ok(());
    };
    for folder in manifest.folders.iter().filter(|folder| **folder != home) {
        // No other process cleans these up, because their names contain the number of the store.
        storage::clear_drafts(folder, manifest.store);
        // Absent files need not be removed.
        for name in storage::list(folder, manifest.store).unwrap_or_default() {
            let path = folder.join(name.text());
            std::fs::remove_file(&path)
                .map_err(|e| Error::io(format!("removing `{}`", path.display()), e))?;
        }
    }
    Ok(())
}

impl WindowStore {
    /// Restores a live store from the checkpoint, if there is one, and continues the checkpoint. `open` creates an
    /// empty store in
    /// a folder of its own; `generation` is that of the caller's claim.
    pub(crate) fn open(
        folder: &Path,
        options: &WindowOptions,
        generation: u64,
        create: bool,
        open: impl FnOnce(&Path) -> Result<Arc<dyn Store>>,
    ) -> Result<Self> {
        let home = home(folder);
        let mut manifest = match Manifest::read(&home)? {
            // Replaces the manifest of an interrupted creation.
            _ if create => new_manifest(),
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
        // After the restore: `probe` creates folders, and the restore must notice missing ones.
        storage::probe(&options.to, options.reserve)?;
        for folder in &manifest.folders {
            storage::clear_drafts(folder, manifest.store);
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
        let writer =
            CheckpointWriter::new(store, options.clone(), home, manifest, restored, !closed);
        let thread = {
            let writer = Arc::clone(&writer);
            std::thread::Builder::new()
                .name("esker-window".into())
                .spawn(move || writer.work())
                .map_err(|e| Error::io("starting a thread", e))?
        };
        Ok(Self {
            writer,
            thread: Some(thread),
        })
    }

    /// A handle on the window.
    pub(crate) fn window(&self) -> Window {
        Window {
            writer: Arc::clone(&self.writer),
        }
    }

    fn store(&self) -> &dyn Store {
        &*self.writer.store
    }
}

fn new_manifest() -> Manifest {
    Manifest {
        store: RandomState::new().hash_one(std::process::id()),
        open: (0, 1),
        ..Manifest::default()
    }
}

/// Empties the folder of a live store; refuses a folder with other contents.
fn empty(live: &Path) -> Result<()> {
    let failed = |doing: &str, e| Error::io(format!("{doing} `{}`", live.display()), e);
    crate::modes::create_private_all(live).map_err(|e| failed("making", e))?;
    let mark = live.join(LIVE_FILE);
    let mut entries = std::fs::read_dir(live).map_err(|e| failed("reading", e))?;
    if entries.next().is_some() && !mark.is_file() {
        return Err(Error::Target(format!(
            "`{}` contains something other than an ephemeral store, and would be emptied: name another folder as `checkpoint.live`",
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
        self.writer.stop();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has written what it could.
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
        let mut state = self.writer.wait_for_space()?;
        // One lock over both, so that the window has the order of the store.
        let before = state.filling.len();
        put_commit(&mut state.filling, &batch);
        if let Err(e) = self.store().commit(batch, Durability::Relaxed) {
            state.filling.truncate(before);
            return Err(e);
        }
        let last = self.writer.committed(&mut state);
        drop(state);
        match durability {
            // The commit is in the live store, so it must not be reported as failed.
            Durability::Sync => self.window().harden_to(last),
            Durability::Relaxed => Ok(()),
        }
    }

    fn persist(&self) -> Result<()> {
        let last = self.writer.state().last;
        self.writer.wait_for(last)
    }

    fn bulk_load(&self, table: Table) -> Result<Box<dyn BulkLoad + '_>> {
        Ok(Box::new(WindowBulkLoad {
            writer: &self.writer,
            inner: self.store().bulk_load(table)?,
            table,
            rows: WriteBatch::default(),
        }))
    }

    fn check_writable(&self) -> Result<()> {
        self.store().check_writable()
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

/// A bulk load, added to the window as one commit.
struct WindowBulkLoad<'a> {
    writer: &'a CheckpointWriter,
    inner: Box<dyn BulkLoad + 'a>,
    table: Table,
    rows: WriteBatch,
}

impl BulkLoad for WindowBulkLoad<'_> {
    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.inner.push(key, value)?;
        self.rows.put(self.table, key, value);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<()> {
        let mut state = self.writer.wait_for_space()?;
        self.inner.finish()?;
        put_commit(&mut state.filling, &self.rows);
        let last = self.writer.committed(&mut state);
        drop(state);
        // A bulk load must be durable when it has finished.
        self.writer.wait_for(last)
    }
}

/// Maximum of bytes that wait to be written; further commits wait.
const WAITING_BYTES_MAX: usize = 4 * WINDOW_BYTES;

impl WindowState {
    /// Whether a segment must be written now.
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
