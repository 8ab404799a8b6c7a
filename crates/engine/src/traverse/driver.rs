//! The order of a traversal's steps, and where it stops: one rule for an embedded database and for a cluster.
//!
//! The driver does no I/O. Its caller, which is an engine or the server that coordinates a cluster's traversal, runs
//! one [`TraversalStep`] after the other and reports a [`StepOutcome`] for each (GraphMeta, section 5.1: the steps are
//! level-synchronous). Working sets, limits and budgets follow the definitions of [`esker_model::traversal`].

use super::part::{PlannedHop, PlannedSegment, TraversalPlan};
use esker_model::traversal::{
    Budget, PATH_STEP_BYTES, Paths, ServerStep, StepProfile, Stop, StopReason, TravelResult,
    Traversal, VISITED_BYTES, WorkingSet,
};
use esker_model::{Version, VertexId};

/// One expansion of a frontier over a hop of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraversalStep {
    /// Number of the step, from 1, counted through repeats.
    pub step: u32,
    /// Position of the frontier.
    pub from: u32,
    /// Position that the hop leads to.
    pub to: u32,
    /// Whether the frontier is everything visited at `from`, and not only what the previous step was the first to reach.
    pub whole: bool,
    /// Position that the following step leads to, if this one reaches anything.
    pub next: Option<u32>,
    /// Number of vertices in the frontier.
    pub frontier: u64,
}

/// Counts of a step, and whether it ended early.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StepOutcome {
    /// Number of vertices in the frontier.
    pub frontier: u64,
    /// Number of edges read.
    pub edges: u64,
    /// Number of edges that passed the filters.
    pub selected: u64,
    /// Number of vertices that the step was the first to reach and that were admitted.
    pub reached: u64,
    /// Whether there may be vertices to continue from although `reached` is 0: their count was lost with a message.
    pub leads_on: bool,
    /// Number of vertices whose edges came from the adjacency cache.
    pub cached: u64,
    /// Duration of the step in microseconds.
    pub micros: u64,
    /// Reason why the step ended early, if it did, and the number of vertices of the frontier that were not followed.
    pub stopped: Option<(StopReason, u64)>,
}

/// Decides the steps of one traversal.
#[derive(Debug)]
pub struct TraversalDriver {
    segments: Vec<PlannedSegment>,
    start_returned: bool,
    limit: Option<u64>,
    paths: bool,
    budget: Budget,
    /// Index of the segment in progress, and of its next hop.
    segment: usize,
    hop: usize,
    /// Number of passes through the segment that have begun.
    passes: u32,
    /// Position of the next step's frontier, and number of vertices there.
    from: u32,
    frontier: u64,
    /// Number of vertices visited at the segment's end.
    at_end: u64,
    over: bool,
    /// Number of steps begun.
    step: u32,
    edges: u64,
    selected: u64,
    visited: u64,
    stopped: Vec<Stop>,
    profile: Vec<StepProfile>,
}

impl TraversalDriver {
    /// Creates the driver of a planned traversal.
    pub fn new(plan: &TraversalPlan, traversal: &Traversal, budget: &Budget) -> Self {
        Self {
            segments: plan.segments(),
            start_returned: plan.start_returned(),
            limit: traversal.limit,
            paths: traversal.return_paths,
            budget: *budget,
            segment: 0,
            hop: 0,
            passes: 0,
            from: 0,
            frontier: 0,
            at_end: 0,
            over: false,
            step: 0,
            edges: 0,
            selected: 0,
            visited: 0,
            stopped: Vec::new(),
            profile: Vec::new(),
        }
    }

    /// Reports the number of start vertices, and the reason why the traversal must stop there, if any.
    pub fn started(&mut self, vertices: u64, stop: Option<StopReason>) {
        self.frontier = vertices;
        self.visited = vertices;
        if self.segments.is_empty() {
            self.at_end = vertices;
            self.check_limit();
        }
        if let Some(reason) = stop.or_else(|| self.exceeded(&StepOutcome::default())) {
            self.stop(reason, vertices);
        }
    }

    /// Returns the next step, or `None` at the end. `stop` is the caller's reason to stop now: a cancellation or a deadline.
    pub fn next_step(&mut self, stop: Option<StopReason>) -> Option<TraversalStep> {
        while !self.over {
            if self.segment >= self.segments.len() {
                break;
            }
            if self.hop == 0 && !self.begin_pass() {
                continue;
            }
            let to = self.segments.get(self.segment)?.hops.get(self.hop)?.place;
            self.step += 1;
            if self.budget.steps.is_some_and(|max| self.step > max) {
                self.stop(StopReason::Depth, self.frontier);
                break;
            }
            if self.frontier > 0 && stop.is_none() {
                return Some(TraversalStep {
                    step: self.step,
                    from: self.from,
                    to,
                    whole: self.passes == 1 && self.hop == 0,
                    next: self.hop_after().map(|hop| hop.place),
                    frontier: self.frontier,
                });
            }
            // Without a frontier, or with a reason to stop, the step is over before it begins.
            let left = self.frontier;
            self.stepped(&StepOutcome {
                frontier: left,
                stopped: stop.filter(|_| left > 0).map(|reason| (reason, left)),
                ..StepOutcome::default()
            });
        }
        None
    }

    /// Reports what the step did that [`Self::next_step`] returned last.
    pub fn stepped(&mut self, done: &StepOutcome) {
        let Some(segment) = self.segments.get(self.segment) else {
            return;
        };
        let Some(hop) = segment.hops.get(self.hop) else {
            return;
        };
        self.profile.push(StepProfile {
            step: self.step,
            text: hop.text.clone(),
            frontier: done.frontier,
            edges: done.edges,
            selected: done.selected,
            reached: done.reached,
            cached: done.cached,
            micros: done.micros,
        });
        let exceeded = self.exceeded(done);
        let last = self.segment + 1 == self.segments.len();
        let ends = self.hop + 1 == segment.hops.len();
        self.from = hop.place;
        self.hop = if ends { 0 } else { self.hop + 1 };
        self.edges += done.edges;
        self.selected += done.selected;
        self.visited += done.reached;
        self.frontier = done.reached.max(u64::from(done.leads_on));
        if ends {
            self.at_end += self.frontier;
        }
        if let Some((reason, left)) = done.stopped.or(exceeded.map(|reason| (reason, 0))) {
            self.stop(reason, left);
        } else if last && ends {
            self.check_limit();
        }
    }

    /// Returns the budget that is exceeded once a step in progress has done this much, if any.
    pub fn exceeded(&self, done: &StepOutcome) -> Option<StopReason> {
        let edges = self.edges + done.edges;
        if self.budget.edges.is_some_and(|max| edges > max) {
            return Some(StopReason::Edges);
        }
        let path_steps = if self.paths {
            self.selected + done.selected
        } else {
            0
        };
        let bytes = VISITED_BYTES * (self.visited + done.reached) + PATH_STEP_BYTES * path_steps;
        let over = self.budget.bytes.is_some_and(|max| bytes > max);
        over.then_some(StopReason::Bytes)
    }

    /// Returns the number of edges that may still be read.
    pub fn edges_left(&self) -> Option<u64> {
        self.budget.edges.map(|max| max.saturating_sub(self.edges))
    }

    /// Whether there is no further step.
    pub fn is_over(&self) -> bool {
        self.over || self.segment >= self.segments.len()
    }

    /// Returns the segments of the chain.
    pub fn segments(&self) -> &[PlannedSegment] {
        &self.segments
    }

    /// Returns the largest number of vertices of the last working set.
    pub fn limit(&self) -> Option<u64> {
        self.limit
    }

    /// Returns the position at which the chain ends.
    pub fn last_position(&self) -> u32 {
        let hops = self.segments.last().and_then(|segment| segment.hops.last());
        hops.map_or(0, |hop| hop.place)
    }

    /// Whether the last segment has begun, so that paths may have reached the end of the chain.
    pub fn last_segment_begun(&self) -> bool {
        self.segment + 1 >= self.segments.len()
    }

    /// Whether paths end at each vertex from which no edge leads on: the chain closes with a repeat.
    pub fn ends_at_leaves(&self) -> bool {
        self.segments
            .last()
            .is_some_and(|segment| segment.repeat.is_some())
    }

    /// Reports a traversal that its servers ran without steps: where bounds on repeats stopped it, and why it stopped early.
    pub fn ran_without_steps(
        &mut self,
        stops: Vec<Stop>,
        reason: Option<StopReason>,
        profile: Vec<StepProfile>,
    ) {
        self.segment = self.segments.len();
        self.stopped.extend(stops);
        self.profile = profile;
        if let Some(reason) = reason {
            self.stop(reason, 0);
        }
    }

    /// Reports the number of vertices that the limit has cut off. The counts of the steps may not have shown that there were more,
    /// because a count may be lost with a message.
    pub fn cut(&mut self, vertices: u64) {
        if vertices > 0 && !self.over {
            self.stop(StopReason::Limit, vertices);
        }
    }

    /// Assembles the result. `set` returns the vertices visited at a position, in order.
    pub fn finish(
        self,
        as_of: Version,
        set: &mut dyn FnMut(u32) -> Vec<VertexId>,
        paths: Option<Paths>,
        servers: Vec<ServerStep>,
    ) -> TravelResult {
        let mut returned = Vec::new();
        if self.start_returned {
            returned.push(0);
        }
        let hops = self.segments.iter().flat_map(|segment| &segment.hops);
        returned.extend(hops.filter(|hop| hop.returned).map(|hop| hop.place));
        if returned.is_empty() {
            returned.push(self.last_position());
        }
        let sets = returned.into_iter().map(|hop| WorkingSet {
            hop,
            vertices: set(hop),
        });
        TravelResult {
            sets: sets.collect(),
            paths,
            complete: self.stopped.is_empty(),
            stopped: self.stopped,
            profile: self.profile,
            servers,
            as_of,
        }
    }

    /// Begins a pass through the segment. After the last pass it moves on to the next segment and returns false.
    fn begin_pass(&mut self) -> bool {
        let Some(segment) = self.segments.get(self.segment) else {
            return false;
        };
        let repeats = self.passes == 0 || segment.repeat.is_some();
        let max = segment.repeat.and_then(|repeat| repeat.max);
        let bounded = max.is_some_and(|max| self.passes >= max);
        if self.frontier > 0 && repeats && !bounded {
            self.passes += 1;
            return true;
        }
        if self.frontier > 0 && repeats {
            // The chain requested this bound, so the next segment continues from where this one led.
            self.stopped.push(Stop {
                reason: StopReason::Depth,
                step: self.step + 1,
                vertices_left: self.frontier,
            });
        }
        if let Some(last) = segment.hops.last() {
            self.from = last.place;
        }
        self.segment += 1;
        self.passes = 0;
        self.frontier = std::mem::take(&mut self.at_end);
        false
    }

    /// Returns the hop after the one in progress, if its step reaches anything.
    fn hop_after(&self) -> Option<&PlannedHop> {
        let segment = self.segments.get(self.segment)?;
        segment.hops.get(self.hop + 1).or_else(|| {
            let next = match segment.repeat {
                Some(_) => Some(segment),
                None => self.segments.get(self.segment + 1),
            };
            next.and_then(|segment| segment.hops.first())
        })
    }

    fn check_limit(&mut self) {
        if let Some(limit) = self.limit
            && self.at_end > limit
        {
            self.stop(StopReason::Limit, self.at_end - limit);
        }
    }

    fn stop(&mut self, reason: StopReason, left: u64) {
        self.over = true;
        self.stopped.push(Stop {
            reason,
            step: self.step.max(1),
            vertices_left: left,
        });
    }
}
