//! The view of a plan: its operators with estimates, and what their slots have. Where an operator decides while it runs, the view of a
//! plan that has not run shows the steps for the estimated number of rows.

use super::slot::{Slot, StepRecord};
use super::steps::Step;
use super::tree::{EachGraph, Filter, Join, LEADING_MAX, Later, Mode, Op, Optional, Pattern};
use super::tree::{PathSearch, Plan, ROW, Union};
use super::view::{PlanNode, PlanRun};
use crate::algebra::{Path, Pos, Service};
use crate::exec::{Context, Var};
use crate::expr::Expr;
use crate::id::Id;
use std::fmt::Write as _;

/// Assumed number of solutions from another endpoint.
const SENT: f64 = 100.0;

/// Rows that lead a pattern, as estimated: their variables and their number.
type Rows = (Vec<Var>, f64);

/// Returns the view of a plan; with `ran`, also what the executor recorded.
pub(crate) fn show(ctx: &Context<'_>, plan: &Plan, ran: bool) -> PlanNode {
    Viewer { ctx, ran }.plan(plan)
}

/// Returns a step as text.
pub(crate) fn show_step(ctx: &Context<'_>, step: &Step) -> String {
    step.show(&|p| pos(ctx, *p), &|v| ctx.name(v))
}

struct Viewer<'a, 'b> {
    ctx: &'a Context<'b>,
    ran: bool,
}

impl Viewer<'_, '_> {
    fn plan(&self, plan: &Plan) -> PlanNode {
        let mut node = match &plan.op {
            Op::Pattern(pattern) => return self.pattern(plan, pattern, None),
            Op::Values { vars, rows } if vars.is_empty() && rows.len() == 1 => {
                leaf("one solution without values", 1.0)
            }
            Op::Values { rows, .. } => leaf("values", rows.len() as f64),
            Op::Path(path) => self.path(path),
            Op::Service(service) => self.service(service),
            Op::Join(join) => self.join(join),
            Op::Optional(optional) => self.optional(optional),
            Op::Minus { left, right, .. } => {
                let children = vec![self.plan(left), self.plan(right)];
                PlanNode {
                    at_most: true,
                    ..inner("minus", children[0].rows(), children)
                }
            }
            Op::Union(union) => {
                let children: Vec<_> = union.inputs.iter().map(|p| self.plan(p)).collect();
                inner("union", children.iter().map(PlanNode::rows).sum(), children)
            }
            Op::Graph { name, graph, inner } => {
                let child = self.ctx.within(graph.clone(), || self.plan(inner));
                unary(format!("graph {}", self.ctx.show_term(*name)), child)
            }
            Op::NoGraph { name, .. } => {
                leaf(format!("no graph {}", self.ctx.show_term(*name)), 0.0)
            }
            Op::EachGraph(graphs) => self.each_graph(graphs),
            op => self.modifier(op),
        };
        self.add_record(&plan.slot, &mut node, true);
        node
    }

    /// Shows an operator with one input.
    fn modifier(&self, op: &Op) -> PlanNode {
        match op {
            Op::Extend { inner, var, .. } => {
                unary(format!("bind {}", self.ctx.name(*var)), self.plan(inner))
            }
            Op::OrderBy(order) => {
                let label = match order.limit {
                    Some(n) => format!("order by, first {n}"),
                    None => "order by".into(),
                };
                unary(label, self.plan(&order.inner))
            }
            Op::Project { inner, vars } => {
                let label = format!("project {}", self.names(vars));
                unary(label.trim_end(), self.plan(inner))
            }
            Op::Distinct { inner, .. } => PlanNode {
                at_most: true,
                ..unary("distinct", self.plan(inner))
            },
            Op::Slice {
                inner,
                start,
                length,
            } => {
                let child = self.plan(inner);
                let label = match (start, length) {
                    (0, Some(n)) => format!("slice: first {n}"),
                    (start, Some(n)) => format!("slice: {n} after {start}"),
                    (start, None) => format!("slice: all after {start}"),
                };
                let mut node = unary(label, child);
                if let Some(n) = length {
                    node.at_most = true;
                    node.estimate = node.estimate.map(|rows| rows.min(*n as f64));
                }
                node
            }
            Op::Aggregate { inner, by, .. } if by.is_empty() => PlanNode {
                estimate: Some(1.0),
                at_most: false,
                ..unary("one group of all", self.plan(inner))
            },
            Op::Aggregate { inner, by, .. } => PlanNode {
                at_most: true,
                ..unary(format!("group by {}", self.names(by)), self.plan(inner))
            },
            Op::Count { inner, .. } => PlanNode {
                estimate: Some(1.0),
                at_most: false,
                ..unary("count", self.plan(inner))
            },
            _ => PlanNode::default(),
        }
    }

    /// Shows a pattern with its steps. `leading` are the rows that are expected to lead it.
    fn pattern(&self, plan: &Plan, pattern: &Pattern, leading: Option<&Rows>) -> PlanNode {
        let graph = self.ctx.graph();
        let optimise = self.ctx.options.optimise;
        let planned;
        let steps = match (leading, &pattern.steps) {
            (None, Some(steps)) => steps,
            (None, None) => {
                planned = pattern.own_steps(&graph, optimise);
                &planned
            }
            (Some((vars, rows)), _) => {
                planned = pattern.led_steps(&graph, vars, rows.min(1e15) as usize, optimise);
                &planned
            }
        };
        let begin = leading.map_or(1.0, |l| l.1);
        let last = steps.iter().rev().find_map(Step::expected);
        let mut label = "pattern".to_owned();
        if pattern.count {
            label += ", only counted";
        }
        if let Some(n) = pattern.limit {
            // Writing to a string does not fail.
            let _ = write!(label, ", {n} suffice");
        }
        let mut node = leaf(label, last.unwrap_or(begin));
        node.adaptive = match (&pattern.led, &pattern.steps) {
            (Some(_), _) => Some("led by other rows if they are few; the order of the steps"),
            (None, None) => Some("the order of the steps, for each graph"),
            (None, Some(_)) => None,
        };
        node.children = self.steps(plan, steps);
        self.add_record(&plan.slot, &mut node, false);
        node
    }

    /// Shows the steps that ran, else the planned ones.
    fn steps(&self, plan: &Plan, planned: &[Step]) -> Vec<PlanNode> {
        let orders = plan.slot.recorded().orders;
        match &*orders {
            _ if !self.ran => {}
            [] => {}
            [(steps, _)] => return steps.iter().map(step_that_ran).collect(),
            many => {
                let order = |(steps, runs): &(Vec<StepRecord>, u64)| PlanNode {
                    label: format!("in {runs} runs"),
                    children: steps.iter().map(step_that_ran).collect(),
                    ..PlanNode::default()
                };
                return many.iter().map(order).collect();
            }
        }
        let step = |step: &Step| PlanNode {
            label: show_step(self.ctx, step),
            estimate: step.expected(),
            run: self.ran.then(PlanRun::default),
            ..PlanNode::default()
        };
        planned.iter().map(step).collect()
    }

    fn join(&self, join: &Join) -> PlanNode {
        let optimise = self.ctx.options.optimise;
        let mut children: Vec<PlanNode> = Vec::new();
        let mut known: Vec<Rows> = Vec::new();
        for input in &join.inputs {
            let node = self.plan(input);
            known.push((vars_of(input), node.rows()));
            children.push(node);
        }
        for plan in &join.patterns {
            let Some(pattern) = plan.pattern() else {
                continue;
            };
            let leading = pattern.led.as_ref();
            let leading = leading.and_then(|_| take_leading(&mut known, pattern));
            let node = self.pattern(plan, pattern, leading.as_ref());
            let mut vars = leading.map_or_else(Vec::new, |l| l.0);
            vars.extend(pattern.vars());
            known.push((vars, node.rows()));
            children.push(node);
        }
        known.sort_by(|a, b| a.1.total_cmp(&b.1));
        let mut all = (Vec::new(), 1.0);
        for (vars, rows) in known {
            all.1 = joined(all.1, rows, &all.0, &vars);
            all.0.extend(vars);
        }
        for later in &join.later {
            let node = self.later(later, &all);
            all.1 = match &later.plan.op {
                Op::Union(_) if all.1 <= LEADING_MAX as f64 => node.rows(),
                _ => joined(all.1, node.rows(), &all.0, &later.vars),
            };
            all.0.extend(&later.vars);
            children.push(node);
        }
        children.extend(join.filters.iter().map(|f| self.filter(f, &all)));
        let parts = join.inputs.len() + join.patterns.len() + join.later.len();
        let mut label = if parts < 2 { "group" } else { "join" }.to_owned();
        for (var, id) in &join.fixed {
            let _ = write!(
                label,
                ", {} is {}",
                self.ctx.name(*var),
                self.ctx.show_term(*id)
            );
        }
        PlanNode {
            adaptive: (optimise && parts > 1)
                .then_some("small tables first; filters as soon as their variables are bound"),
            ..inner(label, all.1, children)
        }
    }

    fn later(&self, later: &Later, known: &Rows) -> PlanNode {
        let mut node = match &later.plan.op {
            Op::Path(path) => self.path(path),
            Op::Service(service) => PlanNode {
                adaptive: Some("known solutions are sent if they are few"),
                ..self.service(service)
            },
            Op::Union(union) => self.led_union(union, known),
            _ => return self.plan(&later.plan),
        };
        self.add_record(&later.plan.slot, &mut node, false);
        node
    }

    fn led_union(&self, union: &Union, known: &Rows) -> PlanNode {
        let leading = (known.1 <= LEADING_MAX as f64).then_some(known);
        let branch = |p: &Plan| Some(self.pattern(p, p.pattern()?, leading));
        let children: Vec<_> = union.inputs.iter().filter_map(branch).collect();
        PlanNode {
            adaptive: Some("led by the rows before it if they are few, else joined"),
            ..inner("union", children.iter().map(PlanNode::rows).sum(), children)
        }
    }

    fn filter(&self, filter: &Filter, known: &Rows) -> PlanNode {
        let mut node = PlanNode {
            label: format!("filter {}", self.text(&filter.expr)),
            ..PlanNode::default()
        };
        if let Some(semi_join) = &filter.semi_join {
            let leading = (with_row(&known.0), known.1);
            let pattern = semi_join.pattern.pattern();
            let child = pattern.map(|p| self.pattern(&semi_join.pattern, p, Some(&leading)));
            node.children.extend(child);
            node.adaptive = Some("for each distinct combination of values, or for each row");
        } else if filter.expr.has_exists() {
            node.adaptive = Some("EXISTS is planned for each row, with its values");
        }
        self.add_record(&filter.slot, &mut node, false);
        node
    }

    fn optional(&self, optional: &Optional) -> PlanNode {
        let left = self.plan(&optional.left);
        let right = self.plan(&optional.right);
        let (l, r) = (left.rows(), right.rows());
        let vars = (vars_of(&optional.left), vars_of(&optional.right));
        let (mut label, rows) = match optional.mode {
            Mode::Anti => ("rows without a match".to_owned(), l),
            _ => ("optional".to_owned(), joined(l, r, &vars.0, &vars.1).max(l)),
        };
        for (i, f) in optional.filters.iter().enumerate() {
            label += if i == 0 { " if " } else { " && " };
            label += &self.text(f);
        }
        let led = "the left rows lead the optional side, or a hash join, whichever is cheaper";
        PlanNode {
            at_most: optional.mode == Mode::Anti,
            adaptive: optional.led().map(|_| led),
            ..inner(label, rows, vec![left, right])
        }
    }

    fn each_graph(&self, graphs: &EachGraph) -> PlanNode {
        let named = &self.ctx.named;
        let largest = named.iter().max_by_key(|(_, g)| g.len());
        let graph = largest.map_or_else(|| self.ctx.graph(), |(_, g)| g.clone());
        let child = self.ctx.within(graph, || self.plan(&graphs.inner));
        let name = self.ctx.name(graphs.var);
        let label = match named.len() {
            1 => format!("graph {name}: 1 graph"),
            n => format!("graph {name}: each of {n} graphs"),
        };
        let mut node = unary(label, child);
        node.at_most = true;
        node.estimate = node.estimate.map(|rows| rows * named.len() as f64);
        node
    }

    fn path(&self, path: &PathSearch) -> PlanNode {
        let (s, o) = (pos(self.ctx, path.s), pos(self.ctx, path.o));
        let rows = path_rows(self.ctx, path);
        PlanNode {
            adaptive: Some("from the end with fewer known nodes"),
            ..leaf(format!("path from {s} to {o}"), rows)
        }
    }

    fn service(&self, service: &Service) -> PlanNode {
        leaf(format!("service {}", pos(self.ctx, service.endpoint)), SENT)
    }

    /// Adds what the executor recorded. An operator reads the solutions of its inputs, or it has recorded those that it read.
    fn add_record(&self, slot: &Slot, node: &mut PlanNode, reads_inputs: bool) {
        if !self.ran {
            return;
        }
        let record = slot.recorded();
        let outs = node.children.iter().filter_map(|c| Some(c.run?.rows_out));
        node.run = Some(PlanRun {
            runs: record.runs,
            rows_in: if reads_inputs {
                outs.sum()
            } else {
                record.rows_in
            },
            rows_out: record.rows_out,
            nanos: record.nanos,
        });
        node.chosen = record.chosen;
    }

    fn names(&self, vars: &[Var]) -> String {
        let all: Vec<String> = vars.iter().map(|v| self.ctx.name(*v)).collect();
        all.join(" ")
    }

    fn text(&self, expr: &Expr) -> String {
        expr.show(&|v| self.ctx.name(v))
    }
}

impl PlanNode {
    /// Returns the estimated number of solutions.
    fn rows(&self) -> f64 {
        self.estimate.unwrap_or(1.0)
    }
}

fn leaf(label: impl Into<String>, rows: f64) -> PlanNode {
    inner(label, rows, Vec::new())
}

fn inner(label: impl Into<String>, rows: f64, children: Vec<PlanNode>) -> PlanNode {
    PlanNode {
        label: label.into(),
        estimate: Some(rows),
        children,
        ..PlanNode::default()
    }
}

/// Returns a node with as many solutions as its input.
fn unary(label: impl Into<String>, child: PlanNode) -> PlanNode {
    PlanNode {
        at_most: child.at_most,
        ..inner(label, child.rows(), vec![child])
    }
}

fn step_that_ran(step: &StepRecord) -> PlanNode {
    let run = step.counted.map(|(rows_in, rows_out, nanos)| PlanRun {
        runs: 1,
        rows_in,
        rows_out,
        nanos,
    });
    PlanNode {
        label: step.label.clone(),
        estimate: step.expected,
        run,
        ..PlanNode::default()
    }
}

fn with_row(vars: &[Var]) -> Vec<Var> {
    vars.iter().copied().chain([ROW]).collect()
}

/// Removes and returns the smallest rows that are expected to lead a pattern.
fn take_leading(known: &mut Vec<Rows>, pattern: &Pattern) -> Option<Rows> {
    let vars: Vec<Var> = pattern.vars().collect();
    let leads =
        |(of, rows): &Rows| *rows <= LEADING_MAX as f64 && of.iter().any(|v| vars.contains(v));
    let best = known
        .iter()
        .enumerate()
        .filter(|(_, r)| leads(r))
        .min_by(|a, b| a.1.1.total_cmp(&b.1.1))?
        .0;
    Some(known.remove(best))
}

/// Estimates the rows of a join: a product without shared variables, else the larger side.
fn joined(a: f64, b: f64, left: &[Var], right: &[Var]) -> f64 {
    if left.iter().any(|v| right.contains(v)) {
        a.max(b)
    } else {
        a * b
    }
}

/// Returns the variables of a plan's solutions.
fn vars_of(plan: &Plan) -> Vec<Var> {
    match &plan.op {
        Op::Pattern(p) => p.vars().collect(),
        Op::Values { vars, .. } | Op::NoGraph { vars, .. } | Op::Project { vars, .. } => {
            vars.clone()
        }
        Op::Path(p) => [p.s, p.o].into_iter().filter_map(Pos::var).collect(),
        Op::Service(s) => s.vars.iter().map(|(_, v)| *v).collect(),
        Op::Join(j) => {
            let inputs = j.inputs.iter().chain(&j.patterns);
            let mut vars: Vec<Var> = inputs.flat_map(vars_of).collect();
            vars.extend(j.later.iter().flat_map(|l| &l.vars));
            vars.extend(j.fixed.iter().map(|(v, _)| *v));
            vars
        }
        Op::Optional(o) => [vars_of(&o.left), vars_of(&o.right)].concat(),
        Op::Minus { left, .. } => vars_of(left),
        Op::Union(u) => u.inputs.iter().flat_map(vars_of).collect(),
        Op::EachGraph(g) => {
            let mut vars = vars_of(&g.inner);
            vars.push(g.var);
            vars
        }
        Op::Extend { inner, var, .. } => {
            let mut vars = vars_of(inner);
            vars.push(*var);
            vars
        }
        Op::OrderBy(o) => vars_of(&o.inner),
        Op::Graph { inner, .. } | Op::Distinct { inner, .. } | Op::Slice { inner, .. } => {
            vars_of(inner)
        }
        Op::Aggregate { by, aggregates, .. } => {
            let results = aggregates.iter().map(|a| a.var);
            by.iter().copied().chain(results).collect()
        }
        Op::Count { aggregates, .. } => aggregates.iter().map(|a| a.var).collect(),
    }
}

/// Estimates the pairs that a path connects, as if each path had one step.
fn path_rows(ctx: &Context<'_>, search: &PathSearch) -> f64 {
    let graph = ctx.graph();
    let mut links = Vec::new();
    predicates(&search.path, &mut links);
    let (mut pairs, mut starts, mut ends) = (0.0, 1.0, 1.0);
    for index in links.iter().filter_map(|p| graph.index(*p)) {
        pairs += index.so.len() as f64;
        starts = f64::max(starts, index.so.keys().len() as f64);
        ends = f64::max(ends, index.os.keys().len() as f64);
    }
    if let Pos::Const(_) = search.s {
        pairs /= starts;
    }
    if let Pos::Const(_) = search.o {
        pairs /= ends;
    }
    pairs
}

fn predicates(path: &Path, to: &mut Vec<Id>) {
    match path {
        Path::Link(p) => to.push(*p),
        Path::Reverse(a) | Path::ZeroOrMore(a) | Path::OneOrMore(a) | Path::ZeroOrOne(a) => {
            predicates(a, to);
        }
        Path::Sequence(a, b) | Path::Alternative(a, b) => {
            predicates(a, to);
            predicates(b, to);
        }
        Path::Not(_) => {}
    }
}

fn pos(ctx: &Context<'_>, p: Pos) -> String {
    match p {
        Pos::Const(id) => ctx.show_term(id),
        Pos::Var(v) => ctx.name(v),
    }
}
