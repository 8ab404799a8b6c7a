//! A small graph to write and read.

use esker::Database;
use esker::model::{
    Batch, Commit, EdgeKey, EdgeTypeId, GraphRead, GraphWrite, Op, Properties, Result, Version,
    Vertex, VertexName, VertexRef, VertexSelect,
};

/// A vertex by name.
pub(crate) fn vertex(db: &Database, name: &str) -> VertexRef {
    try_vertex(db, name).unwrap()
}

fn try_vertex(db: &Database, name: &str) -> Result<VertexRef> {
    Ok(VertexName::parse(name)?.resolve(&*db.schema()?)?)
}

/// An edge type by name.
pub(crate) fn edge_type(db: &Database, name: &str) -> EdgeTypeId {
    db.schema().unwrap().edge_type_id(name).unwrap()
}

/// Puts `file:KEY` with the given size.
pub(crate) fn put_file(db: &Database, key: &str, size: i64) -> Result<Commit> {
    let mut batch = Batch::new();
    batch.push(Op::PutVertex {
        vertex: try_vertex(db, &format!("file:{key}"))?,
        key: key.to_owned(),
        attributes: Properties::new().with("size", size),
    });
    db.apply(batch)
}

/// Puts the edge that `job:JOB` wrote `file:FILE`, with a number of bytes.
pub(crate) fn link(db: &Database, job: &str, file: &str, bytes: i64) -> Result<Commit> {
    joined(db, job, "write", file, bytes)
}

/// Puts the edge that `job:JOB` read `file:FILE`, with a number of bytes.
pub(crate) fn read(db: &Database, job: &str, file: &str, bytes: i64) -> Result<Commit> {
    joined(db, job, "read", file, bytes)
}

fn joined(db: &Database, job: &str, edge_type: &str, file: &str, bytes: i64) -> Result<Commit> {
    let mut batch = Batch::new();
    let source = try_vertex(db, &format!("job:{job}"))?;
    let destination = try_vertex(db, &format!("file:{file}"))?;
    batch.push(Op::EnsureVertex {
        vertex: source,
        key: job.to_owned(),
    });
    batch.push(Op::EnsureVertex {
        vertex: destination,
        key: file.to_owned(),
    });
    batch.push(Op::PutEdge {
        source,
        edge_type: db.schema()?.edge_type_id(edge_type)?,
        destination,
        properties: Properties::new().with("bytes", bytes),
    });
    db.apply(batch)
}

/// The key of the edge from a job to a file.
pub(crate) fn written(db: &Database, job: &str, file: &str) -> EdgeKey {
    EdgeKey {
        source: vertex(db, &format!("job:{job}")).id,
        edge_type: edge_type(db, "write"),
        destination: vertex(db, &format!("file:{file}")).id,
    }
}

/// The current state of `file:KEY`.
pub(crate) fn file(db: &Database, key: &str) -> Option<Vertex> {
    db.read_vertices(&[vertex(db, &format!("file:{key}")).id], Version::MAX)
        .unwrap()
        .remove(0)
}

/// Number of files, by counts and by a scan.
pub(crate) fn files(db: &Database) -> Vec<String> {
    let keys = files_seen(db);
    let file = db.schema().unwrap().vertex_type_id("File").unwrap();
    let counts = db.counts().unwrap().vertices;
    let counted = counts
        .iter()
        .find(|(t, _)| *t == file)
        .map_or(0, |(_, n)| *n);
    assert_eq!(counted, keys.len() as u64, "the counter and the scan agree");
    keys
}

/// Number of files by a scan, for a database with concurrent writers.
pub(crate) fn files_seen(db: &Database) -> Vec<String> {
    let mut keys = Vec::new();
    let file = db.schema().unwrap().vertex_type_id("File").unwrap();
    db.scan_vertices(&VertexSelect::of(file), &mut |v| {
        keys.push(v.key);
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    keys.sort();
    keys
}
