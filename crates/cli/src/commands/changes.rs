//! `esker changes`: compares the database at two times; differences are printed as they are found.

use super::run::deliver::open_with_runs;
use super::{is_interrupted, note_if_stopped};
use crate::args::{ChangesArgs, RowFormat};
use crate::graph::{NameCache, edge_type_name, vertex_type_name};
use crate::times::format_version;
use esker::Database;
use esker_model::{
    Cancel as _, DiffSelect, Difference, Edge, GraphRead as _, Properties, Schema, Vertex,
};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::output::{Cell, Rows, properties_json, vertex_attributes_json};
use std::ops::ControlFlow;
use std::sync::mpsc;
use std::thread;

/// Number of differences whose names are read at once.
const CHUNK: usize = 1024;

pub(crate) fn run(args: &ChangesArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let (before, after) = (args.from, args.until);
    if before > after {
        return Err(usage(format!(
            "{} is later than {}: give the earlier time first",
            format_version(before),
            format_version(after)
        )));
    }
    let database = open_with_runs(context, &args.target)?;
    let schema = database.schema()?;
    let format = args.format.format;
    let interrupt = context.interrupt.clone();
    let columns = &["change", "kind", "id", "type", "dst", "before", "after"];
    let mut rows = Rows::new(&mut context.out, format, context.style, columns);
    let mut printer = DifferencePrinter {
        database: &database,
        schema: &schema,
        names: NameCache::default(),
        format,
    };
    thread::scope(|scope| -> anyhow::Result<()> {
        let (sender, chunks) = mpsc::sync_channel::<Vec<Difference>>(4);
        let diff = scope.spawn(|| {
            let (sender, mut chunk) = (sender, Vec::new());
            let found = database.diff(&DiffSelect::between(before, after), &mut |difference| {
                chunk.push(difference);
                let gone = chunk.len() >= CHUNK && sender.send(std::mem::take(&mut chunk)).is_err();
                if gone || interrupt.cancelled() {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            });
            // The receiver is gone only if printing failed, and that failure is reported.
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

struct DifferencePrinter<'a> {
    database: &'a Database,
    schema: &'a Schema,
    names: NameCache,
    format: RowFormat,
}

impl DifferencePrinter<'_> {
    fn print(&mut self, chunk: Vec<Difference>, rows: &mut Rows<'_>) -> anyhow::Result<()> {
        let ends = chunk.iter().filter_map(|d| match d {
            Difference::Edge(before, after) => before.as_ref().or(after.as_ref()),
            Difference::Vertex(..) => None,
        });
        let ids = ends.flat_map(|e| [e.key.source, e.key.destination]);
        self.names.load(self.database, self.schema, ids)?;
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

/// Returns both sides for users; if both exist, only the properties that differ.
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
