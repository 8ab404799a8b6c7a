//! Edge-cut: an edge lies with its source, however many there are.

use super::{BadPlaces, End, Kind, Partition, Placement, Splits, Tree, check_places};

/// All edges of a vertex at its home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EdgeCut {
    places: u32,
}

impl EdgeCut {
    /// Over so many places.
    pub fn new(places: u32) -> Result<Self, BadPlaces> {
        Ok(Self {
            places: check_places(places)?,
        })
    }
}

impl Placement for EdgeCut {
    fn kind(&self) -> Kind {
        Kind::EdgeCut
    }

    fn places(&self) -> u32 {
        self.places
    }

    fn tree(&self) -> Option<Tree> {
        None
    }

    fn goal(&self, _source: End, _destination: End) -> Partition {
        Partition(0)
    }

    fn partitions(&self, _splits: &Splits) -> Vec<Partition> {
        vec![Partition(0)]
    }
}
