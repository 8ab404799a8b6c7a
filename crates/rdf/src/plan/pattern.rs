//! Planning of triple patterns that are solved together.

use super::order::order;
use super::steps::{PatternSearch, Step};
use super::tree::{Led, Op, Pattern, Plan};
use crate::algebra::Triple;
use crate::exec::Var;
use crate::expr::Expr;
use crate::quads::Graph;

impl Pattern {
    /// Creates a pattern without filters whose solutions are all needed; its steps are not planned yet.
    pub(super) const fn new(triples: Vec<Triple>, needed: Vec<Var>, distinct: bool) -> Self {
        Self {
            triples,
            filters: Vec::new(),
            needed,
            distinct,
            limit: None,
            count: false,
            steps: None,
            led: None,
        }
    }

    /// Returns the variables of the triple patterns, with repetitions.
    pub(crate) fn vars(&self) -> impl Iterator<Item = Var> {
        self.triples.iter().flat_map(Triple::vars)
    }

    /// Returns the steps of the pattern alone.
    pub(crate) fn own_steps(&self, graph: &Graph, optimise: bool) -> Vec<Step> {
        let search = PatternSearch {
            triples: &self.triples,
            filters: self.filters.iter().collect(),
            seeded: &[],
            needed: &self.needed,
            distinct: self.distinct,
        };
        search.steps(graph, 1, optimise)
    }

    /// Returns the steps from rows that bind `seeded`.
    pub(crate) fn led_steps(
        &self,
        graph: &Graph,
        seeded: &[Var],
        rows: usize,
        optimise: bool,
    ) -> Vec<Step> {
        let led = self.led.as_ref();
        let more = led.map_or(&[][..], |led| &led.filters);
        let search = PatternSearch {
            triples: &self.triples,
            filters: self.filters.iter().chain(more).collect(),
            seeded,
            needed: led.map_or(&self.needed, |led| &led.needed),
            distinct: self.distinct,
        };
        search.steps(graph, rows, optimise)
    }

    /// Estimates the rows of all steps together, if each variable is bound.
    pub(crate) fn all_rows(&self, graph: &Graph, seeded: &[Var], rows: usize) -> f64 {
        let order = order(graph, &self.triples, seeded, rows, &[], &|_| false, true);
        order.iter().map(|(_, rows)| rows).sum()
    }

    /// Makes a pattern that other rows may lead.
    pub(super) fn led(mut self, needed: Vec<Var>) -> Self {
        self.led = Some(Led {
            needed,
            filters: Vec::new(),
        });
        self
    }

    /// Returns the operator of the pattern.
    pub(super) fn plan(self, count: bool) -> Plan {
        Plan::new(Op::Pattern(self), count)
    }
}

/// Returns whether a filter may run anywhere, any number of times.
pub(crate) fn is_movable(f: &Expr) -> bool {
    !f.has_exists() && !f.is_volatile()
}
