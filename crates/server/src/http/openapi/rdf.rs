//! Description of SPARQL, graphs and RDF data management. Their routes are not in the table of the API, as they are defined by standards.

use serde_json::{Map, Value as Json, json};

/// Media types of solutions.
const SOLUTIONS: [&str; 4] = [
    "application/sparql-results+json",
    "application/sparql-results+xml",
    "text/csv",
    "text/tab-separated-values",
];
/// Media types of graphs.
const GRAPHS: [&str; 4] = [
    "text/turtle",
    "application/n-triples",
    "application/rdf+xml",
    "application/ld+json",
];

/// A parameter of the query string or of a form.
fn parameter(name: &str) -> Json {
    let text = || json!({"type": "string"});
    let iris = || json!({"type": "array", "items": {"type": "string", "format": "iri"}});
    let flag = || json!({"type": "boolean", "default": false});
    let (description, schema) = match name {
        "query" => ("a query", text()),
        "default-graph-uri" => (
            "graphs that together are the default graph, instead of FROM",
            iris(),
        ),
        "named-graph-uri" => ("graphs that GRAPH may ask, instead of FROM NAMED", iris()),
        "using-graph-uri" => (
            "of an update: graphs that its patterns ask, instead of USING",
            iris(),
        ),
        "using-named-graph-uri" => (
            "of an update: graphs that GRAPH may ask, instead of USING NAMED",
            iris(),
        ),
        "timeout" => ("how long it may take: 10, 10s or 500ms", text()),
        "explain" => (
            "`true`: say how it would be answered, with estimates, and do not run it; text, or JSON where it is accepted",
            flag(),
        ),
        "profile" => (
            "`true`: run it, and say how it was answered in the place of the answer; text, or JSON where it is accepted",
            flag(),
        ),
        "uid" => (
            "user id of the principal: only what it may read is returned, only graphs that they may write are changed",
            json!({"type": "integer"}),
        ),
        "gids" => ("group ids of the principal, separated by commas", text()),
        "sync" => ("`true`: answer after the write-ahead log is synced", flag()),
        "graph" => ("a graph's IRI", json!({"type": "string", "format": "iri"})),
        "default" => (
            "the default graph; without a value",
            json!({"type": "string", "maxLength": 0}),
        ),
        "format" => (
            "a dump's format; nt and ttl hold one graph",
            json!({"enum": ["nq", "trig", "nt", "ttl"], "default": "nq"}),
        ),
        "inferred" => ("`true`: with what was inferred", flag()),
        "infer" => (
            "by which rules to infer from now on",
            json!({"enum": ["rdfs", "owl-rl", "none"]}),
        ),
        "lenient" => (
            "`true`: skip statements that are wrong, and list them",
            flag(),
        ),
        _ => ("", json!({})),
    };
    let mut out = json!({"name": name, "in": "query", "required": false, "description": description, "schema": schema});
    if name == "default" {
        out["allowEmptyValue"] = json!(true);
    }
    out
}

fn parameters(names: &[&str]) -> Json {
    names.iter().map(|n| parameter(n)).collect()
}

fn content(kinds: &[&str]) -> Json {
    let all: Map<String, Json> = kinds
        .iter()
        .map(|kind| ((*kind).to_owned(), json!({"schema": {"type": "string"}})))
        .collect();
    json!(all)
}

/// An operation with its id, summary, parameters, and answers besides those common to all.
fn operation(id: &str, summary: &str, names: &[&str], answers: &[(&str, &str, Json)]) -> Json {
    let text = || content(&["text/plain"]);
    let mut responses = Map::new();
    for (status, description) in [
        (
            "400",
            "the request is malformed; the body says what is wrong, where, and what to do",
        ),
        (
            "429",
            "the server is busy, or this client asks too much at once; Retry-After says when to come back",
        ),
        ("501", "a server of a cluster, which has no RDF data"),
        ("503", "the server is stopping, or the time for it is over"),
    ] {
        responses.insert(
            status.into(),
            json!({"description": description, "content": text()}),
        );
    }
    for (status, description, content) in answers {
        let mut response = json!({"description": description});
        if !content.is_null() {
            response["content"] = content.clone();
        }
        responses.insert((*status).into(), response);
    }
    let mut out = json!({"operationId": id, "summary": summary, "responses": responses});
    if !names.is_empty() {
        out["parameters"] = parameters(names);
    }
    out
}

fn sparql() -> Json {
    let answers = |more: &[&str]| {
        let kinds: Vec<&str> = SOLUTIONS
            .iter()
            .chain(&GRAPHS)
            .chain(more)
            .copied()
            .collect();
        content(&kinds)
    };
    let not_acceptable = (
        "406",
        "the server has none of the formats that the client accepts",
        content(&["text/plain"]),
    );
    let about_query = [
        "default-graph-uri",
        "named-graph-uri",
        "timeout",
        "explain",
        "profile",
        "uid",
        "gids",
        "format",
    ];
    let get: Vec<&str> = ["query"].iter().chain(&about_query).copied().collect();
    let get = operation(
        "sparql_get",
        "a query's answer; without one, the description of the service",
        &get,
        &[
            (
                "200",
                "solutions, a truth or a graph",
                answers(&["application/json"]),
            ),
            not_acceptable.clone(),
        ],
    );
    let about_update = ["using-graph-uri", "using-named-graph-uri", "sync"];
    let post: Vec<&str> = about_query.iter().chain(&about_update).copied().collect();
    let mut post = operation(
        "sparql_post",
        "a query's answer, or an update, whole or not at all",
        &post,
        &[
            (
                "200",
                "solutions, a truth or a graph; of an update, how many quads were added and removed",
                answers(&["application/json"]),
            ),
            (
                "403",
                "an update from a page of a site that is not allowed",
                content(&["text/plain"]),
            ),
            not_acceptable,
            (
                "413",
                "the request is larger than the server takes",
                content(&["text/plain"]),
            ),
            (
                "415",
                "a body that is neither a query nor an update",
                content(&["text/plain"]),
            ),
        ],
    );
    let form = json!({"schema": {
        "type": "object",
        "description": "`query` or `update`, and the parameters",
        "properties": {"query": {"type": "string"}, "update": {"type": "string"}},
    }});
    let mut body = content(&["application/sparql-query", "application/sparql-update"]);
    body["application/x-www-form-urlencoded"] = form;
    post["requestBody"] = json!({"required": true, "content": body});
    json!({"get": get, "post": post})
}

/// Operations on graphs; `which` names the parameters that select a graph, and `path` says whether the URL's path does.
fn graphs(id: &str, which: &[&str], path: bool) -> Json {
    let names =
        |more: &[&'static str]| -> Vec<&str> { which.iter().chain(more).copied().collect() };
    let absent = ("404", "no such graph", content(&["text/plain"]));
    let done = |status, what| (status, what, Json::Null);
    let reading = names(&["timeout", "uid", "gids", "format"]);
    let mut item = Map::new();
    for (verb, what, body) in [
        ("get", "a graph", content(&GRAPHS)),
        ("head", "whether a graph is there", Json::Null),
    ] {
        let answers = [("200", "it", body), absent.clone()];
        item.insert(
            verb.into(),
            operation(&format!("{id}_{verb}"), what, &reading, &answers),
        );
    }
    for (verb, what) in [
        ("put", "makes a graph what the body says"),
        ("post", "adds to a graph"),
    ] {
        let answers = [
            ("200", "added to it", content(&["application/json"])),
            ("201", "it is new", content(&["application/json"])),
            done("204", "done"),
            (
                "413",
                "the body is larger than the server takes",
                content(&["text/plain"]),
            ),
            (
                "415",
                "a body in no format of graphs",
                content(&["text/plain"]),
            ),
        ];
        let mut operation = operation(
            &format!("{id}_{verb}"),
            what,
            &names(&["sync", "uid", "gids"]),
            &answers,
        );
        operation["requestBody"] = json!({"required": true, "content": content(&GRAPHS)});
        item.insert(verb.into(), operation);
    }
    let answers = [done("204", "dropped"), absent];
    item.insert(
        "delete".into(),
        operation(
            &format!("{id}_delete"),
            "drops a graph",
            &names(&["sync", "uid", "gids"]),
            &answers,
        ),
    );
    if path {
        item.insert(
            "parameters".into(),
            json!([{"name": "name", "in": "path", "required": true, "schema": {"type": "string"},
                    "description": "the rest of the graph's IRI, which is this URL"}]),
        );
    }
    json!(item)
}

/// Returns the paths in the format of the document.
pub(super) fn paths() -> Map<String, Json> {
    let json = || content(&["application/json"]);
    let mut all = Map::new();
    all.insert("/sparql".into(), sparql());
    all.insert(
        "/rdf-graphs".into(),
        graphs("graph", &["graph", "default"], false),
    );
    all.insert("/rdf-graphs/{name}".into(), graphs("graph_here", &[], true));
    let mut care = |what: &str, verb: &str, operation: Json| {
        all.insert(format!("/api/v1/rdf/{what}"), json!({verb: operation}));
    };
    let stats = operation(
        "rdf_stats",
        "what RDF data there is",
        &["uid", "gids"],
        &[("200", "figures", json())],
    );
    care("stats", "get", stats);
    let kinds = [
        "application/n-quads",
        "application/trig",
        "application/n-triples",
        "text/turtle",
    ];
    let dump = operation(
        "rdf_dump",
        "all quads, or a graph (`default` is the default one)",
        &["graph", "format", "inferred", "uid", "gids"],
        &[
            ("200", "the data", content(&kinds)),
            ("404", "no such graph", content(&["text/plain"])),
        ],
    );
    care("dump", "get", dump);
    let mut load = operation(
        "rdf_load",
        "loads files, all of them or none",
        &["graph", "infer", "lenient", "sync", "uid", "gids"],
        &[("200", "what was loaded", json())],
    );
    load["requestBody"] = json!({"required": true, "content": {"application/octet-stream": {"schema": {
        "type": "string",
        "description": "files one after another, each behind a line of JSON: name, format (nt, nq, ttl, trig, rdf, jsonld), packing \
                        (gzip, zstd), base, bytes",
    }}}});
    care("load", "post", load);
    let checkpoint = operation(
        "rdf_checkpoint",
        "writes an image of all RDF data",
        &["uid", "gids"],
        &[("200", "quads and bytes", json())],
    );
    care("checkpoint", "post", checkpoint);
    let drop = operation(
        "rdf_drop",
        "forgets all RDF data",
        &["uid", "gids"],
        &[("200", "how much there was", json())],
    );
    care("drop", "post", drop);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parameter_is_described() {
        for (path, item) in paths() {
            for (verb, operation) in item.as_object().unwrap() {
                if verb == "parameters" {
                    continue;
                }
                for p in operation["parameters"].as_array().into_iter().flatten() {
                    assert_ne!(p["description"], "", "{verb} {path}: {p}");
                }
            }
        }
    }
}
