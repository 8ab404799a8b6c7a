//! Requests between servers about the namespace, and its rows in transactions.

use esker_engine::{DirectorySums, PlannedRow, RawEntry};
use esker_model::key::Counter;
use esker_model::namespace::{AppliedChange, Change, FileError, Name, SpaceBy};
use esker_model::object::Principal;
use esker_model::{Error, ErrorKind, VertexId, wire_enum, wire_struct};

/// One server's part of a namespace change that concerns several servers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NamesPart {
    /// Epoch since which directories in the coordinator's memory must not have changed; only in the coordinator's own part.
    pub epoch: Option<u64>,
    /// Rows to write or to remove, and their required state before.
    pub rows: Vec<PlannedRow>,
    /// Changes of counters that come with the rows.
    pub counters: Vec<(Counter, i64)>,
    /// Whether directories are moved, removed or get other permissions; no other namespace operation may run meanwhile.
    pub structure: bool,
    /// Directories that must have no entries.
    pub empty: Vec<VertexId>,
}

/// Requests between servers about the namespace.
#[derive(Debug, Clone, PartialEq)]
pub enum NamesCall {
    /// Reads rows of the receiver.
    Rows {
        /// Keys of the rows.
        keys: Vec<Vec<u8>>,
    },
    /// Applies changes whose first entries are at the receiver.
    Change {
        /// Id of the call, by which one that arrives twice is done once.
        call: CallId,
        /// Principal of the call.
        principal: Option<Principal>,
        /// Changes to apply.
        changes: Vec<Change>,
        /// The client's idempotency key, if these are all of its changes; they may have been applied before.
        idempotency_key: Option<Vec<u8>>,
        /// Whether changes whose entries are on other servers are applied, too; otherwise they are left undone from
        /// the first one on.
        apply_remote: bool,
    },
    /// Reads the receiver's share of sums over directories.
    Sums {
        /// Ids of the directories.
        of: Vec<VertexId>,
    },
    /// Reads entries of a directory from a hash on, or after an entry's number if one is given.
    Page {
        /// Id of the directory.
        directory: VertexId,
        /// Start: the entry with that hash is at the receiver, if it exists.
        from: (u64, Option<u8>),
        /// Largest number of entries.
        limit: u32,
    },
    /// Reads the subdirectories of directories whose home is the receiver.
    Children {
        /// Ids of the directories.
        of: Vec<VertexId>,
    },
    /// Reads the receiver's share of sums over all files.
    Space {
        /// Grouping of the sums.
        by: SpaceBy,
    },
    /// Counts the receiver's entries of a directory with hashes from `first` to `last`.
    Count {
        /// Id of the directory.
        directory: VertexId,
        /// First hash of the range.
        first: u64,
        /// Last hash of the range.
        last: u64,
    },
    /// Exchanges flags about all servers' files: the sender's in the request, the receiver's in the response.
    ExchangeFlags(ClusterFlags),
    /// Requests a lease on a file's vertex whose home is the receiver.
    LeaseVertex {
        /// Id of the vertex.
        vertex: VertexId,
    },
    /// Reads the newest state of a file that the receiver has kept.
    Last {
        /// Id of the file.
        id: VertexId,
    },
    /// Asks how long leases last that a change of directories would break; the receiver grants none for a while.
    DirectoryLeases,
}

/// Flags about the files of all servers, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClusterFlags {
    /// Flags that are set on some server.
    pub known: u8,
    /// Flags that all servers have heard of.
    pub known_by_all: u8,
}

/// Id of one server's call for changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallId {
    /// Incarnation of the sender: how often it had been started.
    pub incarnation: u64,
    /// Number of the call within the incarnation.
    pub number: u64,
    /// All of the sender's calls with a smaller number have ended.
    pub over: u64,
    /// Incarnation of the receiver, as far as the sender knows. A later incarnation has forgotten the calls of an earlier one.
    pub receiver_incarnation: u64,
}

/// Responses between servers about the namespace.
#[derive(Debug, Clone, PartialEq)]
pub enum NamesReply {
    /// Response to [`NamesCall::Rows`], in the order of the keys; to [`NamesCall::Last`], one row or none.
    Rows(Vec<Option<Vec<u8>>>),
    /// Response to [`NamesCall::Change`]: results of the first changes, and, if the next one's entry is on another
    /// server, how its directory has split.
    Changed(
        Vec<Result<AppliedChange, Refusal>>,
        Vec<(VertexId, Vec<u8>)>,
    ),
    /// Response to [`NamesCall::Change`]: nothing was done, because the receiver has been restarted since the
    /// incarnation that the sender knew.
    Restarted,
    /// Response to [`NamesCall::Sums`], in the order of the directories.
    Sums(Vec<DirectorySums>),
    /// Response to [`NamesCall::Page`].
    Page {
        /// Rows in the order of hashes.
        entries: Vec<RawEntry>,
        /// Position of the entries that follow, if there are any.
        next: Option<(u64, Option<u8>)>,
    },
    /// Response to [`NamesCall::Children`], in the order of the directories.
    Children(Vec<Vec<(VertexId, Name)>>),
    /// Response to [`NamesCall::Space`].
    Space(Vec<(Counter, i64)>),
    /// Response to [`NamesCall::Count`].
    Count(u64),
    /// Response to a request for a lease, or for the duration of leases: milliseconds; 0 for none.
    LeaseMillis(u32),
    /// Response to an exchange of flags.
    Flags(ClusterFlags),
    /// Response to any request whose rows are on other servers: how their directories have split.
    Moved(Vec<(VertexId, Vec<u8>)>),
}

/// Reason why a change was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// A file system error.
    File(FileError),
    /// A server that the change needs does not answer.
    Unavailable(String),
    /// The change was not made; it may succeed soon.
    Busy(String),
    /// Whether the change was made is not known.
    Undecided(String),
    /// Another reason, as text.
    Other(String),
}

impl From<Error> for Refusal {
    fn from(e: Error) -> Self {
        match e {
            Error::File(e) => Self::File(e),
            Error::Busy(text) => Self::Busy(text),
            Error::Undecided(text) => Self::Undecided(text),
            e if e.kind() == ErrorKind::Unavailable => Self::Unavailable(e.to_string()),
            e => Self::Other(e.to_string()),
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::File(e) => e.into(),
            Refusal::Unavailable(text) => Self::Unavailable(text),
            Refusal::Busy(text) => Self::Busy(text),
            Refusal::Undecided(text) => Self::Undecided(text),
            Refusal::Other(text) => Self::Invalid(text),
        }
    }
}

wire_struct!(NamesPart {
    epoch,
    rows,
    counters,
    structure,
    empty
});
wire_enum!(NamesCall {
    0 Rows { keys },
    1 Change { call, principal, changes, idempotency_key, apply_remote },
    2 Sums { of },
    3 Page { directory, from, limit },
    4 Children { of },
    5 Space { by },
    6 Count { directory, first, last },
    7 ExchangeFlags(flags),
    8 LeaseVertex { vertex },
    9 Last { id },
    10 DirectoryLeases,
});
wire_struct!(ClusterFlags {
    known,
    known_by_all
});
wire_struct!(CallId {
    incarnation,
    number,
    over,
    receiver_incarnation
});
wire_enum!(NamesReply {
    0 Rows(rows),
    1 Changed(outcomes, splits),
    2 Restarted,
    3 Sums(sums),
    4 Page { entries, next },
    5 Children(children),
    6 Space(counters),
    7 Count(count),
    8 LeaseMillis(millis),
    9 Flags(flags),
    10 Moved(splits),
});
wire_enum!(Refusal {
    0 File(e),
    1 Unavailable(text),
    2 Other(text),
    3 Busy(text),
    4 Undecided(text),
});
