//! Construction of conditions, in the form that the parser gives.

use super::{Comparison, Expr, Term, Test};

impl Expr {
    /// Creates a condition on the value of one name.
    pub fn term(name: impl Into<String>, test: Test) -> Self {
        Self::Term(Term {
            name: name.into(),
            test,
        })
    }

    /// Creates the condition that nothing matches.
    pub fn nothing() -> Self {
        Self::Not(Box::new(Self::All))
    }

    /// Whether everything matches, as with the empty filter.
    pub fn is_all(&self) -> bool {
        *self == Self::All
    }

    /// Combines two conditions: both must match.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::all_of([self, other])
    }

    /// Combines two conditions: at least one must match.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self::any_of([self, other])
    }

    /// Returns the negation of the condition.
    #[must_use]
    pub fn negated(self) -> Self {
        match self {
            Self::Not(inner) => *inner,
            other => Self::Not(Box::new(other)),
        }
    }

    /// Combines conditions: all must match. Nested conjunctions are flattened, so that the result does not depend on
    /// how the parts were combined.
    pub fn all_of(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut flat = Vec::new();
        for part in parts {
            match part {
                Self::All => {}
                Self::And(inner) => flat.extend(inner),
                other => flat.push(other),
            }
        }
        match flat.len() {
            0 => Self::All,
            1 => flat.remove(0),
            _ => Self::And(flat),
        }
    }

    /// Combines conditions: at least one must match.
    pub fn any_of(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut flat = Vec::new();
        for part in parts {
            match part {
                Self::Or(inner) => flat.extend(inner),
                other => flat.push(other),
            }
        }
        match flat.len() {
            0 => Self::nothing(),
            1 => flat.remove(0),
            _ => Self::Or(flat),
        }
    }

    /// Returns the equivalent condition in the parser's form: conjunctions and disjunctions of at least two parts, none
    /// directly inside one of its own kind; no double negations.
    #[must_use]
    pub fn normal(self) -> Self {
        match self {
            Self::All => Self::All,
            Self::And(parts) => Self::all_of(parts.into_iter().map(Self::normal)),
            Self::Or(parts) => Self::any_of(parts.into_iter().map(Self::normal)),
            Self::Not(inner) => inner.normal().negated(),
            Self::Term(Term { name, test }) => match test.normal() {
                Some(test) => Self::term(name, test),
                None => Self::nothing(),
            },
        }
    }

    /// Returns every name in the condition once, in the order of first use.
    pub fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.each_term(&mut |term| {
            if !names.contains(&term.name.as_str()) {
                names.push(term.name.as_str());
            }
        });
        names
    }

    /// Visits every term in the condition, in order.
    pub fn each_term<'a>(&'a self, see: &mut dyn FnMut(&'a Term)) {
        match self {
            Self::All => {}
            Self::And(parts) | Self::Or(parts) => {
                for part in parts {
                    part.each_term(see);
                }
            }
            Self::Not(inner) => inner.each_term(see),
            Self::Term(term) => see(term),
        }
    }
}

impl Test {
    /// Negates the test: the name exists, and the test is false.
    #[must_use]
    pub fn negated(self) -> Self {
        match self {
            Self::Compare(Comparison::Eq, x) => Self::Compare(Comparison::Ne, x),
            Self::Compare(Comparison::Ne, x) => Self::Compare(Comparison::Eq, x),
            Self::Not(inner) => *inner,
            other => Self::Not(Box::new(other)),
        }
    }

    /// Returns the parser's form; `None` if no value matches.
    fn normal(self) -> Option<Self> {
        match self {
            Self::In(values) if values.is_empty() => None,
            Self::Not(inner) => match inner.normal() {
                None => Some(Self::Exists),
                Some(Self::Exists) => None,
                Some(test) => Some(test.negated()),
            },
            other => Some(other),
        }
    }
}
