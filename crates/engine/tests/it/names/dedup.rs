//! Repeated changes: not applied again, and answered as the first time.

use super::{directory, errno, file, path, small, stat};
use crate::small::Small;
use esker_engine::Engine;
use esker_model::Result;
use esker_model::idempotency::ProducerKey;
use esker_model::namespace::{AppliedChange, Change, Changes, Errno};
use esker_model::object::Principal;

fn numbered(small: &Small, number: u64, settled: u64) -> Vec<u8> {
    let numbered = ProducerKey {
        producer: [5; 16],
        sequence: number,
        settled_below: settled,
        created_millis: small.clock.millis(),
    };
    numbered.encode()
}

fn make(at: &str) -> Change {
    Change::Create(path(at), directory(0o755))
}

fn changes(key: impl Into<Option<Vec<u8>>>, changes: Vec<Change>) -> Changes {
    Changes {
        principal: None,
        changes,
        idempotency_key: key.into(),
        is_retry: false,
    }
}

fn ok(outcomes: &[Result<AppliedChange>]) -> Vec<Option<AppliedChange>> {
    outcomes.iter().map(|o| o.as_ref().ok().copied()).collect()
}

fn apply_once(engine: &Engine, changes: &Changes) -> Vec<Result<AppliedChange>> {
    engine.change_once(changes).unwrap()
}

#[test]
fn what_was_made_is_not_made_again_and_answered_as_it_was() {
    let mut small = small();
    let first = changes(
        numbered(&small, 0, 0),
        vec![make("/a"), make("/a"), make("/a/b")],
    );
    let before = apply_once(&small.engine, &first);
    assert!(before[0].is_ok() && before[2].is_ok());
    // Other clients remove what it made; its recorded outcome is unchanged.
    let rmdir = changes(None, vec![Change::Rmdir(path("/a/b"))]);
    assert!(apply_once(&small.engine, &rmdir)[0].is_ok());
    for round in 0..3 {
        if round == 1 {
            small = small.after_crash(small.fault.unsynced());
        }
        let again = apply_once(&small.engine, &first);
        assert_eq!(ok(&again), ok(&before), "round {round}");
        assert_eq!(errno(again.into_iter().nth(1).unwrap()), Errno::Exists);
        assert_eq!(errno(stat(&small.engine, "/a/b")), Errno::NotFound);
    }
    // A later batch settles it; a delayed copy does nothing.
    let next = changes(numbered(&small, 1, 1), vec![make("/c")]);
    assert!(apply_once(&small.engine, &next)[0].is_ok());
    assert!(apply_once(&small.engine, &first)[0].is_ok());
    assert_eq!(errno(stat(&small.engine, "/a/b")), Errno::NotFound);
    super::sound(&small.engine);
}

/// A set that changed nothing is not recorded, since repeating it is harmless.
#[test]
fn what_failed_is_decided_anew() {
    let small = small();
    let first = changes(numbered(&small, 0, 0), vec![make("/a/b")]);
    let failed = apply_once(&small.engine, &first).remove(0);
    assert_eq!(errno(failed), Errno::NotFound);
    let parent = changes(None, vec![make("/a")]);
    assert!(apply_once(&small.engine, &parent)[0].is_ok());
    assert!(apply_once(&small.engine, &first)[0].is_ok());
}

#[test]
fn several_callers_are_one_commit_and_answered_each() {
    let small = small();
    let ada = Principal {
        uid: 7,
        gids: vec![7],
    };
    let group = [
        changes(numbered(&small, 0, 0), vec![make("/a"), make("/b")]),
        // The connection broke, and the set was sent again before the first was processed.
        changes(numbered(&small, 0, 0), vec![make("/a"), make("/b")]),
        Changes {
            principal: Some(ada),
            changes: vec![Change::Create(path("/a/x"), file(0o644))],
            idempotency_key: None,
            is_retry: false,
        },
        changes(b"own".to_vec(), vec![make("/c")]),
        changes(None, vec![make("/a/y")]),
    ];
    let done = small.engine.change_all(&group);
    let outcomes = |n: usize| done[n].as_ref().unwrap();
    assert_eq!(ok(outcomes(0)), ok(outcomes(1)));
    let versions: Vec<_> = outcomes(0)
        .iter()
        .chain(outcomes(4))
        .map(|o| o.as_ref().unwrap().version)
        .collect();
    assert!(versions.iter().all(|v| *v == versions[0]), "{versions:?}");
    assert!(
        matches!(&outcomes(2)[0], Err(esker_model::Error::File(e)) if e.errno == Errno::Access)
    );
    assert!(
        done[3]
            .as_ref()
            .is_err_and(|e| e.to_string().contains("idempotency key"))
    );
    assert_eq!(errno(stat(&small.engine, "/c")), Errno::NotFound);
    super::sound(&small.engine);
}

/// With any number of open responses, a producer's row stays small; omitted ids are derived from the present state.
#[test]
fn answers_of_many_open_changes_are_bounded() {
    let small = small();
    let many = |n: u64| {
        let all = (0..200).map(|i| make(&format!("/{n}-{i}"))).collect();
        changes(numbered(&small, n, 0), all)
    };
    let first = apply_once(&small.engine, &many(0));
    for n in 1..40 {
        apply_once(&small.engine, &many(n));
    }
    let again = apply_once(&small.engine, &many(0));
    let ids = |all: &[Result<AppliedChange>]| {
        all.iter()
            .map(|o| o.as_ref().unwrap().id)
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&again), ids(&first));
    let (_, largest) = crate::idempotency::rows(&small);
    assert!(largest < 80 << 10, "{largest} bytes");
}
