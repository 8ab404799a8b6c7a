//! Keys of the table `names`.
//!
//! ```text
//!  [01][directory 16][hash of name 8][n]   a dentry: name, id, inode attributes, small content (TableFS's schema)
//!  [02][id 16]                             a location record: where an inode is whose id does not tell, or that it was unlinked
//!  [03][id 16][!version 8]                 a superseded state of an inode: its location and its attributes
//!  [04][id of a path 16]                   a path-named directory: the directory whose files have ids computed from that path
//!  [05][directory 16][directory 16]        a directory in a directory, with its name
//!  [06][directory 16][hash of name 8]      in a cluster: an entry of that hash was removed, so an id computed from its path may be taken
//! ```
//!
//! `n` counts names of one directory with one hash, from 0 without gaps.

#![deny(clippy::indexing_slicing)]

use crate::codec::{DecodeError, Reader};
use crate::id::VertexId;
use crate::namespace::root;
use crate::version::Version;

const DENTRY: u8 = 1;
const LOCATION: u8 = 2;
const INODE_HISTORY: u8 = 3;
const PATH_NAMED: u8 = 4;
const CHILD: u8 = 5;
const REMOVED_ENTRY: u8 = 6;

/// Size of the marker and the id with which a key begins.
const HEAD_BYTES: usize = 1 + 16;
/// Size of a dentry's key, in bytes.
pub const DENTRY_KEY_BYTES: usize = 1 + 16 + 8 + 1;

/// Encodes a dentry's key.
pub fn dentry_key(directory: VertexId, hash: u64, n: u8) -> [u8; DENTRY_KEY_BYTES] {
    let mut key = [DENTRY; DENTRY_KEY_BYTES];
    let (head, tail) = key.split_at_mut(HEAD_BYTES);
    head.copy_from_slice(&dentries_prefix(directory));
    let (middle, last) = tail.split_at_mut(8);
    middle.copy_from_slice(&hash.to_be_bytes());
    last.copy_from_slice(&[n]);
    key
}

/// Returns the prefix of all dentries of a directory.
pub fn dentries_prefix(directory: VertexId) -> [u8; 17] {
    marked(DENTRY, directory)
}

/// Decodes the directory, the name's hash and the number from a dentry's key.
pub fn decode_dentry_key(key: &[u8]) -> Result<(VertexId, u64, u8), DecodeError> {
    let mut r = Reader::new(key);
    if r.u8("a dentry's marker")? != DENTRY {
        return Err(r.error("a dentry's marker (01)"));
    }
    let directory = VertexId(r.array("a directory's id")?);
    let (hash, n) = (r.u64("a hash")?, r.u8("a number")?);
    r.finish()?;
    Ok((directory, hash, n))
}

/// Encodes the key of a location record.
pub fn location_key(id: VertexId) -> [u8; 17] {
    marked(LOCATION, id)
}

/// Encodes the key of a superseded state of an inode.
pub fn inode_history_key(id: VertexId, version: Version) -> [u8; 25] {
    let mut key = [0; 25];
    let (head, tail) = key.split_at_mut(HEAD_BYTES);
    head.copy_from_slice(&inode_history_prefix(id));
    tail.copy_from_slice(&(!version.0).to_be_bytes());
    key
}

/// Returns the prefix of all superseded states of an inode, newest first.
pub fn inode_history_prefix(id: VertexId) -> [u8; 17] {
    marked(INODE_HISTORY, id)
}

/// Decodes the inode's id from the output of [`inode_history_prefix`]; `None` for other bytes.
pub fn decode_inode_history_prefix(prefix: &[u8]) -> Option<VertexId> {
    marked_id(INODE_HISTORY, prefix)
}

/// Encodes the key of the row that says which directory names its files after a path, by the id of a directory at that
/// path.
pub fn path_named_key(path: VertexId) -> [u8; 17] {
    marked(PATH_NAMED, path)
}

/// Encodes the key of a directory in a directory.
pub fn child_key(parent: VertexId, child: VertexId) -> [u8; 33] {
    let mut key = [0; 33];
    let (head, tail) = key.split_at_mut(HEAD_BYTES);
    head.copy_from_slice(&children_prefix(parent));
    tail.copy_from_slice(&child.0);
    key
}

/// Returns the prefix of all directories in a directory.
pub fn children_prefix(parent: VertexId) -> [u8; 17] {
    marked(CHILD, parent)
}

/// Decodes the child directory from a key made by [`child_key`].
pub fn decode_child_key(key: &[u8]) -> Result<VertexId, DecodeError> {
    let mut r = Reader::new(key);
    r.take(HEAD_BYTES, "a directory's id")?;
    let child = VertexId(r.array("a directory's id")?);
    r.finish()?;
    Ok(child)
}

/// Encodes the key that says that an entry with this hash was removed from a directory. The row is stored with the
/// entries of that hash.
pub fn removed_entry_key(directory: VertexId, hash: u64) -> [u8; 25] {
    let mut key = [0; 25];
    let (head, tail) = key.split_at_mut(HEAD_BYTES);
    head.copy_from_slice(&removed_entries_prefix(directory));
    tail.copy_from_slice(&hash.to_be_bytes());
    key
}

/// Returns the prefix of all removed entries of a directory.
pub fn removed_entries_prefix(directory: VertexId) -> [u8; 17] {
    marked(REMOVED_ENTRY, directory)
}

/// Returns the vertex whose location record has the key; `None` for other keys.
pub fn located_vertex(key: &[u8]) -> Option<VertexId> {
    marked_id(LOCATION, key)
}

/// Prefix of all keys of dentries.
pub const DENTRY_PREFIX: [u8; 1] = [DENTRY];

/// Prefix of all keys of location records.
pub const LOCATION_PREFIX: [u8; 1] = [LOCATION];

/// Prefix of all keys of superseded states of inodes.
pub const INODE_HISTORY_PREFIX: [u8; 1] = [INODE_HISTORY];

/// Whether the key is that of a dentry.
pub fn is_dentry(key: &[u8]) -> bool {
    key.first() == Some(&DENTRY)
}

/// Whether the key is that of a path-named directory.
pub fn is_path_named_key(key: &[u8]) -> bool {
    key.first() == Some(&PATH_NAMED)
}

/// A decoded key of the table `names`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamesKey {
    /// Key of a dentry: directory, hash of the name, and number.
    Dentry(VertexId, u64, u8),
    /// Key of a location record.
    Location(VertexId),
    /// Key of a superseded state of an inode.
    InodeHistory(VertexId, Version),
    /// Key of a path-named directory.
    PathNamed(VertexId),
    /// Key of a directory in a directory: parent and child.
    Child(VertexId, VertexId),
    /// Key of a removed entry: directory and hash of the name.
    RemovedEntry(VertexId, u64),
}

impl NamesKey {
    /// Returns the id after the marker: that of a directory for its entries, else that of the inode or path.
    pub const fn id(&self) -> VertexId {
        match *self {
            Self::Dentry(id, ..)
            | Self::Location(id)
            | Self::InodeHistory(id, _)
            | Self::PathNamed(id)
            | Self::Child(id, _)
            | Self::RemovedEntry(id, _) => id,
        }
    }

    /// Decodes any key of `names`.
    pub fn decode(key: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(key);
        let marker = r.u8("a row's marker")?;
        let id = VertexId(r.array("an id")?);
        let key = match marker {
            DENTRY => Self::Dentry(id, r.u64("a hash")?, r.u8("a number")?),
            LOCATION => Self::Location(id),
            INODE_HISTORY => Self::InodeHistory(id, Version(!r.u64("an inverted version")?)),
            PATH_NAMED => Self::PathNamed(id),
            CHILD => Self::Child(id, VertexId(r.array("a directory's id")?)),
            REMOVED_ENTRY => Self::RemovedEntry(id, r.u64("a hash")?),
            _ => return Err(r.error("a row's marker (01 to 06)")),
        };
        r.finish()?;
        Ok(key)
    }
}

/// Returns the part of a key that is the same for all entries with one hash: the number of a dentry may change.
pub fn without_number(key: &[u8]) -> &[u8] {
    key.get(..DENTRY_KEY_BYTES - 1).unwrap_or(key)
}

/// Rule that decides which server of a cluster stores a row of the namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowHome {
    /// With the entries of a directory that have this hash.
    Entry(VertexId, u64),
    /// At the home of this vertex.
    Home(VertexId),
    /// On the server that wrote it.
    Anywhere,
}

/// Returns the rule for the row with this key.
pub fn row_home(key: &[u8]) -> Result<RowHome, DecodeError> {
    let mut r = Reader::new(key);
    let marker = r.u8("a row's marker")?;
    let id = VertexId(r.array("an id")?);
    Ok(match marker {
        DENTRY if id == VertexId::default() => RowHome::Home(root()),
        DENTRY | REMOVED_ENTRY => RowHome::Entry(id, r.u64("a hash")?),
        LOCATION | PATH_NAMED | CHILD => RowHome::Home(id),
        INODE_HISTORY => RowHome::Anywhere,
        _ => return Err(r.error("a row's marker (01 to 06)")),
    })
}

fn marked(marker: u8, id: VertexId) -> [u8; 17] {
    let mut key = [marker; 17];
    if let Some(tail) = key.last_chunk_mut() {
        *tail = id.0;
    }
    key
}

/// Returns the id of a key that has nothing but this marker and an id.
fn marked_id(marker: u8, key: &[u8]) -> Option<VertexId> {
    let (first, id) = key.split_first()?;
    (*first == marker).then_some(())?;
    id.try_into().ok().map(VertexId)
}
