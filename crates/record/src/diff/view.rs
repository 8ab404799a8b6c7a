//! All that is known of a run, in parts that can be laid beside another's.

use super::Part;
use esker_model::{
    Edge, EdgeSelect, Error, GraphRead, Result, Schema, Value, Version, Versions, Vertex, VertexId,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// Files of a run, by name.
pub(super) type Files = BTreeMap<String, FileState>;

/// A run as it is compared.
#[derive(Debug, Default)]
pub(super) struct View {
    /// `execution:ID`.
    pub(super) name: String,
    /// Values by part and name; several where runs of one job differ.
    pub(super) values: BTreeMap<(Part, String), BTreeSet<String>>,
    /// The words behind the program's name; nothing if the parts of a job differ in them.
    pub(super) arguments: Option<Vec<String>>,
    /// The lines of its batch script.
    pub(super) script: Option<Vec<String>>,
    pub(super) inputs: Files,
    pub(super) outputs: Files,
}

/// A file as a run found or left it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FileState {
    /// Bytes.
    pub(super) size: Option<i64>,
    /// Nanoseconds since 1970.
    pub(super) mtime: Option<i64>,
    /// Who had written it last, as the graph knows.
    pub(super) writer: Option<String>,
}

/// Vertices at the other ends of edges of a type, as of now.
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
    };
    let mut out = Vec::new();
    graph.scan_edges(of, &select, &mut |_, edge| {
        out.push(edge);
        ControlFlow::Continue(())
    })?;
    Ok(out)
}

/// Names of vertices, by id: what was deleted meanwhile keeps its name.
fn names(
    graph: &dyn GraphRead,
    schema: &Schema,
    ids: &[VertexId],
) -> Result<BTreeMap<VertexId, (String, Vertex)>> {
    let found = graph.read_vertices(ids, Version::MAX)?;
    let named = found.into_iter().flatten();
    Ok(named.map(|v| (v.id, (v.name(schema), v))).collect())
}

/// Collects what is known.
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
            "`{name}` is no run: expected a job, a process or an execution"
        )));
    }
    let mut out = View {
        name: first.name(&schema),
        ..View::default()
    };
    let mut all = vec![run];
    let job = schema.vertex_type_id("Job")?;
    if schema.is_a(first.type_id, job) {
        // What ran in it: executions, and its own parts.
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
        out.add(Part::Time, "start", moment(start));
    }
    if let Some(end) = end {
        out.add(Part::Time, "end", moment(end));
    }
    if let (Some(start), Some(end)) = (start, end) {
        out.add(Part::Time, "seconds", seconds(end.saturating_sub(start)));
    }
    ends(graph, &schema, &all, &mut out)?;
    out.inputs = files(graph, &schema, &all, "read", start)?;
    out.outputs = files(graph, &schema, &all, "write", None)?;
    Ok(out)
}

/// Seconds, to the millisecond.
fn seconds(nanos: i64) -> String {
    let millis = nanos / 1_000_000;
    format!("{}.{:03}", millis / 1000, millis % 1000)
}

/// RFC 3339, to the millisecond.
pub(super) fn moment(nanos: i64) -> String {
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
        Value::Timestamp(at) => moment(*at),
        Value::Null => String::new(),
        Value::List(items) => items.iter().map(text).collect::<Vec<_>>().join(" "),
        Value::Bytes(bytes) => format!("{} bytes", bytes.len()),
    }
}

/// What `NAME=VALUE` says, in a list of such.
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

/// A module's name without its version.
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
                out.add(Part::Place, name, text(value));
            }
            _ => match (name.strip_prefix("git_"), name.strip_prefix("slurm_")) {
                (Some(of), _) => out.add(Part::Git, of, text(value)),
                (_, Some(_)) => out.add(Part::Place, name, text(value)),
                (None, None) => out.add(Part::Tag, name, text(value)),
            },
        }
    }
}

/// Users, jobs and programs.
fn ends(graph: &dyn GraphRead, schema: &Schema, all: &[VertexId], out: &mut View) -> Result<()> {
    for (edge_type, part, called) in [
        ("wasRunBy", Part::Place, "user"),
        ("belongs", Part::Place, "job"),
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
                // By its path; what it was then, as its value.
                out.add(part, vertex.key.as_str(), state_of(edge).told());
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

/// Files at the ends of edges. `read_at`: who had written them last by then is asked.
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
    // The last millisecond before it began: what it wrote itself is not what it read.
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
    /// For people: `12 bytes, of 2026-03-01T12:00:00.000Z, by execution:…`.
    pub(super) fn told(&self) -> String {
        let parts = [
            self.size.map(|n| format!("{n} bytes")),
            self.mtime.map(|at| format!("of {}", moment(at))),
            self.writer.as_ref().map(|w| format!("by {w}")),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}
