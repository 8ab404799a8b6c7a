//! Parts of the result: vertices, edges and nodes, each once, by index.

use super::{Walk, index};
use crate::result::{Child, Node};
use esker_model::traversal::StopReason;
use esker_model::{Edge, Version, VertexId};

impl Walk<'_> {
    pub(super) fn load(&mut self, edge: Edge) -> u32 {
        self.loaded.push(edge);
        index(self.loaded.len() - 1)
    }

    /// Adds a loaded edge to the result.
    pub(super) fn edge(&mut self, loaded: u32) -> u32 {
        let Some(edge) = self.loaded.get(loaded as usize) else {
            return loaded;
        };
        *self
            .edge_index
            .entry((edge.key, edge.version))
            .or_insert_with(|| {
                self.edges.push(loaded);
                index(self.edges.len() - 1)
            })
    }

    /// Adds a vertex to the result; `None` if the limit of vertices is reached.
    pub(super) fn vertex(&mut self, id: VertexId) -> Option<u32> {
        let full = self
            .options
            .vertices
            .is_some_and(|max| self.vertices.len() as u64 >= max);
        if full && !self.vertex_index.contains_key(&id) {
            self.stop = self.stop.or(Some(StopReason::Limit));
            return None;
        }
        Some(self.vertex_always(id))
    }

    pub(super) fn vertex_always(&mut self, id: VertexId) -> u32 {
        *self.vertex_index.entry(id).or_insert_with(|| {
            self.vertices.push(id);
            index(self.vertices.len() - 1)
        })
    }

    pub(super) fn level(&self, node: u32) -> u32 {
        self.nodes.get(node as usize).map_or(0, |n| n.level)
    }

    pub(super) fn push_node(
        &mut self,
        vertex: u32,
        version: Option<Version>,
        execution: bool,
        level: u32,
    ) -> u32 {
        self.nodes.push(Node {
            vertex,
            version,
            execution,
            level,
            children: Vec::new(),
            stopped: None,
        });
        index(self.nodes.len() - 1)
    }

    pub(super) fn leaf(&mut self, vertex: u32, version: Option<Version>, level: u32) -> u32 {
        self.push_node(vertex, version, false, level)
    }

    /// Returns the node of a data object's version made by these writes, and whether it is new.
    pub(super) fn version_node(
        &mut self,
        vertex: u32,
        id: VertexId,
        writes: Vec<u32>,
        version: Option<Version>,
        level: u32,
    ) -> (u32, bool) {
        if let Some(node) = self.versions.get(&(id, writes.clone())) {
            return (*node, false);
        }
        let node = self.leaf(vertex, version, level);
        self.versions.insert((id, writes), node);
        (node, true)
    }

    pub(super) fn execution_node(&mut self, id: VertexId, vertex: u32, level: u32) -> u32 {
        match self.executions.get(&id) {
            Some(e) => e.node,
            None => self.push_node(vertex, None, true, level),
        }
    }

    pub(super) fn root(&mut self, node: u32, edge: Option<u32>, concurrent: bool) {
        self.roots.push(Child {
            node,
            edge,
            concurrent,
        });
    }

    pub(super) fn link(&mut self, from: u32, node: u32, edge: u32, concurrent: bool) {
        if let Some(n) = self.nodes.get_mut(from as usize) {
            n.children.push(Child {
                node,
                edge: Some(edge),
                concurrent,
            });
        }
    }

    /// Marks a node as not followed, with the reason that ended the run.
    pub(super) fn mark(&mut self, node: u32) {
        if let Some(n) = self.nodes.get_mut(node as usize) {
            n.stopped = n.stopped.or(self.stop);
        }
    }
}
