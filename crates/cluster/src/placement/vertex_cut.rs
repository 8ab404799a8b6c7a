//! Vertex-cut: a hash of both ends decides the shard of an edge, from the first edge on.

use super::{
    BadShardCount, End, Kind, Partition, Placement, Shard, Splits, Tree, check_shards, partition_at,
};
use crate::hash;

/// Placement that distributes the edges of every vertex over all shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VertexCut {
    shards: u32,
}

impl VertexCut {
    /// Creates the placement over `shards` shards.
    pub fn new(shards: u32) -> Result<Self, BadShardCount> {
        Ok(Self {
            shards: check_shards(shards)?,
        })
    }
}

impl Placement for VertexCut {
    fn kind(&self) -> Kind {
        Kind::VertexCut
    }

    fn shards(&self) -> u32 {
        self.shards
    }

    fn tree(&self) -> Option<Tree> {
        None
    }

    fn target(&self, source: End, destination: End) -> Partition {
        let edge = hash::pair(source.hash, destination.hash);
        let at = Shard(hash::scale(edge, self.shards));
        partition_at(source.home, at, self.shards)
    }

    fn partitions(&self, _splits: &Splits) -> Vec<Partition> {
        (0..self.shards).map(Partition).collect()
    }
}
