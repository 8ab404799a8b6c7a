//! What a server knows of a traversal: what was visited of the vertices that are at home there.

use super::super::Sight;
use super::super::hashed::{Map, Set};
use crate::peer::{
    PathEntry, Reached, StepDone, TravelBegin, TravelCall, TravelId, TravelPlace as Place,
    TravelReply, Visited,
};
use crate::vnode::ServerId;
use esker_engine::PartPlan;
use esker_model::{Cancel, VertexId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Memory of a visited vertex, and of an edge of a path, as budgets count it.
pub(super) const VISITED_BYTES: u64 = 5;
pub(super) const PATH_BYTES: u64 = 64;

/// Visited vertices in a piece of what is collected.
const PIECE: usize = 1 << 14;

/// A server's share in a traversal.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) begin: TravelBegin,
    pub(super) plan: PartPlan,
    /// Whether paths are kept.
    pub(super) paths: bool,
    /// The step that runs or ran last: reading ahead for it ends when it begins.
    pub(super) step: AtomicU32,
    stopped: AtomicBool,
    state: Mutex<WalkState>,
}

/// What changes.
#[derive(Debug, Default)]
pub(super) struct WalkState {
    /// By place.
    places: Vec<Map<VertexId, Seen>>,
    /// By step: what it was the first to reach, and where.
    reached: BTreeMap<u32, Vec<(Place, VertexId)>>,
    /// When this server was done with its share of the last step, in microseconds.
    pub(super) idle_since: Option<u64>,
    /// Microseconds of admitting vertices since that was last asked for.
    pub(super) vertices_micros: u64,
    /// Microseconds of reading ahead for the next step.
    pub(super) prefetch_micros: u64,
    /// The step that this server has done its share of, and where the next one leads, if it reads ahead.
    pub(super) waits_for: Option<u32>,
    pub(super) next: Option<Place>,
    /// Whether something is being read ahead.
    pub(super) reading_ahead: bool,
    /// How far reading ahead has come in the next step's frontier.
    pub(super) ahead: usize,
    /// Asynchronous: see `flow`.
    pub(super) flow: FlowState,
    /// What its caller sees, as far as it is known here.
    pub(super) sight: Option<Sight>,
    /// Vertices visited here, and edges kept of paths.
    visited: u64,
    steps_of_paths: u64,
    /// What was visited, once that was asked for.
    collected: Option<Vec<Visited>>,
}

/// What an asynchronous traversal has to do here.
#[derive(Debug, Default)]
pub(super) struct FlowState {
    /// By step and place: vertices to go on from. Slower steps come first.
    pub(super) queue: BTreeMap<(u32, Place), VecDeque<VertexId>>,
    /// Whether somebody works on it.
    pub(super) working: bool,
    /// How many messages are being taken in or sent on: what they bring is still to come.
    pub(super) arriving: u32,
    /// By the place that a segment begins with: vertices that it was begun from.
    pub(super) begun: BTreeMap<Place, Set<VertexId>>,
    /// Messages that have arrived.
    pub(super) arrived: Set<(ServerId, u64)>,
    pub(super) credit: u64,
    pub(super) next_number: u64,
    pub(super) stopped: Option<esker_model::traversal::StopReason>,
    pub(super) failed: Option<String>,
    /// By place.
    pub(super) steps: BTreeMap<u32, StepDone>,
}

/// A vertex at a place.
#[derive(Debug)]
struct Seen {
    step: u32,
    /// `None` while it is found out.
    admitted: Option<bool>,
    parents: Vec<PathEntry>,
}

impl Walk {
    pub(super) fn new(begin: TravelBegin, plan: PartPlan) -> Self {
        Self {
            paths: begin.traversal.return_paths,
            begin,
            plan,
            step: AtomicU32::new(0),
            stopped: AtomicBool::new(false),
            state: Mutex::default(),
        }
    }

    /// What its caller sees: whoever finds out more gives it back with [`Self::saw`].
    pub(super) fn sight(&self) -> Sight {
        let known = self.state().sight.take();
        known.unwrap_or_else(|| Sight::of(self.begin.asker.as_ref()))
    }

    pub(super) fn saw(&self, sight: Sight) {
        let mut state = self.state();
        match &mut state.sight {
            Some(known) => known.absorb(sight),
            none => *none = Some(sight),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, WalkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It is over: what still runs for it ends.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    /// A piece of what was visited here. The first makes the rest fixed.
    pub(super) fn collect(&self, from: u64) -> TravelReply {
        let mut state = self.state();
        let state = &mut *state;
        if from == 0 || state.collected.is_none() {
            let mut all = Vec::new();
            for (place, seen) in state.places.iter_mut().enumerate() {
                let admitted = seen.iter_mut().filter(|(_, s)| s.admitted == Some(true));
                all.extend(admitted.map(|(vertex, s)| {
                    s.parents.sort_unstable();
                    s.parents.dedup();
                    Visited {
                        place: Place(place as u32),
                        vertex: *vertex,
                        step: s.step,
                        parents: s.parents.clone(),
                    }
                }));
            }
            all.sort_unstable_by_key(|v| (v.place, v.step, v.vertex));
            state.collected = Some(all);
        }
        let all = state.collected.as_deref().unwrap_or_default();
        let rest = usize::try_from(from).ok().and_then(|from| all.get(from..));
        let rest = rest.unwrap_or_default();
        let piece = rest.get(..PIECE).unwrap_or(rest);
        let more = piece.len() < rest.len();
        TravelReply::Collected {
            visited: piece.to_vec(),
            more,
            steps: if more {
                Vec::new()
            } else {
                let steps = state.flow.steps.iter();
                steps.map(|(place, done)| (*place, done.clone())).collect()
            },
        }
    }
}

impl Cancel for Walk {
    fn cancelled(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }
}

impl WalkState {
    fn place(&mut self, place: Place) -> &mut Map<VertexId, Seen> {
        let place = place.0 as usize;
        if self.places.len() <= place {
            self.places.resize_with(place + 1, Map::default);
        }
        &mut self.places[place]
    }

    /// The start, which is admitted already.
    pub(super) fn start(&mut self, vertices: &[VertexId]) {
        for id in vertices {
            let seen = Seen {
                step: 0,
                admitted: Some(true),
                parents: Vec::new(),
            };
            if self.place(Place(0)).insert(*id, seen).is_none() {
                self.reached.entry(0).or_default().push((Place(0), *id));
            }
        }
    }

    /// Notes vertices that were reached at a place; those that are new there, which have yet to be admitted.
    pub(super) fn note(
        &mut self,
        step: u32,
        from: Place,
        to: Place,
        reached: &[Reached],
        paths: bool,
    ) -> Noted {
        if paths {
            self.steps_of_paths += reached.len() as u64;
        }
        let seen = self.place(to);
        let mut noted = Noted::default();
        for r in reached {
            let id = r.edge.destination;
            let entry = seen.entry(id).or_insert_with(|| {
                noted.fresh.push(id);
                Seen {
                    step,
                    admitted: None,
                    parents: Vec::new(),
                }
            });
            if step < entry.step {
                entry.step = step;
                if entry.admitted == Some(true) {
                    noted.sooner.push(id);
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

    /// What became of those that were new; how many are visited. Each with the step that it was first reached by.
    pub(super) fn admit(&mut self, to: Place, fresh: &[VertexId], admitted: &[bool]) -> u64 {
        let mut visited = Vec::new();
        let seen = self.place(to);
        for (id, admitted) in fresh.iter().zip(admitted) {
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

    /// Those that a step was the first to reach at a place.
    pub(super) fn reached_by(&self, step: u32, place: Place) -> Vec<VertexId> {
        let all = self
            .reached
            .get(&step)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let here = all.iter().filter(|(p, _)| *p == place);
        here.map(|(_, id)| *id).collect()
    }

    /// The same, those behind so many, up to so many.
    pub(super) fn reached_after(
        &self,
        step: u32,
        place: Place,
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
        let here = piece.iter().filter(|(p, _)| *p == place);
        (piece.len(), here.map(|(_, id)| *id).collect())
    }

    /// Whether it is known yet of all these, reached at a place, whether they are visited; and whether one that this step
    /// was the first to reach is or may be.
    pub(super) fn known(&mut self, step: u32, place: Place, reached: &[Reached]) -> (bool, bool) {
        let seen = self.place(place);
        let (mut all, mut any) = (true, false);
        for r in reached {
            if let Some(entry) = seen.get(&r.edge.destination) {
                all &= entry.admitted.is_some();
                any |= entry.step == step && entry.admitted != Some(false);
            }
        }
        (all, any)
    }

    /// Memory that it takes here, as budgets count it.
    pub(super) fn bytes(&self) -> u64 {
        VISITED_BYTES * self.visited + PATH_BYTES * self.steps_of_paths
    }

    /// Queues vertices to go on from.
    pub(super) fn queue(
        &mut self,
        step: u32,
        place: Place,
        vertices: impl IntoIterator<Item = VertexId>,
    ) {
        let queue = self.flow.queue.entry((step, place)).or_default();
        queue.extend(vertices);
    }

    /// Up to so many vertices of the slowest step that something waits for.
    pub(super) fn take_batch(&mut self, most: usize) -> Option<(u32, Place, Vec<VertexId>)> {
        loop {
            let mut first = self.flow.queue.first_entry()?;
            let (step, place) = *first.key();
            let many = first.get().len().min(most);
            let batch: Vec<VertexId> = first.get_mut().drain(..many).collect();
            if first.get().is_empty() {
                first.remove();
            }
            if !batch.is_empty() {
                return Some((step, place, batch));
            }
        }
    }

    /// All credit that is here, on its way back to the coordinator.
    pub(super) fn credit_back(&mut self, travel: TravelId) -> Option<TravelCall> {
        let credit = std::mem::take(&mut self.flow.credit);
        let failed = self.flow.failed.clone();
        (credit > 0 || failed.is_some()).then(|| TravelCall::Credit {
            travel,
            number: self.number(),
            credit,
            stopped: self.flow.stopped,
            failed,
        })
    }

    /// The number of the next message to somebody else. Those that begin a traversal have the first.
    pub(super) fn number(&mut self) -> u64 {
        self.flow.next_number += 1;
        (1 << 32) + self.flow.next_number
    }

    /// All that was visited at a place.
    pub(super) fn visited_at(&mut self, place: Place) -> Vec<VertexId> {
        let seen = self.place(place).iter();
        let visited = seen.filter(|(_, s)| s.admitted == Some(true));
        visited.map(|(id, _)| *id).collect()
    }

    /// By which step a visited vertex is known to be reached.
    pub(super) fn step_of(&mut self, place: Place, id: VertexId) -> Option<u32> {
        let seen = self.place(place).get(&id)?;
        (seen.admitted == Some(true)).then_some(seen.step)
    }
}

/// What came of noting vertices.
#[derive(Debug, Default)]
pub(super) struct Noted {
    /// New at the place.
    pub(super) fresh: Vec<VertexId>,
    /// Visited before, and now known to be reached by an earlier step.
    pub(super) sooner: Vec<VertexId>,
}
