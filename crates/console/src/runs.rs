//! Runs: a list of the latest ones, and the details of one.

use crate::Stopped;
use crate::label;
use crate::value;
use esker_model::{
    Cancel, EdgeSelect, EdgeTypeId, Error, GraphRead, Result, Schema, Value, Version, Versions,
    Vertex, VertexId, VertexSelect,
};
use serde::Serialize;
use serde_json::{Map, Value as Json};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::ControlFlow;

/// Maximum number of files, executables and parts, each, in a run's details.
const PARTS_MAX: usize = 2_000;
/// Number of vertices read at once.
const CHUNK: usize = 1_024;

/// Summary of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Run {
    /// Name of the vertex: `job:4711`, `execution:…`.
    pub id: String,
    /// Name of its type.
    pub kind: String,
    /// Name given by its user.
    pub name: Option<String>,
    /// User who ran it.
    pub user: Option<String>,
    /// Host on which it ran.
    pub host: Option<String>,
    /// Start time in RFC 3339.
    pub begin: Option<String>,
    /// End time in RFC 3339; `None` while it runs.
    pub end: Option<String>,
    /// Duration of the run in seconds.
    pub seconds: Option<f64>,
    /// One of `running`, `ok`, `failed`, or `unknown` if it ended with an unknown result.
    pub state: &'static str,
    /// Short description of its end: `exit 3`, `signal 9`, `killed`.
    pub ended: Option<String>,
    /// Exit code of the run.
    pub exit: Option<i64>,
    /// Number of files that it read.
    pub inputs: u64,
    /// Number of files that it wrote.
    pub outputs: u64,
    /// Command line of the run.
    pub command: Option<String>,
}

/// Conditions on runs to list.
#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    /// User, by number or name.
    pub user: Option<String>,
    /// State of the run.
    pub state: Option<String>,
    /// Text contained in name, id, host or command, ignoring case.
    pub text: Option<String>,
    /// Earliest start time, in nanoseconds since 1970.
    pub since: Option<i64>,
    /// Start time before which they began, in nanoseconds since 1970.
    pub until: Option<i64>,
    /// Position in the list after which they follow: start time and id.
    pub after: Option<(i64, String)>,
    /// Maximum number of runs.
    pub limit: usize,
}

/// A page of runs, the latest first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunPage {
    /// Runs of the page, at most the requested number.
    pub runs: Vec<Run>,
    /// Cursor of the next page.
    pub next: Option<String>,
    /// Reason why not all runs were examined, if so.
    pub stopped: Option<Stopped>,
}

/// Returns the start or submit time; runs without either sort last.
fn begun(vertex: &Vertex) -> i64 {
    label::time(vertex, "start")
        .or_else(|| label::time(vertex, "submit"))
        .unwrap_or(i64::MIN)
}

/// Returns the state of a run, and a short description of its end.
pub fn state(run: &Vertex) -> (&'static str, Option<String>) {
    if let Some(code) = label::number(run, "exit") {
        return match code {
            0 => ("ok", None),
            code => ("failed", Some(format!("exit {code}"))),
        };
    }
    if let Some(signal) = label::number(run, "signal") {
        return ("failed", Some(format!("signal {signal}")));
    }
    if let Some(why) = label::text(run, "ended") {
        return ("failed", Some(why.to_owned()));
    }
    // State names of Slurm.
    if let Some(slurm) = label::text(run, "state") {
        let word = slurm.split([' ', '+']).next().unwrap_or_default();
        return match word.to_ascii_uppercase().as_str() {
            "COMPLETED" => ("ok", None),
            "RUNNING" | "PENDING" | "COMPLETING" | "CONFIGURING" | "SUSPENDED" | "REQUEUED" => {
                ("running", Some(word.to_lowercase()))
            }
            _ => ("failed", Some(slurm.to_lowercase())),
        };
    }
    if run.attribute("end").is_some() {
        return ("unknown", Some("ended".to_owned()));
    }
    match run.attribute("start") {
        Some(_) => ("running", None),
        None => ("unknown", None),
    }
}

struct Edges {
    run_by: Option<EdgeTypeId>,
    read: Option<EdgeTypeId>,
    write: Option<EdgeTypeId>,
}

impl Edges {
    fn of(schema: &Schema) -> Self {
        let id = |name| schema.edge_type_id(name).ok();
        Self {
            run_by: id("wasRunBy"),
            read: id("read"),
            write: id("write"),
        }
    }
}

fn select(types: impl IntoIterator<Item = EdgeTypeId>, as_of: Version) -> EdgeSelect {
    EdgeSelect {
        types: types.into_iter().collect(),
        versions: Versions::AsOf(as_of),
        properties: true,
        after: None,
    }
}

/// Returns the names of the users who ran these, by index.
fn users_of(
    graph: &dyn GraphRead,
    ids: &[VertexId],
    run_by: Option<EdgeTypeId>,
) -> Result<BTreeMap<usize, String>> {
    let Some(run_by) = run_by else {
        return Ok(BTreeMap::new());
    };
    let mut by = Vec::new();
    graph.scan_edges(ids, &select([run_by], Version::MAX), &mut |n, edge| {
        by.push((n, edge.key.destination));
        ControlFlow::Continue(())
    })?;
    let users: Vec<VertexId> = by.iter().map(|(_, user)| *user).collect();
    let found = graph.read_vertices(&users, Version::MAX)?;
    let names = by.iter().zip(found).filter_map(|((n, _), user)| {
        let user = user?;
        let name = label::text(&user, "name").unwrap_or(&user.key);
        Some((*n, name.to_owned()))
    });
    Ok(names.collect())
}

/// Summarizes runs.
///
/// # Errors
/// Passes on read errors.
pub fn describe(graph: &dyn GraphRead, schema: &Schema, runs: &[Vertex]) -> Result<Vec<Run>> {
    let edges = Edges::of(schema);
    let ids: Vec<VertexId> = runs.iter().map(|run| run.id).collect();
    let users = users_of(graph, &ids, edges.run_by)?;
    let degrees = |of: Option<EdgeTypeId>| match of {
        Some(of) => graph.degrees(&ids.iter().map(|id| (*id, of)).collect::<Vec<_>>()),
        None => Ok(vec![0; ids.len()]),
    };
    let (inputs, outputs) = (degrees(edges.read)?, degrees(edges.write)?);
    let each = runs.iter().enumerate().map(|(n, run)| {
        let (start, end) = (label::time(run, "start"), label::time(run, "end"));
        let (state, ended) = state(run);
        let text = |name: &str| label::text(run, name).map(str::to_owned);
        let kind = schema.vertex_type(run.type_id).map(|t| t.name.clone());
        Run {
            id: run.name(schema),
            kind: kind.unwrap_or_default(),
            name: text("name"),
            user: users.get(&n).cloned().or_else(|| text("user")),
            host: text("host").or_else(|| text("nodes")),
            begin: start.map(value::time),
            end: end.map(value::time),
            seconds: start
                .zip(end)
                .map(|(start, end)| end.saturating_sub(start).max(0) as f64 / 1e9),
            state,
            ended,
            exit: label::number(run, "exit"),
            inputs: inputs.get(n).copied().unwrap_or_default(),
            outputs: outputs.get(n).copied().unwrap_or_default(),
            command: text("command"),
        }
    });
    Ok(each.collect())
}

/// Returns the users with that number or name.
fn users(graph: &dyn GraphRead, schema: &Schema, user: &str) -> Result<Vec<VertexId>> {
    let by_number = VertexId::of("User", user.strip_prefix("user:").unwrap_or(user));
    if graph
        .read_vertices(&[by_number], Version::MAX)?
        .iter()
        .any(Option::is_some)
    {
        return Ok(vec![by_number]);
    }
    let mut named = Vec::new();
    let users = VertexSelect::of(schema.vertex_type_id("User")?);
    graph.scan_vertices(&users, &mut |vertex| {
        if label::text(&vertex, "name") == Some(user) {
            named.push(vertex.id);
        }
        ControlFlow::Continue(())
    })?;
    Ok(named)
}

/// The latest runs so far, in a heap with the earliest on top.
struct Latest<'a> {
    wanted: &'a RunFilter,
    text: Option<String>,
    most: usize,
    heap: BinaryHeap<Reverse<(i64, Reverse<String>, HeapVertex)>>,
}

/// A vertex in a heap: it does not take part in comparisons.
struct HeapVertex(Box<Vertex>);

impl PartialEq for HeapVertex {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for HeapVertex {}
impl PartialOrd for HeapVertex {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for HeapVertex {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

impl Latest<'_> {
    fn offer(&mut self, vertex: Vertex, schema: &Schema) {
        let begun = begun(&vertex);
        let wanted = self.wanted;
        let outside = wanted.since.is_some_and(|since| begun < since)
            || wanted.until.is_some_and(|until| begun >= until);
        if outside
            || wanted
                .state
                .as_deref()
                .is_some_and(|s| state(&vertex).0 != s)
        {
            return;
        }
        if let Some(text) = &self.text {
            let holds = |held: &str| held.to_lowercase().contains(text.as_str());
            let attributes = ["name", "host", "command"];
            let named = attributes
                .iter()
                .any(|name| label::text(&vertex, name).is_some_and(holds));
            if !named && !holds(&vertex.key) {
                return;
            }
        }
        let name = vertex.name(schema);
        let behind = wanted
            .after
            .as_ref()
            .is_none_or(|(at, id)| (begun, Reverse(&name)) < (*at, Reverse(id)));
        if behind {
            let held = (begun, Reverse(name), HeapVertex(Box::new(vertex)));
            self.heap.push(Reverse(held));
            if self.heap.len() > self.most {
                self.heap.pop();
            }
        }
    }
}

/// Lists the latest runs that meet the conditions.
///
/// # Errors
/// Returns `Invalid` if no user has that name; passes on read errors.
pub fn list(graph: &dyn GraphRead, wanted: &RunFilter, cancel: &dyn Cancel) -> Result<RunPage> {
    let schema = graph.schema()?;
    let execution = schema.vertex_type_id("Execution")?;
    let mut latest = Latest {
        wanted,
        text: wanted.text.as_ref().map(|t| t.to_lowercase()),
        most: wanted.limit + 1,
        heap: BinaryHeap::new(),
    };
    let (mut looked_at, mut cut) = (0, false);
    if let Some(user) = &wanted.user {
        let users = users(graph, &schema, user)?;
        if users.is_empty() {
            return Err(Error::Invalid(format!(
                "there is no user `{user}` in this database, by name or number"
            )));
        }
        let mut runs = Vec::new();
        let select = select([schema.edge_type_id("run")?], Version::MAX);
        graph.scan_edges(&users, &select, &mut |_, edge| {
            runs.push(edge.key.destination);
            ControlFlow::Continue(())
        })?;
        for chunk in runs.chunks(CHUNK) {
            cut = cut || cancel.cancelled();
            if cut {
                break;
            }
            looked_at += chunk.len() as u64;
            let found = graph.read_vertices(chunk, Version::MAX)?;
            for vertex in found.into_iter().flatten().filter(|v| !v.deleted) {
                latest.offer(vertex, &schema);
            }
        }
    } else {
        graph.scan_vertices(&VertexSelect::of(execution), &mut |vertex| {
            looked_at += 1;
            latest.offer(vertex, &schema);
            cut = cancel.cancelled();
            if cut {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
    }
    let mut found: Vec<(i64, Vertex)> = latest
        .heap
        .into_sorted_vec()
        .into_iter()
        .map(|Reverse((begun, _, HeapVertex(vertex)))| (begun, *vertex))
        .collect();
    let more = found.len() > wanted.limit;
    found.truncate(wanted.limit);
    let next = found
        .last()
        .filter(|_| more)
        .map(|(begun, vertex)| format!("{begun} {}", vertex.name(&schema)));
    let vertices: Vec<Vertex> = found.into_iter().map(|(_, vertex)| vertex).collect();
    Ok(RunPage {
        runs: describe(graph, &schema, &vertices)?,
        next,
        stopped: cut.then(|| Stopped {
            reason: cancel.reason().name().to_owned(),
            looked_at,
        }),
    })
}

/// A file or executable that a run used or wrote.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UsedFile {
    /// Name of the vertex, `file:/a/b`.
    pub id: String,
    /// Short label for display.
    pub label: String,
    /// Version of the access.
    pub version: String,
    /// Size in bytes as observed by the run; else the current size.
    pub size: Option<i64>,
    /// Properties of the edge.
    pub properties: Json,
}

/// Details of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunDetails {
    /// Summary of the run.
    pub run: Run,
    /// Attributes that are in no other field.
    pub attributes: Map<String, Json>,
    /// Settings of the run.
    pub settings: Vec<String>,
    /// Environment variables, as `NAME=VALUE`.
    pub environment: Vec<String>,
    /// Environment modules that were loaded.
    pub modules: Vec<String>,
    /// State of its source tree, by attribute name without `git_`.
    pub git: Map<String, Json>,
    /// Slurm attributes, by name without `slurm_`.
    pub slurm: Map<String, Json>,
    /// Programs that it executed.
    pub executables: Vec<UsedFile>,
    /// Files that it read.
    pub reads: Vec<UsedFile>,
    /// Files that it wrote.
    pub writes: Vec<UsedFile>,
    /// Job or run of which it is a part.
    pub parents: Vec<Run>,
    /// Runs that are parts of it.
    pub children: Vec<Run>,
    /// Length of each list, if any was truncated.
    pub parts_max: Option<usize>,
}

fn texts(vertex: &Vertex, name: &str) -> Vec<String> {
    match vertex.attribute(name) {
        Some(Value::List(items)) => items
            .iter()
            .map(|item| match item {
                Value::String(text) => text.clone(),
                other => value::value(other).to_string(),
            })
            .collect(),
        Some(Value::String(text)) => text.lines().map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// Returns the details of one run; `None` if it does not exist or is not a run.
///
/// # Errors
/// Passes on read errors.
pub fn details(graph: &dyn GraphRead, id: VertexId) -> Result<Option<RunDetails>> {
    let schema = graph.schema()?;
    let found = graph.read_vertices(&[id], Version::MAX)?;
    let Some(vertex) = found.into_iter().flatten().next() else {
        return Ok(None);
    };
    let execution = schema.vertex_type_id("Execution")?;
    if !crate::names::is_of(&schema, vertex.type_id, execution) {
        return Ok(None);
    }
    let mut cut = false;
    let mut used = |edge_type: &str| -> Result<Vec<UsedFile>> {
        let mut edges = Vec::new();
        let select = select([schema.edge_type_id(edge_type)?], Version::MAX);
        graph.scan_edges(&[id], &select, &mut |_, edge| {
            if edges.len() == PARTS_MAX {
                cut = true;
                return ControlFlow::Break(());
            }
            edges.push(edge);
            ControlFlow::Continue(())
        })?;
        let ids: Vec<VertexId> = edges.iter().map(|e| e.key.destination).collect();
        let vertices = graph.read_vertices(&ids, Version::MAX)?;
        let each = edges.iter().zip(&vertices).map(|(edge, vertex)| {
            let label = label::of(edge.key.destination, vertex.as_ref(), &schema);
            let size = match edge.properties.get("size") {
                Some(Value::I64(size)) => Some(*size),
                _ => vertex.as_ref().and_then(|v| label::number(v, "size")),
            };
            UsedFile {
                id: label.name,
                label: label.label,
                version: edge.version.to_string(),
                size,
                properties: value::properties(&edge.properties),
            }
        });
        let mut all: Vec<UsedFile> = each.collect();
        all.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(all)
    };
    let (executables, reads, writes) = (used("exe")?, used("read")?, used("write")?);
    let mut related = |edge_type: &str| -> Result<Vec<Run>> {
        let mut ids = Vec::new();
        let select = select([schema.edge_type_id(edge_type)?], Version::MAX);
        graph.scan_edges(&[id], &select, &mut |_, edge| {
            if ids.len() == PARTS_MAX {
                cut = true;
                return ControlFlow::Break(());
            }
            ids.push(edge.key.destination);
            ControlFlow::Continue(())
        })?;
        let vertices = graph.read_vertices(&ids, Version::MAX)?;
        let mut vertices: Vec<Vertex> = vertices.into_iter().flatten().collect();
        vertices.sort_by_cached_key(|v| (begun(v), v.key.clone()));
        describe(graph, &schema, &vertices)
    };
    let (parents, children) = (related("belongs")?, related("contains")?);
    let mut attributes = value::attributes(&vertex);
    for name in ["settings", "environment", "modules"] {
        attributes.remove(name);
    }
    let mut begins = |prefix: &str| -> Map<String, Json> {
        let names: Vec<String> = attributes
            .keys()
            .filter(|name| name.starts_with(prefix))
            .cloned()
            .collect();
        let taken = names.into_iter().filter_map(|name| {
            let held = attributes.remove(&name)?;
            Some((name[prefix.len()..].to_owned(), held))
        });
        taken.collect()
    };
    let (git, slurm) = (begins("git_"), begins("slurm_"));
    let run = describe(graph, &schema, std::slice::from_ref(&vertex))?;
    Ok(run.into_iter().next().map(|run| RunDetails {
        run,
        settings: texts(&vertex, "settings"),
        environment: texts(&vertex, "environment"),
        modules: texts(&vertex, "modules"),
        attributes,
        git,
        slurm,
        executables,
        reads,
        writes,
        parents,
        children,
        parts_max: cut.then_some(PARTS_MAX),
    }))
}
