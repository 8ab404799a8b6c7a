//! A null file system, for measurements: the difference to it is the cost of the namespace, the rest that of the kernel
//! and the protocol. It has names and kinds in memory, and no contents.

use crate::attributes;
use crate::mount_point;
use crate::options::Options;
use crate::session::{Mounted, begin};
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

const SHARDS: usize = 64;
const GENERATION: Generation = Generation(0);
/// Step between the numbers of directories, which are even; those of files are odd.
const DIRECTORY_EACH: u64 = 2;

/// Mounts the null file system, with the settings of a mount that it is compared with.
pub fn mount_null(at: &Path, options: &Options) -> io::Result<Mounted> {
    let at = mount_point::demand_free(at)?;
    let null = Null {
        entries: std::array::from_fn(|_| Mutex::default()),
        next: AtomicU64::new(2),
        options: options.clone(),
    };
    begin(null, &at, options, |_| {})
}

struct Null {
    entries: [Mutex<HashMap<(u64, Box<[u8]>), u64>>; SHARDS],
    next: AtomicU64,
    options: Options,
}

impl Null {
    fn shard(&self, parent: u64, name: &[u8]) -> &Mutex<HashMap<(u64, Box<[u8]>), u64>> {
        let fold = |sum: u64, byte: &u8| sum.wrapping_mul(31).wrapping_add(u64::from(*byte));
        &self.entries[(name.iter().fold(parent, fold) % SHARDS as u64) as usize]
    }

    fn attributes(number: u64) -> FileAttr {
        let directory = number == 1 || number.is_multiple_of(DIRECTORY_EACH);
        FileAttr {
            ino: INodeNo(number),
            kind: if directory {
                FileType::Directory
            } else {
                FileType::RegularFile
            },
            perm: if directory { 0o777 } else { 0o666 },
            nlink: 1,
            mtime: UNIX_EPOCH,
            ..attributes::nothing()
        }
    }

    fn make(&self, parent: INodeNo, name: &OsStr, directory: bool) -> FileAttr {
        let number = self.next.fetch_add(1, Ordering::Relaxed) * 2 + u64::from(!directory);
        let key = (parent.0, name.as_bytes().into());
        self.shard(parent.0, name.as_bytes())
            .lock()
            .insert(key, number);
        Self::attributes(number)
    }

    fn remove(&self, parent: INodeNo, name: &OsStr) -> bool {
        let key = (parent.0, name.as_bytes().into());
        let shard = self.shard(parent.0, name.as_bytes());
        shard.lock().remove(&key).is_some()
    }
}

impl Filesystem for Null {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for flag in crate::fuse::CAPABILITIES {
            let _ = config.add_capabilities(flag);
        }
        let _ = config.add_capabilities(InitFlags::FUSE_BIG_WRITES);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let key = (parent.0, name.as_bytes().into());
        let found = self
            .shard(parent.0, name.as_bytes())
            .lock()
            .get(&key)
            .copied();
        match found {
            Some(n) => reply.entry(&self.options.timeout, &Self::attributes(n), GENERATION),
            None => reply.entry(&self.options.negative, &attributes::nothing(), GENERATION),
        }
    }

    fn getattr(&self, _request: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&self.options.timeout, &Self::attributes(ino.0));
    }

    fn setattr(
        &self,
        _request: &Request,
        ino: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        _size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        reply.attr(&self.options.timeout, &Self::attributes(ino.0));
    }

    fn mkdir(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let made = self.make(parent, name, true);
        reply.entry(&self.options.timeout, &made, GENERATION);
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        if self.remove(parent, name) {
            reply.ok();
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.unlink(request, parent, name, reply);
    }

    fn create(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let made = self.make(parent, name, false);
        reply.created(
            &self.options.timeout,
            &made,
            GENERATION,
            FileHandle(1),
            FopenFlags::empty(),
        );
    }

    fn read(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _offset: u64,
        _size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        reply.data(&[]);
    }

    fn write(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        reply.written(data.len() as u32);
    }

    fn flush(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }

    fn readdir(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _offset: u64,
        reply: ReplyDirectory,
    ) {
        reply.ok();
    }

    fn getxattr(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _name: &OsStr,
        _size: u32,
        reply: ReplyXattr,
    ) {
        reply.error(Errno::ENODATA);
    }
}
