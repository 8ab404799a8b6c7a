//! The ordered key-value seam: get, scan, atomic batch, snapshot, bulk load, checkpoint.
//!
//! The engine knows a store only through [`Store`]; what stands behind it (memory, fjall, RocksDB) passes one
//! conformance suite, [`conformance`]. Nothing here interprets a key.

use esker_model::{Error, Flow, Result};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

mod batch;
pub mod conformance;
pub mod fault;
pub mod memory;
pub mod segment;

pub use batch::{ValuePlace, Write, WriteBatch};

/// The tables of a database. Each is one ordered key space; a batch is atomic over all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Table {
    /// Vertices and edges as they are now.
    Rows = 0,
    /// What they were.
    History = 1,
    /// Vertices by type, and other keys without values.
    Index = 2,
    /// Exact counters.
    Counts = 3,
    /// Format, schema, markers.
    Meta = 4,
    /// Objects in columns, and the log of their changes.
    Objects = 5,
    /// The namespace: entries of directories, with the attributes of what they name.
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

    /// The name on disk.
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

/// The longest key, in bytes: what the narrowest back end (fjall) takes.
pub const MAX_KEY_BYTES: usize = 65_535;
/// The longest value, in bytes: lengths are 32 bits in both engines, and no row comes near.
pub const MAX_VALUE_BYTES: usize = 1 << 30;

/// Whether all back ends take a key: 1 to [`MAX_KEY_BYTES`] bytes.
pub fn check_key(key: &[u8]) -> Result<()> {
    if key.is_empty() {
        return Err(Error::Invalid("a key of the store is empty".to_owned()));
    }
    check_length("a key of the store, in bytes,", key, MAX_KEY_BYTES)
}

/// Whether all back ends take a value: at most [`MAX_VALUE_BYTES`] bytes.
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

/// Whether a bulk load's next key follows its last one.
pub fn check_order(last: Option<&[u8]>, next: &[u8]) -> Result<()> {
    if last.is_some_and(|last| last >= next) {
        return Err(Error::Invalid(format!(
            "bulk load: key {} does not follow the one before it; sort the rows by key and drop duplicates",
            hex(next)
        )));
    }
    Ok(())
}

/// The first bytes of a key, for messages.
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

/// Makes the directory that a checkpoint goes to; refuses one that holds something.
pub fn prepare_checkpoint(directory: &Path) -> Result<()> {
    let context = || format!("making the checkpoint directory {}", directory.display());
    // It holds all that the store does: it is its owner's alone, whatever the umask is.
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

/// What "acknowledged" means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// On disk: survives power failure. One fsync per commit (group), so batches matter.
    Sync,
    /// In the operating system's log buffer: survives the death of the process; a power failure may lose what was
    /// not synced since the last interval (the host calls [`Store::persist`] at it).
    Relaxed,
}

/// Keys from `from` (inclusive) to `until` (exclusive; `None` is the end).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// First key inside.
    pub from: Vec<u8>,
    /// First key no longer inside.
    pub until: Option<Vec<u8>>,
}

impl KeyRange {
    /// All keys.
    pub const ALL: Self = Self {
        from: Vec::new(),
        until: None,
    };

    /// All keys that begin with `prefix`.
    pub fn prefix(prefix: &[u8]) -> Self {
        Self {
            from: prefix.to_vec(),
            until: prefix_end(prefix),
        }
    }

    /// All keys that begin with `prefix` and lie after `after`.
    pub fn prefix_after(prefix: &[u8], after: &[u8]) -> Self {
        let mut from = after.to_vec();
        from.push(0);
        Self {
            from: from.max(prefix.to_vec()),
            until: prefix_end(prefix),
        }
    }

    /// Whether no key can lie inside.
    pub fn is_empty(&self) -> bool {
        self.until.as_ref().is_some_and(|until| *until <= self.from)
    }

    /// Keys of `[from, until)`.
    pub fn between(from: &[u8], until: &[u8]) -> Self {
        Self {
            from: from.to_vec(),
            until: Some(until.to_vec()),
        }
    }
}

/// The first key after all that begin with `prefix`; `None` if there is none.
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

/// Rows one by one, for merges of several ranges. Starts before the first row.
pub trait Cursor {
    /// Moves to the next row; false at the end.
    fn advance(&mut self) -> Result<bool>;
    /// The present row's key. Only after an `advance` that returned true.
    fn key(&self) -> &[u8];
    /// The present row's value. Only after an `advance` that returned true.
    fn value(&self) -> &[u8];
}

/// Reads. On a [`Snapshot`] they all see one moment; on a [`Store`] each sees the newest.
pub trait Read {
    /// Calls `sink` with the value of a key; returns whether there is one. The value is borrowed: nothing is copied.
    fn get_with(&self, table: Table, key: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// A copy of the value of a key.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = None;
        self.get_with(table, key, &mut |v| value = Some(v.to_vec()))?;
        Ok(value)
    }

    /// Calls `sink` with each row of a range in key order until it breaks. The fastest way to read a range.
    fn scan(
        &self,
        table: Table,
        range: &KeyRange,
        sink: &mut dyn FnMut(&[u8], &[u8]) -> Flow,
    ) -> Result<()>;

    /// A cursor over a range.
    fn cursor(&self, table: Table, range: &KeyRange) -> Result<Box<dyn Cursor + '_>>;
}

/// One consistent moment of all tables.
pub trait Snapshot: Read + Send + Sync {}

/// Rows given in ascending key order, written as sorted tables without passing the log. Nothing is visible before
/// [`BulkLoad::finish`]; dropping it without leaves nothing behind. Keys must be new to the table, or are
/// replaced; no other writer may touch the same table meanwhile (the engine's write lock sees to it).
pub trait BulkLoad {
    /// The next row; its key must be greater than the last one's.
    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()>;
    /// Makes all of it visible and durable.
    fn finish(self: Box<Self>) -> Result<()>;
}

/// Figures that a store knows about itself. Bytes, unless the name says otherwise.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Which engine.
    pub engine: &'static str,
    /// On disk, by table.
    pub table_bytes: Vec<(Table, u64)>,
    /// Of the write-ahead log.
    pub log_bytes: u64,
    /// Block cache in use.
    pub cache_bytes: u64,
    /// Block cache at most.
    pub cache_bytes_max: u64,
    /// A write has failed, and none is taken any more until the store is opened anew.
    pub failed: bool,
}

/// An ordered store of several tables.
pub trait Store: Read + Send + Sync {
    /// One consistent moment. Cheap; holding one keeps superseded rows from being dropped.
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>>;

    /// Applies a batch atomically; returns once it is as durable as asked.
    fn commit(&self, batch: WriteBatch, durability: Durability) -> Result<()>;

    /// Makes everything committed so far survive power failure.
    fn persist(&self) -> Result<()>;

    /// Starts a bulk load into one table.
    fn bulk_load(&self, table: Table) -> Result<Box<dyn BulkLoad + '_>>;

    /// Merges and drops what is superseded, now.
    fn compact(&self) -> Result<()>;

    /// Writes a copy of everything committed to an empty or absent directory, openable as a store of its own, while
    /// readers and writers go on. Returns the bytes written.
    fn checkpoint(&self, directory: &Path) -> Result<u64>;

    /// Figures.
    fn stats(&self) -> Result<StoreStats>;
}

/// What a store needs to be opened. Plain data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreSettings {
    /// Memory for blocks, memtables and filters together, in bytes.
    pub memory_bytes: u64,
    /// Background threads for flushes and compactions.
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
