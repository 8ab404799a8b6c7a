//! Random traversals over the small test graph.

use super::generate::slot;
use crate::rng::Rng;
use crate::test_graph::TestGraph;
use esker_model::filter::{Expr, Test};
use esker_model::traversal::{Filter, Hop, Predicate, Repeat, Segment, Start};
use esker_model::{Traversal, Value, Version, VersionRange};

/// Generates a chain of one to four hops, some of them repeating, as of now, in the past or over a range.
pub fn traversal(graph: &TestGraph, rng: &mut Rng) -> Traversal {
    let start = if rng.percent(30) {
        Start::Type(
            (*rng.pick(&["User", "DataObject", "File", "Execution", "Campaign"])).to_owned(),
        )
    } else {
        Start::Vertices(
            (0..=rng.number_below(3))
                .map(|_| graph.vertex(rng).0)
                .collect(),
        )
    };
    let mut segments = Vec::new();
    for _ in 0..rng.number_below(4) {
        let hops = (0..=rng.number_below(2)).map(|_| hop(graph, rng)).collect();
        let repeat = rng.percent(40).then(|| Repeat {
            max: rng.percent(40).then(|| 1 + rng.number_below(3) as u32),
        });
        segments.push(Segment { hops, repeat });
    }
    let mut traversal = Traversal {
        start,
        start_filters: if rng.percent(15) {
            vec![vertex_filter(rng)]
        } else {
            Vec::new()
        },
        start_returned: rng.percent(10),
        segments,
        return_paths: rng.percent(50),
        as_of: None,
        versions: None,
        limit: rng.percent(10).then(|| rng.number_below(4) as u64),
    };
    match rng.number_below(10) {
        0..5 => {}
        5..8 => traversal.as_of = Some(slot(rng)),
        _ => {
            let from = slot(rng);
            let until = if rng.percent(20) {
                Version::MAX
            } else {
                slot(rng).max(from.next())
            };
            traversal.versions = Some(VersionRange { from, until });
        }
    }
    traversal
}

fn hop(graph: &TestGraph, rng: &mut Rng) -> Hop {
    let edge_types = match rng.number_below(4) {
        0 => Vec::new(),
        n => (0..n)
            .filter_map(|_| graph.schema.edge_type(*rng.pick(&graph.edge_types)))
            .map(|t| t.name.clone())
            .collect(),
    };
    Hop {
        edge_types,
        edge_filters: if rng.percent(15) {
            vec![edge_filter(rng)]
        } else {
            Vec::new()
        },
        vertex_filters: if rng.percent(15) {
            vec![vertex_filter(rng)]
        } else {
            Vec::new()
        },
        returned: rng.percent(20),
    }
}

fn version_range(rng: &mut Rng) -> Predicate {
    let (a, b) = (slot(rng), slot(rng));
    Predicate::Range(
        Value::Timestamp(a.min(b).nanos()),
        Value::Timestamp(a.max(b).nanos()),
    )
}

fn vertex_filter(rng: &mut Rng) -> Filter {
    let (attribute, predicate) = match rng.number_below(5) {
        0 => ("type", Predicate::Eq(Value::from("DataObject"))),
        1 => (
            "key",
            Predicate::In(["1", "a", "p"].map(Value::from).to_vec()),
        ),
        2 => ("version", version_range(rng)),
        3 => ("size", Predicate::Range(Value::I64(1), Value::Null)),
        _ => ("tag", Predicate::Eq(Value::I64(1))),
    };
    filter_of(rng, attribute, predicate)
}

fn edge_filter(rng: &mut Rng) -> Filter {
    let (attribute, predicate) = match rng.number_below(3) {
        0 => (
            "type",
            Predicate::In(["read", "write", "similarTo"].map(Value::from).to_vec()),
        ),
        1 => ("version", version_range(rng)),
        _ => ("bytes", Predicate::Range(Value::I64(1), Value::I64(2))),
    };
    filter_of(rng, attribute, predicate)
}

/// A filter in GraphMeta's form or in the filter language, alone or combined.
fn filter_of(rng: &mut Rng, attribute: &str, predicate: Predicate) -> Filter {
    let term = Expr::term(attribute, predicate.test());
    Filter::Where(match rng.number_below(6) {
        0 => term,
        1 => term.negated(),
        2 => term.or(Expr::term("tag", Test::Exists)),
        3 => term.and(Expr::term("version", Test::Exists)),
        _ => {
            return Filter::Attribute {
                attribute: attribute.to_owned(),
                predicate,
            };
        }
    })
}
