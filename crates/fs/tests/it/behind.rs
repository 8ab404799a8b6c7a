//! Write-behind: changes keep their order, reads see them, they are sent whole, and failures are reported.

use crate::scratch::{Scratch, path};
use esker_fs::{Flags, Fs, Options, WriteBehind};
use std::sync::Arc;
use std::time::Duration;

const EXIST: i32 = 17;
const NEW: Flags = Flags {
    read: false,
    write: true,
    create: true,
    exclusive: true,
    truncate: false,
    append: false,
    no_follow: false,
};

fn behind(scratch: &Scratch, most: usize) -> Arc<Fs> {
    let behind = WriteBehind {
        most,
        age: Duration::from_hours(1),
    };
    let options = Options {
        write_behind: Some(behind),
        ..scratch.options()
    };
    Fs::open(&scratch.target(), &options).unwrap()
}

fn put(fs: &Arc<Fs>, name: &str, flags: Flags, content: &[u8]) {
    let file = fs.open_file(&path(name), flags, 0o644).unwrap();
    assert_eq!(file.write(content).unwrap(), content.len());
    file.close().unwrap();
}

fn get(fs: &Arc<Fs>, name: &str) -> Vec<u8> {
    let flags = Flags {
        read: true,
        ..Flags::default()
    };
    let file = fs.open_file(&path(name), flags, 0).unwrap();
    let mut content = vec![0; 1 << 20];
    let n = file.read(&mut content).unwrap();
    content.truncate(n);
    content
}

#[test]
fn many_files_come_in_many_at_once_and_all_of_them() {
    let scratch = Scratch::new();
    let fs = behind(&scratch, 700);
    fs.mkdir(&path("/d"), 0o755).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let fs = &fs;
            scope.spawn(move || {
                for n in 0..2_000 {
                    let name = format!("/d/{thread}.{n}");
                    put(fs, &name, NEW, &vec![b'x'; n % 50]);
                    if n % 7 == 0 {
                        fs.rename(&path(&name), &path(&format!("{name}.moved")), false)
                            .unwrap();
                    }
                    if n % 11 == 0 {
                        let last = if n % 7 == 0 {
                            format!("{name}.moved")
                        } else {
                            name
                        };
                        fs.unlink(&path(&last)).unwrap();
                    }
                }
            });
        }
    });
    fs.flush().unwrap();
    let mut names = Vec::new();
    let mut after = None;
    loop {
        let some = fs.list(&path("/d"), after).unwrap();
        let Some(last) = some.last() else { break };
        after = Some(last.cookie);
        names.extend(
            some.into_iter()
                .map(|e| (String::from_utf8(e.name).unwrap(), e.stat.size)),
        );
    }
    names.sort();
    let mut expected: Vec<(String, u64)> = (0..3)
        .flat_map(|t| (0..2_000).map(move |n| (t, n)))
        .filter(|(_, n)| n % 11 != 0)
        .map(|(t, n)| {
            let moved = if n % 7 == 0 { ".moved" } else { "" };
            (format!("{t}.{n}{moved}"), n % 50)
        })
        .collect();
    expected.sort();
    assert_eq!(names, expected);
    fs.close().unwrap();
    scratch.demand_sound();
}

#[test]
fn what_cannot_be_made_is_told_by_the_next_flush_and_only_by_it() {
    let scratch = Scratch::new();
    let fs = behind(&scratch, 10_000);
    put(&fs, "/a", NEW, b"first");
    fs.flush().unwrap();
    put(&fs, "/a", NEW, b"second");
    fs.unlink(&path("/none")).unwrap();
    put(&fs, "/b", NEW, b"third");
    let failure = fs.flush().unwrap_err();
    assert_eq!(failure.errno, EXIST);
    assert!(
        failure.text.contains("2 buffered changes") && failure.text.contains("/a"),
        "{failure}"
    );
    fs.flush().unwrap();
    assert_eq!(get(&fs, "/a"), b"first");
    assert_eq!(get(&fs, "/b"), b"third");
    fs.close().unwrap();
}

/// A file that is open during a flush stays usable: a small one, a large one, and one that replaced another.
#[test]
fn files_stay_open_over_a_flush() {
    let scratch = Scratch::new();
    let fs = behind(&scratch, 10_000);
    let open = |name: &str, flags| fs.open_file(&path(name), flags, 0o600).unwrap();
    let file = open("/a", NEW);
    file.write(b"one ").unwrap();
    fs.flush().unwrap();
    file.write(b"two").unwrap();
    file.close().unwrap();
    assert_eq!(get(&fs, "/a"), b"one two");

    let large = vec![b'l'; 50_000];
    let file = open("/large", NEW);
    file.write(b"begins ").unwrap();
    file.write(&large).unwrap();
    assert_eq!(file.stat().unwrap().size, 50_007);
    file.close().unwrap();
    assert_eq!(get(&fs, "/large").len(), 50_007);

    let over = Flags {
        exclusive: false,
        ..NEW
    };
    put(&fs, "/a", over, b"ONE");
    assert_eq!(get(&fs, "/a"), b"ONE two");
    let cut = Flags {
        truncate: true,
        ..over
    };
    put(&fs, "/a", cut, b"three");
    assert_eq!(get(&fs, "/a"), b"three");
    let log = Flags {
        append: true,
        ..over
    };
    put(&fs, "/a", log, b" and more");
    assert_eq!(get(&fs, "/a"), b"three and more");
    fs.close().unwrap();
    scratch.demand_sound();
}

/// Dropping the target sends all changes.
#[test]
fn dropped_it_is_sent() {
    let scratch = Scratch::new();
    let fs = behind(&scratch, 10_000);
    put(&fs, "/a", NEW, b"there");
    drop(fs);
    let fs = scratch.open();
    assert_eq!(get(&fs, "/a"), b"there");
    fs.close().unwrap();
}
