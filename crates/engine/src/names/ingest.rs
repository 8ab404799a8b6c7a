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
use crate::txn::{Effects, Overlay, Writer};
use esker_model::codec::{Reader, put_bytes};
use esker_model::{Error, Result};
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
    fn check(&self) -> Result<()> {
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

impl Engine {
    /// Commits a batch after bulk-loading ingested rows; on any failure, all of these rows are removed.
    pub(crate) fn commit_ingest(
        &self,
        writer: &mut Writer,
        mut overlay: Overlay<'_>,
        total: &mut Effects,
        ingested: &IngestedRows,
    ) -> Result<()> {
        ingested.check()?;
        // Rows of an earlier ingestion that failed and could not be removed.
        self.recover_ingest()?;
        overlay.remove(Table::Meta, INGEST_KEY);
        let committed = self
            .load_ingested(writer, ingested)
            .and_then(|()| self.commit_group(writer, overlay, total));
        if committed.is_err() {
            // If this fails, the rows are removed when the database is opened.
            let _ = self.recover_ingest();
        }
        committed
    }

    fn load_ingested(&self, writer: &Writer, ingested: &IngestedRows) -> Result<()> {
        // Rows in the memtable, including removals, would hide those of the table.
        self.merge_counters_before(writer.clock.last())?;
        let mut marker = Vec::new();
        for (from, until) in &ingested.ranges {
            put_bytes(&mut marker, from);
            put_bytes(&mut marker, until);
        }
        let mut batch = WriteBatch::default();
        batch.put(Table::Meta, INGEST_KEY, marker);
        self.store.commit(batch, Durability::Sync)?;
        let mut load = self.store.bulk_load(Table::Names)?;
        for (key, value) in &ingested.rows {
            load.push(key, value)?;
        }
        load.finish()
    }

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
