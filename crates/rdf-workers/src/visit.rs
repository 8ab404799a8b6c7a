//! Visitor of the parts of graph patterns.

use esker_rdf::Query;
use esker_rdf::spargebra::algebra::{
    AggregateExpression, Expression, GraphPattern, OrderExpression, PropertyPathExpression,
};
use esker_rdf::spargebra::term::TriplePattern;

/// Returns the graph pattern of a query.
pub(crate) fn pattern_of(query: &Query) -> &GraphPattern {
    match query {
        Query::Select { pattern, .. }
        | Query::Construct { pattern, .. }
        | Query::Describe { pattern, .. }
        | Query::Ask { pattern, .. } => pattern,
    }
}

/// A part of a graph pattern.
pub(crate) enum PatternPart<'a> {
    /// A basic graph pattern, and whether it is matched against named graphs.
    Basic(&'a [TriplePattern], bool),
    /// A property path, and whether it is matched against named graphs.
    Path(&'a PropertyPathExpression, bool),
    /// An expression of a filter, BIND, ORDER BY or aggregate.
    Expression(&'a Expression),
}

/// Calls `see` for each part of a pattern, except parts of patterns within expressions.
pub(crate) fn visit_parts<'a>(
    pattern: &'a GraphPattern,
    named: bool,
    see: &mut dyn FnMut(PatternPart<'a>),
) {
    match pattern {
        GraphPattern::Bgp { patterns } => see(PatternPart::Basic(patterns, named)),
        GraphPattern::Path { path, .. } => see(PatternPart::Path(path, named)),
        GraphPattern::Join { left, right }
        | GraphPattern::Union { left, right }
        | GraphPattern::Minus { left, right } => {
            visit_parts(left, named, see);
            visit_parts(right, named, see);
        }
        GraphPattern::LeftJoin {
            left,
            right,
            expression,
        } => {
            visit_parts(left, named, see);
            visit_parts(right, named, see);
            if let Some(e) = expression {
                see(PatternPart::Expression(e));
            }
        }
        GraphPattern::Filter { expr, inner } => {
            visit_parts(inner, named, see);
            see(PatternPart::Expression(expr));
        }
        GraphPattern::Graph { inner, .. } => {
            if named {
                // The outer GRAPH only restricts to graphs that exist.
                see(PatternPart::Basic(&[], true));
            }
            visit_parts(inner, true, see);
        }
        GraphPattern::Extend {
            inner, expression, ..
        } => {
            visit_parts(inner, named, see);
            see(PatternPart::Expression(expression));
        }
        GraphPattern::OrderBy { inner, expression } => {
            visit_parts(inner, named, see);
            for e in expression {
                let (OrderExpression::Asc(e) | OrderExpression::Desc(e)) = e;
                see(PatternPart::Expression(e));
            }
        }
        GraphPattern::Group {
            inner, aggregates, ..
        } => {
            visit_parts(inner, named, see);
            for (_, aggregate) in aggregates {
                if let AggregateExpression::FunctionCall { expr, .. } = aggregate {
                    see(PatternPart::Expression(expr));
                }
            }
        }
        GraphPattern::Project { inner, .. }
        | GraphPattern::Distinct { inner }
        | GraphPattern::Reduced { inner }
        | GraphPattern::Slice { inner, .. } => visit_parts(inner, named, see),
        GraphPattern::Values { .. } | GraphPattern::Service { .. } => {
            if named {
                see(PatternPart::Basic(&[], true));
            }
        }
    }
}
