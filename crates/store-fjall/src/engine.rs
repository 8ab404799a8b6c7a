//! The fjall database below the store: opening, closing, one keyspace for each table, memtables within their budget.

use crate::compaction::Compaction;
use crate::error::{disk, explain};
use crate::memtable_filter::{FilterWriter, MemtableFilter};
use crate::tuning::{self, Budget};
use esker_model::{Error, Result};
use esker_store::{StoreSettings, Table};
use fjall::{AbstractTree, Database, Keyspace, PersistMode};
use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Names of files in a fjall database's directory.
pub(crate) const VERSION_FILE: &str = "version";
pub(crate) const LOCK_FILE: &str = "lock";
pub(crate) const TREES_FOLDER: &str = "keyspaces";

/// Operation named in the error of a failed write.
pub(crate) const WRITING: &str = "writing to";

/// Bytes that fjall counts for a row besides its key and value.
const ROW_OVERHEAD: u64 = 64;
/// Pause of a writer that waits for a flush.
const PAUSE: Duration = Duration::from_millis(1);
/// Largest number of flushes of one table under way. fjall itself stops at four, and for good if its worker has died.
const SEALED_MEMTABLES_MAX: usize = 2;
/// Number of L0 runs at which fjall stops writers until they are merged; below it, a failed merge is an error.
const L0_RUNS_MAX: usize = 24;
/// A close leaves a log of at most this size, which the next open reads whole.
const LOG_KEPT_BYTES: u64 = 8 << 20;

pub(crate) struct Engine {
    /// Declared before `database`, so that the threads end first.
    pub(crate) compaction: Compaction,
    /// Keyspaces in the order of [`Table::ALL`].
    tables: Vec<Keyspace>,
    pub(crate) database: Database,
    pub(crate) path: PathBuf,
    pub(crate) budget: Budget,
    /// Keys of table `rows` that are in memtables.
    pub(crate) row_filter: MemtableFilter,
    /// Whether a write has failed: the database then accepts no more.
    failed: AtomicBool,
    /// Declared after `database`, so that its drop finds the log closed.
    log: Log,
}

/// Memtable usage of one table by our own count: fjall reports the size of the active one only.
#[derive(Default)]
pub(crate) struct MemtableUsage {
    active: u64,
    sealed: VecDeque<u64>,
}

/// Memtable usage of all tables, which belongs to the holder of the write lock.
#[derive(Default)]
pub(crate) struct MemtableUsages {
    tables: [MemtableUsage; Table::ALL.len()],
    /// The writer's part of the engine's `row_filter`.
    pub(crate) row_filter: FilterWriter,
}

impl MemtableUsages {
    /// Counts rows that are being written, with the bytes of their keys and values.
    pub(crate) fn note(&mut self, table: Table, rows: usize, bytes: usize) {
        self.tables[table as usize].active += rows as u64 * ROW_OVERHEAD + bytes as u64;
    }

    fn total(&self) -> u64 {
        self.tables
            .iter()
            .map(|usage| usage.active + usage.sealed.iter().sum::<u64>())
            .sum()
    }
}

impl Engine {
    pub(crate) fn open(path: &Path, settings: &StoreSettings, create: bool) -> Result<Self> {
        let exists = path
            .join(VERSION_FILE)
            .try_exists()
            .map_err(|e| disk("opening", path, e))?;
        if !exists && !create {
            return Err(Error::Target(format!(
                "{} holds no fjall database",
                path.display()
            )));
        }
        if !exists {
            clear_interrupted_creation(path).map_err(|e| disk("creating", path, e))?;
        }
        let doing = if exists { "opening" } else { "creating" };
        let budget = Budget::new(settings);
        let database = Database::builder(path)
            .cache_size(budget.cache)
            .max_cached_files(Some(tuning::OPEN_FILES))
            .max_journaling_size(tuning::LOG_BYTES)
            // One worker, for flushes: `compaction` runs the merges.
            .worker_threads(1)
            .open()
            .map_err(|e| explain(doing, path, e))?;
        let open = |table: Table| {
            database
                .keyspace(table.name(), || tuning::keyspace(table))
                .map_err(|e| explain(doing, path, e))
        };
        let tables: Vec<Keyspace> = Table::ALL.into_iter().map(open).collect::<Result<_>>()?;
        // After a crash, fjall fills memtables from the log. Some of them may be sealed, and wait to be flushed.
        let rows = &tables[Table::Rows as usize].tree;
        let is_empty = rows.sealed_memtable_count() == 0 && rows.active_memtable().is_empty();
        let row_filter = MemtableFilter::new(budget.memtable(Table::Rows), is_empty);
        let threads = settings.threads.saturating_sub(1).clamp(1, 8);
        let compaction = Compaction::start(&database, &tables, threads)
            .map_err(|e| disk("starting threads for", path, e))?;
        Ok(Self {
            compaction,
            tables,
            database,
            path: path.to_path_buf(),
            failed: AtomicBool::new(false),
            budget,
            row_filter,
            log: Log {
                path: path.to_path_buf(),
                obsolete: AtomicBool::new(false),
            },
        })
    }

    pub(crate) fn table(&self, table: Table) -> &Keyspace {
        &self.tables[table as usize]
    }

    /// Returns an error if a write has failed.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.failed.load(Ordering::Acquire) {
            return Err(explain(WRITING, &self.path, fjall::Error::Poisoned));
        }
        Ok(())
    }

    pub(crate) fn error(&self, doing: &str, error: fjall::Error) -> Error {
        if doing == WRITING || matches!(error, fjall::Error::Poisoned) {
            self.failed.store(true, Ordering::Release);
        }
        explain(doing, &self.path, error)
    }

    /// Returns the usage after opening.
    pub(crate) fn usages(&self) -> MemtableUsages {
        let mut usages = MemtableUsages::default();
        self.measure(&mut usages);
        usages
    }

    /// Sets the usage to that after opening, or after a flush.
    pub(crate) fn measure(&self, usages: &mut MemtableUsages) {
        for (usage, table) in usages.tables.iter_mut().zip(&self.tables) {
            usage.active = table.tree.active_memtable().size();
            usage.sealed.clear();
        }
    }

    /// Seals full memtables after rows were committed. A failure says nothing about the commit, so it is not the commit's: the next write
    /// seals first, and reports it.
    pub(crate) fn seal_full_after_commit(&self, usages: &mut MemtableUsages) {
        let _ = self.seal_full(usages);
    }

    /// Seals the memtable of each table whose memtable is full.
    pub(crate) fn seal_full(&self, usages: &mut MemtableUsages) -> Result<()> {
        for table in Table::ALL {
            if usages.tables[table as usize].active > self.budget.memtable(table) {
                self.seal(table, usages)?;
            }
        }
        Ok(())
    }

    fn seal(&self, table: Table, usages: &mut MemtableUsages) -> Result<()> {
        let keyspace = self.table(table);
        // fjall also seals on its own when the log grows too long; our count is too high then.
        let size = keyspace.tree.active_memtable().size();
        if size > 0
            && keyspace
                .rotate_memtable()
                .map_err(|e| self.error("flushing", e))?
        {
            usages.tables[table as usize].sealed.push_back(size);
            if table == Table::Rows {
                let unflushed = keyspace.tree.sealed_memtable_count();
                self.row_filter.seal(&mut usages.row_filter, unflushed);
            }
            self.compaction.wake();
        }
        usages.tables[table as usize].active = 0;
        Ok(())
    }

    /// Waits before a write until the memtables are within their budget and flushes and merges keep up. Returns an
    /// error if they no longer can.
    pub(crate) fn wait_for_memtable_space(&self, usages: &mut MemtableUsages) -> Result<()> {
        self.seal_full(usages)?;
        let mut waited = false;
        loop {
            let mut waiting = false;
            for (usage, table) in usages.tables.iter_mut().zip(&self.tables) {
                if usage.sealed.is_empty() {
                    continue;
                }
                let left = table.tree.sealed_memtable_count();
                let flushed = usage.sealed.len().saturating_sub(left);
                usage.sealed.drain(..flushed);
                waiting |= usage.sealed.len() > SEALED_MEMTABLES_MAX;
            }
            let over = usages.total() > self.budget.memtables;
            if over && usages.tables.iter().all(|usage| usage.sealed.is_empty()) {
                let largest = Table::ALL
                    .into_iter()
                    .max_by_key(|table| usages.tables[*table as usize].active);
                if let Some(table) = largest {
                    self.seal(table, usages)?;
                }
                continue;
            }
            if !waiting && !over {
                return if waited { self.check_runs() } else { Ok(()) };
            }
            // A failed worker flushes nothing any more; a request to write the log's buffer reveals the failure.
            self.database
                .persist(PersistMode::Buffer)
                .map_err(|e| self.error(WRITING, e))?;
            waited = true;
            std::thread::sleep(PAUSE);
        }
    }

    /// Returns an error if merges fail and L0 is about to stop all writers.
    fn check_runs(&self) -> Result<()> {
        let crowded = self
            .tables
            .iter()
            .any(|t| t.tree.l0_run_count() >= L0_RUNS_MAX);
        match self.compaction.failure() {
            Some(failure) if crowded => Err(Error::Store {
                engine: "fjall",
                message: format!(
                    "{} takes no writes while its tables cannot be merged: {failure}",
                    self.path.display()
                ),
            }),
            _ => Ok(()),
        }
    }

    /// Flushes everything and waits for it. The caller must block writers, or accept that later rows are not flushed.
    pub(crate) fn flush(&self) -> Result<()> {
        for keyspace in &self.tables {
            keyspace
                .rotate_memtable()
                .map_err(|e| self.error("flushing", e))?;
        }
        self.compaction.wake();
        while self
            .tables
            .iter()
            .any(|t| t.tree.sealed_memtable_count() > 0)
        {
            self.database
                .persist(PersistMode::Buffer)
                .map_err(|e| self.error("flushing", e))?;
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Merges all tables into one level, and drops rows that no snapshot sees.
    pub(crate) fn compact(&self) -> Result<()> {
        self.flush()?;
        // fjall checks which snapshots are left after 10,000 of them were closed, or when it seals a memtable that is
        // not empty. Without this loop, rows that a just closed snapshot kept would stay until the next compaction.
        for _ in 0..10_000 {
            drop(self.database.snapshot());
        }
        for keyspace in &self.tables {
            keyspace
                .major_compact()
                .map_err(|e| self.error("compacting", e))?;
        }
        Ok(())
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // A failure loses nothing: the rows are in the log, which then stays.
        let long = self.log.bytes().is_ok_and(|bytes| bytes > LOG_KEPT_BYTES);
        if long && self.flush().is_ok() {
            self.log.obsolete.store(true, Ordering::Relaxed);
        }
    }
}

/// The log files of a database, `<number>.jnl`.
///
/// fjall reads them whole when it opens, including rows that have been flushed since, and removes one only when the
/// next 64 MiB are full. That takes up to a quarter of a second for every command that opens the database, which this
/// type avoids.
struct Log {
    path: PathBuf,
    /// Whether all its rows are in tables and the database is being closed.
    obsolete: AtomicBool,
}

impl Log {
    /// Returns the files, oldest first.
    fn files(&self) -> std::io::Result<Vec<(u64, PathBuf)>> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            let path = entry?.path();
            let number = path
                .file_stem()
                .and_then(|stem| stem.to_str()?.parse().ok());
            if let (Some(number), true) = (number, path.extension().is_some_and(|e| e == "jnl")) {
                files.push((number, path));
            }
        }
        files.sort();
        Ok(files)
    }

    fn bytes(&self) -> std::io::Result<u64> {
        let mut bytes = 0;
        for (_, path) in self.files()? {
            bytes += path.metadata()?.len();
        }
        Ok(bytes)
    }

    /// Removes the log files, oldest first, so that a crash leaves the end of the log and never a part that later
    /// entries reverted. One empty file stays: without any, fjall numbers commits from zero.
    fn empty(&self) -> std::io::Result<()> {
        let lock = File::options()
            .write(true)
            .open(self.path.join(LOCK_FILE))?;
        if lock.try_lock().is_err() {
            // Another process has opened the database since.
            return Ok(());
        }
        let mut files = self.files()?;
        let last = files.pop();
        for (_, path) in files {
            std::fs::remove_file(path)?;
        }
        if let Some((_, path)) = last {
            let file = File::options().write(true).open(path)?;
            file.set_len(0)?;
            file.sync_all()?;
        }
        File::open(&self.path)?.sync_all()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if self.obsolete.load(Ordering::Relaxed) {
            // The next open reads the remaining files, which does no harm.
            let _ = self.empty();
        }
    }
}

/// Removes the log of an interrupted creation. fjall writes its version file last; a directory without one but with a
/// log was not created completely, and fjall would neither open it nor create over it. Nothing in it was acknowledged.
fn clear_interrupted_creation(path: &Path) -> std::io::Result<()> {
    let log = path.join("0.jnl");
    if !log.try_exists()? {
        return Ok(());
    }
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path.join(LOCK_FILE))?;
    if lock.try_lock().is_ok() && !path.join(VERSION_FILE).try_exists()? {
        std::fs::remove_file(log)?;
    }
    Ok(())
}
