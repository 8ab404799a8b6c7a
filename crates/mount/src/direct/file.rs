//! Open files without the kernel.
//!
//! A file that was just made has no body until somebody writes or reads: whoever makes many empty ones pays for nothing else.

use super::{Direct, Failure, Result, Stat, by_id};
use crate::content::{Held, Opened};
use crate::nodes::Node;
use esker_model::VertexId;
use esker_model::namespace::{
    Change, Done, Inode, Kind, Looked, Make, NamePath, Open, SetAttributes,
};
use esker_model::object::Asker;
use parking_lot::Mutex;
use rustix::fs::{MemfdFlags, Mode, OFlags};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

const EBADF: i32 = 9;
const EIO: i32 = 5;
const EISDIR: i32 = 21;
const EEXIST: i32 = 17;
const ELOOP: i32 = 40;
const O_WRONLY: i32 = 1;
const O_TRUNC: i32 = 0o1000;
/// How often somebody else may be faster.
const TRIES: u32 = 64;

/// How a file is opened, as `open` has it.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a flag of its own, as the kernel's"
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags {
    /// To read.
    pub read: bool,
    /// To write.
    pub write: bool,
    /// It is made if there is none (`O_CREAT`).
    pub create: bool,
    /// It must not be there (`O_EXCL`).
    pub exclusive: bool,
    /// Its content goes (`O_TRUNC`).
    pub truncate: bool,
    /// What is written comes behind the last byte (`O_APPEND`).
    pub append: bool,
    /// A last name that is a symbolic link is refused (`O_NOFOLLOW`).
    pub no_follow: bool,
}

/// An open file. Dropped, it is closed; what that says nobody hears.
#[derive(Debug)]
pub struct OpenFile {
    direct: Arc<Direct>,
    asker: Asker,
    path: NamePath,
    flags: Flags,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// It was just made, and nothing was done with it yet.
    Made(VertexId),
    /// It has a body.
    Open(Arc<Node>),
    Closed,
}

impl OpenFile {
    /// Opens what is at a path, or makes it with that mode.
    pub fn open(
        direct: &Arc<Direct>,
        asker: &Asker,
        path: &NamePath,
        flags: Flags,
        mode: u32,
    ) -> Result<Self> {
        let mut place = path.clone();
        for _ in 0..TRIES {
            if flags.create {
                let make = Make::new(
                    Kind::File.bits() | mode & 0o7777,
                    owner(asker.uid),
                    group(asker),
                );
                match direct.change(asker, &Change::Make(place.clone(), make)) {
                    Ok(done) => return Ok(Self::made(direct, asker, path, flags, done)),
                    Err(e) if e.errno == EEXIST && !flags.exclusive => {}
                    Err(e) => return Err(e),
                }
            }
            match direct.names().look(Some(asker), path, flags.how())? {
                Looked::Found(held, inode) => {
                    return Self::found(direct, asker, (path, &held), flags, *inode);
                }
                // A symbolic link leads there; or somebody has removed it meanwhile.
                Looked::Missing { path, .. } => place = path,
            }
        }
        Err(Failure::new(
            EIO,
            format_args!("{path} kept coming and going"),
        ))
    }

    /// A file that somebody has made for whoever opens it here.
    pub fn made(
        direct: &Arc<Direct>,
        asker: &Asker,
        path: &NamePath,
        flags: Flags,
        done: Done,
    ) -> Self {
        Self::with(direct, asker, path, flags, State::Made(done.id))
    }

    fn with(
        direct: &Arc<Direct>,
        asker: &Asker,
        path: &NamePath,
        flags: Flags,
        state: State,
    ) -> Self {
        Self {
            direct: Arc::clone(direct),
            asker: asker.clone(),
            path: path.clone(),
            flags,
            state: Mutex::new(state),
        }
    }

    fn found(
        direct: &Arc<Direct>,
        asker: &Asker,
        (path, held): (&NamePath, &NamePath),
        flags: Flags,
        inode: Inode,
    ) -> Result<Self> {
        match inode.kind() {
            Kind::Directory if flags.write => return Err(Failure::new(EISDIR, path)),
            Kind::Symlink => return Err(Failure::new(ELOOP, path)),
            _ => {}
        }
        let handle = held.handle();
        let node = direct.files.nodes.remember_open(&inode, handle.as_ref());
        let file = Self::with(direct, asker, path, flags, State::Closed);
        if inode.kind() == Kind::Directory {
            *file.state.lock() = State::Open(node);
            return Ok(file);
        }
        // Who may only write is not told what there is.
        let inode = if flags.read {
            Ok(inode)
        } else {
            direct.files.stat(&node)
        };
        let begun = inode.and_then(|inode| {
            let flags = flags.bits();
            let mut opened = node.opened();
            direct
                .files
                .open_as(asker, &node, &mut opened, &inode, flags, &nobody)
        });
        match begun {
            Ok(_) => {
                *file.state.lock() = State::Open(node);
                Ok(file)
            }
            Err(e) => {
                direct.files.nodes.forget(node.number, 1);
                Err(Failure::new(e.code(), path))
            }
        }
    }

    /// The file, with a body.
    fn begun(&self) -> Result<Arc<Node>> {
        let mut state = self.state.lock();
        let id = match &*state {
            State::Open(node) => return Ok(Arc::clone(node)),
            State::Closed => return Err(Failure::new(EBADF, &self.path)),
            State::Made(id) => *id,
        };
        let names = self.direct.names();
        let how = Open {
            no_follow: true,
            ..Open::BOTH
        };
        let (held, inode) = match names.look(None, &self.path, how) {
            Ok(Looked::Found(held, inode)) if inode.id == id => (held, *inode),
            // It is called otherwise by now, or was removed: both leave word of where it is.
            _ => (by_id(id), names.stat(None, &by_id(id), false)?),
        };
        let files = &self.direct.files;
        let node = files.nodes.remember_open(&inode, held.handle().as_ref());
        let flags = Flags {
            truncate: false,
            ..self.flags
        }
        .bits();
        let mut opened = node.opened();
        let begun = files.open_as(&self.asker, &node, &mut opened, &inode, flags, &nobody);
        drop(opened);
        if let Err(e) = begun {
            files.nodes.forget(node.number, 1);
            return Err(Failure::new(e.code(), &self.path));
        }
        *state = State::Open(Arc::clone(&node));
        Ok(node)
    }

    /// Reads; how much there was.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        if !self.flags.read {
            return Err(Failure::new(EBADF, &self.path));
        }
        let node = self.begun()?;
        if node.is_directory() {
            return Err(Failure::new(EISDIR, &self.path));
        }
        node.read_into(buffer, offset)
            .map_err(Failure::at(&self.path))
    }

    /// Writes at an offset, or behind the last byte of a file that is open so; where the next byte would go.
    pub fn write_at(&self, data: &[u8], offset: u64) -> Result<(usize, u64)> {
        if !self.flags.write {
            return Err(Failure::new(EBADF, &self.path));
        }
        let node = self.begun()?;
        let at = Failure::at(&self.path);
        let _alone = self.flags.append.then(|| self.direct.appending.lock());
        let offset = if self.flags.append {
            let body = node.opened().as_ref().and_then(Opened::body);
            let body = body.ok_or_else(|| Failure::new(EBADF, &self.path))?;
            body.stamp()?.size
        } else {
            offset
        };
        let files = &self.direct.files;
        let kill = node.state().privileged;
        let n = files
            .write(&self.asker, &node, offset, data, kill)
            .map_err(at)?;
        Ok((n as usize, offset + u64::from(n)))
    }

    /// Cuts its content, or fills it with zero bytes.
    pub fn truncate(&self, size: u64) -> Result<()> {
        if !self.flags.write {
            return Err(Failure::new(22, &self.path));
        }
        let node = self.begun()?;
        let cut = self.direct.files.truncate(&self.asker, &node, size);
        cut.map_err(Failure::at(&self.path))
    }

    /// What it is now.
    pub fn stat(&self) -> Result<Stat> {
        if let State::Made(id) = &*self.state.lock() {
            let names = self.direct.names();
            match names.stat(None, &self.path, false) {
                Ok(inode) if inode.id == *id => return Ok(self.direct.stat_of(&inode)),
                _ => return Ok(self.direct.stat_of(&names.stat(None, &by_id(*id), false)?)),
            }
        }
        let node = self.begun()?;
        let inode = self
            .direct
            .files
            .stat(&node)
            .map_err(Failure::at(&self.path))?;
        let attributes = self.direct.files.attributes(&node, &inode);
        Ok(Stat::of_attributes(&attributes, inode.mode))
    }

    /// Changes attributes (`fchmod`, `fchown`, `futimens`).
    pub fn set(&self, set: SetAttributes) -> Result<()> {
        let node = self.begun()?;
        // What was written before has its time before.
        self.direct
            .files
            .flush(&node)
            .map_err(Failure::at(&self.path))?;
        let (path, follow) = (node.handle(), false);
        self.direct
            .change(&self.asker, &Change::Set { path, follow, set })?;
        Ok(())
    }

    /// What stands for it in the place of a path.
    pub fn handle(&self) -> Result<NamePath> {
        Ok(self.begun()?.handle())
    }

    /// What was written survives a power failure.
    pub fn sync(&self) -> Result<()> {
        if matches!(*self.state.lock(), State::Made(_)) {
            return self.direct.persist();
        }
        let node = self.begun()?;
        self.direct
            .files
            .sync(&node)
            .map_err(Failure::at(&self.path))
    }

    /// What was written is told to the namespace: whoever opens it from now on sees it.
    pub fn flush(&self) -> Result<()> {
        let node = match &*self.state.lock() {
            State::Open(node) => Arc::clone(node),
            _ => return Ok(()),
        };
        self.direct
            .files
            .flush(&node)
            .map_err(Failure::at(&self.path))
    }

    /// Closes it. It is closed also where that fails, and what was written since it was last told may be lost.
    pub fn close(&self) -> Result<()> {
        let state = std::mem::replace(&mut *self.state.lock(), State::Closed);
        let State::Open(node) = state else {
            return Ok(());
        };
        let files = &self.direct.files;
        let mut told = Ok(());
        if !node.is_directory() {
            if self.flags.write {
                told = files.flush(&node);
            }
            files.release(&node, self.flags.write);
        }
        files.nodes.forget(node.number, 1);
        told.map_err(Failure::at(&self.path))
    }

    /// A descriptor of the file underneath, open as this is and with a position of its own: the kernel reads and writes it. Small content
    /// that is only read is a copy in memory. Of flags of `open`, `O_APPEND`, `O_NONBLOCK` and `O_CLOEXEC` count.
    pub fn descriptor(&self, flags: i32) -> Result<OwnedFd> {
        let node = self.begun()?;
        let held = node.opened().as_ref().map(|o| o.held.clone());
        let about = |e: io::Error| Failure::new(e.raw_os_error().unwrap_or(EIO), &self.path);
        let memory;
        let file = match &held {
            None => return Err(Failure::new(EBADF, &self.path)),
            Some(Held::File(body)) => &*body.file,
            Some(Held::Bytes(bytes)) => {
                let made = rustix::fs::memfd_create("esker", MemfdFlags::CLOEXEC);
                memory = std::fs::File::from(made.map_err(|e| about(e.into()))?);
                memory.write_all_at(bytes, 0).map_err(about)?;
                &memory
            }
        };
        let access = match (self.flags.read, self.flags.write) {
            (_, false) => OFlags::RDONLY,
            (false, true) => OFlags::WRONLY,
            (true, true) => OFlags::RDWR,
        };
        let kept = OFlags::APPEND | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let flags = access | OFlags::from_bits_retain(flags.cast_unsigned()) & kept;
        let again = format!("/proc/self/fd/{}", file.as_raw_fd());
        rustix::fs::open(again, flags, Mode::empty()).map_err(|e| about(e.into()))
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

impl Flags {
    fn how(self) -> Open {
        Open {
            read: self.read,
            write: self.write,
            create: self.create,
            exclusive: self.create && self.exclusive,
            no_follow: self.no_follow,
            ..Open::READ
        }
    }

    /// As the kernel would have them.
    fn bits(self) -> i32 {
        let mut bits = match (self.read, self.write) {
            (_, false) => 0,
            (false, true) => O_WRONLY,
            (true, true) => O_WRONLY << 1,
        };
        if self.truncate {
            bits |= O_TRUNC;
        }
        bits
    }
}

/// There is no kernel that could read and write by itself.
fn nobody(_: &std::fs::File) -> io::Result<fuser::BackingId> {
    Err(io::ErrorKind::Unsupported.into())
}

fn owner(uid: i64) -> u32 {
    u32::try_from(uid).unwrap_or(u32::MAX)
}

fn group(asker: &Asker) -> u32 {
    asker.gids.first().map_or(u32::MAX, |gid| owner(*gid))
}
