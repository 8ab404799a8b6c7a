//! Start of a run: at a version of a data object, at an execution, or at the executions of a user.

use super::data::groups;
use super::{Admitted, Walk};
use crate::Direction;
use crate::event::Span;
use crate::roles::Start;
use esker_model::traversal::StopReason;
use esker_model::{Result, Versions, VertexId};

impl Walk<'_> {
    /// Returns the first executions to load.
    pub(super) fn begin(&mut self, target: VertexId, start: Start) -> Result<Vec<VertexId>> {
        let vertex = self.vertex_always(target);
        match start {
            Start::Data => {
                self.load_data(&[target])?;
                let Some(data) = self.data.get(&target) else {
                    let node = self.leaf(vertex, None, 0);
                    self.mark(node);
                    self.root(node, None, false);
                    return Ok(Vec::new());
                };
                let mut next = Vec::new();
                if self.direction == Direction::Impact {
                    let readers = data.readers_since(self.options.since);
                    let node = self.leaf(vertex, None, 0);
                    self.root(node, None, false);
                    self.expand(node, readers, &mut next);
                } else {
                    let found = groups(&data.writes, &data.writes.visible_to(Span::LAST, None));
                    for (writes, version, concurrent) in found {
                        let (node, new) =
                            self.version_node(vertex, target, writes.clone(), version, 0);
                        self.root(node, None, concurrent);
                        if new {
                            let writers = self.executions_of(target, &writes);
                            self.expand(node, writers, &mut next);
                        }
                    }
                }
                Ok(next)
            }
            Start::Execution => {
                let node = self.push_node(vertex, None, true, 0);
                self.root(node, None, false);
                self.admit(target, node, Admitted::All);
                self.begin_with_parts(target, node)
            }
            Start::User => self.begin_at_user(vertex, target),
        }
    }

    /// Begins at an execution and all its parts, which read and wrote for it: a job's programs, the tasks of an array.
    fn begin_with_parts(&mut self, target: VertexId, node: u32) -> Result<Vec<VertexId>> {
        let parts = self.roles.parts.clone();
        let mut all = vec![target];
        let mut frontier = vec![(target, node)];
        while !frontier.is_empty() && !parts.is_empty() {
            let ids: Vec<VertexId> = frontier.iter().map(|(id, _)| *id).collect();
            let as_of = Versions::AsOf(self.options.as_of);
            let scanned = self.scan(&ids, &parts, as_of, false)?;
            if scanned.complete < ids.len() {
                self.mark(node);
            }
            let mut below = Vec::new();
            for ((_, whole), edges) in frontier.into_iter().zip(scanned.events) {
                for edge in edges {
                    let id = edge.key.destination;
                    let Some(vertex) = self.vertex(id) else {
                        self.mark(whole);
                        break;
                    };
                    let edge = self.load(edge);
                    let edge = self.edge(edge);
                    let new = !self.executions.contains_key(&id);
                    let part = self.execution_node(id, vertex, 0);
                    self.link(whole, part, edge, false);
                    if new {
                        self.admit(id, part, Admitted::All);
                        all.push(id);
                        below.push((id, part));
                    }
                }
            }
            frontier = below;
        }
        Ok(all)
    }

    fn begin_at_user(&mut self, vertex: u32, target: VertexId) -> Result<Vec<VertexId>> {
        let ran = self.roles.ran.clone();
        let scanned = self.scan(&[target], &ran, Versions::AsOf(self.options.as_of), true)?;
        let mut next = Vec::new();
        let cut = scanned.complete == 0 || self.options.depth == Some(0);
        for edge in scanned.events.into_iter().flatten() {
            let id = edge.key.destination;
            let Some(index) = self.vertex(id) else {
                break;
            };
            let edge = self.load(edge);
            let edge = self.edge(edge);
            let node = self.execution_node(id, index, 1);
            self.root(node, Some(edge), false);
            if cut {
                if let Some(n) = self.nodes.get_mut(node as usize) {
                    n.stopped = Some(self.stop.unwrap_or(StopReason::Depth));
                }
            } else {
                self.admit(id, node, Admitted::All);
                next.push(id);
            }
        }
        if self.stop.is_some() {
            let node = self.leaf(vertex, None, 0);
            self.mark(node);
        }
        Ok(next)
    }
}
