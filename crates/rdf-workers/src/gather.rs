//! Triples that a query can match at all. Where joins of stars cannot solve a query, these triples are fetched and the coordinator
//! evaluates the query on them.

use crate::expression::visit_subexpressions;
use crate::star::{Variable, any, quads_query};
use crate::visit::{PatternPart, pattern_of, visit_parts};
use esker_rdf::dictionary::Key;
use esker_rdf::spargebra::algebra::{Expression, GraphPattern, PropertyPathExpression};
use esker_rdf::spargebra::term::{TermPattern, TriplePattern};
use esker_rdf::{Query, Term};
use std::collections::BTreeMap;

/// A request for quads: its query, its columns, and the constant terms of the triple pattern as texts ([`Key::put`]).
#[derive(Debug)]
pub(crate) struct Fetch {
    pub(crate) query: String,
    pub(crate) vars: Vec<Variable>,
    constants: [Option<String>; 3],
}

impl Fetch {
    /// Returns the quad of a row: subject, predicate, object; graph.
    pub(crate) fn quad<'k>(&'k self, row: &[Key<'k>]) -> Option<([Key<'k>; 3], Option<Key<'k>>)> {
        let column = |name: &str| {
            let at = self.vars.iter().position(|v| v.as_str() == name)?;
            row.get(at).copied()
        };
        let term = |i: usize, name: &str| match &self.constants[i] {
            Some(text) => Key::take(text),
            None => column(name),
        };
        Some(([term(0, "s")?, term(1, "p")?, term(2, "o")?], column("g")))
    }
}

/// Returns the text of a constant term.
fn constant(term: &TermPattern) -> Option<String> {
    let term: Term = match term {
        TermPattern::NamedNode(n) => n.clone().into(),
        TermPattern::Literal(l) => l.clone().into(),
        // These are columns: the coordinator compares the parts of triple terms.
        TermPattern::BlankNode(_) | TermPattern::Variable(_) | TermPattern::Triple(_) => {
            return None;
        }
    };
    let mut text = String::new();
    Key::with(term.as_ref(), |key| key.put(&mut text));
    Some(text)
}

/// Returns the fetches that suffice to answer the query as from all data.
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
            // With a FROM clause, the graphs that form the default graph are named graphs of the data.
            let (query, vars) = quads_query(&pattern, named || fixed);
            Fetch {
                query,
                vars,
                constants: [
                    constant(&pattern.subject),
                    constant(&pattern.predicate.into()),
                    constant(&pattern.object),
                ],
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
        visit_parts(pattern, named, &mut |part| match part {
            // Only their triples tell which graphs exist.
            PatternPart::Basic([], true) => self.add(any(None), true),
            PatternPart::Basic(patterns, named) => {
                for pattern in patterns {
                    self.add(pattern.clone(), named);
                }
            }
            PatternPart::Path(path, named) => self.path(path, named),
            PatternPart::Expression(e) => self.expression(e, named),
        });
    }

    fn expression(&mut self, e: &Expression, named: bool) {
        if let Expression::Exists(pattern) = e {
            // `visit_parts` does not tell whether the EXISTS is inside GRAPH, so both are fetched.
            self.of(pattern, named);
            self.of(pattern, true);
        }
        visit_subexpressions(e, &mut |e| self.expression(e, named));
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
            // Every node has a zero-length path to itself, and a negated property set matches most predicates.
            PropertyPathExpression::ZeroOrMore(_)
            | PropertyPathExpression::ZeroOrOne(_)
            | PropertyPathExpression::NegatedPropertySet(_) => self.add(any(None), named),
        }
    }
}
