//! One call under way, seen from the thread that waits for its answer.

use super::driver::Driver;
use bytes::Bytes;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

/// Where the pieces of an answer arrive.
#[derive(Debug, Default)]
pub(super) struct Slot {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct State {
    pieces: VecDeque<Bytes>,
    /// No more will come: the answer is complete, or the connection is gone.
    ended: Option<Ended>,
    /// Who waits on the condition.
    waiting: bool,
    /// Who waits as the one that drives connections.
    waker: Option<Waker>,
}

/// How the pieces of an answer end.
#[derive(Debug, Clone)]
pub(super) enum Ended {
    /// The last one has come.
    Complete,
    /// The connection went away, for that reason.
    Lost(String),
}

/// What a wait brought.
#[derive(Debug)]
pub(super) enum Arrived {
    /// The next piece.
    Piece(Bytes),
    /// There are no more.
    End(Ended),
    /// Nothing in that time.
    Nothing,
}

impl State {
    /// What is there already.
    fn take(&mut self) -> Option<Arrived> {
        match self.pieces.pop_front() {
            Some(piece) => Some(Arrived::Piece(piece)),
            None => self.ended.clone().map(Arrived::End),
        }
    }
}

impl Slot {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A piece has come; `last` if no more will.
    pub(super) fn put(&self, piece: Bytes, last: bool) {
        let mut state = self.state();
        state.pieces.push_back(piece);
        if last {
            state.ended = Some(Ended::Complete);
        }
        self.tell(state);
    }

    /// The connection is gone.
    pub(super) fn lose(&self, why: &str) {
        let mut state = self.state();
        if state.ended.is_none() {
            state.ended = Some(Ended::Lost(why.to_owned()));
        }
        self.tell(state);
    }

    fn tell(&self, mut state: MutexGuard<'_, State>) {
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

    /// The same for threads that are a runtime's.
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
