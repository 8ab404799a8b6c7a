//! FARMER (Xia, Feng, Jiang, Tian, Wang, HPDC 2008): sequence and attributes together.
//!
//! Which requests follow which is counted as NEXUS does. How strongly two paths belong together is
//! `p · similarity + (1 − p) · frequency`: the frequency is the share of a path's uses that the other followed, the
//! similarity the share of attributes that both have. Attributes are the client and the path; of the path counts which
//! part of its names both begin with (its integrated path algorithm). Successors below a least strength are no candidates.

use super::nexus::{Successors, strengthen};
use super::{Access, Predictor, View, Wish};
use crate::path::{PathId, Paths};
use crate::queue::PRIORITY_MAX;
use crate::recent::Recent;
use std::collections::VecDeque;

/// FARMER's parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FarmerSettings {
    /// How far back a request is a successor.
    pub window: usize,
    /// p: what attributes weigh against the sequence.
    pub similarity: f64,
    /// The least strength of a candidate.
    pub strength: f64,
    /// Candidates that are prefetched together.
    pub group: usize,
    /// Successors kept of a path.
    pub successors: usize,
    /// Paths whose successors are kept.
    pub paths: usize,
}

impl Default for FarmerSettings {
    fn default() -> Self {
        Self {
            window: 4,
            similarity: 0.7,
            strength: 0.4,
            group: 4,
            successors: 16,
            paths: 1 << 20,
        }
    }
}

#[derive(Debug, Default)]
struct Known {
    uses: u32,
    client: u32,
    successors: Successors,
}

/// The predictor.
#[derive(Debug)]
pub struct Farmer {
    settings: FarmerSettings,
    graph: Recent<PathId, Known>,
    history: VecDeque<PathId>,
}

impl Farmer {
    /// With nothing known.
    pub fn new(settings: FarmerSettings) -> Self {
        Self {
            settings,
            graph: Recent::new(settings.paths),
            history: VecDeque::new(),
        }
    }
}

/// How many names two paths begin with alike, as a part of the longer one's.
fn path_similarity(paths: &Paths, one: PathId, other: PathId) -> f64 {
    let mut depths = (paths.depth(one), paths.depth(other));
    let longest = depths.0.max(depths.1);
    let (mut one, mut other) = (one, other);
    while one != other {
        if depths.0 >= depths.1 {
            one = match paths.parent(one) {
                Some(parent) => parent,
                None => return 0.0,
            };
            depths.0 = depths.0.saturating_sub(1);
        } else {
            other = match paths.parent(other) {
                Some(parent) => parent,
                None => return 0.0,
            };
            depths.1 = depths.1.saturating_sub(1);
        }
    }
    if longest == 0 {
        return 1.0;
    }
    paths.depth(one) as f64 / longest as f64
}

impl Predictor for Farmer {
    fn learn(&mut self, access: Access, _view: &dyn View) {
        let request = access.request;
        for (distance, before) in self.history.iter().rev().enumerate() {
            if *before != request.path
                && let Some(known) = self.graph.get(*before)
            {
                let weight = (self.settings.window - distance) as u32;
                let limit = self.settings.successors;
                strengthen(&mut known.successors, request, weight, limit);
            }
        }
        let (known, _) = self.graph.get_or_put(request.path, Known::default);
        known.uses = known.uses.saturating_add(1);
        known.client = access.client;
        self.history.push_back(request.path);
        if self.history.len() > self.settings.window {
            self.history.pop_front();
        }
    }

    fn predict(&mut self, access: Access, view: &dyn View, wishes: &mut Vec<Wish>) {
        if !access.outcome.waits() {
            return;
        }
        let path = access.request.path;
        let Some(known) = self.graph.peek(path) else {
            return;
        };
        // A successor that followed each time right behind has the frequency 1.
        let full = f64::from(known.uses) * self.settings.window as f64;
        let mut candidates = Vec::new();
        for (request, weight) in &known.successors {
            let frequency = (f64::from(*weight) / full).min(1.0);
            let other = self.graph.peek(request.path);
            let same = other.is_some_and(|o| o.client == known.client);
            let alike = path_similarity(view.paths(), path, request.path);
            // Two attributes: who asked, and the path.
            let similarity = f64::midpoint(f64::from(u8::from(same)), alike);
            let p = self.settings.similarity;
            let strength = p * similarity + (1.0 - p) * frequency;
            if strength >= self.settings.strength {
                candidates.push((strength, *request));
            }
        }
        candidates.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let priority = |strength: f64| (strength * f64::from(PRIORITY_MAX)) as u8;
        let group = candidates.into_iter().take(self.settings.group);
        wishes.extend(group.map(|(strength, request)| Wish {
            request,
            priority: priority(strength),
        }));
    }

    fn trained(&mut self) {
        self.history.clear();
    }

    fn held(&self, mark: &mut dyn FnMut(PathId)) {
        for (path, known) in self.graph.iter() {
            mark(path);
            let successors = known.successors.iter();
            successors.for_each(|(request, _)| mark(request.path));
        }
        self.history.iter().for_each(|path| mark(*path));
    }
}
