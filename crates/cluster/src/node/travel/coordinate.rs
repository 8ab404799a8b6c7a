//! A traversal from its beginning to its result: GraphMeta's level-synchronous engine, with the asynchronous one beside it.

use super::super::peers::unexpected;
use super::super::{Caller, Node};
use super::assemble::Assembly;
use super::flow::Flow;
use super::step::{add, forgotten};
use super::walk::{PATH_BYTES, VISITED_BYTES};
use crate::peer::{
    HopAt, Left, StepDone, TravelBegin, TravelCall, TravelId, TravelPlace as Place, TravelReply,
    Visited,
};
use crate::vnode::ServerId;
use esker_engine::{PlannedHop, PlannedSegment};
use esker_model::object::Asker;
use esker_model::traversal::{
    Budget, ServerStep, Start, StepProfile, Stop, StopReason, Strategy, TravelResult, Traversal,
};
use esker_model::{Cancel, Error, Result, Version, VertexId};
use futures_util::future::{Either, join_all, select};
use std::pin::pin;
use std::sync::Arc;

/// How often a traversal is begun anew because a server was.
const ATTEMPTS_MAX: u32 = 8;
/// Between two looks at whether the caller still wants it, in milliseconds.
const LOOK: u64 = 20;

impl Node {
    /// As [`esker_model::GraphRead::travel`]. A server that is started anew meanwhile makes it begin again, as of the same
    /// moment.
    pub async fn travel(
        self: &Arc<Self>,
        traversal: &Traversal,
        budget: &Budget,
        cancel: &dyn Cancel,
        caller: impl Into<Caller<'_>>,
    ) -> Result<TravelResult> {
        self.check_serving()?;
        let Caller { seen, asker } = caller.into();
        let now = self.moment(Version::MAX, seen);
        let plan = self.engine.plan_part(traversal, now)?;
        let starts = match &traversal.start {
            Start::Vertices(names) => self.resolve(asker, names).await?,
            Start::Type(_) => Vec::new(),
        };
        let starts: Vec<VertexId> = starts.into_iter().map(|v| v.id).collect();
        let began = self.time.monotonic_micros();
        let mut budget = *budget;
        if budget.strategy == Strategy::Async && counts(&budget, traversal) {
            // What counts steps, edges or results needs steps. (Bytes each server counts for itself.)
            budget.strategy = Strategy::Prefetch;
        }
        let mut attempt = 0;
        loop {
            let mut run = Run {
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
            let _end = EndOfTravel {
                node: self,
                travel: run.id,
            };
            let found = run.run(traversal, (&starts, asker), now).await;
            attempt += 1;
            match found {
                Ok(visited) => {
                    let mut result = run.result(visited, plan.start_returned());
                    result.as_of = plan.as_of();
                    if Asker::limited(asker).is_some() {
                        // What was looked at is more than what the asker sees.
                        forget_work(&mut result);
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

    fn new_travel(&self) -> TravelId {
        let mut travels = self.travels();
        travels.next += 1;
        TravelId {
            server: self.settings.id,
            incarnation: self.incarnation,
            number: travels.next,
        }
    }
}

/// Takes out of a profile how many edges were looked at.
fn forget_work(result: &mut TravelResult) {
    for step in &mut result.profile {
        (step.edges, step.selected, step.cached) = (0, 0, 0);
    }
    result.servers.clear();
}

/// Whether a budget can only be kept where there are steps.
fn counts(budget: &Budget, traversal: &Traversal) -> bool {
    budget.steps.is_some() || budget.edges.is_some() || traversal.limit.is_some()
}

/// Whether to go on with the chain.
#[derive(PartialEq)]
enum Next {
    GoOn,
    Stop,
}

/// A traversal under way at its coordinator.
struct Run<'a> {
    node: &'a Arc<Node>,
    cancel: &'a dyn Cancel,
    budget: Budget,
    began: u64,
    segments: Vec<PlannedSegment>,
    limit: Option<u64>,
    paths: bool,
    id: TravelId,
    /// Hops begun, through repeats.
    step: u32,
    edges: u64,
    visited: u64,
    stopped: Vec<Stop>,
    profile: Vec<StepProfile>,
    servers: Vec<ServerStep>,
    /// Segments begun.
    begun: usize,
}

impl Run<'_> {
    async fn run(
        &mut self,
        traversal: &Traversal,
        (starts, asker): (&[VertexId], Option<&Asker>),
        now: Version,
    ) -> Result<Vec<Visited>> {
        let begin = TravelBegin {
            travel: self.id,
            traversal: traversal.clone(),
            starts: starts.to_vec(),
            asker: asker.cloned(),
            now,
            budget: self.budget,
        };
        let start = self.everywhere(TravelCall::Begin(begin)).await?;
        let mut frontier = 0;
        for (server, answer) in start {
            match answer {
                TravelReply::Started(count) => frontier += count,
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
            return self.flow().await;
        }
        let segments = self.segments.clone();
        let mut from = Place(0);
        for (i, segment) in segments.iter().enumerate() {
            let next = segments.get(i + 1).and_then(|s| s.hops.first());
            let last = i + 1 == segments.len();
            self.begun = i + 1;
            let (reached, go_on) = self.segment(segment, next, (from, frontier), last).await?;
            from = Place(segment.hops.last().map_or(from.0, |h| h.place));
            frontier = reached;
            if go_on == Next::Stop {
                break;
            }
        }
        self.collect().await
    }

    /// Runs the hops of a segment, again and again if it repeats; how many vertices were visited at its end.
    async fn segment(
        &mut self,
        segment: &PlannedSegment,
        after: Option<&PlannedHop>,
        (start, count): (Place, u64),
        last: bool,
    ) -> Result<(u64, Next)> {
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
                // The chain asked for it, so what comes behind the segment goes on from where this led.
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
                    .hop(hop, (from, whole, frontier), next.map(|h| Place(h.place)))
                    .await?;
                let ends = i + 1 == hops;
                if ends {
                    at_end += reached;
                }
                from = Place(hop.place);
                whole = false;
                frontier = reached;
                if go_on == Next::Stop {
                    return Ok((at_end, Next::Stop));
                }
                if let (true, true, Some(limit)) = (last, ends, self.limit)
                    && at_end > limit
                {
                    self.stop(StopReason::Limit, at_end - limit);
                    return Ok((at_end, Next::Stop));
                }
            }
            if segment.repeat.is_none() {
                break;
            }
        }
        Ok((at_end, Next::GoOn))
    }

    /// One step on all servers; how many vertices it was the first to reach.
    async fn hop(
        &mut self,
        hop: &PlannedHop,
        (from, whole, frontier): (Place, bool, u64),
        next: Option<Place>,
    ) -> Result<(u64, Next)> {
        self.step += 1;
        if self.budget.steps.is_some_and(|max| self.step > max) {
            self.stop(StopReason::Depth, frontier);
            return Ok((0, Next::Stop));
        }
        let began = self.node.time.monotonic_micros();
        let mut sum = StepDone::default();
        let mut go_on = Next::GoOn;
        if let Some(reason) = self.must_stop() {
            self.stop(reason, frontier);
            go_on = Next::Stop;
        } else if frontier > 0 {
            let call = TravelCall::Step {
                hop: HopAt {
                    travel: self.id,
                    step: self.step,
                    from,
                    to: Place(hop.place),
                },
                whole,
                next,
                left: self.left(),
            };
            match self.everywhere_unless_stopped(call).await? {
                None => {
                    let reason = self.must_stop().unwrap_or(StopReason::Interrupted);
                    self.stop(reason, frontier);
                    go_on = Next::Stop;
                }
                Some(answers) => {
                    for (server, answer) in answers {
                        let TravelReply::Stepped(done) = answer else {
                            return Err(unexpected(server));
                        };
                        self.servers.push(server_step(server, self.step, &done));
                        sum.frontier += done.frontier;
                        add(&mut sum, &done);
                    }
                    if let Some(reason) = sum.stopped {
                        self.stop(reason, frontier);
                        go_on = Next::Stop;
                    }
                }
            }
        }
        self.edges += sum.edges;
        self.visited += sum.reached;
        // A message that came twice may have left nothing new to be told of, and still something to go on from.
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

    /// All at once, without steps.
    async fn flow(&mut self) -> Result<Vec<Visited>> {
        let over = || self.must_stop().is_some();
        let Flow { stopped, .. } = self.node.flow(self.id, &|| !over()).await?;
        self.begun = self.segments.len();
        let stopped = stopped.or_else(|| self.must_stop());
        let visited = self.collect().await?;
        if let Some(reason) = stopped {
            self.stop(reason, 0);
        }
        Ok(visited)
    }

    /// Asks all servers, this one included.
    async fn everywhere(&self, call: TravelCall) -> Result<Vec<(ServerId, TravelReply)>> {
        let servers = self.node.map.servers().to_vec();
        let calls = servers
            .iter()
            .map(|server| self.node.travel_at(*server, call.clone()));
        let answers = join_all(calls).await;
        servers
            .iter()
            .zip(answers)
            .map(|(server, answer)| match answer? {
                TravelReply::Unknown => Err(forgotten(*server)),
                reply => Ok((*server, reply)),
            })
            .collect()
    }

    /// The same, unless the caller or the clock stops it.
    async fn everywhere_unless_stopped(
        &self,
        call: TravelCall,
    ) -> Result<Option<Vec<(ServerId, TravelReply)>>> {
        let mut answers = pin!(self.everywhere(call));
        loop {
            match select(answers.as_mut(), self.node.host.sleep(LOOK)).await {
                Either::Left((answers, _)) => return answers.map(Some),
                Either::Right(_) if self.is_over() => return Ok(None),
                Either::Right(_) => {}
            }
        }
    }

    /// What was visited, on all servers.
    async fn collect(&mut self) -> Result<Vec<Visited>> {
        let mut all = Vec::new();
        for server in self.node.map.servers().to_vec() {
            let mut from = 0;
            loop {
                let travel = self.id;
                let call = TravelCall::Collect { travel, from };
                match self.node.travel_at(server, call).await? {
                    TravelReply::Collected {
                        visited,
                        more,
                        steps,
                    } => {
                        from += visited.len() as u64;
                        all.extend(visited);
                        for (place, done) in steps {
                            self.servers.push(server_step(server, place, &done));
                            self.add_to_profile(place, &done);
                        }
                        if !more {
                            break;
                        }
                    }
                    TravelReply::Unknown => return Err(forgotten(server)),
                    _ => return Err(unexpected(server)),
                }
            }
        }
        all.sort_unstable_by_key(|v| (v.place, v.step, v.vertex));
        Ok(all)
    }

    /// What an asynchronous traversal did at a place, which stands for the step there.
    fn add_to_profile(&mut self, place: u32, done: &StepDone) {
        let hops = self.segments.iter().flat_map(|s| &s.hops);
        let text = hops.into_iter().find(|h| h.place == place);
        let text = text.map_or_else(String::new, |h| h.text.clone());
        let i = match self.profile.binary_search_by_key(&place, |p| p.step) {
            Ok(i) => i,
            Err(i) => {
                let profile = StepProfile {
                    step: place,
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
                let here = assembly.visited.iter().filter(|v| v.place.0 == p.step);
                p.reached = here.count() as u64;
            }
        }
        if let Some(limit) = self.limit {
            let cut = assembly.cut(limit);
            let told = self.stopped.iter().any(|s| s.reason == StopReason::Limit);
            if cut > 0 && !told {
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

    fn left(&self) -> Left {
        let spent = self.elapsed_millis();
        Left {
            millis: self.budget.millis.map(|ms| ms.saturating_sub(spent)),
            edges: self.budget.edges.map(|n| n.saturating_sub(self.edges)),
        }
    }

    fn elapsed_millis(&self) -> u64 {
        self.node.time.monotonic_micros().saturating_sub(self.began) / 1000
    }

    /// Whether the caller or the clock says so.
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

/// However a traversal ends, all servers are told.
struct EndOfTravel<'a> {
    node: &'a Arc<Node>,
    travel: TravelId,
}

impl Drop for EndOfTravel<'_> {
    fn drop(&mut self) {
        let travel = self.travel;
        self.node.spawn(move |node| async move {
            let servers = node.map.servers().to_vec();
            let end = servers
                .iter()
                .map(|server| node.travel_at(*server, TravelCall::End { travel }));
            // Who cannot be told drops it when this server begins another after being started anew, or is full of them.
            join_all(end).await;
        });
    }
}
