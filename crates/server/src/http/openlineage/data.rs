//! Answers about namespaces and datasets.

use super::super::ApiError;
use super::super::api::{Answer, ApiRequest};
use super::graph_view::{GraphView, JobOrDataset, Page, absent, time};
use esker_import::openlineage::data_name;
use esker_model::{VertexId, VertexName, VertexSelect};
use serde_json::{Map, Value as Json, json};
use std::ops::ControlFlow;

fn namespace_out(view: &GraphView<'_>, id: VertexId, name: &str) -> Result<Json, ApiError> {
    let (created, updated) = view.times(id)?;
    Ok(
        json!({"name": name, "createdAt": created, "updatedAt": updated, "ownerName": null, "description": null,
              "isHidden": false}),
    )
}

/// Answers the request `GET /api/v1/namespaces`.
pub(super) fn namespaces(request: &ApiRequest<'_>) -> Answer {
    let (view, page) = (GraphView::new(request)?, Page::of(request)?);
    let mut all = Vec::new();
    if let Some(types) = view.types {
        let select = VertexSelect::of(types.namespace);
        view.graph.scan_vertices(&select, &mut |vertex| {
            all.push((vertex.key, vertex.id));
            ControlFlow::Continue(())
        })?;
    }
    all.sort_unstable();
    let total = all.len();
    let out = page
        .cut(all)
        .map(|(name, id)| namespace_out(&view, id, &name));
    let out: Json = out.collect::<Result<_, _>>()?;
    Ok(json!({"namespaces": out, "totalCount": total}).to_string())
}

fn space(view: &GraphView<'_>, request: &ApiRequest<'_>) -> Result<(VertexId, String), ApiError> {
    let name = request.query.required("namespace")?;
    let vertex = VertexName {
        type_name: "Namespace".to_owned(),
        key: name.to_owned(),
    };
    let found = view.vertex(request, &vertex)?;
    let found = found.ok_or_else(|| absent("namespace", name))?;
    Ok((found.id, name.to_owned()))
}

/// Answers the request `GET /api/v1/namespaces/{namespace}`.
pub(super) fn namespace(request: &ApiRequest<'_>) -> Answer {
    let view = GraphView::new(request)?;
    let (id, name) = space(&view, request)?;
    Ok(namespace_out(&view, id, &name)?.to_string())
}

/// Returns all jobs, or all datasets, of the requested namespace, by name.
pub(super) fn in_namespace(
    view: &GraphView<'_>,
    request: &ApiRequest<'_>,
    jobs: bool,
) -> Result<Vec<JobOrDataset>, ApiError> {
    let (id, _) = space(view, request)?;
    let Some(types) = view.types else {
        return Ok(Vec::new());
    };
    let ends = view.destinations(id, types.has)?;
    let ids: Vec<VertexId> = ends.into_iter().map(|(id, _)| id).collect();
    let mut found = view.jobs_or_datasets(&ids)?;
    found.retain(|thing| (thing.vertex.type_id == types.plan) == jobs);
    found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// The columns in the facet `schema`.
fn fields(facets: &Map<String, Json>) -> Json {
    let fields = facets
        .get("schema")
        .and_then(|f| f.get("fields")?.as_array());
    let field = |f: &Json| json!({"name": f.get("name"), "type": f.get("type"), "description": f.get("description"), "tags": []});
    fields.map_or_else(|| json!([]), |fields| fields.iter().map(field).collect())
}

/// Encodes a dataset as in Marquez.
pub(super) fn dataset_out(view: &GraphView<'_>, thing: &JobOrDataset) -> Result<Json, ApiError> {
    let facets = thing.facets();
    let (created, updated) = view.times(thing.vertex.id)?;
    let mut written = None;
    if let Some(types) = view.types {
        let made_by = view.inverse(types.produces);
        if !view.destinations(thing.vertex.id, made_by)?.is_empty() {
            written = latest_write(view, thing)?;
        }
    }
    let text = |facet: &str, key: &str| facets.get(facet).and_then(|f| f.get(key)).cloned();
    Ok(json!({
        "id": thing.id(),
        "type": if thing.vertex.key.starts_with('/') { "FILE" } else { "DB_TABLE" },
        "name": thing.name,
        "physicalName": thing.name,
        "namespace": thing.namespace,
        "sourceName": text("dataSource", "name"),
        "createdAt": created,
        "updatedAt": updated,
        "lastModifiedAt": written.map(time),
        "currentVersion": written.map(|v| v.to_string()),
        "lastLifecycleState": text("lifecycleStateChange", "lifecycleStateChange"),
        "description": text("documentation", "description"),
        "fields": fields(&facets),
        "columnLineage": facets.get("columnLineage"),
        "tags": [],
        "facets": facets,
        "deleted": false,
    }))
}

fn writes(
    view: &GraphView<'_>,
    thing: &JobOrDataset,
) -> Result<Vec<(VertexId, esker_model::Version)>, ApiError> {
    let written = view.schema.edge_type_id("wasWrittenBy")?;
    let mut writes = view.destinations(thing.vertex.id, written)?;
    writes.sort_unstable_by_key(|(_, version)| std::cmp::Reverse(*version));
    Ok(writes)
}

fn latest_write(
    view: &GraphView<'_>,
    thing: &JobOrDataset,
) -> Result<Option<esker_model::Version>, ApiError> {
    Ok(writes(view, thing)?.first().map(|(_, version)| *version))
}

/// Answers the request `GET /api/v1/namespaces/{namespace}/datasets`.
pub(super) fn datasets(request: &ApiRequest<'_>) -> Answer {
    let (view, page) = (GraphView::new(request)?, Page::of(request)?);
    let found = in_namespace(&view, request, false)?;
    let total = found.len();
    let out = page.cut(found).map(|thing| dataset_out(&view, &thing));
    let out: Json = out.collect::<Result<_, _>>()?;
    Ok(json!({"datasets": out, "totalCount": total}).to_string())
}

fn requested_dataset(
    view: &GraphView<'_>,
    request: &ApiRequest<'_>,
) -> Result<JobOrDataset, ApiError> {
    let (space, name) = (
        request.query.required("namespace")?,
        request.query.required("dataset")?,
    );
    let found = view.job_or_dataset(request, &data_name(space, name))?;
    found.ok_or_else(|| absent("dataset", &format!("{name}` in `{space}")))
}

/// Answers the request `GET /api/v1/namespaces/{namespace}/datasets/{dataset}`.
pub(super) fn dataset(request: &ApiRequest<'_>) -> Answer {
    let view = GraphView::new(request)?;
    let thing = requested_dataset(&view, request)?;
    Ok(dataset_out(&view, &thing)?.to_string())
}

/// Answers the request `GET /api/v1/namespaces/{namespace}/datasets/{dataset}/versions`.
pub(super) fn versions(request: &ApiRequest<'_>) -> Answer {
    let (view, page) = (GraphView::new(request)?, Page::of(request)?);
    let thing = requested_dataset(&view, request)?;
    let writes = writes(&view, &thing)?;
    let total = writes.len();
    let shown: Vec<_> = page.cut(writes).collect();
    let ids: Vec<VertexId> = shown.iter().map(|(id, _)| *id).collect();
    let runs = view.graph.read_vertices(&ids, esker_model::Version::MAX)?;
    let one = |((_, version), run): (&(VertexId, esker_model::Version), Option<_>)| {
        let run: Option<esker_model::Vertex> = run;
        json!({"id": thing.id(), "version": version.to_string(), "createdAt": time(*version),
               "createdByRun": run.map(|run| run.key)})
    };
    let out: Json = shown.iter().zip(runs).map(one).collect();
    Ok(json!({"versions": out, "totalCount": total}).to_string())
}
