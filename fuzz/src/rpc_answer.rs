//! Messages that a client receives: bytes are decoded or refused, and a decoded message is converted or refused.

use esker_model::VertexId;
use esker_rpc::convert::{self, Assembly};
use esker_rpc::failure::failure_in;
use esker_rpc::frame::RawToClient;
use esker_rpc::proto;
use esker_rpc::proto::reply::Reply;
use prost::Message as _;

fn convert_reply(reply: Reply) {
    match reply {
        Reply::Schema(m) => drop(convert::schema_in(m)),
        Reply::ReadVertices(m) => m
            .items
            .into_iter()
            .filter_map(|i| i.vertex)
            .for_each(|v| drop(convert::vertex_in(v))),
        Reply::ReadEdges(m) => m
            .items
            .into_iter()
            .filter_map(|i| i.edge)
            .for_each(|e| drop(convert::edge_in(e))),
        Reply::ScanEdges(m) => m
            .edges
            .into_iter()
            .for_each(|e| drop(convert::scanned_in(e, &[VertexId::default()]))),
        Reply::VertexHistory(m) => m
            .events
            .into_iter()
            .for_each(|e| drop(convert::vertex_event_in(e))),
        Reply::EdgeHistory(m) => m
            .events
            .into_iter()
            .for_each(|e| drop(convert::edge_event_in(e))),
        Reply::Diff(m) => m
            .differences
            .into_iter()
            .for_each(|d| drop(convert::difference_in(d))),
        Reply::Counts(m) => drop(convert::counts_in(m)),
        Reply::TopDegrees(m) => m.top.into_iter().for_each(|t| drop(convert::degree_in(t))),
        Reply::Travel(m) => {
            let mut assembly = Assembly::default();
            if assembly.take(m).is_ok() {
                let _ = assembly.finish();
            }
        }
        Reply::ReadObjects(m) => m
            .items
            .into_iter()
            .filter_map(|i| i.object)
            .for_each(|o| drop(convert::found_in(o))),
        Reply::Find(m) => {
            m.objects
                .into_iter()
                .for_each(|o| drop(convert::found_in(o)));
            drop(m.report.map(convert::report_in));
        }
        Reply::Failure(m) => drop(failure_in(m)),
        _ => {}
    }
}

pub(crate) fn check(data: &[u8]) {
    if let Ok(proto::Reply { reply: Some(reply) }) = proto::Reply::decode(data) {
        convert_reply(reply);
    }
    if let Ok(message) = RawToClient::decode(data) {
        for answer in message.answers {
            let reply = answer.reply.unwrap_or_default();
            if let Ok(proto::Reply { reply: Some(reply) }) = proto::Reply::decode(reply) {
                convert_reply(reply);
            }
        }
    }
}
