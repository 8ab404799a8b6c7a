//! Conversion of traversals: the chain in the request, the result as a sequence of pieces.

use super::ids::halves;
use super::{Decoded, Malformed, edge_key_out, ids_out};
use crate::proto;
use esker_model::Traversal;
use esker_model::traversal::{
    Budget, PathNode, ServerStep, StepProfile, Stop, StopReason, Strategy, TravelResult,
};
use std::time::{SystemTime, UNIX_EPOCH};

/// Maximum of vertices, or of nodes of paths, in one piece.
const PER_PIECE: usize = 2_048;

/// Decodes the chain of a request. Relative times refer to its arrival; Esker's own clients send none.
pub fn traversal_in(request: &proto::TravelRequest) -> Decoded<Traversal> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = i64::try_from(now.unwrap_or_default().as_nanos()).unwrap_or(i64::MAX);
    Traversal::parse_at(&request.chain, now).map_err(Malformed::model)
}

/// An unknown strategy is replaced by the default, because all have the same result.
fn strategy_in(strategy: i32) -> Strategy {
    match proto::Strategy::try_from(strategy) {
        Ok(proto::Strategy::Sync) => Strategy::Sync,
        Ok(proto::Strategy::Async) => Strategy::Async,
        Ok(proto::Strategy::Prefetch | proto::Strategy::Unspecified) | Err(_) => Strategy::Prefetch,
    }
}

/// Decodes the budget of a traversal.
pub fn budget_in(request: &proto::TravelRequest) -> Budget {
    Budget {
        steps: request.steps,
        edges: request.edges,
        bytes: request.bytes,
        millis: request.millis,
        strategy: strategy_in(request.strategy),
    }
}

/// Encodes the reason of a stop.
pub fn reason_out(reason: StopReason) -> proto::StopReason {
    match reason {
        StopReason::Limit => proto::StopReason::Limit,
        StopReason::Depth => proto::StopReason::Depth,
        StopReason::Edges => proto::StopReason::Edges,
        StopReason::Bytes => proto::StopReason::Bytes,
        StopReason::TimeOut => proto::StopReason::TimeOut,
        StopReason::Interrupted => proto::StopReason::Interrupted,
    }
}

/// Decodes the reason of a stop.
pub fn reason_in(reason: i32) -> Decoded<StopReason> {
    Ok(match proto::StopReason::try_from(reason) {
        Ok(proto::StopReason::Limit) => StopReason::Limit,
        Ok(proto::StopReason::Depth) => StopReason::Depth,
        Ok(proto::StopReason::Edges) => StopReason::Edges,
        Ok(proto::StopReason::Bytes) => StopReason::Bytes,
        Ok(proto::StopReason::TimeOut) => StopReason::TimeOut,
        Ok(proto::StopReason::Interrupted) => StopReason::Interrupted,
        Ok(proto::StopReason::Unspecified) | Err(_) => {
            return Err(Malformed::new("reason", "a reason to stop (1 to 6)"));
        }
    })
}

/// Splits a result into pieces and sends them.
pub fn pieces<E>(
    result: TravelResult,
    mut send: impl FnMut(proto::TravelReply) -> Result<(), E>,
) -> Result<(), E> {
    for set in result.sets {
        let mut more_of_last = false;
        let mut chunks = set.vertices.chunks(PER_PIECE);
        let mut next = Some(chunks.next().unwrap_or_default());
        while let Some(ids) = next {
            let piece = proto::WorkingSetPiece {
                hop: set.hop,
                more_of_last,
                vertices: ids_out(ids),
            };
            send(proto::TravelReply {
                sets: vec![piece],
                ..Default::default()
            })?;
            more_of_last = true;
            next = chunks.next();
        }
    }
    if let Some(paths) = result.paths {
        let mut nodes = paths.nodes.into_iter().peekable();
        // Requested paths without nodes still need a piece.
        loop {
            let piece = nodes.by_ref().take(PER_PIECE).map(node_out).collect();
            send(proto::TravelReply {
                paths: Some(proto::PathsPiece { nodes: piece }),
                ..Default::default()
            })?;
            if nodes.peek().is_none() {
                break;
            }
        }
    }
    let end = proto::TravelEnd {
        complete: result.complete,
        stopped: result.stopped.iter().map(stop_out).collect(),
        profile: result.profile.into_iter().map(profile_out).collect(),
        as_of: result.as_of.0,
        servers: result.servers.into_iter().map(server_step_out).collect(),
    };
    send(proto::TravelReply {
        end: Some(end),
        ..Default::default()
    })
}

fn stop_out(stop: &Stop) -> proto::Stop {
    proto::Stop {
        reason: reason_out(stop.reason).into(),
        step: stop.step,
        vertices_left: stop.vertices_left,
    }
}

fn profile_out(profile: StepProfile) -> proto::StepProfile {
    proto::StepProfile {
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

fn server_step_out(step: ServerStep) -> proto::ServerStep {
    proto::ServerStep {
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

fn node_out(node: PathNode) -> proto::PathNode {
    let (high, low) = halves(node.vertex);
    proto::PathNode {
        level: node.level,
        high,
        low,
        end: node.end,
        parents: node
            .parents
            .into_iter()
            .map(|step| proto::PathStep {
                parent: step.parent,
                edge: Some(edge_key_out(step.edge)),
                version: step.version.0,
            })
            .collect(),
    }
}
