//! Hash joins of tables: inner, left outer, anti. The left table is the probe side, the right one the build side.

use super::context::Context;
use super::parallel::{portion, portions};
use super::rows::KeyMap;
use super::table::{Table, Var};
use crate::error::Result;
use crate::expr::{self, Expr, value};
use crate::id::{self, Id, UNBOUND};
use crate::plan::{Mode, is_movable};
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Pairs of rows that are filtered at a time.
const CHUNK: usize = 1 << 14;

/// Joins two tables on their shared variables. `equal` has further pairs of variables that must be equal by value (a filter tests these
/// again). Only the columns `keep` are required.
pub(crate) fn join(
    ctx: &Context<'_>,
    left: &Table,
    right: &Table,
    equal: &[(Var, Var)],
    filters: &[Expr],
    mode: Mode,
    keep: &[Var],
) -> Result<Table> {
    let shared: Vec<Var> = left
        .vars()
        .iter()
        .copied()
        .filter(|v| right.vars().contains(v))
        .collect();
    let (sure, unsure): (Vec<Var>, Vec<Var>) = shared
        .iter()
        .partition(|v| left.is_always_bound(**v) && right.is_always_bound(**v));
    let exact: Vec<(&[Id], &[Id])> = sure
        .iter()
        .filter_map(|v| Some((left.column(*v)?, right.column(*v)?)))
        .collect();
    let nullable: Vec<(&[Id], &[Id])> = unsure
        .iter()
        .filter_map(|v| Some((left.column(*v)?, right.column(*v)?)))
        .collect();
    // If all terms of a side equal only themselves, equal keys imply equal values, so the filter need not test these pairs.
    let mut implied: Vec<(Var, Var)> = Vec::new();
    let by_value: Vec<(Vec<Id>, Vec<Id>)> = equal
        .iter()
        .filter_map(|(a, b)| {
            let (x, y) = (left.column(*a)?, right.column(*b)?);
            let floats = Cell::new(false);
            let mut keyed = (keys(ctx, x, &floats), keys(ctx, y, &floats));
            // The keys before the first float are those of doubles.
            if floats.get() {
                keyed = (keys(ctx, x, &floats), keys(ctx, y, &floats));
            }
            if keyed.0 == x || keyed.1 == y {
                implied.push((*a, *b));
            }
            Some(keyed)
        })
        .collect();
    let asked: Vec<Expr> = filters
        .iter()
        .filter(|f| !is_implied(f, &implied))
        .cloned()
        .collect();
    let filters = asked.as_slice();
    let left_keys: Vec<&[Id]> = exact
        .iter()
        .map(|(a, _)| *a)
        .chain(by_value.iter().map(|(a, _)| a.as_slice()))
        .collect();
    let right_keys: Vec<&[Id]> = exact
        .iter()
        .map(|(_, b)| *b)
        .chain(by_value.iter().map(|(_, b)| b.as_slice()))
        .collect();
    let map = (!right_keys.is_empty()).then(|| KeyMap::new(&right_keys, right.len()));

    let mut vars: Vec<Var> = left
        .vars()
        .iter()
        .copied()
        .filter(|v| keep.contains(v))
        .collect();
    if mode != Mode::Anti {
        vars.extend(
            right
                .vars()
                .iter()
                .filter(|v| keep.contains(v) && !shared.contains(v)),
        );
    }
    // Columns that only filters need are built for the pairs and dropped afterwards.
    let mut made = keep.to_vec();
    made.extend(filters.iter().flat_map(Expr::vars));
    let sides = HashJoin {
        left,
        right,
        exact,
        by_value: &by_value,
        nullable,
        left_keys,
        map,
        filters,
        mode,
        keep,
        made,
        vars: vars.clone(),
    };
    let each = if filters.iter().all(is_movable) {
        portion(ctx, left.len())
    } else {
        left.len()
    };
    let total = AtomicUsize::new(0);
    let parts = portions(
        ctx,
        left.len(),
        each,
        || (),
        |ctx, (), range| sides.probe(ctx, range, &total),
    )?;
    let mut out = Table::empty(vars.clone());
    let mut unmatched = Vec::new();
    out.reserve(total.into_inner());
    for (part, mut lone) in parts {
        out.append(part);
        unmatched.append(&mut lone);
    }
    if mode != Mode::Inner {
        out.append(left.select_vars(&unmatched, keep).project(&vars));
    }
    Ok(out)
}

/// A prepared hash join.
struct HashJoin<'t> {
    left: &'t Table,
    right: &'t Table,
    /// Columns that must have equal ids and are bound in every row.
    exact: Vec<(&'t [Id], &'t [Id])>,
    /// Key columns that must be equal by value.
    by_value: &'t [(Vec<Id>, Vec<Id>)],
    /// Columns that must have equal ids where both are bound.
    nullable: Vec<(&'t [Id], &'t [Id])>,
    left_keys: Vec<&'t [Id]>,
    map: Option<KeyMap>,
    filters: &'t [Expr],
    mode: Mode,
    keep: &'t [Var],
    /// Columns required before the filters have run.
    made: Vec<Var>,
    vars: Vec<Var>,
}

impl HashJoin<'_> {
    /// Probes with rows of the left side. Returns the joined rows, and the rows without a match where these matter. `total` counts all
    /// result rows.
    fn probe(
        &self,
        ctx: &Context<'_>,
        range: Range<usize>,
        total: &AtomicUsize,
    ) -> Result<(Table, Vec<u32>)> {
        let first = range.start;
        let mut out = Table::empty(self.vars.clone());
        let mut pairs: (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
        let keep_unmatched = self.mode != Mode::Inner;
        let mut found = vec![false; if keep_unmatched { range.len() } else { 0 }];
        let mut flush = |pairs: &mut (Vec<u32>, Vec<u32>)| -> Result<()> {
            ctx.check()?;
            if pairs.0.is_empty() {
                return Ok(());
            }
            if keep_unmatched && self.filters.is_empty() {
                pairs
                    .0
                    .iter()
                    .for_each(|l| found[*l as usize - first] = true);
            }
            if self.mode != Mode::Anti || !self.filters.is_empty() {
                let mut both = combine(self.left, self.right, &pairs.0, &pairs.1, &self.made);
                if !self.filters.is_empty() {
                    let mut kept: Vec<u32> = (0..both.len() as u32).collect();
                    for f in self.filters {
                        kept = f.select(ctx, &both, kept);
                    }
                    if keep_unmatched {
                        kept.iter()
                            .for_each(|r| found[pairs.0[*r as usize] as usize - first] = true);
                    }
                    both = both.select_vars(&kept, self.keep);
                }
                if self.mode != Mode::Anti {
                    let sum = total.fetch_add(both.len(), Ordering::Relaxed) + both.len();
                    ctx.fits(sum, self.vars.len())?;
                    out.append(both.project(&self.vars));
                }
            }
            pairs.0.clear();
            pairs.1.clear();
            Ok(())
        };
        let once = self.mode == Mode::Anti && self.filters.is_empty();
        for l in range.clone() {
            let mut meet = |r: usize| -> bool {
                let same = self.exact.iter().all(|(a, b)| a[l] == b[r])
                    && self.by_value.iter().all(|(a, b)| a[l] == b[r])
                    && self
                        .nullable
                        .iter()
                        .all(|(a, b)| a[l] == b[r] || a[l] == UNBOUND || b[r] == UNBOUND);
                if same {
                    pairs.0.push(l as u32);
                    pairs.1.push(r as u32);
                }
                same
            };
            match &self.map {
                Some(map) => {
                    for r in map.candidates(&self.left_keys, l) {
                        if meet(r) && once {
                            break;
                        }
                    }
                }
                None => {
                    for r in 0..self.right.len() {
                        if meet(r) && once {
                            break;
                        }
                    }
                }
            }
            if pairs.0.len() >= CHUNK {
                flush(&mut pairs)?;
            }
        }
        flush(&mut pairs)?;
        let lone = range
            .filter(|l| keep_unmatched && !found[*l - first])
            .map(|l| l as u32)
            .collect();
        Ok((out, lone))
    }
}

/// Returns whether a filter tests an equality that already holds.
fn is_implied(f: &Expr, known: &[(Var, Var)]) -> bool {
    match f {
        Expr::Equal(a, b) => match (&**a, &**b) {
            (Expr::Var(a), Expr::Var(b)) => known.contains(&(*a, *b)) || known.contains(&(*b, *a)),
            _ => false,
        },
        _ => false,
    }
}

/// Combines matched rows of both sides.
fn combine(left: &Table, right: &Table, l: &[u32], r: &[u32], keep: &[Var]) -> Table {
    let mut table = left.select_vars(l, keep);
    for (var, column) in right.vars().iter().zip(right.columns()) {
        if !keep.contains(var) {
            continue;
        }
        let theirs = super::table::gather(column, r);
        let column = match table.column(*var) {
            None => theirs,
            Some(ours) if ours.contains(&UNBOUND) => ours
                .iter()
                .zip(&theirs)
                .map(|(a, b)| if *a == UNBOUND { *b } else { *a })
                .collect(),
            Some(_) => continue,
        };
        table.set_column(*var, column);
    }
    table
}

/// Returns keys that are equal for terms that may be equal by value. After the first float, numbers have the keys of floats: beside one they
/// are compared as floats.
fn keys(ctx: &Context<'_>, column: &[Id], floats: &Cell<bool>) -> Vec<Id> {
    let mut last = (UNBOUND, UNBOUND);
    column
        .iter()
        .map(|id| {
            if *id != last.0 {
                last = (*id, key(ctx, *id, floats));
            }
            last.1
        })
        .collect()
}

fn key(ctx: &Context<'_>, id: Id, floats: &Cell<bool>) -> Id {
    if id == UNBOUND || expr::is_simple(ctx, id) {
        return id;
    }
    let number = match id::value(id) {
        Some(id::Inline::Integer(n)) => n as f64,
        _ => {
            let value = expr::of_id(ctx, id);
            let Some(number) = value.as_ref().and_then(value::number) else {
                return Id::MAX;
            };
            if matches!(number, value::Number::Float(_)) {
                floats.set(true);
            }
            number.double().into()
        }
    };
    if floats.get() {
        fold((number as f32).to_bits().into())
    } else {
        fold(number.to_bits())
    }
}

/// The sign is lost: zero and negative zero are equal.
const fn fold(bits: u64) -> Id {
    (bits ^ (bits >> 32)) as Id | 1 << 31
}

/// `MINUS`: removes left rows that are compatible with a right row and share a bound variable with it.
pub(crate) fn minus(ctx: &Context<'_>, left: &Table, right: &Table) -> Result<Table> {
    let shared: Vec<(&[Id], &[Id])> = left
        .vars()
        .iter()
        .filter_map(|v| Some((left.column(*v)?, right.column(*v)?)))
        .collect();
    if shared.is_empty() || right.is_empty() {
        return Ok(left.clone());
    }
    let certain = shared
        .iter()
        .all(|(a, b)| !a.contains(&UNBOUND) && !b.contains(&UNBOUND));
    let left_keys: Vec<&[Id]> = shared.iter().map(|(a, _)| *a).collect();
    let right_keys: Vec<&[Id]> = shared.iter().map(|(_, b)| *b).collect();
    let map = certain.then(|| KeyMap::new(&right_keys, right.len()));
    let mut kept = Vec::new();
    for l in 0..left.len() {
        if l % 256 == 0 {
            ctx.check()?;
        }
        let agrees = |r: usize| {
            let mut any = false;
            shared.iter().all(|(a, b)| {
                let (a, b) = (a[l], b[r]);
                any |= a != UNBOUND && b != UNBOUND;
                a == b || a == UNBOUND || b == UNBOUND
            }) && any
        };
        let gone = match &map {
            Some(map) => map.candidates(&left_keys, l).any(agrees),
            None => (0..right.len()).any(agrees),
        };
        if !gone {
            kept.push(l as u32);
        }
    }
    Ok(left.select(&kept))
}
