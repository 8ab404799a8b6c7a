//! One connection: a stream of calls and a stream of responses, with any number of calls in flight.

use super::CallError;
use super::connect::{self, Opened, refused};
use super::driver::Driver;
use super::send_queue::SendQueue;
use super::slot::Slot;
use crate::address::Address;
use crate::frame::{CallHead, RawToClient, call_bytes, put_call, put_cancel, put_credit};
use crate::proto;
use crate::trace::{self, CallSpan};
use esker_model::Error;
use prost::Message as _;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::task::AbortHandle;

/// Maximum size in bytes of calls that are encoded under the lock of the queue.
const IN_PLACE_BYTES: usize = 4 << 10;

/// A connection after the greeting.
#[derive(Debug)]
pub(super) struct Connection {
    outgoing: Arc<SendQueue>,
    calls: Arc<Calls>,
    next: AtomicU64,
    /// Greeting of the server.
    pub(super) welcome: proto::Welcome,
    welcomed: Instant,
    task: AbortHandle,
}

#[derive(Debug, Default)]
struct Calls {
    open: Mutex<OpenCalls>,
    /// Whether new calls are refused, because the connection has ended or will end.
    closing: AtomicBool,
}

#[derive(Debug, Default)]
struct OpenCalls {
    slots: HashMap<u64, Arc<Slot>>,
    lost: Option<String>,
}

/// A call that was sent.
#[derive(Debug)]
pub(super) struct SentCall {
    pub(super) id: u64,
    pub(super) slot: Arc<Slot>,
    connection: Arc<Connection>,
    /// Span of the call; it ends with this value.
    _span: Option<Box<dyn CallSpan>>,
}

impl Calls {
    fn open(&self) -> std::sync::MutexGuard<'_, OpenCalls> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes responses to the waiting callers.
    fn deliver(&self, message: RawToClient) {
        if message.closing {
            self.closing.store(true, Ordering::Release);
        }
        for answer in message.answers {
            let slot = {
                let mut open = self.open();
                if answer.more {
                    open.slots.get(&answer.id).cloned()
                } else {
                    open.slots.remove(&answer.id)
                }
            };
            // A cancelled call has no waiting caller.
            if let Some(slot) = slot {
                slot.put(answer.reply.unwrap_or_default(), !answer.more);
            }
        }
    }

    fn lose(&self, why: &str) {
        self.closing.store(true, Ordering::Release);
        let slots = {
            let mut open = self.open();
            open.lost.get_or_insert_with(|| why.to_owned());
            std::mem::take(&mut open.slots)
        };
        for slot in slots.values() {
            slot.lose(why);
        }
    }
}

impl Connection {
    /// Connects and waits for the greeting.
    pub(super) fn open(address: &Address) -> Result<Arc<Self>, CallError> {
        let driver = Driver::get()?;
        let (outgoing, calls) = (Arc::new(SendQueue::default()), Arc::new(Calls::default()));
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let task = {
            let (address, outgoing, calls) =
                (address.clone(), Arc::clone(&outgoing), Arc::clone(&calls));
            driver.runtime().spawn(async move {
                match connect::open(&address, &outgoing, None).await {
                    Ok(Opened {
                        answers,
                        welcome,
                        first,
                    }) => {
                        let _ = sender.send(Ok(welcome));
                        calls.deliver(first);
                        let why =
                            receive(&address, answers, |message| calls.deliver(message)).await;
                        outgoing.close();
                        calls.lose(&why);
                    }
                    Err(e) => {
                        let _ = sender.send(Err(e));
                    }
                }
            })
        };
        driver.nudge();
        let greeted = receiver.recv().unwrap_or_else(|_| {
            Err(CallError::Lost(
                "the thread for connections has ended".into(),
            ))
        });
        let welcome = greeted.inspect_err(|_| outgoing.close())?;
        outgoing.limit(usize::try_from(welcome.call_bytes_max).unwrap_or(usize::MAX));
        Ok(Arc::new(Self {
            outgoing,
            calls,
            next: AtomicU64::new(1),
            welcome,
            welcomed: Instant::now(),
            task: task.abort_handle(),
        }))
    }

    /// Whether the connection accepts calls.
    pub(super) fn usable(&self) -> bool {
        !self.calls.closing.load(Ordering::Acquire)
    }

    /// Current time of the server's clock, which may differ from this machine's.
    pub(super) fn server_millis(&self) -> u64 {
        let since = self.welcomed.elapsed().as_millis();
        let since = u64::try_from(since).unwrap_or(u64::MAX);
        self.welcome.now_millis.saturating_add(since)
    }

    /// Sends a call and registers its slot.
    pub(super) fn send(
        self: &Arc<Self>,
        request: &proto::Request,
        at_least: u64,
        timeout_ms: u32,
    ) -> Result<SentCall, CallError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let span = trace::begin(request);
        let head = CallHead {
            id,
            at_least,
            timeout_ms,
            trace: trace::context_of(span.as_deref()),
        };
        let bytes = call_bytes(&head, request);
        if bytes as u64 > self.welcome.call_bytes_max {
            return Err(CallError::Failed(Error::Limit {
                what: "the size in bytes of one call to a server".into(),
                got: bytes as u64,
                limit: self.welcome.call_bytes_max,
            }));
        }
        let slot = Arc::new(Slot::default());
        {
            let mut open = self.calls.open();
            if let Some(why) = &open.lost {
                return Err(CallError::Lost(why.clone()));
            }
            open.slots.insert(id, Arc::clone(&slot));
        }
        let put = |message: &mut Vec<u8>| put_call(&head, request, message);
        if bytes > IN_PLACE_BYTES {
            // Encoded outside of the lock.
            let mut part = Vec::with_capacity(bytes);
            put(&mut part);
            self.outgoing.send(part);
        } else {
            self.outgoing.append(bytes, put);
        }
        Ok(SentCall {
            id,
            slot,
            connection: Arc::clone(self),
            _span: span,
        })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.outgoing.close();
        self.task.abort();
    }
}

impl SentCall {
    /// Allows the server to send `bytes` more bytes.
    pub(super) fn credit(&self, bytes: u64) {
        let mut part = Vec::new();
        put_credit(proto::Credit { id: self.id, bytes }, &mut part);
        self.connection.outgoing.send(part);
    }

    /// Tells the server that the caller has cancelled the call.
    pub(super) fn cancel(&self, reason: proto::StopReason) {
        let mut part = Vec::new();
        let reason = reason.into();
        put_cancel(
            proto::Cancel {
                id: self.id,
                reason,
            },
            &mut part,
        );
        self.connection.outgoing.send(part);
    }
}

/// Cancels the call if its response was not read to the end.
impl Drop for SentCall {
    fn drop(&mut self) {
        let unfinished = self
            .connection
            .calls
            .open()
            .slots
            .remove(&self.id)
            .is_some();
        if unfinished {
            self.slot.lose("the caller did not wait for the answer");
            self.cancel(proto::StopReason::Interrupted);
        }
    }
}

/// Reads responses until the connection ends; returns the reason.
pub(super) async fn receive(
    address: &Address,
    mut answers: tonic::Streaming<bytes::Bytes>,
    mut deliver: impl FnMut(RawToClient),
) -> String {
    loop {
        match answers.message().await {
            Ok(Some(message)) => match RawToClient::decode(message) {
                Ok(message) => deliver(message),
                Err(e) => {
                    return format!("{} sent a malformed answer: {e}", address.authority());
                }
            },
            Ok(None) => return format!("{} closed the connection", address.authority()),
            Err(status) => {
                return match refused(address, &status) {
                    CallError::Lost(why) => why,
                    CallError::Failed(e) => e.to_string(),
                    CallError::Busy { message, .. } | CallError::Moved { why: message, .. } => {
                        message
                    }
                };
            }
        }
    }
}
