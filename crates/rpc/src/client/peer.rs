//! Asynchronous client from one server of a cluster to another: one stream with many requests in flight.
//!
//! A request is sent once. If the connection ends, all waiting requests fail at once, and their callers must find out
//! whether
//! the requests arrived.

use super::CallError;
use super::connect::{self, refused};
use super::send_queue::SendQueue;
use crate::address::Address;
use crate::failure::failure_in;
use crate::frame::{CallHead, RawToClient, put_call};
use crate::limits::PEER_WAITING_BYTES_MAX;
use crate::proto;
use crate::proto::reply::Reply;
use crate::proto::request::Call;
use crate::trace::TraceContext;
use bytes::Bytes;
use esker_model::{Error, Result};
use prost::Message as _;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

/// A connection to another server, after the greeting.
#[derive(Debug)]
pub struct PeerLink {
    outgoing: Arc<SendQueue>,
    calls: Arc<PeerCalls>,
    next: AtomicU64,
    address: Address,
    call_bytes_max: u64,
    task: AbortHandle,
}

type PeerResult = std::result::Result<Bytes, String>;

#[derive(Debug, Default)]
struct PeerCalls(Mutex<OpenPeerCalls>);

#[derive(Debug, Default)]
struct OpenPeerCalls {
    waiting: HashMap<u64, oneshot::Sender<PeerResult>>,
    /// Reason why no more responses will arrive.
    lost: Option<String>,
}

impl PeerCalls {
    fn open(&self) -> MutexGuard<'_, OpenPeerCalls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn deliver(&self, message: RawToClient) {
        let mut open = self.open();
        for answer in message.answers {
            // The caller may have given up.
            if let Some(waiter) = open.waiting.remove(&answer.id) {
                let _ = waiter.send(Ok(answer.reply.unwrap_or_default()));
            }
        }
    }

    fn lose(&self, why: &str) {
        let waiting = {
            let mut open = self.open();
            open.lost.get_or_insert_with(|| why.to_owned());
            std::mem::take(&mut open.waiting)
        };
        for waiter in waiting.into_values() {
            let _ = waiter.send(Err(why.to_owned()));
        }
    }
}

/// Removes a request from the list, however the wait for its response ends.
struct PendingGuard<'a> {
    calls: &'a PeerCalls,
    id: u64,
}

impl Drop for PendingGuard<'_> {
    fn drop(&mut self) {
        self.calls.open().waiting.remove(&self.id);
    }
}

impl PeerLink {
    /// Connects to another server and greets it as `peer`. Must be called on the threads of a runtime, which then drive the
    /// connection.
    pub async fn open(address: &Address, peer: proto::Peer) -> Result<Arc<Self>> {
        let (outgoing, calls) = (
            Arc::new(SendQueue::default()),
            Arc::new(PeerCalls::default()),
        );
        let opened = Box::pin(connect::open(address, &outgoing, Some(peer))).await;
        let opened = opened.map_err(|e| {
            outgoing.close();
            e.into_error()
        })?;
        let task = {
            let (address, outgoing, calls) =
                (address.clone(), Arc::clone(&outgoing), Arc::clone(&calls));
            let (mut answers, first) = (opened.answers, opened.first);
            tokio::spawn(async move {
                calls.deliver(first);
                let at = address.authority();
                let why = loop {
                    match answers.message().await {
                        Ok(Some(message)) => match RawToClient::decode(message) {
                            Ok(message) => calls.deliver(message),
                            Err(e) => break format!("{at} sent a malformed answer: {e}"),
                        },
                        Ok(None) => break format!("{at} closed the connection"),
                        Err(status) => match refused(&address, &status) {
                            CallError::Failed(e) => break e.to_string(),
                            CallError::Lost(why)
                            | CallError::Busy { message: why, .. }
                            | CallError::Moved { why, .. } => break why,
                        },
                    }
                };
                outgoing.close();
                calls.lose(&why);
            })
        };
        Ok(Arc::new(Self {
            outgoing,
            calls,
            next: AtomicU64::new(1),
            address: address.clone(),
            call_bytes_max: opened.welcome.call_bytes_max,
            task: task.abort_handle(),
        }))
    }

    /// Whether the connection accepts requests.
    pub fn usable(&self) -> bool {
        self.calls.open().lost.is_none()
    }

    /// Ends the connection; waiting callers get the reason as an error.
    pub fn close(&self, why: &str) {
        self.outgoing.close();
        self.calls.lose(why);
        self.task.abort();
    }

    /// Sends an encoded request and waits for the encoded response without a time limit. Dropping the future gives up on it. `trace` is the
    /// trace to which the request belongs.
    pub async fn request(&self, message: Vec<u8>, trace: Option<TraceContext>) -> Result<Bytes> {
        let at = self.address.authority();
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let request = proto::Request {
            call: Some(Call::Peer(proto::PeerMessage {
                message: message.into(),
            })),
        };
        let mut part = Vec::new();
        let head = CallHead {
            id,
            trace,
            ..CallHead::default()
        };
        put_call(&head, &request, &mut part);
        drop(request);
        if part.len() as u64 > self.call_bytes_max {
            return Err(Error::Limit {
                what: "the size in bytes of one request between servers".into(),
                got: part.len() as u64,
                limit: self.call_bytes_max,
            });
        }
        let (sender, receiver) = oneshot::channel();
        {
            let mut open = self.calls.open();
            if let Some(why) = &open.lost {
                return Err(Error::Unavailable(why.clone()));
            }
            open.waiting.insert(id, sender);
        }
        let _listed = PendingGuard {
            calls: &self.calls,
            id,
        };
        if !self.outgoing.push(part, PEER_WAITING_BYTES_MAX) {
            return Err(Error::Busy(format!(
                "more than {PEER_WAITING_BYTES_MAX} bytes wait to be sent to {at}, which takes them in too slowly"
            )));
        }
        let lost = |why: String| Error::Unavailable(why);
        let reply = match receiver.await {
            Ok(arrived) => arrived.map_err(lost)?,
            Err(_) => return Err(lost(format!("the connection to {at} has ended"))),
        };
        let reply = proto::Reply::decode(reply).ok().and_then(|r| r.reply);
        match reply {
            Some(Reply::Peer(answer)) => Ok(answer.message),
            Some(Reply::Failure(failure)) => Err(lost(failure_in(failure).to_string())),
            _ => Err(lost(format!(
                "{at} answered with what this build does not understand: use the same release"
            ))),
        }
    }
}

impl Drop for PeerLink {
    fn drop(&mut self) {
        self.outgoing.close();
        self.task.abort();
    }
}
