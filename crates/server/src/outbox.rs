//! Answers in transit to one client: encoded by the threads that have them, joined into messages by the connection.

use crate::limits::MESSAGE_BYTES;
use esker_rpc::frame::put_answer;
use esker_rpc::proto;
use prost::Message as _;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tonic::Status;
use tonic::codegen::tokio_stream::Stream;

/// Largest answer in bytes that is encoded under the queue's lock.
const IN_PLACE_BYTES: usize = 4 << 10;

/// Queue between workers and a connection.
pub(crate) struct Outbox {
    state: Mutex<OutboxState>,
    /// Bytes in memory over all connections.
    memory: Arc<AtomicUsize>,
    sent: Arc<crate::metrics::Counter>,
}

#[derive(Default)]
struct OutboxState {
    full: VecDeque<Vec<u8>>,
    filling: Vec<u8>,
    bytes: usize,
    waker: Option<Waker>,
    closed: bool,
}

impl Outbox {
    pub(crate) fn new(memory: Arc<AtomicUsize>, sent: Arc<crate::metrics::Counter>) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            memory,
            sent,
        })
    }

    fn state(&self) -> MutexGuard<'_, OutboxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues an answer: a small one is encoded under the lock, a large one before taking the lock.
    pub(crate) fn answer(&self, answer: &proto::Answer) {
        let bytes = answer.encoded_len();
        if bytes > IN_PLACE_BYTES {
            let mut part = Vec::with_capacity(bytes + 16);
            put_answer(answer, &mut part);
            self.push(part);
            return;
        }
        self.append(bytes, |message| put_answer(answer, message));
    }

    /// Queues a part of a message.
    pub(crate) fn push(&self, part: Vec<u8>) {
        self.append(part.len(), |message| {
            if message.is_empty() {
                *message = part;
            } else {
                message.extend_from_slice(&part);
            }
        });
    }

    fn append(&self, about: usize, write: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state();
        if state.closed {
            return;
        }
        if state.filling.len() + about > MESSAGE_BYTES && !state.filling.is_empty() {
            let full = std::mem::take(&mut state.filling);
            state.full.push_back(full);
        }
        let before = state.filling.len();
        write(&mut state.filling);
        let bytes = state.filling.len() - before;
        state.bytes += bytes;
        self.memory.fetch_add(bytes, Ordering::AcqRel);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whether everything queued was passed to the connection.
    pub(crate) fn is_empty(&self) -> bool {
        self.state().bytes == 0
    }

    /// Ends the stream once the queued messages are sent.
    pub(crate) fn finish(&self) {
        let mut state = self.state();
        state.closed = true;
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Drops all queued messages, because the client is gone.
    pub(crate) fn abandon(&self) {
        let mut state = self.state();
        state.closed = true;
        self.memory.fetch_sub(state.bytes, Ordering::AcqRel);
        state.bytes = 0;
        state.full.clear();
        state.filling = Vec::new();
    }
}

/// An outbox as the stream that a connection sends.
pub(crate) struct Messages(pub(crate) Arc<Outbox>);

impl Stream for Messages {
    type Item = Result<Vec<u8>, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let outbox = &self.0;
        let mut state = outbox.state();
        let message = match state.full.pop_front() {
            Some(message) => message,
            None => std::mem::take(&mut state.filling),
        };
        if message.is_empty() {
            if state.closed {
                return Poll::Ready(None);
            }
            state.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        state.bytes -= message.len();
        drop(state);
        outbox.memory.fetch_sub(message.len(), Ordering::AcqRel);
        outbox.sent.add(message.len() as u64);
        Poll::Ready(Some(Ok(message)))
    }
}

impl Drop for Messages {
    fn drop(&mut self) {
        self.0.abandon();
    }
}
