//! First steps of a user.

use crate::scratch::{Scratch, mounting};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;

#[test]
fn files_of_all_sizes_come_back() {
    mounting(|| {
        let mut scratch = Scratch::new();
        for size in [0, 1, 100, 4_096, 4_097, 100_000, 3_000_000] {
            let path = scratch.path(&format!("f{size}"));
            let content: Vec<u8> = (0..size).map(|i| (i * 7 % 251) as u8).collect();
            fs::write(&path, &content).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().len(), size as u64);
            assert!(fs::read(&path).unwrap() == content, "{size}");
        }
        // Small content is in the namespace, large content in the folder.
        scratch.unmount();
        scratch.mount(|_| {});
        let mut objects = 0;
        for entry in fs::read_dir(scratch.data()).unwrap() {
            objects += fs::read_dir(entry.unwrap().path()).unwrap().count();
        }
        assert_eq!(objects, 3);
        for size in [0_usize, 1, 100, 4_096, 4_097, 100_000, 3_000_000] {
            let path = scratch.path(&format!("f{size}"));
            let content: Vec<u8> = (0..size).map(|i| (i * 7 % 251) as u8).collect();
            assert!(fs::read(&path).unwrap() == content, "{size}");
            assert_eq!(fs::metadata(&path).unwrap().size(), size as u64);
            fs::remove_file(&path).unwrap();
        }
        assert_eq!(fs::read_dir(scratch.at()).unwrap().count(), 0);
        objects = 0;
        for entry in fs::read_dir(scratch.data()).unwrap() {
            objects += fs::read_dir(entry.unwrap().path()).unwrap().count();
        }
        assert_eq!(objects, 0);
    });
}

#[test]
fn a_file_grows_and_shrinks_while_it_is_read() {
    mounting(|| {
        let scratch = Scratch::new();
        let path = scratch.path("log");
        fs::write(&path, "one\n").unwrap();
        let mut reader = fs::File::open(&path).unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "one\n");
        let mut writer = fs::OpenOptions::new().append(true).open(&path).unwrap();
        for _ in 0..3_000 {
            writer.write_all(b"two\n").unwrap();
        }
        text.clear();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text.len(), 12_000);
        drop(writer);
        fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(5)
            .unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"one\nt");
        drop(reader);
        assert_eq!(fs::read(&path).unwrap(), b"one\nt");
    });
}

#[test]
fn directories_with_many_entries_list_each_once() {
    mounting(|| {
        let scratch = Scratch::new();
        let directory = scratch.path("many");
        fs::create_dir(&directory).unwrap();
        for i in 0..2_500 {
            fs::write(directory.join(format!("{i}")), "").unwrap();
        }
        let mut names: Vec<u32> = fs::read_dir(&directory)
            .unwrap()
            .map(|e| e.unwrap().file_name().to_str().unwrap().parse().unwrap())
            .collect();
        names.sort_unstable();
        assert_eq!(names, (0..2_500).collect::<Vec<_>>());
        assert_eq!(fs::metadata(&directory).unwrap().nlink(), 2);
        fs::create_dir(directory.join("sub")).unwrap();
        assert_eq!(fs::metadata(&directory).unwrap().nlink(), 3);
    });
}

/// A file that was written after another one was created is not older: `make` compares such times. The database and the kernel
/// have clocks of their own, and that of the kernel's files stands still for some milliseconds.
#[test]
fn a_file_is_not_older_than_what_was_made_before() {
    mounting(|| {
        let scratch = Scratch::new();
        let time = |m: &fs::Metadata| (m.mtime(), m.mtime_nsec());
        for n in 0..50 {
            let (before, after) = (
                scratch.path(&format!("{n}")),
                scratch.path(&format!("{n}.o")),
            );
            fs::create_dir(&before).unwrap();
            let before = fs::metadata(&before).unwrap();
            let mut file = fs::File::create(&after).unwrap();
            file.write_all(b"made of it").unwrap();
            assert!(
                time(&file.metadata().unwrap()) >= time(&before),
                "{n}, open"
            );
            drop(file);
            assert!(time(&fs::metadata(&after).unwrap()) >= time(&before), "{n}");
        }
    });
}
