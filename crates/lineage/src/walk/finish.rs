//! Completion of the result: reads vertices, collects edges, names the stops.

use super::{VERTICES_A_CALL, Walk};
use crate::Direction;
use crate::result::{FoundEdge, FoundVertex, Provenance, STOPPED_NAMES_MAX, Stopped};
use esker_model::traversal::StopReason;
use esker_model::{Edge, EdgeKey, EdgeTypeId, Properties, Result, Version, VertexId};
use std::collections::{BTreeMap, BTreeSet, HashMap};

impl Walk<'_> {
    pub(super) fn finish(mut self, target: VertexId) -> Result<Provenance> {
        let mut vertices = Vec::with_capacity(self.vertices.len());
        for ids in self.vertices.chunks(VERTICES_A_CALL) {
            let then = self.graph.read_vertices(ids, self.options.as_of)?;
            let found = ids.iter().zip(then).map(|(id, vertex)| FoundVertex {
                id: *id,
                vertex,
                later: false,
            });
            vertices.extend(found);
        }
        let missing: Vec<usize> = (0..vertices.len())
            .filter(|i| vertices[*i].vertex.is_none())
            .collect();
        if self.options.as_of != Version::MAX {
            for places in missing.chunks(VERTICES_A_CALL) {
                let ids: Vec<VertexId> = places.iter().map(|i| vertices[*i].id).collect();
                let now = self.graph.read_vertices(&ids, Version::MAX)?;
                for (i, vertex) in places.iter().zip(now) {
                    vertices[*i].later = vertex.is_some();
                    vertices[*i].vertex = vertex;
                }
            }
        }
        let certain = self.certain_edges();
        let empty = || Edge {
            key: EdgeKey {
                source: VertexId::default(),
                edge_type: EdgeTypeId(0),
                destination: VertexId::default(),
            },
            version: Version::ZERO,
            deleted: false,
            properties: Properties::new(),
        };
        let edges = (0..)
            .zip(&self.edges)
            .filter_map(|(i, loaded)| {
                let edge = std::mem::replace(self.loaded.get_mut(*loaded as usize)?, empty());
                Some(FoundEdge {
                    edge,
                    concurrent: certain.get(&i) == Some(&false),
                })
            })
            .collect();
        let stopped = self.stops();
        Ok(Provenance {
            direction: self.direction,
            target,
            as_of: self.options.as_of,
            complete: stopped.is_empty(),
            stopped,
            vertices,
            edges,
            nodes: self.nodes,
            roots: self.roots,
            facts: self.facts,
            fact_types: self.roles.facts,
        })
    }

    /// For each edge between versions and executions: whether it is certain at least once.
    fn certain_edges(&self) -> HashMap<u32, bool> {
        let mut sure = vec![false; self.nodes.len()];
        for child in self
            .nodes
            .iter()
            .flat_map(|n| &n.children)
            .chain(&self.roots)
        {
            if let (Some(sure), false) = (sure.get_mut(child.node as usize), child.concurrent) {
                *sure = true;
            }
        }
        let mut certain: HashMap<u32, bool> = HashMap::new();
        for (node, sure) in self.nodes.iter().zip(sure) {
            for child in node.children.iter().filter(|_| !node.execution) {
                let this = match self.direction {
                    Direction::Lineage => sure,
                    Direction::Impact => !child.concurrent,
                };
                if let Some(edge) = child.edge {
                    *certain.entry(edge).or_default() |= this;
                }
            }
        }
        certain
    }

    /// Returns the stops by reason.
    fn stops(&self) -> Vec<Stopped> {
        let mut by_reason: BTreeMap<StopReason, (u32, BTreeSet<VertexId>, Vec<VertexId>)> =
            BTreeMap::new();
        for node in &self.nodes {
            let (Some(reason), Some(id)) = (node.stopped, self.vertices.get(node.vertex as usize))
            else {
                continue;
            };
            let (level, all, first) = by_reason
                .entry(reason)
                .or_insert_with(|| (node.level, BTreeSet::new(), Vec::new()));
            *level = node.level.min(*level);
            if all.insert(*id) && first.len() < STOPPED_NAMES_MAX {
                first.push(*id);
            }
        }
        by_reason
            .into_iter()
            .map(|(reason, (level, all, vertices))| Stopped {
                reason,
                level,
                vertices_left: all.len() as u64,
                vertices,
            })
            .collect()
    }
}
