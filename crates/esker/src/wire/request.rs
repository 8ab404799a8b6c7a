//! What an attached process asks for, and how the two introduce themselves.

#![deny(clippy::indexing_slicing)]

use super::encoding::{Wire, wire_enum, wire_struct};
use crate::engine::CheckOptions;
use esker_model::codec::{DecodeError, Reader};
use esker_model::namespace::{Changes, Cookie, NamePath, Open, SpaceBy};
use esker_model::object::{Asker, Find, ObjectKey, TagWhere};
use esker_model::traversal::Budget;
use esker_model::{
    Batch, EdgeKey, EdgeSelect, EdgeTypeId, SchemaChange, Traversal, Version, VersionRange,
    VertexId, VertexSelect,
};

/// The client's first words.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) magic: [u8; 8],
    pub(crate) protocol: u16,
    pub(crate) version: String,
}

/// The owner's.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Welcome {
    pub(crate) protocol: u16,
    pub(crate) version: String,
    pub(crate) pid: u32,
}

impl Wire for [u8; 8] {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.array("the protocol's first bytes")
    }
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

/// One call of the API.
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
    Diff(Version, Version),
    Travel(Traversal, Budget),
    Applied(Vec<u8>),
    Apply(Batch),
    Define(Vec<SchemaChange>),
    Stats,
    Check(CheckOptions),
    Compact(Option<Version>),
    /// A copy of the database inside its own folder, for the caller to take: the owner writes nowhere else. The answer is the copy's
    /// path and what it holds.
    Backup,
    Persist,
    ReadObjects(Vec<ObjectKey>, Option<Asker>),
    Find(Find),
    Tags(Option<Asker>),
    TagWhere(TagWhere),
    SetIndex(String, bool),
    Stat(Option<Asker>, NamePath, bool),
    List(Option<Asker>, NamePath, Option<Cookie>),
    Walk(Option<Asker>, NamePath),
    Change(Changes),
    Usage(Option<Asker>, NamePath, bool),
    Usages(Option<Asker>, NamePath),
    Space(SpaceBy),
    Partitions(NamePath),
    /// What is at paths.
    FileIds(Option<Asker>, Vec<NamePath>),
    /// A read of the graph on somebody's behalf.
    As(Asker, Box<Self>),
    /// To open a file.
    Look(Option<Asker>, NamePath, Open),
}

/// The code of [`Request::As`].
const AS: u8 = 41;

impl Wire for Box<Request> {
    fn put(&self, out: &mut Vec<u8>) {
        (**self).put(out);
    }

    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        // Nobody asks on behalf of somebody who asks on behalf of somebody.
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
    10 Diff(before, after),
    11 Travel(traversal, budget),
    12 Applied(once),
    13 Apply(batch),
    14 Define(changes),
    15 Stats,
    16 Check(options),
    17 Compact(retain_after),
    18 Backup,
    19 Persist,
    20 ReadObjects(keys, asker),
    21 Find(find),
    22 Tags(asker),
    23 TagWhere(change),
    24 SetIndex(name, on),
    25 Stat(asker, path, follow),
    26 List(asker, path, after),
    27 Walk(asker, path),
    28 Change(changes),
    29 Usage(asker, path, below),
    30 Space(by),
    31 Usages(asker, path),
    32 Partitions(path),
    40 FileIds(asker, paths),
    41 As(asker, request),
    43 Look(asker, path, how),
});
