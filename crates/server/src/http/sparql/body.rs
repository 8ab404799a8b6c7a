//! A request's body that a thread reads while it arrives.

use axum::body::Body;
use bytes::Bytes;
use esker::rdf::{Compression, unpacked};
use esker_model::Result;
use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;
use tokio::sync::mpsc;
use tonic::codegen::tokio_stream::StreamExt as _;

/// Pieces that may wait for the thread.
const PIECES: usize = 8;
/// Unneeded bytes of a body that are still received: a client reads no answer while it sends.
const DRAINED_MAX: usize = 64 << 20;

/// Largest accepted ratio of decompressed to compressed size: RDF compresses to a tenth, rarely to a fiftieth.
const RATIO: u64 = 250;
/// Decompressed bytes that are accepted at any ratio.
const RATIO_FREE: u64 = 16 << 20;

/// Decompresses data as it is read, up to `left` bytes, which are counted down, and up to a plausible ratio to the compressed size.
/// `most` is the initial value of `left`.
///
/// # Errors
/// Returns an error if the data is not compressed in this format.
pub(super) fn unpack<'a>(
    from: impl Read + 'a,
    packing: Compression,
    left: &'a Cell<u64>,
    most: usize,
) -> Result<Box<dyn Read + 'a>> {
    let packed = Rc::new(Cell::new(0));
    let counted = CountingReader {
        from,
        bytes: Rc::clone(&packed),
    };
    let from = unpacked(Box::new(counted), packing)?;
    Ok(Box::new(BoundedReader {
        from,
        packed,
        unpacked: 0,
        left,
        most,
    }))
}

/// A reader that counts bytes.
struct CountingReader<R> {
    from: R,
    bytes: Rc<Cell<u64>>,
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let n = self.from.read(to)?;
        self.bytes.set(self.bytes.get() + n as u64);
        Ok(n)
    }
}

/// A reader of decompressed data that enforces limits.
struct BoundedReader<'a> {
    from: Box<dyn Read + 'a>,
    packed: Rc<Cell<u64>>,
    unpacked: u64,
    left: &'a Cell<u64>,
    most: usize,
}

impl Read for BoundedReader<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let n = self.from.read(to)?;
        self.unpacked += n as u64;
        let Some(left) = self.left.get().checked_sub(n as u64) else {
            return Err(io::Error::other(format!(
                "the data has more than {} bytes when it is unpacked, the most that this server takes (sparql.upload)",
                self.most
            )));
        };
        self.left.set(left);
        if self.unpacked > RATIO_FREE.max(self.packed.get().saturating_mul(RATIO)) {
            return Err(io::Error::other(format!(
                "the data unpacks to more than {RATIO} times its size, as no RDF does; send it unpacked if it is meant so \
                 (sparql.upload)"
            )));
        }
        Ok(n)
    }
}

/// Reader of an arriving body.
pub(super) struct BodyReader {
    pieces: mpsc::Receiver<io::Result<Bytes>>,
    piece: Bytes,
}

impl Read for BodyReader {
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

/// Sender of a body's pieces from the connection to the reader.
pub(super) struct BodySender {
    body: Body,
    pieces: mpsc::Sender<io::Result<Bytes>>,
    most: usize,
}

/// Splits a body of at most `most` bytes into its sender and its reader.
pub(super) fn body_channel(body: Body, most: usize) -> (BodySender, BodyReader) {
    let (sender, pieces) = mpsc::channel(PIECES);
    let source = BodySender {
        body,
        pieces: sender,
        most,
    };
    let piece = Bytes::new();
    (source, BodyReader { pieces, piece })
}

impl BodySender {
    /// Sends all pieces to the reader until the end of the body.
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
                    "the request's body arrived incomplete: {e}"
                ))),
            };
            let (last, size) = (piece.is_err(), piece.as_ref().map_or(0, Bytes::len));
            if self.pieces.send(piece).await.is_err() {
                unread += size;
            }
            if last || unread > DRAINED_MAX {
                return;
            }
        }
    }
}
