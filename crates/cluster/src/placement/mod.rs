//! Placement of edges: four rules behind one trait, all of them pure arithmetic.
//!
//! | | where an edge is | splits |
//! |---|---|---|
//! | [`EdgeCut`] | on the home shard of its source | no |
//! | [`VertexCut`] | on the shard chosen by a hash of both ends | no |
//! | [`GigaPlus`] | in a partition chosen by a hash of its destination | each partition past the threshold, in two |
//! | [`Dido`] | in the partition whose subtree contains its destination's home shard | as GIGA+ |
//!
//! A vertex begins as one partition on its home shard. Partition `k` is `k` shards after it, round robin, so the
//! bitmap of existing partitions ([`Splits`]) also says which shards have them. A [`Tree`] says which partition a new
//! one is split from. Each edge has a *target partition*, where it is after all splits; at any time it is in the
//! nearest ancestor of the target that exists. Hence a client with an old bitmap asks an ancestor of the right
//! partition, whose server knows more (GIGA+'s rule), and bitmaps are merged by OR.

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

/// Largest number of shards over which edges are distributed.
pub const SHARDS_MAX: u32 = 1 << 16;

/// Default split threshold: the largest number of edges of a partition (GraphMeta, section 6.2).
pub const THRESHOLD_DEFAULT: u64 = 128;
/// Default split threshold of a directory: the largest number of entries of one partition (GIGA+ was measured with 8,000).
pub const DIRECTORY_THRESHOLD_DEFAULT: u64 = 8_192;
/// Default number of rows from which a directory partition moves to another server as a sorted table on shared storage.
pub const TABLE_LEAST_DEFAULT: u64 = 1_024;

/// A unit over which edges are distributed: a server or, with virtual nodes, a vnode; numbered from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard(pub u32);

/// A partition of one vertex's edges. Number `k` is `k` shards after the home shard; 0 is on the home shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Partition(pub u32);

/// One end of an edge, as placements see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct End {
    /// Home shard of the vertex.
    pub home: Shard,
    /// Hash bits that do not depend on the home shard.
    pub hash: u64,
}

impl End {
    /// Computes the end for a vertex id among `shards` shards. For a power of two, [`VertexId::home_bits`] gives the home
    /// shard; otherwise the high half of the id, scaled. The low half of the id is the hash.
    pub fn of(id: VertexId, shards: u32) -> Self {
        let bits = u128::from_be_bytes(id.0);
        let home = if shards.is_power_of_two() {
            u32::from(id.home_bits()) & (shards - 1)
        } else {
            hash::scale((bits >> 64) as u64, shards)
        };
        Self {
            home: Shard(home),
            hash: bits as u64,
        }
    }

    /// Creates an end for a vertex known only by a number, with the given home shard.
    pub fn numbered(number: u64, home: Shard) -> Self {
        Self {
            home,
            hash: hash::mix(number),
        }
    }
}

/// A rule that decides where each edge is stored.
///
/// Callers that have many edges of one vertex use [`Self::locate_all`]; one edge takes nanoseconds.
pub trait Placement: fmt::Debug + Send + Sync {
    /// Returns which of the four rules this is.
    fn kind(&self) -> Kind;

    /// Returns the number of shards over which edges are distributed.
    fn shards(&self) -> u32;

    /// Returns the tree along which a vertex's partitions split; `None` where edges never move.
    fn tree(&self) -> Option<Tree>;

    /// Returns the target partition of an edge: where it is once the vertex has split as far as possible.
    fn target(&self, source: End, destination: End) -> Partition;

    /// Returns all partitions of a vertex with these splits.
    fn partitions(&self, splits: &Splits) -> Vec<Partition>;

    /// Returns the partition that has the edge when the vertex has these splits.
    fn locate(&self, splits: &Splits, source: End, destination: End) -> Partition {
        let target = self.target(source, destination);
        self.tree()
            .map_or(target, |tree| tree.locate(splits, target))
    }

    /// Calls [`Self::locate`] for many edges of one vertex; clears `found` and fills it in their order.
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

    /// Returns the shard of a partition of a vertex with this home shard.
    fn shard_of(&self, home: Shard, partition: Partition) -> Shard {
        shard_of(home, partition, self.shards())
    }
}

/// Returns the shard `k` after the home shard, round robin.
fn shard_of(home: Shard, partition: Partition, shards: u32) -> Shard {
    debug_assert!(home.0 < shards && partition.0 < shards);
    let sum = home.0 + partition.0;
    Shard(if sum >= shards { sum - shards } else { sum })
}

/// Returns the partition that is on shard `at`: the inverse of [`shard_of`].
fn partition_at(home: Shard, at: Shard, shards: u32) -> Partition {
    debug_assert!(home.0 < shards && at.0 < shards);
    Partition(if at.0 >= home.0 {
        at.0 - home.0
    } else {
        at.0 + shards - home.0
    })
}

/// The four placement rules by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Rule of [`Dido`]: binary splits towards destinations.
    Dido,
    /// Rule of [`GigaPlus`]: binary splits by hash.
    GigaPlus,
    /// Rule of [`EdgeCut`]: never splits.
    EdgeCut,
    /// Rule of [`VertexCut`]: always distributed.
    VertexCut,
}

impl Kind {
    /// All four placement rules.
    pub const ALL: [Self; 4] = [Self::Dido, Self::GigaPlus, Self::EdgeCut, Self::VertexCut];

    /// Returns the name used on command lines and in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dido => "dido",
            Self::GigaPlus => "giga+",
            Self::EdgeCut => "edge-cut",
            Self::VertexCut => "vertex-cut",
        }
    }

    /// Creates this placement over `shards` shards. Only [`Dido`] uses `order`; GIGA+'s tree has one order.
    pub fn over(self, shards: u32, order: Order) -> Result<Box<dyn Placement>, BadShardCount> {
        Ok(match self {
            Self::Dido => Box::new(Dido::new(Tree::new(shards, order)?)),
            Self::GigaPlus => Box::new(GigaPlus::new(shards)?),
            Self::EdgeCut => Box::new(EdgeCut::new(shards)?),
            Self::VertexCut => Box::new(VertexCut::new(shards)?),
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

/// A text that names no placement rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a placement; expected dido, giga+, edge-cut or vertex-cut")]
pub struct UnknownKind(pub String);

/// A number of shards outside the valid range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("edges cannot be distributed over {0} shards; expected 1 to {SHARDS_MAX}")]
pub struct BadShardCount(pub u32);

fn check_shards(shards: u32) -> Result<u32, BadShardCount> {
    match shards {
        1..=SHARDS_MAX => Ok(shards),
        _ => Err(BadShardCount(shards)),
    }
}
