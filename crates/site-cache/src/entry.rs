//! What is asked for, and what origins answer.

use crate::path::{PathId, Paths};
use std::sync::Arc;

/// Microseconds since the host began to count.
pub type Time = u64;

/// What a path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Kind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// Something else.
    Other,
    /// The origin did not say.
    #[default]
    Unknown,
}

/// What an origin says of a path. What it does not say is not there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attributes {
    /// What it is.
    pub kind: Kind,
    /// Bytes.
    pub size: Option<u64>,
    /// Nanoseconds since 1970.
    pub modified: Option<i64>,
    /// Permissions.
    pub mode: Option<u32>,
    /// Whatever else, by name: owner, group, checksum, replicas.
    pub more: Option<Arc<[(Box<str>, Box<str>)]>>,
}

impl Attributes {
    /// Of something of which only the kind is known.
    pub fn of(kind: Kind) -> Self {
        Self {
            kind,
            ..Self::default()
        }
    }
}

/// One name of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// Its path.
    pub path: PathId,
    /// What the listing says of it.
    pub attributes: Attributes,
}

/// What stands in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    children: Vec<Child>,
    complete: bool,
    bytes: u64,
}

/// What a cached path costs besides its name.
pub const ENTRY_BYTES: u64 = 128;
/// What a listing costs besides its names.
pub const LISTING_BYTES: u64 = 32;
/// What a name of a listing costs besides its bytes.
pub const CHILD_BYTES: u64 = 80;

impl Listing {
    /// Of children in any order. A complete listing says of every other name that it is absent.
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

    /// All names, in the order of their numbers.
    pub fn children(&self) -> &[Child] {
        &self.children
    }

    /// Whether names that do not stand here are absent.
    pub fn complete(&self) -> bool {
        self.complete
    }

    /// What it costs.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The entry of one name.
    pub fn get(&self, path: PathId) -> Option<&Child> {
        let at = self.children.binary_search_by_key(&path, |c| c.path).ok()?;
        self.children.get(at)
    }

    /// Adds or replaces a name, because the origin said so.
    pub fn put(&mut self, child: Child, paths: &Paths) {
        match self.children.binary_search_by_key(&child.path, |c| c.path) {
            Ok(at) => self.children[at] = child,
            Err(at) => {
                self.bytes += CHILD_BYTES + paths.name(child.path).len() as u64;
                self.children.insert(at, child);
            }
        }
    }

    /// Takes a name away, because the origin said so.
    pub fn remove(&mut self, path: PathId, paths: &Paths) {
        if let Ok(at) = self.children.binary_search_by_key(&path, |c| c.path) {
            self.children.remove(at);
            self.bytes -= CHILD_BYTES + paths.name(path).len() as u64;
        }
    }
}

/// What is asked of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Wants {
    /// Its attributes.
    Stat,
    /// Its attributes, and what stands in it.
    List,
}

/// One request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Request {
    /// About which path.
    pub path: PathId,
    /// What.
    pub wants: Wants,
}

impl Request {
    /// For the attributes of a path.
    pub fn stat(path: PathId) -> Self {
        let wants = Wants::Stat;
        Self { path, wants }
    }

    /// For what stands in a directory.
    pub fn list(path: PathId) -> Self {
        let wants = Wants::List;
        Self { path, wants }
    }
}

/// What there is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Something.
    Present(Attributes),
    /// Nothing.
    Absent,
}

/// An answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// What there is.
    pub state: State,
    /// What stands in it, if that was asked for and it is a directory.
    pub listing: Option<Arc<Listing>>,
    /// When the origin was asked, at the earliest: how old the answer is.
    pub at: Time,
    /// Whether who answered will tell of changes: then it holds until they do.
    pub told: bool,
}

impl Answer {
    /// That there is nothing.
    pub fn absent(at: Time) -> Self {
        Self {
            state: State::Absent,
            listing: None,
            at,
            told: false,
        }
    }

    /// Attributes.
    pub fn present(attributes: Attributes, at: Time) -> Self {
        Self {
            state: State::Present(attributes),
            listing: None,
            at,
            told: false,
        }
    }

    /// Whether there is nothing at the path.
    pub fn is_absent(&self) -> bool {
        self.state == State::Absent
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The origin, or the tier above, did not answer as it should.
    #[error("the origin did not answer: {0}")]
    Origin(Box<str>),
    /// The origin does not let whoever asks it know this.
    #[error("{0}")]
    Denied(Box<str>),
    /// Too much waits already.
    #[error("too many requests wait; ask again later")]
    Busy,
    /// It changed again and again while it was read.
    #[error("it changes faster than it can be read; ask again later")]
    Changing,
}

/// What happened to a path at its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happened {
    /// It is there, and what is known of it is this; it may be new.
    Changed(Attributes),
    /// It is gone, with all below it.
    Deleted,
    /// Nobody will tell of changes in this directory any more.
    Forgotten,
    /// Changes of it, and of all below it, may have been missed: nothing that is kept of them is believed.
    Doubted,
}

/// A change that is told to whoever fetched the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Of which path.
    pub path: PathId,
    /// What happened.
    pub happened: Happened,
}
