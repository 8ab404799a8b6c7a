//! DLS, the paper's directory locality scheme, as published (section III-E).
//!
//! A miss on `f` is counted for its parent. (i) While the parent's listing is not cached: when the counter exceeds T, the
//! parent is listed, and its children are prefetched when the listing arrives. (ii) When it is cached: every sibling that
//! is not cached is prefetched, on each miss. A directory larger than the cache therefore thrashes; see [`super::Guarded`].

use super::{Access, CacheView, Predictor, PrefetchRequest};
use crate::entry::{Request, Wants};
use crate::path::PathId;
use crate::queue::PRIORITY_MAX;
use crate::recent::Recent;

/// Parameters of the DLS predictor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DlsSettings {
    /// T: a directory is listed after more misses than this. The paper gives no value.
    pub threshold: u32,
    /// Maximum number of directories with counters. The paper keeps them in the LRU cache, which evicts cold ones.
    pub counters: usize,
}

impl Default for DlsSettings {
    fn default() -> Self {
        Self {
            threshold: 2,
            counters: 1 << 16,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Counter {
    misses: u32,
    /// Kind of the last missed request: siblings are prefetched with the same kind, whatever their type.
    wants: Wants,
    /// Whether the listing was requested, and siblings are to be prefetched when it arrives.
    listing: bool,
}

/// Predictor DLS with its counters.
#[derive(Debug)]
pub struct Dls {
    settings: DlsSettings,
    counters: Recent<PathId, Counter>,
}

impl Dls {
    /// Creates a predictor without counters.
    pub fn new(settings: DlsSettings) -> Self {
        Self {
            settings,
            counters: Recent::new(settings.counters),
        }
    }
}

fn siblings(
    parent: PathId,
    wants: Wants,
    view: &dyn CacheView,
    prefetches: &mut Vec<PrefetchRequest>,
) -> bool {
    let Some(listing) = view.listing(parent) else {
        return false;
    };
    for child in listing.children() {
        let path = child.path;
        let request = Request { path, wants };
        if !view.has_own(request) {
            let priority = 2;
            prefetches.push(PrefetchRequest { request, priority });
        }
    }
    true
}

impl Predictor for Dls {
    fn learn(&mut self, _access: Access, _view: &dyn CacheView) {}

    fn predict(
        &mut self,
        access: Access,
        view: &dyn CacheView,
        prefetches: &mut Vec<PrefetchRequest>,
    ) {
        if !access.outcome.waits() {
            return;
        }
        let Request { path, wants } = access.request;
        let Some(parent) = view.paths().parent(path) else {
            return;
        };
        if siblings(parent, wants, view, prefetches) {
            return;
        }
        let fresh = || Counter {
            misses: 0,
            wants,
            listing: false,
        };
        let (counter, _) = self.counters.get_or_put(parent, fresh);
        counter.misses += 1;
        counter.wants = wants;
        if counter.misses > self.settings.threshold {
            counter.listing = true;
            prefetches.push(PrefetchRequest {
                request: Request::list(parent),
                priority: PRIORITY_MAX,
            });
        }
    }

    fn on_listing(
        &mut self,
        path: PathId,
        view: &dyn CacheView,
        prefetches: &mut Vec<PrefetchRequest>,
    ) {
        if let Some(counter) = self.counters.get(path)
            && std::mem::take(&mut counter.listing)
        {
            let wants = counter.wants;
            siblings(path, wants, view, prefetches);
        }
    }

    fn mark_used_paths(&self, mark: &mut dyn FnMut(PathId)) {
        self.counters.keys().for_each(mark);
    }
}
