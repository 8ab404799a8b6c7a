//! Conversion of a job to a batch of mutations.

use super::job::{SlurmJob, Step};
use crate::jobs::job_key;
use esker_model::{
    Batch, EdgeTypeId, Op, Properties, Schema, SchemaError, Value, Version, VertexId, VertexRef,
    VertexTypeId,
};

/// Schema types required for jobs, looked up once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobTypes {
    user: VertexTypeId,
    job: VertexTypeId,
    process: VertexTypeId,
    run: EdgeTypeId,
    belongs: EdgeTypeId,
}

impl JobTypes {
    /// Looks up the types in a schema.
    ///
    /// # Errors
    /// Fails if the schema lacks one of them; the default schema has them all.
    pub fn resolve(schema: &Schema) -> Result<Self, SchemaError> {
        Ok(Self {
            user: schema.vertex_type_id("User")?,
            job: schema.vertex_type_id("Job")?,
            process: schema.vertex_type_id("Process")?,
            run: schema.edge_type_id("run")?,
            belongs: schema.edge_type_id("belongs")?,
        })
    }
}

struct SlurmWriter {
    batch: Batch,
    /// Low bits of this job's versions, so that two jobs in one millisecond have two versions.
    logical: u16,
}

impl SlurmWriter {
    fn at(&self, nanos: i64) -> Version {
        Version::new(u64::try_from(nanos / 1_000_000).unwrap_or(0), self.logical)
    }

    fn vertex(
        &mut self,
        at: Version,
        (type_id, type_name): (VertexTypeId, &str),
        key: String,
    ) -> VertexRef {
        let vertex = VertexRef {
            id: VertexId::of(type_name, &key),
            type_id,
        };
        self.batch.push_at(at, Op::EnsureVertex { vertex, key });
        vertex
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

    fn edge(
        &mut self,
        at: Version,
        source: VertexRef,
        edge_type: EdgeTypeId,
        destination: VertexRef,
    ) {
        let properties = Properties::new().with("evidence", "declared");
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

/// Returns the vertex of a job.
pub fn vertex(job: &SlurmJob, cluster: Option<&str>) -> VertexId {
    VertexId::of("Job", &job_key(cluster, &job.id))
}

/// Makes the batch of a job; applying it again changes nothing.
pub fn batch(job: &SlurmJob, types: &JobTypes, cluster: Option<&str>) -> Batch {
    let key = job_key(cluster, &job.id);
    let hash = blake3::hash(key.as_bytes());
    let [high, low, ..] = *hash.as_bytes();
    let mut writer = SlurmWriter {
        batch: Batch::new(),
        logical: u16::from_be_bytes([high, low]),
    };
    // A job that never began is recorded from its submission.
    let began = job
        .start
        .filter(|start| job.end.is_none_or(|end| *start <= end));
    let known = began.or(job.submit).or(job.end).unwrap_or(0);
    let at = writer.at(known);
    let over = writer.at(job.end.unwrap_or(known).max(known));

    let job_type = (types.job, "Job");
    let vertex = writer.vertex(at, job_type, key);
    let mut first = Properties::new().with("jobid", job.id.as_str());
    let texts = [
        ("name", &job.name),
        ("host", &job.nodes),
        ("command", &job.command),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            first.set(name, text.as_str());
        }
    }
    if let Some(start) = began {
        first.set("start", Value::Timestamp(start));
    }
    if let Some(tasks) = job.tasks.filter(|tasks| *tasks > 0) {
        first.set("nprocs", tasks);
    }
    writer.change(at, vertex, first);
    if let Some(end) = job.end {
        writer.change(
            over,
            vertex,
            Properties::new().with("end", Value::Timestamp(end)),
        );
    }
    writer.set(over, vertex, job.fields.clone());

    let user = job
        .uid
        .map(|uid| uid.to_string())
        .or_else(|| job.user.clone());
    if let Some(key) = user {
        let user = writer.vertex(at, (types.user, "User"), key);
        if let Some(name) = job.user.as_ref().filter(|_| job.uid.is_some()) {
            writer.change(at, user, Properties::new().with("name", name.as_str()));
        }
        writer.edge(at, user, types.run, vertex);
    }
    if let Some(whole) = &job.part_of {
        let whole = writer.vertex(at, job_type, job_key(cluster, whole));
        writer.edge(at, vertex, types.belongs, whole);
    }
    for step in &job.steps {
        add_step(&mut writer, types, (vertex, known), step, cluster);
    }
    writer.batch
}

fn add_step(
    writer: &mut SlurmWriter,
    types: &JobTypes,
    (job, known): (VertexRef, i64),
    step: &Step,
    cluster: Option<&str>,
) {
    let began = step.start.unwrap_or(known);
    let at = writer.at(began);
    let over = writer.at(step.end.unwrap_or(began).max(began));
    let key = format!("slurm/{}", job_key(cluster, &step.id));
    let vertex = writer.vertex(at, (types.process, "Process"), key);
    let mut first = Properties::new();
    if let Some(name) = &step.name {
        first.set("name", name.as_str());
    }
    if let Some(start) = step.start {
        first.set("start", Value::Timestamp(start));
    }
    writer.change(at, vertex, first);
    if let Some(end) = step.end {
        writer.change(
            over,
            vertex,
            Properties::new().with("end", Value::Timestamp(end)),
        );
    }
    writer.set(over, vertex, step.fields.clone());
    writer.edge(at, vertex, types.belongs, job);
}
