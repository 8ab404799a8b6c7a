//! Growth of a vertex: edges counted by partition, and when a partition must split.
//!
//! A partition that has more edges than the threshold splits in two as long as the tree allows it, and so do its
//! halves at once if all edges went one way. Which partitions exist depends on the set of edges and not on their
//! order, and repeating or delaying a split changes nothing ([`Growth::from_edge_counts`] computes the same state
//! without a history).

use super::{Partition, Splits, Tree};
use std::collections::BTreeMap;

/// A split that is due: a partition gives a part of its edges to a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    /// Partition that splits and keeps its number: the node's left child.
    pub from: Partition,
    /// Partition that is split off: the node's right child.
    pub to: Partition,
    /// The level of the node that splits.
    pub level: u32,
}

impl Split {
    /// Whether an edge with this target partition moves to the new partition.
    pub fn moves(&self, tree: Tree, target: Partition) -> bool {
        tree.is_under(target, self.to)
    }
}

/// A vertex's partitions with the number of edges in each.
///
/// A server that has only some of a vertex's partitions counts only those.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Growth {
    threshold: u64,
    splits: Splits,
    edges: BTreeMap<Partition, u64>,
}

impl Growth {
    /// Creates a vertex without edges; `threshold` is the largest number of edges of a partition.
    pub fn new(threshold: u64) -> Self {
        Self {
            threshold,
            splits: Splits::default(),
            edges: BTreeMap::new(),
        }
    }

    /// Computes the state of a vertex whose edges have these target partitions, in whatever order they came:
    /// `edges[p]` counts the edges with target `p`, and is overwritten with the sums of subtrees.
    pub fn from_edge_counts(tree: Tree, threshold: u64, edges: &mut [u64]) -> Self {
        // Parents have smaller numbers: backwards from the last one, each sum is complete when it is added.
        for p in (1..edges.len()).rev() {
            let under = edges.get(p).copied().unwrap_or(0);
            let parent = tree.parent(Partition(p as u32));
            if let Some(sum) = parent.and_then(|parent| edges.get_mut(parent.0 as usize)) {
                *sum += under;
            }
        }
        let sum = |p: Partition| edges.get(p.0 as usize).copied().unwrap_or(0);
        let mut growth = Self::new(threshold);
        let mut new = vec![Partition(0)];
        while let Some(partition) = new.pop() {
            let mut rest = sum(partition);
            let mut level = tree.level(partition);
            while rest > threshold
                && let Some(child) = tree.child(partition, level)
            {
                growth.splits.insert(child);
                new.push(child);
                rest -= sum(child);
                level += 1;
            }
            growth.edges.insert(partition, rest);
        }
        growth
    }

    /// Returns the partitions that exist.
    pub fn splits(&self) -> &Splits {
        &self.splits
    }

    /// Returns the number of edges in a partition.
    pub fn edges(&self, partition: Partition) -> u64 {
        self.edges.get(&partition).copied().unwrap_or(0)
    }

    /// Merges partitions known elsewhere: by another server, or by a client with a newer bitmap. Returns whether any was new.
    pub fn learn(&mut self, splits: &Splits) -> bool {
        self.splits.merge(splits)
    }

    /// Counts a new edge by its target partition. Returns the split that is due, again for each edge until
    /// [`Self::commit`]; a caller that has already begun the split ignores it.
    pub fn insert(&mut self, tree: Tree, target: Partition) -> Option<Split> {
        let partition = tree.locate(&self.splits, target);
        *self.edges.entry(partition).or_default() += 1;
        self.due(tree, partition)
    }

    /// Returns the split that a partition needs, if any.
    pub fn due(&self, tree: Tree, from: Partition) -> Option<Split> {
        if self.edges(from) <= self.threshold {
            return None;
        }
        let (to, level) = tree.next_child(&self.splits, from)?;
        Some(Split { from, to, level })
    }

    /// Records that a split is done and how many edges it moved. [`Self::due`] then says whether either half must split again.
    pub fn commit(&mut self, split: &Split, moved: u64) {
        self.splits.insert(split.to);
        let left = self.edges(split.from).saturating_sub(moved);
        self.edges.insert(split.from, left);
        *self.edges.entry(split.to).or_default() += moved;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::Order;

    #[test]
    fn a_partition_splits_past_the_threshold_and_not_at_it() {
        let tree = Tree::new(4, Order::Nodes).unwrap();
        let mut growth = Growth::new(3);
        for target in [0, 1, 3] {
            assert_eq!(growth.insert(tree, Partition(target)), None);
        }
        let split = growth.insert(tree, Partition(3)).unwrap();
        assert_eq!(
            split,
            Split {
                from: Partition(0),
                to: Partition(1),
                level: 0
            }
        );
        let moves: Vec<bool> = (0..4).map(|p| split.moves(tree, Partition(p))).collect();
        assert_eq!(moves, [false, true, false, true]);
        growth.commit(&split, 3);
        assert_eq!(growth.edges(Partition(0)), 1);
        assert_eq!(growth.edges(Partition(1)), 3);
        assert_eq!(growth.due(tree, Partition(1)), None);
    }

    #[test]
    fn halves_that_got_everything_split_again() {
        let tree = Tree::new(8, Order::Nodes).unwrap();
        let mut edges = [0, 0, 0, 0, 0, 0, 0, 9];
        let growth = Growth::from_edge_counts(tree, 2, &mut edges);
        let exists: Vec<u32> = growth.splits().iter().map(|p| p.0).collect();
        assert_eq!(exists, [0, 1, 3, 7]);
        assert_eq!(growth.edges(Partition(7)), 9);
        // The last level is reached: the partition cannot split further.
        assert_eq!(growth.due(tree, Partition(7)), None);
    }
}
