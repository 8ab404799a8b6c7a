//! Errors of creating and operating a network namespace.

use std::io;

/// Result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Reason why no network namespace can be created.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The machine or the user lacks a requirement.
    #[error("no remote network namespace can be made here: {0}")]
    Unsupported(String),
    /// A command failed.
    #[error("`{command}` failed: {said}")]
    Command {
        /// Command line of the command.
        command: String,
        /// Error output of the command.
        said: String,
    },
    /// A system call failed.
    #[error("{what}: {error}")]
    System {
        /// The attempted operation.
        what: String,
        /// Error of the operating system.
        error: io::Error,
    },
}

impl Error {
    /// Whether rights or parts of the system are missing; tests that need them are then skipped.
    pub fn is_unsupported(&self) -> bool {
        matches!(self, Self::Unsupported(_))
    }

    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |error| Self::System { what, error }
    }
}
