//! Schemas of the answers to the console's pages.

use serde_json::{Map, Value as Json, json};

fn text() -> Json {
    json!({"type": "string"})
}

fn maybe_text() -> Json {
    json!({"type": ["string", "null"]})
}

fn integer() -> Json {
    json!({"type": "integer"})
}

fn maybe_integer() -> Json {
    json!({"type": ["integer", "null"]})
}

fn number() -> Json {
    json!({"type": "number"})
}

fn maybe_number() -> Json {
    json!({"type": ["number", "null"]})
}

fn flag() -> Json {
    json!({"type": "boolean"})
}

fn list(items: &Json) -> Json {
    json!({"type": "array", "items": items})
}

fn one_of(words: &[&str]) -> Json {
    json!({"type": "string", "enum": words})
}

fn counts() -> Json {
    json!({"type": "object", "additionalProperties": {"type": "integer"}})
}

fn anything() -> Json {
    json!({"type": "object", "additionalProperties": true})
}

fn named(name: &str) -> Json {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn maybe(schema: &Json) -> Json {
    json!({"anyOf": [schema, {"type": "null"}]})
}

/// An object with all of these properties required.
fn object_of<const N: usize>(properties: [(&str, Json); N]) -> Json {
    let required: Vec<&str> = properties.iter().map(|(name, _)| *name).collect();
    let required = json!(required);
    let properties: Map<String, Json> = properties
        .into_iter()
        .map(|(name, schema)| (name.to_owned(), schema))
        .collect();
    json!({"type": "object", "required": required, "properties": properties})
}

/// Schemas of these answers, by name.
pub(super) fn schemas() -> Vec<(&'static str, Json)> {
    let stopped = maybe(&named("Stopped"));
    let step = object_of([
        ("step", integer()),
        ("text", text()),
        ("frontier", integer()),
        ("edges", integer()),
        ("selected", integer()),
        ("reached", integer()),
        ("cached", integer()),
        ("micros", integer()),
    ]);
    let server_step = object_of([
        ("server", integer()),
        ("step", integer()),
        ("frontier", integer()),
        ("edges", integer()),
        ("vertices_micros", integer()),
        ("edges_micros", integer()),
        ("prefetch_micros", integer()),
        ("wait_micros", integer()),
    ]);
    let traversal = object_of([
        ("at", text()),
        ("chain", text()),
        ("micros", integer()),
        ("complete", flag()),
        ("profile", list(&step)),
        ("servers", list(&server_step)),
    ]);
    let run_state = one_of(&["running", "ok", "failed", "unknown"]);
    let facet = list(&object_of([("value", text()), ("count", integer())]));
    let facets = json!({"type": "object", "additionalProperties": facet});
    let runs = list(&named("Run"));
    let used = list(&named("Used"));
    let sums = || {
        [
            ("files", integer()),
            ("directories", integer()),
            ("bytes", integer()),
            ("blocks", integer()),
        ]
    };
    let [files, directories, bytes, blocks] = sums();
    let mut directory = object_of([
        ("name", text()),
        ("path", text()),
        files,
        directories,
        bytes,
        blocks,
        ("own_bytes", integer()),
        ("children", list(&named("SpaceDirectory"))),
    ]);
    directory["properties"]["rest"] = object_of([
        ("count", integer()),
        ("bytes", integer()),
        ("files", integer()),
    ]);
    let [files, directories, bytes, blocks] = sums();
    let space_row = object_of([("name", text()), files, directories, bytes, blocks]);
    vec![
        (
            "RoCrate",
            object_of([("@context", json!({})), ("@graph", list(&anything()))]),
        ),
        (
            "Stopped",
            object_of([("reason", text()), ("looked_at", integer())]),
        ),
        (
            "Run",
            object_of([
                ("id", text()),
                ("kind", text()),
                ("name", maybe_text()),
                ("user", maybe_text()),
                ("host", maybe_text()),
                ("begin", maybe_text()),
                ("end", maybe_text()),
                ("seconds", maybe_number()),
                ("state", run_state),
                ("ended", maybe_text()),
                ("exit", maybe_integer()),
                ("inputs", integer()),
                ("outputs", integer()),
                ("command", maybe_text()),
            ]),
        ),
        (
            "Change",
            object_of([
                ("version", text()),
                ("id", text()),
                ("type", maybe_text()),
                (
                    "change",
                    one_of(&["written", "deleted", "linked", "unlinked"]),
                ),
                (
                    "edge",
                    maybe(&object_of([("type", maybe_text()), ("to", text())])),
                ),
            ]),
        ),
        (
            "Health",
            object_of([
                ("name", text()),
                ("state", one_of(&["ok", "warn", "bad"])),
                ("text", text()),
                ("remedy", maybe_text()),
            ]),
        ),
        (
            "Home",
            object_of([
                ("vertices", counts()),
                ("edges", counts()),
                ("newest", maybe_text()),
                ("retained_since", maybe_text()),
                ("bytes", integer()),
                (
                    "rate",
                    object_of([
                        ("step_s", integer()),
                        ("from", integer()),
                        ("operations", list(&number())),
                        ("calls", list(&number())),
                    ]),
                ),
                ("runs", runs.clone()),
                ("runs_stopped", stopped.clone()),
                ("changes", list(&named("Change"))),
                ("changes_known", flag()),
                ("health", list(&named("Health"))),
            ]),
        ),
        (
            "Suggestions",
            object_of([
                (
                    "items",
                    list(&object_of([
                        (
                            "kind",
                            one_of(&["path", "vertex", "user", "tag", "run", "type"]),
                        ),
                        ("name", text()),
                        ("label", text()),
                        ("detail", text()),
                        ("type", maybe_text()),
                    ])),
                ),
                ("stopped", flag()),
            ]),
        ),
        (
            "Search",
            object_of([
                ("how", one_of(&["words", "filter"])),
                (
                    "items",
                    list(&object_of([
                        ("id", text()),
                        ("kind", text()),
                        ("type", text()),
                        ("label", maybe_text()),
                        ("detail", text()),
                        ("user", maybe_text()),
                        ("begin", maybe_text()),
                        ("size", maybe_integer()),
                        ("version", text()),
                        ("tags", anything()),
                    ])),
                ),
                ("matches", integer()),
                ("facets", facets),
                ("skip", maybe_integer()),
                ("stopped", stopped.clone()),
                ("micros", integer()),
            ]),
        ),
        (
            "Neighbourhood",
            object_of([
                (
                    "vertices",
                    list(&object_of([
                        ("id", text()),
                        ("type", text()),
                        ("label", text()),
                        ("x", number()),
                        ("y", number()),
                        ("degree", integer()),
                        ("depth", integer()),
                    ])),
                ),
                (
                    "edges",
                    list(
                        &json!({"type": "array", "items": {"type": "integer"}, "minItems": 3, "maxItems": 3,
                                 "description": "from, to, and the number of the type in `types`"}),
                    ),
                ),
                ("types", list(&text())),
                ("held_back", integer()),
                ("held_back_more", flag()),
                ("edges_held_back", integer()),
                ("micros", integer()),
            ]),
        ),
        ("SpaceDirectory", directory),
        (
            "SpaceView",
            object_of([
                ("by", maybe_text()),
                ("root", maybe(&named("SpaceDirectory"))),
                ("rows", list(&space_row)),
                ("cut", flag()),
                ("files", integer()),
                ("bytes", integer()),
            ]),
        ),
        (
            "Runs",
            object_of([
                ("runs", runs.clone()),
                ("next", maybe_text()),
                ("stopped", stopped.clone()),
            ]),
        ),
        (
            "Used",
            object_of([
                ("id", text()),
                ("label", text()),
                ("version", text()),
                ("size", maybe_integer()),
                ("properties", anything()),
            ]),
        ),
        (
            "RunPage",
            object_of([
                ("run", named("Run")),
                ("attributes", anything()),
                ("settings", list(&text())),
                ("environment", list(&text())),
                ("modules", list(&text())),
                ("git", anything()),
                ("slurm", anything()),
                ("executables", used.clone()),
                ("reads", used.clone()),
                ("writes", used),
                ("parents", runs.clone()),
                ("children", runs),
                ("parts_max", maybe_integer()),
            ]),
        ),
        (
            "RunsDiff",
            object_of([
                ("a", named("Run")),
                ("b", named("Run")),
                (
                    "sections",
                    list(&object_of([
                        ("name", text()),
                        (
                            "rows",
                            list(&object_of([
                                ("name", text()),
                                ("before", maybe_text()),
                                ("after", maybe_text()),
                                ("change", text()),
                                ("same", flag()),
                                ("expected", flag()),
                            ])),
                        ),
                    ])),
                ),
                ("differing", integer()),
                ("same", integer()),
                ("expected", integer()),
            ]),
        ),
        (
            "TagValues",
            object_of([
                ("name", text()),
                ("objects", integer()),
                (
                    "spread",
                    object_of([
                        ("count", integer()),
                        ("kinds", counts()),
                        ("distinct", integer()),
                        ("distinct_more", flag()),
                        (
                            "top",
                            list(&object_of([("value", json!({})), ("count", integer())])),
                        ),
                        (
                            "histogram",
                            maybe(&object_of([
                                ("from", number()),
                                ("to", number()),
                                ("bins", list(&integer())),
                                ("exact", flag()),
                            ])),
                        ),
                    ]),
                ),
                ("stopped", stopped),
            ]),
        ),
        (
            "Completion",
            object_of([
                ("from", integer()),
                (
                    "items",
                    list(&object_of([
                        ("label", text()),
                        ("kind", text()),
                        ("detail", text()),
                        ("apply", text()),
                    ])),
                ),
            ]),
        ),
        (
            "Cluster",
            object_of([
                ("kind", one_of(&["folder", "cluster"])),
                ("name", maybe_text()),
                ("placement", maybe_text()),
                ("threshold", maybe_integer()),
                ("vnodes", maybe_integer()),
                ("traversals", list(&traversal)),
                (
                    "hubs",
                    list(&object_of([
                        ("id", text()),
                        ("edge_type", maybe_text()),
                        ("edges", integer()),
                    ])),
                ),
                (
                    "servers",
                    list(&object_of([
                        ("server", integer()),
                        ("address", text()),
                        ("state", one_of(&["serving", "joining", "down"])),
                        ("problem", maybe_text()),
                        ("newest", maybe_text()),
                        ("vertices", maybe_integer()),
                        ("edges", maybe_integer()),
                        ("bytes", maybe_integer()),
                        ("vnodes", maybe_integer()),
                        ("split_vertices", maybe_integer()),
                        ("calls_per_s", maybe_number()),
                        ("writes_per_s", maybe_number()),
                        ("asked", maybe_integer()),
                        ("unanswered", maybe_integer()),
                        ("unsaved", maybe_integer()),
                    ])),
                ),
            ]),
        ),
        (
            "Session",
            object_of([
                ("who", text()),
                ("role", one_of(&["read", "write", "admin"])),
                (
                    "how",
                    one_of(&[
                        "process",
                        "key",
                        "certificate",
                        "local",
                        "munge",
                        "token",
                        "session",
                        "server",
                        "oidc",
                    ]),
                ),
                ("user", maybe_text()),
                ("name", maybe_text()),
                (
                    "server",
                    object_of([
                        ("version", text()),
                        ("target", text()),
                        ("kind", one_of(&["folder", "cluster"])),
                        ("pid", integer()),
                    ]),
                ),
            ]),
        ),
        (
            "OidcProvider",
            object_of([
                ("issuer", maybe_text()),
                ("name", maybe_text()),
                ("client_id", maybe_text()),
                ("scopes", maybe_text()),
                ("audience", maybe_text()),
                ("login", maybe_text()),
            ]),
        ),
        (
            "Sites",
            object_of([(
                "tiers",
                list(&object_of([
                    ("url", text()),
                    ("state", one_of(&["up", "down"])),
                    ("problem", maybe_text()),
                    ("status", maybe(&anything())),
                ])),
            )]),
        ),
    ]
}
