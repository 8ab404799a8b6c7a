//! Conversion of a run to a batch of mutations (`GraphMeta`'s Table 1).
//!
//! ```text
//!  user:1000 ──run──► execution:ID ──exe──► executable:/home/ada/wrf.exe
//!                        │    │ └──read, write──► file:/scratch/in.nc, file:/scratch/out.nc
//!                     belongs
//!                        ▼
//!                      job:77 ──belongs──► job:70
//! ```
//!
//! The start of a run has its start time as version; its end and its outputs have the end time: a query as of a time between shows it
//! as running.

use crate::run::{Run, Use};
use esker_model::namespace::check_path_key;
use esker_model::{
    Batch, EdgeTypeId, Error, Op, Properties, Result, Schema, SchemaError, Value, Version,
    VertexId, VertexRef, VertexTypeId,
};
use std::collections::BTreeMap;

/// Schema types of runs, looked up once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Types {
    user: VertexTypeId,
    execution: VertexTypeId,
    job: VertexTypeId,
    executable: VertexTypeId,
    file: VertexTypeId,
    run: EdgeTypeId,
    exe: EdgeTypeId,
    read: EdgeTypeId,
    write: EdgeTypeId,
    belongs: EdgeTypeId,
}

impl Types {
    /// Looks up the types.
    ///
    /// # Errors
    /// Fails if the schema lacks one of them; the default schema has them all.
    pub fn resolve(schema: &Schema) -> std::result::Result<Self, SchemaError> {
        Ok(Self {
            user: schema.vertex_type_id("User")?,
            execution: schema.vertex_type_id("Execution")?,
            job: schema.vertex_type_id("Job")?,
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

struct Writer {
    batch: Batch,
    /// Low bits of this run's versions: two runs of one millisecond have different versions.
    logical: u16,
}

impl Writer {
    fn at(&self, nanos: i64) -> Version {
        Version::new(u64::try_from(nanos / 1_000_000).unwrap_or(0), self.logical)
    }

    fn ensure(
        &mut self,
        at: Version,
        (type_id, name): (VertexTypeId, &str),
        key: &str,
    ) -> VertexRef {
        let vertex = VertexRef {
            id: VertexId::of(name, key),
            type_id,
        };
        let key = key.to_owned();
        self.batch.push_at(at, Op::EnsureVertex { vertex, key });
        vertex
    }

    fn set(&mut self, at: Version, vertex: VertexRef, set: Properties) {
        if !set.is_empty() {
            let remove = Vec::new();
            self.batch.push_at(
                at,
                Op::SetAttributes {
                    vertex,
                    set,
                    remove,
                },
            );
        }
    }

    fn change(&mut self, at: Version, vertex: VertexRef, set: Properties) {
        if !set.is_empty() {
            let remove = Vec::new();
            self.batch.push_at(
                at,
                Op::ChangeVertex {
                    vertex,
                    set,
                    remove,
                },
            );
        }
    }

    fn edge(
        &mut self,
        at: Version,
        (source, edge_type, destination): (VertexRef, EdgeTypeId, VertexRef),
        properties: Properties,
    ) {
        self.batch.push_at(
            at,
            Op::PutEdge {
                source,
                edge_type,
                destination,
                properties,
            },
        );
    }
}

fn list(words: impl Iterator<Item = String>) -> Value {
    Value::List(words.map(Value::String).collect())
}

fn pairs(map: &BTreeMap<String, String>) -> Value {
    list(map.iter().map(|(name, value)| format!("{name}={value}")))
}

/// Converts numbers to numeric values, so that filters can compare them.
fn typed(text: &str) -> Value {
    if let Ok(number) = text.parse::<i64>() {
        return Value::I64(number);
    }
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Value::F64(number),
        _ => match text {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            text => Value::String(text.to_owned()),
        },
    }
}

fn tags(map: &BTreeMap<String, String>) -> Properties {
    let mut out = Properties::new();
    for (name, value) in map {
        out.set(name.as_str(), typed(value));
    }
    out
}

/// Makes the batch of a run; applying it again changes nothing. A run that has not ended may be applied again with its end.
///
/// # Errors
/// Returns `Invalid` if the path of a file or a program is not in normal form.
pub fn batch(run: &Run, types: &Types) -> Result<Batch> {
    let programs = run.programs.iter().map(|used| &used.path);
    let used = run.inputs.iter().chain(&run.outputs);
    let paths = used.map(|used| &used.path).chain(programs);
    for path in paths.chain(&run.program) {
        check_path_key(path).map_err(Error::Invalid)?;
    }
    let hash = blake3::hash(run.id.as_bytes());
    let [high, low, ..] = *hash.as_bytes();
    let mut w = Writer {
        batch: Batch::new(),
        logical: u16::from_be_bytes([high, low]),
    };
    let at = w.at(run.start);
    let vertex = w.ensure(at, (types.execution, "Execution"), &run.id);
    let mut first = Properties::new()
        .with("name", run.name.as_str())
        .with("command", run.command.join(" "))
        .with("start", Value::Timestamp(run.start))
        .with("host", run.host.as_str());
    if !run.environment.is_empty() {
        first.set("environment", pairs(&run.environment));
    }
    if !run.params.is_empty() {
        first.set("settings", pairs(&run.params));
    }
    w.change(at, vertex, first);
    w.set(at, vertex, further_attributes(run));

    let user = w.ensure(at, (types.user, "User"), &run.uid.to_string());
    if let Some(name) = &run.user {
        w.change(at, user, Properties::new().with("name", name.as_str()));
    }
    // `esker run` observed the user, the program and the job.
    let seen = || Properties::new().with("evidence", "observed");
    w.edge(at, (user, types.run, vertex), seen());
    if let Some(path) = &run.program {
        let program = w.ensure(at, (types.executable, "Executable"), path);
        let known = run.programs.iter().find(|p| p.path == *path);
        let mut properties = known.map(state).unwrap_or_default();
        properties.set("evidence", "observed");
        if run.command.len() > 1 {
            let arguments = run.command.iter().skip(1).cloned().collect::<Vec<_>>();
            properties.set("arguments", arguments.join(" "));
        }
        w.edge(at, (vertex, types.exe, program), properties);
    }
    if let Some(parent) = run.parent.as_ref().filter(|parent| **parent != run.id) {
        let parent = w.ensure(at, (types.execution, "Execution"), parent);
        w.edge(at, (vertex, types.belongs, parent), seen());
    }
    if let Some(slurm) = &run.slurm {
        let job = w.ensure(at, (types.job, "Job"), &slurm.job);
        w.edge(at, (vertex, types.belongs, job), seen());
        if let Some(array) = slurm.array.as_ref().filter(|array| **array != slurm.job) {
            let array = w.ensure(at, (types.job, "Job"), array);
            w.edge(at, (job, types.belongs, array), seen());
        }
    }
    for input in &run.inputs {
        file(&mut w, types, (vertex, types.read), at, input);
    }
    let Some(ended) = &run.ended else {
        return Ok(w.batch);
    };
    let over = w.at(ended.at.max(run.start));
    w.change(
        over,
        vertex,
        Properties::new().with("end", Value::Timestamp(ended.at)),
    );
    let mut last = Properties::new();
    if let Some(exit) = ended.exit {
        last.set("exit", i64::from(exit));
    }
    if let Some(signal) = ended.signal {
        last.set("signal", i64::from(signal));
    }
    if let Some(why) = &ended.why {
        last.set("ended", why.as_str());
    }
    w.set(over, vertex, last);
    // Programs that it started are known only at the end.
    for other in &run.programs {
        if run.program.as_ref() != Some(&other.path) {
            let program = w.ensure(over, (types.executable, "Executable"), &other.path);
            w.edge(over, (vertex, types.exe, program), state(other));
        }
    }
    for output in &run.outputs {
        file(&mut w, types, (vertex, types.write), over, output);
    }
    Ok(w.batch)
}

/// Returns the attributes that are not in the schema.
fn further_attributes(run: &Run) -> Properties {
    let mut out = Properties::new().with("cwd", run.cwd.as_str());
    if !run.modules.is_empty() {
        out.set("modules", list(run.modules.iter().cloned()));
    }
    if let Some(git) = &run.git {
        out.set("git_commit", git.commit.as_str());
        if let Some(branch) = &git.branch {
            out.set("git_branch", branch.as_str());
        }
        if let Some(dirty) = git.dirty {
            out.set("git_dirty", dirty);
        }
        if let Some(remote) = &git.remote {
            out.set("git_remote", remote.as_str());
        }
    }
    if let Some(slurm) = &run.slurm {
        let parts = [
            ("slurm_step", &slurm.step),
            ("slurm_array_task", &slurm.task),
            ("slurm_rank", &slurm.rank),
            ("slurm_cluster", &slurm.cluster),
        ];
        for (name, value) in parts {
            if let Some(value) = value {
                out.set(name, value.as_str());
            }
        }
    }
    for (name, value) in tags(&run.tags).iter() {
        out.set(name, value.clone());
    }
    out
}

fn file(
    w: &mut Writer,
    types: &Types,
    (run, how): (VertexRef, EdgeTypeId),
    at: Version,
    used: &Use,
) {
    let file = w.ensure(at, (types.file, "File"), &used.path);
    w.set(at, file, tags(&used.tags));
    w.edge(at, (run, how, file), state(used));
}

/// Returns the state of a file as edge properties.
fn state(used: &Use) -> Properties {
    let evidence = if used.observed {
        "observed"
    } else {
        "declared"
    };
    let mut properties = Properties::new().with("evidence", evidence);
    if let Some(size) = used.size.and_then(|size| i64::try_from(size).ok()) {
        properties.set("size", size);
    }
    if let Some(mtime) = used.mtime {
        properties.set("mtime", Value::Timestamp(mtime));
    }
    properties
}
