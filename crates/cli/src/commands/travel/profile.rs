//! The profile of a traversal by step and server, as tables and JSON.

use crate::args::RowFormat;
use esker_model::traversal::TravelResult;
use esker_terminal::context::Context;
use esker_terminal::output::{Cell, Rows};
use esker_terminal::step_chart;
use serde_json::{Value as Json, json};
use std::io::Write as _;

/// Returns the figures of each step as JSON.
pub(super) fn steps_json(result: &TravelResult) -> Json {
    result
        .profile
        .iter()
        .map(|p| {
            json!({
                "step": p.step,
                "text": p.text,
                "frontier": p.frontier,
                "edges": p.edges,
                "selected": p.selected,
                "reached": p.reached,
                "cached": p.cached,
                "micros": p.micros,
            })
        })
        .collect()
}

/// Returns the figures by step and server as JSON; empty for an embedded database.
pub(super) fn servers_json(result: &TravelResult) -> Json {
    result
        .servers
        .iter()
        .map(|s| {
            json!({
                "server": s.server,
                "step": s.step,
                "frontier": s.frontier,
                "edges": s.edges,
                "vertices_micros": s.vertices_micros,
                "edges_micros": s.edges_micros,
                "prefetch_micros": s.prefetch_micros,
                "wait_micros": s.wait_micros,
            })
        })
        .collect()
}

/// Prints the figures of each step, and of each server in it, on stderr.
pub(super) fn print(result: &TravelResult, context: &Context) -> anyhow::Result<()> {
    let columns = &[
        "step", "hop", "frontier", "edges", "selected", "reached", "cached", "ms",
    ];
    let mut stderr = std::io::stderr();
    let mut rows = Rows::new(&mut stderr, RowFormat::Table, context.note_style, columns);
    for p in &result.profile {
        rows.row(vec![
            Cell::Count(p.step.into()),
            p.text.as_str().into(),
            Cell::Count(p.frontier),
            Cell::Count(p.edges),
            Cell::Count(p.selected),
            Cell::Count(p.reached),
            Cell::Count(p.cached),
            millis(p.micros),
        ])?;
    }
    rows.finish()?;
    if !result.servers.is_empty() {
        print_servers(result, context)?;
    }
    Ok(())
}

fn millis(micros: u64) -> Cell {
    format!("{:.3}", micros as f64 / 1000.0).into()
}

fn print_servers(result: &TravelResult, context: &Context) -> anyhow::Result<()> {
    let columns = &[
        "step",
        "server",
        "frontier",
        "edges",
        "vertices_ms",
        "edges_ms",
        "prefetch_ms",
        "wait_ms",
    ];
    let mut stderr = std::io::stderr();
    writeln!(stderr)?;
    let mut rows = Rows::new(&mut stderr, RowFormat::Table, context.note_style, columns);
    for s in step_chart::by_step(result) {
        rows.row(vec![
            Cell::Count(s.step.into()),
            Cell::Count(s.server.into()),
            Cell::Count(s.frontier),
            Cell::Count(s.edges),
            millis(s.vertices_micros),
            millis(s.edges_micros),
            millis(s.prefetch_micros),
            millis(s.wait_micros),
        ])?;
    }
    rows.finish()?;
    Ok(())
}
