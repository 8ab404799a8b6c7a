//! GIGA+: partitions split in two by the bits of a hash of the destination (Patil, Gibson, FAST 2011).
//!
//! The lowest bit decides the first split, the next one the second. A partition's number is the bits that its edges'
//! hashes end in, and it lies so many places on from home. It says nothing about where destinations lie: that is what
//! DIDO adds.

use super::{BadPlaces, End, Kind, Order, Partition, Placement, Splits, Tree};

/// Binary splits by the destination's hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GigaPlus {
    tree: Tree,
}

impl GigaPlus {
    /// Over so many places. Unless they are a power of two, some partitions stay twice as large as others: the paper, too,
    /// asks for many more partitions than servers then (virtual nodes).
    pub fn new(places: u32) -> Result<Self, BadPlaces> {
        Ok(Self {
            tree: Tree::new(places, Order::Numbers)?,
        })
    }
}

impl Placement for GigaPlus {
    fn kind(&self) -> Kind {
        Kind::GigaPlus
    }

    fn places(&self) -> u32 {
        self.tree.places()
    }

    fn tree(&self) -> Option<Tree> {
        Some(self.tree)
    }

    fn goal(&self, _source: End, destination: End) -> Partition {
        let places = self.places();
        let bits = destination.hash as u32 & (places.next_power_of_two() - 1);
        Partition(if bits < places {
            bits
        } else {
            // The last level is not whole: its parent never splits.
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
    use crate::placement::Place;

    #[test]
    fn the_lowest_bits_of_the_hash_are_the_goal() {
        let end = |hash| End {
            home: Place(1),
            hash,
        };
        let goals = |places| {
            let giga = GigaPlus::new(places).unwrap();
            (0..8)
                .map(|bits| giga.goal(end(0), end(0xabc0 | bits)).0)
                .collect::<Vec<u32>>()
        };
        assert_eq!(goals(8), [0, 1, 2, 3, 4, 5, 6, 7]);
        // Partitions 2 and 3 do not split into 6 and 7.
        assert_eq!(goals(6), [0, 1, 2, 3, 4, 5, 2, 3]);
        assert_eq!(goals(1), [0; 8]);
    }
}
