//! `ORDER BY`, whole or only the first solutions.

use super::{Context, Table};
use crate::error::Result;
use crate::expr::{Expr, Value, of_id, order_ids, value};
use crate::id::{Id, UNBOUND};
use std::cmp::Ordering;
use std::collections::HashMap;

/// Sorts solutions; those that are the same keep their order. With a limit only the first ones come out.
pub(crate) fn order_by(
    ctx: &Context<'_>,
    table: &Table,
    by: &[(Expr, bool)],
    limit: Option<usize>,
) -> Result<Table> {
    if let (Some(limit), Some((first, descending))) = (limit, by.first())
        && table.len() > limit.saturating_mul(16)
        && limit > 0
        && !first.is_volatile()
        && let Some(kept) = before_cut(ctx, table, first, *descending, limit)?
    {
        return order_by(ctx, &table.select(&kept), by, Some(limit));
    }
    let mut keys: Vec<(Vec<u32>, bool)> = Vec::with_capacity(by.len());
    for (expr, descending) in by {
        keys.push((ranks(ctx, table, expr)?, *descending));
    }
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
    let mut rows: Vec<u32> = (0..table.len() as u32).collect();
    match limit {
        Some(0) => rows.clear(),
        Some(n) if n < rows.len() => {
            rows.select_nth_unstable_by(n - 1, compare);
            rows.truncate(n);
            rows.sort_unstable_by(compare);
        }
        _ => rows.sort_unstable_by(compare),
    }
    Ok(table.select(&rows))
}

/// The rows that may be among the first ones: those whose first key is not behind that many different keys. Finding them
/// costs a few looks at each different key, where sorting would cost many. `None` if that leaves out too little.
fn before_cut(
    ctx: &Context<'_>,
    table: &Table,
    first: &Expr,
    descending: bool,
    limit: usize,
) -> Result<Option<Vec<u32>>> {
    let ids = ids(ctx, table, first)?;
    let mut different = ids.clone();
    different.sort_unstable();
    different.dedup();
    if different.len() <= limit.saturating_mul(4) {
        return Ok(None);
    }
    ctx.check()?;
    let order = |a: &Id, b: &Id| {
        let o = order_ids(ctx, *a, *b);
        if descending { o.reverse() } else { o }
    };
    let mut rest = different.clone();
    let (_, cut, _) = rest.select_nth_unstable_by(limit - 1, order);
    let cut = *cut;
    let kept: Vec<bool> = different.iter().map(|id| order(id, &cut).is_le()).collect();
    let rows: Vec<u32> = (0..ids.len() as u32)
        .filter(|r| {
            different
                .binary_search(&ids[*r as usize])
                .is_ok_and(|i| kept[i])
        })
        .collect();
    Ok((rows.len() < table.len() / 2).then_some(rows))
}

/// The key of each row.
fn ids(ctx: &Context<'_>, table: &Table, expr: &Expr) -> Result<Vec<Id>> {
    if let Expr::Var(v) = expr {
        return Ok(table
            .column(*v)
            .map_or_else(|| vec![UNBOUND; table.len()], <[Id]>::to_vec));
    }
    let mut ids = Vec::with_capacity(table.len());
    for r in 0..table.len() {
        if r % 1024 == 0 {
            ctx.check()?;
        }
        ids.push(expr.eval(ctx, table.row(r)).map_or(UNBOUND, |v| v.id(ctx)));
    }
    Ok(ids)
}

/// For each row the place of its key among the different keys: each is computed and compared once.
fn ranks(ctx: &Context<'_>, table: &Table, expr: &Expr) -> Result<Vec<u32>> {
    let mut numbers: HashMap<Id, u32> = HashMap::new();
    let mut values: Vec<(Option<Value>, u32)> = Vec::new();
    let mut of_row = Vec::with_capacity(table.len());
    let held = ctx.held();
    for id in ids(ctx, table, expr)? {
        let new = values.len();
        let next = values.len() as u32;
        let n = *numbers.entry(id).or_insert_with(|| {
            values.push((of_id(ctx, id), next));
            next
        });
        of_row.push(n);
        if let [(Some(value), _)] = &values[new..] {
            ctx.hold(size_of::<Value>() + value::text_bytes(value))?;
        }
    }
    ctx.release_to(held);
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
