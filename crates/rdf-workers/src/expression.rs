//! Traversal of SPARQL expressions: their variables and the patterns inside them.

use crate::visit::{PatternPart, visit_parts};
use esker_rdf::spargebra::algebra::{Expression, Function, GraphPattern};
use esker_rdf::spargebra::term::Variable;
use std::collections::BTreeSet;

/// Collects the operands of nested `&&`.
pub(crate) fn conjuncts<'a>(e: &'a Expression, to: &mut Vec<&'a Expression>) {
    if let Expression::And(a, b) = e {
        conjuncts(a, to);
        conjuncts(b, to);
    } else {
        to.push(e);
    }
}

/// Returns the variables of a deterministic expression; `None` if it contains a pattern, the current time, randomness, or a function that
/// depends on the base IRI.
pub(crate) fn pure_variables(e: &Expression) -> Option<Vec<Variable>> {
    let mut list = Vec::new();
    collect(e, &mut list).then_some(list)
}

fn collect(e: &Expression, to: &mut Vec<Variable>) -> bool {
    let mut pure = match e {
        Expression::Variable(v) | Expression::Bound(v) => {
            to.push(v.clone());
            true
        }
        Expression::Exists(_) => false,
        Expression::FunctionCall(f, _) => !matches!(
            f,
            Function::Rand
                | Function::Now
                | Function::Uuid
                | Function::StrUuid
                | Function::BNode
                | Function::Iri
        ),
        _ => true,
    };
    visit_subexpressions(e, &mut |e| pure &= collect(e, to));
    pure
}

/// Collects the variables that an expression mentions, including those of its patterns.
pub(crate) fn mentioned(e: &Expression, to: &mut BTreeSet<Variable>) {
    if let Expression::Variable(v) | Expression::Bound(v) = e {
        to.insert(v.clone());
    }
    replace(e, &mut |pattern| {
        // A superset of the variables is safe.
        all_variables(pattern, to);
        pattern.clone()
    });
    visit_subexpressions(e, &mut |e| mentioned(e, to));
}

fn all_variables(pattern: &GraphPattern, to: &mut BTreeSet<Variable>) {
    pattern.on_in_scope_variable(|v| {
        to.insert(v.clone());
    });
    visit_parts(pattern, false, &mut |part| {
        if let PatternPart::Expression(e) = part {
            mentioned(e, to);
        }
    });
}

/// Calls `see` for each direct subexpression.
pub(crate) fn visit_subexpressions(e: &Expression, see: &mut dyn FnMut(&Expression)) {
    match e {
        Expression::NamedNode(_)
        | Expression::Literal(_)
        | Expression::Variable(_)
        | Expression::Bound(_)
        | Expression::Exists(_) => {}
        Expression::Or(a, b)
        | Expression::And(a, b)
        | Expression::Equal(a, b)
        | Expression::SameTerm(a, b)
        | Expression::Greater(a, b)
        | Expression::GreaterOrEqual(a, b)
        | Expression::Less(a, b)
        | Expression::LessOrEqual(a, b)
        | Expression::Add(a, b)
        | Expression::Subtract(a, b)
        | Expression::Multiply(a, b)
        | Expression::Divide(a, b) => {
            see(a);
            see(b);
        }
        Expression::UnaryPlus(a) | Expression::UnaryMinus(a) | Expression::Not(a) => see(a),
        Expression::In(a, list) => {
            see(a);
            list.iter().for_each(see);
        }
        Expression::If(a, b, c) => {
            see(a);
            see(b);
            see(c);
        }
        Expression::Coalesce(list) | Expression::FunctionCall(_, list) => {
            list.iter().for_each(see);
        }
    }
}

/// Returns a copy of an expression in which `pattern` has replaced the patterns of EXISTS.
pub(crate) fn replace(
    e: &Expression,
    pattern: &mut dyn FnMut(&GraphPattern) -> GraphPattern,
) -> Expression {
    use Expression as E;
    let mut one = |e: &Expression| Box::new(replace(e, &mut *pattern));
    match e {
        E::NamedNode(_) | E::Literal(_) | E::Variable(_) | E::Bound(_) => e.clone(),
        E::Exists(inner) => E::Exists(Box::new(pattern(inner))),
        E::Or(a, b) => E::Or(one(a), one(b)),
        E::And(a, b) => E::And(one(a), one(b)),
        E::Equal(a, b) => E::Equal(one(a), one(b)),
        E::SameTerm(a, b) => E::SameTerm(one(a), one(b)),
        E::Greater(a, b) => E::Greater(one(a), one(b)),
        E::GreaterOrEqual(a, b) => E::GreaterOrEqual(one(a), one(b)),
        E::Less(a, b) => E::Less(one(a), one(b)),
        E::LessOrEqual(a, b) => E::LessOrEqual(one(a), one(b)),
        E::Add(a, b) => E::Add(one(a), one(b)),
        E::Subtract(a, b) => E::Subtract(one(a), one(b)),
        E::Multiply(a, b) => E::Multiply(one(a), one(b)),
        E::Divide(a, b) => E::Divide(one(a), one(b)),
        E::UnaryPlus(a) => E::UnaryPlus(one(a)),
        E::UnaryMinus(a) => E::UnaryMinus(one(a)),
        E::Not(a) => E::Not(one(a)),
        E::In(a, list) => E::In(one(a), list.iter().map(|e| *one(e)).collect()),
        E::If(a, b, c) => E::If(one(a), one(b), one(c)),
        E::Coalesce(list) => E::Coalesce(list.iter().map(|e| *one(e)).collect()),
        E::FunctionCall(f, list) => {
            E::FunctionCall(f.clone(), list.iter().map(|e| *one(e)).collect())
        }
    }
}
