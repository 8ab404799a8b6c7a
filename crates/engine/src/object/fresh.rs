//! Objects that a group of batches creates, before they are committed: encoded once, as they will stand in the log.
//!
//! They take no part in the overlay's writes: a million objects are a million rows there, each with two keys, copied and
//! looked up several times on its way into columns that want neither.

use super::log::{Entries, Mark};
use super::table::mix;
use esker_model::object::ObjectId;
use hashbrown::HashTable;
use std::cell::RefCell;

/// Objects that are new, in the order in which they were created.
#[derive(Debug, Default)]
pub(crate) struct Fresh {
    all: Vec<One>,
    entries: Entries,
    by_hash: HashTable<u32>,
    /// Those asked for by their numbers: few groups ask.
    by_id: RefCell<(usize, HashTable<u32>)>,
    savepoint: (usize, Mark),
}

/// An object.
#[derive(Debug, Clone, Copy)]
struct One {
    id: ObjectId,
    /// Of its identity.
    hash: u128,
    row: Mark,
    len: usize,
}

impl Fresh {
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Their numbers.
    pub(crate) fn ids(&self) -> impl Iterator<Item = ObjectId> {
        self.all.iter().map(|one| one.id)
    }

    /// Makes room for that many more.
    pub(crate) fn reserve(&mut self, more: usize) {
        let all = &self.all;
        let hash = |n: &u32| all.get(*n as usize).map_or(0, |one| one.hash as u64);
        self.by_hash.reserve(more, hash);
        self.all.reserve(more);
    }

    /// Adds an object, whose identity no other one here has.
    pub(crate) fn add(&mut self, id: ObjectId, hash: &[u8; 16], row: &[u8]) {
        let hash = u128::from_be_bytes(*hash);
        let number = self.all.len() as u32;
        let place = self.entries.record(id, hash, row);
        self.all.push(One {
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

    /// The object with an identity of that hash.
    pub(crate) fn with_identity(&self, hash: &[u8; 16]) -> Option<ObjectId> {
        let hash = u128::from_be_bytes(*hash);
        let one = |n: &u32| self.all.get(*n as usize);
        let found = self
            .by_hash
            .find(hash as u64, |n| one(n).is_some_and(|o| o.hash == hash))?;
        one(found).map(|o| o.id)
    }

    fn find(&self, id: ObjectId) -> Option<&One> {
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

    /// The row of an object.
    pub(crate) fn row(&self, id: ObjectId) -> Option<&[u8]> {
        if self.all.is_empty() {
            return None;
        }
        let one = self.find(id)?;
        self.entries.slice(one.row, one.len)
    }

    /// The hash of an object's identity, as it was created.
    pub(super) fn hash_of(&self, id: ObjectId) -> Option<u128> {
        if self.all.is_empty() {
            return None;
        }
        self.find(id).map(|one| one.hash)
    }

    /// From here on [`Self::undo`] goes back to here.
    pub(crate) fn savepoint(&mut self) {
        self.savepoint = (self.all.len(), self.entries.mark());
    }

    /// Takes back everything since the last [`Self::savepoint`].
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

    /// All of them: number, hash, row.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ObjectId, u128, &[u8])> {
        let row = |one: &One| self.entries.slice(one.row, one.len).unwrap_or_default();
        self.all.iter().map(move |one| (one.id, one.hash, row(one)))
    }

    /// The entries of the log that say so, none of them empty.
    pub(super) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.parts()
    }
}
