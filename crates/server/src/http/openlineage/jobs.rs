//! Answers about jobs and their runs.

use super::super::ApiError;
use super::super::api::{Answer, ApiRequest};
use super::super::query::unknown_value;
use super::data::in_namespace;
use super::graph_view::{GraphView, JobOrDataset, Page, absent, facets_of};
use esker_console::{label, value};
use esker_import::openlineage::{job_name, joined, run_name};
use esker_model::{EdgeSelect, Version, Versions, Vertex, VertexId, VertexSelect};
use serde_json::{Map, Value as Json, json};
use std::cmp::Reverse;
use std::ops::ControlFlow;

/// Number of runs that are shown with a job.
const LATEST: usize = 10;

/// State of a run, with Marquez's name.
fn state(run: &Vertex) -> &str {
    match label::text(run, "state") {
        Some(word) => word,
        None if run.attribute("end").is_some() => "COMPLETED",
        None if run.attribute("start").is_some() => "RUNNING",
        None => "NEW",
    }
}

/// Encodes the inputs or outputs of a run with their facets.
fn uses(
    view: &GraphView<'_>,
    run: VertexId,
    edge: &str,
    facets_key: &str,
) -> Result<Json, ApiError> {
    let edge_type = view.schema.edge_type_id(edge)?;
    let select = EdgeSelect {
        types: vec![edge_type],
        versions: Versions::NOW,
        properties: true,
        after: None,
    };
    let mut edges = Vec::new();
    view.graph.scan_edges(&[run], &select, &mut |_, edge| {
        edges.push(edge);
        ControlFlow::Continue(())
    })?;
    let ids: Vec<VertexId> = edges.iter().map(|e| e.key.destination).collect();
    let read = view.graph.read_vertices(&ids, Version::MAX)?;
    let mut out = Vec::new();
    for (edge, vertex) in edges.iter().zip(read) {
        let Some(thing) = vertex.and_then(JobOrDataset::of) else {
            continue;
        };
        let mut id = thing.id();
        id["version"] = edge.version.to_string().into();
        out.push(json!({"datasetVersionId": id, facets_key: joined(edge.properties.iter())}));
    }
    Ok(out.into())
}

/// Encodes a run as in Marquez.
fn run_out(view: &GraphView<'_>, run: &Vertex) -> Result<Json, ApiError> {
    let facets = facets_of(run);
    let (created, updated) = view.times(run.id)?;
    let (start, end) = (label::time(run, "start"), label::time(run, "end"));
    let nominal = |key: &str| facets.get("nominalTime").and_then(|f| f.get(key)).cloned();
    let (from, until) = (nominal("nominalStartTime"), nominal("nominalEndTime"));
    let millis = start.zip(end).map(|(start, end)| (end - start) / 1_000_000);
    let mut job = Json::Null;
    if let Some(types) = view.types {
        let exe = view.schema.edge_type_id("exe")?;
        let plans: Vec<VertexId> = view
            .destinations(run.id, exe)?
            .into_iter()
            .map(|e| e.0)
            .collect();
        let mut plans = view.jobs_or_datasets(&plans)?;
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
        "inputDatasetVersions": uses(view, run.id, "read", "inputFacets")?,
        "outputDatasetVersions": uses(view, run.id, "write", "outputFacets")?,
        "facets": facets,
    }))
}

/// Returns a page of a job's runs, the latest first, and the number of all runs.
fn latest(
    view: &GraphView<'_>,
    job: VertexId,
    page: Page,
) -> Result<(Vec<Vertex>, usize), ApiError> {
    let exed = view.schema.edge_type_id("exedBy")?;
    let mut ends = view.destinations(job, exed)?;
    ends.sort_unstable_by_key(|(id, version)| (Reverse(*version), *id));
    let total = ends.len();
    let ids: Vec<VertexId> = page.cut(ends).map(|(id, _)| id).collect();
    let read = view.graph.read_vertices(&ids, Version::MAX)?;
    Ok((read.into_iter().flatten().collect(), total))
}

/// Encodes the names of jobs or datasets.
fn named(view: &GraphView<'_>, ids: &[VertexId]) -> Result<Json, ApiError> {
    let mut things = view.jobs_or_datasets(ids)?;
    things.sort_unstable_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    Ok(things.iter().map(JobOrDataset::id).collect())
}

/// Encodes a job as in Marquez.
pub(super) fn job_out(view: &GraphView<'_>, job: &JobOrDataset) -> Result<Json, ApiError> {
    let facets = job.facets();
    let (created, updated) = view.times(job.vertex.id)?;
    let few = Page {
        offset: 0,
        limit: LATEST,
    };
    let (runs, _) = latest(view, job.vertex.id, few)?;
    let runs: Vec<Json> = runs
        .iter()
        .map(|r| run_out(view, r))
        .collect::<Result<_, _>>()?;
    let ends = |edge_type| -> Result<Json, ApiError> {
        let ends = view.destinations(job.vertex.id, edge_type)?;
        let ids: Vec<VertexId> = ends.into_iter().map(|(id, _)| id).collect();
        named(view, &ids)
    };
    let (inputs, outputs) = match view.types {
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

fn listed(view: &GraphView<'_>, jobs: Vec<JobOrDataset>, page: Page) -> Answer {
    let total = jobs.len();
    let out = page.cut(jobs).map(|job| job_out(view, &job));
    let out: Json = out.collect::<Result<_, _>>()?;
    Ok(json!({"jobs": out, "totalCount": total}).to_string())
}

/// Answers the request `GET /api/v1/jobs`.
pub(super) fn all(request: &ApiRequest<'_>) -> Answer {
    let (view, page) = (GraphView::new(request)?, Page::of(request)?);
    let mut jobs = Vec::new();
    if let Some(types) = view.types {
        let select = VertexSelect::of(types.plan);
        view.graph.scan_vertices(&select, &mut |vertex| {
            jobs.extend(JobOrDataset::of(vertex));
            ControlFlow::Continue(())
        })?;
    }
    jobs.sort_unstable_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    listed(&view, jobs, page)
}

/// Answers the request `GET /api/v1/namespaces/{namespace}/jobs`.
pub(super) fn list(request: &ApiRequest<'_>) -> Answer {
    let (view, page) = (GraphView::new(request)?, Page::of(request)?);
    let jobs = in_namespace(&view, request, true)?;
    listed(&view, jobs, page)
}

fn requested_job(view: &GraphView<'_>, request: &ApiRequest<'_>) -> Result<JobOrDataset, ApiError> {
    let (space, name) = (
        request.query.required("namespace")?,
        request.query.required("job")?,
    );
    let found = view.job_or_dataset(request, &job_name(space, name))?;
    found.ok_or_else(|| absent("job", &format!("{name}` in `{space}")))
}

/// Answers the request `GET /api/v1/namespaces/{namespace}/jobs/{job}`.
pub(super) fn one(request: &ApiRequest<'_>) -> Answer {
    let view = GraphView::new(request)?;
    let job = requested_job(&view, request)?;
    Ok(job_out(&view, &job)?.to_string())
}

/// Answers the request `GET /api/v1/namespaces/{namespace}/jobs/{job}/runs`.
pub(super) fn runs(request: &ApiRequest<'_>) -> Answer {
    let (view, page) = (GraphView::new(request)?, Page::of(request)?);
    let job = requested_job(&view, request)?;
    let (runs, total) = latest(&view, job.vertex.id, page)?;
    let out: Json = runs
        .iter()
        .map(|r| run_out(&view, r))
        .collect::<Result<_, _>>()?;
    Ok(json!({"runs": out, "totalCount": total}).to_string())
}

fn requested_run(view: &GraphView<'_>, request: &ApiRequest<'_>) -> Result<Vertex, ApiError> {
    let id = request.query.required("id")?;
    let Some(name) = run_name(id) else {
        return Err(ApiError::bad(format!(
            "`{id}` is not a run: expected a UUID, as 01912a4b-97a1-7000-8000-0123456789ab"
        )));
    };
    let found = view.vertex(request, &name)?;
    found.ok_or_else(|| absent("run", id))
}

/// Answers the request `GET /api/v1/jobs/runs/{id}`.
pub(super) fn run(request: &ApiRequest<'_>) -> Answer {
    let view = GraphView::new(request)?;
    let run = requested_run(&view, request)?;
    Ok(run_out(&view, &run)?.to_string())
}

/// Answers the request `GET /api/v1/jobs/runs/{id}/facets`.
pub(super) fn facets(request: &ApiRequest<'_>) -> Answer {
    let view = GraphView::new(request)?;
    let run = requested_run(&view, request)?;
    let facets: Map<String, Json> = match request.query.get("type") {
        None | Some("run" | "RUN") => facets_of(&run),
        Some("job" | "JOB") => {
            let exe = view.schema.edge_type_id("exe")?;
            let plans: Vec<VertexId> = view
                .destinations(run.id, exe)?
                .into_iter()
                .map(|e| e.0)
                .collect();
            let plans = view.jobs_or_datasets(&plans)?;
            plans.first().map(JobOrDataset::facets).unwrap_or_default()
        }
        Some(other) => {
            return Err(ApiError::bad(unknown_value("type", other, &["run", "job"])));
        }
    };
    let (created, _) = view.times(run.id)?;
    Ok(json!({"runId": run.key, "createdAt": created, "facets": facets}).to_string())
}
