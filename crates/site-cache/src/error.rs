//! Errors of the site cache.

/// Errors of the site cache.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A path that no origin can have.
    #[error("`{path}` is not a path of an origin: {why}")]
    Path {
        /// The path, truncated and escaped for display.
        path: String,
        /// Description of the problem.
        why: &'static str,
    },
    /// A malformed line of a trace.
    #[error("line {line}: {message}")]
    Trace {
        /// Line number, from 1.
        line: u64,
        /// Description of what was expected.
        message: String,
    },
    /// An invalid setting.
    #[error("{0}")]
    Setting(String),
}

/// Result type with [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
