//! Reads of the graph by clients of the same release.

use crate::call::Call;
use crate::pieces::{Stop, check_count};
use crate::service::Service;
use esker_model::codec::DecodeError;
use esker_model::graph_read::{AnswerSink, GraphCall, GraphCallAs, send_traversal};
use esker_model::limits::TRAVERSAL_TEXT_BYTES_MAX;
use esker_model::object::Principal;
use esker_model::traversal::{Budget, TravelResult};
use esker_model::wire::{Wire, decode};
use esker_model::{Cancel as _, Error, Flow, GraphRead, Result, Traversal};
use esker_rpc::limits::PIECE_BYTES;
use esker_rpc::proto;
use esker_rpc::proto::reply::Reply;
use std::ops::ControlFlow;
use std::time::Instant;

/// Refuses an encoded traversal that is longer than the text of one may be.
fn check_length(read: &[u8], call: &GraphCall) -> Result<(), Stop> {
    if !matches!(call, GraphCall::Travel(..)) || read.len() <= TRAVERSAL_TEXT_BYTES_MAX {
        return Ok(());
    }
    Err(Stop::Failed(Error::Limit {
        what: "the size in bytes of a traversal".into(),
        got: read.len() as u64,
        limit: TRAVERSAL_TEXT_BYTES_MAX as u64,
    }))
}

/// Answers an encoded [`GraphCall`].
pub(crate) fn answer(service: &Service, read: &[u8], call: &Call) -> Result<Reply, Stop> {
    let decoded = decode(read).map_err(|e| malformed("graph", &e))?;
    check_length(read, &decoded)?;
    read_graph(service, &decoded, None, call)
}

/// Answers an encoded [`GraphCallAs`].
pub(crate) fn answer_as(service: &Service, read: &[u8], call: &Call) -> Result<Reply, Stop> {
    let decoded: GraphCallAs = decode(read).map_err(|e| malformed("graph_as", &e))?;
    check_length(read, &decoded.call)?;
    read_graph(service, &decoded.call, Some(&decoded.principal), call)
}

/// Runs a traversal within the limits of the server.
pub(crate) fn run_traversal(
    service: &Service,
    graph: &dyn GraphRead,
    traversal: &Traversal,
    mut budget: Budget,
    (call, principal): (&Call, Option<&Principal>),
) -> Result<TravelResult> {
    // One traversal may not use more memory than all answers may.
    let most = call
        .state
        .memory_within(service.settings.limits.memory_bytes) as u64;
    budget.bytes = Some(budget.bytes.unwrap_or(u64::MAX).min(most));
    let begun = Instant::now();
    let result = graph.travel(traversal, &budget, &*call.state)?;
    let latest = &service.console.traversals;
    latest.note(principal, traversal, &result, begun.elapsed());
    service.note_version(result.as_of);
    Ok(result)
}

/// The items of an answer to a client of the same release, in pieces.
struct GraphPieces<'a> {
    call: &'a Call,
    items: Vec<u8>,
    seen: u32,
    /// Reason why no more items are sent.
    stopped: Option<Stop>,
}

impl AnswerSink for GraphPieces<'_> {
    fn item(&mut self, item: &impl Wire) -> Flow {
        item.put(&mut self.items);
        self.seen = self.seen.wrapping_add(1);
        if self.seen.is_multiple_of(256) && self.call.state.cancelled() {
            self.stopped = Some(Stop::Failed(Error::Interrupted));
            return ControlFlow::Break(());
        }
        if self.items.len() < PIECE_BYTES {
            return ControlFlow::Continue(());
        }
        let items = std::mem::take(&mut self.items).into();
        let rest = Vec::new();
        let piece = Reply::Graph(proto::GraphReply { items, rest });
        if self.call.piece(piece).is_err() {
            self.stopped = Some(Stop::ClientGone);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

fn read_graph(
    service: &Service,
    read: &GraphCall,
    principal: Option<&Principal>,
    call: &Call,
) -> Result<Reply, Stop> {
    let graph = service.graph(call.options.at_least.0, principal);
    let what = match read {
        GraphCall::ReadEdges(..) => "edges",
        GraphCall::Degrees(_) => "degrees",
        _ => "vertices",
    };
    check_count(service, what, read.named_rows())?;
    let mut pieces = GraphPieces {
        call,
        items: Vec::new(),
        seen: 0,
        stopped: None,
    };
    let rest = match read {
        GraphCall::Travel(traversal, budget) => {
            let by = (call, principal);
            let result = run_traversal(service, &*graph, traversal, *budget, by)?;
            send_traversal(&mut pieces, result)
        }
        read => read.answer(&*graph, &*call.state, &mut pieces)?,
    };
    call.count_rows(pieces.seen.into());
    match pieces.stopped {
        Some(stop) => Err(stop),
        None => Ok(Reply::Graph(proto::GraphReply {
            items: pieces.items.into(),
            rest,
        })),
    }
}

fn malformed(field: &str, e: &DecodeError) -> Stop {
    Stop::Failed(Error::Invalid(format!(
        "malformed message: `{field}`: {e}: use the same release on both sides"
    )))
}
