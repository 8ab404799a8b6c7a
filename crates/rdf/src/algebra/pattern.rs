//! Triple patterns over term ids and variables.

use crate::exec::Var;
use crate::id::Id;

/// A position of a triple pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pos {
    /// A constant term.
    Const(Id),
    /// A variable by number.
    Var(Var),
}

impl Pos {
    pub(crate) const fn var(self) -> Option<Var> {
        match self {
            Self::Var(v) => Some(v),
            Self::Const(_) => None,
        }
    }
}

/// A triple pattern of ids and variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Triple {
    /// Position of the subject.
    pub s: Pos,
    /// Position of the predicate.
    pub p: Pos,
    /// Position of the object.
    pub o: Pos,
}

impl Triple {
    pub(crate) fn vars(&self) -> impl Iterator<Item = Var> {
        [self.s, self.p, self.o].into_iter().filter_map(Pos::var)
    }

    pub(crate) fn has(&self, var: Var) -> bool {
        [self.s, self.p, self.o].contains(&Pos::Var(var))
    }

    /// Returns the pattern with a variable replaced by a term.
    pub(crate) fn bind(&self, var: Var, id: Id) -> Self {
        let bind = |p: Pos| {
            if p == Pos::Var(var) {
                Pos::Const(id)
            } else {
                p
            }
        };
        Self {
            s: bind(self.s),
            p: bind(self.p),
            o: bind(self.o),
        }
    }
}
