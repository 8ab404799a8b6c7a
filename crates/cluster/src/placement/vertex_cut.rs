//! Vertex-cut: an edge lies where a hash of both its ends says, from the first on.

use super::{
    BadPlaces, End, Kind, Partition, Place, Placement, Splits, Tree, check_places, partition_at,
};
use crate::hash;

/// The edges of every vertex all over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VertexCut {
    places: u32,
}

impl VertexCut {
    /// Over so many places.
    pub fn new(places: u32) -> Result<Self, BadPlaces> {
        Ok(Self {
            places: check_places(places)?,
        })
    }
}

impl Placement for VertexCut {
    fn kind(&self) -> Kind {
        Kind::VertexCut
    }

    fn places(&self) -> u32 {
        self.places
    }

    fn tree(&self) -> Option<Tree> {
        None
    }

    fn goal(&self, source: End, destination: End) -> Partition {
        let edge = hash::pair(source.hash, destination.hash);
        let at = Place(hash::scale(edge, self.places));
        partition_at(source.home, at, self.places)
    }

    fn partitions(&self, _splits: &Splits) -> Vec<Partition> {
        (0..self.places).map(Partition).collect()
    }
}
