//! The universal transferring stream (SMURF, III-B): one connection with many commands in flight.
//!
//! A request is a [`Chain`] of commands, each with the parser of its reply. Commands of many requests are sent together, in few
//! writes, up to a bound without waiting for replies; replies arrive in the order of commands. A [`Codec`] knows where a reply of
//! its protocol begins and ends.
//!
//! A request whose caller is gone keeps its position; its reply is read and discarded. A missing, slow or invalid reply ends the
//! connection: all open requests on it fail.

mod chain;
mod driver;
#[cfg(test)]
mod tests;

pub use chain::{Chain, Parser, Verdict};

use crate::error::{Error, Result};
use crate::request::ANSWER_BYTES_MAX;
use bytes::BytesMut;
use chain::Job;
use driver::Driver;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, mpsc, oneshot};

/// Conversion of a protocol's bytes to items: replies, or parts of replies that parsers see before the rest has arrived.
pub trait Codec: Send + 'static {
    /// The unit that parsers see.
    type Item: Send + 'static;

    /// Removes the next item from the front of the input; `None` if more input is needed.
    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<Self::Item>, Fault>;

    /// Whether the item ends its reply, so that the next item belongs to the next command.
    fn ends(item: &Self::Item) -> bool;

    /// Encodes a command for the wire.
    fn encode(&mut self, command: &[u8], out: &mut BytesMut) -> Result<(), Fault> {
        out.extend_from_slice(command);
        Ok(())
    }
}

/// Reasons why the rest of a connection's input cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The input violates the protocol.
    Protocol(Box<str>),
    /// The server announces that it closes the connection.
    Closing(Box<str>),
}

/// Limits of one connection.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Maximum number of commands in flight: the paper's C.
    pub in_flight: usize,
    /// The time after which a silent server with an awaited reply has failed.
    pub silence: Duration,
    /// Time after which a due reply must have arrived at `slowest` bytes per second on average.
    pub grace: Duration,
    /// Minimum rate of a long reply, in bytes per second.
    pub slowest: u64,
    /// Maximum size of an incomplete item, in bytes.
    pub buffer: usize,
    /// Maximum size of a reply, in bytes.
    pub reply: usize,
    /// Maximum size of a discarded reply whose caller is gone, in bytes.
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

/// State that callers and the driver share.
struct Shared {
    origin: Box<str>,
    width: AtomicUsize,
    /// Whether another channel shows that the server is executing the oldest command.
    at_work: AtomicBool,
    /// Notified when the owner abandons the connection.
    given_up: Notify,
    /// The error that ended the connection.
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

/// A connection that accepts chains of commands. Dropping it ends the connection.
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
        // Unbounded: each caller waits for its own chain, and the pool bounds the callers.
        let (jobs, inbox) = mpsc::unbounded_channel();
        tokio::spawn(Driver::new(io, codec, inbox, shared.clone(), limits).run());
        Self { jobs, shared }
    }

    /// Sends a chain's commands and returns its parsed result.
    ///
    /// # Errors
    /// Returns the chain's error, or the reason why the connection ended.
    pub async fn request<T: Send + 'static>(&self, chain: Chain<C, T>) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        if self.jobs.send(chain.jobs(answer)).is_err() {
            return Err(self.shared.error());
        }
        match answered.await {
            Ok(result) => result,
            Err(_) => Err(self.shared.error()),
        }
    }

    /// Maximum number of commands in flight.
    pub fn width(&self) -> usize {
        self.shared.width.load(Ordering::Relaxed)
    }

    /// Changes the maximum number of commands in flight; commands already in flight stay.
    pub fn set_width(&self, width: usize) {
        self.shared.width.store(width.max(1), Ordering::Relaxed);
    }

    /// Reports a sign of activity on another channel: the silence is counted from now.
    pub fn is_at_work(&self) {
        self.shared.at_work.store(true, Ordering::Relaxed);
    }

    /// Ends the connection and fails all open requests.
    pub fn give_up(&self) {
        self.shared.given_up.notify_one();
    }

    /// Whether the connection has ended.
    pub fn is_broken(&self) -> bool {
        self.shared.ended.get().is_some() || self.jobs.is_closed()
    }

    /// The origin's name for messages.
    pub fn origin(&self) -> &str {
        &self.shared.origin
    }
}
