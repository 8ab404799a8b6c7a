//! The universal transferring stream (SMURF, III-B): one connection that has many commands in flight.
//!
//! A request is a [`Chain`] of commands, each with the parser of its reply. Commands of many requests go out together, in few
//! writes, up to a bound without waiting for replies; replies come in the order of commands. What is particular to a
//! protocol, where a reply begins and ends, is its [`Codec`].
//!
//! A request whose asker has gone away stays in its place, and its reply is read and thrown away. A reply that does not come, or comes
//! too slowly, or is no reply, ends the connection: everything that was open on it ends with the same error.

mod chain;
mod driver;
#[cfg(test)]
mod tests;

pub use chain::{Chain, Parser, Verdict};

use crate::error::{Error, Result};
use crate::question::ANSWER_BYTES_MAX;
use bytes::BytesMut;
use chain::Job;
use driver::Driver;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, mpsc, oneshot};

/// How a protocol's bytes become items: replies, or parts of replies that are worth looking at before the rest has come.
pub trait Codec: Send + 'static {
    /// What parsers see.
    type Item: Send + 'static;

    /// Takes the next item off the front of what has come; `None` if more has to come first.
    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<Self::Item>, Fault>;

    /// Whether a reply is over with this item, so that what comes next belongs to the next command.
    fn ends(item: &Self::Item) -> bool;

    /// Writes a command as it goes over the wire.
    fn encode(&mut self, command: &[u8], out: &mut BytesMut) -> Result<(), Fault> {
        out.extend_from_slice(command);
        Ok(())
    }
}

/// Why nothing that comes on a connection can be read any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It is not what the protocol allows.
    Nonsense(Box<str>),
    /// The server says that it closes the connection.
    Closing(Box<str>),
}

/// What one connection may take.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Commands in flight at most: the paper's C.
    pub in_flight: usize,
    /// How long nothing may come while a reply is awaited.
    pub silence: Duration,
    /// From when on a reply has to come at `slowest` bytes a second, counted from when it was the next to come.
    pub grace: Duration,
    /// Bytes a second that a long reply must reach.
    pub slowest: u64,
    /// Bytes that may wait for the end of one item.
    pub buffer: usize,
    /// Bytes that one reply may have.
    pub reply: usize,
    /// Bytes that are still read of a reply for which nobody waits any more.
    pub unwanted: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            in_flight: 64,
            silence: Duration::from_secs(20),
            grace: Duration::from_mins(1),
            slowest: 512,
            buffer: 1 << 20,
            reply: ANSWER_BYTES_MAX,
            unwanted: 64 << 20,
        }
    }
}

/// What asker and driver both see.
struct Shared {
    origin: Box<str>,
    width: AtomicUsize,
    /// Something else shows that the server is at work on the oldest command.
    at_work: AtomicBool,
    /// Told when the connection is of no use to who has it.
    given_up: Notify,
    /// Why the connection is of no use, once it is.
    ended: OnceLock<Error>,
}

impl Shared {
    fn error(&self) -> Error {
        let error = self.ended.get().cloned();
        error.unwrap_or_else(|| Error::Broken {
            origin: self.origin.clone(),
            why: "it was closed".into(),
        })
    }
}

/// A connection that takes chains of commands. Dropping it ends it.
pub struct Stream<C: Codec> {
    jobs: mpsc::UnboundedSender<Vec<Job<C>>>,
    shared: Arc<Shared>,
}

impl<C: Codec> Stream<C> {
    /// Takes over a connection on which no reply is awaited.
    pub fn new<S>(io: S, codec: C, origin: &str, limits: Limits) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let shared = Arc::new(Shared {
            origin: origin.into(),
            width: AtomicUsize::new(limits.in_flight.max(1)),
            at_work: AtomicBool::new(false),
            given_up: Notify::new(),
            ended: OnceLock::new(),
        });
        // Not bounded by itself: each asker waits for its own chain, and how many may ask is the pool's business.
        let (jobs, inbox) = mpsc::unbounded_channel();
        tokio::spawn(Driver::new(io, codec, inbox, shared.clone(), limits).run());
        Self { jobs, shared }
    }

    /// Has a chain's commands sent and its answer parsed.
    pub async fn ask<T: Send + 'static>(&self, chain: Chain<C, T>) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        if self.jobs.send(chain.jobs(answer)).is_err() {
            return Err(self.shared.error());
        }
        match answered.await {
            Ok(result) => result,
            Err(_) => Err(self.shared.error()),
        }
    }

    /// Commands that may be in flight.
    pub fn width(&self) -> usize {
        self.shared.width.load(Ordering::Relaxed)
    }

    /// Changes how many commands may be in flight; those that are, stay.
    pub fn set_width(&self, width: usize) {
        self.shared.width.store(width.max(1), Ordering::Relaxed);
    }

    /// Something shows that the server is at work on what it was asked, though it says nothing here: its silence counts from now.
    pub fn is_at_work(&self) {
        self.shared.at_work.store(true, Ordering::Relaxed);
    }

    /// Ends it with all that is open on it.
    pub fn give_up(&self) {
        self.shared.given_up.notify_one();
    }

    /// Whether it has ended.
    pub fn is_broken(&self) -> bool {
        self.shared.ended.get().is_some() || self.jobs.is_closed()
    }

    /// The origin's name in messages.
    pub fn origin(&self) -> &str {
        &self.shared.origin
    }
}
