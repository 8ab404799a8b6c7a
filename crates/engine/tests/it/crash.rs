//! A store that fails at the n-th operation, for every n: acknowledged batches are complete, others complete or absent.

use crate::small::Small;
use esker_engine::{CheckOptions, Settings};
use esker_model::{Error, GraphRead, Mutation, NeverCancel, Version, VersionRange, VertexEvent};
use esker_store::Durability;
use esker_store::fault::Operation;
use esker_testkit::graphs::{Lab, lab};
use esker_testkit::history::{START_MILLIS, batch};
use esker_testkit::rng::Rng;
use esker_testkit::run::Run;
use esker_testkit::test_graph::TestGraph;
use std::sync::Arc;

fn disk_full() -> Error {
    Error::io("writing", std::io::Error::from_raw_os_error(28))
}

const BATCHES: usize = 40;

/// Runs batches on a store where an operation fails, once or permanently; returns the number of such operations.
fn run_batches(seed: u64, operation: Operation, fails_at: Option<(u64, bool)>) -> u64 {
    let settings = Settings {
        pending_counters_max: 3,
        durability: Durability::Sync,
        ..Settings::default()
    };
    let mut run = Run::in_memory(settings).unwrap();
    let faults = run.faults().unwrap();
    let before = faults.count(operation);
    match fails_at {
        Some((n, true)) => faults.fail_always(operation, n, disk_full),
        Some((n, false)) => faults.fail_once(operation, n, disk_full),
        None => {}
    }
    let world = TestGraph::new();
    let mut rng = Rng::new(seed);
    let mut failed = 0;
    for i in 0..BATCHES {
        let batch = batch(&world, &mut rng);
        let through = run.apply_through_faults(&batch);
        let through = through
            .unwrap_or_else(|e| panic!("seed {seed}, {operation:?} {fails_at:?}, batch {i}: {e}"));
        failed += u64::from(!through);
    }
    let operations = faults.count(operation) - before;
    faults.heal();
    let told =
        |what: &str, e: String| panic!("seed {seed}, {operation:?} {fails_at:?}, {what}: {e}");
    run.compare()
        .unwrap_or_else(|e| told("before the crash", e));
    run.crash_to_what_was_synced()
        .unwrap_or_else(|e| told("after the crash", e));
    assert!(
        failed > 0 || fails_at.is_none_or(|(_, always)| !always),
        "a store that always fails was never asked"
    );
    operations
}

#[test]
fn every_commit_fails_once_and_for_good() {
    for seed in 0..3 {
        let commits = run_batches(seed, Operation::Commit, None);
        assert!(commits > BATCHES as u64 / 3, "{commits}");
        for n in 0..commits - 1 {
            run_batches(seed, Operation::Commit, Some((n, false)));
            run_batches(seed, Operation::Commit, Some((n, true)));
        }
    }
}

#[test]
fn every_read_of_a_writer_fails_once() {
    let reads = run_batches(7, Operation::Read, None);
    assert!(reads > BATCHES as u64, "{reads}");
    for n in 0..reads {
        run_batches(7, Operation::Read, Some((n, false)));
    }
}

fn mutations() -> Vec<Mutation> {
    lab(
        5,
        Lab {
            users: 3,
            jobs: 12,
            files: 8,
            directories: 4,
        },
    )
}

/// A bulk load is not atomic: it may be cut between its tables. Then the database opens, its counters are correct, and
/// repeating the load gives the result of one load.
#[test]
fn every_commit_and_table_of_a_bulk_load_fails() {
    let whole = Small::new();
    whole
        .engine
        .bulk_load(&mut mutations().into_iter().map(Ok), &mut |_| {})
        .unwrap();
    let counts = whole.engine.counts().unwrap();
    for operation in [Operation::Commit, Operation::Load] {
        let mut failures = 0;
        for n in 0.. {
            let db = Small::new();
            // Some of it exists already, and is applied as ordinary batches.
            let some = mutations().into_iter().take(20).map(Ok);
            db.engine.bulk_load(&mut { some }, &mut |_| {}).unwrap();
            db.fault.fail_once(operation, n, disk_full);
            let loaded = db
                .engine
                .bulk_load(&mut mutations().into_iter().map(Ok), &mut |_| {});
            db.fault.heal();
            let came_back = db.after_crash(0);
            let report = came_back
                .engine
                .check(&CheckOptions::default(), &NeverCancel, &mut |_| {})
                .unwrap();
            let bad = report.problems.iter().find(|p| p.what != "dangling edge");
            assert_eq!(bad, None, "{operation:?} {n} failed");
            came_back
                .engine
                .bulk_load(&mut mutations().into_iter().map(Ok), &mut |_| {})
                .unwrap();
            assert_eq!(
                came_back.engine.counts().unwrap(),
                counts,
                "{operation:?} {n} failed, loaded again"
            );
            came_back.check_is_clean();
            // The process that met the failure recovers, too.
            db.engine
                .bulk_load(&mut mutations().into_iter().map(Ok), &mut |_| {})
                .unwrap();
            assert_eq!(
                db.engine.counts().unwrap(),
                counts,
                "{operation:?} {n} failed, loaded again at once"
            );
            db.check_is_clean();
            if loaded.is_ok() {
                break;
            }
            failures += 1;
        }
        assert!(failures >= 2, "{operation:?}: {failures}");
    }
}

/// Compaction that fails midway loses no version: each is in the store or in the archive.
#[test]
fn every_commit_of_a_compaction_fails() {
    let mut failures = 0;
    for n in 0.. {
        let db = Small::with(Settings {
            durability: Durability::Sync,
            ..Settings::default()
        });
        for millis in 1..40 {
            db.put(
                Some(Version::new(millis, 0)),
                "file:a",
                &[("size", millis as i64)],
            );
            db.set(
                Some(Version::new(millis, 0)),
                "file:a",
                "tag",
                millis as i64,
            )
            .unwrap();
        }
        let told = |db: &Small| -> Vec<VertexEvent> {
            let mut events = db
                .engine
                .vertex_history(db.id("file:a"), VersionRange::ALL)
                .unwrap();
            events.iter_mut().for_each(|e| e.archived = false);
            events
        };
        let as_of_each = |db: &Small| -> Vec<_> {
            let times = (0..41).map(|millis| Version::new(millis, 0));
            times.map(|t| db.vertex_as_of("file:a", t)).collect()
        };
        let before = told(&db);
        let seen = as_of_each(&db);
        db.fault.fail_once(Operation::Commit, n, disk_full);
        let compacted = db.engine.compact(Some(Version::new(20, 0)), &NeverCancel);
        db.fault.heal();
        for db in [&db, &db.after_crash(0)] {
            assert_eq!(told(db), before, "commit {n} failed");
            assert_eq!(as_of_each(db), seen, "commit {n} failed");
            db.engine
                .compact(Some(Version::new(20, 0)), &NeverCancel)
                .unwrap();
            assert_eq!(told(db), before, "commit {n} failed, compacted again");
            assert_eq!(as_of_each(db), seen, "commit {n} failed, compacted again");
            db.check_is_clean();
        }
        if compacted.is_ok() {
            break;
        }
        failures += 1;
    }
    assert!(failures >= 1, "{failures}");
}

/// All batches of a group fail with their commit, and later ones see nothing of them.
#[test]
fn a_group_fails_together() {
    let db = Arc::new(Small::new());
    db.clock.set(START_MILLIS);
    let before = db.fault.count(Operation::Commit);
    db.clock.block_next_reader();
    // The first commit succeeds, that of the others fails.
    db.fault.fail_once(Operation::Commit, 1, disk_full);
    let answers: Vec<bool> = std::thread::scope(|scope| {
        let mut writers = Vec::new();
        for n in 0..5 {
            let db = &db;
            writers.push(scope.spawn(move || {
                db.batch(None, vec![db.insurance(&format!("file:{n}"))])
                    .is_ok()
            }));
            if n == 0 {
                db.clock.wait_until_blocked();
            }
            while db.engine.queued_batches() < n {
                std::thread::yield_now();
            }
        }
        db.clock.unblock();
        writers.into_iter().map(|w| w.join().unwrap()).collect()
    });
    assert_eq!(answers, [true, false, false, false, false]);
    assert_eq!(
        db.fault.count(Operation::Commit) - before,
        2,
        "four batches, one commit"
    );
    assert_eq!(db.count_of("File"), 1);
    db.ensure(None, "file:1");
    assert_eq!(db.count_of("File"), 2);
    db.check_is_clean();
}
