//! Filters on whole tables: common comparisons of columns run without name lookups per row.

use super::{Comparison, Expr, Val, compare, equal};
use crate::exec::{Context, Table};
use crate::id::{self, Id, Inline, UNBOUND};

/// One operand of a comparison.
enum Operand<'t> {
    Column(&'t [Id]),
    Const(Id),
}

impl<'t> Operand<'t> {
    fn of(expr: &Expr, table: &'t Table) -> Option<Self> {
        match expr {
            Expr::Var(v) => table.column(*v).map(Self::Column),
            Expr::Const(id) => Some(Self::Const(*id)),
            _ => None,
        }
    }

    fn get(&self, row: u32) -> Id {
        match self {
            Self::Column(c) => c[row as usize],
            Self::Const(id) => *id,
        }
    }
}

impl Expr {
    /// Returns the rows that a filter keeps.
    pub(crate) fn select(&self, ctx: &Context<'_>, table: &Table, mut rows: Vec<u32>) -> Vec<u32> {
        let fast = match self {
            Self::And(list) => {
                // An error in one operand and false in another give false; the row is dropped in both cases.
                for part in list {
                    rows = part.select(ctx, table, rows);
                }
                return rows;
            }
            Self::Compare(op, a, b) => operands(a, b, table).map(|(a, b)| {
                rows.retain(|r| less(ctx, *op, a.get(*r), b.get(*r)));
            }),
            Self::Equal(a, b) => operands(a, b, table).map(|(a, b)| {
                rows.retain(|r| same(ctx, a.get(*r), b.get(*r)) == Some(true));
            }),
            Self::Not(inner) => match &**inner {
                Self::Equal(a, b) => operands(a, b, table).map(|(a, b)| {
                    rows.retain(|r| same(ctx, a.get(*r), b.get(*r)) == Some(false));
                }),
                _ => None,
            },
            _ => None,
        };
        if fast.is_none() {
            rows.retain(|r| self.matches(ctx, table.row(*r as usize)));
        }
        rows
    }
}

fn operands<'t>(a: &Expr, b: &Expr, table: &'t Table) -> Option<(Operand<'t>, Operand<'t>)> {
    Some((Operand::of(a, table)?, Operand::of(b, table)?))
}

fn less(ctx: &Context<'_>, op: Comparison, a: Id, b: Id) -> bool {
    if a == UNBOUND || b == UNBOUND {
        return false;
    }
    if let (Some(Inline::Integer(a)), Some(Inline::Integer(b))) = (id::value(a), id::value(b)) {
        return op.matches(a.cmp(&b));
    }
    compare(ctx, op, Val::Id(a), Val::Id(b)) == Some(true)
}

fn same(ctx: &Context<'_>, a: Id, b: Id) -> Option<bool> {
    if a == UNBOUND || b == UNBOUND {
        return None;
    }
    equal(ctx, Val::Id(a), Val::Id(b))
}
