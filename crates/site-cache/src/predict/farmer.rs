//! FARMER (Xia, Feng, Jiang, Tian, Wang, HPDC 2008): sequences combined with attributes.
//!
//! Successions are counted as in NEXUS. The strength of the relation of two paths is
//! `p · similarity + (1 − p) · frequency`: the frequency is the share of a path's uses that the other followed, the
//! similarity the share of attributes that both have. The attributes are the client and the path; for the path, the share of
//! common leading names counts (its integrated path algorithm). Successors below a minimum strength are no candidates.

use super::nexus::{Successors, strengthen};
use super::{Access, CacheView, Predictor, PrefetchRequest};
use crate::path::{PathId, Paths};
use crate::queue::PRIORITY_MAX;
use crate::recent::Recent;
use std::collections::VecDeque;

/// Parameters of the FARMER predictor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FarmerSettings {
    /// Number of preceding requests of which a request is a successor.
    pub window: usize,
    /// p: weight of attributes against the sequence.
    pub similarity: f64,
    /// Minimum strength of a candidate.
    pub strength: f64,
    /// Number of candidates prefetched together.
    pub group: usize,
    /// Maximum number of successors per path.
    pub successors: usize,
    /// Maximum number of paths with successors.
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
struct PathRecord {
    uses: u32,
    client: u32,
    successors: Successors,
}

/// Predictor FARMER with its model.
#[derive(Debug)]
pub struct Farmer {
    settings: FarmerSettings,
    graph: Recent<PathId, PathRecord>,
    history: VecDeque<PathId>,
}

impl Farmer {
    /// Creates an untrained predictor.
    pub fn new(settings: FarmerSettings) -> Self {
        Self {
            settings,
            graph: Recent::new(settings.paths),
            history: VecDeque::new(),
        }
    }
}

/// Returns the share of common leading names of two paths, relative to the longer one.
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
    fn learn(&mut self, access: Access, _view: &dyn CacheView) {
        let request = access.request;
        for (distance, before) in self.history.iter().rev().enumerate() {
            if *before != request.path
                && let Some(record) = self.graph.get(*before)
            {
                let weight = (self.settings.window - distance) as u32;
                let limit = self.settings.successors;
                strengthen(&mut record.successors, request, weight, limit);
            }
        }
        let (record, _) = self.graph.get_or_put(request.path, PathRecord::default);
        record.uses = record.uses.saturating_add(1);
        record.client = access.client;
        self.history.push_back(request.path);
        if self.history.len() > self.settings.window {
            self.history.pop_front();
        }
    }

    fn predict(
        &mut self,
        access: Access,
        view: &dyn CacheView,
        prefetches: &mut Vec<PrefetchRequest>,
    ) {
        if !access.outcome.waits() {
            return;
        }
        let path = access.request.path;
        let Some(record) = self.graph.peek(path) else {
            return;
        };
        // A successor that followed immediately each time has frequency 1.
        let full = f64::from(record.uses) * self.settings.window as f64;
        let mut candidates = Vec::new();
        for (request, weight) in &record.successors {
            let frequency = (f64::from(*weight) / full).min(1.0);
            let other = self.graph.peek(request.path);
            let same = other.is_some_and(|o| o.client == record.client);
            let alike = path_similarity(view.paths(), path, request.path);
            // Two attributes: the client and the path.
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
        prefetches.extend(group.map(|(strength, request)| PrefetchRequest {
            request,
            priority: priority(strength),
        }));
    }

    fn end_training(&mut self) {
        self.history.clear();
    }

    fn mark_used_paths(&self, mark: &mut dyn FnMut(PathId)) {
        for (path, record) in self.graph.iter() {
            mark(path);
            let successors = record.successors.iter();
            successors.for_each(|(request, _)| mark(request.path));
        }
        self.history.iter().for_each(|path| mark(*path));
    }
}
