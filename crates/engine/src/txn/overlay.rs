//! The writes of a group of batches before they are committed: later batches of the group read them, and a failed one is
//! rolled back alone.

use crate::names::NameRows;
use crate::object::{NewObjects, identity_of_key, object_of};
use esker_model::{Error, Result};
use esker_store::{KeyRange, Store, Table, ValueRange, WriteBatch};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::ops::Bound;

/// Writes reserved initially: enough for a group of single changes.
const WRITES_USUAL: usize = 12;

/// Final state of every touched key, over a store.
pub(crate) struct Overlay<'s> {
    store: &'s dyn Store,
    /// Rows of table `names`, if the store does not have all of them.
    names: Option<&'s dyn NameRows>,
    /// Each key once, in the order of first change.
    writes: WriteBatch,
    /// From a table and a key to the write's number in `writes`.
    numbers: HashTable<u32>,
    hasher: FixedState,
    /// Numbers of the keys of `history` in key order; built at the first range read.
    history: OnceCell<BTreeMap<Vec<u8>, u32>>,
    /// Number of writes when the present batch began.
    savepoint: usize,
    /// New objects, which are not in `writes`.
    new_objects: NewObjects,
    undo: Vec<(u32, ValueRange)>,
}

fn hash(hasher: &FixedState, table: Table, key: &[u8]) -> u64 {
    hasher.hash_one((table as u8, key))
}

impl<'s> Overlay<'s> {
    pub(crate) fn new(store: &'s dyn Store) -> Self {
        let mut writes = WriteBatch::default();
        writes.reserve(WRITES_USUAL, 128 * WRITES_USUAL);
        Self {
            store,
            names: None,
            writes,
            numbers: HashTable::new(),
            hasher: FixedState::default(),
            history: OnceCell::new(),
            savepoint: 0,
            new_objects: NewObjects::default(),
            undo: Vec::new(),
        }
    }

    /// Reads rows of table `names` from a source instead of the store.
    pub(crate) fn over_names(&mut self, names: &'s dyn NameRows) {
        self.names = Some(names);
    }

    /// Sets the state to which [`Self::undo`] returns.
    pub(crate) fn savepoint(&mut self) {
        self.savepoint = self.writes.len();
        self.new_objects.savepoint();
        self.undo.clear();
    }

    /// Rolls back everything since the last [`Self::savepoint`].
    pub(crate) fn undo(&mut self) {
        for number in self.savepoint..self.writes.len() {
            let write = self.writes.get(number);
            if write.table == Table::History
                && let Some(history) = self.history.get_mut()
            {
                history.remove(write.key);
            }
            let hash = hash(&self.hasher, write.table, write.key);
            if let Ok(found) = self.numbers.find_entry(hash, |n| *n as usize == number) {
                found.remove();
            }
        }
        // The oldest change of a key was recorded first, so it is restored last.
        while let Some((number, before)) = self.undo.pop() {
            self.writes.replace(number as usize, before);
        }
        self.writes.truncate(self.savepoint);
        self.new_objects.undo();
    }

    /// Reserves capacity for more current rows of edges.
    pub(crate) fn reserve(&mut self, rows: usize) {
        let Self {
            numbers,
            writes,
            hasher,
            ..
        } = self;
        writes.reserve(rows, rows * 128);
        numbers.reserve(rows, |n| {
            let write = writes.get(*n as usize);
            hash(hasher, write.table, write.key)
        });
    }

    fn number(&self, table: Table, key: &[u8]) -> Option<u32> {
        let hash = hash(&self.hasher, table, key);
        let same = |n: &u32| {
            let write = self.writes.get(*n as usize);
            write.table == table && write.key == key
        };
        self.numbers.find(hash, same).copied()
    }

    pub(crate) fn get_with(
        &self,
        table: Table,
        key: &[u8],
        sink: &mut dyn FnMut(&[u8]),
    ) -> Result<bool> {
        match self.number(table, key) {
            Some(number) => {
                let value = self.writes.get(number as usize).value;
                Ok(value.map(sink).is_some())
            }
            None => self.committed(table, key, sink),
        }
    }

    fn committed(&self, table: Table, key: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<bool> {
        match self.names {
            Some(names) if table == Table::Names => names.row(key, sink),
            _ if self.new_objects.is_empty() => self.store.get_with(table, key, sink),
            _ => match table {
                Table::Rows => match object_of(key).and_then(|id| self.new_objects.row(id)) {
                    Some(row) => {
                        sink(&row);
                        Ok(true)
                    }
                    None => self.store.get_with(table, key, sink),
                },
                Table::Index => {
                    match identity_of_key(key).and_then(|h| self.new_objects.with_identity(&h)) {
                        Some(id) => {
                            sink(&id.0.to_be_bytes());
                            Ok(true)
                        }
                        None => self.store.get_with(table, key, sink),
                    }
                }
                _ => self.store.get_with(table, key, sink),
            },
        }
    }

    /// Keys of a table that were first written since the last [`Self::savepoint`].
    pub(crate) fn written(&self, table: Table) -> impl Iterator<Item = &[u8]> {
        let numbers = self.savepoint..self.writes.len();
        let writes = numbers.map(|number| self.writes.get(number));
        writes.filter(move |w| w.table == table).map(|w| w.key)
    }

    /// New objects of the group.
    pub(crate) fn new_objects(&mut self) -> &mut NewObjects {
        &mut self.new_objects
    }

    /// Whether the key was written.
    pub(crate) fn wrote(&self, table: Table, key: &[u8]) -> bool {
        self.number(table, key).is_some()
    }

    /// Whether anything other than new objects was written.
    pub(crate) fn has_writes(&self) -> bool {
        !self.writes.is_empty()
    }

    pub(crate) fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = None;
        self.get_with(table, key, &mut |v| value = Some(v.to_vec()))?;
        Ok(value)
    }

    pub(crate) fn put(&mut self, table: Table, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        let value = self.writes.add_value(value.as_ref());
        self.set(table, key.as_ref(), value);
    }

    /// Sets several keys of one table to the same value, which is stored once.
    pub(crate) fn put_all<K: AsRef<[u8]>>(
        &mut self,
        table: Table,
        keys: impl IntoIterator<Item = K>,
        value: &[u8],
    ) {
        let value = self.writes.add_value(value);
        for key in keys {
            self.set(table, key.as_ref(), value);
        }
    }

    pub(crate) fn remove(&mut self, table: Table, key: impl AsRef<[u8]>) {
        self.set(table, key.as_ref(), ValueRange::REMOVED);
    }

    fn set(&mut self, table: Table, key: &[u8], value: ValueRange) {
        let Self {
            numbers,
            writes,
            hasher,
            ..
        } = self;
        let same = |n: &u32| {
            let write = writes.get(*n as usize);
            write.table == table && write.key == key
        };
        let rehash = |n: &u32| {
            let write = writes.get(*n as usize);
            hash(hasher, write.table, write.key)
        };
        let number = writes.len() as u32;
        match numbers.entry(hash(hasher, table, key), same, rehash) {
            Entry::Occupied(number) => {
                let number = *number.get();
                let before = writes.replace(number as usize, value);
                if (number as usize) < self.savepoint {
                    self.undo.push((number, before));
                }
                return;
            }
            Entry::Vacant(vacant) => {
                vacant.insert(number);
                writes.push(table, key, value);
            }
        }
        if table == Table::History
            && let Some(history) = self.history.get_mut()
        {
            history.insert(key.to_vec(), number);
        }
    }

    /// Writes to `history` in a key range, in key order.
    pub(crate) fn pending_history(
        &self,
        range: &KeyRange,
    ) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        let writes = &self.writes;
        let history = self.history.get_or_init(|| {
            let all = (0..).zip(writes.iter());
            all.filter(|(_, w)| w.table == Table::History)
                .map(|(n, w)| (w.key.to_vec(), n))
                .collect()
        });
        // `BTreeMap::range` panics if the range ends before it begins.
        let until = range.until.as_ref().map(|until| until.max(&range.from));
        let until = until.map_or(Bound::Unbounded, |until| Bound::Excluded(until.as_slice()));
        let within = history.range::<[u8], _>((Bound::Included(range.from.as_slice()), until));
        within.map(|(key, number)| (key.as_slice(), writes.get(*number as usize).value))
    }

    pub(crate) fn store(&self) -> &'s dyn Store {
        self.store
    }

    /// Returns all writes as one batch in key order, and the new objects.
    pub(crate) fn into_batch(mut self) -> (WriteBatch, NewObjects) {
        // The key-value store's memtable is a skip list: inserting in key order is faster.
        // Objects are stored in columns, in the order of creation.
        self.writes
            .sort_except(|table, key| table == Table::Rows && object_of(key).is_some());
        (self.writes, self.new_objects)
    }
}

impl NameRows for Overlay<'_> {
    fn row(&self, key: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.get_with(Table::Names, key, sink)
    }

    fn torn(&self, error: Error) -> Error {
        match self.names {
            Some(names) => names.torn(error),
            None => error,
        }
    }
}
