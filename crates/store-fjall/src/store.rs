//! Implementation of the store interface on fjall.

use crate::engine::{Engine, MemtableUsages, WRITING};
use crate::error::explain;
use crate::rows::{self, Rows};
use esker_model::{Flow, Result};
use esker_store::{
    BulkLoad, Cursor, Durability, KeyRange, Read, Snapshot, Store, StoreSettings, StoreStats,
    Table, Write, WriteBatch, check_key, check_order, check_value,
};
use fjall::{Iter, Keyspace, PersistMode, Readable, UserKey, UserValue};
use std::ops::Bound;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A store on fjall. Dropping it waits for the merge under way and flushes what would make the next open slow.
pub struct FjallStore {
    pub(crate) engine: Engine,
    /// Held while committing, finishing a bulk load or taking a checkpoint.
    write_lock: Mutex<MemtableUsages>,
    /// Snapshot from before the commit that is under way.
    ///
    /// fjall publishes a commit by a sequence number that flushes and merges may raise as well, at any time, so that a
    /// part of a commit could be seen. While a commit is under way, new snapshots are copies of this one, which was
    /// taken before it.
    snapshot_before: RwLock<Option<fjall::Snapshot>>,
}

impl std::fmt::Debug for FjallStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FjallStore")
            .field("path", &self.engine.path)
            .finish_non_exhaustive()
    }
}

impl FjallStore {
    /// Opens the database in a directory. With `create`, an absent database is created; without, it is an error.
    ///
    /// The directory can be open once at a time, in one process ([`esker_model::Error::Unavailable`] otherwise).
    pub fn open(path: &Path, settings: &StoreSettings, create: bool) -> Result<Self> {
        let engine = Engine::open(path, settings, create)?;
        let usages = engine.usages();
        Ok(Self {
            engine,
            write_lock: Mutex::new(usages),
            snapshot_before: RwLock::new(None),
        })
    }

    pub(crate) fn write_lock(&self) -> MutexGuard<'_, MemtableUsages> {
        // The counts are estimates: a writer that panicked has left no harm in them.
        self.write_lock
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn snapshot_before(&self) -> RwLockReadGuard<'_, Option<fjall::Snapshot>> {
        self.snapshot_before
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn snapshot_before_mut(&self) -> RwLockWriteGuard<'_, Option<fjall::Snapshot>> {
        self.snapshot_before
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a snapshot that contains whole commits only.
    fn consistent_snapshot(&self) -> fjall::Snapshot {
        match &*self.snapshot_before() {
            Some(snapshot_before) => snapshot_before.clone(),
            None => self.engine.database.snapshot(),
        }
    }

    /// Runs a change of several rows so that no snapshot sees a part of it.
    fn atomically<T>(&self, change: impl FnOnce() -> T) -> T {
        *self.snapshot_before_mut() = Some(self.engine.database.snapshot());
        let result = change();
        *self.snapshot_before_mut() = None;
        result
    }

    /// Commits one row: no part of it can be seen, and fjall has a faster way for it.
    fn commit_one(&self, write: Write<'_>) -> Result<()> {
        let mut usages = self.write_lock();
        self.engine.wait_for_memtable_space(&mut usages)?;
        if write.table == Table::Rows {
            let hash = rows::key_hash(write.key);
            self.engine.row_filter.add(&usages.row_filter, hash);
        }
        let table = self.engine.table(write.table);
        let (result, bytes) = match write.value {
            Some(value) => (table.insert(write.key, value), value.len()),
            None => (table.remove(write.key), 0),
        };
        usages.note(write.table, 1, write.key.len() + bytes);
        result.map_err(|e| self.engine.error(WRITING, e))?;
        self.engine.seal_full_after_commit(&mut usages);
        Ok(())
    }
}

/// Returns an iterator over a range of a table in a snapshot.
fn range(engine: &Engine, snapshot: &fjall::Snapshot, table: Table, range: &KeyRange) -> Iter {
    let until = match &range.until {
        // fjall refuses ranges that end before they begin.
        Some(until) if *until < range.from => Bound::Excluded(range.from.as_slice()),
        Some(until) => Bound::Excluded(until.as_slice()),
        None => Bound::Unbounded,
    };
    snapshot.range::<&[u8], _>(
        engine.table(table),
        (Bound::Included(range.from.as_slice()), until),
    )
}

fn scan(
    engine: &Engine,
    snapshot: &fjall::Snapshot,
    table: Table,
    keys: &KeyRange,
    sink: &mut dyn FnMut(&[u8], &[u8]) -> Flow,
) -> Result<()> {
    for row in range(engine, snapshot, table, keys) {
        let (key, value) = row.into_inner().map_err(|e| engine.error("reading", e))?;
        if sink(&key, &value).is_break() {
            break;
        }
    }
    Ok(())
}

impl Read for FjallStore {
    fn get_with(&self, table: Table, key: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<bool> {
        // A single key cannot be seen in part, so no snapshot is needed to read the newest value.
        let value = match table {
            Table::Rows => rows::get(&self.engine, key),
            _ => self.engine.table(table).get(key),
        };
        let value = value.map_err(|e| self.engine.error("reading", e))?;
        Ok(value.map(|v| sink(&v)).is_some())
    }

    fn scan(
        &self,
        table: Table,
        range: &KeyRange,
        sink: &mut dyn FnMut(&[u8], &[u8]) -> Flow,
    ) -> Result<()> {
        scan(
            &self.engine,
            &self.consistent_snapshot(),
            table,
            range,
            sink,
        )
    }

    fn cursor(&self, table: Table, keys: &KeyRange) -> Result<Box<dyn Cursor + '_>> {
        Ok(Box::new(FjallCursor {
            rows: range(&self.engine, &self.consistent_snapshot(), table, keys),
            path: &self.engine.path,
            present: None,
        }))
    }
}

impl Store for FjallStore {
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>> {
        Ok(Box::new(FjallSnapshot {
            engine: &self.engine,
            snapshot: self.consistent_snapshot(),
        }))
    }

    fn commit(&self, batch: WriteBatch, durability: Durability) -> Result<()> {
        batch.check()?;
        if batch.is_empty() {
            return Ok(());
        }
        // Both modes write the log before they return. `Buffer` hands it to the operating system (write), where it
        // outlives this process; `SyncData` waits for the disk (fdatasync).
        let mode = match durability {
            Durability::Relaxed => PersistMode::Buffer,
            Durability::Sync => PersistMode::SyncData,
        };
        if durability == Durability::Relaxed && batch.len() == 1 {
            return self.commit_one(batch.get(0));
        }
        let rows = Rows::new(&self.engine, &batch, mode);
        let mut usages = self.write_lock();
        self.engine.wait_for_memtable_space(&mut usages)?;
        rows.add_to_filter(&self.engine, &usages.row_filter);
        self.atomically(|| rows.batch.commit())
            .map_err(|e| self.engine.error(WRITING, e))?;
        for (table, (count, bytes)) in Table::ALL.into_iter().zip(rows.sizes) {
            usages.note(table, count, bytes);
        }
        self.engine.seal_full_after_commit(&mut usages);
        Ok(())
    }

    fn persist(&self) -> Result<()> {
        self.engine
            .database
            .persist(PersistMode::SyncAll)
            .map_err(|e| self.engine.error("syncing", e))
    }

    fn bulk_load(&self, table: Table) -> Result<Box<dyn BulkLoad + '_>> {
        Ok(Box::new(FjallLoad {
            store: self,
            table,
            tables: None,
            last: Vec::new(),
        }))
    }

    fn check_writable(&self) -> Result<()> {
        self.engine.check_writable()
    }

    fn compact(&self) -> Result<()> {
        self.engine.compact()
    }

    fn checkpoint(&self, directory: &Path) -> Result<u64> {
        // Most rows in memory are flushed before writers are blocked.
        self.engine.flush()?;
        let mut usages = self.write_lock();
        self.engine.flush()?;
        self.engine.measure(&mut usages);
        crate::checkpoint::write(&self.engine, directory)
    }

    fn stats(&self) -> Result<StoreStats> {
        let database = &self.engine.database;
        Ok(StoreStats {
            engine: "fjall",
            table_bytes: Table::ALL
                .into_iter()
                .map(|table| (table, self.engine.table(table).disk_space()))
                .collect(),
            log_bytes: database
                .journal_disk_space()
                .map_err(|e| self.engine.error("measuring", e))?,
            cache_bytes: database.cache_size(),
            cache_bytes_max: database.cache_capacity(),
            failed: self.engine.check_writable().is_err(),
        })
    }
}

struct FjallSnapshot<'a> {
    engine: &'a Engine,
    snapshot: fjall::Snapshot,
}

impl Read for FjallSnapshot<'_> {
    fn get_with(&self, table: Table, key: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self
            .snapshot
            .get(self.engine.table(table), key)
            .map_err(|e| self.engine.error("reading", e))?;
        Ok(value.map(|v| sink(&v)).is_some())
    }

    fn scan(
        &self,
        table: Table,
        range: &KeyRange,
        sink: &mut dyn FnMut(&[u8], &[u8]) -> Flow,
    ) -> Result<()> {
        scan(self.engine, &self.snapshot, table, range, sink)
    }

    fn cursor(&self, table: Table, keys: &KeyRange) -> Result<Box<dyn Cursor + '_>> {
        Ok(Box::new(FjallCursor {
            rows: range(self.engine, &self.snapshot, table, keys),
            path: &self.engine.path,
            present: None,
        }))
    }
}

impl Snapshot for FjallSnapshot<'_> {}

struct FjallCursor<'a> {
    rows: Iter,
    path: &'a Path,
    present: Option<(UserKey, UserValue)>,
}

impl Cursor for FjallCursor<'_> {
    fn advance(&mut self) -> Result<bool> {
        self.present = match self.rows.next() {
            Some(row) => Some(
                row.into_inner()
                    .map_err(|e| explain("reading", self.path, e))?,
            ),
            None => None,
        };
        Ok(self.present.is_some())
    }

    fn key(&self) -> &[u8] {
        self.present.as_ref().map_or(&[], |(key, _)| key)
    }

    fn value(&self) -> &[u8] {
        self.present.as_ref().map_or(&[], |(_, value)| value)
    }
}

/// A bulk load into table files. Dropping it leaves files that no table refers to; the next open removes them.
struct FjallLoad<'a> {
    store: &'a FjallStore,
    table: Table,
    /// The ingestion, begun with the first row: an empty load would leave a file.
    tables: Option<Ingestion<'a>>,
    last: Vec<u8>,
}

/// fjall's ingestion, whose type has no public name.
type Ingestion<'a> = Box<dyn FnMut(Step<'_>) -> fjall::Result<()> + 'a>;

enum Step<'a> {
    Row(&'a [u8], &'a [u8]),
    Finish,
}

#[allow(
    clippy::redundant_closure_for_method_calls,
    reason = "the method's type has no public name"
)]
fn begin(keyspace: &Keyspace) -> fjall::Result<Ingestion<'_>> {
    let mut tables = Some(keyspace.start_ingestion()?);
    Ok(Box::new(move |step| match step {
        Step::Row(key, value) => match &mut tables {
            Some(tables) => tables.write(key, value),
            None => Ok(()),
        },
        Step::Finish => tables.take().map_or(Ok(()), |tables| tables.finish()),
    }))
}

impl BulkLoad for FjallLoad<'_> {
    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        check_key(key)?;
        check_value(value)?;
        let engine = &self.store.engine;
        let tables = match &mut self.tables {
            Some(tables) => {
                // fjall panics on a key out of order.
                check_order(Some(&self.last), key)?;
                tables
            }
            empty => {
                let begun =
                    begin(engine.table(self.table)).map_err(|e| engine.error("loading into", e))?;
                empty.insert(begun)
            }
        };
        tables(Step::Row(key, value)).map_err(|e| engine.error("loading into", e))?;
        self.last.clear();
        self.last.extend_from_slice(key);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<()> {
        let Some(mut tables) = self.tables else {
            return Ok(());
        };
        let engine = &self.store.engine;
        let mut usages = self.store.write_lock();
        // fjall flushes this table's memtable first, without its log: after a power failure, commits over several
        // tables would be incomplete. With the log on disk they are whole.
        engine
            .database
            .persist(PersistMode::SyncAll)
            .map_err(|e| engine.error("syncing", e))?;
        self.store
            .atomically(|| tables(Step::Finish))
            .map_err(|e| engine.error("loading into", e))?;
        engine.measure(&mut usages);
        engine.compaction.wake();
        Ok(())
    }
}
