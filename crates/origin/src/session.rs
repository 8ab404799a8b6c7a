//! What a protocol has to be: one connection that takes many questions at once.

use crate::error::Result;
use crate::place::Place;
use crate::question::{Found, Question, Told};
use futures_util::future::BoxFuture;
use std::sync::Arc;
use tokio::sync::mpsc;

/// One connection to an origin.
pub trait Session: Send + Sync + 'static {
    /// Asks; up to [`Session::width`] questions may be open at once. A question that is dropped may still be on the wire, its
    /// answer is read and thrown away. `Error::Broken` and `Error::Late` mean that nothing more comes on this connection.
    fn ask(&self, question: Question) -> BoxFuture<'_, Result<Found>>;

    /// How many questions may be open at once, after what the server says of itself and how it has behaved.
    fn width(&self) -> usize;

    /// Whether the connection is of no use any more.
    fn is_broken(&self) -> bool;

    /// What was found out about the server, for people: its name, what of the protocol it supports.
    fn about(&self) -> String {
        String::new()
    }

    /// Says goodbye where the protocol has a word for it.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Makes connections to one origin.
pub trait Connect: Send + Sync + 'static {
    /// Which origin.
    fn place(&self) -> &Place;

    /// A new connection, with who asks made known and the server's abilities probed. Bounded by the caller in time.
    fn connect(&self) -> BoxFuture<'_, Result<Arc<dyn Session>>>;

    /// Changes, if the origin can tell of them. The stream ends when the origin cannot any more.
    fn changes(&self) -> Option<mpsc::Receiver<Told>> {
        None
    }

    /// Whether they are told of what the last answer about a path said, where they are told at all.
    fn tells(&self, _path: &[u8]) -> bool {
        true
    }
}
