//! Traversals without steps (GraphTrek: asynchronous traversal with execution merging and slower steps first).
//!
//! Whatever reaches a server waits in a queue by step; vertices of one step and place are expanded together, the slowest
//! step first. Where a vertex turns out to be reached by fewer steps than was thought, what it leads to is looked at again, so that
//! the outcome is that of steps. Steps count from where a segment of the chain begins.
//!
//! **The end** is found by credit (Mattern, 1989): whatever is under way has some, and what is done gives it back. Once the
//! coordinator has all of it again, nothing is under way.

use super::super::hashed::Set;
use super::super::{BoxFuture, Node};
use super::step::{Expanded, add, forgotten};
use super::walk::Walk;
use crate::peer::{HopAt, Left, Reached, TravelCall, TravelId, TravelPlace as Place, TravelReply};
use crate::vnode::ServerId;
use esker_model::traversal::{Repeat, StopReason};
use esker_model::{Error, Result, VertexId};
use futures_util::future::join_all;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the coordinator gives at a time.
pub(super) const CREDIT: u64 = 1 << 32;
/// Vertices expanded together.
const MERGE_MAX: usize = 1 << 12;

/// Asynchronous traversals by name, at their coordinator.
pub(super) type Flows = BTreeMap<TravelId, Flow>;

/// An asynchronous traversal, at its coordinator.
#[derive(Debug, Default)]
pub(super) struct Flow {
    /// Credit that was given and has not come back.
    pub(super) outstanding: u64,
    pub(super) stopped: Option<StopReason>,
    pub(super) failed: Option<String>,
    arrived: Set<(ServerId, u64)>,
}

/// Where a chain goes on from a place.
#[derive(Debug, Clone, Copy)]
struct Onward {
    to: Place,
    /// Whether a segment begins there, with steps counted anew.
    begins: bool,
}

impl Walk {
    /// Where the chain goes on from a place that was reached by that step of its segment.
    fn onward(&self, place: Place, step: u32) -> Vec<Onward> {
        let segments = self.plan.segments();
        let mut onward = Vec::new();
        for (i, segment) in segments.iter().enumerate() {
            let first = segment.hops.first().map(|h| h.place);
            let last = segment.hops.last().map(|h| h.place);
            let begins = |to| Onward {
                to: Place(to),
                begins: true,
            };
            if i == 0 && place.0 == 0 {
                onward.extend(first.map(begins));
                return onward;
            }
            if Some(place.0) == last {
                if let (Some(repeat), Some(first)) = (segment.repeat, first)
                    && may_repeat(repeat, step, segment.hops.len())
                {
                    onward.push(Onward {
                        to: Place(first),
                        begins: false,
                    });
                }
                let next = segments.get(i + 1).and_then(|s| s.hops.first());
                onward.extend(next.map(|h| begins(h.place)));
                return onward;
            }
            if segment.hops.iter().any(|h| h.place == place.0) {
                return vec![Onward {
                    to: Place(place.0 + 1),
                    begins: false,
                }];
            }
        }
        onward
    }

    /// Whatever fails ends the whole.
    fn note_failure(&self, done: Result<()>) {
        if let Err(e) = done {
            self.state().flow.failed.get_or_insert(e.to_string());
        }
    }

    /// What is to be done next.
    fn next_work(&self) -> Work {
        let mut state = self.state();
        if state.flow.working {
            return Work::Elsewhere;
        }
        let most = self.begin.budget.bytes;
        if most.is_some_and(|most| state.bytes() >= most) {
            state.flow.stopped.get_or_insert(StopReason::Bytes);
        }
        let over = state.flow.stopped.is_some() || state.flow.failed.is_some();
        if over || esker_model::Cancel::cancelled(self) {
            state.flow.queue.clear();
        }
        if let Some((step, place, vertices)) = state.take_batch(MERGE_MAX) {
            state.flow.working = true;
            return Work::From(step, place, vertices);
        }
        if state.flow.arriving > 0 {
            return Work::Elsewhere;
        }
        Work::None(state.credit_back(self.begin.travel).map(Box::new))
    }

    /// Whether it matters by how many steps a vertex is reached.
    fn steps_matter(&self) -> bool {
        let bounded = |r: Repeat| r.max.is_some();
        let segments = self.plan.segments();
        self.paths || segments.iter().any(|s| s.repeat.is_some_and(bounded))
    }
}

/// What a server has to do in an asynchronous traversal.
enum Work {
    /// Somebody is at it, or will be.
    Elsewhere,
    /// Nothing: credit goes back.
    None(Option<Box<TravelCall>>),
    /// Vertices to go on from.
    From(u32, Place, Vec<VertexId>),
}

fn may_repeat(repeat: Repeat, step: u32, hops: usize) -> bool {
    let rounds = step / u32::try_from(hops.max(1)).unwrap_or(u32::MAX);
    repeat.max.is_none_or(|max| rounds < max)
}

impl Node {
    /// Vertices at home here were reached, with credit to go on.
    pub(super) fn go(
        self: &Arc<Self>,
        walk: &Arc<Walk>,
        message: (ServerId, u64),
        hop: HopAt,
        reached: Vec<Reached>,
        credit: u64,
    ) {
        {
            let mut state = walk.state();
            if !state.flow.arrived.insert(message) {
                return;
            }
            state.flow.credit += credit;
            // Whoever works meanwhile must not give it back.
            state.flow.arriving += 1;
        }
        let walk = Arc::clone(walk);
        self.spawn(move |node| async move {
            let arrived = node.arrive(&walk, hop, &reached).await;
            walk.note_failure(arrived);
            walk.state().flow.arriving -= 1;
            node.work(&walk).await;
        });
    }

    /// Notes what was reached, and queues what is to be gone on from.
    async fn arrive(
        self: &Arc<Self>,
        walk: &Arc<Walk>,
        hop: HopAt,
        reached: &[Reached],
    ) -> Result<()> {
        if hop.to == Place(0) {
            let start = walk.state().visited_at(Place(0));
            walk.state().queue(0, Place(0), start);
            return Ok(());
        }
        let noted = walk
            .state()
            .note(hop.step, hop.from, hop.to, reached, walk.paths);
        let admitted = self.admit_fresh(walk, hop.to, &noted.fresh).await;
        let mut state = walk.state();
        let fresh = noted.fresh.into_iter();
        let mut onward: Vec<(u32, VertexId)> = Vec::new();
        for id in fresh {
            if let Some(step) = state.step_of(hop.to, id) {
                onward.push((step, id));
            }
        }
        if walk.steps_matter() {
            onward.extend(noted.sooner.into_iter().map(|id| (hop.step, id)));
        }
        for (step, id) in onward {
            state.queue(step, hop.to, [id]);
        }
        admitted.map(|_| ())
    }

    /// [`Self::work`] as a task. (Named, because work that is sent here is work that sends work.)
    fn work_beside(self: Arc<Self>, walk: Arc<Walk>) -> BoxFuture<'static, ()> {
        Box::pin(async move { self.work(&walk).await })
    }

    /// Works the queue off, unless somebody does, and gives the credit back.
    async fn work(self: &Arc<Self>, walk: &Arc<Walk>) {
        loop {
            match walk.next_work() {
                Work::Elsewhere => return,
                Work::None(back) => {
                    if let Some(back) = back {
                        self.give_credit_back(*back).await;
                    }
                    return;
                }
                Work::From(step, place, vertices) => {
                    let done = self.go_on_from(walk, step, place, &vertices).await;
                    walk.state().flow.working = false;
                    walk.note_failure(done);
                }
            }
        }
    }

    /// Expands vertices of one place to wherever the chain goes on.
    async fn go_on_from(
        self: &Arc<Self>,
        walk: &Arc<Walk>,
        step: u32,
        place: Place,
        vertices: &[VertexId],
    ) -> Result<()> {
        for onward in walk.onward(place, step) {
            let hop = HopAt {
                travel: walk.begin.travel,
                step: if onward.begins { 1 } else { step + 1 },
                from: place,
                to: onward.to,
            };
            // Once begun anew, it does not matter when a vertex was reached: it is begun from once.
            let vertices: Vec<VertexId> = {
                let mut state = walk.state();
                let begun = state.flow.begun.entry(onward.to).or_default();
                let once = |id: &&VertexId| !onward.begins || begun.insert(**id);
                vertices.iter().filter(once).copied().collect()
            };
            if vertices.is_empty() {
                continue;
            }
            let mut asked = Set::<(VertexId, ServerId)>::default();
            let mut open = vertices.clone();
            self.expand_on(walk, hop, &vertices, Left::default(), (0, None))
                .await?;
            while !open.is_empty() {
                let mut groups = BTreeMap::<ServerId, Vec<VertexId>>::new();
                for id in open.drain(..) {
                    for server in self.other_servers(id) {
                        if asked.insert((id, server)) {
                            groups.entry(server).or_default().push(id);
                        }
                    }
                }
                let mut calls = Vec::with_capacity(groups.len());
                for (server, vertices) in groups {
                    let credit = self.share_credit(walk).await?;
                    let call = TravelCall::Expand {
                        hop,
                        vertices,
                        left: Left::default(),
                        credit,
                        number: walk.state().number(),
                    };
                    let node = Arc::clone(self);
                    calls.push(async move { (server, node.travel_at(server, call).await) });
                }
                for (server, answer) in join_all(calls).await {
                    match answer? {
                        TravelReply::Expanded { splits, .. } => {
                            self.learn_splits(server, &splits)?;
                            open.extend(splits.into_iter().map(|(id, _)| id));
                        }
                        TravelReply::Unknown => return Err(forgotten(server)),
                        _ => return Err(super::super::peers::unexpected(server)),
                    }
                }
            }
        }
        Ok(())
    }

    /// Expands vertices as far as their edges lie here, and sends on what they lead to. Credit that comes with them
    /// becomes this server's.
    pub(super) async fn expand_on(
        self: &Arc<Self>,
        walk: &Arc<Walk>,
        hop: HopAt,
        vertices: &[VertexId],
        left: Left,
        (credit, message): (u64, Option<(ServerId, u64)>),
    ) -> Result<TravelReply> {
        {
            let mut state = walk.state();
            // One that came twice brings its credit once, and is done twice: what it tells is to be true.
            if message.is_none_or(|m| state.flow.arrived.insert(m)) {
                state.flow.credit += credit;
            }
            // Whoever works meanwhile must not give it back.
            state.flow.arriving += 1;
        }
        let done = self.expand_and_send(walk, hop, vertices, left).await;
        walk.state().flow.arriving -= 1;
        if credit > 0 {
            self.host
                .spawn(Arc::clone(self).work_beside(Arc::clone(walk)));
        }
        done
    }

    async fn expand_and_send(
        self: &Arc<Self>,
        walk: &Arc<Walk>,
        hop: HopAt,
        vertices: &[VertexId],
        left: Left,
    ) -> Result<TravelReply> {
        let Expanded {
            done,
            by_home,
            splits,
        } = self.expand_here(walk, hop, vertices, left).await?;
        {
            let mut state = walk.state();
            let mut done = done.clone();
            done.frontier = vertices.len() as u64;
            done.vertices_micros = std::mem::take(&mut state.vertices_micros);
            let sum = state.flow.steps.entry(hop.to.0).or_default();
            sum.frontier += done.frontier;
            add(sum, &done);
            if let Some(reason) = done.stopped {
                state.flow.stopped.get_or_insert(reason);
            }
        }
        for (home, reached) in by_home {
            if home == self.settings.id {
                self.arrive(walk, hop, &reached).await?;
                continue;
            }
            let credit = self.share_credit(walk).await?;
            let number = walk.state().number();
            let call = TravelCall::Go {
                hop,
                number,
                reached,
                credit,
            };
            match self.travel_at(home, call).await? {
                TravelReply::Done => {}
                TravelReply::Unknown => return Err(forgotten(home)),
                _ => return Err(super::super::peers::unexpected(home)),
            }
        }
        Ok(TravelReply::Expanded { done, splits })
    }

    /// Credit for somebody else.
    async fn share_credit(self: &Arc<Self>, walk: &Walk) -> Result<u64> {
        if walk.state().flow.credit < 8 {
            let travel = walk.begin.travel;
            let number = walk.state().number();
            let call = TravelCall::MoreCredit { travel, number };
            match self.travel_at(travel.server, call).await? {
                TravelReply::Credit(credit) => walk.state().flow.credit += credit,
                _ => return Err(forgotten(travel.server)),
            }
        }
        let mut state = walk.state();
        let share = (state.flow.credit / 8).max(1);
        state.flow.credit = state.flow.credit.saturating_sub(share);
        Ok(share)
    }

    /// Nothing is left to do here for now.
    async fn give_credit_back(self: &Arc<Self>, call: TravelCall) {
        let TravelCall::Credit { travel, .. } = &call else {
            return;
        };
        let travel = *travel;
        // A coordinator that cannot be reached will miss this server too, and begin anew.
        for pause in [1, 10, 100, 1000] {
            if self.travel_at(travel.server, call.clone()).await.is_ok() {
                return;
            }
            self.host.sleep(pause).await;
        }
    }

    /// At the coordinator: credit has come back.
    pub(super) fn credit_back(
        &self,
        travel: TravelId,
        message: (ServerId, u64),
        credit: u64,
        stopped: Option<StopReason>,
        failed: Option<String>,
    ) -> TravelReply {
        {
            let mut travels = self.travels();
            let Some(flow) = travels.flows.get_mut(&travel) else {
                return TravelReply::Unknown;
            };
            if !flow.arrived.insert(message) {
                return TravelReply::Done;
            }
            flow.outstanding = flow.outstanding.saturating_sub(credit);
            flow.stopped = flow.stopped.or(stopped);
            flow.failed = flow.failed.take().or(failed);
        }
        self.state().wake();
        TravelReply::Done
    }

    /// At the coordinator: somebody needs more.
    pub(super) fn more_credit(&self, travel: TravelId, message: (ServerId, u64)) -> TravelReply {
        let mut travels = self.travels();
        let Some(flow) = travels.flows.get_mut(&travel) else {
            return TravelReply::Unknown;
        };
        // Each answer to a question that came twice is credit that nobody gives back but the one who asked.
        if flow.arrived.insert(message) {
            flow.outstanding += CREDIT;
        }
        TravelReply::Credit(CREDIT)
    }

    /// Runs a traversal's flow to its end. `more` is asked now and then whether to go on.
    pub(super) async fn flow(
        self: &Arc<Self>,
        travel: TravelId,
        go_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<Flow> {
        let servers = self.map.servers().to_vec();
        let flow = Flow {
            outstanding: CREDIT * servers.len() as u64,
            ..Flow::default()
        };
        self.travels().flows.insert(travel, flow);
        let _end = EndOfFlow { node: self, travel };
        let begin = servers.iter().enumerate().map(|(i, server)| {
            let call = TravelCall::Go {
                hop: HopAt {
                    travel,
                    step: 0,
                    from: Place(0),
                    to: Place(0),
                },
                number: i as u64,
                reached: Vec::new(),
                credit: CREDIT,
            };
            self.travel_at(*server, call)
        });
        for (server, answer) in servers.iter().zip(join_all(begin).await) {
            if answer? != TravelReply::Done {
                return Err(forgotten(*server));
            }
        }
        loop {
            // A server that was started anew has lost its credit: whoever is waited for is asked now and then.
            let ended = self.until(200, |_| {
                let travels = self.travels();
                let flow = travels.flows.get(&travel)?;
                (flow.outstanding == 0 || flow.failed.is_some()).then_some(())
            });
            if ended.await.is_some() || !go_on() {
                break;
            }
            let ask = servers
                .iter()
                .map(|s| self.travel_at(*s, TravelCall::Alive { travel }));
            for (server, answer) in servers.iter().zip(join_all(ask).await) {
                if answer? != TravelReply::Done {
                    return Err(forgotten(*server));
                }
            }
        }
        let flow = self.travels().flows.remove(&travel).unwrap_or_default();
        match flow.failed {
            Some(failed) => Err(Error::Unavailable(failed)),
            None => Ok(flow),
        }
    }
}

/// However it ends, a flow is forgotten.
struct EndOfFlow<'a> {
    node: &'a Node,
    travel: TravelId,
}

impl Drop for EndOfFlow<'_> {
    fn drop(&mut self) {
        self.node.travels().flows.remove(&self.travel);
    }
}
