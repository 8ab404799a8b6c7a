//! Tests of killed processes: SIGKILL at any time loses no acknowledged write and repeats none.

use crate::child::Child;
use crate::graph::{edge_type, files, put_file, vertex};
use crate::processes::{database, open, options};
use esker::Role;
use esker::model::{GraphRead, Version, VersionRange};
use esker_testkit::wait::eventually;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Writes that each writer has had acknowledged before an owner is killed.
const ACKED_BEFORE_A_KILL: usize = 50;

/// Reads the writes that a child had acknowledged by its end.
fn acked(answers: Vec<String>, into: &mut BTreeMap<String, u32>) {
    for line in answers {
        if let Some(key) = line
            .strip_prefix("acked ")
            .and_then(|l| l.strip_suffix(" true"))
        {
            *into.entry(key.to_owned()).or_default() += 1;
        } else {
            assert_eq!(line, "wrote");
        }
    }
}

/// Each acknowledged write exists once: one edge, one version of it. At most one more for each killed writer: its last
/// write,
/// whose response was lost.
fn verify(path: &Path, acked: &BTreeMap<String, u32>, died: usize) {
    let db = open(path);
    let stored = files(&db);
    let missing: Vec<_> = acked
        .keys()
        .filter(|k| stored.binary_search(k).is_err())
        .collect();
    assert!(missing.is_empty(), "acknowledged and lost: {missing:?}");
    assert!(
        stored.len() - acked.len() <= died,
        "{} stored, {} acknowledged",
        stored.len(),
        acked.len()
    );
    let write = edge_type(&db, "write");
    for key in &stored {
        let (job, _) = key.split_once('-').unwrap();
        let edge = crate::graph::written(&db, job, key);
        let history = db.edge_history(edge, VersionRange::ALL).unwrap();
        assert_eq!(history.len(), 1, "{key} was written once: {history:?}");
    }
    let jobs: Vec<_> = stored
        .iter()
        .map(|k| k.split_once('-').unwrap().0.to_owned())
        .collect();
    for job in jobs.iter().collect::<std::collections::BTreeSet<_>>() {
        let expected = jobs.iter().filter(|j| *j == job).count() as u64;
        let id = vertex(&db, &format!("job:{job}")).id;
        assert_eq!(
            db.degrees(&[(id, write)]).unwrap(),
            [expected],
            "degree of {job}"
        );
    }
}

/// The owner is killed repeatedly while the others write through it; one of them takes over each time.
#[test]
fn the_owner_is_killed_under_load() {
    let (_dir, path, acked, died) = kill_owners("open", "write");
    verify(&path, &acked, died);
}

/// The kill test with `Durability::Sync`, where an acknowledged write is on disk.
#[test]
fn the_owner_is_killed_under_load_with_sync() {
    let (_dir, path, acked, died) = kill_owners("open-sync", "write");
    verify(&path, &acked, died);
}

/// An object that is created again after a lost response does not count as existing.
#[test]
fn the_owner_is_killed_while_objects_are_created() {
    let (_dir, path, acked, died) = kill_owners("open", "objects");
    let db = open(&path);
    let stored = crate::objects::names(&db);
    let missing: Vec<_> = acked.keys().filter(|k| !stored.contains(*k)).collect();
    assert!(missing.is_empty(), "acknowledged and lost: {missing:?}");
    assert!(
        stored.len() - acked.len() <= died,
        "{} stored, {} acknowledged",
        stored.len(),
        acked.len()
    );
}

/// A directory that is created again after a lost response does not count as existing, and one that is renamed again
/// does not
/// count as missing.
#[test]
fn the_owner_is_killed_while_directories_are_made() {
    for how in ["open", "open-sync"] {
        let (_dir, path, acked, died) = kill_owners(how, "files");
        let stored = crate::names::list(&open(&path), "/").unwrap();
        let missing: Vec<_> = acked
            .keys()
            .filter(|k| !stored.contains(&format!("{k}.moved")))
            .collect();
        assert!(missing.is_empty(), "acknowledged and lost: {missing:?}");
        assert!(
            stored.len() - acked.len() <= died,
            "{} {}",
            stored.len(),
            acked.len()
        );
    }
}

/// The folder, the acknowledged writes, and the number of killed writers.
fn kill_owners(
    how: &str,
    what: &str,
) -> (tempfile::TempDir, PathBuf, BTreeMap<String, u32>, usize) {
    let dir = tempfile::tempdir().unwrap();
    let path = database(dir.path());
    let stop = dir.path().join("stop");
    let mut children: Vec<_> = (0..5).map(|_| Child::start()).collect();
    for (n, child) in children.iter_mut().enumerate() {
        let role = child.tell(&format!("{how} {}", path.display()));
        assert_eq!(role == "owner", n == 0, "{role}");
    }
    for (n, child) in children.iter_mut().enumerate() {
        child.send(&format!("{what} w{n} {}", stop.display()));
    }
    let mut all = BTreeMap::new();
    let mut died = 0;
    for round in 0..3 {
        // The owner is killed while it serves the others: each survivor has had writes acknowledged since the last kill.
        for child in &mut children {
            for _ in 0..ACKED_BEFORE_A_KILL {
                let answer = child.answer().expect("the writers live");
                acked(vec![answer], &mut all);
            }
        }
        let owner = eventually(|| {
            let pid = owner_pid(&path);
            let owner = children.iter().position(|c| c.pid() == pid);
            owner.ok_or_else(|| format!("nobody took over in round {round}"))
        });
        let mut owner = children.remove(owner);
        owner.kill();
        died += 1;
        acked(owner.rest(), &mut all);
    }
    std::fs::write(&stop, "").unwrap();
    for child in &mut children {
        loop {
            let answer = child.answer().expect("the survivors survive");
            let done = answer == "wrote";
            acked(vec![answer], &mut all);
            if done {
                break;
            }
        }
    }
    drop(children);
    assert!(all.len() > 100, "{}", all.len());
    assert!(all.values().all(|n| *n == 1));
    (dir, path, all, died)
}

/// The process id in the highest record in state `serving`.
fn owner_pid(path: &Path) -> u32 {
    let records = std::fs::read_dir(path.join("owner"))
        .unwrap()
        .map(|e| e.unwrap().path());
    let highest = records
        .filter(|p| p.extension().is_none() && !p.to_string_lossy().contains("new-"))
        .max();
    let text = highest
        .and_then(|p| std::fs::read_to_string(p).ok())
        .unwrap_or_default();
    if !text.contains("state serving") {
        return 0;
    }
    let pid = text.lines().find_map(|l| l.strip_prefix("pid "));
    pid.and_then(|p| p.parse().ok()).unwrap_or(0)
}

/// Eight processes wait on one that is killed: exactly one takes over, the others attach to it.
#[test]
fn eight_processes_race_to_take_over() {
    let dir = tempfile::tempdir().unwrap();
    let path = database(dir.path());
    let mut owner = Child::start();
    assert_eq!(owner.open(&path), "owner");
    let mut children: Vec<_> = (0..8).map(|_| Child::start()).collect();
    for child in &mut children {
        assert_eq!(child.open(&path), format!("attached {}", owner.pid()));
    }
    owner.kill();
    for (n, child) in children.iter_mut().enumerate() {
        child.send(&format!("put /{n}"));
    }
    for child in &mut children {
        assert_eq!(child.answer().unwrap(), "applied true");
    }
    let roles: Vec<_> = children.iter_mut().map(|c| c.tell("role")).collect();
    let owners: Vec<_> = children
        .iter()
        .zip(&roles)
        .filter(|(_, r)| *r == "owner")
        .map(|(c, _)| c.pid())
        .collect();
    assert_eq!(owners.len(), 1, "{roles:?}");
    let attached = format!("attached {}", owners[0]);
    assert_eq!(
        roles.iter().filter(|r| **r == attached).count(),
        7,
        "{roles:?}"
    );
    assert_eq!(children[0].tell("count"), "8");
}

/// The creator of a database is killed at some time: afterwards the folder opens, or the error says how to complete it.
#[test]
fn a_creator_is_killed() {
    for millis in [0, 2, 5, 10, 20, 40, 80] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lab.esker");
        let mut child = Child::start();
        child.send(&format!("create {}", path.display()));
        std::thread::sleep(Duration::from_millis(millis));
        child.kill();
        match options().open(path.to_str().unwrap()) {
            Ok(db) => assert!(files(&db).is_empty()),
            Err(e) => assert!(e.to_string().contains("esker init"), "{e}"),
        }
        let db = options().create(true).open(path.to_str().unwrap()).unwrap();
        put_file(&db, "/a", 1).unwrap();
    }
}

fn write_foreign_record(path: &Path, beat: u64) {
    let text = format!(
        "esker-owner 1\nstate serving \nbeat {beat:016x}\nhost node17\nmachine m\nboot b\nnamespace pid:[1]\npid 4711\nstart 5\n"
    );
    // Readers see the complete file.
    let new = path.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, path.join("owner/0000000000000007")).unwrap();
}

/// An owner on another host with a heartbeat is not replaced.
#[test]
fn a_live_owner_on_another_host_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = database(dir.path());
    write_foreign_record(&path, 1);
    let ended = AtomicBool::new(false);
    let e = std::thread::scope(|s| {
        s.spawn(|| {
            for beat in 2.. {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(100));
                write_foreign_record(&path, beat);
            }
        });
        let opened = options().open(path.to_str().unwrap());
        ended.store(true, Ordering::Relaxed);
        opened.unwrap_err()
    });
    let expected = format!(
        "`{}` is open in process 4711 on host node17, and only processes of that host (and container) can share it: run \
         there, or end that process and repeat",
        path.display()
    );
    assert_eq!(e.to_string(), expected);
}

/// An owner without a heartbeat is replaced.
#[test]
fn a_dead_owner_on_another_host_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = database(dir.path());
    write_foreign_record(&path, 1);
    let start = Instant::now();
    let db = open(&path);
    assert_eq!(db.role(), Role::Owner);
    let waited = start.elapsed();
    assert!(waited >= esker::limits::OWNER_SILENT_MAX, "{waited:?}");
}

/// An owner that another host has replaced (it was suspended too long) stops, instead of writing to the new owner's files.
#[test]
fn an_owner_that_was_replaced_stops() {
    let dir = tempfile::tempdir().unwrap();
    let path = database(dir.path());
    let db = open(&path);
    put_file(&db, "/a", 1).unwrap();
    write_foreign_record(&path, 1);
    let e = eventually(|| put_file(&db, "/b", 1).err().ok_or("it did not notice"));
    assert!(e.to_string().contains("another host has taken over"), "{e}");
    assert!(db.read_vertices(&[], Version::MAX).is_err());
}
