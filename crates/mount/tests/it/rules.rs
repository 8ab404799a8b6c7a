//! Rules of POSIX and Linux for each call, as a table of callers and expected results. The subjects are those of
//! pjdfstest (chmod, chown, link, mkdir, mkfifo, open, rename, rmdir, symlink, truncate, unlink, utimensat), in our own
//! words. This part: opening, modes and owners, directories.

use crate::people::{ADA, NOBODY, ROOT, by};
use crate::rules_table::{OK, changes, chmod, chown, mkdir, mode, open, table};
use rustix::fs::{CWD, FallocateFlags, FileType, Mode, OFlags, XattrFlags};
use rustix::io::Errno;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

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
        c.check("created at the link's target", made);
        let long = c.path(&"n".repeat(255));
        c.expect("255 bytes", ROOT, OK, || {
            open(&long, OFlags::CREATE | OFlags::WRONLY)
        });
        let longer = c.path(&"n".repeat(256));
        c.expect("256 bytes", ROOT, Some(Errno::NAMETOOLONG), || {
            open(&longer, OFlags::CREATE | OFlags::WRONLY)
        });
        // The creator of a file may write it, whatever its mode is.
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
        c.check("a device keeps its number", number == 0x103);
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
            c.check("the mode that was set", mode(&mine) == bits);
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
        c.check("it is not set", mode(&other) == 0o755);
        c.expect("of one's own", ADA, OK, || chmod(&mine, 0o2755));
        c.check("it is set", mode(&mine) == 0o2755);
        let changed = changes(&mine, || chmod(&mine, 0o700).unwrap());
        c.check("chmod is a change", changed);

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
        c.check("its owner", (meta.uid(), meta.gid()) == (65_534, 65_534));
        chmod(&mine, 0o6755).unwrap();
        c.expect("chown by its owner", NOBODY, OK, || {
            chown(&mine, None, Some(65_534))
        });
        c.check("chown takes privileges", mode(&mine) == 0o755);
        let link = c.path("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        c.expect("of a link itself", ROOT, OK, || {
            chown(&link, Some(1_000), Some(1_000))
        });
        let uid = fs::symlink_metadata(&link).unwrap().uid();
        c.check("a link's owner", uid == 1_000);
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
        c.check("writing takes privileges", mode(&program) == 0o777);
        chmod(&program, 0o6777).unwrap();
        c.expect("cut a program of others", NOBODY, OK, || {
            let file = rustix::fs::open(&program, OFlags::WRONLY, Mode::empty())?;
            rustix::fs::ftruncate(&file, 0)
        });
        c.check("cutting takes privileges", mode(&program) == 0o777);
        // Set-group-id of a file that the group may not execute is kept for members of the group.
        chmod(&program, 0o6767).unwrap();
        c.expect("write a program of their group", ADA, OK, || {
            let file = rustix::fs::open(&program, OFlags::WRONLY, Mode::empty())?;
            rustix::io::write(&file, b"x").map(drop)
        });
        c.check("the group's bit stays", mode(&program) == 0o2767);
        let source = c.file("source", ROOT, 0o644);
        fs::write(&source, "text").unwrap();
        chmod(&program, 0o6767).unwrap();
        c.expect("allocate space of a program", NOBODY, OK, || {
            let file = rustix::fs::open(&program, OFlags::WRONLY, Mode::empty())?;
            rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 100)
        });
        c.check("allocating takes privileges", mode(&program) == 0o767);
        chmod(&program, 0o6777).unwrap();
        c.expect("copy into a program", NOBODY, OK, || {
            let from = rustix::fs::open(&source, OFlags::RDONLY, Mode::empty())?;
            let to = rustix::fs::open(&program, OFlags::WRONLY, Mode::empty())?;
            rustix::fs::copy_file_range(&from, None, &to, None, 4)
        });
        c.check("copying takes privileges", mode(&program) == 0o777);
        // cap_setuid=ep, as `setcap` writes it.
        let capability = [
            1, 0, 0, 2, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ];
        let name = "security.capability";
        rustix::fs::setxattr(&program, name, &capability, XattrFlags::empty()).unwrap();
        c.expect("write a program with capabilities", NOBODY, OK, || {
            let file = rustix::fs::open(&program, OFlags::WRONLY, Mode::empty())?;
            rustix::io::write(&file, b"x").map(drop)
        });
        let left = rustix::fs::getxattr(&program, name, &mut [0; 64]);
        c.check("writing takes capabilities", left == Err(Errno::NODATA));
        // A program that has written sees at once that the privileges are gone, although the kernel had the mode in its cache.
        for how in [OFlags::empty(), OFlags::DIRECT] {
            chmod(&program, 0o6777).unwrap();
            c.expect("write and look", NOBODY, OK, || {
                let file = rustix::fs::open(&program, OFlags::RDWR | how, Mode::empty())?;
                rustix::fs::fstat(&file)?;
                rustix::io::write(&file, &[b'x'; 4_096])?;
                match rustix::fs::fstat(&file)?.st_mode & 0o7777 {
                    0o777 => Ok(()),
                    _ => Err(Errno::PERM),
                }
            });
        }
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
        c.check("three links of a directory with one in it", links == 3);
        let changed = changes(&closed, || rustix::fs::rmdir(&new).unwrap());
        c.check("rmdir is a change of the directory above", changed);
        let inherits = c.directory("inherits", ROOT, 0o777);
        chown(&inherits, None, Some(2_000)).unwrap();
        chmod(&inherits, 0o2777).unwrap();
        let below = inherits.join("below");
        c.expect("mkdir in a set-group-id directory", NOBODY, OK, || {
            mkdir(&below)
        });
        let meta = fs::metadata(&below).unwrap();
        c.check(
            "gets its group and the bit",
            meta.gid() == 2_000 && mode(&below) == 0o2755,
        );
        let inside = inherits.join("file");
        c.expect("a file in it", NOBODY, OK, || {
            open(&inside, OFlags::CREATE | OFlags::WRONLY)
        });
        let gid = fs::metadata(&inside).unwrap().gid();
        c.check("gets its group", gid == 2_000);
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
        c.check("names in 0744 are read", names == 1);
        c.expect("through 0744", NOBODY, Some(Errno::ACCESS), || {
            rustix::fs::stat(unread.join("f"))
        });
    });
}
