//! The interface of ordered key-value stores: get, scan, atomic batch, snapshot, bulk load, checkpoint.
//!
//! The engine uses a store only through [`Store`]. All implementations (memory, fjall, RocksDB) pass one conformance
//! suite, [`conformance`]. This crate does not interpret keys.

use esker_model::codec::{DecodeError, Reader};
use esker_model::wire::Wire;
use esker_model::{Error, Flow, Result};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

mod batch;
pub mod conformance;
pub mod fault;
pub mod memory;
pub mod segment;

pub use batch::{ValueRange, Write, WriteBatch};

/// A table of a database: one ordered key space. A batch is atomic over all tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Table {
    /// Current state of vertices and edges.
    Rows = 0,
    /// Superseded versions of vertices and edges.
    History = 1,
    /// Index of vertices by type, and other keys without values.
    Index = 2,
    /// Exact counters of edges, vertices and files.
    Counts = 3,
    /// Format, schema, idempotency keys.
    Meta = 4,
    /// Objects in columns, and the log of their changes.
    Objects = 5,
    /// The namespace: directory entries with the attributes of their files.
    Names = 6,
}

impl Table {
    /// All tables, in the order of their codes.
    pub const ALL: [Self; 7] = [
        Self::Rows,
        Self::History,
        Self::Index,
        Self::Counts,
        Self::Meta,
        Self::Objects,
        Self::Names,
    ];

    /// Returns the name of the table on disk.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rows => "rows",
            Self::History => "history",
            Self::Index => "index",
            Self::Counts => "counts",
            Self::Meta => "meta",
            Self::Objects => "objects",
            Self::Names => "names",
        }
    }
}

/// Length of the longest key in bytes, given by the narrowest store (fjall).
pub const MAX_KEY_BYTES: usize = 65_535;
/// Length of the longest value in bytes: both stores have 32-bit lengths, and no row comes near.
pub const MAX_VALUE_BYTES: usize = 1 << 30;

/// Checks that all stores accept a key: 1 to [`MAX_KEY_BYTES`] bytes.
pub fn check_key(key: &[u8]) -> Result<()> {
    if key.is_empty() {
        return Err(Error::Invalid("a key of the store is empty".to_owned()));
    }
    check_length("a key of the store, in bytes,", key, MAX_KEY_BYTES)
}

/// Checks that all stores accept a value: at most [`MAX_VALUE_BYTES`] bytes.
pub fn check_value(value: &[u8]) -> Result<()> {
    check_length("a value of the store, in bytes,", value, MAX_VALUE_BYTES)
}

fn check_length(what: &str, bytes: &[u8], limit: usize) -> Result<()> {
    if bytes.len() > limit {
        return Err(Error::Limit {
            what: what.to_owned(),
            got: bytes.len() as u64,
            limit: limit as u64,
        });
    }
    Ok(())
}

/// Checks that a bulk load's next key is greater than its last one.
pub fn check_order(last: Option<&[u8]>, next: &[u8]) -> Result<()> {
    if last.is_some_and(|last| last >= next) {
        return Err(Error::Invalid(format!(
            "bulk load: key {} does not follow the one before it; sort the rows by key and drop duplicates",
            hex(next)
        )));
    }
    Ok(())
}

/// Formats the first bytes of a key for messages.
fn hex(key: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for byte in key.iter().take(32) {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    if key.len() > 32 {
        text.push_str("...");
    }
    text
}

/// Creates the directory of a checkpoint; refuses one that is not empty.
pub fn prepare_checkpoint(directory: &Path) -> Result<()> {
    let context = || format!("making the checkpoint directory {}", directory.display());
    // The copy contains all data of the store, so only its owner may access it, whatever the umask is.
    let mut private = std::fs::DirBuilder::new();
    private.recursive(true).mode(0o700);
    private
        .create(directory)
        .map_err(|e| Error::io(context(), e))?;
    let mut entries = std::fs::read_dir(directory).map_err(|e| Error::io(context(), e))?;
    if entries.next().is_some() {
        return Err(Error::Target(format!(
            "{} is not empty; a checkpoint needs an empty or absent directory",
            directory.display()
        )));
    }
    Ok(())
}

/// Durability that an acknowledged commit has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// On disk: survives a power failure. One fsync per commit or group of commits, so batching matters.
    Sync,
    /// In the operating system's buffers: survives the death of the process. A power failure may lose the commits since
    /// the last sync (the host calls [`Store::persist`] at an interval).
    Relaxed,
}

/// A range of keys from `from` (inclusive) to `until` (exclusive; `None` is the end).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// First key in the range.
    pub from: Vec<u8>,
    /// First key after the range.
    pub until: Option<Vec<u8>>,
}

impl KeyRange {
    /// The range of all keys.
    pub const ALL: Self = Self {
        from: Vec::new(),
        until: None,
    };

    /// Creates the range of all keys that begin with `prefix`.
    pub fn prefix(prefix: &[u8]) -> Self {
        Self {
            from: prefix.to_vec(),
            until: prefix_end(prefix),
        }
    }

    /// Creates the range of all keys that begin with `prefix` and are greater than `after`.
    pub fn prefix_after(prefix: &[u8], after: &[u8]) -> Self {
        let mut from = after.to_vec();
        from.push(0);
        Self {
            from: from.max(prefix.to_vec()),
            until: prefix_end(prefix),
        }
    }

    /// Whether no key can be in the range.
    pub fn is_empty(&self) -> bool {
        self.until.as_ref().is_some_and(|until| *until <= self.from)
    }

    /// Creates the range of keys `[from, until)`.
    pub fn between(from: &[u8], until: &[u8]) -> Self {
        Self {
            from: from.to_vec(),
            until: Some(until.to_vec()),
        }
    }
}

/// Returns the first key after all that begin with `prefix`; `None` if all greater keys begin with it.
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.last_mut() {
        if *last < u8::MAX {
            *last += 1;
            return Some(end);
        }
        end.pop();
    }
    None
}

/// A cursor that reads rows one by one, for merges of several ranges. It starts before the first row.
pub trait Cursor {
    /// Moves to the next row; returns false at the end.
    fn advance(&mut self) -> Result<bool>;
    /// Returns the key of the current row. Call only after an `advance` that returned true.
    fn key(&self) -> &[u8];
    /// Returns the value of the current row. Call only after an `advance` that returned true.
    fn value(&self) -> &[u8];
}

/// Read operations. On a [`Snapshot`] all of them see the same state; on a [`Store`] each sees the newest.
pub trait Read {
    /// Calls `sink` with the value of a key; returns whether the key exists. The value is borrowed, not copied.
    fn get_with(&self, table: Table, key: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Returns a copy of the value of a key.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = None;
        self.get_with(table, key, &mut |v| value = Some(v.to_vec()))?;
        Ok(value)
    }

    /// Calls `sink` with each row of a range in key order until it breaks. This is the fastest way to read a range.
    fn scan(
        &self,
        table: Table,
        range: &KeyRange,
        sink: &mut dyn FnMut(&[u8], &[u8]) -> Flow,
    ) -> Result<()>;

    /// Opens a cursor over a range.
    fn cursor(&self, table: Table, range: &KeyRange) -> Result<Box<dyn Cursor + '_>>;
}

/// A snapshot: the state of all tables at one commit.
pub trait Snapshot: Read + Send + Sync {}

/// A bulk load: rows given in ascending key order and written as sorted tables, bypassing the log. They become visible
/// at [`BulkLoad::finish`]; dropping the load without it leaves nothing behind. Keys that exist are replaced. No other
/// writer may touch the same table meanwhile (the engine's write lock ensures it).
pub trait BulkLoad {
    /// Adds the next row; its key must be greater than the last one's.
    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()>;
    /// Makes all rows visible and durable.
    fn finish(self: Box<Self>) -> Result<()>;
}

/// Statistics of a store. Sizes are in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Name of the key-value store.
    pub engine: &'static str,
    /// Size on disk, by table.
    pub table_bytes: Vec<(Table, u64)>,
    /// Size of the write-ahead log.
    pub log_bytes: u64,
    /// Block cache in use.
    pub cache_bytes: u64,
    /// Maximum size of the block cache.
    pub cache_bytes_max: u64,
    /// Whether a write has failed; the store then refuses writes until it is opened again.
    pub failed: bool,
}

esker_model::wire_struct!(StoreStats {
    engine,
    table_bytes,
    log_bytes,
    cache_bytes,
    cache_bytes_max,
    failed
});

impl Wire for Table {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let code = r.u8("a table")?;
        Self::ALL
            .into_iter()
            .find(|t| *t as u8 == code)
            .ok_or_else(|| r.error("the number of a table"))
    }
}

/// An ordered key-value store of several tables.
pub trait Store: Read + Send + Sync {
    /// Takes a snapshot. Cheap; superseded rows that it sees are kept until it is dropped.
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>>;

    /// Applies a batch atomically. Returns once it is as durable as requested.
    fn commit(&self, batch: WriteBatch, durability: Durability) -> Result<()>;

    /// Makes all commits so far survive a power failure.
    fn persist(&self) -> Result<()>;

    /// Starts a bulk load into one table.
    fn bulk_load(&self, table: Table) -> Result<Box<dyn BulkLoad + '_>>;

    /// Returns the error of each further commit if the store takes no more writes until it is opened again, because one has failed (most often
    /// on a full disk). Cheap.
    fn check_writable(&self) -> Result<()>;

    /// Compacts all tables now, dropping superseded rows.
    fn compact(&self) -> Result<()>;

    /// Writes a copy of all committed rows to an empty or absent directory, while readers and writers continue. The
    /// copy opens as a store by itself. Returns the bytes written.
    fn checkpoint(&self, directory: &Path) -> Result<u64>;

    /// Returns statistics of the store.
    fn stats(&self) -> Result<StoreStats>;
}

/// Resources granted to a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreSettings {
    /// Memory for blocks, memtables and filters together, in bytes.
    pub memory_bytes: u64,
    /// Number of background threads for flushes and compactions.
    pub threads: usize,
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self {
            memory_bytes: 256 << 20,
            threads: 2,
        }
    }
}
