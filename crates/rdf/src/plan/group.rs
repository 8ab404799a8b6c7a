//! Planning of groups: triple patterns that share variables are solved together, all parts are joined, and filters run as early as
//! possible.

use super::build::{Planner, Required};
use super::pattern::is_movable;
use super::slot::Slot;
use super::tree::{Filter, Join, Later, Mode, Op, PathSearch, Pattern, Plan, ROW, SENT_MAX};
use super::tree::{SemiJoin, Union};
use crate::algebra::{Group, Node, Pos, Triple, components};
use crate::error::{Error, Result};
use crate::exec::{Context, Var};
use crate::expr::{self, Expr};
use crate::id::Id;

/// Limit of triple patterns in a group; ordering them takes quadratic time.
const PATTERNS_MAX: usize = 4096;

/// A group whose parts are not planned yet.
struct GroupParts {
    components: Vec<Vec<Triple>>,
    /// Filters on the variables of each component.
    inside: Vec<Vec<Expr>>,
    /// Other filters.
    filters: Vec<Expr>,
    parts: Vec<Node>,
    /// Variables of each part.
    part_vars: Vec<Vec<Var>>,
    /// Variables that are bound in every solution of the triple patterns and of parts that are not joined later.
    sure: Vec<Var>,
}

/// Parts of a group, by the time at which they run.
#[derive(Default)]
struct Sorted {
    inputs: Vec<Plan>,
    /// Variables of the inputs.
    input_vars: Vec<Var>,
    unions: Vec<(Vec<Var>, Vec<Group>)>,
    services: Vec<Later>,
    paths: Vec<Later>,
}

impl Planner<'_, '_> {
    /// Plans a group of patterns.
    pub(super) fn group(&self, mut g: Group, required: &Required) -> Result<Plan> {
        if g.triples.len() > PATTERNS_MAX {
            return Err(Error::Unsupported(format!(
                "a group of more than {PATTERNS_MAX} triple patterns"
            )));
        }
        let optimise = self.ctx.options.optimise;
        let mut fixed = Vec::new();
        if optimise {
            fixed = fix(self.ctx, &mut g);
            if let Some(filter) = anti_join(&g) {
                g.filters.remove(filter);
                return self.anti_join(g, required);
            }
        }
        let mut group = GroupParts::new(g, optimise);
        let whole = group.components.len() + group.parts.len() == 1;
        let limit = required
            .limit
            .filter(|_| whole || optimise && group.are_independent());
        let mut sorted = self.sort(&mut group, required, limit, whole)?;
        let alone =
            group.filters.is_empty() && sorted.unions.is_empty() && sorted.services.is_empty();
        let limit_alone = limit.filter(|_| alone);
        let count = required.count && alone && sorted.paths.is_empty();
        let patterns = self.patterns(&group, &sorted.input_vars, required, limit_alone, count)?;
        let later = Self::later(&group, &mut sorted, required);
        let inputs = sorted.inputs;
        if required.count {
            fixed.clear();
        }
        let one = inputs.len() + patterns.len() == 1;
        if one && later.is_empty() && group.filters.is_empty() && fixed.is_empty() {
            let mut only = inputs.into_iter().chain(patterns);
            return Ok(only.next().unwrap_or_else(unit));
        }
        let join = Join {
            inputs,
            patterns,
            limit: limit.filter(|_| group.filters.is_empty() && later.is_empty()),
            later,
            filters: self.filters(group.filters),
            fixed,
            needed: required.vars.clone(),
            distinct: required.distinct,
            count: required.count,
        };
        Ok(Plan::new(Op::Join(Box::new(join)), required.count))
    }

    /// Plans OPTIONAL whose variable must be unbound.
    fn anti_join(&self, g: Group, required: &Required) -> Result<Plan> {
        let tested: Vec<Var> = g.filters.iter().flat_map(Expr::vars).collect();
        let more = required.with(tested);
        let mut parts = g.parts.into_iter();
        let Some(Node::LeftJoin {
            left,
            right,
            filters,
        }) = parts.next()
        else {
            return Ok(unit());
        };
        let plan = self.optional(*left, *right, filters, &more, Mode::Anti)?;
        if g.filters.is_empty() {
            return Ok(plan);
        }
        let join = Join {
            inputs: vec![plan],
            patterns: Vec::new(),
            later: Vec::new(),
            filters: self.filters(g.filters),
            fixed: Vec::new(),
            needed: required.vars.clone(),
            distinct: required.distinct,
            count: required.count,
            limit: None,
        };
        Ok(Plan::new(Op::Join(Box::new(join)), required.count))
    }

    /// Plans the parts that run first, and sorts the others.
    fn sort(
        &self,
        group: &mut GroupParts,
        required: &Required,
        limit: Option<usize>,
        whole: bool,
    ) -> Result<Sorted> {
        let optimise = self.ctx.options.optimise;
        let mut sorted = Sorted::default();
        let any = group.parts.iter().any(|p| matches!(p, Node::Service(_)));
        let services_later = optimise && any && self.is_small(group);
        let parts = std::mem::take(&mut group.parts);
        for (i, part) in parts.into_iter().enumerate() {
            let vars = group.part_vars[i].clone();
            let later = |op| Later {
                vars: group.part_vars[i].clone(),
                plan: Plan::new(op, false),
            };
            match part {
                Node::Path { s, path, o } => {
                    let op = Op::Path(PathSearch { s, path, o });
                    sorted.paths.push(later(op));
                }
                Node::Service(s) if matches!(s.endpoint, Pos::Var(_)) || services_later => {
                    sorted.services.push(later(Op::Service(s)));
                }
                part if optimise && !group.components.is_empty() && can_be_led(&part) => {
                    sorted.unions.push((vars, branches(part)));
                }
                part => {
                    let mut part_required = required.with(group.vars_of_others(i));
                    if group.has_no_filters() || !whole {
                        part_required.limit = limit;
                    }
                    part_required.count = required.count
                        && group.has_no_filters()
                        && whole
                        && part_required.vars.is_empty();
                    sorted.inputs.push(self.node(part, &part_required)?);
                    sorted.input_vars.extend(vars);
                }
            }
        }
        Ok(sorted)
    }

    /// Plans the triple patterns, which inputs with common variables may lead. `limit` is the number of solutions of each that suffices,
    /// `count` whether they may be counted only.
    fn patterns(
        &self,
        group: &GroupParts,
        input_vars: &[Var],
        required: &Required,
        limit: Option<usize>,
        count: bool,
    ) -> Result<Vec<Plan>> {
        let optimise = self.ctx.options.optimise;
        let mut list = Vec::with_capacity(group.components.len());
        for (i, (triples, inside)) in group.components.iter().zip(&group.inside).enumerate() {
            self.ctx.check()?;
            let vars: Vec<Var> = triples.iter().flat_map(Triple::vars).collect();
            let others = group.components.iter().enumerate();
            let others = others.filter(|(j, _)| *j != i).flat_map(|(_, c)| c);
            let mut needed: Vec<Var> = required.vars.clone();
            needed.extend(group.filters.iter().flat_map(Expr::vars));
            needed.extend(group.part_vars.iter().flatten());
            needed.extend(others.flat_map(Triple::vars));
            needed.sort_unstable();
            needed.dedup();
            let mut pattern = Pattern::new(triples.clone(), needed, required.distinct && optimise);
            pattern.filters.clone_from(inside);
            pattern.limit = match limit {
                Some(_) if !required.distinct => limit,
                Some(_) if required.vars.is_empty() => Some(1),
                _ => None,
            };
            pattern.count = count && pattern.needed.is_empty();
            if optimise && input_vars.iter().any(|v| vars.contains(v)) {
                let needed = pattern.needed.clone();
                pattern = pattern.led(needed);
            } else if self.knows_graph {
                pattern.steps = Some(pattern.own_steps(&self.ctx.graph(), optimise));
            }
            list.push(pattern.plan(required.count));
        }
        Ok(list)
    }

    /// Plans the unions whose branches are led by the other parts, and puts them before services and paths.
    fn later(group: &GroupParts, sorted: &mut Sorted, required: &Required) -> Vec<Later> {
        let others = sorted.services.iter().chain(&sorted.paths);
        let others: Vec<Var> = others.flat_map(|l| &l.vars).copied().collect();
        // Filters on variables that are bound before have run before.
        let is_ready = |f: &&Expr| is_movable(f) && f.vars().iter().all(|v| group.sure.contains(v));
        let filters = group.filters.iter().filter(|f| !is_ready(f));
        let filters: Vec<Var> = filters.flat_map(Expr::vars).collect();
        let unions = std::mem::take(&mut sorted.unions);
        let all: Vec<Vec<Var>> = unions.iter().map(|u| u.0.clone()).collect();
        let mut list = Vec::new();
        for (i, (vars, branches)) in unions.into_iter().enumerate() {
            let mut led = required.vars.clone();
            led.extend(filters.iter().chain(&others));
            led.extend(all.iter().skip(i + 1).flatten());
            led.sort_unstable();
            led.dedup();
            let mut needed = led.clone();
            needed.extend(group.all_vars());
            needed.sort_unstable();
            needed.dedup();
            let branch = |b: Group| {
                let distinct = required.distinct;
                let mut pattern = Pattern::new(b.triples, needed.clone(), distinct);
                pattern.filters = b.filters;
                pattern.led(led.clone()).plan(false)
            };
            let union = Op::Union(Union {
                inputs: branches.into_iter().map(branch).collect(),
                needed: needed.clone(),
                limit: None,
            });
            list.push(Later {
                vars,
                plan: Plan::new(union, false),
            });
        }
        list.append(&mut sorted.services);
        list.append(&mut sorted.paths);
        list
    }

    /// Returns whether the solutions of a group's triple patterns are estimated to be few, so that SERVICE gets them as bindings: else the
    /// endpoint may be the more selective side.
    fn is_small(&self, group: &GroupParts) -> bool {
        let graph = self.ctx.graph();
        let few = |triples: &Vec<Triple>| {
            let pattern = Pattern::new(triples.clone(), Vec::new(), false);
            let steps = pattern.own_steps(&graph, true);
            let last = steps.iter().rev().find_map(super::steps::Step::expected);
            last.unwrap_or(1.0) <= (10 * SENT_MAX) as f64
        };
        group.components.len() + group.parts.len() > 1 && group.components.iter().all(few)
    }

    fn filters(&self, list: Vec<Expr>) -> Vec<Filter> {
        let optimise = self.ctx.options.optimise;
        let filter = |expr: Expr| Filter {
            semi_join: if optimise { semi_join(&expr) } else { None },
            expr,
            slot: Slot::default(),
        };
        list.into_iter().map(filter).collect()
    }
}

impl GroupParts {
    fn new(g: Group, optimise: bool) -> Self {
        let components = components(&g.triples, optimise);
        let mut filters = g.filters;
        let mut inside = vec![Vec::new(); components.len()];
        if optimise {
            // Filters on one component's variables alone run within it.
            for (component, inside) in components.iter().zip(&mut inside) {
                let has = |v: &Var| component.iter().any(|t| t.has(*v));
                let (here, left) = filters
                    .into_iter()
                    .partition(|f| is_movable(f) && f.vars().iter().all(has));
                (*inside, filters) = (here, left);
            }
        }
        let later = |p: &&Node| matches!(p, Node::Path { .. } | Node::Service(_));
        let mut sure: Vec<Var> = Vec::new();
        if !filters.is_empty() {
            let first = g.parts.iter().filter(|p| !later(p) && !can_be_led(p));
            sure = first.flat_map(Node::always_bound).collect();
            sure.extend(g.triples.iter().flat_map(Triple::vars));
        }
        Self {
            components,
            inside,
            filters,
            part_vars: g.parts.iter().map(Node::vars).collect(),
            parts: g.parts,
            sure,
        }
    }

    fn has_no_filters(&self) -> bool {
        self.filters.is_empty() && self.inside.iter().all(Vec::is_empty)
    }

    /// Returns the variables that other parts, triple patterns and filters read.
    fn vars_of_others(&self, part: usize) -> Vec<Var> {
        let others = self.part_vars.iter().enumerate();
        let others = others.filter(|(j, _)| *j != part).flat_map(|(_, v)| v);
        let filters = self.filters.iter().chain(self.inside.iter().flatten());
        let triples = self.components.iter().flatten().flat_map(Triple::vars);
        let mut vars: Vec<Var> = others.copied().chain(triples).collect();
        vars.extend(filters.flat_map(Expr::vars));
        vars
    }

    fn all_vars(&self) -> Vec<Var> {
        self.vars_of_others(usize::MAX)
    }

    /// Returns whether all parts of the group are independent of each other; then the limit applies to each part.
    fn are_independent(&self) -> bool {
        let of = |c: &Vec<Triple>| c.iter().flat_map(Triple::vars).collect::<Vec<Var>>();
        let all: Vec<Vec<Var>> = self
            .components
            .iter()
            .map(of)
            .chain(self.part_vars.iter().cloned())
            .collect();
        let plain = |part: &Node| !matches!(part, Node::Path { .. } | Node::Service(_));
        self.filters.is_empty()
            && self.parts.iter().all(plain)
            && all.iter().enumerate().all(|(i, vars)| {
                all.iter()
                    .skip(i + 1)
                    .all(|other| !vars.iter().any(|v| other.contains(v)))
            })
    }
}

/// Returns a plan of one solution without bindings.
fn unit() -> Plan {
    let (vars, rows) = (Vec::new(), vec![Vec::new()]);
    Plan::new(Op::Values { vars, rows }, false)
}

/// Returns the filter of a group that makes its only part, an OPTIONAL, an anti-join: the variable that it binds must be unbound.
fn anti_join(g: &Group) -> Option<usize> {
    let ([Node::LeftJoin { left, right, .. }], true) = (&*g.parts, g.triples.is_empty()) else {
        return None;
    };
    if g.filters.is_empty() {
        return None;
    }
    let (left_vars, sure) = (left.vars(), right.always_bound());
    g.filters.iter().position(|f| match f {
        Expr::Not(e) => {
            matches!(**e, Expr::Bound(v) if sure.contains(&v) && !left_vars.contains(&v))
        }
        _ => false,
    })
}

/// Returns whether a part is a union whose branches can be led: each consists of triple patterns and filters on their variables.
fn can_be_led(part: &Node) -> bool {
    let branch = |branch: &Node| match branch {
        Node::Group(b) => {
            let vars: Vec<Var> = b.triples.iter().flat_map(Triple::vars).collect();
            let plain = |f: &Expr| is_movable(f) && f.vars().iter().all(|v| vars.contains(v));
            b.parts.is_empty()
                && b.filters.iter().all(plain)
                && components(&b.triples, true).len() == 1
        }
        _ => false,
    };
    matches!(part, Node::Union(list) if list.iter().all(branch))
}

/// Returns the groups of a union.
fn branches(part: Node) -> Vec<Group> {
    let group = |node| match node {
        Node::Group(g) => Some(g),
        _ => None,
    };
    match part {
        Node::Union(list) => list.into_iter().filter_map(group).collect(),
        _ => Vec::new(),
    }
}

/// Returns the plan of `EXISTS` or `NOT EXISTS` of triple patterns and filters.
fn semi_join(expr: &Expr) -> Option<SemiJoin> {
    let (node, wanted) = match expr {
        Expr::Exists(node) => (node, true),
        Expr::Not(e) => match &**e {
            Expr::Exists(node) => (node, false),
            _ => return None,
        },
        _ => return None,
    };
    let Node::Group(g) = &**node else {
        return None;
    };
    let simple = g.parts.is_empty() && !g.triples.is_empty();
    if !simple || g.filters.iter().any(Expr::has_exists) {
        return None;
    }
    let mut pattern = Pattern::new(g.triples.clone(), vec![ROW], true);
    pattern.filters.clone_from(&g.filters);
    Some(SemiJoin {
        pattern: pattern.led(vec![ROW]).plan(false),
        wanted,
    })
}

/// Replaces variables that a filter equates with a constant. Returns these variables with their terms.
fn fix(ctx: &Context<'_>, g: &mut Group) -> Vec<(Var, Id)> {
    let mut fixed: Vec<(Var, Id)> = Vec::new();
    for (var, id) in g.filters.iter().filter_map(constant) {
        let triples = g.triples.iter().any(|t| t.has(var));
        let elsewhere = || g.parts.iter().any(|p| p.vars().contains(&var));
        if triples
            && expr::is_simple(ctx, id)
            && fixed.iter().all(|(v, _)| *v != var)
            && !elsewhere()
        {
            fixed.push((var, id));
        }
    }
    if fixed.is_empty() {
        return fixed;
    }
    // The filters implied by the substitution are dropped.
    g.filters
        .retain(|f| constant(f).is_none_or(|pair| !fixed.contains(&pair)));
    for (var, id) in &fixed {
        for t in &mut g.triples {
            *t = t.bind(*var, *id);
        }
    }
    fixed
}

/// Returns the variable that a filter equates with a constant, and the constant.
fn constant(f: &Expr) -> Option<(Var, Id)> {
    let (Expr::Equal(a, b) | Expr::SameTerm(a, b)) = f else {
        return None;
    };
    match (&**a, &**b) {
        (Expr::Var(v), Expr::Const(id)) | (Expr::Const(id), Expr::Var(v)) => Some((*v, *id)),
        _ => None,
    }
}
