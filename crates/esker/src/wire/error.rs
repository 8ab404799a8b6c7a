//! Errors on the socket: what a caller sees is what it would have seen as the owner.

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

/// An [`Error`] as it travels.
enum Carried {
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
    Io(String, Cause),
    Store(&'static str, String),
    Target(String),
    Unavailable(String),
    Interrupted,
    File(u8, String),
}

wire_enum!(Carried {
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

/// An `io::Error` as it travels: the system's number where it has one, else kind and text.
struct Cause {
    system: Option<u32>,
    kind: u8,
    text: String,
}

wire_struct!(Cause { system, kind, text });

/// Kinds that somebody acts on; others become `Other`.
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

impl Cause {
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

/// Appends an error.
pub(crate) fn put(error: &Error, out: &mut Vec<u8>) {
    carried(error).put(out);
}

/// Reads what [`put`] wrote.
pub(crate) fn take(r: &mut Reader<'_>) -> Result<Error, DecodeError> {
    Carried::take(r).map(restored)
}

fn carried(error: &Error) -> Carried {
    match error {
        Error::Schema(e) => match e {
            SchemaError::Unknown {
                what,
                name,
                nearest,
                known,
            } => Carried::Unknown(what, name.clone(), nearest.clone(), known.clone()),
            SchemaError::BadName { what, name } => Carried::BadName(what, name.clone()),
            SchemaError::Exists { what, name } => Carried::Exists(what, name.clone()),
            SchemaError::Ends {
                edge,
                source_type,
                destination_type,
                got_source,
                got_destination,
            } => Carried::Ends(
                edge.clone(),
                source_type.clone(),
                destination_type.clone(),
                got_source.clone(),
                got_destination.clone(),
            ),
            SchemaError::Full => Carried::SchemaFull,
            other => Carried::Invalid(other.to_string()),
        },
        Error::File(e) => Carried::File(e.errno as u8, e.path.clone()),
        Error::Name(e) => Carried::Name(e.clone()),
        Error::Time(e) => Carried::Time(e.clone()),
        Error::NoVertex { name, hint } => Carried::NoVertex(name.clone(), hint.clone()),
        Error::NoEdge {
            source_name,
            edge_type,
            destination_name,
        } => Carried::NoEdge(
            source_name.clone(),
            edge_type.clone(),
            destination_name.clone(),
        ),
        Error::Kind {
            vertex_type,
            attribute,
            expected,
            got,
        } => Carried::Kind(vertex_type.clone(), attribute.clone(), expected, got),
        Error::Limit { what, got, limit } => Carried::Limit(what.clone(), *got, *limit),
        Error::Invalid(message) => Carried::Invalid(message.clone()),
        Error::Corrupt { what, source } => Carried::Corrupt(what.clone(), source.clone()),
        Error::Io { context, source } => Carried::Io(context.clone(), Cause::of(source)),
        Error::Store { engine, message } => Carried::Store(engine, message.clone()),
        Error::Target(message) => Carried::Target(message.clone()),
        Error::Unavailable(message) => Carried::Unavailable(message.clone()),
        Error::Interrupted => Carried::Interrupted,
        // Traversals are parsed where they are typed, and variants that come later say what they say.
        other => match other.kind() {
            ErrorKind::Missing | ErrorKind::Invalid | ErrorKind::Corrupt => {
                Carried::Invalid(other.to_string())
            }
            ErrorKind::Unavailable => Carried::Unavailable(other.to_string()),
            ErrorKind::Storage => Carried::Store("store", other.to_string()),
            ErrorKind::Interrupted => Carried::Interrupted,
        },
    }
}

fn restored(carried: Carried) -> Error {
    match carried {
        Carried::Unknown(what, name, nearest, known) => SchemaError::Unknown {
            what,
            name,
            nearest,
            known,
        }
        .into(),
        Carried::BadName(what, name) => SchemaError::BadName { what, name }.into(),
        Carried::Exists(what, name) => SchemaError::Exists { what, name }.into(),
        Carried::Ends(edge, source_type, destination_type, got_source, got_destination) => {
            SchemaError::Ends {
                edge,
                source_type,
                destination_type,
                got_source,
                got_destination,
            }
            .into()
        }
        Carried::SchemaFull => SchemaError::Full.into(),
        Carried::File(code, path) => match Errno::of_code(code) {
            Some(errno) => errno.at(path).into(),
            None => Error::Invalid(path),
        },
        Carried::Name(e) => e.into(),
        Carried::Time(e) => e.into(),
        Carried::NoVertex(name, hint) => Error::NoVertex { name, hint },
        Carried::NoEdge(source_name, edge_type, destination_name) => Error::NoEdge {
            source_name,
            edge_type,
            destination_name,
        },
        Carried::Kind(vertex_type, attribute, expected, got) => Error::Kind {
            vertex_type,
            attribute,
            expected,
            got,
        },
        Carried::Limit(what, got, limit) => Error::Limit { what, got, limit },
        Carried::Invalid(message) => Error::Invalid(message),
        Carried::Corrupt(what, source) => Error::Corrupt { what, source },
        Carried::Io(context, cause) => Error::io(context, cause.restore()),
        Carried::Store(engine, message) => Error::Store { engine, message },
        Carried::Target(message) => Error::Target(message),
        Carried::Unavailable(message) => Error::Unavailable(message),
        Carried::Interrupted => Error::Interrupted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_model::VertexName;
    use esker_model::{Schema, Version, VertexTypeId};

    /// Message and kind are the same at both ends, and so is the variant's debug form.
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
