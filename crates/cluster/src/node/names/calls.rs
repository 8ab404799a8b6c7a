//! Changes that one server asks of another are done once, however often the question arrives.

use crate::node::Node;
use crate::peer::{CallId, NamesReply};
use crate::vnode::ServerId;
use esker_model::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};

/// How long the first one of two that are the same is waited for, in milliseconds.
const FIRST_MAX: u64 = 10_000;

/// Calls that a server has asked others for and has no answer to.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    next: u64,
    open: BTreeSet<u64>,
}

/// What a server was answered, for as long as it may ask again.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    incarnation: u64,
    below: u64,
    /// By number; nothing while it is being done.
    answers: BTreeMap<u64, Option<NamesReply>>,
}

/// What is to become of a call.
pub(super) enum Taken {
    /// It is to be done.
    New,
    /// It was done, or cannot be.
    Answered(NamesReply),
}

/// A call until it is answered, or given up.
pub(super) struct Asking<'a> {
    node: &'a Node,
    pub(super) id: CallId,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.node.state().asked.open.remove(&self.id.number);
    }
}

impl Node {
    /// A new call of that server.
    pub(super) fn begin_call(&self, to: ServerId) -> Asking<'_> {
        let mut state = self.state();
        let known = state.incarnations.get(&to).copied().unwrap_or(0);
        let asked = &mut state.asked;
        asked.next += 1;
        asked.open.insert(asked.next);
        let id = CallId {
            incarnation: self.incarnation,
            number: asked.next,
            over: asked.open.first().copied().unwrap_or(asked.next),
            to: known,
        };
        Asking { node: self, id }
    }

    /// Looks whether a call has come before.
    pub(super) async fn take_call(&self, from: ServerId, call: CallId) -> Result<Taken> {
        if call.to != self.incarnation {
            return Ok(Taken::Answered(NamesReply::Anew));
        }
        let mut first = true;
        let look = |state: &mut crate::node::state::State| {
            let calls = state.calls.entry(from).or_default();
            if call.incarnation > calls.incarnation {
                *calls = Calls {
                    incarnation: call.incarnation,
                    ..Calls::default()
                };
            }
            if call.over > calls.below && call.incarnation == calls.incarnation {
                calls.below = call.over;
                calls.answers = calls.answers.split_off(&call.over);
            }
            if call.incarnation < calls.incarnation || call.number < calls.below {
                return Some(Err(Error::Unavailable(
                    "a call came after whoever asked had given it up".into(),
                )));
            }
            match calls.answers.get(&call.number) {
                Some(Some(reply)) => Some(Ok(Taken::Answered(reply.clone()))),
                None if first => {
                    calls.answers.insert(call.number, None);
                    Some(Ok(Taken::New))
                }
                _ => {
                    first = false;
                    None
                }
            }
        };
        self.until(FIRST_MAX, look).await.unwrap_or_else(|| {
            Err(Error::Unavailable(
                "the same changes are still under way".into(),
            ))
        })
    }

    /// Keeps the answer to a call.
    pub(super) fn answered_call(&self, from: ServerId, call: CallId, reply: &NamesReply) {
        let mut state = self.state();
        if let Some(calls) = state.calls.get_mut(&from)
            && calls.incarnation == call.incarnation
            && let Some(place) = calls.answers.get_mut(&call.number)
        {
            *place = Some(reply.clone());
        }
        state.wake();
    }
}
