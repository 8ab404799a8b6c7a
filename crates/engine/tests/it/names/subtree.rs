//! Merged subtrees: as if each of their files had been created alone, or not at all.
//!
//! `ESKER_SUBTREE_CASES` sets the number of random ones, `ESKER_SUBTREE_SEED` the first seed.

use super::{change, directory, errno, file, mkdir, path, sound, stat, touch};
use crate::small::Small;
use esker_engine::{Engine, Settings};
use esker_model::namespace::{
    Change, Content, Errno, Inode, Name, NamePath, Namespace, NewFile, SpaceBy, Subtree,
    SubtreeBuilder, Usage, XattrMode, id_at,
};
use esker_model::object::Principal;
use esker_model::{Error, ErrorKind, NeverCancel, VertexId};
use esker_store::fault::Operation;
use esker_testkit::names::{NAMES, people, random_change, random_path};
use esker_testkit::rng::Rng;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

fn with(bulk_load_rows_min: usize) -> Small {
    Small::with(Settings {
        bulk_load_rows_min,
        ..Settings::default()
    })
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

/// Appends a path to another one.
fn joined(top: &NamePath, at: &NamePath) -> NamePath {
    at.names().fold(top.clone(), |path, name| path.join(&name))
}

fn moved(top: &NamePath, change: Change) -> Change {
    let at = |path: NamePath| joined(top, &path);
    match change {
        Change::Create(path, make) => Change::Create(at(path), make),
        Change::Unlink(path) => Change::Unlink(at(path)),
        Change::Rmdir(path) => Change::Rmdir(at(path)),
        Change::Rename {
            from,
            to,
            no_replace,
        } => Change::Rename {
            from: at(from),
            to: at(to),
            no_replace,
        },
        Change::Exchange { from, to } => Change::Exchange {
            from: at(from),
            to: at(to),
        },
        Change::Link { from, to } => Change::Link {
            from: at(from),
            to: at(to),
        },
        Change::Set { path, follow, set } => Change::Set {
            path: at(path),
            follow,
            set,
        },
        Change::Xattr {
            path,
            name,
            value,
            mode,
        } => Change::Xattr {
            path: at(path),
            name,
            value,
            mode,
        },
        Change::Write { .. } | Change::Merge(_) => unreachable!(),
    }
}

/// Files without their ids and versions, and whether each id is that of the path.
fn files_at(engine: &Engine, at: &NamePath) -> BTreeMap<NamePath, (Inode, bool)> {
    let mut all = BTreeMap::new();
    let walked = engine.walk(None, at, &NeverCancel, &mut |path, inode| {
        let named = inode.id == id_at(inode.kind(), path.as_bytes());
        let mut inode = inode.clone();
        inode.id = VertexId::default();
        inode.version = esker_model::Version::ZERO;
        all.insert(path.clone(), (inode, named));
        ControlFlow::Continue(())
    });
    match walked {
        Ok(()) | Err(Error::File(_)) => all,
        Err(e) => panic!("{e}"),
    }
}

fn sums(engine: &Engine) -> Vec<String> {
    let mut all = Vec::new();
    let usages = engine.usages(None, &NamePath::root(), &NeverCancel, &mut |path, usage| {
        let own = engine.usage(None, path, false).unwrap();
        all.push(format!("{path} {usage:?} {own:?}"));
        ControlFlow::Continue(())
    });
    usages.unwrap();
    all.sort();
    for by in [
        SpaceBy::User,
        SpaceBy::Group,
        SpaceBy::Kind,
        SpaceBy::Ending,
        SpaceBy::Day,
    ] {
        let mut rows = engine.space(by).unwrap();
        rows.retain(|row| row.usage != Usage::default());
        rows.sort_by(|a, b| a.key.cmp(&b.key));
        all.push(format!("{rows:?}"));
    }
    all
}

/// Applies random changes of the same kind to both; the outcomes are the same.
fn both(rng: &mut Rng, engines: &[&Small; 2], count: usize) {
    let people = people();
    for _ in 0..count {
        let principal = rng.pick(&people).clone();
        let tag = rng.number_below(8) == 0;
        let random = if tag {
            some_tag(rng)
        } else {
            random_change(rng, &principal, &NAMES)
        };
        let done = engines.map(|small| {
            small.clock.advance(3);
            let done = change(&small.engine, Some(&principal), random.clone());
            done.map(|_| ()).map_err(|e| e.to_string())
        });
        assert_eq!(done[0], done[1], "{random:?} by {}", principal.uid);
    }
}

fn some_tag(rng: &mut Rng) -> Change {
    Change::Xattr {
        path: random_path(rng, &NAMES),
        name: rng.pick(&[b"user.esker.n", b"user.esker.t"]).to_vec(),
        value: (rng.number_below(3) > 0).then(|| b"7".to_vec()),
        mode: XattrMode::Any,
    }
}

/// A random subtree at a path, built elsewhere.
fn private(rng: &mut Rng, at: &NamePath) -> Subtree {
    let small = Small::new();
    let top: Vec<Change> = at
        .names()
        .scan(NamePath::root(), |path, name| {
            *path = path.join(&name);
            Some(Change::Create(path.clone(), directory(0o755)))
        })
        .collect();
    small.engine.change(None, &top).unwrap();
    let people = people();
    for _ in 0..rng.number_below(60) {
        small.clock.advance(1_000);
        let principal = rng.pick(&people).clone();
        let random = if rng.number_below(6) == 0 {
            some_tag(rng)
        } else {
            random_change(rng, &principal, &NAMES)
        };
        let _ = change(&small.engine, None, moved(at, random));
    }
    sound(&small.engine);
    small.engine.subtree(at).unwrap()
}

fn case(seed: u64, bulk_load_rows_min: usize) {
    let mut rng = Rng::new(seed);
    let (merged, single) = (with(bulk_load_rows_min), with(bulk_load_rows_min));
    let smalls = [&merged, &single];
    both(&mut rng, &smalls, 40);
    for _ in 0..3 {
        let at = random_path(&mut rng, &NAMES);
        let subtree = private(&mut rng, &at);
        let changes = subtree.changes().unwrap();
        smalls.iter().for_each(|small| small.clock.advance(10));
        let before = sums(&merged.engine);
        let done = change(&merged.engine, None, Change::Merge(subtree));
        match &done {
            Ok(done) => {
                let each = single.engine.change(None, &changes).unwrap();
                for (change, outcome) in changes.iter().zip(&each) {
                    let outcome = outcome
                        .as_ref()
                        .unwrap_or_else(|e| panic!("{change:?}: {e}"));
                    assert_eq!(outcome.version, done.version, "seed {seed}");
                }
                assert_eq!(stat(&merged.engine, &at.to_string()).unwrap().id, done.id);
            }
            Err(e) => {
                let first = change(&single.engine, None, changes[0].clone());
                let first = first.map(|_| ()).map_err(|e| e.to_string());
                assert_eq!(first, Err(e.to_string()), "seed {seed}");
                assert_eq!(sums(&merged.engine), before, "seed {seed}");
            }
        }
        let all = smalls.map(|small| files_at(&small.engine, &NamePath::root()));
        for (path, one) in &all[0] {
            assert_eq!(Some(one), all[1].get(path), "{path}, seed {seed}");
        }
        assert_eq!(all[0].len(), all[1].len(), "seed {seed}");
        assert_eq!(sums(&merged.engine), sums(&single.engine), "seed {seed}");
        smalls.iter().for_each(|small| sound(&small.engine));
        both(&mut rng, &smalls, 20);
        // Closed, so that results do not depend on rows in the memtable.
        smalls
            .iter()
            .for_each(|small| small.engine.close().unwrap());
    }
    smalls.iter().for_each(|small| sound(&small.engine));
    assert_eq!(sums(&merged.engine), sums(&single.engine), "seed {seed}");
}

#[test]
fn a_subtree_is_what_its_files_would_be() {
    let number = |name: &str, default| {
        let text = std::env::var(name).ok();
        text.map_or(default, |t| t.parse::<u64>().unwrap())
    };
    let first = number("ESKER_SUBTREE_SEED", 1);
    for seed in first..first + number("ESKER_SUBTREE_CASES", 60) {
        // As tables, as ordinary changes, and either.
        case(seed, [0, usize::MAX, 12][(seed % 3) as usize]);
    }
}

/// Two levels, `files` in each of three directories.
fn plain(at: &str, files: usize) -> Subtree {
    let at = path(at);
    let mut builder = SubtreeBuilder::default();
    builder.in_existing_directory(&at.parent());
    builder.entry(&at.split().unwrap().1, &directory(0o755), false);
    builder.in_new_directory(0);
    for d in ["d1", "d2", "d3"] {
        builder.entry(&name(d), &directory(0o755), false);
    }
    for d in 1..=3 {
        builder.in_new_directory(d);
        for n in 0..files {
            builder.entry(&name(&format!("f{n}.h5")), &file(0o644), false);
        }
    }
    builder.finish().unwrap()
}

fn files(engine: &Engine) -> u64 {
    engine.usage(None, &path("/"), true).unwrap().files
}

#[test]
fn whatever_fails_all_is_there_or_nothing() {
    let full = || Error::Unavailable("no room".into());
    let mut outcomes = [0, 0];
    for (operation, after) in [
        (Operation::Commit, 0),
        (Operation::Commit, 1),
        (Operation::Commit, 2),
        (Operation::Load, 0),
        (Operation::Load, 1),
        (Operation::Persist, 0),
        (Operation::Persist, 1),
    ] {
        for lasts in [false, true] {
            let small = with(1);
            mkdir(&small.engine, "/r");
            touch(&small.engine, "/r/x");
            let merge = Change::Merge(plain("/r/new", 20));
            if lasts {
                small.fault.fail_always(operation, after, full);
            } else {
                small.fault.fail_once(operation, after, full);
            }
            let done = change(&small.engine, None, merge.clone());
            small.fault.heal();
            outcomes[usize::from(done.is_ok())] += 1;
            // At present, and after a power failure.
            for kept in [None, Some(0), Some(small.fault.unsynced())] {
                let after = kept.map(|kept| small.after_crash(kept));
                let engine = after.as_ref().map_or(&small.engine, |small| &small.engine);
                let there = stat(engine, "/r/new").is_ok();
                if kept != Some(0) && stat(engine, "/r").is_ok() {
                    assert_eq!(
                        files(engine),
                        if there { 61 } else { 1 },
                        "{operation:?} {after}",
                        after = after.is_some()
                    );
                    if done.is_ok() {
                        assert!(
                            there,
                            "{operation:?} {after:?} {lasts} {kept:?}",
                            after = after.is_some()
                        );
                    }
                }
                if after.is_some() || !lasts {
                    sound(engine);
                }
                if after.is_some() && !there && stat(engine, "/r").is_ok() {
                    // A repeated merge succeeds, with the same ids.
                    change(engine, None, merge.clone()).unwrap();
                    let id = stat(engine, "/r/new/d1/f1.h5").unwrap().id;
                    assert_eq!(id, VertexId::of("File", "/r/new/d1/f1.h5"));
                    sound(engine);
                }
            }
        }
    }
    assert!(outcomes[0] > 3 && outcomes[1] > 3, "{outcomes:?}");
}

#[test]
fn a_power_failure_leaves_all_or_nothing() {
    let small = with(1);
    mkdir(&small.engine, "/r");
    small.engine.persist().unwrap();
    change(&small.engine, None, Change::Merge(plain("/r/new", 9))).unwrap();
    let mut found = [0, 0];
    for kept in 0..=small.fault.unsynced() {
        let after = small.after_crash(kept);
        let there = stat(&after.engine, "/r/new").is_ok();
        found[usize::from(there)] += 1;
        assert!(there || found[1] == 0, "{kept}");
        assert_eq!(files(&after.engine), if there { 27 } else { 0 });
        sound(&after.engine);
        let rows = after.engine.store();
        let mut marker = rows.get(esker_store::Table::Meta, b"subtree").unwrap();
        assert_eq!(marker.take(), None);
    }
    assert!(found[0] > 0 && found[1] > 0, "{found:?}");
}

#[test]
fn what_is_taken_or_wrong_is_refused_and_nothing_is_done() {
    let small = with(1);
    let engine = &small.engine;
    mkdir(engine, "/r");
    touch(engine, "/r/x");
    let merge = |subtree: Subtree| change(engine, None, Change::Merge(subtree));
    let before = (sums(engine), files_at(engine, &path("/")));
    assert_eq!(errno(merge(plain("/r/x", 1))), Errno::Exists);
    assert_eq!(errno(merge(plain("/r/x/y", 1))), Errno::NotDirectory);
    assert_eq!(errno(merge(plain("/no/y", 1))), Errno::NotFound);
    assert_eq!(errno(merge(plain("/r", 1))), Errno::Exists);
    let one = |build: &dyn Fn(&mut SubtreeBuilder)| {
        let mut builder = SubtreeBuilder::default();
        builder.in_existing_directory(&path("/r"));
        builder.entry(&name("new"), &directory(0o755), false);
        builder.in_new_directory(0);
        build(&mut builder);
        merge(builder.finish().unwrap())
    };
    let twice = one(&|b| {
        b.entry(&name("a"), &file(0o644), false);
        b.entry(&name("b"), &file(0o644), false);
        b.entry(&name("a"), &directory(0o755), false);
    });
    assert_eq!(errno(twice), Errno::Exists);
    let kind = |result: esker_model::Result<_>| -> ErrorKind {
        let result: esker_model::Result<esker_model::namespace::AppliedChange> = result;
        result.unwrap_err().kind()
    };
    let later = one(&|b| {
        b.in_new_directory(1);
        b.entry(&name("a"), &file(0o644), false);
    });
    assert_eq!(kind(later), ErrorKind::Invalid);
    assert_eq!(
        errno(one(&|b| {
            b.entry(&name("a"), &NewFile::new(0o644, 0, 0), false);
        })),
        Errno::Invalid
    );
    assert_eq!(
        errno(one(&|b| {
            let content = Content::Inline(vec![0; 4_097]);
            b.entry(
                &name("a"),
                &NewFile {
                    content,
                    ..file(0o644)
                },
                false,
            );
        })),
        Errno::TooBig
    );
    let long = one(&|b| {
        for n in 0..17 {
            b.entry(&name(&"n".repeat(255)), &directory(0o755), false);
            b.in_new_directory(n + 1);
        }
    });
    assert_eq!(errno(long), Errno::NameTooLong);
    for outside in [
        Change::Unlink(path("/r/x")),
        Change::Link {
            from: path("/r/x"),
            to: path("/r/new/x"),
        },
        Change::Link {
            from: path("/r/new/a"),
            to: path("/r/a"),
        },
        Change::Link {
            from: path("/r/new/a"),
            to: path("/r/new/b"),
        },
        Change::Xattr {
            path: path("/r/x"),
            name: b"user.esker.a".to_vec(),
            value: Some(vec![b'1']),
            mode: XattrMode::Any,
        },
    ] {
        let done = one(&|b| {
            b.entry(&name("a"), &file(0o644), true);
            b.entry(&name("b"), &file(0o644), false);
            b.change(&outside);
        });
        done.unwrap_err();
    }
    let damaged = Subtree::new(path("/r/new"), vec![1, 2]);
    assert_eq!(kind(merge(damaged)), ErrorKind::Invalid);
    let together = engine.change(
        None,
        &[
            Change::Merge(plain("/r/new", 1)),
            Change::Unlink(path("/r/x")),
        ],
    );
    assert!(together.is_err());
    assert_eq!((sums(engine), files_at(engine, &path("/"))), before);
    sound(engine);
    merge(plain("/r/new", 1)).unwrap();
    sound(engine);
}

#[test]
fn somebody_brings_only_what_is_theirs_to_where_they_may() {
    let small = with(1);
    let engine = &small.engine;
    let principal = Principal {
        uid: 7,
        gids: vec![7, 8],
    };
    change(
        engine,
        None,
        Change::Create(path("/shared"), directory(0o1777)),
    )
    .unwrap();
    mkdir(engine, "/mine");
    let theirs = |at: &str, uid, gid, joined: u32| {
        let at = path(at);
        let mut builder = SubtreeBuilder::default();
        builder.in_existing_directory(&at.parent());
        let top = NewFile::new(0o4_0555, 7, 7);
        builder.entry(&at.split().unwrap().1, &top, false);
        builder.in_new_directory(0);
        builder.entry(&name("f"), &NewFile::new(joined, uid, gid), false);
        change(
            engine,
            Some(&principal),
            Change::Merge(builder.finish().unwrap()),
        )
    };
    assert_eq!(errno(theirs("/mine/a", 7, 7, 0o10_0644)), Errno::Access);
    assert_eq!(
        errno(theirs("/shared/a", 0, 7, 0o10_0644)),
        Errno::NotPermitted
    );
    assert_eq!(
        errno(theirs("/shared/a", 7, 9, 0o10_0644)),
        Errno::NotPermitted
    );
    theirs("/shared/a", 7, 8, 0o10_0644).unwrap();
    let inode = engine
        .stat(Some(&principal), &path("/shared/a/f"), false)
        .unwrap();
    assert_eq!((inode.uid, inode.gid), (7, 8));
    sound(engine);
}

#[test]
fn a_removed_subtree_comes_again_with_other_ids() {
    let small = with(1);
    let engine = &small.engine;
    mkdir(engine, "/r");
    let merge = || {
        change(engine, None, Change::Merge(plain("/r/new", 3)))
            .unwrap()
            .id
    };
    let first = (merge(), stat(engine, "/r/new/d1/f1.h5").unwrap().id);
    for d in ["d1", "d2", "d3"] {
        for n in 0..3 {
            let at = path(&format!("/r/new/{d}/f{n}.h5"));
            change(engine, None, Change::Unlink(at)).unwrap();
        }
        change(engine, None, Change::Rmdir(path(&format!("/r/new/{d}")))).unwrap();
    }
    change(engine, None, Change::Rmdir(path("/r/new"))).unwrap();
    let again = (merge(), stat(engine, "/r/new/d1/f1.h5").unwrap().id);
    assert!(again.0 != first.0 && again.1 != first.1);
    sound(engine);
    assert_eq!(
        touch(engine, "/r/new/d1/g").id,
        VertexId::of("File", "/r/new/d1/g")
    );
    sound(engine);
}
