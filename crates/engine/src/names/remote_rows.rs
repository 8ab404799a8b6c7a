//! A namespace distributed over several engines, of which this one has some rows.
//!
//! Changes and reads run as if all rows were local. A missing row stops the run, which returns what it needs; the host
//! fetches that and runs it again. A change whose rows are all local is committed at once. Any other becomes a list of rows to
//! write, each with a digest of the value that was read: the host commits them on all engines concerned, if they are unchanged.

use super::directory::Directories;
use crate::txn::lock;
use esker_model::key::Measure;
use esker_model::namespace::digest;
use esker_model::namespace::record::decode_inode_history_prefix;
use esker_model::{Error, Flow, Op, Result, Version, Vertex, VertexId};
use esker_store::{
    BulkLoad, Cursor, Durability, KeyRange, Read, Snapshot, Store, StoreStats, Table, WriteBatch,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;

/// Location of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowLocation {
    /// This engine has the row.
    Local,
    /// Another engine has the row.
    Remote,
    /// Undecided until an operation in progress has ended.
    Busy,
}

/// Placement of rows, as the host knows it.
pub trait RowPlacement: Sync {
    /// Returns the location of a row of table `names`.
    fn locate(&self, key: &[u8]) -> RowLocation;
    /// Whether this engine maintains the sums of a directory; reads of these sums go to it.
    fn sums(&self, directory: VertexId) -> bool;
    /// Whether a vertex, if it exists, is stored on this engine.
    fn is_home(&self, id: VertexId) -> bool;
    /// Whether this engine has all rows, because there is no other.
    fn is_sole_engine(&self) -> bool;
    /// Whether reads and changes must wait: directories are being moved, removed or given other permissions.
    fn busy(&self) -> bool;
    /// Returns a version later than all before.
    fn version(&self) -> Version;
}

/// Data needed from other engines.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// A row of table `names`, by key.
    Row(Vec<u8>),
    /// Sums of a directory's content over all engines.
    Sums(VertexId),
    /// The present vertex of a file.
    Vertex(VertexId),
}

/// Sums of a directory; those of several engines are added (see [`DirectorySums::add`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DirectorySums {
    /// Numbers of files and directories, bytes and blocks; one engine's share may be negative.
    pub sums: [i64; 4],
    /// Time at which an entry was last added or removed, in nanoseconds since 1970.
    pub changed: i64,
}

impl DirectorySums {
    /// Adds the sums of another engine.
    pub fn add(&mut self, other: &Self) {
        for (sum, n) in self.sums.iter_mut().zip(other.sums) {
            *sum = sum.wrapping_add(n);
        }
        self.changed = self.changed.max(other.changed);
    }

    /// Returns the sum of one measure.
    pub fn of(&self, measure: Measure) -> i64 {
        match measure {
            Measure::Changed => self.changed,
            sum => self.sums.get(sum as usize).copied().unwrap_or(0),
        }
    }
}

/// Data fetched from other engines.
#[derive(Debug, Clone, Default)]
pub struct RemoteData {
    /// Epoch of the directory cache at the time of fetching; data of another epoch is invalid.
    pub epoch: u64,
    /// Rows by key; `None` if there is no such row.
    pub rows: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// Sums of directories by id.
    pub sums: BTreeMap<VertexId, DirectorySums>,
    /// Vertices by id; `None` if there is no such vertex.
    pub vertices: BTreeMap<VertexId, Option<Vertex>>,
}

/// Result of a run over partly remote rows.
#[derive(Debug)]
pub enum RunResult<T> {
    /// The run is complete.
    Ended(T),
    /// The run stopped; it needs this data first.
    Needs(Vec<Need>),
    /// The run must wait for an operation in progress.
    Busy,
}

/// A store of which other engines have some rows.
pub(crate) struct PartialStore<'a> {
    store: &'a dyn Store,
    placement: &'a dyn RowPlacement,
    fetched: Option<&'a RemoteData>,
    notes: Mutex<RunNotes>,
}

#[derive(Debug, Default)]
struct RunNotes {
    needs: Vec<Need>,
    busy: bool,
    /// Digests of the values read, by key.
    read: BTreeMap<Vec<u8>, u64>,
    empty: BTreeSet<VertexId>,
    ops: Vec<Op>,
    /// Entries that were put, as directory and hash of the name.
    put: Vec<(VertexId, u64)>,
}

/// Error that stops a run; the caller gets the reason from [`PartialStore::take_stop`].
pub(super) fn stopped_error() -> Error {
    Error::Unavailable("a row of the namespace is on another server; try again".into())
}

impl<'a> PartialStore<'a> {
    pub(crate) fn new(
        store: &'a dyn Store,
        placement: &'a dyn RowPlacement,
        fetched: Option<&'a RemoteData>,
    ) -> Self {
        Self {
            store,
            placement,
            fetched,
            notes: Mutex::default(),
        }
    }

    /// Epoch of the fetched data.
    pub(crate) fn epoch(&self) -> Option<u64> {
        self.fetched.map(|f| f.epoch)
    }

    /// Returns a committed sum of a directory over all engines.
    pub(super) fn sum(&self, directory: VertexId, measure: Measure) -> Result<u64> {
        let sums = self.fetched.and_then(|f| f.sums.get(&directory));
        if let Some(sums) = sums {
            return Ok(sums.of(measure).cast_unsigned());
        }
        lock(&self.notes).needs.push(Need::Sums(directory));
        Err(stopped_error())
    }

    /// Requires that a directory is empty on all engines.
    pub(super) fn empty(&self, directory: VertexId) {
        lock(&self.notes).empty.insert(directory);
    }

    /// Returns the vertex of a file, unless it was deleted.
    pub(super) fn vertex(&self, id: VertexId) -> Result<Option<Vertex>> {
        if let Some(vertex) = self.fetched.and_then(|f| f.vertices.get(&id)) {
            return Ok(vertex.clone().filter(|v| !v.deleted));
        }
        lock(&self.notes).needs.push(Need::Vertex(id));
        Err(stopped_error())
    }

    /// Whether a vertex, if it exists, is stored on this engine.
    pub(super) fn is_home(&self, id: VertexId) -> bool {
        self.placement.is_home(id)
    }

    /// Adds a change of a file's vertex to the plan, whichever engine has the vertex.
    pub(super) fn change_vertex(&self, op: Op) {
        lock(&self.notes).ops.push(op);
    }

    /// Records that a directory gets an entry, or that the row of an entry is replaced.
    pub(super) fn note_put(&self, directory: VertexId, hash: u64) {
        lock(&self.notes).put.push((directory, hash));
    }

    /// Returns and clears the entries that were put.
    pub(super) fn take_put(&self) -> Vec<(VertexId, u64)> {
        std::mem::take(&mut lock(&self.notes).put)
    }

    /// Returns and clears the reason why the run stopped, if it did.
    pub(super) fn take_stop<T>(&self) -> Option<RunResult<T>> {
        let mut notes = lock(&self.notes);
        let mut needs = std::mem::take(&mut notes.needs);
        needs.sort_unstable();
        needs.dedup();
        if std::mem::take(&mut notes.busy) {
            return Some(RunResult::Busy);
        }
        (!needs.is_empty()).then_some(RunResult::Needs(needs))
    }

    /// Whether the run was stopped by a remote row. Parts of the run that are independent of the row may continue, to collect more
    /// needs at once.
    pub(super) fn is_stopped(&self) -> bool {
        let notes = lock(&self.notes);
        notes.busy || !notes.needs.is_empty()
    }

    /// Digest of the value read from a row.
    pub(super) fn read_of(&self, key: &[u8]) -> Option<u64> {
        lock(&self.notes).read.get(key).copied()
    }

    pub(super) fn into_requirements(self) -> (Vec<VertexId>, Vec<Op>) {
        let notes = self.notes.into_inner();
        let notes = notes.unwrap_or_else(std::sync::PoisonError::into_inner);
        (notes.empty.into_iter().collect(), notes.ops)
    }

    fn note_read(&self, key: &[u8], value: Option<&[u8]>) {
        lock(&self.notes).read.insert(key.to_vec(), digest(value));
    }

    fn names_row(&self, key: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<bool> {
        if decode_inode_history_prefix(key).is_some() {
            // A past state is stored on the engine that wrote it, which may be any: the newest one over all engines counts.
            let Some(value) = self.fetched.and_then(|f| f.rows.get(key)) else {
                lock(&self.notes).needs.push(Need::Row(key.to_vec()));
                return Err(stopped_error());
            };
            return Ok(value.as_deref().map(sink).is_some());
        }
        match self.placement.locate(key) {
            RowLocation::Local => {}
            RowLocation::Busy => {
                lock(&self.notes).busy = true;
                return Err(stopped_error());
            }
            RowLocation::Remote => {
                let Some(value) = self.fetched.and_then(|f| f.rows.get(key)) else {
                    lock(&self.notes).needs.push(Need::Row(key.to_vec()));
                    return Err(stopped_error());
                };
                self.note_read(key, value.as_deref());
                return Ok(value.as_deref().map(sink).is_some());
            }
        }
        if self.fetched.is_none() {
            let found = self.store.get_with(Table::Names, key, sink)?;
            return self.check_unmoved(key).map(|()| found);
        }
        let mut read = 0;
        let found = self.store.get_with(Table::Names, key, &mut |value| {
            read = digest(Some(value));
            sink(value);
        })?;
        lock(&self.notes).read.insert(key.to_vec(), read);
        self.check_unmoved(key).map(|()| found)
    }

    /// Checks that the row just read was not moved to another engine meanwhile.
    fn check_unmoved(&self, key: &[u8]) -> Result<()> {
        if self.placement.locate(key) == RowLocation::Local {
            return Ok(());
        }
        lock(&self.notes).busy = true;
        Err(stopped_error())
    }
}

impl Read for PartialStore<'_> {
    fn get_with(&self, table: Table, key: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<bool> {
        if table == Table::Names {
            return self.names_row(key, sink);
        }
        self.store.get_with(table, key, sink)
    }

    fn scan(
        &self,
        table: Table,
        range: &KeyRange,
        sink: &mut dyn FnMut(&[u8], &[u8]) -> Flow,
    ) -> Result<()> {
        self.store.scan(table, range, sink)
    }

    fn cursor(&self, table: Table, range: &KeyRange) -> Result<Box<dyn Cursor + '_>> {
        self.store.cursor(table, range)
    }
}

impl Store for PartialStore<'_> {
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>> {
        self.store.snapshot()
    }
    fn commit(&self, batch: WriteBatch, durability: Durability) -> Result<()> {
        self.store.commit(batch, durability)
    }
    fn persist(&self) -> Result<()> {
        self.store.persist()
    }
    fn bulk_load(&self, table: Table) -> Result<Box<dyn BulkLoad + '_>> {
        self.store.bulk_load(table)
    }
    fn compact(&self) -> Result<()> {
        self.store.compact()
    }
    fn checkpoint(&self, directory: &Path) -> Result<u64> {
        self.store.checkpoint(directory)
    }
    fn stats(&self) -> Result<StoreStats> {
        self.store.stats()
    }
}

/// Whether fetched data is valid: no directory was moved, removed or given other permissions since then.
pub(super) fn is_current(fetched: &RemoteData, directories: &Directories) -> bool {
    fetched.epoch == directories.epoch()
}

/// Returns the result of a run, or the reason why it stopped.
pub(super) fn finish_run<T>(partial: &PartialStore<'_>, result: Result<T>) -> Result<RunResult<T>> {
    match result {
        Ok(value) => Ok(RunResult::Ended(value)),
        Err(e) => partial.take_stop().ok_or(e),
    }
}
