//! Index of a column: its distinct values in order, each with the slots that have it.

use roaring::RoaringBitmap;
use std::ops::Bound;

/// Slots by value, at the time of building.
#[derive(Debug)]
pub(super) struct Sorted<T> {
    /// Distinct values, ascending.
    values: Vec<T>,
    /// Start of each value's slots; one more at the end.
    starts: Vec<u32>,
    /// Slots, ascending for each value.
    slots: Vec<u32>,
}

impl<T> Default for Sorted<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            starts: vec![0],
            slots: Vec::new(),
        }
    }
}

impl<T: Ord + Copy> Sorted<T> {
    pub(super) fn build(mut pairs: Vec<(T, u32)>) -> Self {
        pairs.sort_unstable();
        let mut sorted = Self {
            values: Vec::new(),
            starts: Vec::new(),
            slots: Vec::with_capacity(pairs.len()),
        };
        for (value, slot) in pairs {
            if sorted.values.last() != Some(&value) {
                sorted.values.push(value);
                sorted.starts.push(sorted.slots.len() as u32);
            }
            sorted.slots.push(slot);
        }
        sorted.starts.push(sorted.slots.len() as u32);
        sorted.values.shrink_to_fit();
        sorted.starts.shrink_to_fit();
        sorted
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Number of distinct values.
    pub(super) fn distinct(&self) -> usize {
        self.values.len()
    }

    /// Returns the range of positions of the values between two bounds.
    fn positions(&self, low: Bound<T>, high: Bound<T>) -> std::ops::Range<usize> {
        let from = match low {
            Bound::Unbounded => 0,
            Bound::Included(low) => self.values.partition_point(|v| *v < low),
            Bound::Excluded(low) => self.values.partition_point(|v| *v <= low),
        };
        let until = match high {
            Bound::Unbounded => self.values.len(),
            Bound::Included(high) => self.values.partition_point(|v| *v <= high),
            Bound::Excluded(high) => self.values.partition_point(|v| *v < high),
        };
        from..until.max(from)
    }

    fn slots_at(&self, positions: &std::ops::Range<usize>) -> &[u32] {
        let at = |place: usize| self.starts.get(place).map_or(0, |s| *s as usize);
        self.slots
            .get(at(positions.start)..at(positions.end))
            .unwrap_or_default()
    }

    /// Number of slots with a value between two bounds.
    pub(super) fn count(&self, low: Bound<T>, high: Bound<T>) -> u64 {
        self.slots_at(&self.positions(low, high)).len() as u64
    }

    /// Adds the slots with a value between two bounds.
    pub(super) fn collect(&self, low: Bound<T>, high: Bound<T>, out: &mut RoaringBitmap) {
        let positions = self.positions(low, high);
        let slots = self.slots_at(&positions);
        if positions.len() == 1 {
            add_ascending(slots, out);
        } else if slots.len() < 256 {
            out.extend(slots.iter().copied());
        } else {
            // Inserting sorted slots into the bitmap is some ten times faster.
            let mut slots = slots.to_vec();
            slots.sort_unstable();
            add_ascending(&slots, out);
        }
    }

    /// Adds the slots of the values for which `holds` returns true.
    pub(super) fn collect_where(&self, mut holds: impl FnMut(T) -> bool, out: &mut RoaringBitmap) {
        for (place, value) in self.values.iter().enumerate() {
            if holds(*value) {
                add_ascending(self.slots_at(&(place..place + 1)), out);
            }
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.values.capacity() * size_of::<T>()
            + (self.starts.capacity() + self.slots.capacity()) * 4) as u64
    }
}

/// Adds slots that are in ascending order.
pub(super) fn add_ascending(slots: &[u32], out: &mut RoaringBitmap) {
    if slots.len() < 64 && !out.is_empty() {
        out.extend(slots.iter().copied());
        return;
    }
    match RoaringBitmap::from_sorted_iter(slots.iter().copied()) {
        Ok(more) if out.is_empty() => *out = more,
        Ok(more) => *out |= more,
        // The slots are sorted; if not, the result is still correct.
        Err(_) => out.extend(slots.iter().copied()),
    }
}
