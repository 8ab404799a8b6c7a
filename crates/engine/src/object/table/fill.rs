//! Addition of new objects to the table: created ones, or all when a database is opened.

use super::{ShapeId, Table, hash_of_id, low, mix};
use crate::object::column::Column;
use crate::object::positions::{by_position, widen};
use esker_model::codec::{DecodeError, Reader, put_bytes, put_u64, put_varint};
use esker_model::limits::VALUE_BYTES_MAX;
use esker_model::object::{Identity, MODE_DEFAULT, ObjectId};
use esker_model::value::ValueView;
use esker_model::{Properties, Version};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// An object to be created.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewObject<'a> {
    pub(crate) id: ObjectId,
    /// Hash of the object's identity.
    pub(crate) hash: &'a [u8; 16],
    pub(crate) version: Version,
    pub(crate) identity: &'a Identity,
    /// Predefined attributes besides the ID attributes.
    pub(crate) attributes: &'a Properties,
    pub(crate) tags: &'a Properties,
}

/// An object that is being added.
struct NewSlot {
    slot: u32,
    /// Shape of the object before it: consecutive objects usually have the same names.
    guess: ShapeId,
    /// Columns so far.
    columns: Vec<u32>,
}

/// Upper bound of the bytes of a row without values and names.
const ROW_BYTES: usize = 64;

/// Upper bound of the bytes of a value in a row, with lengths and a version.
fn size_of_value(value: &ValueView<'_>) -> usize {
    32 + match value {
        ValueView::Text(text) => text.len(),
        ValueView::Other(_) => VALUE_BYTES_MAX,
        _ => 0,
    }
}

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
                .entry(widen(hash), same, |s| mix(ids[*s as usize]))
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
                .insert_unique(widen(hash), slot, |s| low(hashes[*s as usize]));
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
        let mut new = self.begin_new(id, first);
        self.latest[new.slot as usize] = latest;
        self.statics[new.slot as usize] = statics;
        for predefined in [true, false] {
            for _ in 0..r.count(2, "a count of attributes")? {
                let name = r.str("an attribute's name")?;
                let version = if predefined {
                    None
                } else {
                    Some(Version(r.u64("a version")?)).filter(|v| *v != first)
                };
                let value = ValueView::decode(&mut r)?;
                self.put_new(&mut new, (name, predefined), &value, version);
            }
        }
        r.finish()?;
        self.end_new(new, (!deleted).then_some(hash));
        Ok(())
    }

    /// Adds a new object; returns an upper bound of the size of its row.
    pub(in crate::object) fn create(&mut self, object: NewObject<'_>) -> usize {
        let NewObject {
            identity,
            attributes,
            tags,
            ..
        } = object;
        let mut new = self.begin_new(object.id, object.version);
        let mut bytes = ROW_BYTES;
        // Attributes that all objects have, in the order of their names.
        let owned = [
            ("app", ValueView::Text(&identity.app)),
            ("mode", ValueView::I64(MODE_DEFAULT)),
            ("name", ValueView::Text(&identity.name)),
            ("owner", ValueView::I64(identity.owner)),
            ("step", ValueView::I64(identity.step)),
        ];
        let has_mode = attributes.get("mode").is_some();
        let mut owned = owned
            .iter()
            .filter(|(name, _)| !(has_mode && *name == "mode"))
            .peekable();
        let mut put = |name: &str, predefined: bool, value: &ValueView<'_>| {
            bytes += name.len() + size_of_value(value);
            self.put_new(&mut new, (name, predefined), value, None);
        };
        for (name, value) in attributes.iter() {
            while let Some((own, value)) = owned.next_if(|(own, _)| *own < name) {
                put(own, true, value);
            }
            put(name, true, &ValueView::from(value));
        }
        owned.for_each(|(own, value)| put(own, true, value));
        for (name, value) in tags.iter() {
            put(name, false, &ValueView::from(value));
        }
        self.end_new(new, Some(u128::from_be_bytes(*object.hash)));
        bytes
    }

    fn begin_new(&mut self, id: ObjectId, first: Version) -> NewSlot {
        let mut columns = std::mem::take(&mut self.scratch);
        columns.clear();
        NewSlot {
            guess: self.shapes_of.last().copied().unwrap_or(0),
            slot: self.push(id, first),
            columns,
        }
    }

    fn put_new(
        &mut self,
        new: &mut NewSlot,
        (name, predefined): (&str, bool),
        value: &ValueView<'_>,
        version: Option<Version>,
    ) {
        let likely = self.shapes.get(new.guess).get(new.columns.len());
        let likely = likely.copied().filter(|number| {
            let column = &self.columns[*number as usize];
            column.predefined == predefined && *column.name == *name
        });
        let number = likely.unwrap_or_else(|| self.column_number(name, predefined));
        new.columns.push(number);
        let slots = self.ids.len();
        self.columns[number as usize].set_new(new.slot, value, version, slots);
    }

    /// Ends adding an object; `hash` is that of its identity, if it is not deleted.
    fn end_new(&mut self, new: NewSlot, hash: Option<u128>) {
        let at = new.slot as usize;
        self.shapes_of[at] = if *new.columns == **self.shapes.get(new.guess) {
            new.guess
        } else {
            self.shapes.of(&new.columns)
        };
        self.scratch = new.columns;
        if let Some(hash) = hash {
            self.live.insert(new.slot);
            self.hashes[at] = hash;
            self.put_identity(new.slot, hash);
        }
    }

    /// Appends the objects of another table, none of which is in this one.
    pub(in crate::object) fn append(&mut self, new: &Self) {
        let base = self.ids.len() as u32;
        self.reserve(new.ids.len());
        self.ids.extend_from_slice(&new.ids);
        self.hashes.extend_from_slice(&new.hashes);
        self.first.extend_from_slice(&new.first);
        self.latest.extend_from_slice(&new.latest);
        self.statics.extend_from_slice(&new.statics);
        self.live.insert_range(base..base + new.ids.len() as u32);
        for (slot, id) in (base..).zip(&new.ids) {
            let ids = &self.ids;
            self.by_id
                .insert_unique(mix(*id), slot, |s| mix(ids[*s as usize]));
            self.reserved.remove(id);
        }
        for (slot, hash) in (base..).zip(&new.hashes) {
            if new.live.contains(slot - base) {
                self.put_identity(slot, *hash);
            } else {
                self.live.remove(slot);
            }
        }
        let slots = self.ids.len();
        let mut numbers = Vec::with_capacity(new.columns.len());
        for column in &new.columns {
            // Columns without values are those of objects before the table was cleared.
            let number = if column.count() == 0 {
                u32::MAX
            } else {
                self.column_number(&column.name, column.predefined)
            };
            numbers.push(number);
            if let Some(own) = self.columns.get_mut(number as usize) {
                own.append(column, base, slots);
            }
        }
        let mut last = (ShapeId::MAX, 0);
        for shape in &new.shapes_of {
            if last.0 != *shape {
                let columns = new.shapes.get(*shape).iter();
                let columns = columns.filter_map(|c| numbers.get(*c as usize).copied());
                self.scratch.clear();
                self.scratch.extend(columns);
                last = (*shape, self.shapes.of(&self.scratch));
            }
            self.shapes_of.push(last.1);
        }
    }

    /// Appends the objects of a commit that is replayed; those that a checkpoint already has become what they were.
    pub(in crate::object) fn replay(&mut self, new: &Self) -> Result<(), DecodeError> {
        if new.ids.iter().all(|id| self.slot_of(*id).is_none()) {
            self.append(new);
            return Ok(());
        }
        for slot in 0..new.ids.len() as u32 {
            let mut row = Vec::new();
            new.encode(slot, &mut row);
            let id = new.id(slot);
            self.apply(id, &row, new.hash_of(id))?;
        }
        Ok(())
    }

    /// Removes all objects but the first, and keeps columns, shapes and the memory of all.
    pub(in crate::object) fn truncate(&mut self, slots: usize) {
        let removed = self.ids.len().saturating_sub(slots);
        if slots == 0 && removed > self.by_id.capacity() / 64 {
            self.by_id.clear();
            self.by_identity.clear();
        } else {
            for slot in slots as u32..self.ids.len() as u32 {
                self.forget_identity(slot);
                let id = self.ids[slot as usize];
                if let Ok(entry) = self.by_id.find_entry(mix(id), |s| *s == slot) {
                    entry.remove();
                }
            }
        }
        self.ids.truncate(slots);
        self.hashes.truncate(slots);
        self.first.truncate(slots);
        self.latest.truncate(slots);
        self.statics.truncate(slots);
        self.shapes_of.truncate(slots);
        self.live.remove_range(slots as u32..);
        for column in &mut self.columns {
            column.truncate(slots);
        }
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
