//! Triple patterns over term ids and variables.

use crate::exec::Var;
use crate::id::Id;
use std::collections::HashSet;

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

/// Splits triple patterns into components connected by shared variables.
pub(crate) fn components(triples: &[Triple], optimise: bool) -> Vec<Vec<Triple>> {
    if !optimise && !triples.is_empty() {
        return vec![triples.to_vec()];
    }
    let mut components: Vec<Vec<Triple>> = Vec::new();
    let mut seen: HashSet<&Triple> = HashSet::new();
    for t in triples {
        // Duplicate patterns are evaluated once.
        if !seen.insert(t) {
            continue;
        }
        let touches = |c: &Vec<Triple>| c.iter().any(|x| t.vars().any(|v| x.has(v)));
        let (mut with, without): (Vec<_>, Vec<_>) = components.into_iter().partition(touches);
        let mut merged: Vec<Triple> = with.drain(..).flatten().collect();
        merged.push(*t);
        components = without;
        components.push(merged);
    }
    components
}
