//! The namespace as of a past version equals the namespace that was there at that version.

use super::{change, file, mkdir, path, rename, sound, touch};
use crate::small::Small;
use esker_engine::Engine;
use esker_model::namespace::{
    Change, Content, Entry, Inode, Namespace as _, SetAttributes, XattrMode, root,
};
use esker_model::{Error, Flow, GraphRead as _, NeverCancel, Version, VertexId};
use esker_testkit::names::{NAMES, people, random_change, random_path};
use esker_testkit::rng::Rng;
use std::collections::{BTreeMap, HashMap};

type Tree = BTreeMap<String, Inode>;

/// Returns the present files by path, with their tags.
fn present(engine: &Engine) -> Tree {
    let mut tree = Tree::new();
    let visited = engine.walk(None, &path("/"), &NeverCancel, &mut |path, _| {
        let inode = engine.stat(None, path, false).unwrap();
        tree.insert(path.to_string(), inode);
        Flow::Continue(())
    });
    visited.unwrap();
    tree
}

/// Returns the files as of a version by path.
fn past(engine: &Engine, as_of: Version) -> Tree {
    let mut entries: HashMap<VertexId, Vec<Entry>> = HashMap::new();
    let listed = engine.past_files(as_of, &mut |directory, entry| {
        entries.entry(directory).or_default().push(entry);
        Flow::Continue(())
    });
    listed.unwrap();
    let mut tree = Tree::new();
    let top = entries.remove(&VertexId::default()).unwrap();
    assert_eq!(top.len(), 1);
    assert_eq!(top[0].inode.id, root());
    let mut left = vec![("/".to_owned(), top[0].inode.clone())];
    while let Some((at, inode)) = left.pop() {
        if inode.is_directory() {
            for entry in entries.remove(&inode.id).unwrap_or_default() {
                let path = format!("{}/{}", at.trim_end_matches('/'), entry.name);
                left.push((path, entry.inode));
            }
        }
        assert_eq!(tree.insert(at, inode), None);
    }
    assert!(entries.is_empty(), "entries of no directory: {entries:?}");
    tree
}

#[test]
fn past_files_are_those_that_were_there() {
    for seed in 0..10 {
        let mut rng = Rng::new(seed);
        let small = Small::new();
        let engine = &small.engine;
        let mut states = vec![(Version(1), present(engine))];
        for _ in 0..1_000 {
            let person = rng.pick(&people()).clone();
            let what = match rng.number_below(10) {
                0 => Change::Xattr {
                    path: random_path(&mut rng, &NAMES),
                    name: b"user.esker.note".to_vec(),
                    value: rng.percent(60).then(|| b"x".to_vec()),
                    mode: XattrMode::Any,
                },
                _ => random_change(&mut rng, &person, &NAMES),
            };
            small.clock.pass_micros(rng.number_below(3_000) as u64);
            if let Ok(done) = change(engine, None, what) {
                states.push((done.version, present(engine)));
            }
        }
        assert!(states.len() > 100, "{} changes", states.len());
        for (i, (version, expected)) in states.iter().enumerate().step_by(7) {
            assert_eq!(&past(engine, *version), expected, "seed {seed}, state {i}");
        }
        sound(engine);
    }
}

#[test]
fn a_time_before_everything_is_an_empty_root() {
    let small = Small::new();
    touch(&small.engine, "/x");
    let tree = past(&small.engine, Version(1));
    assert_eq!(tree.keys().collect::<Vec<_>>(), ["/"]);
    assert_eq!(tree["/"].mtime, 0);
}

fn set_content(engine: &Engine, at: &str, content: Content) -> Version {
    let set = SetAttributes {
        content: Some(content),
        ..SetAttributes::default()
    };
    let (path, follow) = (path(at), false);
    change(engine, None, Change::Set { path, follow, set })
        .unwrap()
        .version
}

/// Data files have only the last content: of an earlier state no path is given.
#[test]
fn contents_of_data_files_are_those_of_the_last_state() {
    let small = Small::new();
    let engine = &small.engine;
    touch(engine, "/x");
    let inline = set_content(engine, "/x", Content::Inline(b"small".to_vec()));
    let object = Content::Object(b"/data/x".to_vec());
    let first = set_content(engine, "/x", object.clone());
    let moved = rename(engine, "/x", "/y").unwrap().version;
    let content = |at: &str, version| past(engine, version)[at].content.clone();
    assert_eq!(content("/x", inline), Content::Inline(b"small".to_vec()));
    assert_eq!(content("/x", first), object);
    assert_eq!(content("/y", moved), object);
    let second = set_content(engine, "/y", object.clone());
    assert_eq!(content("/x", first), Content::Object(Vec::new()));
    assert_eq!(content("/y", moved), Content::Object(Vec::new()));
    assert_eq!(content("/y", second), object);
    change(engine, None, Change::Unlink(path("/y"))).unwrap();
    assert_eq!(content("/y", second), Content::Object(Vec::new()));
}

/// A time before the retention is an error, since the tree would be incomplete.
#[test]
fn times_before_the_retention_are_refused() {
    let small = Small::new();
    let engine = &small.engine;
    mkdir(engine, "/a");
    let before = touch(engine, "/a/x").version;
    let removed = change(engine, None, Change::Unlink(path("/a/x"))).unwrap();
    let after = change(engine, None, Change::Create(path("/a/y"), file(0o600))).unwrap();
    let expected = present(engine);
    engine.compact(Some(removed.version), &NeverCancel).unwrap();
    let refused = engine.past_files(before, &mut |_, _| Flow::Continue(()));
    match refused {
        Err(Error::Invalid(said)) => assert!(said.contains("not known any more"), "{said}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(past(engine, after.version), expected);
    let again = small.after_crash(usize::MAX);
    let refused = again
        .engine
        .past_files(before, &mut |_, _| Flow::Continue(()));
    assert!(refused.is_err());
}
