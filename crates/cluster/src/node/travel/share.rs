//! A server's state of a traversal: the visited vertices whose home is that server.

use super::super::Visibility;
use super::super::hashed::{Map, Set};
use crate::peer::{
    ChainPosition, PathEntry, Reached, StepDone, TraversalBegin, TraversalCall, TraversalId,
    TraversalReply, Visited,
};
use crate::vnode::ServerId;
use esker_engine::TraversalPlan;
use esker_model::traversal::{PATH_STEP_BYTES, VISITED_BYTES};
use esker_model::{Cancel, VertexId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of visited vertices in a page.
const PAGE_VERTICES: usize = 1 << 14;

/// A server's part of a traversal.
#[derive(Debug)]
pub(super) struct TraversalShare {
    pub(super) begin: TraversalBegin,
    pub(super) plan: TraversalPlan,
    /// Whether paths are kept.
    pub(super) paths: bool,
    /// The last step that began here; prefetching for a step ends when it begins.
    pub(super) step: AtomicU32,
    stopped: AtomicBool,
    state: Mutex<ShareState>,
}

/// The mutable state of a server's part.
#[derive(Debug, Default)]
pub(super) struct ShareState {
    /// Visited vertices by chain position.
    by_position: Vec<Map<VertexId, VisitedVertex>>,
    /// By step: the vertices that it was the first to reach, and their positions.
    reached: BTreeMap<u32, Vec<(ChainPosition, VertexId)>>,
    /// Time at which this server finished its part of the last step, in microseconds.
    pub(super) idle_since: Option<u64>,
    /// Microseconds spent admitting vertices since the last report.
    pub(super) vertices_micros: u64,
    /// Microseconds spent prefetching for the next step.
    pub(super) prefetch_micros: u64,
    /// The last step that this server has finished, and the position of the next one, if it prefetches.
    pub(super) waits_for: Option<u32>,
    pub(super) next: Option<ChainPosition>,
    /// Whether a prefetch task is running.
    pub(super) prefetching: bool,
    /// Number of prefetched vertices of the next step's frontier.
    pub(super) prefetched: usize,
    /// State of an asynchronous traversal: see `asynchronous`.
    pub(super) asynchronous: AsyncState,
    /// Visibility for the caller, as far as it is known here.
    pub(super) visibility: Option<Visibility>,
    /// Number of vertices visited here, and of path edges kept.
    visited: u64,
    path_edges: u64,
    /// Visited vertices in their final order, once they were collected.
    collected: Option<Vec<Visited>>,
}

/// State of an asynchronous traversal on one server.
#[derive(Debug, Default)]
pub(super) struct AsyncState {
    /// Vertices to continue from, by step and position. Slower steps come first.
    pub(super) queue: BTreeMap<(u32, ChainPosition), VecDeque<VertexId>>,
    /// Whether a task works on the queue.
    pub(super) working: bool,
    /// Number of messages being received or sent; their vertices are still to be queued.
    pub(super) arriving: u32,
    /// By first position of a segment: vertices from which it was begun.
    pub(super) begun: BTreeMap<ChainPosition, Set<VertexId>>,
    /// Messages that have arrived.
    pub(super) arrived: Set<(ServerId, u64)>,
    pub(super) credit: u64,
    pub(super) next_number: u64,
    pub(super) stopped: Option<esker_model::traversal::StopReason>,
    pub(super) failed: Option<String>,
    /// Statistics by chain position.
    pub(super) steps: BTreeMap<u32, StepDone>,
}

/// A vertex reached at a position.
#[derive(Debug)]
struct VisitedVertex {
    step: u32,
    /// Whether the vertex may be visited; `None` while that is being decided.
    admitted: Option<bool>,
    parents: Vec<PathEntry>,
}

impl TraversalShare {
    pub(super) fn new(begin: TraversalBegin, plan: TraversalPlan) -> Self {
        Self {
            paths: begin.traversal.return_paths,
            begin,
            plan,
            step: AtomicU32::new(0),
            stopped: AtomicBool::new(false),
            state: Mutex::default(),
        }
    }

    /// Takes the known visibility for the caller; [`Self::add_visibility`] gives it back.
    pub(super) fn visibility(&self) -> Visibility {
        let known = self.state().visibility.take();
        known.unwrap_or_else(|| Visibility::of(self.begin.principal.as_ref()))
    }

    pub(super) fn add_visibility(&self, visibility: Visibility) {
        let mut state = self.state();
        match &mut state.visibility {
            Some(known) => known.absorb(visibility),
            none => *none = Some(visibility),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, ShareState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the traversal here; running tasks stop.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    /// Returns a page of the vertices visited here. The first page fixes the rest.
    pub(super) fn collect(&self, from: u64) -> TraversalReply {
        let mut state = self.state();
        let state = &mut *state;
        if from == 0 || state.collected.is_none() {
            let mut all = Vec::new();
            for (position, seen) in state.by_position.iter_mut().enumerate() {
                let admitted = seen.iter_mut().filter(|(_, s)| s.admitted == Some(true));
                all.extend(admitted.map(|(vertex, s)| {
                    s.parents.sort_unstable();
                    s.parents.dedup();
                    Visited {
                        position: ChainPosition(position as u32),
                        vertex: *vertex,
                        step: s.step,
                        parents: s.parents.clone(),
                    }
                }));
            }
            all.sort_unstable_by_key(|v| (v.position, v.step, v.vertex));
            state.collected = Some(all);
        }
        let all = state.collected.as_deref().unwrap_or_default();
        let rest = usize::try_from(from).ok().and_then(|from| all.get(from..));
        let rest = rest.unwrap_or_default();
        let piece = rest.get(..PAGE_VERTICES).unwrap_or(rest);
        let more = piece.len() < rest.len();
        TraversalReply::Collected {
            visited: piece.to_vec(),
            more,
            steps: if more {
                Vec::new()
            } else {
                let steps = state.asynchronous.steps.iter();
                steps
                    .map(|(position, done)| (*position, done.clone()))
                    .collect()
            },
        }
    }
}

impl Cancel for TraversalShare {
    fn cancelled(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }
}

impl ShareState {
    fn at_position(&mut self, position: ChainPosition) -> &mut Map<VertexId, VisitedVertex> {
        let position = position.0 as usize;
        if self.by_position.len() <= position {
            self.by_position.resize_with(position + 1, Map::default);
        }
        &mut self.by_position[position]
    }

    /// Adds the start vertices, which are admitted already.
    pub(super) fn start(&mut self, vertices: &[VertexId]) {
        for id in vertices {
            let seen = VisitedVertex {
                step: 0,
                admitted: Some(true),
                parents: Vec::new(),
            };
            if self
                .at_position(ChainPosition(0))
                .insert(*id, seen)
                .is_none()
            {
                self.reached
                    .entry(0)
                    .or_default()
                    .push((ChainPosition(0), *id));
            }
        }
    }

    /// Records vertices that were reached at a position; returns the new ones, which have yet to be admitted.
    pub(super) fn note(
        &mut self,
        step: u32,
        from: ChainPosition,
        to: ChainPosition,
        reached: &[Reached],
        paths: bool,
    ) -> RecordedVertices {
        if paths {
            self.path_edges += reached.len() as u64;
        }
        let seen = self.at_position(to);
        let mut noted = RecordedVertices::default();
        for r in reached {
            let id = r.edge.destination;
            let entry = seen.entry(id).or_insert_with(|| {
                noted.new.push(id);
                VisitedVertex {
                    step,
                    admitted: None,
                    parents: Vec::new(),
                }
            });
            if step < entry.step {
                entry.step = step;
                if entry.admitted == Some(true) {
                    noted.earlier.push(id);
                }
            }
            if paths {
                entry.parents.push(PathEntry {
                    from,
                    edge: r.edge,
                    version: r.version,
                });
            }
        }
        noted
    }

    /// Records which new vertices are admitted, each with the step that first reached it; returns the number of visited ones.
    pub(super) fn admit(&mut self, to: ChainPosition, new: &[VertexId], admitted: &[bool]) -> u64 {
        let mut visited = Vec::new();
        let seen = self.at_position(to);
        for (id, admitted) in new.iter().zip(admitted) {
            if let Some(entry) = seen.get_mut(id) {
                entry.admitted = Some(*admitted);
                if *admitted {
                    visited.push((entry.step, *id));
                } else {
                    entry.parents = Vec::new();
                }
            }
        }
        let count = visited.len() as u64;
        self.visited += count;
        for (step, id) in visited {
            self.reached.entry(step).or_default().push((to, id));
        }
        count
    }

    /// The vertices at a position that a step was the first to reach.
    pub(super) fn reached_by(&self, step: u32, position: ChainPosition) -> Vec<VertexId> {
        let all = self
            .reached
            .get(&step)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let here = all.iter().filter(|(p, _)| *p == position);
        here.map(|(_, id)| *id).collect()
    }

    /// The vertices at a position that a step was the first to reach, from index `after` on, up to `most`; with the
    /// number of vertices passed.
    pub(super) fn reached_after(
        &self,
        step: u32,
        position: ChainPosition,
        after: usize,
        most: usize,
    ) -> (usize, Vec<VertexId>) {
        let all = self
            .reached
            .get(&step)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let rest = all.get(after..).unwrap_or_default();
        let piece = rest.get(..most).unwrap_or(rest);
        let here = piece.iter().filter(|(p, _)| *p == position);
        (piece.len(), here.map(|(_, id)| *id).collect())
    }

    /// Returns whether admission is known for all these vertices, and whether one that this step was the first to
    /// reach is or may be visited.
    pub(super) fn admission_known(
        &mut self,
        step: u32,
        position: ChainPosition,
        reached: &[Reached],
    ) -> (bool, bool) {
        let seen = self.at_position(position);
        let (mut all, mut any) = (true, false);
        for r in reached {
            if let Some(entry) = seen.get(&r.edge.destination) {
                all &= entry.admitted.is_some();
                any |= entry.step == step && entry.admitted != Some(false);
            }
        }
        (all, any)
    }

    /// Memory of the traversal on this server in bytes, as budgets count it.
    pub(super) fn bytes(&self) -> u64 {
        VISITED_BYTES * self.visited + PATH_STEP_BYTES * self.path_edges
    }

    /// Queues vertices to continue from.
    pub(super) fn queue(
        &mut self,
        step: u32,
        position: ChainPosition,
        vertices: impl IntoIterator<Item = VertexId>,
    ) {
        let queue = self.asynchronous.queue.entry((step, position)).or_default();
        queue.extend(vertices);
    }

    /// Takes up to `most` vertices of the slowest step in the queue.
    pub(super) fn take_batch(
        &mut self,
        most: usize,
    ) -> Option<(u32, ChainPosition, Vec<VertexId>)> {
        loop {
            let mut first = self.asynchronous.queue.first_entry()?;
            let (step, position) = *first.key();
            let many = first.get().len().min(most);
            let batch: Vec<VertexId> = first.get_mut().drain(..many).collect();
            if first.get().is_empty() {
                first.remove();
            }
            if !batch.is_empty() {
                return Some((step, position, batch));
            }
        }
    }

    /// Takes all credit of this server, to return it to the coordinator.
    pub(super) fn credit_back(&mut self, travel: TraversalId) -> Option<TraversalCall> {
        let credit = std::mem::take(&mut self.asynchronous.credit);
        let failed = self.asynchronous.failed.clone();
        (credit > 0 || failed.is_some()).then(|| TraversalCall::Credit {
            travel,
            number: self.number(),
            credit,
            stopped: self.asynchronous.stopped,
            failed,
        })
    }

    /// Returns the number of the next message to another server. The messages that begin a traversal have the first numbers.
    pub(super) fn number(&mut self) -> u64 {
        self.asynchronous.next_number += 1;
        (1 << 32) + self.asynchronous.next_number
    }

    /// All vertices visited at a position.
    pub(super) fn visited_at(&mut self, position: ChainPosition) -> Vec<VertexId> {
        let seen = self.at_position(position).iter();
        let visited = seen.filter(|(_, s)| s.admitted == Some(true));
        visited.map(|(id, _)| *id).collect()
    }

    /// The step by which a visited vertex is known to be reached.
    pub(super) fn step_of(&mut self, position: ChainPosition, id: VertexId) -> Option<u32> {
        let seen = self.at_position(position).get(&id)?;
        (seen.admitted == Some(true)).then_some(seen.step)
    }
}

/// Result of recording reached vertices.
#[derive(Debug, Default)]
pub(super) struct RecordedVertices {
    /// Vertices that are new at the position.
    pub(super) new: Vec<VertexId>,
    /// Visited vertices that are now known to be reached by an earlier step.
    pub(super) earlier: Vec<VertexId>,
}
