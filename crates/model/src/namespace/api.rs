//! The trait of the namespace's door, and what travels through it.

use super::{Content, Inode, Kind, Looked, Name, NamePath, Open, Partition, Subtree};
use crate::error::{Error, Result};
use crate::graph::{Cancel, Flow};
use crate::id::VertexId;
use crate::object::Asker;
use crate::version::Version;

/// A file with a name, as a directory lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: Name,
    /// Its attributes.
    pub inode: Inode,
}

/// Where a listing is: entries come in the order of their names' hashes, which no other entry's coming or going changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cookie {
    /// Hash of the last name.
    pub hash: u64,
    /// Its number among names with that hash.
    pub n: u8,
}

/// A file to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Make {
    /// Type and permission bits; the caller has taken its umask off.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Bytes of its content; what `content` holds counts by itself.
    pub size: u64,
    /// Blocks of 512 bytes.
    pub blocks: u64,
    /// Which device it is, of a device file.
    pub rdev: u64,
    /// Last read, last change of content, of anything, when made: nanoseconds since 1970; now where `None`. With the third,
    /// the file is one that has been there before: its directory does not change its own times.
    pub times: [Option<i64>; 4],
    /// Its content, or where it is.
    pub content: Content,
    /// Extended attributes.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Make {
    /// An empty file, or a directory, of that mode and owner.
    pub fn new(mode: u32, uid: u32, gid: u32) -> Self {
        Self {
            mode,
            uid,
            gid,
            size: 0,
            blocks: 0,
            rdev: 0,
            times: [None; 4],
            content: Content::None,
            xattrs: Vec::new(),
        }
    }
}

/// Attributes to change: what is `None` stays.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SetAttributes {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size: content that is here is cut or filled with zero bytes.
    pub size: Option<u64>,
    /// Blocks.
    pub blocks: Option<u64>,
    /// Last read, in nanoseconds since 1970.
    pub atime: Option<i64>,
    /// Last change of content.
    pub mtime: Option<i64>,
    /// Last change of anything; now, if something else changes and this is `None`.
    pub ctime: Option<i64>,
    /// The content.
    pub content: Option<Content>,
}

/// Whether an extended attribute may be there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XattrMode {
    /// Either.
    Any,
    /// It must not (`XATTR_CREATE`).
    Create,
    /// It must (`XATTR_REPLACE`).
    Replace,
}

/// One change. Attributes and content are changed of open files, too: a [`super::Handle`] stands for the path. Paths' last names are not followed where they are symbolic links, unless `follow` says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Makes a file, a directory, a symbolic link, a pipe, a socket or a device; `EEXIST` if there is something.
    Make(NamePath, Make),
    /// Removes a name of a file.
    Unlink(NamePath),
    /// Removes an empty directory.
    Rmdir(NamePath),
    /// Gives a file or directory another path; what is there goes, if it can, unless `no_replace`.
    Rename {
        /// What.
        from: NamePath,
        /// Where to.
        to: NamePath,
        /// `EEXIST` if there is something (`RENAME_NOREPLACE`).
        no_replace: bool,
    },
    /// Gives a file another name.
    Link {
        /// Which.
        from: NamePath,
        /// Its further name.
        to: NamePath,
    },
    /// Changes attributes.
    Set {
        /// Whose.
        path: NamePath,
        /// Where the path names a symbolic link: of what it leads to.
        follow: bool,
        /// Which.
        set: SetAttributes,
    },
    /// Sets an extended attribute, or removes it (`None`).
    Xattr {
        /// Whose.
        path: NamePath,
        /// Its name, as `user.note`.
        name: Vec<u8>,
        /// Its value.
        value: Option<Vec<u8>>,
        /// Whether it may be there.
        mode: XattrMode,
    },
    /// Writes bytes into the content of a file, which is here.
    Write {
        /// Whose; followed where it is a symbolic link.
        path: NamePath,
        /// At which offset; behind the last byte (`O_APPEND`) if at none.
        at: Option<u64>,
        /// Which.
        data: Vec<u8>,
    },
    /// Makes all of a subtree at once, or nothing of it: `EEXIST` if any of its first names is taken. Comes alone in a call.
    Merge(Subtree),
}

impl Change {
    /// The path that it is first about.
    pub fn path(&self) -> &NamePath {
        match self {
            Self::Make(path, _)
            | Self::Unlink(path)
            | Self::Rmdir(path)
            | Self::Rename { from: path, .. }
            | Self::Link { from: path, .. }
            | Self::Set { path, .. }
            | Self::Xattr { path, .. }
            | Self::Write { path, .. } => path,
            Self::Merge(subtree) => subtree.path(),
        }
    }
}

/// What a change did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// What it was done to, or made.
    pub id: VertexId,
    /// When.
    pub version: Version,
}

/// By what space is summed up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpaceBy {
    /// Owner.
    User,
    /// Group.
    Group,
    /// Kind of file (its type bits).
    Kind,
    /// The ending of its name: up to eight bytes behind the last dot, in lower case.
    Ending,
    /// Days from 1970 to the last change of its content.
    Day,
}

/// Sums over files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Files of all kinds but directories, each name of a file with several counted in its own directory, else once.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Bytes of content.
    pub bytes: u64,
    /// Blocks of 512 bytes.
    pub blocks: u64,
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.files += other.files;
        self.directories += other.directories;
        self.bytes += other.bytes;
        self.blocks += other.blocks;
    }
}

/// One row of sums.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Space {
    /// Of whom: a number in decimal, an ending, a kind, a day.
    pub key: String,
    /// How much.
    pub usage: Usage,
}

/// Reading and changing the namespace. `stat`, `list`, `usage` and changes of attributes and content take an open file in the place
/// of a path. Answers show what the asker may see: `None` is whoever owns the database.
pub trait Namespace: Send + Sync {
    /// A file's attributes.
    fn stat(&self, asker: Option<&Asker>, path: &NamePath, follow: bool) -> Result<Inode>;

    /// Entries of a directory behind a cookie, by the hash of their names, each with the cookie that goes on behind it.
    fn list(
        &self,
        asker: Option<&Asker>,
        path: &NamePath,
        after: Option<Cookie>,
        sink: &mut dyn FnMut(Cookie, Entry) -> Flow,
    ) -> Result<()>;

    /// All that lies below a path and the asker may see, itself first, directories before what is in them.
    fn walk(
        &self,
        asker: Option<&Asker>,
        path: &NamePath,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(&NamePath, &Inode) -> Flow,
    ) -> Result<()>;

    /// Applies changes one after the other, each whole or not at all, all that succeed in one commit; the answers are in
    /// their order.
    fn change(&self, asker: Option<&Asker>, changes: &[Change]) -> Result<Vec<Result<Done>>>;

    /// What a directory holds, by sums that are kept: with `below`, it and all below it that the asker may look into; else its
    /// own entries.
    fn usage(&self, asker: Option<&Asker>, path: &NamePath, below: bool) -> Result<Usage>;

    /// Each directory from a path on that the asker may look into, with what it and all below it hold.
    fn usages(
        &self,
        asker: Option<&Asker>,
        path: &NamePath,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(&NamePath, &Usage) -> Flow,
    ) -> Result<()>;

    /// Opens what is at a path, if the asker may open it so; or says where a file would be made. Nothing is changed, nor kept: see
    /// [`super::OpenFile::open`]. Given an open file, it is opened anew for whoever owns it.
    fn look(&self, asker: Option<&Asker>, path: &NamePath, how: Open) -> Result<Looked>;

    /// Sums over the whole namespace.
    fn space(&self, by: SpaceBy) -> Result<Vec<Space>>;

    /// What is at each of these paths now, if there is something that the asker gets at: its vertex, and its kind. A last
    /// name that is a symbolic link is not followed.
    fn ids(
        &self,
        asker: Option<&Asker>,
        paths: &[NamePath],
    ) -> Result<Vec<Option<(VertexId, Kind)>>> {
        let each = paths
            .iter()
            .map(|path| match self.stat(asker, path, false) {
                Ok(inode) => Ok(Some((inode.id, inode.kind()))),
                Err(Error::File(_)) => Ok(None),
                Err(e) => Err(e),
            });
        each.collect()
    }

    /// The partitions of a directory, and where they are.
    fn partitions(&self, path: &NamePath) -> Result<Vec<Partition>>;
}
