//! Coordination of a traversal from its beginning to its result: GraphMeta's level-synchronous engine, whose steps the
//! engine's [`TraversalDriver`] decides, and the asynchronous one.

use super::super::peers::unexpected;
use super::super::{Caller, Node};
use super::assemble::Assembly;
use super::asynchronous::AsyncTraversal;
use super::step::{add, restarted};
use crate::peer::{
    ChainPosition, HopAt, RemainingBudget, StepDone, TraversalBegin, TraversalCall, TraversalId,
    TraversalReply, Visited,
};
use crate::vnode::ServerId;
use esker_engine::{StepOutcome, TraversalDriver, TraversalStep, assemble_paths};
use esker_model::object::Principal;
use esker_model::traversal::{
    Budget, Paths, ServerStep, Start, StepProfile, StopReason, Strategy, TravelResult, Traversal,
};
use esker_model::{Cancel, ErrorKind, Result, Version, VertexId};
use futures_util::future::{Either, join_all, select};
use std::pin::pin;
use std::sync::Arc;

/// Number of attempts of a traversal during which servers were restarted.
const ATTEMPTS_MAX: u32 = 8;
/// Longest pause between two attempts, in milliseconds: a server that is back is asked soon, and one that closes waits for no pause.
const PAUSE_MAX: u64 = 400;
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
        let limited = Principal::limited(principal).is_some();
        let newest = match now {
            Version::MAX if !limited => self.newest_known(),
            now => now,
        };
        let plan = self.engine.plan_traversal(traversal, now)?;
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
                id: self.new_travel(),
                driver: TraversalDriver::new(&plan, traversal, &budget),
                paths: traversal.return_paths,
                stopped: None,
                profile: Vec::new(),
                servers: Vec::new(),
            };
            let _end = EndOfTraversal {
                node: self,
                travel: run.id,
            };
            let found = run.run(traversal, (&starts, principal), now).await;
            attempt += 1;
            match found {
                Ok(visited) => {
                    let mut result = run.result(visited, plan.as_of(newest));
                    if limited {
                        // The number of edges read reveals more than the principal may see.
                        clear_work_counts(&mut result);
                    }
                    return Ok(result);
                }
                Err(e)
                    if e.kind() == ErrorKind::Unavailable
                        && attempt < ATTEMPTS_MAX
                        && !run.is_over() =>
                {
                    self.host.sleep(PAUSE_MAX.min(50 << attempt)).await;
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

/// A running traversal at its coordinator.
struct TraversalRun<'a> {
    node: &'a Arc<Node>,
    cancel: &'a dyn Cancel,
    budget: Budget,
    began: u64,
    id: TraversalId,
    driver: TraversalDriver,
    paths: bool,
    /// Reason why an asynchronous traversal stopped early, if it did, and what it did at each position.
    stopped: Option<StopReason>,
    profile: Vec<StepProfile>,
    servers: Vec<ServerStep>,
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
        self.driver.started(frontier, self.must_stop());
        if self.budget.strategy == Strategy::Async && !self.driver.is_over() {
            return self.run_async().await;
        }
        while let Some(step) = self.driver.next_step(self.must_stop()) {
            let done = self.step(step).await?;
            self.driver.stepped(&done);
        }
        self.collect().await
    }

    /// Runs one step on all servers.
    async fn step(&mut self, step: TraversalStep) -> Result<StepOutcome> {
        let began = self.node.time.monotonic_micros();
        let spent = began.saturating_sub(self.began) / 1000;
        let call = TraversalCall::Step {
            hop: HopAt {
                travel: self.id,
                step: step.step,
                from: ChainPosition(step.from),
                to: ChainPosition(step.to),
            },
            whole: step.whole,
            next: step.next.map(ChainPosition),
            left: RemainingBudget {
                millis: self.budget.millis.map(|ms| ms.saturating_sub(spent)),
                edges: self.driver.edges_left(),
            },
        };
        let Some(answers) = self.everywhere_unless_stopped(call).await? else {
            let reason = self.must_stop().unwrap_or(StopReason::Interrupted);
            return Ok(StepOutcome {
                stopped: Some((reason, step.frontier)),
                ..StepOutcome::default()
            });
        };
        let mut sum = StepDone::default();
        for (server, answer) in answers {
            let TraversalReply::Stepped(done) = answer else {
                return Err(unexpected(server));
            };
            self.servers.push(server_step(server, step.step, &done));
            sum.frontier += done.frontier;
            add(&mut sum, &done);
        }
        Ok(StepOutcome {
            frontier: sum.frontier,
            edges: sum.edges,
            selected: sum.selected,
            reached: sum.reached,
            leads_on: sum.leads_on,
            cached: sum.cached,
            micros: self.node.time.monotonic_micros().saturating_sub(began),
            stopped: sum.stopped.map(|reason| (reason, step.frontier)),
        })
    }

    /// Runs the traversal asynchronously, without steps.
    async fn run_async(&mut self) -> Result<Vec<Visited>> {
        let over = || self.must_stop().is_some();
        let AsyncTraversal { stopped, .. } = self.node.run_async(self.id, &|| !over()).await?;
        self.stopped = stopped.or_else(|| self.must_stop());
        self.collect().await
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
        let hops = self.driver.segments().iter().flat_map(|s| &s.hops);
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

    fn result(mut self, visited: Vec<Visited>, as_of: Version) -> TravelResult {
        let segments = self.driver.segments().to_vec();
        let mut assembly = Assembly {
            segments: &segments,
            visited,
        };
        if self.budget.strategy == Strategy::Async && !self.driver.is_over() {
            let stops = assembly.count_steps();
            for p in &mut self.profile {
                p.reached = assembly.set(p.step).len() as u64;
            }
            self.driver
                .ran_without_steps(stops, self.stopped, self.profile);
        }
        let last = self.driver.last_position();
        if let Some(limit) = self.driver.limit() {
            self.driver.cut(assembly.cut(last, limit));
        }
        let paths = self.paths.then(|| {
            if self.driver.last_segment_begun() {
                assemble_paths(assembly.nodes(), last, self.driver.ends_at_leaves())
            } else {
                // No path has reached the chain's end.
                Paths::default()
            }
        });
        let mut set = |position| assembly.set(position);
        self.driver.finish(as_of, &mut set, paths, self.servers)
    }

    /// Whether the traversal is cancelled or out of time.
    fn is_over(&self) -> bool {
        self.must_stop().is_some()
    }

    /// Returns the reason why the traversal must stop now, other than what its steps count.
    fn must_stop(&self) -> Option<StopReason> {
        if self.cancel.cancelled() {
            return Some(self.cancel.reason());
        }
        let elapsed = self.node.time.monotonic_micros().saturating_sub(self.began) / 1000;
        let late = self.budget.millis.is_some_and(|max| elapsed >= max);
        late.then_some(StopReason::TimeOut)
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
