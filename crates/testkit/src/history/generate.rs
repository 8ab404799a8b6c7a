//! Random batches over the small test graph.

use super::{START_MILLIS, Step};
use crate::rng::Rng;
use crate::test_graph::TestGraph;
use esker_model::{Batch, Mutation, Op, Properties, Value, Version, VertexRef};

pub(super) fn step(graph: &TestGraph, rng: &mut Rng) -> Step {
    match rng.number_below(100) {
        0..58 => Step::Apply(batch(graph, rng)),
        58..64 => {
            let count = 2 + rng.number_below(4);
            Step::Group((0..count).map(|_| batch(graph, rng)).collect())
        }
        64..72 => {
            let count = 1 + rng.number_below(30);
            Step::Bulk((0..count).map(|_| mutation(graph, rng, 70)).collect())
        }
        72..76 => Step::Compact(slot(rng)),
        76..80 => Step::Check,
        80..83 => Step::Persist,
        83..86 => Step::Close,
        86..89 => Step::Drop,
        89..93 => Step::Crash(rng.number_below(101)),
        _ => Step::Clock(rng.number_below(14) as i64 - 5),
    }
}

/// A version near the clock's, one of a few, so that versions coincide.
pub(super) fn slot(rng: &mut Rng) -> Version {
    Version::new(
        START_MILLIS + rng.number_below(40) as u64,
        [0, 0, 0, 1][rng.number_below(4)],
    )
}

/// Generates a batch of one to five changes, sometimes with an idempotency key, sometimes with a change that must be refused.
pub fn batch(graph: &TestGraph, rng: &mut Rng) -> Batch {
    let explicit = [0, 50, 100][rng.number_below(3)];
    let mut batch = Batch::new();
    for _ in 0..=rng.number_below(5) {
        batch.mutations.push(mutation(graph, rng, explicit));
    }
    if rng.percent(5) {
        batch.mutations.push(bad(graph, rng));
    }
    if rng.percent(10) {
        batch.idempotency_key = Some(vec![b'm', rng.number_below(4) as u8]);
    }
    batch
}

/// A random change, with an explicit version in `explicit` percent of cases.
fn mutation(graph: &TestGraph, rng: &mut Rng, explicit: usize) -> Mutation {
    let version = rng.percent(explicit).then(|| slot(rng));
    Mutation {
        version,
        op: op(graph, rng),
    }
}

fn op(graph: &TestGraph, rng: &mut Rng) -> Op {
    let (name, vertex) = graph.vertex(rng);
    let key = name.key;
    match rng.number_below(100) {
        0..14 => Op::PutVertex {
            vertex,
            key,
            attributes: attributes(graph, vertex, rng),
        },
        14..20 => {
            let declared = |name: &&str| graph.schema.attribute(vertex.type_id, name).is_some();
            let remove = ["size", "name"].into_iter().filter(declared);
            Op::ChangeVertex {
                vertex,
                set: attributes(graph, vertex, rng),
                remove: remove
                    .filter(|_| rng.percent(20))
                    .map(str::to_owned)
                    .collect(),
            }
        }
        20..34 => Op::EnsureVertex { vertex, key },
        34..48 => {
            let mut set = Properties::new();
            let mut remove = Vec::new();
            for name in ["tag", "note", "t"] {
                match rng.number_below(5) {
                    0 | 1 => set.set(name, value(rng)),
                    2 => remove.push(name.to_owned()),
                    _ => {}
                }
            }
            Op::SetAttributes {
                vertex,
                set,
                remove,
            }
        }
        48..57 => Op::DeleteVertex { vertex },
        57..90 => {
            let (source, edge_type, destination) = graph.edge(rng);
            let mut properties = Properties::new();
            if rng.percent(70) {
                properties.set("bytes", rng.number_below(3) as i64);
            }
            Op::PutEdge {
                source,
                edge_type,
                destination,
                properties,
            }
        }
        _ => {
            let (source, edge_type, destination) = graph.edge(rng);
            Op::DeleteEdge {
                source,
                edge_type,
                destination,
            }
        }
    }
}

fn attributes(graph: &TestGraph, vertex: VertexRef, rng: &mut Rng) -> Properties {
    let mut attributes = Properties::new();
    for name in ["size", "name"] {
        if rng.percent(50)
            && let Some(declared) = graph.schema.attribute(vertex.type_id, name)
        {
            let number = rng.number_below(3) as i64;
            if declared.kind.accepts(&Value::I64(number)) {
                attributes.set(name, number);
            } else {
                attributes.set(name, number.to_string());
            }
        }
    }
    attributes
}

fn value(rng: &mut Rng) -> Value {
    match rng.number_below(6) {
        0 => Value::Null,
        1 => Value::Bool(true),
        2 => Value::List(vec![Value::I64(1), Value::from("x")]),
        _ => Value::I64(rng.number_below(3) as i64),
    }
}

/// A change that is always refused.
fn bad(graph: &TestGraph, rng: &mut Rng) -> Mutation {
    let (name, vertex) = graph.vertex(rng);
    let key = name.key;
    let put = |attributes| Op::PutVertex {
        vertex,
        key: key.clone(),
        attributes,
    };
    let op = match rng.number_below(5) {
        0 => put(Properties::new().with("no such attribute", 1)),
        1 => put(Properties::new().with("name", 7)),
        2 if rng.percent(50) => Op::ChangeVertex {
            vertex,
            set: Properties::new(),
            remove: vec!["no such attribute".into()],
        },
        2 => Op::EnsureVertex {
            vertex,
            key: "another".into(),
        },
        3 => Op::SetAttributes {
            vertex: VertexRef {
                id: esker_model::VertexId::of("File", "never"),
                type_id: vertex.type_id,
            },
            set: Properties::new().with("tag", 1),
            remove: Vec::new(),
        },
        _ => {
            return Mutation {
                version: Some(Version::MAX),
                op: Op::EnsureVertex { vertex, key },
            };
        }
    };
    Mutation { version: None, op }
}
