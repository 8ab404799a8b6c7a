//! Steps of a basic graph pattern: variables are bound one by one, each from the intersection of all sorted lists that constrain it. This
//! is worst-case optimal for cyclic patterns, and an index join for others.

use super::order::order;
use crate::algebra::{Pos, Triple};
use crate::exec::Var;
use crate::expr::Expr;
use crate::quads::Graph;

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

/// A basic graph pattern to be solved, from rows that bind some of its variables.
pub(super) struct PatternSearch<'a> {
    pub(super) triples: &'a [Triple],
    pub(super) filters: Vec<&'a Expr>,
    /// Variables that are bound at the beginning.
    pub(super) seeded: &'a [Var],
    /// Variables that are read afterwards.
    pub(super) needed: &'a [Var],
    /// Whether duplicate solutions do not matter.
    pub(super) distinct: bool,
}

impl PatternSearch<'_> {
    /// Returns the steps, for a number of rows to start from.
    pub(super) fn steps(&self, graph: &Graph, rows: usize, optimise: bool) -> Vec<Step> {
        let existential = if optimise {
            self.existential()
        } else {
            Vec::new()
        };
        let existence_only = |v: Var| self.distinct && !self.needed.contains(&v) && !self.tests(v);
        let order = order(
            graph,
            self.triples,
            self.seeded,
            rows,
            &existential,
            &existence_only,
            optimise,
        );
        let mut builder = Builder {
            triples: self.triples,
            existential: &existential,
            bound: self.seeded.to_vec(),
            done: vec![false; self.triples.len()],
            filters: self.filters.clone(),
            steps: Vec::new(),
        };
        builder.begin();
        for (var, expected) in order {
            builder.extend(var, expected);
        }
        let mut steps = builder.end();
        let dropped = prune_columns(&mut steps, self.needed, self.distinct);
        if self.distinct {
            add_dedupes(&mut steps, &dropped);
        }
        steps
    }

    /// Returns whether a filter reads a variable.
    fn tests(&self, var: Var) -> bool {
        self.filters.iter().any(|f| f.vars().contains(&var))
    }

    /// Returns existential variables: they occur once, nothing reads them, and duplicate solutions do not matter. They are never bound.
    fn existential(&self) -> Vec<Var> {
        if !self.distinct {
            return Vec::new();
        }
        let all: Vec<Var> = self.triples.iter().flat_map(Triple::vars).collect();
        let asked: Vec<Var> = self.filters.iter().flat_map(|f| f.vars()).collect();
        let is_existential = |v: &Var| {
            all.iter().filter(|x| *x == v).count() == 1
                && !asked.contains(v)
                && !self.seeded.contains(v)
                && !self.needed.contains(v)
        };
        // At most one position of a pattern: the other one is the key of the lists.
        let of = |t: &Triple| {
            let places = [t.o, t.s].into_iter();
            places.filter_map(Pos::var).find(is_existential)
        };
        self.triples.iter().filter_map(of).collect()
    }
}

/// Builder of the steps for an order of variables.
struct Builder<'a> {
    triples: &'a [Triple],
    existential: &'a [Var],
    bound: Vec<Var>,
    /// The triple patterns that earlier steps satisfy.
    done: Vec<bool>,
    /// Filters whose variables are not all bound yet.
    filters: Vec<&'a Expr>,
    steps: Vec<Step>,
}

impl Builder<'_> {
    /// Adds what needs no further variable.
    fn begin(&mut self) {
        for (t, done) in self.triples.iter().zip(&mut self.done) {
            let given = |v: Var| self.bound.contains(&v) || self.existential.contains(&v);
            if t.vars().all(given) {
                self.steps.push(check(*t));
                *done = true;
            }
        }
        self.add_filters();
    }

    /// Adds the step that binds a variable, and the tests that it makes possible.
    fn extend(&mut self, var: Var, expected: f64) {
        let mut constraints = Vec::new();
        let mut checks = Vec::new();
        for (i, t) in self.triples.iter().enumerate() {
            if self.done[i] || !t.has(var) {
                continue;
            }
            let complete = [t.s, t.p, t.o]
                .into_iter()
                .all(|p| self.is_bound(p) || self.is_existential(p) || p == Pos::Var(var));
            match self.constraint(t, var) {
                Some(constraint) => constraints.push(constraint),
                None if !complete => continue,
                None => {}
            }
            if complete {
                self.done[i] = true;
                let at = |p: &Pos| *p == Pos::Var(var);
                if [t.s, t.p, t.o].iter().filter(|p| at(p)).count() > 1 {
                    checks.push(check(*t));
                }
            }
        }
        self.bound.push(var);
        self.steps.push(Step::Extend {
            var,
            constraints,
            exists: false,
            keep: Vec::new(),
            expected,
        });
        self.steps.append(&mut checks);
        self.add_filters();
    }

    /// Returns the list by which a triple pattern constrains a variable, if there is one yet.
    fn constraint(&self, t: &Triple, var: Var) -> Option<Constraint> {
        if t.p == Pos::Var(var) {
            return Some(Constraint::Predicates {
                s: self.is_bound(t.s).then_some(t.s),
                o: self.is_bound(t.o).then_some(t.o),
            });
        }
        if !self.is_bound(t.p) {
            return None;
        }
        let (side, key) = if t.o == Pos::Var(var) {
            (Side::Objects, t.s)
        } else {
            (Side::Subjects, t.o)
        };
        Some(if self.is_bound(key) {
            Constraint::Values { p: t.p, key, side }
        } else {
            Constraint::Keys { p: t.p, side }
        })
    }

    fn is_bound(&self, p: Pos) -> bool {
        p.var().is_none_or(|v| self.bound.contains(&v))
    }

    fn is_existential(&self, p: Pos) -> bool {
        p.var().is_some_and(|v| self.existential.contains(&v))
    }

    /// Adds the filters whose variables are bound.
    fn add_filters(&mut self) {
        let (bound, steps) = (&self.bound, &mut self.steps);
        self.filters.retain(|f| {
            let now = f.vars().iter().all(|v| bound.contains(v));
            if now {
                steps.push(filter(f));
            }
            !now
        });
    }

    /// Returns the steps. A filter with variables that nothing binds is an error or false; it is evaluated nevertheless.
    fn end(mut self) -> Vec<Step> {
        self.steps.extend(self.filters.into_iter().map(filter));
        self.steps
    }
}

const fn check(triple: Triple) -> Step {
    Step::Check {
        triple,
        keep: Vec::new(),
    }
}

fn filter(expr: &Expr) -> Step {
    Step::Filter {
        expr: expr.clone(),
        keep: Vec::new(),
    }
}

/// Backward pass: determines the columns that each step must keep, and the variables that only have to exist. Returns for each step
/// whether it drops a column.
fn prune_columns(steps: &mut [Step], needed: &[Var], distinct: bool) -> Vec<bool> {
    let mut needed: Vec<Var> = needed.to_vec();
    let need = |p: Pos, needed: &mut Vec<Var>| {
        if let Pos::Var(v) = p
            && !needed.contains(&v)
        {
            needed.push(v);
        }
    };
    let mut dropped = vec![false; steps.len()];
    for (step, dropped) in steps.iter_mut().zip(&mut dropped).rev() {
        match step {
            Step::Extend {
                var,
                constraints,
                exists,
                keep,
                ..
            } => {
                *exists = distinct && !needed.contains(var);
                let before = needed.len();
                needed.retain(|v| v != var);
                *keep = needed.clone();
                if before != needed.len() {
                    keep.push(*var);
                }
                for position in constraints.iter().flat_map(Constraint::read_positions) {
                    need(position, &mut needed);
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
        let kept = step.keep().len();
        *dropped =
            needed.len() + usize::from(matches!(step, Step::Extend { exists: false, .. })) > kept;
    }
    dropped
}

/// Dropped columns may create duplicates: with few remaining columns, removing them pays.
fn add_dedupes(steps: &mut Vec<Step>, dropped: &[bool]) {
    for i in (0..dropped.len()).rev() {
        if dropped[i] && steps[i].keep().len() <= 2 {
            steps.insert(i + 1, Step::Dedupe);
        }
    }
}

impl Constraint {
    /// Returns the positions that the constraint reads.
    fn read_positions(&self) -> impl Iterator<Item = Pos> {
        let positions = match *self {
            Self::Values { p, key, .. } => [Some(p), Some(key)],
            Self::Keys { p, .. } => [Some(p), None],
            Self::Predicates { s, o } => [s, o],
        };
        positions.into_iter().flatten()
    }

    fn show(&self, pos: &dyn Fn(&Pos) -> String) -> String {
        match self {
            Self::Values {
                p,
                key,
                side: Side::Objects,
            } => format!("{} {} ·", pos(key), pos(p)),
            Self::Values {
                p,
                key,
                side: Side::Subjects,
            } => format!("· {} {}", pos(p), pos(key)),
            Self::Keys {
                p,
                side: Side::Objects,
            } => format!("_ {} ·", pos(p)),
            Self::Keys {
                p,
                side: Side::Subjects,
            } => format!("· {} _", pos(p)),
            Self::Predicates { s, o } => {
                let side = |p: &Option<Pos>| p.as_ref().map_or("_".into(), pos);
                format!("{} · {}", side(s), side(o))
            }
        }
    }
}

impl Step {
    /// Returns the columns that later steps read.
    fn keep(&self) -> &[Var] {
        match self {
            Self::Extend { keep, .. } | Self::Check { keep, .. } | Self::Filter { keep, .. } => {
                keep
            }
            Self::Dedupe => &[],
        }
    }

    /// Returns the variable that the step binds.
    pub(crate) const fn var(&self) -> Option<Var> {
        match self {
            Self::Extend { var, .. } => Some(*var),
            _ => None,
        }
    }

    /// Returns the estimated number of rows after the step, where it is estimated.
    pub(crate) const fn expected(&self) -> Option<f64> {
        match self {
            Self::Extend { expected, .. } => Some(*expected),
            _ => None,
        }
    }

    /// Returns the step as text.
    pub(super) fn show(
        &self,
        pos: &dyn Fn(&Pos) -> String,
        name: &dyn Fn(Var) -> String,
    ) -> String {
        match self {
            Self::Extend {
                var,
                constraints,
                exists,
                ..
            } => {
                let lists: Vec<String> = constraints.iter().map(|c| c.show(pos)).collect();
                let word = if *exists { "exists" } else { "bind" };
                format!("{word} {} from {}", name(*var), lists.join(" ∩ "))
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
