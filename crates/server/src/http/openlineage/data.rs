//! Namespaces and datasets.

use super::super::Refused;
use super::super::api::{Answer, Asked};
use super::known::{Known, Page, Thing, absent, time};
use esker_import::openlineage::data_name;
use esker_model::{VertexId, VertexName, VertexSelect};
use serde_json::{Map, Value as Json, json};
use std::ops::ControlFlow;

fn namespace_out(known: &Known<'_>, id: VertexId, name: &str) -> Result<Json, Refused> {
    let (created, updated) = known.times(id)?;
    Ok(
        json!({"name": name, "createdAt": created, "updatedAt": updated, "ownerName": null, "description": null,
              "isHidden": false}),
    )
}

/// `GET /api/v1/namespaces`.
pub(super) fn namespaces(asked: &Asked<'_>) -> Answer {
    let (known, page) = (Known::new(asked)?, Page::of(asked)?);
    let mut all = Vec::new();
    if let Some(types) = known.types {
        let select = VertexSelect::of(types.namespace);
        known.graph.scan_vertices(&select, &mut |vertex| {
            all.push((vertex.key, vertex.id));
            ControlFlow::Continue(())
        })?;
    }
    all.sort_unstable();
    let total = all.len();
    let out = page
        .cut(all)
        .map(|(name, id)| namespace_out(&known, id, &name));
    let out: Json = out.collect::<Result<_, _>>()?;
    Ok(json!({"namespaces": out, "totalCount": total}).to_string())
}

fn space(known: &Known<'_>, asked: &Asked<'_>) -> Result<(VertexId, String), Refused> {
    let name = asked.query.required("namespace")?;
    let vertex = VertexName {
        type_name: "Namespace".to_owned(),
        key: name.to_owned(),
    };
    let found = known.vertex(asked, &vertex)?;
    let found = found.ok_or_else(|| absent("namespace", name))?;
    Ok((found.id, name.to_owned()))
}

/// `GET /api/v1/namespaces/{namespace}`.
pub(super) fn namespace(asked: &Asked<'_>) -> Answer {
    let known = Known::new(asked)?;
    let (id, name) = space(&known, asked)?;
    Ok(namespace_out(&known, id, &name)?.to_string())
}

/// All jobs, or all datasets, of the namespace that is asked for, by name.
pub(super) fn in_namespace(
    known: &Known<'_>,
    asked: &Asked<'_>,
    jobs: bool,
) -> Result<Vec<Thing>, Refused> {
    let (id, _) = space(known, asked)?;
    let Some(types) = known.types else {
        return Ok(Vec::new());
    };
    let ends = known.ends(id, types.has)?;
    let ids: Vec<VertexId> = ends.into_iter().map(|(id, _)| id).collect();
    let mut found = known.things(&ids)?;
    found.retain(|thing| (thing.vertex.type_id == types.plan) == jobs);
    found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// The columns that the facet `schema` names.
fn fields(facets: &Map<String, Json>) -> Json {
    let fields = facets
        .get("schema")
        .and_then(|f| f.get("fields")?.as_array());
    let field = |f: &Json| json!({"name": f.get("name"), "type": f.get("type"), "description": f.get("description"), "tags": []});
    fields.map_or_else(|| json!([]), |fields| fields.iter().map(field).collect())
}

/// A dataset, as Marquez tells of it.
pub(super) fn dataset_out(known: &Known<'_>, thing: &Thing) -> Result<Json, Refused> {
    let facets = thing.facets();
    let (created, updated) = known.times(thing.vertex.id)?;
    let mut written = None;
    if let Some(types) = known.types {
        let made_by = known.inverse(types.produces);
        if !known.ends(thing.vertex.id, made_by)?.is_empty() {
            written = latest_write(known, thing)?;
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
    known: &Known<'_>,
    thing: &Thing,
) -> Result<Vec<(VertexId, esker_model::Version)>, Refused> {
    let written = known.schema.edge_type_id("wasWrittenBy")?;
    let mut writes = known.ends(thing.vertex.id, written)?;
    writes.sort_unstable_by_key(|(_, version)| std::cmp::Reverse(*version));
    Ok(writes)
}

fn latest_write(known: &Known<'_>, thing: &Thing) -> Result<Option<esker_model::Version>, Refused> {
    Ok(writes(known, thing)?.first().map(|(_, version)| *version))
}

/// `GET /api/v1/namespaces/{namespace}/datasets`.
pub(super) fn datasets(asked: &Asked<'_>) -> Answer {
    let (known, page) = (Known::new(asked)?, Page::of(asked)?);
    let found = in_namespace(&known, asked, false)?;
    let total = found.len();
    let out = page.cut(found).map(|thing| dataset_out(&known, &thing));
    let out: Json = out.collect::<Result<_, _>>()?;
    Ok(json!({"datasets": out, "totalCount": total}).to_string())
}

fn the(known: &Known<'_>, asked: &Asked<'_>) -> Result<Thing, Refused> {
    let (space, name) = (
        asked.query.required("namespace")?,
        asked.query.required("dataset")?,
    );
    let found = known.thing(asked, &data_name(space, name))?;
    found.ok_or_else(|| absent("dataset", &format!("{name}` in `{space}")))
}

/// `GET /api/v1/namespaces/{namespace}/datasets/{dataset}`.
pub(super) fn dataset(asked: &Asked<'_>) -> Answer {
    let known = Known::new(asked)?;
    let thing = the(&known, asked)?;
    Ok(dataset_out(&known, &thing)?.to_string())
}

/// `GET /api/v1/namespaces/{namespace}/datasets/{dataset}/versions`.
pub(super) fn versions(asked: &Asked<'_>) -> Answer {
    let (known, page) = (Known::new(asked)?, Page::of(asked)?);
    let thing = the(&known, asked)?;
    let writes = writes(&known, &thing)?;
    let total = writes.len();
    let shown: Vec<_> = page.cut(writes).collect();
    let ids: Vec<VertexId> = shown.iter().map(|(id, _)| *id).collect();
    let runs = known.graph.read_vertices(&ids, esker_model::Version::MAX)?;
    let one = |((_, version), run): (&(VertexId, esker_model::Version), Option<_>)| {
        let run: Option<esker_model::Vertex> = run;
        json!({"id": thing.id(), "version": version.to_string(), "createdAt": time(*version),
               "createdByRun": run.map(|run| run.key)})
    };
    let out: Json = shown.iter().zip(runs).map(one).collect();
    Ok(json!({"versions": out, "totalCount": total}).to_string())
}
