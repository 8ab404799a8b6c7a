//! Requests to other servers, and waiting for changes of this server's state.

use super::{BoxFuture, Node};
use crate::peer::{PeerRequest, PeerResponse, Request, Response};
use crate::vnode::ServerId;
use esker_model::{Error, Result};
use futures_util::future::{Either, select};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

impl Node {
    /// Sends a request to another server; returns the response and the incarnation of that server.
    pub(crate) async fn request_with_incarnation(
        &self,
        to: ServerId,
        request: Request,
    ) -> Result<(Response, u64)> {
        let (response, incarnation, _) = self.request_with_moves(to, request).await?;
        Ok((response, incarnation))
    }

    /// Sends a request to another server; returns the response, the incarnation, and the number of partition moves there.
    pub(crate) async fn request_with_moves(
        &self,
        to: ServerId,
        request: Request,
    ) -> Result<(Response, u64, u64)> {
        let answer = self.call_peer(to, request).await?;
        Ok((answer.outcome?, answer.incarnation, answer.moves))
    }

    /// Sends a request to another server; returns the complete response.
    pub(crate) async fn call_peer(&self, to: ServerId, request: Request) -> Result<PeerResponse> {
        // The order matters, as in `read_version`.
        let newest = self.newest_known();
        let question = PeerRequest {
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

    /// Sends a request to another server; returns the response.
    pub(crate) async fn request(&self, to: ServerId, request: Request) -> Result<Response> {
        Ok(self.request_with_incarnation(to, request).await?.0)
    }

    /// Runs a task concurrently, for as long as the node lives.
    pub(crate) fn spawn<F>(self: &Arc<Self>, task: impl FnOnce(Arc<Self>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.host.spawn(Box::pin(task(Arc::clone(self))));
    }

    /// Waits until `look` returns a value for the state, up to `millis` milliseconds.
    pub(crate) async fn wait_until<T>(
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

/// Error for a response whose kind does not match the request.
pub(crate) fn unexpected(from: ServerId) -> Error {
    Error::OtherRelease(format!(
        "{from} answered another request: do all servers run the same release?"
    ))
}
