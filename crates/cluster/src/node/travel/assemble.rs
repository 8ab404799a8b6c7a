//! Assembly of a traversal's result from the visited vertices of all servers.

use crate::peer::{ChainPosition, Visited};
use esker_engine::{PlannedSegment, VisitedNode};
use esker_model::VertexId;
use esker_model::traversal::{Repeat, Stop, StopReason};

/// Visited vertices, and the chain that led to them.
pub(super) struct Assembly<'a> {
    pub(super) segments: &'a [PlannedSegment],
    /// Sorted by position, then step, then id.
    pub(super) visited: Vec<Visited>,
}

impl Assembly<'_> {
    /// Drops the vertices above the limit at a position, last reached first; returns their number.
    pub(super) fn cut(&mut self, position: u32, limit: u64) -> u64 {
        let mut count: u64 = 0;
        self.visited.retain(|v| {
            let here = v.position == ChainPosition(position);
            count += u64::from(here);
            !here || count <= limit
        });
        count.saturating_sub(limit)
    }

    /// Returns the vertices visited at a position.
    pub(super) fn set(&self, position: u32) -> Vec<VertexId> {
        let position = ChainPosition(position);
        let here = self.visited.iter().filter(|v| v.position == position);
        here.map(|v| v.vertex).collect()
    }

    /// Returns the nodes of paths.
    pub(super) fn nodes(&self) -> Vec<VisitedNode> {
        let node = |v: &Visited| {
            let parents = v.parents.iter();
            VisitedNode {
                position: v.position.0,
                step: v.step,
                vertex: v.vertex,
                parents: parents.map(|p| (p.from.0, p.edge, p.version)).collect(),
            }
        };
        self.visited.iter().map(node).collect()
    }

    /// Converts the steps of an asynchronous traversal, which are counted from the beginning of a segment, to steps
    /// from the start, as if each segment had begun when the previous one ended. Returns where bounds on repeats stopped the
    /// traversal.
    pub(super) fn count_steps(&mut self) -> Vec<Stop> {
        let mut base = 0;
        let mut stops = Vec::new();
        let mut from = 0;
        for segment in self.segments {
            let begins = self
                .visited
                .iter()
                .any(|v| v.position == ChainPosition(from));
            let (Some(first), Some(last)) = (segment.hops.first(), segment.hops.last()) else {
                continue;
            };
            let hops = segment.hops.len() as u32;
            let at_end = |v: &&Visited| v.position == ChainPosition(last.place);
            let rounds = match segment.repeat {
                _ if !begins => 0,
                None => 1,
                Some(Repeat { max }) => {
                    let ends = self.visited.iter().filter(at_end);
                    let productive = ends.map(|v| v.step / hops).max().unwrap_or(0);
                    productive.saturating_add(1).min(max.unwrap_or(u32::MAX))
                }
            };
            if let (true, Some(Repeat { max: Some(max) })) = (begins, segment.repeat) {
                let ends = self.visited.iter().filter(at_end);
                let left = ends.filter(|v| v.step == max.saturating_mul(hops)).count();
                if left > 0 {
                    stops.push(Stop {
                        reason: StopReason::Depth,
                        step: base + max * hops + 1,
                        vertices_left: left as u64,
                    });
                }
            }
            let positions = first.place..=last.place;
            let here = self.visited.iter_mut();
            for v in here.filter(|v| positions.contains(&v.position.0)) {
                v.step += base;
            }
            base += rounds * hops;
            from = last.place;
        }
        stops
    }
}
