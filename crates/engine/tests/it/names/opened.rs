//! Open files compared with those of a real file system: the same operations succeed through them, wherever their paths lead meanwhile.

use super::disk::{self, acting, real};
use super::errno;
use esker_engine::Engine;
use esker_model::Error;
use esker_model::namespace::{
    Content, Cookie, Errno, Inode, NamePath, Namespace, NewFile, Open, OpenFile, SetAttributes,
    XattrMode,
};
use esker_model::object::Principal;
use esker_testkit::names::{NAMES, random_path};
use esker_testkit::rng::Rng;
use rustix::fd::OwnedFd;
use rustix::fs::{self, FileType, Gid, Mode, OFlags, SeekFrom, Timespec, Timestamps, Uid};
use rustix::io::Errno as Os;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Maximum number of open files.
const OPEN_MAX: usize = 8;

/// A file that is open in both file systems.
struct Pair {
    principal: Principal,
    os: OwnedFd,
    esker: OpenFile,
}

/// All pairs of open files.
#[derive(Default)]
pub(super) struct Pairs(Vec<Pair>);

fn flags(how: Open) -> OFlags {
    let mut flags = match (how.read, how.write) {
        (true, true) => OFlags::RDWR,
        (false, true) => OFlags::WRONLY,
        _ => OFlags::RDONLY,
    };
    for (on, flag) in [
        (how.create, OFlags::CREATE),
        (how.exclusive, OFlags::EXCL),
        (how.truncate, OFlags::TRUNC),
        (how.no_follow, OFlags::NOFOLLOW),
        (how.directory, OFlags::DIRECTORY),
    ] {
        flags.set(flag, on);
    }
    flags | OFlags::CLOEXEC
}

fn same<T: std::fmt::Debug, U: std::fmt::Debug>(
    expected: &Result<T, Os>,
    got: &esker_model::Result<U>,
) {
    match (expected, got) {
        (Ok(_), Ok(_)) => {}
        (Err(os), Err(Error::File(e))) if disk::same(e.errno, *os) => {}
        _ => panic!("the file system says {expected:?}, Esker {got:?}"),
    }
}

/// Type and mode, owner, group, link count, and the size where it is comparable.
type Facts = (u32, u32, u32, u32, Option<u64>);

fn facts(inode: &Inode) -> Facts {
    let size = (!inode.is_directory()).then_some(inode.size);
    (inode.mode, inode.uid, inode.gid, inode.links, size)
}

fn facts_of(os: &OwnedFd) -> Facts {
    let stat = fs::fstat(os).unwrap();
    let directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    let size = (!directory).then_some(stat.st_size as u64);
    let links = stat.st_nlink as u32;
    (stat.st_mode, stat.st_uid, stat.st_gid, links, size)
}

/// Whether the content is inline: a size that was set by path implies no content.
fn is_here(inode: &Inode) -> bool {
    inode.size == 0 || matches!(inode.content, Content::Inline(_))
}

impl Pairs {
    /// Opens, closes, reads or changes a random file.
    pub(super) fn step(
        &mut self,
        rng: &mut Rng,
        engine: &Engine,
        people: &[Principal; 3],
        no_xattrs: bool,
    ) -> String {
        let n = if self.0.is_empty() { 0 } else { self.0.len() };
        if n == 0 || n < OPEN_MAX && rng.number_below(3) == 0 {
            let principal = &people[rng.number_below(3)];
            return self.open(rng, engine, principal);
        }
        let which = rng.number_below(n);
        if rng.number_below(10) == 0 {
            let pair = self.0.remove(which);
            return format!("close {:?}", pair.esker.path());
        }
        let pair = &self.0[which];
        let done = pair.use_it(rng, engine, no_xattrs);
        format!("{} {:?} {done}", pair.principal.uid, pair.esker.path())
    }

    fn open(&mut self, rng: &mut Rng, engine: &Engine, principal: &Principal) -> String {
        let at = random_path(rng, &NAMES);
        let access = *rng.pick(&[Open::READ, Open::WRITE, Open::BOTH, Open::BOTH]);
        let create = rng.number_below(2) == 0;
        let how = Open {
            create,
            exclusive: create && rng.number_below(4) == 0,
            truncate: access.write && rng.number_below(4) == 0,
            no_follow: rng.number_below(5) == 0,
            directory: !create && rng.number_below(6) == 0,
            ..access
        };
        let mode = *rng.pick(&[0o666, 0o600, 0o444, 0o000, 0o755]);
        let played = format!("{} open {at:?} {how:?} {mode:o}", principal.uid);
        let kind = fs::stat(real(&at)).map(|s| FileType::from_raw_mode(s.st_mode));
        if !matches!(
            kind,
            Ok(FileType::RegularFile | FileType::Directory | FileType::Symlink) | Err(_)
        ) {
            // The kernel would wait for the other end of the pipe.
            let got = OpenFile::open(engine, Some(principal), &at, how, None);
            assert!(got.is_err(), "{played}: {got:?}");
            return played;
        }
        let expected = acting(principal, || {
            fs::open(real(&at), flags(how), Mode::from_raw_mode(mode))
        });
        let gid = principal.gids[0] as u32;
        let make = NewFile::new(0o10_0000 | mode, principal.uid as u32, gid);
        let got = OpenFile::open(engine, Some(principal), &at, how, Some(&make));
        same(&expected, &got);
        if let (Ok(os), Ok((esker, inode))) = (expected, got) {
            assert_eq!(facts(&inode), facts_of(&os), "{played}");
            self.0.push(Pair {
                principal: principal.clone(),
                os,
                esker,
            });
        }
        played
    }

    /// Asserts that open files are the same in both.
    pub(super) fn compare(&self, engine: &Engine) {
        for pair in &self.0 {
            let inode = pair.esker.stat(engine).unwrap();
            assert_eq!(facts(&inode), facts_of(&pair.os), "{:?}", pair.esker.path());
            let entries = pair.entries(engine);
            if inode.is_directory()
                && let Ok(entries) = entries
            {
                assert_eq!(entries, pair.entries_of().unwrap());
            }
        }
    }
}

impl Pair {
    fn use_it(&self, rng: &mut Rng, engine: &Engine, no_xattrs: bool) -> String {
        let (os, esker) = (&self.os, &self.esker);
        let set = |set: SetAttributes| esker.set(engine, set);
        let inode = engine.stat(None, esker.path(), false).unwrap();
        let writable = esker.path().handle().unwrap().write;
        let told = |what: &str, done: &dyn std::fmt::Debug| format!("{what}: {done:?}");
        match rng.number_below(12) {
            0..=2 => {
                let data = vec![b'a' + rng.number_below(26) as u8; rng.number_below(40)];
                let at = rng.number_below(300) as u64;
                if !can_write(engine, esker, writable) {
                    return String::new();
                }
                let expected = self.acting(|| rustix::io::pwrite(os, &data, at));
                same(&expected, &esker.write(engine, Some(at), &data));
                told("write", &(at, data, expected))
            }
            3 => {
                let data = vec![b'0' + rng.number_below(10) as u8; rng.number_below(40)];
                if !can_write(engine, esker, writable) {
                    return String::new();
                }
                let expected = self.acting(|| {
                    let end = fs::fstat(os)?.st_size as u64;
                    rustix::io::pwrite(os, &data, end)
                });
                same(&expected, &esker.write(engine, None, &data));
                told("append", &(data, expected))
            }
            4 => {
                let size = rng.number_below(400) as u64;
                if !can_write(engine, esker, writable) {
                    return String::new();
                }
                let expected = self.acting(|| fs::ftruncate(os, size));
                same(&expected, &esker.truncate(engine, size));
                told("truncate", &(size, expected))
            }
            5..=6 => {
                let (at, length) = (rng.number_below(300), rng.number_below(600));
                let mut data = vec![0; length];
                let expected = rustix::io::pread(os, &mut data, at as u64);
                let got = esker.read(engine, at as u64, length);
                if !is_here(&inode) && got.as_ref().is_err_and(not_here) {
                    return String::new();
                }
                same(&expected, &got);
                if let (Ok(n), Ok(got)) = (expected, &got) {
                    assert_eq!(data[..n], got[..]);
                }
                told("read", &(at, length, expected))
            }
            7 => {
                let mode = *rng.pick(&[0o777, 0o000, 0o600, 0o4755, 0o2775, 0o444]);
                let expected = self.acting(|| fs::fchmod(os, Mode::from_raw_mode(mode)));
                let mode = Some(mode);
                same(
                    &expected,
                    &set(SetAttributes {
                        mode,
                        ..SetAttributes::default()
                    }),
                );
                told("chmod", &(mode, expected))
            }
            8 => {
                let uid = *rng.pick(&[None, Some(0), Some(1001), Some(1002)]);
                let gid = Some(*rng.pick(&[1001, 2000, 1002]));
                let (u, g) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
                let expected = self.acting(|| fs::fchown(os, u, g));
                same(
                    &expected,
                    &set(SetAttributes {
                        uid,
                        gid,
                        ..SetAttributes::default()
                    }),
                );
                told("chown", &(uid, gid, expected))
            }
            9 => {
                let seconds = rng.number_below(1 << 30) as i64;
                let time = Timespec {
                    tv_sec: seconds,
                    tv_nsec: 5,
                };
                let times = Timestamps {
                    last_access: time,
                    last_modification: time,
                };
                let expected = self.acting(|| fs::futimens(os, &times));
                let time = Some(seconds * 1_000_000_000 + 5);
                let times = SetAttributes {
                    atime: time,
                    mtime: time,
                    ..SetAttributes::default()
                };
                same(&expected, &set(times));
                if expected.is_ok() {
                    assert_eq!(Some(esker.stat(engine).unwrap().mtime), time);
                }
                told("utimens", &(seconds, expected))
            }
            10 if !no_xattrs => {
                let value = (rng.number_below(3) > 0).then(|| vec![b'y'; rng.number_below(9)]);
                let none = fs::XattrFlags::empty();
                let expected = self.acting(|| match &value {
                    Some(value) => fs::fsetxattr(os, "user.a", value, none),
                    None => fs::fremovexattr(os, "user.a"),
                });
                let got = esker.set_xattr(engine, b"user.a", value.as_deref(), XattrMode::Any);
                same(&expected, &got);
                told("xattr", &(value, expected))
            }
            _ => {
                let got = self.entries(engine);
                if !inode.is_directory() {
                    assert!(got.is_err());
                    return String::new();
                }
                let expected = self.entries_of();
                match (&expected, &got) {
                    (Ok(expected), Ok(got)) => assert_eq!(got, expected),
                    // Entries include attributes, which requires search permission.
                    (Ok(_), Err(Error::File(e))) if e.errno == Errno::Access => {
                        assert!(!inode.allows(Some(&self.principal), 1));
                    }
                    _ => same(&expected, &got),
                }
                told("list", &expected)
            }
        }
    }

    fn acting<T>(&self, call: impl FnOnce() -> T) -> T {
        acting(&self.principal, call)
    }

    /// The names in the directory, page by page.
    fn entries(&self, engine: &Engine) -> esker_model::Result<BTreeSet<Vec<u8>>> {
        let mut names = BTreeSet::new();
        let mut after: Option<Cookie> = None;
        loop {
            let before = after;
            self.esker.list(engine, after, &mut |cookie, entry| {
                names.insert(entry.name.as_bytes().to_vec());
                after = Some(cookie);
                ControlFlow::Break(())
            })?;
            if after == before {
                return Ok(names);
            }
        }
    }

    fn entries_of(&self) -> Result<BTreeSet<Vec<u8>>, Os> {
        let mut names = BTreeSet::new();
        fs::seek(&self.os, SeekFrom::Start(0))?;
        let mut space = [std::mem::MaybeUninit::uninit(); 4_096];
        let mut entries = fs::RawDir::new(&self.os, &mut space);
        while let Some(entry) = entries.next() {
            let name = entry?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.insert(name);
            }
        }
        Ok(names)
    }
}

fn not_here(e: &Error) -> bool {
    matches!(e, Error::File(e) if e.errno == Errno::NotSupported)
}

/// Whether content can be written; if it is not inline, asserts that this is reported.
fn can_write(engine: &Engine, esker: &OpenFile, writable: bool) -> bool {
    let readable = engine.stat(None, &readable_path(esker), false).unwrap();
    if is_here(&readable) || !writable || readable.is_directory() {
        return true;
    }
    assert_eq!(
        errno(esker.write(engine, Some(0), b"x")),
        Errno::NotSupported
    );
    false
}

/// A handle of the file opened for reading.
fn readable_path(esker: &OpenFile) -> NamePath {
    let handle = esker.path().handle().unwrap();
    let read = true;
    esker_model::namespace::Handle { read, ..handle }.path()
}
