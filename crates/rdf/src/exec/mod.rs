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

/// What is wanted of a pattern's solutions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Want {
    /// The variables that are used afterwards.
    pub(crate) vars: Vec<Var>,
    /// Whether it does not matter how often a solution comes.
    pub(crate) distinct: bool,
    /// How many solutions suffice.
    pub(crate) limit: Option<usize>,
    /// Whether only their number is wanted, however large: then `vars` is empty.
    pub(crate) count: bool,
}

impl Want {
    /// The same of another pattern, with variables that are needed besides and no limit.
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

/// The solutions of a pattern in the active graph.
pub(crate) fn eval(ctx: &Context<'_>, node: &Node, want: &Want) -> Result<Table> {
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
    let held = ctx.held();
    let table = eval_node(ctx, node, want);
    // What was made on the way is gone.
    ctx.release_to(held);
    if label.is_some() {
        ctx.depth.set(ctx.depth.get() - 1);
    }
    if let Some(error) = ctx.failed.borrow_mut().take() {
        return Err(error);
    }
    let table = table?;
    if !(want.count && table.vars().is_empty()) {
        ctx.hold_table(&table)?;
    }
    ctx.note(|| format!("= {} rows", table.len()));
    Ok(table)
}

fn eval_node(ctx: &Context<'_>, node: &Node, want: &Want) -> Result<Table> {
    match node {
        Node::Group(g) => group::group(ctx, g, want),
        Node::Path { s, path, o } => path::eval(ctx, *s, path, *o, None, None),
        Node::LeftJoin {
            left,
            right,
            filters,
        } => optional::left_join(ctx, left, right, filters, want, join::Mode::Left),
        Node::Minus { left, right } => optional::minus(ctx, left, right, want),
        Node::Union(list) => {
            let mut all = Table::empty(Vec::new());
            let held = ctx.held();
            for node in list {
                let left = want.limit.map(|n| n.saturating_sub(all.len()));
                if left == Some(0) {
                    break;
                }
                let want = Want {
                    limit: left,
                    ..want.clone()
                };
                let mut table = eval(ctx, node, &want)?;
                table.keep(&want.vars);
                all.append(table);
                ctx.release_to(held);
                if !(want.count && all.vars().is_empty()) {
                    ctx.hold_table(&all)?;
                }
            }
            Ok(all)
        }
        // Values and an order that nobody sees.
        Node::Extend { inner, .. } | Node::OrderBy { inner, .. } | Node::Project { inner, .. }
            if want.count =>
        {
            eval(ctx, inner, want)
        }
        Node::Graph { name, inner } => graph(ctx, *name, inner, want),
        Node::Extend { inner, var, expr } => {
            let volatile = expr.is_volatile();
            let mut inner_want = want.with(expr.vars());
            inner_want.distinct &= !volatile;
            inner_want.limit = want.limit;
            let table = eval(ctx, inner, &inner_want)?;
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
            let table = eval(ctx, inner, &want.with(used.chain(ties.iter().copied())))?;
            let limit = if want.distinct { None } else { want.limit };
            sort::order_by(ctx, &table, by, ties, limit)
        }
        Node::Project { inner, vars } => {
            // Not all that is selected is asked for: of ASK and EXISTS, nothing is.
            let mut vars = vars.clone();
            if ctx.options.optimise {
                vars.retain(|v| want.vars.contains(v));
            }
            let inner_want = Want {
                vars: vars.clone(),
                ..want.clone()
            };
            Ok(eval(ctx, inner, &inner_want)?.project(&vars))
        }
        Node::Distinct(inner) => {
            let inner_want = Want {
                distinct: true,
                vars: inner.vars(),
                ..Want::default()
            };
            let table = eval(ctx, inner, &inner_want)?;
            Ok(if inner.is_ordered() {
                rows::distinct_in_order(table)
            } else {
                rows::distinct(table)
            })
        }
        Node::Reduced(inner) => eval(
            ctx,
            inner,
            &Want {
                vars: inner.vars(),
                count: false,
                ..want.clone()
            },
        ),
        Node::Slice {
            inner,
            start,
            length,
        } => {
            let limit = length.map(|n| n.saturating_add(*start));
            let inner_want = Want {
                vars: inner.vars(),
                limit,
                ..Want::default()
            };
            let mut table = eval(ctx, inner, &inner_want)?;
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
            // How often there is a value is how often there is a solution, where each has one.
            let sure = inner.certain();
            let counts = |a: &Aggregate| match (&a.function, &a.expr) {
                (None, _) => !a.distinct,
                (Some(AggregateFunction::Count), Some(Expr::Var(v))) => {
                    !a.distinct && sure.contains(v)
                }
                _ => false,
            };
            if ctx.options.optimise && by.is_empty() && aggregates.iter().all(counts) {
                let want = Want {
                    count: true,
                    ..Want::default()
                };
                let table = eval(ctx, inner, &want)?;
                return aggregate::counted(ctx, table.len(), aggregates);
            }
            let inner_want = Want::default().with(vars);
            let table = eval(ctx, inner, &inner_want)?;
            aggregate::aggregate(ctx, &table, by, aggregates)
        }
    }
}

/// `BIND`: a new column.
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

/// `GRAPH`: the inner pattern in one graph, or in each.
fn graph(ctx: &Context<'_>, name: Pos, inner: &Node, want: &Want) -> Result<Table> {
    match name {
        Pos::Const(id) => match ctx.named.iter().find(|(g, _)| *g == id) {
            Some((_, graph)) => ctx.within(graph.clone(), || eval(ctx, inner, want)),
            None => Ok(Table::empty(inner.vars())),
        },
        Pos::Var(var) => {
            let mut all = Table::empty(Vec::new());
            let held = ctx.held();
            let inner_vars = inner.vars();
            for (id, graph) in &ctx.named {
                let left = want.limit.map(|n| n.saturating_sub(all.len()));
                if left == Some(0) {
                    break;
                }
                let mut inner_want = want.with(inner_vars.contains(&var).then_some(var));
                inner_want.limit = if inner_vars.contains(&var) {
                    None
                } else {
                    left
                };
                inner_want.count = want.count && !inner_vars.contains(&var);
                let mut table = ctx.within(graph.clone(), || eval(ctx, inner, &inner_want))?;
                if !inner_want.count {
                    table = name_rows(table, var, *id);
                }
                all.append(table);
                ctx.release_to(held);
                if !inner_want.count {
                    ctx.hold_table(&all)?;
                }
            }
            Ok(all)
        }
    }
}

/// The rows in which a variable has no value or that one, which it then has.
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
