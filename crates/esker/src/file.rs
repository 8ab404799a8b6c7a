//! Open files of a database, whoever has it.

use crate::database::Database;
use esker_model::Result;
use esker_model::graph::Flow;
use esker_model::namespace::{
    Cookie, Done, Entry, Errno, Inode, Make, NamePath, Open, OpenFile, SetAttributes, XattrMode,
};
use esker_model::object::Asker;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Files that a [`Database`] has open at a time, unless [`crate::OpenOptions::open_files`] says otherwise.
pub const OPEN_FILES_MAX: usize = 65_536;

/// How many files are open.
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

/// An open file. It stays that file, whatever it is called meanwhile, and after its last name has gone. Dropped, it is closed.
///
/// Nothing of it is kept where the database is: it goes on after the process that owned the database has ended, or the server was
/// started again. What of a file without a name is written is kept as any removed file's last state is.
#[derive(Debug)]
pub struct File {
    database: Database,
    open: OpenFile,
}

impl Database {
    /// Opens what is at a path, if the asker may: later they are not asked again, except as POSIX does. With `how.create`, a
    /// file is made of `make` if there is nothing.
    pub fn open_file(
        &self,
        asker: Option<&Asker>,
        path: &NamePath,
        how: Open,
        make: Option<&Make>,
    ) -> Result<File> {
        Ok(self.open_and_stat(asker, path, how, make)?.0)
    }

    /// The same, with what it is then.
    pub fn open_and_stat(
        &self,
        asker: Option<&Asker>,
        path: &NamePath,
        how: Open,
        make: Option<&Make>,
    ) -> Result<(File, Inode)> {
        let (open_files, most) = self.open_files();
        open_files.take(most, path)?;
        match OpenFile::open(self, asker, path, how, make) {
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
    /// What stands for it in the place of a path, in calls of [`esker_model::namespace::Namespace`]: as long as it is open.
    pub fn path(&self) -> &NamePath {
        self.open.path()
    }

    /// Its attributes (`fstat`). Of a file without a name, `links` is 0.
    pub fn stat(&self) -> Result<Inode> {
        self.open.stat(&self.database)
    }

    /// So much of its content from an offset on, as far as there is any (`pread`). Where that lies in another file system, it is to be
    /// read there: `EOPNOTSUPP`, and [`Inode::content`] of [`Self::stat`] says where.
    pub fn read_at(&self, offset: u64, length: usize) -> Result<Vec<u8>> {
        self.open.read(&self.database, offset, length)
    }

    /// Writes bytes at an offset (`pwrite`); 4,096 bytes of content are kept here at most (`EFBIG`).
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<Done> {
        self.open.write(&self.database, Some(offset), data)
    }

    /// Writes bytes behind the last one there is then (`O_APPEND`).
    pub fn append(&self, data: &[u8]) -> Result<Done> {
        self.open.write(&self.database, None, data)
    }

    /// Cuts its content, or fills it with zero bytes (`ftruncate`).
    pub fn truncate(&self, size: u64) -> Result<Done> {
        self.open.truncate(&self.database, size)
    }

    /// Changes attributes (`fchmod`, `fchown`, `futimens`), or says where its content lies from now on.
    pub fn set(&self, set: SetAttributes) -> Result<Done> {
        self.open.set(&self.database, set)
    }

    /// Sets an extended attribute, or removes it (`fsetxattr`, `fremovexattr`).
    pub fn set_xattr(&self, name: &[u8], value: Option<&[u8]>, mode: XattrMode) -> Result<Done> {
        self.open.set_xattr(&self.database, name, value, mode)
    }

    /// Entries of an open directory behind a cookie, as [`esker_model::namespace::Namespace::list`] tells them (`readdir`).
    pub fn list(
        &self,
        after: Option<Cookie>,
        sink: &mut dyn FnMut(Cookie, Entry) -> Flow,
    ) -> Result<()> {
        self.open.list(&self.database, after, sink)
    }

    /// Everything that was written before survives a power failure (`fsync`): of all files, for they are one log.
    pub fn sync(&self) -> Result<()> {
        self.database.persist()
    }
}
