//! Addition of new objects to the table: created ones, or all when a database is opened.

use super::{Table, hash_of_id, low, mix};
use crate::object::column::Column;
use crate::object::positions::{by_position, spread};
use esker_model::Version;
use esker_model::codec::{DecodeError, Reader, put_bytes, put_u64, put_varint};
use esker_model::object::ObjectId;
use esker_model::value::ValueView;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::sync::Arc;

impl Table {
    /// Encodes the numbers of objects, and of texts and their bytes in each column: the capacity to reserve at the next opening.
    pub(in crate::object) fn sizes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_u64(&mut out, self.ids.len() as u64);
        put_varint(&mut out, self.columns.len() as u64);
        for column in &self.columns {
            put_bytes(&mut out, column.name.as_bytes());
            out.push(u8::from(column.predefined));
            put_varint(&mut out, column.dictionary.len() as u64);
        }
        for column in &self.columns {
            put_varint(&mut out, column.dictionary.text_bytes() as u64);
        }
        out
    }

    /// Reserves the capacity that [`Self::sizes`] recorded; ignores what it cannot decode.
    pub(in crate::object) fn reserve_sizes(&mut self, sizes: &[u8]) {
        /// Upper bound of trusted values.
        const MOST: u64 = 1 << 27;
        let mut r = Reader::new(sizes);
        let mut read = || -> Result<(), DecodeError> {
            let slots = r.u64("a number of objects")?.min(MOST) as usize;
            self.ids.reserve_exact(slots);
            self.hashes.reserve_exact(slots);
            self.first.reserve_exact(slots);
            self.latest.reserve_exact(slots);
            self.statics.reserve_exact(slots);
            self.shapes_of.reserve_exact(slots);
            let mut texts = Vec::new();
            for _ in 0..r.count(3, "a number of columns")? {
                let name = r.str("a column's name")?;
                let predefined = r.u8("whether it is predefined")? == 1;
                let words = r.varint("a number of texts")?.min(MOST) as usize;
                texts.push((self.column_number(name, predefined), words));
            }
            for (number, words) in texts {
                // Earlier builds did not record bytes.
                let bytes = r.varint("bytes of texts").unwrap_or(0).min(MOST) as usize;
                if let Some(column) = self.columns.get_mut(number as usize) {
                    column.dictionary.reserve(words, bytes);
                }
            }
            Ok(())
        };
        // Only a hint: errors are ignored.
        let _ = read();
    }

    /// Reserves capacity for more objects.
    pub(in crate::object) fn reserve(&mut self, more: usize) {
        if self.by_id.capacity() < self.by_id.len() + more {
            self.index_slots(self.by_id.len() + more);
        }
    }

    /// Makes objects and texts of [`Self::extend`] known to look-ups. Fails if two objects have one number.
    pub(in crate::object) fn index_all(&mut self) -> Result<(), DecodeError> {
        let unique = self.index_slots(self.ids.capacity());
        self.columns.iter_mut().for_each(Column::settle_texts);
        if unique {
            Ok(())
        } else {
            Err(Reader::new(&[]).error("objects with different numbers"))
        }
    }

    /// Builds the hash tables of all objects; returns whether all have different numbers.
    fn index_slots(&mut self, capacity: usize) -> bool {
        let (ids, hashes) = (&self.ids, &self.hashes);
        self.by_id = HashTable::with_capacity(capacity);
        let all = ids.iter().map(|id| hash_of_id(*id)).zip(0..);
        let mut unique = true;
        for (hash, slot) in by_position(all, self.by_id.num_buckets()) {
            let same = |s: &u32| ids.get(*s as usize) == ids.get(slot as usize);
            match self
                .by_id
                .entry(spread(hash), same, |s| mix(ids[*s as usize]))
            {
                Entry::Occupied(_) => unique = false,
                Entry::Vacant(place) => {
                    place.insert(slot);
                }
            }
        }
        self.by_identity = HashTable::with_capacity(capacity);
        let live = hashes.iter().map(|hash| *hash as u32).zip(0..);
        let live = live.filter(|(_, slot)| self.live.contains(*slot));
        for (hash, slot) in by_position(live, self.by_identity.num_buckets()) {
            self.by_identity
                .insert_unique(spread(hash), slot, |s| low(hashes[*s as usize]));
        }
        unique
    }

    /// [`Self::apply`] for an object that is not in the table yet: its values go directly from the row into the columns of the
    /// previous object, as long as the names are the same.
    pub(in crate::object) fn apply_new(
        &mut self,
        id: ObjectId,
        row: &[u8],
        hash: u128,
    ) -> Result<(), DecodeError> {
        let mut r = Reader::new(row);
        let deleted = r.u8("flags")? == 1;
        let first = Version(r.u64("a first version")?);
        let latest = Version(r.u64("a latest version")?);
        let statics = Version(r.u64("a version")?);
        r.u16("a vertex type")?;
        r.bytes("an external key")?;
        let guess = self.shapes_of.last().copied().unwrap_or(0);
        let slot = self.push(id, first);
        let (at, slots) = (slot as usize, self.ids.len());
        self.latest[at] = latest;
        self.statics[at] = statics;
        let guessed = Arc::clone(self.shapes.get(guess));
        let mut columns = std::mem::take(&mut self.scratch);
        columns.clear();
        for predefined in [true, false] {
            for _ in 0..r.count(2, "a count of attributes")? {
                let name = r.bytes("an attribute's name")?;
                let version = if predefined {
                    None
                } else {
                    Some(Version(r.u64("a version")?)).filter(|v| *v != first)
                };
                let value = ValueView::decode(&mut r)?;
                let likely = guessed.get(columns.len()).filter(|number| {
                    let column = &self.columns[**number as usize];
                    column.predefined == predefined && column.name.as_bytes() == name
                });
                let number = if let Some(number) = likely {
                    *number
                } else {
                    let name = std::str::from_utf8(name)
                        .map_err(|_| r.error("an attribute's name in UTF-8"))?;
                    self.column_number(name, predefined)
                };
                columns.push(number);
                self.columns[number as usize].set_new(slot, &value, version, slots);
            }
        }
        r.finish()?;
        let shape = if *columns == *guessed {
            guess
        } else {
            self.shapes.of(&columns)
        };
        self.shapes_of[at] = shape;
        self.scratch = columns;
        if !deleted {
            self.live.insert(slot);
            self.hashes[at] = hash;
            self.put_identity(slot, hash);
        }
        Ok(())
    }

    /// Adds objects without their values, which follow: their numbers, the fields (`ObjectField`) in order, and which of them are
    /// deleted. [`Self::index_all`] must follow before any look-up.
    pub(in crate::object) fn extend(
        &mut self,
        ids: impl ExactSizeIterator<Item = u64>,
        parts: [impl Iterator<Item = u64>; 5],
        deleted: &[u32],
    ) {
        let base = self.ids.len() as u32;
        let [high, low, first, latest, statics] = parts;
        self.live.insert_range(base..base + ids.len() as u32);
        self.ids.extend(ids.map(ObjectId));
        let hashes = high.zip(low);
        self.hashes
            .extend(hashes.map(|(high, low)| u128::from(high) << 64 | u128::from(low)));
        self.first.extend(first.map(Version));
        self.latest.extend(latest.map(Version));
        self.statics.extend(statics.map(Version));
        self.shapes_of.resize(self.ids.len(), 0);
        for at in deleted {
            let slot = base + at;
            self.live.remove(slot);
            if let Some(hash) = self.hashes.get_mut(slot as usize) {
                *hash = 0;
            }
        }
    }
}
