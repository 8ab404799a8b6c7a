//! The kernel's calls, each translated into a call of this crate.

use crate::attributes;
use crate::caller::MOUNT;
use crate::files::name;
use crate::handler::{FuseHandler, reply_empty, reply_sized};
use crate::inode_flags;
use crate::names::{NewNode, RenameMode, SetAttr};
use crate::views::is_view;
use esker_model::namespace::{ACL_ACCESS, Content, Kind};
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl,
    ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

/// Capabilities to request from the kernel: first those that reduce the number of requests, then those that improve
/// answers.
pub(crate) const CAPABILITIES: [InitFlags; 11] = [
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
    InitFlags::FUSE_ATOMIC_O_TRUNC,
    InitFlags::FUSE_AUTO_INVAL_DATA,
    InitFlags::FUSE_CACHE_SYMLINKS,
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
    InitFlags::FUSE_ASYNC_DIO,
    InitFlags::FUSE_HAS_IOCTL_DIR,
    // The kernel judges by access control lists; the namespace applies the umask, since it knows what a file inherits.
    InitFlags::FUSE_POSIX_ACL,
    InitFlags::FUSE_DONT_MASK,
];
/// Stack depth for passthrough: data folders may be on a stacked file system themselves, like those of containers.
const STACKED: u32 = 2;
pub(crate) const GENERATION: Generation = Generation(0);

impl Filesystem for FuseHandler {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for flag in CAPABILITIES {
            // A capability that this kernel lacks is not used.
            let _ = config.add_capabilities(flag);
        }
        let files = &self.0;
        if files.options.passthrough
            // The kernel would read changes of others without asking.
            && files.options.as_of.is_none()
            && !files.folders.is_empty()
            && config.set_max_stack_depth(STACKED).is_ok()
            && config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok()
        {
            files.passthrough.store(true, Ordering::Relaxed);
        }
        let _ = config.set_max_background(64);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name_: &OsStr, reply: ReplyEntry) {
        if is_view(parent.0) {
            return self.entry(reply, self.0.look_up_view(parent.0, name_));
        }
        let found = self.0.node(parent.0).and_then(|directory| {
            let name = name(name_)?;
            Ok(self.0.look_up(&directory, &name)?.1)
        });
        let found = match found {
            Err(e) if e.code() == Errno::ENOENT.code() && self.0.names_views(parent.0, name_) => {
                self.0.views_top()
            }
            found => found,
        };
        match found {
            Ok(attributes) => {
                reply.entry(&self.0.options.timeout, &attributes, GENERATION);
            }
            Err(e) if e.code() == Errno::ENOENT.code() && !self.0.options.negative.is_zero() => {
                reply.entry(&self.0.options.negative, &attributes::nothing(), GENERATION);
            }
            Err(e) => reply.error(e),
        }
    }

    fn forget(&self, _request: &Request, ino: INodeNo, times: u64) {
        if is_view(ino.0) {
            return self.0.forget_view(ino.0, times);
        }
        self.0.nodes.forget(ino.0, times);
    }

    fn getattr(&self, _request: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        let found = if is_view(ino.0) {
            self.0.view_attributes(ino.0)
        } else {
            self.0.node(ino.0).and_then(|n| self.0.attributes_of(&n))
        };
        match found {
            Ok(attributes) => reply.attr(&self.0.options.timeout, &attributes),
            Err(e) => reply.error(e),
        }
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let principal = self.0.groups.principal(request);
        let requested = SetAttr {
            mode,
            uid,
            gid,
            size,
            atime,
            mtime,
        };
        let set = self
            .0
            .node(ino.0)
            .and_then(|node| self.0.set_attributes(&principal, &node, requested));
        match set {
            Ok(attributes) => reply.attr(&self.0.options.timeout, &attributes),
            Err(e) => reply.error(e),
        }
    }

    fn readlink(&self, _request: &Request, ino: INodeNo, reply: ReplyData) {
        match self.0.node(ino.0).and_then(|n| self.0.read_link(&n)) {
            Ok(target) => reply.data(&target),
            Err(e) => reply.error(e),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let new = NewNode {
            mode,
            umask,
            rdev: u64::from(rdev),
            content: Content::None,
        };
        self.entry(reply, self.make(request, (parent, name), new));
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let new = NewNode {
            mode: Kind::Directory.bits() | mode & 0o7777,
            umask,
            rdev: 0,
            content: Content::None,
        };
        self.entry(reply, self.make(request, (parent, name), new));
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let new = NewNode {
            mode: Kind::Symlink.bits() | 0o777,
            umask: 0,
            rdev: 0,
            content: Content::Symlink(target.as_os_str().as_bytes().to_vec()),
        };
        self.entry(reply, self.make(request, (parent, name), new));
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name_: &OsStr, reply: ReplyEmpty) {
        let principal = self.0.groups.principal(request);
        let removed = self.0.node(parent.0).and_then(|directory| {
            let name = name(name_)?;
            self.0.unlink(&principal, &directory, &name)
        });
        reply_empty(reply, removed);
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name_: &OsStr, reply: ReplyEmpty) {
        let principal = self.0.groups.principal(request);
        let removed = self.0.node(parent.0).and_then(|directory| {
            let name = name(name_)?;
            self.0.rmdir(&principal, &directory, &name)
        });
        reply_empty(reply, removed);
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name_: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let Some(mode) = RenameMode::of_flags(flags) else {
            reply.error(Errno::EINVAL);
            return;
        };
        let principal = self.0.groups.principal(request);
        let moved = self.0.node(parent.0).and_then(|from| {
            let to = self.0.node(newparent.0)?;
            let (old, new) = (name(name_)?, name(newname)?);
            self.0.rename(&principal, (&from, &old), (&to, &new), mode)
        });
        reply_empty(reply, moved);
    }

    fn link(
        &self,
        request: &Request,
        ino: INodeNo,
        newparent: INodeNo,
        newname: &OsStr,
        reply: ReplyEntry,
    ) {
        let principal = self.0.groups.principal(request);
        let linked = self.0.node(ino.0).and_then(|node| {
            let (directory, name) = (self.0.node(newparent.0)?, name(newname)?);
            self.0.link(&principal, &node, &directory, &name)
        });
        self.entry(reply, linked.map(|(_, attributes)| attributes));
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let principal = self.0.groups.principal(request);
        if is_view(ino.0) {
            return match self.0.open_view(&principal, ino.0, flags.0) {
                // The size is not known to the kernel, so that it must not limit reads.
                Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::FOPEN_DIRECT_IO),
                Err(e) => reply.error(e),
            };
        }
        let opened = self.0.node(ino.0).and_then(|node| {
            let register = |file: &std::fs::File| reply.open_backing(file);
            let opened = self.0.open(&principal, &node, flags.0, &register)?;
            Ok((self.handle(request, &node, flags.0, false), opened))
        });
        match opened {
            Err(e) => reply.error(e),
            Ok((handle, opened)) => match &opened.backing {
                Some(backing) => reply.opened_passthrough(handle, opened.flags, backing),
                None => reply.opened(handle, opened.flags),
            },
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name_: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let register = |file: &std::fs::File| reply.open_backing(file);
        let new = NewNode {
            mode: Kind::File.bits() | mode & 0o7777,
            umask,
            rdev: 0,
            content: Content::None,
        };
        let made = self.create_and_open(request, (parent, name_), (new, flags), &register);
        let timeout = &self.0.options.timeout;
        match made {
            Err(e) => reply.error(e),
            Ok((attributes, handle, opened)) => match &opened.backing {
                Some(backing) => reply.created_passthrough(
                    timeout,
                    &attributes,
                    GENERATION,
                    handle,
                    opened.flags,
                    backing,
                ),
                None => {
                    reply.created(timeout, &attributes, GENERATION, handle, opened.flags);
                }
            },
        }
    }

    fn read(
        &self,
        _request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = if is_view(ino.0) {
            self.0.read_view(fh.0, offset, size)
        } else {
            self.0
                .node(ino.0)
                .and_then(|n| self.0.read(&n, offset, size))
        };
        match read {
            Ok(data) => reply.data(&data),
            Err(e) => reply.error(e),
        }
    }

    fn write(
        &self,
        request: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let kill = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let principal = self.0.groups.principal(request);
        let written = self
            .0
            .node(ino.0)
            .and_then(|node| self.0.write(&principal, &node, offset, data, kill));
        match written {
            Ok(n) => reply.written(n),
            Err(e) => reply.error(e),
        }
    }

    fn flush(
        &self,
        request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        if is_view(ino.0) {
            return reply.ok();
        }
        if let Some(recorder) = &self.0.recorder {
            recorder.flushed(request.pid(), fh.0 >> 1);
        }
        if fh.0 & 1 == 0 {
            reply.ok();
            return;
        }
        reply_empty(reply, self.0.node(ino.0).and_then(|n| self.0.flush(&n)));
    }

    fn release(
        &self,
        _request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        if is_view(ino.0) {
            self.0.close_view(fh.0);
            return reply.ok();
        }
        if let Ok(node) = self.0.node(ino.0) {
            self.0.release(&node, fh.0 & 1 != 0);
        }
        if let Some(recorder) = &self.0.recorder {
            recorder.closed(fh.0 >> 1);
        }
        reply.ok();
    }

    fn fsync(
        &self,
        _request: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        reply_empty(reply, self.0.node(ino.0).and_then(|n| self.0.sync(&n)));
    }

    fn opendir(&self, _request: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let handle = self.0.streams.open();
        reply.opened(FileHandle(handle), FopenFlags::empty());
    }

    fn readdir(
        &self,
        _request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        match self.list_names((ino, fh), offset, &mut reply) {
            Ok(()) => reply.ok(),
            Err(e) => reply.error(e),
        }
    }

    fn readdirplus(
        &self,
        _request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        match self.list_with_attributes((ino, fh), offset, &mut reply) {
            Ok(()) => reply.ok(),
            Err(e) => reply.error(e),
        }
    }

    fn releasedir(
        &self,
        _request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.0.streams.close(fh.0);
        reply.ok();
    }

    fn fsyncdir(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        let persisted = self.0.target.persist();
        reply_empty(reply, persisted.map_err(|e| attributes::errno(&e)));
    }

    fn statfs(&self, _request: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        match self.0.statfs() {
            // The number of files is limited only by the space of the store.
            Ok(s) => reply.statfs(
                s.blocks,
                s.free,
                s.available,
                s.files + (1 << 40),
                1 << 40,
                s.block_bytes,
                255,
                s.block_bytes,
            ),
            Err(e) => reply.error(e),
        }
    }

    fn setxattr(
        &self,
        request: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let principal = self.0.groups.principal(request);
        let (name, value) = (name.as_bytes(), Some(value));
        let set = self
            .0
            .node(ino.0)
            .and_then(|node| self.0.set_xattr(&principal, &node, name, value, flags));
        reply_empty(reply, set);
    }

    fn getxattr(
        &self,
        _request: &Request,
        ino: INodeNo,
        name: &OsStr,
        size: u32,
        reply: ReplyXattr,
    ) {
        let node = if is_view(ino.0) {
            if name.as_bytes() != ACL_ACCESS {
                return reply.error(Errno::ENODATA);
            }
            // The kernel judges the view as the file.
            self.0.viewed_file(ino.0)
        } else {
            self.0.node(ino.0)
        };
        reply_sized(
            reply,
            size,
            node.and_then(|n| self.0.xattr(&n, name.as_bytes())),
        );
    }

    fn listxattr(&self, request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        if is_view(ino.0) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let principal = self.0.groups.principal(request);
        let node = self.0.node(ino.0);
        reply_sized(
            reply,
            size,
            node.and_then(|n| self.0.xattr_names(&principal, &n)),
        );
    }

    fn removexattr(&self, request: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        // The kernel demands rights of its own for this one, and removes it for every user who writes the file.
        let principal = if name == "security.capability" {
            MOUNT
        } else {
            self.0.groups.principal(request)
        };
        let set = self.0.node(ino.0).and_then(|node| {
            self.0
                .set_xattr(&principal, &node, name.as_bytes(), None, 0)
        });
        reply_empty(reply, set);
    }

    fn fallocate(
        &self,
        request: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let principal = self.0.groups.principal(request);
        let allocated = self.0.node(ino.0).and_then(|n| {
            let range = (offset, length);
            self.0.allocate(&principal, &n, range, mode)
        });
        reply_empty(reply, allocated);
    }

    fn ioctl(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _flags: IoctlFlags,
        command: u32,
        argument: &[u8],
        _out_size: u32,
        reply: ReplyIoctl,
    ) {
        match inode_flags::control(command, argument) {
            Ok(data) => reply.ioctl(0, &data),
            Err(e) => reply.error(e),
        }
    }

    fn lseek(
        &self,
        _request: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        match self.0.node(ino.0).and_then(|n| n.seek(offset, whence)) {
            Ok(place) => reply.offset(place),
            Err(e) => reply.error(e),
        }
    }

    fn copy_file_range(
        &self,
        request: &Request,
        ino_in: INodeNo,
        _fh_in: FileHandle,
        offset_in: u64,
        ino_out: INodeNo,
        _fh_out: FileHandle,
        offset_out: u64,
        len: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let principal = self.0.groups.principal(request);
        let copied = self.0.node(ino_in.0).and_then(|from| {
            let to = self.0.node(ino_out.0)?;
            self.0
                .copy_range(&principal, (&from, offset_in), (&to, offset_out), len)
        });
        match copied {
            Ok(n) => reply.written(n),
            Err(e) => reply.error(e),
        }
    }
}
