//! Paths and open files of a target.

use crate::options::Options;
use crate::target::DatabaseTarget;
use crate::write_behind::{Ticket, WriteBehindQueue};
use crate::{Failure, Flags, FsStats, Result, Stat};
use esker::{Database, Durability, OpenOptions};
use esker_model::namespace::{
    Change, Content, Cookie, Kind, NamePath, NewFile, SetAttributes, XattrMode,
};
use esker_model::object::Principal;
use esker_mount::direct::{Direct, OpenFile};
use parking_lot::Mutex;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Number of directory entries read at a time.
const PAGE_ENTRIES: usize = 512;
const EINVAL: i32 = 22;
const NOW: i64 = 1_000_000_000;

/// An open target, used on behalf of the user that this process runs as. All methods may be called from any thread.
#[derive(Debug)]
pub struct Fs {
    queue: Option<WriteBehindQueue>,
    direct: Arc<Direct>,
    database: Database,
    principal: Principal,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Cookie behind which the listing continues.
    pub cookie: Cookie,
    /// Name of the entry.
    pub name: Vec<u8>,
    /// Attributes of the file.
    pub stat: Stat,
}

impl Fs {
    /// Opens a target: the folder of a database, or `esker://HOST:PORT`.
    pub fn open(target: &str, options: &Options) -> Result<Arc<Self>> {
        let durability = if options.durable {
            Durability::Sync
        } else {
            Durability::Relaxed
        };
        let database = OpenOptions::new().durability(durability).open(target)?;
        let mount = esker_mount::Options {
            data: options.data.clone(),
            inline_bytes: options.inline_bytes,
            ..esker_mount::Options::default()
        };
        let direct = Direct::open(Arc::new(DatabaseTarget(database.clone())), mount)?;
        let principal = process_principal();
        let queue = match options.write_behind {
            Some(behind) => Some(WriteBehindQueue::new(&direct, &principal, behind)?),
            None => None,
        };
        Ok(Arc::new(Self {
            queue,
            direct,
            database,
            principal,
        }))
    }

    /// Sends queued changes, so that the next read sees them.
    fn send_queued(&self) -> Result<()> {
        self.queue.as_ref().map_or(Ok(()), WriteBehindQueue::send)
    }

    fn change(&self, change: Change) -> Result<()> {
        match &self.queue {
            Some(queue) => queue.enqueue(change),
            None => self.direct.change(&self.principal, &change).map(|_| ()),
        }
    }

    /// Applies a change immediately, after the queued ones. Directories are created this way, because other processes
    /// create files in them next.
    fn change_now(&self, change: &Change) -> Result<()> {
        self.send_queued()?;
        self.direct.change(&self.principal, change).map(|_| ())
    }

    fn make_of(&self, mode: u32) -> NewFile {
        let number = |n: i64| u32::try_from(n).unwrap_or(u32::MAX);
        let gid = self.principal.gids.first().copied().unwrap_or(-1);
        NewFile::new(mode, number(self.principal.uid), number(gid))
    }

    /// Opens a file, or creates it with this mode.
    pub fn open_file(self: &Arc<Self>, path: &NamePath, flags: Flags, mode: u32) -> Result<File> {
        let open = match &self.queue {
            Some(queue) if flags.create && flags.write => {
                let make = self.make_of(Kind::File.bits() | mode & 0o7777);
                Open::Queued(queue.create(path, flags, make)?)
            }
            _ => {
                self.send_queued()?;
                let file = OpenFile::open(&self.direct, &self.principal, path, flags, mode)?;
                Open::Opened(Arc::new(file))
            }
        };
        Ok(File {
            fs: Arc::clone(self),
            path: path.clone(),
            flags,
            open: Mutex::new(open),
            position: Mutex::new(0),
        })
    }

    /// Creates empty files in one call; returns a result for each.
    pub fn create_many(&self, paths: &[NamePath], mode: u32) -> Result<Vec<Result<()>>> {
        self.send_queued()?;
        let make = self.make_of(Kind::File.bits() | mode & 0o7777);
        let each = |path: &NamePath| Change::Create(path.clone(), make.clone());
        let changes: Vec<Change> = paths.iter().map(each).collect();
        let done = self.direct.change_many(&self.principal, &changes)?;
        Ok(done.into_iter().map(|done| done.map(|_| ())).collect())
    }

    /// Reads the attributes of the file at a path.
    pub fn stat(&self, path: &NamePath, follow: bool) -> Result<Stat> {
        self.send_queued()?;
        self.direct.stat(&self.principal, path, follow)
    }

    /// Checks that the process's user may access the file at a path: bits 4, 2 and 1 for reading, writing and
    /// executing, 0 for its existence.
    pub fn access(&self, path: &NamePath, bits: u32) -> Result<()> {
        self.send_queued()?;
        if self.direct.may_access(&self.principal, path, bits)? {
            return Ok(());
        }
        Err(Failure::new(libc::EACCES, path))
    }

    /// Creates a directory with this mode.
    pub fn mkdir(&self, path: &NamePath, mode: u32) -> Result<()> {
        let make = self.make_of(Kind::Directory.bits() | mode & 0o7777);
        self.change_now(&Change::Create(path.clone(), make))
    }

    /// Creates a symbolic link to `target`.
    pub fn symlink(&self, target: &[u8], path: &NamePath) -> Result<()> {
        let make = NewFile {
            content: Content::Symlink(target.to_vec()),
            ..self.make_of(Kind::Symlink.bits() | 0o777)
        };
        self.change(Change::Create(path.clone(), make))
    }

    /// Reads the target of a symbolic link.
    pub fn read_link(&self, path: &NamePath) -> Result<Vec<u8>> {
        self.send_queued()?;
        self.direct.read_link(&self.principal, path)
    }

    /// Removes a name of a file.
    pub fn unlink(&self, path: &NamePath) -> Result<()> {
        self.change(Change::Unlink(path.clone()))
    }

    /// Removes an empty directory.
    pub fn rmdir(&self, path: &NamePath) -> Result<()> {
        self.change_now(&Change::Rmdir(path.clone()))
    }

    /// Moves a file or directory to another path.
    pub fn rename(&self, from: &NamePath, to: &NamePath, no_replace: bool) -> Result<()> {
        let (from, to) = (from.clone(), to.clone());
        self.change(Change::Rename {
            from,
            to,
            no_replace,
        })
    }

    /// Exchanges two files or directories.
    pub fn exchange(&self, from: &NamePath, to: &NamePath) -> Result<()> {
        let (from, to) = (from.clone(), to.clone());
        self.change(Change::Exchange { from, to })
    }

    /// Gives a file another name (hard link).
    pub fn link(&self, from: &NamePath, to: &NamePath) -> Result<()> {
        let (from, to) = (from.clone(), to.clone());
        self.change(Change::Link { from, to })
    }

    /// Changes attributes of the file at a path.
    pub fn set(&self, path: &NamePath, follow: bool, set: SetAttributes) -> Result<()> {
        self.send_queued()?;
        self.direct.set(&self.principal, path, follow, set)
    }

    /// Truncates the content, or extends it with zero bytes.
    pub fn truncate(&self, path: &NamePath, size: u64) -> Result<()> {
        self.send_queued()?;
        self.direct.truncate(&self.principal, path, size)
    }

    /// Reads the value of an extended attribute.
    pub fn xattr(&self, path: &NamePath, follow: bool, name: &[u8]) -> Result<Vec<u8>> {
        self.send_queued()?;
        self.direct.xattr(&self.principal, path, follow, name)
    }

    /// Returns the names of all extended attributes, each terminated by a zero byte.
    pub fn xattr_names(&self, path: &NamePath, follow: bool) -> Result<Vec<u8>> {
        self.send_queued()?;
        self.direct.xattr_names(&self.principal, path, follow)
    }

    /// Sets an extended attribute, or removes it (`None`).
    pub fn set_xattr(
        &self,
        (path, follow): (&NamePath, bool),
        (name, value): (&[u8], Option<&[u8]>),
        mode: XattrMode,
    ) -> Result<()> {
        self.send_queued()?;
        let to = (path, follow);
        self.direct
            .set_xattr(&self.principal, to, (name, value), mode)
    }

    /// Returns the next entries of a directory behind a cookie; empty at the end.
    pub fn list(&self, path: &NamePath, after: Option<Cookie>) -> Result<Vec<Entry>> {
        self.send_queued()?;
        let mut entries = Vec::new();
        let sink = &mut |cookie, name: &esker_model::namespace::Name, stat| {
            let name = name.as_bytes().to_vec();
            entries.push(Entry { cookie, name, stat });
            if entries.len() < PAGE_ENTRIES {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        };
        self.direct.list(&self.principal, path, after, sink)?;
        Ok(entries)
    }

    /// Returns the size and the free space of the data folders.
    pub fn statfs(&self) -> Result<FsStats> {
        self.direct.statfs()
    }

    /// Sends queued changes. Returns an error if any change since the last flush failed.
    pub fn flush(&self) -> Result<()> {
        self.queue.as_ref().map_or(Ok(()), WriteBehindQueue::flush)
    }

    /// Sends queued changes and makes all changes survive a power failure.
    pub fn sync(&self) -> Result<()> {
        self.flush()?;
        self.direct.persist()
    }

    /// Closes the target, for all who use it. Queued changes are sent before.
    pub fn close(&self) -> Result<()> {
        let flushed = self.flush();
        self.database.clone().close()?;
        flushed
    }
}

/// An open file. Its methods may be called from any thread.
#[derive(Debug)]
pub struct File {
    fs: Arc<Fs>,
    path: NamePath,
    flags: Flags,
    open: Mutex<Open>,
    /// Offset of the next byte to read or write.
    position: Mutex<u64>,
}

#[derive(Debug)]
enum Open {
    Opened(Arc<OpenFile>),
    /// Queued for creation, not created yet.
    Queued(Ticket),
}

impl File {
    /// Returns the open file, after sending its creation if it was queued.
    fn opened_file(&self) -> Result<Arc<OpenFile>> {
        let mut open = self.open.lock();
        let ticket = match &*open {
            Open::Opened(file) => return Ok(Arc::clone(file)),
            Open::Queued(ticket) => ticket,
        };
        let Some(queue) = &self.fs.queue else {
            return Err(Failure::new(EINVAL, &self.path));
        };
        let Fs {
            direct, principal, ..
        } = &*self.fs;
        // The creation has applied these flags; only later calls are left.
        let flags = Flags {
            create: false,
            exclusive: false,
            truncate: false,
            ..self.flags
        };
        let file = match queue.outcome_of(ticket)? {
            Some(done) => OpenFile::made(direct, principal, &self.path, flags, done),
            None => OpenFile::open(direct, principal, &self.path, flags, 0)?,
        };
        let file = Arc::new(file);
        *open = Open::Opened(Arc::clone(&file));
        Ok(file)
    }

    /// Reads at an offset; returns the number of bytes.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.opened_file()?.read_at(buffer, offset)
    }

    /// Writes at an offset, or at the end of a file opened for appending; returns the number of bytes.
    pub fn write_at(&self, data: &[u8], offset: u64) -> Result<usize> {
        Ok(self.write_from(data, offset)?.0)
    }

    fn write_from(&self, data: &[u8], offset: u64) -> Result<(usize, u64)> {
        if let Some(queue) = &self.fs.queue
            && !self.flags.append
            && let Open::Queued(ticket) = &*self.open.lock()
            && queue.write(ticket, data, offset)
        {
            return Ok((data.len(), offset + data.len() as u64));
        }
        self.opened_file()?.write_at(data, offset)
    }

    /// Reads at the current position; returns the number of bytes.
    pub fn read(&self, buffer: &mut [u8]) -> Result<usize> {
        let mut position = self.position.lock();
        let n = self.read_at(buffer, *position)?;
        *position += n as u64;
        Ok(n)
    }

    /// Writes at the current position; returns the number of bytes.
    pub fn write(&self, data: &[u8]) -> Result<usize> {
        let mut position = self.position.lock();
        let (n, end) = self.write_from(data, *position)?;
        *position = end;
        Ok(n)
    }

    /// Moves the position as `lseek` does: `whence` is 0 for the beginning, 1 for the current position, 2 for the end.
    pub fn seek(&self, offset: i64, whence: i32) -> Result<u64> {
        let mut position = self.position.lock();
        let from = match whence {
            0 => 0,
            1 => *position,
            2 => self.stat()?.size,
            _ => return Err(Failure::new(EINVAL, &self.path)),
        };
        let to = from.checked_add_signed(offset);
        *position = to.ok_or_else(|| Failure::new(EINVAL, &self.path))?;
        Ok(*position)
    }

    /// Truncates the content, or extends it with zero bytes.
    pub fn truncate(&self, size: u64) -> Result<()> {
        self.opened_file()?.truncate(size)
    }

    /// Reads the present attributes.
    pub fn stat(&self) -> Result<Stat> {
        self.opened_file()?.stat()
    }

    /// Changes attributes of the open file.
    pub fn set(&self, set: SetAttributes) -> Result<()> {
        self.opened_file()?.set(set)
    }

    /// Returns the path form of the open file's handle.
    pub fn handle(&self) -> Result<NamePath> {
        self.opened_file()?.handle()
    }

    /// Opens a descriptor of the backing file with the same access, through which the kernel reads and writes;
    /// [`Self::flush`] and [`Self::close`] publish what was written. For small content opened read-only, the descriptor
    /// is of a copy in memory. Only the flags `O_APPEND`, `O_NONBLOCK` and `O_CLOEXEC` are used.
    pub fn descriptor(&self, flags: i32) -> Result<OwnedFd> {
        self.opened_file()?.descriptor(flags)
    }

    /// Returns the path by which the file was opened.
    pub fn path(&self) -> &NamePath {
        &self.path
    }

    /// Returns the flags with which the file was opened.
    pub fn flags(&self) -> Flags {
        self.flags
    }

    /// Makes what was written survive a power failure.
    pub fn sync(&self) -> Result<()> {
        self.opened_file()?.sync()
    }

    /// Publishes what was written: later opens see it.
    pub fn flush(&self) -> Result<()> {
        match &*self.open.lock() {
            Open::Opened(file) => file.flush(),
            Open::Queued(_) => Ok(()),
        }
    }

    /// Publishes what was written and closes the file.
    pub fn close(self) -> Result<()> {
        match self.open.into_inner() {
            Open::Opened(file) => file.close(),
            Open::Queued(_) => Ok(()),
        }
    }
}

/// Returns the user of this process, with groups.
fn process_principal() -> Principal {
    let (uid, gid, more) = ids();
    let mut gids = vec![i64::from(gid)];
    gids.extend(
        more.into_iter()
            .map(i64::from)
            .filter(|g| *g != i64::from(gid)),
    );
    let uid = i64::from(uid);
    Principal { uid, gids }
}

#[allow(unsafe_code, reason = "asks the kernel who this process is")]
fn ids() -> (u32, u32, Vec<u32>) {
    // SAFETY: the functions take no arguments and cannot fail.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    // SAFETY: a size of 0 asks for the number of groups, and nothing is written.
    let n = unsafe { libc::getgroups(0, std::ptr::null_mut()) };
    let mut groups = vec![0; usize::try_from(n).unwrap_or(0)];
    // SAFETY: the buffer has space for the stated number of groups.
    let n = unsafe { libc::getgroups(groups.len() as i32, groups.as_mut_ptr()) };
    groups.truncate(usize::try_from(n).unwrap_or(0));
    (uid, gid, groups)
}

/// Combines seconds and nanoseconds into nanoseconds.
pub(crate) fn nanos(seconds: i64, nanos: i64) -> i64 {
    seconds.saturating_mul(NOW).saturating_add(nanos)
}
