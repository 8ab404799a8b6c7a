//! Commits: several parts share one, and each structure beside the store takes part in all kinds of them.

use crate::names::{change, directory, mkdir, path, rename, stat, touch};
use crate::small::Small;
use esker_engine::{Absent, Engine, PartChange, PartCommit, PartOp, Settings, SideWrites};
use esker_model::filter::Expr;
use esker_model::namespace::{Change, NamePath};
use esker_model::object::{Identity, ObjectWrite as _, TagChange, TagWhere};
use esker_model::{
    Commit, EdgeKey, Error, GraphRead as _, NeverCancel, Op, Properties, Result, Version,
};
use esker_store::fault::Operation;
use esker_store::{Durability, Table};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn disk_full() -> Error {
    Error::io("writing", std::io::Error::from_raw_os_error(28))
}

fn sync() -> Settings {
    Settings {
        durability: Durability::Sync,
        ..Settings::default()
    }
}

/// A row of the host, as a part brings it.
fn host_row(name: &str, value: u8) -> SideWrites {
    SideWrites {
        rows: vec![(Table::Meta, name.as_bytes().to_vec(), Some(vec![value]))],
        ..SideWrites::default()
    }
}

fn part(version: u64, op: &Op, side_writes: SideWrites) -> PartCommit<'_> {
    let op = PartOp {
        at: None,
        change: PartChange::Vertex(op),
    };
    PartCommit {
        version: Version(version),
        ops: vec![op],
        absent: Absent::Refuse,
        side_writes,
    }
}

/// Two parts succeed and the one between them fails: one store commit, which has the two.
#[test]
fn parts_share_a_commit_and_fail_alone() {
    let small = Small::with(sync());
    let (one, other) = (small.insurance("file:1"), small.insurance("file:2"));
    let missing = small.deletion("file:none");
    let parts = || {
        vec![
            part(1 << 20, &one, host_row("cluster/1", 1)),
            part(2 << 20, &missing, host_row("cluster/none", 1)),
            part(3 << 20, &other, host_row("cluster/2", 1)),
        ]
    };
    let before = small.fault.count(Operation::Commit);
    let commits = small.engine.apply_parts(parts());
    assert_eq!(small.fault.count(Operation::Commit), before + 1);
    let version = |commit: &Result<Commit>| commit.as_ref().ok().map(|c| c.version);
    let versions: Vec<_> = commits.iter().map(version).collect();
    let at = |n: u64| Some(Version(n << 20));
    assert_eq!(versions, [at(1), None, at(3)]);
    assert!(matches!(commits[1], Err(Error::NoVertex { .. })));
    let after = small.after_crash(0);
    let row = |name: &str| after.engine.store().get(Table::Meta, name.as_bytes());
    assert!(row("cluster/1").unwrap().is_some() && row("cluster/2").unwrap().is_some());
    assert!(row("cluster/none").unwrap().is_none());
    assert_eq!(after.count_of("File"), 2);
    after.check_is_clean();
}

/// A failed commit concerns all parts in it; nothing of them is left anywhere.
#[test]
fn parts_of_a_failed_commit_all_fail() {
    let small = Small::with(sync());
    let (one, other) = (small.insurance("file:1"), small.insurance("file:2"));
    let parts = || {
        vec![
            part(1 << 20, &one, host_row("cluster/1", 1)),
            part(2 << 20, &other, host_row("cluster/2", 1)),
        ]
    };
    small.fault.fail_once(Operation::Commit, 0, disk_full);
    assert!(small.engine.apply_parts(parts()).iter().all(Result::is_err));
    assert_eq!(small.count_of("File"), 0);
    assert!(small.engine.apply_parts(parts()).iter().all(Result::is_ok));
    assert_eq!(small.count_of("File"), 2);
    small.check_is_clean();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Parts applied in groups of any size give what they give one by one: answers, rows, counters, repetitions.
    #[test]
    fn groups_of_parts_equal_single_parts(
        parts in prop::collection::vec((0_u8..6, 0_u8..5, 1_u64..40, prop::option::of(0_u8..4)), 1..24),
        sizes in prop::collection::vec(1_usize..6, 24),
    ) {
        let (grouped, single) = (Small::new(), Small::new());
        let ops: Vec<Op> = parts.iter().map(|(kind, n, ..)| {
            let name = format!("file:{n}");
            match kind {
                0 | 1 => grouped.insurance(&name),
                2 => grouped.insertion(&name, &[]),
                3 => grouped.deletion(&name),
                _ => Op::SetAttributes {
                    vertex: grouped.name(&name).0,
                    set: Properties::new().with("note", i64::from(*kind)),
                    remove: Vec::new(),
                },
            }
        }).collect();
        let make = |i: usize| {
            let (kind, n, version, key) = parts[i];
            let side_writes = SideWrites {
                idempotency_key: key.map(|key| vec![b'k', key]),
                ..host_row(&format!("cluster/{n}"), kind)
            };
            PartCommit {
                absent: if version % 2 == 0 { Absent::Refuse } else { Absent::PassOver },
                ..part(version << 20, &ops[i], side_writes)
            }
        };
        let show = |all: Vec<Result<Commit>>| -> Vec<String> {
            all.into_iter().map(|one| match one {
                Ok(commit) => format!("{commit:?}"),
                Err(e) => e.to_string(),
            }).collect()
        };
        let (mut from, mut answers) = (0, Vec::new());
        for size in sizes {
            let until = (from + size).min(parts.len());
            answers.extend(show(grouped.engine.apply_parts((from..until).map(make).collect())));
            from = until;
        }
        let one_by_one = (0..parts.len()).flat_map(|i| single.engine.apply_parts(vec![make(i)]));
        prop_assert_eq!(answers, show(one_by_one.collect()));
        let state = |small: &Small| {
            let mut rows = BTreeMap::new();
            for n in 0..5 {
                let name = format!("cluster/{n}");
                let vertex = small.vertex(&format!("file:{n}"));
                rows.insert(n, (small.engine.store().get(Table::Meta, name.as_bytes()).unwrap(), vertex));
            }
            (rows, small.engine.counts().unwrap())
        };
        prop_assert_eq!(state(&grouped), state(&single));
        let again = grouped.after_crash(usize::MAX);
        prop_assert_eq!(state(&again), state(&grouped));
        again.check_is_clean();
    }
}

/// Renames a directory, by one of the kinds of commits that can.
fn move_directory(engine: &Engine, kind: &str) {
    if kind == "local" {
        rename(engine, "/d", "/e").unwrap();
        return;
    }
    // The rows of the rename do not matter here.
    let side_writes = SideWrites {
        moves_paths: true,
        ..host_row("cluster/x", 1)
    };
    let version = engine.newest_assigned();
    engine
        .apply_part(version, &[], Absent::Refuse, side_writes)
        .unwrap();
}

/// A directory was moved by a change of a distributed namespace. The change feed in memory told its followers to read
/// everything, but the feed on disk listed only the rows of the rename. A process that opened the database after a crash
/// did not learn that the paths of all descendants had changed. Every commit that moves paths now ends the feed on disk.
#[test]
fn the_feed_on_disk_ends_when_paths_move() {
    for kind in ["local", "part"] {
        let small = Small::with(sync());
        let engine = &small.engine;
        mkdir(engine, "/d");
        touch(engine, "/d/x");
        engine.persist_feed().unwrap();
        small.ensure(None, "campaign:1");
        let position = engine.feed_position();
        assert_eq!(engine.feed_mark(position).map(|m| m.position), Some(1));
        move_directory(engine, kind);
        assert_eq!(engine.changes_since(position), None, "{kind}");
        let after = small.after_crash(0);
        assert_eq!(after.engine.changes_since(position), None, "{kind}");
        assert_eq!(after.engine.feed_mark(position), None, "{kind}");
    }
}

/// A bulk load that failed midway had written a table, and followers of the change feed were not told.
#[test]
fn followers_learn_of_a_bulk_load_that_fails() {
    let small = Small::new();
    let engine = &small.engine;
    engine.follow();
    let mut position = 0;
    let ops = ["file:1", "file:2"].map(|name| small.insertion(name, &[]));
    let mut mutations = ops.into_iter().map(|op| {
        // The load has begun.
        position = engine.feed_position();
        Ok(esker_model::Mutation { version: None, op })
    });
    small.fault.fail_once(Operation::Load, 1, disk_full);
    assert!(engine.bulk_load(&mut mutations, &mut |_| {}).is_err());
    assert_eq!(engine.changes_since(position), None);
}

/// No leased answer depends on states that retention drops, nor on tags of objects: leases do not hold them up.
#[test]
fn retention_and_tags_do_not_wait_for_leases() {
    let small = Small::new();
    let engine = &small.engine;
    engine.enable_leases(1_000).unwrap();
    mkdir(engine, "/d");
    touch(engine, "/d/kept");
    for n in 0..64 {
        let at = format!("/d/{n}");
        touch(engine, &at);
        change(engine, None, Change::Unlink(path(&at))).unwrap();
    }
    let last = mkdir(engine, "/e").version;
    let identity = Identity {
        name: "a".into(),
        app: String::new(),
        owner: 1,
        step: 1,
    };
    small
        .batch(
            None,
            vec![Op::CreateObject {
                identity,
                attributes: Properties::new(),
                tags: Properties::new().with("n", 1),
            }],
        )
        .unwrap();
    let kept: NamePath = path("/d/kept");
    for _ in 0..8 {
        engine.stat_with_lease(None, &kept, false).unwrap();
    }
    let (_, millis) = engine.stat_with_lease(None, &kept, false).unwrap();
    assert!(millis > 0);
    let done = engine.compact(Some(last), &NeverCancel).unwrap();
    assert!(done.dropped >= 64, "{done:?}");
    let tag = TagWhere {
        filter: Expr::parse("n < 5", None).unwrap(),
        change: TagChange {
            set: Properties::new().with("note", 1),
            ..TagChange::default()
        },
        principal: None,
        dry_run: false,
        idempotency_key: None,
    };
    assert_eq!(engine.tag_where(&tag, &NeverCancel).unwrap().changed, 1);
    // The lease is still respected by what it covers.
    let set = Change::Unlink(kept);
    assert!(matches!(
        engine_change(engine, set),
        Err(Error::Leased { .. })
    ));
    stat(engine, "/d/kept").unwrap();
}

fn engine_change(engine: &Engine, one: Change) -> Result<()> {
    change(engine, None, one).map(drop)
}

/// A commit that the store refuses leaves no structure in the middle of it: all of them take part in the next one.
#[test]
fn a_refused_commit_leaves_nothing_behind() {
    let small = Small::with(sync());
    let engine = &small.engine;
    engine.enable_leases(1_000).unwrap();
    engine.persist_feed().unwrap();
    mkdir(engine, "/d");
    let position = engine.feed_position();
    small.fault.fail_once(Operation::Commit, 0, disk_full);
    let make = Change::Create(path("/d/e"), directory(0o755));
    assert!(engine_change(engine, make.clone()).is_err());
    assert!(stat(engine, "/d/e").is_err());
    // Followers read again what may have changed.
    assert!(
        engine
            .changes_since(position)
            .is_some_and(|c| c.until > position)
    );
    engine_change(engine, make).unwrap();
    touch(engine, "/d/e/x");
    for _ in 0..8 {
        engine
            .stat_with_lease(None, &path("/d/e/x"), false)
            .unwrap();
    }
    let (_, millis) = engine
        .stat_with_lease(None, &path("/d/e/x"), false)
        .unwrap();
    assert!(millis > 0, "no commit blocks the lease");
    let op = small.edge("campaign:1", "follows", "campaign:2", &[]);
    small.fault.fail_once(Operation::Commit, 0, disk_full);
    assert!(small.batch(None, vec![op]).is_err());
    let key: EdgeKey = small.key("campaign:1", "follows", "campaign:2");
    assert_eq!(engine.read_edges(&[key], Version::MAX).unwrap(), [None]);
    small.check_is_clean();
}
