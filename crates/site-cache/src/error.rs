//! What can go wrong, and what to do then.

/// Errors of the site cache.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A path that no origin could have.
    #[error("`{path}` is no path of an origin: {why}")]
    Path {
        /// The path, as far as it can be shown.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A line of a trace that says nothing.
    #[error("line {line}: {message}")]
    Trace {
        /// Counted from 1.
        line: u64,
        /// What was expected there.
        message: String,
    },
    /// A setting that makes no sense.
    #[error("{0}")]
    Setting(String),
}

/// Results with [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
