//! From an algebra expression to its plan.

use super::pattern::is_movable;
use super::tree::{EachGraph, Mode, Op, Optional, OrderBy, PathSearch, Plan, Union, led_pattern};
use super::tree::{Led, ROW};
use crate::algebra::{Aggregate, Group, Node, Pos};
use crate::error::Result;
use crate::exec::{Context, Var};
use crate::expr::Expr;
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
    pub(super) fn with(&self, more: impl IntoIterator<Item = Var>) -> Self {
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

    /// Returns the requirements with other variables.
    fn of(&self, vars: Vec<Var>) -> Self {
        Self {
            vars,
            ..self.clone()
        }
    }
}

/// Returns the plan of a pattern on the active graph.
///
/// # Errors
///
/// If a group has too many triple patterns, or the host cancels.
pub(crate) fn plan(ctx: &Context<'_>, node: Node, required: &Required) -> Result<Plan> {
    let planner = Planner {
        ctx,
        knows_graph: true,
    };
    planner.node(node, required)
}

/// Planner of one query.
pub(super) struct Planner<'a, 'b> {
    pub(super) ctx: &'a Context<'b>,
    /// Whether the plan runs on the active graph alone.
    pub(super) knows_graph: bool,
}

impl Planner<'_, '_> {
    pub(super) fn node(&self, node: Node, required: &Required) -> Result<Plan> {
        self.ctx.check()?;
        let op = match node {
            Node::Group(g) => return self.group(g, required),
            Node::Path { s, path, o } => Op::Path(PathSearch { s, path, o }),
            Node::LeftJoin {
                left,
                right,
                filters,
            } => return self.optional(*left, *right, filters, required, Mode::Left),
            Node::Minus { left, right } => return self.minus(*left, *right, required),
            Node::Union(list) => Op::Union(Union {
                inputs: list
                    .into_iter()
                    .map(|n| self.node(n, required))
                    .collect::<Result<_>>()?,
                needed: required.vars.clone(),
                limit: required.limit,
            }),
            // Computed values and order do not affect the count.
            Node::Extend { inner, .. }
            | Node::OrderBy { inner, .. }
            | Node::Project { inner, .. }
                if required.count =>
            {
                return self.node(*inner, required);
            }
            Node::Graph { name, inner } => self.graph(name, *inner, required)?,
            Node::Extend { inner, var, expr } => {
                let mut inner_required = required.with(expr.vars());
                inner_required.distinct &= !expr.is_volatile();
                inner_required.limit = required.limit;
                let inner = self.boxed(*inner, &inner_required)?;
                Op::Extend { inner, var, expr }
            }
            Node::Service(s) => Op::Service(s),
            Node::Values { vars, rows } => Op::Values { vars, rows },
            Node::OrderBy { inner, by, ties } => self.order_by(*inner, by, ties, required)?,
            other => return self.modifier(other, required),
        };
        Ok(Plan::new(op, required.count))
    }

    /// Plans the modifiers of a query's solutions.
    fn modifier(&self, node: Node, required: &Required) -> Result<Plan> {
        let op = match node {
            Node::Project { inner, mut vars } => {
                // Only the selected variables that are required; ASK and EXISTS require none.
                if self.ctx.options.optimise {
                    vars.retain(|v| required.vars.contains(v));
                }
                let inner = self.boxed(*inner, &required.of(vars.clone()))?;
                Op::Project { inner, vars }
            }
            Node::Distinct(inner) => {
                let inner_required = Required {
                    distinct: true,
                    ..Required::default().of(inner.vars())
                };
                Op::Distinct {
                    ordered: inner.is_ordered(),
                    inner: self.boxed(*inner, &inner_required)?,
                }
            }
            // Duplicates may stay.
            Node::Reduced(inner) => {
                let inner_required = Required {
                    count: false,
                    ..required.of(inner.vars())
                };
                return self.node(*inner, &inner_required);
            }
            Node::Slice {
                inner,
                start,
                length,
            } => {
                let inner_required = Required {
                    limit: length.map(|n| n.saturating_add(start)),
                    ..Required::default().of(inner.vars())
                };
                let inner = self.boxed(*inner, &inner_required)?;
                Op::Slice {
                    inner,
                    start,
                    length,
                }
            }
            Node::Aggregate {
                inner,
                by,
                aggregates,
            } => self.aggregate(*inner, by, aggregates)?,
            other => return self.node(other, required),
        };
        Ok(Plan::new(op, required.count))
    }

    fn boxed(&self, node: Node, required: &Required) -> Result<Box<Plan>> {
        Ok(Box::new(self.node(node, required)?))
    }

    /// Plans `OPTIONAL`, as a left outer join or as an anti-join.
    pub(super) fn optional(
        &self,
        left: Node,
        right: Node,
        filters: Vec<Expr>,
        required: &Required,
        mode: Mode,
    ) -> Result<Plan> {
        let optimise = self.ctx.options.optimise;
        let (left_vars, right_vars) = (left.vars(), right.vars());
        let tested: Vec<Var> = filters.iter().flat_map(Expr::vars).collect();
        let mut left_required = required.with(tested.iter().chain(&right_vars).copied());
        if mode == Mode::Left {
            left_required.limit = required.limit;
        }
        let right_required = Required {
            distinct: required.distinct || mode == Mode::Anti,
            ..required.with(tested.iter().chain(&left_vars).copied())
        };
        // Filters on variables bound by the optional side alone are pushed into it.
        let sure = right.always_bound();
        let (own, between): (Vec<Expr>, Vec<Expr>) = filters
            .into_iter()
            .partition(|f| optimise && is_movable(f) && f.vars().iter().all(|v| sure.contains(v)));
        let mut right = match right {
            Node::Group(g) => g,
            other => Group {
                parts: vec![other],
                ..Group::default()
            },
        };
        right.filters.extend(own);
        let mut optional = Optional {
            left: self.node(left, &left_required)?,
            right: self.group(right, &right_required)?,
            filters: between,
            shared: right_vars
                .into_iter()
                .filter(|v| left_vars.contains(v))
                .collect(),
            needed: required.vars.clone(),
            mode,
        };
        optional.needed.sort_unstable();
        if optimise {
            optional.allow_lead();
        }
        Ok(Plan::new(Op::Optional(Box::new(optional)), required.count))
    }

    /// Plans `MINUS`. Without common variables it removes nothing.
    fn minus(&self, left: Node, right: Node, required: &Required) -> Result<Plan> {
        let (left_vars, mut shared) = (left.vars(), right.vars());
        let left = self.node(left, &required.with(shared.iter().copied()))?;
        shared.retain(|v| left_vars.contains(v));
        if shared.is_empty() {
            return Ok(left);
        }
        let right_required = Required {
            distinct: true,
            ..Required::default().of(shared.clone())
        };
        let op = Op::Minus {
            left: Box::new(left),
            right: self.boxed(right, &right_required)?,
            shared,
        };
        Ok(Plan::new(op, required.count))
    }

    fn graph(&self, name: Pos, inner: Node, required: &Required) -> Result<Op> {
        let named = &self.ctx.named;
        let var = match name {
            Pos::Var(var) => var,
            Pos::Const(name) => {
                let Some((_, graph)) = named.iter().find(|(g, _)| *g == name) else {
                    let vars = inner.vars();
                    return Ok(Op::NoGraph { name, vars });
                };
                let planner = Planner {
                    ctx: self.ctx,
                    knows_graph: true,
                };
                let graph = graph.clone();
                let within = || planner.boxed(inner, required);
                let inner = self.ctx.within(graph.clone(), within)?;
                return Ok(Op::Graph { name, graph, inner });
            }
        };
        let inside = inner.vars().contains(&var);
        let mut inner_required = required.with(inside.then_some(var));
        inner_required.limit = required.limit.filter(|_| !inside);
        inner_required.count = required.count && !inside;
        let planner = Planner {
            ctx: self.ctx,
            knows_graph: named.len() == 1,
        };
        // Estimates are those of the largest graph.
        let largest = named.iter().max_by_key(|(_, g)| g.len());
        let graph = largest.map_or_else(|| self.ctx.graph(), |(_, g)| g.clone());
        let within = || planner.boxed(inner, &inner_required);
        Ok(Op::EachGraph(EachGraph {
            var,
            inner: self.ctx.within(graph, within)?,
            limit: required.limit,
            limits_each: !inside,
        }))
    }

    fn order_by(
        &self,
        inner: Node,
        by: Vec<(Expr, bool)>,
        ties: Vec<Var>,
        required: &Required,
    ) -> Result<Op> {
        let used = by.iter().flat_map(|(e, _)| e.vars());
        let inner_required = required.with(used.chain(ties.iter().copied()));
        Ok(Op::OrderBy(OrderBy {
            inner: self.boxed(inner, &inner_required)?,
            by,
            ties,
            limit: required.limit.filter(|_| !required.distinct),
        }))
    }

    fn aggregate(&self, inner: Node, by: Vec<Var>, aggregates: Vec<Aggregate>) -> Result<Op> {
        // Counting a variable that is bound in every solution is counting solutions.
        let sure = inner.always_bound();
        let counts = |a: &Aggregate| match (&a.function, &a.expr) {
            (None, _) => !a.distinct,
            (Some(AggregateFunction::Count), Some(Expr::Var(v))) => !a.distinct && sure.contains(v),
            _ => false,
        };
        if self.ctx.options.optimise && by.is_empty() && aggregates.iter().all(counts) {
            let required = Required {
                count: true,
                ..Required::default()
            };
            let inner = self.boxed(inner, &required)?;
            return Ok(Op::Count { inner, aggregates });
        }
        let mut vars = by.clone();
        for a in &aggregates {
            vars.extend(a.expr.iter().flat_map(Expr::vars));
        }
        if aggregates
            .iter()
            .any(|a| a.function.is_none() && a.distinct)
        {
            vars.extend(inner.vars());
        }
        Ok(Op::Aggregate {
            inner: self.boxed(inner, &Required::default().with(vars))?,
            by,
            aggregates,
        })
    }
}

impl Optional {
    /// Lets rows of the left side lead the right one, if that is one pattern that shares variables with them.
    fn allow_lead(&mut self) {
        let Some((plan, fixed)) = led_pattern(&self.right) else {
            return;
        };
        let Some(pattern) = plan.pattern() else {
            return;
        };
        let vars: Vec<Var> = pattern.vars().collect();
        let possible = !self.shared.is_empty()
            && self.shared.iter().all(|v| vars.contains(v))
            && fixed.iter().all(|(v, _)| !self.shared.contains(v))
            && self.filters.iter().all(is_movable);
        if !possible {
            return;
        }
        let mut needed = vec![ROW];
        if self.mode != Mode::Anti {
            let read = |v: &Var| self.needed.contains(v) && !self.shared.contains(v);
            needed.extend(vars.into_iter().filter(read));
        }
        needed.sort_unstable();
        needed.dedup();
        let led = Led {
            needed,
            filters: self.filters.clone(),
        };
        if let Some(pattern) = self.right.only_pattern() {
            pattern.led = Some(led);
        }
    }
}

impl Plan {
    /// Returns the only pattern of a plan, as [`led_pattern`] does.
    fn only_pattern(&mut self) -> Option<&mut super::tree::Pattern> {
        match &mut self.op {
            Op::Pattern(pattern) => Some(pattern),
            Op::Join(j) => j.patterns.first_mut()?.only_pattern(),
            _ => None,
        }
    }
}
