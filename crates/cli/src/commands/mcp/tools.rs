//! The tools: their parameters and answers.

use super::answer::{AnswerLimits, Stop, evidence_of, limit_size};
use super::sparql;
use crate::commands::find::search;
use crate::graph::NamedVertex;
use crate::times::parse_as_of;
use esker::Database;
use esker::lineage::{Direction, LineageOptions, render_json};
use esker_model::object::{Find, ObjectRead as _, Principal};
use esker_model::{Error, GraphRead as _, Version, VertexName};
use esker_record::{Change, diff_runs, find_run};
use esker_terminal::output::properties_json;
use rmcp::model::ToolAnnotations;
use serde_json::{Map, Value as Json, json};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Maximum number of tags in the answer of `schema`.
const TAGS: usize = 200;

/// State that all tools share.
pub(super) struct ToolContext {
    pub(super) database: Database,
    pub(super) target: String,
    pub(super) principal: Option<Principal>,
    pub(super) memory: u64,
    pub(super) limits: AnswerLimits,
}

type Arguments = Map<String, Json>;
type ToolAnswer = Result<Json, String>;

/// One tool of the server.
pub(super) struct Tool {
    pub(super) name: &'static str,
    title: &'static str,
    description: &'static str,
    /// Parameters: name, JSON type, description, whether it is required.
    parameters: &'static [(&'static str, &'static str, &'static str, bool)],
    run: fn(&ToolContext, &CheckedArguments<'_>, &Stop) -> ToolAnswer,
}

const AS_OF: (&str, &str, &str, bool) = (
    "as_of",
    "string",
    "as it was then: 2026-03-01, 2026-03-01T12:00:00Z, or a version that an answer gave; now if it is left out",
    false,
);
const DEPTH: (&str, &str, &str, bool) = (
    "depth",
    "integer",
    "maximum number of runs along a path",
    false,
);

/// All tools; none changes anything.
pub(super) const TOOLS: [Tool; 6] = [
    Tool {
        name: "schema",
        title: "What is in the database",
        description: "The types of vertices and edges with how many there are of each, and the tags of objects: what other tools can be asked about.",
        parameters: &[],
        run: schema,
    },
    Tool {
        name: "find",
        title: "Search objects",
        description: "Searches objects (data with tags, as harvested from file headers) by a filter such as: TELESCOP = 'HST' AND EXPTIME > 100. Operators: = != < <= > >= BETWEEN, IN, LIKE, MATCHES, CONTAINS, EXISTS, AND, OR, NOT.",
        parameters: &[
            (
                "filter",
                "string",
                "what must hold; everything if it is empty",
                true,
            ),
            ("limit", "integer", "maximum number of results", false),
        ],
        run: find,
    },
    Tool {
        name: "lineage",
        title: "How something came to be",
        description: "The runs that wrote it, what they read, with which programs, for whom, and so on back to the beginning. For a file, an object or a run.",
        parameters: &[
            (
                "vertex",
                "string",
                "TYPE:KEY, as in file:/scratch/plot.png",
                true,
            ),
            DEPTH,
            AS_OF,
        ],
        run: lineage,
    },
    Tool {
        name: "impact",
        title: "What was made of something",
        description: "The runs that read it, what they wrote, and so on. For a file, an object, an executable, a run or a user.",
        parameters: &[
            (
                "vertex",
                "string",
                "TYPE:KEY, as in file:/scratch/raw.h5",
                true,
            ),
            DEPTH,
            AS_OF,
        ],
        run: impact,
    },
    Tool {
        name: "diff",
        title: "What differs between two runs",
        description: "Settings, arguments, inputs and their versions, modules, git, environment, outputs.",
        parameters: &[
            (
                "before",
                "string",
                "a run: execution:ID, job:4711, 4711, last, last~1",
                true,
            ),
            ("after", "string", "the other run", true),
        ],
        run: diff,
    },
    Tool {
        name: "sparql",
        title: "Ask the RDF data",
        description: "A SPARQL 1.1 query (SELECT, ASK, CONSTRUCT, DESCRIBE). Updates are refused.",
        parameters: &[("query", "string", "the query; give it a LIMIT", true)],
        run: sparql::answer,
    },
];

/// The checked arguments of a call.
pub(super) struct CheckedArguments<'a>(&'a Arguments);

impl<'a> CheckedArguments<'a> {
    pub(super) fn text(&self, name: &str) -> Result<&'a str, String> {
        match self.optional(name)? {
            Some(text) => Ok(text),
            None => Err(format!("`{name}` is missing")),
        }
    }

    fn optional(&self, name: &str) -> Result<Option<&'a str>, String> {
        match self.0.get(name) {
            None | Some(Json::Null) => Ok(None),
            Some(Json::String(text)) => Ok(Some(text)),
            Some(other) => Err(format!("`{name}`: expected a string; got {other}")),
        }
    }

    fn number(&self, name: &str) -> Result<Option<u64>, String> {
        match self.0.get(name) {
            None | Some(Json::Null) => Ok(None),
            Some(value) => value
                .as_u64()
                .map(Some)
                .ok_or_else(|| format!("`{name}`: expected a whole number from 0; got {value}")),
        }
    }
}

impl Tool {
    /// Returns the description of the tool for clients.
    pub(super) fn definition(&self) -> rmcp::model::Tool {
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for (name, kind, what, needed) in self.parameters {
            properties.insert(
                (*name).to_owned(),
                json!({"type": kind, "description": what}),
            );
            if *needed {
                required.push(*name);
            }
        }
        let mut schema = Map::new();
        schema.insert("type".into(), "object".into());
        schema.insert("properties".into(), properties.into());
        schema.insert("required".into(), required.into());
        schema.insert("additionalProperties".into(), false.into());
        let mut tool = rmcp::model::Tool::new(self.name, self.description, Arc::new(schema));
        tool.title = Some(self.title.to_owned());
        let title = Some(self.title.to_owned());
        tool.annotations = Some(ToolAnnotations::from_raw(
            title,
            Some(true),
            Some(false),
            Some(true),
            Some(false),
        ));
        tool
    }

    /// Runs the tool; returns a message if the arguments are wrong.
    pub(super) fn answer(
        &self,
        tool_context: &ToolContext,
        arguments: &Arguments,
        stop: &Stop,
    ) -> ToolAnswer {
        let known = |name: &str| self.parameters.iter().any(|(known, ..)| *known == name);
        if let Some(name) = arguments.keys().find(|name| !known(name)) {
            let names: Vec<&str> = self.parameters.iter().map(|(name, ..)| *name).collect();
            return Err(format!(
                "`{name}` is not an argument of {}; it takes: {}",
                self.name,
                names.join(", ")
            ));
        }
        (self.run)(tool_context, &CheckedArguments(arguments), stop)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn error_text(e: Error) -> String {
    e.to_string()
}

fn as_of(arguments: &CheckedArguments<'_>) -> Result<Version, String> {
    match arguments.optional("as_of")? {
        None => Ok(Version::MAX),
        Some(text) => parse_as_of(text).map_err(|e| format!("`as_of`: {e}")),
    }
}

fn schema(tool_context: &ToolContext, _: &CheckedArguments<'_>, stop: &Stop) -> ToolAnswer {
    let database = &tool_context.database;
    let schema = database.schema().map_err(error_text)?;
    let counts = database.counts().map_err(error_text)?;
    let vertex_types = schema.vertex_types().map(|(id, t)| {
        let parent = t.parent.and_then(|p| schema.vertex_type(p)).map(|p| &p.name);
        let attributes: Json = t.attributes.iter().map(|a| json!({"name": a.name, "kind": a.kind.name()})).collect();
        let count = counts.vertices.iter().find(|(of, _)| *of == id).map_or(0, |(_, n)| *n);
        json!({"type": t.name, "written": format!("{}:KEY", schema.prefix(id)), "specialises": parent, "attributes": attributes, "count": count})
    });
    let vertex_types: Json = vertex_types.collect();
    let edge_types = schema.edge_types().filter(|(_, t)| t.forward).map(|(id, t)| {
        let name = |of| schema.vertex_type(of).map(|t| &t.name);
        let inverse = schema.edge_type(t.inverse).map(|t| &t.name);
        let count = counts.edges.iter().find(|(of, _)| *of == id).map_or(0, |(_, n)| *n);
        json!({"type": t.name, "inverse": inverse, "from": name(t.source), "to": name(t.destination), "count": count})
    });
    let edge_types: Json = edge_types.collect();
    let mut tags = database
        .tags(tool_context.principal.as_ref())
        .map_err(error_text)?;
    tags.retain(|t| !t.predefined);
    tags.sort_unstable_by_key(|t| std::cmp::Reverse(t.objects));
    let total = tags.len();
    let tags: Json = tags
        .iter()
        .take(TAGS)
        .map(|t| json!({"name": t.name, "objects": t.objects}))
        .collect();
    let answer = json!({
        "database": tool_context.target,
        "vertex_types": vertex_types,
        "edge_types": edge_types,
        "tags": tags,
        "evidence": {"counts": "exact, as of now"},
    });
    // A schema has few types, but may have many tags.
    let limits = AnswerLimits {
        rows: tool_context.limits.rows.max(TAGS),
        ..tool_context.limits
    };
    let whole = total <= TAGS && stop.stop_reason().is_none();
    Ok(limit_size(
        answer,
        &["tags", "vertex_types", "edge_types"],
        limits,
        whole,
    ))
}

fn find(tool_context: &ToolContext, arguments: &CheckedArguments<'_>, stop: &Stop) -> ToolAnswer {
    let text = arguments.text("filter")?;
    let filter = search::parse(text).map_err(|e| e.to_string())?;
    let schema = tool_context.database.schema().map_err(error_text)?;
    filter.check_kinds_of_objects(&schema).map_err(error_text)?;
    let most = arguments.number("limit")?.unwrap_or(u64::MAX);
    let most = most.min(tool_context.limits.rows as u64);
    let find = Find {
        // One more than the limit shows whether there are more.
        limit: Some(most.saturating_add(1)),
        principal: tool_context.principal.clone(),
        ..Find::all(filter)
    };
    let mut objects = Vec::new();
    let report = tool_context.database.find(&find, stop, &mut |found| {
        objects.push(json!({
            "object": format!("object:{}", found.id),
            "attributes": properties_json(&found.attributes),
            "tags": properties_json(&found.tags),
            "created": found.created.to_string(),
            "modified": found.modified.to_string(),
        }));
        ControlFlow::Continue(())
    });
    let report = report.map_err(error_text)?;
    search::refuse_unknown(&report, text, false).map_err(|e| e.to_string())?;
    let more = objects.len() as u64 > most;
    objects.truncate(most as usize);
    let plan: Json = report
        .plan
        .iter()
        .map(|step| json!({"term": step.term, "access": step.access, "left": step.left}))
        .collect();
    let answer = json!({
        "database": tool_context.target,
        "filter": text,
        "objects": objects,
        "evidence": {"of_each": "its number, and the versions at which it was created and last modified", "searched": plan,
                     "servers_missing": report.missing},
    });
    Ok(limit_size(
        answer,
        &["objects"],
        tool_context.limits,
        report.complete && !more,
    ))
}

fn lineage(
    tool_context: &ToolContext,
    arguments: &CheckedArguments<'_>,
    stop: &Stop,
) -> ToolAnswer {
    walk(tool_context, arguments, Direction::Lineage, stop)
}

fn impact(tool_context: &ToolContext, arguments: &CheckedArguments<'_>, stop: &Stop) -> ToolAnswer {
    walk(tool_context, arguments, Direction::Impact, stop)
}

fn walk(
    tool_context: &ToolContext,
    arguments: &CheckedArguments<'_>,
    direction: Direction,
    stop: &Stop,
) -> ToolAnswer {
    let database = &tool_context.database;
    let schema = database.schema().map_err(error_text)?;
    let named = VertexName::parse(arguments.text("vertex")?)
        .map_err(Error::from)
        .and_then(|name| NamedVertex::resolve(name, database, &schema))
        .and_then(|named| named.or_only_job(database, &schema))
        .map_err(error_text)?;
    let depth = arguments.number("depth")?;
    let options = LineageOptions {
        as_of: as_of(arguments)?,
        depth: depth.map(|d| u32::try_from(d).unwrap_or(u32::MAX)),
        vertices: Some(tool_context.limits.rows as u64),
        bytes: Some(tool_context.memory),
        ..LineageOptions::default()
    };
    let found = match direction {
        Direction::Lineage => esker::lineage::lineage(database, named.vertex.id, &options, stop),
        Direction::Impact => esker::lineage::impact(database, named.vertex.id, &options, stop),
    };
    let found = match found {
        Err(Error::NoVertex { hint, .. }) => return Err(named.missing(&hint).to_string()),
        found => found.map_err(error_text)?,
    };
    let text = render_json(&found, &schema);
    let mut answer: Json = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    let complete = answer["complete"] == Json::Bool(true);
    answer["database"] = tool_context.target.as_str().into();
    answer["evidence"] = json!({
        "edges_by_who_says_so": evidence_of(&answer["edges"]),
        "of_each": "edges have the version at which they were written; `evidence` among their properties says whether an instrument observed it, a program declared it, or a document asserted it",
        "as_of": match options.as_of {
            Version::MAX => "now".to_owned(),
            version => version.to_string(),
        },
    });
    Ok(limit_size(
        answer,
        &["edges", "vertices"],
        tool_context.limits,
        complete,
    ))
}

fn diff(tool_context: &ToolContext, arguments: &CheckedArguments<'_>, stop: &Stop) -> ToolAnswer {
    let database = &tool_context.database;
    let run = |name: &str| -> Result<_, String> {
        let text = arguments.text(name)?;
        find_run(database, text).map_err(|e| format!("`{name}`: {e}"))
    };
    let (before, after) = (run("before")?, run("after")?);
    let found = diff_runs(database, before, after).map_err(error_text)?;
    let rows: Vec<Json> = found
        .differing()
        .map(|row| {
            json!({"part": row.part.name(), "name": row.name, "change": row.change.name(), "before": row.before, "after": row.after})
        })
        .collect();
    let same = found.rows.iter().filter(|row| row.change == Change::Same);
    let versions = database
        .read_vertices(&[before, after], Version::MAX)
        .map_err(error_text)?;
    let versions: Vec<Option<String>> = versions
        .into_iter()
        .map(|v| v.map(|v| v.version.to_string()))
        .collect();
    let answer = json!({
        "database": tool_context.target,
        "before": found.before,
        "after": found.after,
        "rows": rows,
        "same": same.count(),
        "evidence": {"runs_as_of_versions": versions, "left_out": "what differs between any two runs: times, ids"},
    });
    Ok(limit_size(
        answer,
        &["rows"],
        tool_context.limits,
        stop.stop_reason().is_none(),
    ))
}
