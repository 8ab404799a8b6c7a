//! The plan of a pattern: a tree of operators, which the executor runs as it is. Where a decision depends on sizes that only the
//! execution knows, the operator has the alternatives, and its slot records what was chosen.

use super::slot::Slot;
use super::steps::Step;
use crate::algebra::{Aggregate, Path, Pos, Service, Triple};
use crate::exec::Var;
use crate::expr::Expr;
use crate::id::Id;
use crate::quads::Graph;
use std::sync::Arc;

/// Limit of rows that lead a pattern.
pub(crate) const LEADING_MAX: usize = 100_000;
/// Limit of known bindings that are sent to an endpoint.
pub(crate) const SENT_MAX: usize = 1_000;
/// Column with the number of the leading row from which a solution comes.
pub(crate) const ROW: Var = Var::MAX;

/// An operator with its inputs.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) op: Op,
    /// Whether only the number of solutions is needed, even if it is large.
    pub(crate) count: bool,
    pub(crate) slot: Slot,
}

/// The kinds of operators.
#[derive(Debug)]
pub(crate) enum Op {
    Pattern(Pattern),
    Values {
        vars: Vec<Var>,
        rows: Vec<Vec<Id>>,
    },
    Path(PathSearch),
    Service(Box<Service>),
    Join(Box<Join>),
    Optional(Box<Optional>),
    /// Solutions of `left` without those that are compatible with one of `right`; `shared` are the variables of both.
    Minus {
        left: Box<Plan>,
        right: Box<Plan>,
        shared: Vec<Var>,
    },
    Union(Union),
    /// A named graph.
    Graph {
        name: Id,
        graph: Arc<Graph>,
        inner: Box<Plan>,
    },
    /// A named graph that does not exist.
    NoGraph {
        name: Id,
        vars: Vec<Var>,
    },
    EachGraph(EachGraph),
    Extend {
        inner: Box<Plan>,
        var: Var,
        expr: Expr,
    },
    OrderBy(OrderBy),
    Project {
        inner: Box<Plan>,
        vars: Vec<Var>,
    },
    /// Distinct solutions. `ordered` input keeps its order.
    Distinct {
        inner: Box<Plan>,
        ordered: bool,
    },
    Slice {
        inner: Box<Plan>,
        start: usize,
        length: Option<usize>,
    },
    Aggregate {
        inner: Box<Plan>,
        by: Vec<Var>,
        aggregates: Vec<Aggregate>,
    },
    /// Aggregates that are all the number of solutions.
    Count {
        inner: Box<Plan>,
        aggregates: Vec<Aggregate>,
    },
}

/// Triple patterns that are solved together, variable by variable.
#[derive(Debug)]
pub(crate) struct Pattern {
    pub(crate) triples: Vec<Triple>,
    /// Filters on variables of the triple patterns.
    pub(crate) filters: Vec<Expr>,
    /// Variables that are read afterwards.
    pub(crate) needed: Vec<Var>,
    /// Whether duplicate solutions do not matter.
    pub(crate) distinct: bool,
    /// Number of solutions that suffices.
    pub(crate) limit: Option<usize>,
    /// Whether only the number of solutions is needed.
    pub(crate) count: bool,
    /// The steps where nothing leads the pattern; `None` if they depend on the graph or on leading rows.
    pub(crate) steps: Option<Vec<Step>>,
    /// Requirements where rows of another input lead the pattern; `None` if it is always solved alone.
    pub(crate) led: Option<Led>,
}

/// Requirements on a pattern that the rows of another input lead: its search starts from each of them.
#[derive(Debug)]
pub(crate) struct Led {
    /// Variables that are read afterwards.
    pub(crate) needed: Vec<Var>,
    /// Filters in addition to those of the pattern; they may read variables of the leading rows.
    pub(crate) filters: Vec<Expr>,
}

/// A property path between two positions.
#[derive(Debug)]
pub(crate) struct PathSearch {
    pub(crate) s: Pos,
    pub(crate) path: Path,
    pub(crate) o: Pos,
}

/// A join of any number of inputs, with the filters on their solutions.
///
/// The inputs are solved first. Then one after the other each pattern is solved, led by the smallest table that can lead it. All tables
/// are joined, the small ones first. The parts in `later` are then joined one after the other, because their solutions depend on known
/// values. A filter runs as soon as its variables are bound.
#[derive(Debug)]
pub(crate) struct Join {
    pub(crate) inputs: Vec<Plan>,
    /// Operators of the kind [`Op::Pattern`].
    pub(crate) patterns: Vec<Plan>,
    pub(crate) later: Vec<Later>,
    pub(crate) filters: Vec<Filter>,
    /// Variables that a filter equates with a term, which replaced them in the patterns.
    pub(crate) fixed: Vec<(Var, Id)>,
    /// Variables that are read afterwards.
    pub(crate) needed: Vec<Var>,
    /// Whether duplicate solutions do not matter.
    pub(crate) distinct: bool,
    /// Whether only the number of solutions is needed.
    pub(crate) count: bool,
    /// Number of solutions of a product that suffices.
    pub(crate) limit: Option<usize>,
}

/// A part of a join that is joined after the others.
#[derive(Debug)]
pub(crate) struct Later {
    pub(crate) vars: Vec<Var>,
    pub(crate) plan: Plan,
}

/// A filter of a join.
#[derive(Debug)]
pub(crate) struct Filter {
    pub(crate) expr: Expr,
    /// The pattern of `EXISTS` or `NOT EXISTS`, to be solved once for all rows.
    pub(crate) semi_join: Option<SemiJoin>,
    pub(crate) slot: Slot,
}

/// `EXISTS` of triple patterns, led by the distinct combinations of the variables that it shares with the rows.
#[derive(Debug)]
pub(crate) struct SemiJoin {
    /// An operator of the kind [`Op::Pattern`].
    pub(crate) pattern: Plan,
    /// Whether rows with a match are kept, or those without.
    pub(crate) wanted: bool,
}

/// `OPTIONAL`: a left outer join, or an anti-join.
#[derive(Debug)]
pub(crate) struct Optional {
    pub(crate) left: Plan,
    /// The optional side. If its pattern can be led, the rows of the left side lead it where that is estimated cheaper.
    pub(crate) right: Plan,
    /// Conditions on both sides.
    pub(crate) filters: Vec<Expr>,
    /// Variables of both sides.
    pub(crate) shared: Vec<Var>,
    /// Variables that are read afterwards, sorted.
    pub(crate) needed: Vec<Var>,
    pub(crate) mode: Mode,
}

/// Type of a join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Rows with a match, combined with it.
    Inner,
    /// All left rows; those without a match stay as they are.
    Left,
    /// Left rows without a match.
    Anti,
}

/// `UNION` of any number of inputs.
#[derive(Debug)]
pub(crate) struct Union {
    pub(crate) inputs: Vec<Plan>,
    /// Variables that are read afterwards.
    pub(crate) needed: Vec<Var>,
    /// Number of solutions that suffices.
    pub(crate) limit: Option<usize>,
}

/// `GRAPH` with a variable: the inner plan runs on each named graph.
#[derive(Debug)]
pub(crate) struct EachGraph {
    pub(crate) var: Var,
    pub(crate) inner: Box<Plan>,
    /// Number of solutions that suffices.
    pub(crate) limit: Option<usize>,
    /// Whether the number of solutions may be limited within each graph.
    pub(crate) limits_each: bool,
}

/// `ORDER BY`. Ties are ordered by the terms of `ties`, one variable after the other.
#[derive(Debug)]
pub(crate) struct OrderBy {
    pub(crate) inner: Box<Plan>,
    pub(crate) by: Vec<(Expr, bool)>,
    pub(crate) ties: Vec<Var>,
    /// Number of solutions that suffices.
    pub(crate) limit: Option<usize>,
}

impl Plan {
    pub(crate) fn new(op: Op, count: bool) -> Self {
        Self {
            op,
            count,
            slot: Slot::default(),
        }
    }

    /// Returns the pattern of an operator of that kind.
    pub(crate) const fn pattern(&self) -> Option<&Pattern> {
        match &self.op {
            Op::Pattern(pattern) => Some(pattern),
            _ => None,
        }
    }
}

impl Optional {
    /// Returns the pattern of the right side that rows of the left side may lead, with the variables that have a fixed term.
    pub(crate) fn led(&self) -> Option<(&Plan, &[(Var, Id)])> {
        let (plan, fixed) = led_pattern(&self.right)?;
        plan.pattern()?.led.is_some().then_some((plan, fixed))
    }

    /// Returns the SERVICE pattern if the right side consists of one; known bindings are sent to it.
    pub(crate) fn service(&self) -> Option<&Service> {
        service(&self.right)
    }
}

/// Returns the operator of the only pattern of a plan, with the variables that have a fixed term.
pub(super) fn led_pattern(plan: &Plan) -> Option<(&Plan, &[(Var, Id)])> {
    match &plan.op {
        Op::Pattern(_) => Some((plan, &[])),
        Op::Join(j) if j.inputs.is_empty() && j.later.is_empty() && j.filters.is_empty() => {
            match &*j.patterns {
                [pattern] => Some((pattern, &j.fixed)),
                _ => None,
            }
        }
        _ => None,
    }
}

fn service(plan: &Plan) -> Option<&Service> {
    match &plan.op {
        Op::Service(s) => Some(s),
        Op::Join(j) if j.inputs.is_empty() && j.patterns.is_empty() && j.filters.is_empty() => {
            match &*j.later {
                [one] => service(&one.plan),
                _ => None,
            }
        }
        _ => None,
    }
}
