//! GIGA+: partitions split in two by the bits of a hash of the destination (Patil, Gibson, FAST 2011).
//!
//! The lowest bit decides the first split, the next bit the second. A partition's number is the bits in which its
//! edges' hashes end; partition `k` is `k` shards after the home shard. The number says nothing about where
//! destinations are, which is what DIDO adds.

use super::{BadShardCount, End, Kind, Order, Partition, Placement, Splits, Tree};

/// Binary splits by the destination's hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GigaPlus {
    tree: Tree,
}

impl GigaPlus {
    /// Creates the placement over `shards` shards. Unless their number is a power of two, some partitions stay twice
    /// as large as others; for that case the paper, too, asks for many more partitions than servers (virtual nodes).
    pub fn new(shards: u32) -> Result<Self, BadShardCount> {
        Ok(Self {
            tree: Tree::new(shards, Order::Numbers)?,
        })
    }
}

impl Placement for GigaPlus {
    fn kind(&self) -> Kind {
        Kind::GigaPlus
    }

    fn shards(&self) -> u32 {
        self.tree.shards()
    }

    fn tree(&self) -> Option<Tree> {
        Some(self.tree)
    }

    fn target(&self, _source: End, destination: End) -> Partition {
        let shards = self.shards();
        let bits = destination.hash as u32 & (shards.next_power_of_two() - 1);
        Partition(if bits < shards {
            bits
        } else {
            // The last level is incomplete: this partition's parent never splits.
            bits & !(1 << bits.ilog2())
        })
    }

    fn partitions(&self, splits: &Splits) -> Vec<Partition> {
        splits.iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::Shard;

    #[test]
    fn the_lowest_bits_of_the_hash_are_the_target() {
        let end = |hash| End {
            home: Shard(1),
            hash,
        };
        let targets = |shards| {
            let giga = GigaPlus::new(shards).unwrap();
            (0..8)
                .map(|bits| giga.target(end(0), end(0xabc0 | bits)).0)
                .collect::<Vec<u32>>()
        };
        assert_eq!(targets(8), [0, 1, 2, 3, 4, 5, 6, 7]);
        // Partitions 2 and 3 do not split into 6 and 7.
        assert_eq!(targets(6), [0, 1, 2, 3, 4, 5, 2, 3]);
        assert_eq!(targets(1), [0; 8]);
    }
}
