//! Assembly of a traversal's result from the visited vertices of all servers.

use crate::peer::{ChainPosition, Visited};
use esker_engine::{PlannedSegment, assemble_paths};
use esker_model::traversal::{Paths, Repeat, Stop, StopReason, WorkingSet};
use esker_model::{EdgeKey, Version, VertexId};

/// Position, step, vertex, and parents: position, edge, version.
type PathNode = (u32, u32, VertexId, Vec<(u32, EdgeKey, Version)>);

/// Visited vertices, and what the chain returns of them.
pub(super) struct Assembly<'a> {
    pub(super) segments: &'a [PlannedSegment],
    pub(super) start_returned: bool,
    /// Sorted by position, then step, then id.
    pub(super) visited: Vec<Visited>,
    /// Number of segments that were begun.
    pub(super) begun: usize,
}

impl Assembly<'_> {
    /// The position at which the chain ends.
    fn last(&self) -> u32 {
        let hops = self.segments.last().and_then(|s| s.hops.last());
        hops.map_or(0, |h| h.place)
    }

    /// Drops the vertices above the limit at the chain's end, last reached first; returns their number.
    pub(super) fn cut(&mut self, limit: u64) -> u64 {
        let last = ChainPosition(self.last());
        let mut count = 0;
        let mut cut = 0;
        self.visited.retain(|v| {
            let here = v.position == last;
            count += u64::from(here);
            let over = here && count > limit;
            cut += u64::from(over);
            !over
        });
        cut
    }

    /// Returns the working sets in the order of the chain.
    pub(super) fn sets(&self) -> Vec<WorkingSet> {
        let set = |position: u32| {
            let here = self
                .visited
                .iter()
                .filter(|v| v.position == ChainPosition(position));
            WorkingSet {
                hop: position,
                vertices: here.map(|v| v.vertex).collect(),
            }
        };
        let mut sets = Vec::new();
        if self.start_returned {
            sets.push(set(0));
        }
        let hops = self.segments.iter().flat_map(|s| &s.hops);
        sets.extend(hops.filter(|h| h.returned).map(|h| set(h.place)));
        if sets.is_empty() {
            sets.push(set(self.last()));
        }
        sets
    }

    /// Returns the complete paths.
    pub(super) fn paths(self) -> Paths {
        if self.begun < self.segments.len() {
            // No path has reached the chain's end.
            return Paths::default();
        }
        let last = self.last();
        let leaves = self.segments.last().is_some_and(|s| s.repeat.is_some());
        let node = |v: Visited| -> PathNode {
            let parents = v.parents.iter();
            let parents = parents.map(|p| (p.from.0, p.edge, p.version)).collect();
            (v.position.0, v.step, v.vertex, parents)
        };
        let mut nodes: Vec<PathNode> = self.visited.into_iter().map(node).collect();
        nodes.sort_by_key(|(position, step, vertex, _)| (*step, *position, *vertex));
        assemble_paths(nodes, last, leaves)
    }

    /// Converts the steps of an asynchronous traversal, which are counted from the beginning of a segment, to steps
    /// from the start, as if each segment had begun when the previous one ended. Returns the number of steps, and
    /// where a bound on repeats stopped the traversal.
    pub(super) fn count_steps(&mut self) -> (u32, Vec<Stop>) {
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
        (base, stops)
    }
}
