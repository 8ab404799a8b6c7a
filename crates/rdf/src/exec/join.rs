//! Joins of tables by hash: inner, outer, anti.

use super::context::Context;
use super::rows::KeyMap;
use super::table::{Table, Var, fits};
use crate::error::Result;
use crate::expr::{self, Expr, value};
use crate::id::{self, Id, UNBOUND};

/// What becomes of rows of the left side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Those that find something.
    Inner,
    /// All; those that find nothing stay as they are.
    Left,
    /// Those that find nothing.
    Anti,
}

/// Rows of pairs that are looked at together.
const CHUNK: usize = 1 << 14;

/// Joins two tables on the variables that both have; `equal` names further pairs that must be equal by value (which a
/// filter checks again). Of what comes out only `keep` is needed.
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
        .partition(|v| left.is_certain(**v) && right.is_certain(**v));
    let exact: Vec<(&[Id], &[Id])> = sure
        .iter()
        .filter_map(|v| Some((left.column(*v)?, right.column(*v)?)))
        .collect();
    let loose: Vec<(&[Id], &[Id])> = unsure
        .iter()
        .filter_map(|v| Some((left.column(*v)?, right.column(*v)?)))
        .collect();
    // Where all terms of a side equal only themselves, a pair with the same key is equal: nobody asks again.
    let mut implied: Vec<(Var, Var)> = Vec::new();
    let by_value: Vec<(Vec<Id>, Vec<Id>)> = equal
        .iter()
        .filter_map(|(a, b)| {
            let (x, y) = (left.column(*a)?, right.column(*b)?);
            let keyed = (keys(ctx, x), keys(ctx, y));
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
    // What filters need is made for the pairs, and dropped after.
    let mut made = keep.to_vec();
    made.extend(filters.iter().flat_map(Expr::vars));
    let mut out = Table::empty(vars.clone());
    let mut pairs: (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
    let mut found = vec![false; if mode == Mode::Inner { 0 } else { left.len() }];
    let mut flush = |pairs: &mut (Vec<u32>, Vec<u32>), found: &mut Vec<bool>| -> Result<()> {
        ctx.check()?;
        if mode == Mode::Anti && filters.is_empty() {
            pairs.0.iter().for_each(|l| found[*l as usize] = true);
        } else if !pairs.0.is_empty() {
            let mut both = combine(left, right, &pairs.0, &pairs.1, &made);
            if !filters.is_empty() {
                let kept: Vec<u32> = (0..both.len() as u32)
                    .filter(|r| {
                        let row = both.row(*r as usize);
                        filters.iter().all(|f| f.holds(ctx, row))
                    })
                    .collect();
                if mode != Mode::Inner {
                    kept.iter()
                        .for_each(|r| found[pairs.0[*r as usize] as usize] = true);
                }
                both = both.select_vars(&kept, keep);
            } else if mode != Mode::Inner {
                pairs.0.iter().for_each(|l| found[*l as usize] = true);
            }
            if mode != Mode::Anti {
                out.append(both.project(&vars));
                fits(out.len(), vars.len(), ctx.options.memory)?;
            }
        }
        pairs.0.clear();
        pairs.1.clear();
        Ok(())
    };
    for l in 0..left.len() {
        let mut meet = |r: usize| -> bool {
            let same = exact.iter().all(|(a, b)| a[l] == b[r])
                && by_value.iter().all(|(a, b)| a[l] == b[r])
                && loose
                    .iter()
                    .all(|(a, b)| a[l] == b[r] || a[l] == UNBOUND || b[r] == UNBOUND);
            if same {
                pairs.0.push(l as u32);
                pairs.1.push(r as u32);
            }
            same
        };
        let once = mode == Mode::Anti && filters.is_empty();
        match &map {
            Some(map) => {
                for r in map.candidates(&left_keys, l) {
                    if meet(r) && once {
                        break;
                    }
                }
            }
            None => {
                for r in 0..right.len() {
                    if meet(r) && once {
                        break;
                    }
                }
            }
        }
        if pairs.0.len() >= CHUNK {
            flush(&mut pairs, &mut found)?;
        }
    }
    flush(&mut pairs, &mut found)?;
    if mode != Mode::Inner {
        let alone: Vec<u32> = (0..left.len() as u32)
            .filter(|l| !found[*l as usize])
            .collect();
        out.append(left.select_vars(&alone, keep).project(&vars));
    }
    Ok(out)
}

/// Whether a filter says that two variables are equal which are known to be.
fn is_implied(f: &Expr, known: &[(Var, Var)]) -> bool {
    match f {
        Expr::Equal(a, b) => match (&**a, &**b) {
            (Expr::Var(a), Expr::Var(b)) => known.contains(&(*a, *b)) || known.contains(&(*b, *a)),
            _ => false,
        },
        _ => false,
    }
}

/// Rows of both sides next to each other.
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

/// Numbers that are the same for terms that may be equal by value.
fn keys(ctx: &Context<'_>, column: &[Id]) -> Vec<Id> {
    let mut last = (UNBOUND, UNBOUND);
    column
        .iter()
        .map(|id| {
            if *id != last.0 {
                last = (*id, key(ctx, *id));
            }
            last.1
        })
        .collect()
}

fn key(ctx: &Context<'_>, id: Id) -> Id {
    if id == UNBOUND || expr::is_simple(ctx, id) {
        return id;
    }
    if let Some(id::Inline::Integer(n)) = id::value(id) {
        return fold((n as f64).to_bits());
    }
    expr::of_id(ctx, id)
        .and_then(|v| value::join_key(&v))
        .map_or(Id::MAX, fold)
}

const fn fold(bits: u64) -> Id {
    (bits ^ (bits >> 32)) as Id | 1 << 31
}

/// `MINUS`: rows of the left side that agree with no row of the right side on what both have.
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
