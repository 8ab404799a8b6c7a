//! Paths of the entries of an open directory, for calls about extended attributes, which take no open directory before Linux 6.13.
//!
//! Each thread gets a working directory of its own and enters the open directory; a name is a path then. Where that is refused, a path
//! through `/proc/self/fd` leads to the same directory, in three times the time. Neither can be redirected by renaming directories.

use rustix::fs::{self, Mode, OFlags};
use rustix::process::fchdir;
use rustix::thread::UnshareFlags;
use std::borrow::Cow;
use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};

/// The working directory of a thread that enters other directories.
pub(super) struct ThreadDirectory {
    /// The directory to which the thread returns; `None` if it cannot enter others.
    home: Option<OwnedFd>,
}

impl ThreadDirectory {
    /// Gives the calling thread a working directory of its own.
    pub(super) fn own() -> Self {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let home = fs::open(".", flags, Mode::empty()).ok();
        let home = home.filter(|home| unshare() && fchdir(home).is_ok());
        Self { home }
    }

    /// Enters a directory until the result is dropped. The caller uses no relative paths meanwhile but those of its entries.
    pub(super) fn enter<'t>(&'t self, directory: BorrowedFd<'t>) -> EnteredDirectory<'t> {
        let home = self.home.as_ref();
        EnteredDirectory {
            home: home.filter(|_| fchdir(directory).is_ok()),
            directory,
        }
    }
}

#[expect(
    deprecated,
    reason = "the function that replaces it is `unsafe` because of flags other than this one"
)]
fn unshare() -> bool {
    rustix::thread::unshare(UnshareFlags::FS).is_ok()
}

/// A directory that a thread has entered.
pub(super) struct EnteredDirectory<'t> {
    home: Option<&'t OwnedFd>,
    directory: BorrowedFd<'t>,
}

impl EnteredDirectory<'_> {
    /// Returns a path of an entry, for calls of this thread.
    pub(super) fn path<'n>(&self, name: &'n CStr) -> Cow<'n, CStr> {
        if self.home.is_some() {
            return Cow::Borrowed(name);
        }
        let mut path = format!("/proc/self/fd/{}/", self.directory.as_raw_fd()).into_bytes();
        path.extend_from_slice(name.to_bytes());
        // Neither part has a zero byte.
        CString::new(path).map_or(Cow::Borrowed(name), Cow::Owned)
    }
}

impl Drop for EnteredDirectory<'_> {
    fn drop(&mut self) {
        if let Some(home) = self.home {
            // It was entered before; there is no other way back.
            let _ = fchdir(home);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd as _;

    #[test]
    fn both_paths_lead_to_the_entry() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("f"), "found").unwrap();
        let directory = std::fs::File::open(folder.path()).unwrap();
        // The directory has another path by now.
        let moved = folder.path().with_extension("moved");
        std::fs::rename(folder.path(), &moved).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let before = std::env::current_dir().unwrap();
                for thread in [ThreadDirectory::own(), ThreadDirectory { home: None }] {
                    let entered = thread.enter(directory.as_fd());
                    let path = entered.path(c"f").into_owned();
                    assert_eq!(std::fs::read(path.to_str().unwrap()).unwrap(), b"found");
                    drop(entered);
                    assert_eq!(std::env::current_dir().unwrap(), before);
                }
            });
        });
        std::fs::remove_dir_all(&moved).unwrap();
    }
}
