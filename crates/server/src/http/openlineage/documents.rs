//! Parameters and schemas for the `OpenAPI` document.

use serde_json::{Value as Json, json};

/// Description and schema of a parameter, and whether it is required.
pub(in super::super) fn parameter(name: &str) -> (&'static str, Json, bool) {
    let text = || json!({"type": "string"});
    match name {
        "in_namespace" => ("a namespace; `/` in it as %2F", text(), true),
        "in_job" => ("the name of a job; `/` in it as %2F", text(), true),
        "in_dataset" => ("the name of a dataset; `/` in it as %2F", text(), true),
        "in_run" => (
            "the UUID of a run",
            json!({"type": "string", "format": "uuid"}),
            true,
        ),
        "page_limit" => (
            "maximum number of entries",
            json!({"type": "integer", "minimum": 1, "maximum": 1_000, "default": 100}),
            false,
        ),
        "page_offset" => (
            "number of entries to skip",
            json!({"type": "integer", "minimum": 0, "default": 0}),
            false,
        ),
        "facets_of" => (
            "whose facets",
            json!({"enum": ["run", "job"], "default": "run"}),
            false,
        ),
        "node" => (
            "a job or a dataset, as `job:NAMESPACE:NAME`, `dataset:NAMESPACE:NAME`; this or `id`",
            text(),
            false,
        ),
        _ => ("", json!({}), false),
    }
}

fn object(required: &[&str]) -> Json {
    let properties: serde_json::Map<String, Json> = required
        .iter()
        .map(|name| ((*name).to_owned(), json!({})))
        .collect();
    json!({"type": "object", "required": required, "properties": properties, "additionalProperties": true})
}

fn list(key: &str, of: &str) -> Json {
    json!({
        "type": "object",
        "required": [key, "totalCount"],
        "properties": {
            key: {"type": "array", "items": {"$ref": format!("#/components/schemas/{of}")}},
            "totalCount": {"type": "integer"},
        },
    })
}

/// Schemas of bodies and answers, by name.
pub(in super::super) fn schemas() -> [(&'static str, Json); 13] {
    let named = json!({
        "type": "object",
        "required": ["namespace", "name"],
        "properties": {
            "namespace": {"type": "string"},
            "name": {"type": "string"},
            "facets": {"type": "object", "description": "kept as they are, whatever they say"},
        },
    });
    let uses = json!({"type": "array", "items": named.clone()});
    let event = json!({
        "type": "object",
        "description": "OpenLineage 2.0.2; one of these or a list of them; `Content-Encoding: gzip` is understood",
        "required": ["eventTime"],
        "properties": {
            "eventTime": {"type": "string", "format": "date-time"},
            "eventType": {"enum": ["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"]},
            "producer": {"type": "string"},
            "run": {"type": "object", "required": ["runId"],
                    "properties": {"runId": {"type": "string", "format": "uuid"}, "facets": {"type": "object"}}},
            "job": named.clone(),
            "dataset": named,
            "inputs": uses.clone(),
            "outputs": uses,
        },
    });
    [
        ("OpenLineageEvent", event),
        (
            "OpenLineageTaken",
            json!({
                "type": "object",
                "description": "of one event: what it changed; of a list: how many were taken, and why others were not",
                "additionalProperties": true,
            }),
        ),
        (
            "MarquezNamespace",
            object(&["name", "createdAt", "updatedAt"]),
        ),
        ("MarquezNamespaces", list("namespaces", "MarquezNamespace")),
        (
            "MarquezDataset",
            object(&["id", "name", "namespace", "fields", "facets"]),
        ),
        ("MarquezDatasets", list("datasets", "MarquezDataset")),
        (
            "MarquezVersion",
            object(&["version", "createdAt", "createdByRun"]),
        ),
        ("MarquezVersions", list("versions", "MarquezVersion")),
        (
            "MarquezJob",
            object(&[
                "id",
                "name",
                "namespace",
                "inputs",
                "outputs",
                "latestRun",
                "facets",
            ]),
        ),
        ("MarquezJobs", list("jobs", "MarquezJob")),
        (
            "MarquezRun",
            object(&["id", "state", "startedAt", "endedAt", "facets"]),
        ),
        ("MarquezRuns", list("runs", "MarquezRun")),
        ("MarquezFacets", object(&["runId", "facets"])),
    ]
}
