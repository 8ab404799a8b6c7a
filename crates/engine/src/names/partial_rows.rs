//! The row source of an engine that has a part of a distributed namespace: its own rows, and those that the host fetched.
//!
//! Data that is missing stops the run, which returns what it needs; the host fetches that and runs it again.

use super::directory::Directories;
use super::rows::NameRows;
use super::source::{EntrySink, LocalStop, RowSource};
use crate::Engine;
use crate::txn::Overlay;
use esker_model::key::Measure;
use esker_model::namespace::record::decode_inode_history_prefix;
use esker_model::namespace::{Cookie, Name, digest};
use esker_model::record::UserAttribute;
use esker_model::{Error, Op, Result, Version, Vertex, VertexId, wire_struct};
use esker_store::Table;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

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
    /// Whether a vertex, if it exists, is stored on this engine.
    fn is_home(&self, id: VertexId) -> bool;
    /// Whether this engine has all rows, because there is no other.
    fn is_sole_engine(&self) -> bool;
    /// Whether reads and changes must wait: directories are being moved, removed or given other permissions.
    fn busy(&self) -> bool;
    /// Returns a version later than all before.
    fn version(&self) -> Version;
}

/// Key and value of the row of an entry.
pub type RawEntry = (Vec<u8>, Vec<u8>);

/// Cursor of a listing: a hash, and the number within it of the entry before, if there is one.
pub type ListCursor = (u64, Option<u8>);

/// The entries of a directory from a cursor on.
pub type EntriesFrom = (VertexId, ListCursor);

/// Entries in the order of their keys, and the cursor of the next ones; `None` at the end.
pub type EntriesPage = (Vec<RawEntry>, Option<ListCursor>);

/// Data needed from other engines.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// A row of table `names`, by key.
    Row(Vec<u8>),
    /// Sums of a directory's content over all engines.
    Sums(VertexId),
    /// A page of the entries of a directory.
    Entries(EntriesFrom, usize),
    /// The subdirectories of a directory.
    Children(VertexId),
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

wire_struct!(DirectorySums { sums, changed });

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
    /// Pages of directories, by directory and cursor.
    pub entries: BTreeMap<EntriesFrom, EntriesPage>,
    /// Subdirectories, with their names.
    pub children: BTreeMap<VertexId, Vec<(VertexId, Name)>>,
}

/// A row that a change writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedRow {
    /// Key of the row in table `names`.
    pub key: Vec<u8>,
    /// New value; `None` removes the row.
    pub value: Option<Vec<u8>>,
    /// Digest of the value read, if the row was read.
    pub read: Option<u64>,
}

wire_struct!(PlannedRow { key, value, read });

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

/// Rows of which other engines have some.
pub(crate) struct PartialRows<'a> {
    engine: &'a Engine,
    placement: &'a dyn RowPlacement,
    fetched: Option<&'a RemoteData>,
    notes: RefCell<RunNotes>,
}

#[derive(Debug, Default)]
struct RunNotes {
    needs: Vec<Need>,
    busy: bool,
    /// Digests of the values read, by key.
    read: BTreeMap<Vec<u8>, u64>,
    empty: BTreeSet<VertexId>,
    ops: Vec<Op>,
}

/// Error that stops a run; [`PartialRows::take_stop`] has the reason.
pub(super) fn stopped_error() -> Error {
    Error::Busy("a row of the namespace is on another server; try again".into())
}

impl<'a> PartialRows<'a> {
    /// Creates the source of one run. Without fetched data, a change commits only rows that are here.
    pub(super) fn new(
        engine: &'a Engine,
        placement: &'a dyn RowPlacement,
        fetched: Option<&'a RemoteData>,
    ) -> Self {
        Self {
            engine,
            placement,
            fetched,
            notes: RefCell::default(),
        }
    }

    /// Whether fetched data belongs to another state: directories are being moved, removed or given other permissions, or
    /// were since then.
    pub(super) fn is_outdated(&self) -> bool {
        let now = self.engine.names.directories.epoch();
        self.placement.busy() || self.fetched.is_some_and(|fetched| fetched.epoch != now)
    }

    /// Returns and clears the reason why the run stopped, if it did.
    pub(super) fn take_stop<T>(&self) -> Option<RunResult<T>> {
        let mut notes = self.notes.borrow_mut();
        let mut needs = std::mem::take(&mut notes.needs);
        needs.sort_unstable();
        needs.dedup();
        if std::mem::take(&mut notes.busy) {
            return Some(RunResult::Busy);
        }
        (!needs.is_empty()).then_some(RunResult::Needs(needs))
    }

    /// Returns the result of a run, or the reason why it stopped.
    pub(super) fn finish<T>(&self, result: Result<T>) -> Result<RunResult<T>> {
        match result {
            Ok(value) => Ok(RunResult::Ended(value)),
            Err(e) => self.take_stop().ok_or(e),
        }
    }

    /// Digest of the value read from a row.
    pub(super) fn read_of(&self, key: &[u8]) -> Option<u64> {
        self.notes.borrow().read.get(key).copied()
    }

    /// Returns the directories that must be empty, and the changes of vertices.
    pub(super) fn into_requirements(self) -> (Vec<VertexId>, Vec<Op>) {
        let notes = self.notes.into_inner();
        (notes.empty.into_iter().collect(), notes.ops)
    }

    /// Stops the run until the host has fetched this.
    fn need<T>(&self, need: Need) -> Result<T> {
        self.notes.borrow_mut().needs.push(need);
        Err(stopped_error())
    }

    /// Stops the run until an operation in progress has ended.
    fn wait(&self) -> Error {
        self.notes.borrow_mut().busy = true;
        stopped_error()
    }

    fn fetched_row(&self, key: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<bool> {
        match self.fetched.and_then(|f| f.rows.get(key)) {
            Some(value) => {
                self.note_read(key, digest(value.as_deref()));
                Ok(value.as_deref().map(sink).is_some())
            }
            None => self.need(Need::Row(key.to_vec())),
        }
    }

    fn note_read(&self, key: &[u8], digest: u64) {
        self.notes.borrow_mut().read.insert(key.to_vec(), digest);
    }
}

impl NameRows for PartialRows<'_> {
    fn row(&self, key: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<bool> {
        if decode_inode_history_prefix(key).is_some() {
            // A past state is stored on the engine that wrote it, which may be any: the newest one over all engines counts.
            return self.fetched_row(key, sink);
        }
        match self.placement.locate(key) {
            RowLocation::Local => {}
            RowLocation::Busy => return Err(self.wait()),
            RowLocation::Remote => return self.fetched_row(key, sink),
        }
        let store = &self.engine.store;
        let found = if self.fetched.is_none() {
            store.get_with(Table::Names, key, sink)?
        } else {
            let mut read = digest(None);
            let found = store.get_with(Table::Names, key, &mut |value| {
                read = digest(Some(value));
                sink(value);
            })?;
            self.note_read(key, read);
            found
        };
        if self.placement.locate(key) != RowLocation::Local {
            // The row was moved to another engine meanwhile.
            return Err(self.wait());
        }
        Ok(found)
    }

    fn torn(&self, _: Error) -> Error {
        self.wait()
    }
}

impl RowSource for PartialRows<'_> {
    fn directories(&self) -> Option<&Directories> {
        Some(&self.engine.names.directories)
    }

    fn sum(&self, directory: VertexId, measure: Measure) -> Result<i64> {
        match self.fetched.and_then(|f| f.sums.get(&directory)) {
            Some(sums) => Ok(sums.of(measure)),
            None => self.need(Need::Sums(directory)),
        }
    }

    fn tags(&self, id: VertexId) -> Result<Option<Vec<UserAttribute>>> {
        if !self.engine.names.has_vertices() {
            return Ok(None);
        }
        match self.fetched.and_then(|f| f.vertices.get(&id)) {
            Some(vertex) => {
                let vertex = vertex.as_ref().filter(|v| !v.deleted);
                Ok(vertex.map(|v| v.user.clone()))
            }
            None => self.need(Need::Vertex(id)),
        }
    }

    fn entries(
        &self,
        directory: VertexId,
        after: Option<Cookie>,
        limit: usize,
        sink: &mut EntrySink<'_>,
    ) -> Result<()> {
        let mut next = Some(after.map_or((0, None), |c| (c.hash, Some(c.n))));
        while let Some(cursor) = next.filter(|_| !self.is_stopped()) {
            let from = (directory, cursor);
            let Some((entries, after)) = self.fetched.and_then(|f| f.entries.get(&from)) else {
                return self.need(Need::Entries(from, limit));
            };
            for (key, value) in entries {
                if sink(self, key, value).is_break() {
                    return Ok(());
                }
            }
            next = *after;
        }
        Ok(())
    }

    fn children(&self, directory: VertexId) -> Result<Vec<(VertexId, Name)>> {
        match self.fetched.and_then(|f| f.children.get(&directory)) {
            Some(children) => Ok(children.clone()),
            None => self.need(Need::Children(directory)),
        }
    }

    fn is_whole(&self) -> bool {
        false
    }

    fn is_stopped(&self) -> bool {
        let notes = self.notes.borrow();
        notes.busy || !notes.needs.is_empty()
    }

    fn epoch(&self) -> Option<u64> {
        self.fetched.map(|f| f.epoch)
    }

    fn version(&self) -> Option<Version> {
        Some(self.placement.version())
    }

    fn is_home(&self, id: VertexId) -> bool {
        self.placement.is_home(id)
    }

    fn require_empty(&self, directory: VertexId) {
        self.notes.borrow_mut().empty.insert(directory);
    }

    fn take_over(&self, id: VertexId, op: Op) -> Result<Option<Op>> {
        if self.fetched.is_none() {
            // The change of the vertex must be planned, even if the vertex is here.
            return self.need(Need::Vertex(id));
        }
        self.notes.borrow_mut().ops.push(op);
        Ok(None)
    }

    fn stop(&self, overlay: &Overlay<'_>, done: bool, structural: bool) -> Option<LocalStop> {
        match self.take_stop::<()>() {
            Some(RunResult::Busy) => return Some(LocalStop::Busy),
            Some(_) => return Some(LocalStop::Remote),
            None if !done || self.placement.is_sole_engine() => return None,
            None if structural => return Some(LocalStop::Remote),
            None => {}
        }
        // Rows that are written without being read.
        let mut written = overlay.written(Table::Names);
        written.find_map(|key| match self.placement.locate(key) {
            RowLocation::Local => None,
            RowLocation::Remote => Some(LocalStop::Remote),
            RowLocation::Busy => Some(LocalStop::Busy),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_several_engines_are_those_of_one() {
        let mut sum = DirectorySums {
            sums: [-3, 0, 10, 0],
            changed: 7,
        };
        sum.add(&DirectorySums {
            sums: [5, 1, -4, 0],
            changed: 3,
        });
        assert_eq!((sum.sums, sum.changed), ([2, 1, 6, 0], 7));
        assert_eq!(sum.of(Measure::Files), 2);
        assert_eq!(sum.of(Measure::Changed), 7);
    }
}
