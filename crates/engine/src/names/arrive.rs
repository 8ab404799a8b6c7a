//! Rows that come from another engine in large numbers: a sorted table of their own, past the log, as one with the commit that makes them
//! this engine's.
//!
//! ```text
//!  what is staged is written out ─► meta `arriving`: ranges of keys, synced ─► one sorted table ─► the commit, without `arriving`
//! ```
//!
//! Until the commit nothing leads to them: the host says of each key in these ranges that it lies elsewhere. Who dies in between leaves
//! `arriving`, and whoever opens the database takes out all that lies in the ranges.

use crate::Engine;
use crate::catalog::ARRIVING_KEY;
use crate::txn::{Effects, Overlay, Writer};
use esker_model::codec::{Reader, put_bytes};
use esker_model::{Error, Result};
use esker_store::{Durability, KeyRange, Table, WriteBatch};

/// Rows of table `names` that come from another engine.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Arriving {
    /// Where they lie, and nothing else of this engine does; in the order of keys.
    pub ranges: Vec<(Vec<u8>, Vec<u8>)>,
    /// In the order of keys.
    pub rows: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Arriving {
    fn check(&self) -> Result<()> {
        let mut ranges = self.ranges.iter().peekable();
        for (key, _) in &self.rows {
            while ranges.next_if(|(_, until)| until <= key).is_some() {}
            if ranges.peek().is_none_or(|(from, _)| from > key) {
                return Err(Error::Invalid(format!(
                    "row {key:02x?} arrives outside of the ranges that were named for it, or out of order"
                )));
            }
        }
        Ok(())
    }
}

impl Engine {
    /// Commits with rows that become a table first; whatever fails, nothing of them stays.
    pub(crate) fn commit_arriving(
        &self,
        writer: &mut Writer,
        mut overlay: Overlay<'_>,
        total: &mut Effects,
        arriving: &Arriving,
    ) -> Result<()> {
        arriving.check()?;
        // What failed before, and could not be taken out.
        self.recover_arriving()?;
        overlay.remove(Table::Meta, ARRIVING_KEY);
        let committed = self
            .load_arriving(writer, arriving)
            .and_then(|()| self.commit_group(writer, overlay, total));
        if committed.is_err() {
            // Else it is done when the database is opened.
            let _ = self.recover_arriving();
        }
        committed
    }

    fn load_arriving(&self, writer: &Writer, arriving: &Arriving) -> Result<()> {
        // Rows in memory would stand before those of the table, removals too.
        self.merge_counters_before(writer.clock.last())?;
        let mut marker = Vec::new();
        for (from, until) in &arriving.ranges {
            put_bytes(&mut marker, from);
            put_bytes(&mut marker, until);
        }
        let mut batch = WriteBatch::default();
        batch.put(Table::Meta, ARRIVING_KEY, marker);
        self.store.commit(batch, Durability::Sync)?;
        let mut load = self.store.bulk_load(Table::Names)?;
        for (key, value) in &arriving.rows {
            load.push(key, value)?;
        }
        load.finish()
    }

    /// Takes out rows that arrived and that no commit has made this engine's, if there are such.
    pub(crate) fn recover_arriving(&self) -> Result<()> {
        let Some(marker) = self.store.get(Table::Meta, ARRIVING_KEY)? else {
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
        done.remove(Table::Meta, ARRIVING_KEY);
        self.store.commit(done, Durability::Sync)
    }
}
