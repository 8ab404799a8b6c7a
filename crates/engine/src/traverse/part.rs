//! Parts of distributed traversals: the work that one of several engines does in a step.
//!
//! The positions of a plan are where working sets form: 0 is the start, `n` the target of hop `n` of the chain.

use super::expand::{CHUNK_VERTICES, ReadContext, existed_in};
use super::filter::VertexFilter;
use super::paths::PathRecorder;
use super::plan::{Plan, PlanHop, PlanStart, plan};
use super::stop::Stopper;
use crate::{Engine, read};
use esker_model::traversal::{Budget, PathNode, PathStep, Paths, Repeat, StopReason, Traversal};
use esker_model::{
    Cancel, EdgeKey, Error, Flow, Result, Version, VersionRange, Versions, VertexId,
};
use std::collections::HashMap;

/// A traversal planned for one engine of several.
#[derive(Debug)]
pub struct PartPlan {
    plan: Plan,
    /// The version used as the present, if the traversal reads the present.
    now: Option<Version>,
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

impl PartPlan {
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

    /// The version that the result is as of; for a range, its end.
    pub fn as_of(&self) -> Version {
        match self.plan.versions {
            Versions::AsOf(v) => v,
            // An unbounded range has no single version.
            Versions::Range(r) if r.until == Version::MAX => Version::MAX,
            // The end of a range is exclusive, and another server may have assigned that very version since.
            Versions::Range(_) => self.newest(),
        }
    }

    /// The latest version that the traversal can see.
    pub fn newest(&self) -> Version {
        match self.plan.versions {
            Versions::AsOf(v) => v,
            Versions::Range(r) => Version(r.until.0.saturating_sub(1)),
        }
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

    fn hop(&self, place: u32) -> Result<&PlanHop> {
        let hops = self.plan.segments.iter().flat_map(|s| &s.hops);
        hops.into_iter()
            .find(|h| h.place == place)
            .ok_or_else(|| Error::Invalid(format!("the traversal has no hop {place}")))
    }

    fn filters(&self, place: u32) -> Result<&[VertexFilter]> {
        if place == 0 {
            return Ok(&self.plan.start_filters);
        }
        Ok(&self.hop(place)?.vertex_filters)
    }
}

impl Engine {
    /// Plans a traversal; if it reads the present, that is version `now`.
    pub fn plan_part(&self, traversal: &Traversal, now: Version) -> Result<PartPlan> {
        let mut plan = plan(&self.schema_now(), traversal)?;
        let asks_now = plan.versions == Versions::NOW;
        match &mut plan.versions {
            versions if asks_now => *versions = Versions::AsOf(now),
            // A range that is open at its end ends now.
            Versions::Range(range) => range.until = range.until.min(now.next()),
            Versions::AsOf(_) => {}
        }
        Ok(PartPlan {
            now: asks_now.then_some(now),
            start_returned: traversal.start_returned,
            plan,
        })
    }

    /// Returns this engine's start vertices, which [`Self::part_admit`] must still admit at position 0.
    pub fn part_start(&self, plan: &PartPlan, cancel: &dyn Cancel) -> Result<Vec<VertexId>> {
        let context = self.part_context(plan, &Budget::default(), cancel)?;
        let mut ids = Vec::new();
        match &plan.plan.start {
            PlanStart::Vertices(vertices) => {
                for v in vertices {
                    let record = read::vertex_record(&context.source, v.id)?;
                    if record.is_some() && !ids.contains(&v.id) {
                        ids.push(v.id);
                    }
                }
            }
            PlanStart::Type(t) => {
                let sink = &mut |id| {
                    ids.push(id);
                    let look = ids.len().is_multiple_of(CHUNK_VERTICES);
                    if look && context.stopper.must_stop().is_some() {
                        return Flow::Break(());
                    }
                    Flow::Continue(())
                };
                read::scan_type_index(&context.source, &self.schema_now(), *t, None, sink)?;
            }
        }
        Ok(ids)
    }

    /// Passes this engine's edges of the vertices that the hop to `place` follows to `sink`: the index of the vertex, the edge and
    /// its version.
    pub fn part_expand(
        &self,
        plan: &PartPlan,
        place: u32,
        vertices: &[VertexId],
        budget: &Budget,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(usize, EdgeKey, Version),
    ) -> Result<PartExpansion> {
        let hop = plan.hop(place)?;
        let context = self.part_context(plan, budget, cancel)?;
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
        plan: &PartPlan,
        place: u32,
        (vertices, paths): (&[VertexId], &HashMap<VertexId, String>),
        cancel: &dyn Cancel,
    ) -> Result<Vec<bool>> {
        let filters = plan.filters(place)?;
        if plan.now.is_some() && filters.is_empty() && self.deleted.is_empty() {
            return Ok(vec![true; vertices.len()]);
        }
        let context = self.part_context(plan, &Budget::default(), cancel)?;
        let mut admitted = Vec::with_capacity(vertices.len());
        context
            .source
            .in_pieces(vertices, read::past_of_vertex, |_, piece| {
                for id in piece {
                    admitted.push(self.part_admits(
                        plan,
                        &context,
                        (*id, paths.get(id)),
                        filters,
                    )?);
                }
                Ok(Flow::Continue(()))
            })?;
        Ok(admitted)
    }

    fn part_admits(
        &self,
        plan: &PartPlan,
        context: &ReadContext<'_>,
        (id, path): (VertexId, Option<&String>),
        filters: &[VertexFilter],
    ) -> Result<bool> {
        let versions = context.versions;
        let look = plan.now.is_none() || self.deleted.may_contain(id);
        if look && !existed_in(&context.source, id, versions)? {
            // The present includes everything that is not deleted: a vertex inserted only after `now` still counts.
            let record = read::vertex_record(&context.source, id)?;
            let later = |now| record.is_some_and(|r| r.first > now);
            if !plan.now.is_some_and(later) {
                return Ok(false);
            }
        }
        if filters.is_empty() {
            return Ok(true);
        }
        let mut vertex = read::read_vertex(&context.source, id, plan.newest())?;
        if let (Some(vertex), Some(path)) = (&mut vertex, path) {
            vertex.key.clone_from(path);
        }
        Ok(vertex.is_some_and(|v| filters.iter().all(|f| f.matches(&v))))
    }

    fn part_context<'e>(
        &'e self,
        plan: &PartPlan,
        budget: &Budget,
        cancel: &'e dyn Cancel,
    ) -> Result<ReadContext<'e>> {
        let (oldest, until) = match plan.plan.versions {
            Versions::AsOf(v) => (v, v.next()),
            Versions::Range(r) => (r.from, r.until),
        };
        let versions = VersionRange {
            from: Version::ZERO,
            until,
        };
        let stopper = Stopper::new(budget, cancel, &*self.clock);
        self.memtable.fit();
        // The view must be taken before the snapshot: see `adjacency`.
        let view = self.adjacency.view();
        let source = self.source(oldest, versions)?;
        Ok(ReadContext {
            adjacency: &self.adjacency,
            view,
            source,
            versions: plan.plan.versions,
            stopper,
        })
    }
}

/// Assembles paths from visits `(position, level, vertex, parents)`, each parent a position, an edge that starts at the
/// parent, and its version. `last` is the position where paths end; with `leaves`, they end wherever there are no more edges
/// to follow.
pub fn assemble_paths(
    visited: Vec<(u32, u32, VertexId, Vec<(u32, EdgeKey, Version)>)>,
    last: u32,
    leaves: bool,
) -> Paths {
    let mut places = HashMap::with_capacity(visited.len());
    for (i, (position, _, vertex, _)) in visited.iter().enumerate() {
        places.insert((*position, *vertex), i as u32);
    }
    let mut nodes = Vec::with_capacity(visited.len());
    for (position, level, vertex, parents) in visited {
        let parents = parents.into_iter().filter_map(|(from, edge, version)| {
            let parent = *places.get(&(from, edge.source))?;
            Some(PathStep {
                parent,
                edge,
                version,
            })
        });
        nodes.push(PathNode {
            level,
            vertex,
            end: !leaves && position == last,
            parents: parents.collect(),
        });
    }
    let mut recorder = PathRecorder::of(nodes);
    if leaves {
        recorder.end_at_leaves();
    }
    recorder.finish()
}
