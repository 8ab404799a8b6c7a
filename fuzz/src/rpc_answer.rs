//! Messages that a client receives: bytes are decoded or refused, and a decoded message is converted or refused.

use esker_model::codec::{DecodeError, Reader};
use esker_model::graph_read::{GraphCall, GraphTransport, RemoteGraph};
use esker_model::traversal::Budget;
use esker_model::{
    Cancel, DiffSelect, EdgeKey, EdgeSelect, EdgeTypeId, Error, Flow, GraphRead as _, NeverCancel,
    Result, Traversal, Version, VersionRange, Versions, VertexId, VertexSelect, VertexTypeId,
};
use esker_rpc::convert;
use esker_rpc::failure::failure_in;
use esker_rpc::frame::RawToClient;
use esker_rpc::proto;
use esker_rpc::proto::reply::Reply;
use prost::Message as _;

/// A server that answers each call in the same way.
struct SameAnswer<'a>(&'a proto::GraphReply);

impl GraphTransport for SameAnswer<'_> {
    fn exchange(
        &self,
        _: GraphCall,
        _: Option<&dyn Cancel>,
        item: &mut dyn FnMut(&mut Reader<'_>) -> Result<Flow, DecodeError>,
    ) -> Result<Vec<u8>> {
        let mut r = Reader::new(&self.0.items);
        while r.remaining() > 0 {
            let taken = item(&mut r).map_err(|e| Error::corrupt("answer", e))?;
            if taken.is_break() {
                break;
            }
        }
        Ok(self.0.rest.clone())
    }
}

/// Takes the answer to one call as the answer to each read of the graph.
fn graph_reply(reply: &proto::GraphReply) {
    let server = SameAnswer(reply);
    let graph = RemoteGraph(&server);
    let (id, now) = (VertexId::default(), Version::MAX);
    let edge = EdgeKey {
        source: id,
        edge_type: EdgeTypeId(0),
        destination: id,
    };
    let select = EdgeSelect {
        types: Vec::new(),
        versions: Versions::NOW,
        properties: true,
        after: None,
    };
    let more = std::ops::ControlFlow::Continue(());
    let _ = graph.schema();
    let _ = graph.read_vertices(&[id], now);
    let _ = graph.read_edges(&[edge], now);
    let _ = graph.scan_edges(&[id], &select, &mut |_, _| more);
    let _ = graph.scan_vertices(&VertexSelect::of(VertexTypeId(0)), &mut |_| more);
    let _ = graph.vertex_history(id, VersionRange::ALL);
    let _ = graph.edge_history(edge, VersionRange::ALL);
    let _ = graph.degrees(&[(id, EdgeTypeId(0))]);
    let _ = graph.top_degrees(None, 1);
    let _ = graph.counts();
    let _ = graph.diff(&DiffSelect::between(Version::ZERO, now), &mut |_| more);
    let _ = graph.applied(&[1]);
    if let Ok(chain) = Traversal::parse("v(\"user:1\")") {
        let _ = graph.travel(&chain, &Budget::default(), &NeverCancel);
    }
}

fn convert_reply(reply: Reply) {
    match reply {
        Reply::Schema(m) => drop(convert::schema_in(m)),
        Reply::Counts(m) => drop(convert::counts_in(m)),
        Reply::Graph(m) => graph_reply(&m),
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
