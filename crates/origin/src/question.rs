//! What is asked, and what comes back, in paths as bytes: numbers for them are the cache's business.

use esker_site_cache::entry::{Attributes, Wants};

/// A question about one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Absolute, below the origin's root, names parted by single `/`, without `.` and `..`.
    pub path: Box<[u8]>,
    /// Its attributes, or what stands in it as well.
    pub wants: Wants,
}

impl Question {
    /// For the attributes of a path.
    pub fn stat(path: &[u8]) -> Self {
        let path = path.into();
        let wants = Wants::Stat;
        Self { path, wants }
    }

    /// For what stands in a directory.
    pub fn list(path: &[u8]) -> Self {
        let path = path.into();
        let wants = Wants::List;
        Self { path, wants }
    }
}

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// Without `/`; neither `.` nor `..` nor empty.
    pub name: Box<[u8]>,
    /// What the listing says of it.
    pub attributes: Attributes,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// There is nothing at the path.
    Absent,
    /// Attributes; what is no directory is answered so also when it was to be listed.
    Present(Attributes),
    /// A directory with what stands in it.
    Listing {
        /// The directory's own.
        attributes: Attributes,
        /// Its children in any order, each name once.
        children: Vec<Named>,
        /// Whether every other name is absent. Not if the server hides names, or the listing was cut.
        complete: bool,
    },
}

/// Names that one listing may have; more is [`crate::Error::Nonsense`], for a server may never end one.
pub const CHILDREN_MAX: usize = 10_000_000;
/// Bytes that one answer may take on the wire.
pub const ANSWER_BYTES_MAX: usize = 2 << 30;

/// What an origin tells by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// The path is there, with these attributes; their kind is unknown if all that is known is that something changed.
    Changed(Box<[u8]>, Attributes),
    /// It is gone, with all below it.
    Deleted(Box<[u8]>),
    /// Changes may have been missed anywhere below this path.
    Missed(Box<[u8]>),
    /// Who told is gone: what was told so far is not promised any more. It is as true as what nobody tells of.
    Cut,
}
