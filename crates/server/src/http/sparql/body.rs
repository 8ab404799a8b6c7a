//! A request's body as a thread reads it, while it arrives.

use axum::body::Body;
use bytes::Bytes;
use esker::rdf::{Packing, unpacked};
use esker_model::Result;
use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;
use tokio::sync::mpsc;
use tonic::codegen::tokio_stream::StreamExt as _;

/// Pieces that wait for the thread.
const PIECES: usize = 8;
/// Bytes of a body that nobody wants any more and that are taken in nevertheless: a client that sends reads no answer.
const DRAINED: usize = 64 << 20;

/// Bytes of unpacked data for each byte of packed data that are taken: RDF packs to a tenth, seldom to a fiftieth.
const RATIO: u64 = 250;
/// Unpacked bytes that are taken whatever their ratio.
const RATIO_FREE: u64 = 16 << 20;

/// Unpacks data as it is read, no more of it than `left` bytes, which are counted down, and no more than its packed size
/// lets one expect. `most` is what `left` began with.
///
/// # Errors
/// If the data is not packed so.
pub(super) fn unpack<'a>(
    from: impl Read + 'a,
    packing: Packing,
    left: &'a Cell<u64>,
    most: usize,
) -> Result<Box<dyn Read + 'a>> {
    let packed = Rc::new(Cell::new(0));
    let counted = Counted {
        from,
        bytes: Rc::clone(&packed),
    };
    let from = unpacked(Box::new(counted), packing)?;
    Ok(Box::new(Bounded {
        from,
        packed,
        unpacked: 0,
        left,
        most,
    }))
}

/// Counts what is read.
struct Counted<R> {
    from: R,
    bytes: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let n = self.from.read(to)?;
        self.bytes.set(self.bytes.get() + n as u64);
        Ok(n)
    }
}

/// Unpacked data within its limits.
struct Bounded<'a> {
    from: Box<dyn Read + 'a>,
    packed: Rc<Cell<u64>>,
    unpacked: u64,
    left: &'a Cell<u64>,
    most: usize,
}

impl Read for Bounded<'_> {
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
