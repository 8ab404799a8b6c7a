//! Responses being written: short ones are sent at once with their length; long ones in pieces, at the client's pace.

use super::RequestSlots;
use super::plain::text_response;
use crate::call::CallState;
use crate::limits::STALL_MAX;
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

/// Size of a piece in bytes. A shorter response is sent at once.
const PIECE: usize = 64 << 10;
/// Pieces that may wait for the client to receive them.
const PIECES: usize = 4;

type PieceSender = mpsc::Sender<Bytes>;

/// Writer of a response body.
pub(super) struct ResponseWriter {
    head: Option<oneshot::Sender<Response<Body>>>,
    content_type: &'static str,
    buffer: Vec<u8>,
    /// Slot of the request among its client's. It is released before the response ends, so that a client with sequential requests never
    /// has two in progress. Fields are dropped in order: this one before `pieces`.
    client_slot: Option<RequestSlots>,
    pieces: Option<PieceSender>,
    /// Whether the complete response was written.
    complete: Arc<AtomicBool>,
    call_state: Arc<CallState>,
}

impl ResponseWriter {
    pub(super) fn new(
        head: oneshot::Sender<Response<Body>>,
        call_state: Arc<CallState>,
        client_slot: RequestSlots,
    ) -> Self {
        Self {
            head: Some(head),
            content_type: "text/plain; charset=utf-8",
            buffer: Vec::new(),
            client_slot: Some(client_slot),
            pieces: None,
            complete: Arc::default(),
            call_state,
        }
    }

    pub(super) fn content_type(&mut self, content_type: &'static str) {
        self.content_type = content_type;
    }

    /// Sends another response. If part of the original one was sent, it is cut off.
    pub(super) fn replace_with(mut self, response: Response<Body>) {
        self.client_slot = None;
        if let Some(head) = self.head.take() {
            // The client may be gone.
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
            let body = Body::from_stream(ResponseBody {
                pieces: taken,
                complete: Arc::clone(&self.complete),
                call_state: Arc::clone(&self.call_state),
            });
            let response = self.response(body);
            self.pieces = Some(pieces);
            head.send(response)
                .map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        }
        let Some(pieces) = &self.pieces else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let mut piece = Bytes::from(std::mem::take(&mut self.buffer));
        let until = Instant::now() + STALL_MAX;
        loop {
            piece = match pieces.try_send(piece) {
                Ok(()) => return Ok(()),
                Err(mpsc::error::TrySendError::Closed(_)) => {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
                Err(mpsc::error::TrySendError::Full(piece)) => piece,
            };
            if Instant::now() >= until || self.call_state.cancelled() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Sends the end of the response.
    pub(super) fn finish(mut self) {
        if let Some(head) = self.head.take() {
            self.client_slot = None;
            let body = Body::from(std::mem::take(&mut self.buffer));
            let _ = head.send(self.response(body));
        } else if self.buffer.is_empty() || self.send().is_ok() {
            self.complete.store(true, Ordering::Release);
        }
    }

    /// Ends an incomplete response.
    pub(super) fn abort(self) {
        self.replace_with(text_response(
            StatusCode::SERVICE_UNAVAILABLE,
            "the answer could not be written",
        ));
    }
}

impl Write for ResponseWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() > PIECE {
            self.send()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The body as the connection receives it. Dropping it cancels the request.
struct ResponseBody {
    pieces: mpsc::Receiver<Bytes>,
    complete: Arc<AtomicBool>,
    call_state: Arc<CallState>,
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        self.call_state.abandon();
    }
}

impl Stream for ResponseBody {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.pieces.poll_recv(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(piece)) => Poll::Ready(Some(Ok(piece))),
            Poll::Ready(None) if self.complete.load(Ordering::Acquire) => Poll::Ready(None),
            // The connection ends without an end of the body, so that the client sees that the response is incomplete.
            Poll::Ready(None) => Poll::Ready(Some(Err(io::ErrorKind::Interrupted.into()))),
        }
    }
}
