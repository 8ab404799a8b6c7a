//! The threads that write segments and bases: one for the window, and a temporary one for each base.

use super::manifest::Manifest;
use super::restore::Restored;
use super::storage::{self, FileName, StorageFolders, WriteError, write_all};
use super::{WAITING_BYTES_MAX, WindowFigures, WindowOptions};
use crate::limits::{WINDOW_RETRY, WINDOW_SEGMENTS_MAX};
use esker_model::{Error, Result};
use esker_store::segment::{BLOCK_BYTES, Head, Kind, SegmentWriter, put_commit};
use esker_store::{KeyRange, Snapshot, Store, Table, WriteBatch};
use std::fs::File;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The window and its checkpoint files.
pub(super) struct CheckpointWriter {
    pub(super) store: Arc<dyn Store>,
    options: WindowOptions,
    /// Folder of the manifest.
    home: PathBuf,
    generation: u64,
    state: Mutex<WindowState>,
    /// Signalled when there may be a segment to write.
    work: Condvar,
    /// Signalled when a segment was written, or could not be.
    done: Condvar,
    manifest: Mutex<Manifest>,
    pub(super) may_have_lost: bool,
    /// Whether closing must not mark the checkpoint as complete.
    keep_loss_mark: AtomicBool,
}

/// State of the window.
#[derive(Default)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "what the two threads have to tell each other, each for itself"
)]
pub(super) struct WindowState {
    /// Full blocks of commits; `filling` has the commits after them.
    full: Vec<Vec<u8>>,
    pub(super) filling: Vec<u8>,
    /// Bytes in `full` and `filling`.
    pub(super) bytes: usize,
    /// Bytes that are being written now.
    writing: usize,
    /// Time of the oldest commit in the window.
    pub(super) oldest: Option<Instant>,
    /// Number of the last commit; `persisted` is that of the last one in a checkpoint, `forced` that of the last one a
    /// caller waits for.
    pub(super) last: u64,
    pub(super) persisted: u64,
    pub(super) forced: u64,
    pub(super) stop: bool,
    /// Reason why the last write failed, and the number of failures.
    write_error: Option<String>,
    failures: u64,
    pub(super) retry: bool,
    /// Reason for refusing writes after another process has taken over the store.
    replaced: Option<String>,
    ended: bool,
    /// Size of the current base; `segment_bytes_since_base` and `segments_since_base` are size and number of the segments since that base.
    base_bytes: u64,
    segment_bytes_since_base: u64,
    segments_since_base: u64,
    writing_base: bool,
    figures: WindowFigures,
}

impl CheckpointWriter {
    pub(super) fn new(
        store: Arc<dyn Store>,
        options: WindowOptions,
        home: PathBuf,
        manifest: Manifest,
        restored: Restored,
        crashed: bool,
    ) -> Arc<Self> {
        let state = WindowState {
            last: restored.last,
            persisted: restored.last,
            base_bytes: restored.base_bytes,
            segment_bytes_since_base: restored.segment_bytes,
            segments_since_base: restored.segments,
            ..WindowState::default()
        };
        Arc::new(Self {
            store,
            options,
            home,
            generation: manifest.open.0,
            state: Mutex::new(state),
            work: Condvar::new(),
            done: Condvar::new(),
            may_have_lost: restored.last > 0 && crashed,
            keep_loss_mark: AtomicBool::new(false),
            manifest: Mutex::new(manifest),
        })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, WindowState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, once the window has space. Fails while no checkpoint can be written, because the commit could not be
    /// persisted.
    pub(super) fn wait_for_space(&self) -> Result<MutexGuard<'_, WindowState>> {
        let mut state = self.state();
        loop {
            state.usable()?;
            if let Some(why) = &state.write_error {
                return Err(Error::Unavailable(why.clone()));
            }
            if state.bytes + state.writing < WAITING_BYTES_MAX {
                return Ok(state);
            }
            self.work.notify_one();
            state = self
                .done
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Counts a commit that was appended to `filling`; returns its number.
    pub(super) fn committed(&self, state: &mut WindowState) -> u64 {
        state.last += 1;
        if state.filling.len() >= BLOCK_BYTES {
            let block = std::mem::take(&mut state.filling);
            state.full.push(block);
        }
        state.bytes = state.full.iter().map(Vec::len).sum::<usize>() + state.filling.len();
        let first = state.oldest.is_none();
        state.oldest.get_or_insert_with(Instant::now);
        // The thread sleeps until the oldest commit is due; it must learn of the first commit and of a full window.
        if first || state.due(&self.options) {
            self.work.notify_one();
        }
        state.last
    }

    /// Waits until a checkpoint contains a commit. Fails if writing failed; a later attempt may succeed.
    pub(super) fn wait_for(&self, number: u64) -> Result<()> {
        let mut state = self.state();
        let failures = state.failures;
        loop {
            if state.persisted >= number {
                return Ok(());
            }
            state.usable()?;
            if let Some(why) = state
                .write_error
                .as_ref()
                .filter(|_| state.failures > failures)
            {
                return Err(Error::Unavailable(why.clone()));
            }
            if state.forced < number {
                state.forced = number;
                self.work.notify_one();
            }
            state = self
                .done
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Makes the thread write the remaining commits and end.
    pub(super) fn stop(&self) {
        self.state().stop = true;
        self.work.notify_all();
    }

    /// Keeps the mark of possible loss: [`super::Window::preserve_loss_mark`].
    pub(super) fn preserve_loss_mark(&self) {
        self.keep_loss_mark
            .store(self.may_have_lost, Ordering::Release);
    }

    pub(super) fn figures(&self) -> WindowFigures {
        let state = self.state();
        WindowFigures {
            written: state.last,
            persisted: state.persisted,
            age: state.oldest.map_or(Duration::ZERO, |at| at.elapsed()),
            write_error: state.replaced.clone().or_else(|| state.write_error.clone()),
            ..state.figures.clone()
        }
    }

    /// Main loop of the window's thread.
    pub(super) fn work(self: Arc<Self>) {
        let mut writing_base: Option<std::thread::JoinHandle<()>> = None;
        while let Some((blocks, first, last)) = self.next() {
            let written = self.write_segment(&blocks, first, last);
            let again = {
                let mut state = self.state();
                state.writing = 0;
                match written {
                    Ok(()) => {
                        state.persisted = last;
                        state.write_error = None;
                        false
                    }
                    Err(e) => {
                        state.failures += 1;
                        state.write_error = Some(e.to_string());
                        // Returned to the window for the next attempt.
                        let segments_since_base = std::mem::replace(&mut state.full, blocks);
                        state.full.extend(segments_since_base);
                        state.bytes =
                            state.full.iter().map(Vec::len).sum::<usize>() + state.filling.len();
                        state.oldest = Some(Instant::now());
                        state.retry = true;
                        true
                    }
                }
            };
            self.done.notify_all();
            if again {
                let state = self.state();
                if state.stop || state.replaced.is_some() {
                    break;
                }
                // Another folder may have space by then.
                let waited = self.work.wait_timeout(state, WINDOW_RETRY);
                drop(waited.unwrap_or_else(PoisonError::into_inner));
                continue;
            }
            if self.base_due() {
                let writer = Arc::clone(&self);
                let run = move || writer.write_base();
                let thread = std::thread::Builder::new()
                    .name("esker-base".into())
                    .spawn(run);
                if thread.is_err() {
                    self.state().writing_base = false;
                }
                if let Some(before) = std::mem::replace(&mut writing_base, thread.ok()) {
                    let _ = before.join();
                }
            }
        }
        let whole = {
            let mut state = self.state();
            state.ended = true;
            state.persisted == state.last
                && state.replaced.is_none()
                && !self.keep_loss_mark.load(Ordering::Acquire)
        };
        self.done.notify_all();
        if let Some(writing_base) = writing_base {
            let _ = writing_base.join();
        }
        let mut manifest = self.manifest();
        if whole && self.check_ownership().is_ok() {
            manifest.closed = true;
            // Without this mark the next opening assumes that commits may be missing, and waits for them for a while.
            let _ = manifest.write(&self.home);
        }
    }

    /// Waits for a segment to write: returns its blocks, its first and its last commit. `None` at the end.
    fn next(&self) -> Option<(Vec<Vec<u8>>, u64, u64)> {
        let mut state = self.state();
        loop {
            if state.due(&self.options) {
                let mut blocks = std::mem::take(&mut state.full);
                let filling = std::mem::take(&mut state.filling);
                if !filling.is_empty() {
                    blocks.push(filling);
                }
                state.writing = std::mem::take(&mut state.bytes);
                state.oldest = None;
                state.retry = false;
                return Some((blocks, state.persisted + 1, state.last));
            }
            if state.stop {
                return None;
            }
            let left = state
                .oldest
                .map(|at| (at + self.options.every).saturating_duration_since(Instant::now()));
            state = match left {
                None => self
                    .work
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(left) => {
                    let waited = self.work.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    fn head(&self, kind: Kind, first: u64, last: u64) -> Head {
        Head {
            kind,
            store: self.manifest().store,
            generation: self.generation,
            first,
            last,
        }
    }

    fn manifest(&self) -> MutexGuard<'_, Manifest> {
        self.manifest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a file to the first folder with space for it; returns the folder.
    fn put(
        &self,
        name: &FileName,
        about: u64,
        write: &mut dyn FnMut(&mut File) -> Result<(), WriteError>,
    ) -> Result<PathBuf> {
        let storage = StorageFolders {
            folders: &self.options.to,
            reserve: self.options.reserve,
            announce: &|folder| {
                let mut manifest = self.manifest();
                if manifest.folders.insert(folder.to_path_buf()) {
                    manifest.write(&self.home)?;
                }
                Ok(())
            },
        };
        storage.put(name, about, write)
    }

    fn write_segment(&self, blocks: &[Vec<u8>], first: u64, last: u64) -> Result<()> {
        self.check_ownership()?;
        let head = self.head(Kind::Segment, first, last);
        let mut bytes = Vec::new();
        let mut writer = SegmentWriter::begin(&head, &mut bytes);
        for block in blocks {
            writer.block(block, &mut bytes);
        }
        let length = writer.end(&mut bytes);
        let name = FileName { head };
        let folder = self.put(&name, length, &mut |file| write_all(file, &bytes))?;
        let mut state = self.state();
        state.segments_since_base += 1;
        state.segment_bytes_since_base += length;
        let figures = &mut state.figures;
        figures.segments += 1;
        figures.segment_bytes += length;
        figures.last_folder = Some(folder);
        Ok(())
    }

    /// Checks that this process still owns the store, as its manifest says. A process that was suspended may have lost it.
    fn check_ownership(&self) -> Result<()> {
        let now = Manifest::read(&self.home)?.map(|m| m.open.0);
        if now == Some(self.generation) {
            return Ok(());
        }
        let why = format!(
            "another process has taken over what is in `{}`: this one writes no more",
            self.home.display()
        );
        self.state().replaced = Some(why.clone());
        Err(Error::Target(why))
    }

    fn base_due(&self) -> bool {
        let mut state = self.state();
        let due = !state.writing_base
            && !state.stop
            && (state.segments_since_base >= WINDOW_SEGMENTS_MAX
                || state.segment_bytes_since_base > self.options.base_least.max(state.base_bytes));
        state.writing_base |= due;
        due
    }

    /// Writes a base with all rows and removes the files that it replaces.
    fn write_base(&self) {
        let written = self.try_base();
        let mut state = self.state();
        state.writing_base = false;
        match written {
            Ok((bytes, folder)) => {
                state.base_bytes = bytes;
                state.figures.bases += 1;
                state.figures.last_folder = Some(folder);
            }
            // The present files stay valid. The next attempt is made after as many bytes again.
            Err(_) => state.segment_bytes_since_base = 0,
        }
        state.segments_since_base = 0;
    }

    fn try_base(&self) -> Result<(u64, PathBuf)> {
        let (snapshot, last) = {
            let mut state = self.state();
            state.segment_bytes_since_base = 0;
            state.segments_since_base = 0;
            (self.store.snapshot()?, state.last)
        };
        let head = self.head(Kind::Base, 0, last);
        let stats = self.store.stats()?;
        let about = stats.table_bytes.iter().map(|(_, bytes)| bytes).sum();
        let mut length = 0;
        let name = FileName { head };
        let folder = self.put(&name, about, &mut |file| {
            length = write_rows(&head, &*snapshot, &mut |bytes| write_all(file, bytes))?;
            Ok(())
        })?;
        drop(snapshot);
        // Commits up to `last` must be in segments as well, because their count comes from the segments.
        self.wait_for(last)?;
        self.check_ownership()?;
        self.count_from(last, &folder)?;
        Ok((length, folder))
    }

    /// Makes the base valid, which makes the older files obsolete, and removes them.
    fn count_from(&self, last: u64, folder: &Path) -> Result<()> {
        let mut manifest = self.manifest();
        let mut next = manifest.clone();
        next.base = Some((self.generation, last));
        next.spans.retain(|s| s.last > last);
        next.folders.insert(folder.to_path_buf());
        next.write(&self.home)?;
        *manifest = next.clone();
        for folder in &next.folders {
            // Files that cannot be removed now are removed after the next base.
            for name in storage::list(folder, next.store).unwrap_or_default() {
                let head = name.head;
                let old = match head.kind {
                    Kind::Segment => head.last <= last,
                    Kind::Base => (head.generation, head.last) != (self.generation, last),
                    // Stores do not write tables here.
                    Kind::Table => false,
                };
                if old {
                    let _ = std::fs::remove_file(folder.join(name.text()));
                }
            }
        }
        // A folder without files need not be readable at the next opening.
        let empty = |other: &PathBuf| {
            other != folder && storage::list(other, next.store).is_ok_and(|names| names.is_empty())
        };
        manifest.folders.retain(|other| !empty(other));
        if manifest.folders != next.folders {
            manifest.write(&self.home)?;
        }
        Ok(())
    }
}

impl WindowState {
    fn usable(&self) -> Result<()> {
        if let Some(why) = &self.replaced {
            return Err(Error::Target(why.clone()));
        }
        if self.ended {
            return Err(Error::Target("the database was closed".into()));
        }
        Ok(())
    }
}

/// Writes a base with all rows of a snapshot; returns its length in bytes.
fn write_rows(
    head: &Head,
    snapshot: &dyn Snapshot,
    write: &mut dyn FnMut(&[u8]) -> Result<(), WriteError>,
) -> Result<u64, WriteError> {
    let mut out = Vec::new();
    let mut writer = SegmentWriter::begin(head, &mut out);
    let mut commit = Vec::new();
    let mut batch = WriteBatch::default();
    let mut pending_bytes = 0;
    for table in Table::ALL {
        let mut failure = None;
        let mut flush = |batch: &mut WriteBatch, out: &mut Vec<u8>| {
            put_commit(&mut commit, &std::mem::take(batch));
            writer.block(&commit, out);
            commit.clear();
            let written = write(out);
            out.clear();
            written
        };
        let scanned = snapshot.scan(table, &KeyRange::ALL, &mut |key, value| {
            batch.put(table, key, value);
            pending_bytes += key.len() + value.len();
            if pending_bytes >= BLOCK_BYTES {
                pending_bytes = 0;
                if let Err(e) = flush(&mut batch, &mut out) {
                    failure = Some(e);
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        });
        scanned.map_err(WriteError::Failed)?;
        if let Some(failure) = failure {
            return Err(failure);
        }
        if !batch.is_empty() {
            flush(&mut batch, &mut out)?;
            pending_bytes = 0;
        }
    }
    let length = writer.end(&mut out);
    write(&out)?;
    Ok(length)
}
