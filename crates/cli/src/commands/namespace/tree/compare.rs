//! Comparison of a file of this machine with its entry in the database.

use esker::Database;
use esker_model::namespace::{
    Change, Content, Inode, Kind, NamePath, Namespace as _, NewFile, SetAttributes,
};
use esker_model::{NeverCancel, Result};
use rustix::fs::{self, AtFlags, CWD, Stat, Statx, StatxFlags};
use rustix::io::Errno as Os;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::path::Path;

/// Metadata of a file of this machine.
pub(super) struct FileMetadata {
    pub(super) mode: u32,
    pub(super) links: u32,
    /// Device and inode number; names with the same pair are one file.
    pub(super) identity: (u64, u64),
    uid: u32,
    gid: u32,
    size: u64,
    blocks: u64,
    rdev: u64,
    /// Times of access, content change, attribute change and creation, in nanoseconds since 1970.
    times: [Option<i64>; 4],
    pub(super) target: Option<Vec<u8>>,
}

fn nanos(seconds: i64, nanos: u32) -> i64 {
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(i64::from(nanos))
}

/// Reads the metadata of an entry of an open directory; for a symbolic link, of the link itself.
pub(super) fn stat_entry(directory: impl AsFd, name: &std::ffi::CStr) -> Result<FileMetadata, Os> {
    let directory = directory.as_fd();
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let want = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let mut found = match fs::statx(directory, name, flags, want) {
        Ok(statx) => of_statx(&statx),
        // Kernels before 4.11 and some sandboxes lack `statx`.
        Err(Os::NOSYS) => of_stat(&fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?),
        Err(e) => return Err(e),
    };
    if Kind::of_mode(found.mode) == Some(Kind::Symlink) {
        found.target = Some(fs::readlinkat(directory, name, Vec::new())?.into_bytes());
    }
    Ok(found)
}

/// Reads the metadata of a directory by its path.
pub(super) fn stat_path(path: &Path) -> std::io::Result<FileMetadata> {
    Ok(of_stat(&fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?))
}

/// Reads the metadata of an open directory.
pub(super) fn stat_open(directory: impl AsFd) -> std::io::Result<FileMetadata> {
    Ok(of_stat(&fs::fstat(directory)?))
}

fn of_statx(s: &Statx) -> FileMetadata {
    let time = |t: &fs::StatxTimestamp| Some(nanos(t.tv_sec, t.tv_nsec));
    let device = |major: u32, minor: u32| fs::makedev(major, minor);
    let born = StatxFlags::from_bits_retain(s.stx_mask).contains(StatxFlags::BTIME);
    FileMetadata {
        mode: u32::from(s.stx_mode),
        links: s.stx_nlink,
        identity: (device(s.stx_dev_major, s.stx_dev_minor), s.stx_ino),
        uid: s.stx_uid,
        gid: s.stx_gid,
        size: s.stx_size,
        blocks: s.stx_blocks,
        rdev: device(s.stx_rdev_major, s.stx_rdev_minor),
        times: [
            time(&s.stx_atime),
            time(&s.stx_mtime),
            time(&s.stx_ctime),
            if born {
                time(&s.stx_btime)
            } else {
                time(&s.stx_ctime)
            },
        ],
        target: None,
    }
}

#[expect(
    clippy::unnecessary_cast,
    reason = "these types differ between machines"
)]
fn of_stat(s: &Stat) -> FileMetadata {
    let time = |seconds: i64, n: u64| Some(nanos(seconds, n as u32));
    let ctime = time(s.st_ctime as i64, s.st_ctime_nsec as u64);
    FileMetadata {
        mode: s.st_mode,
        links: s.st_nlink as u32,
        identity: (s.st_dev as u64, s.st_ino as u64),
        uid: s.st_uid,
        gid: s.st_gid,
        size: s.st_size as u64,
        blocks: s.st_blocks as u64,
        rdev: s.st_rdev as u64,
        times: [
            time(s.st_atime as i64, s.st_atime_nsec as u64),
            time(s.st_mtime as i64, s.st_mtime_nsec as u64),
            ctime,
            ctime,
        ],
        target: None,
    }
}

impl FileMetadata {
    /// Returns the metadata for a directory that does not exist on this machine.
    pub(super) fn directory() -> Self {
        Self {
            mode: Kind::Directory.bits() | 0o755,
            links: 2,
            identity: (0, 0),
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            size: 0,
            blocks: 0,
            rdev: 0,
            times: [None; 4],
            target: None,
        }
    }

    pub(super) fn is_directory(&self) -> bool {
        self.mode & Kind::MASK == Kind::Directory.bits()
    }

    /// Returns the attributes for creating the file.
    pub(super) fn into_new_file(self) -> NewFile {
        NewFile {
            mode: self.mode,
            umask: 0,
            uid: self.uid,
            gid: self.gid,
            size: self.size,
            blocks: self.blocks,
            rdev: self.rdev,
            times: self.times,
            content: self.target.map_or(Content::None, Content::Symlink),
            xattrs: Vec::new(),
        }
    }

    /// Whether the database's file can be changed to this one by attributes alone.
    pub(super) fn can_become(&self, inode: &Inode) -> bool {
        let target = match &inode.content {
            Content::Symlink(target) => Some(target),
            _ => None,
        };
        inode.mode & Kind::MASK == self.mode & Kind::MASK
            && self.target.as_ref() == target
            && inode.rdev == self.rdev
    }

    /// Returns the attributes to change; none if only the access time differs, because a scan changes it. A directory that lost an entry
    /// always gets its times.
    pub(super) fn changes(&self, inode: &Inode, removed: bool) -> Option<SetAttributes> {
        let differ = |a: Option<i64>, b: i64| a.is_some_and(|a| a != b);
        let [atime, mtime, ctime, _] = self.times;
        let directory = self.is_directory();
        let same = (self.mode, self.uid, self.gid, self.blocks)
            == (inode.mode, inode.uid, inode.gid, inode.blocks)
            && (directory || self.size == inode.size)
            && !differ(mtime, inode.mtime)
            && !differ(ctime, inode.ctime);
        if same && !removed {
            return None;
        }
        let sized = !directory && self.target.is_none() && self.size != inode.size;
        // A change of size or owner clears the setuid bit, unless the mode is set again.
        let drops = sized || (self.uid, self.gid) != (inode.uid, inode.gid);
        Some(SetAttributes {
            mode: ((self.mode != inode.mode || drops) && self.target.is_none())
                .then_some(self.mode & 0o7777),
            uid: (self.uid != inode.uid).then_some(self.uid),
            gid: (self.gid != inode.gid).then_some(self.gid),
            size: sized.then_some(self.size),
            blocks: (self.blocks != inode.blocks).then_some(self.blocks),
            atime,
            mtime,
            ctime,
            content: None,
        })
    }
}

/// Appends the changes that remove a path and everything below it.
pub(super) fn removal(database: &Database, path: &NamePath, out: &mut Vec<Change>) -> Result<()> {
    let mut directories = Vec::new();
    database.walk(None, path, &NeverCancel, &mut |path, inode| {
        if inode.is_directory() {
            directories.push(path.clone());
        } else {
            out.push(Change::Unlink(path.clone()));
        }
        ControlFlow::Continue(())
    })?;
    out.extend(directories.into_iter().rev().map(Change::Rmdir));
    Ok(())
}

/// Returns the change of a directory's own attributes, after those of its entries; `None` if it cannot be read any more.
pub(super) fn directory_change(
    database: &Database,
    found: std::io::Result<FileMetadata>,
    path: NamePath,
    removed: bool,
) -> Option<Change> {
    let found = found.ok()?;
    let inode = database.stat(None, &path, false).ok()?;
    let set = found.changes(&inode, removed)?;
    Some(Change::Set {
        path,
        follow: false,
        set,
    })
}

/// Returns the changes that make `to` a hard link of `from`, unless it is one.
pub(super) fn link(database: &Database, from: NamePath, to: NamePath) -> Result<Vec<Change>> {
    let mut changes = Vec::new();
    if let Ok(there) = database.stat(None, &to, false) {
        if database
            .stat(None, &from, false)
            .is_ok_and(|first| first.id == there.id)
        {
            return Ok(changes);
        }
        removal(database, &to, &mut changes)?;
    }
    changes.push(Change::Link { from, to });
    Ok(changes)
}
