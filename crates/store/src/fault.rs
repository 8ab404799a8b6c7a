//! A store with injected faults: the N-th commit, read or bulk load returns a given error, and a power failure can be
//! simulated at any time.
//!
//! The store keeps a mirror of the synced rows and a list of the unsynced commits, which [`Durability::Relaxed`] may
//! lose. From them [`FaultStore::crash_image`] computes the rows that a machine would have after a power failure.

use crate::memory::MemoryStore;
use crate::{
    BulkLoad, Cursor, Durability, KeyRange, Read, Snapshot, Store, StoreStats, Table, WriteBatch,
};
use esker_model::{Error, Flow, Result};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Kinds of operations that can be made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Commits: [`Store::commit`].
    Commit,
    /// Gets, scans, cursors and snapshots, of the store and of its snapshots.
    Read,
    /// Syncs: [`Store::persist`].
    Persist,
    /// Ends of bulk loads: [`BulkLoad::finish`].
    Load,
}

type Cause = Box<dyn Fn() -> Error + Send>;

struct InjectedFailure {
    operation: Operation,
    /// Number of further operations of the kind that succeed.
    after: u64,
    /// Whether later operations fail too.
    lasts: bool,
    cause: Cause,
}

struct FaultState {
    failures: Vec<InjectedFailure>,
    counts: [u64; 4],
    /// All rows that were synced.
    synced: MemoryStore,
    /// Commits since the last sync, in order.
    unsynced: Vec<WriteBatch>,
}

impl FaultState {
    /// Marks all commits so far as synced.
    fn sync(&mut self) -> Result<()> {
        for batch in self.unsynced.drain(..) {
            self.synced.commit(batch, Durability::Sync)?;
        }
        Ok(())
    }
}

/// A wrapper that injects faults into any store.
pub struct FaultStore<S> {
    inner: S,
    state: Mutex<FaultState>,
}

impl<S: Store> FaultStore<S> {
    /// Wraps a store; its present rows count as synced.
    pub fn new(inner: S) -> Result<Self> {
        let synced = MemoryStore::new();
        for table in Table::ALL {
            let mut batch = WriteBatch::default();
            inner.scan(table, &KeyRange::ALL, &mut |key, value| {
                batch.put(table, key, value);
                Flow::Continue(())
            })?;
            synced.commit(batch, Durability::Sync)?;
        }
        Ok(Self {
            inner,
            state: Mutex::new(FaultState {
                failures: Vec::new(),
                counts: [0; 4],
                synced,
                unsynced: Vec::new(),
            }),
        })
    }

    /// Lets `after` more operations of a kind succeed and the next one fail once.
    pub fn fail_once(
        &self,
        operation: Operation,
        after: u64,
        cause: impl Fn() -> Error + Send + 'static,
    ) {
        self.fail(operation, after, false, cause);
    }

    /// Lets `after` more operations of a kind succeed and all later ones fail, until [`FaultStore::heal`].
    pub fn fail_always(
        &self,
        operation: Operation,
        after: u64,
        cause: impl Fn() -> Error + Send + 'static,
    ) {
        self.fail(operation, after, true, cause);
    }

    fn fail(
        &self,
        operation: Operation,
        after: u64,
        lasts: bool,
        cause: impl Fn() -> Error + Send + 'static,
    ) {
        self.state().failures.push(InjectedFailure {
            operation,
            after,
            lasts,
            cause: Box::new(cause),
        });
    }

    /// Removes all injected faults.
    pub fn heal(&self) {
        self.state().failures.clear();
    }

    /// Returns the number of operations of a kind so far, failed ones included.
    pub fn count(&self, operation: Operation) -> u64 {
        self.state().counts[operation as usize]
    }

    /// Returns the number of commits that a power failure could lose now.
    pub fn unsynced(&self) -> usize {
        self.state().unsynced.len()
    }

    /// Returns the store as it would be after a power failure now: all synced rows, and the first `kept` of the
    /// unsynced commits (a log is cut somewhere). This store does not change.
    pub fn crash_image(&self, kept: usize) -> Result<MemoryStore> {
        let state = self.state();
        let image = MemoryStore::new();
        let mut batch = WriteBatch::default();
        for table in Table::ALL {
            state
                .synced
                .scan(table, &KeyRange::ALL, &mut |key, value| {
                    batch.put(table, key, value);
                    Flow::Continue(())
                })?;
        }
        image.commit(batch, Durability::Sync)?;
        for batch in state.unsynced.iter().take(kept) {
            image.commit(batch.clone(), Durability::Sync)?;
        }
        Ok(image)
    }

    /// Returns the wrapped store.
    pub fn into_inner(self) -> S {
        self.inner
    }

    fn state(&self) -> MutexGuard<'_, FaultState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an operation and returns the injected error if one is due.
    fn pass(&self, operation: Operation) -> Result<()> {
        let mut state = self.state();
        state.counts[operation as usize] += 1;
        let mut due = None;
        for (index, failure) in state.failures.iter_mut().enumerate() {
            if failure.operation == operation {
                if failure.after == 0 {
                    due.get_or_insert(index);
                } else {
                    failure.after -= 1;
                }
            }
        }
        let Some(index) = due else { return Ok(()) };
        let error = (state.failures[index].cause)();
        if !state.failures[index].lasts {
            state.failures.remove(index);
        }
        Err(error)
    }
}

impl<S: Store> Read for FaultStore<S> {
    fn get_with(&self, table: Table, key: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.pass(Operation::Read)?;
        self.inner.get_with(table, key, sink)
    }

    fn scan(
        &self,
        table: Table,
        range: &KeyRange,
        sink: &mut dyn FnMut(&[u8], &[u8]) -> Flow,
    ) -> Result<()> {
        self.pass(Operation::Read)?;
        self.inner.scan(table, range, sink)
    }

    fn cursor(&self, table: Table, range: &KeyRange) -> Result<Box<dyn Cursor + '_>> {
        self.pass(Operation::Read)?;
        self.inner.cursor(table, range)
    }
}

impl<S: Store> Store for FaultStore<S> {
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>> {
        self.pass(Operation::Read)?;
        Ok(Box::new(FaultSnapshot {
            store: self,
            inner: self.inner.snapshot()?,
        }))
    }

    fn commit(&self, batch: WriteBatch, durability: Durability) -> Result<()> {
        self.pass(Operation::Commit)?;
        // The lock is held across both, so that the list is in the order of the commits.
        let mut state = self.state();
        self.inner.commit(batch.clone(), durability)?;
        state.unsynced.push(batch);
        if durability == Durability::Sync {
            state.sync()?;
        }
        Ok(())
    }

    fn persist(&self) -> Result<()> {
        self.pass(Operation::Persist)?;
        let mut state = self.state();
        self.inner.persist()?;
        state.sync()
    }

    fn bulk_load(&self, table: Table) -> Result<Box<dyn BulkLoad + '_>> {
        Ok(Box::new(FaultLoad {
            store: self,
            inner: self.inner.bulk_load(table)?,
            table,
            rows: WriteBatch::default(),
        }))
    }

    /// Returns the injected error if all commits from now on fail.
    fn check_writable(&self) -> Result<()> {
        let state = self.state();
        let fails =
            |f: &&InjectedFailure| f.operation == Operation::Commit && f.lasts && f.after == 0;
        state
            .failures
            .iter()
            .find(fails)
            .map_or(Ok(()), |f| Err((f.cause)()))
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

struct FaultSnapshot<'a, S> {
    store: &'a FaultStore<S>,
    inner: Box<dyn Snapshot + 'a>,
}

impl<S: Store> Read for FaultSnapshot<'_, S> {
    fn get_with(&self, table: Table, key: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.store.pass(Operation::Read)?;
        self.inner.get_with(table, key, sink)
    }

    fn scan(
        &self,
        table: Table,
        range: &KeyRange,
        sink: &mut dyn FnMut(&[u8], &[u8]) -> Flow,
    ) -> Result<()> {
        self.store.pass(Operation::Read)?;
        self.inner.scan(table, range, sink)
    }

    fn cursor(&self, table: Table, range: &KeyRange) -> Result<Box<dyn Cursor + '_>> {
        self.store.pass(Operation::Read)?;
        self.inner.cursor(table, range)
    }
}

impl<S: Store> Snapshot for FaultSnapshot<'_, S> {}

struct FaultLoad<'a, S> {
    store: &'a FaultStore<S>,
    inner: Box<dyn BulkLoad + 'a>,
    table: Table,
    rows: WriteBatch,
}

impl<S: Store> BulkLoad for FaultLoad<'_, S> {
    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.inner.push(key, value)?;
        self.rows.put(self.table, key, value);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<()> {
        self.store.pass(Operation::Load)?;
        let mut state = self.store.state();
        self.inner.finish()?;
        // A finished load is durable, and so are the commits before it.
        state.unsynced.push(self.rows);
        state.sync()
    }
}

impl<S> std::fmt::Debug for FaultStore<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FaultStore").finish_non_exhaustive()
    }
}
