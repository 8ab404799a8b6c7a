//! A namespace spread over many engines: this one has some of its rows.
//!
//! Changes and questions run as if all rows were here. A row that is not stops the run, which says what it needs; the host
//! fetches it and runs it again. A change whose rows all lie here is committed at once. Any other becomes a list of rows to
//! write, each with what was read of it: the host commits them on all engines that they lie on, if they are still the same.

use super::directory::Directories;
use crate::txn::lock;
use esker_model::key::Measure;
use esker_model::namespace::digest;
use esker_model::namespace::record::of_past;
use esker_model::{Error, Flow, Op, Result, Version, Vertex, VertexId};
use esker_store::{
    BulkLoad, Cursor, Durability, KeyRange, Read, Snapshot, Store, StoreStats, Table, WriteBatch,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;

/// Where a row lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowPlace {
    /// In this engine.
    Here,
    /// In another.
    Elsewhere,
    /// Here, or not, once something that is under way has ended.
    Busy,
}

/// What the host knows of where rows lie.
pub trait Placed: Sync {
    /// Where a row of table `names` lies.
    fn place(&self, key: &[u8]) -> RowPlace;
    /// Whether this engine may keep sums of a directory: whoever asks for them asks it.
    fn sums(&self, directory: VertexId) -> bool;
    /// Whether this engine has a vertex, if there is one.
    fn is_home(&self, id: VertexId) -> bool;
    /// Whether all rows lie here: there is no other engine.
    fn alone(&self) -> bool;
    /// Whether nothing may be read or changed now: directories are moved, removed or get other permissions.
    fn busy(&self) -> bool;
    /// A version later than all before.
    fn version(&self) -> Version;
}

/// What is needed of other engines.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// A row of table `names`.
    Row(Vec<u8>),
    /// What a directory holds, over all engines.
    Sums(VertexId),
    /// The vertex of a file, as it is now.
    Vertex(VertexId),
}

/// Sums of a directory; those of several engines are added up (see [`DirectorySums::add`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DirectorySums {
    /// Files, directories, bytes, blocks: one engine's may be below zero.
    pub sums: [i64; 4],
    /// When something last came or went, in nanoseconds since 1970.
    pub changed: i64,
}

impl DirectorySums {
    /// Adds another engine's.
    pub fn add(&mut self, other: &Self) {
        for (sum, n) in self.sums.iter_mut().zip(other.sums) {
            *sum = sum.wrapping_add(n);
        }
        self.changed = self.changed.max(other.changed);
    }

    /// One of them.
    pub fn of(&self, measure: Measure) -> i64 {
        match measure {
            Measure::Changed => self.changed,
            sum => self.sums.get(sum as usize).copied().unwrap_or(0),
        }
    }
}

/// What was fetched from other engines.
#[derive(Debug, Clone, Default)]
pub struct Fetched {
    /// Directories known then; what was read in another epoch counts no more.
    pub epoch: u64,
    /// Rows, or that there are none.
    pub rows: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// Sums of directories.
    pub sums: BTreeMap<VertexId, DirectorySums>,
    /// Vertices, or that there are none.
    pub vertices: BTreeMap<VertexId, Option<Vertex>>,
}

/// What came of a run.
#[derive(Debug)]
pub enum Ran<T> {
    /// It ended.
    Ended(T),
    /// This is needed first.
    Needs(Vec<Need>),
    /// Something under way has to end first.
    Busy,
}

/// A store of which some rows lie elsewhere.
pub(crate) struct Apart<'a> {
    store: &'a dyn Store,
    placed: &'a dyn Placed,
    fetched: Option<&'a Fetched>,
    notes: Mutex<Notes>,
}

#[derive(Debug, Default)]
struct Notes {
    needs: Vec<Need>,
    busy: bool,
    /// What was read, by key: a digest of each value.
    read: BTreeMap<Vec<u8>, u64>,
    empty: BTreeSet<VertexId>,
    ops: Vec<Op>,
    /// Entries that were put: directories and hashes.
    put: Vec<(VertexId, u64)>,
}

/// Whoever gets this looks at [`Apart::trouble`].
pub(super) fn stopped() -> Error {
    Error::Unavailable("a row of the namespace lies elsewhere; try again".into())
}

impl<'a> Apart<'a> {
    pub(crate) fn new(
        store: &'a dyn Store,
        placed: &'a dyn Placed,
        fetched: Option<&'a Fetched>,
    ) -> Self {
        Self {
            store,
            placed,
            fetched,
            notes: Mutex::default(),
        }
    }

    /// Of which epoch what was fetched is.
    pub(crate) fn epoch(&self) -> Option<u64> {
        self.fetched.map(|f| f.epoch)
    }

    /// A sum of a directory over all engines, as it is committed.
    pub(super) fn sum(&self, directory: VertexId, measure: Measure) -> Result<u64> {
        let sums = self.fetched.and_then(|f| f.sums.get(&directory));
        if let Some(sums) = sums {
            return Ok(sums.of(measure).cast_unsigned());
        }
        lock(&self.notes).needs.push(Need::Sums(directory));
        Err(stopped())
    }

    /// A directory has to be empty on all engines.
    pub(super) fn empty(&self, directory: VertexId) {
        lock(&self.notes).empty.insert(directory);
    }

    /// The vertex of a file, unless it was deleted.
    pub(super) fn vertex(&self, id: VertexId) -> Result<Option<Vertex>> {
        if let Some(vertex) = self.fetched.and_then(|f| f.vertices.get(&id)) {
            return Ok(vertex.clone().filter(|v| !v.deleted));
        }
        lock(&self.notes).needs.push(Need::Vertex(id));
        Err(stopped())
    }

    /// Whether this engine has a vertex, if there is one.
    pub(super) fn is_home(&self, id: VertexId) -> bool {
        self.placed.is_home(id)
    }

    /// The vertex of a file changes with it, wherever it is.
    pub(super) fn change_vertex(&self, op: Op) {
        lock(&self.notes).ops.push(op);
    }

    /// A directory gets an entry, or one that it has gets another row.
    pub(super) fn note_put(&self, directory: VertexId, hash: u64) {
        lock(&self.notes).put.push((directory, hash));
    }

    /// Entries that were put since this was last asked.
    pub(super) fn take_put(&self) -> Vec<(VertexId, u64)> {
        std::mem::take(&mut lock(&self.notes).put)
    }

    /// Why a run was stopped, if it was; forgets it.
    pub(super) fn trouble<T>(&self) -> Option<Ran<T>> {
        let mut notes = lock(&self.notes);
        let mut needs = std::mem::take(&mut notes.needs);
        needs.sort_unstable();
        needs.dedup();
        if std::mem::take(&mut notes.busy) {
            return Some(Ran::Busy);
        }
        (!needs.is_empty()).then_some(Ran::Needs(needs))
    }

    /// Whether a run was stopped by a row that is not here. What needs nothing of it may go on, so that more is known of what is
    /// needed.
    pub(super) fn is_stopped(&self) -> bool {
        let notes = lock(&self.notes);
        notes.busy || !notes.needs.is_empty()
    }

    /// What was read of a row.
    pub(super) fn read_of(&self, key: &[u8]) -> Option<u64> {
        lock(&self.notes).read.get(key).copied()
    }

    pub(super) fn into_found(self) -> (Vec<VertexId>, Vec<Op>) {
        let notes = self.notes.into_inner();
        let notes = notes.unwrap_or_else(std::sync::PoisonError::into_inner);
        (notes.empty.into_iter().collect(), notes.ops)
    }

    fn note_read(&self, key: &[u8], value: Option<&[u8]>) {
        lock(&self.notes).read.insert(key.to_vec(), digest(value));
    }

    fn names_row(&self, key: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<bool> {
        if of_past(key).is_some() {
            // States lie where they were written, which may be anywhere: the newest one of all engines is meant.
            let Some(value) = self.fetched.and_then(|f| f.rows.get(key)) else {
                lock(&self.notes).needs.push(Need::Row(key.to_vec()));
                return Err(stopped());
            };
            return Ok(value.as_deref().map(sink).is_some());
        }
        match self.placed.place(key) {
            RowPlace::Here => {}
            RowPlace::Busy => {
                lock(&self.notes).busy = true;
                return Err(stopped());
            }
            RowPlace::Elsewhere => {
                let Some(value) = self.fetched.and_then(|f| f.rows.get(key)) else {
                    lock(&self.notes).needs.push(Need::Row(key.to_vec()));
                    return Err(stopped());
                };
                self.note_read(key, value.as_deref());
                return Ok(value.as_deref().map(sink).is_some());
            }
        }
        if self.fetched.is_none() {
            let found = self.store.get_with(Table::Names, key, sink)?;
            return self.still(key).map(|()| found);
        }
        let mut read = 0;
        let found = self.store.get_with(Table::Names, key, &mut |value| {
            read = digest(Some(value));
            sink(value);
        })?;
        lock(&self.notes).read.insert(key.to_vec(), read);
        self.still(key).map(|()| found)
    }

    /// A row that was read here is here: nothing moved it meanwhile.
    fn still(&self, key: &[u8]) -> Result<()> {
        if self.placed.place(key) == RowPlace::Here {
            return Ok(());
        }
        lock(&self.notes).busy = true;
        Err(stopped())
    }
}

impl Read for Apart<'_> {
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

impl Store for Apart<'_> {
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

/// What is fetched counts as long as no directory was moved, removed or given other permissions since.
pub(super) fn is_current(fetched: &Fetched, directories: &Directories) -> bool {
    fetched.epoch == directories.epoch()
}

/// A run that met a row that is elsewhere is no answer to anybody.
pub(super) fn ended<T>(apart: &Apart<'_>, result: Result<T>) -> Result<Ran<T>> {
    match result {
        Ok(value) => Ok(Ran::Ended(value)),
        Err(e) => apart.trouble().ok_or(e),
    }
}
