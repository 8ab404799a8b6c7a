//! Tests of retention: versions past the policy leave the live store, and every read of their time finds them in the
//! archive.

use crate::graph::{link, put_file, read, vertex, written};
use crate::processes::{database, open};
use esker::Database;
use esker::lineage::{LineageOptions, impact, lineage, render_json};
use esker::model::{
    EdgeSelect, Flow, GraphRead, NeverCancel, Traversal, Version, VersionRange, Versions,
};
use std::ops::ControlFlow;

#[test]
fn history_reads_what_was_archived() {
    let dir = tempfile::tempdir().unwrap();
    let path = database(dir.path());
    let db = open(&path);
    let attached = open(&path);
    let mut versions = Vec::new();
    for n in 0..10 {
        versions.push(put_file(&db, "/a", n).unwrap().version);
        link(&db, "1", "/a", n).unwrap();
    }
    let id = vertex(&db, "file:/a").id;
    let edge = written(&db, "1", "/a");
    let before = (
        db.vertex_history(id, VersionRange::ALL).unwrap(),
        db.edge_history(edge, VersionRange::ALL).unwrap(),
    );
    assert_eq!((before.0.len(), before.1.len()), (10, 10));
    let report = attached.compact(Some(versions[5]), &NeverCancel).unwrap();
    assert!(report.archived >= 9, "{report:?}");
    assert!(std::fs::read_dir(path.join("archive")).unwrap().count() == 1);
    let check = |db: &Database| {
        let vertices = db.vertex_history(id, VersionRange::ALL).unwrap();
        let edges = db.edge_history(edge, VersionRange::ALL).unwrap();
        assert_eq!(vertices.iter().filter(|e| e.archived).count(), 5);
        assert_eq!(
            vertices
                .iter()
                .map(|e| (e.version, &e.change))
                .collect::<Vec<_>>(),
            before
                .0
                .iter()
                .map(|e| (e.version, &e.change))
                .collect::<Vec<_>>()
        );
        assert_eq!(
            edges.iter().map(|e| &e.edge).collect::<Vec<_>>(),
            before.1.iter().map(|e| &e.edge).collect::<Vec<_>>()
        );
        // Reads as of a time past the policy were once refused.
        for (n, version) in versions.iter().enumerate() {
            let then = db.read_vertices(&[id], *version).unwrap().remove(0);
            let size = then.unwrap().attribute("size").cloned();
            assert_eq!(size, Some((n as i64).into()), "as of {version}");
        }
    };
    check(&db);
    check(&attached);
    drop(attached);
    db.close().unwrap();
    check(&open(&path));
}

/// All queries on a small chain of files, as text.
fn answers(db: &Database, times: &[Version]) -> Vec<String> {
    let jobs: Vec<_> = (0..6).map(|n| vertex(db, &format!("job:{n}")).id).collect();
    let schema = db.schema().unwrap();
    let mut lines = Vec::new();
    let mut scan = |what: &str, versions| {
        let select = EdgeSelect {
            types: Vec::new(),
            versions,
            properties: true,
            after: None,
        };
        let mut edges = Vec::new();
        let sink = &mut |i, edge| -> Flow {
            edges.push((i, edge));
            ControlFlow::Continue(())
        };
        db.scan_edges(&jobs, &select, sink).unwrap();
        lines.push(format!("{what}: {edges:?}"));
    };
    scan("all versions", Versions::Range(VersionRange::ALL));
    for time in times {
        scan(&format!("as of {time}"), Versions::AsOf(*time));
        let until = Version::MAX;
        scan(
            &format!("since {time}"),
            Versions::Range(VersionRange { from: *time, until }),
        );
    }
    for time in times {
        let options = LineageOptions {
            as_of: *time,
            ..LineageOptions::default()
        };
        for n in [0, 3, 5] {
            let file = vertex(db, &format!("file:/{n}")).id;
            for walk in [lineage, impact] {
                let found = walk(db, file, &options, &NeverCancel);
                lines.push(match found {
                    Ok(found) => render_json(&found, &schema),
                    Err(e) => e.to_string(),
                });
            }
        }
        let mut traversal = Traversal::parse(r#"v(type="Job").e("write").v()"#).unwrap();
        traversal.as_of = Some(*time);
        let budget = esker::model::traversal::Budget::default();
        let result = db.travel(&traversal, &budget, &NeverCancel).unwrap();
        lines.push(format!("{:?} {:?}", result.sets, result.complete));
    }
    lines
}

/// Lineage reads a range of versions, and a scan of a range once omitted archived versions: the first writer of a file
/// was lost
/// as soon as its version was compacted away.
#[test]
fn scans_traversals_and_lineage_see_what_was_archived() {
    let dir = tempfile::tempdir().unwrap();
    let path = database(dir.path());
    let db = open(&path);
    let mut times = vec![Version::ZERO];
    // Job n reads file n and writes file n + 1, three times.
    for round in 0..3 {
        for n in 0..5 {
            times.push(put_file(&db, &format!("/{n}"), round).unwrap().version);
            times.push(
                read(&db, &n.to_string(), &format!("/{n}"), round)
                    .unwrap()
                    .version,
            );
            let written = link(&db, &n.to_string(), &format!("/{}", n + 1), round);
            times.push(written.unwrap().version);
        }
    }
    times.push(Version::MAX);
    let before = answers(&db, &times);
    let attached = open(&path);
    for cut in [10, 11, 30, times.len() - 2] {
        db.compact(Some(times[cut]), &NeverCancel).unwrap();
        assert_eq!(
            answers(&db, &times),
            before,
            "what was superseded by {cut} is archived"
        );
    }
    assert_eq!(answers(&attached, &times), before, "from another process");
    drop(attached);
    db.close().unwrap();
    assert_eq!(answers(&open(&path), &times), before, "opened again");
}
