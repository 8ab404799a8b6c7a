//! Conversion of errors to Python exceptions, by their kind.

use esker_model::{Error, ErrorKind};
use pyo3::PyErr;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// Returns the class in `esker.errors` for a kind of error; `None` for Python's own `KeyboardInterrupt`.
const fn class(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::Missing => Some("MissingError"),
        ErrorKind::Invalid => Some("InvalidError"),
        ErrorKind::Unavailable => Some("UnavailableError"),
        ErrorKind::Storage => Some("StorageError"),
        ErrorKind::Corrupt => Some("CorruptError"),
        ErrorKind::Interrupted => None,
    }
}

/// Returns the class in `esker.errors` for an error, as [`class`].
fn class_of(error: &Error) -> Option<&'static str> {
    match error {
        Error::Busy(_) | Error::Leased { .. } => Some("BusyError"),
        Error::Undecided(_) => Some("UndecidedError"),
        Error::InUse(_) => Some("InUseError"),
        error => class(error.kind()),
    }
}

/// Converts an error of the engine to a Python exception.
pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    raise_as(py, class_of(error), error.to_string())
}

/// Converts a message to a Python exception.
pub(crate) fn raise_text(py: Python<'_>, kind: ErrorKind, text: String) -> PyErr {
    raise_as(py, class(kind), text)
}

fn raise_as(py: Python<'_>, class: Option<&str>, text: String) -> PyErr {
    static MODULE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let Some(name) = class else {
        return PyKeyboardInterrupt::new_err(text);
    };
    let module = MODULE.get_or_try_init(py, || {
        py.import("esker.errors").map(|m| m.into_any().unbind())
    });
    let found = module.and_then(|m| m.bind(py).getattr(name));
    match found.and_then(|class| Ok(class.cast_into::<PyType>()?)) {
        Ok(class) => PyErr::from_type(class, text),
        Err(e) => e,
    }
}

/// Returns an error for an invalid call.
pub(crate) fn invalid(text: impl Into<String>) -> Error {
    Error::Invalid(text.into())
}
