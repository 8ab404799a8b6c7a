//! Rules of POSIX and Linux for names and times (see `rules`): renaming, links and removal, times.

use crate::people::{ADA, NOBODY, ROOT};
use crate::rules_table::{OK, changes, chmod, hand, link, open, rename, table, utimes};
use rustix::fs::{CWD, OFlags, RenameFlags, UTIME_NOW, UTIME_OMIT};
use rustix::io::Errno;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

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
        c.check("its file came along", d.join("f").exists());
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
        let numbers = || [&b, &other].map(|path| fs::metadata(path).unwrap().ino());
        let [first, second] = numbers();
        c.expect("exchanging two files", ADA, OK, || {
            replace(RenameFlags::EXCHANGE)
        });
        c.check(
            "each has the path of the other",
            numbers() == [second, first],
        );
        c.expect("exchanging back", ADA, OK, || {
            replace(RenameFlags::EXCHANGE)
        });
        let exchange = |from: &Path, to: &Path| {
            rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::EXCHANGE)
        };
        let nowhere = c.path("nowhere");
        c.expect("with what is not there", ADA, Some(Errno::NOENT), || {
            exchange(&b, &nowhere)
        });
        c.expect("a file with a directory", ADA, OK, || exchange(&b, &d));
        c.check("both are there", b.is_dir() && d.is_file());
        c.expect("and back", ADA, OK, || exchange(&b, &d));
        let inner = c.directory("d/inner", ADA, 0o755);
        c.expect(
            "a directory with one inside it",
            ADA,
            Some(Errno::INVAL),
            || exchange(&d, &inner),
        );
        c.expect(
            "one with the directory around it",
            ADA,
            Some(Errno::INVAL),
            || exchange(&inner, &d),
        );
        c.expect(
            "exchange without replacing",
            ADA,
            Some(Errno::INVAL),
            || replace(RenameFlags::EXCHANGE | RenameFlags::NOREPLACE),
        );
        let hard = c.path("hard");
        link(&b, &hard).unwrap();
        c.expect("one name over another of the same file", ADA, OK, || {
            rename(&b, &hard)
        });
        let both = b.exists() && hard.exists();
        c.check("does nothing", both);
        let kept = fs::File::open(&other).unwrap();
        rename(&b, &other).unwrap();
        let links = kept.metadata().unwrap().nlink();
        c.check("what was there has no name any more", links == 0);
    });
}

#[test]
fn links_and_removal() {
    table("links", |c| {
        let (file, second) = (c.file("file", ADA, 0o644), c.path("second"));
        c.expect("link", ADA, OK, || link(&file, &second));
        let links = fs::metadata(&file).unwrap().nlink();
        c.check("two links", links == 2);
        c.check(
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
        c.check(
            "what one gets, the other has",
            fs::read(&file).unwrap() == b"both",
        );
        c.expect("unlink", ADA, OK, || rustix::fs::unlink(&file));
        let links = fs::metadata(&second).unwrap().nlink();
        c.check("one link is left", links == 1);
        c.expect("link of the other name", ADA, OK, || link(&second, &file));
        let changed = changes(&second, || rustix::fs::unlink(&file).unwrap());
        c.check("to lose a name is a change", changed);
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
            c.check(
                "its content is there while it is open",
                read && content == vec![7; size],
            );
            std::os::unix::fs::FileExt::write_all_at(&kept, b"more", size as u64).unwrap();
            let meta = kept.metadata().unwrap();
            c.check(
                "it grows",
                meta.len() == size as u64 + 4 && meta.nlink() == 0,
            );
        }
        let target = "t".repeat(4_095);
        let link_path = c.path("link");
        c.expect("a link of 4,095 bytes", ADA, OK, || {
            rustix::fs::symlink(&target, &link_path)
        });
        c.check(
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
        c.check(
            "nanoseconds are kept",
            (meta.atime_nsec(), meta.mtime_nsec()) == (7, 9),
        );
        c.check(
            "and seconds",
            (meta.atime(), meta.mtime()) == (1_000, 1_000),
        );
        c.expect("set by others", NOBODY, Some(Errno::PERM), || {
            utimes(&file, 1, 1)
        });
        c.expect("now, by who may write", NOBODY, OK, || {
            utimes(&file, UTIME_NOW, UTIME_NOW)
        });
        c.check(
            "is now",
            fs::metadata(&file).unwrap().mtime() > 1_600_000_000,
        );
        chmod(&file, 0o644).unwrap();
        c.expect("now, by who may not", NOBODY, Some(Errno::ACCESS), || {
            utimes(&file, UTIME_NOW, UTIME_NOW)
        });
        c.expect("one of them", ADA, OK, || utimes(&file, UTIME_OMIT, 5));
        let meta = fs::metadata(&file).unwrap();
        c.check(
            "the other stays",
            meta.mtime() == 1_000 && meta.atime() > 1_600_000_000,
        );
        let changed = changes(&file, || fs::write(&file, "text").unwrap());
        c.check("writing is a change", changed);
        c.check(
            "of its content",
            fs::metadata(&file).unwrap().mtime() > 1_600_000_000,
        );
        utimes(&file, 3, 3).unwrap();
        let kept = fs::OpenOptions::new().write(true).open(&file).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&kept, b"more", 0).unwrap();
        utimes(&file, 4, 4).unwrap();
        drop(kept);
        let meta = fs::metadata(&file).unwrap();
        c.check(
            "what is set last holds, also where it was written before",
            (meta.mtime(), meta.mtime_nsec()) == (1_000, 4),
        );
        let directory = c.directory("d", ADA, 0o755);
        let changed = changes(&directory, || fs::write(directory.join("f"), "").unwrap());
        c.check("a directory changes with its entries", changed);
        let link = c.path("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        c.expect("of a link itself", ROOT, OK, || utimes(&link, 1, 2));
        c.check(
            "its own",
            fs::symlink_metadata(&link).unwrap().mtime_nsec() == 2,
        );
    });
}
