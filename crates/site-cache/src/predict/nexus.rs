//! NEXUS (Gu, Zhu, Jiang, Wang, CCGRID 2006): a weighted graph of successors.
//!
//! Each request adds weight to the edges from the preceding requests, more to nearer ones (its linear decremented assignment).
//! After a miss, the successors with the greatest weights are prefetched as one group. Clients are not distinguished.

use super::{Access, CacheView, Predictor, PrefetchRequest};
use crate::entry::Request;
use crate::path::PathId;
use crate::recent::Recent;
use std::collections::VecDeque;

/// Parameters of the NEXUS predictor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NexusSettings {
    /// Number of preceding requests of which a request is a successor (its look-ahead window).
    pub window: usize,
    /// k: number of successors prefetched together.
    pub group: usize,
    /// Maximum number of successors per path; the lightest is replaced.
    pub successors: usize,
    /// Maximum number of paths with successors.
    pub paths: usize,
}

impl Default for NexusSettings {
    fn default() -> Self {
        Self {
            window: 4,
            group: 4,
            successors: 16,
            paths: 1 << 20,
        }
    }
}

/// Successors with their weights.
pub(super) type Successors = Vec<(Request, u32)>;

/// Adds weight to a successor; at the limit, the lightest is replaced.
pub(super) fn strengthen(successors: &mut Successors, to: Request, by: u32, limit: usize) {
    if let Some(edge) = successors.iter_mut().find(|(s, _)| *s == to) {
        edge.1 = edge.1.saturating_add(by);
    } else if successors.len() < limit {
        successors.push((to, by));
    } else if let Some(lightest) = successors.iter_mut().min_by_key(|(_, w)| *w) {
        *lightest = (to, by);
    }
}

/// Predictor NEXUS with its graph.
#[derive(Debug)]
pub struct Nexus {
    settings: NexusSettings,
    graph: Recent<PathId, Successors>,
    history: VecDeque<Request>,
}

impl Nexus {
    /// Creates a predictor with an empty graph.
    pub fn new(settings: NexusSettings) -> Self {
        Self {
            settings,
            graph: Recent::new(settings.paths),
            history: VecDeque::new(),
        }
    }

    /// Returns the successors of a path, the heaviest first.
    pub fn successors(&self, path: PathId) -> Vec<(Request, u32)> {
        let mut all = self.graph.peek(path).cloned().unwrap_or_default();
        all.sort_by_key(|(request, weight)| (std::cmp::Reverse(*weight), *request));
        all
    }
}

impl Predictor for Nexus {
    fn learn(&mut self, access: Access, _view: &dyn CacheView) {
        let request = access.request;
        for (distance, before) in self.history.iter().rev().enumerate() {
            if before.path != request.path {
                let weight = (self.settings.window - distance) as u32;
                let (successors, _) = self.graph.get_or_put(before.path, Vec::new);
                strengthen(successors, request, weight, self.settings.successors);
            }
        }
        self.history.push_back(request);
        if self.history.len() > self.settings.window {
            self.history.pop_front();
        }
    }

    fn predict(
        &mut self,
        access: Access,
        _view: &dyn CacheView,
        prefetches: &mut Vec<PrefetchRequest>,
    ) {
        if !access.outcome.waits() {
            return;
        }
        let group = self.successors(access.request.path);
        let group = group.into_iter().take(self.settings.group);
        prefetches.extend(group.map(|(request, _)| PrefetchRequest {
            request,
            priority: 3,
        }));
    }

    fn end_training(&mut self) {
        self.history.clear();
    }

    fn mark_used_paths(&self, mark: &mut dyn FnMut(PathId)) {
        for (path, successors) in self.graph.iter() {
            mark(path);
            successors
                .iter()
                .for_each(|(request, _)| mark(request.path));
        }
        self.history.iter().for_each(|request| mark(request.path));
    }
}
