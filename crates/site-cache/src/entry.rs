//! Requests for metadata and the answers of origins.

use crate::path::{PathId, Paths};
use std::sync::Arc;

/// Microseconds since the start of the host's clock.
pub type Time = u64;

/// File type of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// Any other type of file.
    Other,
    /// Type not reported by the origin.
    #[default]
    Unknown,
}

/// Attributes of a path as reported by its origin; unreported ones are `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attributes {
    /// Type of the file.
    pub kind: Kind,
    /// Size of the file in bytes.
    pub size: Option<u64>,
    /// Modification time, in nanoseconds since 1970.
    pub modified: Option<i64>,
    /// Permission bits as in POSIX.
    pub mode: Option<u32>,
    /// Further attributes by name: owner, group, checksum, replicas.
    pub more: Option<Arc<[(Box<str>, Box<str>)]>>,
}

impl Attributes {
    /// Creates attributes of which only the kind is known.
    pub fn of(kind: Kind) -> Self {
        Self {
            kind,
            ..Self::default()
        }
    }
}

/// One entry of a directory listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// Path of the entry.
    pub path: PathId,
    /// Attributes from the listing.
    pub attributes: Attributes,
}

/// Entries of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    children: Vec<Child>,
    complete: bool,
    bytes: u64,
}

/// Cached size of a path in bytes, without its name.
pub const ENTRY_BYTES: u64 = 128;
/// Cached size of a listing in bytes, without its entries.
pub const LISTING_BYTES: u64 = 32;
/// Cached size of a listing's entry in bytes, without its name.
pub const CHILD_BYTES: u64 = 80;

impl Listing {
    /// Creates a listing from children in any order. In a complete listing, every other name is absent.
    pub fn new(mut children: Vec<Child>, complete: bool, paths: &Paths) -> Self {
        children.sort_unstable_by_key(|c| c.path);
        children.dedup_by_key(|c| c.path);
        let cost = |c: &Child| CHILD_BYTES + paths.name(c.path).len() as u64;
        let bytes = LISTING_BYTES + children.iter().map(cost).sum::<u64>();
        Self {
            children,
            complete,
            bytes,
        }
    }

    /// Returns all entries, ordered by path number.
    pub fn children(&self) -> &[Child] {
        &self.children
    }

    /// Whether names that are not listed are absent.
    pub fn complete(&self) -> bool {
        self.complete
    }

    /// Returns the cached size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Looks up the entry of a path.
    pub fn get(&self, path: PathId) -> Option<&Child> {
        let at = self.children.binary_search_by_key(&path, |c| c.path).ok()?;
        self.children.get(at)
    }

    /// Adds or replaces an entry after a change at the origin.
    pub fn put(&mut self, child: Child, paths: &Paths) {
        match self.children.binary_search_by_key(&child.path, |c| c.path) {
            Ok(at) => self.children[at] = child,
            Err(at) => {
                self.bytes += CHILD_BYTES + paths.name(child.path).len() as u64;
                self.children.insert(at, child);
            }
        }
    }

    /// Removes an entry after a change at the origin.
    pub fn remove(&mut self, path: PathId, paths: &Paths) {
        if let Ok(at) = self.children.binary_search_by_key(&path, |c| c.path) {
            self.children.remove(at);
            self.bytes -= CHILD_BYTES + paths.name(path).len() as u64;
        }
    }
}

/// Kind of metadata that a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Wants {
    /// Attributes of the path.
    Stat,
    /// Attributes and directory listing of the path.
    List,
}

/// A request for metadata of one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Request {
    /// Path of the file or directory.
    pub path: PathId,
    /// Kind of the requested metadata.
    pub wants: Wants,
}

impl Request {
    /// Creates a request for the attributes of a path.
    pub fn stat(path: PathId) -> Self {
        let wants = Wants::Stat;
        Self { path, wants }
    }

    /// Creates a request for the listing of a directory.
    pub fn list(path: PathId) -> Self {
        let wants = Wants::List;
        Self { path, wants }
    }
}

/// Existence and attributes of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// The path exists and has these attributes.
    Present(Attributes),
    /// The path does not exist.
    Absent,
}

/// An answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Existence and attributes of the path.
    pub state: State,
    /// Listing, if requested and the path is a directory.
    pub listing: Option<Arc<Listing>>,
    /// Earliest time at which the origin was read: the age of the answer.
    pub at: Time,
    /// Whether the answering tier sends invalidations: the answer is then valid until one arrives.
    pub subscribed: bool,
}

impl Answer {
    /// Creates the answer that a path does not exist.
    pub fn absent(at: Time) -> Self {
        Self {
            state: State::Absent,
            listing: None,
            at,
            subscribed: false,
        }
    }

    /// Creates an answer with attributes.
    pub fn present(attributes: Attributes, at: Time) -> Self {
        Self {
            state: State::Present(attributes),
            listing: None,
            at,
            subscribed: false,
        }
    }

    /// Whether the path does not exist.
    pub fn is_absent(&self) -> bool {
        self.state == State::Absent
    }
}

/// Reason why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The origin, or the upstream tier, did not answer properly.
    #[error("the origin did not answer: {0}")]
    Origin(Box<str>),
    /// The origin denies access to the principal.
    #[error("{0}")]
    Denied(Box<str>),
    /// Too many requests are waiting.
    #[error("too many requests wait; try again later")]
    Busy,
    /// The path changed repeatedly while it was read.
    #[error("it changes faster than it can be read; try again later")]
    Changing,
}

/// Kind of change of a path at its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeKind {
    /// Created or changed; these attributes are current.
    Changed(Attributes),
    /// Deleted, with its subtree.
    Deleted,
    /// Subscription ended: changes in this directory will not be notified any more.
    Unsubscribed,
    /// Changes of the path and its subtree may have been missed: all cached answers about them are invalid.
    Invalidated,
}

/// A change that is notified to the tiers that fetched the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Path that was changed.
    pub path: PathId,
    /// Kind of the change.
    pub kind: ChangeKind,
}
