//! `ORDER BY`: full sort or top-k.

use super::{Context, Table, Var};
use crate::error::Result;
use crate::expr::{Expr, Value, of_id, order_ids, value};
use crate::id::{Id, UNBOUND};
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

/// Sorts solutions by `by`; ties are ordered by the terms of `ties`, and the sort is stable beyond that. With a limit only the first
/// solutions are returned.
pub(crate) fn order_by(
    ctx: &Context<'_>,
    table: &Table,
    by: &[(Expr, bool)],
    ties: &[Var],
    limit: Option<usize>,
) -> Result<Table> {
    if let Some(limit) = limit
        && table.len() > limit.saturating_mul(16)
        && limit > 0
        && let Some(kept) = match (by.first(), ties.first()) {
            (Some((first, _)), _) if first.is_volatile() => None,
            (Some((first, descending)), _) => {
                let order = |a: &Id, b: &Id| {
                    let o = order_ids(ctx, *a, *b);
                    if *descending { o.reverse() } else { o }
                };
                before_cut(ctx, &ids(ctx, table, first)?, order, limit)?
            }
            (None, Some(first)) => {
                let order = |a: &Id, b: &Id| by_term(ctx, *a, *b);
                before_cut(ctx, &ids(ctx, table, &Expr::Var(*first))?, order, limit)?
            }
            (None, None) => None,
        }
    {
        return order_by(ctx, &table.select(&kept), by, ties, Some(limit));
    }
    let mut keys: Vec<(Vec<u32>, bool)> = Vec::with_capacity(by.len() + ties.len());
    for (expr, descending) in by {
        keys.push((ranks(ctx, table, expr)?, *descending));
    }
    for var in ties {
        if let Some(column) = table.column(*var) {
            keys.push((term_ranks(ctx, column)?, false));
        }
    }
    ctx.check()?;
    let mut rows: Vec<u32> = (0..table.len() as u32).collect();
    match limit {
        Some(0) => rows.clear(),
        Some(n) if n < rows.len() => {
            let compare = |a: &u32, b: &u32| {
                for (ranks, descending) in &keys {
                    let o = ranks[*a as usize].cmp(&ranks[*b as usize]);
                    let o = if *descending { o.reverse() } else { o };
                    if o != Ordering::Equal {
                        return o;
                    }
                }
                a.cmp(b)
            };
            rows.select_nth_unstable_by(n - 1, compare);
            rows.truncate(n);
            rows.sort_unstable_by(compare);
        }
        _ => {
            for (ranks, descending) in keys.iter().rev() {
                rows = by_ranks(&rows, ranks, *descending);
            }
        }
    }
    Ok(table.select(&rows))
}

/// Sorts rows by their ranks, stably, with a counting sort: comparing rows would cost a cache miss each. There are at most as many ranks as
/// rows.
fn by_ranks(rows: &[u32], ranks: &[u32], descending: bool) -> Vec<u32> {
    let most = ranks.iter().copied().max().unwrap_or(0);
    let place = |row: u32| {
        let rank = ranks[row as usize];
        (if descending { most - rank } else { rank }) as usize
    };
    let mut next = vec![0u32; most as usize + 2];
    for row in rows {
        next[place(*row) + 1] += 1;
    }
    for i in 1..next.len() {
        next[i] += next[i - 1];
    }
    let mut sorted = vec![0; rows.len()];
    for row in rows {
        let at = &mut next[place(*row)];
        sorted[*at as usize] = *row;
        *at += 1;
    }
    sorted
}

/// Returns the rows that may be among the first `limit`: those whose first key is among that many distinct keys. This costs a few
/// comparisons per distinct key instead of a sort. `None` if it would exclude too few rows.
fn before_cut(
    ctx: &Context<'_>,
    ids: &[Id],
    order: impl Fn(&Id, &Id) -> Ordering,
    limit: usize,
) -> Result<Option<Vec<u32>>> {
    let mut different = ids.to_vec();
    different.sort_unstable();
    different.dedup();
    if different.len() <= limit.saturating_mul(4) {
        return Ok(None);
    }
    ctx.check()?;
    let mut rest = different.clone();
    let (_, cut, _) = rest.select_nth_unstable_by(limit - 1, &order);
    let cut = *cut;
    let kept: HashSet<Id> = different
        .into_iter()
        .filter(|id| order(id, &cut).is_le())
        .collect();
    let rows: Vec<u32> = (0..ids.len() as u32)
        .filter(|r| kept.contains(&ids[*r as usize]))
        .collect();
    Ok((rows.len() < ids.len() / 2).then_some(rows))
}

/// Compares two terms ([`Parts::order`]); unbound comes first.
pub(crate) fn by_term(ctx: &Context<'_>, a: Id, b: Id) -> Ordering {
    if a == b {
        return Ordering::Equal;
    }
    ctx.with_parts(a, |a| {
        ctx.with_parts(b, |b| a.order(&b, &|a, b| by_term(ctx, a, b)))
    })
    .flatten()
    .unwrap_or_else(|| (a != UNBOUND).cmp(&(b != UNBOUND)))
}

/// Returns for each row the rank of its term among the distinct terms.
fn term_ranks(ctx: &Context<'_>, column: &[Id]) -> Result<Vec<u32>> {
    let mut different = column.to_vec();
    different.sort_unstable();
    different.dedup();
    ctx.check()?;
    different.sort_unstable_by(|a, b| by_term(ctx, *a, *b));
    ctx.check()?;
    let ranks: HashMap<Id, u32> = different.into_iter().zip(0..).collect();
    let rank = |id| ranks.get(id).copied().unwrap_or_default();
    Ok(column.iter().map(rank).collect())
}

/// Sorts triples by their terms: subjects, then predicates, then objects.
pub(crate) fn sort_triples(ctx: &Context<'_>, list: &mut Vec<(Id, Id, Id)>) -> Result<()> {
    let columns = [
        list.iter().map(|t| t.0).collect(),
        list.iter().map(|t| t.1).collect(),
        list.iter().map(|t| t.2).collect(),
    ];
    let table = Table::new(vec![0, 1, 2], columns.into(), list.len());
    let table = order_by(ctx, &table, &[], &[0, 1, 2], None)?;
    *list = table
        .rows()
        .map(|row| (row.get(0), row.get(1), row.get(2)))
        .collect();
    Ok(())
}

/// Returns the key of each row.
fn ids(ctx: &Context<'_>, table: &Table, expr: &Expr) -> Result<Vec<Id>> {
    if let Expr::Var(v) = expr {
        return Ok(table
            .column(*v)
            .map_or_else(|| vec![UNBOUND; table.len()], <[Id]>::to_vec));
    }
    expr.ids(ctx, table)
}

/// Returns for each row the rank of its key among the distinct keys; each key is computed and compared once.
fn ranks(ctx: &Context<'_>, table: &Table, expr: &Expr) -> Result<Vec<u32>> {
    let mut numbers: HashMap<Id, u32> = HashMap::new();
    let mut values: Vec<(Option<Value>, u32)> = Vec::new();
    let mut of_row = Vec::with_capacity(table.len());
    let reserved = ctx.reserved();
    for id in ids(ctx, table, expr)? {
        let new = values.len();
        let next = values.len() as u32;
        let n = *numbers.entry(id).or_insert_with(|| {
            values.push((of_id(ctx, id), next));
            next
        });
        of_row.push(n);
        if let [(Some(value), _)] = &values[new..] {
            ctx.reserve(size_of::<Value>() + value::text_bytes(value))?;
        }
    }
    ctx.release_to(reserved);
    values.sort_by(|a, b| value::order(a.0.as_ref(), b.0.as_ref()));
    let mut ranks = vec![0u32; values.len()];
    let mut rank = 0;
    for (i, (v, n)) in values.iter().enumerate() {
        if i > 0 && value::order(values[i - 1].0.as_ref(), v.as_ref()) != Ordering::Equal {
            rank += 1;
        }
        ranks[*n as usize] = rank;
    }
    Ok(of_row.into_iter().map(|n| ranks[n as usize]).collect())
}
