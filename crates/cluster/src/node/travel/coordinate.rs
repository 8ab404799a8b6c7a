//! Coordination of a traversal from its beginning to its result: GraphMeta's level-synchronous engine, and the
//! asynchronous one.

use super::super::peers::unexpected;
use super::super::{Caller, Node};
use super::assemble::Assembly;
use super::asynchronous::AsyncTraversal;
use super::share::{PATH_BYTES, VISITED_BYTES};
use super::step::{add, restarted};
use crate::peer::{
    ChainPosition, HopAt, RemainingBudget, StepDone, TraversalBegin, TraversalCall, TraversalId,
    TraversalReply, Visited,
};
use crate::vnode::ServerId;
use esker_engine::{PlannedHop, PlannedSegment};
use esker_model::object::Principal;
use esker_model::traversal::{
    Budget, ServerStep, Start, StepProfile, Stop, StopReason, Strategy, TravelResult, Traversal,
};
use esker_model::{Cancel, Error, Result, Version, VertexId};
use futures_util::future::{Either, join_all, select};
use std::pin::pin;
use std::sync::Arc;

/// Number of attempts of a traversal during which servers were restarted.
const ATTEMPTS_MAX: u32 = 8;
/// Interval between checks for cancellation, in milliseconds.
const CANCEL_POLL: u64 = 20;

impl Node {
    /// Runs a traversal, as [`esker_model::GraphRead::travel`]. If a server is restarted meanwhile, the traversal
    /// begins again as of the same version.
    pub async fn travel(
        self: &Arc<Self>,
        traversal: &Traversal,
        budget: &Budget,
        cancel: &dyn Cancel,
        caller: impl Into<Caller<'_>>,
    ) -> Result<TravelResult> {
        self.check_serving()?;
        let Caller { seen, principal } = caller.into();
        let now = self.read_version(Version::MAX, seen);
        let plan = self.engine.plan_part(traversal, now)?;
        let starts = match &traversal.start {
            Start::Vertices(names) => self.resolve(principal, names).await?,
            Start::Type(_) => Vec::new(),
        };
        let starts: Vec<VertexId> = starts.into_iter().map(|v| v.id).collect();
        let began = self.time.monotonic_micros();
        let mut budget = *budget;
        if budget.strategy == Strategy::Async && counts(&budget, traversal) {
            // Limits on steps, edges or results need steps. (Each server counts its bytes by itself.)
            budget.strategy = Strategy::Prefetch;
        }
        let mut attempt = 0;
        loop {
            let mut run = TraversalRun {
                node: self,
                cancel,
                budget,
                began,
                segments: plan.segments(),
                limit: traversal.limit,
                paths: traversal.return_paths,
                id: self.new_travel(),
                step: 0,
                edges: 0,
                visited: 0,
                stopped: Vec::new(),
                profile: Vec::new(),
                servers: Vec::new(),
                begun: 0,
            };
            let _end = EndOfTraversal {
                node: self,
                travel: run.id,
            };
            let found = run.run(traversal, (&starts, principal), now).await;
            attempt += 1;
            match found {
                Ok(visited) => {
                    let mut result = run.result(visited, plan.start_returned());
                    result.as_of = plan.as_of();
                    if Principal::limited(principal).is_some() {
                        // The number of edges read reveals more than the principal may see.
                        clear_work_counts(&mut result);
                    }
                    return Ok(result);
                }
                Err(Error::Unavailable(_)) if attempt < ATTEMPTS_MAX && !run.is_over() => {
                    self.host.sleep(50 << attempt).await;
                    if budget.strategy == Strategy::Async {
                        budget.strategy = Strategy::Prefetch;
                    }
                }
                Err(e) => return Err(e),
            }
        }
    }

    fn new_travel(&self) -> TraversalId {
        let mut travels = self.travels();
        travels.next += 1;
        TraversalId {
            server: self.settings.id,
            incarnation: self.incarnation,
            number: travels.next,
        }
    }
}

/// Removes the numbers of edges read from a profile.
fn clear_work_counts(result: &mut TravelResult) {
    for step in &mut result.profile {
        (step.edges, step.selected, step.cached) = (0, 0, 0);
    }
    result.servers.clear();
}

/// Whether the budget can only be enforced in steps.
fn counts(budget: &Budget, traversal: &Traversal) -> bool {
    budget.steps.is_some() || budget.edges.is_some() || traversal.limit.is_some()
}

/// Whether the chain continues.
#[derive(PartialEq)]
enum ChainProgress {
    Continue,
    Stop,
}

/// A running traversal at its coordinator.
struct TraversalRun<'a> {
    node: &'a Arc<Node>,
    cancel: &'a dyn Cancel,
    budget: Budget,
    began: u64,
    segments: Vec<PlannedSegment>,
    limit: Option<u64>,
    paths: bool,
    id: TraversalId,
    /// Number of hops begun, counting repeats.
    step: u32,
    edges: u64,
    visited: u64,
    stopped: Vec<Stop>,
    profile: Vec<StepProfile>,
    servers: Vec<ServerStep>,
    /// Number of segments begun.
    begun: usize,
}

impl TraversalRun<'_> {
    async fn run(
        &mut self,
        traversal: &Traversal,
        (starts, principal): (&[VertexId], Option<&Principal>),
        now: Version,
    ) -> Result<Vec<Visited>> {
        let begin = TraversalBegin {
            travel: self.id,
            traversal: traversal.clone(),
            starts: starts.to_vec(),
            principal: principal.cloned(),
            now,
            budget: self.budget,
        };
        let start = self.everywhere(TraversalCall::Begin(begin)).await?;
        let mut frontier = 0;
        for (server, answer) in start {
            match answer {
                TraversalReply::Started(count) => frontier += count,
                _ => return Err(unexpected(server)),
            }
        }
        self.visited = frontier;
        if self.segments.is_empty() {
            return self.collect().await;
        }
        if let Some(reason) = self.must_stop() {
            self.stop(reason, frontier);
            return self.collect().await;
        }
        if self.budget.strategy == Strategy::Async {
            return self.run_async().await;
        }
        let segments = self.segments.clone();
        let mut from = ChainPosition(0);
        for (i, segment) in segments.iter().enumerate() {
            let next = segments.get(i + 1).and_then(|s| s.hops.first());
            let last = i + 1 == segments.len();
            self.begun = i + 1;
            let (reached, go_on) = self.segment(segment, next, (from, frontier), last).await?;
            from = ChainPosition(segment.hops.last().map_or(from.0, |h| h.place));
            frontier = reached;
            if go_on == ChainProgress::Stop {
                break;
            }
        }
        self.collect().await
    }

    /// Runs the hops of a segment, repeatedly if it repeats; returns the number of vertices visited at its end.
    async fn segment(
        &mut self,
        segment: &PlannedSegment,
        after: Option<&PlannedHop>,
        (start, count): (ChainPosition, u64),
        last: bool,
    ) -> Result<(u64, ChainProgress)> {
        let mut from = start;
        let mut whole = true;
        let mut frontier = count;
        let mut at_end = 0;
        let mut rounds = 0;
        let hops = segment.hops.len();
        while frontier > 0 {
            if let Some(max) = segment.repeat.and_then(|r| r.max)
                && rounds >= max
            {
                // The chain requested this limit, so the next segment continues from where this one led.
                self.stopped.push(Stop {
                    reason: StopReason::Depth,
                    step: self.step + 1,
                    vertices_left: frontier,
                });
                break;
            }
            rounds += 1;
            for (i, hop) in segment.hops.iter().enumerate() {
                let next = match segment.hops.get(i + 1) {
                    Some(next) => Some(next),
                    None if segment.repeat.is_some() => segment.hops.first(),
                    None => after,
                };
                let (reached, go_on) = self
                    .hop(
                        hop,
                        (from, whole, frontier),
                        next.map(|h| ChainPosition(h.place)),
                    )
                    .await?;
                let ends = i + 1 == hops;
                if ends {
                    at_end += reached;
                }
                from = ChainPosition(hop.place);
                whole = false;
                frontier = reached;
                if go_on == ChainProgress::Stop {
                    return Ok((at_end, ChainProgress::Stop));
                }
                if let (true, true, Some(limit)) = (last, ends, self.limit)
                    && at_end > limit
                {
                    self.stop(StopReason::Limit, at_end - limit);
                    return Ok((at_end, ChainProgress::Stop));
                }
            }
            if segment.repeat.is_none() {
                break;
            }
        }
        Ok((at_end, ChainProgress::Continue))
    }

    /// Runs one step on all servers; returns the number of vertices that it was the first to reach.
    async fn hop(
        &mut self,
        hop: &PlannedHop,
        (from, whole, frontier): (ChainPosition, bool, u64),
        next: Option<ChainPosition>,
    ) -> Result<(u64, ChainProgress)> {
        self.step += 1;
        if self.budget.steps.is_some_and(|max| self.step > max) {
            self.stop(StopReason::Depth, frontier);
            return Ok((0, ChainProgress::Stop));
        }
        let began = self.node.time.monotonic_micros();
        let mut sum = StepDone::default();
        let mut go_on = ChainProgress::Continue;
        if let Some(reason) = self.must_stop() {
            self.stop(reason, frontier);
            go_on = ChainProgress::Stop;
        } else if frontier > 0 {
            let call = TraversalCall::Step {
                hop: HopAt {
                    travel: self.id,
                    step: self.step,
                    from,
                    to: ChainPosition(hop.place),
                },
                whole,
                next,
                left: self.left(),
            };
            match self.everywhere_unless_stopped(call).await? {
                None => {
                    let reason = self.must_stop().unwrap_or(StopReason::Interrupted);
                    self.stop(reason, frontier);
                    go_on = ChainProgress::Stop;
                }
                Some(answers) => {
                    for (server, answer) in answers {
                        let TraversalReply::Stepped(done) = answer else {
                            return Err(unexpected(server));
                        };
                        self.servers.push(server_step(server, self.step, &done));
                        sum.frontier += done.frontier;
                        add(&mut sum, &done);
                    }
                    if let Some(reason) = sum.stopped {
                        self.stop(reason, frontier);
                        go_on = ChainProgress::Stop;
                    }
                }
            }
        }
        self.edges += sum.edges;
        self.visited += sum.reached;
        // After a message arrived twice, the counts may show nothing new although there are vertices to continue from.
        let reached = sum.reached.max(u64::from(sum.leads_on));
        self.profile.push(StepProfile {
            step: self.step,
            text: hop.text.clone(),
            frontier: sum.frontier,
            edges: sum.edges,
            selected: sum.selected,
            reached: sum.reached,
            cached: sum.cached,
            micros: self.node.time.monotonic_micros().saturating_sub(began),
        });
        Ok((reached, go_on))
    }

    /// Runs the traversal asynchronously, without steps.
    async fn run_async(&mut self) -> Result<Vec<Visited>> {
        let over = || self.must_stop().is_some();
        let AsyncTraversal { stopped, .. } = self.node.run_async(self.id, &|| !over()).await?;
        self.begun = self.segments.len();
        let stopped = stopped.or_else(|| self.must_stop());
        let visited = self.collect().await?;
        if let Some(reason) = stopped {
            self.stop(reason, 0);
        }
        Ok(visited)
    }

    /// Calls all servers, this one included.
    async fn everywhere(&self, call: TraversalCall) -> Result<Vec<(ServerId, TraversalReply)>> {
        let servers = self.node.map.servers().to_vec();
        let calls = servers
            .iter()
            .map(|server| self.node.travel_at(*server, call.clone()));
        let answers = join_all(calls).await;
        servers
            .iter()
            .zip(answers)
            .map(|(server, answer)| match answer? {
                TraversalReply::Unknown => Err(restarted(*server)),
                reply => Ok((*server, reply)),
            })
            .collect()
    }

    /// Calls all servers, unless the traversal is cancelled or out of time.
    async fn everywhere_unless_stopped(
        &self,
        call: TraversalCall,
    ) -> Result<Option<Vec<(ServerId, TraversalReply)>>> {
        let mut answers = pin!(self.everywhere(call));
        loop {
            match select(answers.as_mut(), self.node.host.sleep(CANCEL_POLL)).await {
                Either::Left((answers, _)) => return answers.map(Some),
                Either::Right(_) if self.is_over() => return Ok(None),
                Either::Right(_) => {}
            }
        }
    }

    /// Collects the visited vertices of all servers.
    async fn collect(&mut self) -> Result<Vec<Visited>> {
        let mut all = Vec::new();
        for server in self.node.map.servers().to_vec() {
            let mut from = 0;
            loop {
                let travel = self.id;
                let call = TraversalCall::Collect { travel, from };
                match self.node.travel_at(server, call).await? {
                    TraversalReply::Collected {
                        visited,
                        more,
                        steps,
                    } => {
                        from += visited.len() as u64;
                        all.extend(visited);
                        for (position, done) in steps {
                            self.servers.push(server_step(server, position, &done));
                            self.add_to_profile(position, &done);
                        }
                        if !more {
                            break;
                        }
                    }
                    TraversalReply::Unknown => return Err(restarted(server)),
                    _ => return Err(unexpected(server)),
                }
            }
        }
        all.sort_unstable_by_key(|v| (v.position, v.step, v.vertex));
        Ok(all)
    }

    /// Adds what an asynchronous traversal did at a position, which takes the place of the step in the profile.
    fn add_to_profile(&mut self, position: u32, done: &StepDone) {
        let hops = self.segments.iter().flat_map(|s| &s.hops);
        let text = hops.into_iter().find(|h| h.place == position);
        let text = text.map_or_else(String::new, |h| h.text.clone());
        let i = match self.profile.binary_search_by_key(&position, |p| p.step) {
            Ok(i) => i,
            Err(i) => {
                let profile = StepProfile {
                    step: position,
                    text,
                    frontier: 0,
                    edges: 0,
                    selected: 0,
                    reached: 0,
                    cached: 0,
                    micros: 0,
                };
                self.profile.insert(i, profile);
                i
            }
        };
        if let Some(p) = self.profile.get_mut(i) {
            p.frontier += done.frontier;
            p.edges += done.edges;
            p.selected += done.selected;
            p.cached += done.cached;
            p.micros += done.edges_micros + done.vertices_micros;
        }
    }

    fn result(mut self, visited: Vec<Visited>, start_returned: bool) -> TravelResult {
        let segments = std::mem::take(&mut self.segments);
        let mut assembly = Assembly {
            segments: &segments,
            start_returned,
            visited,
            begun: self.begun,
        };
        if self.budget.strategy == Strategy::Async {
            let (_, stops) = assembly.count_steps();
            self.stopped.splice(0..0, stops);
            for p in &mut self.profile {
                let here = assembly.visited.iter().filter(|v| v.position.0 == p.step);
                p.reached = here.count() as u64;
            }
        }
        if let Some(limit) = self.limit {
            let cut = assembly.cut(limit);
            let reported = self.stopped.iter().any(|s| s.reason == StopReason::Limit);
            if cut > 0 && !reported {
                self.stop(StopReason::Limit, cut);
            }
        }
        let sets = assembly.sets();
        let paths = self.paths.then(|| assembly.paths());
        TravelResult {
            sets,
            paths,
            complete: self.stopped.is_empty(),
            stopped: self.stopped,
            profile: self.profile,
            servers: self.servers,
            as_of: Version::MAX,
        }
    }

    fn left(&self) -> RemainingBudget {
        let spent = self.elapsed_millis();
        RemainingBudget {
            millis: self.budget.millis.map(|ms| ms.saturating_sub(spent)),
            edges: self.budget.edges.map(|n| n.saturating_sub(self.edges)),
        }
    }

    fn elapsed_millis(&self) -> u64 {
        self.node.time.monotonic_micros().saturating_sub(self.began) / 1000
    }

    /// Whether the traversal is cancelled or out of time.
    fn is_over(&self) -> bool {
        let late = |max| self.elapsed_millis() >= max;
        self.cancel.cancelled() || self.budget.millis.is_some_and(late)
    }

    fn must_stop(&self) -> Option<StopReason> {
        if self.cancel.cancelled() {
            return Some(self.cancel.reason());
        }
        if self.budget.edges.is_some_and(|max| self.edges >= max) {
            return Some(StopReason::Edges);
        }
        if self.is_over() {
            return Some(StopReason::TimeOut);
        }
        let paths = if self.paths {
            PATH_BYTES * self.edges
        } else {
            0
        };
        let bytes = VISITED_BYTES * self.visited + paths;
        let over = self.budget.bytes.is_some_and(|max| bytes >= max);
        over.then_some(StopReason::Bytes)
    }

    fn stop(&mut self, reason: StopReason, left: u64) {
        self.stopped.push(Stop {
            reason,
            step: self.step.max(1),
            vertices_left: left,
        });
    }
}

fn server_step(server: ServerId, step: u32, done: &StepDone) -> ServerStep {
    ServerStep {
        server: server.0,
        step,
        frontier: done.frontier,
        edges: done.edges,
        vertices_micros: done.vertices_micros,
        edges_micros: done.edges_micros,
        prefetch_micros: done.prefetch_micros,
        wait_micros: done.wait_micros,
    }
}

/// Ends the traversal on all servers when dropped.
struct EndOfTraversal<'a> {
    node: &'a Arc<Node>,
    travel: TraversalId,
}

impl Drop for EndOfTraversal<'_> {
    fn drop(&mut self) {
        let travel = self.travel;
        self.node.spawn(move |node| async move {
            let servers = node.map.servers().to_vec();
            let end = servers
                .iter()
                .map(|server| node.travel_at(*server, TraversalCall::End { travel }));
            // An unreachable server drops the traversal when it sees our next incarnation, or when its table is full.
            join_all(end).await;
        });
    }
}
