//! What is to be sent: calls of all threads, joined into messages while the connection is busy with earlier ones.

use crate::limits::{MESSAGE_BYTES, OUTGOING_BYTES_MAX};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tonic::codegen::tokio_stream::Stream;

/// The queue between callers and the connection.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    state: Mutex<State>,
    room: Condvar,
}

#[derive(Debug)]
struct State {
    full: VecDeque<Vec<u8>>,
    filling: Vec<u8>,
    bytes: usize,
    /// Parts travel together up to this size.
    message_bytes: usize,
    waker: Option<Waker>,
    closed: bool,
}

impl Default for State {
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

impl Outgoing {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server takes messages of so many bytes.
    pub(super) fn limit(&self, bytes: usize) {
        self.state().message_bytes = bytes.min(MESSAGE_BYTES);
    }

    /// Queues a part of a message. Waits while too much is queued; what comes after the end is dropped.
    pub(super) fn send(&self, part: Vec<u8>) {
        self.append(part.len(), |message| join(message, part));
    }

    /// The same, written in its place by `write`: about so many bytes.
    pub(super) fn append(&self, about: usize, write: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state();
        while state.bytes > OUTGOING_BYTES_MAX && !state.closed {
            state = self
                .room
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        Self::add(state, about, write);
    }

    /// The same for callers that must not wait: false if that much is queued.
    pub(super) fn push(&self, part: Vec<u8>, most: usize) -> bool {
        let state = self.state();
        let room = state.bytes <= most;
        if room {
            Self::add(state, part.len(), |message| join(message, part));
        }
        room
    }

    fn add(mut state: MutexGuard<'_, State>, about: usize, write: impl FnOnce(&mut Vec<u8>)) {
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

    /// Forgets what is queued, for another connection: nobody but who opens it has queued anything yet.
    pub(super) fn restart(&self) {
        *self.state() = State::default();
    }

    /// Nothing more goes out.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        let waker = state.waker.take();
        drop(state);
        self.room.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Appends a part, or becomes it.
fn join(message: &mut Vec<u8>, part: Vec<u8>) {
    if message.is_empty() {
        *message = part;
    } else {
        message.extend_from_slice(&part);
    }
}

/// The queue as the stream that a connection sends.
pub(super) struct Messages(pub(super) Arc<Outgoing>);

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
            self.0.room.notify_all();
        }
        Poll::Ready(Some(message))
    }
}
