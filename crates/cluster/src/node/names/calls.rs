//! Deduplication of changes that one server requests from another, however often the request arrives.

use crate::node::Node;
use crate::node::state::IncomingCalls;
use crate::peer::{CallId, NamesReply};
use crate::vnode::ServerId;
use esker_model::{Error, Result};

/// Longest wait of a call for an identical one in progress, in milliseconds.
const FIRST_MAX: u64 = 10_000;

/// State of a received call.
pub(super) enum CallState {
    /// The call must be done.
    New,
    /// The call was done before, or cannot be done.
    Answered(NamesReply),
}

/// An outgoing call until it is answered or given up.
pub(super) struct OutgoingCall<'a> {
    node: &'a Node,
    pub(super) id: CallId,
}

impl Drop for OutgoingCall<'_> {
    fn drop(&mut self) {
        self.node
            .state()
            .outgoing_calls
            .open
            .remove(&self.id.number);
    }
}

impl Node {
    /// Begins a new call to a server.
    pub(super) fn begin_call(&self, to: ServerId) -> OutgoingCall<'_> {
        let mut state = self.state();
        let known = state.incarnations.get(&to).copied().unwrap_or(0);
        let outgoing = &mut state.outgoing_calls;
        outgoing.next += 1;
        outgoing.open.insert(outgoing.next);
        let id = CallId {
            incarnation: self.incarnation,
            number: outgoing.next,
            over: outgoing.open.first().copied().unwrap_or(outgoing.next),
            receiver_incarnation: known,
        };
        OutgoingCall { node: self, id }
    }

    /// Checks whether a call has arrived before.
    pub(super) async fn take_call(&self, from: ServerId, call: CallId) -> Result<CallState> {
        if call.receiver_incarnation != self.incarnation {
            return Ok(CallState::Answered(NamesReply::Restarted));
        }
        let mut first = true;
        let look = |state: &mut crate::node::state::State| {
            let calls = state.incoming_calls.entry(from).or_default();
            if call.incarnation > calls.incarnation {
                *calls = IncomingCalls {
                    incarnation: call.incarnation,
                    ..IncomingCalls::default()
                };
            }
            if call.over > calls.below && call.incarnation == calls.incarnation {
                calls.below = call.over;
                calls.answers = calls.answers.split_off(&call.over);
            }
            if call.incarnation < calls.incarnation || call.number < calls.below {
                return Some(Err(Error::Busy(
                    "a call arrived after its caller had given up".into(),
                )));
            }
            match calls.answers.get(&call.number) {
                Some(Some(reply)) => Some(Ok(CallState::Answered(reply.clone()))),
                None if first => {
                    calls.answers.insert(call.number, None);
                    Some(Ok(CallState::New))
                }
                _ => {
                    first = false;
                    None
                }
            }
        };
        self.wait_until(FIRST_MAX, look).await.unwrap_or_else(|| {
            Err(Error::Undecided(
                "the same changes are still in progress".into(),
            ))
        })
    }

    /// Keeps the response to a call.
    pub(super) fn answered_call(&self, from: ServerId, call: CallId, reply: &NamesReply) {
        let mut state = self.state();
        if let Some(calls) = state.incoming_calls.get_mut(&from)
            && calls.incarnation == call.incarnation
            && let Some(index) = calls.answers.get_mut(&call.number)
        {
            *index = Some(reply.clone());
        }
        state.wake();
    }
}
