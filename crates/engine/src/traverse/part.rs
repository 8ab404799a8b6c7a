//! Parts of distributed traversals: the work that one of several engines does in a step.
//!
//! The positions of a plan are where working sets form: 0 is the start, `n` the target of hop `n` of the chain.

use super::expand::CHUNK_VERTICES;
use super::filter::VertexFilter;
use super::paths::{PathEnds, PathRecorder};
use super::plan::{Plan, PlanHop, PlanStart, plan};
use crate::{Engine, read};
use esker_model::traversal::{Budget, PathNode, PathStep, Paths, Repeat, StopReason, Traversal};
use esker_model::{Cancel, EdgeKey, Error, Flow, Result, Version, Versions, Vertex, VertexId};
use std::collections::HashMap;

/// A traversal planned for one engine: of an embedded database, or of one server of several.
#[derive(Debug)]
pub struct TraversalPlan {
    plan: Plan,
    /// The version used as the present, if the traversal reads the present.
    present: Option<Version>,
    start_returned: bool,
}

/// Hops that repeat together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedSegment {
    /// Hops in the order of the chain.
    pub hops: Vec<PlannedHop>,
    /// Repetition of the hops, if any, and its limit.
    pub repeat: Option<Repeat>,
}

/// One hop of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedHop {
    /// The position that the hop leads to.
    pub place: u32,
    /// Whether the working set is returned.
    pub returned: bool,
    /// Text of the hop in the chain.
    pub text: String,
}

/// Statistics of an expansion.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PartExpansion {
    /// Number of edges read.
    pub edges: u64,
    /// Edges that passed the filters.
    pub selected: u64,
    /// Vertices served from the cache alone.
    pub cached: u64,
    /// Reason why the expansion stopped early, if it did.
    pub stopped: Option<StopReason>,
}

impl TraversalPlan {
    /// Returns the chain's segments.
    pub fn segments(&self) -> Vec<PlannedSegment> {
        let hop = |h: &PlanHop| PlannedHop {
            place: h.place,
            returned: h.returned,
            text: h.text.clone(),
        };
        let segments = self.plan.segments.iter();
        segments
            .map(|s| PlannedSegment {
                hops: s.hops.iter().map(hop).collect(),
                repeat: s.repeat,
            })
            .collect()
    }

    /// Whether the start itself is returned.
    pub fn start_returned(&self) -> bool {
        self.start_returned
    }

    /// The named start vertices; `None` if the traversal starts from all vertices of a type.
    pub fn start_vertices(&self) -> Option<Vec<VertexId>> {
        match &self.plan.start {
            PlanStart::Vertices(v) => Some(v.iter().map(|v| v.id).collect()),
            PlanStart::Type(_) => None,
        }
    }

    /// The latest version that the traversal can see.
    pub fn newest(&self) -> Version {
        match self.plan.versions {
            Versions::AsOf(v) => v,
            Versions::Range(r) => Version(r.until.0.saturating_sub(1)),
        }
    }

    /// The version as of which the traversal reads. `now` stands for the present: a traversal of the present reads as of it,
    /// and a range that has not ended ends at it.
    pub fn as_of(&self, now: Version) -> Version {
        match self.plan.versions {
            Versions::AsOf(Version::MAX) => now,
            Versions::AsOf(v) => v,
            Versions::Range(_) => self.newest().min(now),
        }
    }

    /// The version used as the present, if the traversal reads the present.
    pub(super) fn present(&self) -> Option<Version> {
        self.present
    }

    /// The versions that the traversal reads.
    pub(super) fn versions(&self) -> Versions {
        self.plan.versions
    }

    pub(super) fn start(&self) -> &PlanStart {
        &self.plan.start
    }

    /// Sets the start vertices that its names refer to, in their order.
    pub fn start_at(&mut self, starts: &[VertexId]) {
        if let PlanStart::Vertices(vertices) = &mut self.plan.start {
            for (vertex, id) in vertices.iter_mut().zip(starts) {
                vertex.id = *id;
            }
        }
    }

    /// Whether admission at a position may depend on keys.
    pub fn uses_keys(&self, place: u32) -> bool {
        self.filters(place)
            .is_ok_and(|filters| filters.iter().any(VertexFilter::uses_key))
    }

    pub(super) fn hop(&self, place: u32) -> Result<&PlanHop> {
        let hops = self.plan.segments.iter().flat_map(|s| &s.hops);
        hops.into_iter()
            .find(|h| h.place == place)
            .ok_or_else(|| Error::Invalid(format!("the traversal has no hop {place}")))
    }

    pub(super) fn filters(&self, place: u32) -> Result<&[VertexFilter]> {
        if place == 0 {
            return Ok(&self.plan.start_filters);
        }
        Ok(&self.hop(place)?.vertex_filters)
    }
}

impl Engine {
    /// Plans a traversal; if it reads the present, that is version `now`.
    pub fn plan_traversal(&self, traversal: &Traversal, now: Version) -> Result<TraversalPlan> {
        let mut plan = plan(&self.schema_now(), traversal)?;
        let asks_now = plan.versions == Versions::NOW;
        match &mut plan.versions {
            versions if asks_now => *versions = Versions::AsOf(now),
            // A range that is open at its end ends now.
            Versions::Range(range) => range.until = range.until.min(now.next()),
            Versions::AsOf(_) => {}
        }
        Ok(TraversalPlan {
            present: asks_now.then_some(now),
            start_returned: traversal.start_returned,
            plan,
        })
    }

    /// Returns this engine's start vertices, which [`Self::part_admit`] must still admit at position 0.
    pub fn part_start(&self, plan: &TraversalPlan, cancel: &dyn Cancel) -> Result<Vec<VertexId>> {
        let context = self.traversal_context(plan, &Budget::default(), cancel)?;
        self.start_vertices(plan, &context)
    }

    /// Passes this engine's edges of the vertices that the hop to `place` follows to `sink`: the index of the vertex, the edge and
    /// its version.
    pub fn part_expand(
        &self,
        plan: &TraversalPlan,
        place: u32,
        vertices: &[VertexId],
        budget: &Budget,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(usize, EdgeKey, Version),
    ) -> Result<PartExpansion> {
        let hop = plan.hop(place)?;
        let context = self.traversal_context(plan, budget, cancel)?;
        let mut out = PartExpansion::default();
        for (chunk_number, chunk) in vertices.chunks(CHUNK_VERTICES).enumerate() {
            out.stopped = context.stopper.must_stop();
            if out.stopped.is_some() {
                break;
            }
            let numbers: Vec<u32> = {
                let mut inner = context.write();
                chunk.iter().map(|id| inner.number(*id)).collect()
            };
            let expansion = context.expand(hop, &numbers)?;
            out.edges += expansion.edges;
            out.cached += expansion.cached;
            let inner = context.read();
            for n in &expansion.neighbours {
                let Some(source) = chunk.get(n.source) else {
                    continue;
                };
                out.selected += n.list.targets.len() as u64;
                for (i, target) in n.list.targets.iter().enumerate() {
                    let Some(destination) = inner.ids.get(*target as usize) else {
                        continue;
                    };
                    let key = EdgeKey {
                        source: *source,
                        edge_type: n.edge_type,
                        destination: *destination,
                    };
                    let version = n.list.versions.get(i);
                    sink(chunk_number * CHUNK_VERTICES + n.source, key, version);
                }
            }
            drop(inner);
            if expansion.stopped.is_some() {
                out.stopped = expansion.stopped;
                break;
            }
        }
        Ok(out)
    }

    /// Returns which of the vertices, reached at a position, exist at the version and satisfy its filters. Vertices of files are
    /// keyed by their present paths in `paths`, if given.
    pub fn part_admit(
        &self,
        plan: &TraversalPlan,
        place: u32,
        (vertices, paths): (&[VertexId], &HashMap<VertexId, String>),
        cancel: &dyn Cancel,
    ) -> Result<Vec<bool>> {
        let filters = plan.filters(place)?;
        if self.admits_all(plan, filters) {
            return Ok(vec![true; vertices.len()]);
        }
        let context = self.traversal_context(plan, &Budget::default(), cancel)?;
        let mut admitted = Vec::with_capacity(vertices.len());
        context
            .source
            .in_pieces(vertices, read::past_of_vertex, |_, piece| {
                for id in piece {
                    let name = |vertex: &mut Vertex| {
                        if let Some(path) = paths.get(id) {
                            vertex.key.clone_from(path);
                        }
                        Ok(())
                    };
                    admitted.push(self.admits(plan, &context, *id, filters, &name)?);
                }
                Ok(Flow::Continue(()))
            })?;
        Ok(admitted)
    }
}

/// A vertex visited at a position of the chain, for [`assemble_paths`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VisitedNode {
    /// Position in the chain.
    pub position: u32,
    /// Step that was the first to reach the vertex.
    pub step: u32,
    /// Id of the vertex.
    pub vertex: VertexId,
    /// Edges over which it was reached: position of the edge's source, the edge, and its version.
    pub parents: Vec<(u32, EdgeKey, Version)>,
}

/// Assembles paths from the visited vertices of all servers. Paths end at position `last` or, with `leaves`, wherever there
/// are no more edges to follow.
pub fn assemble_paths(visited: Vec<VisitedNode>, last: u32, leaves: bool) -> Paths {
    let mut by_vertex = HashMap::with_capacity(visited.len());
    for (i, node) in visited.iter().enumerate() {
        by_vertex.insert((node.position, node.vertex), i as u32);
    }
    let positions = visited.iter().map(|node| node.position).collect();
    let nodes = visited.into_iter().map(|node| {
        let parents = node
            .parents
            .into_iter()
            .filter_map(|(from, edge, version)| {
                let parent = *by_vertex.get(&(from, edge.source))?;
                Some(PathStep {
                    parent,
                    edge,
                    version,
                })
            });
        PathNode {
            level: node.step,
            vertex: node.vertex,
            end: false,
            parents: parents.collect(),
        }
    });
    let recorder = PathRecorder::of(nodes.collect(), positions);
    recorder.finish(if leaves {
        PathEnds::Leaves
    } else {
        PathEnds::Position(last)
    })
}
