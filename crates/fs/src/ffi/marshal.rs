//! Conversions between C and Rust types.

use crate::{Failure, Flags, Fs, FsStats, Result, Stat};
use esker_model::namespace::NamePath;
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

/// The type behind C's pointer to an open target.
pub(super) type Target = Arc<Fs>;

/// Dereferences a pointer that this library gave out; null is an error that names `what`.
pub(super) unsafe fn reference<'a, T>(pointer: *const T, what: &str) -> Result<&'a T> {
    // SAFETY: the caller guarantees that the pointer is null or refers to a value that outlives the call.
    unsafe { pointer.as_ref() }.ok_or_else(|| Failure::new(libc::EINVAL, what))
}

/// Returns the bytes of a C string.
pub(super) unsafe fn bytes<'a>(text: *const c_char, what: &str) -> Result<&'a [u8]> {
    if text.is_null() {
        return Err(Failure::new(libc::EFAULT, what));
    }
    // SAFETY: the pointer is not null, and the caller guarantees a terminating zero byte.
    Ok(unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// Parses a path of the namespace.
pub(super) unsafe fn path(text: *const c_char) -> Result<NamePath> {
    // SAFETY: guaranteed by the caller of this function.
    let bytes = unsafe { bytes(text, "a path") }?;
    if bytes.is_empty() {
        return Err(Failure::new(libc::ENOENT, "an empty path"));
    }
    Ok(NamePath::parse(bytes)?)
}

/// Returns a buffer that the call fills.
pub(super) unsafe fn output_buffer<'a>(buffer: *mut c_void, size: usize) -> Result<&'a mut [u8]> {
    if size == 0 {
        return Ok(&mut []);
    }
    if buffer.is_null() {
        return Err(Failure::new(libc::EFAULT, "a buffer"));
    }
    let size = size.min(isize::MAX as usize);
    // SAFETY: the pointer is not null, and the caller guarantees exclusive access. The old content is not read.
    Ok(unsafe { std::slice::from_raw_parts_mut(buffer.cast(), size) })
}

/// Returns a buffer that the call reads.
pub(super) unsafe fn data<'a>(buffer: *const c_void, size: usize) -> Result<&'a [u8]> {
    if size == 0 {
        return Ok(&[]);
    }
    if buffer.is_null() {
        return Err(Failure::new(libc::EFAULT, "a buffer"));
    }
    let size = size.min(isize::MAX as usize);
    // SAFETY: the pointer is not null, and the caller guarantees its size.
    Ok(unsafe { std::slice::from_raw_parts(buffer.cast(), size) })
}

/// Copies a value into a buffer; an error if it is too small. Returns the length of the value; an empty buffer only
/// asks for it.
pub(super) fn fill(value: &[u8], room: &mut [u8], about: &NamePath) -> Result<isize> {
    if !room.is_empty() {
        let Some(place) = room.get_mut(..value.len()) else {
            return Err(Failure::new(libc::ERANGE, about));
        };
        place.copy_from_slice(value);
    }
    Ok(value.len() as isize)
}

/// Converts the flags of `open`.
pub(super) fn flags(flags: c_int) -> Flags {
    let access = flags & libc::O_ACCMODE;
    let has = |flag| flags & flag != 0;
    Flags {
        read: access == libc::O_RDONLY || access == libc::O_RDWR,
        write: access == libc::O_WRONLY || access == libc::O_RDWR,
        create: has(libc::O_CREAT),
        exclusive: has(libc::O_EXCL),
        truncate: has(libc::O_TRUNC),
        append: has(libc::O_APPEND),
        no_follow: has(libc::O_NOFOLLOW),
    }
}

/// Parses a list of folders separated by commas.
pub(super) fn folders(text: &[u8]) -> Vec<PathBuf> {
    let parts = text.split(|b| *b == b',').filter(|p| !p.is_empty());
    parts.map(|p| PathBuf::from(OsStr::from_bytes(p))).collect()
}

/// Converts attributes to C's `struct stat`.
pub fn stat(of: &Stat) -> libc::stat {
    // SAFETY: the structure has numbers only, for which zero is valid.
    let mut to: libc::stat = unsafe { std::mem::zeroed() };
    to.st_ino = of.number;
    to.st_mode = of.mode;
    to.st_nlink = of.links.into();
    to.st_uid = of.uid;
    to.st_gid = of.gid;
    to.st_rdev = of.rdev;
    to.st_size = of.size.cast_signed();
    to.st_blocks = of.blocks.cast_signed();
    to.st_blksize = of.block_bytes.into();
    (to.st_atime, to.st_atime_nsec) = time(of.atime);
    (to.st_mtime, to.st_mtime_nsec) = time(of.mtime);
    (to.st_ctime, to.st_ctime_nsec) = time(of.ctime);
    to
}

fn time(nanos: i64) -> (i64, i64) {
    (
        nanos.div_euclid(1_000_000_000),
        nanos.rem_euclid(1_000_000_000),
    )
}

/// Converts file system statistics to C's `struct statvfs`.
pub fn statvfs(of: &FsStats) -> libc::statvfs {
    // SAFETY: the structure has numbers only, for which zero is valid.
    let mut to: libc::statvfs = unsafe { std::mem::zeroed() };
    to.f_bsize = of.block_bytes.into();
    to.f_frsize = of.block_bytes.into();
    to.f_blocks = of.blocks;
    to.f_bfree = of.free;
    to.f_bavail = of.available;
    // The number of files is limited only by the space of the store.
    to.f_files = of.files + (1 << 40);
    to.f_ffree = 1 << 40;
    to.f_favail = 1 << 40;
    to.f_namemax = 255;
    to
}
