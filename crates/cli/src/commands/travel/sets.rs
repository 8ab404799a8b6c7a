//! Output of working sets: those that `rtn()` marks, or the last one.

use super::graph::{vertex_json, write_dot_vertex};
use super::{PrintState, profile};
use crate::args::{GraphFormat, RowFormat};
use crate::graph::{unnamed, vertex_type_name};
use esker_model::traversal::WorkingSet;
use esker_model::{GraphRead as _, Vertex, VertexId};
use esker_terminal::context::Context;
use esker_terminal::output::{Cell, Rows};
use esker_terminal::units::counted;
use std::io::Write as _;

/// Number of vertices to read at once.
const CHUNK: usize = 1024;

pub(super) fn print(
    printing: &PrintState<'_>,
    format: GraphFormat,
    context: &mut Context,
) -> anyhow::Result<()> {
    match format {
        GraphFormat::Table => print_tables(printing, context),
        GraphFormat::Csv => print_rows(printing, RowFormat::Csv, context),
        GraphFormat::Ndjson => print_rows(printing, RowFormat::Ndjson, context),
        GraphFormat::Json => print_json(printing, context),
        GraphFormat::Dot => print_dot(printing, context),
    }
}

/// Reads a set's vertices chunk by chunk.
fn each_vertex(
    printing: &PrintState<'_>,
    set: &WorkingSet,
    print: &mut dyn FnMut(VertexId, Option<Vertex>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    for ids in set.vertices.chunks(CHUNK) {
        let vertices = printing
            .database
            .read_vertices(ids, printing.result.as_of)?;
        for (id, vertex) in ids.iter().zip(vertices) {
            print(*id, vertex)?;
        }
    }
    Ok(())
}

fn where_taken(set: &WorkingSet) -> String {
    if set.hop == 0 {
        "start".to_owned()
    } else {
        format!("after hop {}", set.hop)
    }
}

fn cells(printing: &PrintState<'_>, id: VertexId, vertex: Option<&Vertex>) -> [Cell; 3] {
    match vertex {
        Some(v) => [
            v.name(printing.schema).into(),
            vertex_type_name(printing.schema, v.type_id).into(),
            Cell::Version(v.version),
        ],
        None => [unnamed(id).into(), Cell::Empty, Cell::Empty],
    }
}

fn print_tables(printing: &PrintState<'_>, context: &mut Context) -> anyhow::Result<()> {
    let several = printing.result.sets.len() > 1;
    for (i, set) in printing.result.sets.iter().enumerate() {
        if several {
            if i > 0 {
                writeln!(context.out)?;
            }
            let count = counted(set.vertices.len() as u64, "vertex", "vertices");
            let heading = format!("{}: {count}", where_taken(set));
            writeln!(context.out, "{}", context.style.bold(&heading))?;
        }
        let columns = &["id", "type", "version"];
        let mut rows = Rows::new(&mut context.out, RowFormat::Table, context.style, columns);
        each_vertex(printing, set, &mut |id, vertex| {
            Ok(rows.row(cells(printing, id, vertex.as_ref()).into())?)
        })?;
        rows.finish()?;
    }
    Ok(())
}

fn print_rows(
    printing: &PrintState<'_>,
    format: RowFormat,
    context: &mut Context,
) -> anyhow::Result<()> {
    let columns = &["set", "hop", "id", "type", "version"];
    let mut rows = Rows::new(&mut context.out, format, context.style, columns);
    for (i, set) in printing.result.sets.iter().enumerate() {
        each_vertex(printing, set, &mut |id, vertex| {
            let mut row = vec![Cell::Count(i as u64), Cell::Count(set.hop.into())];
            row.extend(cells(printing, id, vertex.as_ref()));
            Ok(rows.row(row)?)
        })?;
    }
    rows.finish()?;
    Ok(())
}

fn print_json(printing: &PrintState<'_>, context: &mut Context) -> anyhow::Result<()> {
    let out = &mut context.out;
    super::graph::open_object(out, &printing.head())?;
    write_sets(printing, out)?;
    if printing.profile {
        write!(
            out,
            ",\n\"profile\":{}",
            profile::steps_json(printing.result)
        )?;
        if !printing.result.servers.is_empty() {
            write!(
                out,
                ",\n\"servers\":{}",
                profile::servers_json(printing.result)
            )?;
        }
    }
    writeln!(out, "\n}}")?;
    Ok(())
}

/// Writes `"sets":[{"hop":…,"vertices":[…]},…]` while vertices are read.
pub(super) fn write_sets(
    printing: &PrintState<'_>,
    out: &mut dyn std::io::Write,
) -> anyhow::Result<()> {
    write!(out, "\"sets\":[")?;
    for (i, set) in printing.result.sets.iter().enumerate() {
        let comma = if i > 0 { "," } else { "" };
        write!(out, "{comma}\n{{\"hop\":{},\"vertices\":[", set.hop)?;
        let mut first = true;
        each_vertex(printing, set, &mut |id, vertex| {
            let comma = if std::mem::take(&mut first) { "" } else { "," };
            let json = vertex_json(id, vertex.as_ref(), printing.schema);
            Ok(write!(out, "{comma}\n{json}")?)
        })?;
        write!(out, "\n]}}")?;
    }
    write!(out, "\n]")?;
    Ok(())
}

fn print_dot(printing: &PrintState<'_>, context: &mut Context) -> anyhow::Result<()> {
    let out = &mut context.out;
    writeln!(out, "digraph travel {{")?;
    for set in &printing.result.sets {
        each_vertex(printing, set, &mut |id, vertex| {
            Ok(write_dot_vertex(out, id, vertex.as_ref(), printing.schema)?)
        })?;
    }
    writeln!(out, "}}")?;
    Ok(())
}
