//! Values of one kind by slot: an array if many slots have a value, else a map.

use foldhash::fast::FixedState;
use std::collections::HashMap;
use std::ops::Range;

/// Minimum number of values, and density (one in this many slots), for an array.
const DENSE_LEAST: usize = 64;
const DENSE_ONE_IN: usize = 6;

/// Values of one kind by slot.
#[derive(Debug)]
pub(super) enum Cells<T> {
    Sparse(HashMap<u32, T, FixedState>),
    Dense {
        values: Vec<T>,
        /// A bit for each slot with a value.
        present: Vec<u64>,
        count: usize,
    },
}

impl<T> Default for Cells<T> {
    fn default() -> Self {
        Self::Sparse(HashMap::default())
    }
}

impl<T: Copy + Default> Cells<T> {
    pub(super) fn get(&self, slot: u32) -> Option<T> {
        match self {
            Self::Sparse(map) => map.get(&slot).copied(),
            Self::Dense {
                values, present, ..
            } => is_set(present, slot)
                .then(|| values.get(slot as usize).copied())
                .flatten(),
        }
    }

    /// Sets a value; `slots` is the total number of slots.
    pub(super) fn set(&mut self, slot: u32, value: T, slots: usize) {
        match self {
            Self::Sparse(map) => {
                map.insert(slot, value);
                if map.len() >= DENSE_LEAST && map.len() * DENSE_ONE_IN > slots {
                    self.make_dense();
                }
            }
            Self::Dense {
                values,
                present,
                count,
            } => {
                let at = slot as usize;
                if at >= values.len() {
                    values.resize(at + 1, T::default());
                    present.resize(at / 64 + 1, 0);
                }
                values[at] = value;
                let bit = 1 << (at % 64);
                *count += usize::from(present[at / 64] & bit == 0);
                present[at / 64] |= bit;
            }
        }
    }

    /// Sets the values of consecutive slots that have none; `room` is the number of slots for which to reserve capacity.
    pub(super) fn fill(
        &mut self,
        from: u32,
        all: impl Iterator<Item = T>,
        slots: usize,
        room: usize,
    ) {
        let mut all = (from..).zip(all);
        while matches!(self, Self::Sparse(_)) {
            let Some((slot, value)) = all.next() else {
                return;
            };
            self.set(slot, value, slots);
        }
        let Self::Dense {
            values,
            present,
            count,
        } = self
        else {
            return;
        };
        if values.capacity() < slots {
            values.reserve_exact(room.max(2 * slots) - values.len());
        }
        if let Some((first, value)) = all.next() {
            let at = first as usize;
            if values.len() <= at {
                values.resize(at, T::default());
                values.push(value);
                values.extend(all.map(|(_, value)| value));
                *count += values.len() - at;
                set_range(present, at..values.len());
                return;
            }
            self.set(first, value, slots);
        }
        for (slot, value) in all {
            self.set(slot, value, slots);
        }
    }

    /// Appends the values of other cells, which are in slots from `base` on, changed by `of`.
    pub(super) fn append(
        &mut self,
        new: &Self,
        base: u32,
        slots: usize,
        mut of: impl FnMut(T) -> T,
    ) {
        let count = slots - base as usize;
        match new {
            Self::Dense { values, .. } if new.len() == count && values.len() == count => {
                self.fill(base, values.iter().map(|value| of(*value)), slots, slots);
            }
            _ => new.for_each_in(0..count as u32, |slot, value| {
                self.set(base + slot, of(value), slots);
            }),
        }
    }

    /// Removes the values of all slots but the first.
    pub(super) fn truncate(&mut self, slots: usize) {
        match self {
            Self::Sparse(map) => map.retain(|slot, _| (*slot as usize) < slots),
            Self::Dense {
                values,
                present,
                count,
            } => {
                values.truncate(slots);
                present.truncate(slots.div_ceil(64));
                if !slots.is_multiple_of(64)
                    && let Some(last) = present.get_mut(slots / 64)
                {
                    *last &= (1 << (slots % 64)) - 1;
                }
                *count = present.iter().map(|word| word.count_ones() as usize).sum();
            }
        }
    }

    /// Removes a value; returns whether there was one.
    pub(super) fn remove(&mut self, slot: u32) -> bool {
        match self {
            Self::Sparse(map) => map.remove(&slot).is_some(),
            Self::Dense { present, count, .. } => {
                let there = is_set(present, slot);
                if there {
                    present[slot as usize / 64] &= !(1 << (slot % 64));
                    *count -= 1;
                }
                there
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Sparse(map) => map.len(),
            Self::Dense { count, .. } => *count,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `each` with every slot that has a value, in no particular order.
    pub(super) fn for_each(&self, mut each: impl FnMut(u32, T)) {
        match self {
            Self::Sparse(map) => map.iter().for_each(|(slot, value)| each(*slot, *value)),
            Self::Dense {
                values, present, ..
            } => {
                for (word, bits) in present.iter().enumerate() {
                    let base = word * 64;
                    if *bits == u64::MAX
                        && let Some(all) = values.get(base..base + 64)
                    {
                        for (i, value) in all.iter().enumerate() {
                            each((base + i) as u32, *value);
                        }
                        continue;
                    }
                    let mut bits = *bits;
                    while bits != 0 {
                        let slot = base + bits.trailing_zeros() as usize;
                        bits &= bits - 1;
                        each(slot as u32, values[slot]);
                    }
                }
            }
        }
    }

    /// Calls `each` with every slot of a range that has a value, in order.
    pub(super) fn for_each_in(&self, slots: Range<u32>, mut each: impl FnMut(u32, T)) {
        if self.is_empty() {
            return;
        }
        if let Self::Sparse(map) = self
            && map.len() < slots.len()
        {
            let some = map.iter().filter(|(slot, _)| slots.contains(slot));
            let mut some: Vec<_> = some.map(|(slot, value)| (*slot, *value)).collect();
            some.sort_unstable_by_key(|(slot, _)| *slot);
            some.into_iter().for_each(|(slot, value)| each(slot, value));
            return;
        }
        for slot in slots {
            if let Some(value) = self.get(slot) {
                each(slot, value);
            }
        }
    }

    /// Changes each value by a function.
    pub(super) fn map_all(&mut self, of: impl Fn(T) -> T) {
        match self {
            Self::Sparse(map) => map.values_mut().for_each(|value| *value = of(*value)),
            Self::Dense { values, .. } => values.iter_mut().for_each(|value| *value = of(*value)),
        }
    }

    /// Whether [`Self::for_each`] visits slots in order.
    pub(super) fn in_order(&self) -> bool {
        matches!(self, Self::Dense { .. })
    }

    fn make_dense(&mut self) {
        let Self::Sparse(map) = self else { return };
        let top = map.keys().max().map_or(0, |slot| *slot as usize);
        let mut values = vec![T::default(); top + 1];
        let mut present = vec![0_u64; top / 64 + 1];
        for (slot, value) in map.iter() {
            let at = *slot as usize;
            values[at] = *value;
            present[at / 64] |= 1 << (at % 64);
        }
        let count = map.len();
        *self = Self::Dense {
            values,
            present,
            count,
        };
    }

    /// Memory used, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        let bytes = match self {
            // A map stores one more byte per entry, and at least an eighth of it is empty.
            Self::Sparse(map) => map.capacity() * (size_of::<(u32, T)>() + 1) * 8 / 7,
            Self::Dense {
                values, present, ..
            } => values.capacity() * size_of::<T>() + present.capacity() * 8,
        };
        bytes as u64
    }
}

/// Sets the bits of a range, beyond which none is set.
fn set_range(present: &mut Vec<u64>, slots: Range<usize>) {
    present.resize(slots.end.div_ceil(64), 0);
    for (word, bits) in present.iter_mut().enumerate().skip(slots.start / 64) {
        let from = slots.start.saturating_sub(word * 64).min(63);
        let unused = (word * 64 + 64).saturating_sub(slots.end);
        *bits |= (u64::MAX << from) & (u64::MAX >> unused);
    }
}

fn is_set(present: &[u64], slot: u32) -> bool {
    present
        .get(slot as usize / 64)
        .is_some_and(|word| word >> (slot % 64) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn cells_are_a_map(changes in proptest::collection::vec((0_u32..400, proptest::option::of(0_u64..9)), 0..600)) {
            let mut cells = Cells::default();
            let mut model = BTreeMap::new();
            for (slot, value) in changes {
                if let Some(value) = value {
                    cells.set(slot, value, 400);
                    model.insert(slot, value);
                } else {
                    prop_assert_eq!(cells.remove(slot), model.remove(&slot).is_some());
                }
                prop_assert_eq!(cells.len(), model.len());
                prop_assert_eq!(cells.get(slot), model.get(&slot).copied());
            }
            let mut all = Vec::new();
            cells.for_each(|slot, value| all.push((slot, value)));
            if !cells.in_order() {
                all.sort_unstable();
            }
            prop_assert_eq!(all, model.into_iter().collect::<Vec<_>>());
        }
    }
}
