//! Tests of a database with an ephemeral store, restored from its checkpoint: the same rows, and no inconsistencies.

use esker::model::object::{Identity, ObjectKey, ObjectRead as _};
use esker::model::{Batch, GraphRead as _, GraphWrite as _, NeverCancel, Op, Properties};
use esker::{CheckOptions, Database, OpenOptions, WindowOptions};
use esker_testkit::wait::wait_until;
use std::path::Path;
use std::time::Duration;

fn open(dir: &Path) -> Database {
    let window = WindowOptions {
        live: dir.join("live"),
        to: vec![dir.join("checkpoints")],
        reserve: 0,
        writes: 7,
        every: Duration::from_millis(20),
        // So small that a base contains rows of all kinds.
        base_least: 4_000,
    };
    let options = OpenOptions::new().create(true).window(window);
    options
        .open(dir.join("lab.esker").to_str().unwrap())
        .unwrap()
}

fn identity(step: i64) -> Identity {
    Identity {
        name: format!("run{}", step % 5),
        app: "vpic".into(),
        owner: 1001,
        step,
    }
}

fn write(database: &Database, steps: std::ops::Range<i64>) {
    for step in steps {
        let mut batch = Batch::new();
        batch.push(Op::CreateObject {
            identity: identity(step),
            attributes: Properties::new(),
            tags: Properties::new().with("note", "x".repeat(200)),
        });
        database.apply(batch).unwrap();
    }
}

#[test]
fn a_store_comes_back_from_its_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..4_i64 {
        let database = open(dir.path());
        let window = database.window().unwrap();
        assert!(!window.may_have_lost());
        let before = (round * 300) as u64;
        let counts = database.counts().unwrap();
        let objects: u64 = counts.vertices.iter().map(|(_, n)| n).sum();
        assert_eq!(objects, before);
        let keys: Vec<ObjectKey> = (0..round * 300).map(|s| identity(s).into()).collect();
        let read = database.read_objects(&keys, None).unwrap();
        assert!(read.iter().all(Option::is_some));
        write(&database, round * 300..(round + 1) * 300);
        let report = database
            .check(&CheckOptions::default(), &NeverCancel, &mut |_| {})
            .unwrap();
        assert!(report.problems.is_empty(), "{:?}", report.problems);
        database.persist().unwrap();
        let figures = window.figures();
        assert_eq!(figures.persisted, figures.written, "{figures:?}");
        // Further bases are written when the segments since the last one are larger than it.
        wait_until("there is no base", || {
            round > 0 || window.figures().bases > 0
        });
        drop(window);
        database.close().unwrap();
        std::fs::remove_dir_all(dir.path().join("live")).unwrap();
    }
}
