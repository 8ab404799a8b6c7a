//! Messages that a server receives: bytes are decoded or refused, and a decoded message is converted or refused.

use esker_model::Schema;
use esker_rpc::convert;
use esker_rpc::frame::{RawToServer, call_number};
use esker_rpc::proto;
use esker_rpc::proto::request::Call;
use prost::Message as _;

/// Converts a request as a server does before the database gets it.
fn convert_request(request: Call, schema: &Schema) {
    match request {
        Call::Apply(m) => {
            if let Ok((batch, sync)) = convert::batch_in(m, schema) {
                let again = convert::batch_in(convert::batch_out(&batch, sync), schema)
                    .expect("what was read is read again");
                // NaN is not equal to itself.
                assert_eq!(format!("{again:?}"), format!("{:?}", (batch, sync)));
            }
        }
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
        Call::ScanVertices(m) => {
            let _ = convert::type_in(m.r#type, &m.type_name, schema);
            if let Some(after) = &m.after {
                let _ = convert::vertex_ref_in(after, schema);
            }
        }
        Call::Travel(m) => drop(convert::traversal_in(&m)),
        Call::Degrees(m) => {
            m.of.into_iter()
                .for_each(|d| drop(convert::degree_of_in(d)));
        }
        Call::ReadObjects(m) => m
            .keys
            .into_iter()
            .for_each(|k| drop(convert::object_key_in(k))),
        Call::Find(m) => drop(convert::find_in(m, Some(0))),
        Call::TagWhere(m) => drop(convert::tag_where_in(m, Some(0))),
        _ => {}
    }
}

pub(crate) fn check(data: &[u8]) {
    let schema = Schema::default();
    let _ = call_number(data);
    if let Ok(proto::Request { call: Some(call) }) = proto::Request::decode(data) {
        convert_request(call, &schema);
    }
    if let Ok(message) = RawToServer::decode(data) {
        for call in message.calls {
            let request = call.request.unwrap_or_default();
            let _ = call_number(&request);
            if let Ok(proto::Request { call: Some(call) }) = proto::Request::decode(request) {
                convert_request(call, &schema);
            }
        }
    }
}
