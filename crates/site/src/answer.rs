//! Answers with paths as bytes, as exchanged between tiers and with clients.

use esker_origin::{DirEntry, PathMetadata};
use esker_site_cache::entry::Attributes;
use foldhash::fast::FixedState;
use std::hash::BuildHasher as _;
use std::time::Duration;

/// An answer with its age and origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TierAnswer {
    /// Metadata of the path.
    pub found: PathMetadata,
    /// Upper bound of the answer's age when the request arrived; zero if the origin was read for it.
    pub age: Duration,
    /// Whether the answering tier sends invalidations.
    pub subscribed: bool,
    /// Whether that tier answered from its cache.
    pub hit: bool,
}

/// Reason why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The request is invalid.
    #[error("{0}")]
    Named(Box<str>),
    /// The origin, or the upstream tier, did not answer properly.
    #[error("{0}")]
    Origin(Box<str>),
    /// The origin denies access to this tier.
    #[error("{0}")]
    Denied(Box<str>),
    /// Too many requests are waiting.
    #[error("too many requests wait at this tier; try again later")]
    Busy,
    /// The path changed repeatedly while it was read.
    #[error("it changes faster than it can be read; try again later")]
    Changing,
}

/// Returns a digest of an answer: equal for equal metadata on every machine, in any order of children.
pub fn digest(found: &PathMetadata) -> u64 {
    let hash = FixedState::with_seed(0x5349_5445);
    let of = |a: &Attributes| hash.hash_one((a.kind, a.size, a.modified, a.mode, &a.more));
    match found {
        PathMetadata::Absent => 1,
        PathMetadata::Present(attributes) => of(attributes).wrapping_mul(3),
        PathMetadata::Listing {
            attributes,
            children,
            complete,
        } => {
            let one = |c: &DirEntry| hash.hash_one((&c.name, of(&c.attributes)));
            let sum = children
                .iter()
                .fold(u64::from(*complete), |sum, c| sum.wrapping_add(one(c)));
            hash.hash_one((of(attributes), sum, children.len()))
        }
    }
}
