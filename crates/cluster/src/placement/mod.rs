//! Where the edges of a vertex lie: four placements behind one trait, all of them pure arithmetic.
//!
//! | | an edge lies | splits |
//! |---|---|---|
//! | [`EdgeCut`] | with its source | no |
//! | [`VertexCut`] | where a hash of both ends says | no |
//! | [`GigaPlus`] | in a partition chosen by a hash of its destination | each partition past the threshold, in two |
//! | [`Dido`] | in the partition under which its destination's home lies | the same |
//!
//! A vertex that splits begins as one partition at its home. Partition `k` lies `k` places on from there, round robin,
//! so the bitmap of the partitions that exist ([`Splits`]) also says on which places they are. A [`Tree`] says which
//! partition a new one is split from. Each edge has a *goal*, the partition where it is once everything has split; at any
//! time it lies in the goal's nearest ancestor that exists. Hence a client with an old bitmap asks an ancestor of the
//! right partition, whose server knows more (GIGA+'s rule), and bitmaps are merged by OR.

mod dido;
mod edge_cut;
mod giga;
mod growth;
mod splits;
mod state;
mod tree;
mod vertex_cut;

pub use dido::Dido;
pub use edge_cut::EdgeCut;
pub use giga::GigaPlus;
pub use growth::{Growth, Split};
pub use splits::Splits;
pub use state::SplitState;
pub use tree::{Order, Tree};
pub use vertex_cut::VertexCut;

use crate::hash;
use esker_model::VertexId;
use std::fmt;
use std::str::FromStr;

/// Most places that edges are spread over.
pub const PLACES_MAX: u32 = 1 << 16;

/// The split threshold unless told otherwise: edges that a partition holds at most (GraphMeta, section 6.2).
pub const THRESHOLD_DEFAULT: u64 = 128;
/// Entries that a partition of a directory holds at most before it splits, unless somebody chose otherwise (GIGA+ was
/// measured with 8,000).
pub const DIRECTORY_THRESHOLD_DEFAULT: u64 = 8_192;
/// Rows from which on a partition of a directory goes to another server as a sorted table on shared storage, unless somebody chose
/// otherwise.
pub const TABLE_LEAST_DEFAULT: u64 = 1_024;

/// What edges are spread over: a server or, with virtual nodes, a vnode; numbered from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(pub u32);

/// A partition of one vertex's edges. Number `k` lies `k` places on from the vertex's home; 0 is at home.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Partition(pub u32);

/// One end of an edge, as far as placements look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct End {
    /// Where the vertex lies.
    pub home: Place,
    /// Bits that do not depend on the home.
    pub hash: u64,
}

impl End {
    /// A vertex among that many places: for a power of two its [`VertexId::place`] says its home, else the high half of its id,
    /// scaled. The low half is its hash.
    pub fn of(id: VertexId, places: u32) -> Self {
        let bits = u128::from_be_bytes(id.0);
        let home = if places.is_power_of_two() {
            u32::from(id.place()) & (places - 1)
        } else {
            hash::scale((bits >> 64) as u64, places)
        };
        Self {
            home: Place(home),
            hash: bits as u64,
        }
    }

    /// A vertex known by a number only, with its home given.
    pub fn numbered(number: u64, home: Place) -> Self {
        Self {
            home,
            hash: hash::mix(number),
        }
    }
}

/// A rule that says where each edge lies.
///
/// Callers that have many edges of one vertex use [`Self::locate_all`]; an edge takes nanoseconds.
pub trait Placement: fmt::Debug + Send + Sync {
    /// Which of the four it is.
    fn kind(&self) -> Kind;

    /// How many places edges are spread over.
    fn places(&self) -> u32;

    /// How a vertex's partitions split; none where edges never move.
    fn tree(&self) -> Option<Tree>;

    /// The partition that the edge is in when the vertex has split as far as it can.
    fn goal(&self, source: End, destination: End) -> Partition;

    /// All partitions of a vertex that has split so far.
    fn partitions(&self, splits: &Splits) -> Vec<Partition>;

    /// The partition that the edge is in when the vertex has split so far.
    fn locate(&self, splits: &Splits, source: End, destination: End) -> Partition {
        let goal = self.goal(source, destination);
        self.tree().map_or(goal, |tree| tree.locate(splits, goal))
    }

    /// [`Self::locate`] for many edges of one vertex, in their order, into `found`, which is cleared.
    fn locate_all(
        &self,
        splits: &Splits,
        source: End,
        destinations: &[End],
        found: &mut Vec<Partition>,
    ) {
        found.clear();
        found.extend(
            destinations
                .iter()
                .map(|destination| self.locate(splits, source, *destination)),
        );
    }

    /// Where a partition lies of a vertex that has its home there.
    fn place(&self, home: Place, partition: Partition) -> Place {
        place(home, partition, self.places())
    }
}

/// `k` places on from home, round robin.
fn place(home: Place, partition: Partition, places: u32) -> Place {
    debug_assert!(home.0 < places && partition.0 < places);
    let sum = home.0 + partition.0;
    Place(if sum >= places { sum - places } else { sum })
}

/// The partition that lies at a place: the inverse of [`place`].
fn partition_at(home: Place, at: Place, places: u32) -> Partition {
    debug_assert!(home.0 < places && at.0 < places);
    Partition(if at.0 >= home.0 {
        at.0 - home.0
    } else {
        at.0 + places - home.0
    })
}

/// The four placements by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// [`Dido`].
    Dido,
    /// [`GigaPlus`].
    GigaPlus,
    /// [`EdgeCut`].
    EdgeCut,
    /// [`VertexCut`].
    VertexCut,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Dido, Self::GigaPlus, Self::EdgeCut, Self::VertexCut];

    /// The name that people and files use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dido => "dido",
            Self::GigaPlus => "giga+",
            Self::EdgeCut => "edge-cut",
            Self::VertexCut => "vertex-cut",
        }
    }

    /// That placement over so many places. Only [`Dido`] looks at the order; GIGA+'s tree has one.
    pub fn over(self, places: u32, order: Order) -> Result<Box<dyn Placement>, BadPlaces> {
        Ok(match self {
            Self::Dido => Box::new(Dido::new(Tree::new(places, order)?)),
            Self::GigaPlus => Box::new(GigaPlus::new(places)?),
            Self::EdgeCut => Box::new(EdgeCut::new(places)?),
            Self::VertexCut => Box::new(VertexCut::new(places)?),
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| UnknownKind(text.to_owned()))
    }
}

/// A text that names no placement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no placement; expected dido, giga+, edge-cut or vertex-cut")]
pub struct UnknownKind(pub String);

/// A number of places that edges cannot be spread over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("edges cannot be spread over {0} places; expected 1 to {PLACES_MAX}")]
pub struct BadPlaces(pub u32);

fn check_places(places: u32) -> Result<u32, BadPlaces> {
    match places {
        1..=PLACES_MAX => Ok(places),
        _ => Err(BadPlaces(places)),
    }
}
