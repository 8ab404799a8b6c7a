//! The store with rows of table `names` that a commit has written and that are not in the table yet.
//!
//! A file is created by one row, and a store pays for each row with a search in its memtable, a flush and merges. So a commit writes
//! *all* its rows of `names` into its own row of `meta` (`pending/<slot>`, with the changes of counters: [`crate::counts`]),
//! and they stay in memory, in key order. When many have gathered, all of them become one sorted table past the log, together
//! with the merge of the counters. Such a table is what IndexFS calls bulk insertion: what is created in large numbers is never
//! inserted one by one. On opening, what is pending is read back.
//!
//! Writing rows into the table and saying that they are merged are two commits. Between them the pending rows hold the same
//! rows, so that it does no harm to write them again.
//!
//! Rows that are read are kept ([`cache`]). [`run`] holds what is in memory, [`merged`] goes over both.

mod cache;
mod merged;
mod run;

use crate::spare::Spare;
use cache::Cache;
use esker_model::codec::{DecodeError, Reader, put_bytes, put_varint};
use esker_model::namespace::record::is_dentry;
use esker_model::{Error, Flow, Result};
use esker_store::{
    BulkLoad, Cursor, Durability, KeyRange, Read, Snapshot, Store, StoreStats, Table, WriteBatch,
};
use merged::{Merged, Staged};
use run::{Here, Key, Run, RunCursor};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The table whose rows are staged.
const TABLE: Table = Table::Names;
/// From so many rows on, a sorted table of their own is cheaper than the memtable.
const SORTED_LEAST: usize = 1 << 13;
/// Rows that go through the memtable are written in portions of so many.
const PORTION: usize = 1 << 13;

#[derive(Debug, Default)]
struct State {
    /// The last commit.
    commit: u64,
    /// What commits add to.
    active: Arc<Run>,
    /// What is being written into the table.
    frozen: Option<Arc<Run>>,
}

/// A store some of whose rows are in memory.
pub(crate) struct StagedStore {
    inner: Arc<dyn Store>,
    state: RwLock<State>,
    /// Held while a commit that changes other rows as well becomes visible, and, shared, while a snapshot is taken.
    gate: RwLock<()>,
    /// How many snapshots see which commit as the last.
    moments: Mutex<BTreeMap<u64, usize>>,
    /// What the next commit brings.
    next: Mutex<Option<Next>>,
    cache: Cache,
}

/// Rows that are to be staged with a commit, and the row of `meta` by which it is known.
struct Next {
    pending: Vec<u8>,
    rows: Arc<WriteBatch>,
}

impl std::fmt::Debug for StagedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StagedStore").finish_non_exhaustive()
    }
}

/// Appends the rows of `names` of a batch, as a pending row has them.
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

/// Reads what [`encode`] wrote.
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

impl StagedStore {
    /// With a cache of so many bytes, and of what is to spare elsewhere.
    pub(crate) fn new(inner: Arc<dyn Store>, cache_bytes: u64, spare: Arc<Spare>) -> Self {
        Self {
            inner,
            state: RwLock::default(),
            gate: RwLock::default(),
            moments: Mutex::default(),
            next: Mutex::default(),
            cache: Cache::new(cache_bytes, spare),
        }
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn moments(&self) -> MutexGuard<'_, BTreeMap<u64, usize>> {
        self.moments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> MutexGuard<'_, Option<Next>> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says which rows the commit that sets a row of `meta` brings: they are here as soon as that one is there, and no snapshot
    /// sees one without the other. Only the holder of the engine's write lock may.
    pub(crate) fn expect(&self, pending: Vec<u8>, rows: Arc<WriteBatch>) {
        *self.next() = Some(Next { pending, rows });
    }

    /// That commit failed, maybe before it came here.
    pub(crate) fn expect_nothing(&self) {
        *self.next() = None;
    }

    /// The rows that a batch brings.
    fn brought(&self, batch: &WriteBatch) -> Option<Arc<WriteBatch>> {
        let mut next = self.next();
        // Others commit, too, without the lock.
        let is = |next: &mut Next| {
            let mut writes = batch.iter();
            writes.any(|w| w.table == Table::Meta && w.key == next.pending)
        };
        next.take_if(is).map(|next| next.rows)
    }

    /// Whether all keys of a batch can be staged.
    pub(crate) fn check(batch: &WriteBatch) -> Result<()> {
        let mut keys = batch.iter().filter(|w| w.table == TABLE);
        keys.try_for_each(|w| Key::new(w.key).map(drop))
    }

    /// Takes in the rows of `names` of a commit, whose pending row is in the store.
    pub(crate) fn add(&self, batch: &WriteBatch) -> Result<()> {
        let mut state = self.state_mut();
        state.commit += 1;
        let watched = self.moments().keys().next_back().copied();
        let mut rows = state.active.rows_mut();
        for write in batch.iter().filter(|w| w.table == TABLE) {
            rows.put(Key::new(write.key)?, write.value, state.commit, watched);
        }
        drop(rows);
        // Before anybody can read the new rows, and behind whom who has read the old ones cannot keep them.
        for write in batch.iter().filter(|w| w.table == TABLE) {
            self.cache.forget(write.key);
        }
        Ok(())
    }

    /// Memory that staged rows take, about, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let state = self.state();
        let frozen = state.frozen.as_ref();
        state.active.rows().bytes() + frozen.map_or(0, |run| run.rows().bytes())
    }

    /// Writes everything staged into the table. Only the holder of the engine's write lock may; the pending rows can go
    /// afterwards.
    pub(crate) fn write_out(&self) -> Result<()> {
        loop {
            let run = {
                let mut state = self.state_mut();
                // One is there already where writing it has failed before.
                if state.frozen.is_none() && state.active.rows().len() > 0 {
                    state.frozen = Some(std::mem::take(&mut state.active));
                }
                state.frozen.clone()
            };
            let Some(run) = run else { return Ok(()) };
            // What is being written is the present, unless some of it has been waiting here since writing it failed.
            let present = self.state().active.rows().len() == 0;
            self.write_run(&run, present)?;
            let mut state = self.state_mut();
            state.frozen = None;
            // Unless a snapshot has it still, its room is used again.
            if let Some(run) = Arc::into_inner(run) {
                state.active.rows_mut().reuse(run.into_rows());
            }
        }
    }

    fn write_run(&self, run: &Run, present: bool) -> Result<()> {
        let rows = run.rows();
        let sorted = rows.len() >= SORTED_LEAST;
        let mut batch = WriteBatch::default();
        for (key, value) in rows.iter() {
            // Whoever has made a file will ask for it sooner than for others.
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
        // A sorted table outlives a power failure at once. What the same commits say elsewhere is to do so, too.
        self.inner.persist()?;
        let mut load = self.inner.bulk_load(TABLE)?;
        for (key, value) in rows.iter() {
            if let Some(value) = value {
                load.push(key, value)?;
            }
        }
        load.finish()
    }

    /// Has what commits replace kept from now on.
    fn watch(&self) -> Watch<'_> {
        let state = self.state();
        *self.moments().entry(state.commit).or_default() += 1;
        Watch {
            store: self,
            moment: state.commit,
            runs: (Arc::clone(&state.active), state.frozen.clone()),
        }
    }

    fn look(&self) -> Result<StagedSnapshot<'_>> {
        let _gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        let watch = self.watch();
        // After the runs: what has left them meanwhile is in the store.
        let inner = self.inner.snapshot()?;
        Ok(StagedSnapshot { inner, watch })
    }

    /// Shows a row of the table as it is now to `look`, if it was read or written lately. `look` must not read anything.
    pub(crate) fn look_lately<T>(&self, key: &[u8], look: impl FnOnce(&[u8]) -> T) -> Option<T> {
        self.cache.look(key, look).ok()
    }

    /// Uses no more memory than there is to spare by now.
    pub(crate) fn fit(&self) {
        self.cache.fit();
    }

    /// A row of the table as it is now.
    fn get_now(&self, key: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<bool> {
        // The sink may want to read, too.
        let missed = match self.cache.look(key, <[u8]>::to_vec) {
            Ok(row) => {
                sink(&row);
                return Ok(true);
            }
            Err(missed) => missed,
        };
        let mut row = Vec::new();
        let staged = {
            let state = self.state();
            let key = Key::new(key)?;
            let mut find = |run: &Run| match run.rows().get(&key, None) {
                Here::Unknown => None,
                Here::Removed => Some(false),
                Here::Row(value) => {
                    row.extend_from_slice(value);
                    Some(true)
                }
            };
            find(&state.active).or_else(|| state.frozen.as_deref().and_then(&mut find))
        };
        match staged {
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

    /// Whether a key has a staged row.
    fn stages(&self, key: &[u8]) -> bool {
        let state = self.state();
        let Ok(key) = Key::new(key) else { return false };
        let has = |run: &Run| run.rows().get(&key, None) != Here::Unknown;
        has(&state.active) || state.frozen.as_deref().is_some_and(has)
    }
}

impl Read for StagedStore {
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
            return self.look()?.scan(table, range, sink);
        }
        self.inner.scan(table, range, sink)
    }

    fn cursor(&self, table: Table, range: &KeyRange) -> Result<Box<dyn Cursor + '_>> {
        if table != TABLE {
            return self.inner.cursor(table, range);
        }
        // What is staged is looked at first: what leaves it before the cursor is there is in the table.
        let watch = self.watch();
        let (below, staged) = (self.inner.cursor(table, range)?, watch.within(range));
        Ok(Box::new(Merged::new(below, staged, Some(watch))))
    }
}

impl Store for StagedStore {
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>> {
        Ok(Box::new(self.look()?))
    }

    fn commit(&self, batch: WriteBatch, durability: Durability) -> Result<()> {
        if let Some(rows) = self.brought(&batch) {
            // One row is seen whole anyway.
            let several = batch.len() > 1;
            let _gate = several.then(|| self.gate.write().unwrap_or_else(PoisonError::into_inner));
            self.inner.commit(batch, durability)?;
            return self.add(&rows);
        }
        let names = || batch.iter().filter(|w| w.table == TABLE);
        if let Some(write) = names().find(|w| self.stages(w.key)) {
            // The pending row would come back behind this one.
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

    /// Into table `names` only while nothing is staged and nobody reads: to restore a database.
    fn bulk_load(&self, table: Table) -> Result<Box<dyn BulkLoad + '_>> {
        self.inner.bulk_load(table)
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

/// A moment that somebody reads as of.
struct Watch<'s> {
    store: &'s StagedStore,
    moment: u64,
    runs: (Arc<Run>, Option<Arc<Run>>),
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let mut moments = self.store.moments();
        if let Some(count) = moments.get_mut(&self.moment) {
            *count -= 1;
            if *count == 0 {
                moments.remove(&self.moment);
            }
        }
    }
}

impl Watch<'_> {
    fn within(&self, range: &KeyRange) -> Staged {
        let cursor = |run: &Arc<Run>| {
            RunCursor::new(
                Arc::clone(run),
                self.moment,
                &range.from,
                range.until.as_deref(),
            )
        };
        let (active, frozen) = &self.runs;
        Staged::new(cursor(active), frozen.as_ref().map(cursor))
    }
}

/// One moment of the store and of what is staged.
struct StagedSnapshot<'s> {
    inner: Box<dyn Snapshot + 's>,
    watch: Watch<'s>,
}

impl Read for StagedSnapshot<'_> {
    fn get_with(&self, table: Table, key: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<bool> {
        if table == TABLE {
            let Watch { moment, runs, .. } = &self.watch;
            let staged = Key::new(key)?;
            for run in [Some(&runs.0), runs.1.as_ref()].into_iter().flatten() {
                let found = match run.rows().get(&staged, Some(*moment)) {
                    Here::Unknown => continue,
                    Here::Removed => return Ok(false),
                    // The sink may want to read, too.
                    Here::Row(value) => value.to_vec(),
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
        Ok(Box::new(Merged::new(inner, self.watch.within(range), None)))
    }
}

impl Snapshot for StagedSnapshot<'_> {}

#[cfg(test)]
mod tests;
