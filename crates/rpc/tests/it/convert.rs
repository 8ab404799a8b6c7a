//! Tests of the conversion of the model's types to messages and back.

use crate::decode;
use crate::objects::{identity, object_id};
use esker_model::record::UserAttribute;
use esker_model::traversal::{
    Budget, PathNode, PathStep, Paths, ServerStep, StepProfile, Stop, StopReason,
    Strategy as Engine, TravelResult, WorkingSet,
};
use esker_model::{
    AttributeDefinition, Batch, Difference, Edge, EdgeEvent, EdgeKey, EdgeSelect, EdgeTypeId,
    Mutation, Op, Properties, Schema, SchemaChange, Value, ValueKind, Version, VersionRange,
    Versions, Vertex, VertexChange, VertexEvent, VertexId, VertexRef, VertexTypeId,
};
use esker_rpc::convert::{self, Form};
use esker_rpc::proto;
use proptest::collection::vec;
use proptest::prelude::*;

pub(crate) fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::I64),
        // NaN is not equal to itself.
        any::<f64>()
            .prop_filter("a number", |x| !x.is_nan())
            .prop_map(Value::F64),
        ".{0,12}".prop_map(Value::String),
        vec(any::<u8>(), 0..12).prop_map(Value::Bytes),
        any::<i64>().prop_map(Value::Timestamp),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| vec(inner, 0..4).prop_map(Value::List))
}

pub(crate) fn properties() -> impl Strategy<Value = Properties> {
    vec((".{1,8}", value()), 0..5).prop_map(|pairs| pairs.into_iter().collect())
}

fn id() -> impl Strategy<Value = VertexId> {
    any::<[u8; 16]>().prop_map(VertexId)
}

pub(crate) fn version() -> impl Strategy<Value = Version> {
    any::<u64>().prop_map(Version)
}

fn range() -> impl Strategy<Value = VersionRange> {
    (version(), version()).prop_map(|(from, until)| VersionRange { from, until })
}

fn vertex_ref() -> impl Strategy<Value = VertexRef> {
    (id(), any::<u16>()).prop_map(|(id, t)| VertexRef {
        id,
        type_id: VertexTypeId(t),
    })
}

fn key() -> impl Strategy<Value = EdgeKey> {
    (id(), any::<u16>(), id()).prop_map(|(source, t, destination)| EdgeKey {
        source,
        edge_type: EdgeTypeId(t),
        destination,
    })
}

fn edge() -> impl Strategy<Value = Edge> {
    (key(), version(), any::<bool>(), properties()).prop_map(
        |(key, version, deleted, properties)| Edge {
            key,
            version,
            deleted,
            properties,
        },
    )
}

fn vertex() -> impl Strategy<Value = Vertex> {
    let user = vec((".{1,8}", version(), value()), 0..4).prop_map(|mut all| {
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all.dedup_by(|a, b| a.0 == b.0);
        all.into_iter()
            .map(|(name, version, value)| UserAttribute {
                name,
                version,
                value,
            })
            .collect::<Vec<_>>()
    });
    (
        vertex_ref(),
        ".{0,12}",
        version(),
        any::<bool>(),
        properties(),
        user,
    )
        .prop_map(|(v, key, version, deleted, attributes, user)| Vertex {
            id: v.id,
            type_id: v.type_id,
            key,
            version,
            deleted,
            attributes,
            user,
        })
}

fn op() -> impl Strategy<Value = Op> {
    let key_text = "[a-z/]{1,12}";
    prop_oneof![
        (vertex_ref(), key_text, properties()).prop_map(|(vertex, key, attributes)| {
            Op::PutVertex {
                vertex,
                key,
                attributes,
            }
        }),
        (vertex_ref(), key_text).prop_map(|(vertex, key)| Op::EnsureVertex { vertex, key }),
        (vertex_ref(), properties(), vec(".{0,8}", 0..3)).prop_map(|(vertex, set, remove)| {
            Op::SetAttributes {
                vertex,
                set,
                remove,
            }
        }),
        vertex_ref().prop_map(|vertex| Op::DeleteVertex { vertex }),
        (vertex_ref(), any::<u16>(), vertex_ref(), properties()).prop_map(
            |(source, t, destination, properties)| Op::PutEdge {
                source,
                edge_type: EdgeTypeId(t),
                destination,
                properties
            }
        ),
        (vertex_ref(), any::<u16>(), vertex_ref()).prop_map(|(source, t, destination)| {
            Op::DeleteEdge {
                source,
                edge_type: EdgeTypeId(t),
                destination,
            }
        }),
        (identity(), properties(), properties()).prop_map(|(identity, attributes, tags)| {
            Op::CreateObject {
                identity,
                attributes,
                tags,
            }
        }),
        (object_id(), identity(), identity())
            .prop_map(|(object, from, to)| { Op::MoveObject { object, from, to } }),
    ]
}

pub(crate) fn batch() -> impl Strategy<Value = Batch> {
    let mutation =
        (proptest::option::of(version()), op()).prop_map(|(version, op)| Mutation { version, op });
    let idempotency_key = proptest::option::of(vec(any::<u8>(), 1..20));
    (vec(mutation, 0..6), idempotency_key).prop_map(|(mutations, idempotency_key)| Batch {
        mutations,
        idempotency_key,
    })
}

/// Encodes and decodes a message.
pub(crate) fn sent<M: prost::Message + Default>(message: &M) -> M {
    M::decode(&message.encode_to_vec()[..]).unwrap()
}

pub(crate) const FORMS: [Form; 2] = [Form::Packed, Form::Typed];

proptest! {
    #[test]
    fn vertices_and_edges_come_back(vertex in vertex(), edge in edge()) {
        for form in FORMS {
            let back = decode::vertex_in(sent(&convert::vertex_out(&vertex, form))).unwrap();
            prop_assert_eq!(&back, &vertex);
            let back = decode::edge_in(sent(&convert::edge_out(&edge, form))).unwrap();
            prop_assert_eq!(&back, &edge);
            let frontier = [VertexId([7; 16]), edge.key.source];
            let message = sent(&convert::scanned_out(1, &edge, form));
            prop_assert_eq!(decode::scanned_in(message, &frontier).unwrap(), (1, edge.clone()));
            for difference in [
                Difference::Vertex(None, Some(vertex.clone())),
                Difference::Edge(Some(edge.clone()), None),
            ] {
                let message = sent(&convert::difference_out(&difference, form));
                prop_assert_eq!(decode::difference_in(message).unwrap(), difference);
            }
        }
    }

    #[test]
    fn events_come_back(edge in edge(), put in properties(), set in value(), version in version(), archived: bool) {
        for form in FORMS {
            for change in [
                VertexChange::Put(put.clone()),
                VertexChange::Deleted,
                VertexChange::Set("x".into(), set.clone()),
                VertexChange::Removed("x".into()),
            ] {
                let event = VertexEvent { version, change, archived };
                let message = sent(&convert::vertex_event_out(&event, form));
                prop_assert_eq!(decode::vertex_event_in(message).unwrap(), event);
            }
            let event = EdgeEvent { edge: edge.clone(), archived };
            let message = sent(&convert::edge_event_out(&event, form));
            prop_assert_eq!(decode::edge_event_in(message).unwrap(), event);
        }
    }

    #[test]
    fn batches_come_back(batch in batch(), sync: bool) {
        let message = sent(&convert::batch_out(&batch, sync));
        let back = convert::batch_in(message, &Schema::default()).unwrap();
        prop_assert_eq!(back, (batch, sync));
    }

    #[test]
    fn selections_come_back(
        frontier in vec(id(), 0..5),
        types in vec(any::<u16>(), 0..3),
        at in version(),
        range in range(),
        properties: bool,
    ) {
        for versions in [Versions::NOW, Versions::AsOf(at), Versions::Range(range)] {
            let types: Vec<_> = types.iter().map(|t| EdgeTypeId(*t)).collect();
            let select = EdgeSelect { types, versions, properties, after: None, };
            let message = sent(&decode::select_out(&frontier, &select));
            let back = convert::select_in(&message, &Schema::default()).unwrap();
            prop_assert_eq!(back, (frontier.clone(), select));
        }
    }

    #[test]
    fn results_of_traversals_come_back(
        sets in vec((any::<u32>(), vec(id(), 0..4)), 0..3),
        nodes in proptest::option::of(vec((any::<u32>(), id(), any::<bool>(), vec(key(), 0..3)), 0..4)),
        as_of in version(),
    ) {
        let node = |(level, vertex, end, edges): (u32, VertexId, bool, Vec<EdgeKey>)| PathNode {
            level,
            vertex,
            end,
            parents: edges.into_iter().map(|edge| PathStep { parent: 0, edge, version: as_of }).collect(),
        };
        let result = TravelResult {
            sets: sets.into_iter().map(|(hop, vertices)| WorkingSet { hop, vertices }).collect(),
            paths: nodes.map(|nodes| Paths { nodes: nodes.into_iter().map(node).collect() }),
            complete: false,
            stopped: vec![Stop { reason: StopReason::Edges, step: 3, vertices_left: 9 }],
            profile: vec![StepProfile {
                step: 1, text: "e(\"x\").v()".into(), frontier: 1, edges: 2, selected: 3, reached: 4, cached: 5, micros: 6,
            }],
            servers: vec![ServerStep {
                server: 2, step: 1, frontier: 3, edges: 4, vertices_micros: 5, edges_micros: 6, prefetch_micros: 7, wait_micros: 8,
            }],
            as_of,
        };
        prop_assert_eq!(assembled(&result), result);
    }
}

fn assembled(result: &TravelResult) -> TravelResult {
    let mut assembly = decode::Assembly::default();
    convert::pieces(result.clone(), |piece| {
        assembly.take(sent(&piece)).map_err(|e| format!("{e:?}"))
    })
    .unwrap();
    assembly.finish().unwrap()
}

/// Large sets and paths are sent in several pieces.
#[test]
fn a_large_result_comes_back() {
    let ids = (0..5_000_u32).map(|n| {
        let mut id = [0; 16];
        id[..4].copy_from_slice(&n.to_be_bytes());
        VertexId(id)
    });
    let vertices: Vec<_> = ids.collect();
    let node = |id: &VertexId| PathNode {
        level: 0,
        vertex: *id,
        end: true,
        parents: vec![],
    };
    let result = TravelResult {
        paths: Some(Paths {
            nodes: vertices.iter().map(node).collect(),
        }),
        sets: vec![
            WorkingSet {
                hop: 0,
                vertices: vertices.clone(),
            },
            WorkingSet {
                hop: 1,
                vertices: vec![],
            },
            WorkingSet { hop: 1, vertices },
        ],
        complete: true,
        stopped: vec![],
        profile: vec![],
        servers: vec![],
        as_of: Version(5),
    };
    assert_eq!(assembled(&result), result);
}

#[test]
fn budgets_come_back() {
    let traversal = esker_model::Traversal::parse("v(\"user:1\").e(\"run\").v()").unwrap();
    for strategy in Engine::ALL {
        let budget = Budget {
            steps: Some(3),
            edges: None,
            bytes: Some(5),
            millis: None,
            strategy,
        };
        let request = sent(&decode::budget_out(&traversal, &budget));
        assert_eq!(convert::budget_in(&request), budget);
        assert_eq!(convert::traversal_in(&request).unwrap(), traversal);
    }
}

#[test]
fn schemas_come_back() {
    let mut schema = Schema::default();
    let changes = [
        SchemaChange::VertexType {
            name: "Sensor".into(),
            parent: Some("DataObject".into()),
            attributes: ValueKind::ALL
                .iter()
                .map(|kind| AttributeDefinition {
                    name: kind.name().into(),
                    kind: *kind,
                })
                .collect(),
        },
        SchemaChange::EdgeType {
            name: "near".into(),
            inverse: "near".into(),
            source: "Sensor".into(),
            destination: "Sensor".into(),
        },
        SchemaChange::Attribute {
            vertex_type: "Job".into(),
            attribute: AttributeDefinition {
                name: "queue".into(),
                kind: ValueKind::String,
            },
        },
    ];
    for change in &changes {
        let back = convert::change_in(sent(&convert::change_out(change))).unwrap();
        assert_eq!(back, *change);
        schema.apply(&back).unwrap();
    }
    assert_eq!(
        convert::schema_in(sent(&convert::schema_out(&schema))).unwrap(),
        schema
    );
}

/// Other clients may use names instead of numbers.
#[test]
fn names_stand_for_numbers() {
    let schema = Schema::default();
    let named = |name: &str| proto::VertexRef {
        name: name.into(),
        ..Default::default()
    };
    let request = proto::ApplyRequest {
        mutations: vec![
            proto::Mutation {
                version: None,
                op: Some(proto::mutation::Op::PutVertex(proto::PutVertex {
                    vertex: Some(named("file:/a")),
                    ..Default::default()
                })),
            },
            proto::Mutation {
                version: None,
                op: Some(proto::mutation::Op::PutEdge(proto::PutEdge {
                    source: Some(named("job:1")),
                    type_name: "write".into(),
                    destination: Some(named("file:/a")),
                    ..Default::default()
                })),
            },
        ],
        ..Default::default()
    };
    let (batch, _) = convert::batch_in(request, &schema).unwrap();
    let file = VertexRef {
        id: VertexId::of("file", "/a"),
        type_id: schema.vertex_type_id("File").unwrap(),
    };
    assert!(
        matches!(&batch.mutations[0].op, Op::PutVertex { vertex, key, .. } if *vertex == file && key == "/a")
    );
    assert!(
        matches!(&batch.mutations[1].op, Op::PutEdge { destination, .. } if *destination == file)
    );
    // An edge stores the ids of its ends: their names are kept by mentions.
    let mentioned = batch.mutations[2..]
        .iter()
        .map(|mutation| match &mutation.op {
            Op::EnsureVertex { key, .. } => key.as_str(),
            other => panic!("{other:?}"),
        });
    assert_eq!(mentioned.collect::<Vec<_>>(), ["1", "/a"]);
}
