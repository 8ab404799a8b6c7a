//! The commit: all changes of a group become durable and visible together, in the store and in the structures beside it.
//!
//! [`Engine::commit`] is the only place that writes out the sequence: it gives the changes an overlay, versions and records
//! of producers (`Group`), then makes one batch and commits it with all [`CommitParticipant`]s. Those are, in the order of
//! preparation: leases, a bulk load, producers, listeners, the pending row (counters and rows of files), deleted vertices,
//! the directory cache, the adjacency cache and the newest versions. Leases and the bulk load may refuse a commit; they come
//! first, so that there is nothing to undo in the others. Rows of files and objects go through the layers of the store,
//! which make them visible with the commit ([`crate::object`], [`crate::memtable`]).

mod changed_row;
mod listeners;
mod merge;
mod participant;
mod participants;

pub(crate) use changed_row::ChangedRow;
pub(crate) use participant::{CommitParticipant, PendingCommit};

use crate::Engine;
use crate::memtable::MemtableStore;
use crate::txn::{CommitKind, Group, Writer, lock};
use esker_model::Result;
use esker_store::{Store, Table};
use listeners::Listeners;
use participants::{
    AdjacencyLists, CachedDirectories, Deleted, Leased, NewestVersions, PendingRow, ProducerRows,
};

/// Upper bound of pending rows; they are all read when a database is opened.
const PENDING_ROWS_MAX: usize = 1 << 17;

impl Engine {
    /// Commits the changes that `apply` makes in a group over `store`. Caller holds the write lock. If `apply` or the commit
    /// fails, none of them is applied; a failed commit may be in the store nevertheless.
    pub(crate) fn commit<'g, 's, T>(
        &'g self,
        writer: &'g mut Writer,
        kind: CommitKind,
        store: &'s dyn Store,
        apply: impl FnOnce(&mut Group<'g, 's>) -> Result<T>,
    ) -> Result<T> {
        let mut group = Group::new(self, writer, store);
        let done = apply(&mut group)?;
        self.commit_group(kind, group)?;
        Ok(done)
    }

    fn commit_group(&self, kind: CommitKind, group: Group<'_, '_>) -> Result<()> {
        let Group {
            overlay,
            mut effects,
            producers,
            clock,
            mut bulk_load,
            ..
        } = group;
        let (mut batch, new_objects) = overlay.into_batch();
        let rowless = batch.is_empty() && new_objects.is_empty() && effects.tags.is_empty();
        let followed = effects.moves_paths && self.feed.is_followed();
        if rowless && !producers.has_changes() && bulk_load.is_none() && !followed {
            if effects.moves_paths {
                // The rows of the directories are on other engines.
                self.names.directories.clear();
            }
            return Ok(());
        }
        effects.changes.settle();
        let named = batch.iter().any(|w| w.table == Table::Names);
        let files = named.then(|| {
            let rest = batch.without(Table::Names);
            std::mem::replace(&mut batch, rest)
        });
        if let Some(files) = &files {
            MemtableStore::check(files)?;
            self.names.note_any();
        }
        let mut commit = PendingCommit {
            version: clock.last(),
            kind,
            batch,
            files,
            new_objects,
            effects,
        };
        let mut participants: [&mut dyn CommitParticipant; 9] = [
            &mut Leased {
                engine: self,
                block: None,
            },
            &mut bulk_load,
            &mut ProducerRows(producers),
            &mut Listeners::new(self),
            &mut PendingRow::new(self),
            &mut Deleted(&self.deleted),
            &mut CachedDirectories(&self.names.directories),
            &mut AdjacencyLists {
                cache: &self.adjacency,
                dirty: None,
            },
            &mut NewestVersions(self),
        ];
        let mut prepared = 0;
        let mut outcome = participants.iter_mut().try_for_each(|one| {
            one.prepare(&mut commit)?;
            prepared += 1;
            Ok(())
        });
        if outcome.is_ok() {
            outcome = self.objects.commit_with(
                std::mem::take(&mut commit.batch),
                commit.files.as_ref(),
                &commit.new_objects,
                &commit.effects.tags,
                self.settings.durability,
            );
        }
        for one in participants.iter_mut().take(prepared).rev() {
            match &outcome {
                Ok(()) => one.committed(&commit),
                Err(_) => one.aborted(&commit),
            }
        }
        self.objects
            .recycle(std::mem::take(&mut commit.new_objects));
        outcome?;
        // The changes are committed even if this fails: a later commit tries again.
        let _ = self.objects.checkpoint_if_due();
        if commit.has_pending_row() && self.is_merge_due(commit.files.is_some()) {
            let _ = self.merge_counters(commit.version);
        }
        Ok(())
    }

    /// Whether enough counter changes and rows of files are pending to merge them.
    fn is_merge_due(&self, files: bool) -> bool {
        let pending = lock(&self.counters);
        pending.len() >= self.settings.pending_counters_max
            || pending.rows() >= PENDING_ROWS_MAX
            || files && self.memtable.bytes() >= self.settings.memtable_bytes
    }
}
