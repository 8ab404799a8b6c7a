//! File attributes in the form of C's `struct stat`.

use crate::attributes;
use crate::attributes::FsSpace;
use esker_model::namespace::{Inode, Kind};
use fuser::FileAttr;

/// A file's attributes. Times are nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stat {
    /// Inode number; a mount shows the same one.
    pub number: u64,
    /// Type and permission bits.
    pub mode: u32,
    /// Number of names (hard links).
    pub links: u32,
    /// User id of the owner.
    pub uid: u32,
    /// Group id of the file.
    pub gid: u32,
    /// Device number of a device file.
    pub rdev: u64,
    /// Size of the content in bytes.
    pub size: u64,
    /// Allocated blocks of 512 bytes.
    pub blocks: u64,
    /// Preferred size of reads and writes, in bytes.
    pub block_bytes: u32,
    /// Time of the last read.
    pub atime: i64,
    /// Time of the last change of content.
    pub mtime: i64,
    /// Time of the last change of anything.
    pub ctime: i64,
}

impl Stat {
    pub(crate) fn of_inode(number: u64, inode: &Inode) -> Self {
        Self::of_attributes(&attributes::of(number, inode), inode.mode)
    }

    pub(crate) fn of_attributes(of: &FileAttr, mode: u32) -> Self {
        Self {
            number: of.ino.0,
            mode: mode & Kind::MASK | u32::from(of.perm),
            links: of.nlink,
            uid: of.uid,
            gid: of.gid,
            rdev: u64::from(of.rdev),
            size: of.size,
            blocks: of.blocks,
            block_bytes: of.blksize,
            atime: attributes::nanos(of.atime).unwrap_or_default(),
            mtime: attributes::nanos(of.mtime).unwrap_or_default(),
            ctime: attributes::nanos(of.ctime).unwrap_or_default(),
        }
    }
}

/// Total size and free space of the data folders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FsStats {
    /// Size of a block in bytes.
    pub block_bytes: u32,
    /// Total number of blocks.
    pub blocks: u64,
    /// Number of free blocks.
    pub free: u64,
    /// Number of blocks available to this user.
    pub available: u64,
    /// Number of files in the namespace.
    pub files: u64,
}

impl FsStats {
    pub(crate) fn of(space: FsSpace) -> Self {
        Self {
            block_bytes: space.block_bytes,
            blocks: space.blocks,
            free: space.free,
            available: space.available,
            files: space.files,
        }
    }
}
