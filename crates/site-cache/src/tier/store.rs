//! Cached entries of a tier: lookup, validity and changes.

use super::explain::CachedEntry;
use crate::cache::{Cache, Policy};
use crate::entry::{
    Answer, Attributes, Change, ChangeKind, Child, ENTRY_BYTES, Kind, Listing, Request, State,
    Time, Wants,
};
use crate::path::{PathId, Paths};
use std::sync::Arc;

/// Validity of cached answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// Valid until invalidated: the upstream tier publishes all changes.
    Published,
    /// Answers from a tier that sends invalidations are valid until one arrives. Others expire after a time to live that doubles with
    /// each confirmation without changes and is reset by a change. In microseconds.
    TimeToLive {
        /// Initial time to live, also after a change.
        least: Time,
        /// Maximum time to live.
        most: Time,
    },
}

/// Cached entry of a path.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) state: State,
    pub(super) listing: Option<Arc<Listing>>,
    /// Time of the state.
    pub(super) at: Time,
    /// Time of the listing.
    pub(super) listed_at: Time,
    /// Time to live, if no invalidations are sent.
    pub(super) ttl: Time,
    /// Subscription epoch in which the upstream tier sends invalidations for the entry.
    pub(super) subscribed: Option<u32>,
    /// Whether it was prefetched by this tier and has not been used.
    pub(super) prefetched: bool,
    /// Number of evictions from which it was spared.
    pub(super) spared: u8,
}

/// An answer from the cache.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) answer: Answer,
    /// Path whose entry answered.
    pub(super) by: PathId,
}

/// Maximum number of evictions from which an entry is spared.
const SPARED_MAX: u8 = 100;

/// Cached entries and their validity.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) cache: Cache<Entry>,
    freshness: Freshness,
    /// Subscription epoch: number of times that the upstream subscription was lost.
    epoch: u32,
}

/// Entries evicted from the cache.
pub(super) type Evicted = Vec<(PathId, Entry)>;

fn cost(path: PathId, listing: Option<&Arc<Listing>>, paths: &Paths) -> u64 {
    ENTRY_BYTES + paths.name(path).len() as u64 + listing.map_or(0, |l| l.bytes())
}

impl Store {
    pub(super) fn new(capacity: u64, policy: Policy, freshness: Freshness) -> Self {
        Self {
            cache: Cache::new(capacity, policy),
            freshness,
            epoch: 0,
        }
    }

    /// Ends the subscription epoch: no entry cached so far is covered by invalidations any more.
    pub(super) fn lose_subscriptions(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
    }

    fn is_subscribed(&self, entry: &Entry) -> bool {
        entry.subscribed == Some(self.epoch)
    }

    fn is_valid(&self, entry: &Entry, at: Time, now: Time, max_age: Option<Time>) -> bool {
        let age = now.saturating_sub(at);
        let valid = match self.freshness {
            Freshness::Published => true,
            Freshness::TimeToLive { .. } => self.is_subscribed(entry) || age <= entry.ttl,
        };
        valid && max_age.is_none_or(|most| age <= most)
    }

    /// Returns the listing of a directory, if it is valid.
    pub(super) fn listing(&self, path: PathId, now: Time) -> Option<&Arc<Listing>> {
        let entry = self.cache.peek(path)?;
        let listing = entry.listing.as_ref()?;
        self.is_valid(entry, entry.listed_at, now, None)
            .then_some(listing)
    }

    /// Returns the answer of the path's own entry.
    fn own(&self, request: Request, now: Time, max_age: Option<Time>) -> Option<Answer> {
        let entry = self.cache.peek(request.path)?;
        if !self.is_valid(entry, entry.at, now, max_age) {
            return None;
        }
        match (&entry.state, request.wants) {
            (State::Absent, _) => Some(Answer {
                subscribed: self.is_subscribed(entry),
                ..Answer::absent(entry.at)
            }),
            (State::Present(attributes), Wants::Stat) => Some(Answer {
                subscribed: self.is_subscribed(entry),
                ..Answer::present(attributes.clone(), entry.at)
            }),
            (State::Present(attributes), Wants::List) => {
                let mut answer = Answer::present(attributes.clone(), entry.at);
                answer.subscribed = self.is_subscribed(entry);
                match &entry.listing {
                    Some(listing) if self.is_valid(entry, entry.listed_at, now, max_age) => {
                        answer.listing = Some(listing.clone());
                        answer.at = entry.at.min(entry.listed_at);
                        Some(answer)
                    }
                    None if is_no_directory(attributes) => Some(answer),
                    _ => None,
                }
            }
        }
    }

    pub(super) fn has_own(&self, request: Request, now: Time) -> bool {
        self.own(request, now, None).is_some()
    }

    /// Looks up an answer: from the path's own entry, from the parent's listing, or from an absent ancestor.
    pub(super) fn find(
        &self,
        request: Request,
        now: Time,
        max_age: Option<Time>,
        paths: &Paths,
    ) -> Option<Found> {
        let path = request.path;
        if let Some(answer) = self.own(request, now, max_age) {
            return Some(Found { answer, by: path });
        }
        let mut below = path;
        while let Some(above) = paths.parent(below) {
            let Some(entry) = self.cache.peek(above) else {
                below = above;
                continue;
            };
            let by = above;
            if entry.state == State::Absent {
                let mut answer = Answer::absent(entry.at);
                answer.subscribed = self.is_subscribed(entry);
                let fresh = self.is_valid(entry, entry.at, now, max_age);
                return fresh.then_some(Found { answer, by });
            }
            let listing = entry.listing.as_ref()?;
            if !self.is_valid(entry, entry.listed_at, now, max_age) {
                return None;
            }
            let mut answer = match listing.get(below) {
                None if listing.complete() => Answer::absent(entry.listed_at),
                Some(child) if below == path => {
                    let attributes = &child.attributes;
                    let enough = match request.wants {
                        Wants::Stat => attributes.kind != Kind::Unknown,
                        Wants::List => is_no_directory(attributes),
                    };
                    if !enough {
                        return None;
                    }
                    Answer::present(attributes.clone(), entry.listed_at)
                }
                _ => return None,
            };
            answer.subscribed = self.is_subscribed(entry);
            return Some(Found { answer, by });
        }
        None
    }

    /// Returns the cached answer of the path even if it expired.
    pub(super) fn stale(&self, request: Request) -> Option<Answer> {
        let entry = self.cache.peek(request.path)?;
        let listing = match request.wants {
            Wants::Stat => None,
            Wants::List => Some(entry.listing.clone()?),
        };
        let at = match request.wants {
            Wants::Stat => entry.at,
            Wants::List => entry.at.min(entry.listed_at),
        };
        let state = entry.state.clone();
        let subscribed = self.is_subscribed(entry);
        Some(Answer {
            state,
            listing,
            at,
            subscribed,
        })
    }

    /// Returns the cached answer of the path or an ancestor even if it expired: the fallback when upstream is unreachable.
    pub(super) fn last_known(&self, request: Request, paths: &Paths) -> Option<Answer> {
        self.stale(request).or_else(|| {
            // At time 0 no entry is expired.
            let found = self.find(request, 0, None, paths);
            found.map(|found| found.answer)
        })
    }

    /// Inserts an answer into the cache.
    pub(super) fn keep(
        &mut self,
        request: Request,
        answer: &Answer,
        prefetched: bool,
        paths: &Paths,
        spare: &dyn Fn(PathId, bool) -> bool,
        evicted: &mut Evicted,
    ) {
        if self.cache.capacity() == 0 {
            return;
        }
        let path = request.path;
        let before = self.cache.peek(path);
        let mut ttl = 0;
        if let Freshness::TimeToLive { least, most } = self.freshness {
            let same = before.is_some_and(|b| {
                b.state == answer.state
                    && (request.wants == Wants::Stat || b.listing == answer.listing)
            });
            ttl = match before {
                Some(before) if same => before.ttl.saturating_mul(2).min(most),
                _ => least,
            };
        }
        // Attributes that arrive alone keep the cached listing, unless the state of the path changed.
        let (listing, listed_at) = match (request.wants, before) {
            (Wants::Stat, Some(before))
                if before.state == answer.state
                    && before.subscribed == answer.subscribed.then_some(self.epoch) =>
            {
                (before.listing.clone(), before.listed_at)
            }
            _ => (answer.listing.clone(), answer.at),
        };
        let bytes = cost(path, listing.as_ref(), paths);
        let entry = Entry {
            state: answer.state.clone(),
            listing,
            at: answer.at,
            listed_at,
            ttl,
            subscribed: answer.subscribed.then_some(self.epoch),
            prefetched,
            spared: 0,
        };
        let spares = |path: PathId, entry: &mut Entry| {
            let spared = entry.spared < SPARED_MAX && spare(path, entry.prefetched);
            entry.spared += u8::from(spared);
            spared
        };
        self.cache
            .insert_sparing(path, entry, bytes, spares, evicted);
    }

    /// Returns the cached entry of a path, for display.
    pub(super) fn cached(&self, path: PathId, paths: &Paths) -> Option<CachedEntry> {
        let entry = self.cache.peek(path)?;
        let of = |l: &Arc<Listing>| (l.children().len(), entry.listed_at, l.complete());
        Some(CachedEntry {
            state: entry.state.clone(),
            at: entry.at,
            listing: entry.listing.as_ref().map(of),
            subscribed: self.is_subscribed(entry),
            ttl: entry.ttl,
            unused: entry.prefetched,
            bytes: cost(path, entry.listing.as_ref(), paths),
        })
    }

    /// Renews an entry that the origin reports unchanged.
    pub(super) fn confirm(
        &mut self,
        request: Request,
        at: Time,
        subscribed: bool,
    ) -> Option<Answer> {
        let freshness = self.freshness;
        let epoch = self.epoch;
        let entry = self.cache.peek_mut(request.path)?;
        entry.at = at;
        entry.listed_at = at;
        entry.subscribed = subscribed.then_some(epoch);
        if let Freshness::TimeToLive { most, .. } = freshness {
            entry.ttl = entry.ttl.saturating_mul(2).min(most);
        }
        self.stale(request)
    }

    /// Removes entries that a change invalidates and applies it to others; a deletion is cached only if `from_upstream` by upstream.
    pub(super) fn change(
        &mut self,
        change: &Change,
        now: Time,
        from_upstream: bool,
        paths: &Paths,
        evicted: &mut Evicted,
    ) {
        let path = change.path;
        match &change.kind {
            ChangeKind::Changed(attributes) => {
                if let Some(entry) = self.cache.peek_mut(path) {
                    if attributes.kind == Kind::Unknown || entry.state == State::Absent {
                        evicted.extend(self.cache.remove(path));
                    } else {
                        entry.state = State::Present(attributes.clone());
                        entry.at = now;
                    }
                }
                // Paths below that were absent may exist now.
                self.forget_absent(path, paths, evicted);
                self.edit(path, Some(attributes), paths, evicted);
            }
            ChangeKind::Deleted => {
                for below in paths.subtree(path) {
                    evicted.extend(self.cache.remove(below));
                }
                self.edit(path, None, paths, evicted);
                if from_upstream {
                    let mut absent = Answer::absent(now);
                    absent.subscribed = true;
                    let request = Request::stat(path);
                    self.keep(request, &absent, false, paths, &|_, _| false, evicted);
                }
            }
            ChangeKind::Unsubscribed | ChangeKind::Invalidated => {
                for below in paths.subtree(path) {
                    evicted.extend(self.cache.remove(below));
                }
                if change.kind == ChangeKind::Invalidated {
                    self.drop_listing(path, paths, evicted);
                    self.forget_absent(path, paths, evicted);
                }
            }
        }
    }

    /// Removes the parent's listing.
    fn drop_listing(&mut self, path: PathId, paths: &Paths, evicted: &mut Evicted) {
        let Some(parent) = paths.parent(path) else {
            return;
        };
        if let Some(entry) = self.cache.peek_mut(parent)
            && entry.listing.take().is_some()
        {
            let bytes = cost(parent, None, paths);
            self.cache.set_bytes(parent, bytes, evicted);
        }
    }

    fn forget_absent(&mut self, path: PathId, paths: &Paths, evicted: &mut Evicted) {
        let absent = |p: &PathId| {
            self.cache
                .peek(*p)
                .is_some_and(|e| e.state == State::Absent)
        };
        // All ancestors of an existing path exist, whatever was cached before.
        let above: Vec<PathId> = paths.upwards(path).skip(1).filter(absent).collect();
        for path in above {
            evicted.extend(self.cache.remove(path));
        }
    }

    /// Applies the change to the parent's listing.
    fn edit(
        &mut self,
        path: PathId,
        attributes: Option<&Attributes>,
        paths: &Paths,
        evicted: &mut Evicted,
    ) {
        let Some(parent) = paths.parent(path) else {
            return;
        };
        let Some(entry) = self.cache.peek_mut(parent) else {
            return;
        };
        let Some(listing) = &mut entry.listing else {
            return;
        };
        let listing = Arc::make_mut(listing);
        match attributes {
            Some(attributes) => {
                let attributes = attributes.clone();
                listing.put(Child { path, attributes }, paths);
            }
            None => listing.remove(path, paths),
        }
        let bytes = cost(parent, entry.listing.as_ref(), paths);
        self.cache.set_bytes(parent, bytes, evicted);
    }
}

fn is_no_directory(attributes: &Attributes) -> bool {
    matches!(attributes.kind, Kind::File | Kind::Other)
}
