//! Retention: what is past the policy leaves the live store and is read by `history` alone.

use crate::graph::{link, put_file, vertex, written};
use crate::processes::{database, open};
use esker::model::{GraphRead, NeverCancel, Version, VersionRange};

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
    let check = |db: &esker::Database| {
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
        // Reads as of a time past the policy are refused rather than answered wrongly.
        assert!(db.read_vertices(&[id], versions[2]).is_err());
        assert!(db.read_vertices(&[id], versions[7]).unwrap()[0].is_some());
        assert!(db.read_vertices(&[id], Version::MAX).unwrap()[0].is_some());
    };
    check(&db);
    check(&attached);
    drop(attached);
    db.close().unwrap();
    check(&open(&path));
}
