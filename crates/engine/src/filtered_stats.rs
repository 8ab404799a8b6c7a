//! Statistics over the part of a graph that a principal may see, computed by reading all of it.

use esker_model::{
    Counts, Degree, EdgeSelect, EdgeTypeId, Flow, GraphRead, Result, Versions, VertexId,
    VertexSelect, VertexTypeId,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Vertices per batch.
const CHUNK: usize = 4_096;

fn now(types: Vec<EdgeTypeId>) -> EdgeSelect {
    EdgeSelect {
        types,
        versions: Versions::NOW,
        properties: false,
        after: None,
    }
}

/// Reads all visible vertices in batches, with all visible edges that leave each.
fn scan_all(
    graph: &dyn GraphRead,
    piece: &mut dyn FnMut(&[(VertexTypeId, VertexId)], &[(usize, EdgeTypeId)]),
) -> Result<()> {
    let schema = graph.schema()?;
    let mut flush = |vertices: &[(VertexTypeId, VertexId)]| -> Result<()> {
        let ids: Vec<VertexId> = vertices.iter().map(|(_, id)| *id).collect();
        let mut edges = Vec::new();
        graph.scan_edges(&ids, &now(Vec::new()), &mut |i, edge| {
            edges.push((i, edge.key.edge_type));
            Flow::Continue(())
        })?;
        piece(vertices, &edges);
        Ok(())
    };
    for (type_id, _) in schema.vertex_types() {
        let mut after = None;
        loop {
            let mut waiting = Vec::with_capacity(CHUNK);
            let mut looked = 0;
            let select = VertexSelect {
                after,
                ..VertexSelect::of(type_id)
            };
            graph.scan_vertices(&select, &mut |vertex| {
                after = Some((vertex.type_id, vertex.id));
                // Subtypes are scanned in their own turn.
                if vertex.type_id == type_id {
                    waiting.push((type_id, vertex.id));
                }
                looked += 1;
                if looked < CHUNK {
                    Flow::Continue(())
                } else {
                    Flow::Break(())
                }
            })?;
            flush(&waiting)?;
            if looked < CHUNK {
                break;
            }
        }
    }
    Ok(())
}

/// Counts the visible edges of a type that leave a vertex, for each pair.
pub fn degrees(graph: &dyn GraphRead, of: &[(VertexId, EdgeTypeId)]) -> Result<Vec<u64>> {
    let count = |(id, edge_type): &(VertexId, EdgeTypeId)| {
        let mut n = 0;
        graph.scan_edges(&[*id], &now(vec![*edge_type]), &mut |_, _| {
            n += 1;
            Flow::Continue(())
        })?;
        Ok(n)
    };
    of.iter().map(count).collect()
}

/// Returns the vertices with the most visible edges.
pub fn top_degrees(
    graph: &dyn GraphRead,
    edge_type: Option<EdgeTypeId>,
    limit: usize,
) -> Result<Vec<Degree>> {
    let mut best = BinaryHeap::new();
    scan_all(graph, &mut |vertices, edges| {
        let mut degrees: BTreeMap<(usize, EdgeTypeId), u64> = BTreeMap::new();
        for edge in edges
            .iter()
            .filter(|(_, t)| edge_type.is_none_or(|wanted| wanted == *t))
        {
            *degrees.entry(*edge).or_default() += 1;
        }
        for ((i, edge_type), degree) in degrees {
            if let Some((_, vertex)) = vertices.get(i) {
                best.push(Reverse((degree, Reverse((*vertex, edge_type)))));
            }
            if best.len() > limit {
                best.pop();
            }
        }
    })?;
    let sorted = best.into_sorted_vec().into_iter();
    Ok(sorted
        .map(|Reverse((degree, Reverse((vertex, edge_type))))| Degree {
            vertex,
            edge_type,
            degree,
        })
        .collect())
}

/// Counts the visible vertices and edges of the types that `counts` names.
pub fn counts(graph: &dyn GraphRead, mut counts: Counts) -> Result<Counts> {
    let mut by_vertex: BTreeMap<VertexTypeId, u64> = BTreeMap::new();
    let mut by_edge: BTreeMap<EdgeTypeId, u64> = BTreeMap::new();
    scan_all(graph, &mut |vertices, edges| {
        for (type_id, _) in vertices {
            *by_vertex.entry(*type_id).or_default() += 1;
        }
        for (_, edge_type) in edges {
            *by_edge.entry(*edge_type).or_default() += 1;
        }
    })?;
    for (type_id, n) in &mut counts.vertices {
        *n = by_vertex.get(type_id).copied().unwrap_or(0);
    }
    for (edge_type, n) in &mut counts.edges {
        *n = by_edge.get(edge_type).copied().unwrap_or(0);
    }
    Ok(counts)
}
