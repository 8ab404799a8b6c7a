//! Tests that errors are restored as they were.

use esker_model::codec::DecodeError;
use esker_model::id::NameError;
use esker_model::version::TimeError;
use esker_model::{Error, ErrorKind, SchemaError};
use esker_rpc::failure::{failure_in, failure_out};
use esker_rpc::proto;
use prost::Message as _;
use std::io;

fn every() -> Vec<Error> {
    let unknown = |nearest: Option<&str>| SchemaError::Unknown {
        what: "edge type",
        name: "wrote".into(),
        nearest: nearest.map(str::to_owned),
        known: "write, read".into(),
    };
    vec![
        unknown(Some("write")).into(),
        unknown(None).into(),
        SchemaError::BadName {
            what: "attribute",
            name: "=".into(),
        }
        .into(),
        SchemaError::Exists {
            what: "vertex type",
            name: "File".into(),
        }
        .into(),
        SchemaError::Ends {
            edge: "a".into(),
            source_type: "b".into(),
            destination_type: "c".into(),
            got_source: "d".into(),
            got_destination: "e".into(),
        }
        .into(),
        SchemaError::Full.into(),
        NameError {
            text: "x".into(),
            reason: "there is no colon",
        }
        .into(),
        TimeError {
            text: "yesterday".into(),
        }
        .into(),
        Error::NoVertex {
            name: "file:/x".into(),
            hint: "; look".into(),
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
            what: "a batch".into(),
            got: 7,
            limit: 3,
        },
        Error::Invalid("no".into()),
        Error::Corrupt {
            what: "row".into(),
            source: DecodeError {
                at: 5,
                expected: "a kind",
            },
        },
        Error::io("writing", io::Error::from_raw_os_error(28)),
        Error::io(
            "reading",
            io::Error::new(io::ErrorKind::UnexpectedEof, "short"),
        ),
        Error::Store {
            engine: "fjall",
            message: "poisoned".into(),
        },
        Error::Target("no database".into()),
        Error::Unavailable("gone".into()),
        Error::Busy("others write".into()),
        Error::Undecided("no answer".into()),
        Error::InUse("open in process 7".into()),
        Error::OtherRelease("use the same".into()),
        Error::Closed("open it".into()),
        Error::Interrupted,
    ]
}

#[test]
fn every_error_comes_back() {
    for error in every() {
        let sent = proto::Failure::decode(&failure_out(&error).encode_to_vec()[..]).unwrap();
        assert_eq!(sent.message, error.to_string());
        let back = failure_in(sent);
        assert_eq!(format!("{back:?}"), format!("{error:?}"));
        assert_eq!(back.to_string(), error.to_string());
        assert_eq!(back.kind(), error.kind());
    }
}

/// A later release may have errors that this one does not know.
#[test]
fn an_unknown_code_keeps_kind_and_words() {
    for error in every() {
        let failure = proto::Failure {
            code: "from-the-future".into(),
            ..failure_out(&error)
        };
        let back = failure_in(failure);
        let kind = match error.kind() {
            // The details of the error are missing.
            ErrorKind::Missing => ErrorKind::Invalid,
            ErrorKind::Corrupt => ErrorKind::Storage,
            kind => kind,
        };
        assert_eq!(back.kind(), kind, "{error}");
        assert!(back.to_string().contains(&error.to_string()), "{back}");
    }
    let half = proto::Failure {
        texts: vec![],
        ..failure_out(&every()[0])
    };
    assert_eq!(failure_in(half).kind(), ErrorKind::Invalid);
}
