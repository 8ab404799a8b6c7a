//! Contents: random writes and truncations compared with a plain file (as fsx does), and folders that are full or
//! missing.

use crate::history::Random;
use crate::scratch::{Scratch, Tmpfs, mounting};
use rustix::fs::{FallocateFlags, SeekFrom};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

fn open(path: &Path) -> File {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .unwrap()
}

fn read_all(file: &File) -> Vec<u8> {
    let mut content = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut content, 0).unwrap();
    content
}

/// Exercises one file; `largest` decides whether it stays small, becomes large, or is large at once.
fn exercise(seed: u64, largest: u64, passthrough: bool) {
    let scratch = Scratch::with(|o| o.passthrough = passthrough);
    let (here, there) = (scratch.path("f"), scratch.folder().join("f"));
    let mut random = Random::new(seed);
    let (mut ours, mut theirs) = (open(&here), open(&there));
    let told = |step: u64| {
        format!("seed {seed}, largest {largest}, passthrough {passthrough}, step {step}")
    };
    for step in 0..400 {
        let (at, size) = (
            random.number_below(largest),
            random.number_below(largest / 2 + 1),
        );
        match random.number_below(12) {
            0..=4 => {
                let data = vec![step as u8; size as usize];
                ours.write_all_at(&data, at).unwrap();
                theirs.write_all_at(&data, at).unwrap();
            }
            5 => {
                ours.set_len(at).unwrap();
                theirs.set_len(at).unwrap();
            }
            6 => {
                let mut both = [vec![0; size as usize], vec![0; size as usize]];
                let n = ours.read_at(&mut both[0], at).unwrap();
                assert_eq!(
                    theirs.read_at(&mut both[1], at).unwrap(),
                    n,
                    "{}",
                    told(step)
                );
                assert!(both[0] == both[1], "{}", told(step));
            }
            7 => {
                drop((ours, theirs));
                (ours, theirs) = (open(&here), open(&there));
            }
            8 => ours.sync_all().unwrap(),
            9 => {
                // A second process appends meanwhile.
                for path in [&here, &there] {
                    let mut file = OpenOptions::new().append(true).open(path).unwrap();
                    file.write_all(&vec![step as u8; (size / 4) as usize])
                        .unwrap();
                }
            }
            10 if size > 0 => {
                let flags = if step % 2 == 0 {
                    FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE
                } else {
                    FallocateFlags::empty()
                };
                rustix::fs::fallocate(&ours, flags, at, size).unwrap();
                rustix::fs::fallocate(&theirs, flags, at, size).unwrap();
            }
            11 => {
                for (path, file) in [(&here, &ours), (&there, &theirs)] {
                    let source = File::open(path).unwrap();
                    let (mut from, mut to) = (at / 2, largest);
                    let n = rustix::fs::copy_file_range(
                        &source,
                        Some(&mut from),
                        file,
                        Some(&mut to),
                        size as usize,
                    );
                    n.unwrap();
                    file.set_len(largest).unwrap();
                }
            }
            _ => {}
        }
        assert_eq!(
            ours.metadata().unwrap().len(),
            theirs.metadata().unwrap().len(),
            "{}",
            told(step)
        );
        if step % 8 == 0 {
            assert!(read_all(&ours) == read_all(&theirs), "{}", told(step));
            assert!(
                fs::read(&here).unwrap() == fs::read(&there).unwrap(),
                "{}",
                told(step)
            );
        }
    }
    drop(ours);
    assert!(
        fs::read(&here).unwrap() == fs::read(&there).unwrap(),
        "seed {seed}"
    );
    scratch.demand_sound();
}

#[test]
fn contents_are_those_of_a_plain_file() {
    mounting(|| {
        for seed in 0..3 {
            for largest in [3_000, 6_000, 300_000] {
                for passthrough in [true, false] {
                    exercise(seed, largest, passthrough);
                }
            }
        }
    });
}

#[test]
fn holes_are_found() {
    mounting(|| {
        let scratch = Scratch::new();
        let file = open(&scratch.path("sparse"));
        file.write_all_at(b"data", 1 << 20).unwrap();
        assert_eq!(rustix::fs::seek(&file, SeekFrom::Data(0)).unwrap(), 1 << 20);
        assert_eq!(rustix::fs::seek(&file, SeekFrom::Hole(0)).unwrap(), 0);
        let small = scratch.path("small");
        fs::write(&small, "text").unwrap();
        let small = File::open(small).unwrap();
        assert_eq!(rustix::fs::seek(&small, SeekFrom::Hole(0)).unwrap(), 4);
    });
}

#[test]
fn a_folder_that_is_full_is_told() {
    mounting(|| {
        let full = Tmpfs::sized("1m");
        for passthrough in [true, false] {
            let data = full.path().join(format!("data-{passthrough}"));
            let scratch = Scratch::with(|o| {
                o.passthrough = passthrough;
                o.data = vec![data];
            });
            let path = scratch.path("big");
            let mut file = File::create(&path).unwrap();
            let failed = (0..100)
                .find_map(|_| file.write_all(&vec![7; 100_000]).err())
                .unwrap();
            assert_eq!(failed.raw_os_error(), Some(28), "{failed}");
            let written = file.metadata().unwrap().len();
            assert!(written > 500_000, "{written}");
            drop(file);
            assert!(fs::read(&path).unwrap().iter().all(|b| *b == 7));
            // Small content is stored elsewhere, and space becomes free again.
            fs::write(scratch.path("small"), "still").ok();
            fs::remove_file(&path).unwrap();
            fs::write(scratch.path("again"), vec![1; 500_000]).unwrap();
            assert_eq!(fs::read(scratch.path("again")).unwrap(), vec![1; 500_000]);
            fs::remove_file(scratch.path("again")).unwrap();
        }
    });
}

#[test]
fn without_folders_only_small_contents_are_kept() {
    mounting(|| {
        let scratch = Scratch::with(|o| o.data.clear());
        let path = scratch.path("f");
        fs::write(&path, vec![1; 4_096]).unwrap();
        let too_much = fs::write(&path, vec![2; 4_097]).unwrap_err();
        assert_eq!(too_much.raw_os_error(), Some(27));
        fs::write(&path, vec![3; 10]).unwrap();
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        assert_eq!(file.set_len(5_000).unwrap_err().raw_os_error(), Some(27));
        drop(file);
        assert_eq!(fs::read(&path).unwrap(), vec![3; 10]);
    });
}

#[test]
fn folders_that_are_added_move_nothing() {
    mounting(|| {
        let mut scratch = Scratch::new();
        for n in 0..20 {
            fs::write(scratch.path(&format!("a{n}")), vec![n; 10_000]).unwrap();
        }
        let first = scratch.data();
        let more = scratch.folder().join("more");
        scratch.unmount();
        scratch.mount(|o| o.data = vec![more.clone(), first.clone()]);
        for n in 0..40 {
            fs::write(scratch.path(&format!("b{n}")), vec![n; 10_000]).unwrap();
        }
        for n in 0..20 {
            assert_eq!(
                fs::read(scratch.path(&format!("a{n}"))).unwrap(),
                vec![n; 10_000]
            );
        }
        let objects = |folder: &Path| -> usize {
            let all = fs::read_dir(folder).unwrap();
            // One folder has the journals of the objects that are written.
            let all = all
                .map(|e| e.unwrap().path())
                .filter(|p| !p.ends_with("open"));
            all.map(|p| fs::read_dir(p).unwrap().count()).sum()
        };
        assert!(objects(&more) >= 10 && objects(&first) >= 30);
        assert_eq!(objects(&more) + objects(&first), 60);
        // A mount without the folder reports it and changes nothing.
        scratch.unmount();
        scratch.mount(|o| o.data = vec![first]);
        let missing = (0..40).filter(|n| fs::read(scratch.path(&format!("b{n}"))).is_err());
        assert!(missing.count() >= 10);
    });
}
