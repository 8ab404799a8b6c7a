//! Conversion of the schema and of additions to it.

use super::{Decoded, Malformed, list, number_in, required};
use crate::proto;
use esker_model::codec::{Reader, put_bytes, put_u16, put_varint};
use esker_model::{AttributeDefinition, Schema, SchemaChange, ValueKind};

fn kind_out(kind: ValueKind) -> i32 {
    let message = match kind {
        ValueKind::Bool => proto::ValueKind::Bool,
        ValueKind::I64 => proto::ValueKind::I64,
        ValueKind::F64 => proto::ValueKind::F64,
        ValueKind::String => proto::ValueKind::String,
        ValueKind::Bytes => proto::ValueKind::Bytes,
        ValueKind::Timestamp => proto::ValueKind::Timestamp,
        ValueKind::List => proto::ValueKind::List,
        ValueKind::Any => proto::ValueKind::Any,
    };
    message.into()
}

fn kind_in(number: i32) -> Decoded<ValueKind> {
    Ok(match proto::ValueKind::try_from(number) {
        Ok(proto::ValueKind::Bool) => ValueKind::Bool,
        Ok(proto::ValueKind::I64) => ValueKind::I64,
        Ok(proto::ValueKind::F64) => ValueKind::F64,
        Ok(proto::ValueKind::String) => ValueKind::String,
        Ok(proto::ValueKind::Bytes) => ValueKind::Bytes,
        Ok(proto::ValueKind::Timestamp) => ValueKind::Timestamp,
        Ok(proto::ValueKind::List) => ValueKind::List,
        Ok(proto::ValueKind::Any) => ValueKind::Any,
        Ok(proto::ValueKind::Unspecified) | Err(_) => {
            return Err(Malformed::new("kind", "a kind of value (1 to 8)"));
        }
    })
}

fn attribute_out(attribute: &AttributeDefinition) -> proto::AttributeDefinition {
    proto::AttributeDefinition {
        name: attribute.name.clone(),
        kind: kind_out(attribute.kind),
    }
}

fn attribute_in(attribute: proto::AttributeDefinition) -> Decoded<AttributeDefinition> {
    Ok(AttributeDefinition {
        kind: kind_in(attribute.kind)?,
        name: attribute.name,
    })
}

/// Encodes a schema with all its types.
pub fn schema_out(schema: &Schema) -> proto::SchemaReply {
    proto::SchemaReply {
        vertex_types: schema
            .vertex_types()
            .map(|(_, t)| proto::VertexType {
                name: t.name.clone(),
                parent: t.parent.map(|p| p.0.into()),
                attributes: t.attributes.iter().map(attribute_out).collect(),
                builtin: t.builtin,
            })
            .collect(),
        edge_types: schema
            .edge_types()
            .map(|(_, t)| proto::EdgeType {
                name: t.name.clone(),
                inverse: t.inverse.0.into(),
                source: t.source.0.into(),
                destination: t.destination.0.into(),
                forward: t.forward,
            })
            .collect(),
    }
}

/// Decodes a schema through its stored form, whose decoder checks its validity.
pub fn schema_in(reply: proto::SchemaReply) -> Decoded<Schema> {
    let mut out = Vec::new();
    put_varint(&mut out, reply.vertex_types.len() as u64);
    for t in reply.vertex_types {
        put_bytes(&mut out, t.name.as_bytes());
        put_u16(
            &mut out,
            t.parent
                .map_or(Ok(u16::MAX), |p| number_in(p, "vertex_types.parent"))?,
        );
        out.push(u8::from(t.builtin));
        put_varint(&mut out, t.attributes.len() as u64);
        for a in t.attributes {
            put_bytes(&mut out, a.name.as_bytes());
            out.push(kind_in(a.kind)?.code());
        }
    }
    put_varint(&mut out, reply.edge_types.len() as u64);
    for t in reply.edge_types {
        put_bytes(&mut out, t.name.as_bytes());
        put_u16(&mut out, number_in(t.inverse, "edge_types.inverse")?);
        put_u16(&mut out, number_in(t.source, "edge_types.source")?);
        put_u16(
            &mut out,
            number_in(t.destination, "edge_types.destination")?,
        );
        out.push(u8::from(t.forward));
    }
    let mut r = Reader::new(&out);
    let schema = Schema::decode(&mut r);
    schema
        .and_then(|s| r.finish().map(|()| s))
        .map_err(|e| Malformed::new("schema", e.expected))
}

/// Encodes an addition to the schema.
pub fn change_out(change: &SchemaChange) -> proto::SchemaChange {
    use proto::schema_change::{AddAttribute, AddEdgeType, AddVertexType, Change};
    let change = match change {
        SchemaChange::VertexType {
            name,
            parent,
            attributes,
        } => Change::VertexType(AddVertexType {
            name: name.clone(),
            parent: parent.clone(),
            attributes: attributes.iter().map(attribute_out).collect(),
        }),
        SchemaChange::EdgeType {
            name,
            inverse,
            source,
            destination,
        } => Change::EdgeType(AddEdgeType {
            name: name.clone(),
            inverse: inverse.clone(),
            source: source.clone(),
            destination: destination.clone(),
        }),
        SchemaChange::Attribute {
            vertex_type,
            attribute,
        } => Change::Attribute(AddAttribute {
            vertex_type: vertex_type.clone(),
            attribute: Some(attribute_out(attribute)),
        }),
    };
    proto::SchemaChange {
        change: Some(change),
    }
}

/// Decodes an addition to the schema.
pub fn change_in(change: proto::SchemaChange) -> Decoded<SchemaChange> {
    use proto::schema_change::Change;
    Ok(match required(change.change, "change")? {
        Change::VertexType(t) => SchemaChange::VertexType {
            name: t.name,
            parent: t.parent,
            attributes: list(t.attributes, "attributes", attribute_in)?,
        },
        Change::EdgeType(t) => SchemaChange::EdgeType {
            name: t.name,
            inverse: t.inverse,
            source: t.source,
            destination: t.destination,
        },
        Change::Attribute(a) => SchemaChange::Attribute {
            vertex_type: a.vertex_type,
            attribute: attribute_in(required(a.attribute, "attribute")?)?,
        },
    })
}
