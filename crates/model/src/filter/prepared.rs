//! Conditions prepared for many evaluations: times are parsed once, long lists are sorted.

use super::eval::{Fields, ValueRef};
use super::times::inside;
use super::{Expr, Term, Test};
use crate::value::Value;

/// An [`Expr`] prepared for many evaluations.
#[derive(Debug, Clone)]
pub struct Prepared(Node);

#[derive(Debug, Clone)]
enum Node {
    All,
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
    Term(String, PreparedTest),
}

/// A [`Test`] prepared for many evaluations.
#[derive(Debug, Clone)]
pub struct PreparedTest {
    test: Test,
    times: Vec<(i64, i64)>,
    /// Sorted alternatives of a long `IN` list of strings.
    strings: Option<Vec<String>>,
    /// Sorted alternatives of a long `IN` list of integers.
    integers: Option<Vec<i64>>,
}

/// Longest list of alternatives that is compared one by one.
const MANY: usize = 8;

impl Prepared {
    /// Prepares a filter for evaluation.
    pub fn new(expr: &Expr) -> Self {
        Self(Node::new(expr))
    }

    /// Whether an item matches.
    pub fn matches(&self, of: &dyn Fields) -> bool {
        self.0.matches(of)
    }
}

impl Node {
    fn new(expr: &Expr) -> Self {
        let all = |parts: &[Expr]| parts.iter().map(Self::new).collect();
        match expr {
            Expr::All => Self::All,
            Expr::And(parts) => Self::And(all(parts)),
            Expr::Or(parts) => Self::Or(all(parts)),
            Expr::Not(inner) => Self::Not(Box::new(Self::new(inner))),
            Expr::Term(Term { name, test }) => Self::Term(name.clone(), PreparedTest::new(test)),
        }
    }

    fn matches(&self, of: &dyn Fields) -> bool {
        match self {
            Self::All => true,
            Self::And(parts) => parts.iter().all(|part| part.matches(of)),
            Self::Or(parts) => parts.iter().any(|part| part.matches(of)),
            Self::Not(inner) => !inner.matches(of),
            Self::Term(name, test) => of.passes(name, &mut |value| test.matches(value)),
        }
    }
}

impl PreparedTest {
    /// Prepares a test for evaluation.
    pub fn new(test: &Test) -> Self {
        let values = match test {
            Test::In(values) if values.len() > MANY => values.as_slice(),
            _ => &[],
        };
        Self {
            test: test.clone(),
            times: test.times(),
            strings: sorted(values, |value| match value {
                Value::String(s) => Some(s.clone()),
                _ => None,
            }),
            integers: sorted(values, |value| match value {
                Value::I64(n) => Some(*n),
                _ => None,
            }),
        }
    }

    /// Whether a value matches.
    pub fn matches(&self, value: ValueRef<'_>) -> bool {
        match (value, &self.strings, &self.integers) {
            (ValueRef::Timestamp(t), ..) => inside(&self.times, t),
            (ValueRef::String(s), Some(strings), _) => {
                strings.binary_search_by(|x| x.as_str().cmp(s)).is_ok()
            }
            (ValueRef::I64(n), _, Some(integers)) => integers.binary_search(&n).is_ok(),
            _ => self.test.matches_typed(value),
        }
    }
}

/// Sorts the alternatives, if all are of one kind.
fn sorted<T: Ord>(values: &[Value], one: impl Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    let mut all = values.iter().map(one).collect::<Option<Vec<T>>>()?;
    if all.is_empty() {
        return None;
    }
    all.sort_unstable();
    Some(all)
}
