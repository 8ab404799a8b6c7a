//! Conditions made ready to be asked of many: times are read once, long lists are sorted.

use super::eval::{Fields, ValueRef};
use super::times::inside;
use super::{Expr, Term, Test};
use crate::value::Value;

/// An [`Expr`] made ready to be asked of many.
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

/// A [`Test`] made ready to be asked of many values.
#[derive(Debug, Clone)]
pub struct PreparedTest {
    test: Test,
    times: Vec<(i64, i64)>,
    /// The alternatives of an `IN` of many strings, sorted.
    strings: Option<Vec<String>>,
    /// The alternatives of an `IN` of many integers, sorted.
    integers: Option<Vec<i64>>,
}

/// Fewer alternatives are compared one by one.
const MANY: usize = 8;

impl Prepared {
    /// Makes it ready.
    pub fn new(expr: &Expr) -> Self {
        Self(Node::new(expr))
    }

    /// Whether it holds of something.
    pub fn holds(&self, of: &dyn Fields) -> bool {
        self.0.holds(of)
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

    fn holds(&self, of: &dyn Fields) -> bool {
        match self {
            Self::All => true,
            Self::And(parts) => parts.iter().all(|part| part.holds(of)),
            Self::Or(parts) => parts.iter().any(|part| part.holds(of)),
            Self::Not(inner) => !inner.holds(of),
            Self::Term(name, test) => of.passes(name, &mut |value| test.holds(value)),
        }
    }
}

impl PreparedTest {
    /// Makes it ready.
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

    /// Whether it is true of a value.
    pub fn holds(&self, value: ValueRef<'_>) -> bool {
        match (value, &self.strings, &self.integers) {
            (ValueRef::Timestamp(t), ..) => inside(&self.times, t),
            (ValueRef::String(s), Some(strings), _) => {
                strings.binary_search_by(|x| x.as_str().cmp(s)).is_ok()
            }
            (ValueRef::I64(n), _, Some(integers)) => integers.binary_search(&n).is_ok(),
            _ => self.test.holds_typed(value),
        }
    }
}

/// All alternatives sorted, if all are of one kind.
fn sorted<T: Ord>(values: &[Value], one: impl Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    let mut all = values.iter().map(one).collect::<Option<Vec<T>>>()?;
    if all.is_empty() {
        return None;
    }
    all.sort_unstable();
    Some(all)
}
