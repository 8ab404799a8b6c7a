//! An ordered, versioned, deterministic store in memory, for tests and tools, and the reference for the other stores.
//! It is lost with its last handle, except for the output of [`Store::checkpoint`] (see [`MemoryStore::open`]).
//!
//! Each key has its versions, oldest first, by commit number. A snapshot is a registered commit number; a commit
//! drops, from the keys that it writes, the versions that no registered snapshot can see. Reads copy a reference,
//! release the lock, then call the sink, so that a sink may write to the store it reads.

use crate::{
    BulkLoad, Cursor, Durability, KeyRange, MAX_KEY_BYTES, Read, Snapshot, Store, StoreStats,
    Table, WriteBatch, check_key, check_order,
};
use esker_model::{Error, Flow, Result};
use std::collections::BTreeMap;
use std::io::{BufReader, BufWriter, Read as _, Write as _};
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

/// Name of the only file of a checkpoint.
const FILE: &str = "memory.store";
/// First bytes of the file: name and format number.
const MAGIC: &[u8; 8] = b"ESKMEM\x00\x01";
/// Number of rows that a scan copies out of the map under one lock.
const CHUNK: usize = 128;

type Bytes = Arc<[u8]>;
type Versions = Vec<(u64, Option<Bytes>)>;
type Row = (Bytes, Bytes);

#[derive(Default)]
struct MemoryState {
    tables: [BTreeMap<Bytes, Versions>; Table::ALL.len()],
    /// Number of the last commit.
    last: u64,
    /// Number of snapshots by the commit that they see.
    live: BTreeMap<u64, usize>,
}

impl MemoryState {
    /// Sets or removes keys as one commit.
    fn apply(&mut self, writes: impl Iterator<Item = (Table, Bytes, Option<Bytes>)>) {
        let number = self.last + 1;
        let oldest = self.live.keys().next().copied().unwrap_or(number);
        for (table, key, value) in writes {
            let versions = self.tables[table as usize].entry(key.clone()).or_default();
            match versions.last_mut() {
                Some((at, last)) if *at == number => *last = value,
                _ => versions.push((number, value)),
            }
            // The oldest snapshot sees the last version at or before it; no snapshot sees older ones.
            let seen = versions.partition_point(|(at, _)| *at <= oldest);
            versions.drain(..seen.saturating_sub(1));
            if matches!(versions.as_slice(), [(_, None)]) {
                self.tables[table as usize].remove(&key);
            }
        }
        self.last = number;
    }

    fn get(&self, table: Table, key: &[u8], at: u64) -> Option<Bytes> {
        visible(self.tables[table as usize].get(key)?, at)
    }

    /// Returns up to [`CHUNK`] rows visible at a commit; fewer only at the end of the range.
    fn rows(&self, table: Table, range: &KeyRange, after: Option<&Bytes>, at: u64) -> Vec<Row> {
        let from = match after {
            Some(key) => Bound::Excluded(&**key),
            None => Bound::Included(&*range.from),
        };
        if range.is_empty() {
            return Vec::new();
        }
        let until = range
            .until
            .as_deref()
            .map_or(Bound::Unbounded, Bound::Excluded);
        self.tables[table as usize]
            .range::<[u8], _>((from, until))
            .filter_map(|(key, versions)| Some((key.clone(), visible(versions, at)?)))
            .take(CHUNK)
            .collect()
    }
}

fn visible(versions: &Versions, at: u64) -> Option<Bytes> {
    let seen = versions.partition_point(|(number, _)| *number <= at);
    versions[..seen].last()?.1.clone()
}

/// An ordered store in memory. A clone is another handle on the same rows.
#[derive(Clone, Default)]
pub struct MemoryStore {
    state: Arc<RwLock<MemoryState>>,
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}

impl MemoryStore {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens a checkpoint that [`Store::checkpoint`] wrote into a directory.
    pub fn open(directory: &Path) -> Result<Self> {
        let path = directory.join(FILE);
        let context = || format!("reading the checkpoint {}", path.display());
        let file = std::fs::File::open(&path).map_err(|e| Error::io(context(), e))?;
        let mut reader = BufReader::new(file);
        let mut magic = [0; MAGIC.len()];
        reader
            .read_exact(&mut magic)
            .map_err(|e| Error::io(context(), e))?;
        if magic != *MAGIC {
            return Err(Error::Target(format!(
                "{} is not a checkpoint of an in-memory store of this version",
                path.display()
            )));
        }
        let mut writes = Vec::new();
        loop {
            let mut head = [0; 9];
            match reader.read_exact(&mut head[..1]) {
                Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => break,
                other => other.map_err(|e| Error::io(context(), e))?,
            }
            reader
                .read_exact(&mut head[1..])
                .map_err(|e| Error::io(context(), e))?;
            let [code, lengths @ ..] = head;
            let lengths = u64::from_be_bytes(lengths);
            let Some(table) = Table::ALL.into_iter().find(|t| *t as u8 == code) else {
                return Err(Error::Target(format!(
                    "{}: no table {code}",
                    path.display()
                )));
            };
            let mut field = |length: u64| -> Result<Bytes> {
                let mut bytes = Vec::new();
                reader
                    .by_ref()
                    .take(length)
                    .read_to_end(&mut bytes)
                    .map_err(|e| Error::io(context(), e))?;
                if (bytes.len() as u64) < length {
                    let cut = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
                    return Err(Error::io(context(), cut));
                }
                Ok(bytes.into())
            };
            let key = field(lengths >> 48)?;
            let value = field(lengths & ((1 << 48) - 1))?;
            writes.push((table, key, Some(value)));
        }
        let store = Self::new();
        store.write(|state| state.apply(writes.into_iter()));
        Ok(store)
    }

    /// Reads under the lock. A lock poisoned by a panic is still used: every change of the state is complete before a
    /// panic can unwind, because no step of it can fail.
    fn read<T>(&self, f: impl FnOnce(&MemoryState) -> T) -> T {
        f(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<T>(&self, f: impl FnOnce(&mut MemoryState) -> T) -> T {
        f(&mut self.state.write().unwrap_or_else(PoisonError::into_inner))
    }

    fn take_snapshot(&self) -> MemorySnapshot {
        let at = self.write(|state| {
            *state.live.entry(state.last).or_default() += 1;
            state.last
        });
        MemorySnapshot {
            store: self.clone(),
            at,
        }
    }
}

impl Read for MemoryStore {
    fn get_with(&self, table: Table, key: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.read(|state| state.get(table, key, state.last));
        Ok(value.map(|v| sink(&v)).is_some())
    }

    fn scan(
        &self,
        table: Table,
        range: &KeyRange,
        sink: &mut dyn FnMut(&[u8], &[u8]) -> Flow,
    ) -> Result<()> {
        self.take_snapshot().scan(table, range, sink)
    }

    fn cursor(&self, table: Table, range: &KeyRange) -> Result<Box<dyn Cursor + '_>> {
        Ok(Box::new(MemoryCursor::new(
            self.take_snapshot(),
            table,
            range,
        )))
    }
}

impl Store for MemoryStore {
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>> {
        Ok(Box::new(self.take_snapshot()))
    }

    fn commit(&self, batch: WriteBatch, _durability: Durability) -> Result<()> {
        batch.check()?;
        let writes = batch
            .iter()
            .map(|write| (write.table, write.key.into(), write.value.map(Into::into)));
        self.write(|state| state.apply(writes));
        Ok(())
    }

    fn persist(&self) -> Result<()> {
        Ok(())
    }

    fn bulk_load(&self, table: Table) -> Result<Box<dyn BulkLoad + '_>> {
        Ok(Box::new(MemoryLoad {
            store: self,
            table,
            rows: Vec::new(),
        }))
    }

    /// Drops, from every key, the versions that no snapshot can see.
    fn check_writable(&self) -> Result<()> {
        Ok(())
    }

    fn compact(&self) -> Result<()> {
        self.write(|state| {
            let oldest = state.live.keys().next().copied().unwrap_or(state.last);
            for table in &mut state.tables {
                table.retain(|_, versions| {
                    let seen = versions.partition_point(|(at, _)| *at <= oldest);
                    versions.drain(..seen.saturating_sub(1));
                    !matches!(versions.as_slice(), [(_, None)])
                });
            }
        });
        Ok(())
    }

    fn checkpoint(&self, directory: &Path) -> Result<u64> {
        let snapshot = self.take_snapshot();
        crate::prepare_checkpoint(directory)?;
        let path = directory.join(FILE);
        let context = || format!("writing the checkpoint {}", path.display());
        let file = std::fs::File::create_new(&path).map_err(|e| Error::io(context(), e))?;
        let mut writer = BufWriter::new(file);
        let mut bytes = MAGIC.len() as u64;
        writer
            .write_all(MAGIC)
            .map_err(|e| Error::io(context(), e))?;
        for table in Table::ALL {
            let mut outcome = Ok(());
            snapshot.scan(table, &KeyRange::ALL, &mut |key, value| {
                // Keys are at most 2^16 - 1 bytes long and values less than 2^32, so both lengths fit into one word.
                let lengths = (key.len() as u64) << 48 | value.len() as u64;
                outcome = writer
                    .write_all(&[table as u8])
                    .and_then(|()| writer.write_all(&lengths.to_be_bytes()))
                    .and_then(|()| writer.write_all(key))
                    .and_then(|()| writer.write_all(value));
                bytes += 9 + key.len() as u64 + value.len() as u64;
                if outcome.is_ok() {
                    Flow::Continue(())
                } else {
                    Flow::Break(())
                }
            })?;
            outcome.map_err(|e| Error::io(context(), e))?;
        }
        let file = writer
            .into_inner()
            .map_err(|e| Error::io(context(), e.into_error()))?;
        file.sync_all().map_err(|e| Error::io(context(), e))?;
        Ok(bytes)
    }

    fn stats(&self) -> Result<StoreStats> {
        let table_bytes = self.read(|state| {
            Table::ALL
                .into_iter()
                .map(|table| {
                    let bytes = state.tables[table as usize]
                        .iter()
                        .map(|(key, versions)| {
                            let values: usize = versions
                                .iter()
                                .map(|(_, value)| value.as_ref().map_or(0, |v| v.len()))
                                .sum();
                            (key.len() + values) as u64
                        })
                        .sum();
                    (table, bytes)
                })
                .collect()
        });
        Ok(StoreStats {
            engine: "memory",
            table_bytes,
            ..StoreStats::default()
        })
    }
}

/// The state at one commit; registered until dropped.
struct MemorySnapshot {
    store: MemoryStore,
    at: u64,
}

impl Drop for MemorySnapshot {
    fn drop(&mut self) {
        self.store.write(|state| {
            if let Some(readers) = state.live.get_mut(&self.at) {
                *readers -= 1;
                if *readers == 0 {
                    state.live.remove(&self.at);
                }
            }
        });
    }
}

impl Read for MemorySnapshot {
    fn get_with(&self, table: Table, key: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.store.read(|state| state.get(table, key, self.at));
        Ok(value.map(|v| sink(&v)).is_some())
    }

    fn scan(
        &self,
        table: Table,
        range: &KeyRange,
        sink: &mut dyn FnMut(&[u8], &[u8]) -> Flow,
    ) -> Result<()> {
        let mut after: Option<Bytes> = None;
        loop {
            let rows = self
                .store
                .read(|state| state.rows(table, range, after.as_ref(), self.at));
            for (key, value) in &rows {
                if sink(key, value).is_break() {
                    return Ok(());
                }
            }
            match rows.last() {
                Some((key, _)) if rows.len() == CHUNK => after = Some(key.clone()),
                _ => return Ok(()),
            }
        }
    }

    fn cursor(&self, table: Table, range: &KeyRange) -> Result<Box<dyn Cursor + '_>> {
        // A registration of its own keeps the cursor valid after the snapshot is dropped.
        let snapshot = self.store.write(|state| {
            *state.live.entry(self.at).or_default() += 1;
            Self {
                store: self.store.clone(),
                at: self.at,
            }
        });
        Ok(Box::new(MemoryCursor::new(snapshot, table, range)))
    }
}

impl Snapshot for MemorySnapshot {}

struct MemoryCursor {
    snapshot: MemorySnapshot,
    table: Table,
    range: KeyRange,
    /// Rows read ahead; `next` is the index of the row after the current one.
    rows: Vec<Row>,
    next: usize,
    /// Whether no rows follow those read ahead.
    last_chunk: bool,
}

impl MemoryCursor {
    fn new(snapshot: MemorySnapshot, table: Table, range: &KeyRange) -> Self {
        Self {
            snapshot,
            table,
            range: range.clone(),
            rows: Vec::new(),
            next: 0,
            last_chunk: false,
        }
    }

    fn present(&self) -> Option<&Row> {
        self.rows.get(self.next.checked_sub(1)?)
    }
}

impl Cursor for MemoryCursor {
    fn advance(&mut self) -> Result<bool> {
        if self.next == self.rows.len() && !self.last_chunk {
            let after = self.rows.last().map(|(key, _)| key.clone());
            self.rows = self.snapshot.store.read(|state| {
                state.rows(self.table, &self.range, after.as_ref(), self.snapshot.at)
            });
            self.last_chunk = self.rows.len() < CHUNK;
            self.next = 0;
        }
        let more = self.next < self.rows.len();
        if more {
            self.next += 1;
        }
        Ok(more)
    }

    fn key(&self) -> &[u8] {
        self.present().map_or(&[], |(key, _)| key)
    }

    fn value(&self) -> &[u8] {
        self.present().map_or(&[], |(_, value)| value)
    }
}

struct MemoryLoad<'a> {
    store: &'a MemoryStore,
    table: Table,
    rows: Vec<Row>,
}

impl BulkLoad for MemoryLoad<'_> {
    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        check_key(key)?;
        check_order(self.rows.last().map(|(last, _)| &**last), key)?;
        self.rows.push((key.into(), value.into()));
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<()> {
        let Self { store, table, rows } = *self;
        let writes = rows
            .into_iter()
            .map(|(key, value)| (table, key, Some(value)));
        store.write(|state| state.apply(writes));
        Ok(())
    }
}

const _: () = assert!(
    MAX_KEY_BYTES < 1 << 16,
    "a checkpoint keeps key lengths in 16 bits"
);
