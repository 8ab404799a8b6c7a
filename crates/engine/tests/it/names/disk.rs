//! Changes on a real file system, by a thread that assumes other users' rights.

use super::path;
use esker_model::namespace::{ACL_ACCESS, ACL_DEFAULT, Change, Content, Errno, NamePath};
use esker_model::object::Principal;
use rustix::fs::{
    self, AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno as Os;
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Runs `call` with a principal's rights on this thread, which otherwise runs as user 0.
pub(super) fn acting<T>(principal: &Principal, call: impl FnOnce() -> T) -> T {
    let groups: Vec<Gid> = principal
        .gids
        .iter()
        .map(|g| Gid::from_raw(*g as u32))
        .collect();
    rustix::thread::set_thread_groups(&groups).unwrap();
    let gid = groups.first().copied().unwrap_or(Gid::ROOT);
    rustix::thread::set_thread_res_gid(None::<Gid>, gid, None::<Gid>).unwrap();
    rustix::thread::set_thread_res_uid(
        None::<Uid>,
        Uid::from_raw(principal.uid as u32),
        None::<Uid>,
    )
    .unwrap();
    let done = call();
    rustix::thread::set_thread_res_uid(None::<Uid>, Uid::ROOT, None::<Uid>).unwrap();
    rustix::thread::set_thread_res_gid(None::<Gid>, Gid::ROOT, None::<Gid>).unwrap();
    done
}

pub(super) fn real(path: &NamePath) -> &Path {
    Path::new(std::ffi::OsStr::from_bytes(path.as_bytes()))
}

/// Makes the change; returns the kernel's answer.
pub(super) fn change(change: &Change) -> Result<(), Os> {
    match change {
        Change::Create(path, make) => {
            let mode = Mode::from_raw_mode(make.mode & 0o7777);
            match FileType::from_raw_mode(make.mode) {
                FileType::Directory => fs::mkdir(real(path), mode),
                FileType::Symlink => {
                    let Content::Symlink(target) = &make.content else {
                        panic!()
                    };
                    fs::symlink(target.as_slice(), real(path))
                }
                kind => fs::mknodat(fs::CWD, real(path), kind, mode, 0),
            }
        }
        Change::Unlink(path) => fs::unlink(real(path)),
        Change::Rmdir(path) => fs::rmdir(real(path)),
        Change::Rename {
            from,
            to,
            no_replace,
        } => {
            let flags = if *no_replace {
                RenameFlags::NOREPLACE
            } else {
                RenameFlags::empty()
            };
            fs::renameat_with(fs::CWD, real(from), fs::CWD, real(to), flags)
        }
        Change::Exchange { from, to } => {
            let flags = RenameFlags::EXCHANGE;
            fs::renameat_with(fs::CWD, real(from), fs::CWD, real(to), flags)
        }
        Change::Link { from, to } => fs::link(real(from), real(to)),
        Change::Set { path, follow, set } => {
            let flags = if *follow {
                AtFlags::empty()
            } else {
                AtFlags::SYMLINK_NOFOLLOW
            };
            if let Some(size) = set.size {
                // As truncate(2), which reports this first; opening a pipe reports other errors.
                let kind = FileType::from_raw_mode(fs::stat(real(path))?.st_mode);
                if !matches!(kind, FileType::RegularFile | FileType::Directory) {
                    return Err(Os::INVAL);
                }
                let file = fs::open(real(path), OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
                return fs::ftruncate(file, size);
            }
            if set.uid.is_some() || set.gid.is_some() {
                let (uid, gid) = (set.uid.map(Uid::from_raw), set.gid.map(Gid::from_raw));
                return fs::chownat(fs::CWD, real(path), uid, gid, flags);
            }
            if let Some(mode) = set.mode {
                return fs::chmodat(
                    fs::CWD,
                    real(path),
                    Mode::from_raw_mode(mode),
                    AtFlags::empty(),
                );
            }
            let time = |t: Option<i64>| fs::Timespec {
                tv_sec: t.unwrap_or(0).div_euclid(1_000_000_000),
                tv_nsec: t.unwrap_or(0).rem_euclid(1_000_000_000),
            };
            let times = Timestamps {
                last_access: time(set.atime),
                last_modification: time(set.mtime),
            };
            fs::utimensat(fs::CWD, real(path), &times, flags)
        }
        Change::Xattr {
            path, name, value, ..
        } => match value {
            Some(value) => fs::setxattr(real(path), name.as_slice(), value, XattrFlags::empty()),
            None => fs::removexattr(real(path), name.as_slice()),
        },
        Change::Write { .. } => unreachable!("what is written is open: `opened`"),
        Change::Merge(_) => unreachable!("file systems have no such call"),
    }
}

/// Whether both errors have the same number.
pub(super) fn same(errno: Errno, os: Os) -> bool {
    errno.number() == os.raw_os_error()
}

/// Attributes of a file that are compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileAttributes {
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) links: u32,
    pub(super) size: Option<u64>,
    pub(super) target: Option<Vec<u8>>,
    /// Extended attributes that were set explicitly.
    pub(super) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Returns the attributes of the file at a path, with the rights of the acting user.
pub(super) fn attributes(path: &NamePath) -> Result<FileAttributes, Os> {
    let stat = fs::lstat(real(path))?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    let target = (kind == FileType::Symlink)
        .then(|| fs::readlink(real(path), Vec::new()).unwrap().into_bytes());
    let mut xattrs = Vec::new();
    if kind != FileType::Symlink {
        for name in [ACL_ACCESS, ACL_DEFAULT, b"user.a", b"user.b"] {
            let mut value = [0; 256];
            if let Ok(n) = fs::lgetxattr(real(path), name, &mut value) {
                xattrs.push((name.to_vec(), value[..n].to_vec()));
            }
        }
    }
    Ok(FileAttributes {
        mode: stat.st_mode,
        uid: stat.st_uid,
        gid: stat.st_gid,
        links: stat.st_nlink as u32,
        // File systems report different sizes of directories.
        size: (kind != FileType::Directory).then_some(stat.st_size as u64),
        target,
        xattrs,
    })
}

/// Collects everything below a directory that the acting user may see.
pub(super) fn tree(at: &NamePath, out: &mut BTreeMap<NamePath, FileAttributes>) {
    let Ok(directory) = fs::open(
        real(at),
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    ) else {
        return;
    };
    let mut entries = fs::Dir::new(directory).unwrap();
    while let Some(Ok(entry)) = entries.next() {
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        let below = path(std::str::from_utf8(&[at.as_bytes(), b"/", name].concat()).unwrap());
        if let Ok(seen) = attributes(&below) {
            let is_directory = seen.mode & 0o17_0000 == 0o4_0000;
            out.insert(below.clone(), seen);
            if is_directory {
                tree(&below, out);
            }
        }
    }
}
