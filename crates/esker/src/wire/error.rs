//! Errors on the socket. A caller gets the same error as it would as the owner.

#![deny(clippy::indexing_slicing)]

use super::encoding::{Wire, wire_enum, wire_struct};
use esker_model::codec::{DecodeError, Reader};
use esker_model::id::NameError;
use esker_model::namespace::Errno;
use esker_model::version::TimeError;
use esker_model::{Error, ErrorKind, SchemaError};
use std::io;

wire_struct!(DecodeError { at, expected });
wire_struct!(NameError { text, reason });
wire_struct!(TimeError { text });

/// Encodable form of [`Error`].
enum EncodedError {
    Unknown(&'static str, String, Option<String>, String),
    BadName(&'static str, String),
    Exists(&'static str, String),
    Ends(String, String, String, String, String),
    SchemaFull,
    Name(NameError),
    Time(TimeError),
    NoVertex(String, String),
    NoEdge(String, String, String),
    Kind(String, String, &'static str, &'static str),
    Limit(String, u64, u64),
    Invalid(String),
    Corrupt(String, DecodeError),
    Io(String, EncodedIoError),
    Store(&'static str, String),
    Target(String),
    Unavailable(String),
    Interrupted,
    File(u8, String),
}

wire_enum!(EncodedError {
    0 Unknown(what, name, nearest, known),
    1 BadName(what, name),
    2 Exists(what, name),
    3 Ends(edge, source, destination, got_source, got_destination),
    4 SchemaFull,
    5 Name(e),
    6 Time(e),
    7 NoVertex(name, hint),
    8 NoEdge(source, edge_type, destination),
    9 Kind(vertex_type, attribute, expected, got),
    10 Limit(what, got, limit),
    11 Invalid(message),
    12 Corrupt(what, e),
    13 Io(context, cause),
    14 Store(engine, message),
    15 Target(message),
    16 Unavailable(message),
    17 Interrupted,
    18 File(code, path),
});

/// Encodable form of `io::Error`: the system's error number if there is one, otherwise kind and text.
struct EncodedIoError {
    system: Option<u32>,
    kind: u8,
    text: String,
}

wire_struct!(EncodedIoError { system, kind, text });

/// Kinds that callers distinguish; all others become `Other`.
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

impl EncodedIoError {
    fn of(e: &io::Error) -> Self {
        Self {
            system: e.raw_os_error().and_then(|n| u32::try_from(n).ok()),
            kind: (0..)
                .zip(KINDS)
                .find(|(_, k)| *k == e.kind())
                .map_or(0, |(code, _)| code),
            text: e.to_string(),
        }
    }

    fn restore(self) -> io::Error {
        if let Some(n) = self.system.and_then(|n| i32::try_from(n).ok()) {
            return io::Error::from_raw_os_error(n);
        }
        let kind = KINDS
            .get(usize::from(self.kind))
            .copied()
            .unwrap_or(io::ErrorKind::Other);
        io::Error::new(kind, self.text)
    }
}

/// Appends the encoding of an error.
pub(crate) fn put(error: &Error, out: &mut Vec<u8>) {
    encode(error).put(out);
}

/// Reads an error that [`put`] wrote.
pub(crate) fn take(r: &mut Reader<'_>) -> Result<Error, DecodeError> {
    EncodedError::take(r).map(restore_error)
}

fn encode(error: &Error) -> EncodedError {
    match error {
        Error::Schema(e) => match e {
            SchemaError::Unknown {
                what,
                name,
                nearest,
                known,
            } => EncodedError::Unknown(what, name.clone(), nearest.clone(), known.clone()),
            SchemaError::BadName { what, name } => EncodedError::BadName(what, name.clone()),
            SchemaError::Exists { what, name } => EncodedError::Exists(what, name.clone()),
            SchemaError::Ends {
                edge,
                source_type,
                destination_type,
                got_source,
                got_destination,
            } => EncodedError::Ends(
                edge.clone(),
                source_type.clone(),
                destination_type.clone(),
                got_source.clone(),
                got_destination.clone(),
            ),
            SchemaError::Full => EncodedError::SchemaFull,
            other => EncodedError::Invalid(other.to_string()),
        },
        Error::File(e) => EncodedError::File(e.errno as u8, e.path.clone()),
        Error::Name(e) => EncodedError::Name(e.clone()),
        Error::Time(e) => EncodedError::Time(e.clone()),
        Error::NoVertex { name, hint } => EncodedError::NoVertex(name.clone(), hint.clone()),
        Error::NoEdge {
            source_name,
            edge_type,
            destination_name,
        } => EncodedError::NoEdge(
            source_name.clone(),
            edge_type.clone(),
            destination_name.clone(),
        ),
        Error::Kind {
            vertex_type,
            attribute,
            expected,
            got,
        } => EncodedError::Kind(vertex_type.clone(), attribute.clone(), expected, got),
        Error::Limit { what, got, limit } => EncodedError::Limit(what.clone(), *got, *limit),
        Error::Invalid(message) => EncodedError::Invalid(message.clone()),
        Error::Corrupt { what, source } => EncodedError::Corrupt(what.clone(), source.clone()),
        Error::Io { context, source } => {
            EncodedError::Io(context.clone(), EncodedIoError::of(source))
        }
        Error::Store { engine, message } => EncodedError::Store(engine, message.clone()),
        Error::Target(message) => EncodedError::Target(message.clone()),
        Error::Unavailable(message) => EncodedError::Unavailable(message.clone()),
        Error::Interrupted => EncodedError::Interrupted,
        // Traversals are parsed by the client; later variants are sent as their text.
        other => match other.kind() {
            ErrorKind::Missing | ErrorKind::Invalid | ErrorKind::Corrupt => {
                EncodedError::Invalid(other.to_string())
            }
            ErrorKind::Unavailable => EncodedError::Unavailable(other.to_string()),
            ErrorKind::Storage => EncodedError::Store("store", other.to_string()),
            ErrorKind::Interrupted => EncodedError::Interrupted,
        },
    }
}

fn restore_error(encode: EncodedError) -> Error {
    match encode {
        EncodedError::Unknown(what, name, nearest, known) => SchemaError::Unknown {
            what,
            name,
            nearest,
            known,
        }
        .into(),
        EncodedError::BadName(what, name) => SchemaError::BadName { what, name }.into(),
        EncodedError::Exists(what, name) => SchemaError::Exists { what, name }.into(),
        EncodedError::Ends(edge, source_type, destination_type, got_source, got_destination) => {
            SchemaError::Ends {
                edge,
                source_type,
                destination_type,
                got_source,
                got_destination,
            }
            .into()
        }
        EncodedError::SchemaFull => SchemaError::Full.into(),
        EncodedError::File(code, path) => match Errno::of_code(code) {
            Some(errno) => errno.at(path).into(),
            None => Error::Invalid(path),
        },
        EncodedError::Name(e) => e.into(),
        EncodedError::Time(e) => e.into(),
        EncodedError::NoVertex(name, hint) => Error::NoVertex { name, hint },
        EncodedError::NoEdge(source_name, edge_type, destination_name) => Error::NoEdge {
            source_name,
            edge_type,
            destination_name,
        },
        EncodedError::Kind(vertex_type, attribute, expected, got) => Error::Kind {
            vertex_type,
            attribute,
            expected,
            got,
        },
        EncodedError::Limit(what, got, limit) => Error::Limit { what, got, limit },
        EncodedError::Invalid(message) => Error::Invalid(message),
        EncodedError::Corrupt(what, source) => Error::Corrupt { what, source },
        EncodedError::Io(context, cause) => Error::io(context, cause.restore()),
        EncodedError::Store(engine, message) => Error::Store { engine, message },
        EncodedError::Target(message) => Error::Target(message),
        EncodedError::Unavailable(message) => Error::Unavailable(message),
        EncodedError::Interrupted => Error::Interrupted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_model::VertexName;
    use esker_model::{Schema, Version, VertexTypeId};

    /// Message, kind and debug form are equal at both ends.
    #[test]
    fn errors_arrive_as_they_left() {
        let schema = Schema::default();
        let errors: Vec<Error> = vec![
            schema.vertex_type_id("Fille").unwrap_err().into(),
            schema.edge_type_id("zzzzzzzzzz").unwrap_err().into(),
            schema
                .check_ends(
                    schema
                        .edge_type_id("wrote")
                        .or(schema.edge_type_id("write"))
                        .unwrap(),
                    VertexTypeId(0),
                    VertexTypeId(0),
                )
                .unwrap_err()
                .into(),
            SchemaError::BadName {
                what: "edge type",
                name: "1".into(),
            }
            .into(),
            SchemaError::Exists {
                what: "edge type",
                name: "run".into(),
            }
            .into(),
            SchemaError::Full.into(),
            VertexName::parse("no colon").unwrap_err().into(),
            Errno::NotEmpty.at("/a").into(),
            Version::parse_as_of("yesterday").unwrap_err().into(),
            Error::NoVertex {
                name: "file:/a".into(),
                hint: "; did you mean …".into(),
            },
            Error::NoEdge {
                source_name: "a".into(),
                edge_type: "b".into(),
                destination_name: "c".into(),
            },
            Error::Kind {
                vertex_type: "File".into(),
                attribute: "size".into(),
                expected: "i64",
                got: "string",
            },
            Error::Limit {
                what: "the key".into(),
                got: 5_000,
                limit: 4_096,
            },
            Error::Invalid("x".into()),
            Error::corrupt(
                "a row",
                DecodeError {
                    at: 7,
                    expected: "a version",
                },
            ),
            Error::io("writing `x`", io::Error::from_raw_os_error(28)),
            Error::io(
                "reading `x`",
                io::Error::new(io::ErrorKind::UnexpectedEof, "cut short"),
            ),
            Error::Store {
                engine: "fjall",
                message: "poisoned".into(),
            },
            Error::Target("t".into()),
            Error::Unavailable("u".into()),
            Error::Interrupted,
        ];
        for error in errors {
            let mut bytes = Vec::new();
            put(&error, &mut bytes);
            let mut r = Reader::new(&bytes);
            let back = take(&mut r).unwrap();
            r.finish().unwrap();
            assert_eq!(back.to_string(), error.to_string());
            assert_eq!(back.kind(), error.kind());
            assert_eq!(format!("{back:?}"), format!("{error:?}"));
            for cut in 0..bytes.len() {
                let part = bytes.get(..cut).unwrap();
                assert!(take(&mut Reader::new(part)).is_err());
            }
        }
    }
}
