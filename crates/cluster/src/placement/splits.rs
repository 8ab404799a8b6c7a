//! Bitmap of the partitions of a vertex that exist.
//!
//! Bit `k` is set once partition `k` has been split off. Bits are never cleared, so the OR of two bitmaps of one
//! vertex is the union of what both sides know, and an old bitmap is a subset of a new one.

use super::{Partition, Tree};

const BITS: u32 = u64::BITS;

/// The set of partitions that exist. A vertex that never split has one, on its home shard.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Splits {
    /// Partitions 0 to 63; enough for most clusters without another allocation.
    first: u64,
    /// Words of partitions from 64 on; the last word is not zero.
    more: Vec<u64>,
}

impl Default for Splits {
    fn default() -> Self {
        Self {
            first: 1,
            more: Vec::new(),
        }
    }
}

impl Splits {
    /// Returns the bitmap of a vertex that has split as far as possible.
    pub fn full(tree: Tree) -> Self {
        let mut splits = Self::default();
        (0..tree.shards()).for_each(|p| splits.insert(Partition(p)));
        splits
    }

    /// Whether the vertex never split, as nearly all vertices.
    pub fn is_unsplit(&self) -> bool {
        self.first == 1 && self.more.is_empty()
    }

    /// Whether the partition exists.
    pub fn contains(&self, partition: Partition) -> bool {
        let word = match (partition.0 / BITS).checked_sub(1) {
            None => self.first,
            Some(i) => self.more.get(i as usize).copied().unwrap_or(0),
        };
        word >> (partition.0 % BITS) & 1 == 1
    }

    /// Records that the partition exists.
    pub fn insert(&mut self, partition: Partition) {
        let bit = 1 << (partition.0 % BITS);
        let Some(i) = (partition.0 / BITS).checked_sub(1) else {
            self.first |= bit;
            return;
        };
        let i = i as usize;
        if self.more.len() <= i {
            self.more.resize(i + 1, 0);
        }
        if let Some(word) = self.more.get_mut(i) {
            *word |= bit;
        }
    }

    /// Merges another bitmap of the same vertex; returns whether it had partitions that were unknown here.
    pub fn merge(&mut self, other: &Self) -> bool {
        let before = self.count();
        self.first |= other.first;
        if self.more.len() < other.more.len() {
            self.more.resize(other.more.len(), 0);
        }
        for (mine, theirs) in self.more.iter_mut().zip(&other.more) {
            *mine |= theirs;
        }
        self.count() > before
    }

    /// Whether this bitmap contains all partitions of `other`.
    pub fn covers(&self, other: &Self) -> bool {
        other.iter().all(|partition| self.contains(partition))
    }

    /// Returns the number of partitions that exist.
    pub fn count(&self) -> u32 {
        self.bitmap_words().map(u64::count_ones).sum()
    }

    /// Iterates over the partitions that exist, by number.
    pub fn iter(&self) -> impl Iterator<Item = Partition> + '_ {
        (0_u32..).zip(self.bitmap_words()).flat_map(|(i, word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros())?;
                rest &= rest - 1;
                Some(Partition(i * BITS + bit))
            })
        })
    }

    /// Returns the current level of a partition in the tree: how often the partition, or what it was split from, has split.
    pub fn level(&self, tree: Tree, partition: Partition) -> u32 {
        let mut level = tree.level(partition);
        while tree
            .child(partition, level)
            .is_some_and(|child| self.contains(child))
        {
            level += 1;
        }
        level
    }

    /// Returns the first partition that cannot exist: outside the tree, or split off before its elder siblings or
    /// before its parent.
    pub fn first_invalid(&self, tree: Tree) -> Option<Partition> {
        self.iter().find(|partition| {
            if partition.0 >= tree.shards() {
                return true;
            }
            let Some(parent) = tree.parent(*partition) else {
                return false;
            };
            let (from, until) = (tree.level(parent), tree.level(*partition) - 1);
            let elder = (from..until).all(|level| {
                tree.child(parent, level)
                    .is_some_and(|sibling| self.contains(sibling))
            });
            !(self.contains(parent) && elder)
        })
    }

    /// Encodes the bitmap: partition `8 j + i` is bit `i` (from the lowest) of byte `j`; no zero bytes at the end.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.bitmap_words().flat_map(u64::to_le_bytes).collect();
        let end = bytes.iter().rposition(|b| *b != 0).map_or(0, |i| i + 1);
        bytes.truncate(end);
        bytes
    }

    /// Decodes what [`Self::bytes`] wrote. The caller must have checked the length.
    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
        let mut splits = Self::default();
        for (j, byte) in (0_u32..).zip(bytes) {
            for i in (0..8).filter(|i| byte >> i & 1 == 1) {
                splits.insert(Partition(8 * j + i));
            }
        }
        splits
    }

    fn bitmap_words(&self) -> impl Iterator<Item = u64> + '_ {
        std::iter::once(self.first).chain(self.more.iter().copied())
    }
}

impl FromIterator<Partition> for Splits {
    fn from_iter<I: IntoIterator<Item = Partition>>(partitions: I) -> Self {
        let mut splits = Self::default();
        partitions.into_iter().for_each(|p| splits.insert(p));
        splits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::Order;

    #[test]
    fn merging_says_whether_there_was_news() {
        let mut mine: Splits = [1, 70].map(Partition).into_iter().collect();
        let theirs: Splits = [2, 3].map(Partition).into_iter().collect();
        assert!(mine.merge(&theirs));
        assert!(!mine.merge(&theirs));
        assert!(mine.covers(&theirs) && !theirs.covers(&mine));
        let numbers: Vec<u32> = mine.iter().map(|p| p.0).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 70]);
        assert_eq!(mine.count(), 5);
    }

    #[test]
    fn a_partition_without_what_it_is_split_from_is_impossible() {
        let tree = Tree::new(8, Order::Nodes).unwrap();
        let splits = |set: &[u32]| set.iter().copied().map(Partition).collect::<Splits>();
        assert_eq!(splits(&[1, 2, 4]).first_invalid(tree), None);
        // Partition 4 is the root's third child; the second is missing.
        assert_eq!(splits(&[1, 4]).first_invalid(tree), Some(Partition(4)));
        // Partition 7 is split from 3.
        assert_eq!(splits(&[1, 2, 7]).first_invalid(tree), Some(Partition(7)));
        assert_eq!(splits(&[1, 8]).first_invalid(tree), Some(Partition(8)));
    }

    #[test]
    fn levels_follow_the_splits() {
        let tree = Tree::new(8, Order::Nodes).unwrap();
        let splits: Splits = [1, 2].map(Partition).into_iter().collect();
        let levels: Vec<u32> = splits.iter().map(|p| splits.level(tree, p)).collect();
        assert_eq!(levels, [2, 1, 2]);
    }
}
