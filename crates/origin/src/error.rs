//! Why there is no answer.

/// What can go wrong between here and an origin. Each names the origin or the path, and says what may help.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What was given does not name an origin, or not a path that its protocol could say.
    #[error("`{what}`: {why}")]
    Named {
        /// As it was given.
        what: Box<str>,
        /// What is wrong with it.
        why: Box<str>,
    },
    /// There is no connection. Asked again elsewhere or later.
    #[error("{origin} cannot be reached: {why}")]
    Unreachable {
        /// Which origin.
        origin: Box<str>,
        /// What the system says.
        why: Box<str>,
    },
    /// The connection ended with the question open. Asked again.
    #[error("the connection to {origin} broke: {why}")]
    Broken {
        /// Which origin.
        origin: Box<str>,
        /// How.
        why: Box<str>,
    },
    /// The server has too much to do just now. Asked again after a while.
    #[error("{origin} is busy: {why}")]
    Busy {
        /// Which origin.
        origin: Box<str>,
        /// Its words.
        why: Box<str>,
    },
    /// Whoever asks may not know this, or is not let in at all. Not asked again.
    #[error("{origin} refuses: {why}")]
    Denied {
        /// Which origin.
        origin: Box<str>,
        /// Its words.
        why: Box<str>,
    },
    /// The server says what its protocol does not allow, or more than is read here. Not asked again.
    #[error("{origin} answers what cannot be right: {why}")]
    Nonsense {
        /// Which origin.
        origin: Box<str>,
        /// What, cut short.
        why: Box<str>,
    },
    /// Nothing came for too long.
    #[error("{origin} did not answer within {seconds} s")]
    Late {
        /// Which origin.
        origin: Box<str>,
        /// How long was waited.
        seconds: u64,
    },
    /// The server cannot do this.
    #[error("{origin} cannot do this: {why}")]
    Unsupported {
        /// Which origin.
        origin: Box<str>,
        /// What it lacks.
        why: Box<str>,
    },
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Whether the same question may be answered when it is asked again, on another connection or later.
    pub fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. } | Self::Broken { .. } | Self::Busy { .. } | Self::Late { .. }
        )
    }
}

/// Text of a server for a message: one line, no control characters, no more than 200 of them.
pub fn shown(bytes: &[u8]) -> Box<str> {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(800)]);
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let cut: String = plain.take(200).collect();
    cut.trim().into()
}
