//! Open files without the kernel.
//!
//! A new file has no backing file until its first read or write, so that creating many empty files costs nothing else.

use super::{Direct, Failure, Result, Stat, by_id};
use crate::content::{OpenContent, Opened};
use crate::nodes::Node;
use esker_model::VertexId;
use esker_model::namespace::{
    AppliedChange, Change, Inode, Kind, NamePath, NewFile, Open, OpenLookup, SetAttributes,
};
use esker_model::object::Principal;
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
/// Largest number of attempts when others create or remove the file concurrently.
const TRIES: u32 = 64;

/// Flags of an `open` call.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a flag of its own, as the kernel's"
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags {
    /// Open for reading (`O_RDONLY`, `O_RDWR`).
    pub read: bool,
    /// Open for writing (`O_WRONLY`, `O_RDWR`).
    pub write: bool,
    /// Create the file if it does not exist (`O_CREAT`).
    pub create: bool,
    /// Fail if the file exists (`O_EXCL`).
    pub exclusive: bool,
    /// Truncate the content (`O_TRUNC`).
    pub truncate: bool,
    /// Append every write at the end (`O_APPEND`).
    pub append: bool,
    /// Fail if the last name is a symbolic link (`O_NOFOLLOW`).
    pub no_follow: bool,
}

/// An open file. Dropping it closes it and ignores errors.
#[derive(Debug)]
pub struct OpenFile {
    direct: Arc<Direct>,
    principal: Principal,
    path: NamePath,
    flags: Flags,
    state: Mutex<OpenState>,
}

#[derive(Debug)]
enum OpenState {
    /// Just created and not used yet.
    Made(VertexId),
    /// Open with its content.
    Open(Arc<Node>),
    Closed,
}

impl OpenFile {
    /// Opens a path, creating the file with this mode if the flags say so.
    pub fn open(
        direct: &Arc<Direct>,
        principal: &Principal,
        path: &NamePath,
        flags: Flags,
        mode: u32,
    ) -> Result<Self> {
        let mut place = path.clone();
        for _ in 0..TRIES {
            if flags.create {
                let make = NewFile::new(
                    Kind::File.bits() | mode & 0o7777,
                    owner(principal.uid),
                    group(principal),
                );
                match direct.change(principal, &Change::Create(place.clone(), make)) {
                    Ok(done) => return Ok(Self::made(direct, principal, path, flags, done)),
                    Err(e) if e.errno == EEXIST && !flags.exclusive => {}
                    Err(e) => return Err(e),
                }
            }
            match direct
                .names()
                .resolve_open(Some(principal), path, flags.how())?
            {
                OpenLookup::Found(held, inode) => {
                    return Self::found(direct, principal, (path, &held), flags, *inode);
                }
                // The path is a symbolic link to this one, or another client removed the file meanwhile.
                OpenLookup::Missing { path, .. } => place = path,
            }
        }
        Err(Failure::new(
            EIO,
            format_args!("{path} was created and deleted again and again"),
        ))
    }

    /// Wraps a file that was just created, as open.
    pub fn made(
        direct: &Arc<Direct>,
        principal: &Principal,
        path: &NamePath,
        flags: Flags,
        done: AppliedChange,
    ) -> Self {
        Self::with(direct, principal, path, flags, OpenState::Made(done.id))
    }

    fn with(
        direct: &Arc<Direct>,
        principal: &Principal,
        path: &NamePath,
        flags: Flags,
        state: OpenState,
    ) -> Self {
        Self {
            direct: Arc::clone(direct),
            principal: principal.clone(),
            path: path.clone(),
            flags,
            state: Mutex::new(state),
        }
    }

    fn found(
        direct: &Arc<Direct>,
        principal: &Principal,
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
        let file = Self::with(direct, principal, path, flags, OpenState::Closed);
        if inode.kind() == Kind::Directory {
            *file.state.lock() = OpenState::Open(node);
            return Ok(file);
        }
        // With write-only access, the look-up returns no content, so the attributes are read separately.
        let inode = if flags.read {
            Ok(inode)
        } else {
            direct.files.stat(&node)
        };
        let begun = inode.and_then(|inode| {
            let flags = flags.bits();
            let mut opened = node.opened();
            direct.files.open_as(
                principal,
                &node,
                &mut opened,
                &inode,
                flags,
                &register_nothing,
            )
        });
        match begun {
            Ok(_) => {
                *file.state.lock() = OpenState::Open(node);
                Ok(file)
            }
            Err(e) => {
                direct.files.nodes.forget(node.number, 1);
                Err(Failure::new(e.code(), path))
            }
        }
    }

    /// Returns the node with its content open.
    fn ensure_open(&self) -> Result<Arc<Node>> {
        let mut state = self.state.lock();
        let id = match &*state {
            OpenState::Open(node) => return Ok(Arc::clone(node)),
            OpenState::Closed => return Err(Failure::new(EBADF, &self.path)),
            OpenState::Made(id) => *id,
        };
        let names = self.direct.names();
        let how = Open {
            no_follow: true,
            ..Open::BOTH
        };
        let (held, inode) = match names.resolve_open(None, &self.path, how) {
            Ok(OpenLookup::Found(held, inode)) if inode.id == id => (held, *inode),
            // The file was renamed or removed meanwhile: its location record still finds it.
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
        let begun = files.open_as(
            &self.principal,
            &node,
            &mut opened,
            &inode,
            flags,
            &register_nothing,
        );
        drop(opened);
        if let Err(e) = begun {
            files.nodes.forget(node.number, 1);
            return Err(Failure::new(e.code(), &self.path));
        }
        *state = OpenState::Open(Arc::clone(&node));
        Ok(node)
    }

    /// Reads at an offset; returns the number of bytes.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        if !self.flags.read {
            return Err(Failure::new(EBADF, &self.path));
        }
        let node = self.ensure_open()?;
        if node.is_directory() {
            return Err(Failure::new(EISDIR, &self.path));
        }
        node.read_into(buffer, offset)
            .map_err(Failure::at(&self.path))
    }

    /// Writes at an offset, or at the end of a file opened for appending. Returns the number of bytes and the offset
    /// behind them.
    pub fn write_at(&self, data: &[u8], offset: u64) -> Result<(usize, u64)> {
        if !self.flags.write {
            return Err(Failure::new(EBADF, &self.path));
        }
        let node = self.ensure_open()?;
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
            .write(&self.principal, &node, offset, data, kill)
            .map_err(at)?;
        Ok((n as usize, offset + u64::from(n)))
    }

    /// Truncates the content, or extends it with zero bytes.
    pub fn truncate(&self, size: u64) -> Result<()> {
        if !self.flags.write {
            return Err(Failure::new(22, &self.path));
        }
        let node = self.ensure_open()?;
        let cut = self.direct.files.truncate(&self.principal, &node, size);
        cut.map_err(Failure::at(&self.path))
    }

    /// Reads the present attributes.
    pub fn stat(&self) -> Result<Stat> {
        if let OpenState::Made(id) = &*self.state.lock() {
            let names = self.direct.names();
            match names.stat(None, &self.path, false) {
                Ok(inode) if inode.id == *id => return Ok(self.direct.stat_of(&inode)),
                _ => return Ok(self.direct.stat_of(&names.stat(None, &by_id(*id), false)?)),
            }
        }
        let node = self.ensure_open()?;
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
        let node = self.ensure_open()?;
        // Earlier writes are published first, so that their time does not replace the one that is set.
        self.direct
            .files
            .flush(&node)
            .map_err(Failure::at(&self.path))?;
        let (path, follow) = (node.handle(), false);
        self.direct
            .change(&self.principal, &Change::Set { path, follow, set })?;
        Ok(())
    }

    /// Returns the path form of the open file's handle.
    pub fn handle(&self) -> Result<NamePath> {
        Ok(self.ensure_open()?.handle())
    }

    /// Makes what was written survive a power failure.
    pub fn sync(&self) -> Result<()> {
        if matches!(*self.state.lock(), OpenState::Made(_)) {
            return self.direct.persist();
        }
        let node = self.ensure_open()?;
        self.direct
            .files
            .sync(&node)
            .map_err(Failure::at(&self.path))
    }

    /// Publishes what was written: later opens see it.
    pub fn flush(&self) -> Result<()> {
        let node = match &*self.state.lock() {
            OpenState::Open(node) => Arc::clone(node),
            _ => return Ok(()),
        };
        self.direct
            .files
            .flush(&node)
            .map_err(Failure::at(&self.path))
    }

    /// Closes the file. On an error it is closed too, and unpublished writes may be lost.
    pub fn close(&self) -> Result<()> {
        let state = std::mem::replace(&mut *self.state.lock(), OpenState::Closed);
        let OpenState::Open(node) = state else {
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

    /// Opens a descriptor of the backing file with the same access and its own position, through which the kernel reads
    /// and writes. For small content opened read-only, the descriptor is of a copy in memory. Only the flags
    /// `O_APPEND`, `O_NONBLOCK` and `O_CLOEXEC` are used.
    pub fn descriptor(&self, flags: i32) -> Result<OwnedFd> {
        let node = self.ensure_open()?;
        let held = node.opened().as_ref().map(|o| o.content.clone());
        let about = |e: io::Error| Failure::new(e.raw_os_error().unwrap_or(EIO), &self.path);
        let memory;
        let file = match &held {
            None => return Err(Failure::new(EBADF, &self.path)),
            Some(OpenContent::File(body)) => {
                if self.flags.read {
                    body.expose();
                }
                &*body.file
            }
            Some(OpenContent::Bytes(bytes)) => {
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

    /// Encodes the flags as the kernel does.
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

/// Refuses to register a backing file, because no kernel is involved.
fn register_nothing(_: &std::fs::File) -> io::Result<fuser::BackingId> {
    Err(io::ErrorKind::Unsupported.into())
}

fn owner(uid: i64) -> u32 {
    u32::try_from(uid).unwrap_or(u32::MAX)
}

fn group(principal: &Principal) -> u32 {
    principal.gids.first().map_or(u32::MAX, |gid| owner(*gid))
}
