//! A request's body as a thread reads it, while it arrives.

use axum::body::Body;
use bytes::Bytes;
use std::io::{self, Read};
use tokio::sync::mpsc;
use tonic::codegen::tokio_stream::StreamExt as _;

/// Pieces that wait for the thread.
const PIECES: usize = 8;
/// Bytes of a body that nobody wants any more and that are taken in nevertheless: a client that sends reads no answer.
const DRAINED: usize = 64 << 20;

/// What the thread reads.
pub(super) struct Arriving {
    pieces: mpsc::Receiver<io::Result<Bytes>>,
    piece: Bytes,
}

impl Read for Arriving {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.pieces.blocking_recv() {
                Some(piece) => self.piece = piece?,
                None => return Ok(0),
            }
        }
        let n = to.len().min(self.piece.len());
        let piece = self.piece.split_to(n);
        to[..n].copy_from_slice(&piece);
        Ok(n)
    }
}

/// Where the pieces go that the connection brings.
pub(super) struct Source {
    body: Body,
    pieces: mpsc::Sender<io::Result<Bytes>>,
    most: usize,
}

/// A body of at most so many bytes.
pub(super) fn arriving(body: Body, most: usize) -> (Source, Arriving) {
    let (sender, pieces) = mpsc::channel(PIECES);
    let source = Source {
        body,
        pieces: sender,
        most,
    };
    let piece = Bytes::new();
    (source, Arriving { pieces, piece })
}

impl Source {
    /// Hands over all that arrives, until its end.
    pub(super) async fn run(self) {
        let mut stream = self.body.into_data_stream();
        let (mut bytes, mut unread) = (0, 0);
        while let Some(piece) = stream.next().await {
            let piece = match piece {
                Ok(piece) => {
                    bytes += piece.len();
                    if bytes > self.most {
                        Err(io::Error::other(format!(
                            "the request's body is larger than {} bytes, the most that this server takes (sparql.upload)",
                            self.most
                        )))
                    } else {
                        Ok(piece)
                    }
                }
                Err(e) => Err(io::Error::other(format!(
                    "the request's body did not arrive whole: {e}"
                ))),
            };
            let (last, size) = (piece.is_err(), piece.as_ref().map_or(0, Bytes::len));
            if self.pieces.send(piece).await.is_err() {
                unread += size;
            }
            if last || unread > DRAINED {
                return;
            }
        }
    }
}
