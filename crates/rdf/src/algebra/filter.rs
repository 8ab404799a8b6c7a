//! Filter pushdown.

use super::node::{Group, Node};
use crate::expr::Expr;

impl Node {
    /// Returns the pattern with a filter, pushed down as far as the meaning allows.
    pub(crate) fn filtered(self, f: Expr, optimise: bool) -> Self {
        // The meaning of a pattern in EXISTS depends on its position, and a non-deterministic filter must be evaluated once per solution.
        let moves = optimise && !f.has_exists() && !f.is_volatile();
        let vars = f.vars();
        match self {
            Self::Group(mut g) => {
                let single = moves && g.triples.is_empty() && g.parts.len() == 1;
                match g.parts.pop() {
                    Some(part) if single && part.takes(&f) => {
                        g.parts.push(part.filtered(f, optimise));
                    }
                    part => {
                        g.parts.extend(part);
                        g.filters.push(f);
                    }
                }
                Self::Group(g)
            }
            Self::LeftJoin {
                left,
                right,
                filters,
            } if moves && reaches(&vars, &left, &right) => Self::LeftJoin {
                left: Box::new(left.filtered(f, optimise)),
                right,
                filters,
            },
            Self::Minus { left, right } if moves => Self::Minus {
                left: Box::new(left.filtered(f, optimise)),
                right,
            },
            Self::Union(list) if moves => Self::Union(
                list.into_iter()
                    .map(|n| n.filtered(f.clone(), optimise))
                    .collect(),
            ),
            Self::Extend { inner, var, expr } if moves && !vars.contains(&var) => Self::Extend {
                inner: Box::new(inner.filtered(f, optimise)),
                var,
                expr,
            },
            other => Self::Group(Group {
                parts: vec![other],
                filters: vec![f],
                ..Group::default()
            }),
        }
    }

    /// Returns whether a filter can be pushed into this pattern.
    fn takes(&self, f: &Expr) -> bool {
        match self {
            Self::LeftJoin { left, right, .. } => reaches(&f.vars(), left, right),
            Self::Minus { .. } | Self::Union(_) => true,
            Self::Extend { var, .. } => !f.vars().contains(var),
            _ => false,
        }
    }
}

/// Returns whether these variables depend only on the mandatory side of OPTIONAL: a variable that it may leave unbound must not occur on
/// the optional side.
fn reaches(vars: &[crate::exec::Var], left: &Node, right: &Node) -> bool {
    let (left_vars, right_vars, sure) = (left.vars(), right.vars(), left.always_bound());
    vars.iter()
        .all(|v| sure.contains(v) || (left_vars.contains(v) && !right_vars.contains(v)))
}
