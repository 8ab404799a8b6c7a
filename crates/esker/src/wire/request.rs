//! Requests of an attached process, and the greeting.

#![deny(clippy::indexing_slicing)]

use crate::engine::CheckOptions;
use esker_model::codec::{DecodeError, Reader};
use esker_model::namespace::{Changes, Cookie, NamePath, Open, SpaceBy};
use esker_model::object::{Find, ObjectKey, Principal, TagWhere};
use esker_model::traversal::Budget;
use esker_model::wire::Wire;
use esker_model::{
    Batch, DiffSelect, EdgeKey, EdgeSelect, EdgeTypeId, SchemaChange, Traversal, Version,
    VersionRange, VertexId, VertexSelect, wire_enum, wire_struct,
};

/// First message of the client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) magic: [u8; 8],
    pub(crate) protocol: u16,
    pub(crate) version: String,
}

/// The owner's response to `Hello`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Welcome {
    pub(crate) protocol: u16,
    pub(crate) version: String,
    pub(crate) pid: u32,
}

wire_struct!(Hello {
    magic,
    protocol,
    version
});
wire_struct!(Welcome {
    protocol,
    version,
    pid
});

/// A request: one call of the API.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Request {
    Schema,
    ReadVertices(Vec<VertexId>, Version),
    ReadEdges(Vec<EdgeKey>, Version),
    ScanEdges(Vec<VertexId>, EdgeSelect),
    ScanVertices(VertexSelect),
    VertexHistory(VertexId, VersionRange),
    EdgeHistory(EdgeKey, VersionRange),
    Degrees(Vec<(VertexId, EdgeTypeId)>),
    TopDegrees(Option<EdgeTypeId>, usize),
    Counts,
    Diff(DiffSelect),
    Travel(Traversal, Budget),
    Applied(Vec<u8>),
    Apply(Batch),
    Define(Vec<SchemaChange>),
    Stats,
    Check(CheckOptions),
    Compact(Option<Version>),
    /// A copy of the database inside its own folder, for the caller to take: the owner writes nowhere else. The
    /// response has
    /// the path of the copy and a report.
    Backup,
    Persist,
    ReadObjects(Vec<ObjectKey>, Option<Principal>),
    Find(Find),
    Tags(Option<Principal>),
    TagWhere(TagWhere),
    SetIndex(String, bool),
    Stat(Option<Principal>, NamePath, bool),
    List(Option<Principal>, NamePath, Option<Cookie>),
    Walk(Option<Principal>, NamePath),
    Change(Changes),
    Usage(Option<Principal>, NamePath, bool),
    Usages(Option<Principal>, NamePath),
    Space(SpaceBy),
    Partitions(NamePath),
    /// Vertex ids and kinds of the files at paths.
    FileIds(Option<Principal>, Vec<NamePath>),
    /// A read of the graph with the visibility of a principal.
    As(Principal, Box<Self>),
    /// Lookup of a file in order to open it.
    Look(Option<Principal>, NamePath, Open),
}

/// Code of [`Request::As`].
const AS: u8 = 41;

impl Wire for Box<Request> {
    fn put(&self, out: &mut Vec<u8>) {
        (**self).put(out);
    }

    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        // `As` requests cannot be nested.
        if r.peek() == Some(AS) {
            return Err(r.error("a request of its own"));
        }
        Request::take(r).map(Self::new)
    }
}

wire_enum!(Request {
    0 Schema,
    1 ReadVertices(ids, as_of),
    2 ReadEdges(keys, as_of),
    3 ScanEdges(frontier, select),
    4 ScanVertices(select),
    5 VertexHistory(id, range),
    6 EdgeHistory(key, range),
    7 Degrees(of),
    8 TopDegrees(edge_type, limit),
    9 Counts,
    10 Diff(select),
    11 Travel(traversal, budget),
    12 Applied(idempotency_key),
    13 Apply(batch),
    14 Define(changes),
    15 Stats,
    16 Check(options),
    17 Compact(retain_after),
    18 Backup,
    19 Persist,
    20 ReadObjects(keys, principal),
    21 Find(find),
    22 Tags(principal),
    23 TagWhere(change),
    24 SetIndex(name, on),
    25 Stat(principal, path, follow),
    26 List(principal, path, after),
    27 Walk(principal, path),
    28 Change(changes),
    29 Usage(principal, path, below),
    30 Space(by),
    31 Usages(principal, path),
    32 Partitions(path),
    40 FileIds(principal, paths),
    41 As(principal, request),
    43 Look(principal, path, how),
});
