//! Paths and open files of a target.

use crate::late::{Late, Ticket};
use crate::options::Options;
use crate::target::Behind;
use crate::{Failure, Flags, Result, Room, Stat};
use esker::{Database, Durability, OpenOptions};
use esker_model::namespace::{
    Change, Content, Cookie, Kind, Make, NamePath, SetAttributes, XattrMode,
};
use esker_model::object::Asker;
use esker_mount::direct::{Direct, OpenFile};
use parking_lot::Mutex;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Entries of a directory that are asked for at a time.
const AHEAD: usize = 512;
const EINVAL: i32 = 22;
const NOW: i64 = 1_000_000_000;

/// An open target, on behalf of the user that this process runs as. All its functions may be called from any thread.
#[derive(Debug)]
pub struct Fs {
    late: Option<Late>,
    direct: Arc<Direct>,
    database: Database,
    asker: Asker,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where the listing goes on behind it.
    pub place: Cookie,
    /// Its name.
    pub name: Vec<u8>,
    /// What it is.
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
        let direct = Direct::open(Arc::new(Behind(database.clone())), mount)?;
        let asker = whoever_runs_this();
        let late = match options.write_behind {
            Some(behind) => Some(Late::new(&direct, &asker, behind)?),
            None => None,
        };
        Ok(Arc::new(Self {
            late,
            direct,
            database,
            asker,
        }))
    }

    /// What is held back is sent, so that what is asked now is of now.
    fn seen(&self) -> Result<()> {
        self.late.as_ref().map_or(Ok(()), Late::send)
    }

    fn change(&self, change: Change) -> Result<()> {
        match &self.late {
            Some(late) => late.hold(change),
            None => self.direct.change(&self.asker, &change).map(|_| ()),
        }
    }

    /// Directories are made at once: other processes make files in them next.
    fn change_now(&self, change: &Change) -> Result<()> {
        self.seen()?;
        self.direct.change(&self.asker, change).map(|_| ())
    }

    fn make_of(&self, mode: u32) -> Make {
        let number = |n: i64| u32::try_from(n).unwrap_or(u32::MAX);
        let gid = self.asker.gids.first().copied().unwrap_or(-1);
        Make::new(mode, number(self.asker.uid), number(gid))
    }

    /// Opens a file, or makes it with that mode.
    pub fn open_file(self: &Arc<Self>, path: &NamePath, flags: Flags, mode: u32) -> Result<File> {
        let open = match &self.late {
            Some(late) if flags.create && flags.write => {
                let make = self.make_of(Kind::File.bits() | mode & 0o7777);
                Open::Late(late.create(path, flags, make)?)
            }
            _ => {
                self.seen()?;
                let file = OpenFile::open(&self.direct, &self.asker, path, flags, mode)?;
                Open::Here(Arc::new(file))
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

    /// Makes empty files, all in one call: an answer for each.
    pub fn create_many(&self, paths: &[NamePath], mode: u32) -> Result<Vec<Result<()>>> {
        self.seen()?;
        let make = self.make_of(Kind::File.bits() | mode & 0o7777);
        let each = |path: &NamePath| Change::Make(path.clone(), make.clone());
        let changes: Vec<Change> = paths.iter().map(each).collect();
        let done = self.direct.change_many(&self.asker, &changes)?;
        Ok(done.into_iter().map(|done| done.map(|_| ())).collect())
    }

    /// What is at a path.
    pub fn stat(&self, path: &NamePath, follow: bool) -> Result<Stat> {
        self.seen()?;
        self.direct.stat(&self.asker, path, follow)
    }

    /// Whether whoever runs this may do that with what is at a path: bits 4, 2 and 1 to read, write and execute it, 0 whether it is there.
    pub fn access(&self, path: &NamePath, bits: u32) -> Result<()> {
        let stat = self.stat(path, true)?;
        let Asker { uid, gids } = &self.asker;
        let class = if *uid == i64::from(stat.uid) {
            stat.mode >> 6
        } else if gids.contains(&i64::from(stat.gid)) {
            stat.mode >> 3
        } else {
            stat.mode
        };
        let execute = bits & 1 == 0
            || stat.mode & 0o111 != 0
            || Kind::of_mode(stat.mode) == Some(Kind::Directory);
        if if *uid == 0 {
            execute
        } else {
            class & bits == bits
        } {
            return Ok(());
        }
        Err(Failure::new(libc::EACCES, path))
    }

    /// Makes a directory.
    pub fn mkdir(&self, path: &NamePath, mode: u32) -> Result<()> {
        let make = self.make_of(Kind::Directory.bits() | mode & 0o7777);
        self.change_now(&Change::Make(path.clone(), make))
    }

    /// Makes a symbolic link that says so.
    pub fn symlink(&self, target: &[u8], path: &NamePath) -> Result<()> {
        let make = Make {
            content: Content::Symlink(target.to_vec()),
            ..self.make_of(Kind::Symlink.bits() | 0o777)
        };
        self.change(Change::Make(path.clone(), make))
    }

    /// What a symbolic link says.
    pub fn read_link(&self, path: &NamePath) -> Result<Vec<u8>> {
        self.seen()?;
        self.direct.read_link(&self.asker, path)
    }

    /// Removes a name of a file.
    pub fn unlink(&self, path: &NamePath) -> Result<()> {
        self.change(Change::Unlink(path.clone()))
    }

    /// Removes an empty directory.
    pub fn rmdir(&self, path: &NamePath) -> Result<()> {
        self.change_now(&Change::Rmdir(path.clone()))
    }

    /// Gives a file or directory another path.
    pub fn rename(&self, from: &NamePath, to: &NamePath, no_replace: bool) -> Result<()> {
        let (from, to) = (from.clone(), to.clone());
        self.change(Change::Rename {
            from,
            to,
            no_replace,
        })
    }

    /// Gives a file a further name.
    pub fn link(&self, from: &NamePath, to: &NamePath) -> Result<()> {
        let (from, to) = (from.clone(), to.clone());
        self.change(Change::Link { from, to })
    }

    /// Changes attributes of what is at a path.
    pub fn set(&self, path: &NamePath, follow: bool, set: SetAttributes) -> Result<()> {
        self.seen()?;
        self.direct.set(&self.asker, path, follow, set)
    }

    /// Cuts a content, or fills it with zero bytes.
    pub fn truncate(&self, path: &NamePath, size: u64) -> Result<()> {
        self.seen()?;
        self.direct.truncate(&self.asker, path, size)
    }

    /// The value of an extended attribute.
    pub fn xattr(&self, path: &NamePath, follow: bool, name: &[u8]) -> Result<Vec<u8>> {
        self.seen()?;
        self.direct.xattr(&self.asker, path, follow, name)
    }

    /// The names of all extended attributes, each with a zero byte behind it.
    pub fn xattr_names(&self, path: &NamePath, follow: bool) -> Result<Vec<u8>> {
        self.seen()?;
        self.direct.xattr_names(&self.asker, path, follow)
    }

    /// Sets an extended attribute, or removes it (`None`).
    pub fn set_xattr(
        &self,
        (path, follow): (&NamePath, bool),
        (name, value): (&[u8], Option<&[u8]>),
        mode: XattrMode,
    ) -> Result<()> {
        self.seen()?;
        let to = (path, follow);
        self.direct.set_xattr(&self.asker, to, (name, value), mode)
    }

    /// Some entries of a directory behind a place; none if there are no more.
    pub fn list(&self, path: &NamePath, after: Option<Cookie>) -> Result<Vec<Entry>> {
        self.seen()?;
        let mut entries = Vec::new();
        let sink = &mut |place, name: &esker_model::namespace::Name, stat| {
            let name = name.as_bytes().to_vec();
            entries.push(Entry { place, name, stat });
            if entries.len() < AHEAD {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        };
        self.direct.list(&self.asker, path, after, sink)?;
        Ok(entries)
    }

    /// How much room there is.
    pub fn room(&self) -> Result<Room> {
        self.direct.room()
    }

    /// Sends what is held back. An error is of any change that was taken since the last flush.
    pub fn flush(&self) -> Result<()> {
        self.late.as_ref().map_or(Ok(()), Late::flush)
    }

    /// The same, and all that was told survives a power failure then.
    pub fn sync(&self) -> Result<()> {
        self.flush()?;
        self.direct.persist()
    }

    /// Lets go of the target, for all who have it. What was held back is sent before.
    pub fn close(&self) -> Result<()> {
        let flushed = self.flush();
        self.database.clone().close()?;
        flushed
    }
}

/// An open file. Its functions may be called from any thread.
#[derive(Debug)]
pub struct File {
    fs: Arc<Fs>,
    path: NamePath,
    flags: Flags,
    open: Mutex<Open>,
    /// Where the next byte is read or written.
    position: Mutex<u64>,
}

#[derive(Debug)]
enum Open {
    Here(Arc<OpenFile>),
    /// It is to be made yet.
    Late(Ticket),
}

impl File {
    /// The file where it is, made if it was not yet.
    fn here(&self) -> Result<Arc<OpenFile>> {
        let mut open = self.open.lock();
        let ticket = match &*open {
            Open::Here(file) => return Ok(Arc::clone(file)),
            Open::Late(ticket) => ticket,
        };
        let Some(late) = &self.fs.late else {
            return Err(Failure::new(EINVAL, &self.path));
        };
        let Fs { direct, asker, .. } = &*self.fs;
        // It has what it was to have: only what comes now is to be done.
        let flags = Flags {
            create: false,
            exclusive: false,
            truncate: false,
            ..self.flags
        };
        let file = match late.settled(ticket)? {
            Some(done) => OpenFile::made(direct, asker, &self.path, flags, done),
            None => OpenFile::open(direct, asker, &self.path, flags, 0)?,
        };
        let file = Arc::new(file);
        *open = Open::Here(Arc::clone(&file));
        Ok(file)
    }

    /// Reads at an offset; how much there was.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.here()?.read_at(buffer, offset)
    }

    /// Writes at an offset; how much. Of a file that is open to append, behind its last byte.
    pub fn write_at(&self, data: &[u8], offset: u64) -> Result<usize> {
        Ok(self.write_from(data, offset)?.0)
    }

    fn write_from(&self, data: &[u8], offset: u64) -> Result<(usize, u64)> {
        if let Some(late) = &self.fs.late
            && !self.flags.append
            && let Open::Late(ticket) = &*self.open.lock()
            && late.write(ticket, data, offset)
        {
            return Ok((data.len(), offset + data.len() as u64));
        }
        self.here()?.write_at(data, offset)
    }

    /// Reads on.
    pub fn read(&self, buffer: &mut [u8]) -> Result<usize> {
        let mut position = self.position.lock();
        let n = self.read_at(buffer, *position)?;
        *position += n as u64;
        Ok(n)
    }

    /// Writes on.
    pub fn write(&self, data: &[u8]) -> Result<usize> {
        let mut position = self.position.lock();
        let (n, end) = self.write_from(data, *position)?;
        *position = end;
        Ok(n)
    }

    /// Where the next byte is read or written, changed as `lseek` does: `whence` is 0 from the beginning, 1 from where it is, 2 from the end.
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

    /// Cuts its content, or fills it with zero bytes.
    pub fn truncate(&self, size: u64) -> Result<()> {
        self.here()?.truncate(size)
    }

    /// What it is now.
    pub fn stat(&self) -> Result<Stat> {
        self.here()?.stat()
    }

    /// Changes attributes.
    pub fn set(&self, set: SetAttributes) -> Result<()> {
        self.here()?.set(set)
    }

    /// What stands for it in the place of a path.
    pub fn handle(&self) -> Result<NamePath> {
        self.here()?.handle()
    }

    /// A descriptor of the file underneath, open as this is: the kernel reads and writes it, and [`Self::flush`] and [`Self::close`] tell
    /// what was written. Small content that is only read is a copy in memory. Of flags of `open`, `O_APPEND`, `O_NONBLOCK` and `O_CLOEXEC` count.
    pub fn descriptor(&self, flags: i32) -> Result<OwnedFd> {
        self.here()?.descriptor(flags)
    }

    /// The path that it was opened by.
    pub fn path(&self) -> &NamePath {
        &self.path
    }

    /// How it was opened.
    pub fn flags(&self) -> Flags {
        self.flags
    }

    /// What was written survives a power failure.
    pub fn sync(&self) -> Result<()> {
        self.here()?.sync()
    }

    /// What was written is told: whoever opens it from now on sees it.
    pub fn flush(&self) -> Result<()> {
        match &*self.open.lock() {
            Open::Here(file) => file.flush(),
            Open::Late(_) => Ok(()),
        }
    }

    /// Closes it.
    pub fn close(self) -> Result<()> {
        match self.open.into_inner() {
            Open::Here(file) => file.close(),
            Open::Late(_) => Ok(()),
        }
    }
}

/// The user of this process, and their groups.
fn whoever_runs_this() -> Asker {
    let (uid, gid, more) = ids();
    let mut gids = vec![i64::from(gid)];
    gids.extend(
        more.into_iter()
            .map(i64::from)
            .filter(|g| *g != i64::from(gid)),
    );
    let uid = i64::from(uid);
    Asker { uid, gids }
}

#[allow(unsafe_code, reason = "asks the kernel who this process is")]
fn ids() -> (u32, u32, Vec<u32>) {
    // SAFETY: neither takes anything nor fails.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    // SAFETY: a size of 0 asks how many there are, and nothing is written.
    let n = unsafe { libc::getgroups(0, std::ptr::null_mut()) };
    let mut groups = vec![0; usize::try_from(n).unwrap_or(0)];
    // SAFETY: there is room for as many as are said.
    let n = unsafe { libc::getgroups(groups.len() as i32, groups.as_mut_ptr()) };
    groups.truncate(usize::try_from(n).unwrap_or(0));
    (uid, gid, groups)
}

/// Seconds and nanoseconds as one number.
pub(crate) fn nanos(seconds: i64, nanos: i64) -> i64 {
    seconds.saturating_mul(NOW).saturating_add(nanos)
}
