//! One connection: a stream of calls out, a stream of answers in, any number of calls in flight.

use super::Broken;
use super::connect::{self, Opened, refused};
use super::driver::Driver;
use super::outgoing::Outgoing;
use super::slot::Slot;
use crate::address::Address;
use crate::frame::{RawToClient, call_bytes, put_call, put_cancel, put_credit};
use crate::proto;
use esker_model::Error;
use prost::Message as _;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::task::AbortHandle;

/// Calls up to this size are encoded while others wait to queue theirs.
const IN_PLACE_BYTES: usize = 4 << 10;

/// A connection that was greeted.
#[derive(Debug)]
pub(super) struct Connection {
    outgoing: Arc<Outgoing>,
    calls: Arc<Calls>,
    next: AtomicU64,
    /// What the server said of itself.
    pub(super) welcome: proto::Welcome,
    welcomed: Instant,
    task: AbortHandle,
}

#[derive(Debug, Default)]
struct Calls {
    open: Mutex<Open>,
    /// No new calls: it is gone, or will be.
    closing: AtomicBool,
}

#[derive(Debug, Default)]
struct Open {
    slots: HashMap<u64, Arc<Slot>>,
    lost: Option<String>,
}

/// A call that was sent.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) id: u64,
    pub(super) slot: Arc<Slot>,
    connection: Arc<Connection>,
}

impl Calls {
    fn open(&self) -> std::sync::MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands answers to those who wait for them.
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
            // Nobody waits any more for what was cancelled.
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
    /// Connects, and waits for the greeting.
    pub(super) fn open(address: &Address) -> Result<Arc<Self>, Broken> {
        let driver = Driver::get()?;
        let (outgoing, calls) = (Arc::new(Outgoing::default()), Arc::new(Calls::default()));
        let (tell, told) = std::sync::mpsc::sync_channel(1);
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
                        let _ = tell.send(Ok(welcome));
                        calls.deliver(first);
                        let why =
                            receive(&address, answers, |message| calls.deliver(message)).await;
                        outgoing.close();
                        calls.lose(&why);
                    }
                    Err(e) => {
                        let _ = tell.send(Err(e));
                    }
                }
            })
        };
        driver.nudge();
        let greeted = told
            .recv()
            .unwrap_or_else(|_| Err(Broken::Lost("the thread for connections has ended".into())));
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

    /// Whether it takes calls still.
    pub(super) fn usable(&self) -> bool {
        !self.calls.closing.load(Ordering::Acquire)
    }

    /// What time it is by the server's clock, which may be another than this machine's.
    pub(super) fn server_millis(&self) -> u64 {
        let since = self.welcomed.elapsed().as_millis();
        let since = u64::try_from(since).unwrap_or(u64::MAX);
        self.welcome.now_millis.saturating_add(since)
    }

    /// Sends a call.
    pub(super) fn send(
        self: &Arc<Self>,
        request: &proto::Request,
        at_least: u64,
        timeout_ms: u32,
    ) -> Result<Sent, Broken> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let bytes = call_bytes(id, request, at_least, timeout_ms);
        if bytes as u64 > self.welcome.call_bytes_max {
            return Err(Broken::Failed(Error::Limit {
                what: "the size in bytes of one call to a server".into(),
                got: bytes as u64,
                limit: self.welcome.call_bytes_max,
            }));
        }
        let slot = Arc::new(Slot::default());
        {
            let mut open = self.calls.open();
            if let Some(why) = &open.lost {
                return Err(Broken::Lost(why.clone()));
            }
            open.slots.insert(id, Arc::clone(&slot));
        }
        let put = |message: &mut Vec<u8>| put_call(id, request, at_least, timeout_ms, message);
        if bytes > IN_PLACE_BYTES {
            // Encoded before anybody has to wait for it.
            let mut part = Vec::with_capacity(bytes);
            put(&mut part);
            self.outgoing.send(part);
        } else {
            self.outgoing.append(bytes, put);
        }
        Ok(Sent {
            id,
            slot,
            connection: Arc::clone(self),
        })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.outgoing.close();
        self.task.abort();
    }
}

impl Sent {
    /// The server may send so many bytes more.
    pub(super) fn credit(&self, bytes: u64) {
        let mut part = Vec::new();
        put_credit(proto::Credit { id: self.id, bytes }, &mut part);
        self.connection.outgoing.send(part);
    }

    /// The answer is not wanted any more.
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

/// A call whose answer was not read to its end is not wanted any more.
impl Drop for Sent {
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

/// Reads answers until the connection ends, and says why it did.
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
                    Broken::Lost(why) => why,
                    Broken::Failed(e) => e.to_string(),
                    Broken::Busy { message, .. } | Broken::Elsewhere { why: message, .. } => {
                        message
                    }
                };
            }
        }
    }
}
