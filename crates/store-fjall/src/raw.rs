//! Bare fjall with the same settings, against which `esker bench` measures the rest of Esker.
//!
//! It uses one table, that of rows; batches, single writes, gets, ranges and loads call fjall directly.

use crate::engine::{Engine, MemtableUsages};
use esker_model::{Flow, Result};
use esker_store::{Durability, StoreSettings, Table};
use fjall::{OwnedWriteBatch, PersistMode, Readable};
use std::ops::Bound;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// A bare fjall database with one table.
pub struct Raw {
    engine: Engine,
    usages: Mutex<MemtableUsages>,
}

impl std::fmt::Debug for Raw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Raw")
            .field("path", &self.engine.path)
            .finish_non_exhaustive()
    }
}

impl Raw {
    /// Opens or creates the database in a directory.
    pub fn open(path: &Path, settings: &StoreSettings) -> Result<Self> {
        let engine = Engine::open(path, settings, true)?;
        let usages = Mutex::new(engine.usages());
        Ok(Self { engine, usages })
    }

    /// Writes rows (keys and values) as one batch.
    pub fn write<'a>(
        &self,
        rows: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
        durability: Durability,
    ) -> Result<()> {
        let keyspace = self.engine.table(Table::Rows);
        let mode = match durability {
            Durability::Relaxed => PersistMode::Buffer,
            Durability::Sync => PersistMode::SyncData,
        };
        let mut batch =
            OwnedWriteBatch::with_capacity(self.engine.database.clone(), 0).durability(Some(mode));
        let (mut count, mut bytes) = (0, 0);
        for (key, value) in rows {
            count += 1;
            bytes += key.len() + value.len();
            batch.insert(keyspace, key, value);
        }
        batch
            .commit()
            .map_err(|e| self.engine.error("writing to", e))?;
        self.count_written(count, bytes)
    }

    /// Writes one row; it is in the log buffer when the call returns.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.engine
            .table(Table::Rows)
            .insert(key, value)
            .map_err(|e| self.engine.error("writing to", e))?;
        self.count_written(1, key.len() + value.len())
    }

    /// Keeps the memtables within the same budget as the store's.
    fn count_written(&self, count: usize, bytes: usize) -> Result<()> {
        let mut usages = self.usages.lock().unwrap_or_else(PoisonError::into_inner);
        usages.note(Table::Rows, count, bytes);
        self.engine.seal_full(&mut usages)?;
        self.engine.wait_for_memtable_space(&mut usages)
    }

    /// Returns the length of the value of a key.
    pub fn get(&self, key: &[u8]) -> Result<Option<usize>> {
        let value = self
            .engine
            .table(Table::Rows)
            .get(key)
            .map_err(|e| self.engine.error("reading", e))?;
        Ok(value.map(|v| v.len()))
    }

    /// Calls `sink` with the rows from a key on until it breaks.
    pub fn scan(&self, from: &[u8], mut sink: impl FnMut(&[u8], &[u8]) -> Flow) -> Result<()> {
        let rows = self.engine.database.snapshot().range::<&[u8], _>(
            self.engine.table(Table::Rows),
            (Bound::Included(from), Bound::Unbounded),
        );
        for row in rows {
            let (key, value) = row
                .into_inner()
                .map_err(|e| self.engine.error("reading", e))?;
            if sink(&key, &value).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Loads rows in ascending key order as sorted tables, bypassing the log. fjall panics on a key out of order.
    pub fn load<'a>(&self, rows: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Result<()> {
        let error = |e| self.engine.error("loading into", e);
        let mut load = self
            .engine
            .table(Table::Rows)
            .start_ingestion()
            .map_err(error)?;
        for (key, value) in rows {
            load.write(key, value).map_err(error)?;
        }
        load.finish().map_err(error)?;
        self.engine.compaction.wake();
        Ok(())
    }

    /// Waits until everything is flushed and merged.
    pub fn compact(&self) -> Result<()> {
        self.engine.compact()
    }

    /// Syncs the log to the disk.
    pub fn persist(&self) -> Result<()> {
        self.engine
            .database
            .persist(PersistMode::SyncAll)
            .map_err(|e| self.engine.error("syncing", e))
    }

    /// Returns the bytes on disk, log included.
    pub fn disk_bytes(&self) -> Result<u64> {
        self.engine
            .database
            .disk_space()
            .map_err(|e| self.engine.error("measuring", e))
    }
}
