//! The parts that patterns consist of.

use esker_rdf::Query;
use esker_rdf::spargebra::algebra::{
    AggregateExpression, Expression, GraphPattern, OrderExpression, PropertyPathExpression,
};
use esker_rdf::spargebra::term::TriplePattern;

/// The pattern of a query.
pub(crate) fn pattern_of(query: &Query) -> &GraphPattern {
    match query {
        Query::Select { pattern, .. }
        | Query::Construct { pattern, .. }
        | Query::Describe { pattern, .. }
        | Query::Ask { pattern, .. } => pattern,
    }
}

/// A part of a pattern.
pub(crate) enum Seen<'a> {
    /// A basic graph pattern, and whether it is asked of named graphs.
    Basic(&'a [TriplePattern], bool),
    /// A path.
    Path(&'a PropertyPathExpression, bool),
    /// An expression.
    Expression(&'a Expression),
}

/// Shows the parts of a pattern, but not those of patterns within expressions.
pub(crate) fn each<'a>(pattern: &'a GraphPattern, named: bool, see: &mut dyn FnMut(Seen<'a>)) {
    match pattern {
        GraphPattern::Bgp { patterns } => see(Seen::Basic(patterns, named)),
        GraphPattern::Path { path, .. } => see(Seen::Path(path, named)),
        GraphPattern::Join { left, right }
        | GraphPattern::Union { left, right }
        | GraphPattern::Minus { left, right } => {
            each(left, named, see);
            each(right, named, see);
        }
        GraphPattern::LeftJoin {
            left,
            right,
            expression,
        } => {
            each(left, named, see);
            each(right, named, see);
            if let Some(e) = expression {
                see(Seen::Expression(e));
            }
        }
        GraphPattern::Filter { expr, inner } => {
            each(inner, named, see);
            see(Seen::Expression(expr));
        }
        GraphPattern::Graph { inner, .. } => {
            if named {
                // The outer one only says which graphs there are.
                see(Seen::Basic(&[], true));
            }
            each(inner, true, see);
        }
        GraphPattern::Extend {
            inner, expression, ..
        } => {
            each(inner, named, see);
            see(Seen::Expression(expression));
        }
        GraphPattern::OrderBy { inner, expression } => {
            each(inner, named, see);
            for e in expression {
                let (OrderExpression::Asc(e) | OrderExpression::Desc(e)) = e;
                see(Seen::Expression(e));
            }
        }
        GraphPattern::Group {
            inner, aggregates, ..
        } => {
            each(inner, named, see);
            for (_, aggregate) in aggregates {
                if let AggregateExpression::FunctionCall { expr, .. } = aggregate {
                    see(Seen::Expression(expr));
                }
            }
        }
        GraphPattern::Project { inner, .. }
        | GraphPattern::Distinct { inner }
        | GraphPattern::Reduced { inner }
        | GraphPattern::Slice { inner, .. } => each(inner, named, see),
        GraphPattern::Values { .. } | GraphPattern::Service { .. } => {
            if named {
                see(Seen::Basic(&[], true));
            }
        }
    }
}
