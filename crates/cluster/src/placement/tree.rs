//! The partition tree of a vertex (GraphMeta, Fig. 6), by arithmetic: nothing of it is stored.
//!
//! The root stands for the vertex's home. A node's left child is the same partition one level down; its right child is
//! the next place, round robin, that the tree does not show yet. Levels are filled one after another. So partition `p`
//! first shows on level `p.ilog2() + 1`, its parent has a smaller number, and a level that the places do not fill
//! leaves its last nodes as leaves.
//!
//! In which order the nodes of a level get their right children makes the two trees that Esker has, see [`Order`].

use super::{BadPlaces, Partition, Splits, check_places};

/// In which order the nodes of a level get right children.
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
    /// From left to right, as the paper draws it.
    Nodes,
    /// By the partition's number: the right child of `p` on level `l` is `p + 2^l`. Everything under a node of level `l`
    /// has its number modulo `2^l`, as in GIGA+, whatever the root is. Virtual nodes need that: see
    /// [`VnodeMap`](crate::vnode::VnodeMap).
    Numbers,
}

/// The tree over a number of places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tree {
    places: u32,
    order: Order,
}

impl Tree {
    /// Over so many places.
    pub fn new(places: u32, order: Order) -> Result<Self, BadPlaces> {
        Ok(Self {
            places: check_places(places)?,
            order,
        })
    }

    /// How many places, and hence partitions, there are.
    pub fn places(self) -> u32 {
        self.places
    }

    /// In which order nodes get right children.
    pub fn order(self) -> Order {
        self.order
    }

    /// The level on which a partition first shows: 0 for the root.
    pub fn level(self, partition: Partition) -> u32 {
        partition.0.checked_ilog2().map_or(0, |log| log + 1)
    }

    /// What a partition is split from; nothing for the root.
    pub fn parent(self, partition: Partition) -> Option<Partition> {
        let top = partition.0.checked_ilog2()?;
        let rest = partition.0 & !(1 << top);
        Some(Partition(match self.order {
            Order::Numbers => rest,
            Order::Nodes => on_level(rest, top),
        }))
    }

    /// The right child of a partition's node on a level; none where the places have run out.
    pub fn child(self, partition: Partition, level: u32) -> Option<Partition> {
        debug_assert!(level >= self.level(partition), "it does not show there yet");
        let rest = match self.order {
            Order::Numbers => partition.0,
            Order::Nodes => position(partition, level),
        };
        let child = 1_u32.checked_shl(level)?.checked_add(rest)?;
        (child < self.places).then_some(Partition(child))
    }

    /// The child that a partition's next split makes; none if it cannot split any more. With it, the level of the node
    /// that splits.
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

    /// Whether a partition is `ancestor`, or was split from it, directly or not.
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

    /// Where an edge with that goal is when these partitions exist: in its nearest ancestor among them.
    pub fn locate(self, splits: &Splits, goal: Partition) -> Partition {
        if splits.is_whole() {
            return Partition(0);
        }
        let mut partition = goal;
        while !splits.contains(partition) {
            match self.parent(partition) {
                Some(parent) => partition = parent,
                None => break,
            }
        }
        partition
    }

    /// The whole tree, level by level, each from left to right: for explanations and tests.
    pub fn levels(self) -> Vec<Vec<Partition>> {
        let mut levels = vec![vec![Partition(0)]];
        let mut shown = 1;
        for level in 0.. {
            if shown == self.places {
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

/// How many nodes of a level are to the left of the partition's.
fn position(partition: Partition, level: u32) -> u32 {
    match partition.0.checked_ilog2() {
        None => 0,
        // It first showed on level `top + 1`, as the right child of node `rest`; all nodes there had two.
        Some(top) => {
            let rest = partition.0 & !(1 << top);
            (2 * rest + 1) << (level - top - 1)
        }
    }
}

/// The partition of the node that has so many to its left on a whole level of the paper's tree.
fn on_level(position: u32, level: u32) -> u32 {
    if position == 0 {
        return 0;
    }
    // Up along left children, which are the same partition, to where it is a right child.
    let up = position.trailing_zeros();
    let first = level - up;
    (1 << (first - 1)) + (position >> (up + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(places: u32, order: Order, home: u32) -> Vec<String> {
        let tree = Tree::new(places, order).unwrap();
        let name = |p: &Partition| format!("S{}", (home - 1 + p.0) % places + 1);
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
    fn places_that_are_no_power_of_two_fill_the_last_level_from_the_left() {
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

    /// Arithmetic against the definition, for every size: each place once, parents as drawn.
    #[test]
    fn the_arithmetic_draws_the_tree_of_the_definition() {
        for places in 1..=70 {
            let mut levels: Vec<Vec<u32>> = vec![vec![0]];
            let mut next = 1;
            let mut parents = vec![None];
            while next < places {
                let mut level = Vec::new();
                for node in levels.last().unwrap() {
                    level.push(*node);
                    if next < places {
                        parents.push(Some(Partition(*node)));
                        level.push(next);
                        next += 1;
                    }
                }
                levels.push(level);
            }
            let tree = Tree::new(places, Order::Nodes).unwrap();
            let got: Vec<Vec<u32>> = tree
                .levels()
                .iter()
                .map(|l| l.iter().map(|p| p.0).collect())
                .collect();
            assert_eq!(got, levels, "{places} places");
            for (p, parent) in parents.iter().enumerate() {
                assert_eq!(tree.parent(Partition(p as u32)), *parent);
            }
        }
    }

    #[test]
    fn in_either_order_each_place_comes_once_and_under_its_parent() {
        for order in [Order::Nodes, Order::Numbers] {
            for places in 1..=70 {
                let tree = Tree::new(places, order).unwrap();
                let mut leaves: Vec<u32> =
                    tree.levels().last().unwrap().iter().map(|p| p.0).collect();
                leaves.sort_unstable();
                assert_eq!(leaves, (0..places).collect::<Vec<_>>());
                for p in (1..places).map(Partition) {
                    let parent = tree.parent(p).unwrap();
                    assert!(parent < p && tree.is_under(p, parent));
                    assert_eq!(tree.child(parent, tree.level(p) - 1), Some(p));
                }
            }
        }
    }

    #[test]
    fn sizes_that_make_no_sense_are_refused() {
        assert_eq!(Tree::new(0, Order::Nodes), Err(BadPlaces(0)));
        assert_eq!(Tree::new(65_537, Order::Nodes), Err(BadPlaces(65_537)));
        let tree = Tree::new(65_536, Order::Nodes).unwrap();
        assert_eq!(tree.levels().len(), 17);
        assert_eq!(tree.next_child(&Splits::full(tree), Partition(0)), None);
    }
}
