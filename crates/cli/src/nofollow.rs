//! Files opened name by name from the root, without following links: what changes meanwhile on the way does not lead elsewhere.

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// A folder, opened only to get to what is in it.
pub(crate) const FOLDER: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// A folder, opened to be listed.
const LISTED: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// A file, opened to be read: a pipe that nobody writes to is not waited for.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// What was opened, what it is, and what the folders above it are, the root first.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) file: File,
    pub(crate) stat: Stat,
    pub(crate) above: Vec<Stat>,
}

/// Opens a regular file by an absolute path without links, `.` and `..`.
pub(crate) fn file(path: &Path) -> io::Result<Opened> {
    at(path, |folder, name| file_at(folder, name))
}

/// Opens a folder, to be listed, by an absolute path without links, `.` and `..`.
pub(crate) fn folder(path: &Path) -> io::Result<Opened> {
    at(path, |folder, name| folder_at(folder, name))
}

fn at(
    path: &Path,
    open: impl Fn(&OwnedFd, &OsStr) -> io::Result<(File, Stat)>,
) -> io::Result<Opened> {
    let mut names: Vec<&OsStr> = path.iter().skip(1).collect();
    let last = names.pop().unwrap_or(OsStr::new("."));
    let mut folder = rustix::fs::open("/", FOLDER, Mode::empty())?;
    let mut above = vec![rustix::fs::fstat(&folder)?];
    for name in names {
        folder = rustix::fs::openat(&folder, name, FOLDER, Mode::empty())?;
        above.push(rustix::fs::fstat(&folder)?);
    }
    let (file, stat) = open(&folder, last)?;
    Ok(Opened { file, stat, above })
}

/// Opens a regular file in a folder.
pub(crate) fn file_at(folder: impl AsFd, name: &OsStr) -> io::Result<(File, Stat)> {
    let is_file = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    let no_file = || io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file");
    // Opening a device may do something: what is no file is not opened.
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

/// Opens a folder in a folder, to be listed.
pub(crate) fn folder_at(folder: impl AsFd, name: &OsStr) -> io::Result<(File, Stat)> {
    let file = rustix::fs::openat(&folder, name, LISTED, Mode::empty())?;
    let stat = rustix::fs::fstat(&file)?;
    Ok((File::from(file), stat))
}
