//! The partition tree of a vertex (GraphMeta, Fig. 6), computed and not stored.
//!
//! The root represents the home shard. A node's left child is the same partition one level down; its right child is
//! the next shard, round robin, that is not in the tree yet. Levels are filled one after another. So partition `p`
//! first occurs on level `p.ilog2() + 1`, its parent has a smaller number, and a level that the shards do not fill
//! leaves its last nodes as leaves.
//!
//! The order in which the nodes of a level get their right children distinguishes the two trees, see [`Order`].

use super::{BadShardCount, Partition, Splits, check_shards};

/// The order in which the nodes of a level get right children.
///
/// ```text
///   Nodes (Fig. 6)                    Numbers
///   0                                 0
///   0               1                 0               1
///   0       2       1       3         0       2       1       3
///   0   4   2   5   1   6   3   7     0   4   2   6   1   5   3   7
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// From left to right, as in the paper.
    Nodes,
    /// By the partition's number: the right child of `p` on level `l` is `p + 2^l`. Everything below a node of level
    /// `l` has its number modulo `2^l`, as in GIGA+, whatever the root is. Virtual nodes need this property: see
    /// [`VnodeMap`](crate::vnode::VnodeMap).
    Numbers,
}

/// The partition tree over a number of shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tree {
    shards: u32,
    order: Order,
}

impl Tree {
    /// Creates the tree over `shards` shards.
    pub fn new(shards: u32, order: Order) -> Result<Self, BadShardCount> {
        Ok(Self {
            shards: check_shards(shards)?,
            order,
        })
    }

    /// Returns the number of shards, which is also the number of partitions.
    pub fn shards(self) -> u32 {
        self.shards
    }

    /// Returns the order in which nodes get right children.
    pub fn order(self) -> Order {
        self.order
    }

    /// Returns the level on which a partition first occurs: 0 for the root.
    pub fn level(self, partition: Partition) -> u32 {
        partition.0.checked_ilog2().map_or(0, |log| log + 1)
    }

    /// Returns the partition that this one is split from; `None` for the root.
    pub fn parent(self, partition: Partition) -> Option<Partition> {
        let top = partition.0.checked_ilog2()?;
        let rest = partition.0 & !(1 << top);
        Some(Partition(match self.order {
            Order::Numbers => rest,
            Order::Nodes => on_level(rest, top),
        }))
    }

    /// Returns the right child of the partition's node on `level`; `None` if no shards are left.
    pub fn child(self, partition: Partition, level: u32) -> Option<Partition> {
        debug_assert!(level >= self.level(partition), "it does not show there yet");
        let rest = match self.order {
            Order::Numbers => partition.0,
            Order::Nodes => position(partition, level),
        };
        let child = 1_u32.checked_shl(level)?.checked_add(rest)?;
        (child < self.shards).then_some(Partition(child))
    }

    /// Returns the child that the partition's next split makes, and the level of the node that splits; `None` if the
    /// partition cannot split further.
    pub fn next_child(self, splits: &Splits, partition: Partition) -> Option<(Partition, u32)> {
        let mut level = self.level(partition);
        loop {
            let child = self.child(partition, level)?;
            if !splits.contains(child) {
                return Some((child, level));
            }
            level += 1;
        }
    }

    /// Whether a partition is `ancestor`, or was split from it directly or indirectly.
    pub fn is_under(self, partition: Partition, ancestor: Partition) -> bool {
        let mut partition = partition;
        while partition > ancestor {
            match self.parent(partition) {
                Some(parent) => partition = parent,
                None => return false,
            }
        }
        partition == ancestor
    }

    /// Returns the partition that has an edge with this target: the nearest ancestor of the target in `splits`.
    pub fn locate(self, splits: &Splits, target: Partition) -> Partition {
        if splits.is_unsplit() {
            return Partition(0);
        }
        let mut partition = target;
        while !splits.contains(partition) {
            match self.parent(partition) {
                Some(parent) => partition = parent,
                None => break,
            }
        }
        partition
    }

    /// Returns the tree level by level, each from left to right, for explanations and tests.
    pub fn levels(self) -> Vec<Vec<Partition>> {
        let mut levels = vec![vec![Partition(0)]];
        let mut shown = 1;
        for level in 0.. {
            if shown == self.shards {
                break;
            }
            let mut next = Vec::new();
            for node in levels.last().into_iter().flatten() {
                next.push(*node);
                if let Some(child) = self.child(*node, level) {
                    next.push(child);
                    shown += 1;
                }
            }
            levels.push(next);
        }
        levels
    }
}

/// Number of nodes of a level to the left of the partition's node.
fn position(partition: Partition, level: u32) -> u32 {
    match partition.0.checked_ilog2() {
        None => 0,
        // The partition first occurred on level `top + 1`, as the right child of node `rest`; all nodes there had two children.
        Some(top) => {
            let rest = partition.0 & !(1 << top);
            (2 * rest + 1) << (level - top - 1)
        }
    }
}

/// Partition of the node with `position` nodes to its left on a complete level of the paper's tree.
fn on_level(position: u32, level: u32) -> u32 {
    if position == 0 {
        return 0;
    }
    // Up along left children, which are the same partition, to the level where it is a right child.
    let up = position.trailing_zeros();
    let first = level - up;
    (1 << (first - 1)) + (position >> (up + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(shards: u32, order: Order, home: u32) -> Vec<String> {
        let tree = Tree::new(shards, order).unwrap();
        let name = |p: &Partition| format!("S{}", (home - 1 + p.0) % shards + 1);
        tree.levels()
            .iter()
            .map(|level| level.iter().map(name).collect::<Vec<_>>().join(" "))
            .collect()
    }

    #[test]
    fn the_tree_of_figure_6() {
        assert_eq!(
            drawn(8, Order::Nodes, 1),
            ["S1", "S1 S2", "S1 S3 S2 S4", "S1 S5 S3 S6 S2 S7 S4 S8"]
        );
        assert_eq!(
            drawn(8, Order::Nodes, 7),
            ["S7", "S7 S8", "S7 S1 S8 S2", "S7 S3 S1 S4 S8 S5 S2 S6"]
        );
    }

    #[test]
    fn shard_counts_that_are_no_power_of_two_fill_the_last_level_from_the_left() {
        assert_eq!(
            drawn(6, Order::Nodes, 1),
            ["S1", "S1 S2", "S1 S3 S2 S4", "S1 S5 S3 S6 S2 S4"]
        );
        assert_eq!(drawn(3, Order::Nodes, 2), ["S2", "S2 S3", "S2 S1 S3"]);
        assert_eq!(drawn(1, Order::Nodes, 1), ["S1"]);
        assert_eq!(
            drawn(6, Order::Numbers, 1),
            ["S1", "S1 S2", "S1 S3 S2 S4", "S1 S5 S3 S2 S6 S4"]
        );
    }

    #[test]
    fn in_the_order_of_numbers_a_subtree_is_a_residue_class() {
        let tree = Tree::new(64, Order::Numbers).unwrap();
        for level in 0..6 {
            for node in 0..1_u32 << level {
                let node = Partition(node);
                let child = tree.child(node, level).unwrap();
                for p in (0..64).map(Partition) {
                    let class = p.0 % (2 << level) == child.0;
                    assert_eq!(tree.is_under(p, child), class);
                }
            }
        }
    }

    /// Compares the arithmetic with the definition for every size: each shard once, parents as drawn.
    #[test]
    fn the_arithmetic_draws_the_tree_of_the_definition() {
        for shards in 1..=70 {
            let mut levels: Vec<Vec<u32>> = vec![vec![0]];
            let mut next = 1;
            let mut parents = vec![None];
            while next < shards {
                let mut level = Vec::new();
                for node in levels.last().unwrap() {
                    level.push(*node);
                    if next < shards {
                        parents.push(Some(Partition(*node)));
                        level.push(next);
                        next += 1;
                    }
                }
                levels.push(level);
            }
            let tree = Tree::new(shards, Order::Nodes).unwrap();
            let got: Vec<Vec<u32>> = tree
                .levels()
                .iter()
                .map(|l| l.iter().map(|p| p.0).collect())
                .collect();
            assert_eq!(got, levels, "{shards} places");
            for (p, parent) in parents.iter().enumerate() {
                assert_eq!(tree.parent(Partition(p as u32)), *parent);
            }
        }
    }

    #[test]
    fn in_either_order_each_place_comes_once_and_under_its_parent() {
        for order in [Order::Nodes, Order::Numbers] {
            for shards in 1..=70 {
                let tree = Tree::new(shards, order).unwrap();
                let mut leaves: Vec<u32> =
                    tree.levels().last().unwrap().iter().map(|p| p.0).collect();
                leaves.sort_unstable();
                assert_eq!(leaves, (0..shards).collect::<Vec<_>>());
                for p in (1..shards).map(Partition) {
                    let parent = tree.parent(p).unwrap();
                    assert!(parent < p && tree.is_under(p, parent));
                    assert_eq!(tree.child(parent, tree.level(p) - 1), Some(p));
                }
            }
        }
    }

    #[test]
    fn sizes_that_make_no_sense_are_refused() {
        assert_eq!(Tree::new(0, Order::Nodes), Err(BadShardCount(0)));
        assert_eq!(Tree::new(65_537, Order::Nodes), Err(BadShardCount(65_537)));
        let tree = Tree::new(65_536, Order::Nodes).unwrap();
        assert_eq!(tree.levels().len(), 17);
        assert_eq!(tree.next_child(&Splits::full(tree), Partition(0)), None);
    }
}
