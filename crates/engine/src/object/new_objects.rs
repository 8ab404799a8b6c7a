//! Objects created by a group of batches before its commit: encoded once, in the format of the log.
//!
//! They bypass the overlay's writes: there a million objects would be a million rows, each with two keys, copied and
//! looked up several times on the way into columns that need neither.

use super::log::{EntryPosition, LogEntries};
use super::table::mix;
use esker_model::object::ObjectId;
use hashbrown::HashTable;
use std::cell::RefCell;

/// New objects in the order of creation.
#[derive(Debug, Default)]
pub(crate) struct NewObjects {
    all: Vec<NewObject>,
    entries: LogEntries,
    by_hash: HashTable<u32>,
    /// Objects by number; filled at the first look-up, which few groups make.
    by_id: RefCell<(usize, HashTable<u32>)>,
    savepoint: (usize, EntryPosition),
}

/// A new object.
#[derive(Debug, Clone, Copy)]
struct NewObject {
    id: ObjectId,
    /// Hash of the object's identity.
    hash: u128,
    row: EntryPosition,
    len: usize,
}

impl NewObjects {
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// The numbers of the objects.
    pub(crate) fn ids(&self) -> impl Iterator<Item = ObjectId> {
        self.all.iter().map(|one| one.id)
    }

    /// Reserves capacity for more objects.
    pub(crate) fn reserve(&mut self, more: usize) {
        let all = &self.all;
        let hash = |n: &u32| all.get(*n as usize).map_or(0, |one| one.hash as u64);
        self.by_hash.reserve(more, hash);
        self.all.reserve(more);
    }

    /// Adds an object; its identity must be unique in the group.
    pub(crate) fn add(&mut self, id: ObjectId, hash: &[u8; 16], row: &[u8]) {
        let hash = u128::from_be_bytes(*hash);
        let number = self.all.len() as u32;
        let place = self.entries.record(id, hash, row);
        self.all.push(NewObject {
            id,
            hash,
            row: place,
            len: row.len(),
        });
        let all = &self.all;
        self.by_hash.insert_unique(hash as u64, number, |n| {
            all.get(*n as usize).map_or(0, |one| one.hash as u64)
        });
    }

    /// Returns the object with an identity of that hash.
    pub(crate) fn with_identity(&self, hash: &[u8; 16]) -> Option<ObjectId> {
        let hash = u128::from_be_bytes(*hash);
        let one = |n: &u32| self.all.get(*n as usize);
        let found = self
            .by_hash
            .find(hash as u64, |n| one(n).is_some_and(|o| o.hash == hash))?;
        one(found).map(|o| o.id)
    }

    fn find(&self, id: ObjectId) -> Option<&NewObject> {
        let mut by_id = self.by_id.borrow_mut();
        let (known, numbers) = &mut *by_id;
        let number_of = |n: &u32| self.all.get(*n as usize).map_or(0, |one| mix(one.id));
        while let Some(one) = self.all.get(*known) {
            numbers.insert_unique(mix(one.id), *known as u32, number_of);
            *known += 1;
        }
        let one = |n: &u32| self.all.get(*n as usize);
        let found = numbers.find(mix(id), |n| one(n).is_some_and(|o| o.id == id))?;
        one(found)
    }

    /// Returns the row of an object.
    pub(crate) fn row(&self, id: ObjectId) -> Option<&[u8]> {
        if self.all.is_empty() {
            return None;
        }
        let one = self.find(id)?;
        self.entries.slice(one.row, one.len)
    }

    /// Returns the hash of an object's identity at its creation.
    pub(super) fn hash_of(&self, id: ObjectId) -> Option<u128> {
        if self.all.is_empty() {
            return None;
        }
        self.find(id).map(|one| one.hash)
    }

    /// Sets the state to which [`Self::undo`] returns.
    pub(crate) fn savepoint(&mut self) {
        self.savepoint = (self.all.len(), self.entries.mark());
    }

    /// Rolls back everything since the last [`Self::savepoint`].
    pub(crate) fn undo(&mut self) {
        let (len, mark) = self.savepoint;
        for (number, one) in (0..).zip(&self.all).skip(len) {
            if let Ok(found) = self.by_hash.find_entry(one.hash as u64, |n| *n == number) {
                found.remove();
            }
        }
        self.all.truncate(len);
        self.entries.cut_back(mark);
        *self.by_id.get_mut() = (0, HashTable::new());
    }

    /// All objects: number, hash, row.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ObjectId, u128, &[u8])> {
        let row = |one: &NewObject| self.entries.slice(one.row, one.len).unwrap_or_default();
        self.all.iter().map(move |one| (one.id, one.hash, row(one)))
    }

    /// The entries of the log for these objects; no part is empty.
    pub(super) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.parts()
    }
}
