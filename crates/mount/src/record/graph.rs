//! What was seen, as vertices and edges (`GraphMeta`'s Table 1).
//!
//! ```text
//!  user:1000 ──run──► process:HOST/PID-BEGAN ──exe──► executable:/usr/bin/sort
//!       │                   │   │ └──read, write──► the file: start, end, opens
//!       │                   │ belongs
//!       │                   ▼
//!       └─────run──────► job:77 ──read, write──► the same
//! ```
//!
//! Edges lead to the file by what it is, not by its name: whatever it is called later, it has them.

use super::process::Process;
use esker_model::{
    Batch, EdgeTypeId, Op, Properties, Result, Schema, Value, Version, VertexId, VertexRef,
    VertexTypeId,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The schema's types that are needed, looked up once.
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

/// A file that a process had open, from then to then (nanoseconds since 1970).
#[derive(Debug, Clone)]
pub(super) struct Access {
    pub(super) process: Arc<Process>,
    pub(super) file: VertexId,
    /// Where it was when it was opened; what is no UTF-8 names no vertex.
    pub(super) path: Option<String>,
    pub(super) read: bool,
    pub(super) write: bool,
    pub(super) start: i64,
    pub(super) end: i64,
}

/// What is sent of one file and process: all that they had with each other meanwhile.
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

/// Turns accesses into batches. What was said of a process is not said again.
#[derive(Debug)]
pub(super) struct Writer {
    types: Types,
    host: String,
    said: HashMap<VertexId, Arc<Process>>,
}

/// Processes of which is remembered what was said.
const SAID_MAX: usize = 4_096;

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
    // The first moment of a millisecond is before what a database did in it.
    Version::new(u64::try_from(nanos / 1_000_000).unwrap_or(0), 0)
}

impl Writer {
    pub(super) fn new(types: Types, host: String) -> Self {
        Self {
            types,
            host,
            said: HashMap::new(),
        }
    }

    /// One batch of all of them.
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
                // A file is a vertex once something is said of it; the database takes the path for the file that is there.
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

    /// A process, with who ran what in which job; once for each program that it becomes.
    fn process(&mut self, process: &Arc<Process>, batch: &mut Batch) -> VertexRef {
        let types = self.types;
        let key = format!("{}/{}-{}", self.host, process.pid, process.began);
        let me = named(types.process, "Process", key);
        if self
            .said
            .get(&me.vertex.id)
            .is_some_and(|said| **said == **process)
        {
            return me.vertex;
        }
        let began = i64::try_from(process.began).unwrap_or(0) * 1_000_000;
        // What it became later is a later version of it.
        let again = self.said.contains_key(&me.vertex.id);
        if self.said.len() >= SAID_MAX {
            self.said.clear();
        }
        self.said.insert(me.vertex.id, Arc::clone(process));
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

    /// What was said was not taken: it is to be said again.
    pub(super) fn forget(&mut self) {
        self.said.clear();
    }
}
