//! `esker diff`: what differs between two runs; or between two times, printed as it is found.

use super::run::deliver::open_with_runs;
use super::{is_interrupted, note_if_stopped};
use crate::args::{DiffArgs, RowFormat, Target};
use crate::context::Context;
use crate::exit::{Outcome, usage};
use crate::graph::{Names, edge_type_name, vertex_type_name};
use crate::output::{Cell, Rows, properties_json, vertex_attributes_json};
use crate::times::{moment, parse_as_of};
use crate::units::counted;
use esker::Database;
use esker_model::{
    Cancel as _, Difference, Edge, GraphRead as _, Properties, Schema, Version, Vertex,
};
use esker_record::{Change, diff_runs, find_run, is_run};
use std::ops::ControlFlow;
use std::sync::mpsc;
use std::thread;

/// Differences whose names are read at once.
const CHUNK: usize = 1024;

pub(crate) fn run(args: &DiffArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let (target, [one, other]) = words(args)?;
    let time = |text: &str| parse_as_of(text);
    match (time(one), time(other)) {
        (Ok(before), Ok(after)) => times(args, &target, (before, after), context),
        _ if is_run(one) && is_run(other) => runs(args, &target, [one, other], context),
        // Who gave one time meant two.
        (Ok(_), Err(e)) | (Err(e), Ok(_)) => Err(usage(e.to_string())),
        _ => {
            let wrong = if is_run(one) { other } else { one };
            Err(usage(format!(
                "`{wrong}` is neither a run nor a time: expected two runs (4711, execution:ID, last) or two times (2026-02-01, now)"
            )))
        }
    }
}

/// The database, and the two that are compared.
fn words(args: &DiffArgs) -> anyhow::Result<(Target, [&str; 2])> {
    match args.words.as_slice() {
        [target, one, other] => {
            let target = target.clone();
            Ok((Target { target }, [one, other]))
        }
        [one, other] => {
            let target = std::env::var("ESKER_TARGET").ok().filter(|t| !t.is_empty());
            let target = target.ok_or_else(|| {
                usage(
                    "expected the database first: esker diff TARGET ONE OTHER; or set $ESKER_TARGET",
                )
            })?;
            Ok((Target { target }, [one, other]))
        }
        _ => Err(usage("expected two runs, or two times")),
    }
}

/// Two runs.
fn runs(
    args: &DiffArgs,
    target: &Target,
    [one, other]: [&str; 2],
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    let database = open_with_runs(context, target)?;
    let found = diff_runs(
        &database,
        find_run(&database, one)?,
        find_run(&database, other)?,
    )?;
    let format = args.format.format;
    if format == RowFormat::Table && !args.all {
        let (before, after) = (&found.before, &found.after);
        context.note(&format!("before: {before}; after: {after}"));
    }
    let columns = &["part", "name", "change", "before", "after"];
    let mut rows = Rows::new(&mut context.out, format, context.style, columns);
    for row in &found.rows {
        let is_told = row.change != Change::Same && !row.expected;
        if is_told || args.all {
            let text = |text: &Option<String>| text.clone().map_or(Cell::Empty, Cell::from);
            rows.row(vec![
                row.part.name().into(),
                row.name.as_str().into(),
                row.change.name().into(),
                text(&row.before),
                text(&row.after),
            ])?;
        }
    }
    rows.finish()?;
    if format == RowFormat::Table && !args.all {
        let differ = found.differing().count();
        let (same, expected) = (found.same(), found.expected());
        context.note(&format!(
            "{} differ, {same} are the same, {expected} differ between any two runs: --all shows them",
            counted(differ as u64, "thing", "things"),
        ));
    }
    Ok(Outcome::Done)
}

/// Two times.
fn times(
    args: &DiffArgs,
    target: &Target,
    (before, after): (Version, Version),
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    if before > after {
        return Err(usage(format!(
            "{} is later than {}: give the earlier time first",
            moment(before),
            moment(after)
        )));
    }
    let database = open_with_runs(context, target)?;
    let schema = database.schema()?;
    let format = args.format.format;
    let interrupt = context.interrupt.clone();
    let columns = &["change", "kind", "id", "type", "dst", "before", "after"];
    let mut rows = Rows::new(&mut context.out, format, context.style, columns);
    let mut printer = Printer {
        database: &database,
        schema: &schema,
        names: Names::default(),
        format,
    };
    thread::scope(|scope| -> anyhow::Result<()> {
        let (sender, chunks) = mpsc::sync_channel::<Vec<Difference>>(4);
        let diff = scope.spawn(|| {
            let (sender, mut chunk) = (sender, Vec::new());
            let found = database.diff(before, after, &mut |difference| {
                chunk.push(difference);
                let gone = chunk.len() >= CHUNK && sender.send(std::mem::take(&mut chunk)).is_err();
                if gone || interrupt.cancelled() {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            });
            // Nobody receives any more where printing failed, and that failure is the one to report.
            let _ = sender.send(chunk);
            found
        });
        let mut printed = Ok(());
        for chunk in chunks {
            printed = printer.print(chunk, &mut rows);
            if printed.is_err() {
                break;
            }
        }
        let found = diff.join();
        printed?;
        match found {
            Ok(Err(error)) if is_interrupted(&error) => Ok(()),
            Ok(found) => Ok(found?),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })?;
    let found = rows.finish()?;
    if found == 0 && format == RowFormat::Table {
        context.note("nothing differs");
    }
    Ok(note_if_stopped(context))
}

struct Printer<'a> {
    database: &'a Database,
    schema: &'a Schema,
    names: Names,
    format: RowFormat,
}

impl Printer<'_> {
    fn print(&mut self, chunk: Vec<Difference>, rows: &mut Rows<'_>) -> anyhow::Result<()> {
        let ends = chunk.iter().filter_map(|d| match d {
            Difference::Edge(before, after) => before.as_ref().or(after.as_ref()),
            Difference::Vertex(..) => None,
        });
        let ids = ends.flat_map(|e| [e.key.source, e.key.destination]);
        self.names.learn(self.database, self.schema, ids)?;
        for difference in chunk {
            match difference {
                Difference::Vertex(before, after) => {
                    self.vertex(before.as_ref(), after.as_ref(), rows)?;
                }
                Difference::Edge(before, after) => self.edge(before, after, rows)?,
            }
        }
        Ok(())
    }

    fn vertex(
        &self,
        before: Option<&Vertex>,
        after: Option<&Vertex>,
        rows: &mut Rows<'_>,
    ) -> anyhow::Result<()> {
        let Some(one) = after.or(before) else {
            return Ok(());
        };
        let all = |v: &Vertex| {
            let mut all = v.attributes.clone();
            for a in &v.user {
                all.set(a.name.as_str(), a.value.clone());
            }
            all
        };
        let (name, type_name) = (
            one.name(self.schema),
            vertex_type_name(self.schema, one.type_id),
        );
        let (b, a) = (before.map(all), after.map(all));
        let (b, a) = match self.format {
            RowFormat::Table => differing(b, a),
            RowFormat::Json | RowFormat::Ndjson | RowFormat::Csv => {
                let cell = |v: Option<&Vertex>| match v {
                    Some(v) => Cell::Json(vertex_attributes_json(v), String::new()),
                    None => Cell::Empty,
                };
                (cell(before), cell(after))
            }
        };
        let change = change_of(before.is_some(), after.is_some());
        rows.row(vec![
            change.into(),
            "vertex".into(),
            name.into(),
            type_name.into(),
            Cell::Empty,
            b,
            a,
        ])?;
        Ok(())
    }

    fn edge(
        &self,
        before: Option<Edge>,
        after: Option<Edge>,
        rows: &mut Rows<'_>,
    ) -> anyhow::Result<()> {
        let Some(key) = after.as_ref().or(before.as_ref()).map(|e| e.key) else {
            return Ok(());
        };
        let change = change_of(before.is_some(), after.is_some());
        let (before, after) = (before.map(|e| e.properties), after.map(|e| e.properties));
        let (b, a) = match self.format {
            RowFormat::Table => differing(before, after),
            RowFormat::Json | RowFormat::Ndjson | RowFormat::Csv => {
                let cell = |p: &Option<Properties>| match p {
                    Some(p) => Cell::Json(properties_json(p), String::new()),
                    None => Cell::Empty,
                };
                (cell(&before), cell(&after))
            }
        };
        rows.row(vec![
            change.into(),
            "edge".into(),
            self.names.get(key.source).into(),
            edge_type_name(self.schema, key.edge_type).into(),
            self.names.get(key.destination).into(),
            b,
            a,
        ])?;
        Ok(())
    }
}

fn change_of(before: bool, after: bool) -> &'static str {
    match (before, after) {
        (false, _) => "added",
        (true, false) => "removed",
        (true, true) => "changed",
    }
}

/// For people: where both sides exist, only what differs.
fn differing(before: Option<Properties>, after: Option<Properties>) -> (Cell, Cell) {
    match (before, after) {
        (Some(before), Some(after)) => {
            let only = |of: &Properties, other: &Properties| -> Properties {
                of.iter()
                    .filter(|(name, value)| other.get(name) != Some(*value))
                    .map(|(name, value)| (name.to_owned(), value.clone()))
                    .collect()
            };
            (
                Cell::Properties(only(&before, &after)),
                Cell::Properties(only(&after, &before)),
            )
        }
        (before, after) => (
            before.map_or(Cell::Empty, Cell::Properties),
            after.map_or(Cell::Empty, Cell::Properties),
        ),
    }
}
