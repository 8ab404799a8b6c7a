//! Steps of a basic graph pattern: variables are bound one by one, each from the intersection of all sorted lists that constrain it. This
//! is worst-case optimal for cyclic patterns, and an index join for others.

use super::Var;
use crate::expr::Expr;
use crate::id::Id;
use crate::plan::{Pos, Triple};

/// Direction of a predicate's index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Values are objects, keys are subjects.
    Objects,
    /// Values are subjects, keys are objects.
    Subjects,
}

/// A sorted list that constrains a variable.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Constraint {
    /// The values on a side for a key.
    Values { p: Pos, key: Pos, side: Side },
    /// All values on a side of a predicate.
    Keys { p: Pos, side: Side },
    /// The predicates between a subject and an object.
    Predicates { s: Option<Pos>, o: Option<Pos> },
}

/// One step of a basic graph pattern.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Binds a variable.
    Extend {
        var: Var,
        constraints: Vec<Constraint>,
        /// Whether only the existence of a value matters.
        exists: bool,
        /// Columns that later steps read.
        keep: Vec<Var>,
        expected: f64,
    },
    /// Keeps the rows for which the triple exists.
    Check { triple: Triple, keep: Vec<Var> },
    /// Keeps the rows that satisfy a filter.
    Filter { expr: Expr, keep: Vec<Var> },
    /// Removes duplicate rows.
    Dedupe,
}

/// Requirements on a basic graph pattern's solutions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequiredRef<'a> {
    /// Variables that are read afterwards.
    pub(crate) vars: &'a [Var],
    /// Whether duplicate solutions do not matter.
    pub(crate) distinct: bool,
    /// Number of solutions that suffices.
    pub(crate) limit: Option<usize>,
    /// Whether only the number of solutions is needed, even if it is large.
    pub(crate) count: bool,
}

/// Builds the steps for an order of variables.
pub(crate) fn steps(
    order: &[(Var, f64)],
    triples: &[Triple],
    filters: &[Expr],
    seeded: &[Var],
    existential: &[Var],
    required: &RequiredRef<'_>,
) -> Vec<Step> {
    let is_existential = |p: Pos| p.var().is_some_and(|v| existential.contains(&v));
    let mut bound: Vec<Var> = seeded.to_vec();
    let mut steps = Vec::new();
    let mut done = vec![false; triples.len()];
    let mut filters_left: Vec<&Expr> = filters.iter().collect();
    let ready = |bound: &[Var], left: &mut Vec<&Expr>, steps: &mut Vec<Step>| {
        left.retain(|f| {
            let now = f.vars().iter().all(|v| bound.contains(v));
            if now {
                steps.push(Step::Filter {
                    expr: (*f).clone(),
                    keep: Vec::new(),
                });
            }
            !now
        });
    };
    for (t, done) in triples.iter().zip(&mut done) {
        if t.vars()
            .all(|v| bound.contains(&v) || existential.contains(&v))
        {
            steps.push(Step::Check {
                triple: *t,
                keep: Vec::new(),
            });
            *done = true;
        }
    }
    ready(&bound, &mut filters_left, &mut steps);
    for (var, expected) in order {
        let is_bound = |p: Pos| match p {
            Pos::Const(_) => true,
            Pos::Var(v) => bound.contains(&v),
        };
        let mut constraints = Vec::new();
        let mut checks = Vec::new();
        for (t, done) in triples.iter().zip(&mut done) {
            if *done || !t.has(*var) {
                continue;
            }
            let after = |p: Pos| is_bound(p) || is_existential(p) || p == Pos::Var(*var);
            let complete = after(t.s) && after(t.p) && after(t.o);
            let times = [t.s, t.p, t.o]
                .into_iter()
                .filter(|p| *p == Pos::Var(*var))
                .count();
            if t.p == Pos::Var(*var) {
                constraints.push(Constraint::Predicates {
                    s: is_bound(t.s).then_some(t.s),
                    o: is_bound(t.o).then_some(t.o),
                });
            } else if is_bound(t.p) {
                let (side, other) = if t.o == Pos::Var(*var) {
                    (Side::Objects, t.s)
                } else {
                    (Side::Subjects, t.o)
                };
                constraints.push(if is_bound(other) {
                    Constraint::Values {
                        p: t.p,
                        key: other,
                        side,
                    }
                } else {
                    Constraint::Keys { p: t.p, side }
                });
            } else if !complete {
                continue;
            }
            if complete {
                *done = true;
                if times > 1 {
                    checks.push(*t);
                }
            }
        }
        bound.push(*var);
        steps.push(Step::Extend {
            var: *var,
            constraints,
            exists: false,
            keep: Vec::new(),
            expected: *expected,
        });
        steps.extend(checks.into_iter().map(|triple| Step::Check {
            triple,
            keep: Vec::new(),
        }));
        ready(&bound, &mut filters_left, &mut steps);
    }
    // A filter with variables that nothing binds is an error or false; it is evaluated nevertheless.
    steps.extend(filters_left.into_iter().map(|f| Step::Filter {
        expr: f.clone(),
        keep: Vec::new(),
    }));
    prune_columns(&mut steps, required);
    steps
}

/// Backward pass: determines the columns that each step must keep, and the variables that only have to exist.
fn prune_columns(steps: &mut Vec<Step>, required: &RequiredRef<'_>) {
    let mut needed: Vec<Var> = required.vars.to_vec();
    let need = |p: Pos, needed: &mut Vec<Var>| {
        if let Pos::Var(v) = p
            && !needed.contains(&v)
        {
            needed.push(v);
        }
    };
    let mut dropped = vec![false; steps.len()];
    for (i, step) in steps.iter_mut().enumerate().rev() {
        match step {
            Step::Extend {
                var,
                constraints,
                exists,
                keep,
                ..
            } => {
                *exists = required.distinct && !needed.contains(var);
                let before = needed.len();
                needed.retain(|v| v != var);
                *keep = needed.clone();
                if before != needed.len() {
                    keep.push(*var);
                }
                for con in constraints {
                    match *con {
                        Constraint::Values { p, key, .. } => {
                            need(p, &mut needed);
                            need(key, &mut needed);
                        }
                        Constraint::Keys { p, .. } => need(p, &mut needed),
                        Constraint::Predicates { s, o } => {
                            for p in [s, o].into_iter().flatten() {
                                need(p, &mut needed);
                            }
                        }
                    }
                }
            }
            Step::Check { triple, keep } => {
                keep.clone_from(&needed);
                for p in [triple.s, triple.p, triple.o] {
                    need(p, &mut needed);
                }
            }
            Step::Filter { expr, keep } => {
                keep.clone_from(&needed);
                for v in expr.vars() {
                    need(Pos::Var(v), &mut needed);
                }
            }
            Step::Dedupe => {}
        }
        let kept = match step {
            Step::Extend { keep, .. } | Step::Check { keep, .. } | Step::Filter { keep, .. } => {
                keep.len()
            }
            Step::Dedupe => 0,
        };
        dropped[i] =
            needed.len() + usize::from(matches!(step, Step::Extend { exists: false, .. })) > kept;
    }
    if !required.distinct {
        return;
    }
    // Dropped columns may create duplicates: with few remaining columns, removing them pays.
    for i in (0..steps.len()).rev() {
        let many = matches!(&steps[i], Step::Extend { keep, .. } | Step::Check { keep, .. } | Step::Filter { keep, .. } if keep.len() <= 2);
        if dropped[i] && many {
            steps.insert(i + 1, Step::Dedupe);
        }
    }
}

impl Step {
    pub(crate) fn show(&self, term: &dyn Fn(Id) -> String, name: &dyn Fn(Var) -> String) -> String {
        let pos = |p: &Pos| match p {
            Pos::Const(id) => term(*id),
            Pos::Var(v) => name(*v),
        };
        match self {
            Self::Extend {
                var,
                constraints,
                exists,
                expected,
                ..
            } => {
                let lists: Vec<String> = constraints
                    .iter()
                    .map(|c| match c {
                        Constraint::Values {
                            p,
                            key,
                            side: Side::Objects,
                        } => {
                            format!("{} {} ·", pos(key), pos(p))
                        }
                        Constraint::Values {
                            p,
                            key,
                            side: Side::Subjects,
                        } => {
                            format!("· {} {}", pos(p), pos(key))
                        }
                        Constraint::Keys {
                            p,
                            side: Side::Objects,
                        } => format!("_ {} ·", pos(p)),
                        Constraint::Keys {
                            p,
                            side: Side::Subjects,
                        } => format!("· {} _", pos(p)),
                        Constraint::Predicates { s, o } => {
                            let side = |p: &Option<Pos>| p.as_ref().map_or("_".into(), &pos);
                            format!("{} · {}", side(s), side(o))
                        }
                    })
                    .collect();
                let word = if *exists { "exists" } else { "bind" };
                format!(
                    "{word} {} from {}  (~{expected:.0} rows)",
                    name(*var),
                    lists.join(" ∩ ")
                )
            }
            Self::Check { triple, .. } => format!(
                "check {} {} {}",
                pos(&triple.s),
                pos(&triple.p),
                pos(&triple.o)
            ),
            Self::Filter { expr, .. } => format!("filter {}", expr.show(name)),
            Self::Dedupe => "distinct".into(),
        }
    }
}
