//! Bare RocksDB with the same settings, against which `esker bench` measures the rest of Esker.

use crate::store::{RocksStore, sync};
use esker_model::{Flow, Result};
use esker_store::{Durability, Store, StoreSettings, Table};
use std::path::Path;

/// A bare RocksDB database of which one table is used, that of rows.
#[derive(Debug)]
pub struct Raw(RocksStore);

impl Raw {
    /// Opens or creates the database in a directory.
    pub fn open(path: &Path, settings: &StoreSettings) -> Result<Self> {
        RocksStore::open(path, settings, true).map(Self)
    }

    /// Writes rows (keys and values) as one batch.
    pub fn write<'a>(
        &self,
        rows: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
        durability: Durability,
    ) -> Result<()> {
        let family = self.0.family(Table::Rows)?;
        let mut batch = rocksdb::WriteBatch::default();
        for (key, value) in rows {
            batch.put_cf(family, key, value);
        }
        self.0
            .database
            .write_opt(batch, &sync(durability))
            .map_err(|e| self.0.error("writing to", e))
    }

    /// Writes one row; it is in the log buffer when the call returns.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0
            .database
            .put_cf(self.0.family(Table::Rows)?, key, value)
            .map_err(|e| self.0.error("writing to", e))
    }

    /// Returns the length of the value of a key.
    pub fn get(&self, key: &[u8]) -> Result<Option<usize>> {
        let value = self
            .0
            .database
            .get_pinned_cf(self.0.family(Table::Rows)?, key)
            .map_err(|e| self.0.error("reading", e))?;
        Ok(value.map(|v| v.len()))
    }

    /// Calls `sink` with the rows from a key on until it breaks.
    pub fn scan(&self, from: &[u8], mut sink: impl FnMut(&[u8], &[u8]) -> Flow) -> Result<()> {
        let mut rows = self.0.database.raw_iterator_cf(self.0.family(Table::Rows)?);
        rows.seek(from);
        while let Some((key, value)) = rows.item() {
            if sink(key, value).is_break() {
                return Ok(());
            }
            rows.next();
        }
        rows.status().map_err(|e| self.0.error("reading", e))
    }

    /// Loads rows in ascending key order as sorted tables, bypassing the log.
    pub fn load<'a>(&self, rows: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Result<()> {
        // The store interface adds only a comparison of keys here, which RocksDB repeats.
        let mut load = self.0.bulk_load(Table::Rows)?;
        for (key, value) in rows {
            load.push(key, value)?;
        }
        load.finish()
    }

    /// Waits until everything is flushed and merged.
    pub fn compact(&self) -> Result<()> {
        self.0.compact()
    }

    /// Syncs the log to the disk.
    pub fn persist(&self) -> Result<()> {
        self.0.persist()
    }

    /// Returns the bytes on disk, log included.
    pub fn disk_bytes(&self) -> Result<u64> {
        let stats = self.0.stats()?;
        let tables: u64 = stats.table_bytes.iter().map(|(_, bytes)| bytes).sum();
        Ok(tables + stats.log_bytes)
    }
}
