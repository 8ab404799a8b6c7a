//! Calls of the namespace as data: what travels to where a directory is, and what comes back.

use super::{
    Change, Cookie, Done, Entry, Inode, Kind, Looked, NamePath, Open, Space, SpaceBy, Usage,
};
use crate::error::Result;
use crate::id::VertexId;
use crate::object::Asker;

/// Changes that one caller sends together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// On whose behalf; `None` is whoever owns the database.
    pub asker: Option<Asker>,
    /// Applied one after the other, each whole or not at all.
    pub changes: Vec<Change>,
    /// A numbered marker ([`crate::once`]): sent again with the same one, they are not made again, and the answers are
    /// those of the first time.
    pub once: Option<Vec<u8>>,
    /// They were sent before, and nobody knows whether they arrived. On a cluster, all servers are asked then for one that has
    /// made them: what they did may lead elsewhere now.
    pub again: bool,
}

/// One call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// A file's attributes.
    Stat {
        /// On whose behalf.
        asker: Option<Asker>,
        /// Whose.
        path: NamePath,
        /// Where the path names a symbolic link: of what it leads to.
        follow: bool,
    },
    /// A page of a directory.
    List {
        /// On whose behalf.
        asker: Option<Asker>,
        /// Of which.
        path: NamePath,
        /// Behind which entry.
        after: Option<Cookie>,
        /// At most so many.
        limit: usize,
        /// Directories in it alone.
        directories: bool,
    },
    /// Changes.
    Change(Changes),
    /// What a directory holds by itself, without what is below the directories in it; of another file, what it takes.
    Usage {
        /// On whose behalf.
        asker: Option<Asker>,
        /// Which.
        path: NamePath,
    },
    /// To open a file.
    Look {
        /// On whose behalf.
        asker: Option<Asker>,
        /// Which.
        path: NamePath,
        /// How.
        how: Open,
    },
    /// Sums over the whole namespace.
    Space(SpaceBy),
    /// Where a directory's entries are.
    Partitions(NamePath),
    /// What is at paths now.
    Ids {
        /// On whose behalf.
        asker: Option<Asker>,
        /// Which; a last name that is a symbolic link is not followed.
        paths: Vec<NamePath>,
    },
}

/// What became of a call, if it did not fail.
#[derive(Debug)]
pub enum Answer {
    /// To [`Call::Stat`].
    Inode(Inode),
    /// To [`Call::List`]: in order.
    Page {
        /// The entries, each with the cookie that goes on behind it.
        entries: Vec<(Cookie, Entry)>,
        /// Whether there may be more behind them.
        more: bool,
    },
    /// To [`Call::Change`]: what became of each.
    Changed(Vec<Result<Done>>),
    /// To [`Call::Usage`].
    Usage(Usage),
    /// To [`Call::Look`].
    Looked(Looked),
    /// To [`Call::Space`].
    Space(Vec<Space>),
    /// To [`Call::Partitions`].
    Partitions(Vec<Partition>),
    /// To [`Call::Ids`], in their order.
    Ids(Vec<Option<(VertexId, Kind)>>),
}

/// One partition of a directory (GIGA+).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partition {
    /// Its number in the bitmap.
    pub index: u32,
    /// How many bits of names' hashes tell whether an entry is in it.
    pub depth: u32,
    /// The server that has it; 0 where there is one.
    pub server: u32,
    /// Entries in it, as far as known.
    pub entries: u64,
}

/// Which servers have the entries of a directory, by the hashes of their names: what a client knows of a directory that has
/// split (GIGA+). It may be out of date.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    directory: NamePath,
    /// The first hash of each range, and who has it.
    ranges: Vec<(u64, u32)>,
}

impl Route {
    /// A directory, without symbolic links in its path, and the first hash of each range, in order and from 0, with the
    /// server that has it. Nothing if the ranges are none.
    pub fn new(directory: NamePath, ranges: Vec<(u64, u32)>) -> Option<Self> {
        let whole = ranges.first().is_some_and(|(first, _)| *first == 0);
        let ordered = ranges.is_sorted_by(|(a, _), (b, _)| a < b);
        (whole && ordered).then_some(Self { directory, ranges })
    }

    /// The directory.
    pub fn directory(&self) -> &NamePath {
        &self.directory
    }

    /// The first hash of each range, in order, and who has it.
    pub fn ranges(&self) -> &[(u64, u32)] {
        &self.ranges
    }

    /// Who has the entry of a name with that hash.
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
