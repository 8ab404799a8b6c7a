//! Errors of requests to origins.

/// Errors between this process and an origin. Each message names the origin or the path and says what may help.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text does not name an origin, or the path cannot be expressed in its protocol.
    #[error("`{what}`: {why}")]
    InvalidName {
        /// The text as it was given.
        what: Box<str>,
        /// The reason why it is invalid.
        why: Box<str>,
    },
    /// No connection could be made. Retried on another connection or later.
    #[error("{origin} cannot be reached: {why}")]
    Unreachable {
        /// The name of the origin.
        origin: Box<str>,
        /// The system's error message.
        why: Box<str>,
    },
    /// The connection ended while the request was open. Retried.
    #[error("the connection to {origin} broke: {why}")]
    Broken {
        /// The name of the origin.
        origin: Box<str>,
        /// The cause of the failure.
        why: Box<str>,
    },
    /// The server is overloaded. Retried after a pause.
    #[error("{origin} is busy: {why}")]
    Busy {
        /// The name of the origin.
        origin: Box<str>,
        /// The server's error message.
        why: Box<str>,
    },
    /// The principal is not authenticated or lacks permission. Not retried.
    #[error("{origin} refuses: {why}")]
    Denied {
        /// The name of the origin.
        origin: Box<str>,
        /// The server's error message.
        why: Box<str>,
    },
    /// The server violates its protocol or exceeds a limit of this client. Not retried.
    #[error("{origin} sent an invalid answer: {why}")]
    Protocol {
        /// The name of the origin.
        origin: Box<str>,
        /// The violation, truncated.
        why: Box<str>,
    },
    /// No data arrived in time.
    #[error("{origin} did not answer within {seconds} s")]
    TimedOut {
        /// The name of the origin.
        origin: Box<str>,
        /// The time waited, in seconds.
        seconds: u64,
    },
    /// The server does not support the request.
    #[error("{origin} cannot do this: {why}")]
    Unsupported {
        /// The name of the origin.
        origin: Box<str>,
        /// The missing feature, for the message.
        why: Box<str>,
    },
}

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Whether a retry on another connection or later may succeed.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::Broken { .. }
                | Self::Busy { .. }
                | Self::TimedOut { .. }
        )
    }
}

/// Returns a server's text for a message: one line, no control characters, at most 200 characters.
pub fn printable(bytes: &[u8]) -> Box<str> {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(800)]);
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let cut: String = plain.take(200).collect();
    cut.trim().into()
}
