//! The memtable of table `names`: a store layer that keeps committed rows in memory until they are written to the table.
//!
//! Creating a file writes one row, and a store pays for each row with a search in its memtable, a flush and merges. So a commit writes
//! *all* its rows of `names` into its own row of `meta` (`pending/<slot>`, with the changes of counters: [`crate::counts`]),
//! and they stay in memory, in key order. When many have accumulated, all of them become one sorted table that bypasses the log,
//! together with the merge of the counters. IndexFS calls this bulk insertion: files created in large numbers are never
//! inserted one by one. Opening reads the pending rows back.
//!
//! Writing rows into the table and recording that they are merged are two commits. Between them the pending rows duplicate the
//! table's rows, so writing them again is harmless.
//!
//! Rows that are read are cached ([`cache`]). [`rows`] has the rows in memory, [`merged`] merges both in key order.

mod cache;
mod merged;
mod rows;

use crate::free_memory::FreeMemory;
use cache::Cache;
use esker_model::codec::{DecodeError, Reader, put_bytes, put_varint};
use esker_model::namespace::record::is_dentry;
use esker_model::{Error, Flow, Result};
use esker_store::{
    BulkLoad, Cursor, Durability, KeyRange, Read, Snapshot, Store, StoreStats, Table, WriteBatch,
};
use merged::{MemtableRange, MergedCursor};
use rows::{Key, Lookup, Memtable, MemtableCursor};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The table whose rows are kept in the memtable.
const TABLE: Table = Table::Names;
/// Row count from which a bulk load of a sorted table is cheaper than writes through the store's memtable.
const BULK_LOAD_ROWS_MIN: usize = 1 << 13;
/// Rows per commit of rows that are not bulk-loaded.
const PORTION: usize = 1 << 13;

#[derive(Debug, Default)]
struct MemtableState {
    /// Number of the last commit.
    commit: u64,
    /// Receives the rows of commits.
    active: Arc<Memtable>,
    /// Is being written to the table.
    frozen: Option<Arc<Memtable>>,
}

/// A store with a memtable for one table.
pub(crate) struct MemtableStore {
    inner: Arc<dyn Store>,
    state: RwLock<MemtableState>,
    /// Exclusive while a commit that also changes other rows becomes visible, and while the memtable freezes; shared while a snapshot is
    /// taken.
    gate: RwLock<()>,
    /// Number of snapshots by the last commit that they see.
    open_snapshots: Mutex<BTreeMap<u64, usize>>,
    cache: Cache,
}

impl std::fmt::Debug for MemtableStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemtableStore").finish_non_exhaustive()
    }
}

/// Appends the rows of `names` of a batch in the format of a pending row.
pub(crate) fn encode(batch: &WriteBatch, out: &mut Vec<u8>) {
    for write in batch.iter().filter(|w| w.table == TABLE) {
        put_bytes(out, write.key);
        match write.value {
            Some(value) => {
                put_varint(out, value.len() as u64 + 1);
                out.extend_from_slice(value);
            }
            None => put_varint(out, 0),
        }
    }
}

/// Decodes rows encoded by [`encode`].
pub(crate) fn decode(r: &mut Reader<'_>) -> Result<WriteBatch, DecodeError> {
    let mut batch = WriteBatch::default();
    while r.remaining() > 0 {
        let key = r.bytes("a key of `names`")?;
        match r.varint("the length of a row")? {
            0 => batch.remove(TABLE, key),
            more => {
                let length = usize::try_from(more - 1).unwrap_or(usize::MAX);
                batch.put(TABLE, key, r.take(length, "a row of `names`")?);
            }
        }
    }
    Ok(batch)
}

impl MemtableStore {
    /// Creates the layer with a cache of `cache_bytes`, which may borrow memory that `free_memory` reports as unused.
    pub(crate) fn new(
        inner: Arc<dyn Store>,
        cache_bytes: u64,
        free_memory: Arc<FreeMemory>,
    ) -> Self {
        Self {
            inner,
            state: RwLock::default(),
            gate: RwLock::default(),
            open_snapshots: Mutex::default(),
            cache: Cache::new(cache_bytes, free_memory),
        }
    }

    fn state(&self) -> RwLockReadGuard<'_, MemtableState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn state_mut(&self) -> RwLockWriteGuard<'_, MemtableState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn gate_exclusive(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn gate_shared(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_snapshots(&self) -> MutexGuard<'_, BTreeMap<u64, usize>> {
        self.open_snapshots
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Commits a batch together with rows of `names`, which are in its pending row: no snapshot sees one without the other.
    /// Must be called by the holder of the engine's write lock.
    pub(crate) fn commit_with(
        &self,
        batch: WriteBatch,
        rows: Option<&WriteBatch>,
        durability: Durability,
    ) -> Result<()> {
        let Some(rows) = rows else {
            return self.commit(batch, durability);
        };
        // A commit of a single row is atomic without the lock.
        let several = batch.len() > 1;
        let _gate = several.then(|| self.gate_exclusive());
        self.inner.commit(batch, durability)?;
        self.add(rows)
    }

    /// Checks that all keys of a batch fit the memtable.
    pub(crate) fn check(batch: &WriteBatch) -> Result<()> {
        let mut keys = batch.iter().filter(|w| w.table == TABLE);
        keys.try_for_each(|w| Key::new(w.key).map(drop))
    }

    /// Adds the rows of `names` of a commit whose pending row is in the store.
    pub(crate) fn add(&self, batch: &WriteBatch) -> Result<()> {
        let mut state = self.state_mut();
        state.commit += 1;
        let watched = self.open_snapshots().keys().next_back().copied();
        let mut rows = state.active.rows_mut();
        for write in batch.iter().filter(|w| w.table == TABLE) {
            rows.put(Key::new(write.key)?, write.value, state.commit, watched);
        }
        drop(rows);
        // Invalidated before the new rows are visible; the epoch keeps concurrent readers from caching the old rows.
        for write in batch.iter().filter(|w| w.table == TABLE) {
            self.cache.forget(write.key);
        }
        Ok(())
    }

    /// Approximate memory used by the memtable, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let state = self.state();
        let frozen = state.frozen.as_ref();
        state.active.rows().bytes() + frozen.map_or(0, |memtable| memtable.rows().bytes())
    }

    /// Writes the memtable to the table. Must be called by the holder of the engine's write lock; the pending rows can be
    /// removed afterwards.
    pub(crate) fn write_out(&self) -> Result<()> {
        loop {
            let memtable = {
                // No snapshot is between its two steps: it would find a row of a later commit in the table, and others neither there nor in
                // the memtables that it knows.
                let _gate = self.gate_exclusive();
                let mut state = self.state_mut();
                // A frozen memtable remains if writing it has failed before.
                if state.frozen.is_none() && state.active.rows().len() > 0 {
                    state.frozen = Some(std::mem::take(&mut state.active));
                }
                state.frozen.clone()
            };
            let Some(memtable) = memtable else {
                return Ok(());
            };
            // The frozen rows are current, unless newer ones were added after a failed write.
            let present = self.state().active.rows().len() == 0;
            self.write_memtable(&memtable, present)?;
            let mut state = self.state_mut();
            state.frozen = None;
            // The allocation is reused unless a snapshot still refers to it.
            if let Some(memtable) = Arc::into_inner(memtable) {
                state.active.rows_mut().reuse(memtable.into_rows());
            }
        }
    }

    fn write_memtable(&self, memtable: &Memtable, present: bool) -> Result<()> {
        let rows = memtable.rows();
        let sorted = rows.len() >= BULK_LOAD_ROWS_MIN;
        let mut batch = WriteBatch::default();
        for (key, value) in rows.iter() {
            // A new file is more likely to be read soon than others.
            if let Some(value) = value.filter(|_| present && is_dentry(key)) {
                self.cache.fill(key, value);
            }
            if sorted && value.is_some() {
                continue;
            }
            match value {
                Some(value) => batch.put(TABLE, key, value),
                None => batch.remove(TABLE, key),
            }
            if batch.len() >= PORTION {
                let full = std::mem::take(&mut batch);
                self.inner.commit(full, Durability::Relaxed)?;
            }
        }
        if !batch.is_empty() {
            self.inner.commit(batch, Durability::Relaxed)?;
        }
        if !sorted {
            return Ok(());
        }
        // A sorted table is durable at once; other rows of the same commits must be durable before it.
        self.inner.persist()?;
        let mut load = self.inner.bulk_load(TABLE)?;
        for (key, value) in rows.iter() {
            if let Some(value) = value {
                load.push(key, value)?;
            }
        }
        load.finish()
    }

    /// Registers a snapshot, so that rows replaced from now on are kept for it.
    fn register_snapshot(&self) -> SnapshotGuard<'_> {
        let state = self.state();
        *self.open_snapshots().entry(state.commit).or_default() += 1;
        SnapshotGuard {
            store: self,
            as_of: state.commit,
            memtables: (Arc::clone(&state.active), state.frozen.clone()),
        }
    }

    fn take_snapshot(&self) -> Result<MemtableSnapshot<'_>> {
        let _gate = self.gate_shared();
        let watch = self.register_snapshot();
        // Taken after the memtables: rows that have left them meanwhile are in the store.
        let inner = self.inner.snapshot()?;
        Ok(MemtableSnapshot { inner, watch })
    }

    /// Passes the present row of a key to `look` if it is cached. `look` must not read anything.
    pub(crate) fn look_cached<T>(&self, key: &[u8], look: impl FnOnce(&[u8]) -> T) -> Option<T> {
        self.cache.look(key, look).ok()
    }

    /// Shrinks the cache to the memory that is now available.
    pub(crate) fn fit(&self) {
        self.cache.fit();
    }

    /// Reads the present row of a key.
    fn get_now(&self, key: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<bool> {
        // The sink may read, too, so the lock is released first.
        let missed = match self.cache.look(key, <[u8]>::to_vec) {
            Ok(row) => {
                sink(&row);
                return Ok(true);
            }
            Err(missed) => missed,
        };
        let mut row = Vec::new();
        let found = {
            let state = self.state();
            let key = Key::new(key)?;
            let mut find = |memtable: &Memtable| match memtable.rows().get(&key, None) {
                Lookup::Unknown => None,
                Lookup::Removed => Some(false),
                Lookup::Row(value) => {
                    row.extend_from_slice(value);
                    Some(true)
                }
            };
            find(&state.active).or_else(|| state.frozen.as_deref().and_then(&mut find))
        };
        match found {
            Some(false) => Ok(false),
            Some(true) => {
                self.cache.keep(missed, key, &row);
                sink(&row);
                Ok(true)
            }
            None => self.inner.get_with(TABLE, key, &mut |value| {
                self.cache.keep(missed, key, value);
                sink(value);
            }),
        }
    }

    /// Whether the memtable has a row or a removal of a key.
    fn has_row(&self, key: &[u8]) -> bool {
        let state = self.state();
        let Ok(key) = Key::new(key) else { return false };
        let has = |memtable: &Memtable| memtable.rows().get(&key, None) != Lookup::Unknown;
        has(&state.active) || state.frozen.as_deref().is_some_and(has)
    }
}

impl Read for MemtableStore {
    fn get_with(&self, table: Table, key: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<bool> {
        if table == TABLE {
            return self.get_now(key, sink);
        }
        self.inner.get_with(table, key, sink)
    }

    fn scan(
        &self,
        table: Table,
        range: &KeyRange,
        sink: &mut dyn FnMut(&[u8], &[u8]) -> Flow,
    ) -> Result<()> {
        if table == TABLE {
            return self.take_snapshot()?.scan(table, range, sink);
        }
        self.inner.scan(table, range, sink)
    }

    fn cursor(&self, table: Table, range: &KeyRange) -> Result<Box<dyn Cursor + '_>> {
        if table != TABLE {
            return self.inner.cursor(table, range);
        }
        // The memtable is registered first: rows that leave it before the cursor is opened are in the table.
        let _gate = self.gate_shared();
        let watch = self.register_snapshot();
        let (below, memtable) = (self.inner.cursor(table, range)?, watch.within(range));
        Ok(Box::new(MergedCursor::new(below, memtable, Some(watch))))
    }
}

impl Store for MemtableStore {
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>> {
        Ok(Box::new(self.take_snapshot()?))
    }

    fn commit(&self, batch: WriteBatch, durability: Durability) -> Result<()> {
        let names = || batch.iter().filter(|w| w.table == TABLE);
        if let Some(write) = names().find(|w| self.has_row(w.key)) {
            // The pending row would overwrite this one later.
            return Err(Error::Invalid(format!(
                "row {:02x?} of table `names` waits to be merged: it is changed by a transaction only",
                write.key
            )));
        }
        let changed: Vec<Vec<u8>> = names().map(|w| w.key.to_vec()).collect();
        let done = self.inner.commit(batch, durability);
        changed.iter().for_each(|key| self.cache.forget(key));
        done
    }

    fn persist(&self) -> Result<()> {
        self.inner.persist()
    }

    /// Allowed for table `names` only while the memtable is empty and nothing reads: for restoring a database.
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

/// Registration of a snapshot: keeps the rows that it sees.
struct SnapshotGuard<'s> {
    store: &'s MemtableStore,
    as_of: u64,
    memtables: (Arc<Memtable>, Option<Arc<Memtable>>),
}

impl Drop for SnapshotGuard<'_> {
    fn drop(&mut self) {
        let mut open_snapshots = self.store.open_snapshots();
        if let Some(count) = open_snapshots.get_mut(&self.as_of) {
            *count -= 1;
            if *count == 0 {
                open_snapshots.remove(&self.as_of);
            }
        }
    }
}

impl SnapshotGuard<'_> {
    fn within(&self, range: &KeyRange) -> MemtableRange {
        let cursor = |memtable: &Arc<Memtable>| {
            MemtableCursor::new(
                Arc::clone(memtable),
                self.as_of,
                &range.from,
                range.until.as_deref(),
            )
        };
        let (active, frozen) = &self.memtables;
        MemtableRange::new(cursor(active), frozen.as_ref().map(cursor))
    }
}

/// A consistent snapshot of the store and the memtable.
struct MemtableSnapshot<'s> {
    inner: Box<dyn Snapshot + 's>,
    watch: SnapshotGuard<'s>,
}

impl Read for MemtableSnapshot<'_> {
    fn get_with(&self, table: Table, key: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<bool> {
        if table == TABLE {
            let SnapshotGuard {
                as_of, memtables, ..
            } = &self.watch;
            let memtable_key = Key::new(key)?;
            for memtable in [Some(&memtables.0), memtables.1.as_ref()]
                .into_iter()
                .flatten()
            {
                let found = match memtable.rows().get(&memtable_key, Some(*as_of)) {
                    Lookup::Unknown => continue,
                    Lookup::Removed => return Ok(false),
                    // The sink may read, too, so the lock is released first.
                    Lookup::Row(value) => value.to_vec(),
                };
                sink(&found);
                return Ok(true);
            }
        }
        self.inner.get_with(table, key, sink)
    }

    fn scan(
        &self,
        table: Table,
        range: &KeyRange,
        sink: &mut dyn FnMut(&[u8], &[u8]) -> Flow,
    ) -> Result<()> {
        if table != TABLE {
            return self.inner.scan(table, range, sink);
        }
        merged::scan(&*self.inner, self.watch.within(range), (table, range), sink)
    }

    fn cursor(&self, table: Table, range: &KeyRange) -> Result<Box<dyn Cursor + '_>> {
        let inner = self.inner.cursor(table, range)?;
        if table != TABLE {
            return Ok(inner);
        }
        Ok(Box::new(MergedCursor::new(
            inner,
            self.watch.within(range),
            None,
        )))
    }
}

impl Snapshot for MemtableSnapshot<'_> {}

#[cfg(test)]
mod tests;
