//! All objects of a database in columns in memory, in their present state. Slots are assigned in the order of creation and
//! never reused; a slot is a row of the columns.

mod fill;

pub(crate) use fill::NewObject;

use super::column::Column;
use super::positions::widen;
use super::shapes::{ShapeId, Shapes};
use esker_model::codec::{DecodeError, put_bytes, put_u16, put_u64, put_varint};
use esker_model::object::{ObjectId, prefix_of};
use esker_model::record::VertexView;
use esker_model::value::ValueView;
use esker_model::{Version, VertexTypeId};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use roaring::RoaringBitmap;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// All objects in columns.
#[derive(Debug)]
pub(crate) struct Table {
    pub(super) type_id: VertexTypeId,
    pub(super) ids: Vec<ObjectId>,
    /// Hash of each object's identity.
    hashes: Vec<u128>,
    first: Vec<Version>,
    latest: Vec<Version>,
    statics: Vec<Version>,
    shapes_of: Vec<ShapeId>,
    /// Slots of objects that are not deleted.
    pub(super) live: RoaringBitmap,
    by_id: HashTable<u32>,
    by_identity: HashTable<u32>,
    pub(super) columns: Vec<Column>,
    predefined: HashMap<Box<str>, u32, FixedState>,
    tags: HashMap<Box<str>, u32, FixedState>,
    shapes: Shapes,
    /// Numbers assigned in the newest time window to objects that are not in the table yet.
    reserved: HashSet<ObjectId, FixedState>,
    /// The newest time window.
    window: u64,
    /// Names that searches must not index.
    pub(super) unindexed: HashSet<Box<str>, FixedState>,
    /// Number of values from which an index is built.
    index_least: u64,
    /// Buffer for a shape that is being determined.
    scratch: Vec<u32>,
}

/// A numeric field that each object has.
#[derive(Debug, Clone, Copy)]
pub(super) enum ObjectField {
    /// The first half of the hash of the identity.
    HashHigh,
    /// The second half of the hash of the identity.
    HashLow,
    /// Version of the creation.
    First,
    /// Version of the last change.
    Latest,
    /// Version of the last change of predefined attributes.
    Static,
}

/// Hashes an object's number.
fn hash_of_id(id: ObjectId) -> u32 {
    // Both the prefix, in the high bits, and the sequence, in the low ones, distinguish objects.
    (id.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32
}

/// [`hash_of_id`] for a hash table.
pub(super) fn mix(id: ObjectId) -> u64 {
    widen(hash_of_id(id))
}

/// The part of an identity's hash that is used as the key of a hash table.
fn low(hash: u128) -> u64 {
    widen(hash as u32)
}

impl Table {
    pub(super) fn new(type_id: VertexTypeId, index_least: u64) -> Self {
        Self {
            type_id,
            ids: Vec::new(),
            hashes: Vec::new(),
            first: Vec::new(),
            latest: Vec::new(),
            statics: Vec::new(),
            shapes_of: Vec::new(),
            live: RoaringBitmap::new(),
            by_id: HashTable::new(),
            by_identity: HashTable::new(),
            columns: Vec::new(),
            predefined: HashMap::default(),
            tags: HashMap::default(),
            shapes: Shapes::default(),
            reserved: HashSet::default(),
            window: 0,
            unindexed: HashSet::default(),
            index_least,
            scratch: Vec::new(),
        }
    }

    pub(super) fn slots(&self) -> usize {
        self.ids.len()
    }

    pub(super) fn slot_of(&self, id: ObjectId) -> Option<u32> {
        let found = self.by_id.find(mix(id), |s| self.id(*s) == id);
        found.copied()
    }

    pub(super) fn id(&self, slot: u32) -> ObjectId {
        self.ids.get(slot as usize).copied().unwrap_or(ObjectId(0))
    }

    pub(super) fn first(&self, slot: u32) -> Version {
        self.first
            .get(slot as usize)
            .copied()
            .unwrap_or(Version::ZERO)
    }

    pub(super) fn latest(&self, slot: u32) -> Version {
        self.latest
            .get(slot as usize)
            .copied()
            .unwrap_or(Version::ZERO)
    }

    /// Returns the slot of the object with an identity of that hash.
    pub(super) fn with_identity(&self, hash: &[u8; 16]) -> Option<u32> {
        let hash = u128::from_be_bytes(*hash);
        let same = |s: &u32| self.hashes.get(*s as usize) == Some(&hash);
        self.by_identity.find(low(hash), same).copied()
    }

    /// Returns the column of a name: a predefined attribute takes precedence over a tag.
    pub(super) fn column(&self, name: &str) -> Option<&Column> {
        let number = self.predefined.get(name).or_else(|| self.tags.get(name));
        number.and_then(|n| self.columns.get(*n as usize))
    }

    /// Returns the column of a tag.
    pub(super) fn tag_column(&self, name: &str) -> Option<&Column> {
        let number = self.tags.get(name)?;
        self.columns.get(*number as usize)
    }

    /// Number of tags of an object.
    pub(super) fn tags_of(&self, slot: u32) -> usize {
        let shape = self.shapes_of.get(slot as usize).copied().unwrap_or(0);
        let tag = |c: &&u32| {
            self.columns
                .get(**c as usize)
                .is_some_and(|c| !c.predefined)
        };
        self.shapes.get(shape).iter().filter(tag).count()
    }

    /// Enables or disables the index of a name; returns whether that is a change.
    pub(super) fn set_indexed(&mut self, name: &str, on: bool) -> bool {
        let changed = if on {
            self.unindexed.remove(name)
        } else {
            self.unindexed.insert(name.into())
        };
        for column in self.columns.iter_mut().filter(|c| *c.name == *name) {
            column.indexed = on;
            if !on {
                column.drop_index();
            }
        }
        changed
    }

    /// Returns the number of a new object with an identity of that hash, created at that time or later. It is derived from the time and
    /// the hash alone, so that it does not reveal how many hidden objects there are. Only if 35 bits of the hash and the time window
    /// equal those of another object, the next free number is taken.
    pub(super) fn new_id(&mut self, hash: &[u8; 16], millis: u64) -> ObjectId {
        let window = millis.saturating_sub(EPOCH_MILLIS) / WINDOW_MILLIS;
        if window > self.window {
            self.window = window;
            self.reserved.clear();
        }
        let from_hash = u64::from(u32::from_be_bytes([0, hash[2], hash[3], hash[4]])) >> 4;
        let mut sequence = self.window << WINDOW_BITS | from_hash;
        loop {
            let id = ObjectId::new(prefix_of(hash), sequence);
            if self.slot_of(id).is_none() && self.reserved.insert(id) {
                return id;
            }
            sequence += 1;
        }
    }

    /// Appends the row of an object, as `VertexRecord::encode` would write it.
    pub(super) fn encode(&self, slot: u32, out: &mut Vec<u8>) {
        let at = slot as usize;
        let deleted = !self.live.contains(slot);
        out.push(u8::from(deleted));
        let (first, latest) = (self.first(slot), self.latest(slot));
        put_u64(out, first.0);
        put_u64(out, latest.0);
        put_u64(out, self.statics.get(at).map_or(0, |v| v.0));
        put_u16(out, self.type_id.0);
        let mut digits = [0; 20];
        put_bytes(out, decimal(self.id(slot).0, &mut digits));
        let columns = self
            .shapes
            .get(self.shapes_of.get(at).copied().unwrap_or(0));
        let columns = || columns.iter().filter_map(|c| self.columns.get(*c as usize));
        let predefined = columns().take_while(|c| c.predefined).count();
        put_varint(out, predefined as u64);
        for column in columns().take(predefined) {
            put_bytes(out, column.name.as_bytes());
            column.get(slot).unwrap_or(ValueView::Null).encode(out);
        }
        put_varint(out, (columns().count() - predefined) as u64);
        for column in columns().skip(predefined) {
            put_bytes(out, column.name.as_bytes());
            put_u64(out, column.version(slot).unwrap_or(first).0);
            column.get(slot).unwrap_or(ValueView::Null).encode(out);
        }
    }

    /// Replaces an object by the state in its row. `hash` is that of its identity, and unused if the object is deleted.
    pub(super) fn apply(
        &mut self,
        id: ObjectId,
        row: &[u8],
        hash: u128,
    ) -> Result<(), DecodeError> {
        let Some(slot) = self.slot_of(id) else {
            return self.apply_new(id, row, hash);
        };
        let view = VertexView::decode(row)?;
        let at = slot as usize;
        let old = self.shapes_of[at];
        self.first[at] = view.first;
        self.latest[at] = view.latest;
        self.statics[at] = view.static_version;
        let shape = self.shape_of(&view, old);
        let columns = Arc::clone(self.shapes.get(shape));
        if old != shape && old != 0 {
            for column in Arc::clone(self.shapes.get(old)).iter() {
                if !columns.contains(column) {
                    self.columns[*column as usize].remove(slot);
                }
            }
        }
        self.shapes_of[at] = shape;
        let slots = self.ids.len();
        let predefined = view.attributes.iter().map(|(_, v)| (v, None));
        let tags = view.user.iter().map(|(_, version, v)| {
            let later = (*version != view.first).then_some(*version);
            (v, later)
        });
        for (number, (value, version)) in columns.iter().zip(predefined.chain(tags)) {
            let column = &mut self.columns[*number as usize];
            if old != 0
                && column.version(slot) == version
                && column.get(slot).as_ref() == Some(value)
            {
                continue;
            }
            column.set(slot, value, version, slots);
        }
        self.settle(slot, view.deleted, hash);
        Ok(())
    }

    fn settle(&mut self, slot: u32, deleted: bool, hash: u128) {
        if deleted {
            self.live.remove(slot);
            self.forget_identity(slot);
        } else {
            self.live.insert(slot);
            self.identify(slot, hash);
        }
    }

    /// Returns the hash of an object's identity.
    pub(super) fn hash_of(&self, id: ObjectId) -> u128 {
        let slot = self.slot_of(id);
        slot.and_then(|s| self.hashes.get(s as usize).copied())
            .unwrap_or(0)
    }

    /// Returns a numeric field of an object.
    pub(super) fn part(&self, part: ObjectField, slot: u32) -> u64 {
        let at = slot as usize;
        let version = |all: &[Version]| all.get(at).map_or(0, |v| v.0);
        match part {
            ObjectField::HashHigh => (self.hashes.get(at).copied().unwrap_or(0) >> 64) as u64,
            ObjectField::HashLow => self.hashes.get(at).copied().unwrap_or(0) as u64,
            ObjectField::First => version(&self.first),
            ObjectField::Latest => version(&self.latest),
            ObjectField::Static => version(&self.statics),
        }
    }

    pub(super) fn shape_of_slot(&self, slot: u32) -> ShapeId {
        self.shapes_of.get(slot as usize).copied().unwrap_or(0)
    }

    pub(super) fn shape(&self, shape: ShapeId) -> &Arc<[u32]> {
        self.shapes.get(shape)
    }

    pub(super) fn shape_with(&mut self, columns: &[u32]) -> ShapeId {
        self.shapes.of(columns)
    }

    pub(super) fn set_shape(&mut self, slot: u32, shape: ShapeId) {
        if let Some(place) = self.shapes_of.get_mut(slot as usize) {
            *place = shape;
        }
    }

    fn push(&mut self, id: ObjectId, first: Version) -> u32 {
        let slot = self.ids.len() as u32;
        self.ids.push(id);
        self.hashes.push(0);
        self.first.push(first);
        self.latest.push(first);
        self.statics.push(first);
        self.shapes_of.push(0);
        let ids = &self.ids;
        self.by_id
            .insert_unique(mix(id), slot, |s| mix(ids[*s as usize]));
        self.reserved.remove(&id);
        slot
    }

    fn shape_of(&mut self, view: &VertexView<'_>, hint: ShapeId) -> ShapeId {
        // Consecutive objects usually have the same names.
        for guess in [
            hint,
            self.shapes_of.iter().rev().nth(1).copied().unwrap_or(0),
        ] {
            let columns = self.shapes.get(guess);
            let same = columns.len() == view.attributes.len() + view.user.len()
                && columns
                    .iter()
                    .zip(names(view))
                    .all(|(c, (name, predefined))| {
                        let column = &self.columns[*c as usize];
                        column.predefined == predefined && *column.name == *name
                    });
            if same {
                return guess;
            }
        }
        let mut columns = std::mem::take(&mut self.scratch);
        columns.clear();
        for (name, predefined) in names(view) {
            columns.push(self.column_number(name, predefined));
        }
        let shape = self.shapes.of(&columns);
        self.scratch = columns;
        shape
    }

    pub(super) fn column_number(&mut self, name: &str, predefined: bool) -> u32 {
        let numbers = if predefined {
            &mut self.predefined
        } else {
            &mut self.tags
        };
        if let Some(number) = numbers.get(name) {
            return *number;
        }
        let number = self.columns.len() as u32;
        numbers.insert(name.into(), number);
        let indexed = !self.unindexed.contains(name);
        let index = (indexed, self.index_least);
        self.columns.push(Column::new(name, predefined, index));
        number
    }

    fn identify(&mut self, slot: u32, hash: u128) {
        let old = self.hashes[slot as usize];
        if old == hash && self.identified(slot, old) {
            return;
        }
        self.forget_identity(slot);
        self.hashes[slot as usize] = hash;
        self.put_identity(slot, hash);
    }

    /// Adds the identity of a slot, whose hash is already stored, to the hash table.
    fn put_identity(&mut self, slot: u32, hash: u128) {
        let hashes = &self.hashes;
        self.by_identity
            .insert_unique(low(hash), slot, |s| low(hashes[*s as usize]));
    }

    fn identified(&self, slot: u32, hash: u128) -> bool {
        self.by_identity.find(low(hash), |s| *s == slot).is_some()
    }

    fn forget_identity(&mut self, slot: u32) {
        let hash = self.hashes[slot as usize];
        if let Ok(entry) = self.by_identity.find_entry(low(hash), |s| *s == slot) {
            entry.remove();
        }
    }

    /// Sets (or, with `None`, removes) a tag of many objects at a version.
    pub(super) fn tag(
        &mut self,
        slots: &RoaringBitmap,
        name: &str,
        value: Option<&ValueView<'_>>,
        version: Version,
    ) {
        let all = self.ids.len();
        let number = self.column_number(name, false);
        let mut last: Option<(ShapeId, ShapeId)> = None;
        for slot in slots {
            let at = slot as usize;
            if at >= all {
                continue;
            }
            self.latest[at] = self.latest[at].max(version);
            let shape = self.shapes_of[at];
            let next = match last {
                Some((from, to)) if from == shape => to,
                _ => {
                    let name = &*self.columns[number as usize].name;
                    let before = |c: u32| {
                        let other = &self.columns[c as usize];
                        other.predefined || *other.name < *name
                    };
                    let next = match value {
                        Some(_) => self.shapes.with(shape, number, before),
                        None => self.shapes.without(shape, number),
                    };
                    last = Some((shape, next));
                    next
                }
            };
            self.shapes_of[at] = next;
        }
        let column = &mut self.columns[number as usize];
        let known = slots.max().is_none_or(|last| (last as usize) < all);
        match value {
            Some(value) if known && slots.len() >= GROUP_LEAST.min(self.index_least) => {
                column.set_all(slots, value, version, all);
            }
            Some(value) => {
                for slot in slots.iter().filter(|s| (*s as usize) < all) {
                    let later = (version != self.first[slot as usize]).then_some(version);
                    column.set(slot, value, later, all);
                }
            }
            None => {
                for slot in slots {
                    column.remove(slot);
                }
            }
        }
    }

    /// Memory without indexes, and memory of the indexes, in bytes.
    pub(super) fn bytes(&self) -> (u64, u64) {
        let slots = self.ids.capacity() * (8 + 16 + 8 + 8 + 8 + 4);
        let maps = (self.by_id.capacity() + self.by_identity.capacity()) * 5 * 8 / 7;
        let own = (slots + maps + self.reserved.capacity() * 8) as u64
            + self.shapes.bytes()
            + self.live.serialized_size() as u64;
        let columns = self.columns.iter().map(Column::bytes);
        columns.fold((own, 0), |sum, (values, index)| {
            (sum.0 + values, sum.1 + index)
        })
    }
}

/// Number of objects from which a tag set at once is stored as one value with a set of slots.
const GROUP_LEAST: u64 = 64;

/// 2026-01-01T00:00:00Z: the start of the first time window.
const EPOCH_MILLIS: u64 = 1_767_225_600_000;
/// Length of a time window. Its number is the upper part of an object's sequence number, so numbers assigned after a backup
/// was taken are not reused after it is restored, except in the same window for the same identity.
const WINDOW_MILLIS: u64 = 1 << 15;
/// Bits of a sequence number below the window; taken from the identity's hash.
const WINDOW_BITS: u32 = 20;

fn names<'v>(view: &'v VertexView<'_>) -> impl Iterator<Item = (&'v str, bool)> {
    let predefined = view.attributes.iter().map(|(name, _)| (*name, true));
    let tags = view.user.iter().map(|(name, ..)| (*name, false));
    predefined.chain(tags)
}

/// Formats decimal digits without an allocation.
fn decimal(mut value: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return &digits[at..];
        }
    }
}
