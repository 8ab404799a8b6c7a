//! `esker edges`: prints the edges of a vertex while they are read.

use super::note_if_stopped;
use crate::args::{EdgesArgs, RowFormat};
use crate::graph::{NameCache, NamedVertex, edge_type_name};
use crate::near;
use esker::Database;
use esker_model::{Edge, EdgeSelect, EdgeTypeId, GraphRead as _, Schema, Version, Versions};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::output::{Cell, Rows};
use std::ops::ControlFlow;
use std::sync::mpsc;
use std::thread;

/// Number of edges whose destinations' names are read at once.
const CHUNK: usize = 1024;

pub(crate) fn run(args: &EdgesArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let database = context
        .open(&args.target)?
        .on_behalf_of(args.principal.principal.as_ref());
    let schema = database.schema()?;
    let named = NamedVertex::find(&args.vertex, &database, &schema)?;
    let types = select_types(args, &schema)?;
    let versions = match args.versions {
        Some(range) => Versions::Range(range),
        None => Versions::AsOf(args.as_of.unwrap_or(Version::MAX)),
    };
    let known = database.read_vertices(&[named.vertex.id], Version::MAX)?;
    if known.iter().all(Option::is_none) {
        return Err(near::missing(&named, "", &database, &schema).into());
    }
    // Only a range of versions includes deletions, which need a column of their own.
    let columns: &[&str] = if args.versions.is_some() {
        &["src", "type", "dst", "version", "deleted", "properties"]
    } else {
        &["src", "type", "dst", "version", "properties"]
    };
    let select = EdgeSelect {
        types,
        versions,
        properties: true,
        after: None,
    };
    let interrupt = context.interrupt.clone();
    let mut rows = Rows::new(&mut context.out, args.format.format, context.style, columns);
    let mut names = NameCache::default();
    let source = named.name.to_string();
    let mut print = |chunk: Vec<Edge>| -> anyhow::Result<()> {
        names.load(&database, &schema, chunk.iter().map(|e| e.key.destination))?;
        for edge in chunk {
            let mut cells = vec![
                source.as_str().into(),
                edge_type_name(&schema, edge.key.edge_type).into(),
                names.get(edge.key.destination).into(),
                Cell::Version(edge.version),
            ];
            if columns.len() == 6 {
                cells.push(Cell::Bool(edge.deleted));
            }
            cells.push(Cell::Properties(edge.properties));
            rows.row(cells)?;
        }
        Ok(())
    };
    let limit = args.limit.unwrap_or(u64::MAX);
    let stop = || esker_model::Cancel::cancelled(&interrupt);
    stream_edges(
        &database,
        named.vertex.id,
        &select,
        limit,
        &stop,
        &mut print,
    )?;
    if rows.finish()? == 0 && args.format.format == RowFormat::Table {
        context.note("no such edges");
    }
    Ok(note_if_stopped(context))
}

/// Reads edges on a thread of its own and passes them on in chunks: names are read and lines written during the scan, and no call to the
/// database is made inside another.
fn stream_edges(
    database: &Database,
    vertex: esker_model::VertexId,
    select: &EdgeSelect,
    limit: u64,
    stop: &(dyn Fn() -> bool + Sync),
    print: &mut dyn FnMut(Vec<Edge>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    if limit == 0 {
        return Ok(());
    }
    thread::scope(|scope| {
        let (sender, chunks) = mpsc::sync_channel::<Vec<Edge>>(4);
        let scan = scope.spawn(move || {
            let mut chunk = Vec::new();
            let mut left = limit;
            let scanned = database.scan_edges(&[vertex], select, &mut |_, edge| {
                chunk.push(edge);
                left -= 1;
                // The first chunk is small, so that the first lines appear at once.
                let full = chunk.len() >= CHUNK && sender.send(std::mem::take(&mut chunk)).is_err();
                if full || left == 0 || stop() {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            });
            // The receiver is gone only if printing failed, and that failure is reported.
            let _ = sender.send(chunk);
            scanned
        });
        let mut printed = Ok(());
        for chunk in chunks {
            printed = print(chunk);
            if printed.is_err() {
                break;
            }
        }
        let scanned = scan.join();
        printed?;
        match scanned {
            Ok(scanned) => Ok(scanned?),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Returns the edge types to read; none for all.
fn select_types(args: &EdgesArgs, schema: &Schema) -> anyhow::Result<Vec<EdgeTypeId>> {
    let named: Vec<EdgeTypeId> = args
        .edge_types
        .iter()
        .map(|name| schema.edge_type_id(name))
        .collect::<Result<_, _>>()
        .map_err(esker_model::Error::from)?;
    if !args.inverse {
        return Ok(named);
    }
    if !named.is_empty() {
        return Ok(named.into_iter().map(|t| schema.inverse(t)).collect());
    }
    let inverses: Vec<_> = schema
        .edge_types()
        .filter(|(_, t)| !t.forward)
        .map(|(id, _)| id)
        .collect();
    if inverses.is_empty() {
        return Err(usage("the schema has no inverse edge types"));
    }
    Ok(inverses)
}
