//! Answers in pieces.

use crate::call::{Call, ClientGone};
use crate::service::Service;
use esker_model::{Cancel as _, Error, Flow};
use esker_rpc::convert;
use esker_rpc::limits::PIECE_BYTES;
use esker_rpc::proto::reply::Reply;
use prost::Message;
use std::ops::ControlFlow;

/// Reasons for ending a call without a complete answer.
pub(crate) enum Stop {
    /// An error that is sent to the client.
    Failed(Error),
    /// The client receives no more.
    ClientGone,
}

impl From<Error> for Stop {
    fn from(e: Error) -> Self {
        Self::Failed(e)
    }
}

impl From<convert::Malformed> for Stop {
    fn from(e: convert::Malformed) -> Self {
        Self::Failed(e.into())
    }
}

impl From<ClientGone> for Stop {
    fn from(_: ClientGone) -> Self {
        Self::ClientGone
    }
}

/// Items gathered into pieces of about `PIECE_BYTES`.
pub(crate) struct Pieces<'a, M> {
    call: &'a Call,
    items: Vec<M>,
    bytes: usize,
    reply: fn(Vec<M>) -> Reply,
}

impl<'a, M: Message> Pieces<'a, M> {
    pub(crate) fn new(call: &'a Call, reply: fn(Vec<M>) -> Reply) -> Self {
        Self {
            call,
            items: Vec::new(),
            bytes: 0,
            reply,
        }
    }

    fn push(&mut self, item: M) -> Result<(), ClientGone> {
        self.bytes += item.encoded_len() + 4;
        self.items.push(item);
        if self.bytes < PIECE_BYTES {
            return Ok(());
        }
        self.bytes = 0;
        self.call
            .piece((self.reply)(std::mem::take(&mut self.items)))
    }

    /// Returns the remaining items as the last piece.
    pub(crate) fn last(self) -> Reply {
        (self.reply)(self.items)
    }

    /// Returns the remaining items, for a last piece that has more fields.
    pub(crate) fn remaining(self) -> Vec<M> {
        self.items
    }

    /// Pushes an item and tells a scan whether to continue.
    pub(crate) fn flow(&mut self, item: M, gone: &mut bool) -> Flow {
        if self.push(item).is_err() {
            *gone = true;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

pub(crate) fn send_all<T, M: Message>(
    call: &Call,
    items: Vec<T>,
    encode: impl Fn(&T) -> M,
    reply: fn(Vec<M>) -> Reply,
) -> Result<Reply, Stop> {
    let mut pieces = Pieces::new(call, reply);
    for item in items {
        pieces.push(encode(&item))?;
    }
    Ok(pieces.last())
}

/// Refuses more items than the limit on one request.
pub(crate) fn check_count(service: &Service, what: &str, got: usize) -> Result<(), Stop> {
    let limit = service.settings.limits.frontier;
    if got <= limit {
        return Ok(());
    }
    Err(Stop::Failed(Error::Limit {
        what: format!("the number of {what} in one request to this server"),
        got: got as u64,
        limit: limit as u64,
    }))
}

pub(crate) fn check_cancelled(call: &Call) -> Result<(), Stop> {
    if call.state.cancelled() {
        return Err(Stop::Failed(Error::Interrupted));
    }
    Ok(())
}

/// Ends a scan: returns its last piece, or why it has none.
pub(crate) fn end<M: Message>(
    pieces: Pieces<'_, M>,
    gone: bool,
    stopped: bool,
) -> Result<Reply, Stop> {
    if gone {
        return Err(Stop::ClientGone);
    }
    if stopped {
        return Err(Stop::Failed(Error::Interrupted));
    }
    Ok(pieces.last())
}
