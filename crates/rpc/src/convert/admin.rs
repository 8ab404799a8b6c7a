//! Conversion of counts and degrees.

use super::ids::{halves, vertex_id};
use super::{Decoded, list, number_in};
use crate::proto;
use esker_model::{Counts, Degree, EdgeTypeId, VertexId, VertexTypeId};

/// Encodes counts by type.
pub fn counts_out(counts: &Counts) -> proto::CountsReply {
    let count = |number: u16, count: u64| proto::Count {
        r#type: number.into(),
        count,
    };
    proto::CountsReply {
        vertices: counts
            .vertices
            .iter()
            .map(|(t, n)| count(t.0, *n))
            .collect(),
        edges: counts.edges.iter().map(|(t, n)| count(t.0, *n)).collect(),
    }
}

/// Decodes counts by type.
pub fn counts_in(reply: proto::CountsReply) -> Decoded<Counts> {
    let count = |c: proto::Count| Ok((number_in(c.r#type, "type")?, c.count));
    let vertices = list(reply.vertices, "vertices", count)?;
    let edges = list(reply.edges, "edges", count)?;
    Ok(Counts {
        vertices: vertices
            .into_iter()
            .map(|(t, n)| (VertexTypeId(t), n))
            .collect(),
        edges: edges.into_iter().map(|(t, n)| (EdgeTypeId(t), n)).collect(),
    })
}

/// Decodes a vertex and an edge type whose degree is requested.
pub fn degree_of_in(of: proto::degrees_request::Of) -> Decoded<(VertexId, EdgeTypeId)> {
    let edge_type = EdgeTypeId(number_in(of.r#type, "type")?);
    Ok((vertex_id(of.high, of.low), edge_type))
}

/// Encodes a vertex of high degree.
pub fn degree_out(degree: &Degree) -> proto::top_degrees_reply::Top {
    let (high, low) = halves(degree.vertex);
    proto::top_degrees_reply::Top {
        high,
        low,
        r#type: degree.edge_type.0.into(),
        degree: degree.degree,
    }
}
