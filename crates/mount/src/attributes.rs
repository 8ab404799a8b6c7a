//! Conversions between the namespace and the FUSE library: attributes, times, errors.

use esker_model::namespace::{Content, Inode, Kind};
use esker_model::version::Version;
use esker_model::{Error, ErrorKind};
use fuser::{Errno, FileAttr, FileType, INodeNo};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Block size reported to the kernel, in bytes.
pub(crate) const BLOCK_BYTES: u32 = 4_096;

/// Total size and free space of the data folders.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FsSpace {
    pub(crate) blocks: u64,
    pub(crate) free: u64,
    pub(crate) available: u64,
    pub(crate) files: u64,
    pub(crate) block_bytes: u32,
}

/// Converts a file's attributes, with its inode number.
pub(crate) fn of(number: u64, inode: &Inode) -> FileAttr {
    let mut blocks = inode.blocks;
    // An object without blocks is one hole.
    if blocks == 0 && inode.kind() == Kind::File && !matches!(inode.content, Content::Object(_)) {
        blocks = inode.size.div_ceil(512);
    }
    FileAttr {
        ino: INodeNo(number),
        size: size_of(inode),
        blocks,
        atime: time(inode.atime),
        mtime: time(inode.mtime),
        ctime: time(inode.ctime),
        crtime: time(inode.btime),
        kind: kind(inode.kind()),
        // The kernel checks permissions by this mode, and knows no lists of NFSv4.
        perm: (inode.judged_mode() & 0o7777) as u16,
        nlink: inode.links,
        uid: inode.uid,
        gid: inode.gid,
        rdev: inode.rdev as u32,
        blksize: BLOCK_BYTES,
        flags: 0,
    }
}

fn size_of(inode: &Inode) -> u64 {
    if inode.is_directory() {
        u64::from(BLOCK_BYTES)
    } else {
        inode.size
    }
}

/// Returns the answer for a name that does not exist, which the kernel may cache.
pub(crate) fn nothing() -> FileAttr {
    FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: BLOCK_BYTES,
        flags: 0,
    }
}

/// Converts the kind of a file.
pub(crate) fn kind(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::CharDevice => FileType::CharDevice,
        Kind::BlockDevice => FileType::BlockDevice,
    }
}

/// Converts nanoseconds since 1970 to the library's time.
pub(crate) fn time(nanos: i64) -> SystemTime {
    let length = Duration::from_nanos(nanos.unsigned_abs());
    if nanos < 0 {
        UNIX_EPOCH - length
    } else {
        UNIX_EPOCH + length
    }
}

/// Converts a time to nanoseconds since 1970; `None` before 1677 and after 2262.
pub(crate) fn nanos(time: SystemTime) -> Option<i64> {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos()).ok(),
        Err(before) => i64::try_from(before.duration().as_nanos())
            .ok()
            .map(|nanos| -nanos),
    }
}

/// Converts a version to nanoseconds since 1970, as the namespace does for the times of a file created at that version.
pub(crate) fn of_version(version: Version) -> i64 {
    let millis = version.millis().cast_signed();
    let logical = i64::from((version.0 & 0xFFFF) as u16);
    millis.saturating_mul(1_000_000).saturating_add(logical)
}

/// Converts an error to the number that a program gets.
pub(crate) fn errno(error: &Error) -> Errno {
    if let Error::File(e) = error {
        return Errno::from_i32(e.errno.number());
    }
    if let Error::Io { source, .. } = error {
        return io_errno(source);
    }
    match error.kind() {
        ErrorKind::Missing => Errno::ENOENT,
        ErrorKind::Invalid => Errno::EINVAL,
        ErrorKind::Interrupted => Errno::EINTR,
        ErrorKind::Unavailable | ErrorKind::Storage | ErrorKind::Corrupt => Errno::EIO,
    }
}

/// Converts an I/O error of a data folder.
pub(crate) fn io_errno(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_i32)
}

/// Converts an error of the `rustix` library.
pub(crate) fn os(error: rustix::io::Errno) -> Errno {
    Errno::from_i32(error.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_model::namespace::Errno as FileErrno;

    #[test]
    fn times_come_back() {
        for n in [0, 1, -1, 1_700_000_000_123_456_789, -5_000_000_001] {
            assert_eq!(nanos(time(n)), Some(n));
        }
        let too_late = UNIX_EPOCH + Duration::from_secs(1 << 34);
        assert_eq!(nanos(too_late), None);
    }

    #[test]
    fn errors_keep_their_numbers() {
        let file: Error = FileErrno::NotEmpty.at("/a").into();
        assert_eq!(errno(&file).code(), 39);
        assert_eq!(errno(&Error::Unavailable(String::new())).code(), 5);
        let full = Error::Io {
            context: String::new(),
            source: std::io::Error::from_raw_os_error(28),
        };
        assert_eq!(errno(&full).code(), 28);
    }
}
