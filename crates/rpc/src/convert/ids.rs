//! Conversion of ids, keys and versions.

use super::{Decoded, Malformed};
use crate::proto;
use esker_model::{
    EdgeKey, EdgeTypeId, Schema, Version, VersionRange, VertexId, VertexName, VertexRef,
    VertexTypeId,
};

/// A vertex id from its two halves.
pub fn vertex_id(high: u64, low: u64) -> VertexId {
    let mut id = [0; 16];
    let (first, last) = id.split_at_mut(8);
    first.copy_from_slice(&high.to_be_bytes());
    last.copy_from_slice(&low.to_be_bytes());
    VertexId(id)
}

/// The two halves of a vertex id.
pub fn halves(id: VertexId) -> (u64, u64) {
    let id = u128::from_be_bytes(id.0);
    ((id >> 64) as u64, id as u64)
}

/// Encodes a list of ids, two numbers each.
pub fn ids_out(ids: &[VertexId]) -> Vec<u64> {
    let mut out = Vec::with_capacity(2 * ids.len());
    for id in ids {
        let (high, low) = halves(*id);
        out.extend([high, low]);
    }
    out
}

/// Decodes a list of ids, two numbers each.
pub fn ids_in(numbers: &[u64], field: &str) -> Decoded<Vec<VertexId>> {
    let (pairs, rest) = numbers.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(Malformed::new(
            field,
            "two numbers for each vertex, its high and its low half; got an odd number of them",
        ));
    }
    Ok(pairs.iter().map(|[h, l]| vertex_id(*h, *l)).collect())
}

fn named(name: &str, schema: &Schema) -> Decoded<VertexRef> {
    VertexName::parse(name)
        .map_err(Malformed::model)?
        .resolve(schema)
        .map_err(Malformed::model)
}

/// Decodes the number of a type.
pub fn number_in(number: u32, field: &str) -> Decoded<u16> {
    u16::try_from(number).map_err(|_| {
        Malformed::new(
            field,
            format!("the number of a type, at most 65535; got {number}"),
        )
    })
}

/// Decodes an edge type, by name if one is given.
pub fn edge_type_in(number: u32, name: &str, schema: &Schema) -> Decoded<EdgeTypeId> {
    if name.is_empty() {
        number_in(number, "type").map(EdgeTypeId)
    } else {
        schema.edge_type_id(name).map_err(Malformed::model)
    }
}

/// Decodes a vertex type, by name if one is given.
pub fn type_in(number: u32, name: &str, schema: &Schema) -> Decoded<VertexTypeId> {
    if name.is_empty() {
        number_in(number, "type").map(VertexTypeId)
    } else {
        schema.vertex_type_id(name).map_err(Malformed::model)
    }
}

/// Encodes a vertex with its type.
pub fn vertex_ref_out(vertex: VertexRef) -> proto::VertexRef {
    let (high, low) = halves(vertex.id);
    proto::VertexRef {
        high,
        low,
        r#type: vertex.type_id.0.into(),
        name: String::new(),
    }
}

/// Decodes a vertex with its type, given by id or by name.
pub fn vertex_ref_in(vertex: &proto::VertexRef, schema: &Schema) -> Decoded<VertexRef> {
    if !vertex.name.is_empty() {
        if (vertex.high, vertex.low, vertex.r#type) != (0, 0, 0) {
            return Err(Malformed::new("name", "a name or an id, not both"));
        }
        return named(&vertex.name, schema);
    }
    Ok(VertexRef {
        id: vertex_id(vertex.high, vertex.low),
        type_id: VertexTypeId(number_in(vertex.r#type, "type")?),
    })
}

/// Encodes the key of an edge.
pub fn edge_key_out(key: EdgeKey) -> proto::EdgeKey {
    let (source_high, source_low) = halves(key.source);
    let (destination_high, destination_low) = halves(key.destination);
    proto::EdgeKey {
        source_high,
        source_low,
        r#type: key.edge_type.0.into(),
        destination_high,
        destination_low,
    }
}

/// Decodes the key of an edge.
pub fn edge_key_in(key: proto::EdgeKey) -> Decoded<EdgeKey> {
    Ok(EdgeKey {
        source: vertex_id(key.source_high, key.source_low),
        edge_type: EdgeTypeId(number_in(key.r#type, "type")?),
        destination: vertex_id(key.destination_high, key.destination_low),
    })
}

/// Decodes a range of versions; an absent range means all versions.
pub fn range_in(range: Option<proto::VersionRange>) -> VersionRange {
    range.map_or(VersionRange::ALL, |r| VersionRange {
        from: Version(r.from),
        until: Version(r.until),
    })
}

/// Decodes an `as of` version; absent for the current state.
pub fn as_of_in(as_of: Option<u64>) -> Version {
    as_of.map_or(Version::MAX, Version)
}
