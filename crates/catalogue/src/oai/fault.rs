//! Errors of the protocol and of the database.

/// Error codes of the protocol (section 3.6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(super) code: &'static str,
    pub(super) message: String,
}

impl Fault {
    pub(super) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    pub(super) fn argument(message: impl Into<String>) -> Self {
        Self::new("badArgument", message)
    }
}

/// Errors of a request: of the protocol, or of the database.
#[derive(Debug)]
pub(crate) enum Failed {
    Fault(Fault),
    Engine(esker_model::Error),
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl<E: Into<esker_model::Error>> From<E> for Failed {
    fn from(e: E) -> Self {
        Self::Engine(e.into())
    }
}
