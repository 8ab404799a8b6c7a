//! Opening files component by component from the root without following links, so that concurrent renames cannot redirect the path.

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// Flags for a folder that is only opened to reach its entries.
pub(crate) const FOLDER: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// Flags for a folder that is listed.
const LISTED: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// Flags for a file that is read; opening a pipe without a writer does not block.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// An opened file with its metadata and that of the folders above it, the root first.
#[derive(Debug)]
pub(crate) struct OpenedFile {
    pub(crate) file: File,
    pub(crate) stat: Stat,
    pub(crate) above: Vec<Stat>,
}

/// Opens a regular file by an absolute path without links, `.` and `..`.
pub(crate) fn file(path: &Path) -> io::Result<OpenedFile> {
    at(path, |folder, name| file_at(folder, name))
}

/// Opens a folder for listing, by an absolute path without links, `.` and `..`.
pub(crate) fn folder(path: &Path) -> io::Result<OpenedFile> {
    at(path, |folder, name| folder_at(folder, name))
}

fn at(
    path: &Path,
    open: impl Fn(&OwnedFd, &OsStr) -> io::Result<(File, Stat)>,
) -> io::Result<OpenedFile> {
    let mut names: Vec<&OsStr> = path.iter().skip(1).collect();
    let last = names.pop().unwrap_or(OsStr::new("."));
    let mut folder = rustix::fs::open("/", FOLDER, Mode::empty())?;
    let mut above = vec![rustix::fs::fstat(&folder)?];
    for name in names {
        folder = rustix::fs::openat(&folder, name, FOLDER, Mode::empty())?;
        above.push(rustix::fs::fstat(&folder)?);
    }
    let (file, stat) = open(&folder, last)?;
    Ok(OpenedFile { file, stat, above })
}

/// Opens a regular file in an open folder.
pub(crate) fn file_at(folder: impl AsFd, name: &OsStr) -> io::Result<(File, Stat)> {
    let is_file = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    let no_file = || io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
    // Opening a device can have side effects, so the type is checked first.
    if !is_file(&rustix::fs::statat(
        &folder,
        name,
        AtFlags::SYMLINK_NOFOLLOW,
    )?) {
        return Err(no_file());
    }
    let file = rustix::fs::openat(&folder, name, READ, Mode::empty())?;
    let stat = rustix::fs::fstat(&file)?;
    if !is_file(&stat) {
        return Err(no_file());
    }
    Ok((File::from(file), stat))
}

/// Opens a subfolder of an open folder, for listing.
pub(crate) fn folder_at(folder: impl AsFd, name: &OsStr) -> io::Result<(File, Stat)> {
    let file = rustix::fs::openat(&folder, name, LISTED, Mode::empty())?;
    let stat = rustix::fs::fstat(&file)?;
    Ok((File::from(file), stat))
}
