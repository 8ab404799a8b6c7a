//! Messages between the servers of a cluster, as data with an encoding ([`esker_model::wire`]). The host transports them
//! (gRPC, a simulated network): [`crate::node::Host`].
//!
//! Each request has one response. A request may be lost, arrive twice or arrive late; the sender notices by a failed
//! call and repeats it where that is safe.

mod names;
mod object;
mod travel;
mod txn;

pub use names::{CallId, ClusterFlags, NamesCall, NamesPart, NamesReply, Refusal};
pub use object::{FindId, FindPage, ObjectAt, ObjectCall, ObjectReply};
pub use travel::{
    ChainPosition, HopAt, PathEntry, Reached, RemainingBudget, StepDone, TraversalBegin,
    TraversalCall, TraversalId, TraversalReply, Visited,
};
pub(crate) use txn::is_object;
pub use txn::{
    Adopt, Change, Decided, Delegated, Part, PartOp, Prepared, RawRow, RawTable, TableFile, TxId,
    entries_vertex, identity_vertex, row_lock,
};

use crate::vnode::ServerId;
use esker_model::key::EdgeKey;
use esker_model::{
    Batch, Commit, Counts, Degree, DiffSelect, Difference, Edge, EdgeEvent, EdgeSelect, EdgeTypeId,
    Error, SchemaChange, Version, VersionRange, Vertex, VertexEvent, VertexId, VertexSelect,
    wire_enum, wire_newtype, wire_struct,
};
use std::sync::Arc;

/// A request with its sender and the sender's clocks.
#[derive(Debug, Clone, PartialEq)]
pub struct PeerRequest {
    /// Server that sends the request.
    pub from: ServerId,
    /// Incarnation of the sender: how often it has been started. A later incarnation has lost what an earlier one had
    /// only in memory.
    pub incarnation: u64,
    /// The sender's hybrid logical clock; afterwards the receiver's is not behind it.
    pub clock: Version,
    /// Newest version of any change that the sender knows; it is later than all clocks if data dated in the future was stored.
    pub newest: Version,
    /// The request's kind and arguments.
    pub request: Request,
}

/// The response to a request, with the responder's clocks.
#[derive(Debug)]
pub struct PeerResponse {
    /// Incarnation of the responder: how often it has been started.
    pub incarnation: u64,
    /// The responder's hybrid logical clock.
    pub clock: Version,
    /// Newest version known to the responder, as in [`PeerRequest::newest`].
    pub newest: Version,
    /// Number of partitions that the responder has given away or received since its start.
    pub moves: u64,
    /// Last commit of the responder that a checkpoint contains, for an ephemeral store.
    pub persisted: u64,
    /// The result, or the responder's error. A call that failed in transit has no response.
    pub outcome: Result<Response, Error>,
}

/// The kinds of requests between servers.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// Announces that the sender has just started; both sides exchange decisions that were not delivered.
    Hello {
        /// The sender's decisions that the receiver has not acknowledged.
        decided: Vec<Decided>,
    },
    /// Prepares a part of a transaction: checks that it can be done, and returns its floor.
    Prepare {
        /// Transaction that the part belongs to.
        tx: TxId,
        /// All of the sender's transactions with a smaller number have ended.
        over: u64,
        /// Highest version that the batch's client has seen: what was acknowledged to it is done before this part is tried.
        seen: Version,
        /// The receiver's part of the transaction.
        part: Arc<Part>,
    },
    /// Coordinates a client's small batch whose first change has its home at the receiver.
    Apply {
        /// Batch to apply.
        batch: Batch,
        /// Highest version that the client has seen.
        seen: Version,
        /// The client's guarantees for the batch.
        how: ApplyOptions,
    },
    /// Applies a prepared part.
    Commit(Decided),
    /// Discards a prepared part.
    Abort {
        /// Transaction to abort.
        tx: TxId,
    },
    /// Adds definitions to the schema; existing ones are no error.
    Define {
        /// Definitions to add.
        changes: Vec<SchemaChange>,
    },
    /// Returns the changes from the default schema to the receiver's, in order.
    Schema,
    /// Returns how vertices have split, as far as the receiver knows.
    Splits {
        /// Ids of the vertices.
        of: Vec<VertexId>,
    },
    /// Reads the receiver's own rows.
    Read(Read),
    /// A call of a distributed traversal.
    Travel(TraversalCall),
    /// A call about the receiver's objects.
    Objects(ObjectCall),
    /// A call about the namespace.
    Names(NamesCall),
    /// Does nothing; measures latency and checks that the receiver is alive.
    Ping,
    /// Requests a checkpoint of all that the receiver has.
    Persist,
    /// Pauses the receiver: it decides no transaction until resumed, and responds once its decisions are applied everywhere.
    Pause {
        /// Id of the pause.
        id: u64,
    },
    /// Copies the receiver's data while it is paused.
    Copy {
        /// Id of the pause.
        id: u64,
        /// Version of the copy; later decisions take later versions.
        version: Version,
        /// Folder of the copy; the receiver writes to its own subfolder.
        to: String,
    },
    /// Resumes a paused server.
    Resume {
        /// Id of the pause.
        id: u64,
    },
    /// Prepares the receiver's part of a transaction that its coordinator has prepared, and decides the transaction.
    Decide(Delegated),
    /// Asks for the outcome of a [`Request::Decide`]. If the transaction is not decided, it never will be.
    Outcome {
        /// The transaction, coordinated by the sender.
        tx: TxId,
    },
}

impl Request {
    /// Name of the kind of request, for traces.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Hello { .. } => "Hello",
            Self::Prepare { .. } => "Prepare",
            Self::Apply { .. } => "Apply",
            Self::Commit(_) => "Commit",
            Self::Abort { .. } => "Abort",
            Self::Define { .. } => "Define",
            Self::Schema => "Schema",
            Self::Splits { .. } => "Splits",
            Self::Read(_) => "Read",
            Self::Travel(_) => "Travel",
            Self::Objects(_) => "Objects",
            Self::Names(_) => "Names",
            Self::Ping => "Ping",
            Self::Persist => "Persist",
            Self::Pause { .. } => "Pause",
            Self::Copy { .. } => "Copy",
            Self::Resume { .. } => "Resume",
            Self::Decide(_) => "Decide",
            Self::Outcome { .. } => "Outcome",
        }
    }
}

/// A client's guarantees for a batch to an ephemeral store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ApplyOptions {
    /// Whether the client keeps the batch until a checkpoint contains it.
    pub retained: bool,
    /// Version at which the batch was acknowledged before, by a server that may have lost it.
    pub acknowledged_at: Option<Version>,
}

/// Position in the commits of one incarnation of a server's store: that of a batch, or of the last commit that a
/// checkpoint contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitPosition {
    /// Server of the store.
    pub server: ServerId,
    /// Incarnation of the server: how often it had been started.
    pub incarnation: u64,
    /// Number of the commit within the incarnation.
    pub number: u64,
}

/// Reads of rows of one server.
#[derive(Debug, Clone, PartialEq)]
pub enum Read {
    /// Reads vertices by id.
    Vertices {
        /// Ids of vertices whose home is the receiver.
        ids: Vec<VertexId>,
        /// Version to read as of.
        as_of: Version,
    },
    /// Reads edges by key.
    Edges {
        /// Keys of the edges.
        keys: Vec<EdgeKey>,
        /// Version to read as of.
        as_of: Version,
    },
    /// Scans the edges of vertices, page by page.
    Scan {
        /// Source vertices.
        frontier: Vec<VertexId>,
        /// Selection of edges.
        select: EdgeSelect,
        /// Approximate largest number of edges in the page.
        limit: u32,
        /// Version up to which pending transactions are awaited.
        at: Version,
    },
    /// Scans vertices of a type whose home is the receiver, page by page.
    Type {
        /// Type, conditions and cursor.
        select: VertexSelect,
        /// Largest number of vertices in the page.
        limit: u32,
    },
    /// Reads all events of a vertex.
    VertexHistory {
        /// Id of the vertex.
        id: VertexId,
        /// Range of versions.
        range: VersionRange,
    },
    /// Reads all versions of an edge.
    EdgeHistory {
        /// Key of the edge.
        key: EdgeKey,
        /// Range of versions.
        range: VersionRange,
    },
    /// Counts the edges that leave vertices, among those that the receiver has.
    Degrees {
        /// Vertices and edge types.
        of: Vec<(VertexId, EdgeTypeId)>,
    },
    /// Reads the vertices with the highest degrees at the receiver, and all vertices that have split.
    TopDegrees {
        /// Edge type; `None` for the highest degree of any type.
        edge_type: Option<EdgeTypeId>,
        /// Number of vertices.
        limit: u32,
    },
    /// Reads the counts by type.
    Counts,
    /// Reads the differences between two versions, page by page.
    Diff {
        /// Versions and cursor.
        select: DiffSelect,
        /// Largest number of differences in the page.
        limit: u32,
    },
    /// Whether a batch with this idempotency key was applied.
    Applied {
        /// Idempotency key of the batch.
        idempotency_key: Vec<u8>,
    },
}

/// The kinds of responses between servers.
#[derive(Debug, Clone, PartialEq)]
pub enum Response {
    /// Response to [`Request::Hello`].
    Undelivered {
        /// The responder's decisions that the sender has not acknowledged.
        decided: Vec<Decided>,
        /// Incarnation of the responder.
        incarnation: u64,
        /// All transactions below this number that the responder has coordinated since its start have ended. The
        /// receiver may have forgotten what it knew of them, and their messages may still arrive.
        over: u64,
    },
    /// Response to [`Request::Apply`]: the commit, and the position until which the client must keep the batch.
    Batch(Commit, Option<CommitPosition>),
    /// Response to [`Request::Prepare`]: the part can be done.
    Prepared(Prepared),
    /// Response to any request about edges that are on other servers: how their vertices have split (rows encoded by
    /// [`crate::placement::SplitState`]).
    Moved(Vec<(VertexId, Vec<u8>)>),
    /// Response to [`Request::Prepare`]: the transaction has ended.
    Over,
    /// Response to [`Request::Commit`]: the part is applied.
    Committed {
        /// Number of new vertices.
        vertices_created: u64,
        /// Number of new edges.
        edges_created: u64,
        /// Number of changes that found everything in the requested state.
        unchanged: u64,
    },
    /// Response to [`Request::Commit`]: the part is not known here and must be sent along. Response to
    /// [`Request::Prepare`]: the file with the part's rows cannot be read here, so the rows must be sent along.
    Unknown,
    /// Response to [`Request::Copy`].
    Copied {
        /// Size of the copy in bytes.
        bytes: u64,
    },
    /// The request was done; there is no result.
    Done,
    /// Response to [`Request::Schema`].
    Schema(Vec<SchemaChange>),
    /// Response to [`Request::Splits`].
    Splits(Vec<(VertexId, Vec<u8>)>),
    /// Response to [`Read::Vertices`].
    Vertices(Vec<Option<Vertex>>),
    /// Response to [`Read::Edges`].
    Edges(Vec<Option<Edge>>),
    /// Response to [`Read::Scan`]: a page of edges.
    Scanned {
        /// Edges with the index of their source in the frontier.
        edges: Vec<(u32, Edge)>,
        /// Encoded split states of the frontier's vertices that have split.
        splits: Vec<(VertexId, Vec<u8>)>,
        /// Whether more edges follow the last one.
        more: bool,
    },
    /// Response to [`Read::Type`].
    Type {
        /// Vertices in the order of type and id.
        vertices: Vec<Vertex>,
        /// Whether more vertices follow the last one.
        more: bool,
    },
    /// Response to [`Read::VertexHistory`].
    VertexHistory(Vec<VertexEvent>),
    /// Response to [`Read::EdgeHistory`].
    EdgeHistory(Vec<EdgeEvent>),
    /// Response to [`Read::Degrees`].
    Degrees(Vec<u64>),
    /// Response to [`Read::TopDegrees`].
    TopDegrees {
        /// Highest degrees among vertices that have not split.
        whole: Vec<Degree>,
        /// The responder's share of the degrees of vertices that have split.
        split: Vec<Degree>,
    },
    /// Response to [`Read::Counts`].
    Counts(Counts),
    /// Response to [`Read::Diff`].
    Diff {
        /// Differences in the order of keys.
        differences: Vec<Difference>,
        /// Whether more differences may follow the last one.
        more: bool,
    },
    /// Response to [`Read::Applied`].
    Applied(bool),
    /// Response to [`Request::Travel`].
    Travel(TraversalReply),
    /// Response to [`Request::Objects`].
    Objects(ObjectReply),
    /// Response to [`Request::Names`].
    Names(NamesReply),
    /// Response to [`Request::Decide`] and [`Request::Outcome`]: the transaction is decided, and the responder has
    /// applied its part.
    Decided {
        /// Version of the transaction.
        version: Version,
        /// By index in the batch: changes that take another, later version.
        later: Vec<(u32, Version)>,
        /// Number of vertices that the responder created; 0 in a response to [`Request::Outcome`].
        vertices_created: u64,
        /// Number of edges that the responder created; likewise.
        edges_created: u64,
        /// Number of changes that were there before; likewise.
        unchanged: u64,
    },
}

wire_newtype!(ServerId);
wire_struct!(PeerRequest {
    from,
    incarnation,
    clock,
    newest,
    request
});
wire_struct!(PeerResponse {
    incarnation,
    clock,
    newest,
    moves,
    persisted,
    outcome
});
wire_enum!(Request {
    0 Hello { decided },
    1 Prepare { tx, over, seen, part },
    2 Apply { batch, seen, how },
    3 Commit(decided),
    4 Abort { tx },
    5 Define { changes },
    6 Schema,
    7 Splits { of },
    8 Read(read),
    9 Travel(call),
    10 Objects(call),
    11 Names(call),
    12 Ping,
    13 Persist,
    14 Pause { id },
    15 Copy { id, version, to },
    16 Resume { id },
    17 Decide(delegated),
    18 Outcome { tx },
});
wire_struct!(ApplyOptions {
    retained,
    acknowledged_at
});
wire_struct!(CommitPosition {
    server,
    incarnation,
    number
});
wire_enum!(Read {
    0 Vertices { ids, as_of },
    1 Edges { keys, as_of },
    2 Scan { frontier, select, limit, at },
    3 Type { select, limit },
    4 VertexHistory { id, range },
    5 EdgeHistory { key, range },
    6 Degrees { of },
    7 TopDegrees { edge_type, limit },
    8 Counts,
    9 Diff { select, limit },
    10 Applied { idempotency_key },
});
wire_enum!(Response {
    0 Undelivered { decided, incarnation, over },
    1 Batch(commit, position),
    2 Prepared(prepared),
    3 Moved(splits),
    4 Over,
    5 Committed { vertices_created, edges_created, unchanged },
    6 Unknown,
    7 Copied { bytes },
    8 Done,
    9 Schema(changes),
    10 Splits(splits),
    11 Vertices(vertices),
    12 Edges(edges),
    13 Scanned { edges, splits, more },
    14 Type { vertices, more },
    15 VertexHistory(events),
    16 EdgeHistory(events),
    17 Degrees(degrees),
    18 TopDegrees { whole, split },
    19 Counts(counts),
    20 Diff { differences, more },
    21 Applied(applied),
    22 Travel(reply),
    23 Objects(reply),
    24 Names(reply),
    25 Decided { version, later, vertices_created, edges_created, unchanged },
});

#[cfg(test)]
mod tests;
