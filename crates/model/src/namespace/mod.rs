//! The namespace's words: names, paths, inodes, and the changes that POSIX knows (after TableFS and IndexFS; Ren & Gibson
//! 2013, "TABLEFS: Enhancing metadata efficiency in the local file system").
//!
//! A file is a vertex. Its inode attributes lie in its *dentry*, the row under its directory and the hash of its name, so
//! that creating a file and asking for it is one row. What lies where is drawn in `docs/internals/namespace.md`.

mod api;
pub mod below;
mod call;
pub mod codec;
mod errno;
mod fields;
mod handle;
mod inode;
mod path;
pub mod record;
mod refs;
mod rights;
mod subtree;
mod tagged;
pub mod tags;

pub use api::{
    Change, Cookie, Done, Entry, Make, Namespace, SetAttributes, Space, SpaceBy, Usage, XattrMode,
};
pub use call::{Answer, Call, Changes, Partition, Route};
pub use errno::{Errno, FileError};
pub use fields::{FIELD_NAMES, FileFields};
pub use handle::{Handle, Looked, Open, OpenFile, SEAL_BYTES, elsewhere};
pub use inode::{Content, Inode, Kind};
pub use path::{Name, NamePath, check_path_key, display, shown};
pub use refs::{Resolving, Settled, names_a_path, resolve};
pub use rights::{check_made, check_object, check_xattr_name, is_superuser};
pub use subtree::{Item, Items, SUBTREE_BYTES_MAX, Subtree, SubtreeBuilder, path_in, too_large};
pub use tagged::{TaggedFile, walk_tagged};

use crate::id::VertexId;
use crate::place;

/// Longest name of a file, in bytes (`NAME_MAX`).
pub const NAME_BYTES_MAX: usize = 255;
/// Longest path, in bytes (`PATH_MAX` with its closing zero byte not counted: 4,096 as on Linux).
pub const PATH_BYTES_MAX: usize = 4_096;
/// Most symbolic links that one path may lead through.
pub const SYMLINKS_MAX: usize = 40;
/// Most names of one file.
pub const LINKS_MAX: u32 = 65_000;
/// Content of files up to this size lies in the dentry, in bytes.
pub const INLINE_BYTES_MAX: usize = 4_096;
/// Longest value of an extended attribute, in bytes (as Linux).
pub const XATTR_BYTES_MAX: usize = 65_536;
/// Names and values of all extended attributes of a file together, in bytes.
pub const XATTRS_BYTES_MAX: usize = 65_536;

/// The id of the root directory: that of `directory:/`.
pub fn root() -> VertexId {
    VertexId::of(Kind::Directory.type_name(), "/")
}

/// The id that a file at that path has if none had it before.
pub fn id_at(kind: Kind, path: &[u8]) -> VertexId {
    VertexId::of_bytes(kind.type_name(), &[path])
}

/// [`id_at`] for who knows the path's place.
pub fn id_at_place(kind: Kind, path: &[u8], place: u16) -> VertexId {
    // In two pieces it is not taken apart for its place.
    VertexId::of_bytes(kind.type_name(), &[path, &[]]).at_place(place)
}

/// The id of a file whose path says nothing about it: its directory was moved, or a file at that path has that id.
/// `salt` tells those apart that had this name in this directory, one after the other.
pub fn id_within(kind: Kind, directory: VertexId, name: &Name, salt: u64) -> VertexId {
    // No path begins with a zero byte.
    VertexId::of_bytes(
        kind.type_name(),
        &[&[0], &directory.0, &salt.to_be_bytes(), name.as_bytes()],
    )
    .at_place(place::within(directory.place(), hash_of(name)))
}

/// The hash of a name: it orders the entries of a directory and decides which partition of it has them (GIGA+).
pub fn hash_of(name: &Name) -> u64 {
    place::hash(name.as_bytes())
}

/// What stands for the value of a row, or that there is none (0), where servers compare what they have read.
pub fn digest(value: Option<&[u8]>) -> u64 {
    let Some(value) = value else { return 0 };
    let hash = blake3::hash(value);
    let first = hash.as_bytes().first_chunk::<8>();
    first.map_or(1, |b| u64::from_be_bytes(*b) | 1)
}
