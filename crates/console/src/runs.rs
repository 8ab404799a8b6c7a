//! Runs: the latest of them, and all that is known of one.

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

/// Files, executables and parts of a run that its page shows of each kind.
const PARTS_MAX: usize = 2_000;
/// Vertices that are read at once.
const CHUNK: usize = 1_024;

/// A run in a few words.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Run {
    /// `job:4711`, `execution:…`.
    pub id: String,
    /// The name of its type.
    pub kind: String,
    /// What its user called it.
    pub name: Option<String>,
    /// Who ran it.
    pub user: Option<String>,
    /// Where.
    pub host: Option<String>,
    /// RFC 3339.
    pub begin: Option<String>,
    /// RFC 3339; nothing while it runs.
    pub end: Option<String>,
    /// How long it took.
    pub seconds: Option<f64>,
    /// `running`, `ok`, `failed`, or `unknown` where its end is known and how it ended is not.
    pub state: &'static str,
    /// How it ended, in a word or two: `exit 3`, `signal 9`, `killed`.
    pub ended: Option<String>,
    /// Its exit code.
    pub exit: Option<i64>,
    /// Files that it read.
    pub inputs: u64,
    /// Files that it wrote.
    pub outputs: u64,
    /// Its command line.
    pub command: Option<String>,
}

/// Which runs.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Whose: a user's number or name.
    pub user: Option<String>,
    /// In that state.
    pub state: Option<String>,
    /// With that in their name, id, host or command, in any case.
    pub text: Option<String>,
    /// Begun then or later, in nanoseconds since 1970.
    pub since: Option<i64>,
    /// Begun before then.
    pub until: Option<i64>,
    /// Behind this one in the list: when it began, and its id.
    pub after: Option<(i64, String)>,
    /// How many.
    pub limit: usize,
}

/// The latest runs first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Listed {
    /// As many as were asked for, at most.
    pub runs: Vec<Run>,
    /// Where the next ones begin.
    pub next: Option<String>,
    /// Why not all were looked at, if so.
    pub stopped: Option<Stopped>,
}

/// When it began; what does not say when comes last.
fn begun(vertex: &Vertex) -> i64 {
    label::time(vertex, "start")
        .or_else(|| label::time(vertex, "submit"))
        .unwrap_or(i64::MIN)
}

/// How a run ended: its state, and a word or two.
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
    // As Slurm calls them.
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
    }
}

/// Names of who ran these, by their places.
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

/// Runs in a few words each.
///
/// # Errors
/// As reading fails.
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

/// Vertices of users of that number or name.
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

/// The latest so far, the earliest of them on top.
struct Latest<'a> {
    wanted: &'a Wanted,
    text: Option<String>,
    most: usize,
    heap: BinaryHeap<Reverse<(i64, Reverse<String>, Held)>>,
}

/// A vertex in a heap: its place is by what stands before it.
struct Held(Box<Vertex>);

impl PartialEq for Held {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for Held {}
impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Held {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

impl Latest<'_> {
    fn look(&mut self, vertex: Vertex, schema: &Schema) {
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
            let held = (begun, Reverse(name), Held(Box::new(vertex)));
            self.heap.push(Reverse(held));
            if self.heap.len() > self.most {
                self.heap.pop();
            }
        }
    }
}

/// The latest runs of those that are wanted.
///
/// # Errors
/// If nobody is called so; or as reading fails.
pub fn list(graph: &dyn GraphRead, wanted: &Wanted, cancel: &dyn Cancel) -> Result<Listed> {
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
                latest.look(vertex, &schema);
            }
        }
    } else {
        graph.scan_vertices(&VertexSelect::of(execution), &mut |vertex| {
            looked_at += 1;
            latest.look(vertex, &schema);
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
        .map(|Reverse((begun, _, Held(vertex)))| (begun, *vertex))
        .collect();
    let more = found.len() > wanted.limit;
    found.truncate(wanted.limit);
    let next = found
        .last()
        .filter(|_| more)
        .map(|(begun, vertex)| format!("{begun} {}", vertex.name(&schema)));
    let vertices: Vec<Vertex> = found.into_iter().map(|(_, vertex)| vertex).collect();
    Ok(Listed {
        runs: describe(graph, &schema, &vertices)?,
        next,
        stopped: cut.then(|| Stopped {
            reason: cancel.reason().name().to_owned(),
            looked_at,
        }),
    })
}

/// What a run used or made.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Used {
    /// `file:/a/b`.
    pub id: String,
    /// Short.
    pub label: String,
    /// When it was read or written.
    pub version: String,
    /// Bytes, as the run saw it; else as it is now.
    pub size: Option<i64>,
    /// How: what the edge says beside.
    pub properties: Json,
}

/// All that is known of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct One {
    /// In a few words.
    pub run: Run,
    /// What is no part of another list.
    pub attributes: Map<String, Json>,
    /// What its user set.
    pub settings: Vec<String>,
    /// Variables, as `NAME=VALUE`.
    pub environment: Vec<String>,
    /// Loaded modules.
    pub modules: Vec<String>,
    /// The state of its source, by what stands behind `git_`.
    pub git: Map<String, Json>,
    /// Its place in Slurm, by what stands behind `slurm_`.
    pub slurm: Map<String, Json>,
    /// Programs.
    pub executables: Vec<Used>,
    /// Inputs.
    pub reads: Vec<Used>,
    /// Outputs.
    pub writes: Vec<Used>,
    /// What it is a part of: a job, a run that started it.
    pub parents: Vec<Run>,
    /// Its parts.
    pub children: Vec<Run>,
    /// Whether lists were cut: how much each may have.
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

/// All of one run. Nothing if it is not there, or is no run.
///
/// # Errors
/// As reading fails.
pub fn one(graph: &dyn GraphRead, id: VertexId) -> Result<Option<One>> {
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
    let mut used = |edge_type: &str| -> Result<Vec<Used>> {
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
            let told = label::of(edge.key.destination, vertex.as_ref(), &schema);
            let size = match edge.properties.get("size") {
                Some(Value::I64(size)) => Some(*size),
                _ => vertex.as_ref().and_then(|v| label::number(v, "size")),
            };
            Used {
                id: told.name,
                label: told.label,
                version: edge.version.to_string(),
                size,
                properties: value::properties(&edge.properties),
            }
        });
        let mut all: Vec<Used> = each.collect();
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
    Ok(run.into_iter().next().map(|run| One {
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
