//! DLS, the paper's directory locality scheme, as published (section III-E).
//!
//! A miss on `f` counts on its parent. (i) As long as the parent's listing is not cached: when the counter passes T, the
//! parent is listed, and its children are prefetched when the listing comes. (ii) When it is cached: every sibling that
//! is not is prefetched, on each miss. That makes a directory that is larger than the cache thrash; see [`super::Guarded`].

use super::{Access, Predictor, View, Wish};
use crate::entry::{Request, Wants};
use crate::path::PathId;
use crate::queue::PRIORITY_MAX;
use crate::recent::Recent;

/// DLS's parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DlsSettings {
    /// T: more misses than that under a directory, and it is listed. The paper names no value.
    pub threshold: u32,
    /// Directories whose misses are counted. The paper keeps the counters in the LRU cache, where cold ones go.
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
    /// What the last miss asked for: siblings are prefetched alike, for types are not looked at.
    wants: Wants,
    /// Whether its listing was asked for, and siblings are to follow it.
    listing: bool,
}

/// The predictor.
#[derive(Debug)]
pub struct Dls {
    settings: DlsSettings,
    counters: Recent<PathId, Counter>,
}

impl Dls {
    /// With nothing counted.
    pub fn new(settings: DlsSettings) -> Self {
        Self {
            settings,
            counters: Recent::new(settings.counters),
        }
    }
}

fn siblings(parent: PathId, wants: Wants, view: &dyn View, wishes: &mut Vec<Wish>) -> bool {
    let Some(listing) = view.listing(parent) else {
        return false;
    };
    for child in listing.children() {
        let path = child.path;
        let request = Request { path, wants };
        if !view.has_own(request) {
            let priority = 2;
            wishes.push(Wish { request, priority });
        }
    }
    true
}

impl Predictor for Dls {
    fn learn(&mut self, _access: Access, _view: &dyn View) {}

    fn predict(&mut self, access: Access, view: &dyn View, wishes: &mut Vec<Wish>) {
        if !access.outcome.waits() {
            return;
        }
        let Request { path, wants } = access.request;
        let Some(parent) = view.paths().parent(path) else {
            return;
        };
        if siblings(parent, wants, view, wishes) {
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
            wishes.push(Wish {
                request: Request::list(parent),
                priority: PRIORITY_MAX,
            });
        }
    }

    fn listed(&mut self, path: PathId, view: &dyn View, wishes: &mut Vec<Wish>) {
        if let Some(counter) = self.counters.get(path)
            && std::mem::take(&mut counter.listing)
        {
            let wants = counter.wants;
            siblings(path, wants, view, wishes);
        }
    }

    fn held(&self, mark: &mut dyn FnMut(PathId)) {
        self.counters.keys().for_each(mark);
    }
}
