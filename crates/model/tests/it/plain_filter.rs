//! A second, simple and slow implementation of the filter rules in `docs/book/filters.md`.

use esker_model::filter::{Comparison, Expr, Term, Test, time_bounds};
use esker_model::{Properties, Value};
use std::cmp::Ordering;

/// Whether an item matches a condition.
pub(crate) fn plainly(expr: &Expr, fields: &Properties) -> bool {
    match expr {
        Expr::All => true,
        Expr::And(parts) => !parts.iter().any(|p| !plainly(p, fields)),
        Expr::Or(parts) => parts.iter().any(|p| plainly(p, fields)),
        Expr::Not(inner) => !plainly(inner, fields),
        Expr::Term(Term { name, test }) => match fields.get(name) {
            None => false,
            Some(value) => plain_test(test, value),
        },
    }
}

/// Whether a value matches a test.
pub(crate) fn plain_test(test: &Test, v: &Value) -> bool {
    match test {
        Test::Exists => true,
        Test::Compare(Comparison::Eq, x) => equals(v, x),
        Test::Compare(Comparison::Ne, x) => !equals(v, x),
        Test::Compare(Comparison::Lt, x) => less(v, x),
        Test::Compare(Comparison::Gt, x) => greater(v, x),
        Test::Compare(Comparison::Le, x) => less(v, x) || equals(v, x),
        Test::Compare(Comparison::Ge, x) => greater(v, x) || equals(v, x),
        Test::Between(low, high) => {
            (greater(v, low) || equals(v, low)) && (less(v, high) || equals(v, high))
        }
        Test::In(xs) => xs.iter().any(|x| equals(v, x)),
        Test::Like(pattern) => match v {
            Value::String(text) => {
                let (text, form) = (text.clone(), pattern.to_string());
                if pattern.ignores_case() {
                    like(&lower(&text), &lower(&form))
                } else {
                    like(
                        &text.chars().collect::<Vec<_>>(),
                        &form.chars().collect::<Vec<_>>(),
                    )
                }
            }
            _ => false,
        },
        Test::Matches(regex) => matches!(v, Value::String(text) if regex.is_match(text)),
        Test::Contains(x) => match (v, x) {
            (Value::List(items), x) => items.iter().any(|i| i.compare(x) == Some(Ordering::Equal)),
            (Value::String(text), Value::String(part)) => text.contains(part.as_str()),
            (Value::Bytes(text), Value::Bytes(part)) => {
                (0..=text.len()).any(|i| text[i..].starts_with(part))
            }
            _ => false,
        },
        Test::Not(inner) => !plain_test(inner, v),
    }
}

/// Returns the range of time that a text denotes in a comparison with a timestamp.
fn time_range(v: &Value, x: &Value) -> Option<(i64, i64)> {
    match (v, x) {
        (Value::Timestamp(_), Value::String(text)) => time_bounds(text),
        _ => None,
    }
}

fn at(v: &Value) -> i64 {
    match v {
        Value::Timestamp(t) => *t,
        _ => unreachable!("only beside a stretch of time"),
    }
}

fn equals(v: &Value, x: &Value) -> bool {
    match time_range(v, x) {
        Some((first, last)) => first <= at(v) && at(v) <= last,
        None => v.compare(x) == Some(Ordering::Equal),
    }
}

fn less(v: &Value, x: &Value) -> bool {
    match time_range(v, x) {
        Some((first, _)) => at(v) < first,
        None => v.compare(x) == Some(Ordering::Less),
    }
}

fn greater(v: &Value, x: &Value) -> bool {
    match time_range(v, x) {
        Some((_, last)) => at(v) > last,
        None => v.compare(x) == Some(Ordering::Greater),
    }
}

fn lower(text: &str) -> Vec<char> {
    let one = |c: char| match c.to_lowercase().collect::<Vec<_>>().as_slice() {
        [one] => *one,
        _ => c,
    };
    text.chars().map(one).collect()
}

/// Matches a `LIKE` pattern by trying all possibilities.
fn like(text: &[char], form: &[char]) -> bool {
    match (form, text) {
        ([], _) => text.is_empty(),
        (['%', form @ ..], _) => (0..=text.len()).any(|i| like(&text[i..], form)),
        (['\\', c, form @ ..], [t, text @ ..]) => {
            let meant = match c {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                c => *c,
            };
            meant == *t && like(text, form)
        }
        (['_', form @ ..], [_, text @ ..]) => like(text, form),
        ([c, form @ ..], [t, text @ ..]) => c == t && like(text, form),
        _ => false,
    }
}
