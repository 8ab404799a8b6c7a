//! Rows ingested from another engine: all of them with their commit, or none.

use crate::small::Small;
use esker_engine::{Absent, Engine, IngestedRows, SideWrites};
use esker_model::namespace::record::{dentry_key, removed_entry_key};
use esker_model::{Error, Flow, Version, VertexId};
use esker_store::fault::Operation;
use esker_store::{KeyRange, Table};

const DIRECTORY: VertexId = VertexId([7; 16]);
/// Key of a row committed together with the ingested rows.
const WITH: &[u8] = b"cluster/split/x";

fn row(hash: u64, what: &str) -> (Vec<u8>, Vec<u8>) {
    let key = dentry_key(DIRECTORY, hash, 0).to_vec();
    (key, what.as_bytes().to_vec())
}

/// Entries 100 to 199, and the record that 150 has left once.
fn ingested() -> IngestedRows {
    let mut rows: Vec<_> = (100..200).map(|n| row(n, "came")).collect();
    rows.push((removed_entry_key(DIRECTORY, 150).to_vec(), Vec::new()));
    let key = |hash| dentry_key(DIRECTORY, hash, 0).to_vec();
    let left = |hash| removed_entry_key(DIRECTORY, hash).to_vec();
    IngestedRows {
        ranges: vec![(key(100), key(200)), (left(100), left(200))],
        rows,
    }
}

fn put(engine: &Engine, version: u64, rows: Vec<(Vec<u8>, Option<Vec<u8>>)>) {
    let rows = rows.into_iter().map(|(key, row)| (Table::Names, key, row));
    let side_writes = SideWrites {
        rows: rows.collect(),
        ..SideWrites::default()
    };
    let done = engine.apply_part(Version(version), &[], Absent::Refuse, side_writes);
    done.unwrap();
}

fn ingest(engine: &Engine, version: u64, ingested: IngestedRows) -> Result<(), Error> {
    let side_writes = SideWrites {
        rows: vec![(Table::Meta, WITH.to_vec(), Some(vec![1]))],
        ingested: Some(ingested),
        ..SideWrites::default()
    };
    let done = engine.apply_part(Version(version), &[], Absent::Refuse, side_writes);
    done.map(drop)
}

/// Returns the numbers of earlier rows and of ingested rows; panics on any other row.
fn found(engine: &Engine) -> (usize, usize) {
    let mut found = (0, 0);
    let names = engine.store();
    names
        .scan(Table::Names, &KeyRange::ALL, &mut |key, value| {
            match value {
                b"was" => found.0 += 1,
                b"came" | b"" => found.1 += 1,
                other => panic!("{key:02x?} {other:02x?}"),
            }
            Flow::Continue(())
        })
        .unwrap();
    assert_eq!(names.get(Table::Meta, b"arriving").unwrap(), None);
    let with = names.get(Table::Meta, WITH).unwrap().is_some();
    assert_eq!(found.1, if with { 101 } else { 0 });
    found
}

/// An engine that had those entries before: it has removed them, still in the memtable, and has others.
fn begun() -> Small {
    let small = Small::new();
    let all = (0..300).map(|n| (row(n, "was").0, Some(b"was".to_vec())));
    put(&small.engine, 1, all.collect());
    small.engine.persist().unwrap();
    let gone = (100..200).map(|n| (row(n, "").0, None));
    put(&small.engine, 2, gone.collect());
    small.engine.persist().unwrap();
    small
}

#[test]
fn what_came_stands_before_what_was_removed() {
    let small = begun();
    assert_eq!(found(&small.engine), (200, 0));
    ingest(&small.engine, 3, ingested()).unwrap();
    assert_eq!(found(&small.engine), (200, 101));
    // The row is changed like any other, before and after a restart.
    put(&small.engine, 4, vec![(row(120, "").0, None)]);
    put(
        &small.engine,
        5,
        vec![(row(120, "").0, Some(b"came".to_vec()))],
    );
    assert_eq!(found(&small.engine), (200, 101));
    let again = small.after_crash(small.fault.unsynced());
    assert_eq!(found(&again.engine), (200, 101));
}

#[test]
fn a_power_failure_leaves_all_that_came_or_nothing() {
    let small = begun();
    ingest(&small.engine, 3, ingested()).unwrap();
    let mut outcomes = [0, 0];
    for kept in 0..=small.fault.unsynced() {
        let (was, came) = found(&small.after_crash(kept).engine);
        assert_eq!(was, 200, "{kept}");
        outcomes[usize::from(came > 0)] += 1;
        assert!(came > 0 || outcomes[1] == 0, "{kept}");
    }
    assert!(outcomes[0] > 0 && outcomes[1] > 0, "{outcomes:?}");
}

#[test]
fn whatever_fails_all_of_it_is_there_or_nothing() {
    let full = || Error::Unavailable("no room".into());
    let mut outcomes = [0, 0];
    for (operation, afters) in [
        (Operation::Commit, 0..8),
        (Operation::Load, 0..2),
        (Operation::Persist, 0..2),
    ] {
        for (after, lasts) in afters.flat_map(|n| [(n, false), (n, true)]) {
            let small = begun();
            if lasts {
                small.fault.fail_always(operation, after, full);
            } else {
                small.fault.fail_once(operation, after, full);
            }
            let done = ingest(&small.engine, 3, ingested());
            small.fault.heal();
            outcomes[usize::from(done.is_ok())] += 1;
            for kept in [0, small.fault.unsynced()] {
                let (was, came) = found(&small.after_crash(kept).engine);
                assert_eq!(was, 200, "{operation:?} {after} {lasts} {kept}");
                assert!(came > 0 || done.is_err() || kept == 0);
            }
            // A repetition succeeds.
            if done.is_err() {
                ingest(&small.engine, 4, ingested()).unwrap();
            }
            assert_eq!(found(&small.engine), (200, 101));
        }
    }
    assert!(outcomes[0] > 3 && outcomes[1] > 3, "{outcomes:?}");
}

#[test]
fn what_lies_elsewhere_is_refused() {
    let small = begun();
    for wrong in [99, 200, 250] {
        let mut ingested = ingested();
        ingested.rows = vec![row(wrong, "came")];
        ingest(&small.engine, 3, ingested).unwrap_err();
    }
    let mut turned = ingested();
    turned.rows.swap(3, 4);
    ingest(&small.engine, 4, turned).unwrap_err();
    assert_eq!(found(&small.engine), (200, 0));
}
