//! Calls of the namespace as data: what travels to where a directory is, and what comes back.

use super::{Change, Cookie, Done, Entry, Inode, Kind, NamePath, Space, SpaceBy, Usage};
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
