//! The writes of a group of batches before they are committed: later ones of the group read them, one that fails is
//! undone alone.

use esker_model::Result;
use esker_store::{KeyRange, Store, Table, Write, WriteBatch};
use foldhash::fast::FixedState;
use std::collections::HashMap;

type Pending = HashMap<Vec<u8>, Option<Vec<u8>>, FixedState>;

/// Final state of every key touched, over a store. `None` is a removal.
pub(crate) struct Overlay<'s> {
    store: &'s dyn Store,
    tables: [Pending; Table::ALL.len()],
    /// What stood in `tables` before the present batch changed it; `None` if nothing did.
    undo: Vec<(Table, Vec<u8>, Option<Option<Vec<u8>>>)>,
    /// Whether undo is wanted: not for a batch that is alone in its group.
    undoable: bool,
}

impl<'s> Overlay<'s> {
    pub(crate) fn new(store: &'s dyn Store, undoable: bool) -> Self {
        let tables = std::array::from_fn(|_| Pending::with_hasher(FixedState::default()));
        Self {
            store,
            tables,
            undo: Vec::new(),
            undoable,
        }
    }

    /// From here on [`Self::undo`] goes back to here.
    pub(crate) fn savepoint(&mut self) {
        self.undo.clear();
    }

    /// Takes back everything since the last [`Self::savepoint`].
    pub(crate) fn undo(&mut self) {
        if !self.undoable {
            self.tables.iter_mut().for_each(HashMap::clear);
        }
        while let Some((table, key, before)) = self.undo.pop() {
            let pending = &mut self.tables[table as usize];
            match before {
                Some(value) => pending.insert(key, value),
                None => pending.remove(&key),
            };
        }
    }

    /// Makes room for that many more current rows.
    pub(crate) fn reserve(&mut self, rows: usize) {
        self.tables[Table::Rows as usize].reserve(rows);
    }

    pub(crate) fn get_with(
        &self,
        table: Table,
        key: &[u8],
        sink: &mut dyn FnMut(&[u8]),
    ) -> Result<bool> {
        match self.tables[table as usize].get(key) {
            Some(Some(value)) => {
                sink(value);
                Ok(true)
            }
            Some(None) => Ok(false),
            None => self.store.get_with(table, key, sink),
        }
    }

    pub(crate) fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = None;
        self.get_with(table, key, &mut |v| value = Some(v.to_vec()))?;
        Ok(value)
    }

    pub(crate) fn put(&mut self, table: Table, key: Vec<u8>, value: Vec<u8>) {
        self.set(table, key, Some(value));
    }

    pub(crate) fn remove(&mut self, table: Table, key: Vec<u8>) {
        self.set(table, key, None);
    }

    fn set(&mut self, table: Table, key: Vec<u8>, value: Option<Vec<u8>>) {
        let pending = &mut self.tables[table as usize];
        if self.undoable {
            let before = pending.insert(key.clone(), value);
            self.undo.push((table, key, before));
        } else {
            pending.insert(key, value);
        }
    }

    /// Pending writes of a range in key order, for the rare reads that need one.
    pub(crate) fn pending_in(&self, table: Table, range: &KeyRange) -> Vec<(&[u8], Option<&[u8]>)> {
        let mut rows: Vec<_> = self.tables[table as usize]
            .iter()
            .filter(|(k, _)| {
                **k >= range.from && range.until.as_ref().is_none_or(|until| *k < until)
            })
            .map(|(k, v)| (k.as_slice(), v.as_deref()))
            .collect();
        rows.sort_unstable();
        rows
    }

    pub(crate) fn store(&self) -> &'s dyn Store {
        self.store
    }

    /// Everything, as one batch in key order.
    pub(crate) fn into_batch(self) -> WriteBatch {
        let mut writes = Vec::with_capacity(self.tables.iter().map(HashMap::len).sum());
        for (table, pending) in Table::ALL.into_iter().zip(self.tables) {
            let mut rows: Vec<_> = pending.into_iter().collect();
            // The memtable is a skip list: neighbours inserted one after the other find their place faster.
            rows.sort_unstable_by(|a, b| a.0.cmp(&b.0));
            writes.extend(rows.into_iter().map(|(key, value)| match value {
                Some(value) => Write::Put(table, key, value),
                None => Write::Remove(table, key),
            }));
        }
        WriteBatch { writes }
    }
}
