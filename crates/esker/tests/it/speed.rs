//! Short-lived processes start fast. The bounds are for an optimised build; a test build gets more room.

use crate::child::Child;
use crate::graph::put_file;
use crate::processes::{database, open, options};
use std::time::{Duration, Instant};

fn best(rounds: usize, mut run: impl FnMut()) -> Duration {
    let times = (0..rounds).map(|_| {
        let start = Instant::now();
        run();
        start.elapsed()
    });
    times.min().unwrap_or_default()
}

#[test]
fn opening_and_attaching_are_fast() {
    let dir = tempfile::tempdir().unwrap();
    let path = database(dir.path());
    let target = path.to_str().unwrap();
    let db = open(&path);
    for n in 0..200 {
        put_file(&db, &format!("/{n}"), n).unwrap();
    }
    db.close().unwrap();
    let opening = best(5, || options().open(target).unwrap().close().unwrap());
    let mut child = Child::start();
    assert_eq!(child.open(&path), "owner");
    let attaching = best(20, || options().open(target).unwrap().close().unwrap());
    let db = open(&path);
    let reading = best(50, || assert!(crate::graph::file(&db, "/1").is_some()));
    let writing = best(50, || {
        put_file(&db, "/1", 1).unwrap();
    });
    eprintln!(
        "open and close {opening:?}, attach and close {attaching:?}, read {reading:?}, write {writing:?}"
    );
    assert!(opening < Duration::from_millis(200), "{opening:?}");
    assert!(attaching < Duration::from_millis(20), "{attaching:?}");
}
