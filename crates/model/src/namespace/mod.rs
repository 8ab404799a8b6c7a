//! The model of the namespace: names, paths, inodes and the changes that POSIX defines (after TableFS and IndexFS; Ren
//! & Gibson 2013, "TABLEFS: Enhancing metadata efficiency in the local file system").
//!
//! A file is a vertex. Its inode attributes are stored in its *dentry*, the row under its directory and the hash of
//! its name, so that creating a file or reading its attributes touches one row. `docs/internals/namespace.md` draws all
//! rows.

mod acl;
mod api;
mod call;
mod errno;
mod fields;
mod handle;
mod inode;
mod nfs4_acl;
mod path;
pub mod record;
mod refs;
mod rights;
mod subtree;
mod tagged;
pub mod tags;
pub mod tree_walk;

pub use acl::{ACL_ACCESS, ACL_DEFAULT, ACL_NAMES, Acl, is_acl};
pub use api::{
    AppliedChange, Change, Cookie, Entry, Namespace, NewFile, SetAttributes, Space, SpaceBy, Usage,
    XattrMode,
};
pub use call::{Answer, Call, Changes, Partition, Route};
pub use errno::{Errno, FileError};
pub use fields::{FIELD_NAMES, FileFields, check_kinds};
pub use handle::{Handle, Open, OpenFile, OpenLookup, SEAL_BYTES, external_content_error};
pub use inode::{Content, Inode, Kind};
pub use nfs4_acl::{NFS4_ACL, NFS4_ACL_NAMED, Nfs4Acl, Nfs4Entry, Nfs4Name, Nfs4Who};
pub use path::{Name, NamePath, check_path_key, display, parse_display};
pub use refs::{FileRefResolver, NameResolution, names_a_path, resolve};
pub use rights::{
    INODE_FLAGS, PROJECT_ID, check_new_file, check_object, check_xattr_name, is_superuser,
};
pub use subtree::{Item, Items, SUBTREE_BYTES_MAX, Subtree, SubtreeBuilder, path_in, too_large};
pub use tagged::{TaggedFile, walk_tagged};

use crate::file_home;
use crate::id::VertexId;

/// Longest name of a file, in bytes (`NAME_MAX`).
pub const NAME_BYTES_MAX: usize = 255;
/// Longest path that a caller may give as text, in bytes (`PATH_MAX` with its closing zero byte not counted: 4,096 as
/// on Linux).
pub const PATH_BYTES_MAX: usize = 4_096;
/// Longest path of a file, in bytes. Linux lets a program change to a directory and go on from there, so that a tree
/// may be deeper than the longest path that a call takes.
pub const DEEP_PATH_BYTES_MAX: usize = 1 << 18;
/// Largest number of symbolic links that resolving one path may follow.
pub const SYMLINKS_MAX: usize = 40;
/// Largest number of names (hard links) of one file.
pub const LINKS_MAX: u32 = 65_000;
/// Largest content that is stored in the dentry, in bytes.
pub const INLINE_BYTES_MAX: usize = 4_096;
/// Longest value of an extended attribute, in bytes (as on Linux).
pub const XATTR_BYTES_MAX: usize = 65_536;
/// Largest total size of names and values of a file's extended attributes, in bytes.
pub const XATTRS_BYTES_MAX: usize = 1 << 18;

/// Returns the id of the root directory: that of `directory:/`.
pub const fn root() -> VertexId {
    ROOT
}

/// A constant, because each call about a file asks for it; a test computes it.
const ROOT: VertexId = VertexId([
    0x00, 0x00, 0x54, 0xad, 0x27, 0x69, 0x66, 0x6a, 0x62, 0xe2, 0xf6, 0x31, 0x5f, 0x9b, 0xee, 0xe0,
]);

/// Returns the id of a new file at a path where no file was before.
pub fn id_at(kind: Kind, path: &[u8]) -> VertexId {
    VertexId::of_bytes(kind.type_name(), &[path])
}

/// Computes [`id_at`] for a path whose home is known.
pub fn id_with_home(kind: Kind, path: &[u8], home: u16) -> VertexId {
    // The path is passed in two pieces so that its home is not computed from it.
    VertexId::of_bytes(kind.type_name(), &[path, &[]]).with_home(home)
}

/// Returns the id of a file whose path does not determine its id: its directory was moved, or a file at that path has
/// that id. `salt` distinguishes files that had this name in this directory one after the other.
pub fn id_within(kind: Kind, directory: VertexId, name: &Name, salt: u64) -> VertexId {
    // No path begins with a zero byte.
    VertexId::of_bytes(
        kind.type_name(),
        &[&[0], &directory.0, &salt.to_be_bytes(), name.as_bytes()],
    )
    .with_home(file_home::in_directory(
        directory.home_bits(),
        hash_of(name),
    ))
}

/// Returns the hash of a name. It orders the entries of a directory and selects their directory partition (GIGA+).
pub fn hash_of(name: &Name) -> u64 {
    file_home::name_hash(name.as_bytes())
}

/// Returns a digest of a row, by which servers compare what they have read; 0 if the row does not exist.
pub fn digest(value: Option<&[u8]>) -> u64 {
    let Some(value) = value else { return 0 };
    let hash = blake3::hash(value);
    let first = hash.as_bytes().first_chunk::<8>();
    first.map_or(1, |b| u64::from_be_bytes(*b) | 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_has_the_id_of_its_path() {
        assert_eq!(root(), id_at(Kind::Directory, b"/"));
    }
}
