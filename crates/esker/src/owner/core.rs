//! Operations of the owner, for itself and for the processes that it serves.

use super::claim::Claim;
use crate::archive::FolderArchive;
use crate::backup::{self, BackupReport};
use crate::engine::{BulkReport, CompactReport, Engine};
use crate::folder::Folder;
use crate::limits::{HEARTBEAT, OWNER_SILENT_MAX, REQUEST_KEY_MAX};
use crate::request_keys;
use crate::store_engine::StoreEngine;
use esker_model::namespace::{
    AppliedChange, Change, Changes, Handle, Namespace as _, OpenLookup, SEAL_BYTES,
};
use esker_model::object::{ObjectWrite as _, Principal, TagReport, TagWhere};
use esker_model::{
    Batch, Cancel, Commit, Error, Flow, GraphWrite, Mutation, Result, Schema, SchemaChange, Version,
};
use esker_process::producer::random_bytes;
use esker_process::user::is_mapped;
use esker_store::{Durability, Store, Table, WriteBatch};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use std::time::Instant;

/// Whether this process is still the owner, as of its last heartbeat.
#[derive(Debug)]
pub(crate) struct HeartbeatStatus {
    folder: Folder,
    replaced: AtomicBool,
    last: Mutex<Instant>,
}

impl HeartbeatStatus {
    pub(crate) fn new(folder: &Folder) -> Arc<Self> {
        Arc::new(Self {
            folder: folder.clone(),
            replaced: AtomicBool::new(false),
            last: Mutex::new(Instant::now()),
        })
    }

    /// Records the result of a heartbeat.
    pub(crate) fn record(&self, beat: &Result<bool>) {
        match beat {
            Ok(true) => *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now(),
            Ok(false) => self.replaced.store(true, Ordering::Release),
            // The record could not be written; the next heartbeat tries again, and writes are refused if the failure
            // persists.
            Err(_) => {}
        }
    }

    fn check(&self) -> Result<()> {
        if self.replaced.load(Ordering::Acquire) {
            return Err(Error::InUse(format!(
                "another host has taken over `{}`, because this process gave no heartbeat for {} \
                 s; what was acknowledged is kept: open it again",
                self.folder.path.display(),
                OWNER_SILENT_MAX.as_secs()
            )));
        }
        Ok(())
    }

    /// Checks ownership before a write. A process that was suspended or stopped must check again before it touches
    /// files that
    /// may belong to another owner by now.
    fn check_write(&self, claim: &Claim) -> Result<()> {
        self.check()?;
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.elapsed() > HEARTBEAT * 3 {
            let beat = claim.beat();
            if let Err(e) = &beat {
                return Err(Error::Unavailable(format!(
                    "the heartbeat of this process cannot be written, so no other writes are accepted: {e}"
                )));
            }
            self.record(&beat);
            return self.check();
        }
        Ok(())
    }
}

/// The open store with its engine, archive and folder.
pub(crate) struct Core {
    pub(crate) engine: Arc<Engine>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) archive: Arc<FolderArchive>,
    pub(crate) folder: Folder,
    pub(crate) store_engine: StoreEngine,
    pub(crate) heartbeat_status: Arc<HeartbeatStatus>,
    pub(crate) claim: Arc<Claim>,
    /// Error message for processes that try to attach, if only this process may use the database; its server writes to
    /// the engine directly.
    pub(crate) part_of: Option<String>,
    /// The window of an ephemeral store: writes that no checkpoint contains yet.
    pub(crate) window: Option<crate::window::Window>,
    dirty: AtomicBool,
    sync_failure: Mutex<Option<String>>,
    /// Secret key of the seals, known only to this process.
    key: OnceLock<[u8; 32]>,
    /// User who owned the folder when it was opened; a folder that replaces it later does not change this.
    pub(crate) owner: Option<u32>,
}

/// Retries an operation until no lease blocks it any more.
fn wait_for_leases<T>(mut what: impl FnMut() -> Result<T>) -> Result<T> {
    loop {
        match what() {
            Err(Error::Leased { millis }) => std::thread::sleep(Duration::from_millis(millis)),
            done => return done,
        }
    }
}

impl Core {
    /// Seal that proves that this process issued an open file to the principal.
    pub(super) fn seal(&self, principal: &Principal, handle: &Handle) -> Result<[u8; SEAL_BYTES]> {
        let key = if let Some(key) = self.key.get() {
            key
        } else {
            let halves = [random_bytes()?, random_bytes()?];
            let mut key = [0; 32];
            for (place, byte) in key.iter_mut().zip(halves.iter().flatten()) {
                *place = *byte;
            }
            self.key.get_or_init(|| key)
        };
        let mut text = principal.uid.to_be_bytes().to_vec();
        text.extend_from_slice(&handle.sealed_bytes());
        let hash = blake3::keyed_hash(key, &text);
        Ok(hash.as_bytes().first_chunk().copied().unwrap_or_default())
    }

    /// Adds the seal to an opened file before it is sent to another process.
    pub(super) fn seal_looked(
        &self,
        principal: Option<&Principal>,
        looked: OpenLookup,
    ) -> Result<OpenLookup> {
        let (Some(principal), OpenLookup::Found(path, inode)) = (principal, &looked) else {
            return Ok(looked);
        };
        let Some(handle) = path.handle() else {
            return Ok(looked);
        };
        let seal = self.seal(principal, &handle)?;
        let path = Handle { seal, ..handle }.path();
        Ok(OpenLookup::Found(path, inode.clone()))
    }

    pub(crate) fn new(
        engine: Arc<Engine>,
        store: Arc<dyn Store>,
        archive: Arc<FolderArchive>,
        folder: Folder,
        store_engine: StoreEngine,
        heartbeat_status: Arc<HeartbeatStatus>,
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
            heartbeat_status,
            claim,
            part_of: None,
            window: None,
            dirty,
            sync_failure,
            key: OnceLock::new(),
            owner: owner.filter(|user| is_mapped(*user)),
        }
    }

    /// Fails once another process has taken over.
    pub(crate) fn usable(&self) -> Result<()> {
        self.heartbeat_status.check()
    }

    fn before_write(&self) -> Result<()> {
        self.heartbeat_status.check_write(&self.claim)?;
        match &*self
            .sync_failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
        {
            Some(failure) => Err(Error::Unavailable(format!(
                "earlier writes could not be made durable, so no more are accepted: {failure}"
            ))),
            None => Ok(()),
        }
    }

    /// Applies a batch of mutations.
    pub(crate) fn apply(&self, batch: Batch) -> Result<Commit> {
        self.before_write()?;
        let commit = if self.engine.has_leases() {
            wait_for_leases(|| self.engine.apply(batch.clone()))
        } else {
            self.engine.apply(batch)
        };
        self.dirty.store(true, Ordering::Release);
        commit
    }

    /// Applies batches in one group commit if no other write is in progress; otherwise returns the batches.
    pub(crate) fn try_apply_all(
        &self,
        batches: Vec<Batch>,
    ) -> std::result::Result<Vec<Result<Commit>>, Vec<Batch>> {
        if let Err(e) = self.before_write() {
            return Ok(refuse_all(batches.len(), &e));
        }
        let commits = self.engine.try_apply_all(batches);
        self.dirty.store(true, Ordering::Release);
        commits
    }

    /// Applies batches in one group commit. Results are in the order of the batches.
    pub(crate) fn apply_all(&self, batches: Vec<Batch>) -> Vec<Result<Commit>> {
        if let Err(e) = self.before_write() {
            return refuse_all(batches.len(), &e);
        }
        let commits = self.engine.apply_all(batches);
        self.dirty.store(true, Ordering::Release);
        commits
    }

    /// Extends the schema with new definitions.
    pub(crate) fn define(&self, changes: &[SchemaChange]) -> Result<Arc<Schema>> {
        self.before_write()?;
        let schema = self.engine.define(changes);
        self.dirty.store(true, Ordering::Release);
        schema
    }

    /// Makes a change that has its own call of the engine.
    pub(crate) fn write<T>(&self, change: impl FnOnce(&Engine) -> Result<T>) -> Result<T> {
        self.before_write()?;
        let done = change(&self.engine);
        self.dirty.store(true, Ordering::Release);
        done
    }

    /// Changes the tags of the objects that match a filter.
    pub(crate) fn tag_where(&self, change: &TagWhere, cancel: &dyn Cancel) -> Result<TagReport> {
        self.before_write()?;
        let report = self.engine.tag_where(change, cancel);
        self.dirty.store(true, Ordering::Release);
        report
    }

    /// Changes files of the namespace.
    pub(crate) fn change_names(
        &self,
        principal: Option<&Principal>,
        changes: &[Change],
    ) -> Result<Vec<Result<AppliedChange>>> {
        self.before_write()?;
        let done = wait_for_leases(|| self.engine.change(principal, changes));
        self.dirty.store(true, Ordering::Release);
        done
    }

    /// Changes files for a caller whose changes may have been applied before.
    pub(crate) fn change_once(&self, changes: &Changes) -> Result<Vec<Result<AppliedChange>>> {
        self.before_write()?;
        let done = wait_for_leases(|| self.engine.change_once(changes));
        self.dirty.store(true, Ordering::Release);
        done
    }

    /// Changes files if no other write is in progress.
    pub(crate) fn try_change(
        &self,
        changes: &Changes,
    ) -> Option<Result<Vec<Result<AppliedChange>>>> {
        if let Err(e) = self.before_write() {
            return Some(Err(e));
        }
        let done = self.engine.try_change(changes);
        self.dirty.store(true, Ordering::Release);
        done
    }

    /// Changes files for several callers in one commit. Results are in the order of the callers.
    pub(crate) fn change_all(&self, all: &[Changes]) -> Vec<Result<Vec<Result<AppliedChange>>>> {
        if let Err(e) = self.before_write() {
            return refuse_all(all.len(), &e);
        }
        let done = self.engine.change_all(all);
        self.dirty.store(true, Ordering::Release);
        done
    }

    /// Enables or disables the index of a tag for searches.
    pub(crate) fn set_index(&self, name: &str, on: bool) -> Result<bool> {
        self.before_write()?;
        let changed = self.engine.set_index(name, on);
        self.dirty.store(true, Ordering::Release);
        changed
    }

    /// Loads mutations as sorted tables.
    pub(crate) fn bulk_load(
        &self,
        mutations: &mut dyn Iterator<Item = Result<Mutation>>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<BulkReport> {
        self.before_write()?;
        wait_for_leases(|| self.engine.bulk_load(mutations, progress))
    }

    /// Moves superseded versions to the archive and compacts the store.
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

    /// Deletes idempotency keys of requests that are too old to be repeated.
    pub(crate) fn forget_old_requests(&self, now_millis: u64) -> Result<()> {
        // A process that was replaced must not touch the files.
        self.before_write()?;
        self.engine.forget_producers(now_millis)?;
        let old = now_millis
            .saturating_sub(u64::try_from(REQUEST_KEY_MAX.as_millis()).unwrap_or(u64::MAX));
        let mut batch = WriteBatch::default();
        self.store.scan(
            Table::Meta,
            &request_keys::rows_before(old),
            &mut |key, _| {
                batch.remove(Table::Meta, key);
                Flow::Continue(())
            },
        )?;
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

    /// Syncs all writes to disk.
    pub(crate) fn persist(&self) -> Result<()> {
        self.settle(|| self.engine.persist())
    }

    /// Ends all leases, then persists and closes the store.
    pub(crate) fn close(&self) -> Result<()> {
        // The next owner does not know the leases.
        while let Ok(millis @ 1..) = self.engine.disable_leases() {
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

    /// Background sync of relaxed durability. A failure stops writes until a later sync succeeds.
    pub(crate) fn sync_if_dirty(&self) {
        if self.dirty.swap(false, Ordering::AcqRel) || self.part_of.is_some() {
            let _ = self.persist();
        }
    }
}

/// Answers of several writes that are refused for one reason.
fn refuse_all<T>(count: usize, why: &Error) -> Vec<Result<T>> {
    let refused = |_| Err(Error::Unavailable(why.to_string()));
    (0..count).map(refused).collect()
}
