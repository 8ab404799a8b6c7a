//! Send queue of a connection: calls of all threads, joined into messages while the connection is busy.

use crate::limits::{MESSAGE_BYTES, OUTGOING_BYTES_MAX};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tonic::codegen::tokio_stream::Stream;

/// The queue between callers and the connection.
#[derive(Debug, Default)]
pub(super) struct SendQueue {
    state: Mutex<QueueState>,
    space: Condvar,
}

#[derive(Debug)]
struct QueueState {
    full: VecDeque<Vec<u8>>,
    filling: Vec<u8>,
    bytes: usize,
    /// Parts are joined into messages up to this size in bytes.
    message_bytes: usize,
    waker: Option<Waker>,
    closed: bool,
}

impl Default for QueueState {
    fn default() -> Self {
        Self {
            full: VecDeque::new(),
            filling: Vec::new(),
            bytes: 0,
            message_bytes: MESSAGE_BYTES,
            waker: None,
            closed: false,
        }
    }
}

impl SendQueue {
    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Limits messages to the size that the server accepts.
    pub(super) fn limit(&self, bytes: usize) {
        self.state().message_bytes = bytes.min(MESSAGE_BYTES);
    }

    /// Queues a part of a message. Waits while the queue is full; after `close` the part is dropped.
    pub(super) fn send(&self, part: Vec<u8>) {
        self.append(part.len(), |message| join(message, part));
    }

    /// Queues a part of about `about` bytes that `write` appends in place. Waits like [`Self::send`].
    pub(super) fn append(&self, about: usize, write: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state();
        while state.bytes > OUTGOING_BYTES_MAX && !state.closed {
            state = self
                .space
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        Self::add(state, about, write);
    }

    /// Queues a part without waiting; false if more than `most` bytes are queued.
    pub(super) fn push(&self, part: Vec<u8>, most: usize) -> bool {
        let state = self.state();
        let space = state.bytes <= most;
        if space {
            Self::add(state, part.len(), |message| join(message, part));
        }
        space
    }

    fn add(mut state: MutexGuard<'_, QueueState>, about: usize, write: impl FnOnce(&mut Vec<u8>)) {
        if state.closed {
            return;
        }
        if state.filling.len() + about > state.message_bytes && !state.filling.is_empty() {
            let full = std::mem::take(&mut state.filling);
            state.full.push_back(full);
        }
        let before = state.filling.len();
        write(&mut state.filling);
        state.bytes += state.filling.len() - before;
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Clears the queue for another connection, before any caller has queued a call.
    pub(super) fn restart(&self) {
        *self.state() = QueueState::default();
    }

    /// Closes the queue: no more messages are sent.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        let waker = state.waker.take();
        drop(state);
        self.space.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Appends a part, or moves it into an empty message.
fn join(message: &mut Vec<u8>, part: Vec<u8>) {
    if message.is_empty() {
        *message = part;
    } else {
        message.extend_from_slice(&part);
    }
}

/// The queue as the stream that a connection sends.
pub(super) struct Messages(pub(super) Arc<SendQueue>);

impl Stream for Messages {
    type Item = Vec<u8>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        let mut state = self.0.state();
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
        let before = state.bytes;
        state.bytes -= message.len();
        let freed = before > OUTGOING_BYTES_MAX && state.bytes <= OUTGOING_BYTES_MAX;
        drop(state);
        if freed {
            self.0.space.notify_all();
        }
        Poll::Ready(Some(message))
    }
}
