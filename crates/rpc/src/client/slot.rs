//! One call in flight, as seen by the waiting thread.

use super::driver::Driver;
use bytes::Bytes;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

/// Queue of the pieces of a response.
#[derive(Debug, Default)]
pub(super) struct Slot {
    state: Mutex<SlotState>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct SlotState {
    pieces: VecDeque<Bytes>,
    /// Set when no more pieces will arrive.
    ended: Option<Ended>,
    /// Whether a thread waits on the condition variable.
    waiting: bool,
    /// Waker of a waiting thread that drives connections.
    waker: Option<Waker>,
}

/// End of a response.
#[derive(Debug, Clone)]
pub(super) enum Ended {
    /// The response is complete.
    Complete,
    /// The connection was lost, for this reason.
    Lost(String),
}

/// Result of a wait.
#[derive(Debug)]
pub(super) enum Arrived {
    /// The next piece of the response.
    Piece(Bytes),
    /// The end of the response.
    End(Ended),
    /// The time limit was reached.
    Nothing,
}

impl SlotState {
    /// Takes the next piece or the end, if available.
    fn take(&mut self) -> Option<Arrived> {
        match self.pieces.pop_front() {
            Some(piece) => Some(Arrived::Piece(piece)),
            None => self.ended.clone().map(Arrived::End),
        }
    }
}

impl Slot {
    fn state(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a piece; `last` if no more will arrive.
    pub(super) fn put(&self, piece: Bytes, last: bool) {
        let mut state = self.state();
        state.pieces.push_back(piece);
        if last {
            state.ended = Some(Ended::Complete);
        }
        self.notify(state);
    }

    /// Ends the response because the connection was lost.
    pub(super) fn lose(&self, why: &str) {
        let mut state = self.state();
        if state.ended.is_none() {
            state.ended = Some(Ended::Lost(why.to_owned()));
        }
        self.notify(state);
    }

    fn notify(&self, mut state: MutexGuard<'_, SlotState>) {
        let (waiting, waker) = (state.waiting, state.waker.take());
        drop(state);
        if waiting {
            self.arrived.notify_one();
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Waits for the next piece.
    pub(super) fn wait(&self, at_most: Option<Duration>) -> Arrived {
        if let Some(arrived) = self.state().take() {
            return arrived;
        }
        match Driver::get() {
            Ok(driver) if Driver::can_wait() => {
                let arrives = poll_fn(|context| {
                    let mut state = self.state();
                    if let Some(arrived) = state.take() {
                        return Poll::Ready(arrived);
                    }
                    state.waker = Some(context.waker().clone());
                    Poll::Pending
                });
                driver.wait(at_most, arrives).unwrap_or(Arrived::Nothing)
            }
            Ok(driver) => {
                driver.nudge();
                self.wait_aside(at_most)
            }
            Err(_) => self.wait_aside(at_most),
        }
    }

    /// Waits without driving, for threads of a runtime.
    fn wait_aside(&self, at_most: Option<Duration>) -> Arrived {
        let mut state = self.state();
        loop {
            if let Some(arrived) = state.take() {
                return arrived;
            }
            state.waiting = true;
            let (next, timed_out) = match at_most {
                None => {
                    let waited = self.arrived.wait(state);
                    (waited.unwrap_or_else(PoisonError::into_inner), false)
                }
                Some(time) => {
                    let waited = self.arrived.wait_timeout(state, time);
                    let (state, result) = waited.unwrap_or_else(PoisonError::into_inner);
                    (state, result.timed_out())
                }
            };
            state = next;
            state.waiting = false;
            if timed_out && state.pieces.is_empty() && state.ended.is_none() {
                return Arrived::Nothing;
            }
        }
    }
}
