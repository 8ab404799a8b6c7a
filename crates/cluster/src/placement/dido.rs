//! DIDO: destination-dependent optimised partitioning (GraphMeta, section 5.2).
//!
//! Splits like GIGA+'s, but each edge goes to the child under which its destination's home lies, so an edge that moved is
//! with its destination or comes to it with further splits.

use super::{End, Kind, Partition, Placement, Splits, Tree, partition_at};

/// Binary splits towards the destination's home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dido {
    tree: Tree,
}

impl Dido {
    /// Along that tree: [`Order::Nodes`](super::Order::Nodes) for servers, as in Fig. 6 of the paper;
    /// [`Order::Numbers`](super::Order::Numbers) for virtual nodes.
    pub fn new(tree: Tree) -> Self {
        Self { tree }
    }
}

impl Placement for Dido {
    fn kind(&self) -> Kind {
        Kind::Dido
    }

    fn places(&self) -> u32 {
        self.tree.places()
    }

    fn tree(&self) -> Option<Tree> {
        Some(self.tree)
    }

    fn goal(&self, source: End, destination: End) -> Partition {
        partition_at(source.home, destination.home, self.tree.places())
    }

    fn partitions(&self, splits: &Splits) -> Vec<Partition> {
        splits.iter().collect()
    }
}
