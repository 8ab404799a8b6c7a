//! Conversion of vertices, edges, histories and scans.

use super::ids::{halves, number_in, range_in, vertex_id};
use super::value::{packed_out, properties_out, value_out};
use super::{At as _, Decoded, Form, Malformed, edge_key_in, edge_key_out, required};
use crate::proto;
use esker_model::key::RowKey;
use esker_model::{
    DiffSelect, Difference, Edge, EdgeEvent, EdgeSelect, EdgeTypeId, Schema, Value, Version,
    Versions, Vertex, VertexChange, VertexEvent, VertexId,
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

/// Encodes an edge with its properties.
pub fn edge_out(edge: &Edge, form: Form) -> proto::Edge {
    proto::Edge {
        key: Some(edge_key_out(edge.key)),
        version: edge.version.0,
        deleted: edge.deleted,
        properties: properties_out(&edge.properties, form),
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

/// Encodes one version of an edge's history.
pub fn edge_event_out(event: &EdgeEvent, form: Form) -> proto::edge_history_reply::Event {
    proto::edge_history_reply::Event {
        edge: Some(edge_out(&event.edge, form)),
        archived: event.archived,
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
