//! DIDO: destination-dependent optimised partitioning (GraphMeta, section 5.2).
//!
//! Partitions split as in GIGA+, but each edge goes to the child whose subtree contains its destination's home shard.
//! An edge that moved is on its destination's shard, or gets there with further splits.

use super::{End, Kind, Partition, Placement, Splits, Tree, partition_at};

/// Binary splits towards the destination's home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dido {
    tree: Tree,
}

impl Dido {
    /// Creates the placement along `tree`: [`Order::Nodes`](super::Order::Nodes) for servers, as in Fig. 6 of the
    /// paper; [`Order::Numbers`](super::Order::Numbers) for virtual nodes.
    pub fn new(tree: Tree) -> Self {
        Self { tree }
    }
}

impl Placement for Dido {
    fn kind(&self) -> Kind {
        Kind::Dido
    }

    fn shards(&self) -> u32 {
        self.tree.shards()
    }

    fn tree(&self) -> Option<Tree> {
        Some(self.tree)
    }

    fn target(&self, source: End, destination: End) -> Partition {
        partition_at(source.home, destination.home, self.tree.shards())
    }

    fn partitions(&self, splits: &Splits) -> Vec<Partition> {
        splits.iter().collect()
    }
}
