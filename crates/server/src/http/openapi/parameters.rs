//! Descriptions of parameters, by name.

use serde_json::{Value as Json, json};

/// Whether a parameter is a segment of the path.
pub(in super::super) fn in_path(name: &str) -> bool {
    matches!(
        name,
        "object" | "in_namespace" | "in_job" | "in_dataset" | "in_run"
    )
}

/// Name of a parameter in URLs: several parameters of the table may share one.
pub(in super::super) fn url_name(name: &str) -> &str {
    match name {
        "vertex_type" | "search_type" | "facets_of" => "type",
        "after_object" | "after_entry" | "after_run" | "after_edge" => "after",
        "object" | "run" | "lineage_id" | "in_run" => "id",
        "in_namespace" => "namespace",
        "in_job" => "job",
        "in_dataset" => "dataset",
        "node" => "nodeId",
        "files_filter" => "filter",
        "levels" | "around_depth" | "space_depth" => "depth",
        "path_under" | "path_shown" => "path",
        "slurm_cluster" => "cluster",
        "words" => "q",
        "space_by" => "by",
        "dots" | "runs_limit" | "suggest_limit" | "top" | "page_limit" => "limit",
        "page_offset" => "offset",
        "export_format" => "format",
        "tag" => "name",
        "text_typed" => "text",
        _ => name,
    }
}

/// Description and schema of a parameter.
pub(super) fn parameter(name: &str) -> Json {
    let (description, schema, required) = match name {
        "object" => (
            "an object's number",
            json!({"type": "string", "pattern": "^(object:)?[0-9]+$"}),
            true,
        ),
        "filter" => (
            "what must hold, in the language of docs/book/filters.md; everything does if it is empty",
            json!({"type": "string", "examples": ["name = 'VPIC' AND step BETWEEN 10 AND 20"]}),
            false,
        ),
        "path" => (
            "from the root; a byte that is not UTF-8 is `\\xHH`, a backslash is doubled, as in answers",
            json!({"type": "string", "examples": ["/project/run7"]}),
            true,
        ),
        "path_under" => (
            "by `dir`: directories from there on",
            json!({"type": "string", "default": "/"}),
            false,
        ),
        "follow" => (
            "`true`: if it is a symbolic link, what that leads to",
            json!({"type": "boolean"}),
            false,
        ),
        "after_entry" => (
            "continue after that entry: `next` of the previous answer",
            json!({"type": "string"}),
            false,
        ),
        "files_filter" => (
            "what must hold, in the language of docs/book/filters.md, of the names that docs/book/namespace.md lists",
            json!({"type": "string", "examples": ["size > 50MiB AND modified < 30d ago"]}),
            false,
        ),
        "levels" => (
            "how many levels of directories below it to include",
            json!({"type": "integer", "minimum": 0, "default": 0}),
            false,
        ),
        "by" => (
            "what sums are of",
            json!({"enum": ["dir", "user", "group", "kind", "type", "age"]}),
            true,
        ),
        "select" => (
            "attributes and tags to give, with commas; all if it is left out",
            json!({"type": "string"}),
            false,
        ),
        "count" => ("`true`: only count", json!({"type": "boolean"}), false),
        "explain" => (
            "`true`: only say how it would be done",
            json!({"type": "boolean"}),
            false,
        ),
        "uid" => (
            "the user id on whose behalf: only what they may read is returned",
            json!({"type": "integer"}),
            false,
        ),
        "gids" => (
            "the numbers of the groups that they are in, with commas",
            json!({"type": "string"}),
            false,
        ),
        "slurm_cluster" => (
            "goes before the job's number, where jobs of several clusters come into one database: `job:NAME/77`",
            json!({"type": "string"}),
            false,
        ),
        "rank" => (
            "which share of a search that several clients issue together, from 0",
            json!({"type": "integer", "minimum": 0}),
            false,
        ),
        "of" => (
            "how many shares there are: each object is in exactly one",
            json!({"type": "integer", "minimum": 1}),
            false,
        ),
        "after_object" => (
            "continue after that object: `next` of the previous answer",
            json!({"type": "string"}),
            false,
        ),
        "format" => (
            "`ndjson`: a line for each object as it is found, without a limit unless one is given, and a last line with the \
             report",
            json!({"enum": ["json", "ndjson"], "default": "json"}),
            false,
        ),
        "name" => ("ID attribute", json!({"type": "string"}), true),
        "app" => (
            "ID attribute: the application",
            json!({"type": "string", "default": ""}),
            false,
        ),
        "owner" => (
            "ID attribute: a user's number",
            json!({"type": "integer"}),
            true,
        ),
        "step" => (
            "ID attribute: the time step",
            json!({"type": "integer", "default": 0}),
            false,
        ),
        "id" => (
            "a vertex, as TYPE:KEY",
            json!({"type": "string", "examples": ["file:/scratch/a.h5"]}),
            true,
        ),
        "lineage_id" => (
            "a vertex, as TYPE:KEY; this or `nodeId`",
            json!({"type": "string", "examples": ["file:/scratch/a.h5"]}),
            false,
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
            "continue after that vertex: `next` of the previous answer",
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
        "place" => (
            "`place` of the previous answer",
            json!({"type": "string"}),
            false,
        ),
        "up" => (
            "levels to the left: an execution each, and what it read",
            json!({"type": "integer", "minimum": 0, "maximum": 16, "default": 1}),
            false,
        ),
        "down" => (
            "levels to the right: an execution each, and what it wrote",
            json!({"type": "integer", "minimum": 0, "maximum": 16, "default": 1}),
            false,
        ),
        "open" => (
            "vertices whose neighbours are shown as well, one a line; `<` before a name: only what it was made from, `>`: only what \
             was made from it",
            json!({"type": "string", "examples": ["<file:/scratch/a.h5"]}),
            false,
        ),
        "split" => (
            "groups whose members are shown, the first fifty of each: their ids, one a line",
            json!({"type": "string"}),
            false,
        ),
        "export_format" => (
            "as what",
            json!({"enum": ["ro-crate"], "default": "ro-crate"}),
            false,
        ),
        "q" => (
            "the text typed so far: a part of a name, a whole name (TYPE:KEY), a path",
            json!({"type": "string"}),
            true,
        ),
        "words" => (
            "words that a name is to contain, all of them, in any case; or a filter of objects (docs/book/filters.md)",
            json!({"type": "string", "default": ""}),
            false,
        ),
        "search_type" => (
            "of that vertex type only, and of those that specialise it",
            json!({"type": "string"}),
            false,
        ),
        "ending" => (
            "names with that ending only, as in `nc`",
            json!({"type": "string"}),
            false,
        ),
        "user" => (
            "whose: a user's number or name",
            json!({"type": "string"}),
            false,
        ),
        "skip" => (
            "skip this many: `skip` of the previous answer",
            json!({"type": "integer", "minimum": 0, "default": 0}),
            false,
        ),
        "suggest_limit" => (
            "how many items at most",
            json!({"type": "integer", "minimum": 1, "maximum": 50, "default": 12}),
            false,
        ),
        "runs_limit" => (
            "how many runs at most",
            json!({"type": "integer", "minimum": 1, "maximum": 2_000, "default": 100}),
            false,
        ),
        "top" => (
            "how many of the most frequent values",
            json!({"type": "integer", "minimum": 1, "maximum": 1_000, "default": 30}),
            false,
        ),
        "dots" => (
            "how many vertices at most",
            json!({"type": "integer", "minimum": 1, "maximum": 20_000, "default": 5_000}),
            false,
        ),
        "around_depth" => (
            "how many steps away",
            json!({"type": "integer", "minimum": 0, "maximum": 6, "default": 2}),
            false,
        ),
        "space_depth" => (
            "levels below the directory",
            json!({"type": "integer", "minimum": 0, "maximum": 6, "default": 2}),
            false,
        ),
        "space_by" => (
            "what sums are of; projects are the directories directly below `path`",
            json!({"enum": ["dir", "user", "project", "group", "type", "kind", "age"], "default": "dir"}),
            false,
        ),
        "path_shown" => (
            "the directory that is looked at",
            json!({"type": "string", "default": "/"}),
            false,
        ),
        "state" => (
            "in that state only",
            json!({"enum": ["running", "ok", "failed", "unknown"]}),
            false,
        ),
        "text" => (
            "with that in their name, id, host or command, in any case",
            json!({"type": "string"}),
            false,
        ),
        "since" => (
            "begun then or later: RFC 3339, a date, @SECONDS",
            json!({"type": "string"}),
            false,
        ),
        "after_edge" => (
            "continue after that edge: `next` of the previous answer",
            json!({"type": "string"}),
            false,
        ),
        "after_run" => (
            "continue after that run: `next` of the previous answer",
            json!({"type": "string"}),
            false,
        ),
        "run" | "a" | "b" => (
            "a run: its name, the number of a job, `last`, `last~1`",
            json!({"type": "string", "examples": ["job:4711"]}),
            true,
        ),
        "tag" => (
            "the name of a tag or attribute",
            json!({"type": "string"}),
            true,
        ),
        "what" => (
            "the language",
            json!({"enum": ["travel", "filter", "sparql"]}),
            true,
        ),
        "text_typed" => (
            "what stands there",
            json!({"type": "string", "default": ""}),
            false,
        ),
        "at" => (
            "the byte before which the cursor is; the end, if it is not given",
            json!({"type": "integer", "minimum": 0}),
            false,
        ),
        "from" => ("from then on", json!({"type": "string"}), false),
        "until" => ("before then", json!({"type": "string"}), false),
        "once" => (
            "an idempotency key: a batch whose key was applied before changes nothing, so that a call can be repeated",
            json!({"type": "string", "maxLength": 256}),
            false,
        ),
        "sync" => (
            "`true`: answer once it survives a power failure",
            json!({"type": "boolean"}),
            false,
        ),
        name => super::super::openlineage::parameter(name),
    };
    let place = if in_path(name) { "path" } else { "query" };
    json!({"name": url_name(name), "in": place, "required": required, "description": description, "schema": schema})
}
