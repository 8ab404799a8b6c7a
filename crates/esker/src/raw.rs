//! The bare store engine, for measuring Esker's overhead (`esker bench`). The files that it writes are not a database.

use crate::store_engine::StoreEngine;
#[cfg(not(feature = "rocksdb"))]
use esker_model::Error;
use esker_model::{Flow, Result};
use esker_store::Durability;
pub use esker_store::StoreSettings;
use esker_store_fjall::raw::Raw as Fjall;
#[cfg(feature = "rocksdb")]
use esker_store_rocksdb::raw::Raw as RocksDb;
use std::path::Path;

/// Part of a database's memory for its store, in bytes. The adjacency cache gets most of the rest.
pub const fn store_memory(memory_bytes: u64) -> u64 {
    memory_bytes / 2
}

/// A store engine with one table and the settings that a database uses, without the `Store` trait.
#[derive(Debug)]
pub enum Raw {
    /// The fjall engine.
    Fjall(Fjall),
    /// The `RocksDB` engine.
    #[cfg(feature = "rocksdb")]
    RocksDb(RocksDb),
}

/// Calls the method of the engine in use.
macro_rules! either {
    ($raw:expr, $inner:ident => $call:expr) => {
        match $raw {
            Raw::Fjall($inner) => $call,
            #[cfg(feature = "rocksdb")]
            Raw::RocksDb($inner) => $call,
        }
    };
}

impl Raw {
    /// Opens or creates a raw store in a directory.
    pub fn open(engine: StoreEngine, path: &Path, settings: &StoreSettings) -> Result<Self> {
        match engine {
            StoreEngine::Fjall => Fjall::open(path, settings).map(Self::Fjall),
            #[cfg(feature = "rocksdb")]
            StoreEngine::RocksDb => RocksDb::open(path, settings).map(Self::RocksDb),
            #[cfg(not(feature = "rocksdb"))]
            StoreEngine::RocksDb => Err(Error::Target(
                "this build lacks the store engine rocksdb: build Esker with --features rocksdb, or use fjall".into(),
            )),
        }
    }

    /// Writes rows, keys and values, as one batch.
    pub fn write<'a>(
        &self,
        rows: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
        durability: Durability,
    ) -> Result<()> {
        either!(self, raw => raw.write(rows, durability))
    }

    /// Writes one row; on return it is in the log buffer.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        either!(self, raw => raw.put(key, value))
    }

    /// Length of the value of a key in bytes, if the key exists.
    pub fn get(&self, key: &[u8]) -> Result<Option<usize>> {
        either!(self, raw => raw.get(key))
    }

    /// Calls `sink` with the rows from a key on until it breaks.
    pub fn scan(&self, from: &[u8], sink: impl FnMut(&[u8], &[u8]) -> Flow) -> Result<()> {
        either!(self, raw => raw.scan(from, sink))
    }

    /// Loads rows in ascending key order as sorted tables, without the log.
    pub fn load<'a>(&self, rows: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Result<()> {
        either!(self, raw => raw.load(rows))
    }

    /// Waits until everything is flushed and merged.
    pub fn compact(&self) -> Result<()> {
        either!(self, raw => raw.compact())
    }

    /// Syncs the log to disk.
    pub fn persist(&self) -> Result<()> {
        either!(self, raw => raw.persist())
    }

    /// Bytes on disk, including the log.
    pub fn disk_bytes(&self) -> Result<u64> {
        either!(self, raw => raw.disk_bytes())
    }
}
