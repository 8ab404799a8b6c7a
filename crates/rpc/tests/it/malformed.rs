//! Tests that arbitrary bytes are decoded or refused with the name of a field, without a panic.

use crate::convert::batch;
use crate::decode;
use esker_model::{Error, Schema};
use esker_rpc::convert::{self, Malformed};
use esker_rpc::frame::{RawToClient, RawToServer, call_number};
use esker_rpc::proto;
use esker_rpc::proto::request::Call;
use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message as _;

fn message(e: Malformed) -> String {
    Error::from(e).to_string()
}

/// All processing of a request before it reaches the database.
fn take_in(request: Call, schema: &Schema) {
    match request {
        Call::Apply(m) => drop(convert::batch_in(m, schema)),
        Call::Define(m) => m
            .changes
            .into_iter()
            .for_each(|c| drop(convert::change_in(c))),
        Call::ReadVertices(m) => drop(convert::ids_in(&m.ids, "ids")),
        Call::ReadEdges(m) => m
            .keys
            .into_iter()
            .for_each(|k| drop(convert::edge_key_in(k))),
        Call::ScanEdges(m) => drop(convert::select_in(&m, schema)),
        Call::ScanVertices(m) => drop(convert::type_in(m.r#type, &m.type_name, schema)),
        Call::Travel(m) => drop(convert::traversal_in(&m)),
        Call::Degrees(m) => {
            m.of.into_iter()
                .for_each(|d| drop(convert::degree_of_in(d)));
        }
        Call::ReadObjects(m) => {
            m.keys
                .into_iter()
                .for_each(|k| drop(convert::object_key_in(k)));
        }
        Call::Find(m) => drop(convert::find_in(m, Some(0))),
        Call::TagWhere(m) => drop(convert::tag_where_in(m, Some(0))),
        _ => {}
    }
}

fn try_everything(bytes: &[u8]) {
    let schema = Schema::default();
    let _ = call_number(bytes);
    if let Ok(message) = RawToServer::decode(bytes) {
        for call in message.calls {
            let request = call.request.unwrap_or_default();
            let _ = call_number(&request);
            if let Ok(proto::Request { call: Some(call) }) = proto::Request::decode(request) {
                take_in(call, &schema);
            }
        }
    }
    if let Ok(proto::Request { call: Some(call) }) = proto::Request::decode(bytes) {
        take_in(call, &schema);
    }
    let _ = RawToClient::decode(bytes);
    if let Ok(vertex) = proto::Vertex::decode(bytes) {
        let _ = decode::vertex_in(vertex);
    }
    if let Ok(edge) = proto::ScannedEdge::decode(bytes) {
        let _ = decode::scanned_in(edge, &[]);
    }
    if let Ok(schema) = proto::SchemaReply::decode(bytes) {
        let _ = convert::schema_in(schema);
    }
    if let Ok(piece) = proto::TravelReply::decode(bytes) {
        let mut assembly = decode::Assembly::default();
        if assembly.take(piece).is_ok() {
            let _ = assembly.finish();
        }
    }
    if let Ok(piece) = proto::FindReply::decode(bytes) {
        piece
            .objects
            .into_iter()
            .for_each(|o| drop(convert::found_in(o)));
        drop(piece.report.map(convert::report_in));
    }
    if let Ok(failure) = proto::Failure::decode(bytes) {
        let _ = esker_rpc::failure::failure_in(failure);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_taken(bytes in vec(any::<u8>(), 0..200)) {
        try_everything(&bytes);
    }

    #[test]
    fn damaged_batches_are_taken(batch in batch(), damage in vec((any::<usize>(), any::<u8>()), 0..4), cut: usize) {
        let request = proto::Request { call: Some(Call::Apply(convert::batch_out(&batch, false))) };
        let mut bytes = request.encode_to_vec();
        for (at, byte) in damage {
            let length = bytes.len();
            bytes[at % length] ^= byte;
        }
        bytes.truncate(cut % (bytes.len() + 1));
        try_everything(&bytes);
    }
}

#[test]
fn the_field_is_named() {
    let schema = Schema::default();
    let refused = |mutation: proto::Mutation| {
        let request = proto::ApplyRequest {
            mutations: vec![
                proto::Mutation {
                    version: None,
                    op: Some(proto::mutation::Op::DeleteVertex(proto::DeleteVertex {
                        vertex: Some(proto::VertexRef::default()),
                    })),
                },
                mutation,
            ],
            ..Default::default()
        };
        message(convert::batch_in(request, &schema).unwrap_err())
    };
    let edge = |edge: proto::PutEdge| proto::Mutation {
        version: None,
        op: Some(proto::mutation::Op::PutEdge(edge)),
    };
    assert_eq!(
        refused(proto::Mutation::default()),
        "malformed message: `mutations[1].op`: expected one of its fields to be set (is the server older than the client?)"
    );
    assert_eq!(
        refused(edge(proto::PutEdge::default())),
        "malformed message: `mutations[1].put_edge.source`: expected a vertex, but it is absent"
    );
    let vertex = proto::VertexRef::default();
    assert_eq!(
        refused(edge(proto::PutEdge {
            source: Some(vertex.clone()),
            r#type: 70_000,
            ..Default::default()
        })),
        "malformed message: `mutations[1].put_edge.type`: expected the number of a type, at most 65535; got 70000"
    );
    let properties = proto::Properties {
        packed: vec![1, 1, b'x', 99].into(),
        ..Default::default()
    };
    assert_eq!(
        refused(edge(proto::PutEdge {
            source: Some(vertex.clone()),
            destination: Some(vertex.clone()),
            properties: Some(properties),
            ..Default::default()
        })),
        "malformed message: `mutations[1].put_edge.properties.packed`: expected a value's kind (0 to 8) at byte 4"
    );
    let fields = [("x".to_owned(), proto::Value { kind: None })];
    assert_eq!(
        refused(edge(proto::PutEdge {
            source: Some(vertex.clone()),
            destination: Some(vertex),
            properties: Some(proto::Properties {
                fields: fields.into_iter().collect(),
                ..Default::default()
            }),
            ..Default::default()
        })),
        "malformed message: `mutations[1].put_edge.properties.fields[\"x\"].kind`: expected one of its fields to be set"
    );
    let named = proto::VertexRef {
        name: "fille:/a".into(),
        ..Default::default()
    };
    let message = refused(edge(proto::PutEdge {
        source: Some(named),
        ..Default::default()
    }));
    assert!(
        message.starts_with("unknown vertex type `fille`; did you mean `File`"),
        "{message}"
    );
}

#[test]
fn lists_and_depths_are_checked() {
    let odd = convert::ids_in(&[1, 2, 3], "frontier").unwrap_err();
    assert!(message(odd).contains("`frontier`: expected two numbers for each vertex"));
    let mut value = proto::Value {
        kind: Some(proto::value::Kind::Bool(true)),
    };
    for depth in 0..12 {
        let list = proto::ValueList {
            values: vec![value],
        };
        value = proto::Value {
            kind: Some(proto::value::Kind::List(list)),
        };
        assert_eq!(
            convert::value_in(value.clone()).is_ok(),
            depth < 8,
            "{depth}"
        );
    }
    // Nested much deeper than the limit: refused by the decoder before the stack overflows.
    let mut bytes = vec![];
    for _ in 0..100_000 {
        let mut outer = vec![0x0a];
        prost::encoding::encode_varint(bytes.len() as u64, &mut outer);
        if outer.len() + bytes.len() > 4_000 {
            break;
        }
        outer.extend_from_slice(&bytes);
        bytes = outer;
    }
    assert!(proto::ValueList::decode(&bytes[..]).is_err());
}
