//! What can be wrong with a machine.

use std::io;

/// Short for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why there is no far namespace.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The machine, or who asks, has not what it takes.
    #[error("no far network namespace can be made here: {0}")]
    Lacking(String),
    /// A command failed.
    #[error("`{command}` failed: {said}")]
    Command {
        /// As one would type it.
        command: String,
        /// What it said.
        said: String,
    },
    /// The system refused something.
    #[error("{what}: {error}")]
    System {
        /// What was tried.
        what: String,
        /// What it said.
        error: io::Error,
    },
}

impl Error {
    /// Whether it is for want of rights or of parts of the system: a test that needs them is left out then.
    pub fn is_lacking(&self) -> bool {
        matches!(self, Self::Lacking(_))
    }

    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |error| Self::System { what, error }
    }
}
