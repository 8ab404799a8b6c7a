//! Open files of a database, for every role of this process.

use crate::database::Database;
use esker_model::Result;
use esker_model::graph::Flow;
use esker_model::namespace::{
    AppliedChange, Cookie, Entry, Errno, Inode, NamePath, NewFile, Open, OpenFile, SetAttributes,
    XattrMode,
};
use esker_model::object::Principal;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum of files that a [`Database`] has open at a time, unless [`crate::OpenOptions::open_files`] sets another.
pub const OPEN_FILES_MAX: usize = 65_536;

/// Number of open files.
#[derive(Debug, Default)]
pub(crate) struct OpenFiles(AtomicUsize);

impl OpenFiles {
    fn take(&self, most: usize, path: &NamePath) -> Result<()> {
        let more = |n: usize| (n < most).then_some(n + 1);
        match self
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, more)
        {
            Ok(_) => Ok(()),
            Err(n) => Err(Errno::TooManyOpen
                .at(format!("{path}: {n} files are open"))
                .into()),
        }
    }
}

/// An open file. The handle refers to the same file when the file is renamed and after its last name is removed.
/// Dropping the handle closes the file.
///
/// The database keeps no state for an open file, so a handle survives the end of the owner process and a restart of the
/// server. Writes to a file without a name are kept in the same way as the last state of any removed file.
#[derive(Debug)]
pub struct File {
    database: Database,
    open: OpenFile,
}

impl Database {
    /// Opens a file or directory after checking the permissions of the principal; later calls check only what POSIX
    /// requires. With `how.create`, a missing file is created from `make`.
    pub fn open_file(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        how: Open,
        make: Option<&NewFile>,
    ) -> Result<File> {
        Ok(self.open_and_stat(principal, path, how, make)?.0)
    }

    /// Opens a file and returns its attributes as well.
    pub fn open_and_stat(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        how: Open,
        make: Option<&NewFile>,
    ) -> Result<(File, Inode)> {
        let (open_files, most) = self.open_files();
        open_files.take(most, path)?;
        match OpenFile::open(self, principal, path, how, make) {
            Ok((open, inode)) => {
                let database = self.clone();
                Ok((File { database, open }, inode))
            }
            Err(e) => {
                open_files.0.fetch_sub(1, Ordering::AcqRel);
                Err(e)
            }
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        self.database
            .open_files()
            .0
            .0
            .fetch_sub(1, Ordering::AcqRel);
    }
}

impl File {
    /// The path that addresses this open file in calls of [`esker_model::namespace::Namespace`]; valid while the file
    /// is open.
    pub fn path(&self) -> &NamePath {
        self.open.path()
    }

    /// Attributes of the file (`fstat`). `links` is 0 for a file without a name.
    pub fn stat(&self) -> Result<Inode> {
        self.open.stat(&self.database)
    }

    /// Reads up to `length` bytes from an offset (`pread`). Fails with `EOPNOTSUPP` for content in another file system;
    /// [`Inode::content`] of [`Self::stat`] says where that content is.
    pub fn read_at(&self, offset: u64, length: usize) -> Result<Vec<u8>> {
        self.open.read(&self.database, offset, length)
    }

    /// Writes bytes at an offset (`pwrite`). A file's content in the database has at most 4,096 bytes (`EFBIG`).
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<AppliedChange> {
        self.open.write(&self.database, Some(offset), data)
    }

    /// Appends bytes at the current end of the file (`O_APPEND`).
    pub fn append(&self, data: &[u8]) -> Result<AppliedChange> {
        self.open.write(&self.database, None, data)
    }

    /// Truncates the content, or extends it with zero bytes (`ftruncate`).
    pub fn truncate(&self, size: u64) -> Result<AppliedChange> {
        self.open.truncate(&self.database, size)
    }

    /// Changes attributes (`fchmod`, `fchown`, `futimens`) or the location of the content.
    pub fn set(&self, set: SetAttributes) -> Result<AppliedChange> {
        self.open.set(&self.database, set)
    }

    /// Sets an extended attribute, or removes it (`fsetxattr`, `fremovexattr`).
    pub fn set_xattr(
        &self,
        name: &[u8],
        value: Option<&[u8]>,
        mode: XattrMode,
    ) -> Result<AppliedChange> {
        self.open.set_xattr(&self.database, name, value, mode)
    }

    /// Lists the entries of an open directory after a cookie, as [`esker_model::namespace::Namespace::list`] does
    /// (`readdir`).
    pub fn list(
        &self,
        after: Option<Cookie>,
        sink: &mut dyn FnMut(Cookie, Entry) -> Flow,
    ) -> Result<()> {
        self.open.list(&self.database, after, sink)
    }

    /// Persists all earlier writes (`fsync`), of all files, because they share one log.
    pub fn sync(&self) -> Result<()> {
        self.database.persist()
    }
}
