//! Tests of the metadata graph on disk: a graph from there equals a rebuilt one, or is not used.

use super::{Dice, anew, change, define, lines, open, same};
use esker::Database;
use esker::model::GraphWrite as _;
use esker::model::{Batch, Op, Properties};
use esker::rdf::engine::Dataset;
use esker::rdf::engine::dictionary::Key;
use esker::rdf::meta::{GRAPH, Meta};
use std::collections::BTreeSet;
use std::path::Path;

fn meta() -> Meta {
    let mut meta = Meta::default();
    meta.image_least = 1;
    meta
}

/// The graph in a new process, and whether an image was used.
fn rebuilt_graph(db: &Database, terms: &[String]) -> (BTreeSet<String>, bool) {
    let (mut meta, mut data) = (meta(), Dataset::default());
    for term in terms {
        data.dictionary.intern(&Key::Iri(term)).unwrap();
    }
    let lines = lines(&mut meta, &mut data, db, GRAPH);
    (lines, meta.images_read() == 1)
}

fn put(db: &Database, name: &str, n: u64) {
    let mut batch = Batch::new();
    batch.push(Op::PutVertex {
        vertex: super::vertex(db, &format!("job:{name}")),
        key: name.into(),
        attributes: Properties::new().with("nprocs", n as i64),
    });
    db.apply(batch).unwrap();
}

#[test]
fn what_comes_from_disk_is_what_is_made_anew() {
    let seeds: u64 = std::env::var("ESKER_META_SEEDS").map_or(4, |n| n.parse().unwrap());
    let mut used = 0;
    for seed in 0..seeds {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("t");
        let mut db = open(&at);
        define(&db);
        let mut dice = Dice(seed);
        for round in 0..12 {
            for _ in 0..=dice.random_below(5) {
                change(&db, &mut dice, seed % 2 == 1, seed % 3 == 0);
            }
            if dice.random_below(2) == 0 {
                db.close().unwrap();
                db = open(&at);
            }
            // The RDF data in the same folder has term numbers of its own, and may contain some of the graph's terms.
            let terms: Vec<String> = (0..dice.random_below(3) * 20)
                .map(|n| format!("urn:{}:job:k{}", dice.of(&["esker", "mine"]), n))
                .collect();
            let (kept, was_used) = rebuilt_graph(&db, &terms);
            used += usize::from(was_used);
            same(
                &kept,
                &anew(&db, GRAPH),
                &format!("seed {seed}, round {round}"),
            );
        }
        db.close().unwrap();
    }
    assert!(used as u64 > seeds * 3, "{used} images were used");
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[test]
fn what_is_damaged_or_of_another_past_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let (at, before) = (folder.path().join("t"), folder.path().join("before"));
    let image = at.join("rdf/meta");
    let db = open(&at);
    (0..50).for_each(|n| put(&db, &n.to_string(), n));
    assert!(!rebuilt_graph(&db, &[]).1, "the first makes it");
    assert!(rebuilt_graph(&db, &[]).1, "the second has it");
    db.close().unwrap();
    copy(&at, &before);
    // Any damaged byte: the graph is rebuilt, and an image is written again.
    let bytes = std::fs::read(&image).unwrap();
    for place in [0, 9, 20, 30, 60, 200, bytes.len() / 2, bytes.len() - 1] {
        let mut broken = bytes.clone();
        broken[place] ^= 1;
        std::fs::write(&image, &broken).unwrap();
        let db = open(&at);
        let (kept, used) = rebuilt_graph(&db, &[]);
        assert!(!used, "byte {place}");
        same(&kept, &anew(&db, GRAPH), "broken");
        assert!(rebuilt_graph(&db, &[]).1);
        db.close().unwrap();
    }
    std::fs::write(&image, &bytes[..bytes.len() / 2]).unwrap();
    let db = open(&at);
    assert!(!rebuilt_graph(&db, &[]).1, "cut");
    // An image that is ahead of its database, as after a power failure.
    put(&db, "later", 1);
    let mut later = meta();
    let mut data = Dataset::default();
    assert!(
        lines(&mut later, &mut data, &db, GRAPH)
            .iter()
            .any(|l| l.contains("later"))
    );
    std::fs::remove_file(&image).unwrap();
    assert!(
        rebuilt_graph(&db, &[])
            .0
            .iter()
            .any(|l| l.contains("later"))
    );
    db.close().unwrap();
    let ahead = std::fs::read(&image).unwrap();
    std::fs::remove_dir_all(&at).unwrap();
    copy(&before, &at);
    std::fs::write(&image, ahead).unwrap();
    let db = open(&at);
    for n in 0..4 {
        let (kept, used) = rebuilt_graph(&db, &[]);
        assert!(!used || n > 0, "{n}");
        same(&kept, &anew(&db, GRAPH), "of another past");
        put(&db, &format!("other {n}"), n);
    }
    db.close().unwrap();
}

#[test]
fn changes_of_several_processes_are_read_from_disk() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("t");
    let mut db = open(&at);
    put(&db, "first", 0);
    rebuilt_graph(&db, &[]);
    let many = |db: &Database, from: u64, count: u64| {
        let mut batch = Batch::new();
        for n in from..from + count {
            batch.push(Op::EnsureVertex {
                vertex: super::vertex(db, &format!("job:m{n}")),
                key: format!("m{n}"),
            });
        }
        db.apply(batch).unwrap();
    };
    for n in 0..3 {
        many(&db, n * 100, 100);
        db.close().unwrap();
        db = open(&at);
    }
    let (kept, used) = rebuilt_graph(&db, &[]);
    assert!(used);
    same(&kept, &anew(&db, GRAPH), "read from disk");
    db.close().unwrap();
}
