//! What can go wrong below the API, and what a caller can do about it.

use crate::codec::DecodeError;
use crate::id::NameError;
use crate::schema::SchemaError;
use crate::traversal::ParseError;
use crate::version::TimeError;

/// What happened. Open: new variants may come.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A type, attribute or name that the schema refuses.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// A malformed vertex name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A malformed time.
    #[error(transparent)]
    Time(#[from] TimeError),
    /// A malformed traversal.
    #[error(transparent)]
    Traversal(#[from] ParseError),
    /// A malformed filter.
    #[error(transparent)]
    Filter(#[from] crate::filter::ParseError),
    /// What a file system refuses.
    #[error(transparent)]
    File(#[from] crate::namespace::FileError),
    /// A vertex that does not exist (any more, or yet).
    #[error("no vertex `{name}`{hint}")]
    NoVertex {
        /// Its name.
        name: String,
        /// What to do, beginning with `; `, or nothing.
        hint: String,
    },
    /// An edge that does not exist (any more, or yet).
    #[error("no edge `{source_name}` -{edge_type}-> `{destination_name}`")]
    NoEdge {
        /// Where it would start.
        source_name: String,
        /// Its type.
        edge_type: String,
        /// Where it would end.
        destination_name: String,
    },
    /// A value of the wrong kind.
    #[error("attribute `{attribute}` of {vertex_type} holds {expected}; got {got}")]
    Kind {
        /// The vertex type.
        vertex_type: String,
        /// The attribute.
        attribute: String,
        /// The declared kind.
        expected: &'static str,
        /// The kind given.
        got: &'static str,
    },
    /// Something over a limit of `model::limits`.
    #[error("{what} is {got}; the limit is {limit}")]
    Limit {
        /// What was measured.
        what: String,
        /// Its size.
        got: u64,
        /// The largest that is accepted.
        limit: u64,
    },
    /// A request that makes no sense as it stands.
    #[error("{0}")]
    Invalid(String),
    /// Bytes on disk or on the wire that do not decode.
    #[error(
        "corrupt {what}: {source}; run `esker check`, restore a backup if it confirms the damage"
    )]
    Corrupt {
        /// What was being read.
        what: String,
        /// Where and why.
        source: DecodeError,
    },
    /// The store or the disk under it failed.
    #[error("{context}: {source}")]
    Io {
        /// What was being done, to what.
        context: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The store engine failed in a way of its own.
    #[error("{engine}: {message}")]
    Store {
        /// Which engine.
        engine: &'static str,
        /// What it says.
        message: String,
    },
    /// No database there, or one that this build cannot open.
    #[error("{0}")]
    Target(String),
    /// The database's owner process cannot be reached or stopped answering.
    #[error("{0}")]
    Unavailable(String),
    /// Somebody was told that what would change stays as it is for a while. Nothing was done.
    #[error(
        "what would change was promised to stay as it is for {millis} ms more; nothing was done, try again then"
    )]
    Promised {
        /// Milliseconds until the promise has passed.
        millis: u64,
    },
    /// The caller stopped it.
    #[error("interrupted")]
    Interrupted,
}

/// What the caller can do. Closed on purpose: adding one is a change of contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// It is not there.
    Missing,
    /// Fix the call.
    Invalid,
    /// Try again, perhaps elsewhere.
    Unavailable,
    /// Fix the disk or the machine.
    Storage,
    /// Fix the data: restore or repair.
    Corrupt,
    /// The caller asked for it.
    Interrupted,
}

impl Error {
    /// The remedy class.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NoVertex { .. } | Self::NoEdge { .. } => ErrorKind::Missing,
            Self::File(e) if e.errno == crate::namespace::Errno::NotFound => ErrorKind::Missing,
            Self::File(_)
            | Self::Schema(_)
            | Self::Name(_)
            | Self::Time(_)
            | Self::Traversal(_)
            | Self::Filter(_)
            | Self::Kind { .. }
            | Self::Limit { .. }
            | Self::Invalid(_)
            | Self::Target(_) => ErrorKind::Invalid,
            Self::Corrupt { .. } => ErrorKind::Corrupt,
            Self::Io { .. } | Self::Store { .. } => ErrorKind::Storage,
            Self::Unavailable(_) | Self::Promised { .. } => ErrorKind::Unavailable,
            Self::Interrupted => ErrorKind::Interrupted,
        }
    }

    /// Bytes that do not decode, with what was being read.
    pub fn corrupt(what: impl Into<String>, source: DecodeError) -> Self {
        Self::Corrupt {
            what: what.into(),
            source,
        }
    }

    /// An I/O failure, with what was being done.
    pub fn io(context: impl Into<String>, source: std::io::Error) -> Self {
        Self::Io {
            context: context.into(),
            source,
        }
    }
}

/// The result of everything that touches a database.
pub type Result<T, E = Error> = std::result::Result<T, E>;
