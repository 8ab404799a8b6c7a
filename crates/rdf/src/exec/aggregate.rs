//! Operator for `GROUP BY` and aggregates.

use super::rows::{DistinctRows, RowSet};
use super::{Context, STRING_BYTES_MAX, Table, Var};
use crate::algebra::Aggregate;
use crate::error::{Error, Result};
use crate::expr::value::{self, Number, Value};
use crate::expr::{Expr, Val, order_ids};
use crate::id::{self, Id, UNBOUND};
use oxrdf::Term;
use spargebra::algebra::AggregateFunction as F;
use std::cmp::Ordering;

/// Computes aggregates; the result has one row per group.
pub(crate) fn aggregate(
    ctx: &Context<'_>,
    table: &Table,
    by: &[Var],
    aggregates: &[Aggregate],
) -> Result<Table> {
    let mut keys = table.clone().project(by);
    let mut of_row: Vec<u32> = vec![0; table.len()];
    let mut groups = 1;
    if by.is_empty() {
        keys = Table::unit();
    } else {
        let mut set = RowSet::default();
        let mut firsts = Vec::new();
        let mut last = 0;
        for r in 0..keys.len() {
            // Rows of one group are often adjacent.
            if r == 0 || keys.columns().iter().any(|c| c[r] != c[r - 1]) {
                let (n, new) = set.find_or_insert(&keys, r);
                last = n as u32;
                if new {
                    firsts.push(r as u32);
                }
            }
            of_row[r] = last;
        }
        groups = firsts.len();
        keys = keys.select(&firsts);
    }
    for a in aggregates {
        let column = one(ctx, table, &of_row, groups, a)?;
        keys.set_column(a.var, column);
    }
    Ok(keys)
}

/// Computes aggregates over a single group of `rows` solutions of which only the number matters.
pub(crate) fn count_only(
    ctx: &Context<'_>,
    rows: usize,
    aggregates: &[Aggregate],
) -> Result<Table> {
    let n = i64::try_from(rows)
        .map_err(|_| Error::Unsupported(format!("counting {rows} solutions: more than 2^63")))?;
    let mut table = Table::unit();
    for a in aggregates {
        table.set_column(a.var, vec![count(ctx, n)]);
    }
    Ok(table)
}

fn one(
    ctx: &Context<'_>,
    table: &Table,
    of_row: &[u32],
    groups: usize,
    a: &Aggregate,
) -> Result<Vec<Id>> {
    let Some(function) = &a.function else {
        let mut counts = vec![0i64; groups];
        if a.distinct {
            let mut set = RowSet::default();
            let mut keyed = table.clone();
            keyed.set_column(Var::MAX, of_row.to_vec());
            for (r, g) in of_row.iter().enumerate() {
                counts[*g as usize] += i64::from(set.find_or_insert(&keyed, r).1);
            }
        } else {
            of_row.iter().for_each(|g| counts[*g as usize] += 1);
        }
        return Ok(counts.into_iter().map(|n| count(ctx, n)).collect());
    };
    if let F::Custom(name) = function {
        return Err(Error::Unsupported(format!("the aggregate {name}")));
    }
    let mut seen = DistinctRows::default();
    if let (F::Count, Some(Expr::Var(v))) = (function, &a.expr) {
        let mut counts = vec![0i64; groups];
        for (g, id) in of_row.iter().zip(table.column(*v).unwrap_or(&[])) {
            let counts_too = *id != UNBOUND && (!a.distinct || seen.insert_pair(*g, *id));
            counts[*g as usize] += i64::from(counts_too);
        }
        return Ok(counts.into_iter().map(|n| count(ctx, n)).collect());
    }
    ctx.fits(groups, size_of::<Accumulator>() / size_of::<Id>())?;
    let reserved = ctx.reserved();
    let mut states: Vec<Accumulator> = (0..groups).map(|_| Accumulator::default()).collect();
    let separator = match function {
        F::GroupConcat { separator } => separator.as_deref().unwrap_or(" "),
        _ => "",
    };
    for (r, g) in of_row.iter().enumerate() {
        if r % 1024 == 0 {
            ctx.check()?;
        }
        let row = table.row(r);
        let value = match &a.expr {
            Some(Expr::Var(v)) => match row.get(*v) {
                UNBOUND => None,
                id => Some(Val::Id(id)),
            },
            Some(e) => e.eval(ctx, row),
            None => None,
        };
        let state = &mut states[*g as usize];
        let Some(value) = value else {
            // COUNT and SAMPLE skip errors; other aggregates become errors.
            state.failed = true;
            continue;
        };
        if a.distinct && !seen.insert_pair(*g, value.clone().id(ctx)) {
            continue;
        }
        let texts = match function {
            F::GroupConcat { .. } => value.text_bytes(ctx) + separator.len(),
            _ => 0,
        };
        if state.text.len() + texts > STRING_BYTES_MAX {
            return Err(Error::LongString {
                limit: STRING_BYTES_MAX,
            });
        }
        let in_use = ctx.reserved();
        state.add(ctx, function, value, separator);
        ctx.release_to(in_use);
        // The strings of all groups grow until the last row, so their memory is counted until then.
        ctx.reserve(texts)?;
    }
    ctx.release_to(reserved);
    Ok(states.into_iter().map(|s| s.end(ctx, function)).collect())
}

fn count(ctx: &Context<'_>, n: i64) -> Id {
    id::integer(n).unwrap_or_else(|| ctx.number(&Term::from(Value::IntegerLiteral(n.into()))))
}

#[derive(Default)]
struct Accumulator {
    failed: bool,
    count: i64,
    sum: Option<Number>,
    best: Option<Id>,
    sample: Option<Id>,
    text: String,
}

impl Accumulator {
    fn add(&mut self, ctx: &Context<'_>, function: &F, value: Val, separator: &str) {
        self.count += 1;
        match function {
            F::Sum | F::Avg => {
                let Some(n) = value.value(ctx).and_then(|v| value::number(&v)) else {
                    self.failed = true;
                    return;
                };
                let sum = self.sum.unwrap_or(Number::Integer(0));
                match value::arithmetic('+', sum, n) {
                    Some(sum) => self.sum = Some(sum),
                    None => self.failed = true,
                }
            }
            F::Min | F::Max => {
                let id = value.id(ctx);
                let wanted = if matches!(function, F::Min) {
                    Ordering::Less
                } else {
                    Ordering::Greater
                };
                let better = self
                    .best
                    .is_none_or(|best| id != best && order_ids(ctx, id, best) == wanted);
                if better {
                    self.best = Some(id);
                }
            }
            F::Sample => {
                if self.sample.is_none() {
                    self.sample = Some(value.id(ctx));
                }
            }
            F::GroupConcat { .. } => {
                let text = match value.value_or_term(ctx) {
                    Some(Term::Literal(l)) => l.destruct().0,
                    Some(Term::NamedNode(n)) => n.into_string(),
                    _ => {
                        self.failed = true;
                        return;
                    }
                };
                if self.count > 1 {
                    self.text.push_str(separator);
                }
                self.text.push_str(&text);
            }
            F::Count | F::Custom(_) => {}
        }
    }

    fn end(self, ctx: &Context<'_>, function: &F) -> Id {
        let number = |n: Number| ctx.number(&Term::from(Value::from(n)));
        match function {
            F::Count => count(ctx, self.count),
            F::Sample => self.sample.unwrap_or(UNBOUND),
            _ if self.failed => UNBOUND,
            F::Sum => number(self.sum.unwrap_or(Number::Integer(0))),
            F::Avg if self.count == 0 => count(ctx, 0),
            F::Avg => self
                .sum
                .and_then(|s| value::arithmetic('/', s, Number::Integer(self.count)))
                .map_or(UNBOUND, number),
            F::Min | F::Max => self.best.unwrap_or(UNBOUND),
            F::GroupConcat { .. } => ctx.number(&Term::from(value::text(self.text))),
            F::Custom(_) => UNBOUND,
        }
    }
}
