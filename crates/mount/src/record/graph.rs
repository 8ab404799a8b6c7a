//! Recorded accesses as vertices and edges (`GraphMeta`'s Table 1).
//!
//! ```text
//!   user:1000 ──run──► process:HOST/PID-BEGAN ──exe──► executable:/usr/bin/sort
//!        │                   │   │ └──read, write──► the file: start, end, opens
//!        │                   │ belongs
//!        │                   ▼
//!        └─run──────► job:77 ──read, write──► the same
//! ```
//!
//! Edges refer to the file by its id, not by its name, so that they stay with it when it is renamed.

use super::process::Process;
use esker_model::{
    Batch, EdgeTypeId, Op, Properties, Result, Schema, Value, Version, VertexId, VertexRef,
    VertexTypeId,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Types of the schema that are needed, looked up once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Types {
    user: VertexTypeId,
    job: VertexTypeId,
    process: VertexTypeId,
    executable: VertexTypeId,
    file: VertexTypeId,
    run: EdgeTypeId,
    exe: EdgeTypeId,
    read: EdgeTypeId,
    write: EdgeTypeId,
    belongs: EdgeTypeId,
}

impl Types {
    pub(super) fn resolve(schema: &Schema) -> Result<Self> {
        Ok(Self {
            user: schema.vertex_type_id("User")?,
            job: schema.vertex_type_id("Job")?,
            process: schema.vertex_type_id("Process")?,
            executable: schema.vertex_type_id("Executable")?,
            file: schema.vertex_type_id("File")?,
            run: schema.edge_type_id("run")?,
            exe: schema.edge_type_id("exe")?,
            read: schema.edge_type_id("read")?,
            write: schema.edge_type_id("write")?,
            belongs: schema.edge_type_id("belongs")?,
        })
    }
}

/// A period in which a process had a file open, in nanoseconds since 1970.
#[derive(Debug, Clone)]
pub(super) struct Access {
    pub(super) process: Arc<Process>,
    pub(super) file: VertexId,
    /// Path of the file when it was opened; `None` if it is not UTF-8, which no vertex name can be.
    pub(super) path: Option<String>,
    pub(super) read: bool,
    pub(super) write: bool,
    pub(super) start: i64,
    pub(super) end: i64,
}

/// Sum of the accesses of one process to one file in a batch.
#[derive(Debug, Clone)]
struct Sum {
    start: i64,
    end: i64,
    opens: i64,
}

impl Sum {
    fn add(&mut self, start: i64, end: i64) {
        self.start = self.start.min(start);
        self.end = self.end.max(end);
        self.opens += 1;
    }

    fn properties(&self) -> Properties {
        Properties::new()
            .with("start", Value::Timestamp(self.start))
            .with("end", Value::Timestamp(self.end))
            .with("opens", self.opens)
    }
}

/// Converter of accesses to batches. It writes the vertices of a process only once.
#[derive(Debug)]
pub(super) struct Writer {
    types: Types,
    host: String,
    written: HashMap<VertexId, Arc<Process>>,
}

/// Largest number of processes remembered as written.
const WRITTEN_PROCESSES_MAX: usize = 4_096;

struct Named {
    vertex: VertexRef,
    key: String,
}

fn named(type_id: VertexTypeId, type_name: &str, key: String) -> Named {
    let id = VertexId::of(type_name, &key);
    Named {
        vertex: VertexRef { id, type_id },
        key,
    }
}

fn at(nanos: i64) -> Version {
    // The first instant of a millisecond precedes the changes that a database made in it.
    Version::new(u64::try_from(nanos / 1_000_000).unwrap_or(0), 0)
}

impl Writer {
    pub(super) fn new(types: Types, host: String) -> Self {
        Self {
            types,
            host,
            written: HashMap::new(),
        }
    }

    /// Builds one batch of all accesses.
    pub(super) fn batch(&mut self, accesses: &[Access]) -> Batch {
        let mut batch = Batch::new();
        let mut files = HashSet::new();
        let mut sums: HashMap<(VertexId, EdgeTypeId, VertexId), (VertexRef, Sum)> = HashMap::new();
        for access in accesses {
            let types = self.types;
            let process = self.process(&access.process, &mut batch);
            if let Some(path) = &access.path
                && files.insert(access.file)
            {
                // A file becomes a vertex with its first edge; the database resolves the path to the file that is
                // there.
                let file = named(types.file, "File", path.clone());
                batch.push_at(
                    at(access.start),
                    Op::EnsureVertex {
                        vertex: file.vertex,
                        key: file.key,
                    },
                );
            }
            let job = access.process.job.as_ref();
            let job = job.map(|job| named(types.job, "Job", job.clone()).vertex);
            let kinds = [(access.read, types.read), (access.write, types.write)];
            for kind in kinds
                .into_iter()
                .filter(|(is, _)| *is)
                .map(|(_, kind)| kind)
            {
                for source in [Some(process), job].into_iter().flatten() {
                    let new = Sum {
                        start: access.start,
                        end: access.end,
                        opens: 0,
                    };
                    let key = (source.id, kind, access.file);
                    let sum = &mut sums.entry(key).or_insert((source, new)).1;
                    sum.add(access.start, access.end);
                }
            }
        }
        for ((_, edge_type, file), (source, sum)) in sums {
            let destination = VertexRef {
                id: file,
                type_id: self.types.file,
            };
            batch.push_at(
                at(sum.end),
                Op::PutEdge {
                    source,
                    edge_type,
                    destination,
                    properties: sum.properties().with("evidence", "observed"),
                },
            );
        }
        batch
    }

    /// Adds a process with its user, job and program; again for each program that it executes.
    fn process(&mut self, process: &Arc<Process>, batch: &mut Batch) -> VertexRef {
        let types = self.types;
        let key = format!("{}/{}-{}", self.host, process.pid, process.began);
        let me = named(types.process, "Process", key);
        if self
            .written
            .get(&me.vertex.id)
            .is_some_and(|written| **written == **process)
        {
            return me.vertex;
        }
        let began = i64::try_from(process.began).unwrap_or(0) * 1_000_000;
        // A later program of the process is a later version of its vertex.
        let again = self.written.contains_key(&me.vertex.id);
        if self.written.len() >= WRITTEN_PROCESSES_MAX {
            self.written.clear();
        }
        self.written.insert(me.vertex.id, Arc::clone(process));
        let mut push = |op| {
            if again {
                batch.push(op);
            } else {
                batch.push_at(at(began), op);
            }
        };
        let edge = |source: VertexRef, edge_type, destination: VertexRef| Op::PutEdge {
            source,
            edge_type,
            destination,
            properties: Properties::new().with("evidence", "observed"),
        };
        let ensure = |of: &Named| Op::EnsureVertex {
            vertex: of.vertex,
            key: of.key.clone(),
        };
        let user = named(types.user, "User", process.uid.to_string());
        push(ensure(&user));
        let name = process.command.split(' ').next().unwrap_or_default();
        let mut attributes = Properties::new()
            .with("name", name.rsplit('/').next().unwrap_or(name))
            .with("command", process.command.as_str())
            .with("start", Value::Timestamp(began))
            .with("host", self.host.as_str())
            .with("pid", i64::from(process.pid));
        if let Some(rank) = process.rank {
            attributes.set("rank", rank);
        }
        push(Op::PutVertex {
            vertex: me.vertex,
            key: me.key.clone(),
            attributes,
        });
        push(edge(user.vertex, types.run, me.vertex));
        if let Some(path) = process.executable.as_ref().and_then(|p| p.to_str()) {
            let executable = named(types.executable, "Executable", path.to_owned());
            push(ensure(&executable));
            push(edge(me.vertex, types.exe, executable.vertex));
        }
        if let Some(job) = &process.job {
            let job = named(types.job, "Job", job.clone());
            push(ensure(&job));
            push(edge(user.vertex, types.run, job.vertex));
            push(edge(me.vertex, types.belongs, job.vertex));
        }
        me.vertex
    }

    /// Forgets which processes were written, after a batch was refused.
    pub(super) fn forget(&mut self) {
        self.written.clear();
    }
}
