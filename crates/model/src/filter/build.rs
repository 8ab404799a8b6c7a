//! Putting conditions together, in the form that the parser gives.

use super::{Comparison, Expr, Term, Test};

impl Expr {
    /// One name and what must be true of its value.
    pub fn term(name: impl Into<String>, test: Test) -> Self {
        Self::Term(Term {
            name: name.into(),
            test,
        })
    }

    /// Holds of nothing.
    pub fn nothing() -> Self {
        Self::Not(Box::new(Self::All))
    }

    /// Whether it holds of everything, as the empty filter does.
    pub fn is_all(&self) -> bool {
        *self == Self::All
    }

    /// Both hold.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::all_of([self, other])
    }

    /// At least one holds.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self::any_of([self, other])
    }

    /// It does not hold.
    #[must_use]
    pub fn negated(self) -> Self {
        match self {
            Self::Not(inner) => *inner,
            other => Self::Not(Box::new(other)),
        }
    }

    /// All of them hold. Those that are conjunctions are taken apart, so that nobody depends on how they were put together.
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

    /// At least one of them holds.
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

    /// The form in which the parser gives it: conjunctions and disjunctions of at least two, none directly in one of its
    /// own kind; no double negations. It holds of the same.
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

    /// Every name in it, each once, in the order in which they stand.
    pub fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.each_term(&mut |term| {
            if !names.contains(&term.name.as_str()) {
                names.push(term.name.as_str());
            }
        });
        names
    }

    /// Every term in it, in the order in which they stand.
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
    /// It is there and this is not true of it.
    #[must_use]
    pub fn negated(self) -> Self {
        match self {
            Self::Compare(Comparison::Eq, x) => Self::Compare(Comparison::Ne, x),
            Self::Compare(Comparison::Ne, x) => Self::Compare(Comparison::Eq, x),
            Self::Not(inner) => *inner,
            other => Self::Not(Box::new(other)),
        }
    }

    /// The parser's form; `None` where it holds of no value at all.
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
