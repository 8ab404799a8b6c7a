//! A failing data folder.

use crate::failing::FailingMount;
use crate::scratch::{Scratch, mounting};
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;

fn is_io<T: std::fmt::Debug>(done: std::io::Result<T>) -> bool {
    done.unwrap_err().raw_os_error() == Some(5)
}

/// Writes, syncs and closes; returns the first error.
fn kept(path: &std::path::Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[test]
fn what_a_folder_says_is_what_programs_are_told() {
    mounting(|| {
        for passthrough in [true, false] {
            let failing = FailingMount::new();
            let data = failing.path().join("data");
            let scratch = Scratch::with(|o| {
                o.passthrough = passthrough;
                o.data = vec![data.clone()];
            });
            kept(&scratch.path("before"), &vec![1; 50_000]).unwrap();
            kept(&scratch.path("small"), b"in the database").unwrap();
            let mut open = OpenOptions::new()
                .append(true)
                .open(scratch.path("before"))
                .unwrap();

            failing.fail(true);
            // A writer, or a process that waits for a sync, gets the error; unacknowledged data does not appear.
            assert!(
                is_io(kept(&scratch.path("during"), &vec![2; 50_000])),
                "{passthrough}"
            );
            let appended = open
                .write_all(&vec![3; 50_000])
                .and_then(|()| open.sync_all());
            assert!(is_io(appended), "{passthrough}");
            assert!(
                is_io(fs::write(scratch.path("before"), vec![4; 50_000])),
                "{passthrough}"
            );
            // Content in the database is not affected.
            assert_eq!(fs::read(scratch.path("small")).unwrap(), b"in the database");
            fs::create_dir(scratch.path("d")).unwrap();
            fs::rename(scratch.path("small"), scratch.path("d/small")).unwrap();
            assert_eq!(fs::read_dir(scratch.at()).unwrap().count(), 3);

            failing.fail(false);
            drop(open);
            let before = fs::read(scratch.path("before")).unwrap();
            assert!(
                before.len() <= 100_000 && !before.contains(&2),
                "{}",
                before.len()
            );
            kept(&scratch.path("before"), &vec![5; 60_000]).unwrap();
            kept(&scratch.path("during"), &vec![6; 60_000]).unwrap();
            assert_eq!(fs::read(scratch.path("before")).unwrap(), vec![5; 60_000]);
            assert_eq!(fs::read(scratch.path("during")).unwrap(), vec![6; 60_000]);
            assert_eq!(
                fs::read(scratch.path("d/small")).unwrap(),
                b"in the database"
            );
            scratch.demand_sound_in(&data);
        }
    });
}
