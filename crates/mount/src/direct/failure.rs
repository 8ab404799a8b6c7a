//! Errors of direct calls: an `errno` number for C, and a message.

use crate::attributes;
use esker_model::Error;
use fuser::Errno;
use std::fmt;
use std::io;

/// The error of a direct call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The error number, as in C's `errno`.
    pub errno: i32,
    /// Message with the subject and the problem.
    pub text: String,
}

impl Failure {
    /// Creates the error with this number about a subject.
    pub fn new(errno: i32, about: impl fmt::Display) -> Self {
        let said = io::Error::from_raw_os_error(errno).to_string();
        let said = said.split(" (os error").next().unwrap_or_default();
        Self {
            errno,
            text: format!("{about}: {said}"),
        }
    }

    pub(crate) fn at(about: impl fmt::Display) -> impl FnOnce(Errno) -> Self {
        move |errno| Self::new(errno.code(), about)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self {
            errno: attributes::errno(&error).code(),
            text: error.to_string(),
        }
    }
}

impl From<esker_model::namespace::FileError> for Failure {
    fn from(error: esker_model::namespace::FileError) -> Self {
        Error::from(error).into()
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self {
            errno: attributes::io_errno(&error).code(),
            text: error.to_string(),
        }
    }
}
