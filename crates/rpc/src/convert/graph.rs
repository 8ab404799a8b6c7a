//! Conversion of vertices, edges, histories and scans.

use super::ids::{halves, number_in, range_in, range_out, vertex_id};
use super::value::{packed_in, packed_out, properties_in, properties_out, value_in, value_out};
use super::{
    At as _, Decoded, Form, Malformed, edge_key_in, edge_key_out, list, required, vertex_ref_out,
};
use crate::proto;
use esker_model::key::RowKey;
use esker_model::record::UserAttribute;
use esker_model::{
    DiffSelect, Difference, Edge, EdgeEvent, EdgeKey, EdgeSelect, EdgeTypeId, Schema, Value,
    Version, Versions, Vertex, VertexChange, VertexEvent, VertexId, VertexRef, VertexTypeId,
};

fn attribute_out(name: &str, version: Version, value: &Value, form: Form) -> proto::UserAttribute {
    let (packed, typed) = match form {
        Form::Packed => (packed_out(value), None),
        Form::Typed => (bytes::Bytes::new(), Some(value_out(value))),
    };
    proto::UserAttribute {
        name: name.to_owned(),
        version: version.0,
        packed,
        value: typed,
    }
}

fn attribute_in(attribute: proto::UserAttribute) -> Decoded<UserAttribute> {
    let value = match attribute.value {
        Some(_) if !attribute.packed.is_empty() => {
            return Err(Malformed::new("value", "one of `packed` and `value`"));
        }
        Some(value) => value_in(value).at("value")?,
        None => packed_in(&attribute.packed)?,
    };
    Ok(UserAttribute {
        name: attribute.name,
        version: Version(attribute.version),
        value,
    })
}

/// Encodes a vertex with its attributes.
pub fn vertex_out(vertex: &Vertex, form: Form) -> proto::Vertex {
    let (high, low) = halves(vertex.id);
    proto::Vertex {
        high,
        low,
        r#type: vertex.type_id.0.into(),
        key: vertex.key.clone(),
        version: vertex.version.0,
        deleted: vertex.deleted,
        attributes: properties_out(&vertex.attributes, form),
        user: vertex
            .user
            .iter()
            .map(|a| attribute_out(&a.name, a.version, &a.value, form))
            .collect(),
    }
}

/// Decodes a vertex with its attributes.
pub fn vertex_in(vertex: proto::Vertex) -> Decoded<Vertex> {
    let user = list(vertex.user, "user", attribute_in)?;
    if !user.is_sorted_by(|a, b| a.name < b.name) {
        return Err(Malformed::new("user", "names in order, each once"));
    }
    Ok(Vertex {
        id: vertex_id(vertex.high, vertex.low),
        type_id: VertexTypeId(number_in(vertex.r#type, "type")?),
        key: vertex.key,
        version: Version(vertex.version),
        deleted: vertex.deleted,
        attributes: properties_in(vertex.attributes).at("attributes")?,
        user,
    })
}

/// Encodes an edge with its properties.
pub fn edge_out(edge: &Edge, form: Form) -> proto::Edge {
    proto::Edge {
        key: Some(edge_key_out(edge.key)),
        version: edge.version.0,
        deleted: edge.deleted,
        properties: properties_out(&edge.properties, form),
    }
}

/// Decodes an edge with its properties.
pub fn edge_in(edge: proto::Edge) -> Decoded<Edge> {
    Ok(Edge {
        key: edge_key_in(required(edge.key, "key")?).at("key")?,
        version: Version(edge.version),
        deleted: edge.deleted,
        properties: properties_in(edge.properties).at("properties")?,
    })
}

/// Encodes a frontier and the selection of edges.
pub fn select_out(frontier: &[VertexId], select: &EdgeSelect) -> proto::ScanEdgesRequest {
    use proto::scan_edges_request::Versions as Message;
    proto::ScanEdgesRequest {
        frontier: super::ids_out(frontier),
        names: Vec::new(),
        types: select.types.iter().map(|t| t.0.into()).collect(),
        type_names: Vec::new(),
        versions: match select.versions {
            Versions::AsOf(Version::MAX) => None,
            Versions::AsOf(version) => Some(Message::AsOf(version.0)),
            Versions::Range(range) => Some(Message::Range(range_out(range))),
        },
        keys_only: !select.properties,
        after: select.after.map(|(edge_type, destination)| {
            let (destination_high, destination_low) = halves(destination);
            proto::EdgeCursor {
                r#type: edge_type.0.into(),
                destination_high,
                destination_low,
            }
        }),
    }
}

/// Decodes a frontier and the selection of edges.
pub fn select_in(
    request: &proto::ScanEdgesRequest,
    schema: &Schema,
) -> Decoded<(Vec<VertexId>, EdgeSelect)> {
    use proto::scan_edges_request::Versions as Message;
    let frontier = super::ids_in(&request.frontier, "frontier")?;
    let mut types = Vec::with_capacity(request.types.len() + request.type_names.len());
    for number in &request.types {
        types.push(EdgeTypeId(number_in(*number, "types")?));
    }
    for name in &request.type_names {
        types.push(super::edge_type_in(0, name, schema)?);
    }
    let versions = match request.versions {
        None => Versions::NOW,
        Some(Message::AsOf(version)) => Versions::AsOf(Version(version)),
        Some(Message::Range(range)) => Versions::Range(range_in(Some(range))),
    };
    let after = match &request.after {
        None => None,
        Some(cursor) => Some((
            EdgeTypeId(number_in(cursor.r#type, "after.type")?),
            vertex_id(cursor.destination_high, cursor.destination_low),
        )),
    };
    let select = EdgeSelect {
        types,
        versions,
        properties: !request.keys_only,
        after,
    };
    Ok((frontier, select))
}

/// Encodes an edge of a scan; its source is given by the index in the frontier.
pub fn scanned_out(index: usize, edge: &Edge, form: Form) -> proto::ScannedEdge {
    let (destination_high, destination_low) = halves(edge.key.destination);
    proto::ScannedEdge {
        index: u32::try_from(index).unwrap_or(u32::MAX),
        r#type: edge.key.edge_type.0.into(),
        destination_high,
        destination_low,
        version: edge.version.0,
        deleted: edge.deleted,
        properties: properties_out(&edge.properties, form),
    }
}

/// Decodes an edge of a scan with the frontier of the request.
pub fn scanned_in(edge: proto::ScannedEdge, frontier: &[VertexId]) -> Decoded<(usize, Edge)> {
    let index = edge.index as usize;
    let source = frontier
        .get(index)
        .ok_or_else(|| Malformed::new("index", "a place in the frontier"))?;
    let edge = Edge {
        key: EdgeKey {
            source: *source,
            edge_type: EdgeTypeId(number_in(edge.r#type, "type")?),
            destination: vertex_id(edge.destination_high, edge.destination_low),
        },
        version: Version(edge.version),
        deleted: edge.deleted,
        properties: properties_in(edge.properties).at("properties")?,
    };
    Ok((index, edge))
}

/// Encodes an event of a vertex.
pub fn vertex_event_out(event: &VertexEvent, form: Form) -> proto::VertexEvent {
    use proto::vertex_event::Change;
    let change = match &event.change {
        VertexChange::Put(attributes) => {
            Change::Put(properties_out(attributes, form).unwrap_or_default())
        }
        VertexChange::Deleted => Change::Deleted(proto::Nothing {}),
        VertexChange::Set(name, value) => {
            Change::Set(attribute_out(name, event.version, value, form))
        }
        VertexChange::Removed(name) => Change::Removed(name.clone()),
    };
    proto::VertexEvent {
        version: event.version.0,
        archived: event.archived,
        change: Some(change),
    }
}

/// Decodes an event of a vertex.
pub fn vertex_event_in(event: proto::VertexEvent) -> Decoded<VertexEvent> {
    use proto::vertex_event::Change;
    let change = match required(event.change, "change")? {
        Change::Put(attributes) => VertexChange::Put(properties_in(Some(attributes)).at("put")?),
        Change::Deleted(_) => VertexChange::Deleted,
        Change::Set(attribute) => {
            let attribute = attribute_in(attribute).at("set")?;
            VertexChange::Set(attribute.name, attribute.value)
        }
        Change::Removed(name) => VertexChange::Removed(name),
    };
    Ok(VertexEvent {
        version: Version(event.version),
        change,
        archived: event.archived,
    })
}

/// Encodes one version of an edge's history.
pub fn edge_event_out(event: &EdgeEvent, form: Form) -> proto::edge_history_reply::Event {
    proto::edge_history_reply::Event {
        edge: Some(edge_out(&event.edge, form)),
        archived: event.archived,
    }
}

/// Decodes one version of an edge's history.
pub fn edge_event_in(event: proto::edge_history_reply::Event) -> Decoded<EdgeEvent> {
    Ok(EdgeEvent {
        edge: edge_in(required(event.edge, "edge")?).at("edge")?,
        archived: event.archived,
    })
}

/// Encodes the selection of up to `limit` differences; 0 for no limit.
pub fn diff_select_out(select: &DiffSelect, limit: u64) -> proto::DiffRequest {
    use proto::diff_cursor::What;
    let what = select.start_after.map(|key| match key {
        RowKey::Vertex(id) => What::Vertex(vertex_ref_out(VertexRef {
            id,
            type_id: VertexTypeId(0),
        })),
        RowKey::Edge(edge) => What::Edge(edge_key_out(edge)),
    });
    proto::DiffRequest {
        before: select.before.0,
        after: select.after.0,
        start_after: what.map(|what| proto::DiffCursor { what: Some(what) }),
        limit,
    }
}

/// Decodes the selection of differences.
pub fn diff_select_in(request: &proto::DiffRequest) -> Decoded<DiffSelect> {
    use proto::diff_cursor::What;
    let start_after = match &request.start_after {
        None => None,
        Some(cursor) => Some(match required(cursor.what.as_ref(), "start_after.what")? {
            What::Vertex(vertex) if vertex.name.is_empty() => {
                RowKey::Vertex(vertex_id(vertex.high, vertex.low))
            }
            What::Vertex(_) => {
                return Err(Malformed::new("start_after.vertex", "the id of a vertex"));
            }
            What::Edge(edge) => RowKey::Edge(edge_key_in(*edge).at("start_after.edge")?),
        }),
    };
    Ok(DiffSelect {
        before: Version(request.before),
        after: Version(request.after),
        start_after,
    })
}

/// Encodes a difference between two versions.
pub fn difference_out(difference: &Difference, form: Form) -> proto::Difference {
    use proto::difference::{Edges, Vertices, What};
    let what = match difference {
        Difference::Vertex(before, after) => What::Vertex(Vertices {
            before: before.as_ref().map(|v| vertex_out(v, form)),
            after: after.as_ref().map(|v| vertex_out(v, form)),
        }),
        Difference::Edge(before, after) => What::Edge(Edges {
            before: before.as_ref().map(|e| edge_out(e, form)),
            after: after.as_ref().map(|e| edge_out(e, form)),
        }),
    };
    proto::Difference { what: Some(what) }
}

/// Decodes a difference between two versions.
pub fn difference_in(difference: proto::Difference) -> Decoded<Difference> {
    use proto::difference::What;
    Ok(match required(difference.what, "what")? {
        What::Vertex(v) => Difference::Vertex(
            v.before.map(vertex_in).transpose().at("vertex.before")?,
            v.after.map(vertex_in).transpose().at("vertex.after")?,
        ),
        What::Edge(e) => Difference::Edge(
            e.before.map(edge_in).transpose().at("edge.before")?,
            e.after.map(edge_in).transpose().at("edge.after")?,
        ),
    })
}
