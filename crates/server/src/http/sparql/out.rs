//! An answer on its way: short ones go whole, with their length; long ones in pieces, as fast as the client takes them.

use super::said;
use crate::call::Watch;
use crate::limits::STALL_MAX;
use crate::service::Turn;
use axum::body::Body;
use bytes::Bytes;
use esker_model::Cancel as _;
use http::{HeaderValue, Response, StatusCode, header};
use std::io::{self, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use tonic::codegen::tokio_stream::Stream;

/// Bytes of a piece. An answer of no more goes whole.
const PIECE: usize = 64 << 10;
/// Pieces that may wait for the client to take them.
const PIECES: usize = 4;

type Pieces = mpsc::Sender<Bytes>;

/// Where a thread writes an answer.
pub(super) struct Out {
    head: Option<oneshot::Sender<Response<Body>>>,
    content_type: &'static str,
    held: Vec<u8>,
    /// That the request counts as one of its client's. It is given back before the answer ends, so that a client which asks one thing after
    /// the other has one request under way. Fields are dropped in their order: this one before the pieces.
    turn: Option<Turn>,
    pieces: Option<Pieces>,
    /// All of it was written.
    whole: Arc<AtomicBool>,
    watch: Arc<Watch>,
}

impl Out {
    pub(super) fn new(
        head: oneshot::Sender<Response<Body>>,
        watch: Arc<Watch>,
        turn: Turn,
    ) -> Self {
        Self {
            head: Some(head),
            content_type: "text/plain; charset=utf-8",
            held: Vec::new(),
            turn: Some(turn),
            pieces: None,
            whole: Arc::default(),
            watch,
        }
    }

    pub(super) fn content_type(&mut self, content_type: &'static str) {
        self.content_type = content_type;
    }

    /// Answers with something else. Nothing was written yet, or what was is cut off.
    pub(super) fn instead(mut self, response: Response<Body>) {
        self.turn = None;
        if let Some(head) = self.head.take() {
            // Who asked may be gone.
            let _ = head.send(response);
        }
    }

    fn response(&self, body: Body) -> Response<Body> {
        let mut response = Response::new(body);
        response.headers_mut().insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static(self.content_type),
        );
        response
    }

    fn send(&mut self) -> io::Result<()> {
        if let Some(head) = self.head.take() {
            let (pieces, taken) = mpsc::channel(PIECES);
            let body = Body::from_stream(Taken {
                pieces: taken,
                whole: Arc::clone(&self.whole),
                watch: Arc::clone(&self.watch),
            });
            let response = self.response(body);
            self.pieces = Some(pieces);
            head.send(response)
                .map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        }
        let Some(pieces) = &self.pieces else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let mut piece = Bytes::from(std::mem::take(&mut self.held));
        let until = Instant::now() + STALL_MAX;
        loop {
            piece = match pieces.try_send(piece) {
                Ok(()) => return Ok(()),
                Err(mpsc::error::TrySendError::Closed(_)) => {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
                Err(mpsc::error::TrySendError::Full(piece)) => piece,
            };
            if Instant::now() >= until || self.watch.cancelled() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The end of the answer.
    pub(super) fn finish(mut self) {
        if let Some(head) = self.head.take() {
            self.turn = None;
            let body = Body::from(std::mem::take(&mut self.held));
            let _ = head.send(self.response(body));
        } else if self.held.is_empty() || self.send().is_ok() {
            self.whole.store(true, Ordering::Release);
        }
    }

    /// The answer ends here, and is not whole.
    pub(super) fn cut(self) {
        self.instead(said(
            StatusCode::SERVICE_UNAVAILABLE,
            "the answer could not be written",
        ));
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.held.extend_from_slice(bytes);
        if self.held.len() > PIECE {
            self.send()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The body as the connection takes it. Whoever drops it wants no more.
struct Taken {
    pieces: mpsc::Receiver<Bytes>,
    whole: Arc<AtomicBool>,
    watch: Arc<Watch>,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.watch.abandon();
    }
}

impl Stream for Taken {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.pieces.poll_recv(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(piece)) => Poll::Ready(Some(Ok(piece))),
            Poll::Ready(None) if self.whole.load(Ordering::Acquire) => Poll::Ready(None),
            // The connection ends without an end of the body: what the client has is not the whole answer.
            Poll::Ready(None) => Poll::Ready(Some(Err(io::ErrorKind::Interrupted.into()))),
        }
    }
}
