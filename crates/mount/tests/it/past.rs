//! A mount of a past time.

use crate::scratch::{Scratch, mounting};
use esker_model::namespace::Namespace;
use esker_model::{Result, Version};
use esker_mount::{Mounted, Options, PastNamespace, Target};
use esker_testkit::wait::wait_until;
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

struct PastServed(PastNamespace);

impl Target for PastServed {
    fn names(&self) -> &dyn Namespace {
        &self.0
    }

    fn persist(&self) -> Result<()> {
        Ok(())
    }
}

fn millis() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}

/// Returns the present time, after which every change gets a later version and every data file a later time.
fn now() -> Version {
    let now = millis();
    // The time of a file is that of the kernel's last tick.
    wait_until("the clock stands still", || millis() > now + 20);
    Version::end_of_millis(now + 10)
}

fn mount_past(scratch: &Scratch, as_of: Version) -> (Mounted, PathBuf) {
    let at = tempfile::tempdir_in(scratch.folder()).unwrap().keep();
    let names = PastNamespace::read(&scratch.database, as_of).unwrap();
    let options = Options {
        as_of: Some(as_of),
        ..scratch.options()
    };
    let mounted = esker_mount::mount(Arc::new(PastServed(names)), &at, options).unwrap();
    (mounted, at)
}

/// Attributes, link target or content, and attributes of each file below a path.
fn tree(top: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut left = vec![top.to_owned()];
    while let Some(at) = left.pop() {
        let of = fs::symlink_metadata(&at).unwrap();
        let content = if of.is_dir() {
            left.extend(fs::read_dir(&at).unwrap().map(|e| e.unwrap().path()));
            String::new()
        } else if of.is_symlink() {
            fs::read_link(&at).unwrap().display().to_string()
        } else {
            format!("{:?}", fs::read(&at).map_err(|e| e.raw_os_error()))
        };
        let mut note = [0; 64];
        let length = rustix::fs::lgetxattr(&at, "user.note", &mut note);
        let note = length.map(|n| note[..n].to_vec());
        let attributes = (of.mode(), of.uid(), of.nlink(), of.size(), of.ino());
        let times = (of.mtime(), of.mtime_nsec(), of.ctime(), of.ctime_nsec());
        let all = format!("{attributes:?} {times:?} {note:?} {content}");
        found.insert(at.strip_prefix(top).unwrap().to_owned(), all);
    }
    found
}

fn errno<T: std::fmt::Debug>(done: std::io::Result<T>) -> Option<i32> {
    done.unwrap_err().raw_os_error()
}

#[test]
fn files_are_as_they_were() {
    mounting(|| {
        let scratch = Scratch::new();
        let before = now();
        let p = |name: &str| scratch.path(name);
        fs::create_dir_all(p("a/b")).unwrap();
        for name in ["a/kept", "a/changed", "a/renamed", "a/removed", "a/b/moved"] {
            fs::write(p(name), name).unwrap();
        }
        for name in ["a/large", "a/rewritten", "a/gone"] {
            fs::write(p(name), vec![b'1'; 20_000]).unwrap();
        }
        fs::hard_link(p("a/kept"), p("a/b/second")).unwrap();
        symlink("kept", p("a/link")).unwrap();
        rustix::fs::setxattr(p("a/changed"), "user.note", b"old", XattrFlags::empty()).unwrap();
        let then = now();
        let expected = tree(&scratch.at());
        let (_mounted, past) = mount_past(&scratch, then);
        assert_eq!(tree(&past), expected);

        fs::write(p("a/changed"), "another content").unwrap();
        rustix::fs::setxattr(p("a/changed"), "user.note", b"new", XattrFlags::empty()).unwrap();
        fs::rename(p("a/renamed"), p("a/other")).unwrap();
        fs::remove_file(p("a/removed")).unwrap();
        fs::hard_link(p("a/kept"), p("third")).unwrap();
        fs::remove_file(p("a/kept")).unwrap();
        fs::remove_file(p("a/link")).unwrap();
        fs::rename(p("a/b"), p("b")).unwrap();
        fs::write(p("b/new"), "new").unwrap();
        fs::set_permissions(p("a"), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        // The size and the time of the content stay, so that only the folder knows that it is another one.
        let times = fs::metadata(p("a/rewritten")).unwrap().modified().unwrap();
        fs::write(p("a/rewritten"), vec![b'2'; 20_000]).unwrap();
        let file = fs::File::options()
            .write(true)
            .open(p("a/rewritten"))
            .unwrap();
        file.set_modified(times).unwrap();
        drop(file);
        fs::remove_file(p("a/gone")).unwrap();

        let (_later, again) = mount_past(&scratch, then);
        let seen = tree(&again);
        assert_eq!(seen.len(), expected.len());
        for (path, text) in &expected {
            let lost = ["a/rewritten", "a/gone"].contains(&path.to_str().unwrap());
            if lost {
                assert_eq!(
                    errno(fs::read(again.join(path))),
                    Some(Errno::STALE.raw_os_error()),
                    "{path:?}"
                );
            } else {
                assert_eq!(&seen[path], text, "{path:?}");
            }
        }
        assert_eq!(fs::read(again.join("a/large")).unwrap(), vec![b'1'; 20_000]);
        let (_empty, first) = mount_past(&scratch, before);
        assert_eq!(fs::read_dir(first).unwrap().count(), 0);
    });
}

/// A program that had opened a file before it changed gets an error and not the new bytes.
#[test]
fn content_that_changes_while_it_is_read_is_an_error() {
    mounting(|| {
        use std::os::unix::fs::FileExt as _;
        let scratch = Scratch::new();
        fs::write(scratch.path("x"), vec![b'1'; 400_000]).unwrap();
        let then = now();
        let (_mounted, past) = mount_past(&scratch, then);
        let file = fs::File::open(past.join("x")).unwrap();
        let mut bytes = [0; 4];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"1111");
        fs::write(scratch.path("x"), vec![b'2'; 400_000]).unwrap();
        let read = file.read_exact_at(&mut bytes, 396_000);
        assert_eq!(errno(read), Some(Errno::STALE.raw_os_error()));
        assert_eq!(fs::metadata(past.join("x")).unwrap().len(), 400_000);
    });
}

#[test]
fn every_change_is_refused() {
    mounting(|| {
        let scratch = Scratch::new();
        fs::write(scratch.path("x"), "x").unwrap();
        fs::create_dir(scratch.path("d")).unwrap();
        let (_mounted, past) = mount_past(&scratch, now());
        let read_only = Some(Errno::ROFS.raw_os_error());
        let p = |name: &str| past.join(name);
        assert_eq!(errno(fs::write(p("x"), "y")), read_only);
        assert_eq!(errno(fs::write(p("y"), "y")), read_only);
        assert_eq!(errno(fs::create_dir(p("e"))), read_only);
        assert_eq!(errno(fs::remove_file(p("x"))), read_only);
        assert_eq!(errno(fs::remove_dir(p("d"))), read_only);
        assert_eq!(errno(fs::rename(p("x"), p("y"))), read_only);
        assert_eq!(errno(fs::hard_link(p("x"), p("y"))), read_only);
        assert_eq!(errno(symlink("x", p("y"))), read_only);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        assert_eq!(errno(fs::set_permissions(p("x"), mode)), read_only);
        let note = rustix::fs::setxattr(p("x"), "user.note", b"1", XattrFlags::empty());
        assert_eq!(note, Err(Errno::ROFS));
        assert_eq!(fs::read(p("x")).unwrap(), b"x");
    });
}
