//! Attributes of a file, apart from its names.

use super::acl::{
    ACL_ACCESS, ACL_DEFAULT, ACL_NAMES, Acl, ENTRIES_MAX, acl_in, has_acl_size, is_empty_acl,
    put_acl, put_value, value_of,
};
use super::{Errno, FileError, NFS4_ACL, Nfs4Acl, XATTR_BYTES_MAX, display};
use crate::file_home::{DIRECTORY_TYPE, FILE_TYPE};
use crate::id::VertexId;
use crate::object::Principal;
use crate::version::Version;
use crate::visibility::{Access, AccessList};

/// Kind of a file: the type bits of `st_mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory of files.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A Unix-domain socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

impl Kind {
    /// All kinds with their type bits, their names, and their letters in `ls -l` and `find -type`.
    const ALL: [(Self, u32, &'static str, char); 7] = [
        (Self::File, 0o10_0000, "file", '-'),
        (Self::Directory, 0o4_0000, "directory", 'd'),
        (Self::Symlink, 0o12_0000, "symlink", 'l'),
        (Self::Fifo, 0o1_0000, "fifo", 'p'),
        (Self::Socket, 0o14_0000, "socket", 's'),
        (Self::CharDevice, 0o2_0000, "chardev", 'c'),
        (Self::BlockDevice, 0o6_0000, "blockdev", 'b'),
    ];

    /// Mask of the type bits (`S_IFMT`).
    pub const MASK: u32 = 0o17_0000;

    fn row(self) -> (u32, &'static str, char) {
        let found = Self::ALL.iter().find(|(k, ..)| *k == self);
        found.map_or((0, "file", '-'), |(_, bits, name, letter)| {
            (*bits, *name, *letter)
        })
    }

    /// Returns the kind from a mode with type bits.
    pub fn of_mode(mode: u32) -> Option<Self> {
        Self::ALL
            .iter()
            .find(|(_, bits, ..)| *bits == mode & Self::MASK)
            .map(|(k, ..)| *k)
    }

    /// Returns the type bits of this kind.
    pub fn bits(self) -> u32 {
        self.row().0
    }

    /// Returns the name of this kind, one word.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Returns the names of all kinds.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::ALL.iter().map(|(_, _, name, _)| *name)
    }

    /// Returns the first letter of a line of `ls -l`.
    pub fn letter(self) -> char {
        self.row().2
    }

    /// Returns the vertex type of files of this kind.
    pub fn type_name(self) -> &'static str {
        if self == Self::Directory {
            DIRECTORY_TYPE
        } else {
            FILE_TYPE
        }
    }
}

/// Location of a file's content.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Content {
    /// No content known to Esker: an empty file, a directory, or a file of an indexed tree.
    #[default]
    None,
    /// The target of a symbolic link.
    Symlink(Vec<u8>),
    /// Content stored inline, in the dentry.
    Inline(Vec<u8>),
    /// Content stored in the file at this path of an underlying file system.
    Object(Vec<u8>),
}

/// Attributes of a file. Times are nanoseconds since 1970, sizes bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inode {
    /// Id of the file's vertex.
    pub id: VertexId,
    /// The version at which the file took these attributes.
    pub version: Version,
    /// Type and permission bits, as `st_mode`.
    pub mode: u32,
    /// User id of the owner.
    pub uid: u32,
    /// Group id of the file.
    pub gid: u32,
    /// Number of names; for a directory, two and one for each directory in it.
    pub links: u32,
    /// Size of the content in bytes.
    pub size: u64,
    /// 512-byte blocks allocated in the file system that has the content.
    pub blocks: u64,
    /// Device number of a device file (`st_rdev`).
    pub rdev: u64,
    /// Time of the last read.
    pub atime: i64,
    /// Time of the last change of content.
    pub mtime: i64,
    /// Time of the last change of anything.
    pub ctime: i64,
    /// Time of the creation.
    pub btime: i64,
    /// Location of the content.
    pub content: Content,
    /// Extended attributes except tags, sorted by name.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Whether the graph has rows of the file: tags, edges, attributes.
    pub tracked: bool,
}

impl Inode {
    /// Returns the kind of the file.
    pub fn kind(&self) -> Kind {
        Kind::of_mode(self.mode).unwrap_or(Kind::File)
    }

    /// Whether the file is a directory.
    pub fn is_directory(&self) -> bool {
        self.mode & Kind::MASK == Kind::Directory.bits()
    }

    /// Whether the principal may do everything that the bits ask for (4 read, 2 write, 1 search or execute). The first
    /// of the classes owner, group and others that the principal belongs to decides (POSIX.1-2017, 4.5). `None` is the
    /// owner of the database.
    pub fn allows(&self, principal: Option<&Principal>, bits: u32) -> bool {
        Access::of_file(self).allows(principal, bits.into())
    }

    /// Whether the principal may list a directory and reach its entries. These are two questions: one entry of an access
    /// list may permit the one, and another entry the other.
    pub fn lets_walk(&self, principal: Option<&Principal>) -> bool {
        self.allows(principal, 4) && self.allows(principal, 1)
    }

    /// Returns `EACCES` for the path unless [`Self::allows`] is true.
    pub fn demand(
        &self,
        principal: Option<&Principal>,
        bits: u32,
        path: &[u8],
    ) -> Result<(), FileError> {
        if self.allows(principal, bits) {
            Ok(())
        } else {
            Err(Errno::Access.at(display(path)))
        }
    }

    /// Sets the time of the last change to `now`.
    pub fn touch_change(&mut self, now: i64) {
        // A clock that was set back must not move the time back.
        self.ctime = self.ctime.max(now);
    }
}

impl Inode {
    /// Returns the access list, if the file has one.
    pub fn access_acl(&self) -> Option<Acl> {
        acl_in(&self.xattrs, ACL_ACCESS)
    }

    /// Returns the list that new entries of the directory inherit, if there is one.
    pub fn default_acl(&self) -> Option<Acl> {
        acl_in(&self.xattrs, ACL_DEFAULT)
    }

    /// Returns the list of `NFSv4`, if the file has one. A damaged one allows nothing.
    pub fn nfs4_acl(&self) -> Option<Nfs4Acl> {
        let value = value_of(&self.xattrs, NFS4_ACL)?;
        Some(Nfs4Acl::parse(value).unwrap_or_default())
    }

    /// Returns the list that decides about access to the file, if it has one.
    pub fn access_list(&self) -> Option<AccessList> {
        let nfs4 = self.nfs4_acl().map(AccessList::Nfs4);
        nfs4.or_else(|| self.access_acl().map(AccessList::Posix))
    }

    /// Whether the file has an access control list, or one for new entries.
    pub fn has_acl(&self) -> bool {
        let has = |name: &&[u8]| value_of(&self.xattrs, name).is_some();
        ACL_NAMES.iter().any(has)
    }

    /// Returns all entries of the file's lists, as `getfacl` and `nfs4_getfacl` print them.
    pub fn acl_texts(&self) -> Vec<String> {
        let mut texts = self.nfs4_acl().map_or_else(Vec::new, |acl| acl.texts());
        texts.extend(self.access_acl().iter().flat_map(Acl::texts));
        let default = self.default_acl().map_or_else(Vec::new, |acl| acl.texts());
        texts.extend(default.iter().map(|text| format!("default:{text}")));
        texts
    }

    /// Returns the mode for those who judge a file by it and know no list of `NFSv4`: with the permissions that all users of a
    /// class have.
    pub fn judged_mode(&self) -> u32 {
        match self.nfs4_acl() {
            Some(acl) => self.mode & (!0o777 | acl.common_mode(self.is_directory())),
            None => self.mode,
        }
    }

    /// Removes the list of `NFSv4`: after a `chmod` the mode alone decides.
    pub fn discard_nfs4_acl(&mut self) {
        self.xattrs.retain(|(name, _)| name != NFS4_ACL);
    }

    /// Whether two inodes have the same access control lists.
    pub fn has_acls_of(&self, other: &Self) -> bool {
        let of = |inode: &Self, name| value_of(&inode.xattrs, name).map(<[u8]>::to_vec);
        self.xattrs == other.xattrs
            || ACL_NAMES
                .iter()
                .all(|name| of(self, name) == of(other, name))
    }

    /// Sets one of the lists from the value of its extended attribute, and the mode with it, except by a list of `NFSv4`; `None`, and a `POSIX` list without
    /// entries, removes it.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for symbolic links, `EPERM` unless the caller is the owner, `EACCES` for a default list of another file than a directory, `EINVAL` for a
    /// malformed list, `ENOSPC` for one with more entries than an extended attribute holds.
    pub fn set_acl(
        &mut self,
        name: &[u8],
        value: Option<&[u8]>,
        is_owner: bool,
        path: &dyn Fn() -> String,
    ) -> Result<(), FileError> {
        if self.kind() == Kind::Symlink {
            return Err(Errno::NotSupported.at(path()));
        }
        // Checks are in the order of Linux, so that a call with two errors returns the same one.
        let malformed = || Errno::Invalid.at(format!("{}: a malformed access list", path()));
        if name == NFS4_ACL {
            return self.set_nfs4_acl(value, is_owner, path);
        }
        if value.is_some_and(|value| !has_acl_size(value)) {
            return Err(malformed());
        }
        let value = value.filter(|value| !is_empty_acl(value));
        if name == ACL_DEFAULT && !self.is_directory() {
            return match value {
                Some(_) => Err(Errno::Access.at(path())),
                None => Ok(()),
            };
        }
        if !is_owner {
            return Err(Errno::NotPermitted.at(path()));
        }
        let acl = value.map(Acl::parse).transpose();
        let acl = acl.map_err(|_| malformed())?.flatten();
        let entries = acl
            .as_ref()
            .map_or(0, |a| a.users.len() + a.groups.len() + 4);
        if entries > ENTRIES_MAX {
            return Err(Errno::NoSpace.at(path()));
        }
        if name == ACL_DEFAULT {
            put_acl(&mut self.xattrs, name, acl.as_ref());
            return Ok(());
        }
        if let Some(acl) = &acl {
            self.mode = self.mode & !0o777 | acl.mode_bits();
        }
        let acl = acl.filter(|acl| !acl.is_mode());
        put_acl(&mut self.xattrs, name, acl.as_ref());
        Ok(())
    }

    fn set_nfs4_acl(
        &mut self,
        value: Option<&[u8]>,
        is_owner: bool,
        path: &dyn Fn() -> String,
    ) -> Result<(), FileError> {
        if !is_owner {
            return Err(Errno::NotPermitted.at(path()));
        }
        let Some(value) = value else {
            self.discard_nfs4_acl();
            return Ok(());
        };
        let acl =
            Nfs4Acl::parse(value).map_err(|e| Errno::Invalid.at(format!("{}: {e}", path())))?;
        let value = acl.encode();
        if value.len() > XATTR_BYTES_MAX {
            return Err(Errno::NoSpace.at(path()));
        }
        put_value(&mut self.xattrs, NFS4_ACL, Some(value));
        Ok(())
    }

    /// Sets the permission bits of the mode, and the access list with them.
    pub fn set_permissions(&mut self, mode: u32) {
        self.mode = self.mode & Kind::MASK | mode & 0o7777;
        if let Some(mut acl) = self.access_acl() {
            acl.set_mode(mode);
            put_acl(&mut self.xattrs, ACL_ACCESS, Some(&acl));
        }
    }

    /// Applies the umask of the creating process to a new file or, where its directory has a default list, lets the file
    /// inherit that instead.
    pub fn inherit(&mut self, default: Option<&Acl>, umask: u32) {
        if self.kind() == Kind::Symlink {
            return;
        }
        let Some(default) = default else {
            self.mode &= !(umask & 0o777);
            return;
        };
        let mut acl = default.clone();
        acl.restrict(self.mode);
        self.mode = self.mode & !0o777 | acl.mode_bits();
        let own = Some(&acl).filter(|acl| !acl.is_mode());
        put_acl(&mut self.xattrs, ACL_ACCESS, own);
        if self.is_directory() {
            put_acl(&mut self.xattrs, ACL_DEFAULT, Some(default));
        }
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

    fn allows(mode: i64, owner: i64, group: i64, principal: Option<&Principal>, bits: i64) -> bool {
        Access::new(Some(owner), Some(group), Some(mode)).allows(principal, bits)
    }

    #[test]
    fn the_first_class_decides() {
        let ada = Principal {
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
        let root = Principal::default();
        assert!(
            allows(0o100_000, 7, 7, Some(&root), 6) && !allows(0o100_000, 7, 7, Some(&root), 1)
        );
        assert!(allows(0o040_000, 7, 7, Some(&root), 1) && allows(0o100_000, 7, 7, None, 7));
    }
}
