//! Execution: patterns to solutions in columns.

mod aggregate;
mod bgp;
mod bits;
mod context;
mod exists;
mod explain;
mod group;
mod join;
mod memory;
mod optional;
pub(crate) mod parallel;
mod path;
mod rows;
pub(crate) mod service;
mod sort;
mod steps;
mod table;

pub(crate) use context::is_local;
pub use context::{Context, Options};
pub(crate) use exists::exists;
pub(crate) use explain::explain;
pub use memory::STRING_BYTES_MAX;
pub use service::services_of;
pub(crate) use sort::{by_term, sort_triples};
pub use table::{Row, Table, Var};

use crate::error::Result;
use crate::expr::Expr;
use crate::id::{Id, UNBOUND};
use crate::plan::{Aggregate, Node, Pos};
use spargebra::algebra::AggregateFunction;

/// Requirements on a pattern's solutions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Required {
    /// Variables that are read afterwards.
    pub(crate) vars: Vec<Var>,
    /// Whether duplicate solutions do not matter.
    pub(crate) distinct: bool,
    /// Number of solutions that suffices.
    pub(crate) limit: Option<usize>,
    /// Whether only the number of solutions is needed, even if it is large; then `vars` is empty.
    pub(crate) count: bool,
}

impl Required {
    /// Returns the requirements on an inner pattern, with more variables and no limit.
    fn with(&self, more: impl IntoIterator<Item = Var>) -> Self {
        let mut vars = self.vars.clone();
        vars.extend(more);
        vars.sort_unstable();
        vars.dedup();
        Self {
            vars,
            distinct: self.distinct,
            limit: None,
            count: false,
        }
    }
}

/// Evaluates a pattern on the active graph.
pub(crate) fn eval(ctx: &Context<'_>, node: &Node, required: &Required) -> Result<Table> {
    ctx.check()?;
    let label = match node {
        Node::Group(_) => None,
        Node::Path { .. } => Some("path"),
        Node::LeftJoin { .. } => Some("optional"),
        Node::Minus { .. } => Some("minus"),
        Node::Union(_) => Some("union"),
        Node::Graph { .. } => Some("graph"),
        Node::Extend { .. } => Some("bind"),
        Node::Values { .. } => Some("values"),
        Node::Service(_) => Some("service"),
        Node::OrderBy { .. } => Some("order by"),
        Node::Project { .. } => Some("project"),
        Node::Distinct(_) => Some("distinct"),
        Node::Reduced(_) => Some("reduced"),
        Node::Slice { .. } => Some("slice"),
        Node::Aggregate { .. } => Some("group by"),
    };
    if let Some(label) = label {
        ctx.note(|| label.to_owned());
        ctx.depth.set(ctx.depth.get() + 1);
    }
    let reserved = ctx.reserved();
    let table = eval_node(ctx, node, required);
    // Intermediate results have been dropped.
    ctx.release_to(reserved);
    if label.is_some() {
        ctx.depth.set(ctx.depth.get() - 1);
    }
    if let Some(error) = ctx.failed.borrow_mut().take() {
        return Err(error);
    }
    let table = table?;
    if !(required.count && table.vars().is_empty()) {
        ctx.reserve_table(&table)?;
    }
    ctx.note(|| format!("= {} rows", table.len()));
    Ok(table)
}

fn eval_node(ctx: &Context<'_>, node: &Node, required: &Required) -> Result<Table> {
    match node {
        Node::Group(g) => group::group(ctx, g, required),
        Node::Path { s, path, o } => path::eval(ctx, *s, path, *o, None, None),
        Node::LeftJoin {
            left,
            right,
            filters,
        } => optional::left_join(ctx, left, right, filters, required, join::Mode::Left),
        Node::Minus { left, right } => optional::minus(ctx, left, right, required),
        Node::Union(list) => {
            let mut all = Table::empty(Vec::new());
            let reserved = ctx.reserved();
            for node in list {
                let left = required.limit.map(|n| n.saturating_sub(all.len()));
                if left == Some(0) {
                    break;
                }
                let required = Required {
                    limit: left,
                    ..required.clone()
                };
                let mut table = eval(ctx, node, &required)?;
                table.keep(&required.vars);
                all.append(table);
                ctx.release_to(reserved);
                if !(required.count && all.vars().is_empty()) {
                    ctx.reserve_table(&all)?;
                }
            }
            Ok(all)
        }
        // Computed values and order do not affect the count.
        Node::Extend { inner, .. } | Node::OrderBy { inner, .. } | Node::Project { inner, .. }
            if required.count =>
        {
            eval(ctx, inner, required)
        }
        Node::Graph { name, inner } => graph(ctx, *name, inner, required),
        Node::Extend { inner, var, expr } => {
            let volatile = expr.is_volatile();
            let mut inner_required = required.with(expr.vars());
            inner_required.distinct &= !volatile;
            inner_required.limit = required.limit;
            let table = eval(ctx, inner, &inner_required)?;
            extend(ctx, table, *var, expr)
        }
        Node::Service(s) => service::eval(ctx, s, None),
        Node::Values { vars, rows } => {
            let columns = (0..vars.len())
                .map(|i| {
                    rows.iter()
                        .map(|r| r.get(i).copied().unwrap_or(UNBOUND))
                        .collect()
                })
                .collect();
            Ok(Table::new(vars.clone(), columns, rows.len()))
        }
        Node::OrderBy { inner, by, ties } => {
            let used = by.iter().flat_map(|(e, _)| e.vars());
            let table = eval(ctx, inner, &required.with(used.chain(ties.iter().copied())))?;
            let limit = if required.distinct {
                None
            } else {
                required.limit
            };
            sort::order_by(ctx, &table, by, ties, limit)
        }
        Node::Project { inner, vars } => {
            // Only the selected variables that are required; ASK and EXISTS require none.
            let mut vars = vars.clone();
            if ctx.options.optimise {
                vars.retain(|v| required.vars.contains(v));
            }
            let inner_required = Required {
                vars: vars.clone(),
                ..required.clone()
            };
            Ok(eval(ctx, inner, &inner_required)?.project(&vars))
        }
        Node::Distinct(inner) => {
            let inner_required = Required {
                distinct: true,
                vars: inner.vars(),
                ..Required::default()
            };
            let table = eval(ctx, inner, &inner_required)?;
            Ok(if inner.is_ordered() {
                rows::distinct_in_order(table)
            } else {
                rows::distinct(table)
            })
        }
        Node::Reduced(inner) => eval(
            ctx,
            inner,
            &Required {
                vars: inner.vars(),
                count: false,
                ..required.clone()
            },
        ),
        Node::Slice {
            inner,
            start,
            length,
        } => {
            let limit = length.map(|n| n.saturating_add(*start));
            let inner_required = Required {
                vars: inner.vars(),
                limit,
                ..Required::default()
            };
            let mut table = eval(ctx, inner, &inner_required)?;
            table.skip(*start);
            if let Some(n) = length {
                table.truncate(*n);
            }
            Ok(table)
        }
        Node::Aggregate {
            inner,
            by,
            aggregates,
        } => {
            let mut vars = by.clone();
            for a in aggregates {
                vars.extend(a.expr.iter().flat_map(Expr::vars));
            }
            if aggregates
                .iter()
                .any(|a| a.function.is_none() && a.distinct)
            {
                vars.extend(inner.vars());
            }
            // Counting a variable that is bound in every solution is counting solutions.
            let sure = inner.always_bound();
            let counts = |a: &Aggregate| match (&a.function, &a.expr) {
                (None, _) => !a.distinct,
                (Some(AggregateFunction::Count), Some(Expr::Var(v))) => {
                    !a.distinct && sure.contains(v)
                }
                _ => false,
            };
            if ctx.options.optimise && by.is_empty() && aggregates.iter().all(counts) {
                let required = Required {
                    count: true,
                    ..Required::default()
                };
                let table = eval(ctx, inner, &required)?;
                return aggregate::count_only(ctx, table.len(), aggregates);
            }
            let inner_required = Required::default().with(vars);
            let table = eval(ctx, inner, &inner_required)?;
            aggregate::aggregate(ctx, &table, by, aggregates)
        }
    }
}

/// `BIND`: adds a computed column.
fn extend(ctx: &Context<'_>, mut table: Table, var: Var, expr: &Expr) -> Result<Table> {
    let mut column = Vec::with_capacity(table.len());
    for r in 0..table.len() {
        if r % 1024 == 0 {
            ctx.check()?;
        }
        let id = expr.eval(ctx, table.row(r)).map_or(UNBOUND, |v| v.id(ctx));
        column.push(id);
    }
    table.set_column(var, column);
    Ok(table)
}

/// `GRAPH`: evaluates the inner pattern on one named graph, or on each.
fn graph(ctx: &Context<'_>, name: Pos, inner: &Node, required: &Required) -> Result<Table> {
    match name {
        Pos::Const(id) => match ctx.named.iter().find(|(g, _)| *g == id) {
            Some((_, graph)) => ctx.within(graph.clone(), || eval(ctx, inner, required)),
            None => Ok(Table::empty(inner.vars())),
        },
        Pos::Var(var) => {
            let mut all = Table::empty(Vec::new());
            let reserved = ctx.reserved();
            let inner_vars = inner.vars();
            for (id, graph) in &ctx.named {
                let left = required.limit.map(|n| n.saturating_sub(all.len()));
                if left == Some(0) {
                    break;
                }
                let mut inner_required = required.with(inner_vars.contains(&var).then_some(var));
                inner_required.limit = if inner_vars.contains(&var) {
                    None
                } else {
                    left
                };
                inner_required.count = required.count && !inner_vars.contains(&var);
                let mut table = ctx.within(graph.clone(), || eval(ctx, inner, &inner_required))?;
                if !inner_required.count {
                    table = name_rows(table, var, *id);
                }
                all.append(table);
                ctx.release_to(reserved);
                if !inner_required.count {
                    ctx.reserve_table(&all)?;
                }
            }
            Ok(all)
        }
    }
}

/// Keeps the rows in which a variable is unbound or has this value, and binds it.
fn name_rows(table: Table, var: Var, id: Id) -> Table {
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
