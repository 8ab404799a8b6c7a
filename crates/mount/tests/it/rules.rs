//! What POSIX and Linux say of each call, as a table: who does what, and what they are told. After the subjects of pjdfstest
//! (chmod, chown, link, mkdir, mkfifo, open, rename, rmdir, symlink, truncate, unlink, utimensat), in our own words.

use crate::people::{ADA, NOBODY, Person, ROOT, by};
use crate::scratch::{Scratch, within_a_minute};
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, RenameFlags, Timespec, Timestamps, UTIME_NOW,
    UTIME_OMIT, Uid,
};
use rustix::io::Errno;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

const OK: Option<Errno> = None;

/// One case: a call by somebody, and what it is told.
struct Case<'a> {
    at: &'a Path,
    told: Vec<String>,
    count: u32,
}

impl Case<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.at.join(name)
    }

    fn expect<T: Send>(
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

    fn holds(&mut self, what: &str, holds: bool) {
        self.count += 1;
        if !holds {
            self.told.push(format!("{what} does not hold"));
        }
    }

    fn file(&self, name: &str, who: Person, mode: u32) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, "").unwrap();
        hand(&path, who, mode);
        path
    }

    fn directory(&self, name: &str, who: Person, mode: u32) -> PathBuf {
        let path = self.path(name);
        fs::create_dir(&path).unwrap();
        hand(&path, who, mode);
        path
    }
}

fn hand(path: &Path, who: Person, mode: u32) {
    std::os::unix::fs::chown(path, Some(who.uid), Some(who.gid)).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn open(path: &Path, flags: OFlags) -> rustix::io::Result<()> {
    rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::from_raw_mode(0o644)).map(drop)
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn chmod(path: &Path, mode: u32) -> rustix::io::Result<()> {
    rustix::fs::chmod(path, Mode::from_raw_mode(mode))
}

fn chown(path: &Path, uid: Option<u32>, gid: Option<u32>) -> rustix::io::Result<()> {
    let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
    rustix::fs::chownat(CWD, path, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
}

fn rename(from: &Path, to: &Path) -> rustix::io::Result<()> {
    rustix::fs::rename(from, to)
}

fn link(from: &Path, to: &Path) -> rustix::io::Result<()> {
    rustix::fs::linkat(CWD, from, CWD, to, AtFlags::empty())
}

fn mkdir(path: &Path) -> rustix::io::Result<()> {
    rustix::fs::mkdir(path, Mode::from_raw_mode(0o755))
}

fn utimes(path: &Path, atime: i64, mtime: i64) -> rustix::io::Result<()> {
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

/// Whether a call gives a file a new time of change.
fn changes(path: &Path, call: impl FnOnce()) -> bool {
    let time = |path: &Path| {
        let meta = fs::symlink_metadata(path).unwrap();
        (meta.ctime(), meta.ctime_nsec())
    };
    let before = time(path);
    std::thread::sleep(Duration::from_millis(5));
    call();
    time(path) > before
}

fn table(name: &str, play: impl FnOnce(&mut Case<'_>) + Send + 'static) {
    let name = name.to_owned();
    within_a_minute(move || {
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

#[test]
fn opening() {
    table("open", |c| {
        let mine = c.file("mine", ADA, 0o600);
        let public = c.file("public", ROOT, 0o644);
        let closed = c.directory("closed", ROOT, 0o700);
        let read = c.directory("read", ROOT, 0o755);
        fs::write(closed.join("in"), "").unwrap();
        for (who, flags, told) in [
            (ADA, OFlags::RDWR, OK),
            (NOBODY, OFlags::RDONLY, Some(Errno::ACCESS)),
            (ROOT, OFlags::RDWR, OK),
        ] {
            c.expect("open 0600", who, told, || open(&mine, flags));
        }
        c.expect("read 0644", NOBODY, OK, || open(&public, OFlags::RDONLY));
        c.expect("write 0644", NOBODY, Some(Errno::ACCESS), || {
            open(&public, OFlags::WRONLY)
        });
        c.expect("truncate 0644", NOBODY, Some(Errno::ACCESS), || {
            open(&public, OFlags::RDONLY | OFlags::TRUNC)
        });
        c.expect("through 0700", NOBODY, Some(Errno::ACCESS), || {
            open(&closed.join("in"), OFlags::RDONLY)
        });
        c.expect("create in 0755", NOBODY, Some(Errno::ACCESS), || {
            open(&read.join("new"), OFlags::CREATE | OFlags::WRONLY)
        });
        let exclusive = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
        c.expect("exclusive, there", NOBODY, Some(Errno::EXIST), || {
            open(&mine, exclusive)
        });
        c.expect("a directory to write", ROOT, Some(Errno::ISDIR), || {
            open(&read, OFlags::WRONLY)
        });
        c.expect("a file as directory", ROOT, Some(Errno::NOTDIR), || {
            open(&mine, OFlags::RDONLY | OFlags::DIRECTORY)
        });
        c.expect("below a file", ROOT, Some(Errno::NOTDIR), || {
            open(&mine.join("x"), OFlags::RDONLY)
        });
        c.expect("nothing", ROOT, Some(Errno::NOENT), || {
            open(&c_path(&read, "none"), OFlags::RDONLY)
        });
        let turning = c.path("turning");
        std::os::unix::fs::symlink("turning", &turning).unwrap();
        c.expect("a link to itself", ROOT, Some(Errno::LOOP), || {
            open(&turning, OFlags::RDONLY)
        });
        let dangling = c.path("dangling");
        std::os::unix::fs::symlink("target", &dangling).unwrap();
        c.expect("no following", ROOT, Some(Errno::LOOP), || {
            open(&dangling, OFlags::RDONLY | OFlags::NOFOLLOW)
        });
        c.expect("exclusive through a link", ROOT, Some(Errno::EXIST), || {
            open(&dangling, exclusive)
        });
        c.expect("create through a link", ROOT, OK, || {
            open(&dangling, OFlags::CREATE | OFlags::WRONLY)
        });
        let made = c.path("target").is_file();
        c.holds("created at the link's target", made);
        let long = c.path(&"n".repeat(255));
        c.expect("255 bytes", ROOT, OK, || {
            open(&long, OFlags::CREATE | OFlags::WRONLY)
        });
        let longer = c.path(&"n".repeat(256));
        c.expect("256 bytes", ROOT, Some(Errno::NAMETOOLONG), || {
            open(&longer, OFlags::CREATE | OFlags::WRONLY)
        });
        // Whoever makes a file writes it, whatever its mode says.
        let sealed = c.path("sealed");
        c.expect("make 0000 and write", ADA, OK, || {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR;
            let file = rustix::fs::open(&sealed, flags, Mode::empty())?;
            rustix::io::write(&file, b"x").map(drop)
        });
        c.expect("open 0000 again", ADA, Some(Errno::ACCESS), || {
            open(&sealed, OFlags::RDONLY)
        });
        let group = c.file("group", ROOT, 0o060);
        std::os::unix::fs::chown(&group, None, Some(2_000)).unwrap();
        c.expect("by a group besides", ADA, OK, || open(&group, OFlags::RDWR));
        c.expect("by none of the group", NOBODY, Some(Errno::ACCESS), || {
            open(&group, OFlags::RDONLY)
        });
        let fifo = c.path("fifo");
        c.expect("make a pipe", ADA, OK, || {
            rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o644), 0)
        });
        c.expect("a pipe without a reader", ADA, Some(Errno::NXIO), || {
            open(&fifo, OFlags::WRONLY | OFlags::NONBLOCK)
        });
        let device = c.path("device");
        c.expect("make a device", ADA, Some(Errno::PERM), || {
            rustix::fs::mknodat(
                CWD,
                &device,
                FileType::CharacterDevice,
                Mode::empty(),
                0x103,
            )
        });
        c.expect("make a device", ROOT, OK, || {
            rustix::fs::mknodat(
                CWD,
                &device,
                FileType::CharacterDevice,
                Mode::empty(),
                0x103,
            )
        });
        let number = fs::metadata(&device).unwrap().rdev();
        c.holds("a device keeps its number", number == 0x103);
        c.expect(
            "a device where there are none",
            ROOT,
            Some(Errno::ACCESS),
            || open(&device, OFlags::RDONLY),
        );
    });
}

fn c_path(directory: &Path, name: &str) -> PathBuf {
    directory.join(name)
}

#[test]
fn modes_and_owners() {
    table("modes", |c| {
        let mine = c.file("mine", ADA, 0o644);
        for bits in [0o000, 0o111, 0o640, 0o777, 0o4755, 0o1777] {
            c.expect("chmod", ADA, OK, || chmod(&mine, bits));
            c.holds("the mode that was set", mode(&mine) == bits);
        }
        c.expect("chmod", NOBODY, Some(Errno::PERM), || chmod(&mine, 0o777));
        let other = c.file("other", ADA, 0o644);
        std::os::unix::fs::chown(&other, None, Some(65_534)).unwrap();
        c.expect(
            "set-group-id of a group that one is not in",
            ADA,
            OK,
            || chmod(&other, 0o2755),
        );
        c.holds("it is not set", mode(&other) == 0o755);
        c.expect("of one's own", ADA, OK, || chmod(&mine, 0o2755));
        c.holds("it is set", mode(&mine) == 0o2755);
        let changed = changes(&mine, || chmod(&mine, 0o700).unwrap());
        c.holds("chmod is a change", changed);

        c.expect("give away", ADA, Some(Errno::PERM), || {
            chown(&mine, Some(65_534), None)
        });
        c.expect("to a group of theirs", ADA, OK, || {
            chown(&mine, None, Some(2_000))
        });
        c.expect("to a group of others", ADA, Some(Errno::PERM), || {
            chown(&mine, None, Some(65_534))
        });
        c.expect("of others", NOBODY, Some(Errno::PERM), || {
            chown(&mine, None, Some(65_534))
        });
        c.expect("root gives away", ROOT, OK, || {
            chown(&mine, Some(65_534), Some(65_534))
        });
        let meta = fs::metadata(&mine).unwrap();
        c.holds("its owner", (meta.uid(), meta.gid()) == (65_534, 65_534));
        chmod(&mine, 0o6755).unwrap();
        c.expect("chown by its owner", NOBODY, OK, || {
            chown(&mine, None, Some(65_534))
        });
        c.holds("chown takes privileges", mode(&mine) == 0o755);
        let link = c.path("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        c.expect("of a link itself", ROOT, OK, || {
            chown(&link, Some(1_000), Some(1_000))
        });
        let uid = fs::symlink_metadata(&link).unwrap().uid();
        c.holds("a link's owner", uid == 1_000);
        let absent = c.path("none");
        c.expect("of nothing", ROOT, Some(Errno::NOENT), || {
            chown(&absent, Some(0), None)
        });

        let program = c.file("program", ADA, 0o777);
        chmod(&program, 0o6777).unwrap();
        c.expect("write a program of others", NOBODY, OK, || {
            let file = rustix::fs::open(&program, OFlags::WRONLY, Mode::empty())?;
            rustix::io::write(&file, b"x").map(drop)
        });
        c.holds("writing takes privileges", mode(&program) == 0o777);
        chmod(&program, 0o6777).unwrap();
        c.expect("cut a program of others", NOBODY, OK, || {
            let file = rustix::fs::open(&program, OFlags::WRONLY, Mode::empty())?;
            rustix::fs::ftruncate(&file, 0)
        });
        c.holds("cutting takes privileges", mode(&program) == 0o777);
    });
}

#[test]
fn directories() {
    table("directories", |c| {
        let closed = c.directory("closed", ROOT, 0o755);
        let file = c.file("file", ROOT, 0o644);
        let new = closed.join("new");
        c.expect(
            "mkdir where one may not write",
            NOBODY,
            Some(Errno::ACCESS),
            || mkdir(&new),
        );
        c.expect("mkdir", ROOT, OK, || mkdir(&new));
        c.expect("mkdir, there", ROOT, Some(Errno::EXIST), || mkdir(&new));
        c.expect("mkdir over a file", ROOT, Some(Errno::EXIST), || {
            mkdir(&file)
        });
        c.expect("mkdir below a file", ROOT, Some(Errno::NOTDIR), || {
            mkdir(&file.join("x"))
        });
        c.expect("mkdir below nothing", ROOT, Some(Errno::NOENT), || {
            mkdir(&closed.join("a/b"))
        });
        c.expect(
            "rmdir where one may not write",
            NOBODY,
            Some(Errno::ACCESS),
            || rustix::fs::rmdir(&new),
        );
        c.expect(
            "rmdir of what is not empty",
            ROOT,
            Some(Errno::NOTEMPTY),
            || rustix::fs::rmdir(&closed),
        );
        c.expect("rmdir of a file", ROOT, Some(Errno::NOTDIR), || {
            rustix::fs::rmdir(&file)
        });
        c.expect("rmdir of nothing", ROOT, Some(Errno::NOENT), || {
            rustix::fs::rmdir(closed.join("none"))
        });
        c.expect("unlink of a directory", ROOT, Some(Errno::ISDIR), || {
            rustix::fs::unlink(&new)
        });
        c.expect("rmdir of .", ROOT, Some(Errno::INVAL), || {
            rustix::fs::rmdir(new.join("."))
        });
        let links = fs::metadata(&closed).unwrap().nlink();
        c.holds("three links of a directory with one in it", links == 3);
        let changed = changes(&closed, || rustix::fs::rmdir(&new).unwrap());
        c.holds("rmdir is a change of the directory above", changed);
        let inherits = c.directory("inherits", ROOT, 0o777);
        chown(&inherits, None, Some(2_000)).unwrap();
        chmod(&inherits, 0o2777).unwrap();
        let below = inherits.join("below");
        c.expect("mkdir in a set-group-id directory", NOBODY, OK, || {
            mkdir(&below)
        });
        let meta = fs::metadata(&below).unwrap();
        c.holds(
            "gets its group and the bit",
            meta.gid() == 2_000 && mode(&below) == 0o2755,
        );
        let inside = inherits.join("file");
        c.expect("a file in it", NOBODY, OK, || {
            open(&inside, OFlags::CREATE | OFlags::WRONLY)
        });
        let gid = fs::metadata(&inside).unwrap().gid();
        c.holds("gets its group", gid == 2_000);
        let unread = c.directory("unread", ROOT, 0o711);
        fs::write(unread.join("f"), "").unwrap();
        c.expect("list 0711", NOBODY, Some(Errno::ACCESS), || {
            open(&unread, OFlags::RDONLY | OFlags::DIRECTORY)
        });
        c.expect("through 0711", NOBODY, OK, || {
            open(&unread.join("f"), OFlags::RDONLY)
        });
        chmod(&unread, 0o744).unwrap();
        let names = by(NOBODY, || {
            let entries = fs::read_dir(&unread).unwrap();
            entries.flatten().count()
        });
        c.holds("names in 0744 are read", names == 1);
        c.expect("through 0744", NOBODY, Some(Errno::ACCESS), || {
            rustix::fs::stat(unread.join("f"))
        });
    });
}

#[test]
fn renaming() {
    table("rename", |c| {
        let (a, b) = (c.file("a", ADA, 0o644), c.path("b"));
        c.expect("rename", ADA, OK, || rename(&a, &b));
        c.expect("of what is gone", ADA, Some(Errno::NOENT), || {
            rename(&a, &b)
        });
        let d = c.directory("d", ADA, 0o755);
        let e = c.directory("e", ADA, 0o755);
        fs::write(e.join("f"), "").unwrap();
        c.expect("a file over a directory", ADA, Some(Errno::ISDIR), || {
            rename(&b, &d)
        });
        c.expect("a directory over a file", ADA, Some(Errno::NOTDIR), || {
            rename(&d, &b)
        });
        c.expect("over a full one", ADA, Some(Errno::NOTEMPTY), || {
            rename(&d, &e)
        });
        c.expect("over an empty one", ADA, OK, || rename(&e, &d));
        c.holds("its file came along", d.join("f").exists());
        c.expect("into itself", ADA, Some(Errno::INVAL), || {
            rename(&d, &d.join("x"))
        });
        c.expect(
            "a directory into itself deeply",
            ADA,
            Some(Errno::NOENT),
            || rename(&d, &d.join("x/y")),
        );
        c.expect("onto itself", ADA, OK, || rename(&d, &d));
        let sticky = c.directory("sticky", ROOT, 0o1777);
        let theirs = sticky.join("theirs");
        fs::write(&theirs, "").unwrap();
        hand(&theirs, ADA, 0o666);
        let to = sticky.join("to");
        c.expect(
            "of others out of a sticky directory",
            NOBODY,
            Some(Errno::PERM),
            || rename(&theirs, &to),
        );
        let own = sticky.join("own");
        fs::write(&own, "").unwrap();
        hand(&own, NOBODY, 0o644);
        c.expect("over those of others", NOBODY, Some(Errno::PERM), || {
            rename(&own, &theirs)
        });
        c.expect("own ones", ADA, OK, || rename(&theirs, &to));
        let closed = c.directory("closed", ROOT, 0o755);
        c.expect(
            "into a directory of others",
            ADA,
            Some(Errno::ACCESS),
            || rename(&b, &closed.join("b")),
        );
        let foreign = c.directory("foreign", ROOT, 0o755);
        let open_to_all = c.directory("open", ROOT, 0o777);
        c.expect(
            "a directory that one may not write, elsewhere",
            ADA,
            Some(Errno::ACCESS),
            || rename(&foreign, &open_to_all.join("x")),
        );
        c.expect("the same, in place", ADA, OK, || {
            rename(&foreign, &foreign.with_file_name("foreign2"))
        });
        let other = c.file("other", ADA, 0o644);
        let replace = |flags| rustix::fs::renameat_with(CWD, &b, CWD, &other, flags);
        c.expect("no replacing", ADA, Some(Errno::EXIST), || {
            replace(RenameFlags::NOREPLACE)
        });
        c.expect("exchanging is not there", ADA, Some(Errno::INVAL), || {
            replace(RenameFlags::EXCHANGE)
        });
        let hard = c.path("hard");
        link(&b, &hard).unwrap();
        c.expect("one name over another of the same file", ADA, OK, || {
            rename(&b, &hard)
        });
        let both = b.exists() && hard.exists();
        c.holds("does nothing", both);
        let kept = fs::File::open(&other).unwrap();
        rename(&b, &other).unwrap();
        let links = kept.metadata().unwrap().nlink();
        c.holds("what was there has no name any more", links == 0);
    });
}

#[test]
fn links_and_removal() {
    table("links", |c| {
        let (file, second) = (c.file("file", ADA, 0o644), c.path("second"));
        c.expect("link", ADA, OK, || link(&file, &second));
        let links = fs::metadata(&file).unwrap().nlink();
        c.holds("two links", links == 2);
        c.holds(
            "one file",
            fs::metadata(&file).unwrap().ino() == fs::metadata(&second).unwrap().ino(),
        );
        c.expect("link, there", ADA, Some(Errno::EXIST), || {
            link(&file, &second)
        });
        let d = c.directory("d", ADA, 0o755);
        let to = c.path("to");
        c.expect("link of a directory", ROOT, Some(Errno::PERM), || {
            link(&d, &to)
        });
        c.expect("link of nothing", ADA, Some(Errno::NOENT), || {
            link(&to, &second)
        });
        fs::write(&second, "both").unwrap();
        c.holds(
            "what one gets, the other has",
            fs::read(&file).unwrap() == b"both",
        );
        c.expect("unlink", ADA, OK, || rustix::fs::unlink(&file));
        let links = fs::metadata(&second).unwrap().nlink();
        c.holds("one link is left", links == 1);
        c.expect("link of the other name", ADA, OK, || link(&second, &file));
        let changed = changes(&second, || rustix::fs::unlink(&file).unwrap());
        c.holds("to lose a name is a change", changed);
        let closed = c.directory("closed", ROOT, 0o755);
        fs::write(closed.join("f"), "").unwrap();
        c.expect(
            "unlink in a directory of others",
            ADA,
            Some(Errno::ACCESS),
            || rustix::fs::unlink(closed.join("f")),
        );
        let sticky = c.directory("sticky", ROOT, 0o1777);
        let theirs = sticky.join("theirs");
        fs::write(&theirs, "").unwrap();
        hand(&theirs, ADA, 0o666);
        c.expect(
            "unlink of others in a sticky directory",
            NOBODY,
            Some(Errno::PERM),
            || rustix::fs::unlink(&theirs),
        );
        c.expect("of one's own", ADA, OK, || rustix::fs::unlink(&theirs));
        for size in [10, 10_000] {
            let path = c.path("open");
            fs::write(&path, vec![7; size]).unwrap();
            let kept = fs::OpenOptions::new()
                .read(true)
                .write(true)
                .open(&path)
                .unwrap();
            fs::remove_file(&path).unwrap();
            c.expect("what is gone", ROOT, Some(Errno::NOENT), || {
                open(&path, OFlags::RDONLY)
            });
            let mut content = vec![0; size];
            let read = std::os::unix::fs::FileExt::read_exact_at(&kept, &mut content, 0).is_ok();
            c.holds(
                "its content is there while it is open",
                read && content == vec![7; size],
            );
            std::os::unix::fs::FileExt::write_all_at(&kept, b"more", size as u64).unwrap();
            let meta = kept.metadata().unwrap();
            c.holds(
                "it grows",
                meta.len() == size as u64 + 4 && meta.nlink() == 0,
            );
        }
        let target = "t".repeat(4_095);
        let link_path = c.path("link");
        c.expect("a link of 4,095 bytes", ADA, OK, || {
            rustix::fs::symlink(&target, &link_path)
        });
        c.holds(
            "says what it was made of",
            fs::read_link(&link_path).unwrap().as_os_str().len() == 4_095,
        );
        c.expect("readlink of a file", ADA, Some(Errno::INVAL), || {
            rustix::fs::readlink(&second, Vec::new())
        });
    });
}

#[test]
fn times() {
    table("times", |c| {
        let file = c.file("file", ADA, 0o666);
        c.expect("set", ADA, OK, || utimes(&file, 7, 9));
        let meta = fs::metadata(&file).unwrap();
        c.holds(
            "nanoseconds are kept",
            (meta.atime_nsec(), meta.mtime_nsec()) == (7, 9),
        );
        c.holds(
            "and seconds",
            (meta.atime(), meta.mtime()) == (1_000, 1_000),
        );
        c.expect("set by others", NOBODY, Some(Errno::PERM), || {
            utimes(&file, 1, 1)
        });
        c.expect("now, by who may write", NOBODY, OK, || {
            utimes(&file, UTIME_NOW, UTIME_NOW)
        });
        c.holds(
            "is now",
            fs::metadata(&file).unwrap().mtime() > 1_600_000_000,
        );
        chmod(&file, 0o644).unwrap();
        c.expect("now, by who may not", NOBODY, Some(Errno::ACCESS), || {
            utimes(&file, UTIME_NOW, UTIME_NOW)
        });
        c.expect("one of them", ADA, OK, || utimes(&file, UTIME_OMIT, 5));
        let meta = fs::metadata(&file).unwrap();
        c.holds(
            "the other stays",
            meta.mtime() == 1_000 && meta.atime() > 1_600_000_000,
        );
        let changed = changes(&file, || fs::write(&file, "text").unwrap());
        c.holds("writing is a change", changed);
        c.holds(
            "of its content",
            fs::metadata(&file).unwrap().mtime() > 1_600_000_000,
        );
        utimes(&file, 3, 3).unwrap();
        let kept = fs::OpenOptions::new().write(true).open(&file).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&kept, b"more", 0).unwrap();
        utimes(&file, 4, 4).unwrap();
        drop(kept);
        let meta = fs::metadata(&file).unwrap();
        c.holds(
            "what is set last holds, also where it was written before",
            (meta.mtime(), meta.mtime_nsec()) == (1_000, 4),
        );
        let directory = c.directory("d", ADA, 0o755);
        let changed = changes(&directory, || fs::write(directory.join("f"), "").unwrap());
        c.holds("a directory changes with its entries", changed);
        let link = c.path("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        c.expect("of a link itself", ROOT, OK, || utimes(&link, 1, 2));
        c.holds(
            "its own",
            fs::symlink_metadata(&link).unwrap().mtime_nsec() == 2,
        );
    });
}
