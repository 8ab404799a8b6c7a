//! Encodings of the model's types.

#![deny(clippy::indexing_slicing)]

use super::encoding::{Wire, wire_enum, wire_newtype, wire_struct};
use crate::BackupReport;
use crate::engine::{BulkReport, CheckOptions, CheckReport, CompactReport, Problem, Stats};
use esker_model::codec::{DecodeError, Reader};
use esker_model::key::RowKey;
use esker_model::record::UserAttribute;
use esker_model::{
    AttributeDefinition, Batch, Commit, Counts, Degree, DiffSelect, Difference, Edge, EdgeEvent,
    EdgeKey, EdgeSelect, EdgeTypeId, Mutation, Op, Properties, Schema, SchemaChange, Value,
    ValueKind, Version, VersionRange, Versions, Vertex, VertexChange, VertexEvent, VertexId,
    VertexName, VertexRef, VertexSelect, VertexTypeId,
};
use esker_store::{StoreStats, Table};

wire_newtype!(Version, VertexId, VertexTypeId, EdgeTypeId);
wire_struct!(VersionRange { from, until });
wire_struct!(VertexRef { id, type_id });
wire_struct!(VertexName { type_name, key });
wire_struct!(EdgeKey {
    source,
    edge_type,
    destination
});
wire_struct!(UserAttribute {
    name,
    version,
    value
});
wire_struct!(Vertex {
    id,
    type_id,
    key,
    version,
    deleted,
    attributes,
    user
});
wire_struct!(Edge {
    key,
    version,
    deleted,
    properties
});
wire_struct!(VertexEvent {
    version,
    change,
    archived
});
wire_struct!(EdgeEvent { edge, archived });
wire_struct!(EdgeSelect {
    types,
    versions,
    properties,
    after
});
wire_struct!(VertexSelect {
    type_id,
    after,
    as_of,
    deleted
});
wire_struct!(DiffSelect {
    before,
    after,
    start_after
});
wire_enum!(RowKey {
    0 Vertex(id),
    1 Edge(key),
});
wire_struct!(Degree {
    vertex,
    edge_type,
    degree
});
wire_struct!(Counts { vertices, edges });
wire_struct!(Mutation { version, op });
wire_struct!(Batch {
    mutations,
    idempotency_key
});
wire_struct!(Commit {
    version,
    applied,
    vertices_created,
    edges_created,
    unchanged
});
wire_struct!(AttributeDefinition { name, kind });
wire_struct!(StoreStats {
    engine,
    table_bytes,
    log_bytes,
    cache_bytes,
    cache_bytes_max,
    failed
});
wire_struct!(Stats {
    counts,
    store,
    adjacency_lists,
    adjacency_edges,
    adjacency_bytes,
    adjacency_bytes_max,
    objects_bytes,
    objects_index_bytes,
    objects_disk_bytes,
    newest,
    retained_since,
});
wire_struct!(CheckOptions { repair, part });
wire_struct!(Problem {
    what,
    detail,
    repaired
});
wire_struct!(CheckReport {
    rows,
    vertices,
    edges,
    history,
    problems,
    problems_total,
    complete,
    edges_sum,
    inverses_sum
});
wire_struct!(CompactReport {
    archived,
    kept,
    dropped
});
wire_struct!(BulkReport {
    vertices_created,
    edges_created,
    mutations
});
wire_struct!(BackupReport { bytes, newest });

wire_enum!(Versions {
    0 AsOf(version),
    1 Range(range),
});
wire_enum!(VertexChange {
    0 Put(attributes),
    1 Deleted,
    2 Set(name, value),
    3 Removed(name),
});
wire_enum!(Difference {
    0 Vertex(before, after),
    1 Edge(before, after),
});
wire_enum!(Op {
    0 PutVertex { vertex, key, attributes },
    1 EnsureVertex { vertex, key },
    2 SetAttributes { vertex, set, remove },
    3 DeleteVertex { vertex },
    4 PutEdge { source, edge_type, destination, properties },
    5 DeleteEdge { source, edge_type, destination },
    6 ChangeVertex { vertex, set, remove },
    7 CreateObject { identity, attributes, tags },
    8 MoveObject { object, from, to },
});
wire_enum!(SchemaChange {
    0 VertexType { name, parent, attributes },
    1 EdgeType { name, inverse, source, destination },
    2 Attribute { vertex_type, attribute },
});

impl Wire for Value {
    fn put(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Self::decode(r)
    }
}

impl Wire for Properties {
    fn put(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Self::decode(r)
    }
}

impl Wire for Schema {
    fn put(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Self::decode(r)
    }
}

impl Wire for ValueKind {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(self.code());
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Self::from_code(r.u8("a value kind")?).ok_or_else(|| r.error("a value kind (0 to 7)"))
    }
}

impl Wire for Table {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let code = r.u8("a table")?;
        Self::ALL
            .into_iter()
            .find(|t| *t as u8 == code)
            .ok_or_else(|| r.error("a table (0 to 4)"))
    }
}
