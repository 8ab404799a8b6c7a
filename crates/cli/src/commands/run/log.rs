//! `esker log`: lists the latest recorded runs.

use super::absolute_target;
use super::deliver::deliver;
use crate::args::{LogArgs, Target};
use esker::Database;
use esker_model::{
    EdgeSelect, Error, GraphRead as _, Value, Version, Versions, Vertex, VertexId, VertexSelect,
    VertexTypeId,
};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::output::{Cell, Rows};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::ControlFlow;

/// Number of vertices to read at once.
const CHUNK: usize = 1024;

/// A run, ordered by its start.
struct Started(i64, Box<Vertex>);

impl PartialEq for Started {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl Eq for Started {}
impl PartialOrd for Started {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Started {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl Started {
    fn key(&self) -> (i64, &str) {
        (self.0, &self.1.key)
    }
}

struct RunFilter {
    execution: VertexTypeId,
    since: i64,
    failed: bool,
    most: usize,
    /// The latest runs so far, the earliest of them on top.
    latest: BinaryHeap<Reverse<Started>>,
}

impl RunFilter {
    fn add(&mut self, vertex: Vertex) {
        let Some(Value::Timestamp(start)) = vertex.attribute("start") else {
            return;
        };
        let start = *start;
        if vertex.type_id != self.execution || vertex.deleted || start < self.since {
            return;
        }
        let well = vertex.attribute("exit") == Some(&Value::I64(0));
        let over = vertex.attribute("end").is_some();
        if self.failed && (well || !over) {
            return;
        }
        self.latest.push(Reverse(Started(start, Box::new(vertex))));
        if self.latest.len() > self.most {
            self.latest.pop();
        }
    }
}

pub(crate) fn run(args: &LogArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let target = Target {
        target: args.target.clone(),
    };
    let database = context.open_or_create(&target)?;
    let spool = super::spool(&args.spool);
    let options = context.open_options();
    let whole = absolute_target(&args.target);
    let delivered = deliver(&spool, Some(&whole), &options, Some(&database));
    for problem in &delivered.problems {
        context.warn(problem);
    }
    let schema = database.schema()?;
    let execution = schema.vertex_type_id("Execution").map_err(Error::from)?;
    let mut filter = RunFilter {
        execution,
        since: args.since.map_or(i64::MIN, |since| {
            i64::try_from(since.millis())
                .unwrap_or(i64::MAX)
                .saturating_mul(1_000_000)
        }),
        failed: args.failed,
        most: if args.last { 1 } else { args.limit },
        latest: BinaryHeap::new(),
    };
    match user_ids(args, &database)? {
        Some(users) => of_users(&database, &users, &mut filter)?,
        None => database.scan_vertices(&VertexSelect::of(execution), &mut |vertex| {
            filter.add(vertex);
            ControlFlow::Continue(())
        })?,
    }
    let latest: Vec<Vertex> = filter
        .latest
        .into_sorted_vec()
        .into_iter()
        .map(|Reverse(Started(_, vertex))| *vertex)
        .collect();
    if latest.is_empty() {
        context.hint("no run is recorded that matches: `esker run` records runs, and `esker top` lists what logs say of jobs");
    }
    print(&latest, &database, args, context)?;
    Ok(Outcome::Done)
}

/// Returns the users whose runs to list, by name or number; `None` for all.
fn user_ids(args: &LogArgs, database: &Database) -> anyhow::Result<Option<Vec<VertexId>>> {
    let user = match &args.user {
        Some(user) => user.clone(),
        None if args.mine => rustix::process::getuid().as_raw().to_string(),
        None => return Ok(None),
    };
    let by_number = VertexId::of("User", &user);
    let found = database.read_vertices(&[by_number], Version::MAX)?;
    if found.first().is_some_and(Option::is_some) || args.mine {
        return Ok(Some(vec![by_number]));
    }
    let type_id = database
        .schema()?
        .vertex_type_id("User")
        .map_err(Error::from)?;
    let mut named = Vec::new();
    database.scan_vertices(&VertexSelect::of(type_id), &mut |vertex| {
        if vertex.attribute("name") == Some(&Value::String(user.clone())) {
            named.push(vertex.id);
        }
        ControlFlow::Continue(())
    })?;
    if named.is_empty() {
        return Err(usage(format!(
            "there is no user `{user}` in this database, by name or number"
        )));
    }
    Ok(Some(named))
}

fn of_users(database: &Database, users: &[VertexId], filter: &mut RunFilter) -> anyhow::Result<()> {
    let schema = database.schema()?;
    let select = EdgeSelect {
        types: vec![schema.edge_type_id("run").map_err(Error::from)?],
        versions: Versions::NOW,
        properties: false,
        after: None,
    };
    let mut runs = Vec::new();
    database.scan_edges(users, &select, &mut |_, edge| {
        runs.push(edge.key.destination);
        ControlFlow::Continue(())
    })?;
    for chunk in runs.chunks(CHUNK) {
        for vertex in database
            .read_vertices(chunk, Version::MAX)?
            .into_iter()
            .flatten()
        {
            filter.add(vertex);
        }
    }
    Ok(())
}

/// Returns the names of the runs' users, by index of the run.
fn users_of(runs: &[Vertex], database: &Database) -> anyhow::Result<BTreeMap<usize, String>> {
    let schema = database.schema()?;
    let select = EdgeSelect {
        types: vec![schema.edge_type_id("wasRunBy").map_err(Error::from)?],
        versions: Versions::NOW,
        properties: false,
        after: None,
    };
    let ids: Vec<VertexId> = runs.iter().map(|run| run.id).collect();
    let mut by = Vec::new();
    database.scan_edges(&ids, &select, &mut |n, edge| {
        by.push((n, edge.key.destination));
        ControlFlow::Continue(())
    })?;
    let users: Vec<VertexId> = by.iter().map(|(_, user)| *user).collect();
    let found = database.read_vertices(&users, Version::MAX)?;
    let names = by.iter().zip(found).filter_map(|((n, _), user)| {
        let user = user?;
        let name = match user.attribute("name") {
            Some(Value::String(name)) => name.clone(),
            _ => user.key.clone(),
        };
        Some((*n, name))
    });
    Ok(names.collect())
}

/// Returns the state of a run in a word or two.
fn state(run: &Vertex) -> String {
    let number = |name: &str| match run.attribute(name) {
        Some(Value::I64(number)) => Some(*number),
        _ => None,
    };
    let text = |name: &str| match run.attribute(name) {
        Some(Value::String(text)) => Some(text.clone()),
        _ => None,
    };
    match (number("exit"), number("signal"), text("ended")) {
        (Some(0), ..) => "done".into(),
        (Some(code), ..) => format!("exit {code}"),
        (None, Some(signal), _) => format!("signal {signal}"),
        (None, None, Some(why)) => why,
        // States are written like those of schedulers and OpenLineage producers.
        _ if text("state").is_some() => {
            let word = text("state").unwrap_or_default().to_lowercase();
            match word.as_str() {
                "completed" => "done".into(),
                "running" => "runs".into(),
                _ => word,
            }
        }
        _ if run.attribute("end").is_some() => "ended".into(),
        _ => "runs".into(),
    }
}

fn print(
    runs: &[Vertex],
    database: &Database,
    args: &LogArgs,
    context: &mut Context,
) -> anyhow::Result<()> {
    let users = users_of(runs, database)?;
    let columns = &[
        "run", "name", "state", "start", "end", "user", "host", "command",
    ];
    let mut rows = Rows::new(&mut context.out, args.format.format, context.style, columns);
    for (n, run) in runs.iter().enumerate() {
        let value = |name: &str| {
            run.attribute(name)
                .cloned()
                .map_or(Cell::Empty, Cell::Value)
        };
        rows.row(vec![
            Cell::from(format!("execution:{}", run.key)),
            value("name"),
            Cell::from(state(run)),
            value("start"),
            value("end"),
            users
                .get(&n)
                .map_or(Cell::Empty, |name| Cell::from(name.as_str())),
            value("host"),
            value("command"),
        ])?;
    }
    rows.finish()?;
    Ok(())
}
