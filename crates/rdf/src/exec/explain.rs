//! EXPLAIN: the plan of a pattern, with estimated cardinalities. Nothing is run. Where the engine decides by actual cardinalities, this
//! module uses estimates and may decide differently.

use super::bgp;
use super::group::{SEED_MAX, components, fix};
use super::steps::RequiredRef;
use super::{Context, Required, Var, service};
use crate::expr::Expr;
use crate::plan::{Group, Node, Path, Pos, Triple};

/// Notes the plan of a pattern. Returns the estimated number of solutions.
pub(crate) fn explain(ctx: &Context<'_>, node: &Node, required: &Required) -> f64 {
    let label = match node {
        Node::Group(g) => return group(ctx, g, required),
        Node::Path { s, path, o } => {
            let rows = path_rows(ctx, *s, path, *o);
            ctx.note(|| {
                format!(
                    "path from {} to {}  (~{rows:.0} rows)",
                    pos(ctx, *s),
                    pos(ctx, *o)
                )
            });
            return rows;
        }
        Node::Values { rows, .. } => {
            ctx.note(|| format!("values  ({} rows)", rows.len()));
            return rows.len() as f64;
        }
        Node::Service(s) => {
            ctx.note(|| {
                format!(
                    "service {}, asked as a whole",
                    service::show(ctx, s.endpoint)
                )
            });
            return SENT;
        }
        Node::LeftJoin { .. } => "optional".to_owned(),
        Node::Minus { .. } => "minus".to_owned(),
        Node::Union(_) => "union".to_owned(),
        Node::Graph { name, .. } => format!("graph {}", pos(ctx, *name)),
        Node::Extend { var, .. } => format!("bind {}", ctx.name(*var)),
        Node::OrderBy { .. } => "order by".to_owned(),
        Node::Project { vars, .. } => format!("project {}", names(ctx, vars)),
        Node::Distinct(_) => "distinct".to_owned(),
        Node::Reduced(_) => "reduced".to_owned(),
        Node::Slice { .. } => "slice".to_owned(),
        Node::Aggregate { by, .. } => match &**by {
            [] => "one group of all".to_owned(),
            by => format!("group by {}", names(ctx, by)),
        },
    };
    ctx.note(|| label);
    ctx.depth.set(ctx.depth.get() + 1);
    let (rows, most) = inner(ctx, node, required);
    ctx.depth.set(ctx.depth.get() - 1);
    let word = if most { "at most ~" } else { "~" };
    ctx.note(|| format!("= {word}{rows:.0} rows"));
    rows
}

/// Assumed number of solutions from another endpoint.
const SENT: f64 = 100.0;

/// Explains the inner patterns. Returns the estimated number of solutions and whether it is an upper bound.
fn inner(ctx: &Context<'_>, node: &Node, required: &Required) -> (f64, bool) {
    match node {
        Node::LeftJoin {
            left,
            right,
            filters,
        } => {
            let more = required.with(filters.iter().flat_map(Expr::vars).chain(right.vars()));
            let l = explain(ctx, left, &more);
            for f in filters {
                ctx.note(|| format!("if {}", f.show(&|v| ctx.name(v))));
            }
            ctx.note(|| "with, row by row or by hash:".to_owned());
            let r = explain(ctx, right, &required.with(left.vars()));
            (joined(l, r, &left.vars(), &right.vars()).max(l), false)
        }
        Node::Minus { left, right } => {
            let l = explain(ctx, left, &required.with(right.vars()));
            ctx.note(|| "without:".to_owned());
            let distinct = Required {
                distinct: true,
                ..required.with(left.vars())
            };
            explain(ctx, right, &distinct);
            (l, true)
        }
        Node::Union(list) => {
            let each = list.iter().map(|n| explain(ctx, n, required));
            (each.sum(), false)
        }
        Node::Graph { name, inner } => match name {
            Pos::Const(id) => match ctx.named.iter().find(|(g, _)| g == id) {
                Some((_, graph)) => (
                    ctx.within(graph.clone(), || explain(ctx, inner, required)),
                    false,
                ),
                None => {
                    ctx.note(|| "no such graph".to_owned());
                    (0.0, false)
                }
            },
            Pos::Var(_) => {
                let Some((id, graph)) = ctx.named.iter().max_by_key(|(_, g)| g.len()) else {
                    ctx.note(|| "no named graph".to_owned());
                    return (0.0, false);
                };
                let shown = bgp::show_term(ctx, *id);
                let count = ctx.named.len();
                ctx.note(|| format!("in each of {count} graphs; of the largest, {shown}:"));
                let rows = ctx.within(graph.clone(), || explain(ctx, inner, required));
                (rows * count as f64, true)
            }
        },
        Node::Extend { inner, expr, .. } => {
            (explain(ctx, inner, &required.with(expr.vars())), false)
        }
        Node::OrderBy { inner, by, ties } => {
            let used = by.iter().flat_map(|(e, _)| e.vars());
            let more = required.with(used.chain(ties.iter().copied()));
            (explain(ctx, inner, &more), false)
        }
        Node::Project { inner, vars } => {
            let inner_required = Required {
                vars: vars.clone(),
                ..required.clone()
            };
            (explain(ctx, inner, &inner_required), false)
        }
        Node::Distinct(inner) => {
            let inner_required = Required {
                vars: inner.vars(),
                distinct: true,
                ..Required::default()
            };
            (explain(ctx, inner, &inner_required), true)
        }
        Node::Reduced(inner) => {
            let inner_required = Required {
                vars: inner.vars(),
                ..required.clone()
            };
            (explain(ctx, inner, &inner_required), true)
        }
        Node::Slice { inner, length, .. } => {
            let inner_required = Required {
                vars: inner.vars(),
                ..Required::default()
            };
            let rows = explain(ctx, inner, &inner_required);
            (
                length.map_or(rows, |n| rows.min(n as f64)),
                length.is_some(),
            )
        }
        Node::Aggregate {
            inner,
            by,
            aggregates,
        } => {
            let used = aggregates.iter().filter_map(|a| a.expr.as_ref());
            let vars = by.iter().copied().chain(used.flat_map(Expr::vars));
            let rows = explain(ctx, inner, &Required::default().with(vars));
            if by.is_empty() {
                (1.0, false)
            } else {
                (rows, true)
            }
        }
        Node::Group(_) | Node::Path { .. } | Node::Values { .. } | Node::Service(_) => (0.0, false),
    }
}

fn group(ctx: &Context<'_>, g: &Group, required: &Required) -> f64 {
    let (g, fixed) = fix(ctx, g);
    for (var, id) in fixed {
        ctx.note(|| format!("{} is {}", ctx.name(var), bgp::show_term(ctx, id)));
    }
    let mut filters: Vec<&Expr> = g.filters.iter().collect();
    // Variables read by other parts and filters.
    let all = required.with(
        g.triples
            .iter()
            .flat_map(Triple::vars)
            .chain(g.parts.iter().flat_map(Node::vars))
            .chain(filters.iter().flat_map(|f| f.vars())),
    );
    let later = |n: &&Node| matches!(n, Node::Path { .. } | Node::Service(_));
    // Variables and estimated rows of solved parts.
    let mut solved: Vec<(Vec<Var>, f64)> = Vec::new();
    for part in g.parts.iter().filter(|n| !later(n)) {
        let rows = explain(ctx, part, &all);
        solved.push((part.vars(), rows));
    }
    for component in components(&g.triples, true) {
        let vars: Vec<Var> = component.iter().flat_map(Triple::vars).collect();
        let mut inside = Vec::new();
        filters.retain(|f| {
            let here =
                !f.has_exists() && !f.is_volatile() && f.vars().iter().all(|v| vars.contains(v));
            if here {
                inside.push((*f).clone());
            }
            !here
        });
        let leads = |(of, rows): &(Vec<Var>, f64)| {
            *rows <= SEED_MAX as f64 && of.iter().any(|v| vars.contains(v))
        };
        let lead = solved
            .iter()
            .enumerate()
            .filter(|(_, s)| leads(s))
            .min_by(|a, b| a.1.1.total_cmp(&b.1.1))
            .map(|(i, _)| i);
        let (mut seeded, rows) = match lead {
            Some(i) => {
                let (of, rows) = solved.remove(i);
                ctx.note(|| format!("for each of ~{rows:.0} rows:"));
                (of, rows)
            }
            None => (Vec::new(), 1.0),
        };
        let needed: Vec<Var> = if solved.is_empty() && filters.is_empty() && g.parts.is_empty() {
            required.vars.clone()
        } else {
            all.vars.clone()
        };
        let wanted = RequiredRef {
            vars: &needed,
            distinct: required.distinct,
            limit: None,
            count: false,
        };
        let rows = bgp::explain(ctx, &component, &inside, &seeded, rows, &wanted);
        seeded.extend(vars);
        solved.push((seeded, rows));
    }
    solved.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut solved = solved.into_iter();
    let (mut have, mut rows) = solved.next().unwrap_or((Vec::new(), 1.0));
    for (vars, more) in solved {
        let shared = vars.iter().any(|v| have.contains(v));
        let after = joined(rows, more, &have, &vars);
        let word = if shared { "join" } else { "product of" };
        ctx.note(|| format!("{word} ~{rows:.0} x ~{more:.0} rows  (~{after:.0} rows)"));
        rows = after;
        have.extend(vars);
    }
    for part in g.parts.iter().filter(later) {
        match part {
            Node::Service(s) => {
                let name = service::show(ctx, s.endpoint);
                let sends_bindings = rows <= service::SENT_MAX as f64;
                let how = if sends_bindings {
                    format!("told ~{rows:.0} solutions")
                } else {
                    "asked as a whole".to_owned()
                };
                ctx.note(|| format!("service {name}, {how}"));
                rows = rows.max(SENT);
            }
            Node::Path { s, path, o } => {
                let bound = |p: &Pos| {
                    matches!(p, Pos::Const(_)) || p.var().is_some_and(|v| have.contains(&v))
                };
                let from = if bound(s) || bound(o) {
                    "from known ends"
                } else {
                    "from all"
                };
                let more = path_rows(ctx, *s, path, *o);
                ctx.note(|| format!("path from {} to {}, {from}", pos(ctx, *s), pos(ctx, *o)));
                rows = joined(rows, more, &have, &part.vars());
            }
            _ => {}
        }
        have.extend(part.vars());
    }
    for f in filters {
        ctx.note(|| format!("filter {}", f.show(&|v| ctx.name(v))));
    }
    rows
}

/// Estimates the rows of a join: a product without shared variables, else the larger side.
fn joined(a: f64, b: f64, left: &[Var], right: &[Var]) -> f64 {
    if left.iter().any(|v| right.contains(v)) {
        a.max(b)
    } else {
        a * b
    }
}

/// Estimates the pairs that a path connects, as if each path had one step.
fn path_rows(ctx: &Context<'_>, s: Pos, path: &Path, o: Pos) -> f64 {
    let graph = ctx.graph();
    let mut links = Vec::new();
    predicates(path, &mut links);
    let (mut pairs, mut starts, mut ends) = (0.0, 1.0, 1.0);
    for index in links.iter().filter_map(|p| graph.index(*p)) {
        pairs += index.so.len() as f64;
        starts = f64::max(starts, index.so.keys().len() as f64);
        ends = f64::max(ends, index.os.keys().len() as f64);
    }
    if let Pos::Const(_) = s {
        pairs /= starts;
    }
    if let Pos::Const(_) = o {
        pairs /= ends;
    }
    pairs
}

fn predicates(path: &Path, to: &mut Vec<crate::id::Id>) {
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
        Pos::Const(id) => bgp::show_term(ctx, id),
        Pos::Var(v) => ctx.name(v),
    }
}

fn names(ctx: &Context<'_>, vars: &[Var]) -> String {
    let all: Vec<String> = vars.iter().map(|v| ctx.name(*v)).collect();
    all.join(" ")
}
