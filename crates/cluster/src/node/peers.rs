//! Asking other servers, and waiting for what changes here.

use super::{BoxFuture, Node};
use crate::peer::{Answer, Question, Request, Response};
use crate::vnode::ServerId;
use esker_model::{Error, Result};
use futures_util::future::{Either, select};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

impl Node {
    /// Asks another server; the answer comes with how often that server has been started.
    pub(crate) async fn ask_at(&self, to: ServerId, request: Request) -> Result<(Response, u64)> {
        let (response, incarnation, _) = self.ask_all_of(to, request).await?;
        Ok((response, incarnation))
    }

    /// The same, with how often partitions have moved there.
    pub(crate) async fn ask_all_of(
        &self,
        to: ServerId,
        request: Request,
    ) -> Result<(Response, u64, u64)> {
        let answer = self.ask_answer(to, request).await?;
        Ok((answer.outcome?, answer.incarnation, answer.moves))
    }

    /// The whole answer.
    pub(crate) async fn ask_answer(&self, to: ServerId, request: Request) -> Result<Answer> {
        // In this order, as in `moment`.
        let newest = self.newest_known();
        let question = Question {
            from: self.settings.id,
            incarnation: self.incarnation,
            clock: self.newest(),
            newest,
            request,
        };
        let answer = self.host.call(to, question).await?;
        self.witness(to, answer.incarnation, answer.clock, answer.newest);
        Ok(answer)
    }

    /// Asks another server.
    pub(crate) async fn ask(&self, to: ServerId, request: Request) -> Result<Response> {
        Ok(self.ask_at(to, request).await?.0)
    }

    /// Runs a task beside the others, for as long as the node lives.
    pub(crate) fn spawn<F>(self: &Arc<Self>, task: impl FnOnce(Arc<Self>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.host.spawn(Box::pin(task(Arc::clone(self))));
    }

    /// Waits until a look at the state gives something, for so many milliseconds at most.
    pub(crate) async fn until<T>(
        &self,
        millis: u64,
        mut look: impl FnMut(&mut super::State) -> Option<T> + Send,
    ) -> Option<T> {
        if let Some(found) = look(&mut self.state()) {
            return Some(found);
        }
        let found = std::future::poll_fn(|context| {
            let mut state = self.state();
            let found = look(&mut state);
            if found.is_none() {
                state.wait(context.waker());
                return Poll::Pending;
            }
            Poll::Ready(found)
        });
        let sleep: BoxFuture<'_, ()> = self.host.sleep(millis);
        match select(pin!(found), sleep).await {
            Either::Left((found, _)) => found,
            Either::Right(_) => None,
        }
    }
}

/// A peer that answered with something that is no answer to what it was asked.
pub(crate) fn unexpected(from: ServerId) -> Error {
    Error::Unavailable(format!(
        "{from} gave an answer to another question: do all servers run the same release?"
    ))
}
