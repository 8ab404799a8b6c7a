//! The object layer of the store: presents objects, which are stored in columns, as ordinary rows.
//!
//! It is built over any [`Store`]. It answers for three kinds of rows, which the store below does not have:
//!
//! ```text
//!  rows   [object's vertex id][01]        the present state of the object (VertexRecord)
//!  index  [01][type Object][vertex id]    existence of an object with that id
//!  index  [03][hash of an identity 16]    the object (its number, 8 bytes) that has it now
//! ```
//!
//! The first is read and written; the others are derived from it, and writes to them are ignored. All other rows pass through. So
//! transactions, reads, traversals, checks and differences are independent of columns, and all rules for vertices apply to
//! objects. A commit that changes objects writes their new states into the log (`log`), in the same batch as all its other
//! rows, and then updates the columns.
//!
//! A snapshot sees objects as they were: while there are snapshots, replaced states are kept for them.

use super::chunk;
use super::column::IndexNeeds;
use super::log::{self, BulkTag, LogEntries};
use super::merge::{ObjectMergeCursor, key_of, objects_within};
use super::new_objects::NewObjects;
use super::table::Table as Columns;
use crate::memtable::MemtableStore;
use esker_model::codec::Reader;
use esker_model::key::{IndexKey, vertex_of};
use esker_model::object::{ObjectId, object_type};
use esker_model::value::ValueView;
use esker_model::{Error, Flow, Result, Schema, Version, VertexTypeId};
use esker_store::{
    BulkLoad, Cursor, Durability, KeyRange, Read, Snapshot, Store, StoreStats, Table, WriteBatch,
};
use roaring::RoaringBitmap;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Minimum size of the log for a checkpoint; it must also exceed the size of the chunks.
const LOG_BYTES_LEAST: u64 = 64 << 20;
/// Minimum size of the log for a checkpoint at closing.
const LOG_BYTES_CLOSING: u64 = 4 << 20;
/// Usual size of a chunk.
const CHUNK_BYTES_USUAL: usize = 256 << 10;
/// Bytes of chunks per commit of a checkpoint.
const CHUNK_BYTES_AT_ONCE: usize = 8 << 20;

/// Largest memory of columns that are kept for the next group of new objects, in bytes.
const SPARE_BYTES_MAX: u64 = 8 << 20;
/// Most columns that are kept for it: each batch looks at all of them.
const SPARE_COLUMNS_MAX: usize = 256;

/// A store whose objects are in columns.
pub(crate) struct ObjectStore {
    inner: Arc<MemtableStore>,
    /// Locked while a commit that changes objects becomes visible; shared while a snapshot is taken.
    gate: RwLock<()>,
    state: RwLock<ObjectState>,
    /// Number of snapshots by the last commit that they see.
    open_snapshots: Mutex<BTreeMap<u64, usize>>,
    /// Empty columns for the objects of the next group, which have the memory of an earlier one.
    spare: Mutex<Option<Box<Columns>>>,
}

/// The objects and the state of their log.
#[derive(Debug)]
pub(super) struct ObjectState {
    pub(super) columns: Columns,
    /// The last commit that changed objects.
    commit: u64,
    /// States before a commit, for older snapshots. An object that was new then has a slot beyond theirs.
    before: BTreeMap<(u32, u64), Vec<u8>>,
    /// Chunks that changed since the last checkpoint.
    dirty: RoaringBitmap,
    log_bytes: u64,
    /// Bytes of each chunk of the last checkpoint.
    chunk_sizes: Vec<u32>,
}

/// The objects that a snapshot sees.
#[derive(Debug, Clone, Copy)]
pub(super) struct SnapshotPoint {
    commit: u64,
    slots: u32,
}

/// Returns the hash of ID attributes in a key of `index`; `None` for other keys of that table.
pub(crate) fn identity_of_key(key: &[u8]) -> Option<[u8; 16]> {
    match IndexKey::decode(key) {
        Ok(IndexKey::Identity(hash)) => Some(hash),
        _ => None,
    }
}

/// Returns the object of a key of `rows`, if it is an object's own row.
pub(crate) fn object_of(key: &[u8]) -> Option<ObjectId> {
    vertex_of(key).and_then(ObjectId::of_vertex)
}

impl std::fmt::Debug for ObjectStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectStore").finish_non_exhaustive()
    }
}

impl ObjectStore {
    /// Loads the objects of a store.
    pub(crate) fn open(
        inner: Arc<MemtableStore>,
        schema: &Schema,
        index_least: u64,
    ) -> Result<Self> {
        // Without the type there are no objects.
        let type_id = object_type(schema).unwrap_or(VertexTypeId(u16::MAX));
        let mut state = ObjectState {
            columns: Columns::new(type_id, index_least),
            commit: 0,
            before: BTreeMap::new(),
            dirty: RoaringBitmap::new(),
            log_bytes: 0,
            chunk_sizes: Vec::new(),
        };
        let mut failure = None;
        let mut keep = |what: String, result: Result<(), _>| match result {
            Ok(()) => Flow::Continue(()),
            Err(e) => {
                failure.get_or_insert(Error::corrupt(what, e));
                Flow::Break(())
            }
        };
        inner.get_with(Table::Objects, &log::SIZES, &mut |sizes| {
            state.columns.reserve_sizes(sizes);
        })?;
        let all = KeyRange::prefix(&[log::CHUNKS]);
        inner.scan(Table::Objects, &all, &mut |key, value| {
            let what = || format!("chunk {key:02x?} of table `objects`");
            // The number of a chunk determines the slots of its objects.
            let begins = log::chunk_key(state.columns.slots() as u32 / chunk::CHUNK);
            let whole =
                state.columns.slots().is_multiple_of(chunk::CHUNK as usize) && key == begins;
            let read = if whole {
                chunk::read(&mut state.columns, value)
            } else {
                Err(Reader::new(key).error("the chunk that follows the one before"))
            };
            state.chunk_sizes.push(value.len() as u32);
            keep(what(), read)
        })?;
        let _ = keep("table `objects`".to_owned(), state.columns.index_all());
        let all = KeyRange::prefix(&[log::LOG]);
        inner.scan(Table::Objects, &all, &mut |key, value| {
            state.log_bytes += value.len() as u64;
            let played = log::commit_of(key).and_then(|commit| {
                state.commit = commit;
                log::replay(&mut state.columns, value)
            });
            keep(format!("commit {key:02x?} of table `objects`"), played)
        })?;
        if let Some(e) = failure {
            return Err(e);
        }
        if state.log_bytes > 0 {
            // The log does not tell cheaply which chunks it changed: all count as dirty.
            let chunks = (state.columns.slots() as u32).div_ceil(chunk::CHUNK);
            state.dirty.insert_range(0..chunks);
        }
        Ok(Self {
            inner,
            gate: RwLock::default(),
            state: RwLock::new(state),
            open_snapshots: Mutex::default(),
            spare: Mutex::default(),
        })
    }

    pub(super) fn state(&self) -> RwLockReadGuard<'_, ObjectState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the state for reading, unless a writer has it.
    pub(super) fn state_if_free(&self) -> Option<RwLockReadGuard<'_, ObjectState>> {
        self.state.try_read().ok()
    }

    fn state_mut(&self) -> RwLockWriteGuard<'_, ObjectState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all objects in the order of their slots, with the versions of their creation.
    pub(crate) fn in_order(&self) -> Vec<(ObjectId, Version)> {
        let state = self.state();
        let slots = 0..state.columns.slots() as u32;
        slots
            .map(|s| (state.columns.id(s), state.columns.first(s)))
            .collect()
    }

    /// Returns the hash of an object's identity.
    pub(crate) fn hash_of(&self, id: ObjectId) -> u128 {
        self.state().columns.hash_of(id)
    }

    /// Builds the index of a name now, before a search needs it.
    pub(super) fn build_index(&self, name: &str) {
        let now = IndexNeeds {
            now: true,
            ..IndexNeeds::default()
        };
        let state = self.state();
        for column in state.columns.columns.iter().filter(|c| *c.name == *name) {
            column.index_for(now);
        }
    }

    /// Changes state that is not on disk: which names are indexed.
    pub(super) fn with_columns<T>(&self, change: impl FnOnce(&mut Columns) -> T) -> T {
        change(&mut self.state_mut().columns)
    }

    /// Takes a snapshot and records the objects that it sees.
    pub(super) fn take_snapshot(&self) -> Result<ObjectSnapshot<'_>> {
        let _gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        let inner = self.inner.snapshot()?;
        let watch = self.register_snapshot(&self.state());
        Ok(ObjectSnapshot { inner, watch })
    }

    /// Registers a snapshot, so that states replaced from now on are kept for it.
    pub(super) fn register_snapshot(&self, state: &ObjectState) -> ObjectsGuard<'_> {
        let point = SnapshotPoint {
            commit: state.commit,
            slots: state.columns.slots() as u32,
        };
        *self.open_snapshots().entry(point.commit).or_default() += 1;
        ObjectsGuard { store: self, point }
    }

    fn open_snapshots(&self) -> MutexGuard<'_, BTreeMap<u64, usize>> {
        self.open_snapshots
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of a new object with an identity of that hash, created at that time or later; with `check`, fails with the
    /// number of the object that already has the identity.
    pub(crate) fn new_id_of(
        &self,
        hash: &[u8; 16],
        millis: u64,
        check: bool,
    ) -> std::result::Result<ObjectId, ObjectId> {
        let columns = &mut self.state_mut().columns;
        match columns.with_identity(hash).filter(|_| check) {
            Some(slot) => Err(columns.id(slot)),
            None => Ok(columns.new_id(hash, millis)),
        }
    }

    fn lock_spare(&self) -> MutexGuard<'_, Option<Box<Columns>>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns empty columns for new objects.
    pub(crate) fn spare_columns(&self, type_id: VertexTypeId) -> Box<Columns> {
        let spare = self.lock_spare().take();
        let mut columns = spare.unwrap_or_else(|| Box::new(Columns::new(type_id, u64::MAX)));
        columns.type_id = type_id;
        columns
    }

    /// Keeps the memory of a group's new objects, if it is not much, for the next group.
    pub(crate) fn recycle(&self, new_objects: NewObjects) {
        if let Some(mut columns) = new_objects.into_table()
            && columns.columns.len() <= SPARE_COLUMNS_MAX
            && columns.bytes().0 <= SPARE_BYTES_MAX
        {
            columns.truncate(0);
            *self.lock_spare() = Some(columns);
        }
    }

    /// Commits a batch together with rows of files, new objects and tags of many objects.
    pub(crate) fn commit_with(
        &self,
        batch: WriteBatch,
        files: Option<&WriteBatch>,
        new_objects: &NewObjects,
        tags: &[BulkTag],
        durability: Durability,
    ) -> Result<()> {
        let type_id = self.state().columns.type_id;
        let derived = |key: &[u8]| match IndexKey::decode(key) {
            Ok(IndexKey::Identity(_)) => true,
            Ok(IndexKey::Type(of, _)) => of == type_id,
            _ => false,
        };
        let own = |table: Table, key: &[u8]| match table {
            Table::Rows => object_of(key).is_some(),
            Table::Index => derived(key),
            _ => false,
        };
        if tags.is_empty() && new_objects.is_empty() && !batch.iter().any(|w| own(w.table, w.key)) {
            return self.inner.commit_with(batch, files, durability);
        }
        let mut rest = WriteBatch::default();
        let mut entries = LogEntries::default();
        let mut records = Vec::new();
        let mut hashes = HashMap::<u64, u128, foldhash::fast::FixedState>::default();
        for write in batch.iter() {
            match (write.table, write.value) {
                (Table::Rows, value) if object_of(write.key).is_some() => {
                    let (Some(id), Some(row)) = (object_of(write.key), value) else {
                        return Err(Error::Invalid("an object's row is never removed".into()));
                    };
                    records.push((id, row, 0));
                }
                (Table::Index, value) if derived(write.key) => {
                    if let (Some(hash), Some(id)) = (identity_of_key(write.key), value)
                        && let Ok(id) = id.try_into()
                    {
                        hashes.insert(u64::from_be_bytes(id), u128::from_be_bytes(hash));
                    }
                }
                (table, Some(value)) => rest.put(table, write.key, value),
                (table, None) => rest.remove(table, write.key),
            }
        }
        {
            let state = self.state();
            for (id, row, hash) in &mut records {
                *hash = match hashes.get(&id.0) {
                    Some(hash) => *hash,
                    None => match new_objects.hash_of(*id) {
                        Some(hash) => hash,
                        None => state.columns.hash_of(*id),
                    },
                };
                entries.record(*id, *hash, row);
            }
        }
        for tag in tags {
            entries.tag(tag)?;
        }
        let created = new_objects.table().map(log::created).unwrap_or_default();
        let _gate = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        let commit = self.state().commit + 1;
        let mut bytes = 0;
        let parts = || created.iter().map(Vec::as_slice).chain(entries.parts());
        rest.reserve(0, parts().map(|part| part.len() + log::KEY_BYTES).sum());
        for (part, value) in (0..).zip(parts()) {
            bytes += value.len();
            rest.put(Table::Objects, log::log_key(commit, part), value);
        }
        self.inner.commit_with(rest, files, durability)?;
        let mut state = self.state_mut();
        // New snapshots are registered under a lock on the state, so none can appear here.
        let oldest = self.open_snapshots().keys().next().copied();
        let watched = oldest.is_some();
        match oldest {
            None => state.before.clear(),
            Some(oldest) if !state.before.is_empty() => {
                state.before.retain(|(_, commit), _| *commit > oldest);
            }
            Some(_) => {}
        }
        state.commit = commit;
        state.log_bytes += bytes as u64;
        state.create(new_objects);
        for (id, row, hash) in records {
            if watched && let Some(slot) = state.columns.slot_of(id) {
                state.keep(slot, commit);
            }
            state
                .columns
                .apply(id, row, hash)
                .map_err(|e| Error::corrupt("an object's row just written", e))?;
            if let Some(slot) = state.columns.slot_of(id) {
                state.dirty.insert(slot / chunk::CHUNK);
            }
        }
        for tag in tags {
            let mut last = u32::MAX;
            for slot in &tag.slots {
                if watched {
                    state.keep(slot, commit);
                }
                if slot / chunk::CHUNK != last {
                    last = slot / chunk::CHUNK;
                    state.dirty.insert(last);
                }
            }
            let value = tag.value.as_ref().map(ValueView::from);
            state
                .columns
                .tag(&tag.slots, &tag.name, value.as_ref(), tag.version);
        }
        Ok(())
    }

    /// Writes a checkpoint if the log has grown enough.
    pub(crate) fn checkpoint_if_due(&self) -> Result<()> {
        let due = {
            let state = self.state();
            state.log_bytes > LOG_BYTES_LEAST.max(state.chunk_bytes())
        };
        if due {
            self.checkpoint().map(drop)
        } else {
            Ok(())
        }
    }

    /// Writes a checkpoint before the database is closed, if the log is large.
    pub(crate) fn checkpoint_closing(&self) -> Result<()> {
        if self.state().log_bytes > LOG_BYTES_CLOSING {
            self.checkpoint()?;
        }
        Ok(())
    }

    /// Writes the changed chunks and drops the log; returns the bytes written. Must be called by the holder of the engine's write lock.
    pub(crate) fn checkpoint(&self) -> Result<u64> {
        let (commit, dirty) = {
            let state = self.state();
            (state.commit, state.dirty.clone())
        };
        let (mut written, mut batch, mut bytes) = (0, WriteBatch::default(), 0);
        let room = (dirty.len() as usize * CHUNK_BYTES_USUAL).min(CHUNK_BYTES_AT_ONCE * 9 / 8);
        let mut sizes = Vec::new();
        for number in &dirty {
            let value = chunk::write(&self.state().columns, number);
            if bytes == 0 {
                batch.reserve(0, room);
            }
            bytes += value.len();
            sizes.push((number as usize, value.len() as u32));
            batch.put(Table::Objects, log::chunk_key(number), &value);
            if bytes >= CHUNK_BYTES_AT_ONCE {
                written += bytes as u64;
                bytes = 0;
                self.inner
                    .commit(std::mem::take(&mut batch), Durability::Relaxed)?;
            }
        }
        written += bytes as u64;
        batch.put(Table::Objects, log::SIZES, self.state().columns.sizes());
        let log = KeyRange::between(&[log::LOG], &log::log_key(commit + 1, 0));
        self.inner.scan(Table::Objects, &log, &mut |key, _| {
            batch.remove(Table::Objects, key);
            Flow::Continue(())
        })?;
        self.inner.commit(batch, Durability::Relaxed)?;
        let mut state = self.state_mut();
        state.dirty.clear();
        state.log_bytes = 0;
        for (number, size) in sizes {
            let all = state.chunk_sizes.len().max(number + 1);
            state.chunk_sizes.resize(all, 0);
            state.chunk_sizes[number] = size;
        }
        Ok(written)
    }

    fn get(
        &self,
        below: &dyn Read,
        point: Option<SnapshotPoint>,
        (table, key): (Table, &[u8]),
        sink: &mut dyn FnMut(&[u8]),
    ) -> Result<bool> {
        match table {
            Table::Rows => {
                let Some(id) = object_of(key) else {
                    return below.get_with(table, key, sink);
                };
                let mut row = Vec::with_capacity(256);
                let there = self.state().row(id, point, &mut row);
                if there {
                    sink(&row);
                }
                Ok(there)
            }
            Table::Index => {
                let state = self.state();
                match IndexKey::decode(key) {
                    Ok(IndexKey::Identity(hash)) => {
                        let slot = state.columns.with_identity(&hash);
                        if let Some(slot) = slot {
                            sink(&state.columns.id(slot).0.to_be_bytes());
                        }
                        Ok(slot.is_some())
                    }
                    Ok(IndexKey::Type(of, id)) if of == state.columns.type_id => {
                        let id = ObjectId::of_vertex(id);
                        let slot = id.and_then(|id| state.columns.slot_of(id));
                        let there = slot.is_some_and(|s| point.is_none_or(|m| s < m.slots));
                        if there {
                            sink(&[]);
                        }
                        Ok(there)
                    }
                    _ => {
                        drop(state);
                        below.get_with(table, key, sink)
                    }
                }
            }
            _ => below.get_with(table, key, sink),
        }
    }

    /// Returns the objects with derived rows in a range, in the order of their ids.
    fn within(
        &self,
        table: Table,
        range: &KeyRange,
        point: Option<SnapshotPoint>,
    ) -> Vec<ObjectId> {
        let state = self.state();
        let slots = point.map_or(u32::MAX, |m| m.slots);
        objects_within(&state.columns, table, range, slots)
    }

    fn cursor_over<'s>(
        &'s self,
        below: Box<dyn Cursor + 's>,
        point: Option<SnapshotPoint>,
        table: Table,
        ids: Vec<ObjectId>,
    ) -> Box<dyn Cursor + 's> {
        if ids.is_empty() {
            return below;
        }
        let type_id = self.state().columns.type_id;
        let row = move |id: ObjectId, key: &mut Vec<u8>, value: &mut Vec<u8>| {
            key_of(table, type_id, id, key);
            value.clear();
            table != Table::Rows || self.state().row(id, point, value)
        };
        Box::new(ObjectMergeCursor::new(below, ids, Box::new(row)))
    }

    fn scan_over(
        &self,
        below: &dyn Read,
        point: Option<SnapshotPoint>,
        (table, range): (Table, &KeyRange),
        sink: &mut dyn FnMut(&[u8], &[u8]) -> Flow,
    ) -> Result<()> {
        let ids = self.within(table, range, point);
        if ids.is_empty() {
            return below.scan(table, range, sink);
        }
        let mut cursor = self.cursor_over(below.cursor(table, range)?, point, table, ids);
        while cursor.advance()? {
            if sink(cursor.key(), cursor.value()).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Memory of the objects without indexes, memory of the indexes, and size of log and chunks on disk, in bytes.
    pub(crate) fn sizes(&self) -> (u64, u64, u64) {
        let state = self.state();
        let (values, indexes) = state.columns.bytes();
        (values, indexes, state.log_bytes + state.chunk_bytes())
    }
}

impl ObjectState {
    fn chunk_bytes(&self) -> u64 {
        self.chunk_sizes.iter().map(|size| u64::from(*size)).sum()
    }

    /// Adds new objects.
    fn create(&mut self, new_objects: &NewObjects) {
        let Some(new) = new_objects.table() else {
            return;
        };
        let from = self.columns.slots() as u32;
        self.columns.append(new);
        let until = self.columns.slots() as u32;
        self.dirty
            .insert_range(from / chunk::CHUNK..until.div_ceil(chunk::CHUNK));
    }

    /// Appends the row of an object, now or as a snapshot sees it; returns whether it exists.
    fn row(&self, id: ObjectId, point: Option<SnapshotPoint>, out: &mut Vec<u8>) -> bool {
        let Some(slot) = self.columns.slot_of(id) else {
            return false;
        };
        self.slot_row(slot, point, out)
    }

    pub(super) fn slot_row(
        &self,
        slot: u32,
        point: Option<SnapshotPoint>,
        out: &mut Vec<u8>,
    ) -> bool {
        if let Some(point) = point {
            if slot >= point.slots {
                return false;
            }
            if let Some(row) = self.before(slot, point) {
                out.extend_from_slice(row);
                return true;
            }
        }
        self.columns.encode(slot, out);
        true
    }

    /// Returns the state of a slot that a snapshot sees, if it has changed since.
    pub(super) fn before(&self, slot: u32, point: SnapshotPoint) -> Option<&[u8]> {
        if self.before.is_empty() {
            return None;
        }
        let later = (slot, point.commit + 1)..=(slot, u64::MAX);
        let (_, row) = self.before.range(later).next()?;
        Some(row)
    }

    /// Keeps the present state of an object for snapshots, before a commit changes it.
    fn keep(&mut self, slot: u32, commit: u64) {
        let mut row = Vec::new();
        self.columns.encode(slot, &mut row);
        self.before.entry((slot, commit)).or_insert(row);
    }
}

impl Read for ObjectStore {
    fn get_with(&self, table: Table, key: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.get(&*self.inner, None, (table, key), sink)
    }

    fn scan(
        &self,
        table: Table,
        range: &KeyRange,
        sink: &mut dyn FnMut(&[u8], &[u8]) -> Flow,
    ) -> Result<()> {
        self.scan_over(&*self.inner, None, (table, range), sink)
    }

    fn cursor(&self, table: Table, range: &KeyRange) -> Result<Box<dyn Cursor + '_>> {
        let below = self.inner.cursor(table, range)?;
        let ids = self.within(table, range, None);
        Ok(self.cursor_over(below, None, table, ids))
    }
}

impl Store for ObjectStore {
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>> {
        Ok(Box::new(self.take_snapshot()?))
    }

    fn commit(&self, batch: WriteBatch, durability: Durability) -> Result<()> {
        self.commit_with(batch, None, &NewObjects::default(), &[], durability)
    }

    fn persist(&self) -> Result<()> {
        self.inner.persist()
    }

    fn bulk_load(&self, table: Table) -> Result<Box<dyn BulkLoad + '_>> {
        self.inner.bulk_load(table)
    }

    fn check_writable(&self) -> Result<()> {
        self.inner.check_writable()
    }

    fn compact(&self) -> Result<()> {
        self.inner.compact()
    }

    fn checkpoint(&self, directory: &Path) -> Result<u64> {
        self.inner.checkpoint(directory)
    }

    fn stats(&self) -> Result<StoreStats> {
        self.inner.stats()
    }
}

/// Registration of a snapshot: keeps the states that it sees.
pub(super) struct ObjectsGuard<'s> {
    store: &'s ObjectStore,
    pub(super) point: SnapshotPoint,
}

/// A consistent snapshot of the store and the objects.
pub(crate) struct ObjectSnapshot<'s> {
    inner: Box<dyn Snapshot + 's>,
    watch: ObjectsGuard<'s>,
}

impl Drop for ObjectsGuard<'_> {
    fn drop(&mut self) {
        let mut open_snapshots = self.store.open_snapshots();
        if let Some(count) = open_snapshots.get_mut(&self.point.commit) {
            *count -= 1;
            if *count == 0 {
                open_snapshots.remove(&self.point.commit);
            }
        }
    }
}

impl Read for ObjectSnapshot<'_> {
    fn get_with(&self, table: Table, key: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let ObjectsGuard { store, point } = &self.watch;
        store.get(&*self.inner, Some(*point), (table, key), sink)
    }

    fn scan(
        &self,
        table: Table,
        range: &KeyRange,
        sink: &mut dyn FnMut(&[u8], &[u8]) -> Flow,
    ) -> Result<()> {
        let ObjectsGuard { store, point } = &self.watch;
        store.scan_over(&*self.inner, Some(*point), (table, range), sink)
    }

    fn cursor(&self, table: Table, range: &KeyRange) -> Result<Box<dyn Cursor + '_>> {
        let below = self.inner.cursor(table, range)?;
        let ObjectsGuard { store, point } = &self.watch;
        let ids = store.within(table, range, Some(*point));
        Ok(store.cursor_over(below, Some(*point), table, ids))
    }
}

impl Snapshot for ObjectSnapshot<'_> {}

/// Decodes the object in a value of an identity's row in `index`.
pub(crate) fn identity_value(value: &[u8]) -> Result<ObjectId> {
    let number = Reader::new(value).u64("an object's number");
    number
        .map(ObjectId)
        .map_err(|e| Error::corrupt("a row of table `index`", e))
}
