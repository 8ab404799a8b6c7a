//! Asynchronous traversals (GraphTrek: execution merging, and slower steps first).
//!
//! Reached vertices wait in a queue by step; vertices of one step and position are expanded together, the slowest
//! step first. If a vertex turns out to be reached in fewer steps than known before, its successors are examined
//! again, so that the result equals that of steps. Steps count from the beginning of a segment of the chain.
//!
//! **Termination** is detected by credit (Mattern, 1989): all work in progress has some, and completed work returns
//! it. Once the coordinator has all of it again, no work is in progress.

use super::super::hashed::Set;
use super::super::{BoxFuture, Node};
use super::share::TraversalShare;
use super::step::{Expanded, add, restarted};
use crate::peer::{
    ChainPosition, HopAt, Reached, RemainingBudget, TraversalCall, TraversalId, TraversalReply,
};
use crate::vnode::ServerId;
use esker_model::traversal::{Repeat, StopReason};
use esker_model::{Error, Result, VertexId};
use futures_util::future::join_all;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Credit that the coordinator issues at a time.
pub(super) const CREDIT: u64 = 1 << 32;
/// Largest number of vertices expanded together.
const MERGE_MAX: usize = 1 << 12;

/// Asynchronous traversals by id, at their coordinator.
pub(super) type AsyncTraversals = BTreeMap<TraversalId, AsyncTraversal>;

/// An asynchronous traversal, at its coordinator.
#[derive(Debug, Default)]
pub(super) struct AsyncTraversal {
    /// Credit that was issued and has not come back.
    pub(super) outstanding: u64,
    pub(super) stopped: Option<StopReason>,
    pub(super) failed: Option<String>,
    arrived: Set<(ServerId, u64)>,
}

/// A continuation of the chain from a position.
#[derive(Debug, Clone, Copy)]
struct Continuation {
    to: ChainPosition,
    /// Whether a segment begins there, with steps counted from the start.
    begins: bool,
}

impl TraversalShare {
    /// Continuations of the chain from a position that was reached by that step of its segment.
    fn continuations(&self, position: ChainPosition, step: u32) -> Vec<Continuation> {
        let segments = self.plan.segments();
        let mut continuations = Vec::new();
        for (i, segment) in segments.iter().enumerate() {
            let first = segment.hops.first().map(|h| h.place);
            let last = segment.hops.last().map(|h| h.place);
            let begins = |to| Continuation {
                to: ChainPosition(to),
                begins: true,
            };
            if i == 0 && position.0 == 0 {
                continuations.extend(first.map(begins));
                return continuations;
            }
            if Some(position.0) == last {
                if let (Some(repeat), Some(first)) = (segment.repeat, first)
                    && may_repeat(repeat, step, segment.hops.len())
                {
                    continuations.push(Continuation {
                        to: ChainPosition(first),
                        begins: false,
                    });
                }
                let next = segments.get(i + 1).and_then(|s| s.hops.first());
                continuations.extend(next.map(|h| begins(h.place)));
                return continuations;
            }
            if segment.hops.iter().any(|h| h.place == position.0) {
                return vec![Continuation {
                    to: ChainPosition(position.0 + 1),
                    begins: false,
                }];
            }
        }
        continuations
    }

    /// Records an error, which ends the traversal.
    fn record_failure(&self, done: Result<()>) {
        if let Err(e) = done {
            self.state()
                .asynchronous
                .failed
                .get_or_insert(e.to_string());
        }
    }

    /// Takes the next work from the queue.
    fn next_work(&self) -> Work {
        let mut state = self.state();
        if state.asynchronous.working {
            return Work::Busy;
        }
        let most = self.begin.budget.bytes;
        if most.is_some_and(|most| state.bytes() >= most) {
            state.asynchronous.stopped.get_or_insert(StopReason::Bytes);
        }
        let over = state.asynchronous.stopped.is_some() || state.asynchronous.failed.is_some();
        if over || esker_model::Cancel::cancelled(self) {
            state.asynchronous.queue.clear();
        }
        if let Some((step, position, vertices)) = state.take_batch(MERGE_MAX) {
            state.asynchronous.working = true;
            return Work::Expand(step, position, vertices);
        }
        if state.asynchronous.arriving > 0 {
            return Work::Busy;
        }
        Work::None(state.credit_back(self.begin.travel).map(Box::new))
    }

    /// Whether a vertex may be reached by several numbers of steps: the order of the result, paths and bounds on repeats depend on
    /// the lowest.
    fn steps_vary(&self) -> bool {
        self.plan.segments().iter().any(|s| s.repeat.is_some())
    }
}

/// Next work of a server in an asynchronous traversal.
enum Work {
    /// Another task is working, or will be.
    Busy,
    /// No work is left: credit goes back.
    None(Option<Box<TraversalCall>>),
    /// Vertices to expand.
    Expand(u32, ChainPosition, Vec<VertexId>),
}

fn may_repeat(repeat: Repeat, step: u32, hops: usize) -> bool {
    let rounds = step / u32::try_from(hops.max(1)).unwrap_or(u32::MAX);
    repeat.max.is_none_or(|max| rounds < max)
}

impl Node {
    /// Handles vertices that were reached and whose home is here; credit comes with them.
    pub(super) fn continue_from(
        self: &Arc<Self>,
        share: &Arc<TraversalShare>,
        message: (ServerId, u64),
        hop: HopAt,
        reached: Vec<Reached>,
        credit: u64,
    ) {
        {
            let mut state = share.state();
            if !state.asynchronous.arrived.insert(message) {
                return;
            }
            state.asynchronous.credit += credit;
            // Another task must not return the credit meanwhile.
            state.asynchronous.arriving += 1;
        }
        let share = Arc::clone(share);
        self.spawn(move |node| async move {
            let arrived = node.record_reached(&share, hop, &reached).await;
            share.record_failure(arrived);
            share.state().asynchronous.arriving -= 1;
            node.drain_queue(&share).await;
        });
    }

    /// Records reached vertices, and queues those to continue from.
    async fn record_reached(
        self: &Arc<Self>,
        share: &Arc<TraversalShare>,
        hop: HopAt,
        reached: &[Reached],
    ) -> Result<()> {
        if hop.to == ChainPosition(0) {
            let start = share.state().visited_at(ChainPosition(0));
            share.state().queue(0, ChainPosition(0), start);
            return Ok(());
        }
        let noted = share
            .state()
            .note(hop.step, hop.from, hop.to, reached, share.paths);
        let admitted = self.admit_new(share, hop.to, &noted.new).await;
        let mut state = share.state();
        let new = noted.new.into_iter();
        let mut to_queue: Vec<(u32, VertexId)> = Vec::new();
        for id in new {
            if let Some(step) = state.step_of(hop.to, id) {
                to_queue.push((step, id));
            }
        }
        if share.steps_vary() {
            to_queue.extend(noted.earlier.into_iter().map(|id| (hop.step, id)));
        }
        for (step, id) in to_queue {
            state.queue(step, hop.to, [id]);
        }
        admitted.map(|_| ())
    }

    /// [`Self::drain_queue`] as a task. (Boxed, because the work sends work to this server again.)
    fn work_task(self: Arc<Self>, share: Arc<TraversalShare>) -> BoxFuture<'static, ()> {
        Box::pin(async move { self.drain_queue(&share).await })
    }

    /// Works through the queue, unless another task does, and returns the credit.
    async fn drain_queue(self: &Arc<Self>, share: &Arc<TraversalShare>) {
        loop {
            match share.next_work() {
                Work::Busy => return,
                Work::None(back) => {
                    if let Some(back) = back {
                        self.return_credit(*back).await;
                    }
                    return;
                }
                Work::Expand(step, position, vertices) => {
                    let done = self.expand_batch(share, step, position, &vertices).await;
                    share.state().asynchronous.working = false;
                    share.record_failure(done);
                }
            }
        }
    }

    /// Expands vertices of one position over all continuations of the chain.
    async fn expand_batch(
        self: &Arc<Self>,
        share: &Arc<TraversalShare>,
        step: u32,
        position: ChainPosition,
        vertices: &[VertexId],
    ) -> Result<()> {
        for continuation in share.continuations(position, step) {
            let hop = HopAt {
                travel: share.begin.travel,
                step: if continuation.begins { 1 } else { step + 1 },
                from: position,
                to: continuation.to,
            };
            // At the beginning of a segment the step does not matter: the segment is begun from each vertex once.
            let vertices: Vec<VertexId> = {
                let mut state = share.state();
                let begun = state.asynchronous.begun.entry(continuation.to).or_default();
                let once = |id: &&VertexId| !continuation.begins || begun.insert(**id);
                vertices.iter().filter(once).copied().collect()
            };
            if vertices.is_empty() {
                continue;
            }
            let mut sent = Set::<(VertexId, ServerId)>::default();
            let mut open = vertices.clone();
            self.expand_with_credit(share, hop, &vertices, RemainingBudget::default(), (0, None))
                .await?;
            while !open.is_empty() {
                let mut groups = BTreeMap::<ServerId, Vec<VertexId>>::new();
                for id in open.drain(..) {
                    for server in self.other_servers(id) {
                        if sent.insert((id, server)) {
                            groups.entry(server).or_default().push(id);
                        }
                    }
                }
                let mut calls = Vec::with_capacity(groups.len());
                for (server, vertices) in groups {
                    let credit = self.share_credit(share).await?;
                    let call = TraversalCall::Expand {
                        hop,
                        vertices,
                        left: RemainingBudget::default(),
                        credit,
                        number: share.state().number(),
                    };
                    let node = Arc::clone(self);
                    calls.push(async move { (server, node.travel_at(server, call).await) });
                }
                for (server, answer) in join_all(calls).await {
                    match answer? {
                        TraversalReply::Expanded { splits, .. } => {
                            self.learn_splits(server, &splits)?;
                            open.extend(splits.into_iter().map(|(id, _)| id));
                        }
                        TraversalReply::Unknown => return Err(restarted(server)),
                        _ => return Err(super::super::peers::unexpected(server)),
                    }
                }
            }
        }
        Ok(())
    }

    /// Expands vertices as far as their edges are here, and sends on the reached vertices. The credit of the message
    /// becomes this server's.
    pub(super) async fn expand_with_credit(
        self: &Arc<Self>,
        share: &Arc<TraversalShare>,
        hop: HopAt,
        vertices: &[VertexId],
        left: RemainingBudget,
        (credit, message): (u64, Option<(ServerId, u64)>),
    ) -> Result<TraversalReply> {
        {
            let mut state = share.state();
            // A message that arrives twice brings its credit once, but is handled twice, so that its response is correct.
            if message.is_none_or(|m| state.asynchronous.arrived.insert(m)) {
                state.asynchronous.credit += credit;
            }
            // Another task must not return the credit meanwhile.
            state.asynchronous.arriving += 1;
        }
        let done = self.expand_and_send(share, hop, vertices, left).await;
        share.state().asynchronous.arriving -= 1;
        if credit > 0 {
            self.host
                .spawn(Arc::clone(self).work_task(Arc::clone(share)));
        }
        done
    }

    async fn expand_and_send(
        self: &Arc<Self>,
        share: &Arc<TraversalShare>,
        hop: HopAt,
        vertices: &[VertexId],
        left: RemainingBudget,
    ) -> Result<TraversalReply> {
        let Expanded {
            done,
            by_home,
            splits,
        } = self.expand_here(share, hop, vertices, left).await?;
        {
            let mut state = share.state();
            let mut done = done.clone();
            done.frontier = vertices.len() as u64;
            done.vertices_micros = std::mem::take(&mut state.vertices_micros);
            let sum = state.asynchronous.steps.entry(hop.to.0).or_default();
            sum.frontier += done.frontier;
            add(sum, &done);
            if let Some(reason) = done.stopped {
                state.asynchronous.stopped.get_or_insert(reason);
            }
        }
        for (home, reached) in by_home {
            if home == self.settings.id {
                self.record_reached(share, hop, &reached).await?;
                continue;
            }
            let credit = self.share_credit(share).await?;
            let number = share.state().number();
            let call = TraversalCall::Continue {
                hop,
                number,
                reached,
                credit,
            };
            match self.travel_at(home, call).await? {
                TraversalReply::Done => {}
                TraversalReply::Unknown => return Err(restarted(home)),
                _ => return Err(super::super::peers::unexpected(home)),
            }
        }
        Ok(TraversalReply::Expanded { done, splits })
    }

    /// Splits off credit for a message, requesting more from the coordinator if little is left.
    async fn share_credit(self: &Arc<Self>, share: &TraversalShare) -> Result<u64> {
        if share.state().asynchronous.credit < 8 {
            let travel = share.begin.travel;
            let number = share.state().number();
            let call = TraversalCall::MoreCredit { travel, number };
            match self.travel_at(travel.server, call).await? {
                TraversalReply::Credit(credit) => share.state().asynchronous.credit += credit,
                _ => return Err(restarted(travel.server)),
            }
        }
        let mut state = share.state();
        let share = (state.asynchronous.credit / 8).max(1);
        state.asynchronous.credit = state.asynchronous.credit.saturating_sub(share);
        Ok(share)
    }

    /// Returns credit to the coordinator when there is no work left for now.
    async fn return_credit(self: &Arc<Self>, call: TraversalCall) {
        let TraversalCall::Credit { travel, .. } = &call else {
            return;
        };
        let travel = *travel;
        // A coordinator that cannot be reached will miss this server too, and begin again.
        for pause in [1, 10, 100, 1000] {
            if self.travel_at(travel.server, call.clone()).await.is_ok() {
                return;
            }
            self.host.sleep(pause).await;
        }
    }

    /// Handles returned credit, at the coordinator.
    pub(super) fn credit_back(
        &self,
        travel: TraversalId,
        message: (ServerId, u64),
        credit: u64,
        stopped: Option<StopReason>,
        failed: Option<String>,
    ) -> TraversalReply {
        {
            let mut travels = self.travels();
            let Some(flow) = travels.asynchronous.get_mut(&travel) else {
                return TraversalReply::Unknown;
            };
            if !flow.arrived.insert(message) {
                return TraversalReply::Done;
            }
            flow.outstanding = flow.outstanding.saturating_sub(credit);
            flow.stopped = flow.stopped.or(stopped);
            flow.failed = flow.failed.take().or(failed);
        }
        self.state().wake();
        TraversalReply::Done
    }

    /// Handles a request for more credit, at the coordinator.
    pub(super) fn more_credit(
        &self,
        travel: TraversalId,
        message: (ServerId, u64),
    ) -> TraversalReply {
        let mut travels = self.travels();
        let Some(flow) = travels.asynchronous.get_mut(&travel) else {
            return TraversalReply::Unknown;
        };
        // The response to a repeated request is not counted: only the sender returns that credit.
        if flow.arrived.insert(message) {
            flow.outstanding += CREDIT;
        }
        TraversalReply::Credit(CREDIT)
    }

    /// Runs an asynchronous traversal to its end. `go_on` is called periodically.
    pub(super) async fn run_async(
        self: &Arc<Self>,
        travel: TraversalId,
        go_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<AsyncTraversal> {
        let servers = self.map.servers().to_vec();
        let flow = AsyncTraversal {
            outstanding: CREDIT * servers.len() as u64,
            ..AsyncTraversal::default()
        };
        self.travels().asynchronous.insert(travel, flow);
        let _end = EndOfAsyncTraversal { node: self, travel };
        let begin = servers.iter().enumerate().map(|(i, server)| {
            let call = TraversalCall::Continue {
                hop: HopAt {
                    travel,
                    step: 0,
                    from: ChainPosition(0),
                    to: ChainPosition(0),
                },
                number: i as u64,
                reached: Vec::new(),
                credit: CREDIT,
            };
            self.travel_at(*server, call)
        });
        for (server, answer) in servers.iter().zip(join_all(begin).await) {
            if answer? != TraversalReply::Done {
                return Err(restarted(*server));
            }
        }
        loop {
            // A restarted server has lost its credit, so all servers are checked periodically.
            let ended = self.wait_until(200, |_| {
                let travels = self.travels();
                let flow = travels.asynchronous.get(&travel)?;
                (flow.outstanding == 0 || flow.failed.is_some()).then_some(())
            });
            if ended.await.is_some() || !go_on() {
                break;
            }
            let ask = servers
                .iter()
                .map(|s| self.travel_at(*s, TraversalCall::Alive { travel }));
            for (server, answer) in servers.iter().zip(join_all(ask).await) {
                if answer? != TraversalReply::Done {
                    return Err(restarted(*server));
                }
            }
        }
        let flow = self
            .travels()
            .asynchronous
            .remove(&travel)
            .unwrap_or_default();
        match flow.failed {
            Some(failed) => Err(Error::Unavailable(failed)),
            None => Ok(flow),
        }
    }
}

/// Removes the traversal from the table when dropped.
struct EndOfAsyncTraversal<'a> {
    node: &'a Node,
    travel: TraversalId,
}

impl Drop for EndOfAsyncTraversal<'_> {
    fn drop(&mut self) {
        self.node.travels().asynchronous.remove(&self.travel);
    }
}
