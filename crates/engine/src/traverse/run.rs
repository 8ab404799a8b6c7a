//! Execution of a plan, hop by hop.

use super::expand::{CHUNK_VERTICES, CHUNK_VERTICES_UNBOUNDED, Expansion, ReadContext, existed_in};
use super::filter::VertexFilter;
use super::paths::{PathRecorder, Position};
use super::plan::{Plan, PlanHop, PlanSegment, PlanStart, plan};
use super::stop::Stopper;
use crate::Engine;
use crate::read;
use crate::visibility::Visibility;
use esker_model::namespace::resolve;
use esker_model::traversal::{
    Budget, Repeat, Start, StepProfile, Stop, StopReason, TravelResult, WorkingSet,
};
use esker_model::{
    Cancel, EdgeKey, Flow, Result, Traversal, Version, VersionRange, Versions, VertexId,
};

/// Runs a traversal within a budget. If it must stop early, the partial result is returned and marked as such.
pub(crate) fn run(
    engine: &Engine,
    traversal: &Traversal,
    budget: &Budget,
    cancel: &dyn Cancel,
    visibility: Option<&Visibility<'_>>,
) -> Result<TravelResult> {
    let mut plan = plan(&engine.schema_now(), traversal)?;
    if let Some(visibility) = visibility {
        present_starts(engine, visibility, traversal, &mut plan)?;
    }
    // Edges to hidden vertices do not exist for the principal, so no budget counts them.
    let limited = visibility.is_some_and(Visibility::hides);
    let edges_max = budget.edges.filter(|_| limited);
    let looked_at = Budget {
        edges: budget.edges.filter(|_| !limited),
        ..*budget
    };
    let (oldest, until) = match plan.versions {
        Versions::AsOf(v) => (v, v.next()),
        Versions::Range(r) => (r.from, r.until),
    };
    // Versions in force at the start of a range may be older than it.
    let versions = VersionRange {
        from: Version::ZERO,
        until,
    };
    let stopper = Stopper::new(&looked_at, cancel, &*engine.clock);
    engine.memtable.fit();
    // The view must be taken before the snapshot: see `adjacency`.
    let view = engine.adjacency.view();
    let source = engine.source(oldest, versions)?;
    let adjacency = &engine.adjacency;
    let mut run = Run {
        engine,
        visibility,
        context: ReadContext {
            adjacency,
            view,
            source,
            versions: plan.versions,
            stopper,
        },
        budget,
        limit: traversal.limit,
        paths: traversal.return_paths.then(PathRecorder::default),
        step: 0,
        set_bytes: 0,
        edges_max,
        edges_seen: 0,
        stopped: Vec::new(),
        profile: Vec::new(),
    };
    let sets = run.chain(&plan, traversal)?;
    let as_of = match plan.versions {
        Versions::AsOf(v) => v,
        Versions::Range(r) => r.until,
    };
    Ok(TravelResult {
        sets,
        complete: run.stopped.is_empty(),
        stopped: run.stopped,
        profile: run.profile,
        servers: Vec::new(),
        paths: run.paths.map(PathRecorder::finish),
        as_of,
    })
}

/// Resolves start vertices that are paths of files to the files that exist now.
fn present_starts(
    engine: &Engine,
    visibility: &Visibility<'_>,
    traversal: &Traversal,
    plan: &mut Plan,
) -> Result<()> {
    if let (Start::Vertices(names), PlanStart::Vertices(vertices)) =
        (&traversal.start, &mut plan.start)
    {
        *vertices = resolve(engine, visibility.principal(), &engine.schema_now(), names)?;
    }
    Ok(())
}

struct Run<'e> {
    engine: &'e Engine,
    /// Names files by their present paths, and excludes vertices that the principal may not see.
    visibility: Option<&'e Visibility<'e>>,
    context: ReadContext<'e>,
    budget: &'e Budget,
    limit: Option<u64>,
    paths: Option<PathRecorder>,
    /// Hops begun, including those of repeats.
    step: u32,
    set_bytes: u64,
    /// Maximum number of edges to follow if only visible ones count, and the number followed.
    edges_max: Option<u64>,
    edges_seen: u64,
    stopped: Vec<Stop>,
    profile: Vec<StepProfile>,
}

/// State of the vertices at one position of the chain.
#[derive(Default)]
struct VisitedSet {
    /// By dense number: 0 not reached, 1 visited, 2 refused by a filter.
    state: Vec<u8>,
    /// Visited vertices in order.
    visited: Vec<u32>,
    nodes: Position,
}

const VISITED: u8 = 1;
const REFUSED: u8 = 2;

impl VisitedSet {
    fn state(&mut self, number: u32) -> &mut u8 {
        let i = number as usize;
        if self.state.len() <= i {
            self.state.resize((i + 1).next_power_of_two(), 0);
        }
        &mut self.state[i]
    }
}

/// Whether to continue the chain.
enum Next {
    Continue,
    Stop,
}

impl Run<'_> {
    fn chain(&mut self, plan: &Plan, traversal: &Traversal) -> Result<Vec<WorkingSet>> {
        let mut sets = Vec::new();
        let (mut start, next) = self.start(plan)?;
        let last_is_start = plan.segments.is_empty();
        if last_is_start {
            self.cut_to_limit(&mut start);
        }
        let any_returned = traversal.start_returned
            || plan
                .segments
                .iter()
                .flat_map(|s| &s.hops)
                .any(|h| h.returned);
        if traversal.start_returned || (last_is_start && !any_returned) {
            sets.push(self.working_set(0, &start.visited));
        }
        if last_is_start {
            self.mark_ends(&start, false);
            return Ok(sets);
        }
        if let Next::Stop = next {
            Self::rest_of_chain(plan, 0, any_returned, &mut sets);
            return Ok(sets);
        }
        let mut from = start;
        let last = plan.segments.len() - 1;
        for (i, segment) in plan.segments.iter().enumerate() {
            let (positions, next) = self.segment(segment, from, i == last)?;
            for (hop, seen) in segment.hops.iter().zip(&positions) {
                if hop.returned {
                    sets.push(self.working_set(hop.place, &seen.visited));
                }
            }
            let Some(end) = positions.into_iter().last() else {
                break;
            };
            if i == last {
                if !any_returned {
                    let place = segment.hops.last().map_or(0, |h| h.place);
                    sets.push(self.working_set(place, &end.visited));
                }
                self.mark_ends(&end, segment.repeat.is_some());
            }
            from = end;
            if let Next::Stop = next {
                Self::rest_of_chain(plan, i + 1, any_returned, &mut sets);
                break;
            }
        }
        Ok(sets)
    }

    /// Adds empty working sets for the segments that were not begun, so that callers find each `rtn()`.
    fn rest_of_chain(plan: &Plan, first: usize, any_returned: bool, sets: &mut Vec<WorkingSet>) {
        let rest = plan.segments.iter().skip(first).flat_map(|s| &s.hops);
        let mut last = None;
        for hop in rest {
            if hop.returned {
                sets.push(WorkingSet {
                    hop: hop.place,
                    vertices: Vec::new(),
                });
            }
            last = Some(hop.place);
        }
        if let (Some(hop), false) = (last, any_returned) {
            sets.push(WorkingSet {
                hop,
                vertices: Vec::new(),
            });
        }
    }

    fn working_set(&self, hop: u32, visited: &[u32]) -> WorkingSet {
        let inner = self.context.read();
        WorkingSet {
            hop,
            vertices: visited.iter().map(|n| inner.ids[*n as usize]).collect(),
        }
    }

    fn mark_ends(&mut self, end: &VisitedSet, repeats: bool) {
        let Some(paths) = &mut self.paths else { return };
        if repeats {
            paths.end_at_leaves();
        } else {
            end.visited.iter().for_each(|n| paths.end(&end.nodes, *n));
        }
    }

    fn start(&mut self, plan: &Plan) -> Result<(VisitedSet, Next)> {
        let ids: Vec<VertexId> = match &plan.start {
            PlanStart::Vertices(vertices) => {
                let mut ids = Vec::new();
                for v in vertices {
                    // A vertex named as the start must have been inserted.
                    let record = read::vertex_record(&self.context.source, v.id)?;
                    if record.is_some() && !ids.contains(&v.id) {
                        ids.push(v.id);
                    }
                }
                ids
            }
            PlanStart::Type(t) => {
                let schema = self.engine.schema_now();
                let mut ids = Vec::new();
                let stopper = &self.context.stopper;
                // Existence at the requested version is checked when they are visited.
                let sink = &mut |id| {
                    ids.push(id);
                    if ids.len().is_multiple_of(CHUNK_VERTICES) && stopper.must_stop().is_some() {
                        return Flow::Break(());
                    }
                    Flow::Continue(())
                };
                read::scan_type_index(&self.context.source, &schema, *t, None, sink)?;
                ids
            }
        };
        let mut seen = VisitedSet::default();
        let numbers: Vec<u32> = {
            let mut inner = self.context.write();
            ids.iter().map(|id| inner.number(*id)).collect()
        };
        for chunk in numbers.chunks(CHUNK_VERTICES) {
            self.visit(&mut seen, chunk, &plan.start_filters, 0)?;
        }
        if let Some(reason) = self.must_stop() {
            self.stop(reason, seen.visited.len());
            return Ok((seen, Next::Stop));
        }
        Ok((seen, Next::Continue))
    }

    /// Runs the hops of a segment, repeatedly if it repeats; returns what each position visited.
    fn segment(
        &mut self,
        segment: &PlanSegment,
        from: VisitedSet,
        last: bool,
    ) -> Result<(Vec<VisitedSet>, Next)> {
        let mut positions: Vec<VisitedSet> =
            segment.hops.iter().map(|_| VisitedSet::default()).collect();
        let mut frontier = from.visited.clone();
        let mut first = Some(from);
        let mut rounds = 0;
        while !frontier.is_empty() {
            if let Some(Repeat { max: Some(max) }) = segment.repeat
                && rounds >= max
            {
                // The chain requested the limit, so the next segment continues from here.
                self.stopped.push(Stop {
                    reason: StopReason::Depth,
                    step: self.step + 1,
                    vertices_left: frontier.len() as u64,
                });
                break;
            }
            rounds += 1;
            for (i, hop) in segment.hops.iter().enumerate() {
                let limit = if last && i + 1 == segment.hops.len() {
                    self.limit
                } else {
                    None
                };
                let (before, at) = positions.split_at_mut(i);
                let Some(to) = at.first_mut() else { break };
                let reached = to.visited.len();
                // The first hop starts from the segment's start, and in later rounds from the end of the previous round.
                let next = match (&first, before.last()) {
                    (_, Some(source)) => self.hop(hop, &frontier, &source.nodes, to, limit)?,
                    (Some(start), None) => self.hop(hop, &frontier, &start.nodes, to, limit)?,
                    (None, None) if segment.hops.len() == 1 => {
                        self.hop_from_itself(hop, &frontier, to, limit)?
                    }
                    (None, None) => {
                        let Some((end, head)) = positions.split_last_mut() else {
                            break;
                        };
                        let Some(to) = head.first_mut() else { break };
                        self.hop(hop, &frontier, &end.nodes, to, limit)?
                    }
                };
                frontier = positions.get(i).map_or_else(Vec::new, |p| {
                    p.visited.get(reached..).unwrap_or_default().to_vec()
                });
                if let Next::Stop = next {
                    return Ok((positions, Next::Stop));
                }
            }
            first = None;
            if segment.repeat.is_none() {
                break;
            }
        }
        Ok((positions, Next::Continue))
    }

    /// Runs a repeating hop that leads from a position to itself.
    fn hop_from_itself(
        &mut self,
        hop: &PlanHop,
        frontier: &[u32],
        to: &mut VisitedSet,
        limit: Option<u64>,
    ) -> Result<Next> {
        // Nodes are only ever added, so the present ones are the sources of this round.
        let sources = std::mem::take(&mut to.nodes);
        let copy = sources.clone();
        to.nodes = sources;
        self.hop(hop, frontier, &copy, to, limit)
    }

    fn hop(
        &mut self,
        hop: &PlanHop,
        frontier: &[u32],
        sources: &Position,
        to: &mut VisitedSet,
        limit: Option<u64>,
    ) -> Result<Next> {
        self.step += 1;
        if self.budget.steps.is_some_and(|max| self.step > max) {
            self.stop(StopReason::Depth, frontier.len());
            return Ok(Next::Stop);
        }
        let started = self.engine.clock.monotonic_micros();
        let mut profile = StepProfile {
            step: self.step,
            text: hop.text.clone(),
            frontier: frontier.len() as u64,
            edges: 0,
            selected: 0,
            reached: 0,
            cached: 0,
            micros: 0,
        };
        let before = to.visited.len();
        let mut next = Next::Continue;
        let mut done = 0;
        let bounded = limit.is_some() || self.budget.edges.is_some() || self.budget.bytes.is_some();
        let chunk_vertices = if bounded || !hop.lists_suffice(self.context.versions) {
            CHUNK_VERTICES
        } else {
            CHUNK_VERTICES_UNBOUNDED
        };
        for chunk in frontier.chunks(chunk_vertices) {
            if let Some(reason) = self.must_stop() {
                self.stop(reason, frontier.len() - done);
                next = Next::Stop;
                break;
            }
            let expansion = self.context.expand(hop, chunk)?;
            let selected = self.reach(hop, chunk, &expansion, sources, to)?;
            if let Some(seen) = self.edges_shown(&expansion)? {
                profile.edges += seen;
                profile.selected += seen;
                self.edges_seen += seen;
            } else {
                profile.edges += expansion.edges;
                profile.cached += expansion.cached;
                profile.selected += selected;
            }
            done += chunk.len();
            if let Some(reason) = expansion.stopped {
                // Some vertices of this chunk were expanded, some were not, and one may be partial.
                self.stop(reason, frontier.len() - done + chunk.len());
                next = Next::Stop;
                break;
            }
            if let Some(limit) = limit
                && to.visited.len() as u64 > limit
            {
                self.cut_to_limit(to);
                next = Next::Stop;
                break;
            }
        }
        profile.reached = to.visited.len().saturating_sub(before) as u64;
        profile.micros = self.engine.clock.monotonic_micros().saturating_sub(started);
        self.profile.push(profile);
        Ok(next)
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

    /// Visits the neighbours of a chunk; returns the number of selected edges.
    fn reach(
        &mut self,
        hop: &PlanHop,
        chunk: &[u32],
        expansion: &Expansion,
        sources: &Position,
        to: &mut VisitedSet,
    ) -> Result<u64> {
        let mut fresh = Vec::new();
        let mut selected = 0;
        let known = self.context.read().ids.len();
        if known > to.state.len() {
            to.state.resize(known.next_power_of_two(), 0);
        }
        for neighbours in &expansion.neighbours {
            selected += neighbours.list.targets.len() as u64;
            for target in &neighbours.list.targets {
                let state = to.state(*target);
                if *state == 0 {
                    *state = VISITED;
                    fresh.push(*target);
                }
            }
        }
        let level = self.step;
        self.visit_marked(to, fresh, &hop.vertex_filters, level)?;
        self.record_steps(chunk, expansion, sources, to);
        Ok(selected)
    }

    fn record_steps(
        &mut self,
        chunk: &[u32],
        expansion: &Expansion,
        sources: &Position,
        to: &VisitedSet,
    ) {
        let Some(paths) = &mut self.paths else { return };
        let inner = self.context.read();
        for n in &expansion.neighbours {
            let Some(source) = chunk.get(n.source) else {
                continue;
            };
            for (i, target) in n.list.targets.iter().enumerate() {
                if to.state.get(*target as usize) != Some(&VISITED) {
                    continue;
                }
                let edge = EdgeKey {
                    source: inner.ids[*source as usize],
                    edge_type: n.edge_type,
                    destination: inner.ids[*target as usize],
                };
                let version = n.list.versions.get(i);
                paths.step((sources, *source), (&to.nodes, *target), edge, version);
            }
        }
    }

    /// Visits vertices that are new to a position, if they exist at the version and satisfy the filters.
    fn visit(
        &mut self,
        seen: &mut VisitedSet,
        numbers: &[u32],
        filters: &[VertexFilter],
        level: u32,
    ) -> Result<()> {
        let mut fresh = Vec::with_capacity(numbers.len());
        for number in numbers {
            let state = seen.state(*number);
            if *state == 0 {
                *state = VISITED;
                fresh.push(*number);
            }
        }
        self.visit_marked(seen, fresh, filters, level)
    }

    /// Checks vertices that were marked as visited: marks the refused ones, keeps the others.
    fn visit_marked(
        &mut self,
        seen: &mut VisitedSet,
        fresh: Vec<u32>,
        filters: &[VertexFilter],
        level: u32,
    ) -> Result<()> {
        let fresh = if self.needs_no_lookup(filters) {
            fresh
        } else {
            let ids: Vec<VertexId> = {
                let inner = self.context.read();
                fresh.iter().map(|n| inner.ids[*n as usize]).collect()
            };
            let mut kept = Vec::with_capacity(fresh.len());
            self.context
                .source
                .in_pieces(&ids, read::past_of_vertex, |before, piece| {
                    for (number, id) in fresh.iter().skip(before).zip(piece) {
                        if self.admits(*id, filters)? {
                            kept.push(*number);
                        } else {
                            *seen.state(*number) = REFUSED;
                        }
                    }
                    Ok(Flow::Continue(()))
                })?;
            kept
        };
        let fresh = self.visible(seen, fresh)?;
        if let Some(paths) = &mut self.paths {
            let inner = self.context.read();
            for n in &fresh {
                paths.node(&mut seen.nodes, *n, inner.ids[*n as usize], level);
            }
        }
        self.set_bytes += 5 * fresh.len() as u64;
        seen.visited.extend(fresh);
        Ok(())
    }

    /// Returns the visible vertices; marks the others as refused.
    fn visible(&self, seen: &mut VisitedSet, fresh: Vec<u32>) -> Result<Vec<u32>> {
        let Some(visibility) = self.visibility else {
            return Ok(fresh);
        };
        let mut kept = Vec::with_capacity(fresh.len());
        for number in fresh {
            let id = self.context.read().ids[number as usize];
            if visibility.sees_id(id)? {
                kept.push(number);
            } else {
                *seen.state(number) = REFUSED;
            }
        }
        Ok(kept)
    }

    /// Whether reached vertices need no look-up: present versions, no deletions ever, and no filters.
    fn needs_no_lookup(&self, filters: &[VertexFilter]) -> bool {
        filters.is_empty()
            && self.context.versions == Versions::NOW
            && self.engine.deleted.is_empty()
    }

    fn admits(&self, id: VertexId, filters: &[VertexFilter]) -> Result<bool> {
        let source = &self.context.source;
        let versions = self.context.versions;
        let look = versions != Versions::NOW || self.engine.deleted.may_contain(id);
        if look && !existed_in(source, id, versions)? {
            return Ok(false);
        }
        if filters.is_empty() {
            return Ok(true);
        }
        let as_of = match versions {
            Versions::AsOf(as_of) => as_of,
            Versions::Range(range) => Version(range.until.0.saturating_sub(1)),
        };
        let mut vertex = read::read_vertex(source, id, as_of)?;
        if let (Some(visibility), Some(vertex)) = (self.visibility, &mut vertex) {
            visibility.name(vertex)?;
        }
        Ok(vertex.is_some_and(|v| filters.iter().all(|f| f.matches(&v))))
    }

    fn cut_to_limit(&mut self, seen: &mut VisitedSet) {
        let Some(limit) = self.limit.and_then(|l| usize::try_from(l).ok()) else {
            return;
        };
        if seen.visited.len() > limit {
            let left = seen.visited.len() - limit;
            for number in seen.visited.split_off(limit) {
                *seen.state(number) = REFUSED;
            }
            self.stop(StopReason::Limit, left);
        }
    }

    fn must_stop(&self) -> Option<StopReason> {
        let bytes = self.set_bytes + self.paths.as_ref().map_or(0, PathRecorder::bytes);
        let over = self.budget.bytes.is_some_and(|max| bytes >= max);
        let many = self.edges_max.is_some_and(|max| self.edges_seen >= max);
        self.context
            .stopper
            .must_stop()
            .or(many.then_some(StopReason::Edges))
            .or(over.then_some(StopReason::Bytes))
    }

    fn stop(&mut self, reason: StopReason, left: usize) {
        self.stopped.push(Stop {
            reason,
            step: self.step.max(1),
            vertices_left: left as u64,
        });
    }
}
