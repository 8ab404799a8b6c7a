//! Evaluation of conditions.

use super::times::inside;
use super::{Comparison, Expr, Test};
use crate::value::{Properties, Value};
use std::borrow::Cow;
use std::cmp::Ordering;

/// An item with named values: an object, a vertex, an edge.
pub trait Fields {
    /// Returns the value of that name; null if the name exists without a value.
    fn field(&self, name: &str) -> Option<Cow<'_, Value>>;

    /// Whether the name exists and its value passes the test. Implementations whose values are not [`Value`]s override
    /// it to avoid building one.
    fn passes(&self, name: &str, test: &mut dyn FnMut(ValueRef<'_>) -> bool) -> bool {
        self.field(name)
            .is_some_and(|value| test(ValueRef::from(&*value)))
    }
}

/// Fields are the properties by name, without built-in names.
impl Fields for Properties {
    fn field(&self, name: &str) -> Option<Cow<'_, Value>> {
        self.get(name).map(Cow::Borrowed)
    }
}

/// A borrowed [`Value`], whatever form its owner stores it in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ValueRef<'a> {
    /// Null: the name exists and has no value.
    Null,
    /// A truth value.
    Bool(bool),
    /// A signed 64-bit integer.
    I64(i64),
    /// An IEEE 754 double.
    F64(f64),
    /// A UTF-8 text.
    String(&'a str),
    /// A string of raw bytes.
    Bytes(&'a [u8]),
    /// A time in nanoseconds since 1970.
    Timestamp(i64),
    /// An ordered list of values.
    List(&'a [Value]),
}

impl<'a> From<&'a Value> for ValueRef<'a> {
    fn from(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(b) => Self::Bool(*b),
            Value::I64(n) => Self::I64(*n),
            Value::F64(x) => Self::F64(*x),
            Value::String(s) => Self::String(s),
            Value::Bytes(b) => Self::Bytes(b),
            Value::Timestamp(t) => Self::Timestamp(*t),
            Value::List(items) => Self::List(items),
        }
    }
}

impl ValueRef<'_> {
    /// Copies the value into an owned [`Value`].
    pub fn to_value(self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(b) => Value::Bool(b),
            Self::I64(n) => Value::I64(n),
            Self::F64(x) => Value::F64(x),
            Self::String(s) => Value::String(s.to_owned()),
            Self::Bytes(b) => Value::Bytes(b.to_owned()),
            Self::Timestamp(t) => Value::Timestamp(t),
            Self::List(items) => Value::List(items.to_vec()),
        }
    }

    /// Compares as [`Value::compare`] does.
    pub fn compare(self, other: &Value) -> Option<Ordering> {
        match (self, other) {
            (Self::String(a), Value::String(b)) => Some(a.cmp(b)),
            (Self::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
            (Self::List(a), Value::List(b)) => {
                for (x, y) in a.iter().zip(b) {
                    match x.compare(y)? {
                        Ordering::Equal => {}
                        order => return Some(order),
                    }
                }
                Some(a.len().cmp(&b.len()))
            }
            (Self::String(_) | Self::Bytes(_) | Self::List(_), _) => None,
            (Self::Null, _) => Value::Null.compare(other),
            (Self::Bool(b), _) => Value::Bool(b).compare(other),
            (Self::I64(n), _) => Value::I64(n).compare(other),
            (Self::F64(x), _) => Value::F64(x).compare(other),
            (Self::Timestamp(t), _) => Value::Timestamp(t).compare(other),
        }
    }
}

impl Comparison {
    /// Whether the ordering of two values satisfies the comparison; values without an order are unequal.
    pub fn admits(self, order: Option<Ordering>) -> bool {
        match self {
            Self::Eq => order == Some(Ordering::Equal),
            Self::Ne => order != Some(Ordering::Equal),
            Self::Lt => order == Some(Ordering::Less),
            Self::Le => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Self::Gt => order == Some(Ordering::Greater),
            Self::Ge => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        }
    }
}

impl Expr {
    /// Whether an item matches. For many items, [`super::Prepared`] is faster.
    pub fn matches(&self, of: &dyn Fields) -> bool {
        match self {
            Self::All => true,
            Self::And(parts) => parts.iter().all(|part| part.matches(of)),
            Self::Or(parts) => parts.iter().any(|part| part.matches(of)),
            Self::Not(inner) => !inner.matches(of),
            Self::Term(term) => of.passes(&term.name, &mut |value| term.test.matches_ref(value)),
        }
    }
}

impl Test {
    /// Whether a value matches. In a comparison with a timestamp, text is read as a time ([`super::time_bounds`]).
    pub fn matches(&self, value: &Value) -> bool {
        self.matches_ref(value.into())
    }

    /// Whether a borrowed value matches; see [`Self::matches`].
    pub fn matches_ref(&self, value: ValueRef<'_>) -> bool {
        match (self, value) {
            (Self::Not(inner), _) => !inner.matches_ref(value),
            (Self::Compare(..) | Self::Between(..) | Self::In(_), ValueRef::Timestamp(t))
                if self.has_text() =>
            {
                inside(&self.times(), t)
            }
            _ => self.matches_typed(value),
        }
    }

    /// Whether an operand of the test is text.
    fn has_text(&self) -> bool {
        let text = |x: &Value| matches!(x, Value::String(_));
        match self {
            Self::Compare(_, x) => text(x),
            Self::Between(low, high) => text(low) || text(high),
            Self::In(xs) => xs.iter().any(text),
            _ => false,
        }
    }

    /// Whether a value matches, without reading text as a time.
    pub(super) fn matches_typed(&self, value: ValueRef<'_>) -> bool {
        match self {
            Self::Exists => true,
            Self::Compare(comparison, x) => comparison.admits(value.compare(x)),
            Self::Between(low, high) => {
                Comparison::Ge.admits(value.compare(low))
                    && Comparison::Le.admits(value.compare(high))
            }
            Self::In(xs) => xs.iter().any(|x| equal(value, x)),
            Self::Like(pattern) => matches!(value, ValueRef::String(s) if pattern.matches(s)),
            Self::Matches(regex) => matches!(value, ValueRef::String(s) if regex.is_match(s)),
            Self::Contains(x) => contains(value, x),
            Self::Not(inner) => !inner.matches_typed(value),
        }
    }
}

fn equal(value: ValueRef<'_>, x: &Value) -> bool {
    Comparison::Eq.admits(value.compare(x))
}

fn contains(value: ValueRef<'_>, x: &Value) -> bool {
    match (value, x) {
        (ValueRef::List(items), _) => items.iter().any(|item| equal(item.into(), x)),
        (ValueRef::String(text), Value::String(part)) => text.contains(part.as_str()),
        (ValueRef::Bytes(_), Value::Bytes(part)) if part.is_empty() => true,
        (ValueRef::Bytes(bytes), Value::Bytes(part)) => {
            bytes.windows(part.len()).any(|window| window == part)
        }
        _ => false,
    }
}
