//! `esker stats`: prints counts, sizes and cache figures.

use crate::args::{RowFormat, StatsArgs};
use crate::graph::{edge_type_name, vertex_type_name};
use esker::{Role, Stats};
use esker_model::{GraphRead as _, Schema};
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use esker_terminal::output::{Cell, Rows};
use esker_terminal::units::size;
use serde_json::json;

pub(crate) fn run(args: &StatsArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let database = context.open(&args.target)?;
    let schema = database.schema()?;
    let stats = database.stats()?;
    let role = database.role();
    match args.format.format {
        RowFormat::Json => {
            let json = as_json(&stats, role, &schema);
            writeln!(context.out, "{}", serde_json::to_string_pretty(&json)?)?;
        }
        format @ (RowFormat::Table | RowFormat::Ndjson | RowFormat::Csv) => {
            let columns = &["what", "of", "value"];
            let mut rows = Rows::new(&mut context.out, format, context.style, columns);
            for (what, of, value) in figures(&stats, role, &schema, format) {
                rows.row(vec![what.into(), of, value])?;
            }
            rows.finish()?;
        }
    }
    Ok(Outcome::Done)
}

fn role_text(role: Role) -> String {
    match role {
        Role::Owner => "this process".to_owned(),
        Role::Attached { pid } => format!("process {pid}"),
        Role::Client { pid } => format!("server, process {pid} on its machine"),
    }
}

fn figures(
    stats: &Stats,
    role: Role,
    schema: &Schema,
    format: RowFormat,
) -> Vec<(&'static str, Cell, Cell)> {
    let bytes = |n: u64| match format {
        RowFormat::Table => Cell::Text(size(n)),
        RowFormat::Json | RowFormat::Ndjson | RowFormat::Csv => Cell::Count(n),
    };
    let version = |v: Option<esker_model::Version>| v.map_or(Cell::Empty, Cell::Version);
    // Tables leave out types without vertices or edges.
    let all_types = format != RowFormat::Table;
    let shown = |(_, n): &&(esker_model::VertexTypeId, u64)| all_types || *n > 0;
    let shown_edge = |(_, n): &&(esker_model::EdgeTypeId, u64)| all_types || *n > 0;
    let mut all = Vec::new();
    for (id, n) in stats.counts.vertices.iter().filter(shown) {
        all.push((
            "vertices",
            vertex_type_name(schema, *id).into(),
            Cell::Count(*n),
        ));
    }
    for (id, n) in stats.counts.edges.iter().filter(shown_edge) {
        all.push(("edges", edge_type_name(schema, *id).into(), Cell::Count(*n)));
    }
    for (table, n) in &stats.store.table_bytes {
        all.push(("on disk", table.name().into(), bytes(*n)));
    }
    all.push((
        "on disk",
        "write-ahead log".into(),
        bytes(stats.store.log_bytes),
    ));
    all.push((
        "in memory",
        "block cache".into(),
        bytes(stats.store.cache_bytes),
    ));
    all.push((
        "at most",
        "block cache".into(),
        bytes(stats.store.cache_bytes_max),
    ));
    all.push((
        "in memory",
        "adjacency cache".into(),
        bytes(stats.adjacency_bytes),
    ));
    all.push((
        "at most",
        "adjacency cache".into(),
        bytes(stats.adjacency_bytes_max),
    ));
    all.push((
        "in memory",
        "objects' columns".into(),
        bytes(stats.objects_bytes),
    ));
    all.push((
        "in memory",
        "objects' indexes".into(),
        bytes(stats.objects_index_bytes),
    ));
    all.push((
        "adjacency lists",
        Cell::Empty,
        Cell::Count(stats.adjacency_lists),
    ));
    all.push((
        "adjacent edges",
        Cell::Empty,
        Cell::Count(stats.adjacency_edges),
    ));
    all.push(("newest version", Cell::Empty, version(stats.newest)));
    all.push((
        "archived before",
        Cell::Empty,
        version(stats.retained_since),
    ));
    all.push(("engine", Cell::Empty, stats.store.engine.into()));
    all.push(("owner", Cell::Empty, role_text(role).into()));
    all
}

fn as_json(stats: &Stats, role: Role, schema: &Schema) -> serde_json::Value {
    let vertices: serde_json::Map<_, _> = stats
        .counts
        .vertices
        .iter()
        .map(|(id, n)| (vertex_type_name(schema, *id), (*n).into()))
        .collect();
    let edges: serde_json::Map<_, _> = stats
        .counts
        .edges
        .iter()
        .map(|(id, n)| (edge_type_name(schema, *id), (*n).into()))
        .collect();
    let tables: serde_json::Map<_, _> = stats
        .store
        .table_bytes
        .iter()
        .map(|(table, n)| (table.name().to_owned(), (*n).into()))
        .collect();
    json!({
        "vertices": vertices,
        "edges": edges,
        "store": {
            "engine": stats.store.engine,
            "table_bytes": tables,
            "log_bytes": stats.store.log_bytes,
            "cache_bytes": stats.store.cache_bytes,
            "cache_bytes_max": stats.store.cache_bytes_max,
        },
        "adjacency": {
            "lists": stats.adjacency_lists,
            "edges": stats.adjacency_edges,
            "bytes": stats.adjacency_bytes,
            "bytes_max": stats.adjacency_bytes_max,
        },
        "objects": {
            "bytes": stats.objects_bytes,
            "index_bytes": stats.objects_index_bytes,
            "disk_bytes": stats.objects_disk_bytes,
        },
        "newest": stats.newest.map(|v| v.to_string()),
        "retained_since": stats.retained_since.map(|v| v.to_string()),
        "owner_pid": match role {
            Role::Owner => std::process::id(),
            Role::Attached { pid } | Role::Client { pid } => pid,
        },
    })
}
