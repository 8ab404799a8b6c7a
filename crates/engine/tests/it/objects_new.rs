//! Objects created in one batch with changes that free or take their identities; searches during concurrent changes.

use crate::small::Small;
use esker_engine::Engine;
use esker_model::filter::Expr;
use esker_model::object::{Find, Identity, ObjectId, ObjectKey, ObjectRead, Values, object_ref};
use esker_model::{
    Batch, Cancel, Commit, Flow, GraphRead, GraphWrite, NeverCancel, Op, Properties, Result,
};
use std::sync::atomic::{AtomicBool, Ordering};

fn identity(step: i64) -> Identity {
    Identity {
        name: "energy".into(),
        app: "vpic".into(),
        owner: 1,
        step,
    }
}

fn create(step: i64, n: i64) -> Op {
    Op::CreateObject {
        identity: identity(step),
        attributes: Properties::new().with("location", format!("/{step}")),
        tags: Properties::new().with("n", n),
    }
}

fn batch(ops: impl IntoIterator<Item = Op>) -> Batch {
    let mut batch = Batch::new();
    ops.into_iter().for_each(|op| batch.push(op));
    batch
}

fn number(engine: &Engine, step: i64) -> Option<ObjectId> {
    let key = ObjectKey::Identity(identity(step));
    engine.read_objects(&[key], None).unwrap()[0]
        .as_ref()
        .map(|o| o.id)
}

fn n(engine: &Engine, step: i64) -> Option<i64> {
    let key = ObjectKey::Identity(identity(step));
    let found = engine.read_objects(&[key], None).unwrap().remove(0)?;
    match found.get("n") {
        Some(esker_model::Value::I64(n)) => Some(*n),
        _ => None,
    }
}

fn delete(engine: &Engine, step: i64) -> Op {
    let id = number(engine, step).unwrap();
    let vertex = object_ref(&engine.schema().unwrap(), id).unwrap();
    Op::DeleteVertex { vertex }
}

fn rename(engine: &Engine, from: i64, to: i64) -> Op {
    Op::MoveObject {
        object: number(engine, from).unwrap(),
        from: identity(from),
        to: identity(to),
    }
}

fn check_all(small: &Small, expected: &[(i64, Option<i64>)]) {
    let reopened = small.after_crash(usize::MAX);
    for engine in [&small.engine, &reopened.engine] {
        for (step, value) in expected {
            assert_eq!(n(engine, *step), *value, "step {step}");
        }
        let there = expected.iter().filter(|(_, value)| value.is_some()).count();
        let count = Find {
            count: true,
            ..Find::all(Expr::All)
        };
        let report = engine.find(&count, &NeverCancel, &mut |_| unreachable!());
        assert_eq!(report.unwrap().matches, there as u64);
        let report = engine
            .check(
                &esker_engine::CheckOptions::default(),
                &NeverCancel,
                &mut |_| {},
            )
            .unwrap();
        assert_eq!(report.problems, []);
    }
}

fn taken(answer: &Result<Commit>) -> bool {
    answer
        .as_ref()
        .is_err_and(|e| e.to_string().contains("exists already"))
}

#[test]
fn what_a_batch_lets_go_of_it_may_give_anew_once() {
    let small = Small::new();
    let engine = &small.engine;
    engine.apply(batch([create(1, 1), create(2, 2)])).unwrap();
    let again = batch([delete(engine, 1), create(1, 10), create(1, 11)]);
    assert!(taken(&engine.apply(again)));
    assert_eq!(n(engine, 1), Some(1), "all or nothing");
    let before = number(engine, 1);
    engine
        .apply(batch([delete(engine, 1), create(1, 10), create(3, 3)]))
        .unwrap();
    assert_ne!(number(engine, 1), before);
    // The identity of the object that moves away is free, the one that it takes is not.
    let moved = batch([rename(engine, 2, 4), create(2, 20), create(4, 40)]);
    assert!(taken(&engine.apply(moved)));
    engine
        .apply(batch([rename(engine, 2, 4), create(2, 20)]))
        .unwrap();
    let back = batch([create(5, 5), rename(engine, 3, 5)]);
    assert!(taken(&engine.apply(back)));
    check_all(
        &small,
        &[
            (1, Some(10)),
            (2, Some(20)),
            (3, Some(3)),
            (4, Some(2)),
            (5, None),
        ],
    );
}

#[test]
fn a_batch_that_fails_leaves_nothing_to_those_of_its_group() {
    let small = Small::new();
    let engine = &small.engine;
    // More than one part of the log, so that the rollback spans parts.
    let many = |from: i64| (from..from + 9_000).map(|step| create(step, step));
    let fails = batch(many(10_000).chain([create(1, 1), create(1, 2)]));
    let answers = engine.apply_all(vec![
        batch([create(1, 1), create(2, 2)]),
        fails,
        batch([create(1, 5)]),
        batch(many(10_000)),
        batch([create(10_000, 0)]),
        batch([create(3, 3)]),
    ]);
    let bad: Vec<bool> = answers.iter().map(taken).collect();
    assert_eq!(bad, [false, true, true, false, true, false]);
    let mut expected = vec![(1, Some(1)), (2, Some(2)), (3, Some(3)), (4, None)];
    expected.extend((10_000..19_000).map(|step| (step, Some(step))));
    check_all(&small, &expected);
    engine.checkpoint_objects().unwrap();
    check_all(&small, &expected);
}

/// Changes objects while a search collects columns.
struct Meddler<'e> {
    engine: &'e Engine,
    done: AtomicBool,
}

impl Cancel for Meddler<'_> {
    fn cancelled(&self) -> bool {
        if !self.done.swap(true, Ordering::Relaxed) {
            let id = number(self.engine, 7).unwrap();
            let vertex = object_ref(&self.engine.schema().unwrap(), id).unwrap();
            let change = Op::SetAttributes {
                vertex,
                set: Properties::new().with("n", "another kind"),
                remove: Vec::new(),
            };
            let gone = delete(self.engine, 8);
            self.engine.apply(batch([change, gone])).unwrap();
        }
        false
    }
}

#[test]
fn columns_are_of_one_moment() {
    let small = Small::new();
    let engine = &small.engine;
    engine
        .apply(batch((0..20).map(|step| create(step, step * 2))))
        .unwrap();
    let find = Find {
        select: Some(vec!["n".into(), "location".into()]),
        ..Find::all(Expr::parse("step >= 5", None).unwrap())
    };
    let meddler = Meddler {
        engine,
        done: AtomicBool::new(false),
    };
    let found = engine.find_columns(&find, &meddler).unwrap();
    let expected = (5..20).map(|step| step * 2).collect();
    assert_eq!(found.column("n"), Some(&Values::I64(expected)));
    assert_eq!(found.ids.len(), 15);
    let after = engine.find_columns(&find, &NeverCancel).unwrap();
    assert_eq!(after.ids.len(), 14);
    let changed = after.column("n").and_then(|c| c.get(2));
    assert_eq!(
        changed.map(|v| v.to_value()),
        Some(esker_model::Value::from("another kind"))
    );
    let few = Find {
        limit: Some(3),
        ..find
    };
    let few = engine.find_columns(&few, &NeverCancel).unwrap();
    assert_eq!((few.ids.len(), few.report.complete), (3, false));
}

/// Servers of a cluster end a page of a search at 1 MiB, and asked for no more pages if at most 511 objects were left: those were missing
/// from results that claimed to be complete. A search assembles 512 objects at once, and overlooked those of them that it had not delivered
/// when its sink ended it.
#[test]
fn a_search_that_its_sink_ends_is_complete_only_behind_the_last_object() {
    let small = Small::new();
    let engine = &small.engine;
    let all = 600_u64;
    engine
        .apply(batch((0..all as i64).map(|step| create(step, step))))
        .unwrap();
    for most in [1, 511, 512, 513, all - 1, all] {
        let mut left = most;
        let report = engine.find(&Find::all(Expr::All), &NeverCancel, &mut |_| {
            left -= 1;
            if left == 0 {
                return Flow::Break(());
            }
            Flow::Continue(())
        });
        let report = report.unwrap();
        let got = (report.matches, report.complete);
        assert_eq!(got, (most, most == all));
    }
}
