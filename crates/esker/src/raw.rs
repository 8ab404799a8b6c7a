//! The bare store engine, for those who measure what Esker costs on top of it (`esker bench`). Nothing that it writes is
//! a database.

use crate::StoreEngine;
#[cfg(not(feature = "rocksdb"))]
use esker_model::Error;
use esker_model::{Flow, Result};
use esker_store::Durability;
pub use esker_store::StoreSettings;
use esker_store_fjall::raw::Raw as Fjall;
#[cfg(feature = "rocksdb")]
use esker_store_rocksdb::raw::Raw as RocksDb;
use std::path::Path;

/// How much of a database's memory is its store's, in bytes. The adjacency cache has most of the rest.
pub const fn store_memory(memory_bytes: u64) -> u64 {
    memory_bytes / 2
}

/// A store engine with the settings that a database gives it, and no seam; one table.
#[derive(Debug)]
pub enum Raw {
    /// fjall.
    Fjall(Fjall),
    /// `RocksDB`.
    #[cfg(feature = "rocksdb")]
    RocksDb(RocksDb),
}

/// Calls the same method of whichever it is.
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
    /// Opens or creates it in a directory.
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

    /// Writes one row, in the log buffer when it returns.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        either!(self, raw => raw.put(key, value))
    }

    /// The length of the value of a key.
    pub fn get(&self, key: &[u8]) -> Result<Option<usize>> {
        either!(self, raw => raw.get(key))
    }

    /// Calls `sink` with the rows from a key on until it breaks.
    pub fn scan(&self, from: &[u8], sink: impl FnMut(&[u8], &[u8]) -> Flow) -> Result<()> {
        either!(self, raw => raw.scan(from, sink))
    }

    /// Loads rows that come in ascending key order, as sorted tables past the log.
    pub fn load<'a>(&self, rows: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Result<()> {
        either!(self, raw => raw.load(rows))
    }

    /// Waits until everything is flushed and merged.
    pub fn compact(&self) -> Result<()> {
        either!(self, raw => raw.compact())
    }

    /// Waits for the disk.
    pub fn persist(&self) -> Result<()> {
        either!(self, raw => raw.persist())
    }

    /// The bytes on disk, log included.
    pub fn disk_bytes(&self) -> Result<u64> {
        either!(self, raw => raw.disk_bytes())
    }
}
