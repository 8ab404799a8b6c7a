//! Variables that are bound in every solution of a pattern.

use super::{Node, Triple};
use crate::exec::Var;
use crate::id::UNBOUND;

impl Node {
    /// Returns the variables that are bound in every solution.
    pub(crate) fn always_bound(&self) -> Vec<Var> {
        let mut vars = match self {
            Self::Group(g) => {
                let mut vars: Vec<Var> = g.triples.iter().flat_map(Triple::vars).collect();
                vars.extend(g.parts.iter().flat_map(Self::always_bound));
                vars
            }
            Self::Path { .. } => self.vars(),
            Self::Service(s) => s.endpoint.var().into_iter().collect(),
            Self::LeftJoin { left, .. } | Self::Minus { left, .. } => left.always_bound(),
            Self::Union(list) => {
                let mut each = list.iter().map(Self::always_bound);
                let first = each.next().unwrap_or_default();
                each.fold(first, |a, b| {
                    a.into_iter().filter(|v| b.contains(v)).collect()
                })
            }
            Self::Graph { name, inner } => {
                let mut vars = inner.always_bound();
                vars.extend(name.var());
                vars
            }
            Self::Extend { inner, .. }
            | Self::OrderBy { inner, .. }
            | Self::Distinct(inner)
            | Self::Reduced(inner)
            | Self::Slice { inner, .. } => inner.always_bound(),
            Self::Values { vars, rows } => vars
                .iter()
                .enumerate()
                .filter(|(i, _)| {
                    rows.iter()
                        .all(|r| r.get(*i).is_some_and(|x| *x != UNBOUND))
                })
                .map(|(_, v)| *v)
                .collect(),
            Self::Project { inner, vars } => inner
                .always_bound()
                .into_iter()
                .filter(|v| vars.contains(v))
                .collect(),
            Self::Aggregate { inner, by, .. } => inner
                .always_bound()
                .into_iter()
                .filter(|v| by.contains(v))
                .collect(),
        };
        vars.sort_unstable();
        vars.dedup();
        vars
    }
}
