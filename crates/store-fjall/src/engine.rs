//! The fjall database under the seam: opening, closing, one keyspace for each table, memtables within their budget.

use crate::compaction::Compaction;
use crate::error::{disk, explain};
use crate::tuning::{self, Budget};
use esker_model::{Error, Result};
use esker_store::{StoreSettings, Table};
use fjall::{AbstractTree, Database, Keyspace, PersistMode};
use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Files that fjall keeps in a database's directory.
pub(crate) const VERSION_FILE: &str = "version";
pub(crate) const LOCK_FILE: &str = "lock";
pub(crate) const TREES_FOLDER: &str = "keyspaces";

/// What was being done when a write has failed.
pub(crate) const WRITING: &str = "writing to";

/// What fjall counts for a row besides its key and value.
const ROW_OVERHEAD: u64 = 64;
/// A pause of a writer that waits for a flush.
const PAUSE: Duration = Duration::from_millis(1);
/// Flushes of one table that may be under way. fjall itself stops at four, and then for good if its worker has died.
const SEALED_MOST: usize = 2;
/// Runs of L0 at which fjall stops writers until they are merged; short of it, a failed merge is an error.
const RUNS_MOST: usize = 24;
/// A close leaves a log of at most this size to the next open, which reads it whole.
const LOG_LEFT: u64 = 8 << 20;

pub(crate) struct Engine {
    /// Before `database`, so that the threads end first.
    pub(crate) compaction: Compaction,
    /// In the order of [`Table::ALL`].
    tables: Vec<Keyspace>,
    pub(crate) database: Database,
    pub(crate) path: PathBuf,
    pub(crate) budget: Budget,
    /// A write has failed: the database takes no more.
    pub(crate) failed: AtomicBool,
    /// After `database`, so that it finds the log closed.
    log: Log,
}

/// What is in the memtables of a table, by our own count: fjall tells the size of the active one only.
#[derive(Default)]
pub(crate) struct Filling {
    active: u64,
    sealed: VecDeque<u64>,
}

/// The fillings of all tables; whoever writes holds it.
#[derive(Default)]
pub(crate) struct Fillings([Filling; Table::ALL.len()]);

impl Fillings {
    /// Notes rows that are being written, and the bytes of their keys and values.
    pub(crate) fn note(&mut self, table: Table, rows: usize, bytes: usize) {
        self.0[table as usize].active += rows as u64 * ROW_OVERHEAD + bytes as u64;
    }

    fn total(&self) -> u64 {
        self.0
            .iter()
            .map(|filling| filling.active + filling.sealed.iter().sum::<u64>())
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
            // One worker, for flushes: `compaction` has the merges.
            .worker_threads(1)
            .open()
            .map_err(|e| explain(doing, path, e))?;
        let open = |table: Table| {
            database
                .keyspace(table.name(), || tuning::keyspace(table))
                .map_err(|e| explain(doing, path, e))
        };
        let tables: Vec<Keyspace> = Table::ALL.into_iter().map(open).collect::<Result<_>>()?;
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
            log: Log {
                path: path.to_path_buf(),
                obsolete: AtomicBool::new(false),
            },
        })
    }

    pub(crate) fn table(&self, table: Table) -> &Keyspace {
        &self.tables[table as usize]
    }

    pub(crate) fn error(&self, doing: &str, error: fjall::Error) -> Error {
        if doing == WRITING || matches!(error, fjall::Error::Poisoned) {
            self.failed.store(true, Ordering::Release);
        }
        explain(doing, &self.path, error)
    }

    /// The fillings as a fresh process finds them.
    pub(crate) fn fillings(&self) -> Fillings {
        let mut fillings = Fillings::default();
        for (filling, table) in fillings.0.iter_mut().zip(&self.tables) {
            filling.active = table.tree.active_memtable().size();
        }
        fillings
    }

    /// Seals memtables that are full, after rows were written.
    pub(crate) fn seal_full(&self, fillings: &mut Fillings) -> Result<()> {
        for table in Table::ALL {
            if fillings.0[table as usize].active > self.budget.memtable(table) {
                self.seal(table, fillings)?;
            }
        }
        Ok(())
    }

    fn seal(&self, table: Table, fillings: &mut Fillings) -> Result<()> {
        let filling = &mut fillings.0[table as usize];
        let keyspace = self.table(table);
        // fjall seals on its own when the log grows too long, and then our count is too high.
        let size = keyspace.tree.active_memtable().size();
        if size > 0
            && keyspace
                .rotate_memtable()
                .map_err(|e| self.error("flushing", e))?
        {
            filling.sealed.push_back(size);
            self.compaction.wake();
        }
        filling.active = 0;
        Ok(())
    }

    /// Waits until the memtables are within their budget and flushes and merges keep up, before rows are written.
    /// An error if they cannot any more.
    pub(crate) fn make_room(&self, fillings: &mut Fillings) -> Result<()> {
        let mut waited = false;
        loop {
            let mut waiting = false;
            for (filling, table) in fillings.0.iter_mut().zip(&self.tables) {
                if filling.sealed.is_empty() {
                    continue;
                }
                let left = table.tree.sealed_memtable_count();
                let flushed = filling.sealed.len().saturating_sub(left);
                filling.sealed.drain(..flushed);
                waiting |= filling.sealed.len() > SEALED_MOST;
            }
            let over = fillings.total() > self.budget.memtables;
            if over && fillings.0.iter().all(|filling| filling.sealed.is_empty()) {
                let largest = Table::ALL
                    .into_iter()
                    .max_by_key(|table| fillings.0[*table as usize].active);
                if let Some(table) = largest {
                    self.seal(table, fillings)?;
                }
                continue;
            }
            if !waiting && !over {
                return if waited { self.check_runs() } else { Ok(()) };
            }
            // A worker that failed flushes nothing any more; asking for the log's buffer to be written tells.
            self.database
                .persist(PersistMode::Buffer)
                .map_err(|e| self.error(WRITING, e))?;
            waited = true;
            std::thread::sleep(PAUSE);
        }
    }

    /// An error if merges fail and L0 is about to stop all writers.
    fn check_runs(&self) -> Result<()> {
        let crowded = self
            .tables
            .iter()
            .any(|t| t.tree.l0_run_count() >= RUNS_MOST);
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

    /// Flushes everything and waits for it. The caller keeps writers away, or accepts that later rows stay behind.
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

    /// Merges all tables into one level, and drops what no snapshot sees.
    pub(crate) fn compact(&self) -> Result<()> {
        self.flush()?;
        // fjall looks which snapshots are left when it has closed 10,000 of them, or when it seals a memtable that
        // holds something. Without this, rows that a snapshot kept until a moment ago would stay until the next time.
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
        let long = self.log.bytes().is_ok_and(|bytes| bytes > LOG_LEFT);
        if long && self.flush().is_ok() {
            self.log.obsolete.store(true, Ordering::Relaxed);
        }
    }
}

/// The log files of a database, `<number>.jnl`.
///
/// fjall reads them whole when it opens, also what has been flushed since, and removes one only when the next 64 MiB are
/// full. That is up to a quarter of a second for every command that opens the database, and is spared here.
struct Log {
    path: PathBuf,
    /// Everything in it lies in tables, and the database is being closed.
    obsolete: AtomicBool,
}

impl Log {
    /// The files, oldest first.
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

    /// Empties the log; oldest first, so that a crash leaves an end of it and never a part that later entries took back. One
    /// empty file stays: without any, fjall numbers commits from zero.
    fn empty(&self) -> std::io::Result<()> {
        let lock = File::options()
            .write(true)
            .open(self.path.join(LOCK_FILE))?;
        if lock.try_lock().is_err() {
            // Someone has opened the database since.
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
            // What is left of it is read by the next open, and does no harm.
            let _ = self.empty();
        }
    }
}

/// fjall writes its version file last. A directory without one, but with a log, is a creation that was cut short, and fjall
/// would neither open it nor create over it. Nothing was acknowledged from it.
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
