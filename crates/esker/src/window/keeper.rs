//! Who writes segments and bases: one thread for the window, another one now and then for a base.

use super::manifest::Manifest;
use super::place::{self, Name, Places, Trouble, write_all};
use super::restore::Restored;
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

/// The window, and what is known of the files.
pub(super) struct Keeper {
    pub(super) store: Arc<dyn Store>,
    options: WindowOptions,
    /// Where the manifest lies.
    home: PathBuf,
    generation: u64,
    state: Mutex<State>,
    /// There may be something to write.
    work: Condvar,
    /// Something was written, or could not be.
    done: Condvar,
    manifest: Mutex<Manifest>,
    pub(super) may_have_lost: bool,
    /// Closing it does not say that nothing was lost.
    as_found: AtomicBool,
}

/// The window.
#[derive(Default)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "what the two threads have to tell each other, each for itself"
)]
pub(super) struct State {
    /// Commits, whole blocks of them; behind them what `filling` has.
    full: Vec<Vec<u8>>,
    pub(super) filling: Vec<u8>,
    /// Of both.
    pub(super) bytes: usize,
    /// Bytes that are being written now.
    writing: usize,
    /// When the oldest of them was committed.
    pub(super) oldest: Option<Instant>,
    /// The numbers of the last commit, of the last that a checkpoint holds, of the last that somebody waits for.
    pub(super) last: u64,
    pub(super) persisted: u64,
    pub(super) forced: u64,
    pub(super) stop: bool,
    /// Why nothing could be written, and how often that was so.
    trouble: Option<String>,
    failures: u64,
    pub(super) retry: bool,
    /// Another process has the store.
    replaced: Option<String>,
    ended: bool,
    /// Of the files that count now.
    base_bytes: u64,
    behind_bytes: u64,
    behind: u64,
    basing: bool,
    figures: WindowFigures,
}

impl Keeper {
    pub(super) fn new(
        store: Arc<dyn Store>,
        options: WindowOptions,
        home: PathBuf,
        manifest: Manifest,
        restored: Restored,
        crashed: bool,
    ) -> Arc<Self> {
        let state = State {
            last: restored.last,
            persisted: restored.last,
            base_bytes: restored.base_bytes,
            behind_bytes: restored.segment_bytes,
            behind: restored.segments,
            ..State::default()
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
            as_found: AtomicBool::new(false),
            manifest: Mutex::new(manifest),
        })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The window, once it has room; an error while nothing can be written: what cannot be kept is not taken.
    pub(super) fn room(&self) -> Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        loop {
            state.usable()?;
            if let Some(why) = &state.trouble {
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

    /// Counts a commit that was appended to what is being filled; its number.
    pub(super) fn committed(&self, state: &mut State) -> u64 {
        state.last += 1;
        if state.filling.len() >= BLOCK_BYTES {
            let block = std::mem::take(&mut state.filling);
            state.full.push(block);
        }
        state.bytes = state.full.iter().map(Vec::len).sum::<usize>() + state.filling.len();
        let first = state.oldest.is_none();
        state.oldest.get_or_insert_with(Instant::now);
        // The thread sleeps until the oldest is too old; it must learn of the first, and of a full window.
        if first || state.due(&self.options) {
            self.work.notify_one();
        }
        state.last
    }

    /// Waits until a checkpoint holds a commit. Fails if it could not be written; it may be later.
    pub(super) fn wait_for(&self, number: u64) -> Result<()> {
        let mut state = self.state();
        let failures = state.failures;
        loop {
            if state.persisted >= number {
                return Ok(());
            }
            state.usable()?;
            if let Some(why) = state.trouble.as_ref().filter(|_| state.failures > failures) {
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

    /// Lets the thread write what there is, and end.
    pub(super) fn stop(&self) {
        self.state().stop = true;
        self.work.notify_all();
    }

    /// See [`super::Window::stay_as_found`].
    pub(super) fn stay_as_found(&self) {
        self.as_found.store(self.may_have_lost, Ordering::Release);
    }

    pub(super) fn figures(&self) -> WindowFigures {
        let state = self.state();
        WindowFigures {
            written: state.last,
            persisted: state.persisted,
            age: state.oldest.map_or(Duration::ZERO, |at| at.elapsed()),
            trouble: state.replaced.clone().or_else(|| state.trouble.clone()),
            ..state.figures.clone()
        }
    }

    /// What the thread does.
    pub(super) fn work(self: Arc<Self>) {
        let mut basing: Option<std::thread::JoinHandle<()>> = None;
        while let Some((blocks, first, last)) = self.next() {
            let written = self.write_segment(&blocks, first, last);
            let again = {
                let mut state = self.state();
                state.writing = 0;
                match written {
                    Ok(()) => {
                        state.persisted = last;
                        state.trouble = None;
                        false
                    }
                    Err(e) => {
                        state.failures += 1;
                        state.trouble = Some(e.to_string());
                        // Back to where it came from.
                        let behind = std::mem::replace(&mut state.full, blocks);
                        state.full.extend(behind);
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
                // A new place may be free by now.
                let waited = self.work.wait_timeout(state, WINDOW_RETRY);
                drop(waited.unwrap_or_else(PoisonError::into_inner));
                continue;
            }
            if self.base_due() {
                let keeper = Arc::clone(&self);
                let run = move || keeper.write_base();
                let thread = std::thread::Builder::new()
                    .name("esker-base".into())
                    .spawn(run);
                if thread.is_err() {
                    self.state().basing = false;
                }
                if let Some(before) = std::mem::replace(&mut basing, thread.ok()) {
                    let _ = before.join();
                }
            }
        }
        let whole = {
            let mut state = self.state();
            state.ended = true;
            state.persisted == state.last
                && state.replaced.is_none()
                && !self.as_found.load(Ordering::Acquire)
        };
        self.done.notify_all();
        if let Some(basing) = basing {
            let _ = basing.join();
        }
        let mut manifest = self.manifest();
        if whole && self.check_mine().is_ok() {
            manifest.closed = true;
            // Without it the next opening thinks that something may be missing, and waits for it a little.
            let _ = manifest.write(&self.home);
        }
    }

    /// Waits for a window that is to be written: its blocks, its first and its last commit. `None` at the end.
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

    /// Writes a file to the first storage with room for it.
    fn put(
        &self,
        name: &Name,
        about: u64,
        write: &mut dyn FnMut(&mut File) -> Result<(), Trouble>,
    ) -> Result<PathBuf> {
        let places = Places {
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
        places.put(name, about, write)
    }

    fn write_segment(&self, blocks: &[Vec<u8>], first: u64, last: u64) -> Result<()> {
        self.check_mine()?;
        let head = self.head(Kind::Segment, first, last);
        let mut bytes = Vec::new();
        let mut writer = SegmentWriter::begin(&head, &mut bytes);
        for block in blocks {
            writer.block(block, &mut bytes);
        }
        let length = writer.end(&mut bytes);
        let name = Name { head };
        let place = self.put(&name, length, &mut |file| write_all(file, &bytes))?;
        let mut state = self.state();
        state.behind += 1;
        state.behind_bytes += length;
        let figures = &mut state.figures;
        figures.segments += 1;
        figures.segment_bytes += length;
        figures.place = Some(place);
        Ok(())
    }

    /// The lock of the store says who has it. A process that slept through losing it must not go on as if it had not.
    fn check_mine(&self) -> Result<()> {
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
        let due = !state.basing
            && !state.stop
            && (state.behind >= WINDOW_SEGMENTS_MAX
                || state.behind_bytes > self.options.base_least.max(state.base_bytes));
        state.basing |= due;
        due
    }

    /// Writes all rows, and lets go of the files before.
    fn write_base(&self) {
        let written = self.try_base();
        let mut state = self.state();
        state.basing = false;
        match written {
            Ok((bytes, place)) => {
                state.base_bytes = bytes;
                state.figures.bases += 1;
                state.figures.place = Some(place);
            }
            // What there is goes on counting. It is tried again when there is as much again.
            Err(_) => state.behind_bytes = 0,
        }
        state.behind = 0;
    }

    fn try_base(&self) -> Result<(u64, PathBuf)> {
        let (snapshot, last) = {
            let mut state = self.state();
            state.behind_bytes = 0;
            state.behind = 0;
            (self.store.snapshot()?, state.last)
        };
        let head = self.head(Kind::Base, 0, last);
        let stats = self.store.stats()?;
        let about = stats.table_bytes.iter().map(|(_, bytes)| bytes).sum();
        let mut length = 0;
        let name = Name { head };
        let place = self.put(&name, about, &mut |file| {
            length = write_rows(&head, &*snapshot, &mut |bytes| write_all(file, bytes))?;
            Ok(())
        })?;
        drop(snapshot);
        // The window up to here must be in files, too: what counts commits goes by those.
        self.wait_for(last)?;
        self.check_mine()?;
        self.count_from(last, &place)?;
        Ok((length, place))
    }

    /// From now on the base counts, and what it holds does not need the files before.
    fn count_from(&self, last: u64, place: &Path) -> Result<()> {
        let mut manifest = self.manifest();
        let mut next = manifest.clone();
        next.base = Some((self.generation, last));
        next.spans.retain(|s| s.last > last);
        next.folders.insert(place.to_path_buf());
        next.write(&self.home)?;
        *manifest = next.clone();
        for folder in &next.folders {
            // What cannot be removed now is removed after the next base.
            for name in place::list(folder, next.store).unwrap_or_default() {
                let head = name.head;
                let old = match head.kind {
                    Kind::Segment => head.last <= last,
                    Kind::Base => (head.generation, head.last) != (self.generation, last),
                    // No store leaves such.
                    Kind::Table => false,
                };
                if old {
                    let _ = std::fs::remove_file(folder.join(name.text()));
                }
            }
        }
        // Where nothing lies any more, nothing must be found.
        let empty = |folder: &PathBuf| {
            folder != place && place::list(folder, next.store).is_ok_and(|names| names.is_empty())
        };
        manifest.folders.retain(|folder| !empty(folder));
        if manifest.folders != next.folders {
            manifest.write(&self.home)?;
        }
        Ok(())
    }
}

impl State {
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

/// Writes a base with all rows of a snapshot; its length.
fn write_rows(
    head: &Head,
    snapshot: &dyn Snapshot,
    write: &mut dyn FnMut(&[u8]) -> Result<(), Trouble>,
) -> Result<u64, Trouble> {
    let mut out = Vec::new();
    let mut writer = SegmentWriter::begin(head, &mut out);
    let mut commit = Vec::new();
    let mut batch = WriteBatch::default();
    let mut held = 0;
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
            held += key.len() + value.len();
            if held >= BLOCK_BYTES {
                held = 0;
                if let Err(e) = flush(&mut batch, &mut out) {
                    failure = Some(e);
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        });
        scanned.map_err(Trouble::Failed)?;
        if let Some(failure) = failure {
            return Err(failure);
        }
        if !batch.is_empty() {
            flush(&mut batch, &mut out)?;
            held = 0;
        }
    }
    let length = writer.end(&mut out);
    write(&out)?;
    Ok(length)
}
