//! A FUSE file system for data folders that shows another folder and fails on request.

use fuser::{
    BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, Session, SessionACL,
    TimeOrNow, WriteFlags,
};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use rustix::fs::{Mode, OFlags};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

const NOW: Duration = Duration::ZERO;

/// The mounted failing file system.
pub(crate) struct FailingMount {
    at: tempfile::TempDir,
    _below: tempfile::TempDir,
    fails: Arc<AtomicBool>,
    session: Option<fuser::BackgroundSession>,
}

struct FailingFs {
    below: PathBuf,
    fails: Arc<AtomicBool>,
    /// Paths by number; the root has number 1.
    paths: Mutex<HashMap<u64, PathBuf>>,
}

impl FailingMount {
    pub(crate) fn new() -> Self {
        let (at, below) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let fails = Arc::new(AtomicBool::new(false));
        let filesystem = FailingFs {
            below: below.path().to_owned(),
            fails: Arc::clone(&fails),
            paths: Mutex::new(HashMap::from([(1, PathBuf::new())])),
        };
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let device: OwnedFd = rustix::fs::open("/dev/fuse", flags, Mode::empty()).unwrap();
        let data = format!(
            "fd={},rootmode=40000,user_id=0,group_id=0",
            device.as_raw_fd()
        );
        let (kind, options) = (Some("fuse.failing"), Some(data.as_str()));
        mount(kind, at.path(), kind, MsFlags::empty(), options).unwrap();
        let session = Session::from_fd(filesystem, device, SessionACL::All, Config::default());
        let session = session.unwrap().spawn().unwrap();
        Self {
            at,
            _below: below,
            fails,
            session: Some(session),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.at.path()
    }

    /// Makes all calls that touch contents or create files fail with `EIO`, or succeed again.
    pub(crate) fn fail(&self, fails: bool) {
        self.fails.store(fails, Ordering::SeqCst);
    }
}

impl Drop for FailingMount {
    fn drop(&mut self) {
        let _ = umount2(self.at.path(), MntFlags::MNT_DETACH);
        drop(self.session.take());
    }
}

type Answer<T> = Result<T, Errno>;

fn with_errno<T>(done: io::Result<T>) -> Answer<T> {
    done.map_err(Errno::from)
}

impl FailingFs {
    fn path(&self, number: INodeNo) -> PathBuf {
        let paths = self.paths.lock().unwrap();
        self.below
            .join(paths.get(&number.0).cloned().unwrap_or_default())
    }

    fn sound(&self) -> Answer<()> {
        if self.fails.load(Ordering::SeqCst) {
            return Err(Errno::EIO);
        }
        Ok(())
    }

    fn look(&self, path: &Path) -> Answer<FileAttr> {
        let found = with_errno(fs::symlink_metadata(path))?;
        let number = if path == self.below { 1 } else { found.ino() };
        let within = path.strip_prefix(&self.below).unwrap().to_owned();
        self.paths.lock().unwrap().insert(number, within);
        let time = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        Ok(FileAttr {
            ino: INodeNo(number),
            size: found.len(),
            blocks: found.blocks(),
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind: if found.is_dir() {
                FileType::Directory
            } else {
                FileType::RegularFile
            },
            perm: (found.mode() & 0o7777) as u16,
            nlink: u32::try_from(found.nlink()).unwrap(),
            uid: found.uid(),
            gid: found.gid(),
            rdev: 0,
            blksize: 4_096,
            flags: 0,
        })
    }

    fn open_file(&self, number: INodeNo) -> Answer<File> {
        self.sound()?;
        with_errno(
            OpenOptions::new()
                .read(true)
                .write(true)
                .open(self.path(number)),
        )
    }
}

fn done(reply: ReplyEmpty, answer: Answer<()>) {
    match answer {
        Ok(()) => reply.ok(),
        Err(e) => reply.error(e),
    }
}

fn entry(reply: ReplyEntry, answer: Answer<FileAttr>) {
    match answer {
        Ok(found) => reply.entry(&NOW, &found, Generation(0)),
        Err(e) => reply.error(e),
    }
}

impl Filesystem for FailingFs {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entry(reply, self.look(&self.path(parent).join(name)));
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.look(&self.path(ino)) {
            Ok(found) => reply.attr(&NOW, &found),
            Err(e) => reply.error(e),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.path(ino);
        let set = size
            .map_or(Ok(()), |size| {
                self.open_file(ino)
                    .and_then(|file| with_errno(file.set_len(size)))
            })
            .and_then(|()| match mode {
                Some(mode) => with_errno(fs::set_permissions(
                    &path,
                    fs::Permissions::from_mode(mode & 0o7777),
                )),
                None => Ok(()),
            })
            .and_then(|()| self.look(&path));
        match set {
            Ok(found) => reply.attr(&NOW, &found),
            Err(e) => reply.error(e),
        }
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        let path = self.path(parent).join(name);
        let made = self
            .sound()
            .and_then(|()| with_errno(fs::create_dir(&path)));
        entry(reply, made.and_then(|()| self.look(&path)));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(
            reply,
            with_errno(fs::remove_file(self.path(parent).join(name))),
        );
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (from, to) = (
            self.path(parent).join(name),
            self.path(newparent).join(newname),
        );
        let moved = self
            .sound()
            .and_then(|()| with_errno(fs::rename(from, &to)));
        done(reply, moved.and_then(|()| self.look(&to).map(drop)));
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        _: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let path = self.path(parent).join(name);
        let made = self.sound().and_then(|()| with_errno(File::create(&path)));
        match made.and_then(|_| self.look(&path)) {
            Ok(found) => {
                reply.created(
                    &NOW,
                    &found,
                    Generation(0),
                    FileHandle(1),
                    FopenFlags::FOPEN_DIRECT_IO,
                );
            }
            Err(e) => reply.error(e),
        }
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.open_file(ino) {
            Ok(_) => reply.opened(FileHandle(1), FopenFlags::FOPEN_DIRECT_IO),
            Err(e) => reply.error(e),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut bytes = vec![0; size as usize];
        let read = self
            .open_file(ino)
            .and_then(|file| with_errno(file.read_at(&mut bytes, offset)));
        match read {
            Ok(n) => reply.data(&bytes[..n]),
            Err(e) => reply.error(e),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = self
            .open_file(ino)
            .and_then(|file| with_errno(file.write_all_at(data, offset)));
        match written {
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap()),
            Err(e) => reply.error(e),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let path = self.path(ino);
        let mut names: Vec<_> = match fs::read_dir(&path) {
            Ok(entries) => entries.map(|e| e.unwrap().file_name()).collect(),
            Err(e) => return reply.error(e.into()),
        };
        names.sort();
        for (n, name) in names
            .iter()
            .enumerate()
            .skip(usize::try_from(offset).unwrap())
        {
            if let Ok(found) = self.look(&path.join(name))
                && reply.add(found.ino, n as u64 + 1, found.kind, name)
            {
                break;
            }
        }
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        done(reply, self.sound());
    }
}
