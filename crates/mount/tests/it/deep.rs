//! Trees that are deeper than the longest path that a call takes.

use crate::scratch::{Scratch, mounting};
use rustix::fd::OwnedFd;
use rustix::fs::{self, AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

/// A chain of directories, each opened relative to the one above it.
fn descend(top: &std::path::Path, name: &str, levels: usize) -> Vec<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let mut open = vec![fs::openat(CWD, top, flags, Mode::empty()).unwrap()];
    for _ in 0..levels {
        let above = open.last().unwrap();
        fs::mkdirat(above, name, Mode::from_raw_mode(0o755)).unwrap();
        let next = fs::openat(above, name, flags, Mode::empty()).unwrap();
        open.push(next);
    }
    open
}

#[test]
fn a_tree_is_deeper_than_the_longest_path() {
    mounting(|| {
        let mut scratch = Scratch::new();
        let name = "n".repeat(255);
        // 100 × 256 bytes are more than six times PATH_MAX.
        let open = descend(&scratch.at(), &name, 100);
        let deepest = open.last().unwrap();
        let create = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let mode = Mode::from_raw_mode(0o644);
        let file = fs::openat(deepest, "small", create, mode).unwrap();
        rustix::io::write(&file, b"deep").unwrap();
        drop(file);
        let file = fs::openat(deepest, "large", create, mode).unwrap();
        rustix::io::write(&file, &vec![7; 100_000]).unwrap();
        drop(file);
        fs::symlinkat("small", deepest, "link").unwrap();
        fs::linkat(deepest, "small", deepest, "second", AtFlags::empty()).unwrap();
        let size =
            |at: &OwnedFd, name: &str| fs::statat(at, name, AtFlags::empty()).map(|s| s.st_size);
        for (name, bytes) in [("small", 4), ("large", 100_000), ("link", 4), ("second", 4)] {
            assert_eq!(size(deepest, name).unwrap(), bytes, "{name}");
        }
        fs::renameat(deepest, "small", &open[0], "out").unwrap();
        let around = fs::renameat_with(deepest, "large", &open[50], &name, RenameFlags::EXCHANGE);
        assert_eq!(around, Err(Errno::INVAL));
        fs::renameat_with(deepest, "large", &open[0], "out", RenameFlags::EXCHANGE).unwrap();
        assert_eq!(size(&open[0], "out").unwrap(), 100_000);
        assert_eq!(size(deepest, "large").unwrap(), 4);
        // A directory moves with everything below it.
        fs::renameat(&open[60], &name, &open[0], "moved").unwrap();
        assert_eq!(size(deepest, "second").unwrap(), 4);
        fs::renameat(&open[0], &name, deepest, "inside").unwrap();
        assert_eq!(
            fs::renameat(&open[0], "moved", deepest, "x"),
            Err(Errno::INVAL)
        );
        drop(open);
        // Another process sees the same tree.
        scratch.unmount();
        scratch.mount(|_| {});
        let list = |top: &str| {
            let out = std::process::Command::new("find")
                .arg(scratch.path(top))
                .output()
                .unwrap();
            assert!(
                out.status.success(),
                "{}",
                String::from_utf8_lossy(&out.stderr)
            );
            out.stdout.split(|b| *b == b'\n').count() - 1
        };
        // 40 directories, three files, and the 60 directories that were moved below the deepest one.
        assert_eq!(list("moved"), 40 + 3 + 60);
        let removed = std::process::Command::new("rm")
            .arg("-r")
            .arg(scratch.path("moved"))
            .output()
            .unwrap();
        assert!(
            removed.status.success(),
            "{}",
            String::from_utf8_lossy(&removed.stderr)
        );
        assert_eq!(std::fs::read_dir(scratch.at()).unwrap().count(), 1);
        scratch.unmount();
        scratch.demand_sound();
    });
}

#[test]
fn the_longest_path_of_a_call_works_below_any_directory() {
    mounting(|| {
        let scratch = Scratch::new();
        let below = descend(&scratch.at(), &"d".repeat(200), 3);
        let directory = below.last().unwrap();
        // PATH_MAX counts the closing zero byte.
        let part = format!("{}/", "p".repeat(254));
        let mut path = String::new();
        while path.len() + part.len() < 4_095 {
            path.push_str(&part);
            fs::mkdirat(
                directory,
                path.trim_end_matches('/'),
                Mode::from_raw_mode(0o755),
            )
            .unwrap();
        }
        path.push_str(&"f".repeat(4_095 - path.len()));
        let flags = OFlags::RDWR | OFlags::CREATE;
        fs::openat(directory, path.as_str(), flags, Mode::from_raw_mode(0o644)).unwrap();
        assert_eq!(
            fs::statat(directory, path.as_str(), AtFlags::empty())
                .unwrap()
                .st_size,
            0
        );
        path.push('f');
        let longer = fs::openat(directory, path.as_str(), flags, Mode::from_raw_mode(0o644));
        assert_eq!(longer.unwrap_err(), Errno::NAMETOOLONG);
    });
}
