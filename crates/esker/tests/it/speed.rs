//! Prints how fast short-lived processes start, for people.

use crate::child::Child;
use crate::graph::put_file;
use crate::processes::{database, open, options};
use esker_testkit::wait::wait_until;
use std::time::{Duration, Instant};

fn time(run: impl FnOnce()) -> Duration {
    let start = Instant::now();
    run();
    start.elapsed()
}

fn best(rounds: usize, mut run: impl FnMut()) -> Duration {
    let times = (0..rounds).map(|_| time(&mut run));
    times.min().unwrap_or_default()
}

/// Attaching takes less time than opening.
#[test]
fn attaching_is_faster_than_opening() {
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
    let attach = || options().open(target).unwrap().close().unwrap();
    let attaching = best(20, attach);
    let db = open(&path);
    let reading = best(50, || assert!(crate::graph::file(&db, "/1").is_some()));
    let writing = best(50, || {
        put_file(&db, "/1", 1).unwrap();
    });
    eprintln!(
        "open and close {opening:?}, attach and close {attaching:?}, read {reading:?}, write {writing:?}"
    );
    // Other programs may have used the processors all the time.
    wait_until("attaching takes as long as opening", || {
        time(attach) < opening
    });
}
