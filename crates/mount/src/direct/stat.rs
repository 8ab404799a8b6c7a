//! What a file is, in C's words.

use crate::attributes;
use crate::xattrs::Space;
use esker_model::namespace::{Inode, Kind};
use fuser::FileAttr;

/// A file's attributes. Times are nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stat {
    /// Its number, the same through a mount.
    pub number: u64,
    /// Kind and permission bits.
    pub mode: u32,
    /// How many names it has.
    pub links: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Which device it is, of a device file.
    pub rdev: u64,
    /// Bytes of its content.
    pub size: u64,
    /// Blocks of 512 bytes.
    pub blocks: u64,
    /// What reads and writes are best a multiple of, in bytes.
    pub block_bytes: u32,
    /// Last read.
    pub atime: i64,
    /// Last change of the content.
    pub mtime: i64,
    /// Last change of anything.
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
            atime: attributes::nanos(of.atime),
            mtime: attributes::nanos(of.mtime),
            ctime: attributes::nanos(of.ctime),
        }
    }
}

/// How much room there is in the data folders together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Room {
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Blocks.
    pub blocks: u64,
    /// Those that nobody uses.
    pub free: u64,
    /// Those that this user may use.
    pub available: u64,
    /// Files of the namespace.
    pub files: u64,
}

impl Room {
    pub(crate) fn of(space: Space) -> Self {
        Self {
            block_bytes: space.block_bytes,
            blocks: space.blocks,
            free: space.free,
            available: space.available,
            files: space.files,
        }
    }
}
