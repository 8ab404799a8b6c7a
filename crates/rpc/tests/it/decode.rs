//! The client's side of gRPC reads, as a program in another language would write it.

use esker_model::record::UserAttribute;
use esker_model::traversal::{
    Budget, PathNode, PathStep, Paths, ServerStep, StepProfile, Stop, Strategy, TravelResult,
    WorkingSet,
};
use esker_model::{
    Difference, Edge, EdgeEvent, EdgeKey, EdgeSelect, EdgeTypeId, Traversal, Version, Versions,
    Vertex, VertexChange, VertexEvent, VertexId, VertexTypeId,
};
use esker_rpc::convert::{
    At as _, Decoded, Malformed, edge_key_in, halves, ids_in, ids_out, list, number_in,
    properties_in, reason_in, required, value_in, vertex_id,
};
use esker_rpc::proto;

fn attribute_in(attribute: proto::UserAttribute) -> Decoded<UserAttribute> {
    let value = match attribute.value {
        Some(_) if !attribute.packed.is_empty() => {
            return Err(Malformed::new("value", "one of `packed` and `value`"));
        }
        Some(value) => value_in(value).at("value")?,
        None => esker_model::wire::decode(&attribute.packed)
            .map_err(|_| Malformed::new("packed", "a value"))?,
    };
    Ok(UserAttribute {
        name: attribute.name,
        version: Version(attribute.version),
        value,
    })
}

/// Decodes a vertex with its attributes.
pub(crate) fn vertex_in(vertex: proto::Vertex) -> Decoded<Vertex> {
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

/// Decodes an edge with its properties.
pub(crate) fn edge_in(edge: proto::Edge) -> Decoded<Edge> {
    Ok(Edge {
        key: edge_key_in(required(edge.key, "key")?).at("key")?,
        version: Version(edge.version),
        deleted: edge.deleted,
        properties: properties_in(edge.properties).at("properties")?,
    })
}

/// Encodes a frontier and the selection of edges.
pub(crate) fn select_out(frontier: &[VertexId], select: &EdgeSelect) -> proto::ScanEdgesRequest {
    use proto::scan_edges_request::Versions as Message;
    proto::ScanEdgesRequest {
        frontier: ids_out(frontier),
        names: Vec::new(),
        types: select.types.iter().map(|t| t.0.into()).collect(),
        type_names: Vec::new(),
        versions: match select.versions {
            Versions::AsOf(Version::MAX) => None,
            Versions::AsOf(version) => Some(Message::AsOf(version.0)),
            Versions::Range(range) => Some(Message::Range(proto::VersionRange {
                from: range.from.0,
                until: range.until.0,
            })),
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

/// Decodes an edge of a scan with the frontier of the request.
pub(crate) fn scanned_in(
    edge: proto::ScannedEdge,
    frontier: &[VertexId],
) -> Decoded<(usize, Edge)> {
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

/// Decodes an event of a vertex.
pub(crate) fn vertex_event_in(event: proto::VertexEvent) -> Decoded<VertexEvent> {
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

/// Decodes one version of an edge's history.
pub(crate) fn edge_event_in(event: proto::edge_history_reply::Event) -> Decoded<EdgeEvent> {
    Ok(EdgeEvent {
        edge: edge_in(required(event.edge, "edge")?).at("edge")?,
        archived: event.archived,
    })
}

/// Decodes a difference between two versions.
pub(crate) fn difference_in(difference: proto::Difference) -> Decoded<Difference> {
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

/// Encodes a traversal with its budget.
pub(crate) fn budget_out(traversal: &Traversal, budget: &Budget) -> proto::TravelRequest {
    proto::TravelRequest {
        chain: traversal.to_string(),
        steps: budget.steps,
        edges: budget.edges,
        bytes: budget.bytes,
        millis: budget.millis,
        strategy: strategy_out(budget.strategy).into(),
    }
}

fn strategy_out(strategy: Strategy) -> proto::Strategy {
    match strategy {
        Strategy::Sync => proto::Strategy::Sync,
        Strategy::Prefetch => proto::Strategy::Prefetch,
        Strategy::Async => proto::Strategy::Async,
    }
}

fn profile_in(profile: proto::StepProfile) -> StepProfile {
    StepProfile {
        step: profile.step,
        text: profile.text,
        frontier: profile.frontier,
        edges: profile.edges,
        selected: profile.selected,
        reached: profile.reached,
        cached: profile.cached,
        micros: profile.micros,
    }
}

fn server_step_in(step: proto::ServerStep) -> ServerStep {
    ServerStep {
        server: step.server,
        step: step.step,
        frontier: step.frontier,
        edges: step.edges,
        vertices_micros: step.vertices_micros,
        edges_micros: step.edges_micros,
        prefetch_micros: step.prefetch_micros,
        wait_micros: step.wait_micros,
    }
}

fn node_in(node: proto::PathNode) -> Decoded<PathNode> {
    let parents = list(node.parents, "parents", |step| {
        Ok(PathStep {
            parent: step.parent,
            edge: edge_key_in(required(step.edge, "edge")?)?,
            version: Version(step.version),
        })
    })?;
    Ok(PathNode {
        level: node.level,
        vertex: vertex_id(node.high, node.low),
        end: node.end,
        parents,
    })
}

/// Assembles a result from its pieces.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    sets: Vec<WorkingSet>,
    paths: Option<Paths>,
    end: Option<proto::TravelEnd>,
}

impl Assembly {
    /// Adds the next piece.
    pub(crate) fn take(&mut self, reply: proto::TravelReply) -> Decoded<()> {
        if self.end.is_some() {
            return Err(Malformed::new("end", "nothing after it"));
        }
        for piece in reply.sets {
            let vertices = ids_in(&piece.vertices, "sets.vertices")?;
            match self.sets.last_mut() {
                Some(set) if piece.more_of_last => set.vertices.extend(vertices),
                None if piece.more_of_last => {
                    return Err(Malformed::new(
                        "sets.more_of_last",
                        "a working set before its rest",
                    ));
                }
                _ => self.sets.push(WorkingSet {
                    hop: piece.hop,
                    vertices,
                }),
            }
        }
        if let Some(piece) = reply.paths {
            let nodes = &mut self.paths.get_or_insert_default().nodes;
            nodes.extend(list(piece.nodes, "paths.nodes", node_in)?);
        }
        self.end = reply.end;
        Ok(())
    }

    /// Returns the result assembled from all pieces.
    pub(crate) fn finish(self) -> Decoded<TravelResult> {
        let end = required(self.end, "end")?;
        // Readers of the paths index the nodes by these numbers.
        if let Some(paths) = &self.paths {
            let nodes = paths.nodes.len();
            let parents = paths.nodes.iter().flat_map(|n| &n.parents);
            if parents.into_iter().any(|p| p.parent as usize >= nodes) {
                return Err(Malformed::new(
                    "paths.nodes.parents.parent",
                    "the place of a node",
                ));
            }
        }
        Ok(TravelResult {
            sets: self.sets,
            paths: self.paths,
            complete: end.complete,
            stopped: list(end.stopped, "end.stopped", |stop| {
                Ok(Stop {
                    reason: reason_in(stop.reason)?,
                    step: stop.step,
                    vertices_left: stop.vertices_left,
                })
            })?,
            profile: end.profile.into_iter().map(profile_in).collect(),
            servers: end.servers.into_iter().map(server_step_in).collect(),
            as_of: Version(end.as_of),
        })
    }
}
