//! Ingestion of many rows from another engine: a sorted table that bypasses the log, atomic with the commit that gives this engine
//! the ownership of the rows.
//!
//! ```text
//!  the memtable is written out ─► meta `arriving`: ranges of keys, synced ─► one sorted table ─► the commit, without `arriving`
//! ```
//!
//! Until the commit the rows are unreachable: the host reports every key in these ranges as remote. A crash in between leaves
//! `arriving`, and the next opening removes all rows in the ranges.

use crate::Engine;
use crate::catalog::INGEST_KEY;
use crate::commit::{CommitParticipant, PendingCommit};
use esker_model::codec::{Reader, put_bytes};
use esker_model::{Error, Result, Version};
use esker_store::{Durability, KeyRange, Table, WriteBatch};

/// Rows of table `names` received from another engine.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct IngestedRows {
    /// Key ranges of the rows, in key order; this engine has no other rows in them.
    pub ranges: Vec<(Vec<u8>, Vec<u8>)>,
    /// Keys and values, in key order.
    pub rows: Vec<(Vec<u8>, Vec<u8>)>,
}

impl IngestedRows {
    pub(crate) fn check(&self) -> Result<()> {
        let mut ranges = self.ranges.iter().peekable();
        for (key, _) in &self.rows {
            while ranges.next_if(|(_, until)| until <= key).is_some() {}
            if ranges.peek().is_none_or(|(from, _)| from > key) {
                return Err(Error::Invalid(format!(
                    "row {key:02x?} arrived outside of the announced ranges, or out of order"
                )));
            }
        }
        Ok(())
    }
}

/// The bulk load of ingested rows; on any failure, all of them are removed.
pub(crate) struct IngestLoad<'e> {
    engine: &'e Engine,
    rows: IngestedRows,
}

impl<'e> IngestLoad<'e> {
    pub(crate) fn new(engine: &'e Engine, rows: IngestedRows) -> Self {
        Self { engine, rows }
    }

    fn load(&self, version: Version) -> Result<()> {
        let store = &self.engine.store;
        // Rows in the memtable, including removals, would hide those of the table.
        self.engine.merge_counters_before(version)?;
        let mut marker = Vec::new();
        for (from, until) in &self.rows.ranges {
            put_bytes(&mut marker, from);
            put_bytes(&mut marker, until);
        }
        let mut batch = WriteBatch::default();
        batch.put(Table::Meta, INGEST_KEY, marker);
        store.commit(batch, Durability::Sync)?;
        let mut load = store.bulk_load(Table::Names)?;
        for (key, value) in &self.rows.rows {
            load.push(key, value)?;
        }
        load.finish()
    }

    fn undo(&self) {
        // If this fails, the rows are removed when the database is opened.
        let _ = self.engine.recover_ingest();
    }
}

impl CommitParticipant for IngestLoad<'_> {
    fn prepare(&mut self, commit: &mut PendingCommit) -> Result<()> {
        // Rows of an earlier ingestion that failed and could not be removed.
        self.engine.recover_ingest()?;
        commit.batch.remove(Table::Meta, INGEST_KEY);
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
    /// Removes ingested rows that no commit made this engine's own, if there are any.
    pub(crate) fn recover_ingest(&self) -> Result<()> {
        let Some(marker) = self.store.get(Table::Meta, INGEST_KEY)? else {
            return Ok(());
        };
        let corrupt = |e| Error::corrupt("row `arriving` of table `meta`", e);
        let mut r = Reader::new(&marker);
        while r.remaining() > 0 {
            let range = KeyRange {
                from: r.bytes("a key").map_err(corrupt)?.to_vec(),
                until: Some(r.bytes("a key").map_err(corrupt)?.to_vec()),
            };
            self.remove_all(&range)?;
        }
        let mut done = WriteBatch::default();
        done.remove(Table::Meta, INGEST_KEY);
        self.store.commit(done, Durability::Sync)
    }
}
