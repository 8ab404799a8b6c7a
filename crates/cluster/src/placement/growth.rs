//! How a vertex grows: edges counted by partition, and when one must split.
//!
//! A partition that holds more edges than the threshold splits in two as long as the tree lets it, and so do its halves at
//! once if all edges went one way. So what exists depends on the edges that are there and not on their order, and a split
//! that was done twice, or late, changes nothing ([`Growth::settled`] is the same state without a history).

use super::{Partition, Splits, Tree};
use std::collections::BTreeMap;

/// A partition that must give a part of its edges to a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    /// What splits, and keeps its place: the node's left child.
    pub from: Partition,
    /// What is split off: the right child.
    pub to: Partition,
    /// The level of the node that splits.
    pub level: u32,
}

impl Split {
    /// Whether an edge with that goal goes to the new partition.
    pub fn moves(&self, tree: Tree, goal: Partition) -> bool {
        tree.is_under(goal, self.to)
    }
}

/// A vertex's partitions with the number of edges in each.
///
/// A server that holds some of a vertex's partitions counts those only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Growth {
    threshold: u64,
    splits: Splits,
    edges: BTreeMap<Partition, u64>,
}

impl Growth {
    /// A vertex without edges, whose partitions hold so many at most.
    pub fn new(threshold: u64) -> Self {
        Self {
            threshold,
            splits: Splits::default(),
            edges: BTreeMap::new(),
        }
    }

    /// The vertex with these edges, however they came: `edges` says how many have each partition as their goal. Sums of
    /// subtrees overwrite it.
    pub fn settled(tree: Tree, threshold: u64, edges: &mut [u64]) -> Self {
        // Parents have smaller numbers, so from the last one each sum is complete when it is added.
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

    /// The partitions that exist.
    pub fn splits(&self) -> &Splits {
        &self.splits
    }

    /// Edges in a partition.
    pub fn edges(&self, partition: Partition) -> u64 {
        self.edges.get(&partition).copied().unwrap_or(0)
    }

    /// Learns of partitions elsewhere: from another server, or a client that knows more.
    pub fn learn(&mut self, splits: &Splits) -> bool {
        self.splits.merge(splits)
    }

    /// Counts a new edge, by its goal. Says which split is due, again at each edge until [`Self::commit`]: a caller that
    /// is at it already goes on.
    pub fn insert(&mut self, tree: Tree, goal: Partition) -> Option<Split> {
        let partition = tree.locate(&self.splits, goal);
        *self.edges.entry(partition).or_default() += 1;
        self.due(tree, partition)
    }

    /// The split that a partition needs, if it does.
    pub fn due(&self, tree: Tree, from: Partition) -> Option<Split> {
        if self.edges(from) <= self.threshold {
            return None;
        }
        let (to, level) = tree.next_child(&self.splits, from)?;
        Some(Split { from, to, level })
    }

    /// Notes that a split is done and how many edges it moved. [`Self::due`] then says whether either half must split again.
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
        for goal in [0, 1, 3] {
            assert_eq!(growth.insert(tree, Partition(goal)), None);
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
        let growth = Growth::settled(tree, 2, &mut edges);
        let exists: Vec<u32> = growth.splits().iter().map(|p| p.0).collect();
        assert_eq!(exists, [0, 1, 3, 7]);
        assert_eq!(growth.edges(Partition(7)), 9);
        // The last level is reached: it cannot split any more.
        assert_eq!(growth.due(tree, Partition(7)), None);
    }
}
