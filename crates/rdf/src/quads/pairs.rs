//! Pairs of ids, grouped by the first and sorted: one direction of one predicate.

use super::patch::Patch;
use crate::codec::{Reader, put_column};
use crate::error::{Error, Result};
use crate::id::Id;
use std::sync::Arc;

/// Ascending values by key. Copies share the columns.
#[derive(Debug, Clone, Default)]
pub struct Pairs {
    columns: Arc<Columns>,
    /// Changes since the columns were sorted.
    patch: Option<Box<Patch>>,
}

/// Sorted columns of the pairs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Columns {
    pub(crate) keys: Vec<Id>,
    /// Start of each key's values; one more entry than there are keys.
    offsets: Vec<u32>,
    pub(crate) values: Vec<Id>,
}

/// Distance from the last position within which the next key is searched linearly.
const NEAR: usize = 16;

/// Packs a pair into one number that sorts by key, then value.
pub(crate) const fn pack(key: Id, value: Id) -> u64 {
    (key as u64) << 32 | value as u64
}

pub(crate) const fn unpack(pair: u64) -> (Id, Id) {
    ((pair >> 32) as Id, pair as Id)
}

impl Columns {
    fn from_sorted(pairs: impl Iterator<Item = u64>, len: usize) -> Self {
        let mut keys = Vec::new();
        let mut offsets = Vec::new();
        let mut values = Vec::with_capacity(len);
        for pair in pairs {
            let (key, value) = unpack(pair);
            if keys.last() != Some(&key) {
                keys.push(key);
                offsets.push(values.len() as u32);
            }
            values.push(value);
        }
        offsets.push(values.len() as u32);
        keys.shrink_to_fit();
        offsets.shrink_to_fit();
        Self {
            keys,
            offsets,
            values,
        }
    }

    fn values_at(&self, i: usize) -> &[Id] {
        match (self.offsets.get(i), self.offsets.get(i + 1)) {
            (Some(from), Some(to)) => self.values.get(*from as usize..*to as usize).unwrap_or(&[]),
            _ => &[],
        }
    }

    /// Returns the values of a key.
    pub(crate) fn get(&self, key: Id) -> &[Id] {
        let mut near = self.guess(key);
        self.get_near(key, &mut near)
    }

    /// Estimates the position of a key by interpolation: ids are assigned in order of arrival, so keys are distributed evenly.
    fn guess(&self, key: Id) -> usize {
        let (Some(first), Some(last)) = (self.keys.first(), self.keys.last()) else {
            return 0;
        };
        let part = u64::from(key.saturating_sub(*first)) * (self.keys.len() as u64 - 1);
        (part / u64::from(last.saturating_sub(*first).max(1))).min(self.keys.len() as u64 - 1)
            as usize
    }

    fn get_near(&self, key: Id, near: &mut usize) -> &[Id] {
        let is_near = self.keys.get(*near).is_some_and(|k| *k <= key)
            && self.keys.get(*near + NEAR).is_none_or(|k| *k >= key);
        let from = if is_near { *near } else { self.guess(key) };
        let at = seek(&self.keys, key, from);
        *near = at;
        if self.keys.get(at) == Some(&key) {
            self.values_at(at)
        } else {
            &[]
        }
    }

    fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.keys
            .iter()
            .enumerate()
            .flat_map(|(i, k)| self.values_at(i).iter().map(|v| pack(*k, *v)))
    }
}

impl Pairs {
    /// Builds columns from ascending, distinct packed pairs.
    pub(crate) fn from_sorted(pairs: &[u64]) -> Self {
        Columns::from_sorted(pairs.iter().copied(), pairs.len()).into()
    }

    /// Returns a copy with pending changes as a patch. Changes must be ascending and effective.
    pub(crate) fn patched(&self, changes: &[(u64, bool)]) -> Self {
        Self {
            patch: Some(Box::new(Patch::new(&self.columns, changes))),
            columns: self.columns.clone(),
        }
    }

    /// Returns new columns with ascending changes merged in.
    pub(crate) fn merged(&self, changes: &[(u64, bool)]) -> Self {
        let len = self.columns.values.len() + changes.len();
        let mut old = self.columns.iter().peekable();
        let mut new = changes.iter().peekable();
        let pairs = std::iter::from_fn(|| {
            loop {
                let Some((pair, added)) = new.peek() else {
                    return old.next();
                };
                if let Some(before) = old.next_if(|o| o < pair) {
                    return Some(before);
                }
                // Additions were absent before, removals were present.
                new.next();
                if *added {
                    return Some(*pair);
                }
                old.next();
            }
        });
        let mut columns = Columns::from_sorted(pairs, len);
        columns.values.shrink_to_fit();
        columns.into()
    }

    /// Returns all keys, ascending.
    pub fn keys(&self) -> &[Id] {
        match &self.patch {
            None => &self.columns.keys,
            Some(patch) => patch.all(&self.columns),
        }
    }

    /// Returns the number of pairs.
    pub fn len(&self) -> usize {
        self.patch
            .as_ref()
            .map_or(self.columns.values.len(), |patch| patch.len)
    }

    /// Returns whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the size of the columns in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let c = &self.columns;
        4 * (c.keys.capacity() + c.offsets.capacity() + c.values.capacity())
    }

    /// Returns the size of the patch in bytes.
    pub(crate) fn patch_bytes(&self) -> usize {
        self.patch.as_ref().map_or(0, |p| p.bytes())
    }

    /// Returns the values of all keys, without pending changes: for samples.
    pub(crate) fn values(&self) -> &[Id] {
        &self.columns.values
    }

    /// Returns the values of a key.
    pub fn get(&self, key: Id) -> &[Id] {
        match self.patch.as_ref().and_then(|p| p.get(key)) {
            Some(list) => list,
            None => self.columns.get(key),
        }
    }

    /// Returns the values of a key. The search starts at `near`, where the last one ended; fast if keys ascend.
    pub fn get_near(&self, key: Id, near: &mut usize) -> &[Id] {
        match self.patch.as_ref().and_then(|p| p.get(key)) {
            Some(list) => list,
            None => self.columns.get_near(key, near),
        }
    }

    /// Returns whether a pair exists.
    pub fn contains(&self, key: Id, value: Id) -> bool {
        self.get(key).binary_search(&value).is_ok()
    }

    /// Iterates over all pairs.
    pub fn iter(&self) -> impl Iterator<Item = (Id, Id)> + '_ {
        let mut near = 0;
        self.keys()
            .iter()
            .flat_map(move |k| self.get_near(*k, &mut near).iter().map(|v| (*k, *v)))
    }

    pub(crate) fn encode(&self, to: &mut Vec<u8>) {
        if self.patch.is_some() {
            let pairs: Vec<u64> = self.iter().map(|(k, v)| pack(k, v)).collect();
            return Self::from_sorted(&pairs).encode(to);
        }
        put_column(&self.columns.keys, to);
        put_column(&self.columns.offsets, to);
        put_column(&self.columns.values, to);
    }

    pub(crate) fn decode(from: &mut Reader<'_>) -> Result<Self> {
        let (keys, offsets, values) = (from.column()?, from.column()?, from.column()?);
        let fits = offsets.len() == keys.len() + 1
            && offsets.first() == Some(&0)
            && offsets.is_sorted()
            && offsets.last().map(|n| *n as usize) == Some(values.len());
        if !fits {
            return Err(Error::Corrupt(
                "columns of a predicate are inconsistent".into(),
            ));
        }
        let columns = Columns {
            keys,
            offsets,
            values,
        };
        Ok(columns.into())
    }
}

impl From<Columns> for Pairs {
    fn from(columns: Columns) -> Self {
        Self {
            columns: Arc::new(columns),
            patch: None,
        }
    }
}

/// Returns the first position whose item is not less than the key. Galloping search from a position, in either direction.
pub(crate) fn seek(list: &[Id], key: Id, from: usize) -> usize {
    let from = from.min(list.len());
    let (mut low, mut high);
    if from < list.len() && list[from] < key {
        let mut step = 1;
        low = from + 1;
        high = from + 1;
        while high < list.len() && list[high] < key {
            low = high + 1;
            step *= 2;
            high = (high + step).min(list.len());
        }
    } else {
        let mut step = 1;
        high = from;
        low = from;
        while low > 0 {
            low = low.saturating_sub(step);
            if list[low] < key {
                low += 1;
                break;
            }
            high = low;
            step *= 2;
        }
    }
    low + list[low..high].partition_point(|x| *x < key)
}

/// Sorts packed pairs; a radix sort for long lists.
pub(crate) fn sort(pairs: &mut Vec<u64>) {
    const SMALL: usize = 1 << 12;
    if pairs.len() < SMALL {
        pairs.sort_unstable();
        return;
    }
    if pairs.is_sorted() {
        return;
    }
    // Digits of 11 bits; those on which all pairs agree are skipped, which is the common case.
    let (mut any, mut all) = (0u64, u64::MAX);
    for p in pairs.iter() {
        any |= p;
        all &= p;
    }
    let differs = any & !all;
    let mut other = vec![0; pairs.len()];
    for digit in 0..6 {
        let shift = digit * 11;
        if (differs >> shift).is_multiple_of(1 << 11) {
            continue;
        }
        let mut counts = vec![0usize; 2048];
        for p in pairs.iter() {
            counts[(p >> shift) as usize & 0x7ff] += 1;
        }
        let mut at = 0;
        for c in &mut counts {
            let n = *c;
            *c = at;
            at += n;
        }
        for p in pairs.iter() {
            let c = &mut counts[(p >> shift) as usize & 0x7ff];
            other[*c] = *p;
            *c += 1;
        }
        std::mem::swap(pairs, &mut other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_from_anywhere_finds_the_same_place() {
        let list: Vec<Id> = (0..50).map(|i| i * 3).collect();
        for key in 0..160 {
            let right = list.partition_point(|x| *x < key);
            for from in 0..=list.len() {
                assert_eq!(seek(&list, key, from), right, "{key} from {from}");
            }
        }
        assert_eq!(seek(&[], 3, 0), 0);
    }

    #[test]
    fn sorting_by_digits_is_sorting() {
        let mut n = 12_345u64;
        let mut pairs: Vec<u64> = (0..10_000)
            .map(|_| {
                n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                n >> 3
            })
            .collect();
        let mut expected = pairs.clone();
        expected.sort_unstable();
        sort(&mut pairs);
        assert_eq!(pairs, expected);
    }
}
