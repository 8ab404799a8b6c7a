//! Round trips of all messages, and decoding of invalid bytes without panics.

use super::*;
use esker_engine::{DirectorySums, PlannedRow};
use esker_model::key::{Counter, Measure, RowKey, SpaceKey};
use esker_model::namespace::{
    AppliedChange, Change as NamesChange, Errno, Name, NamePath, SpaceBy,
};
use esker_model::object::{Identity, ObjectId, Principal};
use esker_model::record::UserAttribute;
use esker_model::traversal::{Budget, StopReason, Strategy as Engine};
use esker_model::wire::{Wire, decode, encode};
use esker_model::{
    AttributeDefinition, Mutation, Op, Properties, Traversal, ValueKind, Versions, VertexChange,
    VertexRef, VertexTypeId,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use std::fmt::Debug;

fn id() -> impl Strategy<Value = VertexId> {
    any::<[u8; 16]>().prop_map(VertexId)
}

fn version() -> impl Strategy<Value = Version> {
    any::<u64>().prop_map(Version)
}

fn range() -> impl Strategy<Value = VersionRange> {
    (version(), version()).prop_map(|(from, until)| VersionRange { from, until })
}

fn key() -> impl Strategy<Value = EdgeKey> {
    (id(), any::<u16>(), id()).prop_map(|(source, t, destination)| EdgeKey {
        source,
        edge_type: EdgeTypeId(t),
        destination,
    })
}

fn properties() -> impl Strategy<Value = Properties> {
    vec((".{1,6}", any::<i64>()), 0..3).prop_map(|pairs| {
        let with = |all: Properties, (name, value): (String, i64)| all.with(&name, value);
        pairs.into_iter().fold(Properties::new(), with)
    })
}

fn vertex_ref() -> impl Strategy<Value = VertexRef> {
    (id(), any::<u16>()).prop_map(|(id, t)| VertexRef {
        id,
        type_id: VertexTypeId(t),
    })
}

fn vertex() -> impl Strategy<Value = Vertex> {
    let rest = (".{0,9}", version(), any::<bool>(), properties());
    (vertex_ref(), rest).prop_map(|(v, (key, version, deleted, attributes))| Vertex {
        id: v.id,
        type_id: v.type_id,
        key,
        version,
        deleted,
        attributes,
        user: vec![UserAttribute {
            name: "x".into(),
            version,
            value: true.into(),
        }],
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

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (vertex_ref(), "[a-z]{1,9}", properties()).prop_map(|(vertex, key, attributes)| {
            Op::PutVertex {
                vertex,
                key,
                attributes,
            }
        }),
        (vertex_ref(), "[a-z]{1,9}").prop_map(|(vertex, key)| Op::EnsureVertex { vertex, key }),
        (vertex_ref(), properties(), vec(".{0,6}", 0..3)).prop_map(|(vertex, set, remove)| {
            Op::ChangeVertex {
                vertex,
                set,
                remove,
            }
        }),
        (vertex_ref(), properties(), vec(".{0,6}", 0..3)).prop_map(|(vertex, set, remove)| {
            Op::SetAttributes {
                vertex,
                set,
                remove,
            }
        }),
        vertex_ref().prop_map(|vertex| Op::DeleteVertex { vertex }),
        (identity(), properties(), properties()).prop_map(|(identity, attributes, tags)| {
            Op::CreateObject {
                identity,
                attributes,
                tags,
            }
        }),
        (object(), identity(), identity()).prop_map(|(object, from, to)| Op::MoveObject {
            object,
            from,
            to
        }),
    ]
}

fn object() -> impl Strategy<Value = ObjectId> {
    (0..1_u64 << 63).prop_map(ObjectId)
}

fn identity() -> impl Strategy<Value = Identity> {
    ("[a-z]{1,6}", "[a-z]{0,6}", any::<i64>(), any::<i64>()).prop_map(|(name, app, owner, step)| {
        Identity {
            name,
            app,
            owner,
            step,
        }
    })
}

fn tx() -> impl Strategy<Value = TxId> {
    (any::<u32>(), any::<u64>(), any::<u64>()).prop_map(|(server, incarnation, number)| TxId {
        server: ServerId(server),
        incarnation,
        number,
    })
}

fn row() -> impl Strategy<Value = RawRow> {
    let table = prop_oneof![Just(RawTable::Rows), Just(RawTable::History)];
    let bytes = || vec(any::<u8>(), 0..9);
    (table, bytes(), bytes()).prop_map(|(table, key, value)| RawRow { table, key, value })
}

fn table() -> impl Strategy<Value = TableFile> {
    let numbers = any::<(u64, u64, u64, u64)>();
    let hashes = any::<(u64, u64)>();
    (any::<u32>(), numbers, any::<[u8; 8]>(), hashes).prop_map(
        |(giver, (incarnation, number, rows, bytes), checksum, hashes)| TableFile {
            giver: ServerId(giver),
            incarnation,
            number,
            rows,
            bytes,
            checksum,
            hashes,
        },
    )
}

fn change() -> impl Strategy<Value = Change> {
    let adopt = (
        id(),
        vec(any::<u8>(), 0..5),
        vec(row(), 0..3),
        option::of(table()),
        vec((any::<u16>(), any::<u64>()), 0..3),
    );
    prop_oneof![
        op().prop_map(Change::Vertex),
        (identity(), object()).prop_map(|(identity, object)| Change::Claim { identity, object }),
        (identity(), object()).prop_map(|(identity, object)| Change::Release { identity, object }),
        (key(), any::<bool>(), properties(), any::<bool>()).prop_map(
            |(key, deleted, properties, requested)| Change::Edge {
                key,
                deleted,
                properties,
                requested
            }
        ),
        adopt.prop_map(
            |(vertex, splits, rows, table, degrees)| Change::Adopt(Adopt {
                vertex,
                splits,
                rows,
                table,
                degrees: degrees
                    .into_iter()
                    .map(|(t, n)| (EdgeTypeId(t), n))
                    .collect(),
            })
        ),
    ]
}

fn part() -> impl Strategy<Value = Arc<Part>> {
    let op = (any::<u32>(), option::of(version()), change());
    let op = op.prop_map(|(index, at, change)| PartOp { index, at, change });
    vec(op, 0..4).prop_map(|ops| Arc::new(Part { ops }))
}

fn later() -> impl Strategy<Value = Vec<(u32, Version)>> {
    vec((any::<u32>(), version()), 0..3)
}

fn decided() -> impl Strategy<Value = Decided> {
    let key = option::of(vec(any::<u8>(), 0..9));
    (tx(), version(), later(), option::of(part()), key).prop_map(
        |(tx, version, later, part, idempotency_key)| Decided {
            tx,
            version,
            later,
            part,
            idempotency_key,
        },
    )
}

fn delegated() -> impl Strategy<Value = Delegated> {
    let vote = (version(), later()).prop_map(|(floor, later)| Prepared { floor, later });
    let numbers = (any::<u64>(), any::<u64>());
    let key = option::of(vec(any::<u8>(), 0..9));
    (tx(), numbers, version(), vote, (part(), part()), key).prop_map(
        |(tx, (over, incarnation), seen, prepared, (coordinators, part), idempotency_key)| {
            Delegated {
                tx,
                over,
                seen,
                incarnation,
                prepared,
                coordinators,
                part,
                idempotency_key,
            }
        },
    )
}

fn schema_change() -> impl Strategy<Value = SchemaChange> {
    prop_oneof![
        ("[a-z]{1,5}", option::of("[a-z]{1,5}")).prop_map(|(name, parent)| {
            SchemaChange::VertexType {
                name,
                parent,
                attributes: vec![AttributeDefinition {
                    name: "x".into(),
                    kind: ValueKind::Any,
                }],
            }
        }),
        ("[a-z]{1,5}", "[a-z]{1,5}").prop_map(|(name, inverse)| SchemaChange::EdgeType {
            name,
            inverse,
            source: "a".into(),
            destination: "b".into(),
        }),
    ]
}

fn read() -> impl Strategy<Value = Read> {
    let versions = prop_oneof![
        version().prop_map(Versions::AsOf),
        Just(Versions::NOW),
        range().prop_map(Versions::Range)
    ];
    let types = vec(any::<u16>().prop_map(EdgeTypeId), 0..3);
    let select = (
        types,
        versions,
        any::<bool>(),
        option::of((any::<u16>().prop_map(EdgeTypeId), id())),
    )
        .prop_map(|(types, versions, properties, after)| EdgeSelect {
            types,
            versions,
            properties,
            after,
        });
    let scan = (vec(id(), 0..4), select, any::<u32>(), version());
    let of_type = (
        vertex_ref(),
        any::<bool>(),
        version(),
        any::<bool>(),
        any::<u32>(),
    );
    prop_oneof![
        (vec(id(), 0..4), version()).prop_map(|(ids, as_of)| Read::Vertices { ids, as_of }),
        (vec(key(), 0..4), version()).prop_map(|(keys, as_of)| Read::Edges { keys, as_of }),
        scan.prop_map(|(frontier, select, limit, at)| Read::Scan {
            frontier,
            select,
            limit,
            at
        }),
        of_type.prop_map(|(v, after, as_of, deleted, limit)| Read::Type {
            select: VertexSelect {
                type_id: v.type_id,
                after: after.then_some((v.type_id, v.id)),
                as_of,
                deleted,
            },
            limit,
        }),
        (id(), range()).prop_map(|(id, range)| Read::VertexHistory { id, range }),
        (key(), range()).prop_map(|(key, range)| Read::EdgeHistory { key, range }),
        vec((id(), any::<u16>().prop_map(EdgeTypeId)), 0..4).prop_map(|of| Read::Degrees { of }),
        (option::of(any::<u16>()), any::<u32>()).prop_map(|(t, limit)| Read::TopDegrees {
            edge_type: t.map(EdgeTypeId),
            limit
        }),
        Just(Read::Counts),
        (version(), version(), option::of(row_key()), any::<u32>()).prop_map(
            |(before, after, start_after, limit)| Read::Diff {
                select: DiffSelect {
                    before,
                    after,
                    start_after
                },
                limit,
            }
        ),
        vec(any::<u8>(), 0..5).prop_map(|idempotency_key| Read::Applied { idempotency_key }),
    ]
}

fn row_key() -> impl Strategy<Value = RowKey> {
    prop_oneof![id().prop_map(RowKey::Vertex), key().prop_map(RowKey::Edge)]
}

fn travel_id() -> impl Strategy<Value = TraversalId> {
    tx().prop_map(|tx| TraversalId {
        server: tx.server,
        incarnation: tx.incarnation,
        number: tx.number,
    })
}

fn hop() -> impl Strategy<Value = HopAt> {
    (travel_id(), any::<u32>(), any::<u32>(), any::<u32>()).prop_map(|(travel, step, from, to)| {
        HopAt {
            travel,
            step,
            from: ChainPosition(from),
            to: ChainPosition(to),
        }
    })
}

fn left() -> impl Strategy<Value = RemainingBudget> {
    (any::<Option<u64>>(), any::<Option<u64>>())
        .prop_map(|(millis, edges)| RemainingBudget { millis, edges })
}

fn reached() -> impl Strategy<Value = Vec<Reached>> {
    let one = (key(), version()).prop_map(|(edge, version)| Reached { edge, version });
    vec(one, 0..4)
}

fn stopped() -> impl Strategy<Value = Option<StopReason>> {
    prop_oneof![
        Just(None),
        Just(Some(StopReason::Edges)),
        Just(Some(StopReason::Interrupted))
    ]
}

fn travel_call() -> impl Strategy<Value = TraversalCall> {
    let chain = r#"v("file:/C").e("wasWrittenBy").v().e("read").v().repeat(max=3).return_fp()"#;
    let begin = (
        travel_id(),
        version(),
        any::<Option<u64>>(),
        prop::sample::select(Engine::ALL.to_vec()),
        vec(any::<[u8; 16]>().prop_map(VertexId), 0..3),
        option::of((any::<i64>(), vec(any::<i64>(), 0..3))),
    );
    prop_oneof![
        begin.prop_map(move |(travel, now, edges, strategy, starts, principal)| {
            TraversalCall::Begin(TraversalBegin {
                travel,
                starts,
                principal: principal.map(|(uid, gids)| Principal { uid, gids }),
                traversal: Traversal::parse(chain).unwrap(),
                now,
                budget: Budget {
                    edges,
                    steps: Some(4),
                    strategy,
                    ..Budget::default()
                },
            })
        }),
        (hop(), any::<bool>(), any::<Option<u32>>(), left()).prop_map(
            |(hop, whole, next, left)| TraversalCall::Step {
                hop,
                whole,
                next: next.map(ChainPosition),
                left
            }
        ),
        (hop(), vec(id(), 0..4), left(), any::<(u64, u64)>()).prop_map(
            |(hop, vertices, left, (credit, number))| TraversalCall::Expand {
                hop,
                vertices,
                left,
                credit,
                number
            }
        ),
        (hop(), reached()).prop_map(|(hop, reached)| TraversalCall::Reach { hop, reached }),
        (hop(), any::<u64>(), reached(), any::<u64>()).prop_map(
            |(hop, number, reached, credit)| TraversalCall::Continue {
                hop,
                number,
                reached,
                credit
            }
        ),
        (
            travel_id(),
            any::<(u64, u64)>(),
            stopped(),
            option::of(".{0,9}")
        )
            .prop_map(|(travel, (number, credit), stopped, failed)| {
                TraversalCall::Credit {
                    travel,
                    number,
                    credit,
                    stopped,
                    failed,
                }
            }),
        (travel_id(), any::<u64>())
            .prop_map(|(travel, number)| TraversalCall::MoreCredit { travel, number }),
        travel_id().prop_map(|travel| TraversalCall::Alive { travel }),
        (travel_id(), any::<u64>())
            .prop_map(|(travel, from)| TraversalCall::Collect { travel, from }),
        travel_id().prop_map(|travel| TraversalCall::End { travel }),
    ]
}

fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        vec(decided(), 0..3).prop_map(|decided| Request::Hello { decided }),
        (tx(), any::<u64>(), version(), part()).prop_map(|(tx, over, seen, part)| {
            Request::Prepare {
                tx,
                over,
                seen,
                part,
            }
        }),
        (
            vec((option::of(version()), op()), 0..3),
            option::of(vec(any::<u8>(), 1..9)),
            (any::<bool>(), option::of(version()))
        )
            .prop_map(
                |(mutations, idempotency_key, (hold, again_at))| Request::Apply {
                    how: ApplyOptions {
                        retained: hold,
                        acknowledged_at: again_at
                    },
                    seen: Version(3),
                    batch: Batch {
                        mutations: mutations
                            .into_iter()
                            .map(|(version, op)| Mutation { version, op })
                            .collect(),
                        idempotency_key,
                    }
                }
            ),
        decided().prop_map(Request::Commit),
        tx().prop_map(|tx| Request::Abort { tx }),
        delegated().prop_map(Request::Decide),
        tx().prop_map(|tx| Request::Outcome { tx }),
        vec(schema_change(), 0..3).prop_map(|changes| Request::Define { changes }),
        Just(Request::Schema),
        vec(id(), 0..3).prop_map(|of| Request::Splits { of }),
        read().prop_map(Request::Read),
        travel_call().prop_map(Request::Travel),
        (object(), version()).prop_map(|(object, at)| {
            Request::Objects(ObjectCall::Read {
                keys: vec![object.into()],
                principal: None,
                at,
            })
        }),
        Just(Request::Ping),
        Just(Request::Persist),
        any::<u64>().prop_map(|id| Request::Pause { id }),
        any::<u64>().prop_map(|id| Request::Resume { id }),
        (any::<u64>(), any::<u64>(), "[a-z/]{0,20}").prop_map(|(id, version, to)| Request::Copy {
            id,
            version: Version(version),
            to,
        }),
    ]
}

fn splits() -> impl Strategy<Value = Vec<(VertexId, Vec<u8>)>> {
    vec((id(), vec(any::<u8>(), 0..5)), 0..3)
}

fn step_done() -> impl Strategy<Value = StepDone> {
    (any::<[u64; 9]>(), stopped()).prop_map(|(n, stopped)| StepDone {
        frontier: n[0],
        edges: n[1],
        selected: n[2],
        reached: n[3],
        leads_on: n[4] > 9,
        cached: n[4],
        vertices_micros: n[5],
        edges_micros: n[6],
        prefetch_micros: n[7],
        wait_micros: n[8],
        stopped,
    })
}

fn visited() -> impl Strategy<Value = Visited> {
    let parents = vec((any::<u32>(), key(), version()), 0..3);
    (any::<(u32, u32)>(), id(), parents).prop_map(|((place, step), vertex, parents)| Visited {
        position: ChainPosition(place),
        vertex,
        step,
        parents: parents
            .into_iter()
            .map(|(from, edge, version)| PathEntry {
                from: ChainPosition(from),
                edge,
                version,
            })
            .collect(),
    })
}

fn travel_reply() -> impl Strategy<Value = TraversalReply> {
    let steps = vec((any::<u32>(), step_done()), 0..3);
    prop_oneof![
        any::<u64>().prop_map(TraversalReply::Started),
        step_done().prop_map(TraversalReply::Stepped),
        (step_done(), splits())
            .prop_map(|(done, splits)| TraversalReply::Expanded { done, splits }),
        any::<(u64, bool)>().prop_map(|(new, leads_on)| TraversalReply::Reached { new, leads_on }),
        any::<u64>().prop_map(TraversalReply::Credit),
        (vec(visited(), 0..3), any::<bool>(), steps).prop_map(|(visited, more, steps)| {
            TraversalReply::Collected {
                visited,
                more,
                steps,
            }
        }),
        Just(TraversalReply::Unknown),
        Just(TraversalReply::Done),
    ]
}

fn degree() -> impl Strategy<Value = Degree> {
    (id(), any::<u16>(), any::<u64>()).prop_map(|(vertex, t, degree)| Degree {
        vertex,
        edge_type: EdgeTypeId(t),
        degree,
    })
}

fn response() -> impl Strategy<Value = Response> {
    let transactions = prop_oneof![
        (vec(decided(), 0..3), any::<u64>(), any::<u64>()).prop_map(
            |(decided, incarnation, over)| Response::Undelivered {
                decided,
                incarnation,
                over,
            }
        ),
        (version(), later())
            .prop_map(|(floor, later)| Response::Prepared(Prepared { floor, later })),
        splits().prop_map(Response::Moved),
        Just(Response::Over),
        any::<[u64; 3]>().prop_map(|n| Response::Committed {
            vertices_created: n[0],
            edges_created: n[1],
            unchanged: n[2],
        }),
        (version(), later(), any::<[u64; 3]>()).prop_map(|(version, later, n)| {
            Response::Decided {
                version,
                later,
                vertices_created: n[0],
                edges_created: n[1],
                unchanged: n[2],
            }
        }),
        (
            version(),
            any::<bool>(),
            any::<[u32; 3]>(),
            option::of(any::<(u32, u64, u64)>())
        )
            .prop_map(|(version, applied, n, held)| {
                let commit = Commit {
                    version,
                    applied,
                    vertices_created: n[0].into(),
                    edges_created: n[1].into(),
                    unchanged: n[2].into(),
                };
                let held = held.map(|(server, incarnation, number)| CommitPosition {
                    server: ServerId(server),
                    incarnation,
                    number,
                });
                Response::Batch(commit, held)
            }),
        Just(Response::Unknown),
        Just(Response::Done),
        vec(schema_change(), 0..3).prop_map(Response::Schema),
        splits().prop_map(Response::Splits),
        any::<bool>().prop_map(Response::Applied),
        travel_reply().prop_map(Response::Travel),
        object().prop_map(|object| {
            let at = ObjectAt::Elsewhere(object);
            Response::Objects(ObjectReply::Objects(vec![at]))
        }),
    ];
    let scanned = (vec((any::<u32>(), edge()), 0..3), splits(), any::<bool>());
    let reads = prop_oneof![
        vec(option::of(vertex()), 0..3).prop_map(Response::Vertices),
        vec(option::of(edge()), 0..3).prop_map(Response::Edges),
        scanned.prop_map(|(edges, splits, more)| Response::Scanned {
            edges,
            splits,
            more
        }),
        (vec(vertex(), 0..3), any::<bool>())
            .prop_map(|(vertices, more)| Response::Type { vertices, more }),
        (version(), any::<bool>()).prop_map(|(version, archived)| {
            let changes = [
                VertexChange::Deleted,
                VertexChange::Removed("x".into()),
                VertexChange::Set("x".into(), 7.into()),
                VertexChange::Put(Properties::new().with("y", true)),
            ];
            let event = |change| VertexEvent {
                version,
                change,
                archived,
            };
            Response::VertexHistory(changes.map(event).to_vec())
        }),
        (edge(), any::<bool>())
            .prop_map(|(edge, archived)| Response::EdgeHistory(vec![EdgeEvent { edge, archived }])),
        vec(any::<u64>(), 0..4).prop_map(Response::Degrees),
        (vec(degree(), 0..3), vec(degree(), 0..3))
            .prop_map(|(whole, split)| Response::TopDegrees { whole, split }),
        vec((any::<u16>(), any::<u64>()), 0..3).prop_map(|all| Response::Counts(Counts {
            vertices: all.iter().map(|(t, n)| (VertexTypeId(*t), *n)).collect(),
            edges: all.iter().map(|(t, n)| (EdgeTypeId(*t), *n)).collect(),
        })),
        (option::of(vertex()), option::of(edge()), any::<bool>()).prop_map(
            |(vertex, edge, more)| Response::Diff {
                differences: vec![
                    Difference::Vertex(vertex.clone(), None),
                    Difference::Vertex(None, vertex),
                    Difference::Edge(edge, None),
                ],
                more,
            }
        ),
    ];
    prop_oneof![transactions, reads]
}

fn request_of(request: Request) -> PeerRequest {
    PeerRequest {
        from: ServerId(1),
        incarnation: 2,
        clock: Version(3),
        newest: Version(4),
        request,
    }
}

fn response_of(outcome: Result<Response, Error>) -> PeerResponse {
    PeerResponse {
        incarnation: 1,
        clock: Version(2),
        newest: Version(3),
        moves: 7,
        persisted: 8,
        outcome,
    }
}

fn comes_back<T: Wire + PartialEq + Debug>(value: &T) {
    let bytes = encode(value);
    assert_eq!(&decode::<T>(&bytes).unwrap(), value);
    for end in 0..bytes.len() {
        assert!(decode::<T>(bytes.get(..end).unwrap()).is_err(), "{end}");
    }
}

/// Changes one byte. The result decodes or is refused; nothing panics.
fn damaged<T: Wire>(mut bytes: Vec<u8>, at: prop::sample::Index, byte: u8) {
    let index = at.index(bytes.len());
    if let Some(at) = bytes.get_mut(index) {
        *at = byte;
    }
    let _ = decode::<T>(&bytes);
}

proptest! {
    #[test]
    fn requests_come_back(request in request()) {
        comes_back(&request_of(request));
    }

    #[test]
    fn responses_come_back(response in response()) {
        let back: PeerResponse = decode(&encode(&response_of(Ok(response.clone())))).unwrap();
        prop_assert_eq!((back.moves, back.persisted), (7, 8));
        prop_assert_eq!(back.outcome.unwrap(), response);
    }

    /// A message of a broken server causes at most an error.
    #[test]
    fn damaged_messages_are_refused(
        request in request(), response in response(), at: prop::sample::Index, byte: u8,
    ) {
        damaged::<PeerRequest>(encode(&request_of(request)), at, byte);
        damaged::<PeerResponse>(encode(&response_of(Ok(response))), at, byte);
    }
}

#[test]
fn failures_come_back() {
    let error = Error::NoVertex {
        name: "file:/x".into(),
        hint: String::new(),
    };
    let back: PeerResponse = decode(&encode(&response_of(Err(error)))).unwrap();
    assert_eq!(back.outcome.unwrap_err().to_string(), "no vertex `file:/x`");
}

#[test]
fn messages_about_the_namespace_come_back() {
    let id = VertexId([7; 16]);
    let counters = vec![(
        Counter::Space(SpaceKey::Directory(id), Measure::Bytes),
        -5_i64,
    )];
    comes_back(&NamesCall::Rows {
        keys: vec![vec![1, 2], vec![]],
    });
    let path = NamePath::parse(b"/a/b").unwrap();
    comes_back(&NamesReply::Restarted);
    comes_back(&NamesCall::Change {
        call: CallId {
            incarnation: 1,
            number: 2,
            over: 3,
            receiver_incarnation: 4,
        },
        principal: Some(Principal {
            uid: 3,
            gids: vec![4, 5],
        }),
        changes: vec![NamesChange::Rmdir(path)],
        idempotency_key: Some(vec![1, 2]),
        apply_remote: true,
    });
    comes_back(&NamesCall::Sums { of: vec![id; 2] });
    comes_back(&NamesCall::Page {
        directory: id,
        from: (9, Some(1)),
        limit: 10,
    });
    comes_back(&NamesCall::Children { of: vec![id] });
    comes_back(&NamesCall::Last { id });
    comes_back(&NamesCall::Count {
        directory: id,
        first: 1,
        last: 2,
    });
    comes_back(&NamesReply::Count(3));
    let known = ClusterFlags {
        known: 3,
        known_by_all: 1,
    };
    comes_back(&NamesCall::ExchangeFlags(known));
    comes_back(&NamesReply::Flags(known));
    comes_back(&NamesCall::LeaseVertex { vertex: id });
    comes_back(&NamesCall::DirectoryLeases);
    comes_back(&NamesReply::LeaseMillis(5));
    for by in [
        SpaceBy::User,
        SpaceBy::Group,
        SpaceBy::Kind,
        SpaceBy::Ending,
        SpaceBy::Day,
    ] {
        comes_back(&NamesCall::Space { by });
    }
    comes_back(&NamesReply::Rows(vec![None, Some(vec![3])]));
    let done = AppliedChange {
        id,
        version: Version(8),
    };
    comes_back(&NamesReply::Changed(
        vec![
            Ok(done),
            Err(Refusal::File(Errno::Loop.at("/x"))),
            Err(Refusal::Unavailable("a".into())),
            Err(Refusal::Other("b".into())),
        ],
        vec![(id, vec![1])],
    ));
    let sums = DirectorySums {
        sums: [-1, 2, 3, 4],
        changed: 5,
    };
    comes_back(&NamesReply::Sums(vec![sums]));
    comes_back(&NamesReply::Page {
        entries: vec![(vec![1], vec![2, 3])],
        next: Some((4, None)),
    });
    let name = Name::new(b"n").unwrap();
    comes_back(&NamesReply::Children(vec![vec![], vec![(id, name)]]));
    comes_back(&NamesReply::Space(counters.clone()));
    comes_back(&NamesReply::Moved(vec![(id, vec![1, 2])]));
    comes_back(&NamesPart {
        epoch: Some(3),
        rows: vec![PlannedRow {
            key: vec![1],
            value: None,
            read: Some(4),
        }],
        counters,
        structure: true,
        empty: vec![id],
    });
}
