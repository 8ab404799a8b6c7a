//! Bulk load of the rows of new directories.
//!
//! ```text
//!  marker, synced ─► sorted table ─► commit: the entry of the subtree, sums, marker removed
//! ```
//!
//! A crash between the first and the last step leaves unreachable rows: the marker lists their directories, and the next opening
//! of the database removes them.

use crate::Engine;
use crate::catalog::SUBTREE_KEY;
use crate::commit::{CommitParticipant, PendingCommit};
use crate::txn::Overlay;
use esker_model::codec::Reader;
use esker_model::namespace::record::{children_prefix, dentries_prefix, dentry_key, location_key};
use esker_model::{Error, Flow, Result, Version, VertexId};
use esker_store::{Durability, KeyRange, Table, WriteBatch};

/// Rows removed per commit.
const PORTION: usize = 1 << 13;

/// An entry's row, without its directory; ordered as its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::names) struct EntryRow {
    pub(super) hash: u64,
    pub(super) n: u8,
    /// Whether the row goes into the commit, because a later change of the subtree modifies it.
    pub(super) in_commit: bool,
    pub(super) at: usize,
    pub(super) len: u32,
}

/// The rows of the entries of one directory, in key order.
#[derive(Debug)]
pub(in crate::names) struct DirectoryEntries {
    pub(super) directory: VertexId,
    pub(super) rows: Vec<EntryRow>,
}

/// Rows of a subtree.
#[derive(Debug, Default)]
pub(in crate::names) struct SubtreeRows {
    pub(super) entries: Vec<DirectoryEntries>,
    /// Rows other than entries.
    pub(super) others: Vec<(Vec<u8>, usize, u32)>,
    pub(super) values: Vec<u8>,
}

impl SubtreeRows {
    pub(in crate::names) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.others.is_empty()
    }

    /// Appends a value; returns its position and length.
    pub(super) fn value(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> (usize, u32) {
        let at = self.values.len();
        encode(&mut self.values);
        (at, (self.values.len() - at) as u32)
    }

    fn get(&self, at: usize, len: u32) -> &[u8] {
        self.values.get(at..at + len as usize).unwrap_or_default()
    }

    /// Moves rows into the commit: those that a later change modifies, and all if there are fewer than `least`.
    pub(super) fn move_to_commit(&mut self, overlay: &mut Overlay<'_>, least: usize) {
        let count: usize = self.entries.iter().map(|e| e.rows.len()).sum();
        let few = count + self.others.len() < least;
        for of in &self.entries {
            for row in of.rows.iter().filter(|row| few || row.in_commit) {
                let key = dentry_key(of.directory, row.hash, row.n);
                overlay.put(Table::Names, key, self.get(row.at, row.len));
            }
        }
        if few {
            for (key, at, len) in &self.others {
                overlay.put(Table::Names, key, self.get(*at, *len));
            }
            *self = Self::default();
        }
    }

    /// Calls `push` with all rows in key order.
    fn in_order(&mut self, push: &mut dyn FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        self.entries.sort_unstable_by_key(|e| e.directory);
        self.others.sort_unstable();
        for of in &self.entries {
            for row in of.rows.iter().filter(|row| !row.in_commit) {
                let key = dentry_key(of.directory, row.hash, row.n);
                push(&key, self.get(row.at, row.len))?;
            }
        }
        // The keys of other rows begin with a larger byte.
        for (key, at, len) in &self.others {
            push(key, self.get(*at, *len))?;
        }
        Ok(())
    }
}

/// The bulk load of a subtree: its rows are unreachable until the commit; on any failure, all of them are removed.
pub(in crate::names) struct SubtreeLoad<'e> {
    engine: &'e Engine,
    rows: SubtreeRows,
}

impl<'e> SubtreeLoad<'e> {
    pub(in crate::names) fn new(engine: &'e Engine, rows: SubtreeRows) -> Self {
        Self { engine, rows }
    }

    fn load(&mut self, version: Version) -> Result<()> {
        let store = &self.engine.store;
        // Rows in the memtable would hide those of the table.
        self.engine.merge_counters_before(version)?;
        let mut marker = Vec::with_capacity(16 * self.rows.entries.len());
        for of in &self.rows.entries {
            marker.extend_from_slice(&of.directory.0);
        }
        let mut batch = WriteBatch::default();
        batch.put(Table::Meta, SUBTREE_KEY, marker);
        store.commit(batch, Durability::Sync)?;
        let mut load = store.bulk_load(Table::Names)?;
        self.rows
            .in_order(&mut |key, value| load.push(key, value))?;
        load.finish()
    }

    fn undo(&self) {
        // If this fails, the rows are removed when the database is opened.
        let _ = self.engine.recover_subtree();
    }
}

impl CommitParticipant for SubtreeLoad<'_> {
    fn prepare(&mut self, commit: &mut PendingCommit) -> Result<()> {
        // Rows of an earlier subtree that failed and could not be removed.
        self.engine.recover_subtree()?;
        commit.batch.remove(Table::Meta, SUBTREE_KEY);
        let loaded = self.load(commit.version);
        if loaded.is_err() {
            self.undo();
        }
        loaded
    }

    fn committed(&mut self, _commit: &PendingCommit) {}

    fn aborted(&mut self, _commit: &PendingCommit) {
        self.undo();
    }
}

impl Engine {
    /// Removes the unreachable rows of a subtree whose commit failed, if there are any.
    pub(crate) fn recover_subtree(&self) -> Result<()> {
        let Some(marker) = self.store.get(Table::Meta, SUBTREE_KEY)? else {
            return Ok(());
        };
        let mut r = Reader::new(&marker);
        while r.remaining() > 0 {
            let id = r.array("a directory's id");
            let id = VertexId(id.map_err(|e| Error::corrupt("row `subtree` of table `meta`", e))?);
            for range in [&dentries_prefix(id), &children_prefix(id)] {
                self.remove_all(&KeyRange::prefix(range))?;
            }
            let mut batch = WriteBatch::default();
            batch.remove(Table::Names, location_key(id));
            self.store.commit(batch, Durability::Relaxed)?;
        }
        let mut done = WriteBatch::default();
        done.remove(Table::Meta, SUBTREE_KEY);
        self.store.commit(done, Durability::Sync)
    }

    /// Removes all rows of a key range, which must be unreachable.
    pub(in crate::names) fn remove_all(&self, range: &KeyRange) -> Result<()> {
        loop {
            let mut batch = WriteBatch::default();
            self.store.scan(Table::Names, range, &mut |key, _| {
                batch.remove(Table::Names, key);
                if batch.len() < PORTION {
                    Flow::Continue(())
                } else {
                    Flow::Break(())
                }
            })?;
            let last = batch.len() < PORTION;
            if !batch.is_empty() {
                self.store.commit(batch, Durability::Relaxed)?;
            }
            if last {
                return Ok(());
            }
        }
    }
}
