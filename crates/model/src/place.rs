//! Places: where the vertices of files have their homes, and their entries go.
//!
//! An entry of a directory lies in a partition chosen by the hash of its name (GIGA+; Patil & Gibson, FAST 2011): all that is
//! needed to find it is the name. The ids of files are made so that their vertices are where their entries are once the
//! directory has split: each split moves entries towards their vertices, as DIDO moves edges (GraphMeta, section 5.2).
//!
//! A place is 16 bits. Of `2^k` vnodes it means the one that its lowest `k` bits number, for each `k`, for sums of places hold
//! for the lowest bits alone.

/// The vertex type of files, and of all else but directories.
pub(crate) const FILE_TYPE: &str = "File";
/// The vertex type of directories.
pub(crate) const DIRECTORY_TYPE: &str = "Directory";

/// The hash of a name in a directory: the first eight bytes of its BLAKE3.
pub(crate) fn hash(name: &[u8]) -> u64 {
    let mut out = [0; 8];
    blake3::Hasher::new()
        .update(name)
        .finalize_xof()
        .fill(&mut out);
    u64::from_be_bytes(out)
}

/// The place of what has a name of that hash in a directory at `place`: as many places on as the hash's first bits say, the
/// first one lowest. That is the partition that the entry is in once all has split.
pub fn within(place: u16, hash: u64) -> u16 {
    place.wrapping_add(hash.reverse_bits() as u16)
}

/// The place of what is at a path; that of the root is 0.
pub fn of_path(path: &[u8]) -> u16 {
    path.split(|b| *b == b'/')
        .filter(|name| !name.is_empty())
        .fold(0, |place, name| within(place, hash(name)))
}

/// Whether vertices of that type are named by paths.
pub(crate) fn names_files(type_name: &str) -> bool {
    [FILE_TYPE, DIRECTORY_TYPE]
        .iter()
        .any(|name| type_name.eq_ignore_ascii_case(name))
}
