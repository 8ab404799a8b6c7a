//! Joins of any number of inputs: small tables lead the patterns that share variables with them, small tables are joined first, and
//! filters run as early as possible.

use super::filter::apply;
use super::join::join;
use super::profile::Began;
use super::rows::distinct;
use super::{Context, Table, Var};
use crate::algebra::Pos;
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::id::Id;
use crate::plan::{
    Filter, Join, LEADING_MAX, Later, Mode, Op, PathSearch, Pattern, Plan, Slot, Union, is_movable,
};

/// Approximate rows of a cross product that are built at a time.
const PIECE: usize = 1 << 16;

impl Join {
    pub(super) fn run(&self, ctx: &Context<'_>, slot: &Slot) -> Result<Table> {
        let Some(tables) = self.tables(ctx)? else {
            ctx.chose(slot, || "the rest is not needed: an input is empty".into());
            return Ok(Table::empty(self.needed.clone()));
        };
        let mut filters: Vec<&Filter> = self.filters.iter().collect();
        let mut table = self.combine(ctx, slot, tables, &mut filters)?;
        for (i, later) in self.later.iter().enumerate() {
            apply(ctx, &mut table, &mut filters, false)?;
            let rest = self.later.iter().skip(i + 1);
            let mut keep = self.needed.clone();
            keep.extend(filters.iter().flat_map(|f| f.expr.vars()));
            keep.extend(rest.flat_map(|l| &l.vars));
            let empty_ends = matches!(later.plan.op, Op::Union(_));
            table = later.join(ctx, &table, &keep)?;
            if empty_ends && table.is_empty() {
                ctx.chose(slot, || "the rest is not needed: a union is empty".into());
                return Ok(Table::empty(self.needed.clone()));
            }
        }
        for (var, id) in &self.fixed {
            table.set_column(*var, vec![*id; table.len()]);
        }
        apply(ctx, &mut table, &mut filters, true)?;
        Ok(table)
    }

    /// Returns the solutions of the inputs and of the patterns; `None` if one of them is empty.
    fn tables(&self, ctx: &Context<'_>) -> Result<Option<Vec<Table>>> {
        let mut tables: Vec<Table> = Vec::new();
        for input in &self.inputs {
            tables.push(input.run(ctx)?);
        }
        if tables.iter().any(Table::is_empty) {
            return Ok(None);
        }
        for plan in &self.patterns {
            let Some(pattern) = plan.pattern() else {
                continue;
            };
            let leading = pattern
                .led
                .as_ref()
                .and_then(|_| take_leading(&mut tables, pattern));
            let table = lead(ctx, plan, pattern, leading)?;
            if table.is_empty() {
                return Ok(None);
            }
            tables.push(table);
        }
        Ok(Some(tables))
    }

    /// Joins tables, those with shared variables first.
    fn combine(
        &self,
        ctx: &Context<'_>,
        slot: &Slot,
        mut tables: Vec<Table>,
        filters: &mut Vec<&Filter>,
    ) -> Result<Table> {
        tables.sort_by_key(Table::len);
        if tables.is_empty() {
            return Ok(Table::unit());
        }
        let mut table = tables.remove(0);
        while !tables.is_empty() {
            apply(ctx, &mut table, filters, false)?;
            let score = |t: &Table| {
                let shared = t.vars().iter().any(|v| table.vars().contains(v));
                (
                    !shared && equalities(filters, &table, t).is_empty(),
                    t.len(),
                )
            };
            let next = (0..tables.len())
                .min_by_key(|i| score(&tables[*i]))
                .unwrap_or(0);
            let right = tables.remove(next);
            let mut equal = Vec::new();
            let mut now = Vec::new();
            if ctx.options.optimise {
                equal = equalities(filters, &table, &right);
                now = take_ready(filters, &table, &right);
            }
            let mut keep = self.needed.clone();
            keep.extend(filters.iter().flat_map(|f| f.expr.vars()));
            keep.extend(tables.iter().flat_map(|t| t.vars().iter().copied()));
            keep.extend(self.later.iter().flat_map(|l| &l.vars));
            let apart = !table.vars().iter().any(|v| right.vars().contains(v));
            let product = apart && equal.is_empty() && now.is_empty() && ctx.options.optimise;
            ctx.chose(slot, || {
                let (left, right) = (table.len(), right.len());
                match (product, equal.len()) {
                    (true, _) => format!("product of {left} x {right} rows"),
                    (false, 0) => format!("join of {left} x {right} rows"),
                    (false, n) => format!("join of {left} x {right} rows, {n} keys by value"),
                }
            });
            if product {
                table = self.product(ctx, &table, &right, &keep)?;
                continue;
            }
            // The smaller side is the build side.
            if table.len() < right.len() {
                let turned: Vec<(Var, Var)> = equal.iter().map(|(a, b)| (*b, *a)).collect();
                table = join(ctx, &right, &table, &turned, &now, Mode::Inner, &keep)?;
            } else {
                table = join(ctx, &table, &right, &equal, &now, Mode::Inner, &keep)?;
            }
            if self.distinct && table.len() > 1024 {
                table = distinct(table);
            }
        }
        Ok(table)
    }

    /// Returns the cross product of two tables.
    fn product(
        &self,
        ctx: &Context<'_>,
        left: &Table,
        right: &Table,
        keep: &[Var],
    ) -> Result<Table> {
        let limits = !self.distinct || self.needed.is_empty();
        let most = ctx.at_most(self.limit.filter(|_| limits));
        let rows = left.len().checked_mul(right.len());
        let rows = match most {
            Some(most) => rows.unwrap_or(most).min(most),
            None => rows.ok_or_else(|| {
                Error::Unsupported(format!(
                    "a pattern with {} times {} solutions",
                    left.len(),
                    right.len()
                ))
            })?,
        };
        let kept = |t: &Table| t.vars().iter().filter(|v| keep.contains(v)).count();
        let columns = kept(left) + kept(right);
        if !(self.count && columns == 0) {
            ctx.fits(rows, columns)?;
        }
        let table = if columns == 0 {
            Table::without_columns(rows)
        } else {
            // Built in pieces, with a cancellation check between them.
            let mut all = Table::empty(Vec::new());
            let each = (PIECE / right.len().max(1)).max(1);
            let mut from = 0;
            while from < left.len() && all.len() < rows {
                ctx.check()?;
                let to = (from + each).min(left.len());
                let some: Vec<u32> = (from as u32..to as u32).collect();
                let len = (some.len() * right.len()).min(rows - all.len());
                all.append(left.select(&some).product(right, keep, len));
                from = to;
            }
            all
        };
        Ok(if self.distinct && table.len() > 1024 {
            distinct(table)
        } else {
            table
        })
    }
}

/// Solves a pattern, led by a table if there is one.
fn lead(
    ctx: &Context<'_>,
    plan: &Plan,
    pattern: &Pattern,
    leading: Option<Table>,
) -> Result<Table> {
    let began = Began::now(ctx);
    if pattern.led.is_some() {
        ctx.chose(&plan.slot, || match &leading {
            Some(table) => format!("led by {} rows", table.len()),
            None => "solved alone".into(),
        });
    }
    let rows = leading.as_ref().map_or(0, Table::len);
    let table = pattern.run(ctx, &plan.slot, leading)?;
    began.end(ctx, &plan.slot, rows, table.len());
    Ok(table)
}

/// Removes and returns the smallest table that can lead a pattern: in each of its rows the shared variables are bound.
fn take_leading(tables: &mut Vec<Table>, pattern: &Pattern) -> Option<Table> {
    let best = tables
        .iter()
        .enumerate()
        .filter(|(_, t)| t.len() <= LEADING_MAX && leads(t, pattern))
        .min_by_key(|(_, t)| t.len())?
        .0;
    Some(tables.remove(best))
}

/// Returns whether a table shares variables with a pattern, all bound in each row.
fn leads(table: &Table, pattern: &Pattern) -> bool {
    let vars: Vec<Var> = pattern.vars().collect();
    let mut shared = table.vars().iter().filter(|v| vars.contains(v)).peekable();
    shared.peek().is_some() && shared.all(|v| table.is_always_bound(*v))
}

/// Returns the variables of two tables that filters equate.
fn equalities(filters: &[&Filter], left: &Table, right: &Table) -> Vec<(Var, Var)> {
    let pair = |f: &&Filter| {
        let (a, b) = equality(&f.expr)?;
        let ours = |v| left.vars().contains(&v) && !right.vars().contains(&v);
        let theirs = |v| right.vars().contains(&v) && !left.vars().contains(&v);
        if ours(a) && theirs(b) {
            Some((a, b))
        } else {
            (ours(b) && theirs(a)).then_some((b, a))
        }
    };
    filters.iter().filter_map(pair).collect()
}

/// Removes and returns the filters whose variables are bound in every row of a join.
fn take_ready(filters: &mut Vec<&Filter>, left: &Table, right: &Table) -> Vec<Expr> {
    let mut ready = Vec::new();
    let has = |v: &Var| left.vars().contains(v) || right.vars().contains(v);
    filters.retain(|f| {
        let vars = f.expr.vars();
        let now = is_movable(&f.expr)
            && vars.iter().all(has)
            && vars
                .iter()
                .all(|v| left.is_always_bound(*v) || right.is_always_bound(*v));
        if now {
            ready.push(f.expr.clone());
        }
        !now
    });
    ready
}

impl Later {
    /// Joins the solutions with this part.
    fn join(&self, ctx: &Context<'_>, table: &Table, keep: &[Var]) -> Result<Table> {
        let began = Began::now(ctx);
        let rows = table.len();
        let slot = &self.plan.slot;
        let found = match &self.plan.op {
            Op::Union(union) => {
                let (found, joined) = union.led(ctx, slot, table)?;
                if joined {
                    began.end(ctx, slot, rows, found.len());
                    return Ok(found);
                }
                found
            }
            Op::Service(service) => service.run(ctx, slot, Some(table))?,
            Op::Path(path) => path.from(ctx, slot, table)?,
            _ => self.plan.run_operator(ctx)?,
        };
        began.end(ctx, slot, rows, found.len());
        join(ctx, table, &found, &[], &[], Mode::Inner, keep)
    }
}

impl Union {
    /// Returns the solutions of the branches, and whether they are joined with the table: it leads each branch if it is small, else they
    /// are solved alone.
    fn led(&self, ctx: &Context<'_>, slot: &Slot, table: &Table) -> Result<(Table, bool)> {
        let patterns = || self.inputs.iter().filter_map(|p| Some((p, p.pattern()?)));
        let joined = table.len() <= LEADING_MAX && patterns().all(|(_, b)| leads(table, b));
        ctx.chose(slot, || {
            if joined {
                format!("led by {} rows", table.len())
            } else {
                "solved alone, then joined".into()
            }
        });
        let mut all = Table::empty(Vec::new());
        for (plan, pattern) in patterns() {
            let leading = joined.then(|| table.clone());
            let mut found = lead(ctx, plan, pattern, leading)?;
            if !joined {
                found.keep(&self.needed);
            }
            all.append(found);
            ctx.fits_table(&all)?;
        }
        if !joined {
            ctx.reserve_table(&all)?;
        }
        Ok((all, joined))
    }
}

impl PathSearch {
    /// Returns the pairs that the path connects from the known ends.
    fn from(&self, ctx: &Context<'_>, slot: &Slot, table: &Table) -> Result<Table> {
        let ends = |p: Pos| {
            p.var()
                .filter(|v| table.is_always_bound(*v))
                .and_then(|v| table.column(v))
                .map(distinct_ids)
        };
        self.run(ctx, slot, ends(self.s), ends(self.o))
    }
}

fn distinct_ids(column: &[Id]) -> Vec<Id> {
    let mut ids = column.to_vec();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Returns the two variables that a filter equates.
pub(super) fn equality(f: &Expr) -> Option<(Var, Var)> {
    match f {
        Expr::Equal(a, b) | Expr::SameTerm(a, b) => match (&**a, &**b) {
            (Expr::Var(a), Expr::Var(b)) if a != b => Some((*a, *b)),
            _ => None,
        },
        _ => None,
    }
}
