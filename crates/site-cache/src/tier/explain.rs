//! Explains a tier's answers for display.

use super::Tier;
use crate::entry::{Request, State, Time, Wants};
use crate::path::{PathId, Paths};
use crate::queue::Class;

/// Cached entry of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedEntry {
    /// Existence and attributes of the path.
    pub state: State,
    /// Time of the state.
    pub at: Time,
    /// Number of entries of its listing, time of the listing, and whether it is complete.
    pub listing: Option<(usize, Time, bool)>,
    /// Whether the upstream tier sends invalidations.
    pub subscribed: bool,
    /// Time to live without invalidations, in microseconds.
    pub ttl: Time,
    /// Whether it was prefetched and has not been used yet.
    pub unused: bool,
    /// Cached size in bytes.
    pub bytes: u64,
}

/// State of a tier concerning one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TierExplanation {
    /// Cached entry of the path itself, valid or not.
    pub cached: Option<CachedEntry>,
    /// Path whose entry answers a request for attributes now: the path itself, or the directory with the listing.
    pub stat_by: Option<PathId>,
    /// Path whose entry answers a request for the listing now.
    pub list_by: Option<PathId>,
    /// Urgency of the pending request for attributes, and whether it is in flight.
    pub stat_pending: Option<(Class, bool)>,
    /// Urgency of the pending request for the listing, and whether it is in flight.
    pub list_pending: Option<(Class, bool)>,
    /// Downstream tiers that are notified of changes in its directory.
    pub subscribers: Vec<u32>,
    /// State of the predictor for the path as a directory.
    pub predictor: Option<String>,
    /// State of the predictor for the parent directory.
    pub parent_predictor: Option<String>,
}

impl Tier {
    /// Explains the tier's state for a path, without side effects.
    pub fn explain(&self, now: Time, path: PathId, paths: &Paths) -> TierExplanation {
        let by = |wants| {
            let found = self.store.find(Request { path, wants }, now, None, paths)?;
            Some(found.by)
        };
        let parent = paths.parent(path);
        TierExplanation {
            cached: self.store.cached(path, paths),
            stat_by: by(Wants::Stat),
            list_by: by(Wants::List),
            stat_pending: self.queue.status(Request::stat(path)),
            list_pending: self.queue.status(Request::list(path)),
            subscribers: self.subscriptions.subscribers(parent.unwrap_or(path)),
            predictor: self.predictor.explain(path, paths),
            parent_predictor: parent.and_then(|p| self.predictor.explain(p, paths)),
        }
    }
}
