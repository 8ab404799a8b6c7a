//! What the servers of a cluster say to each other, as data. Who carries it (gRPC, a simulated network) is the host's
//! affair: [`crate::node::Host`].
//!
//! Each question has one answer. A question may be lost, arrive twice or late; whoever asks finds out by a failed call and
//! asks again where that is safe.

mod codec;
mod names;
mod object;
mod object_codec;
mod travel;
mod txn;

pub use names::{CallId, KnownOfFiles, NamesCall, NamesPart, NamesReply, Refusal};
pub use object::{FindId, FindPage, ObjectAt, ObjectCall, ObjectReply};
pub use travel::{
    HopAt, Left, PathEntry, Place as TravelPlace, Reached, StepDone, TravelBegin, TravelCall,
    TravelId, TravelReply, Visited,
};
pub(crate) use txn::is_object;
pub use txn::{
    Adopt, Change, Decided, Part, PartOp, Prepared, RawRow, RawTable, TableFile, TxId, entries_of,
    row_lock, stands_for, vertex_of,
};

use crate::vnode::ServerId;
use esker_model::key::EdgeKey;
use esker_model::{
    Batch, Commit, Counts, Degree, Difference, Edge, EdgeEvent, EdgeSelect, EdgeTypeId, Error,
    SchemaChange, Version, VersionRange, Vertex, VertexEvent, VertexId, VertexSelect,
};
use std::sync::Arc;

/// A question, and who asks it when.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Who asks.
    pub from: ServerId,
    /// How often the asking server has been started: a later one has forgotten what an earlier one had only in memory.
    pub incarnation: u64,
    /// The asker's hybrid logical clock: the answerer's will not be behind it.
    pub clock: Version,
    /// The newest version that any change took, as far as the asker knows: later than clocks are if data dated in the
    /// future was stored.
    pub newest: Version,
    /// What is asked.
    pub request: Request,
}

/// The answer to a question.
#[derive(Debug)]
pub struct Answer {
    /// How often the answering server has been started.
    pub incarnation: u64,
    /// The answerer's hybrid logical clock.
    pub clock: Version,
    /// As in [`Question::newest`].
    pub newest: Version,
    /// How often since its start the answerer has given partitions away or taken some.
    pub moves: u64,
    /// The last of its commits that a checkpoint holds, where its store dies with its machine.
    pub persisted: u64,
    /// What came out. An error is the answerer's; a call that failed on the way has no answer.
    pub outcome: Result<Response, Error>,
}

/// What can be asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// "I have just started": what was decided and not delivered before, both ways.
    Hello {
        /// The asker's decisions that the answerer has not acknowledged.
        decided: Vec<Decided>,
    },
    /// Take a part of a transaction: check that it can be done and say from when on.
    Prepare {
        /// Which transaction.
        tx: TxId,
        /// All of the asker's transactions with a smaller number are over.
        over: u64,
        /// The highest version that the batch's client has seen: what it has had acknowledged is done before this is tried.
        seen: Version,
        /// What the answerer is to do.
        part: Arc<Part>,
    },
    /// Coordinate a client's batch: few changes, which begin at home with the answerer.
    Apply {
        /// The batch.
        batch: Batch,
        /// The highest version that its client has seen.
        seen: Version,
        /// What its client makes of it.
        how: Applying,
    },
    /// Do the part.
    Commit(Decided),
    /// Forget the part.
    Abort {
        /// Which transaction.
        tx: TxId,
    },
    /// Add to the schema: what is there already is no error.
    Define {
        /// What.
        changes: Vec<SchemaChange>,
    },
    /// The schema's changes since it was the default, in order.
    Schema,
    /// How a vertex has split, as far as the answerer knows.
    Splits {
        /// Which vertices.
        of: Vec<VertexId>,
    },
    /// What the answerer itself holds.
    Read(Read),
    /// A step of a traversal.
    Travel(TravelCall),
    /// Objects that the answerer holds.
    Objects(ObjectCall),
    /// The namespace.
    Names(NamesCall),
    /// Nothing: to measure, and to see whether somebody is there.
    Ping,
    /// A checkpoint is to hold all that the answerer has.
    Persist,
    /// Decide nothing until it is told to go on, and answer once what was decided is done everywhere.
    Hold {
        /// Who holds.
        id: u64,
    },
    /// Copy what the answerer has, while it is held.
    Copy {
        /// Who holds it.
        id: u64,
        /// What is decided later takes later versions.
        version: Version,
        /// Where to: a folder, in which the answerer has its place.
        to: String,
    },
    /// Go on.
    Release {
        /// Who held.
        id: u64,
    },
}

/// What a client makes of a batch, where stores die with their machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Applying {
    /// It keeps the batch until a checkpoint holds it.
    pub hold: bool,
    /// It has had it acknowledged, at that version, by a server that may have lost it.
    pub again_at: Option<Version>,
}

/// A place among the commits of one opening of a server's store: that of a batch, or of the last one that a checkpoint holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Which server.
    pub server: ServerId,
    /// How often it had been started.
    pub incarnation: u64,
    /// Which commit.
    pub number: u64,
}

/// Reading what one server holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Read {
    /// Vertices by id.
    Vertices {
        /// Which; all at home at the answerer.
        ids: Vec<VertexId>,
        /// As of when.
        as_of: Version,
    },
    /// Edges by key.
    Edges {
        /// Which.
        keys: Vec<EdgeKey>,
        /// As of when.
        as_of: Version,
    },
    /// Edges of vertices, in pieces.
    Scan {
        /// Whose.
        frontier: Vec<VertexId>,
        /// Which.
        select: EdgeSelect,
        /// Only those behind that edge of the vertex at that place.
        after: Option<(u32, EdgeKey)>,
        /// About how many at most.
        limit: u32,
        /// What the caller sees must have been decided by then.
        at: Version,
    },
    /// Vertices of a type that are at home at the answerer, in pieces.
    Type {
        /// Which.
        select: VertexSelect,
        /// How many at most.
        limit: u32,
    },
    /// All that happened to a vertex.
    VertexHistory {
        /// Which.
        id: VertexId,
        /// When.
        range: VersionRange,
    },
    /// All versions of an edge.
    EdgeHistory {
        /// Which.
        key: EdgeKey,
        /// When.
        range: VersionRange,
    },
    /// How many edges leave vertices, of those that the answerer holds.
    Degrees {
        /// Of what.
        of: Vec<(VertexId, EdgeTypeId)>,
    },
    /// The vertices with the most edges there, and all that have split.
    TopDegrees {
        /// Of that type; else of any one type.
        edge_type: Option<EdgeTypeId>,
        /// How many.
        limit: u32,
    },
    /// Counts by type.
    Counts,
    /// Differences between two times, in pieces.
    Diff {
        /// The earlier time.
        before: Version,
        /// The later time.
        after: Version,
    },
    /// Whether a batch with this marker was applied.
    Applied {
        /// The marker.
        once: Vec<u8>,
    },
}

/// What can come back.
#[derive(Debug, Clone, PartialEq)]
pub enum Response {
    /// To [`Request::Hello`].
    Undelivered {
        /// The answerer's decisions that the asker has not acknowledged.
        decided: Vec<Decided>,
        /// The answerer's start.
        incarnation: u64,
        /// All transactions below this one that it has coordinated since are over: what the asker once knew of them it may have
        /// forgotten, and messages of theirs may still be on their way.
        over: u64,
    },
    /// To [`Request::Apply`]: what was done, and what the client has to keep it for.
    Batch(Commit, Option<Held>),
    /// To [`Request::Prepare`]: it can be done.
    Prepared(Prepared),
    /// To any request about edges: they lie elsewhere; this is how their vertices have split (rows as
    /// [`crate::placement::SplitState`] encodes them).
    Moved(Vec<(VertexId, Vec<u8>)>),
    /// To [`Request::Prepare`]: this transaction is over.
    Over,
    /// To [`Request::Commit`]: done. Vertices and edges that are new, changes that changed nothing.
    Committed {
        /// New vertices.
        vertices_created: u64,
        /// New edges.
        edges_created: u64,
        /// Changes that found everything as they would have left it.
        unchanged: u64,
    },
    /// To [`Request::Commit`]: the part is not known here, send it along. To [`Request::Prepare`]: the file that has its rows cannot be
    /// read here, send them along.
    Unknown,
    /// To [`Request::Copy`].
    Copied {
        /// Of the copy.
        bytes: u64,
    },
    /// Done, nothing to say.
    Done,
    /// To [`Request::Schema`].
    Schema(Vec<SchemaChange>),
    /// To [`Request::Splits`].
    Splits(Vec<(VertexId, Vec<u8>)>),
    /// To [`Read::Vertices`].
    Vertices(Vec<Option<Vertex>>),
    /// To [`Read::Edges`].
    Edges(Vec<Option<Edge>>),
    /// To [`Read::Scan`]: edges with their place in the frontier, how vertices of the frontier have split, and whether
    /// there is more.
    Scanned {
        /// The edges.
        edges: Vec<(u32, Edge)>,
        /// Of the vertices that have split: rows as stored.
        splits: Vec<(VertexId, Vec<u8>)>,
        /// Whether there is more behind the last of them.
        more: bool,
    },
    /// To [`Read::Type`].
    Type {
        /// By (type, id).
        vertices: Vec<Vertex>,
        /// Whether there is more behind the last of them.
        more: bool,
    },
    /// To [`Read::VertexHistory`].
    VertexHistory(Vec<VertexEvent>),
    /// To [`Read::EdgeHistory`].
    EdgeHistory(Vec<EdgeEvent>),
    /// To [`Read::Degrees`].
    Degrees(Vec<u64>),
    /// To [`Read::TopDegrees`].
    TopDegrees {
        /// The most, among vertices that have not split.
        whole: Vec<Degree>,
        /// What the answerer holds of vertices that have split.
        split: Vec<Degree>,
    },
    /// To [`Read::Counts`].
    Counts(Counts),
    /// To [`Read::Diff`].
    Diff(Vec<Difference>),
    /// To [`Read::Applied`].
    Applied(bool),
    /// To [`Request::Travel`].
    Travel(TravelReply),
    /// To [`Request::Objects`].
    Objects(ObjectReply),
    /// To [`Request::Names`].
    Names(NamesReply),
}
