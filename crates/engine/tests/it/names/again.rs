//! Changes that come again: not made again, and answered as the first time.

use super::{directory, errno, file, path, small, stat};
use crate::small::Small;
use esker_engine::Engine;
use esker_model::Result;
use esker_model::namespace::{Change, Changes, Done, Errno};
use esker_model::object::Asker;
use esker_model::once::Numbered;

fn numbered(small: &Small, number: u64, settled: u64) -> Vec<u8> {
    let numbered = Numbered {
        sender: [5; 16],
        number,
        settled,
        made: small.clock.millis(),
    };
    numbered.encode()
}

fn make(at: &str) -> Change {
    Change::Make(path(at), directory(0o755))
}

fn changes(once: impl Into<Option<Vec<u8>>>, changes: Vec<Change>) -> Changes {
    Changes {
        asker: None,
        changes,
        once: once.into(),
        again: false,
    }
}

fn ok(outcomes: &[Result<Done>]) -> Vec<Option<Done>> {
    outcomes.iter().map(|o| o.as_ref().ok().copied()).collect()
}

fn once(engine: &Engine, changes: &Changes) -> Vec<Result<Done>> {
    engine.change_once(changes).unwrap()
}

#[test]
fn what_was_made_is_not_made_again_and_answered_as_it_was() {
    let mut small = small();
    let first = changes(
        numbered(&small, 0, 0),
        vec![make("/a"), make("/a"), make("/a/b")],
    );
    let before = once(&small.engine, &first);
    assert!(before[0].is_ok() && before[2].is_ok());
    // Others remove what it made; that does not change what it did.
    let rmdir = changes(None, vec![Change::Rmdir(path("/a/b"))]);
    assert!(once(&small.engine, &rmdir)[0].is_ok());
    for round in 0..3 {
        if round == 1 {
            small = small.after_crash(small.fault.unsynced());
        }
        let again = once(&small.engine, &first);
        assert_eq!(ok(&again), ok(&before), "round {round}");
        assert_eq!(errno(again.into_iter().nth(1).unwrap()), Errno::Exists);
        assert_eq!(errno(stat(&small.engine, "/a/b")), Errno::NotFound);
    }
    // Later ones say that it is known; a copy that comes late does nothing.
    let next = changes(numbered(&small, 1, 1), vec![make("/c")]);
    assert!(once(&small.engine, &next)[0].is_ok());
    assert!(once(&small.engine, &first)[0].is_ok());
    assert_eq!(errno(stat(&small.engine, "/a/b")), Errno::NotFound);
    super::sound(&small.engine);
}

/// Nothing was done, so that nothing is done twice.
#[test]
fn what_failed_is_decided_anew() {
    let small = small();
    let first = changes(numbered(&small, 0, 0), vec![make("/a/b")]);
    let failed = once(&small.engine, &first).remove(0);
    assert_eq!(errno(failed), Errno::NotFound);
    let parent = changes(None, vec![make("/a")]);
    assert!(once(&small.engine, &parent)[0].is_ok());
    assert!(once(&small.engine, &first)[0].is_ok());
}

#[test]
fn several_callers_are_one_commit_and_answered_each() {
    let small = small();
    let ada = Asker {
        uid: 7,
        gids: vec![7],
    };
    let group = [
        changes(numbered(&small, 0, 0), vec![make("/a"), make("/b")]),
        // The connection went, and it was sent again before the first was looked at.
        changes(numbered(&small, 0, 0), vec![make("/a"), make("/b")]),
        Changes {
            asker: Some(ada),
            changes: vec![Change::Make(path("/a/x"), file(0o644))],
            once: None,
            again: false,
        },
        changes(b"own".to_vec(), vec![make("/c")]),
        changes(None, vec![make("/a/y")]),
    ];
    let done = small.engine.change_together(&group);
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
            .is_err_and(|e| e.to_string().contains("marker"))
    );
    assert_eq!(errno(stat(&small.engine, "/c")), Errno::NotFound);
    super::sound(&small.engine);
}

/// However many answers are open, a sender's row stays small; what is left out is told from what is there.
#[test]
fn answers_of_many_open_changes_are_bounded() {
    let small = small();
    let many = |n: u64| {
        let all = (0..200).map(|i| make(&format!("/{n}-{i}"))).collect();
        changes(numbered(&small, n, 0), all)
    };
    let first = once(&small.engine, &many(0));
    for n in 1..40 {
        once(&small.engine, &many(n));
    }
    let again = once(&small.engine, &many(0));
    let ids = |all: &[Result<Done>]| {
        all.iter()
            .map(|o| o.as_ref().unwrap().id)
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&again), ids(&first));
    let (_, largest) = crate::senders::rows(&small);
    assert!(largest < 80 << 10, "{largest} bytes");
}
