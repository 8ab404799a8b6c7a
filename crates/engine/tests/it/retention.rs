//! Retention: reads of archived times include the archive, once for an entire frontier; other reads do not.

use crate::small::Small;
use esker_model::traversal::Budget;
use esker_model::{
    DiffSelect, Difference, Edge, EdgeSelect, EdgeTypeId, Flow, GraphRead as _, NeverCancel,
    Traversal, Version, VersionRange, Versions, Vertex, VertexId, VertexSelect,
};
use std::ops::ControlFlow;

fn at(millis: u64) -> Version {
    Version::new(millis, 0)
}

/// Ten jobs write and rewrite twenty files between the milliseconds 1 and 40; some edges and files are removed and reinserted.
fn history() -> Small {
    let db = Small::new();
    for millis in 1..40_u64 {
        let (job, file) = (
            format!("job:{}", millis % 10),
            format!("file:{}", millis % 20),
        );
        let version = Some(at(millis));
        db.put(version, &file, &[("size", millis as i64)]);
        db.ensure(version, &job);
        let edge = db.edge(&job, "write", &file, &[("bytes", millis as i64)]);
        db.batch(version, vec![edge]).unwrap();
        db.set(version, &file, "tag", millis as i64).unwrap();
        if millis % 7 == 0 {
            let edge = db.edge_deletion(&job, "write", &file);
            db.batch(Some(Version::new(millis, 1)), vec![edge]).unwrap();
            db.delete(Some(Version::new(millis, 1)), &file);
        }
    }
    db
}

/// Results of all reads as of a time, and in a range from it.
#[derive(Debug, PartialEq)]
struct Answers {
    vertices: Vec<Option<Vertex>>,
    edges: Vec<Option<Edge>>,
    scanned: Vec<(usize, Edge)>,
    in_range: Vec<(usize, Edge)>,
    of_type: Vec<Vertex>,
    differences: Vec<Difference>,
    travelled: Vec<Vec<VertexId>>,
}

fn scan(db: &Small, frontier: &[VertexId], versions: Versions) -> Vec<(usize, Edge)> {
    let select = EdgeSelect {
        types: Vec::new(),
        versions,
        properties: true,
        after: None,
    };
    let mut found = Vec::new();
    let sink = &mut |i, edge| -> Flow {
        found.push((i, edge));
        ControlFlow::Continue(())
    };
    db.engine.scan_edges(frontier, &select, sink).unwrap();
    found
}

fn read_all(db: &Small, time: Version) -> Answers {
    // Unordered, one of them twice, one that never existed.
    let mut ids: Vec<_> = (0..20).rev().map(|n| db.id(&format!("file:{n}"))).collect();
    ids.extend((0..10).map(|n| db.id(&format!("job:{n}"))));
    ids.extend([db.id("file:3"), db.id("file:never")]);
    let keys: Vec<_> = (0..200)
        .map(|n| {
            db.key(
                &format!("job:{}", n % 10),
                "write",
                &format!("file:{}", n / 10),
            )
        })
        .collect();
    let range = VersionRange {
        from: time,
        until: at(35),
    };
    let (mut of_type, mut differences) = (Vec::new(), Vec::new());
    let file = db.name("file:1").0.type_id;
    let select = VertexSelect {
        as_of: time,
        deleted: true,
        ..VertexSelect::of(file)
    };
    db.engine
        .scan_vertices(&select, &mut |vertex| {
            of_type.push(vertex);
            ControlFlow::Continue(())
        })
        .unwrap();
    db.engine
        .diff(&DiffSelect::between(time, at(38)), &mut |difference| {
            differences.push(difference);
            ControlFlow::Continue(())
        })
        .unwrap();
    let mut travelled = Vec::new();
    for chain in [
        r#"v(type="Job").e("write").v()"#,
        r#"v("job:1").e("write").ea("bytes", RANGE, 5, null).v().va("tag", RANGE, 1, 30).e().v()"#,
    ] {
        let mut traversal = Traversal::parse(chain).unwrap();
        for as_of in [true, false] {
            traversal.as_of = as_of.then_some(time);
            traversal.versions = (!as_of && !range_is_empty(range)).then_some(range);
            let budget = Budget::default();
            let result = db.engine.travel(&traversal, &budget, &NeverCancel).unwrap();
            travelled.extend(result.sets.into_iter().map(|set| set.vertices));
        }
    }
    Answers {
        vertices: db.engine.read_vertices(&ids, time).unwrap(),
        edges: db.engine.read_edges(&keys, time).unwrap(),
        scanned: scan(db, &ids, Versions::AsOf(time)),
        in_range: scan(db, &ids, Versions::Range(range)),
        of_type,
        differences,
        travelled,
    }
}

fn range_is_empty(range: VersionRange) -> bool {
    range.until <= range.from
}

/// Versions moved to the archive used to be missing from scans of a range, and thus from lineage; reads as of their
/// time were refused. Now every read answers as if nothing had been moved.
#[test]
fn every_read_of_any_time_answers_as_before() {
    let db = history();
    let times: Vec<Version> = (0..42).map(at).collect();
    let before: Vec<Answers> = times.iter().map(|t| read_all(&db, *t)).collect();
    for since in [3, 12, 12, 29] {
        db.engine.compact(Some(at(since)), &NeverCancel).unwrap();
        for (time, before) in times.iter().zip(&before) {
            assert_eq!(
                read_all(&db, *time),
                *before,
                "as of {time}, {since} compacted"
            );
        }
    }
    assert!(db.archive.len() > 50, "{} archived", db.archive.len());
    let crashed = db.after_crash(0);
    for (time, before) in times.iter().zip(&before) {
        assert_eq!(
            read_all(&crashed, *time),
            *before,
            "as of {time}, opened again"
        );
    }
}

/// `compact --retain 90d` once made every read of an earlier time fail, though nothing was archived. Now only the content
/// counts: the archive is read for times at which something in it was current, and never for later ones.
#[test]
fn the_archive_is_asked_only_about_times_that_it_knows() {
    let db = Small::new();
    db.put(Some(at(10)), "file:a", &[("size", 1)]);
    db.ensure(Some(at(50)), "file:b");
    let retained = || db.engine.stats().unwrap().retained_since;
    db.engine.compact(Some(at(60)), &NeverCancel).unwrap();
    assert_eq!(retained(), None, "nothing was superseded");
    db.put(Some(at(20)), "file:a", &[("size", 2)]);
    db.put(Some(at(70)), "file:a", &[("size", 3)]);
    db.engine.compact(Some(at(60)), &NeverCancel).unwrap();
    assert_eq!(
        retained(),
        Some(at(20)),
        "the first size was current until 20"
    );
    db.engine.compact(Some(at(65)), &NeverCancel).unwrap();
    assert_eq!(retained(), Some(at(20)), "nothing more was archived");
    let size = |time: u64| {
        let passes = db.archive.passes();
        let vertex = db.vertex_as_of("file:a", at(time)).unwrap();
        let attribute = vertex.attribute("size").cloned();
        (attribute, db.archive.passes() > passes)
    };
    for (time, value, archived) in [
        (15, 1, true),
        (20, 2, false),
        (69, 2, false),
        (70, 3, false),
    ] {
        assert_eq!(size(time), (Some(value.into()), archived), "as of {time}");
    }
    let ids = [db.id("file:a"), db.id("file:b")];
    let passes = db.archive.passes();
    for from in [at(20), at(30), Version::MAX] {
        let until = Version::MAX;
        scan(&db, &ids, Versions::Range(VersionRange { from, until }));
    }
    assert_eq!(
        db.archive.passes(),
        passes,
        "none of them was current at 20"
    );
    db.engine.compact(Some(at(70)), &NeverCancel).unwrap();
    assert_eq!(retained(), Some(at(70)));
    assert_eq!(size(69), (Some(2.into()), true));
    let again = db.after_crash(0);
    assert_eq!(again.engine.stats().unwrap().retained_since, Some(at(70)));
}

/// A change with an older version into an archived time: its predecessor and its successor are found.
#[test]
fn a_change_into_an_archived_time_takes_its_place() {
    let (db, plain) = (Small::new(), Small::new());
    for db in [&db, &plain] {
        for millis in [10, 20, 30] {
            db.put(Some(at(millis)), "file:a", &[("size", millis as i64)]);
            let edge = db.edge("job:1", "write", "file:a", &[("bytes", millis as i64)]);
            db.batch(Some(at(millis)), vec![edge]).unwrap();
        }
    }
    db.engine.compact(Some(at(30)), &NeverCancel).unwrap();
    assert!(!db.archive.is_empty());
    for db in [&db, &plain] {
        for millis in [5, 15, 20, 25] {
            db.put(Some(at(millis)), "file:a", &[("size", 100 + millis as i64)]);
            let edge = db.edge(
                "job:1",
                "write",
                "file:a",
                &[("bytes", 100 + millis as i64)],
            );
            db.batch(Some(at(millis)), vec![edge]).unwrap();
        }
        db.delete(Some(at(27)), "file:a");
    }
    for compacted in [false, true] {
        if compacted {
            db.engine.compact(Some(at(30)), &NeverCancel).unwrap();
        }
        for millis in 0..35 {
            let (got, want) = (read_all(&db, at(millis)), read_all(&plain, at(millis)));
            assert_eq!(got, want, "as of {millis}");
        }
    }
}

/// The archive is read once for a frontier, in any order; not once per vertex or edge.
#[test]
fn a_frontier_reads_the_archive_once() {
    let db = history();
    db.engine.compact(Some(at(30)), &NeverCancel).unwrap();
    let ids: Vec<VertexId> = (0..10).map(|n| db.id(&format!("job:{n}"))).collect();
    let files: Vec<VertexId> = (0..20).map(|n| db.id(&format!("file:{n}"))).collect();
    let passes = |what: &dyn Fn()| {
        let before = db.archive.passes();
        what();
        db.archive.passes() - before
    };
    let all = Versions::Range(VersionRange::ALL);
    // A scan that merges both streams would read once more: none here, because all of it was prefetched.
    assert_eq!(passes(&|| drop(scan(&db, &ids, all))), 1);
    assert_eq!(passes(&|| drop(scan(&db, &ids, Versions::AsOf(at(12))))), 1);
    assert_eq!(passes(&|| drop(db.engine.read_vertices(&files, at(12)))), 1);
    let keys: Vec<_> = (0..200)
        .map(|n| {
            db.key(
                &format!("job:{}", n % 10),
                "write",
                &format!("file:{}", n / 10),
            )
        })
        .collect();
    assert_eq!(passes(&|| drop(db.engine.read_edges(&keys, at(12)))), 1);
    let mut traversal = Traversal::parse(r#"v(type="Job").e("write").v()"#).unwrap();
    traversal.as_of = Some(at(12));
    let travel = || {
        let budget = Budget::default();
        db.engine.travel(&traversal, &budget, &NeverCancel).unwrap();
    };
    assert_eq!(passes(&travel), 3, "the start, the edges, where they lead");
}

/// More archived versions of one edge, and of one frontier, than are held in memory: all are read nevertheless.
#[test]
fn more_than_fits_in_memory_is_read_all_the_same() {
    let db = Small::new();
    let text = "x".repeat(1 << 20);
    let edge_type: EdgeTypeId = db.engine.schema().unwrap().edge_type_id("write").unwrap();
    let put = |job: &str, file: &str, millis: u64| {
        let (source, destination) = (db.name(job).0, db.name(file).0);
        let properties = esker_model::Properties::new().with("text", &text[..text.len() - 9]);
        let op = esker_model::Op::PutEdge {
            source,
            edge_type,
            destination,
            properties,
        };
        db.batch(Some(at(millis)), vec![op]).unwrap();
    };
    // 12 MiB of a hub, and 12 times 6 MiB.
    (1..=13).for_each(|millis| put("job:hub", "file:0", millis));
    for n in 1..=12 {
        (1..=7).for_each(|millis| put(&format!("job:{n}"), &format!("file:{n}"), millis));
    }
    db.engine.compact(Some(at(20)), &NeverCancel).unwrap();
    assert_eq!(db.archive.len(), 2 * (12 + 12 * 6));
    let mut ids = vec![db.id("job:hub")];
    ids.extend((1..=12).map(|n| db.id(&format!("job:{n}"))));
    let found = scan(&db, &ids, Versions::Range(VersionRange::ALL));
    let seen: Vec<_> = found
        .iter()
        .map(|(i, e)| (*i, e.version.millis()))
        .collect();
    let mut expected: Vec<_> = (1..=13).rev().map(|millis| (0, millis)).collect();
    for n in 1..=12 {
        expected.extend((1..=7).rev().map(|millis| (n, millis)));
    }
    assert_eq!(seen, expected);
    let as_of = scan(&db, &ids, Versions::AsOf(at(3)));
    assert!(as_of.iter().all(|(_, e)| e.version == at(3)));
    assert_eq!(as_of.len(), 13);
}
