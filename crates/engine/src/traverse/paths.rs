//! Paths of a traversal as parent pointers.

use esker_model::traversal::{PathNode, PathStep, Paths};
use esker_model::{EdgeKey, Version, VertexId};

/// Index of a node plus one; zero for none.
type NodeIndex = u32;

/// Records the edges over which vertices were reached.
#[derive(Debug, Default)]
pub(crate) struct PathRecorder {
    nodes: Vec<PathNode>,
    steps: u64,
}

/// The nodes of one position of the chain, by the dense number of their vertex.
#[derive(Debug, Default, Clone)]
pub(crate) struct Position {
    nodes: Vec<NodeIndex>,
}

impl Position {
    fn get(&self, number: u32) -> Option<usize> {
        self.nodes
            .get(number as usize)
            .and_then(|p| p.checked_sub(1))
            .map(|p| p as usize)
    }
}

impl PathRecorder {
    /// Creates a recorder from existing nodes.
    pub(crate) fn of(nodes: Vec<PathNode>) -> Self {
        Self { nodes, steps: 0 }
    }

    /// Adds a vertex to a position if it is new there.
    pub(crate) fn node(
        &mut self,
        position: &mut Position,
        number: u32,
        vertex: VertexId,
        level: u32,
    ) {
        let i = number as usize;
        if position.nodes.len() <= i {
            position.nodes.resize((i + 1).next_power_of_two(), 0);
        }
        if position.nodes[i] == 0 {
            self.nodes.push(PathNode {
                level,
                vertex,
                end: false,
                parents: Vec::new(),
            });
            position.nodes[i] = self.nodes.len() as u32;
        }
    }

    /// Adds the edge from a vertex at one position to a vertex at another; both must have nodes.
    pub(crate) fn step(
        &mut self,
        from: (&Position, u32),
        to: (&Position, u32),
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
            self.steps += 1;
        }
    }

    /// Marks that paths may end at a vertex.
    pub(crate) fn end(&mut self, position: &Position, number: u32) {
        if let Some(node) = position.get(number).and_then(|i| self.nodes.get_mut(i)) {
            node.end = true;
        }
    }

    /// Marks every node without a child as an end: for chains that close with a repeat, where a path ends if there are no more
    /// edges to follow. If only cycles remain, paths end at the nodes from which no new node was reached.
    pub(crate) fn end_at_leaves(&mut self) {
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

    /// Memory used, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.nodes.len() as u64 * size_of::<PathNode>() as u64
            + self.steps * size_of::<PathStep>() as u64
    }

    /// Returns the paths, without nodes that lead to no end.
    pub(crate) fn finish(self) -> Paths {
        let kept = self.leading_to_ends();
        let mut renumbered = vec![0_u32; self.nodes.len()];
        let mut next = 0;
        for (new, kept) in renumbered.iter_mut().zip(&kept) {
            *new = next;
            next += u32::from(*kept);
        }
        let mut nodes: Vec<PathNode> = self
            .nodes
            .into_iter()
            .zip(&kept)
            .filter(|(_, k)| **k)
            .map(|(n, _)| n)
            .collect();
        for step in nodes.iter_mut().flat_map(|n| &mut n.parents) {
            step.parent = renumbered[step.parent as usize];
        }
        Paths { nodes }
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
        let mut recorder = PathRecorder::of(vec![
            node(0, 1, vec![]),
            node(1, 2, vec![step(2, 3, 2), step(0, 1, 2)]),
            node(2, 3, vec![step(1, 2, 3)]),
        ]);
        recorder.end_at_leaves();
        let nodes = recorder.finish().nodes;
        let found: Vec<_> = nodes.iter().map(|n| (n.vertex, n.end)).collect();
        assert_eq!(found, [(id(1), false), (id(2), false), (id(3), true)]);
    }
}
