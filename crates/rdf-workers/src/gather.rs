//! Which triples a query may ask at all: for what is not solved by joins of stars, these are fetched, and the query is
//! answered here.

use crate::expression::below;
use crate::star::{Variable, any, quads_query};
use crate::walk::{Seen, each, pattern_of};
use esker_rdf::Query;
use esker_rdf::dictionary::Key;
use esker_rdf::spargebra::algebra::{Expression, GraphPattern, PropertyPathExpression};
use esker_rdf::spargebra::term::{NamedNodePattern, TermPattern, TriplePattern};
use std::collections::BTreeMap;

/// Quads that are fetched: the question for them, which of its columns say what, and what the others are.
#[derive(Debug)]
pub(crate) struct Fetch {
    pub(crate) query: String,
    pub(crate) vars: Vec<Variable>,
    pattern: TriplePattern,
}

impl Fetch {
    /// The quad of a row: subject, predicate, object, graph.
    pub(crate) fn quad<'k>(&'k self, row: &[Key<'k>]) -> Option<([Key<'k>; 3], Option<Key<'k>>)> {
        let column = |name: &str| {
            let at = self.vars.iter().position(|v| v.as_str() == name)?;
            row.get(at).copied()
        };
        let term = |term: &'k TermPattern, name: &str| match term {
            TermPattern::NamedNode(n) => Some(Key::Iri(n.as_str())),
            TermPattern::Literal(l) => Some(Key::of_literal(l.as_ref())),
            _ => column(name),
        };
        let predicate = match &self.pattern.predicate {
            NamedNodePattern::NamedNode(n) => Some(Key::Iri(n.as_str())),
            NamedNodePattern::Variable(_) => column("p"),
        };
        Some((
            [
                term(&self.pattern.subject, "s")?,
                predicate?,
                term(&self.pattern.object, "o")?,
            ],
            column("g"),
        ))
    }
}

/// What must be fetched so that the query has the same answer as of all data.
pub(crate) fn fetches(query: &Query) -> Vec<Fetch> {
    let mut found = Patterns::default();
    let fixed = query.dataset().is_some();
    found.of(pattern_of(query), false);
    if matches!(query, Query::Describe { .. }) {
        found.add(any(None), false);
    }
    found
        .list
        .into_values()
        .map(|(pattern, named)| {
            // Graphs that the query puts together are named ones.
            let (query, vars) = quads_query(&pattern, named || fixed);
            Fetch {
                query,
                vars,
                pattern,
            }
        })
        .collect()
}

#[derive(Default)]
struct Patterns {
    list: BTreeMap<String, (TriplePattern, bool)>,
}

impl Patterns {
    fn add(&mut self, pattern: TriplePattern, named: bool) {
        self.list
            .entry(quads_query(&pattern, named).0)
            .or_insert((pattern, named));
    }

    fn of(&mut self, pattern: &GraphPattern, named: bool) {
        each(pattern, named, &mut |part| match part {
            // Which graphs there are is told by their triples only.
            Seen::Basic([], true) => self.add(any(None), true),
            Seen::Basic(patterns, named) => {
                for pattern in patterns {
                    self.add(pattern.clone(), named);
                }
            }
            Seen::Path(path, named) => self.path(path, named),
            Seen::Expression(e) => self.expression(e, named),
        });
    }

    fn expression(&mut self, e: &Expression, named: bool) {
        if let Expression::Exists(pattern) = e {
            // It may stand within GRAPH or not: `each` does not say. Both are fetched.
            self.of(pattern, named);
            self.of(pattern, true);
        }
        below(e, &mut |e| self.expression(e, named));
    }

    fn path(&mut self, path: &PropertyPathExpression, named: bool) {
        match path {
            PropertyPathExpression::NamedNode(p) => self.add(any(Some(p)), named),
            PropertyPathExpression::Reverse(p) | PropertyPathExpression::OneOrMore(p) => {
                self.path(p, named);
            }
            PropertyPathExpression::Sequence(a, b) | PropertyPathExpression::Alternative(a, b) => {
                self.path(a, named);
                self.path(b, named);
            }
            // All nodes have a path of no steps to themselves; all predicates but some are many.
            PropertyPathExpression::ZeroOrMore(_)
            | PropertyPathExpression::ZeroOrOne(_)
            | PropertyPathExpression::NegatedPropertySet(_) => self.add(any(None), named),
        }
    }
}
