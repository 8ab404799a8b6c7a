//! A server's share in one step.

use super::super::Node;
use super::super::hashed::Set;
use super::super::peers::unexpected;
use super::walk::Walk;
use crate::peer::{
    HopAt, Left, Reached, StepDone, TravelBegin, TravelCall, TravelPlace as Place, TravelReply,
};
use crate::vnode::ServerId;
use esker_engine::PartExpansion;
use esker_model::traversal::{Budget, Strategy};
use esker_model::{EdgeKey, Error, Result, Version, VertexId};
use futures_util::future::join_all;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Vertices expanded between two looks at the caller's wish.
const CHUNK: usize = 1 << 14;
const MOVES_MAX: u32 = 64;

/// What vertices lead to, by the home of that.
pub(super) type ByHome = BTreeMap<ServerId, Vec<Reached>>;

/// What expanding vertices here gave.
#[derive(Default)]
pub(super) struct Expanded {
    pub(super) done: StepDone,
    pub(super) by_home: ByHome,
    /// How the vertices had split after they were read.
    pub(super) splits: Vec<(VertexId, Vec<u8>)>,
}

impl Node {
    /// Gets ready for a traversal.
    pub(super) async fn begin_walk(self: &Arc<Self>, begin: TravelBegin) -> Result<TravelReply> {
        if let Some(walk) = self.walk(begin.travel) {
            let start = walk.state().visited_at(Place(0)).len();
            return Ok(TravelReply::Started(start as u64));
        }
        let mut plan = self.engine.plan_part(&begin.traversal, begin.now)?;
        plan.start_at(&begin.starts);
        let named = plan.start_vertices();
        self.settle(named.as_deref(), plan.newest()).await?;
        let walk = Arc::new(Walk::new(begin, plan));
        let start = self.engine.part_start(&walk.plan, &*walk)?;
        let admitted = self.admits(&walk, Place(0), &start).await?;
        let start = start.into_iter().zip(admitted);
        let start: Vec<VertexId> = start.filter(|(_, ok)| *ok).map(|(id, _)| id).collect();
        {
            let mut state = walk.state();
            state.start(&start);
            state.idle_since = Some(self.time.monotonic_micros());
        }
        self.keep_walk(&walk)?;
        Ok(TravelReply::Started(start.len() as u64))
    }

    /// Expands the frontier that is at home here, wherever its edges lie.
    pub(super) async fn step(
        self: &Arc<Self>,
        walk: &Arc<Walk>,
        hop: HopAt,
        whole: bool,
        next: Option<Place>,
        left: Left,
    ) -> Result<TravelReply> {
        // Whatever is read ahead stops now.
        walk.step.store(hop.step, Ordering::Release);
        let began = self.time.monotonic_micros();
        let (frontier, mut done) = {
            let mut state = walk.state();
            state.waits_for = None;
            let frontier = if whole {
                state.visited_at(hop.from)
            } else {
                state.reached_by(hop.step - 1, hop.from)
            };
            let done = StepDone {
                frontier: frontier.len() as u64,
                wait_micros: state.idle_since.map_or(0, |t| began.saturating_sub(t)),
                prefetch_micros: std::mem::take(&mut state.prefetch_micros),
                ..StepDone::default()
            };
            (frontier, done)
        };
        // What was read ahead is not what it waited for.
        done.wait_micros = done.wait_micros.saturating_sub(done.prefetch_micros);
        for chunk in frontier.chunks(CHUNK) {
            let more = self.expand_everywhere(walk, hop, chunk, left).await?;
            add(&mut done, &more);
            if done.stopped.is_some() {
                break;
            }
        }
        {
            let mut state = walk.state();
            state.idle_since = Some(self.time.monotonic_micros());
            done.vertices_micros += std::mem::take(&mut state.vertices_micros);
            state.ahead = 0;
            state.waits_for = Some(hop.step);
            state.next = next;
        }
        if walk.begin.budget.strategy == Strategy::Prefetch
            && let Some(next) = next
        {
            self.read_ahead(walk, hop, next);
        }
        Ok(TravelReply::Stepped(done))
    }

    /// Expands vertices on all servers that have edges of them. Those that turn out to have split further are asked about
    /// again where they have split to.
    async fn expand_everywhere(
        self: &Arc<Self>,
        walk: &Arc<Walk>,
        hop: HopAt,
        vertices: &[VertexId],
        left: Left,
    ) -> Result<StepDone> {
        let mut done = StepDone::default();
        let mut asked = Set::<(VertexId, ServerId)>::default();
        let mut open: Vec<VertexId> = vertices.to_vec();
        for attempt in 0..MOVES_MAX {
            let mut groups = BTreeMap::<ServerId, Vec<VertexId>>::new();
            for id in &open {
                for server in self.edge_servers(*id) {
                    if asked.insert((*id, server)) {
                        groups.entry(server).or_default().push(*id);
                    }
                }
            }
            let calls = groups.into_iter().map(|(server, vertices)| {
                let walk = Arc::clone(walk);
                let node = Arc::clone(self);
                async move {
                    if server == node.settings.id {
                        let answer = node
                            .expand_for(&walk, hop, &vertices, left, (0, None))
                            .await;
                        return (server, answer);
                    }
                    let call = TravelCall::Expand {
                        hop,
                        vertices,
                        left,
                        credit: 0,
                        number: 0,
                    };
                    (server, node.travel_at(server, call).await)
                }
            });
            let mut split = Vec::new();
            for (server, answer) in join_all(calls).await {
                match answer? {
                    TravelReply::Expanded { done: more, splits } => {
                        add(&mut done, &more);
                        self.learn_splits(server, &splits)?;
                        split.extend(splits.into_iter().map(|(id, _)| id));
                    }
                    TravelReply::Unknown => return Err(forgotten(server)),
                    _ => return Err(unexpected(server)),
                }
            }
            split.sort_unstable();
            split.dedup();
            open = split;
            let news = |id: &VertexId| {
                let servers = self.edge_servers(*id);
                servers.iter().any(|s| !asked.contains(&(*id, *s)))
            };
            open.retain(news);
            if open.is_empty() || done.stopped.is_some() {
                return Ok(done);
            }
            self.pause_after(attempt).await;
        }
        Err(super::super::read::kept_moving())
    }

    /// Expands vertices of whose edges some lie here, and tells the homes of what they lead to.
    pub(super) async fn expand_for(
        self: &Arc<Self>,
        walk: &Arc<Walk>,
        hop: HopAt,
        vertices: &[VertexId],
        left: Left,
        (credit, message): (u64, Option<(ServerId, u64)>),
    ) -> Result<TravelReply> {
        if credit > 0 {
            return self
                .expand_on(walk, hop, vertices, left, (credit, message))
                .await;
        }
        let Expanded {
            mut done,
            by_home,
            splits,
        } = self.expand_here(walk, hop, vertices, left).await?;
        let calls = by_home.into_iter().map(|(home, reached)| {
            let walk = Arc::clone(walk);
            let node = Arc::clone(self);
            async move {
                if home == node.settings.id {
                    return (home, node.reach(&walk, hop, &reached).await);
                }
                let call = TravelCall::Reach { hop, reached };
                (home, node.travel_at(home, call).await)
            }
        });
        for (home, answer) in join_all(calls).await {
            match answer? {
                TravelReply::Reached { new, leads_on } => {
                    done.reached += new;
                    done.leads_on |= leads_on;
                }
                TravelReply::Unknown => return Err(forgotten(home)),
                _ => return Err(unexpected(home)),
            }
        }
        Ok(TravelReply::Expanded { done, splits })
    }

    /// Expands vertices as far as their edges lie here.
    pub(super) async fn expand_here(
        self: &Arc<Self>,
        walk: &Walk,
        hop: HopAt,
        vertices: &[VertexId],
        left: Left,
    ) -> Result<Expanded> {
        self.settle(Some(vertices), walk.plan.newest()).await?;
        let began = self.time.monotonic_micros();
        let mut by_home = ByHome::new();
        let mut known = Set::default();
        let paths = walk.paths;
        let sink = &mut |_: usize, edge: EdgeKey, version: Version| {
            if paths || known.insert(edge.destination) {
                let home = self.home(edge.destination);
                let reached = Reached { edge, version };
                by_home.entry(home).or_default().push(reached);
            }
        };
        let budget = Budget {
            millis: left.millis,
            edges: left.edges,
            ..Budget::default()
        };
        let PartExpansion {
            edges,
            selected,
            cached,
            stopped,
        } = self
            .engine
            .part_expand(&walk.plan, hop.to.0, vertices, &budget, walk, sink)?;
        let splits = self.splits_after(vertices).await?;
        let done = StepDone {
            edges,
            selected,
            cached,
            stopped,
            edges_micros: self.time.monotonic_micros().saturating_sub(began),
            ..StepDone::default()
        };
        Ok(Expanded {
            done,
            by_home,
            splits,
        })
    }

    /// Vertices at home here were reached.
    pub(super) async fn reach(
        self: &Arc<Self>,
        walk: &Arc<Walk>,
        hop: HopAt,
        reached: &[Reached],
    ) -> Result<TravelReply> {
        let noted = walk
            .state()
            .note(hop.step, hop.from, hop.to, reached, walk.paths);
        let new = self.admit_fresh(walk, hop.to, &noted.fresh).await?;
        // A message that came twice is at it elsewhere: its vertices count as reached only once that is known.
        let leads_on = loop {
            let (all, any) = walk.state().known(hop.step, hop.to, reached);
            if all {
                break any;
            }
            self.host.sleep(1).await;
        };
        if new > 0 {
            self.read_ahead_more(walk, hop);
        }
        Ok(TravelReply::Reached { new, leads_on })
    }

    /// Finds out which of these may be visited.
    pub(super) async fn admit_fresh(
        self: &Arc<Self>,
        walk: &Arc<Walk>,
        to: Place,
        fresh: &[VertexId],
    ) -> Result<u64> {
        if fresh.is_empty() {
            return Ok(0);
        }
        self.settle(Some(fresh), walk.plan.newest()).await?;
        let began = self.time.monotonic_micros();
        let admitted = self.admits(walk, to, fresh).await?;
        let mut state = walk.state();
        state.vertices_micros += self.time.monotonic_micros().saturating_sub(began);
        Ok(state.admit(to, fresh, &admitted))
    }

    /// Which of these, at home here, may be visited at a place: they are there, pass its filters, and the caller sees them.
    async fn admits(
        self: &Arc<Self>,
        walk: &Walk,
        to: Place,
        vertices: &[VertexId],
    ) -> Result<Vec<bool>> {
        let mut sight = walk.sight();
        let mut paths = HashMap::new();
        if walk.plan.asks_keys(to.0) {
            paths = self.paths_of(&mut sight, vertices).await?;
        }
        let mut admitted = self
            .engine
            .part_admit(&walk.plan, to.0, (vertices, &paths), walk)?;
        if sight.hides() {
            let both = vertices.iter().zip(&admitted);
            let there = both.filter(|(_, ok)| **ok).map(|(id, _)| *id);
            self.learn(&mut sight, there.collect::<Vec<_>>()).await?;
            for (id, ok) in vertices.iter().zip(&mut admitted) {
                *ok &= sight.sees(*id);
            }
        }
        walk.saw(sight);
        Ok(admitted)
    }

    /// The other servers that have edges of a vertex, as far as is known.
    pub(super) fn other_servers(&self, id: VertexId) -> BTreeSet<ServerId> {
        let mut servers = self.edge_servers(id);
        servers.remove(&self.settings.id);
        servers
    }
}

/// Adds what was done elsewhere or later in the same step.
pub(super) fn add(sum: &mut StepDone, more: &StepDone) {
    sum.edges += more.edges;
    sum.selected += more.selected;
    sum.reached += more.reached;
    sum.cached += more.cached;
    sum.vertices_micros += more.vertices_micros;
    sum.edges_micros += more.edges_micros;
    sum.stopped = sum.stopped.or(more.stopped);
    sum.leads_on |= more.leads_on;
}

/// A server was started anew in the middle of a traversal.
pub(super) fn forgotten(server: ServerId) -> Error {
    Error::Unavailable(format!(
        "{server} was started anew during the traversal; try again"
    ))
}
