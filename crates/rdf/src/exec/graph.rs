//! `GRAPH` with a variable.

use super::{Context, Table, Var};
use crate::error::Result;
use crate::id::{Id, UNBOUND};
use crate::plan::{EachGraph, Slot};

impl EachGraph {
    /// Evaluates the inner plan on each named graph.
    pub(super) fn run(&self, ctx: &Context<'_>, slot: &Slot) -> Result<Table> {
        if ctx.named.is_empty() {
            ctx.chose(slot, || "there is no named graph".into());
        }
        let mut all = Table::empty(Vec::new());
        let reserved = ctx.reserved();
        for (id, graph) in &ctx.named {
            let left = ctx.at_most(self.limit).map(|n| n.saturating_sub(all.len()));
            if left == Some(0) {
                ctx.chose(slot, || "the rest is not needed: there are enough".into());
                break;
            }
            let most = left.filter(|_| self.limits_each).unwrap_or(usize::MAX);
            let inner = || ctx.within(graph.clone(), || self.inner.run(ctx));
            let mut table = ctx.with_rows_left(most, inner)?;
            if !self.inner.count {
                table = name_rows(table, self.var, *id);
            }
            all.append(table);
            ctx.release_to(reserved);
            if !self.inner.count {
                ctx.reserve_table(&all)?;
            }
        }
        Ok(all)
    }
}

/// Keeps the rows in which a variable is unbound or has this value, and binds it.
pub(super) fn name_rows(table: Table, var: Var, id: Id) -> Table {
    let mut table = match table.column(var) {
        None => table,
        Some(column) => {
            let rows: Vec<u32> = (0..table.len() as u32)
                .filter(|r| matches!(column[*r as usize], x if x == UNBOUND || x == id))
                .collect();
            table.select(&rows)
        }
    };
    table.set_column(var, vec![id; table.len()]);
    table
}
