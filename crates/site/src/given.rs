//! Answers in paths as bytes: what goes from tier to tier, and to clients.

use esker_origin::{Found, Named};
use esker_site_cache::entry::Attributes;
use foldhash::fast::FixedState;
use std::hash::BuildHasher as _;
use std::time::Duration;

/// An answer, and how far it can be believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// What there is.
    pub found: Found,
    /// How long before this question the origin was asked, at most; zero if it was asked for it.
    pub age: Duration,
    /// Whether the tier that gave it tells of changes.
    pub told: bool,
    /// Whether that tier had it at hand.
    pub hit: bool,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// What was asked cannot be asked.
    #[error("{0}")]
    Named(Box<str>),
    /// The origin, or the tier above, did not answer as it should.
    #[error("{0}")]
    Origin(Box<str>),
    /// The origin does not let this tier know it.
    #[error("{0}")]
    Denied(Box<str>),
    /// Too much waits already.
    #[error("too many requests wait at this tier; ask again later")]
    Busy,
    /// It changed again and again while it was read.
    #[error("it changes faster than it can be read; ask again later")]
    Changing,
}

/// A number for what was found: the same for the same, whoever computes it, in whatever order children stand.
pub fn digest(found: &Found) -> u64 {
    let hash = FixedState::with_seed(0x5349_5445);
    let of = |a: &Attributes| hash.hash_one((a.kind, a.size, a.modified, a.mode, &a.more));
    match found {
        Found::Absent => 1,
        Found::Present(attributes) => of(attributes).wrapping_mul(3),
        Found::Listing {
            attributes,
            children,
            complete,
        } => {
            let one = |c: &Named| hash.hash_one((&c.name, of(&c.attributes)));
            let sum = children
                .iter()
                .fold(u64::from(*complete), |sum, c| sum.wrapping_add(one(c)));
            hash.hash_one((of(attributes), sum, children.len()))
        }
    }
}
