//! The participants of commits that are neither listeners nor bulk loads.

use super::participant::{CommitParticipant, PendingCommit};
use crate::Engine;
use crate::adjacency::{Adjacency, DirtyShards};
use crate::catalog::{NEWEST_KEY, pending_key, version_value};
use crate::counts::encode_pending;
use crate::deleted::DeletedVertices;
use crate::names::{Directories, LeaseBlock};
use crate::txn::{CommitKind, Producers, lock};
use esker_model::Result;
use esker_store::Table;
use std::sync::atomic::Ordering;

/// Leases: refuses a commit of leased rows, and blocks leases on its rows until it has ended.
pub(super) struct Leased<'e> {
    pub(super) engine: &'e Engine,
    pub(super) block: Option<LeaseBlock<'e>>,
}

impl CommitParticipant for Leased<'_> {
    fn prepare(&mut self, commit: &mut PendingCommit) -> Result<()> {
        if commit.kind == CommitKind::Local {
            let keys = commit.rows().map(|write| (write.table, write.key));
            let paths = commit.effects.moves_paths;
            let now = || self.engine.clock.monotonic_micros();
            self.block = self.engine.names.leases.begin(keys, paths, now)?;
        }
        Ok(())
    }

    fn committed(&mut self, _commit: &PendingCommit) {
        self.block = None;
    }

    fn aborted(&mut self, _commit: &PendingCommit) {
        self.block = None;
    }
}

/// Records of producers, which make repeated batches apply once.
pub(super) struct ProducerRows<'w>(pub(super) &'w mut Producers);

impl CommitParticipant for ProducerRows<'_> {
    fn prepare(&mut self, commit: &mut PendingCommit) -> Result<()> {
        self.0.put(commit.version, &mut commit.batch);
        Ok(())
    }

    fn committed(&mut self, _commit: &PendingCommit) {
        self.0.end(true);
    }

    fn aborted(&mut self, _commit: &PendingCommit) {
        self.0.end(false);
    }
}

/// The pending row, with changes of counters and rows of `names`: see [`crate::counts`] and [`crate::memtable`].
pub(super) struct PendingRow<'e> {
    engine: &'e Engine,
    /// Slot of the row, and its value.
    row: Option<(u32, Vec<u8>)>,
}

impl<'e> PendingRow<'e> {
    pub(super) fn new(engine: &'e Engine) -> Self {
        Self { engine, row: None }
    }
}

impl CommitParticipant for PendingRow<'_> {
    fn prepare(&mut self, commit: &mut PendingCommit) -> Result<()> {
        if !commit.has_pending_row() {
            let newest = version_value(commit.version);
            commit.batch.put(Table::Meta, NEWEST_KEY, newest);
            return Ok(());
        }
        let slot = lock(&self.engine.counters).take_slot();
        let changes = &commit.effects.changes;
        let row = encode_pending(commit.version, changes, commit.files.as_ref());
        commit.batch.put(Table::Meta, pending_key(slot), &row);
        self.row = Some((slot, row));
        Ok(())
    }

    fn committed(&mut self, commit: &PendingCommit) {
        if self.row.is_some() {
            lock(&self.engine.counters).add(&commit.effects.changes);
        }
    }

    fn aborted(&mut self, commit: &PendingCommit) {
        let Some((slot, row)) = &self.row else { return };
        // If the failed commit's rows are in the store nevertheless, they become visible: later commits build on them.
        let there = || {
            let now = self.engine.store.get(Table::Meta, &pending_key(*slot));
            now.is_ok_and(|now| now.as_ref() == Some(row))
        };
        match &commit.files {
            Some(files) if there() && self.engine.memtable.add(files).is_ok() => {
                lock(&self.engine.counters).add(&commit.effects.changes);
            }
            _ => lock(&self.engine.counters).failed(*slot),
        }
    }
}

/// The set of vertices that were ever deleted.
pub(super) struct Deleted<'e>(pub(super) &'e DeletedVertices);

impl CommitParticipant for Deleted<'_> {
    fn prepare(&mut self, commit: &mut PendingCommit) -> Result<()> {
        self.0.add(&commit.effects.deleted);
        Ok(())
    }

    fn committed(&mut self, _commit: &PendingCommit) {}

    /// The ids stay: an id too many costs a look-up.
    fn aborted(&mut self, _commit: &PendingCommit) {}
}

/// The directory cache, which has directories of commits that have not ended, too.
pub(super) struct CachedDirectories<'e>(pub(super) &'e Directories);

impl CommitParticipant for CachedDirectories<'_> {
    fn prepare(&mut self, _commit: &mut PendingCommit) -> Result<()> {
        Ok(())
    }

    fn committed(&mut self, commit: &PendingCommit) {
        if commit.effects.moves_paths {
            self.0.clear();
        }
    }

    fn aborted(&mut self, _commit: &PendingCommit) {
        self.0.clear();
    }
}

/// The adjacency cache, whose lists of touched vertices are invalid during the commit.
pub(super) struct AdjacencyLists<'e> {
    pub(super) cache: &'e Adjacency,
    pub(super) dirty: Option<DirtyShards>,
}

impl AdjacencyLists<'_> {
    fn end(&mut self, commit: &PendingCommit) {
        if let Some(dirty) = self.dirty.take() {
            self.cache.end_write(dirty, &commit.effects.touched);
        }
    }
}

impl CommitParticipant for AdjacencyLists<'_> {
    fn prepare(&mut self, commit: &mut PendingCommit) -> Result<()> {
        self.dirty = Some(self.cache.begin_write(&commit.effects.touched));
        Ok(())
    }

    fn committed(&mut self, commit: &PendingCommit) {
        self.end(commit);
    }

    fn aborted(&mut self, commit: &PendingCommit) {
        self.end(commit);
    }
}

/// The newest versions, for reads of the present.
pub(super) struct NewestVersions<'e>(pub(super) &'e Engine);

impl CommitParticipant for NewestVersions<'_> {
    fn prepare(&mut self, _commit: &mut PendingCommit) -> Result<()> {
        Ok(())
    }

    fn committed(&mut self, commit: &PendingCommit) {
        let version = commit.version.0;
        let newest = version.max(commit.effects.newest.0.0);
        // Updated first, so that a thread that reads `newest_seen` also finds `newest_commit`.
        self.0.newest_commit.fetch_max(version, Ordering::AcqRel);
        self.0.newest_seen.fetch_max(newest, Ordering::AcqRel);
    }

    fn aborted(&mut self, _commit: &PendingCommit) {}
}
