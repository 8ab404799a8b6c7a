//! Collects the description of a run for a comparison.

use super::Part;
use esker_model::{
    Edge, EdgeSelect, Error, GraphRead, Result, Schema, Value, Version, Versions, Vertex, VertexId,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// Files of a run, by path.
pub(super) type Files = BTreeMap<String, FileState>;

/// Description of a run for a comparison.
#[derive(Debug, Default)]
pub(super) struct View {
    /// Name of the run, `execution:ID`.
    pub(super) name: String,
    /// Values by part and name; several if runs of one job differ.
    pub(super) values: BTreeMap<(Part, String), BTreeSet<String>>,
    /// Arguments of the program; `None` if the parts of a job differ in them.
    pub(super) arguments: Option<Vec<String>>,
    /// Lines of the batch script.
    pub(super) script: Option<Vec<String>>,
    pub(super) inputs: Files,
    pub(super) outputs: Files,
}

/// State of a file that a run read or wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FileState {
    /// Size of the file in bytes.
    pub(super) size: Option<i64>,
    /// Modification time, in nanoseconds since 1970.
    pub(super) mtime: Option<i64>,
    /// Run that last wrote the file, according to the graph.
    pub(super) writer: Option<String>,
}

/// Returns the destinations of current edges of a type.
pub(super) fn neighbours(
    graph: &dyn GraphRead,
    schema: &Schema,
    of: &[VertexId],
    edge_type: &str,
) -> Result<Vec<VertexId>> {
    let edges = edges(graph, schema, of, edge_type, Versions::NOW)?;
    Ok(edges.into_iter().map(|e| e.key.destination).collect())
}

fn edges(
    graph: &dyn GraphRead,
    schema: &Schema,
    of: &[VertexId],
    edge_type: &str,
    versions: Versions,
) -> Result<Vec<Edge>> {
    let select = EdgeSelect {
        types: vec![schema.edge_type_id(edge_type)?],
        versions,
        properties: true,
        after: None,
    };
    let mut out = Vec::new();
    graph.scan_edges(of, &select, &mut |_, edge| {
        out.push(edge);
        ControlFlow::Continue(())
    })?;
    Ok(out)
}

/// Returns vertices with their names, by id; deleted vertices included.
fn names(
    graph: &dyn GraphRead,
    schema: &Schema,
    ids: &[VertexId],
) -> Result<BTreeMap<VertexId, (String, Vertex)>> {
    let found = graph.read_vertices(ids, Version::MAX)?;
    let named = found.into_iter().flatten();
    Ok(named.map(|v| (v.id, (v.name(schema), v))).collect())
}

/// Collects the description of a run.
pub(super) fn view(graph: &dyn GraphRead, run: VertexId) -> Result<View> {
    let schema = graph.schema()?;
    let first = graph.read_vertices(&[run], Version::MAX)?;
    let Some(first) = first.into_iter().flatten().find(|v| !v.deleted) else {
        return Err(Error::Invalid("that run is not in this database".into()));
    };
    let execution = schema.vertex_type_id("Execution")?;
    if !schema.is_a(first.type_id, execution) {
        let name = first.name(&schema);
        return Err(Error::Invalid(format!(
            "`{name}` is not a run: expected a job, a process or an execution"
        )));
    }
    let mut out = View {
        name: first.name(&schema),
        ..View::default()
    };
    let mut all = vec![run];
    let job = schema.vertex_type_id("Job")?;
    if schema.is_a(first.type_id, job) {
        // Content of a job: executions, and its own parts.
        all.extend(neighbours(graph, &schema, &[run], "contains")?);
    }
    let vertices = graph.read_vertices(&all, Version::MAX)?;
    let vertices: Vec<Vertex> = vertices
        .into_iter()
        .flatten()
        .filter(|v| !v.deleted)
        .collect();
    let mut commands: BTreeSet<Vec<String>> = BTreeSet::new();
    for vertex in &vertices {
        attributes(vertex, &mut out, &mut commands);
    }
    if commands.len() == 1 {
        out.arguments = commands.pop_first();
    } else {
        for command in commands {
            out.add(Part::Argument, "command", command.join(" "));
        }
    }
    let times = |name: &'static str| {
        vertices
            .iter()
            .filter_map(move |v| match v.attribute(name) {
                Some(Value::Timestamp(at)) => Some(*at),
                _ => None,
            })
    };
    let (start, end) = (times("start").min(), times("end").max());
    if let Some(start) = start {
        out.add(Part::Time, "start", time_text(start));
    }
    if let Some(end) = end {
        out.add(Part::Time, "end", time_text(end));
    }
    if let (Some(start), Some(end)) = (start, end) {
        out.add(Part::Time, "seconds", seconds(end.saturating_sub(start)));
    }
    ends(graph, &schema, &all, &mut out)?;
    out.inputs = files(graph, &schema, &all, "read", start)?;
    out.outputs = files(graph, &schema, &all, "write", None)?;
    Ok(out)
}

/// Formats a duration as seconds with milliseconds.
fn seconds(nanos: i64) -> String {
    let millis = nanos / 1_000_000;
    format!("{}.{:03}", millis / 1000, millis % 1000)
}

/// Formats a time in RFC 3339 with milliseconds.
pub(super) fn time_text(nanos: i64) -> String {
    Version::new(u64::try_from(nanos / 1_000_000).unwrap_or(0), 0).to_string()
}

impl View {
    fn add(&mut self, part: Part, name: impl Into<String>, value: impl Into<String>) {
        let values = self.values.entry((part, name.into())).or_default();
        values.insert(value.into());
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::I64(number) => number.to_string(),
        Value::F64(number) => format!("{number:?}"),
        Value::Bool(is) => is.to_string(),
        Value::Timestamp(at) => time_text(*at),
        Value::Null => String::new(),
        Value::List(items) => items.iter().map(text).collect::<Vec<_>>().join(" "),
        Value::Bytes(bytes) => format!("{} bytes", bytes.len()),
    }
}

/// Parses a list of `NAME=VALUE` items.
fn pairs(value: &Value) -> impl Iterator<Item = (String, String)> {
    let items = match value {
        Value::List(items) => items.as_slice(),
        _ => &[],
    };
    items.iter().map(|item| {
        let item = text(item);
        match item.split_once('=') {
            Some((name, value)) => (name.to_owned(), value.to_owned()),
            None => (item, String::new()),
        }
    })
}

/// Splits a module into its name and version.
fn module(whole: &str) -> (&str, &str) {
    whole.rsplit_once('/').unwrap_or((whole, ""))
}

fn attributes(vertex: &Vertex, out: &mut View, commands: &mut BTreeSet<Vec<String>>) {
    let user = vertex.user.iter().map(|a| (a.name.as_str(), &a.value));
    for (name, value) in vertex.attributes.iter().chain(user) {
        match name {
            // Times are those of all parts together.
            "start" | "end" => {}
            "exit" | "signal" | "ended" | "state" => out.add(Part::Ended, name, text(value)),
            "command" => {
                let words = text(value);
                let words = words.split_whitespace().skip(1).map(str::to_owned);
                commands.insert(words.collect());
            }
            "script" => {
                let lines = text(value).lines().map(str::to_owned).collect();
                out.script.get_or_insert(lines);
            }
            "settings" => pairs(value).for_each(|(n, v)| out.add(Part::Setting, n, v)),
            "environment" => pairs(value).for_each(|(n, v)| out.add(Part::Environment, n, v)),
            "modules" => {
                for (whole, _) in pairs(value) {
                    let (name, version) = module(&whole);
                    out.add(Part::Module, name, version);
                }
            }
            "name" => out.add(Part::Program, "name", text(value)),
            "host" | "cwd" | "jobid" | "rank" | "pid" | "nprocs" => {
                out.add(Part::Location, name, text(value));
            }
            _ => match (name.strip_prefix("git_"), name.strip_prefix("slurm_")) {
                (Some(of), _) => out.add(Part::Git, of, text(value)),
                (_, Some(_)) => out.add(Part::Location, name, text(value)),
                (None, None) => out.add(Part::Tag, name, text(value)),
            },
        }
    }
}

/// Adds users, jobs and programs.
fn ends(graph: &dyn GraphRead, schema: &Schema, all: &[VertexId], out: &mut View) -> Result<()> {
    for (edge_type, part, called) in [
        ("wasRunBy", Part::Location, "user"),
        ("belongs", Part::Location, "job"),
        ("exe", Part::Program, ""),
    ] {
        let edges = edges(graph, schema, all, edge_type, Versions::NOW)?;
        let ids: Vec<VertexId> = edges.iter().map(|e| e.key.destination).collect();
        let names = names(graph, schema, &ids)?;
        for edge in edges.iter().filter(|e| !all.contains(&e.key.destination)) {
            let Some((name, vertex)) = names.get(&edge.key.destination) else {
                continue;
            };
            if part == Part::Program {
                // Named by its path; its state is the value.
                out.add(part, vertex.key.as_str(), state_of(edge).describe());
                continue;
            }
            let name = match vertex.attribute("name") {
                Some(Value::String(called)) => format!("{name} ({called})"),
                _ => name.clone(),
            };
            out.add(part, called, name);
        }
    }
    Ok(())
}

fn state_of(edge: &Edge) -> FileState {
    let size = match edge.properties.get("size") {
        Some(Value::I64(size)) => Some(*size),
        _ => None,
    };
    let mtime = match edge.properties.get("mtime") {
        Some(Value::Timestamp(at)) => Some(*at),
        _ => None,
    };
    FileState {
        size,
        mtime,
        writer: None,
    }
}

/// Returns the files at the ends of edges. With `read_at`, their last writers before that time are looked up.
fn files(
    graph: &dyn GraphRead,
    schema: &Schema,
    all: &[VertexId],
    edge_type: &str,
    read_at: Option<i64>,
) -> Result<Files> {
    let edges = edges(graph, schema, all, edge_type, Versions::NOW)?;
    let ids: Vec<VertexId> = edges.iter().map(|e| e.key.destination).collect();
    let names = names(graph, schema, &ids)?;
    let mut out = Files::new();
    for edge in &edges {
        let Some((_, vertex)) = names.get(&edge.key.destination) else {
            continue;
        };
        out.entry(vertex.key.clone())
            .or_insert_with(|| state_of(edge));
    }
    let Some(read_at) = read_at else {
        return Ok(out);
    };
    // The last millisecond before the run began: its own writes are not what it read.
    let as_of = Version::new(u64::try_from(read_at / 1_000_000).unwrap_or(0), 0);
    let written = self::edges(graph, schema, &ids, "wasWrittenBy", Versions::AsOf(as_of))?;
    let mut last: BTreeMap<VertexId, &Edge> = BTreeMap::new();
    for edge in written.iter().filter(|e| !all.contains(&e.key.destination)) {
        let known = last.entry(edge.key.source).or_insert(edge);
        if edge.version > known.version {
            *known = edge;
        }
    }
    let writers: Vec<VertexId> = last.values().map(|e| e.key.destination).collect();
    let writers = self::names(graph, schema, &writers)?;
    for (file, edge) in last {
        let state = names.get(&file).and_then(|(_, v)| out.get_mut(&v.key));
        if let (Some(state), Some((name, _))) = (state, writers.get(&edge.key.destination)) {
            state.writer = Some(name.clone());
        }
    }
    Ok(out)
}

impl FileState {
    /// Formats the state for display: `12 bytes, of 2026-03-01T12:00:00.000Z, by execution:…`.
    pub(super) fn describe(&self) -> String {
        let parts = [
            self.size.map(|n| format!("{n} bytes")),
            self.mtime.map(|at| format!("of {}", time_text(at))),
            self.writer.as_ref().map(|w| format!("by {w}")),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}
