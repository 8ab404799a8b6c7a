//! Facts about executions that are shown but not followed: users, executables, enclosing executions.

use super::Walk;
use esker_model::traversal::StopReason;
use esker_model::{Result, Versions, VertexId};
use std::collections::BTreeSet;

impl Walk<'_> {
    /// Loads users, executables and enclosing executions of all executions found. They do not count against the budgets, since
    /// their number is bounded by the executions found; only the time limit applies.
    pub(super) fn load_facts(&mut self) -> Result<()> {
        let types = self.roles.fact_types();
        let mut frontier: Vec<VertexId> = self.executions.keys().copied().collect();
        // Executions that were found but not followed because of a depth or other limit.
        let known = self.nodes.iter().filter(|n| n.execution);
        frontier.extend(known.filter_map(|n| self.vertices.get(n.vertex as usize)));
        frontier.sort_unstable();
        frontier.dedup();
        let mut done: BTreeSet<VertexId> = frontier.iter().copied().collect();
        let timed = matches!(
            self.stop,
            Some(StopReason::TimeOut | StopReason::Interrupted)
        );
        if types.is_empty() || timed {
            return Ok(());
        }
        while !frontier.is_empty() {
            let scanned = self.scan(&frontier, &types, Versions::AsOf(self.options.as_of), true)?;
            let complete = scanned.complete;
            let mut above = Vec::new();
            for (id, events) in frontier.iter().zip(scanned.events) {
                let of = self.vertex_always(*id);
                for edge in events {
                    let to = edge.key.destination;
                    self.vertex_always(to);
                    if self.roles.facts.part_of.contains(&edge.key.edge_type) && done.insert(to) {
                        above.push(to);
                    }
                    let edge = self.load(edge);
                    let edge = self.edge(edge);
                    self.facts.entry(of).or_default().push(edge);
                }
            }
            if complete < frontier.len() {
                let left: BTreeSet<VertexId> = frontier
                    .get(complete..)
                    .unwrap_or_default()
                    .iter()
                    .copied()
                    .collect();
                let marks: Vec<u32> = (0..)
                    .zip(&self.nodes)
                    .filter(|(_, n)| n.execution)
                    .filter(|(_, n)| {
                        self.vertices
                            .get(n.vertex as usize)
                            .is_some_and(|v| left.contains(v))
                    })
                    .map(|(i, _)| i)
                    .collect();
                for node in marks {
                    self.mark(node);
                }
                if self.nodes.iter().all(|n| n.stopped.is_none()) {
                    let roots: Vec<u32> = self.roots.iter().map(|r| r.node).collect();
                    for node in roots {
                        self.mark(node);
                    }
                }
                return Ok(());
            }
            frontier = above;
        }
        Ok(())
    }
}
