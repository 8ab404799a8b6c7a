//! `EXISTS`: as a semi-join where the pattern is simple, else row by row.

use super::bgp::solve;
use super::group::ROW;
use super::rows::RowSet;
use super::steps::RequiredRef;
use super::{Context, Required, Row, Table, Var, eval};
use crate::error::Result;
use crate::expr::Expr;
use crate::id::UNBOUND;
use crate::plan::{Node, Triple};

/// Returns whether the pattern has a solution for a row. An error of the engine is kept in the context.
pub(crate) fn exists(ctx: &Context<'_>, node: &Node, row: Row<'_>) -> Option<bool> {
    let bound = node.bind(&|v| match row.get(v) {
        UNBOUND => None,
        id => Some(id),
    });
    let required = Required {
        distinct: true,
        limit: Some(1),
        ..Required::default()
    };
    // Rows are in the order of term ids, which a per-row profile would reveal.
    let notes = ctx.is_view().then(|| ctx.notes.take());
    let found = eval(ctx, &bound, &required);
    if let Some(notes) = notes {
        ctx.notes.replace(notes);
    }
    match found {
        Ok(table) => Some(!table.is_empty()),
        Err(e) => {
            ctx.failed.borrow_mut().get_or_insert(e);
            None
        }
    }
}

/// Returns the rows that a filter keeps, if it is `EXISTS` or `NOT EXISTS` of triple patterns and filters.
pub(crate) fn semi_join(
    ctx: &Context<'_>,
    table: &Table,
    filter: &Expr,
) -> Result<Option<Vec<u32>>> {
    let (node, wanted) = match filter {
        Expr::Exists(node) => (node, true),
        Expr::Not(e) => match &**e {
            Expr::Exists(node) => (node, false),
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    let Node::Group(g) = &**node else {
        return Ok(None);
    };
    if !ctx.options.optimise
        || !g.parts.is_empty()
        || g.triples.is_empty()
        || g.filters.iter().any(Expr::has_exists)
    {
        return Ok(None);
    }
    let mut vars: Vec<Var> = g.triples.iter().flat_map(Triple::vars).collect();
    vars.extend(g.filters.iter().flat_map(Expr::vars));
    let shared: Vec<Var> = table
        .vars()
        .iter()
        .copied()
        .filter(|v| vars.contains(v))
        .collect();
    if !shared.iter().all(|v| table.is_always_bound(*v)) {
        return Ok(None);
    }
    // Each distinct combination is evaluated once.
    let mut keys = table.clone();
    keys.keep(&shared);
    let mut set = RowSet::default();
    let mut firsts = Vec::new();
    let mut of_row = Vec::with_capacity(table.len());
    for r in 0..table.len() {
        let (n, new) = set.find_or_insert(&keys, r);
        if new {
            firsts.push(r as u32);
        }
        of_row.push(n as u32);
    }
    let mut seed = keys.select(&firsts);
    seed.set_column(ROW, (0..firsts.len() as u32).collect());
    let graph = ctx.graph();
    let found = solve(
        ctx,
        &graph,
        &g.triples,
        &g.filters,
        seed,
        &RequiredRef {
            vars: &[ROW],
            distinct: true,
            limit: None,
            count: false,
        },
        &|v| ctx.name(v),
    )?;
    let mut hit = vec![false; firsts.len()];
    for r in found.column(ROW).unwrap_or(&[]) {
        hit[*r as usize] = true;
    }
    Ok(Some(
        (0..table.len() as u32)
            .filter(|r| hit[of_row[*r as usize] as usize] == wanted)
            .collect(),
    ))
}
