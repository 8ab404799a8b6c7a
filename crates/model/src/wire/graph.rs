//! Encodings of the graph's types.

use super::Wire;
use crate::codec::{DecodeError, Reader};
use crate::key::{Counter, RowKey};
use crate::record::UserAttribute;
use crate::{
    AttributeDefinition, Batch, Commit, Counts, Degree, DiffSelect, Difference, Edge, EdgeEvent,
    EdgeKey, EdgeSelect, EdgeTypeId, Mutation, Op, Properties, Schema, SchemaChange, Value,
    ValueKind, Version, VersionRange, Versions, Vertex, VertexChange, VertexEvent, VertexId,
    VertexName, VertexRef, VertexSelect, VertexTypeId, wire_enum, wire_newtype, wire_struct,
};

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

/// Encoded as its key.
impl Wire for Counter {
    fn put(&self, out: &mut Vec<u8>) {
        self.encode().put(out);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Self::decode(r.bytes("a counter's key")?)
    }
}
