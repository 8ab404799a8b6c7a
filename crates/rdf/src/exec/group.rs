//! Groups: connected triple patterns are solved as one basic graph pattern, other parts are joined, and filters run as early as possible.

use super::bgp::{estimate, solve};
use super::join::{Mode, join};
use super::parallel::{portion, portions};
use super::rows::distinct;
use super::steps::RequiredRef;
use super::{Context, Required, Table, Var, eval, exists, path, service};
use crate::error::{Error, Result};
use crate::expr::{self, Expr};
use crate::id::Id;
use crate::plan::{Group, Node, Pos, Triple};
use std::borrow::Cow;
use std::collections::HashSet;

/// Limit of triple patterns in a group; ordering them takes quadratic time.
const PATTERNS_MAX: usize = 4096;
/// Limit of rows in a table that seeds a basic graph pattern.
pub(super) const SEED_MAX: usize = 100_000;
/// Approximate rows of a cross product that are built at a time.
const PIECE: usize = 1 << 16;
/// Column with the row number of the seed from which a solution comes.
pub(super) const ROW: Var = Var::MAX;

/// Evaluates a group pattern.
pub(crate) fn group(ctx: &Context<'_>, g: &Group, required: &Required) -> Result<Table> {
    if g.triples.len() > PATTERNS_MAX {
        return Err(Error::Unsupported(format!(
            "a group of more than {PATTERNS_MAX} triple patterns"
        )));
    }
    let optimise = ctx.options.optimise;
    let (g, fixed) = if optimise {
        fix(ctx, g)
    } else {
        (Cow::Borrowed(g), Vec::new())
    };
    let filter_vars: Vec<Var> = g.filters.iter().flat_map(Expr::vars).collect();
    let part_vars: Vec<Vec<Var>> = g.parts.iter().map(Node::vars).collect();
    let mut filters: Vec<&Expr> = g.filters.iter().collect();

    // A single OPTIONAL whose variable must be unbound is an anti-join.
    if let (
        true,
        true,
        [
            Node::LeftJoin {
                left,
                right,
                filters: conditions,
            },
        ],
    ) = (optimise, g.triples.is_empty(), &*g.parts)
    {
        let (left_vars, sure) = (left.vars(), right.always_bound());
        let anti = |f: &Expr| matches!(f, Expr::Not(e) if matches!(**e, Expr::Bound(v) if sure.contains(&v) && !left_vars.contains(&v)));
        if let Some(i) = filters.iter().position(|f| anti(f)) {
            filters.remove(i);
            let more = required.with(filter_vars.iter().copied());
            let mut table =
                super::optional::left_join(ctx, left, right, conditions, &more, Mode::Anti)?;
            apply(ctx, &mut table, &mut filters, true)?;
            return Ok(table);
        }
    }

    let mut tables: Vec<Table> = Vec::new();
    let mut paths: Vec<&Node> = Vec::new();
    let mut unions: Vec<&Node> = Vec::new();
    let mut services: Vec<&Node> = Vec::new();
    let components = components(&g.triples, optimise);
    let whole = components.len() + g.parts.len() == 1;
    let limit = required
        .limit
        .filter(|_| whole || optimise && are_independent(&components, &g, &part_vars));
    for (i, part) in g.parts.iter().enumerate() {
        if matches!(part, Node::Path { .. }) {
            paths.push(part);
            continue;
        }
        if let Node::Service(s) = part
            && (matches!(s.endpoint, Pos::Var(_)) || optimise && comes_later(ctx, &components, &g))
        {
            services.push(part);
            continue;
        }
        if optimise && !g.triples.is_empty() && branches(part).is_some() {
            unions.push(part);
            continue;
        }
        // Variables read by other parts, patterns or filters are required, too.
        let others = part_vars
            .iter()
            .enumerate()
            .filter(|(j, _)| *j != i)
            .flat_map(|(_, v)| v.iter().copied())
            .chain(g.triples.iter().flat_map(Triple::vars))
            .chain(filter_vars.iter().copied());
        let mut part_required = required.with(others);
        if filters.is_empty() || !whole {
            part_required.limit = limit;
        }
        part_required.count =
            required.count && g.filters.is_empty() && whole && part_required.vars.is_empty();
        tables.push(eval(ctx, part, &part_required)?);
    }
    if tables.iter().any(Table::is_empty) {
        return Ok(Table::empty(required.vars.clone()));
    }
    for component in &components {
        let vars: Vec<Var> = component.iter().flat_map(Triple::vars).collect();
        // Filters on this component's variables alone run within it.
        let mut inside = Vec::new();
        if optimise {
            filters.retain(|f| {
                let here = !f.has_exists()
                    && f.vars().iter().all(|v| vars.contains(v))
                    && !f.is_volatile();
                if here {
                    inside.push((*f).clone());
                }
                !here
            });
        }
        let mut needed: Vec<Var> = required.vars.clone();
        needed.extend(filters.iter().flat_map(|f| f.vars()));
        needed.extend(part_vars.iter().flatten());
        needed.extend(
            components
                .iter()
                .filter(|c| *c != component)
                .flatten()
                .flat_map(Triple::vars),
        );
        let seed = if optimise {
            seed_for(&mut tables, &vars)
        } else {
            None
        };
        if let Some(seed) = &seed {
            needed.extend(seed.vars());
        }
        needed.sort_unstable();
        needed.dedup();
        let alone = filters.is_empty() && unions.is_empty() && services.is_empty();
        let wanted = RequiredRef {
            vars: &needed,
            distinct: required.distinct && optimise,
            limit: if alone && !required.distinct {
                limit
            } else if alone && required.vars.is_empty() {
                limit.map(|_| 1)
            } else {
                None
            },
            count: required.count && needed.is_empty() && alone && paths.is_empty(),
        };
        let graph = ctx.graph();
        let table = solve(
            ctx,
            &graph,
            component,
            &inside,
            seed.unwrap_or_else(Table::unit),
            &wanted,
            &|v| ctx.name(v),
        )?;
        if table.is_empty() {
            return Ok(Table::empty(required.vars.clone()));
        }
        tables.push(table);
    }
    let later: Vec<&Node> = unions
        .iter()
        .chain(&services)
        .chain(&paths)
        .copied()
        .collect();
    let most = limit.filter(|_| filters.is_empty() && later.is_empty());
    let mut table = combine(ctx, tables, &mut filters, required, &later, most)?;
    for (i, part) in unions.iter().enumerate() {
        apply(ctx, &mut table, &mut filters, false)?;
        let mut keep = required.vars.clone();
        keep.extend(filters.iter().flat_map(|f| f.vars()));
        keep.extend(later.iter().skip(i + 1).flat_map(|p| p.vars()));
        table = union(ctx, &table, part, &keep, required)?;
        if table.is_empty() {
            return Ok(Table::empty(required.vars.clone()));
        }
    }
    for (i, node) in services.iter().enumerate() {
        apply(ctx, &mut table, &mut filters, false)?;
        let Node::Service(s) = node else { continue };
        let found = service::eval(ctx, s, Some(&table))?;
        let mut keep = required.vars.clone();
        keep.extend(filters.iter().flat_map(|f| f.vars()));
        let rest = later.iter().skip(unions.len() + i + 1);
        keep.extend(rest.flat_map(|p| p.vars()));
        table = join(ctx, &table, &found, &[], &[], Mode::Inner, &keep)?;
    }
    for (i, path) in paths.iter().enumerate() {
        apply(ctx, &mut table, &mut filters, false)?;
        let Node::Path { s, path, o } = path else {
            continue;
        };
        let ends = |p: Pos| {
            p.var()
                .filter(|v| table.is_always_bound(*v))
                .and_then(|v| table.column(v))
                .map(distinct_ids)
        };
        let found = path::eval(ctx, *s, path, *o, ends(*s), ends(*o))?;
        let mut keep = required.vars.clone();
        keep.extend(filters.iter().flat_map(|f| f.vars()));
        keep.extend(paths.iter().skip(i + 1).flat_map(|p| p.vars()));
        table = join(ctx, &table, &found, &[], &[], Mode::Inner, &keep)?;
    }
    for (var, id) in fixed.into_iter().filter(|_| !required.count) {
        table.set_column(var, vec![id; table.len()]);
    }
    apply(ctx, &mut table, &mut filters, true)?;
    Ok(table)
}

/// Returns whether SERVICE is evaluated after the rest of a group, so that known bindings can be sent: only if the rest is estimated to be
/// small, else the endpoint may be the more selective side.
fn comes_later(ctx: &Context<'_>, components: &[Vec<Triple>], g: &Group) -> bool {
    let graph = ctx.graph();
    let few = |c: &Vec<Triple>| estimate(&graph, c, &[], 1) <= (10 * service::SENT_MAX) as f64;
    components.iter().all(few) && components.len() + g.parts.len() > 1
}

/// Returns the branches of a union, if each consists of triple patterns and filters on their variables and can thus be seeded.
fn branches(part: &Node) -> Option<Vec<&Group>> {
    let Node::Union(list) = part else {
        return None;
    };
    list.iter()
        .map(|branch| match branch {
            Node::Group(b) => {
                let vars: Vec<Var> = b.triples.iter().flat_map(Triple::vars).collect();
                let plain = |f: &Expr| {
                    !f.has_exists() && !f.is_volatile() && f.vars().iter().all(|v| vars.contains(v))
                };
                let simple = b.parts.is_empty()
                    && b.filters.iter().all(plain)
                    && components(&b.triples, true).len() == 1;
                simple.then_some(b)
            }
            _ => None,
        })
        .collect()
}

/// Joins a table with a union: by seeding each branch if the table is small, else by hash.
fn union(
    ctx: &Context<'_>,
    table: &Table,
    part: &Node,
    keep: &[Var],
    required: &Required,
) -> Result<Table> {
    let branches = branches(part).unwrap_or_default();
    let leads = |b: &&Group| {
        let vars: Vec<Var> = b.triples.iter().flat_map(Triple::vars).collect();
        let mut shared = table.vars().iter().filter(|v| vars.contains(v)).peekable();
        shared.peek().is_some() && shared.all(|v| table.is_always_bound(*v))
    };
    if table.len() > SEED_MAX || !branches.iter().all(leads) {
        let vars: Vec<Var> = keep.iter().chain(table.vars()).copied().collect();
        let found = eval(
            ctx,
            part,
            &Required {
                vars,
                limit: None,
                ..required.clone()
            },
        )?;
        return join(ctx, table, &found, &[], &[], Mode::Inner, keep);
    }
    let graph = ctx.graph();
    let wanted = RequiredRef {
        vars: keep,
        distinct: required.distinct,
        limit: None,
        count: false,
    };
    let mut all = Table::empty(Vec::new());
    for b in branches {
        ctx.note(|| "union branch".to_owned());
        all.append(solve(
            ctx,
            &graph,
            &b.triples,
            &b.filters,
            table.clone(),
            &wanted,
            &|v| ctx.name(v),
        )?);
        ctx.fits_table(&all)?;
    }
    Ok(all)
}

fn distinct_ids(column: &[Id]) -> Vec<Id> {
    let mut ids = column.to_vec();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Replaces variables that a filter equates with a constant. Returns these variables with their terms.
pub(super) fn fix<'g>(ctx: &Context<'_>, g: &'g Group) -> (Cow<'g, Group>, Vec<(Var, Id)>) {
    let mut fixed: Vec<(Var, Id)> = Vec::new();
    for f in &g.filters {
        if let Expr::Equal(a, b) | Expr::SameTerm(a, b) = f {
            let (var, id) = match (&**a, &**b) {
                (Expr::Var(v), Expr::Const(id)) | (Expr::Const(id), Expr::Var(v)) => (*v, *id),
                _ => continue,
            };
            let triples = g.triples.iter().any(|t| t.has(var));
            let elsewhere = g.parts.iter().any(|p| p.vars().contains(&var));
            if triples
                && !elsewhere
                && expr::is_simple(ctx, id)
                && fixed.iter().all(|(v, _)| *v != var)
            {
                fixed.push((var, id));
            }
        }
    }
    if fixed.is_empty() {
        return (Cow::Borrowed(g), fixed);
    }
    let mut g = g.clone();
    // The filters implied by the substitution are dropped.
    g.filters.retain(|f| match f {
        Expr::Equal(a, b) | Expr::SameTerm(a, b) => match (&**a, &**b) {
            (Expr::Var(v), Expr::Const(id)) | (Expr::Const(id), Expr::Var(v)) => {
                !fixed.contains(&(*v, *id))
            }
            _ => true,
        },
        _ => true,
    });
    for (var, id) in &fixed {
        for t in &mut g.triples {
            *t = t.bind(*var, *id);
        }
    }
    (Cow::Owned(g), fixed)
}

/// Splits triple patterns into components connected by shared variables.
pub(super) fn components(triples: &[Triple], optimise: bool) -> Vec<Vec<Triple>> {
    if !optimise && !triples.is_empty() {
        return vec![triples.to_vec()];
    }
    let mut components: Vec<Vec<Triple>> = Vec::new();
    let mut seen: HashSet<&Triple> = HashSet::new();
    for t in triples {
        // Duplicate patterns are evaluated once.
        if !seen.insert(t) {
            continue;
        }
        let touches = |c: &Vec<Triple>| c.iter().any(|x| t.vars().any(|v| x.has(v)));
        let (mut with, without): (Vec<_>, Vec<_>) = components.into_iter().partition(touches);
        let mut merged: Vec<Triple> = with.drain(..).flatten().collect();
        merged.push(*t);
        components = without;
        components.push(merged);
    }
    components
}

/// Removes and returns the smallest table that can seed a component: in each of its rows the shared variables are bound.
fn seed_for(tables: &mut Vec<Table>, vars: &[Var]) -> Option<Table> {
    let fits = |t: &Table| {
        let mut shared = t.vars().iter().filter(|v| vars.contains(v)).peekable();
        shared.peek().is_some() && t.len() <= SEED_MAX && shared.all(|v| t.is_always_bound(*v))
    };
    let best = tables
        .iter()
        .enumerate()
        .filter(|(_, t)| fits(t))
        .min_by_key(|(_, t)| t.len())?
        .0;
    Some(tables.remove(best))
}

/// Joins tables, those with shared variables first.
fn combine(
    ctx: &Context<'_>,
    mut tables: Vec<Table>,
    filters: &mut Vec<&Expr>,
    required: &Required,
    paths: &[&Node],
    most: Option<usize>,
) -> Result<Table> {
    tables.sort_by_key(Table::len);
    if tables.is_empty() {
        return Ok(Table::unit());
    }
    let mut table = tables.remove(0);
    while !tables.is_empty() {
        apply(ctx, &mut table, filters, false)?;
        let equalities = |t: &Table| -> Vec<(Var, Var)> {
            filters
                .iter()
                .filter_map(|f| {
                    let (a, b) = equality(f)?;
                    let ours = |v| table.vars().contains(&v) && !t.vars().contains(&v);
                    let theirs = |v| t.vars().contains(&v) && !table.vars().contains(&v);
                    if ours(a) && theirs(b) {
                        Some((a, b))
                    } else {
                        (ours(b) && theirs(a)).then_some((b, a))
                    }
                })
                .collect()
        };
        let score = |t: &Table| {
            let shared = t.vars().iter().any(|v| table.vars().contains(v));
            (!shared && equalities(t).is_empty(), t.len())
        };
        let next = (0..tables.len())
            .min_by_key(|i| score(&tables[*i]))
            .unwrap_or(0);
        let right = tables.remove(next);
        let equal = if ctx.options.optimise {
            equalities(&right)
        } else {
            Vec::new()
        };
        let mut have = table.vars().to_vec();
        have.extend(right.vars());
        let mut now = Vec::new();
        if ctx.options.optimise {
            filters.retain(|f| {
                let ready = !f.has_exists()
                    && !f.is_volatile()
                    && f.vars().iter().all(|v| have.contains(v))
                    && f.vars()
                        .iter()
                        .all(|v| table.is_always_bound(*v) || right.is_always_bound(*v));
                if ready {
                    now.push((*f).clone());
                }
                !ready
            });
        }
        let mut keep = required.vars.clone();
        keep.extend(filters.iter().flat_map(|f| f.vars()));
        keep.extend(tables.iter().flat_map(|t| t.vars().iter().copied()));
        keep.extend(paths.iter().flat_map(|p| p.vars()));
        ctx.note(|| {
            format!(
                "join {} x {} rows, {} keys by value",
                table.len(),
                right.len(),
                equal.len()
            )
        });
        let apart = !table.vars().iter().any(|v| right.vars().contains(v));
        if apart && equal.is_empty() && now.is_empty() && ctx.options.optimise {
            table = product(ctx, &table, &right, &keep, required, most)?;
            continue;
        }
        // The smaller side is the build side.
        if table.len() < right.len() {
            let turned: Vec<(Var, Var)> = equal.iter().map(|(a, b)| (*b, *a)).collect();
            table = join(ctx, &right, &table, &turned, &now, Mode::Inner, &keep)?;
        } else {
            table = join(ctx, &table, &right, &equal, &now, Mode::Inner, &keep)?;
        }
        if required.distinct && table.len() > 1024 {
            table = distinct(table);
        }
    }
    Ok(table)
}

/// Returns the cross product of two tables.
fn product(
    ctx: &Context<'_>,
    left: &Table,
    right: &Table,
    keep: &[Var],
    required: &Required,
    most: Option<usize>,
) -> Result<Table> {
    let most = most.filter(|_| !required.distinct || required.vars.is_empty());
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
    if !(required.count && columns == 0) {
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
    Ok(if required.distinct && table.len() > 1024 {
        distinct(table)
    } else {
        table
    })
}

/// Returns whether all parts of a group are independent of each other; then the limit applies to each part.
fn are_independent(components: &[Vec<Triple>], g: &Group, part_vars: &[Vec<Var>]) -> bool {
    let of = |c: &Vec<Triple>| c.iter().flat_map(Triple::vars).collect::<Vec<Var>>();
    let all: Vec<Vec<Var>> = components
        .iter()
        .map(of)
        .chain(part_vars.iter().cloned())
        .collect();
    let inside = |f: &Expr| {
        let vars = f.vars();
        !f.has_exists()
            && !f.is_volatile()
            && components
                .iter()
                .any(|c| vars.iter().all(|v| c.iter().any(|t| t.has(*v))))
    };
    let plain = |part: &Node| !matches!(part, Node::Path { .. } | Node::Service(_));
    g.filters.iter().all(inside)
        && g.parts.iter().all(plain)
        && all.iter().enumerate().all(|(i, vars)| {
            all.iter()
                .skip(i + 1)
                .all(|other| !vars.iter().any(|v| other.contains(v)))
        })
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

/// Applies the filters whose variables are bound in every row, or all filters.
fn apply(ctx: &Context<'_>, table: &mut Table, filters: &mut Vec<&Expr>, all: bool) -> Result<()> {
    if !all && !ctx.options.optimise {
        return Ok(());
    }
    let mut i = 0;
    while let Some(f) = filters.get(i) {
        let ready = all
            || (!f.has_exists()
                && !f.is_volatile()
                && f.vars().iter().all(|v| table.is_always_bound(*v)));
        if !ready {
            i += 1;
            continue;
        }
        let f = filters.remove(i);
        ctx.note(|| format!("filter {}", f.show(&|v| ctx.name(v))));
        let kept = match exists::semi_join(ctx, table, f)? {
            Some(kept) => kept,
            None => {
                let each = if f.has_exists() || f.is_volatile() {
                    table.len()
                } else {
                    portion(ctx, table.len())
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
                            kept.extend(f.select(ctx, table, (from as u32..to as u32).collect()));
                        }
                        Ok(kept)
                    },
                )?;
                parts.concat()
            }
        };
        if kept.len() < table.len() {
            *table = table.select(&kept);
        }
    }
    Ok(())
}
