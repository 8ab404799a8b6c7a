//! Runs the operators of a plan.

use super::exists::exists;
use super::profile::Began;
use super::{Context, Table, Var, aggregate, rows, sort};
use crate::error::Result;
use crate::expr::Expr;
use crate::id::{Id, UNBOUND};
use crate::plan::{Op, OrderBy, Plan, Slot, Union};

/// Runs a plan on the active graph.
///
/// # Errors
///
/// If the query exceeds its memory, the host cancels, or an endpoint refuses.
pub(crate) fn run(ctx: &Context<'_>, plan: &Plan) -> Result<Table> {
    // Expressions contain EXISTS, which plans and runs a pattern.
    ctx.exists.set(Some(exists));
    plan.run(ctx)
}

impl Plan {
    pub(super) fn run(&self, ctx: &Context<'_>) -> Result<Table> {
        ctx.check()?;
        let reserved = ctx.reserved();
        let began = Began::now(ctx);
        let table = self.run_operator(ctx);
        // Intermediate results have been dropped.
        ctx.release_to(reserved);
        if let Some(error) = ctx.failed.borrow_mut().take() {
            return Err(error);
        }
        let table = table?;
        if !(self.count && table.vars().is_empty()) {
            ctx.reserve_table(&table)?;
        }
        began.end(ctx, &self.slot, 0, table.len());
        Ok(table)
    }

    pub(super) fn run_operator(&self, ctx: &Context<'_>) -> Result<Table> {
        match &self.op {
            Op::Pattern(pattern) => pattern.run(ctx, &self.slot, None),
            Op::Values { vars, rows } => Ok(values(vars, rows)),
            Op::Path(path) => path.run(ctx, &self.slot, None, None),
            Op::Service(service) => service.run(ctx, &self.slot, None),
            Op::Join(join) => join.run(ctx, &self.slot),
            Op::Optional(optional) => optional.run(ctx, &self.slot),
            Op::Minus {
                left,
                right,
                shared,
            } => {
                let l = left.run(ctx)?;
                if l.is_empty() {
                    ctx.chose(&self.slot, || "there is nothing to remove".into());
                    return Ok(l);
                }
                let mut r = right.run(ctx)?;
                r.keep(shared);
                super::join::minus(ctx, &l, &rows::distinct(r))
            }
            Op::Union(union) => union.run(ctx, &self.slot, self.count),
            Op::Graph { graph, inner, .. } => ctx.within(graph.clone(), || inner.run(ctx)),
            Op::NoGraph { vars, .. } => Ok(Table::empty(vars.clone())),
            Op::EachGraph(graphs) => graphs.run(ctx, &self.slot),
            Op::Extend { inner, var, expr } => extend(ctx, inner.run(ctx)?, *var, expr),
            Op::OrderBy(order) => order.run(ctx),
            Op::Project { inner, vars } => Ok(inner.run(ctx)?.project(vars)),
            Op::Distinct { inner, ordered } => {
                let table = inner.run(ctx)?;
                Ok(if *ordered {
                    rows::distinct_in_order(table)
                } else {
                    rows::distinct(table)
                })
            }
            Op::Slice {
                inner,
                start,
                length,
            } => {
                let mut table = ctx.with_rows_left(usize::MAX, || inner.run(ctx))?;
                table.skip(*start);
                if let Some(n) = length {
                    table.truncate(*n);
                }
                Ok(table)
            }
            Op::Aggregate {
                inner,
                by,
                aggregates,
            } => aggregate::aggregate(ctx, &inner.run(ctx)?, by, aggregates),
            Op::Count { inner, aggregates } => {
                aggregate::count_only(ctx, inner.run(ctx)?.len(), aggregates)
            }
        }
    }
}

fn values(vars: &[Var], rows: &[Vec<Id>]) -> Table {
    let column = |i: usize| {
        let values = rows.iter().map(|r| r.get(i).copied().unwrap_or(UNBOUND));
        values.collect()
    };
    let columns = (0..vars.len()).map(column).collect();
    Table::new(vars.to_vec(), columns, rows.len())
}

/// `BIND`: adds a computed column.
fn extend(ctx: &Context<'_>, mut table: Table, var: Var, expr: &Expr) -> Result<Table> {
    let column = expr.ids(ctx, &table)?;
    table.set_column(var, column);
    Ok(table)
}

impl Union {
    fn run(&self, ctx: &Context<'_>, slot: &Slot, count: bool) -> Result<Table> {
        let mut all = Table::empty(Vec::new());
        let reserved = ctx.reserved();
        for input in &self.inputs {
            let left = ctx.at_most(self.limit).map(|n| n.saturating_sub(all.len()));
            if left == Some(0) {
                ctx.chose(slot, || "the rest is not needed: there are enough".into());
                break;
            }
            let mut table = ctx.with_rows_left(left.unwrap_or(usize::MAX), || input.run(ctx))?;
            table.keep(&self.needed);
            all.append(table);
            ctx.release_to(reserved);
            if !(count && all.vars().is_empty()) {
                ctx.reserve_table(&all)?;
            }
        }
        Ok(all)
    }
}

impl OrderBy {
    fn run(&self, ctx: &Context<'_>) -> Result<Table> {
        let table = self.inner.run(ctx)?;
        let limit = ctx.at_most(self.limit);
        sort::order_by(ctx, &table, &self.by, &self.ties, limit)
    }
}
