//! Home shards of files: which vnode has a file's vertex, and which partition its directory entry.
//!
//! An entry of a directory lies in a partition chosen by the hash of its name (GIGA+; Patil & Gibson, FAST 2011), so
//! the name alone is enough to find it. The ids of files are computed so that a vertex has its home where its entry is
//! once the directory has split completely: each split moves entries towards their vertices, as DIDO moves edges
//! (GraphMeta, section 5.2).
//!
//! A home is 16 bits. Among `2^k` vnodes, the lowest `k` bits are the number of the vnode, for each `k`: homes are
//! added, and the lowest bits of a sum depend only on the lowest bits of its terms.

/// The vertex type of all files except directories.
pub(crate) const FILE_TYPE: &str = "File";
/// The vertex type of directories.
pub(crate) const DIRECTORY_TYPE: &str = "Directory";

/// Hashes a file's name: the first eight bytes of its BLAKE3.
pub fn name_hash(name: &[u8]) -> u64 {
    let hash = blake3::hash(name);
    let first = hash.as_bytes().first_chunk::<8>();
    first.map_or(0, |b| u64::from_be_bytes(*b))
}

/// Returns the home of an entry with this name hash in a directory with this home: the hash's first bits, the first one
/// lowest, are added to it. That is the partition of the entry once the directory has split completely.
pub fn in_directory(home: u16, hash: u64) -> u16 {
    home.wrapping_add(hash.reverse_bits() as u16)
}

/// Returns the home of the file at a path; the root's is 0.
pub fn of_path(path: &[u8]) -> u16 {
    path.split(|b| *b == b'/')
        .filter(|name| !name.is_empty())
        .fold(0, |home, name| in_directory(home, name_hash(name)))
}

/// Whether vertices of this type are named by file paths.
pub(crate) fn names_files(type_name: &str) -> bool {
    [FILE_TYPE, DIRECTORY_TYPE]
        .iter()
        .any(|name| type_name.eq_ignore_ascii_case(name))
}
