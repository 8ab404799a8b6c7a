//! Guarded DLS: directory locality with feedback on the use of its prefetches.
//!
//! DLS as published fetches all missing siblings on every miss. Here
//! - a directory's siblings are limited by a *window* of unused prefetches. It grows fourfold on each miss among siblings (a larger
//!   window would have had it), by one with each use, and shrinks by one with each unused eviction;
//! - all windows together take no more than a share of the cache;
//! - a child that was requested lately is skipped, because siblings are mostly read once, and a miss on it is no reason to list its
//!   directory: unless such prefetches are used as well, which is tested from time to time;
//! - a listing is held in the cache only while some of its children are still to be prefetched and there is room for them;
//! - a listing that would fill an eighth of the cache is not kept;
//! - where more prefetches are wasted than used, only an occasional small probe is sent;
//! - types come from the listing: attributes are answered by the listing itself, and only directories are listed.
//!
//! The *learned* variant also lets similar directories (by name without digits, and by parent) share their record, so that a new
//! one is listed at its first miss, or later than others; and it prefetches sequences ([`super::sequence`]) besides siblings.

use super::sequence::Sequences;
use super::{Access, CacheView, Outcome, Predictor, PrefetchRequest};
use crate::entry::{CHILD_BYTES, ENTRY_BYTES, Kind, LISTING_BYTES, Request, Wants};
use crate::path::{PathId, Paths};
use crate::queue::PRIORITY_MAX;
use crate::recent::Recent;
use foldhash::fast::FixedState;
use std::hash::BuildHasher as _;

/// Parameters of guarded DLS.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GuardedSettings {
    /// A directory is listed after more misses than this.
    pub threshold: u32,
    /// Window of a directory when its listing arrives.
    pub window: u32,
    /// Share of the cache that a directory's unused prefetches may take.
    pub share: f64,
    /// Share of the cache that unused prefetches of all directories may take.
    pub shares: f64,
    /// Maximum number of directories with state.
    pub directories: usize,
    /// Whether similar directories share their record.
    pub alike: bool,
    /// Whether sequences are prefetched, too.
    pub sequences: bool,
}

impl Default for GuardedSettings {
    fn default() -> Self {
        Self {
            threshold: 1,
            window: 16,
            share: 0.25,
            shares: 0.6,
            directories: 1 << 16,
            alike: false,
            sequences: false,
        }
    }
}

impl GuardedSettings {
    /// Returns the parameters of the learned variant.
    pub fn learned() -> Self {
        Self {
            alike: true,
            sequences: true,
            ..Self::default()
        }
    }
}

/// Assumed size of a prefetched entry in bytes: decides how many fit into a share of the cache.
const ENTRY_COST: u64 = ENTRY_BYTES + LISTING_BYTES + CHILD_BYTES / 2;
/// Uses and wastes are halved when their sum exceeds this.
const MEMORY: u32 = 512;
const PROBE: u32 = 4;
/// Maximum number of directories that are remembered as requested.
const READ_MAX: usize = 1 << 16;
/// A directory without requests for this many times its usual gap is no longer in use.
const IDLE: u64 = 16;
/// Minimum number of requests after which a directory counts as idle.
const IDLE_LEAST: u64 = 64;

/// Outcomes of prefetches.
#[derive(Debug, Clone, Copy, Default)]
struct Record {
    used: u32,
    wasted: u32,
}

impl Record {
    fn add(&mut self, used: bool) {
        if used {
            self.used += 1;
        } else {
            self.wasted += 1;
        }
        if self.used + self.wasted > MEMORY {
            self.used /= 2;
            self.wasted /= 2;
        }
    }

    fn pays(self) -> bool {
        4 * self.wasted <= 3 * self.used + 32
    }
}

#[derive(Debug, Clone, Copy)]
struct Directory {
    misses: u32,
    wants: Wants,
    record: Record,
    window: u32,
    /// Prefetched siblings that are neither used nor lost yet.
    live: u32,
    /// Index of the next child of the listing.
    cursor: u32,
    /// Whether `cursor` reached the end of the listing.
    exhausted: bool,
    /// Whether the last miss was on a path requested before: such children are prefetched, too.
    again: bool,
    /// Whether a listing was requested and has not arrived.
    listing: bool,
    /// Present if the listing itself was prefetched and neither used nor lost: whether a sibling from it was used.
    unproved: Option<bool>,
    /// Number of its unused listings: the threshold doubles with each.
    listings_wasted: u8,
    /// Time of the last request in the directory.
    used_at: u64,
    /// Mean number of requests between two requests in the directory.
    gap: u64,
    /// Misses since the last probe of a directory that does not pay, and number to wait for.
    quiet: (u32, u32),
}

impl Directory {
    fn record_request(&mut self, clock: u64) {
        let gap = clock - self.used_at;
        self.gap = (self.gap * 7 + gap) / 8;
        self.used_at = clock;
    }

    /// Whether further requests in the directory are likely, judging by its usual gap.
    fn in_use(&self, clock: u64) -> bool {
        self.record.pays() && clock - self.used_at < IDLE_LEAST + IDLE * self.gap
    }
}

/// Predictor of guarded DLS, plain or learned.
#[derive(Debug)]
pub struct Guarded {
    settings: GuardedSettings,
    directories: Recent<PathId, Directory>,
    classes: Option<Recent<u64, Record>>,
    sequences: Option<Sequences>,
    /// Number of requests seen.
    clock: u64,
    /// Prefetched siblings of all directories that are neither used nor lost.
    live: u32,
    /// Number of them that fits into the share of all directories.
    limit: u32,
    /// Directories listed lately, by clients.
    read: Recent<PathId, ()>,
    /// Outcomes of prefetches of directories that had been listed before.
    rereads: Record,
    /// Misses on such directories since the last probe while that does not pay, and number to wait for.
    quiet: (u32, u32),
}

impl Guarded {
    /// Creates a predictor without any state.
    pub fn new(settings: GuardedSettings) -> Self {
        Self {
            settings,
            directories: Recent::new(settings.directories),
            classes: settings.alike.then(|| Recent::new(settings.directories)),
            sequences: settings.sequences.then(Sequences::new),
            clock: 0,
            live: 0,
            limit: u32::MAX,
            read: Recent::new(READ_MAX),
            rereads: Record::default(),
            quiet: (0, 0),
        }
    }

    /// Returns the classes of similar directories: by name, and by parent.
    fn classes_of(paths: &Paths, directory: PathId, wants: Wants) -> [u64; 2] {
        let digit = |b: &u8| if b.is_ascii_digit() { b'0' } else { *b };
        let name: Vec<u8> = paths.name(directory).iter().map(digit).collect();
        let hash = FixedState::with_seed(7);
        [
            hash.hash_one((name, wants)),
            hash.hash_one((paths.parent(directory), wants)),
        ]
    }

    fn record_of_alike(&self, paths: &Paths, directory: PathId, wants: Wants) -> Record {
        let Some(classes) = &self.classes else {
            return Record::default();
        };
        let keys = Self::classes_of(paths, directory, wants);
        let records = keys.iter().filter_map(|key| classes.peek(*key));
        records.fold(Record::default(), |sum, record| Record {
            used: sum.used + record.used,
            wasted: sum.wasted + record.wasted,
        })
    }

    fn note(&mut self, paths: &Paths, directory: PathId, wants: Wants, used: bool) {
        if let Some(classes) = &mut self.classes {
            for key in Self::classes_of(paths, directory, wants) {
                classes.get_or_put(key, Record::default).0.add(used);
            }
        }
    }

    /// Returns the number of misses after which the directory is listed.
    fn threshold(&self, paths: &Paths, path: PathId, directory: &Directory) -> u32 {
        let own = self.settings.threshold << directory.listings_wasted.min(8);
        let alike = self.record_of_alike(paths, path, directory.wants);
        if alike.used >= 8 && alike.used >= 2 * alike.wasted {
            return own.saturating_sub(1);
        }
        if alike.wasted >= 16 && alike.wasted > 2 * alike.used {
            return (own + 1) * 4;
        }
        own
    }

    /// Returns the number of entries that may be prefetched besides those that are neither used nor lost.
    fn prefetchable(&mut self, view: &dyn CacheView) -> u32 {
        self.limit = entries(view, self.settings.shares);
        self.limit.saturating_sub(self.live)
    }

    /// Whether a miss on a directory listed before counts: always while prefetches of such directories pay, and now and then otherwise.
    fn counts_again(&mut self) -> bool {
        if self.rereads.pays() {
            self.quiet = (0, 0);
            return true;
        }
        self.quiet.0 += 1;
        if self.quiet.0 < self.quiet.1 {
            return false;
        }
        self.quiet = (0, (self.quiet.1 * 2).clamp(8, 1024));
        true
    }

    fn expand(
        &mut self,
        path: PathId,
        missed: bool,
        view: &dyn CacheView,
        prefetches: &mut Vec<PrefetchRequest>,
    ) {
        let most = entries(view, self.settings.share);
        let left = self.prefetchable(view);
        let Some(listing) = view.listing(path) else {
            return;
        };
        let Some(directory) = self.directories.get(path) else {
            return;
        };
        let children = listing.children();
        if missed {
            if directory.cursor as usize >= children.len() {
                // All children were prefetched: a missed one was evicted since.
                directory.cursor = 0;
                directory.window = self.settings.window;
            } else {
                directory.window = directory.window.saturating_mul(4);
            }
        }
        let mut room = directory
            .window
            .min(most)
            .saturating_sub(directory.live)
            .min(left);
        if !directory.record.pays() {
            directory.quiet.0 += u32::from(missed);
            if directory.quiet.0 < directory.quiet.1 {
                return;
            }
            directory.quiet = (0, (directory.quiet.1 * 2).clamp(8, 1024));
            room = room.min(PROBE);
        }
        let again = directory.again;
        if again && !self.rereads.pays() {
            room = room.min(PROBE);
        }
        while room > 0 {
            let Some(child) = children.get(directory.cursor as usize) else {
                break;
            };
            directory.cursor += 1;
            let known = child.attributes.kind;
            let request = match directory.wants {
                Wants::List if !again && self.read.peek(child.path).is_some() => continue,
                Wants::List if matches!(known, Kind::Directory | Kind::Unknown) => {
                    Request::list(child.path)
                }
                // The listing itself answers, unless it has names only.
                Wants::Stat if known == Kind::Unknown => Request::stat(child.path),
                _ => continue,
            };
            if view.has_own(request) || view.is_pending(request) {
                continue;
            }
            let priority = if directory.record.pays() { 3 } else { 1 };
            prefetches.push(PrefetchRequest { request, priority });
            directory.live += 1;
            self.live += 1;
            room -= 1;
        }
        directory.exhausted = directory.cursor as usize >= children.len();
    }

    /// Records that a prefetched sibling was used or lost; returns its directory.
    fn record_outcome(&mut self, path: PathId, used: bool, paths: &Paths) -> Option<PathId> {
        let sequence = self.sequences.as_mut();
        if sequence.is_some_and(|s| s.record_outcome(path, used)) {
            return None;
        }
        if let Some(directory) = self.directories.get(path)
            && let Some(proved) = directory.unproved.take()
        {
            directory.listings_wasted = if used || proved {
                0
            } else {
                directory.listings_wasted.saturating_add(1)
            };
            let wants = directory.wants;
            self.note(paths, path, wants, used);
            return None;
        }
        let parent = paths.parent(path)?;
        let directory = self.directories.get(parent)?;
        directory.live = directory.live.saturating_sub(1);
        self.live = self.live.saturating_sub(1);
        if self.read.peek(path).is_some() {
            self.rereads.add(used);
        } else {
            directory.record.add(used);
        }
        if used {
            directory.record_request(self.clock);
            directory.unproved = directory.unproved.map(|_| true);
            directory.listings_wasted = 0;
            directory.window = directory.window.saturating_add(1);
            directory.quiet.1 = 0;
        } else {
            directory.window = directory.window.saturating_sub(1).max(1);
        }
        let wants = directory.wants;
        self.note(paths, parent, wants, used);
        Some(parent)
    }
}

/// Returns the number of prefetched entries that fit into a share of the cache.
fn entries(view: &dyn CacheView, share: f64) -> u32 {
    let entries = (view.capacity() as f64 * share) as u64 / ENTRY_COST;
    entries.clamp(1, u64::from(u32::MAX)) as u32
}

impl Predictor for Guarded {
    fn learn(&mut self, access: Access, view: &dyn CacheView) {
        self.clock += 1;
        if let Some(sequences) = &mut self.sequences {
            sequences.learn(access, view);
        }
    }

    fn predict(
        &mut self,
        access: Access,
        view: &dyn CacheView,
        prefetches: &mut Vec<PrefetchRequest>,
    ) {
        if let Some(sequences) = &mut self.sequences {
            sequences.predict(access, view, prefetches);
        }
        let Request { path, wants } = access.request;
        match access.outcome {
            Outcome::Hit => return,
            Outcome::FirstUse(answered) | Outcome::Late(answered) => {
                let parent = self.record_outcome(answered, true, view.paths());
                if wants == Wants::List && answered == path {
                    self.read.put(path, ());
                }
                let Some(parent) = parent else {
                    return;
                };
                let low = self
                    .directories
                    .peek(parent)
                    .is_some_and(|d| d.live < d.window / 2);
                if low {
                    self.expand(parent, false, view, prefetches);
                }
                return;
            }
            Outcome::Miss => {}
        }
        let Some(parent) = view.paths().parent(path) else {
            return;
        };
        let again = wants == Wants::List && self.read.get(path).is_some();
        if again && !self.counts_again() {
            return;
        }
        if wants == Wants::List {
            self.read.put(path, ());
        }
        let fresh = || Directory {
            misses: 0,
            wants,
            record: Record::default(),
            window: self.settings.window,
            live: 0,
            cursor: 0,
            exhausted: false,
            again: false,
            listing: false,
            unproved: None,
            listings_wasted: 0,
            used_at: self.clock,
            gap: IDLE_LEAST,
            quiet: (0, 0),
        };
        let (directory, evicted) = self.directories.get_or_put(parent, fresh);
        // A file's attributes do not end the prefetching of directories beside it.
        if wants == Wants::List || directory.live == 0 {
            directory.wants = wants;
        }
        directory.again = again;
        directory.misses += 1;
        directory.record_request(self.clock);
        let directory = *directory;
        if let Some((_, evicted)) = evicted {
            self.live = self.live.saturating_sub(evicted.live);
        }
        if view.listing(parent).is_some() {
            self.expand(parent, true, view, prefetches);
        } else if directory.misses > self.threshold(view.paths(), parent, &directory)
            && (wants == Wants::Stat || self.prefetchable(view) > 0)
        {
            let request = Request::list(parent);
            if !view.is_pending(request) {
                let priority = PRIORITY_MAX;
                prefetches.push(PrefetchRequest { request, priority });
                if let Some(directory) = self.directories.get(parent) {
                    directory.misses = 0;
                    directory.listing = true;
                    directory.unproved = Some(false);
                }
            }
        }
    }

    fn on_listing(
        &mut self,
        path: PathId,
        view: &dyn CacheView,
        prefetches: &mut Vec<PrefetchRequest>,
    ) {
        if let Some(directory) = self.directories.get(path)
            && std::mem::take(&mut directory.listing)
        {
            directory.cursor = 0;
            self.expand(path, false, view, prefetches);
        }
    }

    fn on_wasted(&mut self, request: Request, paths: &Paths) {
        self.record_outcome(request.path, false, paths);
    }

    fn keeps(&self, bytes: u64, capacity: u64) -> bool {
        bytes as f64 <= capacity as f64 * self.settings.share / 2.0
    }

    fn spares(&self, path: PathId, unused: bool, paths: &Paths) -> bool {
        let in_use = |d: &Directory| d.in_use(self.clock);
        // The listing is needed to find the next siblings, while there is room for them.
        if let Some(directory) = self.directories.peek(path)
            && (directory.live > 0 && !directory.exhausted && in_use(directory))
            && self.live < self.limit
        {
            return true;
        }
        let parent = paths.parent(path).filter(|_| unused);
        let directory = parent.and_then(|p| self.directories.peek(p));
        directory.is_some_and(in_use)
    }

    fn on_refused(&mut self, request: Request, paths: &Paths) {
        if self.sequences.as_mut().is_some_and(|s| s.refused(request)) {
            return;
        }
        if let Some(directory) = self.directories.get(request.path)
            && directory.listing
            && request.wants == Wants::List
        {
            directory.listing = false;
            directory.unproved = None;
            return;
        }
        if let Some(parent) = paths.parent(request.path)
            && let Some(directory) = self.directories.get(parent)
        {
            directory.live = directory.live.saturating_sub(1);
            self.live = self.live.saturating_sub(1);
        }
    }

    fn explain(&self, directory: PathId, _paths: &Paths) -> Option<String> {
        let known = self.directories.peek(directory)?;
        Some(format!(
            "{} misses below it; of what was prefetched there lately, {} were used and {} were not; up to {} at once, {} now",
            known.misses, known.record.used, known.record.wasted, known.window, known.live
        ))
    }

    fn mark_used_paths(&self, mark: &mut dyn FnMut(PathId)) {
        self.directories.keys().for_each(&mut *mark);
        self.read.keys().for_each(&mut *mark);
        if let Some(sequences) = &self.sequences {
            sequences.mark_used_paths(mark);
        }
    }
}
