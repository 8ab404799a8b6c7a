//! Typed graphs like GraphMeta's figure 1: users run jobs, jobs read and write files, files are in directories.

use crate::rng::Rng;
use esker_model::{Mutation, Op, Properties, Schema, Version, VertexName, VertexRef};

/// Size of a generated graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lab {
    /// Number of user vertices.
    pub users: usize,
    /// Number of jobs; each is run by a user, reads some files, and writes one or more.
    pub jobs: usize,
    /// Number of files; a few are read by very many jobs.
    pub files: usize,
    /// Number of directories, which form a tree.
    pub directories: usize,
}

/// Generates the vertices and edges of a laboratory from a seed. Jobs run one after the other, so a job reads what an
/// earlier one may have written: version n milliseconds is job n.
///
/// # Panics
/// If the default schema lacks GraphMeta's types.
pub fn lab(seed: u64, size: Lab) -> Vec<Mutation> {
    let schema = Schema::default();
    let mut rng = Rng::new(seed);
    let mut out = Vec::new();
    let mut at = Version::new(1, 0);
    let vertex = |prefix: &str, n: usize| {
        let name = VertexName {
            type_name: prefix.to_owned(),
            key: n.to_string(),
        };
        let vertex = name.resolve(&schema).unwrap_or_else(|e| panic!("{e}"));
        (vertex, name.key)
    };
    let edge_type = |name: &str| schema.edge_type_id(name).unwrap_or_else(|e| panic!("{e}"));
    let types = ["run", "exe", "read", "write", "has"].map(edge_type);
    let mut push = |at, op| {
        out.push(Mutation {
            version: Some(at),
            op,
        });
    };
    for (prefix, count) in [
        ("user", size.users),
        ("directory", size.directories),
        ("file", size.files),
        ("executable", 1),
    ] {
        for n in 0..count {
            let (vertex, key) = vertex(prefix, n);
            push(at, Op::EnsureVertex { vertex, key });
        }
    }
    let edge = |source: VertexRef, t: usize, destination: VertexRef, bytes: usize| Op::PutEdge {
        source,
        edge_type: types[t],
        destination,
        properties: Properties::new().with("bytes", bytes as i64),
    };
    for n in 1..size.directories {
        push(
            at,
            edge(vertex("directory", n / 2).0, 4, vertex("directory", n).0, 0),
        );
    }
    if size.directories > 0 {
        for n in 0..size.files {
            push(
                at,
                edge(
                    vertex("directory", rng.number_below(size.directories)).0,
                    4,
                    vertex("file", n).0,
                    0,
                ),
            );
        }
    }
    for n in 0..size.jobs {
        at = Version::new(2 + n as u64, 0);
        let (job, key) = vertex("job", n);
        push(
            at,
            Op::PutVertex {
                vertex: job,
                key,
                attributes: Properties::new().with("nprocs", 1 << rng.number_below(12)),
            },
        );
        push(
            at,
            edge(
                vertex("user", rng.number_below(size.users.max(1))).0,
                0,
                job,
                0,
            ),
        );
        push(at, edge(job, 1, vertex("executable", 0).0, 0));
        for _ in 0..rng.number_below(6) {
            // The square of a uniform number: a few files are read by many jobs.
            let skewed = rng.number_below(size.files.max(1)) * rng.number_below(size.files.max(1))
                / size.files.max(1);
            push(
                at,
                edge(job, 2, vertex("file", skewed).0, rng.number_below(1 << 20)),
            );
        }
        for _ in 0..=rng.number_below(2) {
            push(
                at,
                edge(
                    job,
                    3,
                    vertex("file", rng.number_below(size.files.max(1))).0,
                    rng.number_below(1 << 20),
                ),
            );
        }
    }
    out
}
