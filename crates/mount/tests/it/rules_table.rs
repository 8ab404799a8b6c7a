//! Parts of the tables of rules: callers, expected results, and the report of differences.

use crate::people::{Person, by};
use crate::scratch::{Scratch, mounting};
use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, Timespec, Timestamps, Uid};
use rustix::io::Errno;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) const OK: Option<Errno> = None;

/// One case: a call by a user and its result.
pub(crate) struct Case<'a> {
    at: &'a Path,
    told: Vec<String>,
    count: u32,
}

impl Case<'_> {
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.at.join(name)
    }

    pub(crate) fn expect<T: Send>(
        &mut self,
        what: &str,
        who: Person,
        expected: Option<Errno>,
        call: impl FnOnce() -> rustix::io::Result<T> + Send,
    ) {
        self.count += 1;
        let got = by(who, call).err();
        if got != expected {
            self.told.push(format!(
                "{what}, by {}: expected {expected:?}, got {got:?}",
                who.uid
            ));
        }
    }

    pub(crate) fn check(&mut self, what: &str, holds: bool) {
        self.count += 1;
        if !holds {
            self.told.push(format!("{what} does not hold"));
        }
    }

    pub(crate) fn file(&self, name: &str, who: Person, mode: u32) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, "").unwrap();
        hand(&path, who, mode);
        path
    }

    pub(crate) fn directory(&self, name: &str, who: Person, mode: u32) -> PathBuf {
        let path = self.path(name);
        fs::create_dir(&path).unwrap();
        hand(&path, who, mode);
        path
    }
}

pub(crate) fn hand(path: &Path, who: Person, mode: u32) {
    std::os::unix::fs::chown(path, Some(who.uid), Some(who.gid)).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

pub(crate) fn open(path: &Path, flags: OFlags) -> rustix::io::Result<()> {
    rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::from_raw_mode(0o644)).map(drop)
}

pub(crate) fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

pub(crate) fn chmod(path: &Path, mode: u32) -> rustix::io::Result<()> {
    rustix::fs::chmod(path, Mode::from_raw_mode(mode))
}

pub(crate) fn chown(path: &Path, uid: Option<u32>, gid: Option<u32>) -> rustix::io::Result<()> {
    let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
    rustix::fs::chownat(CWD, path, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
}

pub(crate) fn rename(from: &Path, to: &Path) -> rustix::io::Result<()> {
    rustix::fs::rename(from, to)
}

pub(crate) fn link(from: &Path, to: &Path) -> rustix::io::Result<()> {
    rustix::fs::linkat(CWD, from, CWD, to, AtFlags::empty())
}

pub(crate) fn mkdir(path: &Path) -> rustix::io::Result<()> {
    rustix::fs::mkdir(path, Mode::from_raw_mode(0o755))
}

pub(crate) fn utimes(path: &Path, atime: i64, mtime: i64) -> rustix::io::Result<()> {
    let time = |nsec: i64| Timespec {
        tv_sec: 1_000,
        tv_nsec: nsec as _,
    };
    let times = Timestamps {
        last_access: time(atime),
        last_modification: time(mtime),
    };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)
}

/// Whether a call changes a file's change time.
pub(crate) fn changes(path: &Path, call: impl FnOnce()) -> bool {
    let time = |path: &Path| {
        let meta = fs::symlink_metadata(path).unwrap();
        (meta.ctime(), meta.ctime_nsec())
    };
    let before = time(path);
    std::thread::sleep(Duration::from_millis(5));
    call();
    time(path) > before
}

pub(crate) fn table(name: &str, play: impl FnOnce(&mut Case<'_>) + Send + 'static) {
    let name = name.to_owned();
    mounting(move || {
        let scratch = Scratch::new();
        let at = scratch.path(&name);
        fs::create_dir(&at).unwrap();
        fs::set_permissions(&at, fs::Permissions::from_mode(0o777)).unwrap();
        let mut case = Case {
            at: &at,
            told: Vec::new(),
            count: 0,
        };
        play(&mut case);
        assert!(
            case.told.is_empty(),
            "of {} cases, {} are otherwise:\n{}",
            case.count,
            case.told.len(),
            case.told.join("\n")
        );
    });
}
