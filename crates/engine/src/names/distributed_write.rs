//! Changes of a namespace that is distributed over several engines ([`super::remote_rows`]).

use super::batching::{ChangeSet, SetStatus};
use super::dedup;
use super::remote_rows::{
    PartialStore, RemoteData, RowLocation, RowPlacement, RunResult, is_current,
};
use super::space::Differences;
use super::{Filters, LocalDirectories, NamesTxn, file_kind};
use crate::Engine;
use crate::txn::{CommitKind, Group, Overlay, Producers, Txn, lock};
use esker_model::key::{Counter, SpaceKey};
use esker_model::namespace::record::dentries_prefix;
use esker_model::namespace::{AppliedChange, Change, digest};
use esker_model::object::Principal;
use esker_model::{Error, Flow, Op, Result, VertexId, VertexTypeId};
use esker_store::{KeyRange, Table};

/// Outcome of changes that this engine tried alone.
#[derive(Debug)]
pub struct LocalOutcome {
    /// Outcomes of the leading changes, which are committed.
    pub answers: Vec<Result<AppliedChange>>,
    /// Reason why the next change was not tried.
    pub stopped: Option<LocalStop>,
    /// Entries created by the committed changes: directories and hashes of names.
    pub made: Vec<(VertexId, u64)>,
}

/// Reason why this engine cannot apply a change alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalStop {
    /// Other engines have rows of the change: see [`Engine::plan_name`].
    Remote,
    /// An operation in progress must end first.
    Busy,
}

/// A change that concerns several engines, as rows.
#[derive(Debug, Clone)]
pub struct ChangePlan {
    /// Response of the change once it is committed.
    pub done: AppliedChange,
    /// Epoch of the directory cache that must still be current at commit.
    pub epoch: u64,
    /// Rows to write or, without a value, to remove; with digests of the values read.
    pub rows: Vec<PlannedRow>,
    /// Changes of counters by the change.
    pub counters: Vec<(Counter, i64)>,
    /// Whether a directory is moved, removed or given other permissions: all engines must be notified.
    pub structure: bool,
    /// Directories that must be empty on all engines.
    pub empty: Vec<VertexId>,
    /// Changes of files' vertices.
    pub ops: Vec<Op>,
}

/// A row that a change writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedRow {
    /// Key of the row in table `names`.
    pub key: Vec<u8>,
    /// New value; `None` removes the row.
    pub value: Option<Vec<u8>>,
    /// Digest of the value read, if the row was read.
    pub read: Option<u64>,
}

impl Engine {
    /// Epoch of the directory cache.
    pub fn names_epoch(&self) -> u64 {
        self.names.directories.epoch()
    }

    /// Marks the namespace as distributed over several engines.
    pub fn set_distributed(&self) {
        self.names
            .distributed
            .store(true, std::sync::atomic::Ordering::Release);
    }

    /// Whether this engine has rows of files, and whether its graph has, or had, vertices of files.
    pub fn has_files(&self) -> (bool, bool) {
        (self.names.any(), self.names.has_vertices())
    }

    /// Notes that some engine has files, or vertices of files.
    pub fn note_files(&self, files: bool, vertices: bool) {
        if files {
            self.names.note_any();
        }
        if vertices {
            self.names.note_vertices();
        }
    }

    /// Whether vertices of a type are files or directories.
    pub fn is_file_type(&self, type_id: VertexTypeId) -> bool {
        file_kind(&self.schema_now(), type_id).is_some()
    }

    /// Whether the directory cache has a path, which must be free of symbolic links.
    pub fn has_cached_directory(&self, path: &[u8]) -> bool {
        self.names.directories.get(path).is_some()
    }

    /// Returns the cached directory at a path, which must be free of symbolic links.
    pub fn cached_directory(&self, path: &[u8]) -> Option<VertexId> {
        self.names.directories.get(path).map(|d| d.id)
    }

    /// Applies changes as [`esker_model::namespace::Namespace::change`] does, up to the first that needs remote rows. The applied
    /// ones form one commit. With `once`, a repeated set changes nothing and gets the first outcomes; the idempotency key is
    /// recorded only if all changes were tried.
    pub fn change_names_local(
        &self,
        principal: Option<&Principal>,
        changes: &[Change],
        placement: &dyn RowPlacement,
        idempotency_key: Option<&[u8]>,
    ) -> Result<LocalOutcome> {
        let writer = &mut *lock(&self.writer);
        if placement.busy() {
            return Ok(LocalOutcome {
                answers: Vec::new(),
                stopped: Some(LocalStop::Busy),
                made: Vec::new(),
            });
        }
        let partial = PartialStore::new(&*self.store, placement, None);
        let mut filters = Filters::default();
        let set = ChangeSet {
            principal,
            changes,
            idempotency_key,
        };
        let done = self.commit(writer, CommitKind::Local, &partial, |commit| {
            let mut names = self.names_txn(&mut filters, &partial);
            self.apply_local(commit, &mut names, &set, placement)
        });
        if done.is_err() {
            // They may contain directories that do not exist.
            self.names.directories.clear();
        }
        done
    }

    /// Applies changes up to the first that needs remote rows, unless they were applied before.
    fn apply_local(
        &self,
        commit: &mut Group<'_, '_>,
        names: &mut NamesTxn<'_>,
        set: &ChangeSet<'_>,
        placement: &dyn RowPlacement,
    ) -> Result<LocalOutcome> {
        let mut local = LocalOutcome {
            answers: Vec::with_capacity(set.changes.len()),
            stopped: None,
            made: Vec::new(),
        };
        if set.changes.len() > 16 {
            commit.overlay.reserve(set.changes.len() + 8);
        }
        let version = placement.version();
        commit.witness(version);
        let now_millis = self.clock.now_millis();
        let numbered = match self.admit_set(set, commit.producers, now_millis)? {
            SetStatus::New(numbered) => numbered,
            SetStatus::Applied(answers) => {
                local.answers = answers;
                return Ok(local);
            }
        };
        let mut structural = false;
        for change in set.changes {
            let mut txn = commit.begin(version);
            let answer = txn.change_name(names, set.principal, change);
            let effects = txn.effects;
            names.salt += 1;
            let stopped = match names.partial.and_then(PartialStore::take_stop::<()>) {
                Some(RunResult::Busy) => Some(LocalStop::Busy),
                Some(_) => Some(LocalStop::Remote),
                None if answer.is_err() || placement.is_sole_engine() => None,
                None if names.structural || !names.sums_are_here(placement) => {
                    Some(LocalStop::Remote)
                }
                // Rows that are written without being read.
                None => commit.overlay.written(Table::Names).find_map(|key| {
                    match placement.locate(key) {
                        RowLocation::Local => None,
                        RowLocation::Remote => Some(LocalStop::Remote),
                        RowLocation::Busy => Some(LocalStop::Busy),
                    }
                }),
            };
            if stopped.is_some() {
                commit.undo();
                local.stopped = stopped;
                names.structural = structural;
                break;
            }
            structural = names.structural;
            let put = names.partial.map_or_else(Vec::new, PartialStore::take_put);
            match &answer {
                Ok(_) => {
                    if adds_entry(change) {
                        local.made.extend(put);
                    }
                    commit.keep(effects);
                    names.keep_differences();
                }
                Err(e) => {
                    commit.undo();
                    names.current.clear();
                    names.local.clear();
                    if !matches!(e, Error::File(_)) {
                        names.invalidate_cache();
                    }
                }
            }
            local.answers.push(answer);
        }
        for (counter, change) in names.space.iter() {
            commit.effects.changes.add(counter, change);
        }
        commit.effects.moves_paths = names.structural;
        if let Some(numbered) = numbered
            && local.stopped.is_none()
            && local.answers.iter().any(Result::is_ok)
        {
            let answer = dedup::encode(version, &local.answers);
            commit.producers.answered(&numbered, now_millis, answer);
        }
        Ok(local)
    }

    /// Runs a change without committing it; returns the rows that it would write, with digests of the values read.
    pub fn plan_name(
        &self,
        principal: Option<&Principal>,
        change: &Change,
        placement: &dyn RowPlacement,
        fetched: &RemoteData,
    ) -> Result<RunResult<ChangePlan>> {
        // Local rows stay unchanged during the run.
        let _writer = lock(&self.writer);
        if placement.busy() || !is_current(fetched, &self.names.directories) {
            return Ok(RunResult::Busy);
        }
        let partial = PartialStore::new(&*self.store, placement, Some(fetched));
        let schema = self.schema_now();
        let mut overlay = Overlay::new(&partial);
        overlay.savepoint();
        let version = placement.version();
        let mut filters = Filters::default();
        let mut producers = Producers::default();
        let mut names = self.names_txn(&mut filters, &partial);
        let now_millis = self.clock.now_millis();
        let mut txn = Txn::begin(
            self,
            &mut overlay,
            &schema,
            &mut producers,
            version,
            now_millis,
        );
        let done = match txn.change_name(&mut names, principal, change) {
            Ok(done) => done,
            // The rows read belong to different states.
            Err(e) if super::open::is_moved(&e) => return Ok(RunResult::Busy),
            Err(e) => return partial.take_stop().ok_or(e),
        };
        names.keep_differences();
        let structure = names.structural;
        let mut changes: Vec<(Counter, i64)> =
            names.space.iter().filter(|(_, n)| *n != 0).collect();
        changes.sort_unstable_by_key(|(counter, _)| *counter);
        let (batch, _) = overlay.into_batch();
        let rows = batch.iter().filter(|w| w.table == Table::Names);
        let rows = rows.map(|w| PlannedRow {
            key: w.key.to_vec(),
            value: w.value.map(<[u8]>::to_vec),
            read: partial.read_of(w.key),
        });
        let rows = rows.collect();
        let (empty, ops) = partial.into_requirements();
        Ok(RunResult::Ended(ChangePlan {
            done,
            epoch: fetched.epoch,
            rows,
            counters: changes,
            structure,
            empty,
            ops,
        }))
    }

    /// Whether rows still have the values that were read, and directories have no entries on this engine. The host has announced
    /// beforehand what other changes must leave alone.
    pub fn names_unchanged(
        &self,
        epoch: Option<u64>,
        rows: &[(Vec<u8>, u64)],
        empty: &[VertexId],
    ) -> Result<bool> {
        // Waits for the change in progress.
        let _writer = lock(&self.writer);
        if epoch.is_some_and(|epoch| epoch != self.names.directories.epoch()) {
            return Ok(false);
        }
        for (key, read) in rows {
            let mut now = 0;
            self.store
                .get_with(Table::Names, key, &mut |value| now = digest(Some(value)))?;
            if now != *read {
                return Ok(false);
            }
        }
        for directory in empty {
            let mut found = false;
            let range = KeyRange::prefix(&dentries_prefix(*directory));
            self.store.scan(Table::Names, &range, &mut |_, _| {
                found = true;
                Flow::Break(())
            })?;
            if found {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits until the change in progress has ended.
    pub fn names_barrier(&self) {
        drop(lock(&self.writer));
    }

    fn names_txn<'n>(
        &'n self,
        filters: &'n mut Filters,
        partial: &'n PartialStore<'n>,
    ) -> NamesTxn<'n> {
        NamesTxn {
            names: &self.names,
            pending: &self.counters,
            filters,
            partial: Some(partial),
            local: LocalDirectories::default(),
            structural: false,
            space: Differences::default(),
            current: Vec::new(),
            salt: 0,
            subtree_rows: super::subtree::SubtreeRows::default(),
            bulk_load_rows_min: usize::MAX,
        }
    }
}

/// Whether a change adds an entry to a directory.
fn adds_entry(change: &Change) -> bool {
    matches!(
        change,
        Change::Create(..) | Change::Rename { .. } | Change::Link { .. }
    )
}

impl NamesTxn<'_> {
    /// Whether this engine maintains all sums that the present change modifies.
    fn sums_are_here(&self, placement: &dyn RowPlacement) -> bool {
        self.current.iter().all(|(counter, _)| match counter {
            Counter::Space(SpaceKey::Directory(id), _) => placement.sums(*id),
            _ => true,
        })
    }
}
