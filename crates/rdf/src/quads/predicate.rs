//! One predicate of one graph: its pairs in both directions, and the changes since they were sorted. Readers see changes as patches; above
//! a limit they are merged into new columns.

use super::pairs::{Pairs, pack, sort, unpack};
use crate::codec::Reader;
use crate::error::Result;
use crate::id::Id;
use std::sync::{Arc, OnceLock};

/// Sorted pairs of a predicate in both directions.
#[derive(Debug, Clone, Default)]
pub struct Index {
    /// Objects of each subject.
    pub so: Pairs,
    /// Subjects of each object.
    pub os: Pairs,
}

impl Index {
    /// Sorts pairs of subject and object.
    pub(crate) fn build(mut pairs: Vec<u64>) -> Self {
        sort(&mut pairs);
        pairs.dedup();
        let so = Pairs::from_sorted(&pairs);
        for p in &mut pairs {
            *p = p.rotate_left(32);
        }
        sort(&mut pairs);
        let os = Pairs::from_sorted(&pairs);
        Self { so, os }
    }
}

/// Pairs of a predicate: sorted ones, and a short list of changes to them.
#[derive(Debug, Clone, Default)]
pub struct Predicate {
    base: Arc<Index>,
    /// Packed pairs that are added (`true`) or removed, ascending. Each change is effective.
    delta: Arc<Vec<(u64, bool)>>,
    /// Sorted pairs with the changes as patches, built on demand.
    patched: OnceLock<Arc<Index>>,
    count: usize,
}

impl Predicate {
    pub(crate) fn new(index: Index) -> Self {
        Self {
            count: index.so.len(),
            base: Arc::new(index),
            ..Self::default()
        }
    }

    /// Returns the number of pairs.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Returns whether there are no pairs.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the sorted pairs with all changes.
    pub fn index(&self) -> &Index {
        if self.delta.is_empty() {
            return &self.base;
        }
        self.patched.get_or_init(|| {
            Arc::new(Index {
                so: self.base.so.patched(&self.delta),
                os: self.base.os.patched(&self.turned()),
            })
        })
    }

    /// Returns whether a pair exists.
    pub fn contains(&self, s: Id, o: Id) -> bool {
        match self.delta.binary_search_by_key(&pack(s, o), |d| d.0) {
            Ok(i) => self.delta[i].1,
            Err(_) => self.base.so.contains(s, o),
        }
    }

    /// Appends the objects of a subject, without building patches.
    pub(crate) fn objects(&self, s: Id, to: &mut Vec<Id>) {
        let from = self.delta.partition_point(|d| d.0 < pack(s, 0));
        let changed = self.delta.get(from..).unwrap_or_default();
        let end = changed.partition_point(|d| unpack(d.0).0 == s);
        let changed = changed.get(..end).unwrap_or_default();
        let base = self.base.so.get(s);
        if changed.is_empty() {
            to.extend_from_slice(base);
            return;
        }
        let gone = |o: &Id| changed.binary_search_by_key(&pack(s, *o), |d| d.0).is_ok();
        to.extend(base.iter().filter(|o| !gone(o)));
        to.extend(changed.iter().filter(|d| d.1).map(|d| unpack(d.0).1));
    }

    /// Appends the subjects of an object, without building patches.
    pub(crate) fn subjects(&self, o: Id, to: &mut Vec<Id>) {
        let base = self.base.os.get(o);
        if self.delta.is_empty() {
            to.extend_from_slice(base);
            return;
        }
        to.extend(base.iter().filter(|s| self.contains(**s, o)));
        let changed = self.delta.iter().filter(|d| d.1);
        to.extend(
            changed
                .map(|d| unpack(d.0))
                .filter(|x| x.1 == o)
                .map(|x| x.0),
        );
    }

    /// Returns the changes for the other direction.
    fn turned(&self) -> Vec<(u64, bool)> {
        let mut turned: Vec<(u64, bool)> = self
            .delta
            .iter()
            .map(|(pair, added)| (pair.rotate_left(32), *added))
            .collect();
        turned.sort_unstable();
        turned
    }

    fn merge(&self) -> Index {
        Index {
            so: self.base.so.merged(&self.delta),
            os: self.base.os.merged(&self.turned()),
        }
    }

    /// Applies changes: a packed pair, and whether it is added; later ones win. Returns how many were added and removed.
    pub(crate) fn change(&mut self, changes: &[(u64, bool)]) -> (usize, usize) {
        let (mut added, mut removed) = (0, 0);
        let many = changes.len() > self.delta_max();
        if many {
            self.compact();
            let mut sorted: Vec<(u64, usize, bool)> = changes
                .iter()
                .enumerate()
                .map(|(i, c)| (c.0, i, c.1))
                .collect();
            sorted.sort_unstable();
            let mut delta = Vec::new();
            for (i, change) in sorted.iter().enumerate() {
                let last = sorted.get(i + 1).is_none_or(|next| next.0 != change.0);
                let (s, o) = unpack(change.0);
                if last && self.base.so.contains(s, o) != change.2 {
                    delta.push((change.0, change.2));
                    added += usize::from(change.2);
                    removed += usize::from(!change.2);
                }
            }
            self.delta = Arc::new(delta);
        } else {
            for (pair, add) in changes {
                let (s, o) = unpack(*pair);
                if self.contains(s, o) == *add {
                    continue;
                }
                let delta = Arc::make_mut(&mut self.delta);
                match delta.binary_search_by_key(pair, |d| d.0) {
                    // A change that is reverted leaves the sorted pairs as they are.
                    Ok(i) => drop(delta.remove(i)),
                    Err(i) => delta.insert(i, (*pair, *add)),
                }
                added += usize::from(*add);
                removed += usize::from(!*add);
            }
        }
        self.patched = OnceLock::new();
        self.count = self.count + added - removed;
        if self.delta.len() > self.delta_max() {
            self.compact();
        }
        (added, removed)
    }

    /// Returns the limit of pending changes; higher for larger columns, which cost more to sort.
    fn delta_max(&self) -> usize {
        (self.base.so.len() / 256).clamp(512, 16_384)
    }

    /// Merges the changes into the sorted pairs.
    pub(crate) fn compact(&mut self) {
        if !self.delta.is_empty() {
            self.base = Arc::new(self.merge());
            self.delta = Arc::default();
            self.patched = OnceLock::new();
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        let patches = self
            .patched
            .get()
            .map_or(0, |x| x.so.patch_bytes() + x.os.patch_bytes());
        self.base.so.bytes() + self.base.os.bytes() + self.delta.len() * 16 + patches
    }

    pub(crate) fn encode(&self, to: &mut Vec<u8>) {
        self.index().so.encode(to);
        self.index().os.encode(to);
    }

    pub(crate) fn decode(from: &mut Reader<'_>) -> Result<Self> {
        let (so, os) = (Pairs::decode(from)?, Pairs::decode(from)?);
        Ok(Self::new(Index { so, os }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn changes_in_any_portion_give_the_same_pairs() {
        let mut n = 7u64;
        let mut random = move |max: u64| {
            n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (n >> 33) % max
        };
        let mut predicate = Predicate::default();
        let mut expected = BTreeSet::new();
        for round in 0..200 {
            let many = if round % 20 == 19 { 3000 } else { 7 };
            let changes: Vec<(u64, bool)> = (0..many)
                .map(|_| (pack(random(60) as u32, random(60) as u32), random(3) > 0))
                .collect();
            let before = expected.len();
            for (pair, add) in &changes {
                if *add {
                    expected.insert(*pair);
                } else {
                    expected.remove(pair);
                }
            }
            let (added, removed) = predicate.change(&changes);
            assert_eq!(before + added - removed, expected.len());
            assert_eq!(predicate.len(), expected.len());
            if round % 3 == 0 {
                let index = predicate.index();
                let pairs = |x: &Pairs| x.iter().map(|(k, v)| pack(k, v)).collect::<Vec<_>>();
                assert_eq!(
                    pairs(&index.so),
                    expected.iter().copied().collect::<Vec<_>>()
                );
                let mut turned: Vec<u64> = expected.iter().map(|p| p.rotate_left(32)).collect();
                turned.sort_unstable();
                assert_eq!(pairs(&index.os), turned);
                assert_eq!(
                    (index.so.len(), index.os.len()),
                    (expected.len(), expected.len())
                );
                for key in 0..60 {
                    let (so, os) = (index.so.get(key), index.os.get(key));
                    assert!(so.iter().all(|v| expected.contains(&pack(key, *v))));
                    assert!(os.iter().all(|v| expected.contains(&pack(*v, key))));
                    assert_eq!(index.so.keys().contains(&key), !so.is_empty());
                    assert_eq!(index.os.keys().contains(&key), !os.is_empty());
                }
            }
        }
    }
}
