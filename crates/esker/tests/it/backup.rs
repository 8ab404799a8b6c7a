//! Tests of backup and restore.

use crate::graph::{file, files, files_seen, link, put_file};
use crate::processes::{database, open, options};
use esker::model::{GraphRead, NeverCancel};
use esker::{CheckOptions, Database};
use esker_testkit::wait::wait_until;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

fn healthy(db: &Database) {
    let report = db
        .check(&CheckOptions::default(), &NeverCancel, &mut |_| {})
        .unwrap();
    let wrong: Vec<_> = report
        .problems
        .iter()
        .filter(|p| !p.what.contains("unreachable"))
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    assert!(report.complete);
}

#[test]
fn a_backup_is_a_database_and_restores() {
    let dir = tempfile::tempdir().unwrap();
    let path = database(dir.path());
    let db = open(&path);
    for n in 0..500 {
        link(&db, &format!("{}", n % 5), &format!("/{n}"), n).unwrap();
    }
    let (copy, restored) = (
        dir.path().join("copy.esker"),
        dir.path().join("restored.esker"),
    );
    let report = db.backup(&copy).unwrap();
    assert_eq!(report.newest, db.stats().unwrap().newest);
    assert!(report.bytes > 0);
    put_file(&db, "/after", 1).unwrap();
    Database::restore(&copy, &restored).unwrap();
    for path in [&copy, &restored] {
        let copy = open(path);
        assert_eq!(files(&copy).len(), 500);
        assert!(file(&copy, "/after").is_none());
        healthy(&copy);
        put_file(&copy, "/own", 1).unwrap();
    }
    assert_eq!(files(&db).len(), 501);
}

/// Through another process as well.
#[test]
fn an_attached_process_backs_up() {
    let dir = tempfile::tempdir().unwrap();
    let path = database(dir.path());
    let owner = open(&path);
    let attached = open(&path);
    put_file(&owner, "/a", 1).unwrap();
    let copy = dir.path().join("copy.esker");
    attached.backup(&copy).unwrap();
    assert_eq!(files(&open(&copy)), ["/a"]);
}

/// Concurrent writes: the copy contains a prefix of each writer's batches, and only complete batches.
#[test]
fn a_backup_under_load_is_of_one_moment() {
    let dir = tempfile::tempdir().unwrap();
    let path = database(dir.path());
    let db = open(&path);
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        let _stop = StopAtEnd(&stop);
        for writer in 0..2 {
            let (db, stop) = (&db, &stop);
            s.spawn(move || {
                let mut n = 0;
                while !stop.load(Ordering::Relaxed) {
                    link(db, &format!("w{writer}"), &format!("w{writer}-{n:06}"), n).unwrap();
                    n += 1;
                }
            });
        }
        for round in 0..4 {
            let written = files_seen(&db).len();
            wait_until("nothing is written", || {
                files_seen(&db).len() > written + 10
            });
            let before = files_seen(&db).len();
            let copy = dir.path().join(format!("copy{round}.esker"));
            db.backup(&copy).unwrap();
            let copy = open(&copy);
            let stored = files(&copy);
            assert!(stored.len() >= before);
            for writer in 0..2 {
                let own: Vec<_> = stored
                    .iter()
                    .filter(|k| k.starts_with(&format!("w{writer}-")))
                    .collect();
                for (n, key) in own.iter().enumerate() {
                    assert_eq!(**key, format!("w{writer}-{n:06}"), "a prefix, without gaps");
                    let edge = crate::graph::written(&copy, &format!("w{writer}"), key);
                    assert!(
                        copy.read_edges(&[edge], esker::model::Version::MAX)
                            .unwrap()[0]
                            .is_some()
                    );
                }
            }
            healthy(&copy);
        }
    });
}

/// Stops the writers however the test ends.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn newest_large_file(folder: &Path) -> std::path::PathBuf {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let meta = entry.metadata().unwrap();
            if meta.is_dir() {
                folders.push(entry.path());
            } else {
                found.push((meta.len(), entry.path()));
            }
        }
    }
    found.into_iter().max().unwrap().1
}

/// Restoring a backup with a damaged block fails, and the target is not created.
#[test]
fn a_damaged_backup_is_not_restored() {
    let dir = tempfile::tempdir().unwrap();
    let path = database(dir.path());
    let db = open(&path);
    for n in 0..20_000 {
        if n % 1_000 == 0 {
            link(&db, "1", &format!("/{n}"), n).unwrap();
        }
    }
    db.compact(None, &NeverCancel).unwrap();
    let copy = dir.path().join("copy.esker");
    db.backup(&copy).unwrap();
    drop(db);
    let victim = newest_large_file(&copy.join("store"));
    let mut bytes = std::fs::read(&victim).unwrap();
    let middle = bytes.len() / 2;
    for byte in &mut bytes[middle / 2..middle] {
        *byte ^= 0x5a;
    }
    std::fs::write(&victim, bytes).unwrap();
    let target = dir.path().join("restored.esker");
    let e = Database::restore(&copy, &target).unwrap_err().to_string();
    assert!(
        e.contains("copy.esker` is damaged, nothing was restored"),
        "{e}"
    );
    assert!(!target.exists());
    let left: Vec<_> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert!(
        !left.iter().any(|n| n.to_string_lossy().contains("partial")),
        "{left:?}"
    );
}

/// A backup includes the archive.
#[test]
fn the_archive_is_part_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = database(dir.path());
    let db = options().open(path.to_str().unwrap()).unwrap();
    for n in 0..5 {
        put_file(&db, "/a", n).unwrap();
    }
    let newest = db.stats().unwrap().newest;
    assert_eq!(db.compact(newest, &NeverCancel).unwrap().archived, 4);
    let copy = dir.path().join("copy.esker");
    db.backup(&copy).unwrap();
    let history = |db: &Database| {
        let id = crate::graph::vertex(db, "file:/a").id;
        db.vertex_history(id, esker::model::VersionRange::ALL)
            .unwrap()
    };
    assert_eq!(history(&db).len(), 5);
    assert_eq!(history(&open(&copy)), history(&db));
}
