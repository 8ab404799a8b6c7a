//! What an owner does, for itself and for those it serves.

use super::claim::Claim;
use crate::archive::ParquetArchive;
use crate::backup::{self, BackupReport};
use crate::engine::{BulkReport, CompactReport, Engine};
use crate::folder::Folder;
use crate::limits::{HEARTBEAT, OWNER_SILENT_MAX, REQUEST_MARKER_MAX};
use crate::marker;
use crate::options::StoreEngine;
use esker_model::namespace::{Change, Changes, Done, Handle, Looked, Namespace as _, SEAL_BYTES};
use esker_model::object::{Asker, ObjectWrite as _, TagReport, TagWhere};
use esker_model::{
    Batch, Cancel, Commit, Error, Flow, GraphWrite, Mutation, Result, Schema, SchemaChange, Version,
};
use esker_rpc::peer::is_mapped;
use esker_store::{Durability, Store, Table, WriteBatch};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use std::time::Instant;

/// Whether this process is still the owner, as its heartbeat found.
#[derive(Debug)]
pub(crate) struct Pulse {
    folder: Folder,
    replaced: AtomicBool,
    last: Mutex<Instant>,
}

impl Pulse {
    pub(crate) fn new(folder: &Folder) -> Arc<Self> {
        Arc::new(Self {
            folder: folder.clone(),
            replaced: AtomicBool::new(false),
            last: Mutex::new(Instant::now()),
        })
    }

    /// Notes what a heartbeat found.
    pub(crate) fn record(&self, beat: &Result<bool>) {
        match beat {
            Ok(true) => *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now(),
            Ok(false) => self.replaced.store(true, Ordering::Release),
            // The record could not be written; the next beat tries again, and writes stop if it goes on.
            Err(_) => {}
        }
    }

    fn check(&self) -> Result<()> {
        if self.replaced.load(Ordering::Acquire) {
            return Err(Error::Unavailable(format!(
                "another host has taken over `{}`, because this process did not show a sign of life for {} s; what \
                 was acknowledged is kept: open it again",
                self.folder.path.display(),
                OWNER_SILENT_MAX.as_secs()
            )));
        }
        Ok(())
    }

    /// Before a write: a process that slept (a suspended machine, a stopped process) looks before it touches files
    /// that may be another's by now.
    fn check_write(&self, claim: &Claim) -> Result<()> {
        self.check()?;
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.elapsed() > HEARTBEAT * 3 {
            let beat = claim.beat();
            if let Err(e) = &beat {
                return Err(Error::Unavailable(format!(
                    "the heartbeat of this process cannot be written, so that nothing else can be either: {e}"
                )));
            }
            self.record(&beat);
            return self.check();
        }
        Ok(())
    }
}

/// The open store and what belongs to it.
pub(crate) struct Core {
    pub(crate) engine: Arc<Engine>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) archive: Arc<ParquetArchive>,
    pub(crate) folder: Folder,
    pub(crate) store_engine: StoreEngine,
    pub(crate) pulse: Arc<Pulse>,
    pub(crate) claim: Arc<Claim>,
    /// Why no other process may attach; whoever serves the whole writes to the engine itself.
    pub(crate) part_of: Option<String>,
    /// Where the store dies with its machine: the writes that no checkpoint holds.
    pub(crate) window: Option<crate::window::Window>,
    dirty: AtomicBool,
    sync_failure: Mutex<Option<String>>,
    /// What seals are made with: nobody else knows it.
    key: OnceLock<[u8; 32]>,
    /// Whose the folder was when it was opened: whoever puts another one in its place later does not own the database.
    pub(crate) owner: Option<u32>,
}

/// Does something as soon as what it changes is not promised to anybody any more.
fn patient<T>(mut what: impl FnMut() -> Result<T>) -> Result<T> {
    loop {
        match what() {
            Err(Error::Promised { millis }) => std::thread::sleep(Duration::from_millis(millis)),
            done => return done,
        }
    }
}

impl Core {
    /// What shows that an open file was given to a user by this process.
    pub(super) fn seal(&self, asker: &Asker, handle: &Handle) -> Result<[u8; SEAL_BYTES]> {
        let key = if let Some(key) = self.key.get() {
            key
        } else {
            let halves = [esker_rpc::marker::random()?, esker_rpc::marker::random()?];
            let mut key = [0; 32];
            for (place, byte) in key.iter_mut().zip(halves.iter().flatten()) {
                *place = *byte;
            }
            self.key.get_or_init(|| key)
        };
        let mut text = asker.uid.to_be_bytes().to_vec();
        text.extend_from_slice(&handle.sealed_bytes());
        let hash = blake3::keyed_hash(key, &text);
        Ok(hash.as_bytes().first_chunk().copied().unwrap_or_default())
    }

    /// What was opened, as it goes to another process.
    pub(super) fn seal_looked(&self, asker: Option<&Asker>, looked: Looked) -> Result<Looked> {
        let (Some(asker), Looked::Found(path, inode)) = (asker, &looked) else {
            return Ok(looked);
        };
        let Some(handle) = path.handle() else {
            return Ok(looked);
        };
        let seal = self.seal(asker, &handle)?;
        let path = Handle { seal, ..handle }.path();
        Ok(Looked::Found(path, inode.clone()))
    }

    pub(crate) fn new(
        engine: Arc<Engine>,
        store: Arc<dyn Store>,
        archive: Arc<ParquetArchive>,
        folder: Folder,
        store_engine: StoreEngine,
        pulse: Arc<Pulse>,
        claim: Arc<Claim>,
    ) -> Self {
        let (dirty, sync_failure) = (AtomicBool::new(false), Mutex::new(None));
        let owner = std::fs::metadata(&folder.path).ok().map(|m| m.uid());
        Self {
            engine,
            store,
            archive,
            folder,
            store_engine,
            pulse,
            claim,
            part_of: None,
            window: None,
            dirty,
            sync_failure,
            key: OnceLock::new(),
            owner: owner.filter(|user| is_mapped(*user)),
        }
    }

    /// An error once another process has taken over.
    pub(crate) fn usable(&self) -> Result<()> {
        self.pulse.check()
    }

    fn before_write(&self) -> Result<()> {
        self.pulse.check_write(&self.claim)?;
        match &*self
            .sync_failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
        {
            Some(failure) => Err(Error::Unavailable(format!(
                "earlier writes could not be made to survive a power failure, so that no more are taken: {failure}"
            ))),
            None => Ok(()),
        }
    }

    /// Applies a batch.
    pub(crate) fn apply(&self, batch: Batch) -> Result<Commit> {
        self.before_write()?;
        let commit = if self.engine.has_promised() {
            patient(|| self.engine.apply(batch.clone()))
        } else {
            self.engine.apply(batch)
        };
        self.dirty.store(true, Ordering::Release);
        commit
    }

    /// Applies a batch if nobody writes just now; else gives it back.
    pub(crate) fn apply_now(&self, batch: Batch) -> std::result::Result<Result<Commit>, Batch> {
        if let Err(e) = self.before_write() {
            return Ok(Err(e));
        }
        let commit = self.engine.apply_now(batch);
        self.dirty.store(true, Ordering::Release);
        commit
    }

    /// Applies batches in one group commit. The answers are in their order.
    pub(crate) fn apply_together(&self, batches: Vec<Batch>) -> Vec<Result<Commit>> {
        if let Err(e) = self.before_write() {
            let refused = |_| Err(Error::Unavailable(e.to_string()));
            return batches.iter().map(refused).collect();
        }
        let commits = self.engine.apply_together(batches);
        self.dirty.store(true, Ordering::Release);
        commits
    }

    /// Adds to the schema.
    pub(crate) fn define(&self, changes: &[SchemaChange]) -> Result<Arc<Schema>> {
        self.before_write()?;
        let schema = self.engine.define(changes);
        self.dirty.store(true, Ordering::Release);
        schema
    }

    /// Changes the tags of what a filter holds of.
    pub(crate) fn tag_where(&self, change: &TagWhere, cancel: &dyn Cancel) -> Result<TagReport> {
        self.before_write()?;
        let report = self.engine.tag_where(change, cancel);
        self.dirty.store(true, Ordering::Release);
        report
    }

    /// Changes the namespace.
    pub(crate) fn change_names(
        &self,
        asker: Option<&Asker>,
        changes: &[Change],
    ) -> Result<Vec<Result<Done>>> {
        self.before_write()?;
        let done = patient(|| self.engine.change(asker, changes));
        self.dirty.store(true, Ordering::Release);
        done
    }

    /// Changes the namespace as a caller whose changes may have come before.
    pub(crate) fn change_once(&self, changes: &Changes) -> Result<Vec<Result<Done>>> {
        self.before_write()?;
        let done = patient(|| self.engine.change_once(changes));
        self.dirty.store(true, Ordering::Release);
        done
    }

    /// Changes the namespace if nobody writes just now.
    pub(crate) fn change_now(&self, changes: &Changes) -> Option<Result<Vec<Result<Done>>>> {
        if let Err(e) = self.before_write() {
            return Some(Err(e));
        }
        let done = self.engine.change_now(changes);
        self.dirty.store(true, Ordering::Release);
        done
    }

    /// Changes the namespace for several callers, in one commit. The answers are in their order.
    pub(crate) fn change_together(&self, all: &[Changes]) -> Vec<Result<Vec<Result<Done>>>> {
        if let Err(e) = self.before_write() {
            let refused = |_| Err(Error::Unavailable(e.to_string()));
            return all.iter().map(refused).collect();
        }
        let done = self.engine.change_together(all);
        self.dirty.store(true, Ordering::Release);
        done
    }

    /// Lets searches use an index, or forbids it.
    pub(crate) fn set_index(&self, name: &str, on: bool) -> Result<bool> {
        self.before_write()?;
        let changed = self.engine.set_index(name, on);
        self.dirty.store(true, Ordering::Release);
        changed
    }

    /// Loads sorted tables.
    pub(crate) fn bulk_load(
        &self,
        mutations: &mut dyn Iterator<Item = Result<Mutation>>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<BulkReport> {
        self.before_write()?;
        patient(|| self.engine.bulk_load(mutations, progress))
    }

    /// Moves superseded versions to the archive and compacts.
    pub(crate) fn compact(
        &self,
        retain_after: Option<Version>,
        cancel: &dyn Cancel,
    ) -> Result<CompactReport> {
        self.before_write()?;
        let report = self.engine.compact(retain_after, cancel)?;
        self.archive.merge_if_many()?;
        Ok(report)
    }

    /// Drops what was kept for requests that nobody repeats any more.
    pub(crate) fn forget_old_requests(&self, now_millis: u64) -> Result<()> {
        // A process that was replaced must not touch the files.
        self.before_write()?;
        self.engine.forget_senders(now_millis)?;
        let old = now_millis
            .saturating_sub(u64::try_from(REQUEST_MARKER_MAX.as_millis()).unwrap_or(u64::MAX));
        let mut batch = WriteBatch::default();
        self.store
            .scan(Table::Meta, &marker::rows_before(old), &mut |key, _| {
                batch.remove(Table::Meta, key);
                Flow::Continue(())
            })?;
        if batch.is_empty() {
            return Ok(());
        }
        self.store.commit(batch, Durability::Relaxed)
    }

    /// Copies the database to an empty or absent folder.
    pub(crate) fn backup(&self, directory: &Path) -> Result<BackupReport> {
        backup::write(self, directory)
    }

    /// Copies the database into its own folder, for another process to take.
    pub(crate) fn backup_inside(&self) -> Result<(PathBuf, BackupReport)> {
        backup::write_inside(self)
    }

    /// Makes everything survive power failure.
    pub(crate) fn persist(&self) -> Result<()> {
        self.settle(|| self.engine.persist())
    }

    /// Leaves the store as the next owner likes it best.
    pub(crate) fn close(&self) -> Result<()> {
        // Whoever has the database next does not know what was promised.
        while let Ok(millis @ 1..) = self.engine.end_promises() {
            std::thread::sleep(Duration::from_millis(millis));
        }
        self.settle(|| self.engine.close())
    }

    fn settle(&self, persist: impl FnOnce() -> Result<()>) -> Result<()> {
        self.dirty.store(false, Ordering::Release);
        let persisted = persist();
        let mut failure = self
            .sync_failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match &persisted {
            Ok(()) => *failure = None,
            Err(e) => {
                self.dirty.store(true, Ordering::Release);
                *failure = Some(e.to_string());
            }
        }
        persisted
    }

    /// The background sync of relaxed durability. A failure stops writes until a later sync succeeds.
    pub(crate) fn sync_if_dirty(&self) {
        if self.dirty.swap(false, Ordering::AcqRel) || self.part_of.is_some() {
            let _ = self.persist();
        }
    }
}
