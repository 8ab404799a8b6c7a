//! Memory mappings, which the kernel may keep longer than the open file.
#![allow(unsafe_code, reason = "maps files into memory")]

use crate::scratch::{Scratch, mounting};
use esker_testkit::wait::wait_until;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// A file in memory, for reading and writing.
struct Mapping(&'static mut [u8]);

impl Mapping {
    fn new(file: &File, size: usize) -> Self {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED;
        // SAFETY: the kernel chooses the address, and the file has this size until the test ends.
        Self(unsafe {
            let at = mmap(std::ptr::null_mut(), size, protection, flags, file, 0).unwrap();
            std::slice::from_raw_parts_mut(at.cast(), size)
        })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the slice is the whole mapping, and nobody has it any more.
        unsafe { munmap(self.0.as_mut_ptr().cast(), self.0.len()).unwrap() };
    }
}

fn both() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    options
}

/// Creates a file and maps it; the descriptor is closed.
fn mapped(path: &Path, content: &[u8]) -> Mapping {
    fs::write(path, content).unwrap();
    let file = both().open(path).unwrap();
    Mapping::new(&file, content.len())
}

/// A program mapped a small file and closed it. The mount gave the backing file to the next file that was opened, so that the
/// program read and wrote the content of that file, of whichever user, and its own writes were lost. A backing file that is still
/// mapped now stays that of its file.
#[test]
fn a_mapping_outlives_the_open_file() {
    mounting(|| {
        let mut scratch = Scratch::new();
        for size in [100, 4_096, 10_000] {
            let path = scratch.path(&format!("mapped{size}"));
            let mapping = mapped(&path, &vec![b'm'; size]);
            let others: Vec<_> = (0..8)
                .map(|n| scratch.path(&format!("{size}-{n}")))
                .collect();
            for other in &others {
                fs::write(other, "of another user").unwrap();
            }
            assert!(mapping.0.iter().all(|b| *b == b'm'), "{size}");
            mapping.0[0] = b'c';
            assert_eq!(fs::read(&path).unwrap()[..2], *b"cm", "{size}");
            drop(mapping);
            for other in others {
                assert_eq!(fs::read(&other).unwrap(), b"of another user", "{size}");
            }
        }
        scratch.unmount();
        scratch.demand_sound();
        scratch.mount(|_| {});
        for size in [100, 4_096, 10_000] {
            let content = fs::read(scratch.path(&format!("mapped{size}"))).unwrap();
            assert_eq!((content.len(), &content[..2]), (size, &b"cm"[..]));
        }
    });
}

/// A closed file whose mapping is gone stays in the database, and its backing file is used again.
#[test]
fn files_that_were_open_for_both_stay_small() {
    mounting(|| {
        let scratch = Scratch::new();
        for n in 0..20 {
            let path = scratch.path(&format!("{n}"));
            fs::write(&path, "small").unwrap();
            let file = both().open(&path).unwrap();
            let mapping = Mapping::new(&file, 5);
            mapping.0[0] = b'S';
            drop(mapping);
            drop(file);
            assert_eq!(fs::read(&path).unwrap(), b"Small");
        }
        let objects = fs::read_dir(scratch.data()).unwrap();
        let objects = objects.filter(|e| e.as_ref().unwrap().file_name().len() == 2);
        assert_eq!(objects.count(), 0);
    });
}

/// A write to a mapping changes the times, which the kernel has cached when the file was opened.
#[test]
fn times_follow_writes_to_a_mapping() {
    mounting(|| {
        let scratch = Scratch::new();
        for size in [100, 10_000] {
            let path = scratch.path(&format!("{size}"));
            fs::write(&path, vec![b'm'; size]).unwrap();
            let file = both().open(&path).unwrap();
            let before = file.metadata().unwrap();
            let mapping = Mapping::new(&file, size);
            let times = |m: &fs::Metadata| (m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec());
            let mut last = mapping.0[0];
            // Until the clock of file times has moved on.
            wait_until("the times do not change", || {
                last = last.wrapping_add(1);
                mapping.0[0] = last;
                file.sync_all().unwrap();
                let now = fs::metadata(&path).unwrap();
                now.mtime() != before.mtime() || now.mtime_nsec() != before.mtime_nsec()
            });
            drop((mapping, file));
            assert_ne!(times(&fs::metadata(&path).unwrap()), times(&before));
        }
    });
}
