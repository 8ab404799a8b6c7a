//! What a file is, apart from its name.

use super::{Errno, display};
use crate::id::VertexId;
use crate::object::Asker;
use crate::place::{DIRECTORY_TYPE, FILE_TYPE};
use crate::version::Version;
use crate::visibility::Access;

/// What kind of file: the type bits of `st_mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A file with content.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

impl Kind {
    /// All kinds: type bits, name, and how `ls -l` and `find -type` write them.
    const ALL: [(Self, u32, &'static str, char); 7] = [
        (Self::File, 0o10_0000, "file", '-'),
        (Self::Directory, 0o4_0000, "directory", 'd'),
        (Self::Symlink, 0o12_0000, "symlink", 'l'),
        (Self::Fifo, 0o1_0000, "fifo", 'p'),
        (Self::Socket, 0o14_0000, "socket", 's'),
        (Self::CharDevice, 0o2_0000, "chardev", 'c'),
        (Self::BlockDevice, 0o6_0000, "blockdev", 'b'),
    ];

    /// The type bits (`S_IFMT`).
    pub const MASK: u32 = 0o17_0000;

    fn row(self) -> (u32, &'static str, char) {
        let found = Self::ALL.iter().find(|(k, ..)| *k == self);
        found.map_or((0, "file", '-'), |(_, bits, name, letter)| {
            (*bits, *name, *letter)
        })
    }

    /// Of a mode with type bits.
    pub fn of_mode(mode: u32) -> Option<Self> {
        Self::ALL
            .iter()
            .find(|(_, bits, ..)| *bits == mode & Self::MASK)
            .map(|(k, ..)| *k)
    }

    /// Its type bits.
    pub fn bits(self) -> u32 {
        self.row().0
    }

    /// In a word.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// As `ls -l` begins a line.
    pub fn letter(self) -> char {
        self.row().2
    }

    /// The vertex type of such a file.
    pub fn type_name(self) -> &'static str {
        if self == Self::Directory {
            DIRECTORY_TYPE
        } else {
            FILE_TYPE
        }
    }
}

/// Where a file's content is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Content {
    /// Nowhere that Esker knows: an empty file, a directory, a file of an indexed tree.
    #[default]
    None,
    /// What a symbolic link says.
    Symlink(Vec<u8>),
    /// Here.
    Inline(Vec<u8>),
    /// In the file of that path in an underlying file system.
    Object(Vec<u8>),
}

/// A file's attributes. Times are nanoseconds since 1970, sizes bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inode {
    /// The vertex.
    pub id: VertexId,
    /// When it took these attributes.
    pub version: Version,
    /// Type and permission bits, as `st_mode`.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Names that it has; of a directory, two and one for each directory in it.
    pub links: u32,
    /// Bytes.
    pub size: u64,
    /// 512-byte blocks that it takes in the file system where its content lies.
    pub blocks: u64,
    /// Which device a device file is (`st_rdev`).
    pub rdev: u64,
    /// Last read.
    pub atime: i64,
    /// Last change of its content.
    pub mtime: i64,
    /// Last change of anything.
    pub ctime: i64,
    /// When it was made.
    pub btime: i64,
    /// Where its content is.
    pub content: Content,
    /// Extended attributes that are no tags, by name.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Whether the graph has rows of it: tags, edges, attributes.
    pub tracked: bool,
}

impl Inode {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        Kind::of_mode(self.mode).unwrap_or(Kind::File)
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.mode & Kind::MASK == Kind::Directory.bits()
    }

    /// Whether someone may do what the bits say (4 read, 2 write, 1 search or execute), all of it. The first class of owner,
    /// group and others that they are in decides (POSIX.1-2017, 4.5). `None` is whoever owns the database.
    pub fn allows(&self, asker: Option<&Asker>, bits: u32) -> bool {
        Access::of_file(self).lets(asker, bits.into())
    }

    /// The same, as a refusal.
    pub fn demand(
        &self,
        asker: Option<&Asker>,
        bits: u32,
        path: &[u8],
    ) -> Result<(), super::FileError> {
        if self.allows(asker, bits) {
            Ok(())
        } else {
            Err(Errno::Access.at(display(path)))
        }
    }

    /// What a file with these times says is its newest.
    pub fn touch_change(&mut self, now: i64) {
        // A clock that was set back does not take changes back.
        self.ctime = self.ctime.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_bits() {
        for (kind, bits, _, letter) in Kind::ALL {
            assert_eq!(Kind::of_mode(bits | 0o644), Some(kind));
            assert_eq!((kind.bits(), kind.letter()), (bits, letter));
        }
        assert_eq!(Kind::of_mode(0o644), None);
    }

    fn allows(mode: i64, owner: i64, group: i64, asker: Option<&Asker>, bits: i64) -> bool {
        Access::new(Some(owner), Some(group), Some(mode)).lets(asker, bits)
    }

    #[test]
    fn the_first_class_decides() {
        let ada = Asker {
            uid: 7,
            gids: vec![8],
        };
        for (mode, uid, gid, bits, expected) in [
            (0o100_077, 7, 8, 4, false),
            (0o100_007, 9, 8, 4, false),
            (0o100_070, 9, 8, 7, true),
            (0o100_004, 9, 9, 4, true),
            (0o100_004, 9, 9, 6, false),
        ] {
            assert_eq!(
                allows(mode, uid, gid, Some(&ada), bits),
                expected,
                "{mode:o} {uid} {gid}"
            );
        }
        let root = Asker::default();
        assert!(
            allows(0o100_000, 7, 7, Some(&root), 6) && !allows(0o100_000, 7, 7, Some(&root), 1)
        );
        assert!(allows(0o040_000, 7, 7, Some(&root), 1) && allows(0o100_000, 7, 7, None, 7));
    }
}
