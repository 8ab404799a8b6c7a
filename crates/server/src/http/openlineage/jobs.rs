//! Jobs and their runs.

use super::super::Refused;
use super::super::api::{Answer, Asked};
use super::data::in_namespace;
use super::known::{Known, Page, Thing, absent, facets_of};
use esker_console::{label, value};
use esker_import::openlineage::{job_name, joined, run_name};
use esker_model::{EdgeSelect, Version, Versions, Vertex, VertexId, VertexSelect};
use serde_json::{Map, Value as Json, json};
use std::cmp::Reverse;
use std::ops::ControlFlow;

/// Runs that a job shows with itself.
const LATEST: usize = 10;

/// The state of a run, as Marquez calls it.
fn state(run: &Vertex) -> &str {
    match label::text(run, "state") {
        Some(word) => word,
        None if run.attribute("end").is_some() => "COMPLETED",
        None if run.attribute("start").is_some() => "RUNNING",
        None => "NEW",
    }
}

/// Inputs or outputs of a run, with their facets.
fn uses(known: &Known<'_>, run: VertexId, edge: &str, facets_key: &str) -> Result<Json, Refused> {
    let edge_type = known.schema.edge_type_id(edge)?;
    let select = EdgeSelect {
        types: vec![edge_type],
        versions: Versions::NOW,
        properties: true,
    };
    let mut edges = Vec::new();
    known.graph.scan_edges(&[run], &select, &mut |_, edge| {
        edges.push(edge);
        ControlFlow::Continue(())
    })?;
    let ids: Vec<VertexId> = edges.iter().map(|e| e.key.destination).collect();
    let read = known.graph.read_vertices(&ids, Version::MAX)?;
    let mut out = Vec::new();
    for (edge, vertex) in edges.iter().zip(read) {
        let Some(thing) = vertex.and_then(Thing::of) else {
            continue;
        };
        let mut id = thing.id();
        id["version"] = edge.version.to_string().into();
        out.push(json!({"datasetVersionId": id, facets_key: joined(edge.properties.iter())}));
    }
    Ok(out.into())
}

/// A run, as Marquez tells of it.
fn run_out(known: &Known<'_>, run: &Vertex) -> Result<Json, Refused> {
    let facets = facets_of(run);
    let (created, updated) = known.times(run.id)?;
    let (start, end) = (label::time(run, "start"), label::time(run, "end"));
    let nominal = |key: &str| facets.get("nominalTime").and_then(|f| f.get(key)).cloned();
    let (from, until) = (nominal("nominalStartTime"), nominal("nominalEndTime"));
    let millis = start.zip(end).map(|(start, end)| (end - start) / 1_000_000);
    let mut job = Json::Null;
    if let Some(types) = known.types {
        let exe = known.schema.edge_type_id("exe")?;
        let plans: Vec<VertexId> = known.ends(run.id, exe)?.into_iter().map(|e| e.0).collect();
        let mut plans = known.things(&plans)?;
        plans.retain(|plan| plan.vertex.type_id == types.plan);
        if let Some(plan) = plans.first() {
            job = plan.id();
        }
    }
    Ok(json!({
        "id": run.key,
        "createdAt": created,
        "updatedAt": updated,
        "nominalStartTime": from,
        "nominalEndTime": until,
        "state": state(run),
        "startedAt": start.map(value::time),
        "endedAt": end.map(value::time),
        "durationMs": millis,
        "args": {},
        "jobVersion": job,
        "inputDatasetVersions": uses(known, run.id, "read", "inputFacets")?,
        "outputDatasetVersions": uses(known, run.id, "write", "outputFacets")?,
        "facets": facets,
    }))
}

/// The runs of a job, the latest first, and how many there are.
fn latest(known: &Known<'_>, job: VertexId, page: Page) -> Result<(Vec<Vertex>, usize), Refused> {
    let exed = known.schema.edge_type_id("exedBy")?;
    let mut ends = known.ends(job, exed)?;
    ends.sort_unstable_by_key(|(id, version)| (Reverse(*version), *id));
    let total = ends.len();
    let ids: Vec<VertexId> = page.cut(ends).map(|(id, _)| id).collect();
    let read = known.graph.read_vertices(&ids, Version::MAX)?;
    Ok((read.into_iter().flatten().collect(), total))
}

/// Names of what edges lead to.
fn named(known: &Known<'_>, ids: &[VertexId]) -> Result<Json, Refused> {
    let mut things = known.things(ids)?;
    things.sort_unstable_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    Ok(things.iter().map(Thing::id).collect())
}

/// A job, as Marquez tells of it.
pub(super) fn job_out(known: &Known<'_>, job: &Thing) -> Result<Json, Refused> {
    let facets = job.facets();
    let (created, updated) = known.times(job.vertex.id)?;
    let few = Page {
        offset: 0,
        limit: LATEST,
    };
    let (runs, _) = latest(known, job.vertex.id, few)?;
    let runs: Vec<Json> = runs
        .iter()
        .map(|r| run_out(known, r))
        .collect::<Result<_, _>>()?;
    let ends = |edge_type| -> Result<Json, Refused> {
        let ends = known.ends(job.vertex.id, edge_type)?;
        let ids: Vec<VertexId> = ends.into_iter().map(|(id, _)| id).collect();
        named(known, &ids)
    };
    let (inputs, outputs) = match known.types {
        Some(types) => (ends(types.consumes)?, ends(types.produces)?),
        None => (json!([]), json!([])),
    };
    let text = |facet: &str, key: &str| facets.get(facet).and_then(|f| f.get(key)).cloned();
    let kind = text("jobType", "processingType").unwrap_or_else(|| "BATCH".into());
    let simple = job.name.rsplit('.').next().unwrap_or(&job.name);
    Ok(json!({
        "id": job.id(),
        "type": kind,
        "name": job.name,
        "simpleName": simple,
        "namespace": job.namespace,
        "createdAt": created,
        "updatedAt": updated,
        "inputs": inputs,
        "outputs": outputs,
        "location": text("sourceCodeLocation", "url"),
        "description": text("documentation", "description"),
        "latestRun": runs.first(),
        "latestRuns": runs,
        "facets": facets,
        "tags": [],
        "labels": [],
    }))
}

fn listed(known: &Known<'_>, jobs: Vec<Thing>, page: Page) -> Answer {
    let total = jobs.len();
    let out = page.cut(jobs).map(|job| job_out(known, &job));
    let out: Json = out.collect::<Result<_, _>>()?;
    Ok(json!({"jobs": out, "totalCount": total}).to_string())
}

/// `GET /api/v1/jobs`.
pub(super) fn all(asked: &Asked<'_>) -> Answer {
    let (known, page) = (Known::new(asked)?, Page::of(asked)?);
    let mut jobs = Vec::new();
    if let Some(types) = known.types {
        let select = VertexSelect::of(types.plan);
        known.graph.scan_vertices(&select, &mut |vertex| {
            jobs.extend(Thing::of(vertex));
            ControlFlow::Continue(())
        })?;
    }
    jobs.sort_unstable_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    listed(&known, jobs, page)
}

/// `GET /api/v1/namespaces/{namespace}/jobs`.
pub(super) fn list(asked: &Asked<'_>) -> Answer {
    let (known, page) = (Known::new(asked)?, Page::of(asked)?);
    let jobs = in_namespace(&known, asked, true)?;
    listed(&known, jobs, page)
}

fn the(known: &Known<'_>, asked: &Asked<'_>) -> Result<Thing, Refused> {
    let (space, name) = (
        asked.query.required("namespace")?,
        asked.query.required("job")?,
    );
    let found = known.thing(asked, &job_name(space, name))?;
    found.ok_or_else(|| absent("job", &format!("{name}` in `{space}")))
}

/// `GET /api/v1/namespaces/{namespace}/jobs/{job}`.
pub(super) fn one(asked: &Asked<'_>) -> Answer {
    let known = Known::new(asked)?;
    let job = the(&known, asked)?;
    Ok(job_out(&known, &job)?.to_string())
}

/// `GET /api/v1/namespaces/{namespace}/jobs/{job}/runs`.
pub(super) fn runs(asked: &Asked<'_>) -> Answer {
    let (known, page) = (Known::new(asked)?, Page::of(asked)?);
    let job = the(&known, asked)?;
    let (runs, total) = latest(&known, job.vertex.id, page)?;
    let out: Json = runs
        .iter()
        .map(|r| run_out(&known, r))
        .collect::<Result<_, _>>()?;
    Ok(json!({"runs": out, "totalCount": total}).to_string())
}

fn the_run(known: &Known<'_>, asked: &Asked<'_>) -> Result<Vertex, Refused> {
    let id = asked.query.required("id")?;
    let Some(name) = run_name(id) else {
        return Err(Refused::bad(format!(
            "`{id}` is no run: expected a UUID, as 01912a4b-97a1-7000-8000-0123456789ab"
        )));
    };
    let found = known.vertex(asked, &name)?;
    found.ok_or_else(|| absent("run", id))
}

/// `GET /api/v1/jobs/runs/{id}`.
pub(super) fn run(asked: &Asked<'_>) -> Answer {
    let known = Known::new(asked)?;
    let run = the_run(&known, asked)?;
    Ok(run_out(&known, &run)?.to_string())
}

/// `GET /api/v1/jobs/runs/{id}/facets`.
pub(super) fn facets(asked: &Asked<'_>) -> Answer {
    let known = Known::new(asked)?;
    let run = the_run(&known, asked)?;
    let facets: Map<String, Json> = match asked.query.get("type") {
        None | Some("run" | "RUN") => facets_of(&run),
        Some("job" | "JOB") => {
            let exe = known.schema.edge_type_id("exe")?;
            let plans: Vec<VertexId> = known.ends(run.id, exe)?.into_iter().map(|e| e.0).collect();
            let plans = known.things(&plans)?;
            plans.first().map(Thing::facets).unwrap_or_default()
        }
        Some(other) => {
            return Err(Refused::bad(format!(
                "parameter `type`: expected run or job; got `{other}`"
            )));
        }
    };
    let (created, _) = known.times(run.id)?;
    Ok(json!({"runId": run.key, "createdAt": created, "facets": facets}).to_string())
}
