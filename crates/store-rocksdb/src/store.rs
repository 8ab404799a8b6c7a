//! Implementation of the store interface on RocksDB.

use crate::error::{disk, explain};
use crate::tuning::Shared;
use esker_model::{Error, Flow, Result};
use esker_store::{
    BulkLoad, Cursor, Durability, KeyRange, Read, Snapshot, Store, StoreSettings, StoreStats,
    Table, WriteBatch, check_key, check_order, check_value, prepare_checkpoint,
};
use rocksdb::checkpoint::Checkpoint;
use rocksdb::{
    BottommostLevelCompaction, ColumnFamily, ColumnFamilyDescriptor, CompactOptions,
    DBRawIteratorWithThreadMode, IngestExternalFileOptions, Options, ReadOptions,
    SnapshotWithThreadMode, SstFileWriter, WriteOptions,
};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Folder for the tables of bulk loads until they are ingested; RocksDB ignores names that it does not know.
const LOADS: &str = "loads";
/// File that identifies a directory as a database.
const CURRENT: &str = "CURRENT";
/// Approximate size at which a bulk load ends a table file.
const TABLE_BYTES: u64 = 64 << 20;

type Rows<'a> = DBRawIteratorWithThreadMode<'a, rocksdb::DB>;

/// A store on RocksDB.
pub struct RocksStore {
    pub(crate) database: rocksdb::DB,
    path: PathBuf,
    shared: Shared,
    /// Settings with which each table's bulk loads are written.
    families: [Options; Table::ALL.len()],
    /// Number of the next file of a bulk load.
    loads: AtomicU64,
}

impl std::fmt::Debug for RocksStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RocksStore")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl RocksStore {
    /// Opens the database in a directory. With `create`, an absent database is created; without, it is an error.
    ///
    /// The directory can be open once at a time ([`Error::Unavailable`] otherwise).
    pub fn open(path: &Path, settings: &StoreSettings, create: bool) -> Result<Self> {
        let exists = path
            .join(CURRENT)
            .try_exists()
            .map_err(|e| disk("opening", path, e))?;
        if !exists && !create {
            return Err(Error::Target(format!(
                "{} holds no RocksDB database",
                path.display()
            )));
        }
        if !exists {
            std::fs::create_dir_all(path).map_err(|e| disk("creating", path, e))?;
        }
        let shared = Shared::new(settings);
        let families = Table::ALL.map(|table| shared.family(table));
        let descriptors = Table::ALL
            .map(|table| ColumnFamilyDescriptor::new(table.name(), shared.family(table)))
            .into_iter()
            .chain([ColumnFamilyDescriptor::new("default", Options::default())]);
        let doing = if exists { "opening" } else { "creating" };
        let database =
            rocksdb::DB::open_cf_descriptors(&shared.database(settings, create), path, descriptors)
                .map_err(|e| explain(doing, path, e))?;
        // Remains of interrupted loads are removed after the open, which takes the lock.
        let loads = path.join(LOADS);
        if loads.try_exists().map_err(|e| disk(doing, path, e))? {
            std::fs::remove_dir_all(&loads).map_err(|e| disk(doing, &loads, e))?;
        }
        Ok(Self {
            database,
            path: path.to_path_buf(),
            shared,
            families,
            loads: AtomicU64::new(0),
        })
    }

    pub(crate) fn error(&self, doing: &str, error: rocksdb::Error) -> Error {
        explain(doing, &self.path, error)
    }

    pub(crate) fn family(&self, table: Table) -> Result<&ColumnFamily> {
        self.database
            .cf_handle(table.name())
            .ok_or_else(|| Error::Store {
                engine: "rocksdb",
                message: format!("{} has no table {}", self.path.display(), table.name()),
            })
    }

    /// Returns RocksDB's statistic for a table; zero if it has none.
    fn figure(&self, table: Table, name: &str) -> Result<u64> {
        let figure = self
            .database
            .property_int_value_cf(self.family(table)?, name)
            .map_err(|e| self.error("measuring", e))?;
        Ok(figure.unwrap_or(0))
    }
}

pub(crate) fn sync(durability: Durability) -> WriteOptions {
    let mut options = WriteOptions::default();
    // Without `sync` the log is handed to the operating system (write), where it outlives this process.
    options.set_sync(durability == Durability::Sync);
    options
}

fn bounds(range: &KeyRange) -> ReadOptions {
    let mut options = ReadOptions::default();
    if let Some(until) = &range.until {
        options.set_iterate_upper_bound(until.clone());
    }
    options
}

/// Moves an iterator to a range's first row; `None` for an empty range.
fn begin<'r>(mut rows: Rows<'r>, range: &KeyRange) -> Option<Rows<'r>> {
    if range.is_empty() {
        return None;
    }
    rows.seek(&range.from);
    Some(rows)
}

fn scan(
    path: &Path,
    rows: Option<Rows<'_>>,
    sink: &mut dyn FnMut(&[u8], &[u8]) -> Flow,
) -> Result<()> {
    let Some(mut rows) = rows else { return Ok(()) };
    while let Some((key, value)) = rows.item() {
        if sink(key, value).is_break() {
            return Ok(());
        }
        rows.next();
    }
    rows.status().map_err(|e| explain("reading", path, e))
}

impl Read for RocksStore {
    fn get_with(&self, table: Table, key: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self
            .database
            .get_pinned_cf(self.family(table)?, key)
            .map_err(|e| self.error("reading", e))?;
        Ok(value.map(|v| sink(&v)).is_some())
    }

    fn scan(
        &self,
        table: Table,
        range: &KeyRange,
        sink: &mut dyn FnMut(&[u8], &[u8]) -> Flow,
    ) -> Result<()> {
        // An iterator reads the state at its creation.
        let rows = self
            .database
            .raw_iterator_cf_opt(self.family(table)?, bounds(range));
        scan(&self.path, begin(rows, range), sink)
    }

    fn cursor(&self, table: Table, range: &KeyRange) -> Result<Box<dyn Cursor + '_>> {
        let rows = self
            .database
            .raw_iterator_cf_opt(self.family(table)?, bounds(range));
        Ok(Box::new(RocksCursor {
            path: &self.path,
            rows: begin(rows, range),
            begun: false,
        }))
    }
}

impl Store for RocksStore {
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>> {
        Ok(Box::new(RocksSnapshot {
            store: self,
            snapshot: self.database.snapshot(),
        }))
    }

    fn commit(&self, batch: WriteBatch, durability: Durability) -> Result<()> {
        batch.check()?;
        if batch.is_empty() {
            return Ok(());
        }
        let mut rows = rocksdb::WriteBatch::default();
        for write in batch.iter() {
            let family = self.family(write.table)?;
            match write.value {
                Some(value) => rows.put_cf(family, write.key, value),
                None => rows.delete_cf(family, write.key),
            }
        }
        self.database
            .write_opt(rows, &sync(durability))
            .map_err(|e| self.error("writing to", e))
    }

    fn persist(&self) -> Result<()> {
        self.database
            .flush_wal(true)
            .map_err(|e| self.error("syncing", e))
    }

    fn bulk_load(&self, table: Table) -> Result<Box<dyn BulkLoad + '_>> {
        Ok(Box::new(RocksLoad {
            store: self,
            table,
            options: &self.families[table as usize],
            writer: None,
            files: Vec::new(),
            last: Vec::new(),
        }))
    }

    fn check_writable(&self) -> Result<()> {
        // RocksDB accepts writes again by itself once its disk has room.
        Ok(())
    }

    fn compact(&self) -> Result<()> {
        let mut options = CompactOptions::default();
        // The lowest level is compacted too: it has most superseded rows.
        options.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
        for table in Table::ALL {
            let family = self.family(table)?;
            self.database
                .flush_cf(family)
                .map_err(|e| self.error("flushing", e))?;
            self.database
                .compact_range_cf_opt(family, None::<&[u8]>, None::<&[u8]>, &options);
        }
        Ok(())
    }

    fn checkpoint(&self, directory: &Path) -> Result<u64> {
        prepare_checkpoint(directory)?;
        // RocksDB creates the directory itself, under another name until it is complete.
        let context = |e| disk("writing the checkpoint", directory, e);
        std::fs::remove_dir(directory).map_err(context)?;
        Checkpoint::new(&self.database)
            .and_then(|checkpoint| checkpoint.create_checkpoint(directory))
            .map_err(|e| explain("writing the checkpoint", directory, e))?;
        let mut bytes = 0;
        for entry in std::fs::read_dir(directory).map_err(context)? {
            bytes += entry
                .and_then(|entry| entry.metadata())
                .map_err(context)?
                .len();
        }
        Ok(bytes)
    }

    fn stats(&self) -> Result<StoreStats> {
        let mut table_bytes = Vec::new();
        for table in Table::ALL {
            let rows = self.figure(table, "rocksdb.total-sst-files-size")?;
            let values = self.figure(table, "rocksdb.total-blob-file-size")?;
            table_bytes.push((table, rows + values));
        }
        let context = |e| disk("measuring", &self.path, e);
        let mut log_bytes = 0;
        for entry in std::fs::read_dir(&self.path).map_err(context)? {
            let entry = entry.map_err(context)?;
            if entry.path().extension().is_some_and(|end| end == "log") {
                // RocksDB may remove a log meanwhile.
                log_bytes += entry.metadata().map_or(0, |metadata| metadata.len());
            }
        }
        Ok(StoreStats {
            engine: "rocksdb",
            table_bytes,
            log_bytes,
            cache_bytes: self.shared.cache.get_usage() as u64,
            cache_bytes_max: self.figure(Table::Rows, "rocksdb.block-cache-capacity")?,
            failed: false,
        })
    }
}

struct RocksSnapshot<'a> {
    store: &'a RocksStore,
    snapshot: SnapshotWithThreadMode<'a, rocksdb::DB>,
}

impl Read for RocksSnapshot<'_> {
    fn get_with(&self, table: Table, key: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self
            .snapshot
            .get_pinned_cf(self.store.family(table)?, key)
            .map_err(|e| self.store.error("reading", e))?;
        Ok(value.map(|v| sink(&v)).is_some())
    }

    fn scan(
        &self,
        table: Table,
        range: &KeyRange,
        sink: &mut dyn FnMut(&[u8], &[u8]) -> Flow,
    ) -> Result<()> {
        let family = self.store.family(table)?;
        let rows = self.snapshot.raw_iterator_cf_opt(family, bounds(range));
        scan(&self.store.path, begin(rows, range), sink)
    }

    fn cursor(&self, table: Table, range: &KeyRange) -> Result<Box<dyn Cursor + '_>> {
        let family = self.store.family(table)?;
        let rows = self.snapshot.raw_iterator_cf_opt(family, bounds(range));
        Ok(Box::new(RocksCursor {
            path: &self.store.path,
            rows: begin(rows, range),
            begun: false,
        }))
    }
}

impl Snapshot for RocksSnapshot<'_> {}

struct RocksCursor<'a> {
    path: &'a Path,
    /// The iterator; `None` at the end.
    rows: Option<Rows<'a>>,
    begun: bool,
}

impl Cursor for RocksCursor<'_> {
    fn advance(&mut self) -> Result<bool> {
        let Some(rows) = &mut self.rows else {
            return Ok(false);
        };
        // A new cursor's iterator is at the first row already.
        if self.begun {
            rows.next();
        }
        self.begun = true;
        if rows.valid() {
            return Ok(true);
        }
        let status = rows.status();
        self.rows = None;
        status.map_err(|e| explain("reading", self.path, e))?;
        Ok(false)
    }

    fn key(&self) -> &[u8] {
        self.rows
            .as_ref()
            .and_then(|rows| rows.key())
            .unwrap_or(&[])
    }

    fn value(&self) -> &[u8] {
        self.rows
            .as_ref()
            .and_then(|rows| rows.value())
            .unwrap_or(&[])
    }
}

/// A bulk load into table files, which the database ingests by moving them.
struct RocksLoad<'a> {
    store: &'a RocksStore,
    table: Table,
    options: &'a Options,
    writer: Option<SstFileWriter<'a>>,
    files: Vec<PathBuf>,
    last: Vec<u8>,
}

impl RocksLoad<'_> {
    fn end_file(&mut self) -> Result<()> {
        match self.writer.take() {
            Some(mut writer) => writer
                .finish()
                .map_err(|e| self.store.error("loading into", e)),
            None => Ok(()),
        }
    }
}

impl BulkLoad for RocksLoad<'_> {
    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        check_key(key)?;
        check_value(value)?;
        let store = self.store;
        let last = (!self.files.is_empty()).then_some(self.last.as_slice());
        check_order(last, key)?;
        if self
            .writer
            .as_ref()
            .is_some_and(|writer| writer.file_size() > TABLE_BYTES)
        {
            self.end_file()?;
        }
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => {
                let folder = store.path.join(LOADS);
                std::fs::create_dir_all(&folder).map_err(|e| disk("loading into", &folder, e))?;
                let number = store.loads.fetch_add(1, Ordering::Relaxed);
                let file = folder.join(format!("{number}.sst"));
                let writer = SstFileWriter::create(self.options);
                writer
                    .open(&file)
                    .map_err(|e| store.error("loading into", e))?;
                self.files.push(file);
                none.insert(writer)
            }
        };
        writer
            .put(key, value)
            .map_err(|e| store.error("loading into", e))?;
        self.last.clear();
        self.last.extend_from_slice(key);
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        if self.files.is_empty() {
            return Ok(());
        }
        self.end_file()?;
        let mut options = IngestExternalFileOptions::default();
        options.set_move_files(true);
        options.set_snapshot_consistency(true);
        options.set_allow_blocking_flush(true);
        let family = self.store.family(self.table)?;
        self.store
            .database
            .ingest_external_file_cf_opts(family, &options, self.files.clone())
            .map_err(|e| self.store.error("loading into", e))
    }
}

impl Drop for RocksLoad<'_> {
    fn drop(&mut self) {
        self.writer = None;
        for file in &self.files {
            // Ingested files have been moved away; the others are removed here, or at the next open.
            let _ = std::fs::remove_file(file);
        }
    }
}
