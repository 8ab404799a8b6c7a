//! Requests: commands in order, each with what reads its reply.

use super::Codec;
use crate::error::{Error, Result};
use bytes::Bytes;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;

/// What a parser says of an item.
pub enum Verdict<C: Codec, T> {
    /// All is well so far: the next item, or the reply to the chain's next command, is wanted.
    Next,
    /// The request is answered; what remains of the chain is not wanted.
    Done(T),
    /// What comes next depended on this reply: instead of what remains of the chain, this is asked.
    Then(Chain<C, T>),
    /// It failed, and may succeed when it is asked again: the error is a passing one.
    Again(Error),
    /// It failed for good.
    Skip(Error),
    /// The reply cannot belong to the command, so nothing that follows on this connection can be trusted.
    Break(Error),
}

/// Reads a reply, item by item.
pub type Parser<C, T> = Box<dyn FnMut(<C as Codec>::Item) -> Verdict<C, T> + Send>;

/// One request.
pub struct Chain<C: Codec, T> {
    steps: Vec<(Bytes, Parser<C, T>)>,
}

impl<C: Codec, T: Send + 'static> Chain<C, T> {
    /// A command, and what reads its reply.
    pub fn new(
        command: impl Into<Bytes>,
        parser: impl FnMut(C::Item) -> Verdict<C, T> + Send + 'static,
    ) -> Self {
        Self { steps: Vec::new() }.and(command, parser)
    }

    /// Another command, sent without waiting for the reply to the one before it.
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

    fn jobs_with(self, answer: &Answer<T>) -> Vec<Job<C>> {
        let last = self.steps.len().saturating_sub(1);
        let job = |(at, (command, parser)): (usize, (Bytes, Parser<C, T>))| Job {
            command,
            take: Box::new(Step {
                parser,
                answer: answer.clone(),
                is_last: at == last,
            }),
        };
        self.steps.into_iter().enumerate().map(job).collect()
    }
}

type Answer<T> = Arc<Mutex<Option<oneshot::Sender<Result<T>>>>>;

/// A command that is to be sent or has been, whatever its chain's answer is.
pub(super) struct Job<C: Codec> {
    pub(super) command: Bytes,
    pub(super) take: Box<dyn Take<C>>,
}

/// What follows from an item.
pub(super) enum After<C: Codec> {
    Nothing,
    Ask(Vec<Job<C>>),
    Break(Error),
}

pub(super) trait Take<C: Codec>: Send {
    /// Whether anybody still waits for what it would give.
    fn wanted(&self) -> bool;
    /// Reads an item; `ends` says that the reply is over with it.
    fn item(&mut self, item: C::Item, ends: bool, origin: &str) -> After<C>;
    fn fail(&mut self, error: &Error);
}

struct Step<C: Codec, T> {
    parser: Parser<C, T>,
    answer: Answer<T>,
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
            // Who asked may have gone away.
            let _ = waiting.send(result);
        }
    }
}

impl<C: Codec, T: Send + 'static> Take<C> for Step<C, T> {
    fn wanted(&self) -> bool {
        let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        answer.as_ref().is_some_and(|waiting| !waiting.is_closed())
    }

    fn item(&mut self, item: C::Item, ends: bool, origin: &str) -> After<C> {
        match (self.parser)(item) {
            Verdict::Next => {
                if ends && self.is_last {
                    self.answer(Err(Error::Nonsense {
                        origin: origin.into(),
                        why: "its reply ended without what was asked for".into(),
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
                // The steps that are left of the old chain find no one who waits.
                if let Some(waiting) = waiting {
                    return After::Ask(chain.jobs(waiting));
                }
            }
            Verdict::Again(error) | Verdict::Skip(error) => self.answer(Err(error)),
            Verdict::Break(error) => {
                self.answer(Err(error.clone()));
                return After::Break(error);
            }
        }
        After::Nothing
    }

    fn fail(&mut self, error: &Error) {
        self.answer(Err(error.clone()));
    }
}
