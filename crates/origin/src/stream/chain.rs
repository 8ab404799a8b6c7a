//! Requests: commands in order, each with the parser of its reply.

use super::Codec;
use crate::error::{Error, Result};
use bytes::Bytes;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;

/// A parser's decision on an item.
pub enum Verdict<C: Codec, T> {
    /// Continue: the next item, or the reply to the chain's next command, is needed.
    Next,
    /// The request is answered; the rest of the chain is discarded.
    Done(T),
    /// The next commands depend on this reply: this chain replaces the rest.
    Then(Chain<C, T>),
    /// Failure with a transient error; a retry may succeed.
    Retry(Error),
    /// Permanent failure of the request.
    Fail(Error),
    /// The reply cannot belong to the command, so the connection is unusable.
    Break(Error),
}

/// Parser of a reply, called for each item.
pub type Parser<C, T> = Box<dyn FnMut(<C as Codec>::Item) -> Verdict<C, T> + Send>;

/// A request: commands with their parsers.
pub struct Chain<C: Codec, T> {
    steps: Vec<(Bytes, Parser<C, T>)>,
}

impl<C: Codec, T: Send + 'static> Chain<C, T> {
    /// Creates a chain of one command with the parser of its reply.
    pub fn new(
        command: impl Into<Bytes>,
        parser: impl FnMut(C::Item) -> Verdict<C, T> + Send + 'static,
    ) -> Self {
        Self { steps: Vec::new() }.and(command, parser)
    }

    /// Appends a command that is sent without waiting for the previous reply.
    #[must_use]
    pub fn and(
        mut self,
        command: impl Into<Bytes>,
        parser: impl FnMut(C::Item) -> Verdict<C, T> + Send + 'static,
    ) -> Self {
        self.steps.push((command.into(), Box::new(parser)));
        self
    }

    pub(super) fn jobs(self, answer: oneshot::Sender<Result<T>>) -> Vec<Job<C>> {
        self.jobs_with(&Arc::new(Mutex::new(Some(answer))))
    }

    fn jobs_with(self, answer: &ResultSlot<T>) -> Vec<Job<C>> {
        let last = self.steps.len().saturating_sub(1);
        let job = |(at, (command, parser)): (usize, (Bytes, Parser<C, T>))| Job {
            command,
            reader: Box::new(Step {
                parser,
                answer: answer.clone(),
                is_last: at == last,
            }),
        };
        self.steps.into_iter().enumerate().map(job).collect()
    }
}

type ResultSlot<T> = Arc<Mutex<Option<oneshot::Sender<Result<T>>>>>;

/// A command to be sent or in flight, independent of its chain's result type.
pub(super) struct Job<C: Codec> {
    pub(super) command: Bytes,
    pub(super) reader: Box<dyn ReplyReader<C>>,
}

/// The driver's action after an item.
pub(super) enum FollowUp<C: Codec> {
    Nothing,
    Send(Vec<Job<C>>),
    Break(Error),
}

pub(super) trait ReplyReader<C: Codec>: Send {
    /// Whether the caller still waits for the result.
    fn is_wanted(&self) -> bool;
    /// Parses an item; `ends` says whether it is the last one of its reply.
    fn item(&mut self, item: C::Item, ends: bool, origin: &str) -> FollowUp<C>;
    fn fail(&mut self, error: &Error);
}

struct Step<C: Codec, T> {
    parser: Parser<C, T>,
    answer: ResultSlot<T>,
    is_last: bool,
}

impl<C: Codec, T> Step<C, T> {
    fn answer(&self, result: Result<T>) {
        let waiting = self
            .answer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(waiting) = waiting {
            // The receiver may be gone.
            let _ = waiting.send(result);
        }
    }
}

impl<C: Codec, T: Send + 'static> ReplyReader<C> for Step<C, T> {
    fn is_wanted(&self) -> bool {
        let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        answer.as_ref().is_some_and(|waiting| !waiting.is_closed())
    }

    fn item(&mut self, item: C::Item, ends: bool, origin: &str) -> FollowUp<C> {
        match (self.parser)(item) {
            Verdict::Next => {
                if ends && self.is_last {
                    self.answer(Err(Error::Protocol {
                        origin: origin.into(),
                        why: "its reply ended without the requested data".into(),
                    }));
                }
            }
            Verdict::Done(answer) => self.answer(Ok(answer)),
            Verdict::Then(chain) => {
                let waiting = self
                    .answer
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .take();
                // The remaining steps of the old chain have no receiver.
                if let Some(waiting) = waiting {
                    return FollowUp::Send(chain.jobs(waiting));
                }
            }
            Verdict::Retry(error) | Verdict::Fail(error) => self.answer(Err(error)),
            Verdict::Break(error) => {
                self.answer(Err(error.clone()));
                return FollowUp::Break(error);
            }
        }
        FollowUp::Nothing
    }

    fn fail(&mut self, error: &Error) {
        self.answer(Err(error.clone()));
    }
}
