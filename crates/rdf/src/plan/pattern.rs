//! Triple patterns in numbers.

use crate::exec::Var;
use crate::id::Id;

/// A place of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pos {
    /// That term.
    Const(Id),
    /// A variable.
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

/// A triple pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Triple {
    /// Subject.
    pub s: Pos,
    /// Predicate.
    pub p: Pos,
    /// Object.
    pub o: Pos,
}

impl Triple {
    pub(crate) fn vars(&self) -> impl Iterator<Item = Var> {
        [self.s, self.p, self.o].into_iter().filter_map(Pos::var)
    }

    pub(crate) fn has(&self, var: Var) -> bool {
        [self.s, self.p, self.o].contains(&Pos::Var(var))
    }

    /// With a variable replaced by a term.
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
