//! Splits of directories (GIGA+; Patil & Gibson, FAST 2011, section 3): a partition with more entries than the
//! threshold gives the upper half of its hashes to a new one, independently, while clients continue. The moving
//! entries are a part of a transaction with the new bitmap in its decision, like the edges of a vertex that splits
//! (`node::split`): each is on exactly one side at any time. A partition is one range of keys, so only what moves is
//! read.

use super::row_owner::HashPartitioning;
use crate::node::split::Frozen;
use crate::node::state::{EntryCounts, State};
use crate::node::transaction::Attempt;
use crate::node::transaction::adoption;
use crate::node::{MoveStats, Node};
use crate::peer::{Adopt, RawRow, RawTable, entries_vertex};
use crate::placement::{Partition, SplitState, Splits, Tree};
use crate::vnode::ServerId;
use esker_engine::{Absent, SideWrites};
use esker_model::namespace::record::dentry_key;
use esker_model::{Flow, Result, VertexId};
use esker_store::{KeyRange, Table};
use std::sync::Arc;

/// Longest wait of a split for transactions in progress in its directory, in milliseconds.
const QUIET_MAX: u64 = 1_000;
/// Delay after which a failed split is tried again, in milliseconds.
const POSTPONED: u64 = 1_000;
/// Number of directories whose partitions are counted.
const COUNTED_MAX: usize = 1 << 14;

/// Outcome of a directory split.
enum DirectorySplitOutcome {
    Done,
    Nothing,
    Postponed,
}

impl Node {
    /// Counts entries that were created here, and begins the splits that are due.
    pub(crate) fn note_entries(self: &Arc<Self>, made: &[(VertexId, u64)]) {
        let mut due: Vec<VertexId> = Vec::new();
        let now = self.time.now_millis();
        {
            let mut state = self.state();
            let state = &mut *state;
            for (directory, hash) in made {
                let id = entries_vertex(*directory);
                let whole = Splits::default();
                let splits = state.splits.get(&id).map_or(&whole, SplitState::splits);
                let Some(cut) = HashPartitioning::of(&*self.placement, *directory) else {
                    return;
                };
                let grown = match state.entries.get_mut(directory) {
                    Some(counts) => {
                        let partition = cut.locate(splits, *hash);
                        let count = counts.entry(partition).or_default();
                        *count += 1;
                        *count > self.settings.directory_threshold
                    }
                    None => state.count_insert(id, self.settings.directory_threshold),
                };
                let waits = !state.serving || state.postponed.get(&id).is_some_and(|t| *t > now);
                if grown && !waits && !state.frozen.contains(&id) && !due.contains(directory) {
                    due.push(*directory);
                }
            }
        }
        for directory in due {
            self.spawn(move |node| async move { node.split_directory(directory).await });
        }
    }

    /// Runs all splits that are due of a directory's partitions here.
    async fn split_directory(self: Arc<Self>, directory: VertexId) {
        let (Some(tree), id) = (self.placement.tree(), entries_vertex(directory)) else {
            return;
        };
        let outcome = loop {
            // The task that froze the directory does what is due. Waiting operations continue between two splits.
            if !self.state().frozen.insert(id) {
                return;
            }
            let frozen = Frozen { node: &self, id };
            let outcome = self.split_entries(tree, directory).await;
            drop(frozen);
            if !matches!(outcome, Ok(DirectorySplitOutcome::Done)) {
                break outcome;
            }
            self.host.sleep(0).await;
        };
        if !matches!(outcome, Ok(DirectorySplitOutcome::Nothing)) {
            let until = self.time.now_millis() + POSTPONED;
            self.state().postponed.insert(id, until);
        }
    }

    async fn split_entries(
        self: &Arc<Self>,
        tree: Tree,
        directory: VertexId,
    ) -> Result<DirectorySplitOutcome> {
        let id = entries_vertex(directory);
        let Some(cut) = HashPartitioning::of(&*self.placement, directory) else {
            return Ok(DirectorySplitOutcome::Nothing);
        };
        // Transactions that were prepared before, and writes in progress, are applied first: their entries must be
        // among those that move.
        let quiet = |state: &mut State| (!state.pending.touches(id)).then_some(());
        if self.wait_until(QUIET_MAX, quiet).await.is_none() || self.is_moving(id) {
            return Ok(DirectorySplitOutcome::Postponed);
        }
        self.own_names().wait_for_change();
        // The receiver of the entries does not know of leases on them.
        if self
            .own_names()
            .lease_millis_left(&[], &[], &[directory], false)
            > 0
        {
            return Ok(DirectorySplitOutcome::Postponed);
        }
        let splits = self.stored_splits(id);
        let counted = self.state().entries.contains_key(&directory);
        if !counted {
            let counts = self.count_entries(cut, directory, &splits)?;
            let mut state = self.state();
            if state.entries.len() >= COUNTED_MAX {
                state.entries.clear();
            }
            state.entries.insert(directory, counts);
            state.inserted.remove(&id);
        }
        let Some((from, to, level)) = self.due_entries(tree, directory, &splits) else {
            self.state().postponed.remove(&id);
            return Ok(DirectorySplitOutcome::Nothing);
        };
        let here = self.count_range(directory, cut.range(from, level))?;
        if here <= self.settings.directory_threshold {
            // Some entries were removed meanwhile.
            self.set_count(directory, from, here);
            return Ok(DirectorySplitOutcome::Done);
        }
        let going = cut.range(to, level + 1);
        let mut after = splits.clone();
        after.insert(to);
        let state = self.split_state(tree, after)?;
        let server = self.server_of(id, to);
        if server == self.settings.id {
            let moved = self.count_range(directory, going)?;
            self.blocking(move |node| node.split_entries_here(id, state))
                .await??;
            self.set_count(directory, from, here - moved.min(here));
            self.set_count(directory, to, moved);
            return Ok(DirectorySplitOutcome::Done);
        }
        if !self.move_entries(server, directory, going, state).await? {
            return Ok(DirectorySplitOutcome::Postponed);
        }
        let left = self.count_range(directory, cut.range(from, level + 1))?;
        self.set_count(directory, from, left);
        Ok(DirectorySplitOutcome::Done)
    }

    /// Moves entries to another server with the new bitmap; returns whether it was done.
    async fn move_entries(
        self: &Arc<Self>,
        server: ServerId,
        directory: VertexId,
        going: (u64, u64),
        state: SplitState,
    ) -> Result<bool> {
        match self.move_as_table(server, directory, going, &state).await? {
            Some(done) => Ok(done),
            None => self.move_as_rows(server, directory, going, state).await,
        }
    }

    /// Moves entries as a table by its name; `None` if that is not possible.
    async fn move_as_table(
        self: &Arc<Self>,
        server: ServerId,
        directory: VertexId,
        going: (u64, u64),
        state: &SplitState,
    ) -> Result<Option<bool>> {
        let began = self.time.monotonic_micros();
        let Some(table) = self.write_table(server, directory, going).await else {
            return Ok(None);
        };
        let (rows, file_bytes, name) = (table.rows, table.bytes, table.name());
        let part = adoption(Adopt {
            vertex: entries_vertex(directory),
            splits: state.encode(),
            rows: Vec::new(),
            table: Some(table),
            degrees: Vec::new(),
        });
        let message_bytes = esker_model::wire::encode(&part).len() as u64;
        let splits = (entries_vertex(directory), state.clone());
        let moved = self
            .move_partition(server, part, SideWrites::default(), splits)
            .await;
        // The receiver has read the table when it prepared its part.
        self.drop_table(name);
        Ok(match moved? {
            Attempt::Done(..) => {
                self.moved.by_table(MoveStats {
                    partitions: 1,
                    rows,
                    file_bytes,
                    message_bytes,
                    micros: self.time.monotonic_micros().saturating_sub(began),
                });
                Some(true)
            }
            Attempt::Retry => Some(false),
            Attempt::Unread => {
                self.table_failed(server);
                None
            }
        })
    }

    /// Moves entries as rows in a message.
    async fn move_as_rows(
        self: &Arc<Self>,
        server: ServerId,
        directory: VertexId,
        going: (u64, u64),
        state: SplitState,
    ) -> Result<bool> {
        let began = self.time.monotonic_micros();
        let mut message_bytes = 0;
        let mut side_writes = SideWrites::default();
        let mut rows = Vec::new();
        self.rows_between(directory, going, &mut |key, value| {
            // One byte for the table, and two lengths.
            message_bytes += (key.len() + value.len()) as u64 + 3;
            side_writes.rows.push((Table::Names, key.to_vec(), None));
            rows.push(RawRow {
                table: RawTable::Names,
                key: key.to_vec(),
                value: value.to_vec(),
            });
            Flow::Continue(())
        })?;
        let count = rows.len() as u64;
        let part = adoption(Adopt {
            vertex: entries_vertex(directory),
            splits: state.encode(),
            rows,
            table: None,
            degrees: Vec::new(),
        });
        let splits = (entries_vertex(directory), state);
        let moved = self
            .move_partition(server, part, side_writes, splits)
            .await?;
        let done = matches!(moved, Attempt::Done(..));
        if done {
            self.moved.by_message(MoveStats {
                partitions: 1,
                rows: count,
                file_bytes: 0,
                message_bytes,
                micros: self.time.monotonic_micros().saturating_sub(began),
            });
        }
        Ok(done)
    }

    /// Counts the entries of a received partition.
    pub(crate) fn note_adopted(&self, adopt: &Adopt) {
        // [`entries_vertex`] is its own inverse.
        let directory = entries_vertex(adopt.vertex);
        let Some(cut) = HashPartitioning::of(&*self.placement, directory) else {
            return;
        };
        let mut state = self.state();
        let state = &mut *state;
        let (Some(counts), Some(splits)) = (
            state.entries.get_mut(&directory),
            state.splits.get(&adopt.vertex),
        ) else {
            return;
        };
        for row in &adopt.rows {
            if let Ok((_, hash, _)) = esker_model::namespace::record::decode_dentry_key(&row.key) {
                let partition = cut.locate(splits.splits(), hash);
                *counts.entry(partition).or_default() += 1;
            }
        }
    }

    fn set_count(&self, directory: VertexId, partition: Partition, count: u64) {
        let mut state = self.state();
        if let Some(counts) = state.entries.get_mut(&directory) {
            counts.insert(partition, count);
        }
    }

    /// Returns a partition here with too many entries, the partition that it splits off, and the level of its node.
    fn due_entries(
        &self,
        tree: Tree,
        directory: VertexId,
        splits: &Splits,
    ) -> Option<(Partition, Partition, u32)> {
        let state = self.state();
        let counts = state.entries.get(&directory)?;
        let over = counts
            .iter()
            .filter(|(_, count)| **count > self.settings.directory_threshold);
        let mut due = over.filter_map(|(partition, _)| {
            let here = self.server_of(entries_vertex(directory), *partition) == self.settings.id;
            let (child, level) = tree.next_child(splits, *partition)?;
            here.then_some((*partition, child, level))
        });
        due.next()
    }

    /// Splits a partition whose two halves are both here.
    fn split_entries_here(&self, id: VertexId, splits: SplitState) -> Result<()> {
        let _writing = self.writing_splits();
        let splits = self.merge_stored_splits(id, splits);
        let mut side_writes = SideWrites::default();
        let key = crate::node::codec::split_key(id);
        side_writes
            .rows
            .push((Table::Meta, key, Some(splits.encode())));
        let version = self.clock.tick(self.time.now_millis());
        self.engine
            .apply_part(version, &[], Absent::Refuse, side_writes)?;
        self.harden()?;
        self.state().set_splits(id, splits);
        Ok(())
    }

    /// Counts the entries that a directory has here, by partition.
    fn count_entries(
        &self,
        cut: HashPartitioning,
        directory: VertexId,
        splits: &Splits,
    ) -> Result<EntryCounts> {
        let mut counts = EntryCounts::default();
        self.dentries(directory, (0, u64::MAX), &mut |key, _| {
            if let Ok((_, hash, _)) = esker_model::namespace::record::decode_dentry_key(key) {
                let partition = cut.locate(splits, hash);
                *counts.entry(partition).or_default() += 1;
            }
            Flow::Continue(())
        })?;
        Ok(counts)
    }

    pub(super) fn count_range(&self, directory: VertexId, hashes: (u64, u64)) -> Result<u64> {
        let mut count = 0;
        self.dentries(directory, hashes, &mut |_, _| {
            count += 1;
            Flow::Continue(())
        })?;
        Ok(count)
    }

    fn dentries(
        &self,
        directory: VertexId,
        (first, last): (u64, u64),
        sink: &mut dyn FnMut(&[u8], &[u8]) -> Flow,
    ) -> Result<()> {
        let mut until = dentry_key(directory, last, u8::MAX).to_vec();
        until.push(0);
        let range = KeyRange {
            from: dentry_key(directory, first, 0).to_vec(),
            until: Some(until),
        };
        self.engine.store().scan(Table::Names, &range, sink)
    }

    /// Returns the number of split vertices and directories that have edges or entries here.
    pub fn splits_here(&self) -> usize {
        self.state().splits.len()
    }

    /// Returns how a directory's entries have split, as the whole cluster knows it.
    pub(crate) async fn splits_of_entries(self: &Arc<Self>, directory: VertexId) -> Result<Splits> {
        let splits = self.splits(entries_vertex(directory)).await?;
        Ok(splits.map(|s| s.splits().clone()).unwrap_or_default())
    }
}
