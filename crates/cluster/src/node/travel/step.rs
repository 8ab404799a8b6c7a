//! A server's part in one step of a traversal.

use super::super::Node;
use super::super::hashed::Set;
use super::super::peers::unexpected;
use super::share::TraversalShare;
use crate::peer::{
    ChainPosition, HopAt, Reached, RemainingBudget, StepDone, TraversalBegin, TraversalCall,
    TraversalReply,
};
use crate::vnode::ServerId;
use esker_engine::PartExpansion;
use esker_model::traversal::{Budget, Strategy};
use esker_model::{EdgeKey, Error, Result, Version, VertexId};
use futures_util::future::join_all;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Vertices expanded between two checks for cancellation.
const CHUNK: usize = 1 << 14;
const MOVES_MAX: u32 = 64;

/// Reached vertices by their home server.
pub(super) type ByHome = BTreeMap<ServerId, Vec<Reached>>;

/// Result of expanding vertices on this server.
#[derive(Default)]
pub(super) struct Expanded {
    pub(super) done: StepDone,
    pub(super) by_home: ByHome,
    /// Splits of the vertices after they were read.
    pub(super) splits: Vec<(VertexId, Vec<u8>)>,
}

impl Node {
    /// Prepares this server for a traversal.
    pub(super) async fn begin_share(
        self: &Arc<Self>,
        begin: TraversalBegin,
    ) -> Result<TraversalReply> {
        if let Some(share) = self.share(begin.travel) {
            let start = share.state().visited_at(ChainPosition(0)).len();
            return Ok(TraversalReply::Started(start as u64));
        }
        let mut plan = self.engine.plan_traversal(&begin.traversal, begin.now)?;
        plan.start_at(&begin.starts);
        let named = plan.start_vertices();
        self.wait_for_pending(named.as_deref(), plan.newest())
            .await?;
        let share = Arc::new(TraversalShare::new(begin, plan));
        let start = self.engine.part_start(&share.plan, &*share)?;
        let admitted = self.admits(&share, ChainPosition(0), &start).await?;
        let start = start.into_iter().zip(admitted);
        let start: Vec<VertexId> = start.filter(|(_, ok)| *ok).map(|(id, _)| id).collect();
        {
            let mut state = share.state();
            state.start(&start);
            state.idle_since = Some(self.time.monotonic_micros());
        }
        self.keep_share(&share)?;
        Ok(TraversalReply::Started(start.len() as u64))
    }

    /// Expands the frontier whose home is here, wherever its edges are.
    pub(super) async fn step(
        self: &Arc<Self>,
        share: &Arc<TraversalShare>,
        hop: HopAt,
        whole: bool,
        next: Option<ChainPosition>,
        left: RemainingBudget,
    ) -> Result<TraversalReply> {
        // Prefetching for this step ends now.
        share.step.store(hop.step, Ordering::Release);
        let began = self.time.monotonic_micros();
        let (frontier, mut done) = {
            let mut state = share.state();
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
        // Prefetching is not waiting.
        done.wait_micros = done.wait_micros.saturating_sub(done.prefetch_micros);
        for chunk in frontier.chunks(CHUNK) {
            let more = self.expand_everywhere(share, hop, chunk, left).await?;
            add(&mut done, &more);
            if done.stopped.is_some() {
                break;
            }
        }
        {
            let mut state = share.state();
            state.idle_since = Some(self.time.monotonic_micros());
            done.vertices_micros += std::mem::take(&mut state.vertices_micros);
            state.prefetched = 0;
            state.waits_for = Some(hop.step);
            state.next = next;
        }
        if share.begin.budget.strategy == Strategy::Prefetch
            && let Some(next) = next
        {
            self.prefetch(share, hop, next);
        }
        Ok(TraversalReply::Stepped(done))
    }

    /// Expands vertices on all servers that have edges of them. Vertices that turn out to have split further are
    /// expanded on the additional servers.
    async fn expand_everywhere(
        self: &Arc<Self>,
        share: &Arc<TraversalShare>,
        hop: HopAt,
        vertices: &[VertexId],
        left: RemainingBudget,
    ) -> Result<StepDone> {
        let mut done = StepDone::default();
        let mut sent = Set::<(VertexId, ServerId)>::default();
        let mut open: Vec<VertexId> = vertices.to_vec();
        for attempt in 0..MOVES_MAX {
            let mut groups = BTreeMap::<ServerId, Vec<VertexId>>::new();
            for id in &open {
                for server in self.edge_servers(*id) {
                    if sent.insert((*id, server)) {
                        groups.entry(server).or_default().push(*id);
                    }
                }
            }
            let calls = groups.into_iter().map(|(server, vertices)| {
                let share = Arc::clone(share);
                let node = Arc::clone(self);
                async move {
                    if server == node.settings.id {
                        let answer = node
                            .expand_for(&share, hop, &vertices, left, (0, None))
                            .await;
                        return (server, answer);
                    }
                    let call = TraversalCall::Expand {
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
                    TraversalReply::Expanded { done: more, splits } => {
                        add(&mut done, &more);
                        self.learn_splits(server, &splits)?;
                        split.extend(splits.into_iter().map(|(id, _)| id));
                    }
                    TraversalReply::Unknown => return Err(restarted(server)),
                    _ => return Err(unexpected(server)),
                }
            }
            split.sort_unstable();
            split.dedup();
            open = split;
            let news = |id: &VertexId| {
                let servers = self.edge_servers(*id);
                servers.iter().any(|s| !sent.contains(&(*id, *s)))
            };
            open.retain(news);
            if open.is_empty() || done.stopped.is_some() {
                return Ok(done);
            }
            self.pause_after(attempt).await;
        }
        Err(super::super::fan_out::kept_moving())
    }

    /// Expands vertices that have some edges here, and reports reached vertices to their homes.
    pub(super) async fn expand_for(
        self: &Arc<Self>,
        share: &Arc<TraversalShare>,
        hop: HopAt,
        vertices: &[VertexId],
        left: RemainingBudget,
        (credit, message): (u64, Option<(ServerId, u64)>),
    ) -> Result<TraversalReply> {
        if credit > 0 {
            return self
                .expand_with_credit(share, hop, vertices, left, (credit, message))
                .await;
        }
        let Expanded {
            mut done,
            by_home,
            splits,
        } = self.expand_here(share, hop, vertices, left).await?;
        let calls = by_home.into_iter().map(|(home, reached)| {
            let share = Arc::clone(share);
            let node = Arc::clone(self);
            async move {
                if home == node.settings.id {
                    return (home, node.reach(&share, hop, &reached).await);
                }
                let call = TraversalCall::Reach { hop, reached };
                (home, node.travel_at(home, call).await)
            }
        });
        for (home, answer) in join_all(calls).await {
            match answer? {
                TraversalReply::Reached { new, leads_on } => {
                    done.reached += new;
                    done.leads_on |= leads_on;
                }
                TraversalReply::Unknown => return Err(restarted(home)),
                _ => return Err(unexpected(home)),
            }
        }
        Ok(TraversalReply::Expanded { done, splits })
    }

    /// Expands vertices as far as their edges are here.
    pub(super) async fn expand_here(
        self: &Arc<Self>,
        share: &TraversalShare,
        hop: HopAt,
        vertices: &[VertexId],
        left: RemainingBudget,
    ) -> Result<Expanded> {
        self.wait_for_pending(Some(vertices), share.plan.newest())
            .await?;
        let began = self.time.monotonic_micros();
        let mut by_home = ByHome::new();
        let mut known = Set::default();
        let paths = share.paths;
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
            .part_expand(&share.plan, hop.to.0, vertices, &budget, share, sink)?;
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

    /// Handles reached vertices whose home is here.
    pub(super) async fn reach(
        self: &Arc<Self>,
        share: &Arc<TraversalShare>,
        hop: HopAt,
        reached: &[Reached],
    ) -> Result<TraversalReply> {
        let noted = share
            .state()
            .note(hop.step, hop.from, hop.to, reached, share.paths);
        let new = self.admit_new(share, hop.to, &noted.new).await?;
        // A repeated message is being handled elsewhere: its vertices count as reached only once the result is known.
        let leads_on = loop {
            let (all, any) = share.state().admission_known(hop.step, hop.to, reached);
            if all {
                break any;
            }
            self.host.sleep(1).await;
        };
        if new > 0 {
            self.resume_prefetch(share, hop);
        }
        Ok(TraversalReply::Reached { new, leads_on })
    }

    /// Decides which of the new vertices may be visited.
    pub(super) async fn admit_new(
        self: &Arc<Self>,
        share: &Arc<TraversalShare>,
        to: ChainPosition,
        new: &[VertexId],
    ) -> Result<u64> {
        if new.is_empty() {
            return Ok(0);
        }
        self.wait_for_pending(Some(new), share.plan.newest())
            .await?;
        let began = self.time.monotonic_micros();
        let admitted = self.admits(share, to, new).await?;
        let mut state = share.state();
        state.vertices_micros += self.time.monotonic_micros().saturating_sub(began);
        Ok(state.admit(to, new, &admitted))
    }

    /// Whether each of these vertices may be visited at a position: it exists, passes the filters, and the caller may see it.
    async fn admits(
        self: &Arc<Self>,
        share: &TraversalShare,
        to: ChainPosition,
        vertices: &[VertexId],
    ) -> Result<Vec<bool>> {
        let mut visibility = share.visibility();
        let mut paths = HashMap::new();
        if share.plan.uses_keys(to.0) {
            paths = self.paths_of(&mut visibility, vertices).await?;
        }
        let mut admitted = self
            .engine
            .part_admit(&share.plan, to.0, (vertices, &paths), share)?;
        if visibility.hides() {
            let both = vertices.iter().zip(&admitted);
            let there = both.filter(|(_, ok)| **ok).map(|(id, _)| *id);
            self.learn(&mut visibility, there.collect::<Vec<_>>())
                .await?;
            for (id, ok) in vertices.iter().zip(&mut admitted) {
                *ok &= visibility.sees(*id);
            }
        }
        share.add_visibility(visibility);
        Ok(admitted)
    }

    /// Returns the other servers that have edges of a vertex, as far as is known.
    pub(super) fn other_servers(&self, id: VertexId) -> BTreeSet<ServerId> {
        let mut servers = self.edge_servers(id);
        servers.remove(&self.settings.id);
        servers
    }
}

/// Adds statistics of another server, or of a later part of the same step.
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

/// Error for a server that was restarted during a traversal.
pub(super) fn restarted(server: ServerId) -> Error {
    Error::Unavailable(format!(
        "{server} was restarted during the traversal; try again"
    ))
}
