//! Encodings of errors. A caller gets the same error as it would from a database in its own process.

use super::Wire;
use crate::codec::{DecodeError, Reader};
use crate::filter::{FilterErrorKind, FilterParseError};
use crate::id::NameError;
use crate::namespace::{Errno, FileError};
use crate::traversal::{TraversalErrorKind, TraversalParseError};
use crate::version::TimeError;
use crate::{Error, SchemaError, wire_enum, wire_struct};
use std::io;

wire_struct!(DecodeError { at, expected });
wire_struct!(NameError { text, reason });
wire_struct!(TimeError { text });
wire_struct!(FileError { errno, path });
wire_struct!(TraversalParseError {
    at,
    len,
    line,
    column,
    kind,
    message,
    expected,
    suggestion
});
wire_struct!(FilterParseError {
    at,
    len,
    line,
    column,
    kind,
    message,
    expected,
    suggestion
});
wire_enum!(TraversalErrorKind {
    0 Empty,
    1 Character,
    2 UnclosedString,
    3 Escape,
    4 Number,
    5 Unbalanced,
    6 Unexpected,
    7 MissingDot,
    8 UnknownCall,
    9 ArgumentCount,
    10 ArgumentKind,
    11 UnknownFilter,
    12 Time,
    13 VertexName,
    14 Name,
    15 Order,
    16 Duplicate,
    17 Conflict,
    18 EmptyRange,
    19 Filter,
    20 Limit,
});
wire_enum!(FilterErrorKind {
    0 Character,
    1 UnclosedString,
    2 Escape,
    3 Number,
    4 Unit,
    5 Unbalanced,
    6 Unexpected,
    7 Operator,
    8 Name,
    9 Value,
    10 Regex,
    11 Time,
    12 NoClock,
    13 Limit,
});
wire_enum!(SchemaError {
    0 Unknown { what, name, nearest, known },
    1 BadName { what, name },
    2 Exists { what, name },
    3 Ends { edge, source_type, destination_type, got_source, got_destination },
    4 Full,
});
wire_enum!(Error {
    0 Schema(e),
    1 Name(e),
    2 Time(e),
    3 Traversal(e),
    4 Filter(e),
    5 File(e),
    6 NoVertex { name, hint },
    7 NoEdge { source_name, edge_type, destination_name },
    8 Kind { vertex_type, attribute, expected, got },
    9 Limit { what, got, limit },
    10 Invalid(message),
    11 Corrupt { what, source },
    12 Io { context, source },
    13 Store { engine, message },
    14 Target(message),
    15 Unavailable(message),
    16 Leased { millis },
    17 Interrupted,
    18 Busy(message),
    19 Undecided(message),
    20 InUse(message),
    21 OtherRelease(message),
    22 Closed(message),
});

impl Wire for Errno {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let code = r.u8("an error of a file")?;
        Self::of_code(code).ok_or_else(|| r.error("an error of a file"))
    }
}

/// Encodable form of [`io::Error`]: the system's error number if there is one, otherwise kind and text.
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

impl Wire for io::Error {
    fn put(&self, out: &mut Vec<u8>) {
        EncodedIoError::of(self).put(out);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        EncodedIoError::take(r).map(EncodedIoError::restore)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Expr;
    use crate::wire::{decode, encode};
    use crate::{Schema, Traversal, Version, VertexName, VertexTypeId};

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
            Error::Busy("b".into()),
            Error::Undecided("d".into()),
            Error::InUse("i".into()),
            Error::OtherRelease("o".into()),
            Error::Closed("c".into()),
            Error::Leased { millis: 300 },
            Traversal::parse("v(").unwrap_err().into(),
            Expr::parse("a = = 1", None).unwrap_err().into(),
            Error::Interrupted,
        ];
        for error in errors {
            let bytes = encode(&error);
            let back: Error = decode(&bytes).unwrap();
            assert_eq!(back.to_string(), error.to_string());
            assert_eq!(back.kind(), error.kind());
            assert_eq!(format!("{back:?}"), format!("{error:?}"));
            for cut in 0..bytes.len() {
                assert!(decode::<Error>(bytes.get(..cut).unwrap()).is_err());
            }
        }
    }
}
