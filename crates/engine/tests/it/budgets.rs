//! Traversals that must stop: the result is marked as partial, and is a subset of the complete one.

use crate::small::Small;
use esker_model::traversal::{Budget, StopReason, TravelResult};
use esker_model::{Cancel, EdgeKey, GraphRead, NeverCancel, Traversal, Version, VertexId};
use esker_testkit::graphs::{Lab, lab};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

const CHAINS: [&str; 7] = [
    r#"v(type="User")"#,
    r#"v(type="User").e("run").v().e("read").v()"#,
    r#"v("user:0").rtn().e("run").v().rtn().e("read", "write").v().rtn().return_fp()"#,
    r#"v("file:1").e("wasWrittenBy").v().e("read").v().repeat().return_fp()"#,
    r#"v("file:0", "file:3").e().v().repeat()"#,
    r#"v("user:1").e("run").v().e("read").v().e("wasWrittenBy").v().repeat(max=2).e("wasRunBy").v()"#,
    r#"v(type="Job").as_of("1970-01-01T00:00:00.040Z").e("read").ea("bytes", RANGE, 1000, null).v().return_fp()"#,
];

fn database() -> Small {
    let db = Small::new();
    let size = Lab {
        users: 6,
        jobs: 150,
        files: 60,
        directories: 10,
    };
    db.engine
        .bulk_load(&mut lab(11, size).into_iter().map(Ok), &mut |_| {})
        .unwrap();
    db
}

fn edges(result: &TravelResult) -> BTreeSet<(EdgeKey, Version)> {
    let nodes = result.paths.iter().flat_map(|p| &p.nodes);
    nodes
        .flat_map(|n| &n.parents)
        .map(|p| (p.edge, p.version))
        .collect()
}

/// Asserts that `part` equals `whole`, or is marked as partial and is a subset of it. Returns whether it was cut.
fn part_of(chain: &str, part: &TravelResult, whole: &TravelResult, reasons: &[StopReason]) -> bool {
    let cut = part.stopped.iter().any(|s| reasons.contains(&s.reason));
    assert_eq!(part.complete, part.stopped.is_empty(), "{chain}");
    assert_eq!(
        part.sets.len(),
        whole.sets.len(),
        "{chain}: one set for each rtn()"
    );
    for (p, w) in part.sets.iter().zip(&whole.sets) {
        let (p, w): (BTreeSet<VertexId>, BTreeSet<_>) = (
            p.vertices.iter().copied().collect(),
            w.vertices.iter().copied().collect(),
        );
        assert!(
            p.is_subset(&w),
            "{chain}: {:?} is in no complete answer",
            p.difference(&w).next()
        );
        assert!(
            cut || p == w,
            "{chain}: something is missing and nothing says so"
        );
    }
    assert!(edges(part).is_subset(&edges(whole)) || cut, "{chain}");
    if !cut {
        assert_eq!(edges(part), edges(whole), "{chain}");
        assert_eq!(part.complete, whole.complete, "{chain}");
    }
    cut
}

struct After(AtomicU64);

impl Cancel for After {
    fn cancelled(&self) -> bool {
        let left = self.0.load(Ordering::Relaxed);
        self.0.store(left.saturating_sub(1), Ordering::Relaxed);
        left == 0
    }
}

#[test]
fn whatever_stops_a_traversal_leaves_a_part_of_the_whole() {
    // Each runs on a new database with a cold cache, and once more on one with a warm cache.
    let warm = database();
    for chain in CHAINS {
        let traversal = Traversal::parse(chain).unwrap();
        let run = |db: &Small, budget: &Budget, cancel: &dyn Cancel| {
            db.engine.travel(&traversal, budget, cancel).unwrap()
        };
        let whole = run(&warm, &Budget::default(), &NeverCancel);
        let mut cuts = [0; 5];
        for n in [0, 1, 2, 3, 7, 20, 50, 150, 400, 1000, 1_000_000] {
            let budgets = [
                (
                    Budget {
                        edges: Some(n),
                        ..Budget::default()
                    },
                    StopReason::Edges,
                ),
                (
                    Budget {
                        bytes: Some(n * 100),
                        ..Budget::default()
                    },
                    StopReason::Bytes,
                ),
                (
                    Budget {
                        steps: Some(n as u32),
                        ..Budget::default()
                    },
                    StopReason::Depth,
                ),
            ];
            let cold = database();
            for db in [&cold, &warm] {
                for (i, (budget, reason)) in budgets.iter().enumerate() {
                    let part = run(db, budget, &NeverCancel);
                    cuts[i] += u32::from(part_of(chain, &part, &whole, &[*reason]));
                    if let Some(edges) = budget.edges {
                        let looked: u64 = part.profile.iter().map(|p| p.edges).sum();
                        assert!(
                            looked <= edges + 4096 || !part.complete,
                            "{chain}: {looked} of {edges} edges"
                        );
                    }
                }
                let part = run(db, &Budget::default(), &After(AtomicU64::new(n)));
                cuts[3] += u32::from(part_of(chain, &part, &whole, &[StopReason::Interrupted]));
                db.clock.set_micros_per_reading(1000);
                let part = run(
                    db,
                    &Budget {
                        millis: Some(n),
                        ..Budget::default()
                    },
                    &NeverCancel,
                );
                db.clock.set_micros_per_reading(0);
                cuts[4] += u32::from(part_of(chain, &part, &whole, &[StopReason::TimeOut]));
            }
        }
        let hops = traversal.segments.len();
        assert!(
            hops == 0 || cuts.iter().all(|n| *n > 0),
            "{chain}: every budget cuts something: {cuts:?}"
        );
    }
}

#[test]
fn a_limit_bounds_the_last_working_set() {
    let db = database();
    for chain in CHAINS {
        let mut traversal = Traversal::parse(chain).unwrap();
        let whole = db
            .engine
            .travel(&traversal, &Budget::default(), &NeverCancel)
            .unwrap();
        let all = whole.sets.last().unwrap().vertices.len();
        for limit in [0, 1, 2, all.saturating_sub(1), all, all + 1] {
            traversal.limit = Some(limit as u64);
            let part = db
                .engine
                .travel(&traversal, &Budget::default(), &NeverCancel)
                .unwrap();
            assert_eq!(
                part.sets.last().unwrap().vertices.len(),
                limit.min(all),
                "{traversal}"
            );
            let said = part.stopped.iter().any(|s| s.reason == StopReason::Limit);
            assert_eq!(said, limit < all, "{traversal}: {:?}", part.stopped);
            part_of(chain, &part, &whole, &[StopReason::Limit]);
        }
    }
}

/// Cancellation is checked within the edges of one vertex, not only between vertices.
#[test]
fn a_vertex_with_very_many_edges_is_no_single_step() {
    let db = Small::new();
    let many = (0..30_000).map(|n| (None, db.edge("job:1", "read", &format!("file:{n}"), &[])));
    db.bulk(many.collect()).unwrap();
    db.ensure(None, "job:1");
    let traversal = Traversal::parse(r#"v("job:1").e("read").v()"#).unwrap();
    let budget = Budget {
        edges: Some(5000),
        ..Budget::default()
    };
    let part = db.engine.travel(&traversal, &budget, &NeverCancel).unwrap();
    assert!(!part.complete);
    assert!(part.profile[0].edges < 10_000, "{:?}", part.profile);
    let whole = db
        .engine
        .travel(&traversal, &Budget::default(), &NeverCancel)
        .unwrap();
    assert_eq!(
        whole.sets[0].vertices.len(),
        30_000,
        "what was cut short was not kept in the cache"
    );
}
