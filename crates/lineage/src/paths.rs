//! The graph covered by the paths of a traversal, in the form of a lineage result, so that both print alike.

use super::result::{FoundEdge, FoundVertex};
use esker_model::traversal::Paths;
use esker_model::{Edge, EdgeKey, GraphRead, Result, Version, VersionRange, VertexId};
use std::collections::{BTreeMap, HashSet};

/// Vertices or edges read in one call.
const READ_A_CALL: usize = 8_192;

/// Returns every vertex and every edge on a path once, in the order reached: vertices as of `as_of`, edges at the version that
/// the traversal saw.
pub fn graph_of_paths(
    graph: &dyn GraphRead,
    paths: &Paths,
    as_of: Version,
) -> Result<(Vec<FoundVertex>, Vec<FoundEdge>)> {
    let mut known: HashSet<VertexId> = HashSet::new();
    let ids: Vec<VertexId> = paths
        .nodes
        .iter()
        .map(|n| n.vertex)
        .filter(|id| known.insert(*id))
        .collect();
    let mut vertices = Vec::with_capacity(ids.len());
    for ids in ids.chunks(READ_A_CALL) {
        let read = graph.read_vertices(ids, as_of)?;
        vertices.extend(ids.iter().zip(read).map(|(id, vertex)| FoundVertex {
            id: *id,
            vertex,
            later: false,
        }));
    }

    let mut seen: HashSet<(EdgeKey, Version)> = HashSet::new();
    let steps: Vec<(EdgeKey, Version)> = paths
        .nodes
        .iter()
        .flat_map(|n| &n.parents)
        .map(|step| (step.edge, step.version))
        .filter(|step| seen.insert(*step))
        .collect();
    let mut edges = Vec::with_capacity(steps.len());
    for steps in steps.chunks(READ_A_CALL) {
        // Usually the newest version as of then is the one that was seen, so one call returns most edges.
        let keys: Vec<EdgeKey> = steps.iter().map(|s| s.0).collect();
        let mut read: BTreeMap<usize, Edge> = graph
            .read_edges(&keys, as_of)?
            .into_iter()
            .enumerate()
            .filter_map(|(i, edge)| Some((i, edge?)))
            .collect();
        for (i, (key, version)) in steps.iter().enumerate() {
            let edge = match read.remove(&i).filter(|e| e.version == *version) {
                Some(edge) => Some(edge),
                None => superseded(graph, *key, *version)?,
            };
            edges.extend(edge.map(|edge| FoundEdge {
                edge,
                concurrent: false,
            }));
        }
    }
    Ok((vertices, edges))
}

fn superseded(graph: &dyn GraphRead, key: EdgeKey, version: Version) -> Result<Option<Edge>> {
    let range = VersionRange {
        from: version,
        until: version.next(),
    };
    Ok(graph
        .edge_history(key, range)?
        .pop()
        .map(|event| event.edge))
}
