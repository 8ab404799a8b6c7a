//! Messages of reads from another server.

use super::{splits_in, splits_out, unexpected_message};
use esker_cluster::peer::{Read, Response};
use esker_model::{Edge, EdgeTypeId, Schema, Version, Vertex, VertexRef, VertexSelect};
use esker_rpc::convert::{self, At as _, Decoded, Form, list, required};
use esker_rpc::proto;
use esker_rpc::proto::peer_answer::Outcome;
use esker_rpc::proto::peer_question::Request as PeerMessage;

const FORM: Form = Form::Packed;

pub(super) fn read_out(read: Read) -> PeerMessage {
    match read {
        Read::Vertices { ids, as_of } => PeerMessage::ReadVertices(proto::ReadVerticesRequest {
            ids: convert::ids_out(&ids),
            names: Vec::new(),
            as_of: convert::as_of_out(as_of),
        }),
        Read::Edges { keys, as_of } => PeerMessage::ReadEdges(proto::ReadEdgesRequest {
            keys: keys.into_iter().map(convert::edge_key_out).collect(),
            as_of: convert::as_of_out(as_of),
        }),
        Read::Scan {
            frontier,
            select,
            limit,
            at,
        } => PeerMessage::Scan(proto::PeerScan {
            select: Some(convert::select_out(&frontier, &select)),
            limit,
            at: at.0,
        }),
        Read::Type { select, limit } => PeerMessage::ScanType(proto::PeerScanType {
            select: Some(proto::ScanVerticesRequest {
                r#type: select.type_id.0.into(),
                type_name: String::new(),
                after: select
                    .after
                    .map(|(type_id, id)| convert::vertex_ref_out(VertexRef { id, type_id })),
                as_of: convert::as_of_out(select.as_of),
                limit: 0,
                deleted: select.deleted,
            }),
            limit,
        }),
        Read::VertexHistory { id, range } => {
            PeerMessage::VertexHistory(proto::VertexHistoryRequest {
                vertex: Some(convert::vertex_ref_out(VertexRef {
                    id,
                    type_id: esker_model::VertexTypeId(0),
                })),
                range: Some(convert::range_out(range)),
            })
        }
        Read::EdgeHistory { key, range } => PeerMessage::EdgeHistory(proto::EdgeHistoryRequest {
            key: Some(convert::edge_key_out(key)),
            range: Some(convert::range_out(range)),
        }),
        Read::Degrees { of } => PeerMessage::Degrees(proto::DegreesRequest {
            of: of
                .into_iter()
                .map(|(v, t)| convert::degree_of_out(v, t))
                .collect(),
        }),
        Read::TopDegrees { edge_type, limit } => {
            PeerMessage::TopDegrees(proto::TopDegreesRequest {
                r#type: edge_type.map(|t| t.0.into()),
                limit,
            })
        }
        Read::Counts => PeerMessage::Counts(proto::CountsRequest {}),
        Read::Diff { select, limit } => {
            PeerMessage::Diff(convert::diff_select_out(&select, limit.into()))
        }
        Read::Applied { idempotency_key } => PeerMessage::Applied(proto::AppliedRequest {
            once: idempotency_key,
        }),
    }
}

pub(super) fn read_in(asked: PeerMessage) -> Decoded<Read> {
    // Servers send types as numbers, so that no names need a lookup.
    let schema = Schema::empty();
    Ok(match asked {
        PeerMessage::ReadVertices(m) => Read::Vertices {
            ids: convert::ids_in(&m.ids, "read_vertices.ids")?,
            as_of: convert::as_of_in(m.as_of),
        },
        PeerMessage::ReadEdges(m) => Read::Edges {
            keys: list(m.keys, "read_edges.keys", convert::edge_key_in)?,
            as_of: convert::as_of_in(m.as_of),
        },
        PeerMessage::Scan(m) => {
            let select = required(m.select, "scan.select")?;
            let (frontier, select) = convert::select_in(&select, &schema).at("scan.select")?;
            Read::Scan {
                frontier,
                select,
                limit: m.limit,
                at: Version(m.at),
            }
        }
        PeerMessage::ScanType(m) => Read::Type {
            select: select_in(&required(m.select, "scan_type.select")?).at("scan_type.select")?,
            limit: m.limit,
        },
        PeerMessage::VertexHistory(m) => {
            let vertex = m.vertex.unwrap_or_default();
            let vertex = convert::vertex_ref_in(&vertex, &schema).at("vertex_history.vertex")?;
            Read::VertexHistory {
                id: vertex.id,
                range: convert::range_in(m.range),
            }
        }
        PeerMessage::EdgeHistory(m) => Read::EdgeHistory {
            key: convert::edge_key_in(required(m.key, "edge_history.key")?)
                .at("edge_history.key")?,
            range: convert::range_in(m.range),
        },
        PeerMessage::Degrees(m) => Read::Degrees {
            of: list(m.of, "degrees.of", convert::degree_of_in)?,
        },
        PeerMessage::TopDegrees(m) => Read::TopDegrees {
            edge_type: m
                .r#type
                .map(|t| convert::number_in(t, "top_degrees.type").map(EdgeTypeId))
                .transpose()?,
            limit: m.limit,
        },
        PeerMessage::Counts(_) => Read::Counts,
        PeerMessage::Diff(m) => Read::Diff {
            select: convert::diff_select_in(&m).at("diff")?,
            limit: u32::try_from(m.limit).unwrap_or(u32::MAX),
        },
        PeerMessage::Applied(m) => Read::Applied {
            idempotency_key: m.once,
        },
        _ => return Err(unexpected_message("request")),
    })
}

fn select_in(m: &proto::ScanVerticesRequest) -> Decoded<VertexSelect> {
    let schema = Schema::empty();
    let after = m.after.as_ref().map(|v| convert::vertex_ref_in(v, &schema));
    let after = after.transpose().at("after")?;
    Ok(VertexSelect {
        type_id: convert::type_in(m.r#type, &m.type_name, &schema).at("type")?,
        after: after.map(|v| (v.type_id, v.id)),
        as_of: convert::as_of_in(m.as_of),
        deleted: m.deleted,
    })
}

pub(super) fn response_out(response: Response) -> Outcome {
    match response {
        Response::Vertices(vertices) => Outcome::Vertices(proto::ReadVerticesReply {
            items: vertices
                .iter()
                .map(|v| proto::read_vertices_reply::Item {
                    vertex: v.as_ref().map(vertex_out),
                })
                .collect(),
        }),
        Response::Edges(edges) => Outcome::Edges(proto::ReadEdgesReply {
            items: edges
                .iter()
                .map(|e| proto::read_edges_reply::Item {
                    edge: e.as_ref().map(edge_out),
                })
                .collect(),
        }),
        Response::Scanned {
            edges,
            splits,
            more,
        } => Outcome::Scanned(proto::PeerScanned {
            edges: edges
                .iter()
                .map(|(index, edge)| proto::peer_scanned::Item {
                    index: *index,
                    edge: Some(edge_out(edge)),
                })
                .collect(),
            splits: Some(splits_out(splits)),
            more,
        }),
        Response::Type { vertices, more } => Outcome::Typed(proto::PeerTyped {
            vertices: vertices.iter().map(vertex_out).collect(),
            more,
        }),
        Response::VertexHistory(events) => Outcome::VertexHistory(proto::VertexHistoryReply {
            events: events
                .iter()
                .map(|e| convert::vertex_event_out(e, FORM))
                .collect(),
        }),
        Response::EdgeHistory(events) => Outcome::EdgeHistory(proto::EdgeHistoryReply {
            events: events
                .iter()
                .map(|e| convert::edge_event_out(e, FORM))
                .collect(),
        }),
        Response::Degrees(degrees) => Outcome::Degrees(proto::DegreesReply { degrees }),
        Response::TopDegrees { whole, split } => Outcome::TopDegrees(proto::PeerTopDegrees {
            whole: whole.iter().map(convert::degree_out).collect(),
            split: split.iter().map(convert::degree_out).collect(),
        }),
        Response::Counts(counts) => Outcome::Counts(convert::counts_out(&counts)),
        Response::Diff { differences, more } => Outcome::Diff(proto::PeerDiff {
            differences: differences
                .iter()
                .map(|d| convert::difference_out(d, FORM))
                .collect(),
            more,
        }),
        Response::Applied(applied) => Outcome::Applied(proto::AppliedReply { applied }),
        // `super` handles the other responses.
        _ => Outcome::Failure(esker_rpc::failure::failure_out(
            &unexpected_message("response").into(),
        )),
    }
}

fn vertex_out(vertex: &Vertex) -> proto::Vertex {
    convert::vertex_out(vertex, FORM)
}

fn edge_out(edge: &Edge) -> proto::Edge {
    convert::edge_out(edge, FORM)
}

pub(super) fn response_in(outcome: Outcome) -> Decoded<Response> {
    Ok(match outcome {
        Outcome::Vertices(m) => Response::Vertices(list(m.items, "vertices.items", |item| {
            item.vertex.map(convert::vertex_in).transpose().at("vertex")
        })?),
        Outcome::Edges(m) => Response::Edges(list(m.items, "edges.items", |item| {
            item.edge.map(convert::edge_in).transpose().at("edge")
        })?),
        Outcome::Scanned(m) => Response::Scanned {
            edges: list(m.edges, "scanned.edges", |item| {
                let edge = convert::edge_in(required(item.edge, "edge")?).at("edge")?;
                Ok((item.index, edge))
            })?,
            splits: splits_in(m.splits.unwrap_or_default()).at("scanned.splits")?,
            more: m.more,
        },
        Outcome::Typed(m) => Response::Type {
            vertices: list(m.vertices, "typed.vertices", convert::vertex_in)?,
            more: m.more,
        },
        Outcome::VertexHistory(m) => Response::VertexHistory(list(
            m.events,
            "vertex_history.events",
            convert::vertex_event_in,
        )?),
        Outcome::EdgeHistory(m) => Response::EdgeHistory(list(
            m.events,
            "edge_history.events",
            convert::edge_event_in,
        )?),
        Outcome::Degrees(m) => Response::Degrees(m.degrees),
        Outcome::TopDegrees(m) => Response::TopDegrees {
            whole: list(m.whole, "top_degrees.whole", convert::degree_in)?,
            split: list(m.split, "top_degrees.split", convert::degree_in)?,
        },
        Outcome::Counts(m) => Response::Counts(convert::counts_in(m).at("counts")?),
        Outcome::Diff(m) => Response::Diff {
            differences: list(m.differences, "diff.differences", convert::difference_in)?,
            more: m.more,
        },
        Outcome::Applied(m) => Response::Applied(m.applied),
        _ => return Err(unexpected_message("outcome")),
    })
}
