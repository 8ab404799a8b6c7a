//! The API trait of the namespace and its data types.

use super::{Content, Inode, Kind, Name, NamePath, Open, OpenLookup, Partition, Subtree};
use crate::error::{Error, Result};
use crate::graph::{Cancel, Flow};
use crate::id::VertexId;
use crate::object::Principal;
use crate::version::Version;

/// A directory entry: a name and the attributes of its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Name of the entry.
    pub name: Name,
    /// Attributes of the file.
    pub inode: Inode,
}

/// Position in a directory listing. Entries are listed in the order of their names' hashes, so entries that are added
/// or removed do not change the position of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cookie {
    /// Hash of the last entry's name.
    pub hash: u64,
    /// Number of the last entry among names with that hash.
    pub n: u8,
}

/// Attributes of a file to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFile {
    /// Type and permission bits.
    pub mode: u32,
    /// Permission bits that the new file does not get, unless its directory has a default access list, which decides
    /// then; 0 if the caller has applied its umask to `mode`.
    pub umask: u32,
    /// User id of the owner.
    pub uid: u32,
    /// Group id of the file.
    pub gid: u32,
    /// Size of the content in bytes; inline `content` counts by itself.
    pub size: u64,
    /// Allocated blocks of 512 bytes.
    pub blocks: u64,
    /// Device number of a device file.
    pub rdev: u64,
    /// Times of the last read, of the last change of content, of the last change of anything, and of creation, in
    /// nanoseconds since 1970; `None` is now. With the third, the file counts as one that existed before: its
    /// directory's own times do not change.
    pub times: [Option<i64>; 4],
    /// Content of the file, or its location.
    pub content: Content,
    /// Names and values of extended attributes.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl NewFile {
    /// Creates the attributes of an empty file, or a directory, with this mode and owner.
    pub fn new(mode: u32, uid: u32, gid: u32) -> Self {
        Self {
            mode,
            umask: 0,
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

/// Attributes to change; `None` leaves an attribute as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SetAttributes {
    /// New permission bits of the file.
    pub mode: Option<u32>,
    /// New owner (user id).
    pub uid: Option<u32>,
    /// New group (group id).
    pub gid: Option<u32>,
    /// New size in bytes: inline content is truncated or extended with zero bytes.
    pub size: Option<u64>,
    /// New number of allocated blocks of 512 bytes.
    pub blocks: Option<u64>,
    /// New time of the last read, in nanoseconds since 1970.
    pub atime: Option<i64>,
    /// New time of the last change of content, in nanoseconds since 1970.
    pub mtime: Option<i64>,
    /// New time of the last change of anything, in nanoseconds since 1970; now, if something else changes and this is
    /// `None`.
    pub ctime: Option<i64>,
    /// New content of the file.
    pub content: Option<Content>,
}

/// Condition on the existence of an extended attribute that is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XattrMode {
    /// The attribute may or may not exist.
    Any,
    /// The attribute must not exist (`XATTR_CREATE`).
    Create,
    /// The attribute must exist (`XATTR_REPLACE`).
    Replace,
}

/// A change of the namespace. Changes of attributes and content accept the path form of an open file
/// ([`super::Handle`]) as their path. The last name of a path is not followed if it is a symbolic link, unless `follow`
/// says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Creates a file, a directory, a symbolic link, a pipe, a socket or a device; `EEXIST` if the path exists.
    Create(NamePath, NewFile),
    /// Removes a name of a file.
    Unlink(NamePath),
    /// Removes an empty directory.
    Rmdir(NamePath),
    /// Moves a file or directory to another path, replacing what is there if POSIX allows it.
    Rename {
        /// Present path of the file or directory.
        from: NamePath,
        /// New path of the file or directory.
        to: NamePath,
        /// Whether to fail with `EEXIST` if the new path exists (`RENAME_NOREPLACE`).
        no_replace: bool,
    },
    /// Exchanges two files or directories: each gets the path of the other (`RENAME_EXCHANGE`).
    Exchange {
        /// Path of the first one, whose id is the result.
        from: NamePath,
        /// Path of the second one.
        to: NamePath,
    },
    /// Gives a file another name (hard link).
    Link {
        /// Path of the existing file.
        from: NamePath,
        /// Path of the additional name.
        to: NamePath,
    },
    /// Changes attributes of a file.
    Set {
        /// Path of the file.
        path: NamePath,
        /// Whether to change the target if the path names a symbolic link.
        follow: bool,
        /// Attributes to change.
        set: SetAttributes,
    },
    /// Sets an extended attribute, or removes it (`None`).
    Xattr {
        /// Path of the file.
        path: NamePath,
        /// Name of the attribute, such as `user.note`.
        name: Vec<u8>,
        /// New value of the attribute.
        value: Option<Vec<u8>>,
        /// Condition on its existence.
        mode: XattrMode,
    },
    /// Writes bytes into the content of a file with inline content.
    Write {
        /// Path of the file; symbolic links are followed.
        path: NamePath,
        /// Offset in bytes; `None` appends at the end of the file (`O_APPEND`).
        at: Option<u64>,
        /// Bytes to write.
        data: Vec<u8>,
    },
    /// Inserts a whole subtree atomically: `EEXIST` if any of its first names is taken. Must be the only change of its
    /// call.
    Merge(Subtree),
}

impl Change {
    /// Returns the first path of the change.
    pub fn path(&self) -> &NamePath {
        match self {
            Self::Create(path, _)
            | Self::Unlink(path)
            | Self::Rmdir(path)
            | Self::Rename { from: path, .. }
            | Self::Exchange { from: path, .. }
            | Self::Link { from: path, .. }
            | Self::Set { path, .. }
            | Self::Xattr { path, .. }
            | Self::Write { path, .. } => path,
            Self::Merge(subtree) => subtree.path(),
        }
    }
}

/// The result of a change that was applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppliedChange {
    /// Id of the file that was changed or created.
    pub id: VertexId,
    /// The version of the change.
    pub version: Version,
}

/// Grouping of space sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpaceBy {
    /// By owner of the files.
    User,
    /// By group of the files.
    Group,
    /// By kind of file (the type bits of its mode).
    Kind,
    /// By the ending of the name: up to eight bytes behind the last dot, in lower case.
    Ending,
    /// By the day of the last change of content, in days since 1970.
    Day,
}

/// Sums over a set of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Number of files of all kinds except directories. A file with several names counts once in each name's directory,
    /// and once in total.
    pub files: u64,
    /// Number of directories among the files.
    pub directories: u64,
    /// Total size of the content, in bytes.
    pub bytes: u64,
    /// Allocated blocks of 512 bytes.
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

/// The sums of one group of files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Space {
    /// The group: a number in decimal, an ending, a kind or a day.
    pub key: String,
    /// Sums over the files of the group.
    pub usage: Usage,
}

/// Read and write access to the namespace. `stat`, `list`, `usage` and changes of attributes and content accept an open
/// file in place of a path. Results contain only what the principal may see; a principal of `None` is the owner of the
/// database.
pub trait Namespace: Send + Sync {
    /// Returns a file's attributes. `follow` says whether a symbolic link as the last name is followed.
    fn stat(&self, principal: Option<&Principal>, path: &NamePath, follow: bool) -> Result<Inode>;

    /// Lists the entries of a directory behind a cookie, ordered by the hash of their names, each with its own cookie.
    fn list(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        after: Option<Cookie>,
        sink: &mut dyn FnMut(Cookie, Entry) -> Flow,
    ) -> Result<()>;

    /// Visits all files at and below a path that the principal may see: the path itself first, directories before their
    /// entries.
    fn walk(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(&NamePath, &Inode) -> Flow,
    ) -> Result<()>;

    /// Applies changes one after the other, each atomically, and commits all that succeed in one commit. The results
    /// are in the order of the changes.
    fn change(
        &self,
        principal: Option<&Principal>,
        changes: &[Change],
    ) -> Result<Vec<Result<AppliedChange>>>;

    /// Returns the space used by a directory, from maintained sums: with `below` that of the directory and of
    /// everything below it that the principal may search; else that of its own entries.
    fn usage(&self, principal: Option<&Principal>, path: &NamePath, below: bool) -> Result<Usage>;

    /// Visits each directory at and below a path that the principal may search, with the space used by it and
    /// everything below it.
    fn usages(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(&NamePath, &Usage) -> Flow,
    ) -> Result<()>;

    /// Checks that the principal may open a path in this way, and returns the open file, or the place where a new file
    /// would be created. Nothing is changed or remembered: see [`super::OpenFile::open`]. Given an open file, opens it
    /// anew for its owner.
    fn resolve_open(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        how: Open,
    ) -> Result<OpenLookup>;

    /// Returns sums over the whole namespace.
    fn space(&self, by: SpaceBy) -> Result<Vec<Space>>;

    /// Looks up the vertex id and the kind of the file at each path; `None` where no file exists that the principal can
    /// reach. A symbolic link as the last name is not followed.
    fn ids(
        &self,
        principal: Option<&Principal>,
        paths: &[NamePath],
    ) -> Result<Vec<Option<(VertexId, Kind)>>> {
        let each = paths
            .iter()
            .map(|path| match self.stat(principal, path, false) {
                Ok(inode) => Ok(Some((inode.id, inode.kind()))),
                Err(Error::File(_)) => Ok(None),
                Err(e) => Err(e),
            });
        each.collect()
    }

    /// Returns the partitions of a directory and their servers.
    fn partitions(&self, path: &NamePath) -> Result<Vec<Partition>>;
}
