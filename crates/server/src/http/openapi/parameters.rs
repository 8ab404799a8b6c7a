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
            "number of an object",
            json!({"type": "string", "pattern": "^(object:)?[0-9]+$"}),
            true,
        ),
        "filter" => (
            "filter in the language of docs/book/filters.md; an empty filter selects all",
            json!({"type": "string", "examples": ["name = 'VPIC' AND step BETWEEN 10 AND 20"]}),
            false,
        ),
        "path" => (
            "path from the root; a byte that is not UTF-8 is `\\xHH`, a backslash is doubled, as in answers",
            json!({"type": "string", "examples": ["/project/run7"]}),
            true,
        ),
        "path_under" => (
            "with `by=dir`: only directories below this path",
            json!({"type": "string", "default": "/"}),
            false,
        ),
        "follow" => (
            "`true`: follow a symbolic link as the last name",
            json!({"type": "boolean"}),
            false,
        ),
        "after" | "after_edge" | "after_entry" | "after_object" | "after_run" => (
            "cursor: `next` of the previous answer",
            json!({"type": "string"}),
            false,
        ),
        "files_filter" => (
            "filter in the language of docs/book/filters.md over the names that docs/book/namespace.md lists",
            json!({"type": "string", "examples": ["size > 50MiB AND modified < 30d ago"]}),
            false,
        ),
        "levels" => (
            "number of levels of directories below the path",
            json!({"type": "integer", "minimum": 0, "default": 0}),
            false,
        ),
        "by" => (
            "grouping of the sums",
            json!({"enum": ["dir", "user", "group", "kind", "type", "age"]}),
            true,
        ),
        "select" => (
            "attributes and tags to return, separated by commas [default: all]",
            json!({"type": "string"}),
            false,
        ),
        "count" => ("`true`: only count", json!({"type": "boolean"}), false),
        "explain" => (
            "`true`: return the plan and do not run the search",
            json!({"type": "boolean"}),
            false,
        ),
        "uid" => (
            "user id of the principal: only what it may read is returned",
            json!({"type": "integer"}),
            false,
        ),
        "gids" => (
            "group ids of the principal, separated by commas",
            json!({"type": "string"}),
            false,
        ),
        "slurm_cluster" => (
            "prefix of the job's number, where several clusters share one database: `job:NAME/77`",
            json!({"type": "string"}),
            false,
        ),
        "rank" => (
            "index of this client's share of a search that several clients run together, from 0",
            json!({"type": "integer", "minimum": 0}),
            false,
        ),
        "of" => (
            "number of shares: each object is in exactly one",
            json!({"type": "integer", "minimum": 1}),
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
            "ID attribute: the owner's user id",
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
            "read as of this time: RFC 3339, a date (its end), @SECONDS, or a version from an answer",
            json!({"type": "string"}),
            false,
        ),
        "type" => (
            "name of a type; several edge types are separated by commas",
            json!({"type": "string"}),
            false,
        ),
        "vertex_type" => (
            "name of a vertex type; types that specialise it are included",
            json!({"type": "string"}),
            true,
        ),
        "all" => (
            "`true`: the limits of all users, groups and projects; needs role `admin`",
            json!({"type": "boolean"}),
            false,
        ),
        "dst" => (
            "with `type`: the edge's destination, as TYPE:KEY",
            json!({"type": "string"}),
            false,
        ),
        "limit" => (
            "maximum number of items",
            json!({"type": "integer", "minimum": 1, "maximum": 100_000, "default": 1_000}),
            false,
        ),
        "depth" => (
            "maximum number of executions on a path",
            json!({"type": "integer", "minimum": 0}),
            false,
        ),
        "place" => (
            "`place` of the previous answer",
            json!({"type": "string"}),
            false,
        ),
        "up" => (
            "levels to the left: an execution and its inputs each",
            json!({"type": "integer", "minimum": 0, "maximum": 16, "default": 1}),
            false,
        ),
        "down" => (
            "levels to the right: an execution and its outputs each",
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
            "ids of groups whose first fifty members are shown, one per line",
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
            "words that a name contains, in any case; or a filter of objects (docs/book/filters.md)",
            json!({"type": "string", "default": ""}),
            false,
        ),
        "search_type" => (
            "only vertices of this type and of types that specialise it",
            json!({"type": "string"}),
            false,
        ),
        "ending" => (
            "only names with this extension, as in `nc`",
            json!({"type": "string"}),
            false,
        ),
        "user" => (
            "user id or name of the owner",
            json!({"type": "string"}),
            false,
        ),
        "skip" => (
            "number of items to skip: `skip` of the previous answer",
            json!({"type": "integer", "minimum": 0, "default": 0}),
            false,
        ),
        "suggest_limit" => (
            "maximum number of items",
            json!({"type": "integer", "minimum": 1, "maximum": 50, "default": 12}),
            false,
        ),
        "runs_limit" => (
            "maximum number of runs",
            json!({"type": "integer", "minimum": 1, "maximum": 2_000, "default": 100}),
            false,
        ),
        "top" => (
            "maximum number of values, the most frequent first",
            json!({"type": "integer", "minimum": 1, "maximum": 1_000, "default": 30}),
            false,
        ),
        "dots" => (
            "maximum number of vertices",
            json!({"type": "integer", "minimum": 1, "maximum": 20_000, "default": 5_000}),
            false,
        ),
        "around_depth" => (
            "maximum number of steps from the vertex",
            json!({"type": "integer", "minimum": 0, "maximum": 6, "default": 2}),
            false,
        ),
        "space_depth" => (
            "levels below the directory",
            json!({"type": "integer", "minimum": 0, "maximum": 6, "default": 2}),
            false,
        ),
        "space_by" => (
            "grouping of the sums; projects are the directories directly below `path`",
            json!({"enum": ["dir", "user", "project", "group", "type", "kind", "age"], "default": "dir"}),
            false,
        ),
        "path_shown" => (
            "path of the directory",
            json!({"type": "string", "default": "/"}),
            false,
        ),
        "state" => (
            "only runs in this state",
            json!({"enum": ["running", "ok", "failed", "unknown"]}),
            false,
        ),
        "text" => (
            "only runs with this text in their name, id, host or command, in any case",
            json!({"type": "string"}),
            false,
        ),
        "since" => (
            "only runs that began at this time or later: RFC 3339, a date, @SECONDS",
            json!({"type": "string"}),
            false,
        ),
        "run" | "a" | "b" => (
            "a run: its name, a job's number, `last`, `last~1`",
            json!({"type": "string", "examples": ["job:4711"]}),
            true,
        ),
        "tag" => (
            "name of a tag or attribute",
            json!({"type": "string"}),
            true,
        ),
        "what" => (
            "the language",
            json!({"enum": ["travel", "filter", "sparql"]}),
            true,
        ),
        "text_typed" => (
            "text of the input",
            json!({"type": "string", "default": ""}),
            false,
        ),
        "at" => (
            "byte offset of the cursor [default: the end]",
            json!({"type": "integer", "minimum": 0}),
            false,
        ),
        "from" => ("from then on", json!({"type": "string"}), false),
        "until" => ("before then", json!({"type": "string"}), false),
        "once" => (
            "idempotency key: a batch with a key that was applied before changes nothing, so that a call can be repeated",
            json!({"type": "string", "maxLength": 256}),
            false,
        ),
        "sync" => (
            "`true`: answer after the write-ahead log is synced",
            json!({"type": "boolean"}),
            false,
        ),
        name => super::super::openlineage::parameter(name),
    };
    let place = if in_path(name) { "path" } else { "query" };
    json!({"name": url_name(name), "in": place, "required": required, "description": description, "schema": schema})
}
