//! The API's description as `OpenAPI` 3.1, made from the same table as the routes.

mod console;
mod parameters;
mod rdf;
mod view;

use super::openlineage;
use super::ops::OPS;
use super::table::{self, Endpoint, Run};
use parameters::parameter;
pub(super) use parameters::{in_path, url_name};
use serde_json::{Map, Value as Json, json};

fn schema_of(name: &str) -> Json {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn operation(endpoint: &Endpoint) -> Json {
    let failure = |description: &str| json!({"description": description, "content": {"application/json": {"schema": schema_of("Failure")}}});
    let mut responses = Map::new();
    let mut content = Map::new();
    content.insert(
        "application/json".into(),
        json!({"schema": schema_of(endpoint.answer)}),
    );
    if matches!(endpoint.run, Run::Find) {
        content.insert(
            "application/x-ndjson".into(),
            json!({"schema": schema_of("FoundLine")}),
        );
    }
    let done = json!({"description": "done", "content": content});
    if matches!(endpoint.run, Run::Receive) {
        responses.insert("201".into(), done.clone());
        let partly = json!({"description": "some events were accepted; `failed_events` lists the others", "content": content});
        responses.insert("207".into(), partly);
    }
    responses.insert("200".into(), done);
    responses.insert("400".into(), failure("the request is malformed"));
    responses.insert("404".into(), failure("the requested item does not exist"));
    responses.insert(
        "413".into(),
        failure("the request is larger than the server takes"),
    );
    responses.insert(
        "429".into(),
        failure("the server is busy; Retry-After says when to come back"),
    );
    if matches!(endpoint.run, Run::Write(_)) {
        responses.insert(
            "507".into(),
            failure("the owner of the new entries has reached its quota"),
        );
    }
    responses.insert(
        "503".into(),
        failure("the server is stopping, or its database cannot be reached"),
    );
    let mut out = json!({
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "responses": responses,
    });
    if !endpoint.parameters.is_empty() {
        out["parameters"] = endpoint.parameters.iter().map(|p| parameter(p)).collect();
    }
    if let Some((kind, schema)) = endpoint.body {
        let mut content = Map::new();
        content.insert(kind.into(), json!({"schema": schema_of(schema)}));
        out["requestBody"] = json!({"required": true, "content": content});
    }
    out
}

/// Returns the `OpenAPI` document.
pub(super) fn document() -> Json {
    let mut paths: Map<String, Json> = Map::new();
    for endpoint in table::all() {
        let verb = endpoint.verb.name().to_ascii_lowercase();
        let item = paths
            .entry(endpoint.path)
            .or_insert_with(|| Map::new().into());
        item[verb.as_str()] = operation(endpoint);
    }
    paths.extend(rdf::paths());
    let ops: Json = OPS
        .iter()
        .map(|(name, keys)| {
            let mut properties = Map::new();
            properties.insert("op".into(), json!({"const": name}));
            properties.insert("version".into(), json!({"type": "string", "description": "time of the event"}));
            for key in *keys {
                let schema = match *key {
                    "attributes" | "set" | "properties" | "tags" => json!({"type": "object"}),
                    "from" | "to" => schema_of("Identity"),
                    "owner" | "step" => json!({"type": "integer"}),
                    "remove" => json!({"type": "array", "items": {"type": "string"}}),
                    _ => json!({"type": "string"}),
                };
                properties.insert((*key).into(), schema);
            }
            let required: Vec<_> = ["op", "id", "src", "type", "dst", "name", "owner", "object", "from", "to"]
                .into_iter()
                .filter(|k| *k == "op" || keys.contains(k))
                .collect();
            json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
        })
        .collect();
    let graph = json!({"type": "object", "required": ["target", "complete", "stopped"]});
    let mut out = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Esker",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A versioned property graph of scientific metadata. Shapes are those of docs/book/json.md.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {"schemas": {
            "Failure": {
                "type": "object",
                "required": ["error"],
                "properties": {
                    "error": {"type": "string", "description": "what happened, where, and what to do"},
                    "retry_after_ms": {"type": ["integer", "null"]},
                    "at": {"type": "object", "description": "position in a filter or a chain: `byte`, `length`, `line`, `column`"},
                    "suggestion": {"type": ["string", "null"], "description": "the most similar name"},
                },
            },
            "Schema": {"type": "object", "required": ["vertex_types", "edge_types"]},
            "Stats": {"type": "object", "required": ["vertices", "edges", "store", "adjacency"]},
            "Vertex": {
                "type": "object",
                "required": ["id", "type", "version", "attributes"],
                "properties": {
                    "id": {"type": "string"},
                    "type": {"type": ["string", "null"]},
                    "version": {"type": ["string", "null"]},
                    "attributes": {"type": "object"},
                    "deleted": {"type": "boolean"},
                },
            },
            "Vertices": {
                "type": "object",
                "required": ["vertices", "next"],
                "properties": {
                    "vertices": {"type": "array", "items": schema_of("Vertex")},
                    "next": {"type": ["string", "null"], "description": "`after` of the next call; null at the end"},
                },
            },
            "Edge": {
                "type": "object",
                "required": ["src", "type", "dst", "version", "properties"],
                "properties": {
                    "src": {"type": "string"},
                    "type": {"type": "string"},
                    "dst": {"type": "string"},
                    "version": {"type": "string"},
                    "properties": {"type": "object"},
                },
            },
            "Edges": {
                "type": "object",
                "required": ["edges", "more", "next"],
                "properties": {
                    "edges": {"type": "array", "items": schema_of("Edge")},
                    "more": {"type": "boolean", "description": "whether `limit` ended the answer"},
                    "next": {"type": ["string", "null"], "description": "`after` of the next call; null at the end"},
                },
            },
            "History": {
                "type": "object",
                "required": ["events"],
                "properties": {"events": {"type": "array", "items": {"type": "object"}}},
            },
            "Graph": graph,
            "TravelRequest": {
                "type": "object",
                "required": ["chain"],
                "additionalProperties": false,
                "properties": {
                    "chain": {"type": "string"},
                    "depth": {"type": ["integer", "null"], "description": "maximum number of steps"},
                    "max_edges": {"type": ["integer", "null"], "description": "maximum number of edges to read"},
                    "timeout_ms": {"type": ["integer", "null"]},
                    "profile": {"type": "boolean"},
                    "strategy": {"enum": ["sync", "prefetch", "async", null],
                                 "description": "strategy of a cluster's servers [default: prefetch]"},
                },
            },
            "Travel": graph,
            "Operations": {
                "description": "one of these objects per line (NDJSON); all apply, or none",
                "oneOf": ops,
            },
            "SlurmJob": {
                "description": "other fields are kept as well",
                "type": "object",
                "required": ["jobid"],
                "properties": {
                    "jobid": {"type": "integer"},
                    "user_id": {"type": "integer"},
                    "username": {"type": "string"},
                    "job_name": {"type": "string"},
                    "@submit": {"type": "string", "description": "UTC, as 2026-03-01T12:00:00"},
                    "@start": {"type": "string"},
                    "@end": {"type": "string"},
                    "state": {"type": "string"},
                    "script": {"type": "string", "description": "kept without its secrets"},
                },
            },
            "Commit": {
                "type": "object",
                "required": ["applied", "version", "vertices_created", "edges_created", "unchanged"],
                "properties": {
                    "applied": {"type": "boolean", "description": "false if a batch with this idempotency key was applied before"},
                    "version": {"type": "string"},
                    "vertices_created": {"type": "integer"},
                    "edges_created": {"type": "integer"},
                    "unchanged": {"type": "integer"},
                },
            },
            "OpenApi": {"type": "object", "required": ["openapi", "paths"]},
        }},
    });
    let schemas = object_schemas()
        .into_iter()
        .chain(file_schemas())
        .chain(view::schemas())
        .chain(console::schemas())
        .chain(openlineage::schemas());
    for (name, schema) in schemas {
        out["components"]["schemas"][name] = schema;
    }
    out
}

/// Schemas of the paths about files.
fn file_schemas() -> [(&'static str, Json); 4] {
    let text = || json!({"type": "string"});
    let integer = || json!({"type": "integer"});
    let whole = |of: &str| json!({"type": "array", "items": schema_of(of)});
    let complete = json!({"type": "boolean", "description": "false if `limit` ended the answer"});
    [
        (
            "File",
            json!({
                "type": "object",
                "required": ["path", "vertex", "kind", "mode", "uid", "gid", "size", "version"],
                "properties": {
                    "path": {"type": "string", "description": "bytes that are not UTF-8 as `\\xHH`, a backslash doubled"},
                    "vertex": text(), "kind": text(), "version": text(),
                    "mode": {"type": "string", "description": "permission bits in octal"},
                    "links": integer(), "uid": integer(), "gid": integer(), "size": integer(), "blocks": integer(),
                    "atime": text(), "mtime": text(), "ctime": text(), "btime": text(),
                    "target": {"type": ["string", "null"], "description": "target of a symbolic link"},
                    "acl": {"type": "array", "items": {"type": "string"}, "description": "entries of access control lists, as `getfacl` prints them"},
                },
            }),
        ),
        (
            "Entries",
            json!({
                "type": "object",
                "required": ["entries", "next"],
                "properties": {
                    "entries": whole("File"),
                    "next": {"type": ["string", "null"], "description": "`after` of the next call; null at the end"},
                },
            }),
        ),
        (
            "Files",
            json!({"type": "object", "required": ["files", "complete"],
                   "properties": {"files": whole("File"), "complete": complete.clone()}}),
        ),
        (
            "Usages",
            json!({
                "type": "object",
                "required": ["rows", "complete"],
                "properties": {
                    "rows": {"type": "array", "items": {
                        "type": "object",
                        "required": ["key", "files", "directories", "bytes", "blocks"],
                        "properties": {"key": text(), "files": integer(), "directories": integer(), "bytes": integer(),
                                       "blocks": integer()},
                    }},
                    "complete": complete,
                },
            }),
        ),
    ]
}

/// Schemas of the paths about objects.
fn object_schemas() -> [(&'static str, Json); 15] {
    let text = || json!({"type": "string"});
    let integer = || json!({"type": "integer"});
    let object = || json!({"type": "object"});
    let texts = || json!({"type": "array", "items": {"type": "string"}});
    let integers = || json!({"type": "array", "items": {"type": "integer"}});
    let flag = || json!({"type": "boolean"});
    let identity = json!({
        "type": "object",
        "required": ["name", "owner"],
        "additionalProperties": false,
        "properties": {"name": text(), "app": text(), "owner": integer(), "step": integer()},
    });
    let mut new = identity.clone();
    new["properties"]["attributes"] = object();
    new["properties"]["tags"] = object();
    let report = json!({
        "type": "object",
        "required": ["matches", "complete", "missing", "plan", "unknown"],
        "properties": {
            "matches": {"type": "integer", "description": "number of objects returned or counted"},
            "complete": {"type": "boolean", "description": "false if a limit or a timeout ended the search"},
            "missing": {"type": "array", "items": {"type": "integer"},
                        "description": "servers of a cluster that did not answer; their objects are missing"},
            "plan": {"type": "array", "items": object(), "description": "plan for each term"},
            "unknown": {"type": "array", "items": object(),
                        "description": "names in the filter that no object has, with the most similar existing name"},
        },
    });
    let mut found = report.clone();
    found["required"] = json!([
        "objects", "next", "matches", "complete", "missing", "plan", "unknown"
    ]);
    found["properties"]["objects"] = json!({"type": "array", "items": schema_of("Object")});
    found["properties"]["next"] = json!({"type": ["string", "null"],
        "description": "`after` of the next call; null at the end"});
    let asked = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "filter": text(), "select": texts(), "limit": integer(), "count": flag(), "explain": flag(),
            "uid": integer(), "gids": integers(), "rank": integer(), "of": integer(), "after": text(),
            "format": {"enum": ["json", "ndjson"]},
        },
    });
    [
        ("Identity", identity),
        ("NewObject", new),
        ("Report", report),
        ("Found", found),
        ("FindRequest", asked),
        (
            "Object",
            json!({
                "type": "object",
                "required": ["id", "created", "modified", "attributes", "tags"],
                "properties": {
                    "id": {"type": "string", "description": "its number, below 2^63"},
                    "created": text(),
                    "modified": text(),
                    "attributes": {"type": "object", "description": "predefined attributes, the four ID attributes included"},
                    "tags": {"type": "object", "description": "null for a tag without a value"},
                },
            }),
        ),
        (
            "FoundLine",
            json!({
                "description": "objects, one per line; the last line is the report, or an error",
                "oneOf": [
                    schema_of("Object"),
                    {"type": "object", "required": ["report"], "properties": {"report": schema_of("Report")}},
                    {"type": "object", "required": ["error"], "properties": {"error": text()}},
                ],
            }),
        ),
        (
            "Created",
            json!({"type": "object", "required": ["id", "version"], "properties": {"id": text(), "version": text()}}),
        ),
        (
            "Changes",
            json!({
                "type": "object",
                "additionalProperties": false,
                "properties": {
                    "set": {"type": "object", "description": "null for a tag without a value; names that the type `Object` \
                            has no attribute of are tags"},
                    "remove": texts(),
                },
            }),
        ),
        (
            "Tags",
            json!({"type": "object", "required": ["tags"], "properties": {"tags": {"type": "array", "items": object()}}}),
        ),
        (
            "Quota",
            json!({
                "type": "object",
                "required": ["client", "contact", "rows"],
                "properties": {
                    "client": text(),
                    "contact": {"type": "string", "description": "person or address to ask for higher limits"},
                    "rows": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["owner", "limit", "used", "most", "key"],
                            "properties": {
                                "owner": text(),
                                "limit": {"enum": ["queries", "query_time", "query_memory", "entries", "bytes"]},
                                "used": {"type": ["integer", "null"], "description": "null if it is not counted"},
                                "most": {"type": ["integer", "null"], "description": "bytes or milliseconds; null without a limit"},
                                "key": {"type": ["string", "null"], "description": "key of the configuration that sets the limit"},
                            },
                        },
                    },
                },
            }),
        ),
        (
            "TagRequest",
            json!({
                "type": "object",
                "required": ["filter"],
                "additionalProperties": false,
                "properties": {
                    "filter": text(),
                    "set": object(),
                    "keep": {"type": "boolean", "description": "set only tags that an object does not have"},
                    "remove": texts(),
                    "dry_run": flag(),
                    "uid": integer(),
                    "gids": integers(),
                },
            }),
        ),
        (
            "Tagged",
            json!({
                "type": "object",
                "required": ["matches", "changed", "refused", "version", "applied"],
                "properties": {
                    "matches": integer(), "changed": integer(), "version": text(),
                    "applied": {"type": "boolean", "description": "false if the request only counts, or if a batch with this idempotency key was applied before"},
                    "refused": {"type": "integer", "description": "number of objects that the user may not change"},
                },
            }),
        ),
        (
            "IndexRequest",
            json!({"type": "object", "required": ["name", "on"], "additionalProperties": false,
                   "properties": {"name": text(), "on": flag()}}),
        ),
        (
            "Indexed",
            json!({"type": "object", "required": ["changed"], "properties": {"changed": flag()}}),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_leads_somewhere_and_every_parameter_is_described() {
        let document = document();
        let text = document.to_string();
        for part in text.split("\"$ref\":\"#").skip(1) {
            let pointer = part.split('"').next().unwrap();
            assert!(document.pointer(pointer).is_some(), "{pointer}");
        }
        for endpoint in table::all() {
            for name in endpoint.parameters {
                assert_ne!(parameter(name)["description"], "", "{name}");
            }
        }
    }
}
