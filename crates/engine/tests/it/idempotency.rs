//! Numbered batches of a producer are applied once: repeated at once, in one group, after a crash, out of order, after
//! the producer was forgotten.

use crate::small::Small;
use esker_model::idempotency::{
    BATCH_AGE_MILLIS_MAX, PRODUCER_PREFIX, PRODUCER_RETENTION_MILLIS, ProducerKey,
    SEQUENCE_SPAN_MAX,
};
use esker_model::{Batch, Error, Flow, GraphRead as _, GraphWrite as _, Op, Properties, Result};
use esker_store::fault::Operation;
use esker_store::{KeyRange, Table};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn numbered(small: &Small, number: u64, settled: u64) -> ProducerKey {
    ProducerKey {
        producer: [9; 16],
        sequence: number,
        settled_below: settled,
        created_millis: small.clock.millis(),
    }
}

fn batch(small: &Small, name: &str, idempotency_key: ProducerKey) -> Batch {
    let mut batch = Batch::new();
    batch.push(small.insurance(name));
    batch.idempotency_key = Some(idempotency_key.encode());
    batch
}

fn vertices(small: &Small) -> u64 {
    let counts = small.engine.counts().unwrap();
    counts.vertices.iter().map(|(_, n)| n).sum()
}

/// Number of producers' rows, and the size of the largest in bytes.
pub(super) fn rows(small: &Small) -> (usize, usize) {
    let (mut count, mut largest) = (0, 0);
    let range = KeyRange::prefix(&[b"once/", PRODUCER_PREFIX].concat());
    let store = small.engine.store();
    store
        .scan(Table::Meta, &range, &mut |_, row| {
            count += 1;
            largest = largest.max(row.len());
            Flow::Continue(())
        })
        .unwrap();
    (count, largest)
}

#[test]
fn a_repetition_changes_nothing() {
    let small = Small::new();
    let apply = |name: &str, idempotency_key| {
        small
            .engine
            .apply(batch(&small, name, idempotency_key))
            .unwrap()
    };
    assert!(apply("file:0", numbered(&small, 0, 0)).applied);
    assert!(!apply("file:0x", numbered(&small, 0, 0)).applied);
    // The responses to 1 and 2 are still open; 2 came first.
    assert!(apply("file:2", numbered(&small, 2, 1)).applied);
    assert!(apply("file:1", numbered(&small, 1, 1)).applied);
    for number in [0, 1, 2] {
        let idempotency_key = numbered(&small, number, 0);
        assert!(!apply("file:again", idempotency_key).applied);
        assert!(small.engine.applied(&idempotency_key.encode()).unwrap());
    }
    let next = numbered(&small, 3, 3).encode();
    assert!(!small.engine.applied(&next).unwrap());
    assert_eq!(vertices(&small), 3);
}

#[test]
fn a_repetition_in_the_same_group_changes_nothing() {
    let small = Small::new();
    let commits = small.engine.apply_all(vec![
        batch(&small, "file:0", numbered(&small, 0, 0)),
        batch(&small, "file:0x", numbered(&small, 0, 0)),
        batch(&small, "file:1", numbered(&small, 1, 0)),
    ]);
    let applied: Vec<_> = commits.into_iter().map(|c| c.unwrap().applied).collect();
    assert_eq!(applied, [true, false, true]);
}

/// A failed batch may be tried again under its number.
#[test]
fn what_failed_was_not_applied() {
    let small = Small::new();
    let mut wrong = batch(&small, "file:0", numbered(&small, 0, 0));
    wrong.push(Op::SetAttributes {
        vertex: small.name("file:none").0,
        set: Properties::new().with("x", 1),
        remove: vec![],
    });
    let commits = small
        .engine
        .apply_all(vec![wrong, batch(&small, "file:1", numbered(&small, 1, 0))]);
    assert!(commits[0].is_err());
    assert!(commits[1].as_ref().unwrap().applied);
    let idempotency_key = numbered(&small, 0, 0);
    assert!(!small.engine.applied(&idempotency_key.encode()).unwrap());
    let again = small
        .engine
        .apply(batch(&small, "file:0", idempotency_key))
        .unwrap();
    assert!(again.applied);
}

/// A disk that fails a commit: neither the batch nor its number is stored, whatever this process cached.
#[test]
fn what_could_not_be_committed_was_not_applied() {
    let small = Small::new();
    let idempotency_key = |n| numbered(&small, n, 0);
    small
        .engine
        .apply(batch(&small, "file:0", idempotency_key(0)))
        .unwrap();
    small.fault.fail_once(Operation::Commit, 0, || {
        Error::io(
            "writing",
            std::io::Error::from(std::io::ErrorKind::StorageFull),
        )
    });
    assert!(
        small
            .engine
            .apply(batch(&small, "file:1", idempotency_key(1)))
            .is_err()
    );
    let again = small
        .engine
        .apply(batch(&small, "file:1", idempotency_key(1)));
    assert!(again.unwrap().applied);
    let first = small
        .engine
        .apply(batch(&small, "file:0", idempotency_key(0)));
    assert!(!first.unwrap().applied);
    assert_eq!(vertices(&small), 2);
}

/// The row is part of the commit that it describes: after a crash both exist, or neither.
#[test]
fn a_crash_keeps_both_or_neither() {
    let small = Small::new();
    small.engine.persist().unwrap();
    for number in 0..4 {
        let name = format!("file:{number}");
        let idempotency_key = numbered(&small, number, number);
        small
            .engine
            .apply(batch(&small, &name, idempotency_key))
            .unwrap();
    }
    for kept in 0..=small.fault.unsynced() {
        let after = small.after_crash(kept);
        let mut there = 0;
        for number in 0..4 {
            let name = format!("file:{number}");
            let found = after.vertex(&name).is_some();
            let idempotency_key = numbered(&after, number, 0);
            let commit = after
                .engine
                .apply(batch(&after, &name, idempotency_key))
                .unwrap();
            assert_eq!(!found, commit.applied, "{kept} {number}");
            there += usize::from(found);
        }
        assert_eq!(there, kept);
    }
}

/// The server went away after it applied the batch, and returns after longer than it remembers producers.
#[test]
fn a_repetition_after_the_producer_was_forgotten_is_refused() {
    let small = Small::new();
    let (first, second) = (numbered(&small, 0, 0), numbered(&small, 1, 0));
    let apply = |small: &Small, idempotency_key| {
        small.engine.apply(batch(small, "file:0", idempotency_key))
    };
    assert!(apply(&small, first).unwrap().applied);
    let forget = |small: &Small| small.engine.forget_producers(small.clock.millis()).unwrap();
    small.clock.advance(PRODUCER_RETENTION_MILLIS as i64);
    assert_eq!(forget(&small), 0);
    // As long as the producer is remembered, a repeated batch is recognised.
    assert!(!apply(&small, first).unwrap().applied);
    small.clock.advance(1);
    assert_eq!((forget(&small), rows(&small).0), (1, 0));
    for idempotency_key in [first, second] {
        let e = apply(&small, idempotency_key).unwrap_err();
        assert!(matches!(e, Error::Undecided(_)), "{e:?}");
        assert!(e.to_string().contains("24 hours ago"), "{e}");
    }
    // A batch made now cannot have been applied before, whatever its number.
    let (later, earlier) = (
        numbered(&small, 3 * SEQUENCE_SPAN_MAX, 3 * SEQUENCE_SPAN_MAX),
        first,
    );
    assert!(apply(&small, later).unwrap().applied);
    assert!(!apply(&small, earlier).unwrap().applied);
}

/// Found by the random histories below: a forgotten producer continues, and then repeats an old batch.
#[test]
fn a_row_made_anew_does_not_know_what_was_before() {
    let small = Small::new();
    let apply = |idempotency_key| small.engine.apply(batch(&small, "file:0", idempotency_key));
    let before = numbered(&small, 0, 0);
    assert!(apply(before).unwrap().applied);
    small.clock.advance(PRODUCER_RETENTION_MILLIS as i64 + 1);
    let forgotten = small.engine.forget_producers(small.clock.millis()).unwrap();
    assert_eq!(forgotten, 1);
    assert!(apply(numbered(&small, 1, 0)).unwrap().applied);
    let e = apply(before).unwrap_err();
    assert!(matches!(e, Error::Undecided(_)), "{e:?}");
}

/// The sweep has found the producer's row to be old; then the producer writes, and then the sweep continues.
#[test]
fn a_producer_that_writes_during_the_sweep_is_kept() {
    let small = Small::new();
    let apply = |small: &Small, idempotency_key| {
        small
            .engine
            .apply(batch(small, "file:0", idempotency_key))
            .unwrap()
    };
    assert!(apply(&small, numbered(&small, 0, 0)).applied);
    small.clock.advance(PRODUCER_RETENTION_MILLIS as i64 + 1);
    let (now, next) = (small.clock.millis(), numbered(&small, 1, 1));
    small.clock.block_next_reader();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| apply(&small, next));
        small.clock.wait_until_blocked();
        let sweep = scope.spawn(|| small.engine.forget_producers(now).unwrap());
        // The sweep reads the rows quickly, and then waits for the writer.
        std::thread::sleep(std::time::Duration::from_millis(100));
        small.clock.unblock();
        assert!(writer.join().unwrap().applied);
        assert_eq!(sweep.join().unwrap(), 0);
    });
    let again = small.after_crash(small.fault.unsynced());
    assert!(!apply(&again, next).applied);
}

/// Clocks differ, but a batch from further in the future would be accepted for too long.
#[test]
fn a_batch_from_the_future_is_refused() {
    let small = Small::new();
    let made = |ahead: u64| ProducerKey {
        created_millis: small.clock.millis() + ahead,
        ..numbered(&small, ahead, 0)
    };
    let e = small
        .engine
        .apply(batch(&small, "file:0", made(BATCH_AGE_MILLIS_MAX + 1)))
        .unwrap_err();
    assert!(e.to_string().contains("set the clock"), "{e}");
    let near = ProducerKey {
        sequence: 0,
        ..made(BATCH_AGE_MILLIS_MAX)
    };
    let near = batch(&small, "file:0", near);
    assert!(small.engine.apply(near).unwrap().applied);
}

#[test]
fn markers_that_are_nearly_numbered_are_refused() {
    let small = Small::new();
    let mut wrong = batch(&small, "file:0", numbered(&small, 0, 0));
    wrong.idempotency_key = Some([PRODUCER_PREFIX, &[9; 16]].concat());
    let e = small
        .engine
        .applied(&wrong.idempotency_key.clone().unwrap());
    assert!(matches!(e, Err(Error::Invalid(_))), "{e:?}");
    let e = small.engine.apply(wrong).unwrap_err();
    assert!(matches!(e, Error::Invalid(_)), "{e:?}");
    assert_eq!((rows(&small).0, vertices(&small)), (0, 0));
}

/// A client that settles nothing: its row stays small where possible, and is limited otherwise.
#[test]
fn a_producer_has_one_row_of_bounded_size() {
    let small = Small::new();
    let apply = |number| {
        let mut empty = Batch::new();
        empty.idempotency_key = Some(numbered(&small, number, 0).encode());
        small.engine.apply(empty)
    };
    for number in 0..2_000 {
        assert!(apply(number).unwrap().applied);
    }
    let (count, largest) = rows(&small);
    assert_eq!(count, 1);
    assert!(largest < 16, "in order there is nothing to list: {largest}");
    // Every other batch is missing.
    for number in (2_001..2_000 + SEQUENCE_SPAN_MAX).step_by(16) {
        assert!(apply(number).unwrap().applied);
    }
    let e = apply(2_000 + SEQUENCE_SPAN_MAX).unwrap_err();
    assert!(matches!(e, Error::Limit { .. }), "{e:?}");
    let (count, largest) = rows(&small);
    assert_eq!(count, 1);
    assert!(largest < 3 * SEQUENCE_SPAN_MAX as usize / 16, "{largest}");
    assert!(!apply(2_001).unwrap().applied);
    assert!(apply(2_002).unwrap().applied);
}

const HOUR: i64 = 3_600_000;

/// Events of producers and their database.
#[derive(Debug, Clone)]
enum Step {
    /// A producer, whose clock is some hours fast, numbers a batch and sends it.
    New(u8, i64),
    /// An unanswered batch is sent again.
    Repeat(prop::sample::Index),
    /// A response arrives.
    Answer(prop::sample::Index),
    /// A batch sent long ago arrives now, whether or not it is known.
    Late(prop::sample::Index),
    /// Several of them arrive in one group.
    Together(Vec<prop::sample::Index>),
    Hours(u8),
    Forget,
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let index = any::<prop::sample::Index>;
    let step = prop_oneof![
        8 => (0_u8..3, -12_i64..=12).prop_map(|(s, ahead)| Step::New(s, ahead)),
        4 => index().prop_map(Step::Repeat),
        6 => index().prop_map(Step::Answer),
        2 => index().prop_map(Step::Late),
        2 => prop::collection::vec(index(), 1..6).prop_map(Step::Together),
        1 => (1_u8..30).prop_map(Step::Hours),
        1 => Just(Step::Forget),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..80)
}

/// The set of applied batches, and each producer's own state.
#[derive(Default)]
struct Model {
    sent: Vec<ProducerKey>,
    applied: BTreeSet<(u8, u64)>,
    open: BTreeMap<u8, BTreeSet<u64>>,
    next: BTreeMap<u8, u64>,
}

impl Model {
    fn is_open(&self, n: &ProducerKey) -> bool {
        let open = self.open.get(&n.producer[0]);
        open.is_some_and(|o| o.contains(&n.sequence))
    }

    fn one(&self, index: prop::sample::Index, open: bool) -> Option<ProducerKey> {
        let all: Vec<_> = self
            .sent
            .iter()
            .filter(|n| !open || self.is_open(n))
            .collect();
        (!all.is_empty()).then(|| **index.get(&all))
    }

    /// Compares a response with the set.
    fn arrived(
        &mut self,
        n: ProducerKey,
        answer: Result<bool>,
        age: u64,
    ) -> Result<(), TestCaseError> {
        let id = (n.producer[0], n.sequence);
        match answer {
            Ok(true) => prop_assert!(self.applied.insert(id), "twice: {:?}", n),
            // The response to an open batch must be correct; a settled one is irrelevant.
            Ok(false) if self.is_open(&n) => {
                prop_assert!(self.applied.contains(&id), "lost: {:?}", n);
            }
            Ok(false) => {}
            Err(e) => {
                prop_assert!(matches!(e, Error::Undecided(_)), "{:?}", e);
                prop_assert!(age > BATCH_AGE_MILLIS_MAX, "it is young: {:?}", n);
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// No batch is applied twice, no open batch is wrongly taken for applied, and no recent batch is refused.
    #[test]
    fn producers_are_a_set_of_numbers(steps in steps()) {
        let mut small = Small::new();
        small.clock.advance(1_000 * HOUR);
        let mut model = Model::default();
        let mut names = 0;
        for step in steps {
            let ingested: Vec<ProducerKey> = match step {
                Step::New(producer, ahead) => {
                    let number = model.next.entry(producer).or_default();
                    let open = model.open.entry(producer).or_default();
                    open.insert(*number);
                    let n = ProducerKey {
                        producer: [producer; 16],
                        sequence: *number,
                        settled_below: open.first().copied().unwrap_or_default(),
                        created_millis: small.clock.millis().saturating_add_signed(ahead * HOUR),
                    };
                    *number += 1;
                    model.sent.push(n);
                    // Some do not arrive at first.
                    if number.is_multiple_of(3) { vec![] } else { vec![n] }
                }
                Step::Repeat(index) => model.one(index, true).into_iter().collect(),
                Step::Late(index) => model.one(index, false).into_iter().collect(),
                Step::Together(indexes) => {
                    indexes.into_iter().filter_map(|i| model.one(i, false)).collect()
                }
                Step::Answer(index) => {
                    if let Some(n) = model.one(index, true) {
                        model.open.entry(n.producer[0]).or_default().remove(&n.sequence);
                    }
                    vec![]
                }
                Step::Hours(hours) => {
                    small.clock.advance(i64::from(hours) * HOUR);
                    vec![]
                }
                Step::Forget => {
                    small.engine.forget_producers(small.clock.millis()).unwrap();
                    vec![]
                }
                Step::Reopen => {
                    small = small.after_crash(small.fault.unsynced());
                    vec![]
                }
            };
            let batches = ingested.iter().map(|n| {
                names += 1;
                batch(&small, &format!("file:{names}"), *n)
            }).collect();
            let answers = small.engine.apply_all(batches);
            for (n, answer) in ingested.into_iter().zip(answers) {
                let age = small.clock.millis().saturating_sub(n.created_millis);
                model.arrived(n, answer.map(|c| c.applied), age)?;
            }
        }
        prop_assert_eq!(vertices(&small), model.applied.len() as u64);
        prop_assert!(rows(&small).0 <= 3);
    }
}
