//! Tests of objects through another process or a server, with the results of a local database.

use crate::child::Child;
use crate::parity::{EITHER, Pair, Through, both, same};
use crate::processes::{database, open};
use esker::model::filter::Expr;
use esker::model::object::{
    Find, FindReport, Found, Identity, ObjectId, ObjectKey, ObjectRead, ObjectWrite, Principal,
    Share, TagChange, TagWhere, object_ref,
};
use esker::model::{
    Batch, Commit, Flow, GraphRead, GraphWrite, NeverCancel, Op, Properties, Value,
};
use esker::{Database, Role};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

fn identity(name: &str, step: i64) -> Identity {
    Identity {
        name: name.into(),
        app: "vpic".into(),
        owner: 1001,
        step,
    }
}

fn filter(text: &str) -> Expr {
    Expr::parse(text, None).unwrap()
}

/// `count` objects with one name; the third one is readable only by its owner.
fn create(db: &Database, name: &str, count: i64) {
    let mut batch = Batch::new();
    for step in 0..count {
        let mode = if step % 3 == 0 { 0o600 } else { 0o644 };
        let tags = Properties::new()
            .with("Conf", step % 2)
            .with("energy", step as f64 / 4.0)
            .with("note", format!("run {step}"));
        batch.push(Op::CreateObject {
            identity: identity(name, step),
            attributes: Properties::new()
                .with("location", format!("/scratch/{name}/{step}.h5"))
                .with("mode", mode),
            tags: if step % 5 == 0 {
                tags.with("seen", Value::Null)
            } else {
                tags
            },
        });
    }
    db.apply(batch).unwrap();
}

/// One object, in a batch of its own.
pub(crate) fn create_one(db: &Database, name: &str, step: i64) -> esker::Result<Commit> {
    let mut batch = Batch::new();
    batch.push(Op::CreateObject {
        identity: identity(name, step),
        attributes: Properties::new(),
        tags: Properties::new().with("Conf", step % 2),
    });
    db.apply(batch)
}

/// Name and step of all objects; each exists once, and is found by them.
pub(crate) fn names(db: &Database) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let found: Vec<_> = db
        .find_iter(Find::all(Expr::All))
        .collect::<Result<_, _>>()
        .unwrap();
    let keys: Vec<_> = found
        .iter()
        .map(|f| ObjectKey::Identity(f.identity().unwrap()))
        .collect();
    let again = db.read_objects(&keys, None).unwrap();
    for (found, again) in found.iter().zip(again) {
        let Identity { name, step, .. } = found.identity().unwrap();
        assert_eq!(again.as_ref().map(|f| f.id), Some(found.id));
        assert!(
            names.insert(format!("{name}-{step:06}")),
            "{name} {step} twice"
        );
    }
    names
}

fn all(db: &Database, find: &Find) -> esker::Result<(Vec<Found>, FindReport)> {
    let mut found = Vec::new();
    let mut report = db.find(find, &NeverCancel, &mut |f| {
        found.push(f);
        ControlFlow::Continue(())
    })?;
    for step in &mut report.plan {
        step.micros = step.micros.map(|_| 0);
    }
    Ok((found, report))
}

/// Objects of one batch are numbered in their order.
fn steps(found: &[Found]) -> Vec<i64> {
    let mut steps: Vec<_> = found.iter().map(|f| f.identity().unwrap().step).collect();
    steps.sort_unstable();
    steps
}

#[test]
fn every_question_gives_the_same() {
    EITHER
        .into_iter()
        .for_each(every_question_gives_the_same_through);
}

fn every_question_gives_the_same_through(through: Through) {
    let Pair { owner, other, .. } = &both(through);
    create(owner, "energy", 300);
    create(other, "density", 30);
    let on = |what: &str, call: &dyn Fn(&Database) -> esker::Result<String>| {
        same(what, &call(owner), &call(other));
    };
    let stranger = Principal {
        uid: 7,
        gids: vec![8],
    };
    let everything = Find::all(Expr::All);
    let (found, report) = all(owner, &everything).unwrap();
    assert_eq!((found.len(), report.complete), (330, true), "{report:?}");
    let keys: Vec<_> = [
        ObjectKey::Id(found[7].id),
        ObjectKey::Identity(identity("energy", 9)),
        ObjectKey::Identity(identity("nothing", 9)),
        ObjectKey::Id(ObjectId(1)),
    ]
    .into();
    for principal in [None, Some(&stranger)] {
        on("reads", &|db| {
            Ok(format!("{:?}", db.read_objects(&keys, principal)?))
        });
        on("tags", &|db| Ok(format!("{:?}", db.tags(principal)?)));
    }
    for text in [
        "",
        "Name = 'energy' AND Conf = 1 AND step BETWEEN 10 AND 20",
        "energy > 20 AND note LIKE 'run 1%'",
        "seen OR NOT EXISTS Conf",
        "varible = 1",
    ] {
        let find = Find::all(filter(text));
        let variants: [&dyn Fn(&mut Find); 7] = [
            &|_| {},
            &|f| f.select = Some(vec!["step".into(), "Conf".into()]),
            &|f| f.limit = Some(5),
            &|f| f.count = true,
            &|f| f.explain = true,
            &|f| f.principal = Some(stranger.clone()),
            &|f| f.share = Some(Share { rank: 1, of: 3 }),
        ];
        for (n, change) in variants.into_iter().enumerate() {
            let mut find = find.clone();
            change(&mut find);
            // The first searches build indexes, which the plans of the next ones show.
            for _ in 0..3 {
                let _ = all(owner, &find);
            }
            on(&format!("find {text} ({n})"), &|db| {
                Ok(format!("{:?}", all(db, &find)?))
            });
        }
    }
    // Checks the results as well, so that equal wrong results are noticed.
    let find = Find::all(filter(
        "Name = 'energy' AND Conf = 1 AND step BETWEEN 10 AND 20",
    ));
    let (found, report) = all(other, &find).unwrap();
    assert_eq!(steps(&found), [11, 13, 15, 17, 19]);
    assert_eq!((report.matches, report.complete), (5, true));
    let hidden = Find {
        principal: Some(stranger),
        ..find
    };
    let (found, _) = all(other, &hidden).unwrap();
    assert_eq!(steps(&found), [11, 13, 17, 19]);
    let (_, report) = all(other, &Find::all(filter("enrgy > 1"))).unwrap();
    assert_eq!(
        report.unknown,
        [("enrgy".into(), Some(("energy".into(), 330)))]
    );
}

#[test]
fn changes_are_the_same() {
    EITHER.into_iter().for_each(changes_are_the_same_through);
}

fn changes_are_the_same_through(through: Through) {
    let Pair { owner, other, .. } = &both(through);
    create(other, "energy", 20);
    let refused = |db: &Database| {
        let mut batch = Batch::new();
        batch.push(Op::CreateObject {
            identity: identity("energy", 3),
            attributes: Properties::new(),
            tags: Properties::new(),
        });
        db.apply(batch).map(|_| ())
    };
    assert!(refused(owner).is_err());
    same("an identity twice", &refused(owner), &refused(other));

    let change = |dry_run| TagWhere {
        filter: filter("step < 4"),
        change: TagChange {
            set: Properties::new().with("Conf_0", Value::Null),
            keep: false,
            remove: vec!["note".into()],
        },
        principal: Some(Principal {
            uid: 1001,
            gids: vec![],
        }),
        dry_run,
        idempotency_key: None,
    };
    let dry = other.tag_where(&change(true), &NeverCancel).unwrap();
    assert_eq!((dry.matches, dry.changed, dry.refused), (4, 4, 0));
    let tagged = Find::all(filter("Conf_0"));
    assert!(all(owner, &tagged).unwrap().0.is_empty(), "it was dry");
    let done = other.tag_where(&change(false), &NeverCancel).unwrap();
    assert_eq!((done.matches, done.changed, done.refused), (4, 4, 0));
    for db in [owner, other] {
        let (found, _) = all(db, &tagged).unwrap();
        assert_eq!(steps(&found), [0, 1, 2, 3]);
        assert!(found.iter().all(|f| f.tags.get("note").is_none()));
        assert!(found.iter().all(|f| f.modified >= done.version));
    }
    // A change with the caller's idempotency key is applied once, through whichever handle it is sent.
    let mut once = change(false);
    once.change.set = Properties::new().with("round", 1);
    once.idempotency_key = Some(b"round 1".to_vec());
    assert_eq!(other.tag_where(&once, &NeverCancel).unwrap().changed, 4);
    once.change.set = Properties::new().with("round", 2);
    assert_eq!(owner.tag_where(&once, &NeverCancel).unwrap().changed, 0);
    let (found, _) = all(other, &Find::all(filter("round = 1"))).unwrap();
    assert_eq!(found.len(), 4);
    // Objects of other users are counted.
    let mut strange = change(false);
    strange.principal = Some(Principal {
        uid: 7,
        gids: vec![],
    });
    let report = other.tag_where(&strange, &NeverCancel).unwrap();
    assert_eq!((report.matches, report.changed, report.refused), (2, 0, 2));

    let moved = found[0].clone();
    let mut batch = Batch::new();
    batch.push(Op::MoveObject {
        object: moved.id,
        from: moved.identity().unwrap(),
        to: identity("moved", 77),
    });
    other.apply(batch).unwrap();
    let key = [ObjectKey::Identity(identity("moved", 77))];
    let now = owner.read_objects(&key, None).unwrap();
    assert_eq!(now[0].as_ref().unwrap().id, moved.id);
    let mut batch = Batch::new();
    let schema = other.schema().unwrap();
    batch.push(Op::DeleteVertex {
        vertex: object_ref(&schema, moved.id).unwrap(),
    });
    other.apply(batch).unwrap();
    assert_eq!(owner.read_objects(&key, None).unwrap(), [None]);

    assert!(other.set_index("energy", false).unwrap());
    assert!(!owner.set_index("energy", false).unwrap());
    assert!(owner.set_index("energy", true).unwrap());
    let info = other.tags(None).unwrap();
    let info = info.iter().find(|t| t.name == "energy").unwrap();
    assert!(info.indexed);
}

/// Pages are in the order of creation, without duplicates; the iterator ends by itself and at the limit.
#[test]
fn an_iterator_turns_pages() {
    EITHER.into_iter().for_each(an_iterator_turns_pages_through);
}

fn an_iterator_turns_pages_through(through: Through) {
    let pair = both(through);
    let db = &pair.other;
    create(db, "energy", 3_000);
    let find = Find::all(filter("Conf = 1"));
    let mut pages = db.find_iter(find.clone());
    assert_eq!(pages.report(), None);
    let found: Vec<_> = pages.by_ref().collect::<Result<_, _>>().unwrap();
    assert_eq!(
        steps(&found),
        (0..1_500).map(|n| 2 * n + 1).collect::<Vec<_>>()
    );
    let report = pages.report().unwrap();
    assert_eq!((report.matches, report.complete), (1_500, true));
    assert!(pages.next().is_none());
    for limit in [0, 1, 256, 257, 1_499, 1_500, 1_501] {
        let find = Find {
            limit: Some(limit),
            ..find.clone()
        };
        let some: Vec<_> = db.find_iter(find).collect::<Result<_, _>>().unwrap();
        assert_eq!(some, found[..1_500.min(limit as usize)], "{limit}");
    }
    let shares: Vec<_> = (0..4)
        .map(|rank| {
            let find = Find {
                share: Some(Share { rank, of: 4 }),
                ..find.clone()
            };
            db.find_iter(find)
                .map(|f| f.unwrap().id)
                .collect::<Vec<_>>()
        })
        .collect();
    let together: BTreeSet<_> = shares.iter().flatten().copied().collect();
    assert_eq!(shares.iter().map(Vec::len).sum::<usize>(), 1_500);
    assert_eq!(together, found.iter().map(|f| f.id).collect());
}

/// A caller that stops early need not read the rest, and the next call works as before.
#[test]
fn a_search_can_break_off() {
    EITHER.into_iter().for_each(a_search_can_break_off_through);
}

fn a_search_can_break_off_through(through: Through) {
    let Pair { owner, other, .. } = &both(through);
    create(owner, "energy", 2_000);
    for db in [owner, other] {
        let mut seen = 0;
        let report = db
            .find(&Find::all(Expr::All), &NeverCancel, &mut |_| -> Flow {
                seen += 1;
                if seen == 10 {
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!((seen, report.complete), (10, false));
        assert_eq!(db.tags(None).unwrap(), owner.tags(None).unwrap());
    }
}

/// The owner is killed, or closes, while another process runs a search: the search continues with the next owner and
/// returns
/// each object once.
#[test]
fn a_search_survives_the_end_of_its_owner() {
    for kill in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let path = database(dir.path());
        let mut child = Child::start();
        assert_eq!(child.open(&path), "owner");
        let db = open(&path);
        create(&db, &"long".repeat(100), 5_000);
        let mut found = Vec::new();
        let find = Find {
            limit: Some(4_900),
            ..Find::all(filter("step >= 50"))
        };
        let report = db
            .find(&find, &NeverCancel, &mut |f| {
                found.push(f.identity().unwrap().step);
                if found.len() == 100 {
                    if kill {
                        child.kill();
                    } else {
                        child.send("close");
                    }
                }
                ControlFlow::Continue(())
            })
            .unwrap();
        let each: BTreeSet<_> = found.iter().copied().collect();
        assert_eq!((found.len(), each.len()), (4_900, 4_900));
        assert!(each.first() >= Some(&50) && each.last() < Some(&5_000));
        assert_eq!((report.matches, report.complete), (4_900, false));
        // A closing owner answers requests in progress.
        assert!(!kill || db.role() == Role::Owner);
    }
}

/// A tag that was set before the owner was killed is not set again over a later change by another caller.
#[test]
fn tags_that_were_set_before_the_owner_died_are_set_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = database(dir.path());
    let mut child = Child::start();
    assert_eq!(child.open(&path), "owner");
    let db = open(&path);
    assert!(matches!(db.role(), Role::Attached { .. }));
    create(&db, "energy", 20);
    let change = |value: i64, idempotency_key: Option<&[u8]>, dry_run| TagWhere {
        filter: filter("step >= 5"),
        change: TagChange {
            set: Properties::new().with("round", value),
            keep: false,
            remove: vec![],
        },
        principal: None,
        dry_run,
        idempotency_key: idempotency_key.map(<[u8]>::to_vec),
    };
    let marked = change(1, Some(b"round/1"), false);
    let counted = db
        .tag_where(&change(1, Some(b"round/1"), true), &NeverCancel)
        .unwrap();
    assert!(!counted.applied && counted.changed == 15, "{counted:?}");
    let first = db.tag_where(&marked, &NeverCancel).unwrap();
    assert!(first.applied && first.changed == 15, "{first:?}");
    let other = db.tag_where(&change(2, None, false), &NeverCancel).unwrap();
    assert!(other.applied && other.changed == 15, "{other:?}");
    child.kill();
    let again = db.tag_where(&marked, &NeverCancel).unwrap();
    assert_eq!(db.role(), Role::Owner);
    assert_eq!((again.applied, again.matches, again.changed), (false, 0, 0));
    let find = Find {
        count: true,
        ..Find::all(filter("round = 2"))
    };
    let none = &mut |_| ControlFlow::Continue(());
    assert_eq!(db.find(&find, &NeverCancel, none).unwrap().matches, 15);
}

/// Names that filters give a meaning of their own are refused as tags, in every call.
#[test]
fn names_with_a_meaning_are_no_tags() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&database(dir.path()));
    create(&db, "energy", 1);
    let key = [ObjectKey::from(identity("energy", 0))];
    let id = db.read_objects(&key, None).unwrap()[0].as_ref().unwrap().id;
    let vertex = object_ref(&db.schema().unwrap(), id).unwrap();
    for name in esker::model::filter::SPECIAL_NAMES {
        let tags = Properties::new().with(name, 1);
        let created = Op::CreateObject {
            identity: identity("other", 0),
            attributes: Properties::new(),
            tags: tags.clone(),
        };
        let set = Op::SetAttributes {
            vertex,
            set: tags.clone(),
            remove: vec![],
        };
        let mut said = Vec::new();
        for op in [created, set] {
            let mut batch = Batch::new();
            batch.push(op);
            said.push(db.apply(batch).unwrap_err().to_string());
        }
        let change = TagWhere {
            filter: Expr::All,
            change: TagChange {
                set: tags,
                keep: true,
                remove: vec![],
            },
            principal: None,
            dry_run: true,
            idempotency_key: None,
        };
        said.push(db.tag_where(&change, &NeverCancel).unwrap_err().to_string());
        for said in said {
            assert!(said.contains("cannot be a tag"), "{said}");
        }
        // An object that has such a tag from an earlier release can lose it.
        let mut batch = Batch::new();
        batch.push(Op::SetAttributes {
            vertex,
            set: Properties::new(),
            remove: vec![name.into()],
        });
        db.apply(batch).unwrap();
    }
}
