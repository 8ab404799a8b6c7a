//! Paths of a traversal as parent pointers.

use esker_model::traversal::{PathNode, PathStep, Paths};
use esker_model::{EdgeKey, Version, VertexId};
use foldhash::fast::FixedState;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Records the edges over which vertices were reached.
#[derive(Debug, Default)]
pub(crate) struct PathRecorder {
    nodes: Vec<PathNode>,
    /// Position in the chain of each node.
    positions: Vec<u32>,
    /// Nodes that a limit has cut off.
    removed: Vec<usize>,
}

/// The nodes of one position of the chain, by the dense number of their vertex.
#[derive(Debug, Default)]
pub(crate) struct PositionNodes(HashMap<u32, u32, FixedState>);

impl PositionNodes {
    fn get(&self, number: u32) -> Option<usize> {
        self.0.get(&number).map(|node| *node as usize)
    }
}

/// The vertices at which paths end.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PathEnds {
    /// At each vertex of that position.
    Position(u32),
    /// At each vertex from which no edge leads on.
    Leaves,
}

impl PathRecorder {
    /// Creates a recorder from existing nodes and their positions.
    pub(crate) fn of(nodes: Vec<PathNode>, positions: Vec<u32>) -> Self {
        Self {
            nodes,
            positions,
            removed: Vec::new(),
        }
    }

    /// Adds a vertex to a position if it is new there.
    pub(crate) fn node(
        &mut self,
        (position, nodes): (u32, &mut PositionNodes),
        number: u32,
        vertex: VertexId,
        level: u32,
    ) {
        if let Entry::Vacant(place) = nodes.0.entry(number) {
            place.insert(self.nodes.len() as u32);
            self.positions.push(position);
            self.nodes.push(PathNode {
                level,
                vertex,
                end: false,
                parents: Vec::new(),
            });
        }
    }

    /// Removes a vertex without children from a position.
    pub(crate) fn remove(&mut self, nodes: &PositionNodes, number: u32) {
        if let Some(node) = nodes.get(number) {
            self.nodes[node].parents.clear();
            self.removed.push(node);
        }
    }

    /// Adds the edge from a vertex at one position to a vertex at another; both must have nodes.
    pub(crate) fn step(
        &mut self,
        from: (&PositionNodes, u32),
        to: (&PositionNodes, u32),
        edge: EdgeKey,
        version: Version,
    ) {
        let (Some(parent), Some(child)) = (from.0.get(from.1), to.0.get(to.1)) else {
            return;
        };
        if let Some(node) = self.nodes.get_mut(child) {
            node.parents.push(PathStep {
                parent: parent as u32,
                edge,
                version,
            });
        }
    }

    /// Marks every node without a child as an end: for chains that close with a repeat, where a path ends if there are no more
    /// edges to follow. If only cycles remain, paths end at the nodes from which no new node was reached.
    fn end_at_leaves(&mut self) {
        let mut has_child = vec![false; self.nodes.len()];
        let mut discovers = vec![false; self.nodes.len()];
        for node in &self.nodes {
            for step in &node.parents {
                has_child[step.parent as usize] = true;
            }
            // The parent from the earliest hop discovered the node. Steps recorded by several servers are unordered.
            let level = |step: &&PathStep| self.nodes.get(step.parent as usize).map(|n| n.level);
            if let Some(first) = node.parents.iter().min_by_key(level) {
                discovers[first.parent as usize] = true;
            }
        }
        for (node, has_child) in self.nodes.iter_mut().zip(&has_child) {
            node.end = !has_child && node.level > 0;
        }
        // Nodes that lead to no end lead to each other. From each of them, following the nodes that it discovered ends at one that
        // discovered none.
        let leads_to_end = self.leading_to_ends();
        for ((node, leads), discovers) in self.nodes.iter_mut().zip(leads_to_end).zip(discovers) {
            node.end |= !leads && !discovers && node.level > 0;
        }
    }

    /// For each node, whether a path from it leads to an end.
    fn leading_to_ends(&self) -> Vec<bool> {
        let mut leads = vec![false; self.nodes.len()];
        let ends = self.nodes.iter().enumerate().filter(|(_, n)| n.end);
        let mut open: Vec<usize> = ends.map(|(i, _)| i).collect();
        while let Some(i) = open.pop() {
            if !std::mem::replace(&mut leads[i], true) {
                open.extend(self.nodes[i].parents.iter().map(|p| p.parent as usize));
            }
        }
        leads
    }

    /// Sorts the incoming steps of each node: by position, then by edge and version.
    fn sort_steps(&mut self) {
        let positions = &self.positions;
        for node in &mut self.nodes {
            let order =
                |step: &PathStep| (positions[step.parent as usize], step.edge, step.version);
            node.parents.sort_unstable_by_key(order);
            node.parents.dedup();
        }
    }

    /// Returns the paths, without nodes that lead to no end; nodes are in order of level, position and vertex.
    pub(crate) fn finish(mut self, ends: PathEnds) -> Paths {
        self.sort_steps();
        match ends {
            PathEnds::Leaves => self.end_at_leaves(),
            PathEnds::Position(last) => {
                for (node, position) in self.nodes.iter_mut().zip(&self.positions) {
                    node.end = *position == last;
                }
            }
        }
        for node in &self.removed {
            self.nodes[*node].end = false;
        }
        let kept = self.leading_to_ends();
        let mut order: Vec<usize> = (0..kept.len()).filter(|node| kept[*node]).collect();
        order.sort_unstable_by_key(|i| {
            let node = &self.nodes[*i];
            (node.level, self.positions[*i], node.vertex)
        });
        let mut renumbered = vec![0_u32; kept.len()];
        for (new, old) in order.iter().enumerate() {
            renumbered[*old] = new as u32;
        }
        let mut sorted = Vec::with_capacity(order.len());
        for old in order {
            let mut parents = std::mem::take(&mut self.nodes[old].parents);
            for step in &mut parents {
                step.parent = renumbered[step.parent as usize];
            }
            sorted.push(PathNode {
                parents,
                ..self.nodes[old]
            });
        }
        Paths { nodes: sorted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_model::EdgeTypeId;

    /// `a` leads to `b`, `b` and `c` lead to each other; the later of `b`'s parents comes first, as servers may send it.
    #[test]
    fn a_cycle_without_a_way_out_is_on_a_path() {
        let id = |n: u8| VertexId([n; 16]);
        let step = |parent: u32, source: u8, destination: u8| PathStep {
            parent,
            edge: EdgeKey {
                source: id(source),
                edge_type: EdgeTypeId(1),
                destination: id(destination),
            },
            version: Version(1),
        };
        let node = |level, vertex, parents| PathNode {
            level,
            vertex: id(vertex),
            end: false,
            parents,
        };
        let nodes = vec![
            node(0, 1, vec![]),
            node(1, 2, vec![step(2, 3, 2), step(0, 1, 2)]),
            node(2, 3, vec![step(1, 2, 3)]),
        ];
        let recorder = PathRecorder::of(nodes, vec![0, 1, 1]);
        let nodes = recorder.finish(PathEnds::Leaves).nodes;
        let found: Vec<_> = nodes.iter().map(|n| (n.vertex, n.end)).collect();
        assert_eq!(found, [(id(1), false), (id(2), false), (id(3), true)]);
    }
}
