//! Exit codes, and the message of a failed command.
//!
//! 0: success. 1: a problem was found, or only a part was done. 2: the command line or its input was wrong and nothing was done.

use esker_model::{Error, ErrorKind};
use std::io;
use std::process::ExitCode;

/// Result of a command that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The command did everything and found no problem.
    Done,
    /// The command did only a part, or found a problem: exit code 1.
    Partly,
    /// A program was run and ended with this exit code.
    Program(u8),
}

impl Outcome {
    /// Returns `Partly` if `partly` is true, else `Done`.
    pub fn partly_if(partly: bool) -> Self {
        if partly { Self::Partly } else { Self::Done }
    }

    /// Combines two outcomes into the worse one.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::partly_if(self == Self::Partly || other == Self::Partly)
    }

    /// Returns the exit code of the process.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Partly => 1,
            Self::Program(code) => code,
        }
    }
}

/// Invalid input from the user: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// Creates a [`Usage`] error as an `anyhow` error.
pub fn usage(text: impl Into<String>) -> anyhow::Error {
    Usage(text.into()).into()
}

/// Whether an error says that the reader of the output has closed it, as in `esker scan … | head`.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    })
}

/// Returns the exit code for an error.
pub fn code_of(error: &anyhow::Error) -> u8 {
    for cause in error.chain() {
        if cause.is::<Usage>() {
            return 2;
        }
        if let Some(error) = cause.downcast_ref::<Error>() {
            return match error.kind() {
                ErrorKind::Invalid => 2,
                ErrorKind::Missing
                | ErrorKind::Unavailable
                | ErrorKind::Storage
                | ErrorKind::Corrupt
                | ErrorKind::Interrupted => 1,
            };
        }
    }
    1
}

/// Returns the error and its causes as one text, without repeating causes that an error already quotes.
pub fn message_of(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let part = cause.to_string();
        if text.is_empty() {
            text = part;
        } else if !text.contains(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
    }
    text
}

/// Converts a code to the exit code of this process.
pub fn exit_code(code: u8) -> ExitCode {
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_that_is_quoted_is_not_repeated() {
        let io = io::Error::other("disk on fire");
        let error = anyhow::Error::new(Error::io("writing to /x", io)).context("backup");
        assert_eq!(message_of(&error), "backup: writing to /x: disk on fire");
        assert_eq!(code_of(&error), 1);
    }

    #[test]
    fn bad_input_is_two() {
        assert_eq!(code_of(&usage("no")), 2);
        assert_eq!(code_of(&Error::Invalid("no".into()).into()), 2);
        let missing = Error::NoVertex {
            name: "file:/x".into(),
            hint: String::new(),
        };
        assert_eq!(code_of(&missing.into()), 1);
    }
}
