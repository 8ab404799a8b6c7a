//! Random histories, on the mount and on a tmpfs: every result, and the final state, must be equal.
//!
//! `ESKER_MOUNT_SEEDS=200` runs more of them, `ESKER_MOUNT_SEED=7` a single one.

use crate::people::{ADA, NOBODY, Person, ROOT, by};
use crate::scratch::{Scratch, Tmpfs, mounting};
use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, RenameFlags, Timespec, Timestamps, Uid, XattrFlags,
};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Random number generator with a seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn number_below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.number_below(all.len() as u64) as usize]
    }
}

#[derive(Debug, Clone)]
enum Step {
    Open(usize, PathBuf, OFlags, u32),
    Close(usize),
    WriteAt(usize, u64, usize, u8),
    ReadAt(usize, u64, usize),
    Cut(usize, u64),
    Sync(usize),
    StatOpen(usize),
    Write(PathBuf, usize, u8),
    Append(PathBuf, usize, u8),
    Read(PathBuf),
    Truncate(PathBuf, u64),
    Mkdir(PathBuf, u32),
    Rmdir(PathBuf),
    Unlink(PathBuf),
    Rename(PathBuf, PathBuf, RenameFlags),
    Link(PathBuf, PathBuf),
    Symlink(&'static str, PathBuf),
    Readlink(PathBuf),
    Chmod(PathBuf, u32),
    Chown(PathBuf, Option<u32>, Option<u32>),
    Times(PathBuf, i64),
    Fifo(PathBuf),
    Stat(PathBuf),
    List(PathBuf),
    SetXattr(PathBuf, &'static str, usize),
    GetXattr(PathBuf, &'static str),
    RemoveXattr(PathBuf, &'static str),
}

const FILES: usize = 4;

fn step(random: &mut Random) -> Step {
    let file = random.number_below(FILES as u64) as usize;
    let (a, b) = (path(random), path(random));
    let size = random.of(&[0, 1, 10, 100, 4_000, 4_096, 4_097, 9_000, 70_000]);
    let at = random.of(&[0, 1, 50, 4_000, 4_096, 10_000]);
    let byte = random.number_below(256) as u8;
    let mode = random.of(&[
        0o644, 0o600, 0o666, 0o777, 0o755, 0o700, 0o400, 0o000, 0o070, 0o4755, 0o2775, 0o1777,
    ]);
    match random.number_below(38) {
        0..=4 => {
            let mut flags =
                random.of(&[OFlags::RDONLY, OFlags::WRONLY, OFlags::RDWR, OFlags::RDWR]);
            for flag in [
                OFlags::CREATE,
                OFlags::EXCL,
                OFlags::TRUNC,
                OFlags::APPEND,
                OFlags::NOFOLLOW,
                OFlags::DIRECTORY,
            ] {
                if random.number_below(4) == 0
                    || flag == OFlags::CREATE && random.number_below(2) == 0
                {
                    flags |= flag;
                }
            }
            if flags.contains(OFlags::CREATE) {
                // Linux refuses the two together since 6.4, because their meaning is unclear.
                flags -= OFlags::DIRECTORY;
            } else {
                flags -= OFlags::EXCL;
            }
            Step::Open(file, a, flags, mode & 0o777)
        }
        5 => Step::Close(file),
        6..=8 => Step::WriteAt(file, at, size, byte),
        9 | 10 => Step::ReadAt(file, at, size),
        11 => Step::Cut(file, size as u64),
        12 => Step::Sync(file),
        13 => Step::StatOpen(file),
        14 | 15 => Step::Write(a, size, byte),
        16 => Step::Append(a, size, byte),
        17 => Step::Read(a),
        18 => Step::Truncate(a, size as u64),
        19..=21 => Step::Mkdir(a, mode),
        22 => Step::Rmdir(a),
        23 => Step::Unlink(a),
        24..=26 => {
            let flags = [
                RenameFlags::empty(),
                RenameFlags::empty(),
                RenameFlags::NOREPLACE,
                RenameFlags::EXCHANGE,
            ];
            Step::Rename(a, b, random.of(&flags))
        }
        27 => Step::Link(a, b),
        28 => Step::Symlink(random.of(&["a", "../b", "b/c", "c", "nowhere", "."]), a),
        29 => Step::Readlink(a),
        30 => Step::Chmod(a, mode),
        31 => {
            let someone = [None, Some(0), Some(1_000), Some(2_000), Some(65_534)];
            Step::Chown(a, random.of(&someone), random.of(&someone))
        }
        32 => Step::Times(a, random.number_below(2_000_000_000) as i64 - 1_000),
        33 => Step::Fifo(a),
        34 => Step::Stat(a),
        35 => Step::List(a),
        36 => Step::SetXattr(a, random.of(&["user.note", "user.b"]), size.min(300)),
        _ => {
            let name = random.of(&["user.note", "user.b", "user.c"]);
            if random.number_below(2) == 0 {
                Step::GetXattr(a, name)
            } else {
                Step::RemoveXattr(a, name)
            }
        }
    }
}

fn path(random: &mut Random) -> PathBuf {
    let mut path = PathBuf::new();
    for _ in 0..=random.number_below(3) {
        path.push(random.of(&["a", "b", "c", "d"]));
    }
    path
}

type Said = Result<String, i32>;

fn io<T>(result: std::io::Result<T>, show: impl FnOnce(T) -> String) -> Said {
    result.map(show).map_err(|e| e.raw_os_error().unwrap_or(-1))
}

fn os<T>(result: rustix::io::Result<T>, show: impl FnOnce(T) -> String) -> Said {
    result.map(show).map_err(rustix::io::Errno::raw_os_error)
}

fn nothing<T>(_: T) -> String {
    String::new()
}

fn metadata_text(meta: &fs::Metadata) -> String {
    let size = if meta.is_dir() { 0 } else { meta.len() };
    // A time that was set is compared, not the time of the run.
    let time = if meta.mtime() < 1_700_000_000 {
        meta.mtime()
    } else {
        0
    };
    format!(
        "{:o} {}:{} links {} size {size} at {time}",
        meta.mode(),
        meta.uid(),
        meta.gid(),
        meta.nlink()
    )
}

fn sum(data: &[u8]) -> String {
    let sum = data.iter().fold(data.len() as u64, |s, b| {
        s.wrapping_mul(31).wrapping_add(u64::from(*b))
    });
    format!("{} bytes, {sum:x}", data.len())
}

/// One of the two file systems.
struct Side {
    root: PathBuf,
    open: [Option<File>; FILES],
}

impl Side {
    /// Uses a directory below the mount point: links lead one directory up and out of the mount.
    fn new(mounted: &Path) -> Self {
        let root = mounted.join("top");
        fs::create_dir(&root).unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o777)).unwrap();
        Self {
            root,
            open: Default::default(),
        }
    }

    fn apply(&mut self, who: Person, step: &Step) -> Said {
        let opened = by(who, || match step {
            Step::Open(_, path, flags, mode) => {
                let path = self.root.join(path);
                Some(rustix::fs::open(
                    &path,
                    *flags | OFlags::CLOEXEC | OFlags::NONBLOCK,
                    Mode::from_raw_mode(*mode),
                ))
            }
            _ => None,
        });
        if let (Some(opened), Step::Open(place, ..)) = (opened, step) {
            return os(opened, |fd| {
                self.open[*place] = Some(fd.into());
                String::new()
            });
        }
        if let Step::Close(place) = step {
            self.open[*place] = None;
            return Ok(String::new());
        }
        let (root, open) = (&self.root, &self.open);
        by(who, || plain(root, open, step))
    }
}

fn plain(root: &Path, open: &[Option<File>; FILES], step: &Step) -> Said {
    let at = |path: &Path| root.join(path);
    let file = |place: usize| open[place].as_ref().ok_or(-2);
    let link = AtFlags::SYMLINK_NOFOLLOW;
    match step {
        Step::Open(..) | Step::Close(_) => unreachable!(),
        Step::WriteAt(f, offset, size, byte) => {
            io(file(*f)?.write_at(&vec![*byte; *size], *offset), |n| {
                n.to_string()
            })
        }
        Step::ReadAt(f, offset, size) => {
            let mut buffer = vec![0; *size];
            io(
                file(*f)?
                    .read_at(&mut buffer, *offset)
                    .map(|n| sum(&buffer[..n])),
                |s| s,
            )
        }
        Step::Cut(f, size) => io(file(*f)?.set_len(*size), nothing),
        Step::Sync(f) => {
            let file = file(*f)?;
            if !file.metadata().is_ok_and(|m| m.is_file()) {
                return Ok(String::new());
            }
            io(file.sync_all(), nothing)
        }
        Step::StatOpen(f) => io(file(*f)?.metadata(), |m| metadata_text(&m)),
        Step::Write(path, ..) | Step::Append(path, ..) | Step::Read(path) if is_pipe(&at(path)) => {
            Ok("a pipe".into())
        }
        Step::Write(path, size, byte) => io(fs::write(at(path), vec![*byte; *size]), nothing),
        Step::Append(path, size, byte) => {
            let mut options = fs::OpenOptions::new();
            let file = options.append(true).create(*byte < 100).open(at(path));
            io(
                file.and_then(|mut f| std::io::Write::write_all(&mut f, &vec![*byte; *size])),
                nothing,
            )
        }
        Step::Read(path) => {
            let path = at(path);
            io(fs::read(path), |data| sum(&data))
        }
        Step::Truncate(path, size) => os(
            rustix::fs::open(at(path), OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty())
                .and_then(|fd| rustix::fs::ftruncate(&fd, *size)),
            nothing,
        ),
        Step::Mkdir(path, mode) => os(
            rustix::fs::mkdir(at(path), Mode::from_raw_mode(*mode)),
            nothing,
        ),
        Step::Rmdir(path) => os(rustix::fs::rmdir(at(path)), nothing),
        Step::Unlink(path) => os(rustix::fs::unlink(at(path)), nothing),
        Step::Rename(from, to, flags) => os(
            rustix::fs::renameat_with(CWD, at(from), CWD, at(to), *flags),
            nothing,
        ),
        Step::Link(from, to) => os(
            rustix::fs::linkat(CWD, at(from), CWD, at(to), AtFlags::empty()),
            nothing,
        ),
        Step::Symlink(target, path) => os(rustix::fs::symlink(*target, at(path)), nothing),
        Step::Readlink(path) => io(fs::read_link(at(path)), |p| p.display().to_string()),
        Step::Chmod(path, mode) => os(
            rustix::fs::chmod(at(path), Mode::from_raw_mode(*mode)),
            nothing,
        ),
        Step::Chown(path, uid, gid) => os(
            rustix::fs::chownat(
                CWD,
                at(path),
                uid.map(Uid::from_raw),
                gid.map(Gid::from_raw),
                link,
            ),
            nothing,
        ),
        Step::Times(path, seconds) => {
            let time = Timespec {
                tv_sec: *seconds,
                tv_nsec: 5,
            };
            let times = Timestamps {
                last_access: time,
                last_modification: time,
            };
            os(rustix::fs::utimensat(CWD, at(path), &times, link), nothing)
        }
        Step::Fifo(path) => os(
            rustix::fs::mknodat(
                CWD,
                at(path),
                rustix::fs::FileType::Fifo,
                Mode::from_raw_mode(0o644),
                0,
            ),
            nothing,
        ),
        Step::Stat(path) => io(fs::symlink_metadata(at(path)), |m| metadata_text(&m)),
        Step::List(path) => io(names(&at(path)), |n| n.join(" ")),
        Step::SetXattr(path, name, size) => os(
            rustix::fs::setxattr(at(path), *name, &vec![b'x'; *size], XattrFlags::empty()),
            nothing,
        ),
        Step::GetXattr(path, name) => {
            let mut value = vec![0; 1_000];
            os(rustix::fs::getxattr(at(path), *name, &mut value), |n| {
                n.to_string()
            })
        }
        Step::RemoveXattr(path, name) => os(rustix::fs::removexattr(at(path), *name), nothing),
    }
}

/// Whether the path is a pipe, whose open would wait for the other end.
fn is_pipe(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|m| !m.is_file() && !m.is_dir())
}

fn names(path: &Path) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        names.push(entry?.file_name().display().to_string());
    }
    names.sort();
    Ok(names)
}

/// Returns the state of all files, by path.
fn all(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut left = vec![root.to_path_buf()];
    while let Some(path) = left.pop() {
        let meta = fs::symlink_metadata(&path).unwrap();
        let mut line = metadata_text(&meta) + ", ";
        if meta.is_dir() {
            left.extend(names(&path).unwrap().into_iter().map(|n| path.join(n)));
        } else if meta.is_file() {
            line += &sum(&fs::read(&path).unwrap());
        } else if meta.is_symlink() {
            line += fs::read_link(&path).unwrap().to_str().unwrap();
        }
        let mut listed = vec![0; 1_000];
        if !meta.is_symlink()
            && let Ok(n) = rustix::fs::listxattr(&path, &mut listed)
        {
            let mut names: Vec<_> = listed[..n]
                .split(|b| *b == 0)
                .filter(|n| n.starts_with(b"user."))
                .collect();
            names.sort();
            for name in names {
                line += &String::from_utf8_lossy(name);
            }
        }
        let below = path
            .strip_prefix(root)
            .unwrap()
            .as_os_str()
            .as_bytes()
            .to_vec();
        found.insert(String::from_utf8(below).unwrap(), line);
    }
    found
}

fn run_history(seed: u64, steps: usize, passthrough: bool) {
    let scratch = Scratch::with(|o| o.passthrough = passthrough);
    let tmpfs = Tmpfs::new();
    let mut random = Random::new(seed);
    let (mut ours, mut theirs) = (Side::new(&scratch.at()), Side::new(tmpfs.path()));
    let mut played = Vec::new();
    for n in 0..steps {
        let who = random.of(&[ROOT, ADA, ADA, NOBODY]);
        let mut step = step(&mut random);
        if let Step::Chmod(_, mode) = &mut step
            && passthrough
        {
            // If the kernel does not report writers, privileges are cleared when the file is closed
            // (docs/book/mount.md).
            *mode &= 0o1777;
        }
        let (here, there) = (ours.apply(who, &step), theirs.apply(who, &step));
        played.push(format!("{n} by {}: {step:?} -> {there:?}", who.uid));
        assert_eq!(
            here,
            there,
            "ESKER_MOUNT_SEED={seed}, step {n} by {}: {step:?}, behind\n{}",
            who.uid,
            played[played.len().saturating_sub(40)..].join("\n")
        );
        if n % 100 == 99 || std::env::var_os("ESKER_MOUNT_SEED").is_some() {
            assert_eq!(
                all(&ours.root),
                all(&theirs.root),
                "ESKER_MOUNT_SEED={seed}, after step {n}, {:?}",
                played.last()
            );
        }
    }
    let (before, theirs) = (all(&ours.root), all(&theirs.root));
    assert_eq!(before, theirs, "ESKER_MOUNT_SEED={seed}, at the end");
    drop(ours);
    let mut scratch = scratch;
    scratch.unmount();
    scratch.mount(|_| {});
    assert_eq!(
        all(&scratch.path("top")),
        before,
        "ESKER_MOUNT_SEED={seed}, mounted again"
    );
    scratch.demand_sound();
}

/// Returns the number in an environment variable.
pub(crate) fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn seeds(passthrough: bool) {
    if let Some(seed) = number("ESKER_MOUNT_SEED") {
        return run_history(seed, 600, passthrough);
    }
    for seed in 0..number("ESKER_MOUNT_SEEDS").unwrap_or(2) {
        run_history(seed, 600, passthrough);
    }
}

#[test]
fn a_mount_is_a_file_system() {
    mounting(|| seeds(true));
}

#[test]
fn also_where_all_contents_go_through_it() {
    mounting(|| seeds(false));
}
