//! Errors on the network: a caller gets the same error as with a local database.
//!
//! A [`proto::Failure`] has a message for people and for clients of other languages; `code`, `texts` and `numbers`
//! restore the
//! exact [`Error`]. An unknown code is restored by its kind alone.

use crate::proto;
use crate::proto::failure::Kind;
use esker_model::codec::DecodeError;
use esker_model::id::NameError;
use esker_model::namespace::Errno;
use esker_model::version::TimeError;
use esker_model::wire::intern;
use esker_model::{Error, ErrorKind, SchemaError};
use std::io;

/// Kinds of `io::Error` that callers distinguish; all others become `Other`.
const KINDS: [io::ErrorKind; 10] = [
    io::ErrorKind::Other,
    io::ErrorKind::NotFound,
    io::ErrorKind::PermissionDenied,
    io::ErrorKind::AlreadyExists,
    io::ErrorKind::StorageFull,
    io::ErrorKind::ReadOnlyFilesystem,
    io::ErrorKind::UnexpectedEof,
    io::ErrorKind::InvalidData,
    io::ErrorKind::Interrupted,
    io::ErrorKind::TimedOut,
];

fn kind_of(error: &Error) -> Kind {
    match error.kind() {
        ErrorKind::Missing => Kind::Missing,
        ErrorKind::Invalid => Kind::Invalid,
        ErrorKind::Unavailable => Kind::Unavailable,
        ErrorKind::Storage => Kind::Storage,
        ErrorKind::Corrupt => Kind::Corrupt,
        ErrorKind::Interrupted => Kind::Interrupted,
    }
}

/// Code of a transient failure: another server that is needed for the answer is unavailable. A caller can retry until
/// it is back;
/// a batch that is sent again with its idempotency key applies once.
pub const RETRY: &str = "again";

/// Time after which a client repeats a call that others were in the way of, in milliseconds.
const BUSY_RETRY_MS: u32 = 50;

/// Failure of an overloaded server.
pub fn busy(message: String, retry_after_ms: u32) -> proto::Failure {
    proto::Failure {
        kind: Kind::Busy.into(),
        message,
        retry_after_ms,
        ..Default::default()
    }
}

/// Code of a failure for which a quota is the reason. A repetition fails in the same way.
pub const QUOTA: &str = "quota";

/// Failure of a request that a quota refuses until something else changes.
pub fn over_quota(message: String) -> proto::Failure {
    proto::Failure {
        kind: Kind::Invalid.into(),
        message,
        code: QUOTA.to_owned(),
        ..Default::default()
    }
}

/// Encodes an error as a message.
pub fn failure_out(error: &Error) -> proto::Failure {
    match error {
        // The call had no effect, and the time for a retry is known.
        Error::Leased { millis } => {
            let millis = u32::try_from(*millis).unwrap_or(u32::MAX);
            return busy(error.to_string(), millis);
        }
        Error::Busy(message) => return busy(message.clone(), BUSY_RETRY_MS),
        _ => {}
    }
    let (code, texts, numbers) = parts(error);
    proto::Failure {
        kind: kind_of(error).into(),
        message: error.to_string(),
        retry_after_ms: 0,
        code: code.to_owned(),
        texts,
        numbers,
    }
}

fn parts(error: &Error) -> (&'static str, Vec<String>, Vec<u64>) {
    let own = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect();
    match error {
        Error::Schema(e) => schema_parts(e),
        Error::Name(e) => ("name", own(&[&e.text, e.reason]), vec![]),
        Error::Time(e) => ("time", own(&[&e.text]), vec![]),
        Error::NoVertex { name, hint } => ("no-vertex", own(&[name, hint]), vec![]),
        Error::NoEdge {
            source_name,
            edge_type,
            destination_name,
        } => (
            "no-edge",
            own(&[source_name, edge_type, destination_name]),
            vec![],
        ),
        Error::Kind {
            vertex_type,
            attribute,
            expected,
            got,
        } => (
            "kind",
            own(&[vertex_type, attribute, expected, got]),
            vec![],
        ),
        Error::Limit { what, got, limit } => ("limit", own(&[what]), vec![*got, *limit]),
        Error::Corrupt { what, source } => (
            "corrupt",
            own(&[what, source.expected]),
            vec![source.at as u64],
        ),
        Error::Io { context, source } => {
            let system = source.raw_os_error().and_then(|n| u64::try_from(n).ok());
            let kind = KINDS.iter().position(|k| *k == source.kind()).unwrap_or(0);
            let numbers = system.map_or_else(|| vec![kind as u64], |n| vec![kind as u64, n]);
            ("io", own(&[context, &source.to_string()]), numbers)
        }
        Error::Store { engine, message } => ("store", own(&[engine, message]), vec![]),
        Error::File(e) => (
            "file",
            own(&[&e.path]),
            vec![u64::from(e.errno.number().unsigned_abs())],
        ),
        Error::Target(_) => ("target", vec![], vec![]),
        Error::Undecided(_) => ("undecided", vec![], vec![]),
        Error::InUse(_) => ("in-use", vec![], vec![]),
        Error::OtherRelease(_) => ("release", vec![], vec![]),
        Error::Closed(_) => ("closed", vec![], vec![]),
        // The message is sufficient, or is all that other processes can use.
        _ => ("", vec![], vec![]),
    }
}

fn schema_parts(error: &SchemaError) -> (&'static str, Vec<String>, Vec<u64>) {
    let own = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect();
    match error {
        SchemaError::Unknown {
            what,
            name,
            nearest,
            known,
        } => {
            let near = nearest.as_deref().unwrap_or_default();
            ("schema-unknown", own(&[what, name, known, near]), vec![])
        }
        SchemaError::BadName { what, name } => ("schema-name", own(&[what, name]), vec![]),
        SchemaError::Exists { what, name } => ("schema-exists", own(&[what, name]), vec![]),
        SchemaError::Ends {
            edge,
            source_type,
            destination_type,
            got_source,
            got_destination,
        } => (
            "schema-ends",
            own(&[
                edge,
                source_type,
                destination_type,
                got_source,
                got_destination,
            ]),
            vec![],
        ),
        SchemaError::Full => ("schema-full", vec![], vec![]),
        _ => ("", vec![], vec![]),
    }
}

/// Restores an error from a message.
pub fn failure_in(mut failure: proto::Failure) -> Error {
    let by_message: Option<fn(String) -> Error> = match failure.code.as_str() {
        "target" => Some(Error::Target),
        "undecided" => Some(Error::Undecided),
        "in-use" => Some(Error::InUse),
        "release" => Some(Error::OtherRelease),
        "closed" => Some(Error::Closed),
        _ => None,
    };
    if let Some(error) = by_message {
        return error(failure.message);
    }
    let mut texts = std::mem::take(&mut failure.texts).into_iter();
    restore(&failure.code, &mut texts, &failure.numbers).unwrap_or_else(|| by_kind(failure))
}

fn by_kind(failure: proto::Failure) -> Error {
    let message = failure.message;
    match Kind::try_from(failure.kind) {
        Ok(Kind::Interrupted) => Error::Interrupted,
        Ok(Kind::Storage | Kind::Corrupt) => Error::Store {
            engine: "server",
            message,
        },
        Ok(Kind::Missing | Kind::Invalid) => Error::Invalid(message),
        Ok(Kind::Busy) => Error::Busy(message),
        Ok(Kind::Unspecified | Kind::Unavailable) | Err(_) => Error::Unavailable(message),
    }
}

fn restore(code: &str, texts: &mut dyn Iterator<Item = String>, numbers: &[u64]) -> Option<Error> {
    let mut text = || texts.next();
    let number = |i: usize| numbers.get(i).copied();
    Some(match code {
        "name" => NameError {
            text: text()?,
            reason: intern(&text()?),
        }
        .into(),
        "time" => TimeError { text: text()? }.into(),
        "no-vertex" => Error::NoVertex {
            name: text()?,
            hint: text()?,
        },
        "no-edge" => Error::NoEdge {
            source_name: text()?,
            edge_type: text()?,
            destination_name: text()?,
        },
        "kind" => Error::Kind {
            vertex_type: text()?,
            attribute: text()?,
            expected: intern(&text()?),
            got: intern(&text()?),
        },
        "limit" => Error::Limit {
            what: text()?,
            got: number(0)?,
            limit: number(1)?,
        },
        "corrupt" => Error::Corrupt {
            what: text()?,
            source: DecodeError {
                at: usize::try_from(number(0)?).ok()?,
                expected: intern(&text()?),
            },
        },
        "io" => {
            let (context, message) = (text()?, text()?);
            let system = number(1).and_then(|n| i32::try_from(n).ok());
            let source = if let Some(system) = system {
                io::Error::from_raw_os_error(system)
            } else {
                let kind = usize::try_from(number(0)?).ok()?;
                io::Error::new(*KINDS.get(kind)?, message)
            };
            Error::io(context, source)
        }
        "file" => {
            let errno = i32::try_from(number(0)?).ok().and_then(Errno::of_number)?;
            errno.at(text()?).into()
        }
        "store" => Error::Store {
            engine: intern(&text()?),
            message: text()?,
        },
        "schema-unknown" => SchemaError::Unknown {
            what: intern(&text()?),
            name: text()?,
            known: text()?,
            nearest: text().filter(|t| !t.is_empty()),
        }
        .into(),
        "schema-name" => SchemaError::BadName {
            what: intern(&text()?),
            name: text()?,
        }
        .into(),
        "schema-exists" => SchemaError::Exists {
            what: intern(&text()?),
            name: text()?,
        }
        .into(),
        "schema-ends" => SchemaError::Ends {
            edge: text()?,
            source_type: text()?,
            destination_type: text()?,
            got_source: text()?,
            got_destination: text()?,
        }
        .into(),
        "schema-full" => SchemaError::Full.into(),
        _ => return None,
    })
}
