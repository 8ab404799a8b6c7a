//! Flags of files that programs read and set, whiteouts, and extended attributes of any size.

use crate::scratch::{Scratch, mounting};
use rustix::fs::{AtFlags, CWD, FileType, RenameFlags, XattrFlags};
use rustix::io::Errno;
use std::fs;

#[test]
fn files_have_no_flags() {
    mounting(|| {
        let scratch = Scratch::new();
        fs::create_dir(scratch.path("d")).unwrap();
        fs::write(scratch.path("d/f"), "x").unwrap();
        for path in ["d", "d/f"] {
            let file = fs::File::open(scratch.path(path)).unwrap();
            let flags = rustix::fs::ioctl_getflags(&file).unwrap();
            assert!(flags.is_empty(), "{path}: {flags:?}");
            rustix::fs::ioctl_setflags(&file, rustix::fs::IFlags::empty()).unwrap();
            let set = rustix::fs::ioctl_setflags(&file, rustix::fs::IFlags::IMMUTABLE);
            assert_eq!(set, Err(Errno::OPNOTSUPP), "{path}");
        }
    });
}

#[test]
fn a_whiteout_takes_the_place_of_a_moved_file() {
    mounting(|| {
        let scratch = Scratch::new();
        let (from, to) = (scratch.path("from"), scratch.path("to"));
        fs::write(&from, "content").unwrap();
        rustix::fs::renameat_with(CWD, &from, CWD, &to, RenameFlags::WHITEOUT).unwrap();
        let left = rustix::fs::statat(CWD, &from, AtFlags::SYMLINK_NOFOLLOW).unwrap();
        assert_eq!(
            FileType::from_raw_mode(left.st_mode),
            FileType::CharacterDevice
        );
        assert_eq!((left.st_rdev, left.st_mode & 0o777), (0, 0));
        assert_eq!(fs::read(&to).unwrap(), b"content");
    });
}

#[test]
fn attributes_are_larger_than_one_value_in_sum() {
    mounting(|| {
        let scratch = Scratch::new();
        let path = scratch.path("f");
        fs::write(&path, "x").unwrap();
        let value = vec![b'v'; 65_536];
        for name in ["user.a", "user.b", "user.c"] {
            rustix::fs::setxattr(&path, name, &value, XattrFlags::empty()).unwrap();
        }
        let mut found = vec![0; 65_536];
        for name in ["user.a", "user.b", "user.c"] {
            assert_eq!(
                rustix::fs::getxattr(&path, name, &mut found).unwrap(),
                65_536
            );
            assert_eq!(found, value);
        }
        let more = rustix::fs::setxattr(&path, "user.d", &value, XattrFlags::empty());
        assert_eq!(
            more,
            Err(Errno::NOSPC),
            "the sum of all names and values is limited"
        );
    });
}

#[test]
fn a_hole_frees_blocks_at_once() {
    use std::os::unix::fs::MetadataExt as _;
    mounting(|| {
        let scratch = Scratch::new();
        let path = scratch.path("f");
        fs::write(&path, vec![1; 1 << 20]).unwrap();
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        let before = fs::metadata(&path).unwrap().blocks();
        let punch = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&file, punch, 0, 1 << 19).unwrap();
        let after = fs::metadata(&path).unwrap().blocks();
        assert!(
            after <= before - (1 << 19) / 512,
            "{before} blocks, then {after}"
        );
    });
}
