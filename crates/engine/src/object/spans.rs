//! Numeric tests as spans of values: an index returns the slots between two bounds without testing each value.

use super::column::float_key;
use esker_model::Value;
use esker_model::filter::{Comparison, Test};

/// Returns the spans of `i64`, bounds included, that satisfy a test; `None` if each value must be tested.
pub(super) fn ints(test: &Test) -> Option<Vec<(i64, i64)>> {
    const ALL: (i64, i64) = (i64::MIN, i64::MAX);
    Some(match test {
        Test::Exists => vec![ALL],
        Test::Compare(Comparison::Ne, x) => outside_ints(&equal_ints(x)),
        Test::Compare(Comparison::Eq, x) => equal_ints(x),
        Test::Compare(comparison, x) => {
            let (low, high) = match comparison {
                Comparison::Gt => (int_from(x, false), Some(i64::MAX)),
                Comparison::Ge => (int_from(x, true), Some(i64::MAX)),
                Comparison::Lt => (Some(i64::MIN), int_until(x, false)),
                _ => (Some(i64::MIN), int_until(x, true)),
            };
            span(low, high).into_iter().collect()
        }
        Test::Between(low, high) => span(int_from(low, true), int_until(high, true))
            .into_iter()
            .collect(),
        Test::In(xs) => joined_ints(xs.iter().flat_map(equal_ints).collect()),
        Test::Not(inner) => outside_ints(&ints(inner)?),
        _ => return None,
    })
}

fn span<T: PartialOrd>(low: Option<T>, high: Option<T>) -> Option<(T, T)> {
    let (low, high) = (low?, high?);
    (low <= high).then_some((low, high))
}

fn equal_ints(x: &Value) -> Vec<(i64, i64)> {
    span(int_from(x, true), int_until(x, true))
        .into_iter()
        .collect()
}

/// The smallest integer greater than `x`, or equal to it if `equal`.
fn int_from(x: &Value, equal: bool) -> Option<i64> {
    match x {
        Value::I64(n) if equal => Some(*n),
        Value::I64(n) => n.checked_add(1),
        Value::F64(x) if x.is_nan() || *x >= TWO_TO_63 => None,
        Value::F64(x) if *x < -TWO_TO_63 => Some(i64::MIN),
        Value::F64(x) => {
            let whole = x.ceil();
            let first = whole as i64;
            if whole > *x || equal {
                // The ceiling of a number below 2^63 cannot be 2^63 itself, because doubles of that size are integers.
                Some(first)
            } else {
                first.checked_add(1)
            }
        }
        _ => None,
    }
}

/// The largest integer less than `x`, or equal to it if `equal`.
fn int_until(x: &Value, equal: bool) -> Option<i64> {
    match x {
        Value::I64(n) if equal => Some(*n),
        Value::I64(n) => n.checked_sub(1),
        Value::F64(x) if x.is_nan() || *x < -TWO_TO_63 => None,
        Value::F64(x) if *x >= TWO_TO_63 => Some(i64::MAX),
        Value::F64(x) => {
            let whole = x.floor();
            let last = whole as i64;
            if whole < *x || equal {
                Some(last)
            } else {
                last.checked_sub(1)
            }
        }
        _ => None,
    }
}

const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

fn joined_ints(mut spans: Vec<(i64, i64)>) -> Vec<(i64, i64)> {
    spans.sort_unstable();
    spans.dedup();
    spans
}

/// Returns the complement of ordered, disjoint spans.
fn outside_ints(spans: &[(i64, i64)]) -> Vec<(i64, i64)> {
    let mut out = Vec::new();
    let mut from = Some(i64::MIN);
    for (low, high) in spans {
        if let (Some(from), Some(until)) = (from, low.checked_sub(1))
            && from <= until
        {
            out.push((from, until));
        }
        from = high.checked_add(1);
    }
    out.extend(from.map(|from| (from, i64::MAX)));
    out
}

/// Returns the spans of [`float_key`]s, bounds included, that satisfy a test.
pub(super) fn floats(test: &Test) -> Option<Vec<(u64, u64)>> {
    Some(match test {
        Test::Exists => vec![(0, u64::MAX)],
        Test::Compare(Comparison::Ne, x) => outside_floats(&equal_floats(x)),
        Test::Compare(Comparison::Eq, x) => equal_floats(x),
        Test::Compare(comparison, x) => {
            let least = float_key(f64::NEG_INFINITY);
            let most = float_key(f64::INFINITY);
            let (low, high) = match comparison {
                Comparison::Gt => (float_from(x, false), Some(most)),
                Comparison::Ge => (float_from(x, true), Some(most)),
                Comparison::Lt => (Some(least), float_until(x, false)),
                _ => (Some(least), float_until(x, true)),
            };
            span(low, high).into_iter().collect()
        }
        Test::Between(low, high) => span(float_from(low, true), float_until(high, true))
            .into_iter()
            .collect(),
        Test::In(xs) => {
            let mut spans: Vec<_> = xs.iter().flat_map(equal_floats).collect();
            spans.sort_unstable();
            spans.dedup();
            spans
        }
        Test::Not(inner) => outside_floats(&floats(inner)?),
        _ => return None,
    })
}

fn equal_floats(x: &Value) -> Vec<(u64, u64)> {
    span(float_from(x, true), float_until(x, true))
        .into_iter()
        .collect()
}

/// The key of the smallest double greater than `x`, or equal to it if `equal`.
fn float_from(x: &Value, equal: bool) -> Option<u64> {
    let (key, exactly) = nearest(x)?;
    match exactly {
        std::cmp::Ordering::Greater => Some(key),
        std::cmp::Ordering::Equal if equal => Some(key),
        _ => key
            .checked_add(1)
            .filter(|k| *k <= float_key(f64::INFINITY)),
    }
}

fn float_until(x: &Value, equal: bool) -> Option<u64> {
    let (key, exactly) = nearest(x)?;
    match exactly {
        std::cmp::Ordering::Less => Some(key),
        std::cmp::Ordering::Equal if equal => Some(key),
        _ => key
            .checked_sub(1)
            .filter(|k| *k >= float_key(f64::NEG_INFINITY)),
    }
}

/// The key of the double nearest to a number, and how that double compares with the number.
fn nearest(x: &Value) -> Option<(u64, std::cmp::Ordering)> {
    match x {
        Value::F64(x) if x.is_nan() => None,
        Value::F64(x) => Some((float_key(*x), std::cmp::Ordering::Equal)),
        Value::I64(n) => {
            let double = *n as f64;
            let order = Value::F64(double).compare(x)?;
            Some((float_key(double), order))
        }
        _ => None,
    }
}

fn outside_floats(spans: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut out = Vec::new();
    let mut from = Some(0);
    for (low, high) in spans {
        if let (Some(from), Some(until)) = (from, low.checked_sub(1))
            && from <= until
        {
            out.push((from, until));
        }
        from = high.checked_add(1);
    }
    out.extend(from.map(|from| (from, u64::MAX)));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn number() -> impl Strategy<Value = Value> {
        prop_oneof![
            (-4_i64..4).prop_map(Value::I64),
            (-9_i64..9).prop_map(|n| Value::F64(n as f64 / 2.0)),
            prop::sample::select(vec![
                Value::I64(i64::MIN),
                Value::I64(i64::MAX),
                Value::I64(i64::MAX - 1),
                Value::I64((1 << 53) + 1),
                Value::I64(1 << 53),
                Value::F64(9_007_199_254_740_992.0),
                Value::F64(9_007_199_254_740_994.0),
                Value::F64(TWO_TO_63),
                Value::F64(-TWO_TO_63),
                Value::F64(f64::INFINITY),
                Value::F64(f64::NEG_INFINITY),
                Value::F64(f64::NAN),
                Value::F64(-0.0),
                Value::F64(0.0),
                Value::F64(f64::MAX),
                Value::F64(f64::MIN_POSITIVE),
            ]),
            any::<f64>().prop_map(Value::F64),
            any::<i64>().prop_map(Value::I64),
        ]
    }

    fn literal() -> impl Strategy<Value = Value> {
        prop_oneof![8 => number(), 1 => Just(Value::from("x")), 1 => Just(Value::Bool(true))]
    }

    fn test() -> impl Strategy<Value = Test> {
        let comparison = prop::sample::select(vec![
            Comparison::Eq,
            Comparison::Ne,
            Comparison::Lt,
            Comparison::Le,
            Comparison::Gt,
            Comparison::Ge,
        ]);
        let plain = prop_oneof![
            (comparison, literal()).prop_map(|(c, x)| Test::Compare(c, x)),
            (literal(), literal()).prop_map(|(a, b)| Test::Between(a, b)),
            prop::collection::vec(literal(), 0..4).prop_map(Test::In),
            Just(Test::Exists),
        ];
        plain.prop_recursive(1, 2, 1, |inner| inner.prop_map(|t| Test::Not(Box::new(t))))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn spans_say_what_the_test_says(test in test(), value in number()) {
            let holds = test.matches(&value);
            match &value {
                Value::I64(n) => {
                    let spans = ints(&test).unwrap();
                    prop_assert_eq!(spans.iter().any(|(a, b)| a <= n && n <= b), holds, "{:?}", spans);
                }
                Value::F64(x) => {
                    let key = float_key(*x);
                    let spans = floats(&test).unwrap();
                    prop_assert_eq!(spans.iter().any(|(a, b)| *a <= key && key <= *b), holds, "{:?}", spans);
                }
                _ => {}
            }
        }
    }
}
