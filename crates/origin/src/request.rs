//! Requests to origins and their responses. Paths are bytes here; caches map them to numbers.

use esker_site_cache::entry::{Attributes, Wants};

/// A request about one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataRequest {
    /// Absolute path below the origin's root: names separated by single `/`, without `.` and `..`.
    pub path: Box<[u8]>,
    /// Attributes only, or the children as well.
    pub wants: Wants,
}

impl MetadataRequest {
    /// Requests the attributes of a path.
    pub fn stat(path: &[u8]) -> Self {
        let path = path.into();
        let wants = Wants::Stat;
        Self { path, wants }
    }

    /// Requests the children of a directory.
    pub fn list(path: &[u8]) -> Self {
        let path = path.into();
        let wants = Wants::List;
        Self { path, wants }
    }
}

/// An entry of a directory listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// The name, without `/`; not empty, `.` or `..`.
    pub name: Box<[u8]>,
    /// Attributes reported by the listing.
    pub attributes: Attributes,
}

/// The response to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathMetadata {
    /// The path does not exist.
    Absent,
    /// The attributes of the path; also the response when a path to be listed is not a directory.
    Present(Attributes),
    /// A directory with its children.
    Listing {
        /// The directory's own attributes.
        attributes: Attributes,
        /// The children in any order, each name once.
        children: Vec<DirEntry>,
        /// Whether all other names are absent. False if the server hides names or the listing was cut short.
        complete: bool,
    },
}

/// Maximum number of names in a listing, because a server may never end one; more is [`crate::Error::Protocol`].
pub const CHILDREN_MAX: usize = 10_000_000;
/// Maximum size of a response on the wire, in bytes.
pub const ANSWER_BYTES_MAX: usize = 2 << 30;

/// A change notification of an origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notification {
    /// The path exists with these attributes; their kind is unknown if only the change is known.
    Changed(Box<[u8]>, Attributes),
    /// The path and everything below it was deleted.
    Deleted(Box<[u8]>),
    /// Changes anywhere below this path may have been missed.
    Missed(Box<[u8]>),
    /// The notifying side is disconnected: earlier responses are no longer covered by notifications.
    SourceLost,
}
