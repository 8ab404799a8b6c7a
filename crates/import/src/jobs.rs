//! Links from what ran in a scheduler's job (Darshan logs, recorded runs, runs of `OpenLineage`) to the vertex of the job.
//!
//! ```text
//!  job:71326-1596152058-f8278c26 ─┐
//!  execution:01k3…                ├─belongs──► job:71326      state, account and script, from Slurm
//!  execution:5f6b0c1e-…          ─┘
//! ```
//!
//! All of them know the job's number and nothing else of it, so each importer writes the edge, and the vertex if it is not there yet. The
//! record of the job fills the vertex, before or after.
//!
//! **Numbers are used again.** If the job that a vertex describes did not run at the time of a link, the link is about an earlier or later
//! job of that number, and it is deleted at its own version. Importers of parts do this while they write links ([`delete_foreign`]), importers
//! of records after they wrote the record ([`settle`]), which also restores links that an earlier record had excluded. So the edges that
//! exist do not depend on the order of the imports.

use crate::openlineage;
use esker_model::limits::VERTEX_KEY_BYTES_MAX;
use esker_model::{
    Batch, EdgeKey, EdgeSelect, EdgeTypeId, Flow, GraphRead, Mutation, Op, Properties, Result,
    Schema, SchemaError, Value, Version, VersionRange, Versions, Vertex, VertexId, VertexRef,
    VertexTypeId,
};
use std::collections::{BTreeMap, HashMap};

/// Difference between the clocks of a scheduler and a node at which a job still includes a time, in milliseconds.
pub const CLOCK_DIFFERENCE_MS: i64 = 5 * 60 * 1_000;

/// Schema types required for links, looked up once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkTypes {
    /// Type of jobs, and of Darshan logs.
    pub job: VertexTypeId,
    /// Type of recorded runs and of runs of `OpenLineage`.
    pub execution: VertexTypeId,
    /// Type of the edge from a part to its job.
    pub belongs: EdgeTypeId,
}

impl LinkTypes {
    /// Looks up the types in a schema.
    ///
    /// # Errors
    /// Fails if the schema lacks one of them; the default schema has them all.
    pub fn resolve(schema: &Schema) -> std::result::Result<Self, SchemaError> {
        Ok(Self {
            job: schema.vertex_type_id("Job")?,
            execution: schema.vertex_type_id("Execution")?,
            belongs: schema.edge_type_id("belongs")?,
        })
    }
}

/// Returns the key of the job with this number, after the cluster's name if given.
pub fn job_key(cluster: Option<&str>, number: &str) -> String {
    let key = cluster.map_or_else(
        || number.to_owned(),
        |cluster| format!("{cluster}/{number}"),
    );
    key.chars().take(VERTEX_KEY_BYTES_MAX / 4).collect()
}

/// Returns a job number: digits only, so that it cannot be mistaken for another vertex.
pub fn job_number(text: &str) -> Option<&str> {
    let text = text.trim();
    (!text.is_empty() && text.len() <= 20 && text.bytes().all(|b| b.is_ascii_digit()))
        .then_some(text)
}

/// Whether the job that a vertex describes may have run at this time: from its submission (a requeued job has several starts) to its end. A
/// vertex without a record includes all times.
fn includes(job: &Vertex, at: Version) -> bool {
    let time = |name| match job.attribute(name) {
        Some(Value::Timestamp(nanos)) => Some(nanos.div_euclid(1_000_000)),
        _ => None,
    };
    let (submit, start) = (time("submit"), time("start"));
    let Some(begin) = submit.into_iter().chain(start).min() else {
        return true;
    };
    // An end before the start is that of an earlier job of this number.
    let end = time("end").filter(|end| *end >= start.unwrap_or(begin));
    let at = i64::try_from(at.millis()).unwrap_or(i64::MAX);
    at >= begin.saturating_sub(CLOCK_DIFFERENCE_MS)
        && end.is_none_or(|end| at <= end.saturating_add(CLOCK_DIFFERENCE_MS))
}

/// Adds a deletion behind each new link of a part of this type whose job, as `graph` describes it, did not run at the version of the link.
///
/// # Errors
/// Fails if the graph cannot be read.
pub fn delete_foreign(
    graph: &(impl GraphRead + ?Sized),
    types: &LinkTypes,
    part: VertexTypeId,
    mutations: &mut Vec<Mutation>,
) -> Result<()> {
    let link = |mutation: &Mutation| match &mutation.op {
        Op::PutEdge {
            source,
            edge_type,
            destination,
            ..
        } if *edge_type == types.belongs
            && source.type_id == part
            && destination.type_id == types.job =>
        {
            Some((*source, *destination, mutation.version?))
        }
        _ => None,
    };
    let mut ids: Vec<VertexId> = mutations.iter().filter_map(link).map(|l| l.1.id).collect();
    if ids.is_empty() {
        return Ok(());
    }
    ids.sort_unstable();
    ids.dedup();
    let read = graph.read_vertices(&ids, Version::MAX)?;
    let jobs: HashMap<VertexId, Vertex> = read.into_iter().flatten().map(|v| (v.id, v)).collect();
    let mut checked = Vec::with_capacity(mutations.len());
    for mutation in std::mem::take(mutations) {
        let foreign = link(&mutation)
            .filter(|(_, job, at)| jobs.get(&job.id).is_some_and(|job| !includes(job, *at)));
        checked.push(mutation);
        if let Some((source, destination, at)) = foreign {
            checked.push(deletion(*types, source, destination, at));
        }
    }
    *mutations = checked;
    Ok(())
}

fn deletion(types: LinkTypes, source: VertexRef, destination: VertexRef, at: Version) -> Mutation {
    Mutation {
        version: Some(at),
        op: Op::DeleteEdge {
            source,
            edge_type: types.belongs,
            destination,
        },
    }
}

/// Returns the evidence of the link of a part.
fn evidence(part: &Vertex) -> &'static str {
    if part.attribute(openlineage::ENVIRONMENT).is_some() {
        "declared"
    } else {
        "observed"
    }
}

/// One version of a link.
struct LinkVersion {
    version: Version,
    deleted: bool,
    evidence: Option<String>,
}

/// Returns the changes that make the links to these jobs those of the jobs that the vertices describe now: links of other times are deleted,
/// links that were deleted for an earlier record are restored. Edges that were made in other ways stay.
///
/// # Errors
/// Fails if the graph cannot be read.
pub fn settle(
    graph: &(impl GraphRead + ?Sized),
    types: &LinkTypes,
    jobs: &[VertexId],
) -> Result<Batch> {
    let mut batch = Batch::new();
    let contains = graph.schema()?.inverse(types.belongs);
    let select = EdgeSelect {
        types: vec![contains],
        versions: Versions::Range(VersionRange {
            from: Version::ZERO,
            until: Version::MAX,
        }),
        properties: true,
        after: None,
    };
    let mut links: BTreeMap<EdgeKey, Vec<LinkVersion>> = BTreeMap::new();
    graph.scan_edges(jobs, &select, &mut |_, edge| {
        let evidence = match edge.properties.get("evidence") {
            Some(Value::String(text)) => Some(text.clone()),
            _ => None,
        };
        links.entry(edge.key).or_default().push(LinkVersion {
            version: edge.version,
            deleted: edge.deleted,
            evidence,
        });
        Flow::Continue(())
    })?;
    if links.is_empty() {
        return Ok(batch);
    }
    let mut ids: Vec<VertexId> = links.keys().map(|key| key.destination).collect();
    ids.extend(jobs);
    ids.sort_unstable();
    ids.dedup();
    let read = graph.read_vertices(&ids, Version::MAX)?;
    let vertices: HashMap<VertexId, Vertex> =
        read.into_iter().flatten().map(|v| (v.id, v)).collect();
    for (key, versions) in links {
        let (Some(job), Some(part)) = (vertices.get(&key.source), vertices.get(&key.destination))
        else {
            continue;
        };
        // Tasks of an array have numbers of their own; steps come with the record.
        let is_part = part.type_id == types.execution
            || part.type_id == types.job
                && part.attribute("jobid").is_some()
                && part.attribute("jobid") == job.attribute("jobid");
        if !is_part {
            continue;
        }
        let reference = |vertex: &Vertex| VertexRef {
            id: vertex.id,
            type_id: vertex.type_id,
        };
        let evidence = evidence(part);
        let gone = versions.iter().all(|link| link.deleted);
        for link in versions {
            let own = link.evidence.as_deref() == Some(evidence);
            match includes(job, link.version) {
                true if link.deleted && gone => batch.push_at(
                    link.version,
                    Op::PutEdge {
                        source: reference(part),
                        edge_type: types.belongs,
                        destination: reference(job),
                        properties: Properties::new().with("evidence", evidence),
                    },
                ),
                false if !link.deleted && own => batch.mutations.push(deletion(
                    *types,
                    reference(part),
                    reference(job),
                    link.version,
                )),
                _ => {}
            }
        }
    }
    Ok(batch)
}
