//! Errors of the API, and what a caller can do about each.

use crate::codec::DecodeError;
use crate::id::NameError;
use crate::schema::SchemaError;
use crate::traversal::TraversalParseError;
use crate::version::TimeError;

/// An error of any call on a database. More variants may be added.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The schema refuses a type, an attribute or a name.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// A vertex name is malformed.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A time is malformed.
    #[error(transparent)]
    Time(#[from] TimeError),
    /// A traversal does not parse.
    #[error(transparent)]
    Traversal(#[from] TraversalParseError),
    /// A filter does not parse.
    #[error(transparent)]
    Filter(#[from] crate::filter::FilterParseError),
    /// A file operation is refused with a POSIX error.
    #[error(transparent)]
    File(#[from] crate::namespace::FileError),
    /// A vertex does not exist, any more or yet.
    #[error("no vertex `{name}`{hint}")]
    NoVertex {
        /// Name of the missing vertex.
        name: String,
        /// Advice that begins with `; `, or empty.
        hint: String,
    },
    /// An edge does not exist, any more or yet.
    #[error("no edge `{source_name}` -{edge_type}-> `{destination_name}`")]
    NoEdge {
        /// Name of the vertex where the edge would start.
        source_name: String,
        /// Type of the missing edge.
        edge_type: String,
        /// Name of the vertex where the edge would end.
        destination_name: String,
    },
    /// An attribute's value has the wrong kind.
    #[error("attribute `{attribute}` of {vertex_type} holds {expected}; got {got}")]
    Kind {
        /// Type of the vertex.
        vertex_type: String,
        /// Name of the attribute.
        attribute: String,
        /// The kind that the schema declares.
        expected: &'static str,
        /// The kind that was given.
        got: &'static str,
    },
    /// A size exceeds a limit of `model::limits`.
    #[error("{what} is {got}; the limit is {limit}")]
    Limit {
        /// Description of the item that was measured.
        what: String,
        /// Size of the item.
        got: u64,
        /// The largest size that is accepted.
        limit: u64,
    },
    /// The request is invalid.
    #[error("{0}")]
    Invalid(String),
    /// Bytes on disk or on the wire do not decode.
    #[error(
        "corrupt {what}: {source}; run `esker check`, restore a backup if it confirms the damage"
    )]
    Corrupt {
        /// Description of the data that was being read.
        what: String,
        /// Offset and reason of the failure.
        source: DecodeError,
    },
    /// The store, or the disk under it, failed.
    #[error("{context}: {source}")]
    Io {
        /// Description of the operation and its target.
        context: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The key-value store reported an error of its own.
    #[error("{engine}: {message}")]
    Store {
        /// Name of the key-value store.
        engine: &'static str,
        /// Message of the key-value store.
        message: String,
    },
    /// The target is not a database, or one that this build cannot open.
    #[error("{0}")]
    Target(String),
    /// The process or server that has the data does not answer, is starting or is stopping. Remedy: repeat the call once it is
    /// back.
    #[error("{0}")]
    Unavailable(String),
    /// Others use the same data or all of a resource at this moment, and nothing was done. Remedy: repeat the call soon.
    #[error("{0}")]
    Busy(String),
    /// A change was sent, and whether it was made is not known. Remedy: repeat it with its idempotency key, which makes it once,
    /// or read what is there.
    #[error("{0}")]
    Undecided(String),
    /// Another process has the database or the file to itself. Remedy: end that process, or go through it.
    #[error("{0}")]
    InUse(String),
    /// A message of another release arrived. Remedy: use the same release on both sides.
    #[error("{0}")]
    OtherRelease(String),
    /// The handle or the database was closed. Remedy: open it again.
    #[error("{0}")]
    Closed(String),
    /// The change is blocked by a lease on a cached answer. Nothing was changed; retry after the lease has expired.
    #[error(
        "what would change is leased to clients for {millis} ms more; nothing was done, try again then"
    )]
    Leased {
        /// Milliseconds until the lease expires.
        millis: u64,
    },
    /// The caller cancelled the operation.
    #[error("interrupted")]
    Interrupted,
}

/// Class of an error by its remedy. Exhaustive on purpose: adding a class changes the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The item does not exist.
    Missing,
    /// The call is wrong and must be changed.
    Invalid,
    /// The call is right, and may succeed at another time. The variant of the error says when.
    Unavailable,
    /// The disk or the machine needs attention.
    Storage,
    /// The data is damaged: repair it or restore a backup.
    Corrupt,
    /// The caller cancelled the operation.
    Interrupted,
}

impl Error {
    /// Returns the class of this error.
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
            Self::Unavailable(_)
            | Self::Busy(_)
            | Self::Undecided(_)
            | Self::InUse(_)
            | Self::OtherRelease(_)
            | Self::Closed(_)
            | Self::Leased { .. } => ErrorKind::Unavailable,
            Self::Interrupted => ErrorKind::Interrupted,
        }
    }

    /// Builds the error for bytes that do not decode; `what` describes the data.
    pub fn corrupt(what: impl Into<String>, source: DecodeError) -> Self {
        Self::Corrupt {
            what: what.into(),
            source,
        }
    }

    /// Builds the error for a failed I/O operation; `context` describes it.
    pub fn io(context: impl Into<String>, source: std::io::Error) -> Self {
        Self::Io {
            context: context.into(),
            source,
        }
    }
}

/// The result of every call on a database.
pub type Result<T, E = Error> = std::result::Result<T, E>;
