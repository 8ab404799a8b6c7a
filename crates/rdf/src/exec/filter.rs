//! Filters of joins. `EXISTS` is a semi-join where its pattern is simple, else it is evaluated row by row.

use super::parallel::{portion, portions};
use super::profile::Began;
use super::rows::RowSet;
use super::{Context, Table, Var};
use crate::error::Result;
use crate::expr::Expr;
use crate::plan::{Filter, ROW, is_movable};

/// Applies the filters whose variables are bound in every row, or all filters.
pub(super) fn apply(
    ctx: &Context<'_>,
    table: &mut Table,
    filters: &mut Vec<&Filter>,
    all: bool,
) -> Result<()> {
    if !all && !ctx.options.optimise {
        return Ok(());
    }
    let mut i = 0;
    while let Some(f) = filters.get(i) {
        let bound = || f.expr.vars().iter().all(|v| table.is_always_bound(*v));
        let movable = all || is_movable(&f.expr) && bound();
        if !movable {
            i += 1;
            continue;
        }
        let filter = filters.remove(i);
        let began = Began::now(ctx);
        let rows = table.len();
        let kept = match filter.semi_join(ctx, table)? {
            Some(kept) => kept,
            None => filter.select(ctx, table)?,
        };
        if kept.len() < table.len() {
            *table = table.select(&kept);
        }
        began.end(ctx, &filter.slot, rows, table.len());
    }
    Ok(())
}

impl Filter {
    /// Returns the rows for which the filter is true.
    fn select(&self, ctx: &Context<'_>, table: &Table) -> Result<Vec<u32>> {
        let expr = &self.expr;
        let each = if is_movable(expr) {
            portion(ctx, table.len())
        } else {
            table.len()
        };
        let parts = portions(
            ctx,
            table.len(),
            each,
            || (),
            |ctx, (), range| {
                let mut kept = Vec::new();
                for from in range.clone().step_by(1024) {
                    ctx.check()?;
                    let to = (from + 1024).min(range.end);
                    kept.extend(expr.select(ctx, table, (from as u32..to as u32).collect()));
                }
                Ok(kept)
            },
        )?;
        Ok(parts.concat())
    }

    /// Returns the rows that the filter keeps, if it is EXISTS or NOT EXISTS of triple patterns whose variables are bound in each row.
    fn semi_join(&self, ctx: &Context<'_>, table: &Table) -> Result<Option<Vec<u32>>> {
        let Some(semi_join) = &self.semi_join else {
            return Ok(None);
        };
        let plan = &semi_join.pattern;
        let Some(pattern) = plan.pattern() else {
            return Ok(None);
        };
        let mut vars: Vec<Var> = pattern.vars().collect();
        vars.extend(pattern.filters.iter().flat_map(Expr::vars));
        let here = table.vars().iter().copied();
        let shared: Vec<Var> = here.filter(|v| vars.contains(v)).collect();
        if !shared.iter().all(|v| table.is_always_bound(*v)) {
            ctx.chose(&self.slot, || "for each row".into());
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
        let mut leading = keys.select(&firsts);
        leading.set_column(ROW, (0..firsts.len() as u32).collect());
        let began = Began::now(ctx);
        let found = pattern.run(ctx, &plan.slot, Some(leading))?;
        began.end(ctx, &plan.slot, firsts.len(), found.len());
        ctx.chose(&self.slot, || {
            format!("for {} distinct combinations", firsts.len())
        });
        let mut hit = vec![false; firsts.len()];
        for r in found.column(ROW).unwrap_or(&[]) {
            hit[*r as usize] = true;
        }
        let wanted = |r: &u32| hit[of_row[*r as usize] as usize] == semi_join.wanted;
        Ok(Some((0..table.len() as u32).filter(wanted).collect()))
    }
}
