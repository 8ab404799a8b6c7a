//! The API's own description, as `OpenAPI` 3.1. It is made from the same table that the routes are.

use super::ops::OPS;
use super::{API, Endpoint, Verb};
use serde_json::{Map, Value as Json, json};

/// What a parameter means, by name.
fn parameter(name: &str) -> Json {
    let (description, schema, required) = match name {
        "id" => (
            "a vertex, as TYPE:KEY",
            json!({"type": "string", "examples": ["file:/scratch/a.h5"]}),
            true,
        ),
        "as_of" => (
            "as it was then: RFC 3339, a date (its end), @SECONDS, or a version that an answer gave",
            json!({"type": "string"}),
            false,
        ),
        "type" => (
            "the name of a type; of edge types also several, with commas",
            json!({"type": "string"}),
            false,
        ),
        "vertex_type" => (
            "the name of a vertex type; types that specialise it are included",
            json!({"type": "string"}),
            true,
        ),
        "dst" => (
            "with `type`: the edge's destination, as TYPE:KEY",
            json!({"type": "string"}),
            false,
        ),
        "after" => (
            "go on behind that vertex: `next` of the answer before",
            json!({"type": "string"}),
            false,
        ),
        "limit" => (
            "how many items at most",
            json!({"type": "integer", "minimum": 1, "maximum": 100_000, "default": 1_000}),
            false,
        ),
        "depth" => (
            "go through that many jobs at most",
            json!({"type": "integer", "minimum": 0}),
            false,
        ),
        "from" => ("from then on", json!({"type": "string"}), false),
        "until" => ("before then", json!({"type": "string"}), false),
        "once" => (
            "a marker: a batch whose marker was applied before changes nothing, so that a call can be repeated",
            json!({"type": "string", "maxLength": 256}),
            false,
        ),
        "sync" => (
            "`true`: answer once it survives a power failure",
            json!({"type": "boolean"}),
            false,
        ),
        _ => ("", json!({}), false),
    };
    let shown = if name == "vertex_type" { "type" } else { name };
    json!({"name": shown, "in": "query", "required": required, "description": description, "schema": schema})
}

fn schema_of(name: &str) -> Json {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn operation(endpoint: &Endpoint) -> Json {
    let failure = |description: &str| json!({"description": description, "content": {"application/json": {"schema": schema_of("Failure")}}});
    let mut responses = Map::new();
    responses.insert(
        "200".into(),
        json!({"description": "done", "content": {"application/json": {"schema": schema_of(endpoint.answer)}}}),
    );
    responses.insert(
        "400".into(),
        failure("the request makes no sense as it stands"),
    );
    responses.insert("404".into(), failure("it is not there"));
    responses.insert(
        "413".into(),
        failure("the request is larger than the server takes"),
    );
    responses.insert(
        "429".into(),
        failure("the server is busy; Retry-After says when to come back"),
    );
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

/// The document.
pub(super) fn document() -> Json {
    let mut paths = Map::new();
    for endpoint in &API {
        let verb = match endpoint.verb {
            Verb::Get => "get",
            Verb::Post => "post",
        };
        let mut item = Map::new();
        item.insert(verb.into(), operation(endpoint));
        paths.insert(endpoint.path.into(), item.into());
    }
    let ops: Json = OPS
        .iter()
        .map(|(name, keys)| {
            let mut properties = Map::new();
            properties.insert("op".into(), json!({"const": name}));
            properties.insert("version".into(), json!({"type": "string", "description": "when it happened"}));
            for key in *keys {
                let schema = match *key {
                    "attributes" | "set" | "properties" => json!({"type": "object"}),
                    "remove" => json!({"type": "array", "items": {"type": "string"}}),
                    _ => json!({"type": "string"}),
                };
                properties.insert((*key).into(), schema);
            }
            let required: Vec<_> = ["op", "id", "src", "type", "dst"]
                .into_iter()
                .filter(|k| *k == "op" || keys.contains(k))
                .collect();
            json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
        })
        .collect();
    let graph = json!({"type": "object", "required": ["target", "complete", "stopped"]});
    json!({
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
                    "error": {"type": "string", "description": "what, where, what to do"},
                    "retry_after_ms": {"type": ["integer", "null"]},
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
                "required": ["edges", "more"],
                "properties": {
                    "edges": {"type": "array", "items": schema_of("Edge")},
                    "more": {"type": "boolean", "description": "whether `limit` cut it off"},
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
                    "depth": {"type": ["integer", "null"], "description": "take that many steps at most"},
                    "max_edges": {"type": ["integer", "null"], "description": "look at that many edges at most"},
                    "timeout_ms": {"type": ["integer", "null"]},
                    "profile": {"type": "boolean"},
                    "strategy": {"enum": ["sync", "prefetch", "async", null],
                                 "description": "how the servers of a cluster go about it [default: prefetch]"},
                },
            },
            "Travel": graph,
            "Operations": {
                "description": "one of these objects a line (NDJSON): all apply, or none",
                "oneOf": ops,
            },
            "Commit": {
                "type": "object",
                "required": ["applied", "version", "vertices_created", "edges_created", "unchanged"],
                "properties": {
                    "applied": {"type": "boolean", "description": "false if the marker says that it was applied before"},
                    "version": {"type": "string"},
                    "vertices_created": {"type": "integer"},
                    "edges_created": {"type": "integer"},
                    "unchanged": {"type": "integer"},
                },
            },
            "OpenApi": {"type": "object", "required": ["openapi", "paths"]},
        }},
    })
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
        for endpoint in &API {
            for name in endpoint.parameters {
                assert_ne!(parameter(name)["description"], "", "{name}");
            }
        }
    }
}
