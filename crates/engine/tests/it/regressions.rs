//! Bugs found by random histories, each as the shortest case that shows it.

use crate::small::Small;
use esker_engine::{CheckOptions, Settings};
use esker_model::traversal::{Budget, StopReason};
use esker_model::{
    AttributeDefinition, Cancel, ErrorKind, GraphRead, GraphWrite, NeverCancel, Op, SchemaChange,
    Traversal, Value, ValueKind, Version, VersionRange, VertexChange,
};
use esker_store::fault::Operation;
use esker_store::{Store, Table, WriteBatch};
use std::sync::atomic::{AtomicU64, Ordering};

#[expect(clippy::unnecessary_wraps, reason = "a change's version is an option")]
fn at(millis: u64) -> Option<Version> {
    Some(Version::new(millis, 0))
}

fn as_of(millis: u64) -> Version {
    Version::new(millis, 0)
}

/// A change without a version of its own takes a version after the one it changes, which an import may have dated ahead of the
/// clock. The commit returned the clock's version, and a reader as of it did not see its own write.
#[test]
fn a_writer_reads_its_own_write_behind_a_clock_that_runs_ahead() {
    let db = Small::new();
    db.put(at(9_000_000), "file:a", &[("size", 1)]);
    let commit = db.put(None, "file:a", &[("size", 2)]);
    let read = db.vertex_as_of("file:a", commit.version).unwrap();
    assert_eq!(read.attribute("size"), Some(&Value::I64(2)));
}

/// `ensure` checked only whether a vertex exists now. Deleted at 20 and inserted again at 30, it did not exist at 25,
/// and an edge of 25 led to a vertex that reads as of 25 reported as deleted.
#[test]
fn ensure_holds_at_its_version_between_deletion_and_insertion() {
    let db = Small::new();
    db.put(at(10), "file:a", &[]);
    db.delete(at(20), "file:a");
    db.put(at(30), "file:a", &[]);
    db.ensure(at(25), "file:a");
    assert!(db.vertex_as_of("file:a", as_of(22)).unwrap().deleted);
    assert!(!db.vertex_as_of("file:a", as_of(27)).unwrap().deleted);
}

/// In one batch all changes have one version. A deletion followed by `ensure` left the vertex deleted, because `ensure`
/// inserted a vertex again only if it was deleted at an *earlier* version.
#[test]
fn ensure_after_a_deletion_in_the_same_batch() {
    let db = Small::new();
    db.ensure(None, "file:a");
    let (delete, ensure) = (db.deletion("file:a"), db.insurance("file:a"));
    db.batch(None, vec![delete, ensure]).unwrap();
    assert!(!db.vertex("file:a").unwrap().deleted);
    assert_eq!(db.count_of("File"), 1);
}

/// Set at 15, deleted at 20, inserted again at 30. If the attribute arrived last it was taken for the newest value of a
/// live vertex, and outlived the deletion. The order of arrival must not matter.
#[test]
fn an_attribute_that_arrives_late_ends_where_its_vertex_was_deleted() {
    let db = Small::new();
    db.put(at(10), "file:a", &[]);
    db.delete(at(20), "file:a");
    db.put(at(30), "file:a", &[]);
    db.set(at(15), "file:a", "tag", 1).unwrap();
    assert_eq!(db.vertex("file:a").unwrap().attribute("tag"), None);
    assert_eq!(
        db.vertex_as_of("file:a", as_of(17))
            .unwrap()
            .attribute("tag"),
        Some(&Value::I64(1))
    );
}

/// An attribute arrives while the vertex is still deleted: importing a log for the second time failed, because its statements
/// about a file came after the file's deletion.
#[test]
fn importing_twice_a_vertex_that_was_deleted() {
    let db = Small::new();
    let import = || {
        db.put(at(10), "file:a", &[]);
        db.set(at(15), "file:a", "tag", 1).unwrap();
        db.delete(at(20), "file:a");
    };
    import();
    let before = db
        .engine
        .vertex_history(db.id("file:a"), VersionRange::ALL)
        .unwrap();
    import();
    assert_eq!(
        db.engine
            .vertex_history(db.id("file:a"), VersionRange::ALL)
            .unwrap(),
        before
    );
    assert!(
        db.set(at(20), "file:a", "tag", 2).is_err(),
        "it is deleted by then"
    );
}

/// Removed and set at one version: the removal stayed in `history` beside the value that had replaced it.
#[test]
fn one_version_of_an_attribute_holds_one_event() {
    let db = Small::new();
    db.put(at(10), "file:a", &[]);
    db.set(at(10), "file:a", "tag", 1).unwrap();
    db.unset(at(10), "file:a", "tag").unwrap();
    db.set(at(10), "file:a", "tag", 2).unwrap();
    let history = db
        .engine
        .vertex_history(db.id("file:a"), VersionRange::ALL)
        .unwrap();
    let changes: Vec<_> = history.into_iter().map(|e| e.change).collect();
    assert_eq!(
        changes[1..],
        [VertexChange::Set("tag".into(), Value::I64(2))]
    );
}

/// Compaction archived the removal of an attribute with everything before it. The old value, imported again, then met
/// nothing newer and was restored.
#[test]
fn a_removed_attribute_stays_removed_after_compaction() {
    let db = Small::new();
    db.put(at(10), "file:a", &[]);
    db.set(at(12), "file:a", "tag", 1).unwrap();
    db.unset(at(14), "file:a", "tag").unwrap();
    db.put(at(30), "file:a", &[]);
    db.engine.compact(at(25), &NeverCancel).unwrap();
    db.set(at(12), "file:a", "tag", 1).unwrap();
    assert_eq!(db.vertex("file:a").unwrap().attribute("tag"), None);
}

/// The counters of a commit are merged into their rows after it. If that failed, the batch was answered with an error
/// although it was permanently in the store.
#[test]
fn a_batch_that_is_committed_is_acknowledged() {
    let db = Small::with(Settings {
        pending_counters_max: 1,
        ..Settings::default()
    });
    db.fault.fail_once(Operation::Commit, 1, || {
        std::io::Error::from_raw_os_error(28).into_error()
    });
    let ensure = db.insurance("file:a");
    db.batch(None, vec![ensure]).unwrap();
    assert_eq!(db.count_of("File"), 1);
    db.check_is_clean();
}

/// A bulk load collected vertices of which it knew only the name, and wrote them before everything else: an `ensure` at
/// 20 after a `put` at 10 became the first version, and the attributes went into the past below an empty vertex.
#[test]
fn a_bulk_load_keeps_the_order_of_what_happens_to_one_vertex() {
    let db = Small::new();
    let put = db.insertion("file:a", &[("size", 7)]);
    let ensure = db.insurance("file:a");
    db.bulk(vec![(at(10), put), (at(20), ensure)]).unwrap();
    assert_eq!(
        db.vertex("file:a").unwrap().attribute("size"),
        Some(&Value::I64(7))
    );
}

/// `put` without attributes clears the present ones. A bulk load turned it into an `ensure`, which changes nothing.
#[test]
fn a_bulk_load_can_clear_attributes() {
    let db = Small::new();
    db.put(at(10), "file:a", &[("size", 7)]);
    let put = db.insertion("file:a", &[]);
    db.bulk(vec![(at(20), put)]).unwrap();
    assert_eq!(db.vertex("file:a").unwrap().attribute("size"), None);
}

/// Put, deleted and put again at one version: a bulk load wrote the two puts first and the deletion last.
#[test]
fn a_bulk_load_keeps_the_order_of_what_happens_to_one_edge() {
    let db = Small::new();
    let put = || db.edge("job:1", "read", "file:a", &[("bytes", 1)]);
    let delete = db.edge_deletion("job:1", "read", "file:a");
    db.bulk(vec![(None, put()), (None, delete), (None, put())])
        .unwrap();
    assert_eq!(db.degree("job:1", "read"), 1);
}

/// A failed bulk load left its marker, so that the next opening recomputes counters; the next successful load removed the
/// marker while the counters were still wrong.
#[test]
fn a_bulk_load_after_one_that_failed_counts_again() {
    let db = Small::new();
    let edge = |file| db.edge("job:1", "read", file, &[]);
    // The rows are loaded, the counters are not: index, rows, counts are finished in this order.
    db.fault.fail_once(Operation::Load, 2, || {
        std::io::Error::from_raw_os_error(28).into_error()
    });
    db.bulk(vec![(None, edge("file:a"))]).unwrap_err();
    db.bulk(vec![(None, edge("file:b"))]).unwrap();
    assert_eq!(db.degree("job:1", "read"), 2);
}

/// Cancels after a number of checks.
struct After(AtomicU64);

impl Cancel for After {
    fn cancelled(&self) -> bool {
        self.0.fetch_sub(1, Ordering::Relaxed) == 1
    }
}

/// `check --repair`, interrupted within the edges of one vertex, compared the edges counted so far with the vertex's
/// counter, found it too large and "repaired" it.
#[test]
fn an_interrupted_repair_leaves_good_counters_alone() {
    let db = Small::new();
    let edges = (0..20_000).map(|n| (None, db.edge("job:1", "read", &format!("file:{n}"), &[])));
    db.bulk(edges.collect()).unwrap();
    let options = CheckOptions {
        repair: true,
        part: false,
    };
    let report = db
        .engine
        .check(&options, &After(AtomicU64::new(1)), &mut |_| {})
        .unwrap();
    assert!(!report.complete);
    assert_eq!(db.degree("job:1", "read"), 20_000);
}

/// A missing inverse edge was repaired in the same pass that compared the counters with the rows, so the right counter was
/// "repaired" to the wrong number.
#[test]
fn a_repair_counts_what_it_mended() {
    let db = Small::new();
    db.ensure(None, "job:1");
    db.ensure(None, "file:a");
    let edge = db.edge("job:1", "read", "file:a", &[]);
    db.batch(None, vec![edge]).unwrap();
    let key = db.key("file:a", "wasReadBy", "job:1").encode().to_vec();
    let mut damage = WriteBatch::default();
    damage.remove(Table::Rows, key);
    db.fault
        .commit(damage, esker_store::Durability::Sync)
        .unwrap();
    let report = db
        .engine
        .check(
            &CheckOptions {
                repair: true,
                part: false,
            },
            &NeverCancel,
            &mut |_| {},
        )
        .unwrap();
    assert!(
        report
            .problems
            .iter()
            .any(|p| p.what == "inverse edge" && p.repaired),
        "{report:?}"
    );
    db.check_is_clean();
    assert_eq!(db.degree("file:a", "wasReadBy"), 1);
}

fn travel(db: &Small, chain: &str) -> esker_model::traversal::TravelResult {
    let traversal = Traversal::parse(chain).unwrap();
    db.engine
        .travel(&traversal, &Budget::default(), &NeverCancel)
        .unwrap()
}

/// `repeat(max=n)` recorded that there was more to follow, and later segments took that for the end.
#[test]
fn a_chain_goes_on_behind_a_repeat_with_a_bound() {
    let db = Small::new();
    db.chain_of_campaigns(4);
    db.put(None, "file:a", &[]);
    let edge = db.edge("file:a", "partOf", "campaign:1", &[]);
    db.batch(None, vec![edge]).unwrap();
    let result = travel(
        &db,
        r#"v("campaign:0").e("follows").v().repeat(max=1).e("hasPart").v()"#,
    );
    assert_eq!(result.sets[0].vertices, [db.id("file:a")]);
    assert_eq!(result.stopped.len(), 1);
    assert_eq!(result.stopped[0].reason, StopReason::Depth);
    assert_eq!(
        result.stopped[0].step, 2,
        "the hop that would have been next"
    );
}

/// A path ends where there are no more edges to follow. Nodes that lead into a cycle always have more, so they were on no path,
/// and vanished as soon as any other path had an end: job 1 reads and writes `b`, and only `a` was shown.
#[test]
fn paths_into_a_cycle_are_kept_with_paths_that_end() {
    let db = Small::new();
    for name in ["job:1", "job:2", "file:a", "file:b", "file:c"] {
        db.ensure(None, name);
    }
    let edges = [
        ("job:1", "read", "file:b"),
        ("job:1", "write", "file:b"),
        ("job:2", "read", "file:a"),
    ];
    let writes = [("job:1", "write", "file:c"), ("job:2", "write", "file:c")];
    for (source, t, destination) in edges.into_iter().chain(writes) {
        let edge = db.edge(source, t, destination, &[]);
        db.batch(None, vec![edge]).unwrap();
    }
    let result = travel(
        &db,
        r#"v("file:c").e("wasWrittenBy").v().e("read").v().repeat().return_fp()"#,
    );
    let nodes = result.paths.unwrap().nodes;
    for name in ["file:a", "file:b", "job:1", "job:2"] {
        assert!(
            nodes.iter().any(|n| n.vertex == db.id(name)),
            "{name} lies on a path"
        );
    }
}

/// `versions(t1, t2)` sees each edge that existed at some version in the range. Edges put earlier were missed, though
/// they existed throughout; and from all vertices of a type, those that were deleted since.
#[test]
fn a_range_sees_what_held_when_it_began() {
    let db = Small::new();
    for name in ["job:1", "file:a", "file:b"] {
        db.ensure(at(1), name);
    }
    for (file, millis) in [("file:a", 5), ("file:b", 6)] {
        let edge = db.edge("job:1", "read", file, &[]);
        db.batch(at(millis), vec![edge]).unwrap();
    }
    let deleted = db.edge_deletion("job:1", "read", "file:b");
    db.batch(at(8), vec![deleted]).unwrap();
    db.delete(at(30), "job:1");
    let range = VersionRange {
        from: as_of(10),
        until: as_of(20),
    };
    for start in [r#"v("job:1")"#, r#"v(type="Job")"#] {
        let mut traversal = Traversal::parse(&format!(r#"{start}.e("read").v()"#)).unwrap();
        traversal.versions = Some(range);
        let result = db
            .engine
            .travel(&traversal, &Budget::default(), &NeverCancel)
            .unwrap();
        assert_eq!(result.sets[0].vertices, [db.id("file:a")], "{start}");
    }
}

/// A system error as the store reports it.
trait IntoError {
    fn into_error(self) -> esker_model::Error;
}

impl IntoError for std::io::Error {
    fn into_error(self) -> esker_model::Error {
        esker_model::Error::io("writing", self)
    }
}

/// Job 2 read file A; its log came first and ensured that A exists at 200. Then came the log of the job that wrote A
/// at 100: a change of the past, so A stayed a file without attributes, as in the reader's log. With the logs in the other
/// order, A would have had them. A mention is now replaced by an earlier insertion.
#[test]
fn a_file_that_was_read_before_its_writer_was_known_is_what_the_writer_says() {
    let (early, late) = (Small::new(), Small::new());
    early.put(at(100), "file:a", &[("size", 1)]);
    early.ensure(at(200), "file:a");
    late.ensure(at(200), "file:a");
    late.ensure(at(150), "file:a");
    late.put(at(100), "file:a", &[("size", 1)]);
    for moment in [50, 100, 150, 250] {
        let [a, b] = [&early, &late].map(|db| db.vertex_as_of("file:a", as_of(moment)));
        assert_eq!(a, b, "as of {moment}");
    }
    let now = late.vertex("file:a").unwrap();
    assert_eq!(now.attribute("size"), Some(&Value::I64(1)));
    assert_eq!(now.version, as_of(100));
}

/// Two processes changed one predefined attribute each: both had read the vertex, both put it completely, and one change was
/// lost. A change of single attributes is now made under the write lock.
#[test]
fn changes_of_single_attributes_are_both_kept() {
    let db = Small::new();
    let changes = ["blocks", "links"].map(|name| SchemaChange::Attribute {
        vertex_type: "Campaign".into(),
        attribute: AttributeDefinition {
            name: name.into(),
            kind: ValueKind::I64,
        },
    });
    db.engine.define(&changes).unwrap();
    let (vertex, _) = db.name("campaign:p");
    let change = |at, set: &[(&str, i64)], remove: &[&str]| {
        let set = set.iter().map(|(n, v)| ((*n).to_owned(), (*v).into()));
        let op = Op::ChangeVertex {
            vertex,
            set: set.collect(),
            remove: remove.iter().map(|n| (*n).to_owned()).collect(),
        };
        db.batch(at, vec![op])
    };
    assert_eq!(
        change(None, &[("size", 1)], &[]).unwrap_err().kind(),
        ErrorKind::Missing,
        "it inserts nothing"
    );
    db.put(at(10), "campaign:p", &[("size", 1)]);
    change(at(20), &[("blocks", 2)], &[]).unwrap();
    change(at(30), &[("links", 3)], &["size"]).unwrap();
    let seen = |millis| {
        let vertex = db.vertex_as_of("campaign:p", as_of(millis)).unwrap();
        let values = ["size", "blocks", "links"].map(|n| match vertex.attributes.get(n) {
            Some(Value::I64(value)) => *value,
            _ => 0,
        });
        (vertex.deleted, values)
    };
    assert_eq!(seen(10), (false, [1, 0, 0]));
    assert_eq!(seen(20), (false, [1, 2, 0]));
    assert_eq!(seen(30), (false, [0, 2, 3]));
    // An older version: the state at that time, with the change; later states are unchanged.
    change(at(15), &[("links", 9)], &[]).unwrap();
    assert_eq!(seen(15), (false, [1, 0, 9]));
    assert_eq!(seen(20), (false, [1, 2, 0]));
    // The state at that time is in the archive.
    db.engine.compact(at(30), &NeverCancel).unwrap();
    change(at(17), &[("blocks", 7)], &[]).unwrap();
    assert_eq!(seen(17), (false, [1, 7, 9]));
    assert_eq!(seen(20), (false, [1, 2, 0]));
    for (time, set, remove, kind) in [
        (at(5), &[("size", 1)][..], &[][..], ErrorKind::Missing),
        (None, &[("tag", 1)], &[], ErrorKind::Invalid),
        (None, &[], &["tag"], ErrorKind::Invalid),
    ] {
        let refused = change(time, set, remove).unwrap_err();
        assert_eq!(refused.kind(), kind, "{refused}");
    }
    db.delete(at(40), "campaign:p");
    let refused = change(None, &[("size", 1)], &[]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Missing, "{refused}");
    db.check_is_clean();
}

/// A part whose version is older than the engine's clock, applied after counters were merged: its changes of counters are
/// found when the database is opened again.
#[test]
fn counters_of_parts_with_old_versions_survive() {
    use esker_engine::{Absent, Engine, PartChange, PartOp, SideWrites};
    use esker_model::{EdgeKey, EdgeTypeId, Properties, VertexId};
    let settings = Settings {
        // The third edge makes four counters, which triggers a merge.
        pending_counters_max: 4,
        ..Settings::default()
    };
    let key = |n: u8| EdgeKey {
        source: VertexId([n; 16]),
        edge_type: EdgeTypeId(0),
        destination: VertexId([9; 16]),
    };
    let properties = Properties::new();
    let put = |engine: &Engine, n: u8, version: u64| {
        let op = PartOp {
            at: Some(Version(version)),
            change: PartChange::Edge {
                key: key(n),
                deleted: false,
                properties: &properties,
                requested: true,
            },
        };
        engine
            .apply_part(
                Version(version),
                &[op],
                Absent::Refuse,
                SideWrites::default(),
            )
            .unwrap();
    };
    let db = Small::with(settings);
    for (n, version) in [(1, 900), (2, 901), (3, 902), (4, 400)] {
        put(&db.engine, n, version);
    }
    let again = db.after_crash(usize::MAX);
    let of: Vec<_> = (1..5).map(|n| (VertexId([n; 16]), EdgeTypeId(0))).collect();
    assert_eq!(again.engine.degrees(&of).unwrap(), [1, 1, 1, 1]);
}
