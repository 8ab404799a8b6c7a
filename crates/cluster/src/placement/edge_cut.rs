//! Edge-cut: all edges of a vertex are on its home shard, however many there are.

use super::{BadShardCount, End, Kind, Partition, Placement, Splits, Tree, check_shards};

/// Placement that keeps all edges of a vertex on its home shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EdgeCut {
    shards: u32,
}

impl EdgeCut {
    /// Creates the placement over `shards` shards.
    pub fn new(shards: u32) -> Result<Self, BadShardCount> {
        Ok(Self {
            shards: check_shards(shards)?,
        })
    }
}

impl Placement for EdgeCut {
    fn kind(&self) -> Kind {
        Kind::EdgeCut
    }

    fn shards(&self) -> u32 {
        self.shards
    }

    fn tree(&self) -> Option<Tree> {
        None
    }

    fn target(&self, _source: End, _destination: End) -> Partition {
        Partition(0)
    }

    fn partitions(&self, _splits: &Splits) -> Vec<Partition> {
        vec![Partition(0)]
    }
}
