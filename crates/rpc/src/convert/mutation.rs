//! Conversion of batches of mutations and of commits.

use super::object::{identity_in, identity_out, object_id_in};
use super::value::{properties_in, properties_out};
use super::{At as _, Decoded, Form, Malformed, edge_type_in, vertex_ref_in, vertex_ref_out};
use crate::proto;
use crate::proto::mutation::Op as Message;
use esker_model::{Batch, Commit, Mutation, NamedEnds, Op, Schema, Version, VertexName, VertexRef};

/// Encodes a batch of mutations.
pub fn batch_out(batch: &Batch, sync: bool) -> proto::ApplyRequest {
    proto::ApplyRequest {
        mutations: batch.mutations.iter().map(mutation_out).collect(),
        idempotency_key: batch.idempotency_key.clone().unwrap_or_default(),
        sync,
        keep_until_checkpoint: false,
        acknowledged_at: None,
    }
}

/// Encodes a single mutation.
pub fn mutation_out(mutation: &Mutation) -> proto::Mutation {
    let vertex = |v: &VertexRef| Some(vertex_ref_out(*v));
    let op = match &mutation.op {
        Op::PutVertex {
            vertex: v,
            key,
            attributes,
        } => Message::PutVertex(proto::PutVertex {
            vertex: vertex(v),
            key: key.clone(),
            attributes: properties_out(attributes, Form::Packed),
        }),
        Op::EnsureVertex { vertex: v, key } => Message::EnsureVertex(proto::EnsureVertex {
            vertex: vertex(v),
            key: key.clone(),
        }),
        Op::ChangeVertex {
            vertex: v,
            set,
            remove,
        } => Message::ChangeVertex(proto::ChangeVertex {
            vertex: vertex(v),
            set: properties_out(set, Form::Packed),
            remove: remove.clone(),
        }),
        Op::SetAttributes {
            vertex: v,
            set,
            remove,
        } => Message::SetAttributes(proto::SetAttributes {
            vertex: vertex(v),
            set: properties_out(set, Form::Packed),
            remove: remove.clone(),
        }),
        Op::DeleteVertex { vertex: v } => {
            Message::DeleteVertex(proto::DeleteVertex { vertex: vertex(v) })
        }
        Op::PutEdge {
            source,
            edge_type,
            destination,
            properties,
        } => Message::PutEdge(proto::PutEdge {
            source: vertex(source),
            r#type: edge_type.0.into(),
            type_name: String::new(),
            destination: vertex(destination),
            properties: properties_out(properties, Form::Packed),
        }),
        Op::DeleteEdge {
            source,
            edge_type,
            destination,
        } => Message::DeleteEdge(proto::DeleteEdge {
            source: vertex(source),
            r#type: edge_type.0.into(),
            type_name: String::new(),
            destination: vertex(destination),
        }),
        Op::CreateObject {
            identity,
            attributes,
            tags,
        } => Message::CreateObject(proto::CreateObject {
            identity: Some(identity_out(identity)),
            attributes: properties_out(attributes, Form::Packed),
            tags: properties_out(tags, Form::Packed),
        }),
        Op::MoveObject { object, from, to } => Message::MoveObject(proto::MoveObject {
            object: object.0,
            from: Some(identity_out(from)),
            to: Some(identity_out(to)),
        }),
    };
    proto::Mutation {
        version: mutation.version.map(|v| v.0),
        op: Some(op),
    }
}

/// Decodes a batch, and whether it must survive a power failure before it is acknowledged.
pub fn batch_in(request: proto::ApplyRequest, schema: &Schema) -> Decoded<(Batch, bool)> {
    let mut ends = NamedEnds::default();
    let mutations = super::list(request.mutations, "mutations", |m| {
        let named = named_ends(&m);
        let mutation = mutation_in(m, schema)?;
        if let Op::PutEdge {
            source,
            destination,
            ..
        } = &mutation.op
        {
            for (name, vertex) in named.into_iter().zip([source, destination]) {
                if let Some(name) = name {
                    let key = VertexName::parse(&name).map_err(Malformed::model)?.key;
                    ends.add(mutation.version, *vertex, key);
                }
            }
        }
        Ok(mutation)
    })?;
    let mut batch = Batch {
        mutations,
        idempotency_key: (!request.idempotency_key.is_empty()).then_some(request.idempotency_key),
    };
    ends.append_to(&mut batch);
    Ok((batch, request.sync))
}

/// The names by which a new edge names its ends; `None` for ends that are named by id.
fn named_ends(mutation: &proto::Mutation) -> [Option<String>; 2] {
    let Some(Message::PutEdge(edge)) = &mutation.op else {
        return [None, None];
    };
    [&edge.source, &edge.destination].map(|end| {
        let name = end.as_ref().map(|vertex| vertex.name.clone());
        name.filter(|name| !name.is_empty())
    })
}

fn vertex_in(
    vertex: Option<&proto::VertexRef>,
    field: &str,
    schema: &Schema,
) -> Decoded<VertexRef> {
    match vertex {
        Some(vertex) => vertex_ref_in(vertex, schema).at(field),
        None => Err(Malformed::new(field, "a vertex, but it is absent")),
    }
}

/// The key of a vertex: the given key, or the one in the vertex's name.
fn key_in(key: String, vertex: Option<&proto::VertexRef>) -> Decoded<String> {
    match vertex {
        Some(vertex) if key.is_empty() && !vertex.name.is_empty() => {
            VertexName::parse(&vertex.name)
                .map(|n| n.key)
                .map_err(Malformed::model)
        }
        _ => Ok(key),
    }
}

/// Decodes a single mutation.
pub fn mutation_in(mutation: proto::Mutation, schema: &Schema) -> Decoded<Mutation> {
    let op = match mutation.op {
        None => {
            return Err(Malformed::new(
                "op",
                "one of its fields to be set (is the server older than the client?)",
            ));
        }
        Some(Message::PutVertex(m)) => put_vertex(m, schema).at("put_vertex")?,
        Some(Message::EnsureVertex(m)) => ensure_vertex(m, schema).at("ensure_vertex")?,
        Some(Message::ChangeVertex(m)) => change_vertex(m, schema).at("change_vertex")?,
        Some(Message::SetAttributes(m)) => set_attributes(m, schema).at("set_attributes")?,
        Some(Message::DeleteVertex(m)) => Op::DeleteVertex {
            vertex: vertex_in(m.vertex.as_ref(), "vertex", schema).at("delete_vertex")?,
        },
        Some(Message::PutEdge(m)) => put_edge(m, schema).at("put_edge")?,
        Some(Message::DeleteEdge(m)) => delete_edge(&m, schema).at("delete_edge")?,
        Some(Message::CreateObject(m)) => create_object(m).at("create_object")?,
        Some(Message::MoveObject(m)) => move_object(m).at("move_object")?,
    };
    Ok(Mutation {
        version: mutation.version.map(Version),
        op,
    })
}

fn put_vertex(m: proto::PutVertex, schema: &Schema) -> Decoded<Op> {
    Ok(Op::PutVertex {
        vertex: vertex_in(m.vertex.as_ref(), "vertex", schema)?,
        key: key_in(m.key, m.vertex.as_ref())?,
        attributes: properties_in(m.attributes).at("attributes")?,
    })
}

fn ensure_vertex(m: proto::EnsureVertex, schema: &Schema) -> Decoded<Op> {
    Ok(Op::EnsureVertex {
        vertex: vertex_in(m.vertex.as_ref(), "vertex", schema)?,
        key: key_in(m.key, m.vertex.as_ref())?,
    })
}

fn change_vertex(m: proto::ChangeVertex, schema: &Schema) -> Decoded<Op> {
    Ok(Op::ChangeVertex {
        vertex: vertex_in(m.vertex.as_ref(), "vertex", schema)?,
        set: properties_in(m.set).at("set")?,
        remove: m.remove,
    })
}

fn set_attributes(m: proto::SetAttributes, schema: &Schema) -> Decoded<Op> {
    Ok(Op::SetAttributes {
        vertex: vertex_in(m.vertex.as_ref(), "vertex", schema)?,
        set: properties_in(m.set).at("set")?,
        remove: m.remove,
    })
}

fn put_edge(m: proto::PutEdge, schema: &Schema) -> Decoded<Op> {
    Ok(Op::PutEdge {
        source: vertex_in(m.source.as_ref(), "source", schema)?,
        edge_type: edge_type_in(m.r#type, &m.type_name, schema)?,
        destination: vertex_in(m.destination.as_ref(), "destination", schema)?,
        properties: properties_in(m.properties).at("properties")?,
    })
}

fn delete_edge(m: &proto::DeleteEdge, schema: &Schema) -> Decoded<Op> {
    Ok(Op::DeleteEdge {
        source: vertex_in(m.source.as_ref(), "source", schema)?,
        edge_type: edge_type_in(m.r#type, &m.type_name, schema)?,
        destination: vertex_in(m.destination.as_ref(), "destination", schema)?,
    })
}

fn create_object(m: proto::CreateObject) -> Decoded<Op> {
    Ok(Op::CreateObject {
        identity: identity_in(m.identity, "identity")?,
        attributes: properties_in(m.attributes).at("attributes")?,
        tags: properties_in(m.tags).at("tags")?,
    })
}

fn move_object(m: proto::MoveObject) -> Decoded<Op> {
    Ok(Op::MoveObject {
        object: object_id_in(m.object, "object")?,
        from: identity_in(m.from, "from")?,
        to: identity_in(m.to, "to")?,
    })
}

/// Encodes the result of a commit.
pub fn commit_out(commit: &Commit) -> proto::ApplyReply {
    proto::ApplyReply {
        version: commit.version.0,
        applied: commit.applied,
        vertices_created: commit.vertices_created,
        edges_created: commit.edges_created,
        unchanged: commit.unchanged,
        window_position: None,
    }
}

/// Decodes the result of a commit.
pub fn commit_in(reply: &proto::ApplyReply) -> Commit {
    Commit {
        version: Version(reply.version),
        applied: reply.applied,
        vertices_created: reply.vertices_created,
        edges_created: reply.edges_created,
        unchanged: reply.unchanged,
    }
}
