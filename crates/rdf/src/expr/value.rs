//! Values of expressions: equality, order, arithmetic and truth. The rules are those of SPARQL 1.1 (sections 15.1 and 17), extended to
//! dates and durations.

use super::decimal;
use crate::id::XSD;
use oxrdf::{Literal, NamedOrBlankNode, Term};
use oxsdatatypes::{Decimal, Double, Float, TimezoneOffset};
pub(crate) use spareval::ExpressionTerm as Value;
use spareval::ExpressionTriple;
use std::cmp::Ordering;

/// A value of numeric type.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Number {
    Integer(i64),
    Decimal(Decimal),
    Float(Float),
    Double(Double),
}

pub(crate) fn number(value: &Value) -> Option<Number> {
    Some(match value {
        Value::IntegerLiteral(n) => Number::Integer(i64::from(*n)),
        Value::DecimalLiteral(n) => Number::Decimal(*n),
        Value::FloatLiteral(n) => Number::Float(*n),
        Value::DoubleLiteral(n) => Number::Double(*n),
        _ => return None,
    })
}

impl From<Number> for Value {
    fn from(n: Number) -> Self {
        match n {
            Number::Integer(n) => Self::IntegerLiteral(n.into()),
            Number::Decimal(n) => Self::DecimalLiteral(n),
            Number::Float(n) => Self::FloatLiteral(n),
            Number::Double(n) => Self::DoubleLiteral(n),
        }
    }
}

/// Two numbers promoted to the wider type.
pub(crate) enum Pair {
    Integer(i64, i64),
    Decimal(Decimal, Decimal),
    Float(Float, Float),
    Double(Double, Double),
}

impl Number {
    const fn width(self) -> u8 {
        match self {
            Self::Integer(_) => 0,
            Self::Decimal(_) => 1,
            Self::Float(_) => 2,
            Self::Double(_) => 3,
        }
    }

    fn decimal(self) -> Decimal {
        match self {
            Self::Integer(n) => n.into(),
            Self::Decimal(n) => n,
            Self::Float(_) | Self::Double(_) => Decimal::default(),
        }
    }

    fn float(self) -> Float {
        match self {
            Self::Integer(n) => oxsdatatypes::Integer::from(n).into(),
            Self::Decimal(n) => decimal::double(n).into(),
            Self::Float(n) => n,
            Self::Double(n) => n.into(),
        }
    }

    pub(crate) fn double(self) -> Double {
        match self {
            Self::Integer(n) => oxsdatatypes::Integer::from(n).into(),
            Self::Decimal(n) => decimal::double(n),
            Self::Float(n) => n.into(),
            Self::Double(n) => n,
        }
    }

    pub(crate) fn with(self, other: Self) -> Pair {
        match self.width().max(other.width()) {
            0 => match (self, other) {
                (Self::Integer(a), Self::Integer(b)) => Pair::Integer(a, b),
                (a, b) => Pair::Decimal(a.decimal(), b.decimal()),
            },
            1 => Pair::Decimal(self.decimal(), other.decimal()),
            2 => Pair::Float(self.float(), other.float()),
            _ => Pair::Double(self.double(), other.double()),
        }
    }
}

/// Evaluates `+`, `-`, `*`, `/` on numbers.
pub(crate) fn arithmetic(op: char, a: Number, b: Number) -> Option<Number> {
    Some(match a.with(b) {
        Pair::Integer(a, b) => match op {
            '+' => Number::Integer(a.checked_add(b)?),
            '-' => Number::Integer(a.checked_sub(b)?),
            '*' => Number::Integer(a.checked_mul(b)?),
            _ => Number::Decimal(decimal::quotient(a.into(), b.into())?),
        },
        Pair::Decimal(a, b) => Number::Decimal(match op {
            '+' => a.checked_add(b)?,
            '-' => a.checked_sub(b)?,
            '*' => decimal::product(a, b)?,
            _ => decimal::quotient(a, b)?,
        }),
        Pair::Float(a, b) => Number::Float(match op {
            '+' => a + b,
            '-' => a - b,
            '*' => a * b,
            _ => a / b,
        }),
        Pair::Double(a, b) => Number::Double(match op {
            '+' => a + b,
            '-' => a - b,
            '*' => a * b,
            _ => a / b,
        }),
    })
}

/// Returns the effective boolean value.
pub(crate) fn truth(value: &Value) -> Option<bool> {
    match value {
        Value::BooleanLiteral(b) => Some(bool::from(*b)),
        Value::StringLiteral(s) => Some(!s.is_empty()),
        _ => match number(value)? {
            Number::Integer(n) => Some(n != 0),
            Number::Decimal(n) => Some(n != Decimal::default()),
            Number::Float(n) => Some(!n.is_nan() && n != Float::from(0.)),
            Number::Double(n) => Some(!n.is_nan() && n != Double::from(0.)),
        },
    }
}

/// Evaluates `=`; `None` is an error.
pub(crate) fn equals(a: &Value, b: &Value) -> Option<bool> {
    if let (Some(a), Some(b)) = (number(a), number(b)) {
        return Some(compare_numbers(a, b) == Some(Ordering::Equal));
    }
    let other = |v: &Value| matches!(v, Value::OtherTypedLiteral { .. });
    if a == b && !is_nan(a) {
        return Some(true);
    }
    // Literals with unknown datatypes may be equal despite different lexical forms.
    if other(a) || other(b) {
        let tagged = |v: &Value| {
            matches!(
                v,
                Value::LangStringLiteral { .. } | Value::DirLangStringLiteral { .. }
            )
        };
        return if is_literal(a) && is_literal(b) && !tagged(a) && !tagged(b) {
            None
        } else {
            Some(false)
        };
    }
    match (a, b) {
        // Undecided, as the order is, if only one has a time zone and they are less than 14 hours apart.
        (Value::DateTimeLiteral(a), Value::DateTimeLiteral(b)) => {
            a.partial_cmp(b).map(Ordering::is_eq)
        }
        (Value::DateLiteral(a), Value::DateLiteral(b)) => a.partial_cmp(b).map(Ordering::is_eq),
        (Value::TimeLiteral(a), Value::TimeLiteral(b)) => a.partial_cmp(b).map(Ordering::is_eq),
        _ => Some(durations(a, b).map_or(a == b, |o| o == Ordering::Equal)),
    }
}

/// Returns whether a value is a literal.
pub(crate) const fn is_literal(v: &Value) -> bool {
    !matches!(
        v,
        Value::NamedNode(_) | Value::BlankNode(_) | Value::Triple(_)
    )
}

fn is_nan(v: &Value) -> bool {
    match v {
        Value::FloatLiteral(n) => n.is_nan(),
        Value::DoubleLiteral(n) => n.is_nan(),
        _ => false,
    }
}

fn compare_numbers(a: Number, b: Number) -> Option<Ordering> {
    match a.with(b) {
        Pair::Integer(a, b) => Some(a.cmp(&b)),
        Pair::Decimal(a, b) => Some(a.cmp(&b)),
        Pair::Float(a, b) => a.partial_cmp(&b),
        Pair::Double(a, b) => a.partial_cmp(&b),
    }
}

fn durations(a: &Value, b: &Value) -> Option<Ordering> {
    use Value::{DayTimeDurationLiteral as D, DurationLiteral as L, YearMonthDurationLiteral as Y};
    match (a, b) {
        (L(a), L(b)) => a.partial_cmp(b),
        (L(a), Y(b)) => a.partial_cmp(b),
        (L(a), D(b)) => a.partial_cmp(b),
        (Y(a), L(b)) => a.partial_cmp(b),
        (Y(a), Y(b)) => a.partial_cmp(b),
        (Y(a), D(b)) => a.partial_cmp(b),
        (D(a), L(b)) => a.partial_cmp(b),
        (D(a), Y(b)) => a.partial_cmp(b),
        (D(a), D(b)) => a.partial_cmp(b),
        _ => None,
    }
}

/// Returns the order of two values; `None` if they have none. Equal terms of any kind are equal.
pub(crate) fn compare(a: &Value, b: &Value) -> Option<Ordering> {
    if let (Some(a), Some(b)) = (number(a), number(b)) {
        return compare_numbers(a, b);
    }
    match (a, b) {
        (Value::StringLiteral(a), Value::StringLiteral(b)) => Some(a.cmp(b)),
        (
            Value::LangStringLiteral {
                value: a,
                language: x,
            },
            Value::LangStringLiteral {
                value: b,
                language: y,
            },
        ) => (x == y).then(|| a.cmp(b)),
        (Value::BooleanLiteral(a), Value::BooleanLiteral(b)) => {
            Some(bool::from(*a).cmp(&bool::from(*b)))
        }
        (Value::DateTimeLiteral(a), Value::DateTimeLiteral(b)) => a.partial_cmp(b),
        (Value::DateLiteral(a), Value::DateLiteral(b)) => a.partial_cmp(b),
        (Value::TimeLiteral(a), Value::TimeLiteral(b)) => a.partial_cmp(b),
        _ => durations(a, b).or_else(|| (a == b).then_some(Ordering::Equal)),
    }
}

/// Compares by the order of `ORDER BY`: unbound, blank nodes, IRIs, literals, triple terms; literals by value where comparable, triple terms
/// by their parts.
pub(crate) fn order(a: Option<&Value>, b: Option<&Value>) -> Ordering {
    let rank = |v: Option<&Value>| match v {
        None => 0,
        Some(Value::BlankNode(_)) => 1,
        Some(Value::NamedNode(_)) => 2,
        Some(v) if number(v).is_some() => 3,
        Some(Value::StringLiteral(_)) => 4,
        Some(Value::LangStringLiteral { .. }) => 5,
        Some(Value::DirLangStringLiteral { .. }) => 6,
        Some(Value::BooleanLiteral(_)) => 7,
        Some(Value::DateTimeLiteral(_)) => 8,
        Some(Value::DateLiteral(_)) => 9,
        Some(Value::TimeLiteral(_)) => 10,
        Some(v) if seconds(v).is_some() => 11,
        Some(Value::Triple(_)) => 13,
        Some(_) => 12,
    };
    let (ra, rb) = (rank(a), rank(b));
    if ra != rb {
        return ra.cmp(&rb);
    }
    let (Some(a), Some(b)) = (a, b) else {
        return Ordering::Equal;
    };
    match (a, b) {
        (Value::BlankNode(a), Value::BlankNode(b)) => a.as_str().cmp(b.as_str()),
        (Value::NamedNode(a), Value::NamedNode(b)) => a.as_str().cmp(b.as_str()),
        (
            Value::LangStringLiteral {
                value: a,
                language: x,
            },
            Value::LangStringLiteral {
                value: b,
                language: y,
            },
        ) => (a, x).cmp(&(b, y)),
        (Value::Triple(a), Value::Triple(b)) => {
            let parts = |t: &ExpressionTriple| {
                let subject = Term::from(t.subject.clone());
                [subject.into(), t.predicate.clone().into(), t.object.clone()]
            };
            let (a, b): ([Value; 3], [Value; 3]) = (parts(a), parts(b));
            let each = a.iter().zip(&b).map(|(a, b)| order(Some(a), Some(b)));
            each.fold(Ordering::Equal, Ordering::then)
        }
        _ => {
            if let (Some(a), Some(b)) = (number(a), number(b)) {
                // NaN last, so that the order is total.
                let (a, b) = (f64::from(a.double()), f64::from(b.double()));
                return compare_numbers_total(a, b);
            }
            if let (Some(a), Some(b)) = (seconds(a), seconds(b)) {
                return a.total_cmp(&b);
            }
            let text = |v: &Value| Term::from(v.clone()).to_string();
            compare(&in_utc(a), &in_utc(b)).unwrap_or_else(|| text(a).cmp(&text(b)))
        }
    }
}

/// Returns a time in UTC. `<` is undefined if only one operand has a time zone; the total order takes UTC for those without.
fn in_utc(value: &Value) -> Value {
    let utc = Some(TimezoneOffset::UTC);
    match value {
        Value::DateTimeLiteral(v) => v.adjust(utc).map(Value::DateTimeLiteral),
        Value::DateLiteral(v) => v.adjust(utc).map(Value::DateLiteral),
        Value::TimeLiteral(v) => v.adjust(utc).map(Value::TimeLiteral),
        _ => None,
    }
    .unwrap_or_else(|| value.clone())
}

/// Returns a duration in seconds, with months of average length. `<` is undefined between a month and thirty days.
fn seconds(value: &Value) -> Option<f64> {
    const MONTH: f64 = 2_629_746.0;
    let of = |months: i64, seconds: Decimal| {
        Some(months as f64 * MONTH + f64::from(Double::from(seconds)))
    };
    match value {
        Value::DurationLiteral(d) => of(
            d.years() * 12 + d.months(),
            Decimal::from(d.days() * 86_400 + d.hours() * 3_600 + d.minutes() * 60)
                .checked_add(d.seconds())?,
        ),
        Value::YearMonthDurationLiteral(d) => of(d.years() * 12 + d.months(), Decimal::default()),
        Value::DayTimeDurationLiteral(d) => of(0, d.as_seconds()),
        _ => None,
    }
}

fn compare_numbers_total(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b)
        .unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// Returns the length of the text in bytes, if it can be long.
pub(crate) fn text_bytes(value: &Value) -> usize {
    match value {
        Value::NamedNode(n) => n.as_str().len(),
        Value::BlankNode(n) => n.as_str().len(),
        Value::StringLiteral(s) => s.len(),
        Value::LangStringLiteral { value, language }
        | Value::DirLangStringLiteral {
            value, language, ..
        } => value.len() + language.len(),
        Value::OtherTypedLiteral { value, datatype } => value.len() + datatype.as_str().len(),
        Value::Triple(t) => {
            let subject = match &t.subject {
                NamedOrBlankNode::NamedNode(n) => n.as_str(),
                NamedOrBlankNode::BlankNode(n) => n.as_str(),
            };
            subject.len() + t.predicate.as_str().len() + text_bytes(&t.object)
        }
        _ => 0,
    }
}

/// Returns the value of a literal, if it is of a type whose values have an order; `None` for others and for malformed literals.
pub(crate) fn parsed(text: &str, datatype: &str) -> Option<Value> {
    Some(match datatype.strip_prefix(XSD)? {
        "integer" => Value::IntegerLiteral(text.parse().ok()?),
        "decimal" => Value::DecimalLiteral(text.parse().ok()?),
        "double" => Value::DoubleLiteral(text.parse().ok()?),
        "float" => Value::FloatLiteral(text.parse().ok()?),
        "boolean" => Value::BooleanLiteral(text.parse().ok()?),
        "dateTime" => Value::DateTimeLiteral(text.parse().ok()?),
        "date" => Value::DateLiteral(text.parse().ok()?),
        "time" => Value::TimeLiteral(text.parse().ok()?),
        _ => return None,
    })
}

/// Creates a plain literal.
pub(crate) fn text(value: impl Into<String>) -> Value {
    Value::StringLiteral(value.into())
}

/// Returns the lexical form of a literal.
pub(crate) fn lexical(value: &Value) -> Option<String> {
    Some(match value {
        Value::StringLiteral(s) | Value::LangStringLiteral { value: s, .. } => s.clone(),
        Value::NamedNode(_) | Value::BlankNode(_) => return None,
        Value::DecimalLiteral(n) => {
            let mut text = String::new();
            decimal::put(*n, &mut text);
            text
        }
        other => match Term::from(other.clone()) {
            Term::Literal(l) => Literal::destruct(l).0,
            _ => return None,
        },
    })
}
