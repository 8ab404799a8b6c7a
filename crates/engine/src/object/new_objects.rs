//! Objects created by a group of batches before its commit: in columns of their own, which the commit writes to the log and
//! then appends to those of all objects.
//!
//! They bypass the overlay's writes: there a million objects would be a million rows, each with two keys, copied and
//! looked up several times on the way into columns that need neither.

use super::table::{NewObject, Table};
use esker_model::object::ObjectId;

/// New objects in the order of creation.
#[derive(Debug, Default)]
pub(crate) struct NewObjects {
    /// Absent before the first object.
    table: Option<Box<Table>>,
    /// Number of objects when the present batch began.
    savepoint: usize,
}

impl NewObjects {
    pub(crate) fn is_empty(&self) -> bool {
        self.table().is_none()
    }

    /// The columns, if there are objects.
    pub(super) fn table(&self) -> Option<&Table> {
        self.table.as_deref().filter(|table| table.slots() > 0)
    }

    pub(super) fn into_table(self) -> Option<Box<Table>> {
        self.table
    }

    /// The numbers of the objects.
    pub(crate) fn ids(&self) -> impl Iterator<Item = ObjectId> {
        self.table()
            .into_iter()
            .flat_map(|table| table.ids.iter().copied())
    }

    /// Adds an object, whose identity must be unique in the group, to columns that are empty at the first one. Returns an upper
    /// bound of the size of its row.
    pub(crate) fn add(
        &mut self,
        columns: impl FnOnce() -> Box<Table>,
        object: NewObject<'_>,
    ) -> usize {
        self.table.get_or_insert_with(columns).create(object)
    }

    /// Returns the object with an identity of that hash.
    pub(crate) fn with_identity(&self, hash: &[u8; 16]) -> Option<ObjectId> {
        let table = self.table()?;
        table.with_identity(hash).map(|slot| table.id(slot))
    }

    /// Returns the row of an object.
    pub(crate) fn row(&self, id: ObjectId) -> Option<Vec<u8>> {
        let table = self.table()?;
        let mut row = Vec::new();
        table.encode(table.slot_of(id)?, &mut row);
        Some(row)
    }

    /// Returns the hash of an object's identity at its creation.
    pub(super) fn hash_of(&self, id: ObjectId) -> Option<u128> {
        let table = self.table()?;
        table.slot_of(id).map(|_| table.hash_of(id))
    }

    /// Sets the state to which [`Self::undo`] returns.
    pub(crate) fn savepoint(&mut self) {
        self.savepoint = self.table().map_or(0, Table::slots);
    }

    /// Rolls back everything since the last [`Self::savepoint`].
    pub(crate) fn undo(&mut self) {
        if let Some(table) = &mut self.table {
            table.truncate(self.savepoint);
        }
    }
}
