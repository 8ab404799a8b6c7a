//! Sums over what somebody sees: counted by reading it all.

use esker_model::{
    Counts, Degree, EdgeSelect, EdgeTypeId, Flow, GraphRead, Result, Versions, VertexId,
    VertexSelect, VertexTypeId,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// So many vertices are looked at together.
const CHUNK: usize = 4_096;

fn now(types: Vec<EdgeTypeId>) -> EdgeSelect {
    EdgeSelect {
        types,
        versions: Versions::NOW,
        properties: false,
    }
}

/// Goes through all vertices that a graph shows, in pieces, with all edges that leave each and show.
fn everything(
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
                // Specialisations come by themselves.
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

/// How many edges of a type leave a vertex, of each pair.
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

/// The vertices with the most edges.
pub fn top_degrees(
    graph: &dyn GraphRead,
    edge_type: Option<EdgeTypeId>,
    limit: usize,
) -> Result<Vec<Degree>> {
    let mut best = BinaryHeap::new();
    everything(graph, &mut |vertices, edges| {
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

/// How many vertices and edges there are, of the types that `counts` names.
pub fn counts(graph: &dyn GraphRead, mut counts: Counts) -> Result<Counts> {
    let mut by_vertex: BTreeMap<VertexTypeId, u64> = BTreeMap::new();
    let mut by_edge: BTreeMap<EdgeTypeId, u64> = BTreeMap::new();
    everything(graph, &mut |vertices, edges| {
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
