//! Algebra over term ids and variable numbers.

use super::pattern::{Pos, Triple};
use crate::exec::Var;
use crate::expr::Expr;
use crate::id::Id;
use spargebra::algebra::{AggregateFunction, GraphPattern};
use std::sync::Arc;

/// A conjunction: triple patterns, other patterns, and filters on all of them.
#[derive(Debug, Clone, Default)]
pub struct Group {
    /// Triple patterns of the group.
    pub triples: Vec<Triple>,
    /// Other patterns, joined with the triple patterns.
    pub parts: Vec<Node>,
    /// Filters on the joined solutions.
    pub filters: Vec<Expr>,
}

/// A property path expression.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the names are those of the standard's algebra")]
pub enum Path {
    Link(Id),
    Reverse(Box<Self>),
    Sequence(Box<Self>, Box<Self>),
    Alternative(Box<Self>, Box<Self>),
    ZeroOrMore(Box<Self>),
    OneOrMore(Box<Self>),
    ZeroOrOne(Box<Self>),
    Not(Vec<Id>),
}

/// An aggregate of a group.
#[derive(Debug, Clone)]
pub struct Aggregate {
    /// Variable of the result.
    pub var: Var,
    /// The function; `None` for `COUNT(*)`.
    pub function: Option<AggregateFunction>,
    /// Expression to be aggregated.
    pub expr: Option<Expr>,
    /// Whether only distinct values are aggregated.
    pub distinct: bool,
}

/// A pattern to be evaluated by another endpoint.
#[derive(Debug, Clone)]
pub struct Service {
    /// The endpoint, constant or variable.
    pub endpoint: Pos,
    /// The pattern, as it is sent.
    pub inner: Arc<GraphPattern>,
    /// Variables of the pattern.
    pub vars: Vec<(String, Var)>,
    /// Whether failures are ignored (SILENT).
    pub silent: bool,
    /// Bindings substituted by EXISTS.
    pub bound: Vec<(Var, Id)>,
}

/// A node of the algebra.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the names are those of the standard's algebra")]
pub enum Node {
    Group(Group),
    Path {
        s: Pos,
        path: Path,
        o: Pos,
    },
    LeftJoin {
        left: Box<Self>,
        right: Box<Self>,
        filters: Vec<Expr>,
    },
    Minus {
        left: Box<Self>,
        right: Box<Self>,
    },
    Union(Vec<Self>),
    Service(Box<Service>),
    Graph {
        name: Pos,
        inner: Box<Self>,
    },
    Extend {
        inner: Box<Self>,
        var: Var,
        expr: Expr,
    },
    Values {
        vars: Vec<Var>,
        rows: Vec<Vec<Id>>,
    },
    /// `ORDER BY`. Ties are ordered by the terms of `ties`, one variable after the other.
    OrderBy {
        inner: Box<Self>,
        by: Vec<(Expr, bool)>,
        ties: Vec<Var>,
    },
    Project {
        inner: Box<Self>,
        vars: Vec<Var>,
    },
    Distinct(Box<Self>),
    Reduced(Box<Self>),
    Slice {
        inner: Box<Self>,
        start: usize,
        length: Option<usize>,
    },
    Aggregate {
        inner: Box<Self>,
        by: Vec<Var>,
        aggregates: Vec<Aggregate>,
    },
}

impl Node {
    /// Appends the variables that solutions may bind.
    pub fn out_vars(&self, to: &mut Vec<Var>) {
        match self {
            Self::Group(g) => {
                to.extend(g.triples.iter().flat_map(Triple::vars));
                g.parts.iter().for_each(|p| p.out_vars(to));
            }
            Self::Path { s, o, .. } => to.extend([s, o].into_iter().filter_map(|p| p.var())),
            Self::LeftJoin { left, right, .. } => {
                left.out_vars(to);
                right.out_vars(to);
            }
            Self::Minus { left, .. } => left.out_vars(to),
            Self::Union(list) => list.iter().for_each(|n| n.out_vars(to)),
            Self::Service(s) => {
                to.extend(s.vars.iter().map(|(_, v)| *v));
                to.extend(s.endpoint.var());
            }
            Self::Graph { name, inner } => {
                to.extend(name.var());
                inner.out_vars(to);
            }
            Self::Extend { inner, var, .. } => {
                inner.out_vars(to);
                to.push(*var);
            }
            Self::Values { vars, .. } | Self::Project { vars, .. } => to.extend(vars),
            Self::OrderBy { inner, .. }
            | Self::Distinct(inner)
            | Self::Reduced(inner)
            | Self::Slice { inner, .. } => inner.out_vars(to),
            Self::Aggregate { by, aggregates, .. } => {
                to.extend(by);
                to.extend(aggregates.iter().map(|a| a.var));
            }
        }
    }

    /// Returns [`Self::out_vars`], sorted and distinct.
    pub fn vars(&self) -> Vec<Var> {
        let mut vars = Vec::new();
        self.out_vars(&mut vars);
        vars.sort_unstable();
        vars.dedup();
        vars
    }

    /// Returns the pattern with its solutions ordered by their terms.
    pub(crate) fn by_terms(self) -> Self {
        if self.is_ordered() {
            return self;
        }
        Self::OrderBy {
            ties: self.vars(),
            by: Vec::new(),
            inner: Box::new(self),
        }
    }

    /// Returns whether solutions are ordered explicitly.
    pub(crate) fn is_ordered(&self) -> bool {
        match self {
            Self::OrderBy { .. } => true,
            Self::Project { inner, .. }
            | Self::Extend { inner, .. }
            | Self::Reduced(inner)
            | Self::Distinct(inner)
            | Self::Slice { inner, .. } => inner.is_ordered(),
            _ => false,
        }
    }

    /// Appends every variable in the pattern, including those that are projected away.
    pub fn all_vars(&self, to: &mut Vec<Var>) {
        self.out_vars(to);
        match self {
            Self::Group(g) => {
                g.parts.iter().for_each(|p| p.all_vars(to));
                g.filters.iter().for_each(|f| f.collect(to));
            }
            Self::LeftJoin {
                left,
                right,
                filters,
            } => {
                left.all_vars(to);
                right.all_vars(to);
                filters.iter().for_each(|f| f.collect(to));
            }
            Self::Minus { left, right } => {
                left.all_vars(to);
                right.all_vars(to);
            }
            Self::Union(list) => list.iter().for_each(|n| n.all_vars(to)),
            Self::Extend { inner, expr, .. } => {
                inner.all_vars(to);
                expr.collect(to);
            }
            Self::OrderBy { inner, by, ties } => {
                inner.all_vars(to);
                to.extend(ties);
                by.iter().for_each(|(e, _)| e.collect(to));
            }
            Self::Aggregate {
                inner, aggregates, ..
            } => {
                inner.all_vars(to);
                aggregates
                    .iter()
                    .filter_map(|a| a.expr.as_ref())
                    .for_each(|e| e.collect(to));
            }
            Self::Graph { inner, .. }
            | Self::Project { inner, .. }
            | Self::Distinct(inner)
            | Self::Reduced(inner)
            | Self::Slice { inner, .. } => inner.all_vars(to),
            Self::Path { .. } | Self::Values { .. } | Self::Service(_) => {}
        }
    }

    /// Keeps the solutions that are compatible with a value of a variable: those that leave the variable unbound or bind it to this value.
    fn joined_with(self, var: Var, id: Id) -> Self {
        Self::Group(Group {
            triples: Vec::new(),
            parts: vec![self],
            filters: vec![Expr::Or(vec![
                Expr::Not(Box::new(Expr::Bound(var))),
                Expr::SameTerm(Box::new(Expr::Var(var)), Box::new(Expr::Const(id))),
            ])],
        })
    }

    /// Substitutes terms for variables, as EXISTS does with one solution. A value that the pattern itself computes (`BIND`, `SELECT (… AS ?v)`)
    /// must equal the value of its variable in the solution.
    #[must_use]
    pub fn bind(&self, get: &dyn Fn(Var) -> Option<Id>) -> Self {
        let pos = |p: &Pos| match p {
            Pos::Var(v) => get(*v).map_or(*p, Pos::Const),
            Pos::Const(_) => *p,
        };
        let many = |list: &[Expr]| list.iter().map(|e| e.bind(get)).collect::<Vec<_>>();
        let one = |n: &Self| Box::new(n.bind(get));
        match self {
            Self::Group(g) => Self::Group(Group {
                triples: g
                    .triples
                    .iter()
                    .map(|t| Triple {
                        s: pos(&t.s),
                        p: pos(&t.p),
                        o: pos(&t.o),
                    })
                    .collect(),
                parts: g.parts.iter().map(|p| p.bind(get)).collect(),
                filters: many(&g.filters),
            }),
            Self::Path { s, path, o } => Self::Path {
                s: pos(s),
                path: path.clone(),
                o: pos(o),
            },
            Self::LeftJoin {
                left,
                right,
                filters,
            } => Self::LeftJoin {
                left: one(left),
                right: one(right),
                filters: many(filters),
            },
            // Substitution would change which variables the sides of MINUS share.
            Self::Minus { left, right } => Self::Minus {
                left: one(left),
                right: right.clone(),
            },
            Self::Union(list) => Self::Union(list.iter().map(|n| n.bind(get)).collect()),
            Self::Service(s) => {
                let known = |v: Var| get(v).map(|id| (v, id));
                let mut bound = s.bound.clone();
                bound.extend(s.vars.iter().filter_map(|(_, v)| known(*v)));
                Self::Service(Box::new(Service {
                    endpoint: pos(&s.endpoint),
                    bound,
                    ..(**s).clone()
                }))
            }
            Self::Graph { name, inner } => Self::Graph {
                name: pos(name),
                inner: one(inner),
            },
            Self::Extend { inner, var, expr } => {
                let extended = Self::Extend {
                    inner: one(inner),
                    var: *var,
                    expr: expr.bind(get),
                };
                match get(*var) {
                    Some(id) => extended.joined_with(*var, id),
                    None => extended,
                }
            }
            Self::Values { vars, rows } => {
                let fits = |row: &Vec<Id>| {
                    vars.iter()
                        .zip(row)
                        .all(|(v, x)| *x == 0 || get(*v).is_none_or(|y| y == *x))
                };
                Self::Values {
                    vars: vars.clone(),
                    rows: rows.iter().filter(|r| fits(r)).cloned().collect(),
                }
            }
            Self::OrderBy { inner, by, ties } => Self::OrderBy {
                inner: one(inner),
                by: by.iter().map(|(e, d)| (e.bind(get), *d)).collect(),
                ties: ties.clone(),
            },
            // Variables local to a sub-query have distinct numbers, so substitution is correct inside.
            Self::Project { inner, vars } => Self::Project {
                inner: one(inner),
                vars: vars.clone(),
            },
            Self::Distinct(inner) => Self::Distinct(one(inner)),
            Self::Reduced(inner) => Self::Reduced(one(inner)),
            Self::Slice {
                inner,
                start,
                length,
            } => Self::Slice {
                inner: one(inner),
                start: *start,
                length: *length,
            },
            Self::Aggregate {
                inner,
                by,
                aggregates,
            } => Self::Aggregate {
                inner: one(inner),
                by: by.clone(),
                aggregates: aggregates
                    .iter()
                    .map(|a| Aggregate {
                        expr: a.expr.as_ref().map(|e| e.bind(get)),
                        ..a.clone()
                    })
                    .collect(),
            },
        }
    }
}

impl Expr {
    fn bind(&self, get: &dyn Fn(Var) -> Option<Id>) -> Self {
        let one = |e: &Self| Box::new(e.bind(get));
        let many = |list: &[Self]| list.iter().map(|e| e.bind(get)).collect::<Vec<_>>();
        match self {
            Self::Const(id) => Self::Const(*id),
            Self::Var(v) => get(*v).map_or(Self::Var(*v), Self::Const),
            Self::Bound(v) => {
                get(*v).map_or(Self::Bound(*v), |_| Self::Const(crate::id::boolean(true)))
            }
            Self::Or(list) => Self::Or(many(list)),
            Self::And(list) => Self::And(many(list)),
            Self::Coalesce(list) => Self::Coalesce(many(list)),
            Self::Call(f, list) => Self::Call(f.clone(), many(list)),
            Self::Not(a) => Self::Not(one(a)),
            Self::Sign(c, a) => Self::Sign(*c, one(a)),
            Self::Equal(a, b) => Self::Equal(one(a), one(b)),
            Self::SameTerm(a, b) => Self::SameTerm(one(a), one(b)),
            Self::Compare(c, a, b) => Self::Compare(*c, one(a), one(b)),
            Self::Arithmetic(c, a, b) => Self::Arithmetic(*c, one(a), one(b)),
            Self::In(a, list) => Self::In(one(a), many(list)),
            Self::If(a, b, c) => Self::If(one(a), one(b), one(c)),
            Self::Exists(node) => Self::Exists(Arc::new(node.bind(get))),
        }
    }
}
