//! Concurrency: no reader sees half a batch, every writer reads its own writes, counters stay exact.

use crate::small::Small;
use esker_engine::Settings;
use esker_model::traversal::Budget;
use esker_model::{EdgeSelect, Flow, GraphRead, NeverCancel, Traversal, Version, Versions};
use esker_store::Durability;
use esker_testkit::rng::Rng;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

fn settings(adjacency_bytes: u64, pending_counters_max: usize) -> Settings {
    Settings {
        adjacency_bytes,
        pending_counters_max,
        // Four threads: once each with and without.
        group_commits: pending_counters_max != 5,
        index_objects_least: 4,
        durability: Durability::Relaxed,
        ..Settings::default()
    }
}

/// A token (a `read` edge) is passed between two jobs, in one batch each time. Every traversal, scan and read sees it
/// with exactly one of them: with a cold, a warm, and an always overfull cache, and in the past.
fn pass_the_token(settings: Settings) {
    let db = Small::with(settings);
    for name in ["job:1", "job:2", "file:token"] {
        db.ensure(None, name);
    }
    let first = db
        .batch(None, vec![db.edge("job:1", "read", "file:token", &[])])
        .unwrap();
    let done = AtomicBool::new(false);
    let chains = [
        r#"v("job:1", "job:2").e("read").v().return_fp()"#,
        r#"v("file:token").e("wasReadBy").v().return_fp()"#,
        r#"v("file:token").e().v().return_fp()"#,
        r#"v("file:token").e("wasReadBy").ea("version", RANGE, null, null).v().return_fp()"#,
    ];
    std::thread::scope(|scope| {
        for reader in 0..3 {
            let (db, done) = (&db, &done);
            scope.spawn(move || {
                let mut rng = Rng::new(reader);
                let mut looks = 0;
                while !done.load(Ordering::Relaxed) || looks < 200 {
                    looks += 1;
                    let mut traversal =
                        Traversal::parse(chains[rng.number_below(chains.len())]).unwrap();
                    if rng.percent(30) {
                        let newest = db.engine.stats().unwrap().newest.unwrap();
                        let age =
                            rng.number_below(1 + (newest.0 - first.version.0) as usize) as u64;
                        traversal.as_of = Some(Version(newest.0 - age));
                    }
                    let result = db
                        .engine
                        .travel(&traversal, &Budget::default(), &NeverCancel)
                        .unwrap();
                    let paths = result.paths.unwrap();
                    let edges: Vec<_> = paths.nodes.iter().flat_map(|n| &n.parents).collect();
                    assert_eq!(edges.len(), 1, "{traversal}: {:?}", paths.nodes);
                    let mut holders = 0;
                    let frontier = [db.id("job:1"), db.id("job:2")];
                    let select = EdgeSelect {
                        types: vec![],
                        versions: Versions::NOW,
                        properties: false,
                        after: None,
                    };
                    db.engine
                        .scan_edges(&frontier, &select, &mut |_, _| {
                            holders += 1;
                            Flow::Continue(())
                        })
                        .unwrap();
                    assert_eq!(holders, 1, "a scan");
                    let keys = [
                        db.key("job:1", "read", "file:token"),
                        db.key("file:token", "wasReadBy", "job:2"),
                    ];
                    let there = db.engine.read_edges(&keys, Version::MAX).unwrap();
                    assert_eq!(there.iter().flatten().count(), 1, "reads");
                }
            });
        }
        for n in 0..1500_usize {
            let (from, to) = if n % 2 == 0 {
                ("job:1", "job:2")
            } else {
                ("job:2", "job:1")
            };
            let (drop, take) = (
                db.edge_deletion(from, "read", "file:token"),
                db.edge(to, "read", "file:token", &[]),
            );
            let ops = if n % 3 == 0 {
                vec![take, drop]
            } else {
                vec![drop, take]
            };
            db.batch(None, ops).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(db.degree("file:token", "wasReadBy"), 1);
    db.check_is_clean();
}

#[test]
fn a_token_is_seen_once_with_a_large_cache() {
    pass_the_token(settings(64 << 20, 1 << 18));
}

#[test]
fn a_token_is_seen_once_with_a_small_cache() {
    pass_the_token(settings(300, 2));
}

/// Four writers put and delete single edges of few vertices; each sees its own at once in every kind of read. In the end
/// degrees equal those of a scan, and every edge has its inverse.
#[test]
fn writers_read_their_writes_and_counters_stay_exact() {
    for pending in [1, 5, 1 << 18] {
        let db = Small::with(settings(1 << 20, pending));
        db.ensure(None, "job:hot");
        let mut versions: Vec<Version> = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..4_u64)
                .map(|writer| {
                    let db = &db;
                    scope.spawn(move || {
                        let mut rng = Rng::new(writer);
                        let mut versions = Vec::new();
                        let mut mine = BTreeSet::new();
                        for _ in 0..250 {
                            let file = format!("file:{writer}-{}", rng.number_below(20));
                            let ops = if mine.remove(&file) {
                                vec![db.edge_deletion("job:hot", "write", &file)]
                            } else {
                                mine.insert(file.clone());
                                vec![db.insurance(&file), db.edge("job:hot", "write", &file, &[])]
                            };
                            let commit = db.batch(None, ops).unwrap();
                            versions.push(commit.version);
                            let expected = mine.contains(&file);
                            let key = db.key("job:hot", "write", &file);
                            let read = db.engine.read_edges(&[key], commit.version).unwrap();
                            assert_eq!(read[0].is_some(), expected, "as of the commit");
                            let traversal =
                                Traversal::parse(r#"v("job:hot").e("write").v()"#).unwrap();
                            let result = db
                                .engine
                                .travel(&traversal, &Budget::default(), &NeverCancel)
                                .unwrap();
                            assert_eq!(
                                result.sets[0].vertices.contains(&db.id(&file)),
                                expected,
                                "a traversal"
                            );
                            assert_eq!(
                                db.degree(&file, "wasWrittenBy"),
                                u64::from(expected),
                                "a degree"
                            );
                            assert!(db.degree("job:hot", "write") >= mine.len() as u64);
                        }
                        assert!(versions.is_sorted_by(|a, b| a < b));
                        versions
                    })
                })
                .collect();
            writers
                .into_iter()
                .flat_map(|w| w.join().unwrap())
                .collect()
        });
        let count = versions.len();
        versions.sort_unstable();
        versions.dedup();
        assert_eq!(versions.len(), count, "no version is given twice");
        let mut scanned = 0;
        let select = EdgeSelect {
            types: vec![],
            versions: Versions::NOW,
            properties: false,
            after: None,
        };
        db.engine
            .scan_edges(&[db.id("job:hot")], &select, &mut |_, _| {
                scanned += 1;
                Flow::Continue(())
            })
            .unwrap();
        assert_eq!(db.degree("job:hot", "write"), scanned);
        db.check_is_clean();
    }
}
