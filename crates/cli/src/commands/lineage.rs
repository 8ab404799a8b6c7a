//! `esker lineage` and `esker impact`: print how a file was made, and what was derived from it.

use super::is_interrupted;
use super::run::deliver::open_with_runs;
use crate::args::{DerivationArgs, GraphFormat, ImpactArgs, LineageArgs, RowFormat, Target};
use crate::graph::{NamedVertex, edge_type_name};
use crate::near;
use esker::lineage::{
    Direction, LineageOptions, Provenance, Stopped, TimeFormat, TreeStyle, names_of_stopped,
    render_dot, render_json, render_tree,
};
use esker_model::traversal::StopReason;
use esker_model::{GraphRead as _, Schema, Version, VertexId};
use esker_mount::mount_point;
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::output::{Cell, Rows, properties_json, vertex_attributes_json};
use esker_terminal::zone;
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::io::Write as _;
use std::path::Path;

pub(crate) fn lineage(args: &LineageArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    run(&args.options, None, Direction::Lineage, context)
}

pub(crate) fn impact(args: &ImpactArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    run(&args.options, args.since, Direction::Impact, context)
}

fn run(
    args: &DerivationArgs,
    since: Option<Version>,
    direction: Direction,
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    let (target, vertex) = match &args.vertex {
        Some(vertex) => (args.target.clone(), vertex.clone()),
        None => find_mount(&args.target)?,
    };
    let database = open_with_runs(context, &Target { target })?
        .on_behalf_of(args.principal.principal.as_ref());
    let schema = database.schema()?;
    let named = NamedVertex::find(&vertex, &database, &schema)?;
    let options = LineageOptions {
        as_of: args.as_of.unwrap_or(Version::MAX),
        since,
        depth: args.depth,
        vertices: args.max_vertices,
        edges: args.max_edges,
        bytes: Some(context.globals.memory),
        made_by: args.made_by.clone(),
        used: args.used.clone(),
        ..LineageOptions::default()
    };
    let id = named.vertex.id;
    let found = match direction {
        Direction::Lineage => esker::lineage::lineage(&database, id, &options, &context.interrupt),
        Direction::Impact => esker::lineage::impact(&database, id, &options, &context.interrupt),
    };
    let found = match found {
        Err(error) if is_interrupted(&error) => {
            return Err(anyhow::anyhow!("interrupted before anything was found"));
        }
        Err(esker_model::Error::NoVertex { hint, .. }) => {
            return Err(near::missing(&named, &hint, &database, &schema).into());
        }
        found => found?,
    };
    print(&found, &schema, args.format, context)?;
    context.out.flush()?;
    // The tree already prints this in its last line.
    if args.format != GraphFormat::Table && !found.complete {
        let stops: Vec<_> = found.stopped.iter().map(stop_text).collect();
        context.note(&format!("not complete: {}", stops.join("; ")));
    }
    let asked_for = found.stopped.iter().all(|s| match s.reason {
        StopReason::Limit | StopReason::Depth => true,
        StopReason::Edges | StopReason::Bytes | StopReason::TimeOut | StopReason::Interrupted => {
            false
        }
    });
    if !asked_for {
        context.warn("stopped before the end: what is shown is partial");
    }
    Ok(Outcome::partly_if(!asked_for))
}

/// Returns the target of the mount above a path, and the vertex of the file.
fn find_mount(path: &str) -> anyhow::Result<(String, String)> {
    let expected = "expected TARGET VERTEX, as `lab.esker file:/scratch/out.nc`, or the path of a file below a mount of `esker mount`";
    let found = mount_point::mount_of(Path::new(path))
        .map_err(|e| usage(format!("{path}: {e}; {expected}")))?;
    let Some((mount, within)) = found else {
        return Err(usage(format!(
            "{path}: there is no Esker mount there; {expected}"
        )));
    };
    let Some(within) = within.to_str() else {
        return Err(usage(format!(
            "{path}: its name is not UTF-8, as names of vertices must be"
        )));
    };
    let kind = if Path::new(path).is_dir() {
        "directory"
    } else {
        "file"
    };
    Ok((mount.source, format!("{kind}:{within}")))
}

fn stop_text(stop: &Stopped) -> String {
    format!(
        "{} at level {}, {} not followed",
        stop.reason.name(),
        stop.level,
        esker_terminal::units::counted(stop.vertices_left, "vertex", "vertices")
    )
}

fn print(
    found: &Provenance,
    schema: &Schema,
    format: GraphFormat,
    context: &mut Context,
) -> anyhow::Result<()> {
    match format {
        GraphFormat::Table => {
            let width = context.style.width();
            let style = TreeStyle {
                width,
                times: TimeFormat {
                    time: zone::time,
                    version: if width.is_some() {
                        zone::version_time
                    } else {
                        zone::version
                    },
                },
                ..TreeStyle::default()
            };
            let tree = render_tree(found, schema, &style);
            writeln!(context.out, "{}", tree.trim_end())?;
        }
        GraphFormat::Json => writeln!(context.out, "{}", render_json(found, schema))?,
        GraphFormat::Dot => writeln!(context.out, "{}", render_dot(found, schema).trim_end())?,
        GraphFormat::Csv => print_edges(found, schema, context)?,
        GraphFormat::Ndjson => print_lines(found, schema, context)?,
    }
    Ok(())
}

fn names(found: &Provenance, schema: &Schema) -> HashMap<VertexId, String> {
    found
        .vertices
        .iter()
        .map(|v| (v.id, v.name(schema)))
        .collect()
}

fn print_edges(found: &Provenance, schema: &Schema, context: &mut Context) -> anyhow::Result<()> {
    let names = names(found, schema);
    let name = |id| {
        names
            .get(&id)
            .cloned()
            .unwrap_or_else(|| crate::graph::unnamed(id))
    };
    let columns = &["src", "type", "dst", "version", "concurrent", "properties"];
    let mut rows = Rows::new(&mut context.out, RowFormat::Csv, context.style, columns);
    for found in &found.edges {
        let key = &found.edge.key;
        rows.row(vec![
            name(key.source).into(),
            edge_type_name(schema, key.edge_type).into(),
            name(key.destination).into(),
            Cell::Version(found.edge.version),
            Cell::Bool(found.concurrent),
            Cell::Properties(found.edge.properties.clone()),
        ])?;
    }
    rows.finish()?;
    Ok(())
}

/// Prints `{"vertex":…}` lines, `{"edge":…}` lines, and last `{"target","complete","stopped"}`.
fn print_lines(found: &Provenance, schema: &Schema, context: &mut Context) -> anyhow::Result<()> {
    let names = names(found, schema);
    let name = |id| {
        names
            .get(&id)
            .cloned()
            .unwrap_or_else(|| crate::graph::unnamed(id))
    };
    for one in &found.vertices {
        let json = match &one.vertex {
            Some(v) => json!({
                "id": v.name(schema),
                "type": crate::graph::vertex_type_name(schema, v.type_id),
                "version": v.version.to_string(),
                "attributes": vertex_attributes_json(v),
            }),
            None => {
                json!({"id": one.name(schema), "type": null, "version": null, "attributes": {}})
            }
        };
        writeln!(context.out, "{}", json!({"vertex": json}))?;
    }
    for one in &found.edges {
        let key = &one.edge.key;
        let json = json!({
            "src": name(key.source),
            "type": edge_type_name(schema, key.edge_type),
            "dst": name(key.destination),
            "version": one.edge.version.to_string(),
            "concurrent": one.concurrent,
            "properties": properties_json(&one.edge.properties),
        });
        writeln!(context.out, "{}", json!({"edge": json}))?;
    }
    let stopped: Vec<Json> = found
        .stopped
        .iter()
        .map(|stop| {
            json!({
                "reason": stop.reason.name(),
                "level": stop.level,
                "vertices_left": stop.vertices_left,
                "vertices": names_of_stopped(stop, &found.vertices, schema),
            })
        })
        .collect();
    let end = json!({"target": name(found.target), "complete": found.complete, "stopped": stopped});
    writeln!(context.out, "{end}")?;
    Ok(())
}
