//! Decomposition of basic graph patterns. Triple patterns with one subject are a *star*, which the part that holds the subject solves
//! alone. Stars that share variables, directly or through other stars, are a *component*, which joins solve.

use crate::expression::pure_variables;
use esker_rdf::spargebra::algebra::{Expression, GraphPattern, QueryDataset};
use esker_rdf::spargebra::term::{NamedNodePattern, TermPattern, TriplePattern};
use esker_rdf::{Literal, NamedNode, Query};
use std::collections::BTreeSet;
use std::fmt::Write as _;

pub(crate) type Variable = esker_rdf::spargebra::term::Variable;

/// Variable added to stars without variables, so that their solution has a column.
const ONE: &str = "esker_one";

/// Triple patterns with one subject, and filters on their variables alone.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Star {
    pub(crate) patterns: Vec<TriplePattern>,
    pub(crate) filters: Vec<Expression>,
    pub(crate) graph: Option<NamedNodePattern>,
    pub(crate) vars: Vec<Variable>,
}

/// A basic graph pattern to be decomposed, with its filters and its graph.
#[derive(Debug, Clone)]
pub(crate) struct Basic<'a> {
    pub(crate) patterns: &'a [TriplePattern],
    pub(crate) filters: Vec<&'a Expression>,
    pub(crate) graph: Option<&'a NamedNodePattern>,
}

impl Star {
    /// Returns the SPARQL query of the star for one part, projected to `vars`.
    pub(crate) fn query(
        &self,
        vars: &[Variable],
        distinct: bool,
        limit: Option<usize>,
        dataset: Option<&QueryDataset>,
    ) -> String {
        let mut pattern = GraphPattern::Bgp {
            patterns: self.patterns.clone(),
        };
        for filter in &self.filters {
            pattern = GraphPattern::Filter {
                expr: filter.clone(),
                inner: Box::new(pattern),
            };
        }
        if let Some(name) = &self.graph {
            pattern = GraphPattern::Graph {
                name: name.clone(),
                inner: Box::new(pattern),
            };
        }
        if self.vars.iter().any(|v| v.as_str() == ONE) {
            pattern = GraphPattern::Extend {
                inner: Box::new(pattern),
                variable: Variable::new_unchecked(ONE),
                expression: Expression::Literal(Literal::from(1)),
            };
        }
        pattern = GraphPattern::Project {
            inner: Box::new(pattern),
            variables: vars.to_vec(),
        };
        if distinct {
            pattern = GraphPattern::Distinct {
                inner: Box::new(pattern),
            };
        }
        if limit.is_some() {
            pattern = GraphPattern::Slice {
                inner: Box::new(pattern),
                start: 0,
                length: limit,
            };
        }
        Query::Select {
            dataset: dataset.cloned(),
            pattern,
            base_iri: None,
        }
        .to_string()
    }

    /// Returns a rough relative cardinality for ordering joins, from the shape of the patterns only.
    fn weight(&self) -> u32 {
        let of_pattern = |t: &TriplePattern| {
            let of_type =
                matches!(&t.predicate, NamedNodePattern::NamedNode(p) if p.as_str() == RDF_TYPE);
            match (is_constant(&t.subject), is_constant(&t.object), of_type) {
                (true, ..) => 0,
                (_, true, false) => 2,
                (_, true, true) => 5,
                (_, false, _) => 8,
            }
        };
        self.patterns.iter().map(of_pattern).min().unwrap_or(9)
    }
}

const RDF_TYPE: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type";

fn is_constant(term: &TermPattern) -> bool {
    matches!(term, TermPattern::NamedNode(_) | TermPattern::Literal(_))
}

/// Decomposes a basic graph pattern: its components, each with its stars in join order, and the filters that no star could take.
pub(crate) fn components<'a>(basic: &Basic<'a>) -> (Vec<Vec<Star>>, Vec<&'a Expression>) {
    let mut stars: Vec<Star> = Vec::new();
    for pattern in basic.patterns {
        let pattern = named(pattern);
        match stars.iter_mut().find(|s| {
            s.patterns
                .first()
                .is_some_and(|p| p.subject == pattern.subject)
        }) {
            Some(star) => star.patterns.push(pattern),
            None => stars.push(Star {
                patterns: vec![pattern],
                filters: Vec::new(),
                graph: basic.graph.cloned(),
                vars: Vec::new(),
            }),
        }
    }
    for star in &mut stars {
        let mut vars = BTreeSet::new();
        for t in &star.patterns {
            vars.extend(variables(t));
        }
        if let Some(NamedNodePattern::Variable(v)) = &star.graph {
            vars.insert(v.clone());
        }
        if vars.is_empty() {
            vars.insert(Variable::new_unchecked(ONE));
        }
        star.vars = vars.into_iter().collect();
    }
    let mut left = Vec::new();
    for filter in &basic.filters {
        let vars = pure_variables(filter);
        match (vars, stars.len()) {
            (Some(vars), 1..) => match stars
                .iter_mut()
                .find(|s| !vars.is_empty() && vars.iter().all(|v| s.vars.contains(v)))
            {
                Some(star) => star.filters.push((*filter).clone()),
                None => left.push(*filter),
            },
            _ => left.push(*filter),
        }
    }
    (connected(stars), left)
}

/// Groups stars that share variables. Each star after the first shares a variable with an earlier one; stars of low weight come first.
fn connected(mut stars: Vec<Star>) -> Vec<Vec<Star>> {
    let mut found = Vec::new();
    while !stars.is_empty() {
        let mut component: Vec<Star> = Vec::new();
        loop {
            let next = stars
                .iter()
                .enumerate()
                .filter(|(_, s)| {
                    component.is_empty()
                        || component
                            .iter()
                            .any(|c| c.vars.iter().any(|v| s.vars.contains(v)))
                })
                .min_by_key(|(i, s)| (s.weight(), *i))
                .map(|(i, _)| i);
            let Some(next) = next else { break };
            component.push(stars.remove(next));
        }
        found.push(component);
    }
    found
}

/// Replaces blank nodes of a triple pattern, also within triple terms, by variables: stars share them, and blank node labels differ between parts.
fn named(pattern: &TriplePattern) -> TriplePattern {
    let term = |t: &TermPattern| match t {
        TermPattern::BlankNode(b) => blank(b.as_str()).into(),
        TermPattern::Triple(t) => named(t).into(),
        other => other.clone(),
    };
    TriplePattern {
        subject: term(&pattern.subject),
        predicate: pattern.predicate.clone(),
        object: term(&pattern.object),
    }
}

/// Returns the variable that replaces a blank node of a query. Its prefix avoids collisions with names in queries.
pub(crate) fn blank(label: &str) -> Variable {
    let mut name = "esker_blank_".to_owned();
    for byte in label.bytes() {
        // Writing into a `String` cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    Variable::new_unchecked(name)
}

/// Returns the variables that replace the blank nodes of a triple pattern.
pub(crate) fn blanks(t: &TriplePattern) -> Vec<Variable> {
    let of = |term: &TermPattern| match term {
        TermPattern::BlankNode(b) => vec![blank(b.as_str())],
        TermPattern::Triple(t) => blanks(t),
        _ => Vec::new(),
    };
    [of(&t.subject), of(&t.object)].concat()
}

/// Returns the variables of a triple pattern, including those of its triple terms.
pub(crate) fn variables(t: &TriplePattern) -> Vec<Variable> {
    let mut list = Vec::new();
    for term in [&t.subject, &t.object] {
        match term {
            TermPattern::Variable(v) => list.push(v.clone()),
            TermPattern::BlankNode(b) => list.push(blank(b.as_str())),
            TermPattern::Triple(t) => list.extend(variables(t)),
            TermPattern::NamedNode(_) | TermPattern::Literal(_) => {}
        }
    }
    if let NamedNodePattern::Variable(v) = &t.predicate {
        list.push(v.clone());
    }
    list
}

/// Returns a query for all solutions of a triple pattern as quads: with the graph's name, or without for the default graph.
pub(crate) fn quads_query(pattern: &TriplePattern, named_graphs: bool) -> (String, Vec<Variable>) {
    let place = |name: &str| Variable::new_unchecked(name);
    let (s, p, o) = (place("s"), place("p"), place("o"));
    let subject = match &pattern.subject {
        t if is_constant(t) => t.clone(),
        _ => s.clone().into(),
    };
    let predicate = match &pattern.predicate {
        t @ NamedNodePattern::NamedNode(_) => t.clone(),
        NamedNodePattern::Variable(_) => p.clone().into(),
    };
    let object = match &pattern.object {
        t if is_constant(t) => t.clone(),
        _ => o.clone().into(),
    };
    let mut vars = Vec::new();
    for (term, var) in [(&subject, &s), (&object, &o)] {
        if !is_constant(term) {
            vars.push(var.clone());
        }
    }
    if matches!(predicate, NamedNodePattern::Variable(_)) {
        vars.push(p);
    }
    let mut inner = GraphPattern::Bgp {
        patterns: vec![TriplePattern {
            subject,
            predicate,
            object,
        }],
    };
    if named_graphs {
        let g = place("g");
        vars.push(g.clone());
        inner = GraphPattern::Graph {
            name: g.into(),
            inner: Box::new(inner),
        };
    }
    if vars.is_empty() {
        let one = Variable::new_unchecked(ONE);
        vars.push(one.clone());
        inner = GraphPattern::Extend {
            inner: Box::new(inner),
            variable: one,
            expression: Expression::Literal(Literal::from(1)),
        };
    }
    let query = Query::Select {
        dataset: None,
        pattern: GraphPattern::Project {
            inner: Box::new(inner),
            variables: vars.clone(),
        },
        base_iri: None,
    };
    (query.to_string(), vars)
}

/// Returns a pattern that matches all triples, or those of one predicate.
pub(crate) fn any(predicate: Option<&NamedNode>) -> TriplePattern {
    let place = |name: &str| Variable::new_unchecked(name);
    TriplePattern {
        subject: place("s").into(),
        predicate: match predicate {
            Some(p) => p.clone().into(),
            None => place("p").into(),
        },
        object: place("o").into(),
    }
}
