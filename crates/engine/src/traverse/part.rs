//! Traversals for the hosts of clusters: what one of several engines does of a step that all of them do together.
//!
//! A plan's positions are places where working sets form: 0 is the start, `n` what hop `n` of the chain leads to.

use super::expand::{CHUNK_VERTICES, Moment, existed_in};
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
    /// It asks for what is now, and this is when that is.
    now: Option<Version>,
    start_returned: bool,
}

/// Hops that repeat together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedSegment {
    /// In order.
    pub hops: Vec<PlannedHop>,
    /// Whether, and how often.
    pub repeat: Option<Repeat>,
}

/// A hop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedHop {
    /// The position that it leads to.
    pub place: u32,
    /// Whether that working set is returned.
    pub returned: bool,
    /// In the chain's own words.
    pub text: String,
}

/// What expanding vertices took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PartExpansion {
    /// Edges looked at.
    pub edges: u64,
    /// Edges that passed the filters.
    pub selected: u64,
    /// Vertices that needed nothing from the store.
    pub cached: u64,
    /// Why it stopped before its end, if it did.
    pub stopped: Option<StopReason>,
}

impl PartPlan {
    /// The chain's segments.
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

    /// The vertices it starts from, if they are named; else it starts from all of a type.
    pub fn start_vertices(&self) -> Option<Vec<VertexId>> {
        match &self.plan.start {
            PlanStart::Vertices(v) => Some(v.iter().map(|v| v.id).collect()),
            PlanStart::Type(_) => None,
        }
    }

    /// What it reads as of: the end of the range if it reads one.
    pub fn as_of(&self) -> Version {
        match self.plan.versions {
            Versions::AsOf(v) => v,
            // It was of no one time.
            Versions::Range(r) if r.until == Version::MAX => Version::MAX,
            // What a range ends before is not in it: another server may have given that very version since.
            Versions::Range(_) => self.newest(),
        }
    }

    /// The latest version that it can see.
    pub fn newest(&self) -> Version {
        match self.plan.versions {
            Versions::AsOf(v) => v,
            Versions::Range(r) => Version(r.until.0.saturating_sub(1)),
        }
    }

    /// Starts from these, which its names mean, in their order.
    pub fn start_at(&mut self, starts: &[VertexId]) {
        if let PlanStart::Vertices(vertices) = &mut self.plan.start {
            for (vertex, id) in vertices.iter_mut().zip(starts) {
                vertex.id = *id;
            }
        }
    }

    /// Whether what is admitted at a place may depend on keys.
    pub fn asks_keys(&self, place: u32) -> bool {
        self.filters(place)
            .is_ok_and(|filters| filters.iter().any(VertexFilter::asks_key))
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
    /// Plans a traversal; where it asks for what is now, that is `now`.
    pub fn plan_part(&self, traversal: &Traversal, now: Version) -> Result<PartPlan> {
        let mut plan = plan(&self.schema_now(), traversal)?;
        let asks_now = plan.versions == Versions::NOW;
        match &mut plan.versions {
            versions if asks_now => *versions = Versions::AsOf(now),
            // What is open at its end ends now.
            Versions::Range(range) => range.until = range.until.min(now.next()),
            Versions::AsOf(_) => {}
        }
        Ok(PartPlan {
            now: asks_now.then_some(now),
            start_returned: traversal.start_returned,
            plan,
        })
    }

    /// The vertices of this engine that the traversal starts from, if [`Self::part_admit`] admits them at place 0.
    pub fn part_start(&self, plan: &PartPlan, cancel: &dyn Cancel) -> Result<Vec<VertexId>> {
        let moment = self.part_moment(plan, &Budget::default(), cancel)?;
        let mut ids = Vec::new();
        match &plan.plan.start {
            PlanStart::Vertices(vertices) => {
                for v in vertices {
                    let record = read::vertex_record(&moment.source, v.id)?;
                    if record.is_some() && !ids.contains(&v.id) {
                        ids.push(v.id);
                    }
                }
            }
            PlanStart::Type(t) => {
                let sink = &mut |id| {
                    ids.push(id);
                    let look = ids.len().is_multiple_of(CHUNK_VERTICES);
                    if look && moment.stopper.must_stop().is_some() {
                        return Flow::Break(());
                    }
                    Flow::Continue(())
                };
                read::scan_type_index(&moment.source, &self.schema_now(), *t, None, sink)?;
            }
        }
        Ok(ids)
    }

    /// The edges of these vertices, as far as this engine holds them, that the hop to `place` follows: the sink gets the
    /// vertex's place among them, the edge and its version.
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
        let moment = self.part_moment(plan, budget, cancel)?;
        let mut out = PartExpansion::default();
        for (chunk_number, chunk) in vertices.chunks(CHUNK_VERTICES).enumerate() {
            out.stopped = moment.stopper.must_stop();
            if out.stopped.is_some() {
                break;
            }
            let numbers: Vec<u32> = {
                let mut inner = moment.write();
                chunk.iter().map(|id| inner.number(*id)).collect()
            };
            let expansion = moment.expand(hop, &numbers)?;
            out.edges += expansion.edges;
            out.cached += expansion.cached;
            let inner = moment.read();
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

    /// Which of these vertices, reached at that position, exist then and fulfil its filters. Those that are files are
    /// called by their present paths there, if those are given.
    pub fn part_admit(
        &self,
        plan: &PartPlan,
        place: u32,
        (vertices, paths): (&[VertexId], &HashMap<VertexId, String>),
        cancel: &dyn Cancel,
    ) -> Result<Vec<bool>> {
        let filters = plan.filters(place)?;
        if plan.now.is_some() && filters.is_empty() && self.deleted.none() {
            return Ok(vec![true; vertices.len()]);
        }
        let moment = self.part_moment(plan, &Budget::default(), cancel)?;
        let mut admitted = Vec::with_capacity(vertices.len());
        moment
            .source
            .in_pieces(vertices, read::past_of_vertex, |_, piece| {
                for id in piece {
                    admitted.push(self.part_admits(
                        plan,
                        &moment,
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
        moment: &Moment<'_>,
        (id, path): (VertexId, Option<&String>),
        filters: &[VertexFilter],
    ) -> Result<bool> {
        let versions = moment.versions;
        let look = plan.now.is_none() || self.deleted.maybe(id);
        if look && !existed_in(&moment.source, id, versions)? {
            // What is now is all but what is deleted: a vertex that was inserted only after that moment is no such one.
            let record = read::vertex_record(&moment.source, id)?;
            let later = |now| record.is_some_and(|r| r.first > now);
            if !plan.now.is_some_and(later) {
                return Ok(false);
            }
        }
        if filters.is_empty() {
            return Ok(true);
        }
        let mut vertex = read::read_vertex(&moment.source, id, plan.newest())?;
        if let (Some(vertex), Some(path)) = (&mut vertex, path) {
            vertex.key.clone_from(path);
        }
        Ok(vertex.is_some_and(|v| filters.iter().all(|f| f.holds(&v))))
    }

    fn part_moment<'e>(
        &'e self,
        plan: &PartPlan,
        budget: &Budget,
        cancel: &'e dyn Cancel,
    ) -> Result<Moment<'e>> {
        let (oldest, until) = match plan.plan.versions {
            Versions::AsOf(v) => (v, v.next()),
            Versions::Range(r) => (r.from, r.until),
        };
        let versions = VersionRange {
            from: Version::ZERO,
            until,
        };
        let stopper = Stopper::new(budget, cancel, &*self.clock);
        self.staged.fit();
        // The view before the snapshot: see `adjacency`.
        let view = self.adjacency.view();
        let source = self.source(oldest, versions)?;
        Ok(Moment {
            adjacency: &self.adjacency,
            view,
            source,
            versions: plan.plan.versions,
            stopper,
        })
    }
}

/// Whole paths from what was visited where: `(position, level, vertex, parents)`, each parent a position, an edge that
/// starts at the parent, and its version. `last` is the position where paths end, unless they end wherever nothing is left
/// to follow (`leaves`).
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
