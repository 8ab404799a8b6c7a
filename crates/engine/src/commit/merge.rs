//! Merging: what pending rows have, changes of counters and rows of files, goes into its own rows and tables.

use crate::Engine;
use crate::catalog::{NEWEST_KEY, version_value};
use crate::counts::PendingCounters;
use crate::txn::{Writer, lock};
use esker_model::{Result, Version};
use esker_store::{Durability, Table};

impl Engine {
    /// Merges everything pending, all of version `newest` or before. Must be called by the holder of the write lock.
    pub(crate) fn merge_counters(&self, newest: Version) -> Result<()> {
        self.merge_counters_and(newest, false)
    }

    /// Merges everything pending during a commit that already has its version.
    pub(crate) fn merge_counters_before(&self, version: Version) -> Result<()> {
        self.merge_counters_and(Version(version.0.saturating_sub(1)), false)
    }

    /// Merges everything pending and removes the pending rows, so that the next opening has none to read.
    pub(crate) fn tidy_counters(&self, writer: &Writer) -> Result<()> {
        self.merge_counters_and(writer.clock.last(), true)
    }

    fn merge_counters_and(&self, newest: Version, tidy: bool) -> Result<()> {
        let due = |pending: &PendingCounters| pending.rows() > 0 || tidy && pending.has_leftovers();
        if !due(&lock(&self.counters)) {
            return Ok(());
        }
        self.memtable.write_out()?;
        // Readers of counters wait for this lock, so that they see each change once: in its row or pending.
        let mut pending = lock(&self.counters);
        let mut batch = pending.merge(&*self.store, newest, tidy)?;
        batch.put(Table::Meta, NEWEST_KEY, version_value(newest));
        // This commit acknowledges nothing new, so it needs no sync.
        self.store.commit(batch, Durability::Relaxed)?;
        pending.clear(tidy);
        Ok(())
    }
}
