//! `OPTIONAL` and `MINUS`.

use super::bgp::solve;
use super::group::{ROW, components, equality};
use super::join::{Mode, join};
use super::rows::distinct;
use super::steps::RequiredRef;
use super::{Context, Required, Table, Var, eval};
use crate::error::Result;
use crate::expr::Expr;
use crate::plan::{Group, Node, Service, Triple, order};

/// Evaluates `OPTIONAL` as a left outer join, or as an anti-join.
pub(crate) fn left_join(
    ctx: &Context<'_>,
    left: &Node,
    right: &Node,
    filters: &[Expr],
    required: &Required,
    mode: Mode,
) -> Result<Table> {
    let right_vars = right.vars();
    let mut left_required = required.with(
        filters
            .iter()
            .flat_map(Expr::vars)
            .chain(right_vars.iter().copied()),
    );
    if mode == Mode::Left {
        left_required.limit = required.limit;
    }
    let l = eval(ctx, left, &left_required)?;
    if l.is_empty() {
        return Ok(Table::empty(required.vars.clone()));
    }
    // Filters on variables bound by the optional side alone are pushed into it.
    let sure = right.always_bound();
    let (own, between): (Vec<Expr>, Vec<Expr>) = filters.iter().cloned().partition(|f| {
        ctx.options.optimise
            && !f.has_exists()
            && !f.is_volatile()
            && f.vars().iter().all(|v| sure.contains(v))
    });
    let right = match right {
        Node::Group(g) => {
            let mut g = g.clone();
            g.filters.extend(own);
            Node::Group(g)
        }
        other => Node::Group(Group {
            parts: vec![other.clone()],
            filters: own,
            ..Group::default()
        }),
    };
    if let Some(table) = seeded(ctx, &l, &right, &between, required, mode)? {
        return Ok(table);
    }
    let right_want = Required {
        limit: None,
        distinct: required.distinct || mode == Mode::Anti,
        ..required.with(
            filters
                .iter()
                .flat_map(Expr::vars)
                .chain(l.vars().iter().copied()),
        )
    };
    let r = match single_service(&right) {
        Some(s) => super::service::eval(ctx, s, Some(&l))?,
        None => eval(ctx, &right, &right_want)?,
    };
    let equal: Vec<(Var, Var)> = between
        .iter()
        .filter_map(equality)
        .filter_map(|(a, b)| {
            let only_left = |v| l.is_always_bound(v) && !r.vars().contains(&v);
            let only_right = |v| r.is_always_bound(v) && !l.vars().contains(&v);
            if only_left(a) && only_right(b) {
                Some((a, b))
            } else {
                (only_left(b) && only_right(a)).then_some((b, a))
            }
        })
        .collect();
    let equal = if ctx.options.optimise {
        equal
    } else {
        Vec::new()
    };
    let mut keep = required.vars.clone();
    keep.sort_unstable();
    join(ctx, &l, &r, &equal, &between, mode, &keep)
}

/// Returns the SERVICE pattern if a pattern consists of one; known bindings are sent to it.
fn single_service(node: &Node) -> Option<&Service> {
    match node {
        Node::Service(s) => Some(s),
        Node::Group(g) if g.triples.is_empty() && g.filters.is_empty() && g.parts.len() == 1 => {
            g.parts.first().and_then(single_service)
        }
        _ => None,
    }
}

/// Evaluates the optional side seeded by the left rows, if that is cheaper than evaluating it alone.
fn seeded(
    ctx: &Context<'_>,
    l: &Table,
    right: &Node,
    between: &[Expr],
    required: &Required,
    mode: Mode,
) -> Result<Option<Table>> {
    let Node::Group(g) = right else {
        return Ok(None);
    };
    let simple = ctx.options.optimise
        && g.parts.is_empty()
        && !g.triples.is_empty()
        && components(&g.triples, true).len() == 1
        && !g
            .filters
            .iter()
            .chain(between)
            .any(|f| f.has_exists() || f.is_volatile());
    let vars: Vec<Var> = g.triples.iter().flat_map(Triple::vars).collect();
    let shared: Vec<Var> = l
        .vars()
        .iter()
        .copied()
        .filter(|v| vars.contains(v))
        .collect();
    // A filter inside the optional group sees only the group's variables.
    let scoped = g
        .filters
        .iter()
        .all(|f| f.vars().iter().all(|v| vars.contains(v)));
    let joined = between
        .iter()
        .flat_map(Expr::vars)
        .all(|v| vars.contains(&v) || l.is_always_bound(v));
    if !simple
        || !scoped
        || !joined
        || shared.is_empty()
        || !shared.iter().all(|v| l.is_always_bound(*v))
    {
        return Ok(None);
    }
    let graph = ctx.graph();
    let sum = |seeded: &[Var], rows: usize| -> f64 {
        order(&graph, &g.triples, seeded, rows, &[], &|_| false, true)
            .iter()
            .map(|(_, n)| *n)
            .sum()
    };
    if sum(&shared, l.len()) + l.len() as f64 > sum(&[], 1) * 2.0 + 64.0 {
        return Ok(None);
    }
    let mut seed = l.clone();
    let mut inside = g.filters.clone();
    inside.extend(between.iter().cloned());
    let mut needed: Vec<Var> = shared.clone();
    needed.extend(inside.iter().flat_map(Expr::vars));
    seed.keep(&needed);
    seed.set_column(ROW, (0..l.len() as u32).collect());
    let mut out_vars: Vec<Var> = vec![ROW];
    if mode != Mode::Anti {
        out_vars.extend(
            vars.iter()
                .filter(|v| required.vars.contains(v) && !shared.contains(v)),
        );
    }
    out_vars.sort_unstable();
    out_vars.dedup();
    let wanted = RequiredRef {
        vars: &out_vars,
        distinct: required.distinct || mode == Mode::Anti,
        limit: None,
        count: false,
    };
    let found = solve(ctx, &graph, &g.triples, &inside, seed, &wanted, &|v| {
        ctx.name(v)
    })?;
    let rows = found.column(ROW).unwrap_or(&[]);
    let mut hit = vec![false; l.len()];
    rows.iter().for_each(|r| hit[*r as usize] = true);
    let single_service: Vec<u32> = (0..l.len() as u32).filter(|r| !hit[*r as usize]).collect();
    let lone = l.select_vars(&single_service, &required.vars);
    if mode == Mode::Anti {
        return Ok(Some(lone));
    }
    let mut table = l.select_vars(rows, &required.vars);
    for (v, column) in found.vars().iter().zip(found.columns()) {
        if *v != ROW {
            table.set_column(*v, column.clone());
        }
    }
    table.append(lone);
    Ok(Some(table))
}

/// Evaluates a `MINUS` pattern.
pub(crate) fn minus(
    ctx: &Context<'_>,
    left: &Node,
    right: &Node,
    required: &Required,
) -> Result<Table> {
    let right_vars = right.vars();
    let left_vars = left.vars();
    let l = eval(ctx, left, &required.with(right_vars.iter().copied()))?;
    let shared: Vec<Var> = right_vars
        .into_iter()
        .filter(|v| left_vars.contains(v))
        .collect();
    if shared.is_empty() || l.is_empty() {
        return Ok(l);
    }
    let r = eval(
        ctx,
        right,
        &Required {
            vars: shared.clone(),
            distinct: true,
            ..Required::default()
        },
    )?;
    let mut r = r;
    r.keep(&shared);
    super::join::minus(ctx, &l, &distinct(r))
}
