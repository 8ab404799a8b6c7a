//! Expressions of filters, BIND and aggregates; errors are missing values.

mod call;
mod cast;
pub(crate) mod decimal;
mod inspect;
mod numbering;
mod regex;
mod select;
mod string;
pub(crate) mod value;

pub(crate) use self::regex::CompiledPattern;
use crate::algebra::Node;
use crate::dictionary::{Head, Parts};
use crate::exec::{Context, Row, Var};
use crate::id::{self, Id, Inline, UNBOUND};
use spargebra::algebra::Function;
use std::cmp::Ordering;
use std::sync::Arc;
pub(crate) use value::Value;

/// Comparison operator of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// The operator `<`, less than.
    Less,
    /// The operator `<=`, less or equal.
    LessOrEqual,
    /// The operator `>`, greater than.
    Greater,
    /// The operator `>=`, greater or equal.
    GreaterOrEqual,
}

impl Comparison {
    const fn matches(self, o: Ordering) -> bool {
        match self {
            Self::Less => o.is_lt(),
            Self::LessOrEqual => o.is_le(),
            Self::Greater => o.is_gt(),
            Self::GreaterOrEqual => o.is_ge(),
        }
    }

    const fn sign(self) -> &'static str {
        match self {
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }
}

/// An expression over a solution.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the names are those of the standard's algebra")]
pub enum Expr {
    Const(Id),
    Var(Var),
    Or(Vec<Self>),
    And(Vec<Self>),
    Not(Box<Self>),
    Equal(Box<Self>, Box<Self>),
    SameTerm(Box<Self>, Box<Self>),
    Compare(Comparison, Box<Self>, Box<Self>),
    In(Box<Self>, Vec<Self>),
    Arithmetic(char, Box<Self>, Box<Self>),
    Sign(char, Box<Self>),
    Exists(Arc<Node>),
    Bound(Var),
    If(Box<Self>, Box<Self>, Box<Self>),
    Coalesce(Vec<Self>),
    Call(Function, Vec<Self>),
}

/// Result of an expression: a term id, or a value that has no id yet.
#[derive(Clone)]
pub(crate) enum Val {
    Id(Id),
    Value(Value),
}

impl Val {
    pub(crate) fn value(self, ctx: &Context<'_>) -> Option<Value> {
        let value = match self {
            Self::Value(v) => v,
            Self::Id(id) => of_id(ctx, id)?,
        };
        ctx.reserve_text(value::text_bytes(&value))?;
        Some(value)
    }

    /// Returns the length of the text in bytes, if it can be long.
    pub(crate) fn text_bytes(&self, ctx: &Context<'_>) -> usize {
        match self {
            Self::Id(id) if id::value(*id).is_some() => 0,
            Self::Id(id) => ctx
                .with_parts(*id, |p| match p {
                    Parts::Stored(_, tail) => tail.len(),
                    Parts::Inline(_) => 0,
                })
                .unwrap_or(0),
            Self::Value(v) => value::text_bytes(v),
        }
    }
}

/// Returns the value of a term.
pub(crate) fn of_id(ctx: &Context<'_>, id: Id) -> Option<Value> {
    match id::value(id) {
        Some(Inline::Integer(n)) => Some(Value::IntegerLiteral(n.into())),
        Some(Inline::Boolean(b)) => Some(b.into()),
        _ => {
            let value = ctx.with_parts(id, |parts| match parts {
                Parts::Stored(Head::Plain, text) => Some(value::text(text)),
                Parts::Stored(Head::Typed(datatype), text) => value::parsed(text, datatype),
                _ => None,
            });
            value.flatten().or_else(|| ctx.term(id).map(Value::from))
        }
    }
}

fn boolean(b: bool) -> Val {
    Val::Id(id::boolean(b))
}

impl Expr {
    /// Evaluates the expression for a solution; `None` is an error or unbound.
    pub(crate) fn eval(&self, ctx: &Context<'_>, row: Row<'_>) -> Option<Val> {
        // Releases the memory of intermediate strings; the caller counts the result.
        let reserved = ctx.reserved();
        let found = self.eval_inner(ctx, row);
        ctx.release_to(reserved);
        found
    }

    fn eval_inner(&self, ctx: &Context<'_>, row: Row<'_>) -> Option<Val> {
        match self {
            Self::Const(id) => Some(Val::Id(*id)),
            Self::Var(v) => match row.get(*v) {
                UNBOUND => None,
                id => Some(Val::Id(id)),
            },
            Self::Arithmetic(op, a, b) => {
                let (a, b) = (a.eval(ctx, row)?.value(ctx)?, b.eval(ctx, row)?.value(ctx)?);
                match (value::number(&a), value::number(&b)) {
                    (Some(a), Some(b)) => Some(Val::Value(value::arithmetic(*op, a, b)?.into())),
                    _ => call::dates(*op, a, b).map(Val::Value),
                }
            }
            Self::Sign(op, a) => {
                let a = a.eval(ctx, row)?.value(ctx)?;
                let n = value::number(&a)?;
                if *op == '+' {
                    return Some(Val::Value(a));
                }
                match n {
                    value::Number::Double(d) => Some(Val::Value(Value::DoubleLiteral(-d))),
                    value::Number::Float(d) => Some(Val::Value(Value::FloatLiteral(-d))),
                    n => value::arithmetic('-', value::Number::Integer(0), n)
                        .map(|n| Val::Value(n.into())),
                }
            }
            Self::If(c, a, b) => {
                if c.truth(ctx, row)? {
                    a.eval(ctx, row)
                } else {
                    b.eval(ctx, row)
                }
            }
            Self::Coalesce(list) => list.iter().find_map(|e| e.eval(ctx, row)),
            Self::Call(function, args) => call::call(ctx, row, function, args),
            _ => self.truth(ctx, row).map(boolean),
        }
    }

    /// Returns whether a filter keeps a solution.
    pub(crate) fn matches(&self, ctx: &Context<'_>, row: Row<'_>) -> bool {
        self.truth(ctx, row) == Some(true)
    }

    /// Returns the effective boolean value.
    pub(crate) fn truth(&self, ctx: &Context<'_>, row: Row<'_>) -> Option<bool> {
        let reserved = ctx.reserved();
        let found = self.truth_inner(ctx, row);
        ctx.release_to(reserved);
        found
    }

    fn truth_inner(&self, ctx: &Context<'_>, row: Row<'_>) -> Option<bool> {
        match self {
            Self::Or(list) => {
                let mut error = false;
                for e in list {
                    match e.truth(ctx, row) {
                        Some(true) => return Some(true),
                        Some(false) => {}
                        None => error = true,
                    }
                }
                (!error).then_some(false)
            }
            Self::And(list) => {
                let mut error = false;
                for e in list {
                    match e.truth(ctx, row) {
                        Some(false) => return Some(false),
                        Some(true) => {}
                        None => error = true,
                    }
                }
                (!error).then_some(true)
            }
            Self::Not(e) => e.truth(ctx, row).map(|b| !b),
            Self::Equal(a, b) => equal(ctx, a.eval(ctx, row)?, b.eval(ctx, row)?),
            Self::SameTerm(a, b) => Some(match (a.eval(ctx, row)?, b.eval(ctx, row)?) {
                (Val::Id(a), Val::Id(b)) => a == b,
                // A value that is only compared gets no id, because ids are never freed.
                (a, b) => a.value_or_term(ctx)? == b.value_or_term(ctx)?,
            }),
            Self::Compare(op, a, b) => compare(ctx, *op, a.eval(ctx, row)?, b.eval(ctx, row)?),
            Self::In(a, list) => {
                let a = a.eval(ctx, row)?;
                let mut error = false;
                for b in list {
                    match b.eval(ctx, row).and_then(|b| equal(ctx, a.clone(), b)) {
                        Some(true) => return Some(true),
                        Some(false) => {}
                        None => error = true,
                    }
                }
                (!error).then_some(false)
            }
            Self::Exists(node) => ctx.exists.get().and_then(|exists| exists(ctx, node, row)),
            Self::Bound(v) => Some(row.get(*v) != UNBOUND),
            _ => match self.eval(ctx, row)? {
                Val::Id(id) => match id::value(id) {
                    Some(Inline::Boolean(b)) => Some(b),
                    _ => value::truth(&of_id(ctx, id)?),
                },
                Val::Value(v) => value::truth(&v),
            },
        }
    }
}

pub(crate) fn equal(ctx: &Context<'_>, a: Val, b: Val) -> Option<bool> {
    if let (Val::Id(a), Val::Id(b)) = (&a, &b) {
        if a == b && (id::value(*a).is_some() || is_simple(ctx, *a)) {
            return Some(true);
        }
        if a != b && is_simple(ctx, *a) && is_simple(ctx, *b) {
            return Some(false);
        }
    }
    let triple = |v: &Val| match v {
        Val::Id(id) => ctx.triple(*id),
        Val::Value(_) => None,
    };
    match (triple(&a), triple(&b)) {
        (Some(a), Some(b)) => {
            // An error in one part and different terms in another are false, as with `&&`.
            let mut error = false;
            for (a, b) in a.into_iter().zip(b) {
                match equal(ctx, Val::Id(a), Val::Id(b)) {
                    Some(true) => {}
                    Some(false) => return Some(false),
                    None => error = true,
                }
            }
            (!error).then_some(true)
        }
        (None, None) => value::equals(&a.value(ctx)?, &b.value(ctx)?),
        _ => Some(false),
    }
}

/// Returns whether a term equals only itself: IRIs, blank nodes, strings, not triple terms, whose parts are compared.
pub(crate) fn is_simple(ctx: &Context<'_>, id: Id) -> bool {
    id::value(id).is_none()
        && ctx
            .with_parts(
                id,
                |p| matches!(p, Parts::Stored(head, _) if !matches!(head, Head::Typed(_) | Head::Triple)),
            )
            .unwrap_or(false)
}

/// Compares two terms by the order of `ORDER BY`; strings and IRIs are compared in place.
pub(crate) fn order_ids(ctx: &Context<'_>, a: Id, b: Id) -> Ordering {
    if let (Some(Inline::Integer(x)), Some(Inline::Integer(y))) = (id::value(a), id::value(b)) {
        return x.cmp(&y);
    }
    let order = ctx.with_parts(a, |a| {
        ctx.with_parts(b, |b| match (a, b) {
            (Parts::Stored(Head::Plain, a), Parts::Stored(Head::Plain, b)) => Some(a.cmp(b)),
            (Parts::Stored(Head::Iri(p), a), Parts::Stored(Head::Iri(q), b)) if p == q => {
                Some(a.cmp(b))
            }
            (Parts::Stored(Head::Iri(p), a), Parts::Stored(Head::Iri(q), b)) => {
                Some(p.bytes().chain(a.bytes()).cmp(q.bytes().chain(b.bytes())))
            }
            _ => None,
        })
    });
    order
        .flatten()
        .flatten()
        .unwrap_or_else(|| value::order(of_id(ctx, a).as_ref(), of_id(ctx, b).as_ref()))
}

/// Evaluates `<`, `<=`, `>` and `>=`; `None` is an error.
fn compare(ctx: &Context<'_>, op: Comparison, a: Val, b: Val) -> Option<bool> {
    if let (Val::Id(a), Val::Id(b)) = (&a, &b) {
        match (id::value(*a), id::value(*b)) {
            (Some(Inline::Integer(x)), Some(Inline::Integer(y))) => {
                return Some(op.matches(x.cmp(&y)));
            }
            (None, None) => {
                let order = ctx.with_parts(*a, |a| {
                    ctx.with_parts(*b, |b| match (a, b) {
                        (Parts::Stored(Head::Plain, a), Parts::Stored(Head::Plain, b)) => {
                            Some(a.cmp(b))
                        }
                        _ => None,
                    })
                });
                if let Some(order) = order.flatten().flatten() {
                    return Some(op.matches(order));
                }
            }
            _ => {}
        }
    }
    let (a, b) = (a.value(ctx)?, b.value(ctx)?);
    match value::compare(&a, &b) {
        Some(order) => Some(op.matches(order)),
        // One of two numbers is NaN: each comparison is false.
        None => (value::number(&a).is_some() && value::number(&b).is_some()).then_some(false),
    }
}
