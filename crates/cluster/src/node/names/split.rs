//! Directories that split (GIGA+; Patil & Gibson, FAST 2011, section 3): a partition with more entries than the threshold gives
//! the upper half of its hashes to a new one, by itself, while others go on. The entries that move are a part of a transaction
//! with the new bitmap in its decision, as the edges of a vertex that splits are (`node::split`): each is on one side, always.
//! A partition is one range of keys, so only what moves is read.

use super::place::Cut;
use crate::node::hashed::Map;
use crate::node::split::Frozen;
use crate::node::state::State;
use crate::node::transaction::Attempt;
use crate::node::transaction::adoption;
use crate::node::{MovedBy, Node};
use crate::peer::{Adopt, RawRow, RawTable, entries_of};
use crate::placement::{Partition, SplitState, Splits, Tree};
use crate::vnode::ServerId;
use esker_engine::{Absent, Beside};
use esker_model::namespace::record::dentry_key;
use esker_model::{Flow, Result, VertexId};
use esker_store::{KeyRange, Table};
use std::sync::Arc;

/// How long a split waits for what is under way in its directory, in milliseconds.
const QUIET_MAX: u64 = 1_000;
/// When a split that did not succeed is tried again, in milliseconds.
const POSTPONED: u64 = 1_000;
/// Directories whose partitions are counted.
const COUNTED_MAX: usize = 1 << 14;

/// Entries in the partitions that a directory has here.
pub(crate) type Counts = Map<Partition, u64>;

/// What became of a split.
enum Outcome {
    Done,
    Nothing,
    Postponed,
}

impl Node {
    /// Counts entries that were made here; begins the splits that are due.
    pub(crate) fn note_entries(self: &Arc<Self>, made: &[(VertexId, u64)]) {
        let mut due: Vec<VertexId> = Vec::new();
        let now = self.time.now_millis();
        {
            let mut state = self.state();
            let state = &mut *state;
            for (directory, hash) in made {
                let id = entries_of(*directory);
                let whole = Splits::default();
                let splits = state.splits.get(&id).map_or(&whole, SplitState::splits);
                let Some(cut) = Cut::of(&*self.placement, *directory) else {
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

    /// All splits that are due of the partitions that a directory has here.
    async fn split_directory(self: Arc<Self>, directory: VertexId) {
        let (Some(tree), id) = (self.placement.tree(), entries_of(directory)) else {
            return;
        };
        let outcome = loop {
            // Whoever froze it does what is to be done. Between two splits those that wait go on.
            if !self.state().frozen.insert(id) {
                return;
            }
            let frozen = Frozen { node: &self, id };
            let outcome = self.split_entries(tree, directory).await;
            drop(frozen);
            if !matches!(outcome, Ok(Outcome::Done)) {
                break outcome;
            }
            self.host.sleep(0).await;
        };
        if !matches!(outcome, Ok(Outcome::Nothing)) {
            let until = self.time.now_millis() + POSTPONED;
            self.state().postponed.insert(id, until);
        }
    }

    async fn split_entries(self: &Arc<Self>, tree: Tree, directory: VertexId) -> Result<Outcome> {
        let id = entries_of(directory);
        let Some(cut) = Cut::of(&*self.placement, directory) else {
            return Ok(Outcome::Nothing);
        };
        // What was prepared before is written first: it is to be among what moves. So is what is being written now.
        let quiet = |state: &mut State| (!state.pending.touches(id)).then_some(());
        if self.until(QUIET_MAX, quiet).await.is_none() || self.is_moving(id) {
            return Ok(Outcome::Postponed);
        }
        self.engine.names_barrier();
        // Whoever gets the entries does not know what was promised of them.
        if self.engine.promised(&[], &[], &[directory], false) > 0 {
            return Ok(Outcome::Postponed);
        }
        let splits = self.own_splits(id);
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
            return Ok(Outcome::Nothing);
        };
        let here = self.count_range(directory, cut.range(from, level))?;
        if here <= self.settings.directory_threshold {
            // Some have gone since.
            self.set_count(directory, from, here);
            return Ok(Outcome::Done);
        }
        let going = cut.range(to, level + 1);
        let mut after = splits.clone();
        after.insert(to);
        let state = self.split_state(tree, after)?;
        let server = self.server_of(id, to);
        if server == self.settings.id {
            let moved = self.count_range(directory, going)?;
            self.split_entries_here(id, state)?;
            self.set_count(directory, from, here - moved.min(here));
            self.set_count(directory, to, moved);
            return Ok(Outcome::Done);
        }
        if !self.give_entries(server, directory, going, state).await? {
            return Ok(Outcome::Postponed);
        }
        let left = self.count_range(directory, cut.range(from, level + 1))?;
        self.set_count(directory, from, left);
        Ok(Outcome::Done)
    }

    /// Gives entries to another server, with the new bitmap; whether that was done.
    async fn give_entries(
        self: &Arc<Self>,
        server: ServerId,
        directory: VertexId,
        going: (u64, u64),
        state: SplitState,
    ) -> Result<bool> {
        match self.give_table(server, directory, going, &state).await? {
            Some(done) => Ok(done),
            None => self.give_rows(server, directory, going, state).await,
        }
    }

    /// As a table by its name; `None` if that does not go.
    async fn give_table(
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
            vertex: entries_of(directory),
            splits: state.encode(),
            rows: Vec::new(),
            table: Some(table),
            degrees: Vec::new(),
        });
        let message_bytes = part.encode().len() as u64;
        let splits = (entries_of(directory), state.clone());
        let moved = self
            .move_partition(server, part, Beside::default(), splits)
            .await;
        // It was read when it was prepared.
        self.drop_table(name);
        Ok(match moved? {
            Attempt::Done(..) => {
                self.moved.by_table(MovedBy {
                    partitions: 1,
                    rows,
                    file_bytes,
                    message_bytes,
                    micros: self.time.monotonic_micros().saturating_sub(began),
                });
                Some(true)
            }
            Attempt::Again => Some(false),
            Attempt::Unread => {
                self.table_failed(server);
                None
            }
        })
    }

    /// In a message.
    async fn give_rows(
        self: &Arc<Self>,
        server: ServerId,
        directory: VertexId,
        going: (u64, u64),
        state: SplitState,
    ) -> Result<bool> {
        let began = self.time.monotonic_micros();
        let mut message_bytes = 0;
        let mut beside = Beside::default();
        let mut rows = Vec::new();
        self.rows_between(directory, going, &mut |key, value| {
            // A table, and two lengths.
            message_bytes += (key.len() + value.len()) as u64 + 3;
            beside.rows.push((Table::Names, key.to_vec(), None));
            rows.push(RawRow {
                table: RawTable::Names,
                key: key.to_vec(),
                value: value.to_vec(),
            });
            Flow::Continue(())
        })?;
        let count = rows.len() as u64;
        let part = adoption(Adopt {
            vertex: entries_of(directory),
            splits: state.encode(),
            rows,
            table: None,
            degrees: Vec::new(),
        });
        let splits = (entries_of(directory), state);
        let moved = self.move_partition(server, part, beside, splits).await?;
        let done = matches!(moved, Attempt::Done(..));
        if done {
            self.moved.by_message(MovedBy {
                partitions: 1,
                rows: count,
                file_bytes: 0,
                message_bytes,
                micros: self.time.monotonic_micros().saturating_sub(began),
            });
        }
        Ok(done)
    }

    /// A partition of a directory has come here.
    pub(crate) fn note_adopted(&self, adopt: &Adopt) {
        // The mark that makes it the entries' is its own inverse.
        let directory = entries_of(adopt.vertex);
        let Some(cut) = Cut::of(&*self.placement, directory) else {
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

    /// A partition here with too many entries: it, what it splits off, and the level of its node.
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
            let here = self.server_of(entries_of(directory), *partition) == self.settings.id;
            let (child, level) = tree.next_child(splits, *partition)?;
            here.then_some((*partition, child, level))
        });
        due.next()
    }

    /// A split whose two halves lie here.
    fn split_entries_here(&self, id: VertexId, splits: SplitState) -> Result<()> {
        let _writing = self.writing_splits();
        let splits = self.with_stored(id, splits);
        let mut beside = Beside::default();
        let key = crate::node::codec::split_key(id);
        beside.rows.push((Table::Meta, key, Some(splits.encode())));
        let version = self.clock.tick(self.time.now_millis());
        self.engine
            .apply_part(version, &[], Absent::Refuse, beside)?;
        self.harden()?;
        self.state().set_splits(id, splits);
        Ok(())
    }

    /// Entries that a directory has here, by partition.
    fn count_entries(&self, cut: Cut, directory: VertexId, splits: &Splits) -> Result<Counts> {
        let mut counts = Counts::default();
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

    /// How many vertices and directories have split that have edges or entries here.
    pub fn splits_here(&self) -> usize {
        self.state().splits.len()
    }

    /// How a directory's entries have split, as the whole cluster knows it.
    pub(crate) async fn splits_of_entries(self: &Arc<Self>, directory: VertexId) -> Result<Splits> {
        let splits = self.splits(entries_of(directory)).await?;
        Ok(splits.map(|s| s.splits().clone()).unwrap_or_default())
    }
}
