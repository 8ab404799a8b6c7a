//! A column: the values of all objects under one name, by slot. Values of different kinds are stored separately, each kind in
//! an array of its own.

use super::cells::Cells;
use super::dictionary::{Dictionary, TextOrder, TrigramIndex};
use super::sorted::Sorted;
use esker_model::value::ValueView;
use esker_model::{Value, Version};
use foldhash::fast::FixedState;
use roaring::RoaringBitmap;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The values of all objects under one name.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) name: Box<str>,
    pub(super) predefined: bool,
    pub(super) ints: Cells<i64>,
    /// Bits of the values; [`float_key`] orders them.
    pub(super) floats: Cells<u64>,
    pub(super) times: Cells<i64>,
    /// Numbers of texts in `dictionary`.
    pub(super) texts: Cells<u32>,
    pub(super) dictionary: Dictionary,
    /// Slots of tags without a value.
    pub(super) nulls: RoaringBitmap,
    /// Booleans, bytes and lists.
    pub(super) others: HashMap<u32, Value, FixedState>,
    /// Values that many objects received at once.
    pub(super) groups: Vec<ValueGroup>,
    /// Version of a value, where it is not that of the object's creation.
    pub(super) versions: Cells<u64>,
    /// Whether searches may build an index.
    pub(super) indexed: bool,
    /// Number of values from which an index is built; up to four times as many changed slots are always tested individually.
    least: u64,
    index: Mutex<Index>,
}

/// A value shared by many objects, with the set of their slots.
#[derive(Debug)]
pub(super) struct ValueGroup {
    pub(super) value: Value,
    /// Number of the text, if the value is text.
    pub(super) word: u32,
    pub(super) version: Version,
    pub(super) slots: RoaringBitmap,
}

/// Maximum number of groups of a column: each look-up of a value searches all of them.
const GROUPS_MAX: usize = 8;

/// Index from values to slots, built on demand.
#[derive(Debug, Default)]
struct Index {
    /// Whether a search has needed it.
    wanted: bool,
    built: Option<Arc<ValueIndex>>,
    /// Slots whose value may have changed since it was built.
    changed: RoaringBitmap,
    order: Option<Arc<TextOrder>>,
    grams: Option<Arc<TrigramIndex>>,
}

impl Index {
    fn view(&self) -> Option<IndexView> {
        Some(IndexView {
            built: Arc::clone(self.built.as_ref()?),
            changed: self.changed.clone(),
            order: self.order.clone(),
            grams: self.grams.clone(),
        })
    }
}

/// Parts of an index that a search needs.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct IndexNeeds {
    /// Whether the order of texts is needed.
    pub(super) order: bool,
    /// Whether trigrams of texts are needed.
    pub(super) grams: bool,
    /// Whether to build the index even if no search has needed it before.
    pub(super) now: bool,
}

/// A search's view of a column's index.
#[derive(Debug, Clone)]
pub(super) struct IndexView {
    pub(super) built: Arc<ValueIndex>,
    /// Slots that the index does not cover any more.
    pub(super) changed: RoaringBitmap,
    pub(super) order: Option<Arc<TextOrder>>,
    pub(super) grams: Option<Arc<TrigramIndex>>,
}

/// Slots by value, at the time of building.
#[derive(Debug, Default)]
pub(super) struct ValueIndex {
    pub(super) ints: Sorted<i64>,
    pub(super) floats: Sorted<u64>,
    pub(super) times: Sorted<i64>,
    pub(super) texts: Sorted<u32>,
}

impl ValueIndex {
    fn bytes(&self) -> u64 {
        self.ints.bytes() + self.floats.bytes() + self.times.bytes() + self.texts.bytes()
    }

    pub(super) fn distinct(&self) -> u64 {
        let all = self.ints.distinct()
            + self.floats.distinct()
            + self.times.distinct()
            + self.texts.distinct();
        all as u64
    }
}

/// Maps the bits of a double to an integer of the same order: those of negative numbers are complemented. Both zeros map to
/// one key, and NaN to the largest.
pub(super) fn float_key(value: f64) -> u64 {
    if value.is_nan() {
        return u64::MAX;
    }
    let bits = (value + 0.0).to_bits();
    if bits >> 63 == 1 {
        !bits
    } else {
        bits | 1 << 63
    }
}

/// Inverse of [`float_key`]. The sign of zero is lost, so the column also stores the original bits.
pub(super) fn float_of(key: u64) -> f64 {
    if key == u64::MAX {
        return f64::NAN;
    }
    f64::from_bits(if key >> 63 == 1 {
        key & !(1 << 63)
    } else {
        !key
    })
}

impl Column {
    pub(super) fn new(name: &str, predefined: bool, (indexed, least): (bool, u64)) -> Self {
        Self {
            name: name.into(),
            predefined,
            ints: Cells::default(),
            floats: Cells::default(),
            times: Cells::default(),
            texts: Cells::default(),
            dictionary: Dictionary::default(),
            nulls: RoaringBitmap::new(),
            others: HashMap::default(),
            groups: Vec::new(),
            versions: Cells::default(),
            indexed,
            least,
            index: Mutex::default(),
        }
    }

    /// Number of objects with a value.
    pub(super) fn count(&self) -> u64 {
        let values = self.ints.len()
            + self.floats.len()
            + self.times.len()
            + self.texts.len()
            + self.others.len();
        let groups: u64 = self.groups.iter().map(|g| g.slots.len()).sum();
        values as u64 + self.nulls.len() + groups
    }

    fn group(&self, slot: u32) -> Option<&ValueGroup> {
        self.groups.iter().find(|g| g.slots.contains(slot))
    }

    pub(super) fn get(&self, slot: u32) -> Option<ValueView<'_>> {
        if let Some(word) = self.texts.get(slot) {
            return Some(ValueView::Text(self.dictionary.get(word)));
        }
        if let Some(v) = self.ints.get(slot) {
            return Some(ValueView::I64(v));
        }
        if let Some(v) = self.floats.get(slot) {
            return Some(ValueView::F64(f64::from_bits(v)));
        }
        if let Some(v) = self.times.get(slot) {
            return Some(ValueView::Timestamp(v));
        }
        if self.nulls.contains(slot) {
            return Some(ValueView::Null);
        }
        if let Some(v) = self.others.get(&slot) {
            return Some(ValueView::from(v));
        }
        self.group(slot).map(|g| ValueView::from(&g.value))
    }

    /// Indexes the texts that were appended to the dictionary: equal ones become one.
    pub(super) fn settle_texts(&mut self) {
        if let Some(numbers) = self.dictionary.settle() {
            let of = |word: u32| numbers.get(word as usize).copied().unwrap_or(0);
            self.texts.map_all(of);
        }
    }

    /// Version at which the value was set; `None` if it is that of the object's creation.
    pub(super) fn version(&self, slot: u32) -> Option<Version> {
        if let Some(version) = self
            .versions
            .get(slot)
            .filter(|_| !self.versions.is_empty())
        {
            return Some(Version(version));
        }
        self.group(slot).map(|g| g.version)
    }

    /// Sets the version of a value.
    pub(super) fn set_version(&mut self, slot: u32, version: Version, slots: usize) {
        self.versions.set(slot, version.0, slots);
    }

    /// Sets the value of a slot that has none.
    pub(super) fn set_new(
        &mut self,
        slot: u32,
        value: &ValueView<'_>,
        version: Option<Version>,
        slots: usize,
    ) {
        self.put(slot, value, slots);
        if let Some(version) = version {
            self.versions.set(slot, version.0, slots);
        }
        self.note(slot);
    }

    fn put(&mut self, slot: u32, value: &ValueView<'_>, slots: usize) {
        match value {
            ValueView::Null => {
                self.nulls.insert(slot);
            }
            ValueView::I64(v) => self.ints.set(slot, *v, slots),
            ValueView::F64(v) => self.floats.set(slot, v.to_bits(), slots),
            ValueView::Timestamp(v) => self.times.set(slot, *v, slots),
            ValueView::Text(text) => {
                let word = self.dictionary.number(text);
                self.texts.set(slot, word, slots);
            }
            ValueView::Other(v) => {
                self.others.insert(slot, v.clone());
            }
        }
    }

    /// Appends the values of another column, which are in slots from `base` on, all of the objects' creation.
    pub(super) fn append(&mut self, new: &Self, base: u32, slots: usize) {
        self.ints.append(&new.ints, base, slots, |v| v);
        self.floats.append(&new.floats, base, slots, |v| v);
        self.times.append(&new.times, base, slots, |v| v);
        let mut words = vec![u32::MAX; new.dictionary.len()];
        let dictionary = &mut self.dictionary;
        self.texts.append(&new.texts, base, slots, |word| {
            let Some(number) = words.get_mut(word as usize) else {
                return 0;
            };
            if *number == u32::MAX {
                *number = dictionary.look_up(new.dictionary.get(word));
            }
            *number
        });
        self.versions.append(&new.versions, base, slots, |v| v);
        self.nulls.extend(new.nulls.iter().map(|slot| base + slot));
        let others = new.others.iter();
        self.others
            .extend(others.map(|(slot, value)| (base + slot, value.clone())));
        let index = self.index.get_mut().unwrap_or_else(PoisonError::into_inner);
        if index.built.is_some() {
            index.changed.insert_range(base..slots as u32);
        }
    }

    /// Removes the values of all slots but the first.
    pub(super) fn truncate(&mut self, slots: usize) {
        self.ints.truncate(slots);
        self.floats.truncate(slots);
        self.times.truncate(slots);
        self.texts.truncate(slots);
        self.versions.truncate(slots);
        self.nulls.remove_range(slots as u32..);
        self.others.retain(|slot, _| (*slot as usize) < slots);
        for group in &mut self.groups {
            group.slots.remove_range(slots as u32..);
        }
        if slots == 0 {
            self.dictionary.clear();
        }
    }

    /// Sets one value of many slots at a version.
    pub(super) fn set_all(
        &mut self,
        slots: &RoaringBitmap,
        value: &ValueView<'_>,
        version: Version,
        all: usize,
    ) {
        let value = value.to_value();
        let same = |g: &ValueGroup| g.version == version && g.value == value;
        if value == Value::Null
            || (self.groups.len() >= GROUPS_MAX && !self.groups.iter().any(same))
        {
            for slot in slots {
                self.set(slot, &ValueView::from(&value), Some(version), all);
            }
            return;
        }
        if self.count() > 0 {
            for slot in self.slots_among(slots) {
                self.remove(slot);
            }
        }
        self.groups.retain(|g| !g.slots.is_empty());
        let index = self.index.get_mut().unwrap_or_else(PoisonError::into_inner);
        if index.built.is_some() {
            index.changed |= slots;
        }
        if let Some(group) = self.groups.iter_mut().find(|g| same(g)) {
            group.slots |= slots;
            return;
        }
        let word = match &value {
            Value::String(text) => self.dictionary.number(text),
            _ => 0,
        };
        self.groups.push(ValueGroup {
            value,
            word,
            version,
            slots: slots.clone(),
        });
    }

    /// Sets a value; returns whether there was one. `version` is `None` if it is that of the object's creation.
    pub(super) fn set(
        &mut self,
        slot: u32,
        value: &ValueView<'_>,
        version: Option<Version>,
        slots: usize,
    ) -> bool {
        let there = self.take_out(slot, value);
        self.put(slot, value, slots);
        match version {
            Some(version) => self.versions.set(slot, version.0, slots),
            None if there && !self.versions.is_empty() => {
                self.versions.remove(slot);
            }
            None => {}
        }
        self.note(slot);
        there
    }

    /// Removes a value; returns whether there was one.
    pub(super) fn remove(&mut self, slot: u32) -> bool {
        let there = self.take_out(slot, &ValueView::Other(Value::Null));
        if there {
            if !self.versions.is_empty() {
                self.versions.remove(slot);
            }
            self.note(slot);
        }
        there
    }

    /// Removes the value of a slot, except from the cells that the next value will overwrite.
    fn take_out(&mut self, slot: u32, next: &ValueView<'_>) -> bool {
        let mut there = false;
        let mut take = |cells: &mut dyn Slots, stays: bool| {
            there |= if stays {
                cells.has(slot)
            } else {
                cells.take(slot)
            };
        };
        take(&mut self.ints, matches!(next, ValueView::I64(_)));
        take(&mut self.floats, matches!(next, ValueView::F64(_)));
        take(&mut self.times, matches!(next, ValueView::Timestamp(_)));
        take(&mut self.texts, matches!(next, ValueView::Text(_)));
        there |= !self.nulls.is_empty() && self.nulls.remove(slot);
        there |= !self.others.is_empty() && self.others.remove(&slot).is_some();
        for group in &mut self.groups {
            there |= group.slots.remove(slot);
        }
        there
    }

    /// Marks a slot as not covered by the index.
    fn note(&mut self, slot: u32) {
        let index = self.index.get_mut().unwrap_or_else(PoisonError::into_inner);
        if index.built.is_some() {
            index.changed.insert(slot);
        }
    }

    /// Returns the index if it is built and has not too many changed slots.
    pub(super) fn index_if_built(&self) -> Option<IndexView> {
        let index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_outdated(&index) {
            return None;
        }
        index.view().filter(|_| self.indexed)
    }

    /// Returns the index for a search. It is built for the second search that needs it, since scanning the column once is cheaper.
    pub(super) fn index_for(&self, wants: IndexNeeds) -> Option<IndexView> {
        if !self.is_worth_an_index() {
            return None;
        }
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let first = index.built.is_none() && !std::mem::replace(&mut index.wanted, true);
        if first && !wants.now {
            return None;
        }
        if index.built.is_none() || self.is_outdated(&index) {
            index.built = Some(Arc::new(self.build()));
            index.changed.clear();
        }
        if wants.order {
            let known = index.order.as_ref().map_or(0, |o| o.covered());
            // Texts that the order does not cover are tested individually.
            if known == 0 || self.dictionary.len() > known + known / 4 + 1_024 {
                index.order = Some(Arc::new(TextOrder::new(&self.dictionary)));
            }
        }
        if wants.grams {
            let grams = index.grams.get_or_insert_default();
            if grams.covered() < self.dictionary.len() {
                Arc::make_mut(grams).extend(&self.dictionary);
            }
        }
        index.view()
    }

    /// Whether there are enough values for an index.
    pub(super) fn is_worth_an_index(&self) -> bool {
        self.indexed && self.count() >= self.least
    }

    fn is_outdated(&self, index: &Index) -> bool {
        index.changed.len() > 4 * self.least && index.changed.len() * 8 > self.count()
    }

    fn build(&self) -> ValueIndex {
        fn pairs<T: Copy + Default, V>(cells: &Cells<T>, key: impl Fn(T) -> V) -> Vec<(V, u32)> {
            let mut pairs = Vec::with_capacity(cells.len());
            cells.for_each(|slot, value| pairs.push((key(value), slot)));
            pairs
        }
        let mut ints = pairs(&self.ints, |v| v);
        let mut floats = pairs(&self.floats, |v| float_key(f64::from_bits(v)));
        let mut times = pairs(&self.times, |v| v);
        let mut texts = pairs(&self.texts, |v| v);
        for group in &self.groups {
            match group.value {
                Value::I64(v) => ints.extend(group.slots.iter().map(|s| (v, s))),
                Value::F64(v) => floats.extend(group.slots.iter().map(|s| (float_key(v), s))),
                Value::Timestamp(v) => times.extend(group.slots.iter().map(|s| (v, s))),
                Value::String(_) => texts.extend(group.slots.iter().map(|s| (group.word, s))),
                _ => {}
            }
        }
        ValueIndex {
            ints: Sorted::build(ints),
            floats: Sorted::build(floats),
            times: Sorted::build(times),
            texts: Sorted::build(texts),
        }
    }

    /// Drops the index of the column.
    pub(super) fn drop_index(&mut self) {
        self.index = Mutex::default();
    }

    /// Memory of the values and of the index, in bytes.
    pub(super) fn bytes(&self) -> (u64, u64) {
        let values = self.ints.bytes()
            + self.floats.bytes()
            + self.times.bytes()
            + self.texts.bytes()
            + self.dictionary.bytes()
            + self.versions.bytes()
            + self.nulls.serialized_size() as u64
            + self.others.len() as u64 * 64
            + self
                .groups
                .iter()
                .map(|g| g.slots.serialized_size() as u64)
                .sum::<u64>();
        let index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let built = index.built.as_ref().map_or(0, |b| b.bytes());
        let order = index.order.as_ref().map_or(0, |o| o.bytes());
        let grams = index.grams.as_ref().map_or(0, |g| g.bytes());
        (values, built + order + grams)
    }

    /// Number of distinct values, if the index is built.
    pub(super) fn distinct(&self) -> Option<u64> {
        let index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        index.built.as_ref().map(|b| b.distinct())
    }

    /// Returns those of some slots that have a value.
    pub(super) fn slots_among(&self, some: &RoaringBitmap) -> RoaringBitmap {
        if self.count() == 0 {
            return RoaringBitmap::new();
        }
        if some.len() * 8 < self.count() {
            return some
                .iter()
                .filter(|slot| self.get(*slot).is_some())
                .collect();
        }
        self.slots() & some
    }

    /// Returns all slots that have a value.
    pub(super) fn slots(&self) -> RoaringBitmap {
        fn add<T: Copy + Default>(cells: &Cells<T>, all: &mut RoaringBitmap) {
            if cells.is_empty() {
                return;
            }
            let mut slots = Vec::with_capacity(cells.len());
            cells.for_each(|slot, _| slots.push(slot));
            if !cells.in_order() {
                slots.sort_unstable();
            }
            super::sorted::add_ascending(&slots, all);
        }
        let mut all = self.nulls.clone();
        add(&self.ints, &mut all);
        add(&self.floats, &mut all);
        add(&self.times, &mut all);
        add(&self.texts, &mut all);
        all.extend(self.others.keys().copied());
        self.groups.iter().for_each(|g| all |= &g.slots);
        all
    }
}

/// Cells of any kind of value.
trait Slots {
    fn has(&self, slot: u32) -> bool;
    fn take(&mut self, slot: u32) -> bool;
}

impl<T: Copy + Default> Slots for Cells<T> {
    fn has(&self, slot: u32) -> bool {
        self.get(slot).is_some()
    }
    fn take(&mut self, slot: u32) -> bool {
        !self.is_empty() && self.remove(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_doubles_are_in_their_order() {
        let values = [
            f64::NEG_INFINITY,
            -1e300,
            -2.5,
            -1.0,
            -f64::MIN_POSITIVE,
            0.0,
            f64::MIN_POSITIVE,
            1.0,
            2.5,
            f64::INFINITY,
        ];
        for pair in values.windows(2) {
            assert!(float_key(pair[0]) < float_key(pair[1]), "{pair:?}");
        }
        for value in values {
            assert_eq!(float_of(float_key(value)).to_bits(), value.to_bits());
        }
        assert_eq!(float_key(-0.0), float_key(0.0));
        assert!(float_key(f64::NAN) > float_key(f64::INFINITY));
        assert!(float_key(-f64::NAN) > float_key(f64::INFINITY));
    }
}
