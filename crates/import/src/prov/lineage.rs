//! Lineage over all relations of PROV: from each vertex to what it depends on.

use super::links::native;
use esker_model::{
    Cancel, Edge, EdgeSelect, EdgeTypeId, Error, GraphRead, Result, Schema, Version, Versions,
    VertexId,
};
use std::collections::{BTreeSet, HashSet};
use std::ops::ControlFlow;

/// Result of a traversal: vertices, and edges in the forward direction of the schema.
#[derive(Debug, Default)]
pub struct Lineage {
    /// All vertices that were visited.
    pub vertices: BTreeSet<VertexId>,
    /// All edges that were followed.
    pub edges: Vec<Edge>,
}

/// Returns the edge types to follow, each in the direction towards the influencer.
fn followed(schema: &Schema) -> Vec<EdgeTypeId> {
    let forward = schema
        .edge_types()
        .filter(|(_, definition)| definition.forward);
    let types = forward.filter_map(|(id, definition)| {
        let ends = (definition.source, definition.destination);
        if let Some((_, (from, _))) = native(schema, &definition.name, ends) {
            return Some(if from == 0 { id } else { definition.inverse });
        }
        let followed = definition.name == "belongs" || definition.name.contains("InfluencedBy");
        followed.then_some(id)
    });
    types.collect()
}

/// Traverses from some vertices, at most `depth` steps, as of a version.
///
/// # Errors
/// Fails if the graph cannot be read, or the traversal is cancelled.
pub fn lineage(
    graph: &(impl GraphRead + ?Sized),
    schema: &Schema,
    begin: &[VertexId],
    depth: Option<u32>,
    as_of: Version,
    cancel: &dyn Cancel,
) -> Result<Lineage> {
    let select = EdgeSelect {
        types: followed(schema),
        versions: Versions::AsOf(as_of),
        properties: true,
        after: None,
    };
    let mut found = Lineage {
        vertices: begin.iter().copied().collect(),
        edges: Vec::new(),
    };
    let mut seen: HashSet<VertexId> = begin.iter().copied().collect();
    let mut frontier: Vec<VertexId> = begin.to_vec();
    let mut steps = 0;
    while !frontier.is_empty() && depth.is_none_or(|depth| steps < depth) {
        steps += 1;
        if cancel.cancelled() {
            return Err(Error::Interrupted);
        }
        let mut next = Vec::new();
        graph.scan_edges(&frontier, &select, &mut |_, mut edge| {
            let other = edge.key.destination;
            if seen.insert(other) {
                next.push(other);
                found.vertices.insert(other);
            }
            let definition = schema.edge_type(edge.key.edge_type);
            if let Some(turned) = definition.filter(|d| !d.forward) {
                edge.key = edge.key.reversed(turned.inverse);
            }
            found.edges.push(edge);
            ControlFlow::Continue(())
        })?;
        frontier = next;
    }
    Ok(found)
}
