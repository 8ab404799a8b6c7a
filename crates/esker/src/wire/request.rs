//! Requests of an attached process, and the greeting.

#![deny(clippy::indexing_slicing)]

use crate::engine::CheckOptions;
use esker_model::graph_read::{GraphCall, GraphCallAs};
use esker_model::namespace::{Changes, Cookie, NamePath, Open, SpaceBy};
use esker_model::object::{Find, ObjectKey, Principal, TagWhere};
use esker_model::sharing::ShareCall;
use esker_model::{Batch, SchemaChange, Version, wire_enum, wire_struct};

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
    /// A read of the graph.
    Graph(GraphCall),
    /// A read of the graph with the visibility of a principal.
    GraphAs(GraphCallAs),
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
    /// Lookup of a file in order to open it.
    Look(Option<Principal>, NamePath, Open),
    /// A call about shares of lineages.
    Share(Option<Principal>, ShareCall),
}

wire_enum!(Request {
    0 Graph(call),
    1 GraphAs(call),
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
    43 Look(principal, path, how),
    48 Share(principal, call),
});
