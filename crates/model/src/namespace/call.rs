//! Calls of the namespace as data, to be sent to the server that has a directory, and their answers.

use super::{
    AppliedChange, Change, Cookie, Entry, Inode, Kind, NamePath, Open, OpenLookup, Space, SpaceBy,
    Usage,
};
use crate::error::Result;
use crate::id::VertexId;
use crate::object::Principal;

/// A list of changes in one call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// The principal of the call; `None` is the owner of the database.
    pub principal: Option<Principal>,
    /// Changes in order, each applied atomically.
    pub changes: Vec<Change>,
    /// Producer key ([`crate::idempotency`]). A call repeated with the same key does not apply the changes again and
    /// returns the answers of the first call.
    pub idempotency_key: Option<Vec<u8>>,
    /// Whether the call was sent before with an unknown outcome. In a cluster, all servers are asked then whether they
    /// applied the changes, because the changes themselves may have made the path lead to another server.
    pub is_retry: bool,
}

/// A call of the namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// Reads a file's attributes.
    Stat {
        /// The principal of the call.
        principal: Option<Principal>,
        /// Path of the file.
        path: NamePath,
        /// Whether to follow a symbolic link as the last name.
        follow: bool,
    },
    /// Lists one page of a directory.
    List {
        /// The principal of the call.
        principal: Option<Principal>,
        /// Path of the directory.
        path: NamePath,
        /// Cookie of the last entry of the page before.
        after: Option<Cookie>,
        /// Largest number of entries.
        limit: usize,
    },
    /// Applies changes in order.
    Change(Changes),
    /// Returns the space used by a directory without the directories below it, or by another file.
    Usage {
        /// The principal of the call.
        principal: Option<Principal>,
        /// Path of the directory or file.
        path: NamePath,
    },
    /// Checks that a file may be opened.
    Look {
        /// The principal of the call.
        principal: Option<Principal>,
        /// Path of the file.
        path: NamePath,
        /// Flags of the open.
        how: Open,
    },
    /// Returns sums over the whole namespace.
    Space(SpaceBy),
    /// Returns the partitions of a directory.
    Partitions(NamePath),
    /// Looks up the ids of the files at several paths.
    Ids {
        /// The principal of the call.
        principal: Option<Principal>,
        /// Paths of the files; a symbolic link as the last name is not followed.
        paths: Vec<NamePath>,
    },
}

/// The answer to a call that did not fail.
#[derive(Debug)]
pub enum Answer {
    /// Answer to [`Call::Stat`].
    Inode(Inode),
    /// Answer to [`Call::List`], in the order of the listing.
    Page {
        /// Entries of the page, each with its cookie.
        entries: Vec<(Cookie, Entry)>,
        /// Whether more entries may follow.
        more: bool,
    },
    /// Answer to [`Call::Change`]: the result of each change.
    Changed(Vec<Result<AppliedChange>>),
    /// Answer to [`Call::Usage`].
    Usage(Usage),
    /// Answer to [`Call::Look`].
    OpenLookup(OpenLookup),
    /// Answer to [`Call::Space`].
    Space(Vec<Space>),
    /// Answer to [`Call::Partitions`].
    Partitions(Vec<Partition>),
    /// Answer to [`Call::Ids`], in the order of the paths.
    Ids(Vec<Option<(VertexId, Kind)>>),
}

/// One partition of a directory (GIGA+).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partition {
    /// Number of the partition in the bitmap.
    pub index: u32,
    /// Number of bits of a name's hash that decide whether its entry is in the partition.
    pub depth: u32,
    /// Number of the server that has it; 0 where there is only one.
    pub server: u32,
    /// Approximate number of entries in it.
    pub entries: u64,
}

/// The servers that have the entries of a directory, by ranges of name hashes: a client's knowledge of a directory that
/// has split (GIGA+). It may be out of date.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    directory: NamePath,
    /// First hash and server of each range.
    ranges: Vec<(u64, u32)>,
}

impl Route {
    /// Creates the route of a directory whose path has no symbolic links. `ranges` has the first hash and the server of
    /// each range, in order and from hash 0; `None` if it does not.
    pub fn new(directory: NamePath, ranges: Vec<(u64, u32)>) -> Option<Self> {
        let whole = ranges.first().is_some_and(|(first, _)| *first == 0);
        let ordered = ranges.is_sorted_by(|(a, _), (b, _)| a < b);
        (whole && ordered).then_some(Self { directory, ranges })
    }

    /// Returns the path of the directory.
    pub fn directory(&self) -> &NamePath {
        &self.directory
    }

    /// Returns the first hash and the server of each range, in order.
    pub fn ranges(&self) -> &[(u64, u32)] {
        &self.ranges
    }

    /// Returns the server that has the entry of a name with this hash.
    pub fn server(&self, hash: u64) -> u32 {
        let behind = self.ranges.partition_point(|(first, _)| *first <= hash);
        let range = self.ranges.get(behind.saturating_sub(1));
        range.map_or(0, |(_, server)| *server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hash_is_in_the_range_that_begins_last_before_it() {
        let route = |ranges: &[(u64, u32)]| Route::new(NamePath::root(), ranges.to_vec());
        let half = 1 << 63;
        let split = route(&[(0, 3), (half, 1)]).unwrap();
        assert_eq!(
            [0, half - 1, half, u64::MAX].map(|h| split.server(h)),
            [3, 3, 1, 1]
        );
        assert_eq!(route(&[(0, 7)]).unwrap().server(u64::MAX), 7);
        assert_eq!(route(&[]), None);
        assert_eq!(route(&[(1, 0)]), None);
        assert_eq!(route(&[(0, 0), (5, 1), (5, 2)]), None);
    }
}
