//! The steps by which a basic graph pattern is solved: variable by variable, each from the intersection of all sorted
//! lists that restrict it. That is worst-case optimal for cyclic patterns, and an index join for others.

use super::Var;
use crate::expr::Expr;
use crate::id::Id;
use crate::plan::{Pos, Triple};

/// A predicate's direction: values of which place, for a key of which other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Objects; keys are subjects.
    Objects,
    /// Subjects; keys are objects.
    Subjects,
}

/// A sorted list that restricts a variable.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Con {
    /// The values on that side for a key.
    Values { p: Pos, key: Pos, side: Side },
    /// All that stand on that side of a predicate.
    Keys { p: Pos, side: Side },
    /// The predicates that such a subject and object have.
    Predicates { s: Option<Pos>, o: Option<Pos> },
}

/// One step.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Binds a variable.
    Extend {
        var: Var,
        cons: Vec<Con>,
        /// Only whether there is a value matters.
        exists: bool,
        /// Columns that later steps need.
        keep: Vec<Var>,
        expected: f64,
    },
    /// Keeps the rows for which that triple is there.
    Check { triple: Triple, keep: Vec<Var> },
    /// Keeps the rows for which a condition holds.
    Filter { expr: Expr, keep: Vec<Var> },
    /// Rows that are the same become one.
    Dedupe,
}

/// What a basic graph pattern should give.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// The variables that are used afterwards.
    pub(crate) vars: &'a [Var],
    /// Whether it does not matter how often a solution comes.
    pub(crate) distinct: bool,
    /// How many solutions suffice.
    pub(crate) limit: Option<usize>,
    /// Only how many there are is wanted, however many.
    pub(crate) count: bool,
}

/// The steps for an order of variables.
pub(crate) fn steps(
    order: &[(Var, f64)],
    triples: &[Triple],
    filters: &[Expr],
    seeded: &[Var],
    loose: &[Var],
    wanted: &Wanted<'_>,
) -> Vec<Step> {
    let is_loose = |p: Pos| p.var().is_some_and(|v| loose.contains(&v));
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
        if t.vars().all(|v| bound.contains(&v) || loose.contains(&v)) {
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
        let mut cons = Vec::new();
        let mut checks = Vec::new();
        for (t, done) in triples.iter().zip(&mut done) {
            if *done || !t.has(*var) {
                continue;
            }
            let after = |p: Pos| is_bound(p) || is_loose(p) || p == Pos::Var(*var);
            let complete = after(t.s) && after(t.p) && after(t.o);
            let times = [t.s, t.p, t.o]
                .into_iter()
                .filter(|p| *p == Pos::Var(*var))
                .count();
            if t.p == Pos::Var(*var) {
                cons.push(Con::Predicates {
                    s: is_bound(t.s).then_some(t.s),
                    o: is_bound(t.o).then_some(t.o),
                });
            } else if is_bound(t.p) {
                let (side, other) = if t.o == Pos::Var(*var) {
                    (Side::Objects, t.s)
                } else {
                    (Side::Subjects, t.o)
                };
                cons.push(if is_bound(other) {
                    Con::Values {
                        p: t.p,
                        key: other,
                        side,
                    }
                } else {
                    Con::Keys { p: t.p, side }
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
            cons,
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
    // What mentions variables that nothing binds is an error or false; it is asked all the same.
    steps.extend(filters_left.into_iter().map(|f| Step::Filter {
        expr: f.clone(),
        keep: Vec::new(),
    }));
    keep_what_is_needed(&mut steps, wanted);
    steps
}

/// From the end: which columns are still needed after each step, and which variables only have to exist.
fn keep_what_is_needed(steps: &mut Vec<Step>, wanted: &Wanted<'_>) {
    let mut needed: Vec<Var> = wanted.vars.to_vec();
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
                cons,
                exists,
                keep,
                ..
            } => {
                *exists = wanted.distinct && !needed.contains(var);
                let before = needed.len();
                needed.retain(|v| v != var);
                *keep = needed.clone();
                if before != needed.len() {
                    keep.push(*var);
                }
                for con in cons {
                    match *con {
                        Con::Values { p, key, .. } => {
                            need(p, &mut needed);
                            need(key, &mut needed);
                        }
                        Con::Keys { p, .. } => need(p, &mut needed),
                        Con::Predicates { s, o } => {
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
    if !wanted.distinct {
        return;
    }
    // Where columns fall away, rows may have become the same: once they are few enough columns, it pays to see.
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
                cons,
                exists,
                expected,
                ..
            } => {
                let lists: Vec<String> = cons
                    .iter()
                    .map(|c| match c {
                        Con::Values {
                            p,
                            key,
                            side: Side::Objects,
                        } => {
                            format!("{} {} ·", pos(key), pos(p))
                        }
                        Con::Values {
                            p,
                            key,
                            side: Side::Subjects,
                        } => {
                            format!("· {} {}", pos(p), pos(key))
                        }
                        Con::Keys {
                            p,
                            side: Side::Objects,
                        } => format!("_ {} ·", pos(p)),
                        Con::Keys {
                            p,
                            side: Side::Subjects,
                        } => format!("· {} _", pos(p)),
                        Con::Predicates { s, o } => {
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
