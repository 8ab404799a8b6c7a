//! The cached entries of a tier: what they answer, how fresh they are, how changes alter them.

use super::explain::Kept;
use crate::cache::{Cache, Policy};
use crate::entry::{
    Answer, Attributes, Change, Child, ENTRY_BYTES, Happened, Kind, Listing, Request, State, Time,
    Wants,
};
use crate::path::{PathId, Paths};
use std::sync::Arc;

/// How long answers are believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// As long as nobody says otherwise: the tier above publishes all changes.
    Published,
    /// Answers whose giver tells of changes, until it does. Others for a time that doubles each time that nothing had changed,
    /// and begins anew when something had. In microseconds.
    TimeToLive {
        /// The first time, and after a change.
        least: Time,
        /// The longest time.
        most: Time,
    },
}

/// A cached path.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) state: State,
    pub(super) listing: Option<Arc<Listing>>,
    /// When the state was true.
    pub(super) at: Time,
    /// When the listing was true.
    pub(super) listed_at: Time,
    /// For how long it is believed, if nobody publishes.
    pub(super) believed: Time,
    /// Whether who answered tells of changes, as it promised in this age.
    pub(super) told: Option<u32>,
    /// It was prefetched by this tier and has not been used.
    pub(super) prefetched: bool,
    /// How often it was spared when it was to go.
    pub(super) spared: u8,
}

/// An answer out of the cache.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) answer: Answer,
    /// The path whose entry answered.
    pub(super) by: PathId,
}

/// How often an entry may stay although it was to go.
const SPARED_MAX: u8 = 100;

/// Entries, and how they are believed.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) cache: Cache<Entry>,
    freshness: Freshness,
    /// Counts how often promises to tell of changes were lost.
    age: u32,
}

/// Values that went from the cache.
pub(super) type Gone = Vec<(PathId, Entry)>;

fn cost(path: PathId, listing: Option<&Arc<Listing>>, paths: &Paths) -> u64 {
    ENTRY_BYTES + paths.name(path).len() as u64 + listing.map_or(0, |l| l.bytes())
}

impl Store {
    pub(super) fn new(capacity: u64, policy: Policy, freshness: Freshness) -> Self {
        Self {
            cache: Cache::new(capacity, policy),
            freshness,
            age: 0,
        }
    }

    /// Nobody tells of changes any more, of all that was promised so far.
    pub(super) fn cut(&mut self) {
        self.age = self.age.wrapping_add(1);
    }

    fn is_told(&self, entry: &Entry) -> bool {
        entry.told == Some(self.age)
    }

    fn fresh(&self, entry: &Entry, at: Time, now: Time, max_age: Option<Time>) -> bool {
        let age = now.saturating_sub(at);
        let believed = match self.freshness {
            Freshness::Published => true,
            Freshness::TimeToLive { .. } => self.is_told(entry) || age <= entry.believed,
        };
        believed && max_age.is_none_or(|most| age <= most)
    }

    /// The listing of a directory, if it is believed.
    pub(super) fn listing(&self, path: PathId, now: Time) -> Option<&Arc<Listing>> {
        let entry = self.cache.peek(path)?;
        let listing = entry.listing.as_ref()?;
        self.fresh(entry, entry.listed_at, now, None)
            .then_some(listing)
    }

    /// What the path's own entry answers.
    fn own(&self, request: Request, now: Time, max_age: Option<Time>) -> Option<Answer> {
        let entry = self.cache.peek(request.path)?;
        if !self.fresh(entry, entry.at, now, max_age) {
            return None;
        }
        match (&entry.state, request.wants) {
            (State::Absent, _) => Some(Answer {
                told: self.is_told(entry),
                ..Answer::absent(entry.at)
            }),
            (State::Present(attributes), Wants::Stat) => Some(Answer {
                told: self.is_told(entry),
                ..Answer::present(attributes.clone(), entry.at)
            }),
            (State::Present(attributes), Wants::List) => {
                let mut answer = Answer::present(attributes.clone(), entry.at);
                answer.told = self.is_told(entry);
                match &entry.listing {
                    Some(listing) if self.fresh(entry, entry.listed_at, now, max_age) => {
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

    /// What is known of a path: by itself, by the listing above it, by the absence of what stands above it.
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
                answer.told = self.is_told(entry);
                let fresh = self.fresh(entry, entry.at, now, max_age);
                return fresh.then_some(Found { answer, by });
            }
            let listing = entry.listing.as_ref()?;
            if !self.fresh(entry, entry.listed_at, now, max_age) {
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
            answer.told = self.is_told(entry);
            return Some(Found { answer, by });
        }
        None
    }

    /// What is cached of the path although it is not believed any more.
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
        let told = self.is_told(entry);
        Some(Answer {
            state,
            listing,
            at,
            told,
        })
    }

    /// The same, by what stands above the path if it is not known itself: the best there is when nobody can be asked.
    pub(super) fn last_known(&self, request: Request, paths: &Paths) -> Option<Answer> {
        self.stale(request).or_else(|| {
            // At the beginning of time nothing is too old.
            let found = self.find(request, 0, None, paths);
            found.map(|found| found.answer)
        })
    }

    /// Keeps an answer.
    pub(super) fn keep(
        &mut self,
        request: Request,
        answer: &Answer,
        prefetched: bool,
        paths: &Paths,
        spare: &dyn Fn(PathId, bool) -> bool,
        gone: &mut Gone,
    ) {
        if self.cache.capacity() == 0 {
            return;
        }
        let path = request.path;
        let before = self.cache.peek(path);
        let mut believed = 0;
        if let Freshness::TimeToLive { least, most } = self.freshness {
            let same = before.is_some_and(|b| {
                b.state == answer.state
                    && (request.wants == Wants::Stat || b.listing == answer.listing)
            });
            believed = match before {
                Some(before) if same => before.believed.saturating_mul(2).min(most),
                _ => least,
            };
        }
        // Attributes that came alone leave a listing where it is, unless they say that it is another directory by now.
        let (listing, listed_at) = match (request.wants, before) {
            (Wants::Stat, Some(before))
                if before.state == answer.state
                    && before.told == answer.told.then_some(self.age) =>
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
            believed,
            told: answer.told.then_some(self.age),
            prefetched,
            spared: 0,
        };
        let spares = |path: PathId, entry: &mut Entry| {
            let spared = entry.spared < SPARED_MAX && spare(path, entry.prefetched);
            entry.spared += u8::from(spared);
            spared
        };
        self.cache.insert_sparing(path, entry, bytes, spares, gone);
    }

    /// What is kept of a path itself, for people.
    pub(super) fn kept(&self, path: PathId, paths: &Paths) -> Option<Kept> {
        let entry = self.cache.peek(path)?;
        let of = |l: &Arc<Listing>| (l.children().len(), entry.listed_at, l.complete());
        Some(Kept {
            state: entry.state.clone(),
            at: entry.at,
            listing: entry.listing.as_ref().map(of),
            told: self.is_told(entry),
            believed: entry.believed,
            unused: entry.prefetched,
            bytes: cost(path, entry.listing.as_ref(), paths),
        })
    }

    /// The origin says that nothing has changed since.
    pub(super) fn confirm(&mut self, request: Request, at: Time, told: bool) -> Option<Answer> {
        let freshness = self.freshness;
        let age = self.age;
        let entry = self.cache.peek_mut(request.path)?;
        entry.at = at;
        entry.listed_at = at;
        entry.told = told.then_some(age);
        if let Freshness::TimeToLive { most, .. } = freshness {
            entry.believed = entry.believed.saturating_mul(2).min(most);
        }
        self.stale(request)
    }

    /// Lets go of what a change made untrue, and keeps what it says; that something is gone only if `told` from above.
    pub(super) fn change(
        &mut self,
        change: &Change,
        now: Time,
        told: bool,
        paths: &Paths,
        gone: &mut Gone,
    ) {
        let path = change.path;
        match &change.happened {
            Happened::Changed(attributes) => {
                if let Some(entry) = self.cache.peek_mut(path) {
                    if attributes.kind == Kind::Unknown || entry.state == State::Absent {
                        gone.extend(self.cache.remove(path));
                    } else {
                        entry.state = State::Present(attributes.clone());
                        entry.at = now;
                    }
                }
                // What was absent below it may be there by now.
                self.forget_absent(path, paths, gone);
                self.edit(path, Some(attributes), paths, gone);
            }
            Happened::Deleted => {
                for below in paths.subtree(path) {
                    gone.extend(self.cache.remove(below));
                }
                self.edit(path, None, paths, gone);
                if told {
                    let mut absent = Answer::absent(now);
                    absent.told = true;
                    let request = Request::stat(path);
                    self.keep(request, &absent, false, paths, &|_, _| false, gone);
                }
            }
            Happened::Forgotten | Happened::Doubted => {
                for below in paths.subtree(path) {
                    gone.extend(self.cache.remove(below));
                }
                if change.happened == Happened::Doubted {
                    self.drop_listing(path, paths, gone);
                    self.forget_absent(path, paths, gone);
                }
            }
        }
    }

    /// The listing above says nothing of the path any more.
    fn drop_listing(&mut self, path: PathId, paths: &Paths, gone: &mut Gone) {
        let Some(parent) = paths.parent(path) else {
            return;
        };
        if let Some(entry) = self.cache.peek_mut(parent)
            && entry.listing.take().is_some()
        {
            let bytes = cost(parent, None, paths);
            self.cache.set_bytes(parent, bytes, gone);
        }
    }

    fn forget_absent(&mut self, path: PathId, paths: &Paths, gone: &mut Gone) {
        let absent = |p: &PathId| {
            self.cache
                .peek(*p)
                .is_some_and(|e| e.state == State::Absent)
        };
        // Something that is there stands in directories that are there, whatever was said before.
        let above: Vec<PathId> = paths.upwards(path).skip(1).filter(absent).collect();
        for path in above {
            gone.extend(self.cache.remove(path));
        }
    }

    /// The listing above shows the change.
    fn edit(
        &mut self,
        path: PathId,
        attributes: Option<&Attributes>,
        paths: &Paths,
        gone: &mut Gone,
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
        self.cache.set_bytes(parent, bytes, gone);
    }
}

fn is_no_directory(attributes: &Attributes) -> bool {
    matches!(attributes.kind, Kind::File | Kind::Other)
}
