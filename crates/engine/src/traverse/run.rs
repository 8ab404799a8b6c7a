//! Execution of a traversal's steps on an embedded database.

use super::driver::{StepOutcome, TraversalDriver, TraversalStep};
use super::expand::{CHUNK_VERTICES, CHUNK_VERTICES_UNBOUNDED, Expansion, ReadContext};
use super::filter::VertexFilter;
use super::part::TraversalPlan;
use super::paths::{PathEnds, PathRecorder, PositionNodes};
use super::plan::PlanHop;
use super::visited::VisitedSet;
use crate::visibility::Visibility;
use crate::{Engine, read};
use esker_model::namespace::resolve;
use esker_model::traversal::{Budget, Start, TravelResult};
use esker_model::{Cancel, EdgeKey, Flow, Result, Traversal, Version, Vertex, VertexId};

/// Runs a traversal within a budget. If it must stop early, the partial result is returned and marked as such.
pub(crate) fn run(
    engine: &Engine,
    traversal: &Traversal,
    budget: &Budget,
    cancel: &dyn Cancel,
    visibility: Option<&Visibility<'_>>,
) -> Result<TravelResult> {
    let mut plan = engine.plan_traversal(traversal, Version::MAX)?;
    if let (Some(visibility), Start::Vertices(names)) = (visibility, &traversal.start) {
        // Paths of files name the files that exist now.
        let schema = engine.schema_now();
        let starts = resolve(engine, visibility.principal(), &schema, names)?;
        plan.start_at(&starts.iter().map(|start| start.id).collect::<Vec<_>>());
    }
    // Edges to hidden vertices do not exist for the principal, so the reader does not count them.
    let limited = visibility.is_some_and(Visibility::hides);
    let counted_by_reader = Budget {
        edges: budget.edges.filter(|_| !limited),
        ..*budget
    };
    let context = engine.traversal_context(&plan, &counted_by_reader, cancel)?;
    // The newest version would tell a limited principal that something hidden has changed.
    let newest = if limited {
        Version::MAX
    } else {
        engine.newest_stored()
    };
    let mut driver = TraversalDriver::new(&plan, traversal, budget);
    let mut run = Run {
        engine,
        plan: &plan,
        visibility,
        context,
        bounded: budget.edges.is_some() || budget.bytes.is_some(),
        paths: traversal.return_paths.then(PathRecorder::default),
        positions: Vec::new(),
    };
    let start = run.start()?;
    driver.started(start, run.context.stopper.must_stop());
    while let Some(step) = driver.next_step(run.context.stopper.must_stop()) {
        let done = run.step(&driver, step)?;
        driver.stepped(&done);
    }
    Ok(run.finish(driver, plan.as_of(newest)))
}

/// A traversal in progress.
struct Run<'e> {
    engine: &'e Engine,
    plan: &'e TraversalPlan,
    /// Names files by their present paths, and excludes vertices that the principal may not see.
    visibility: Option<&'e Visibility<'e>>,
    context: ReadContext<'e>,
    /// Whether a budget may be exceeded within a step.
    bounded: bool,
    paths: Option<PathRecorder>,
    /// By position in the chain: the visited vertices, and the nodes of paths.
    positions: Vec<(VisitedSet, PositionNodes)>,
}

impl Run<'_> {
    fn visited(&self, position: u32) -> Option<&VisitedSet> {
        self.positions.get(position as usize).map(|(set, _)| set)
    }

    fn at(&mut self, position: u32) -> &mut (VisitedSet, PositionNodes) {
        let position = position as usize;
        if self.positions.len() <= position {
            self.positions.resize_with(position + 1, Default::default);
        }
        &mut self.positions[position]
    }

    /// Visits the start vertices; returns their number.
    fn start(&mut self) -> Result<u64> {
        let ids = self.engine.start_vertices(self.plan, &self.context)?;
        let (numbers, cached) = {
            let mut inner = self.context.write();
            let numbers: Vec<u32> = ids.iter().map(|id| inner.number(*id)).collect();
            (numbers, inner.ids.len())
        };
        let mut started = 0;
        for chunk in numbers.chunks(CHUNK_VERTICES) {
            let mut fresh = Vec::with_capacity(chunk.len());
            self.at(0).0.mark(chunk, cached, &mut fresh);
            started += self.admit(0, fresh, 0)?;
        }
        Ok(started)
    }

    /// Runs one step, chunk by chunk of its frontier.
    fn step(&mut self, driver: &TraversalDriver, step: TraversalStep) -> Result<StepOutcome> {
        let clock = &self.engine.clock;
        let began = clock.monotonic_micros();
        let plan = self.plan;
        let hop = plan.hop(step.to)?;
        let frontier = self.frontier(step);
        let mut done = StepOutcome {
            frontier: frontier.len() as u64,
            ..StepOutcome::default()
        };
        let chunk_vertices = if self.bounded || !hop.lists_suffice(self.context.versions) {
            CHUNK_VERTICES
        } else {
            CHUNK_VERTICES_UNBOUNDED
        };
        let mut left = frontier.len();
        for chunk in frontier.chunks(chunk_vertices) {
            let stop = self.context.stopper.must_stop();
            if let Some(reason) = stop.or_else(|| driver.exceeded(&done)) {
                done.stopped = Some((reason, left as u64));
                break;
            }
            let expansion = self.context.expand(hop, chunk)?;
            let (selected, reached) = self.reach(step, hop, chunk, &expansion)?;
            done.reached += reached;
            if let Some(shown) = self.edges_shown(&expansion)? {
                done.edges += shown;
                done.selected += shown;
            } else {
                done.edges += expansion.edges;
                done.cached += expansion.cached;
                done.selected += selected;
            }
            if let Some(reason) = expansion.stopped {
                // Some vertices of this chunk were expanded, some were not, and one may be partial.
                done.stopped = Some((reason, left as u64));
                break;
            }
            left -= chunk.len();
        }
        done.micros = clock.monotonic_micros().saturating_sub(began);
        Ok(done)
    }

    fn frontier(&mut self, step: TraversalStep) -> Vec<u32> {
        let from = self.visited(step.from);
        let frontier = if step.whole {
            from.map(VisitedSet::visited)
        } else {
            from.map(|set| set.reached_by(step.step - 1))
        };
        let frontier = frontier.unwrap_or_default().to_vec();
        if step.whole {
            // The chain does not return to the positions of earlier segments.
            let earlier = self.positions.iter_mut().take(step.from as usize + 1);
            earlier.for_each(|(set, _)| set.forget_marks());
        }
        frontier
    }

    /// Counts the edges that lead to visible vertices, if any may be hidden from the principal.
    fn edges_shown(&self, expansion: &Expansion) -> Result<Option<u64>> {
        let Some(visibility) = self.visibility.filter(|visibility| visibility.hides()) else {
            return Ok(None);
        };
        let mut shown = 0;
        for target in expansion.neighbours.iter().flat_map(|n| &n.list.targets) {
            let id = self.context.read().ids[*target as usize];
            shown += u64::from(visibility.sees_id(id)?);
        }
        Ok(Some(shown))
    }

    /// Visits the neighbours of a chunk; returns the number of selected edges, and of vertices that are new at the position.
    fn reach(
        &mut self,
        step: TraversalStep,
        hop: &PlanHop,
        chunk: &[u32],
        expansion: &Expansion,
    ) -> Result<(u64, u64)> {
        let cached = self.context.read().ids.len();
        let mut fresh = Vec::new();
        let mut selected = 0;
        let to = &mut self.at(step.to).0;
        for neighbours in &expansion.neighbours {
            selected += neighbours.list.targets.len() as u64;
            to.mark(&neighbours.list.targets, cached, &mut fresh);
        }
        let reached = self.admit(hop.place, fresh, step.step)?;
        self.record_steps(step, chunk, expansion);
        Ok((selected, reached))
    }

    fn record_steps(&mut self, step: TraversalStep, chunk: &[u32], expansion: &Expansion) {
        let Some(paths) = &mut self.paths else { return };
        let at = |position: u32| self.positions.get(position as usize);
        let (Some((_, sources)), Some((to, targets))) = (at(step.from), at(step.to)) else {
            return;
        };
        let inner = self.context.read();
        for n in &expansion.neighbours {
            let Some(source) = chunk.get(n.source) else {
                continue;
            };
            for (i, target) in n.list.targets.iter().enumerate() {
                if !to.is_visited(*target) {
                    continue;
                }
                let edge = EdgeKey {
                    source: inner.ids[*source as usize],
                    edge_type: n.edge_type,
                    destination: inner.ids[*target as usize],
                };
                let version = n.list.versions.get(i);
                paths.step((sources, *source), (targets, *target), edge, version);
            }
        }
    }

    /// Adds those of the vertices that are new at a position which exist, satisfy the filters and are visible; refuses the
    /// others. Returns the number of added ones.
    fn admit(&mut self, position: u32, mut fresh: Vec<u32>, step: u32) -> Result<u64> {
        let plan = self.plan;
        let filters = plan.filters(position)?;
        let mut refused = Vec::new();
        if !self.engine.admits_all(plan, filters) {
            fresh = self.matching(&fresh, filters, &mut refused)?;
        }
        if self.visibility.is_some() {
            fresh = self.visible(fresh, &mut refused)?;
        }
        let added = fresh.len() as u64;
        let (set, nodes) = self.at(position);
        refused.into_iter().for_each(|number| set.refuse(number));
        set.add(step, &fresh);
        let mut nodes = std::mem::take(nodes);
        if let Some(paths) = &mut self.paths {
            let inner = self.context.read();
            for n in &fresh {
                paths.node((position, &mut nodes), *n, inner.ids[*n as usize], step);
            }
        }
        self.at(position).1 = nodes;
        Ok(added)
    }

    /// Returns the vertices that exist at the traversal's version and satisfy the filters.
    fn matching(
        &self,
        fresh: &[u32],
        filters: &[VertexFilter],
        refused: &mut Vec<u32>,
    ) -> Result<Vec<u32>> {
        let ids: Vec<VertexId> = {
            let inner = self.context.read();
            fresh.iter().map(|n| inner.ids[*n as usize]).collect()
        };
        let name = |vertex: &mut Vertex| match self.visibility {
            Some(visibility) => visibility.name(vertex),
            None => Ok(()),
        };
        let mut kept = Vec::with_capacity(fresh.len());
        let (engine, plan, context) = (self.engine, self.plan, &self.context);
        let source = &context.source;
        source.in_pieces(&ids, read::past_of_vertex, |before, piece| {
            for (number, id) in fresh.iter().skip(before).zip(piece) {
                if engine.admits(plan, context, *id, filters, &name)? {
                    kept.push(*number);
                } else {
                    refused.push(*number);
                }
            }
            Ok(Flow::Continue(()))
        })?;
        Ok(kept)
    }

    /// Returns the vertices that the principal may see.
    fn visible(&self, fresh: Vec<u32>, refused: &mut Vec<u32>) -> Result<Vec<u32>> {
        let Some(visibility) = self.visibility else {
            return Ok(fresh);
        };
        let mut kept = Vec::with_capacity(fresh.len());
        for number in fresh {
            let id = self.context.read().ids[number as usize];
            if visibility.sees_id(id)? {
                kept.push(number);
            } else {
                refused.push(number);
            }
        }
        Ok(kept)
    }

    /// Assembles the result.
    fn finish(mut self, driver: TraversalDriver, as_of: Version) -> TravelResult {
        let last = driver.last_position();
        if let Some(limit) = driver.limit() {
            self.sort(last);
            let (set, nodes) = self.at(last);
            let cut = set.cut(usize::try_from(limit).unwrap_or(usize::MAX));
            let nodes = std::mem::take(nodes);
            if let Some(paths) = &mut self.paths {
                cut.iter().for_each(|number| paths.remove(&nodes, *number));
            }
        }
        let paths = self.paths.take().map(|paths| {
            if !driver.last_segment_begun() {
                // No path has reached the chain's end.
                return esker_model::traversal::Paths::default();
            }
            paths.finish(if driver.ends_at_leaves() {
                PathEnds::Leaves
            } else {
                PathEnds::Position(last)
            })
        });
        let mut set = |position: u32| {
            self.sort(position);
            let inner = self.context.read();
            let visited = self.visited(position).map(VisitedSet::visited);
            let visited = visited.unwrap_or_default().iter();
            visited.map(|n| inner.ids[*n as usize]).collect()
        };
        driver.finish(as_of, &mut set, paths, Vec::new())
    }

    /// Sorts the vertices of a position: by step, then by id.
    fn sort(&mut self, position: u32) {
        let Some((set, _)) = self.positions.get_mut(position as usize) else {
            return;
        };
        let inner = self.context.read();
        set.sort_steps(|number| u128::from_be_bytes(inner.ids[number as usize].0));
    }
}
