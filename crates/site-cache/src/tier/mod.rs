//! A tier: cache, queue, predictor and subscriptions combined into one state machine.
//!
//! The host calls [`Tier::request`] for each request of a client or a downstream tier, [`Tier::poll`] whenever a request may be
//! sent, [`Tier::handle_response`] with answers from upstream, and [`Tier::publish`] with changes. The resulting actions are returned as
//! [`Output`]s. A cloud service is a tier without a cache whose queue is as wide as it has services.

mod explain;
mod log;
mod store;
mod subscribe;

pub use explain::{CachedEntry, TierExplanation};
pub use store::Freshness;

use crate::cache::Policy;
use crate::entry::{Answer, Change, ChangeKind, Failure, Listing, Request, Time, Wants};
use crate::path::{PathId, Paths};
use crate::predict::{Access, CacheView, NoPrefetch, Outcome, Predictor, PrefetchRequest};
use crate::queue::{Class, Completed, Enqueued, Queue, Run, Sent, Waiters};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use log::ChangeLog;
use std::sync::Arc;
use store::{Evicted, Found, Store};
use subscribe::{Subscribers, Subscriptions};

/// Settings of a tier.
#[derive(Debug)]
pub struct TierSettings {
    /// Cache capacity in bytes.
    pub capacity: u64,
    /// Replacement policy of the cache.
    pub policy: Policy,
    /// Validity of cached answers.
    pub freshness: Freshness,
    /// Predictor that selects prefetches.
    pub predictor: Box<dyn Predictor>,
    /// Maximum number of requests waiting to be sent.
    pub waiting_max: usize,
    /// Maximum number of requests in flight.
    pub running_max: usize,
    /// Maximum number of directories with subscriptions.
    pub subscribed_max: usize,
    /// Whether a fetch preempts a prefetch in flight when the limit is reached.
    pub preempts: bool,
}

impl Default for TierSettings {
    fn default() -> Self {
        Self {
            capacity: 64 << 20,
            policy: Policy::Lru,
            freshness: Freshness::Published,
            predictor: Box::new(NoPrefetch),
            waiting_max: 1 << 16,
            running_max: 4096,
            subscribed_max: 1 << 20,
            preempts: false,
        }
    }
}

impl TierSettings {
    /// Returns the settings of a cloud service: no cache, `services` requests in flight.
    pub fn cloud(services: usize) -> Self {
        Self {
            capacity: 0,
            running_max: services,
            preempts: true,
            waiting_max: 1 << 17,
            ..Self::default()
        }
    }
}

/// Sender of a request to a tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requester {
    /// A client, by a stable number from which predictors learn.
    Client(u32),
    /// A downstream tier, by number.
    Tier(u32),
}

/// A request to a tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TierRequest {
    /// Sender of the request.
    pub requester: Requester,
    /// Number that is returned with the answer.
    pub ticket: u64,
    /// Path and kind of metadata.
    pub request: Request,
    /// Whether a client waits.
    pub class: Class,
    /// Maximum age of the answer in microseconds; `None` leaves it to the tier.
    pub max_age: Option<Time>,
    /// Whether an expired answer is acceptable if there is no other.
    pub stale_if_error: bool,
}

/// Immediate result of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The answer, from the cache.
    Answer(Answer),
    /// The answer will follow as [`Output::Done`].
    Wait,
    /// Refused: no answer will follow.
    Refused(Failure),
}

/// Action that the host has to take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Send a request to the upstream tier or to the origin.
    Send {
        /// Request, urgency and run.
        sent: Sent<Request>,
        /// Cached answer, if any: the origin may reply that it is unchanged.
        since: Option<Answer>,
        /// Maximum age of the answer in microseconds, if a waiting client demands one.
        max_age: Option<Time>,
    },
    /// Cancel a sent request: its answer is no longer needed.
    Cancel(Run),
    /// Deliver an answer to the sender of the request.
    Done {
        /// Sender of the request.
        requester: Requester,
        /// Number from the request.
        ticket: u64,
        /// Answer, or the reason for its absence.
        result: Result<Answer, Failure>,
    },
    /// Notify a downstream tier of a change.
    Notify {
        /// Number of the tier.
        to: u32,
        /// Change to notify.
        change: Change,
    },
}

/// Response of the upstream tier or the origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fetched {
    /// An answer to the request.
    Answer(Answer),
    /// The cached answer is still valid at this time; and whether the upstream tier sends invalidations.
    Unchanged(Time, bool),
    /// No answer, for this reason.
    Failed(Failure),
}

/// Counters of a tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Requests of waiting clients.
    pub requests: u64,
    /// Requests answered at once.
    pub hits: u64,
    /// Hits answered by a listing.
    pub by_listing: u64,
    /// Hits whose answer is that the path does not exist.
    pub absent: u64,
    /// Requests that joined a prefetch of the same.
    pub joined_prefetch: u64,
    /// Requests sent because a client waited.
    pub fetched: u64,
    /// Requests sent as prefetches.
    pub prefetched: u64,
    /// Prefetches that were used.
    pub prefetched_used: u64,
    /// Prefetches evicted without use.
    pub prefetched_wasted: u64,
    /// Prefetches that were cached already, or found the queue full.
    pub refused: u64,
}

#[derive(Debug, Clone, Copy)]
enum Waiter {
    /// A prefetch: no client waits.
    Predictor,
    Request {
        ask: TierRequest,
        at: Time,
    },
}

/// Maximum number of times that a request is repeated because a change overtook its answer.
const TRIES: u8 = 16;

/// One tier of the site cache.
#[derive(Debug)]
pub struct Tier {
    store: Store,
    queue: Queue<Request, Waiter>,
    predictor: Box<dyn Predictor>,
    subscriptions: Subscriptions,
    log: ChangeLog,
    tries: HashMap<Request, u8, FixedState>,
    preempts: bool,
    stats: Stats,
    prefetches: Vec<PrefetchRequest>,
    evicted: Evicted,
}

/// State that the predictor may read.
struct TierView<'a> {
    store: &'a Store,
    queue: &'a Queue<Request, Waiter>,
    paths: &'a Paths,
    now: Time,
}

impl CacheView for TierView<'_> {
    fn paths(&self) -> &Paths {
        self.paths
    }

    fn listing(&self, path: PathId) -> Option<Arc<Listing>> {
        self.store.listing(path, self.now).cloned()
    }

    fn has_own(&self, request: Request) -> bool {
        self.store.has_own(request, self.now)
    }

    fn answers(&self, request: Request) -> bool {
        let found = self.store.find(request, self.now, None, self.paths);
        found.is_some()
    }

    fn is_pending(&self, request: Request) -> bool {
        self.queue.has(request)
    }

    fn capacity(&self) -> u64 {
        self.store.cache.capacity()
    }
}

impl Tier {
    /// Creates an empty tier.
    pub fn new(settings: TierSettings) -> Self {
        Self {
            store: Store::new(settings.capacity, settings.policy, settings.freshness),
            queue: Queue::new(settings.waiting_max, settings.running_max),
            predictor: settings.predictor,
            subscriptions: Subscriptions::new(settings.subscribed_max),
            log: ChangeLog::new(),
            tries: HashMap::with_hasher(FixedState::with_seed(3)),
            preempts: settings.preempts,
            stats: Stats::default(),
            prefetches: Vec::new(),
            evicted: Vec::new(),
        }
    }

    /// Returns the counters of the tier.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Returns the size of the cache in bytes.
    pub fn used(&self) -> u64 {
        self.store.cache.used()
    }

    /// Returns the number of cached paths.
    pub fn len(&self) -> usize {
        self.store.cache.len()
    }

    /// Whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.store.cache.is_empty()
    }

    /// Returns the numbers of waiting requests and of requests in flight.
    pub fn pending(&self) -> (usize, usize) {
        (self.queue.waiting(), self.queue.running())
    }

    /// Returns the request of a run, as long as it is in flight.
    pub fn running(&self, run: Run) -> Option<Request> {
        self.queue.key_of(run)
    }

    /// Returns the answer from the cache, without side effects.
    pub fn peek(&self, now: Time, request: Request, paths: &Paths) -> Option<Answer> {
        let found = self.store.find(request, now, None, paths)?;
        Some(found.answer)
    }

    /// Trains the predictor with a request, without sending anything.
    pub fn train(&mut self, access: Access, paths: &Paths) {
        let view = TierView {
            store: &self.store,
            queue: &self.queue,
            paths,
            now: 0,
        };
        self.predictor.learn(access, &view);
    }

    /// Ends training of the predictor.
    pub fn end_training(&mut self) {
        self.predictor.end_training();
    }

    /// Handles a request of a client or a downstream tier.
    pub fn request(
        &mut self,
        now: Time,
        ask: TierRequest,
        paths: &Paths,
        out: &mut Vec<Output>,
    ) -> Reply {
        let request = ask.request;
        if let Requester::Tier(tier) = ask.requester {
            self.subscribe(tier, request, paths, out);
        }
        let waits = ask.class == Class::Fetch;
        self.stats.requests += u64::from(waits);
        let found = match self.store.cache.capacity() {
            0 => None,
            _ => self.store.find(request, now, ask.max_age, paths),
        };
        if let Some(found) = found {
            return self.hit(now, ask, found, paths, out);
        }
        let waiter = Waiter::Request { ask, at: now };
        let mut displaced = None;
        let enqueued = self
            .queue
            .enqueue(request, ask.class, Some(waiter), &mut displaced);
        self.displaced(displaced, paths, out);
        let outcome = match enqueued {
            Enqueued::Full => return Reply::Refused(Failure::Busy),
            Enqueued::Joined {
                raised: true,
                running,
            } => {
                self.stats.joined_prefetch += 1;
                self.stats.prefetched_used += u64::from(running);
                Outcome::Late(request.path)
            }
            _ => Outcome::Miss,
        };
        if waits {
            self.inform_predictor(now, ask, outcome, paths, out);
        }
        self.poll(out);
        Reply::Wait
    }

    fn hit(
        &mut self,
        now: Time,
        ask: TierRequest,
        found: Found,
        paths: &Paths,
        out: &mut Vec<Output>,
    ) -> Reply {
        let waits = ask.class == Class::Fetch;
        let mut first = false;
        if let Some(entry) = self.store.cache.get(found.by) {
            first = std::mem::take(&mut entry.prefetched);
        }
        self.stats.prefetched_used += u64::from(first);
        if waits {
            self.stats.hits += 1;
            self.stats.by_listing += u64::from(found.by != ask.request.path);
            self.stats.absent += u64::from(found.answer.is_absent());
        }
        if waits || first {
            let outcome = if first {
                Outcome::FirstUse(found.by)
            } else {
                Outcome::Hit
            };
            self.inform_predictor(now, ask, outcome, paths, out);
        }
        if first {
            self.poll(out);
        }
        Reply::Answer(found.answer)
    }

    fn subscribe(&mut self, tier: u32, request: Request, paths: &Paths, out: &mut Vec<Output>) {
        let mut unsubscribed = None;
        self.subscriptions
            .add(tier, request, paths, &mut unsubscribed);
        notify_unsubscribed(unsubscribed, out);
    }

    /// Passes an outcome to the predictor and enqueues its prefetches.
    fn inform_predictor(
        &mut self,
        now: Time,
        ask: TierRequest,
        outcome: Outcome,
        paths: &Paths,
        out: &mut Vec<Output>,
    ) {
        let client = match ask.requester {
            Requester::Client(client) => client,
            Requester::Tier(tier) => u32::MAX - tier,
        };
        let access = Access {
            client,
            request: ask.request,
            outcome,
        };
        let view = TierView {
            store: &self.store,
            queue: &self.queue,
            paths,
            now,
        };
        if ask.class == Class::Fetch {
            self.predictor.learn(access, &view);
        }
        if outcome != Outcome::Hit {
            let mut prefetches = std::mem::take(&mut self.prefetches);
            self.predictor.predict(access, &view, &mut prefetches);
            self.enqueue_prefetches(now, prefetches, paths, out);
        }
    }

    fn enqueue_prefetches(
        &mut self,
        now: Time,
        mut prefetches: Vec<PrefetchRequest>,
        paths: &Paths,
        out: &mut Vec<Output>,
    ) {
        for prefetch in prefetches.drain(..) {
            let request = prefetch.request;
            if self.queue.has(request) || self.store.has_own(request, now) {
                self.stats.refused += 1;
                self.predictor.on_refused(request, paths);
                continue;
            }
            let mut displaced = None;
            let class = Class::Prefetch(prefetch.priority);
            let enqueued =
                self.queue
                    .enqueue(request, class, Some(Waiter::Predictor), &mut displaced);
            self.displaced(displaced, paths, out);
            if enqueued == Enqueued::Full {
                self.stats.refused += 1;
                self.predictor.on_refused(request, paths);
            }
        }
        self.prefetches = prefetches;
    }

    /// Notifies the waiters of a displaced prefetch.
    fn displaced(
        &mut self,
        displaced: Option<(Request, Waiters<Waiter>)>,
        paths: &Paths,
        out: &mut Vec<Output>,
    ) {
        let Some((request, waiters)) = displaced else {
            return;
        };
        for waiter in waiters {
            match waiter {
                Waiter::Predictor => {
                    self.stats.refused += 1;
                    self.predictor.on_refused(request, paths);
                }
                Waiter::Request { ask, .. } => out.push(done(ask, Err(Failure::Busy))),
            }
        }
    }

    /// Emits the requests that may be sent now.
    pub fn poll(&mut self, out: &mut Vec<Output>) {
        loop {
            while let Some(sent) = self.queue.send() {
                let since = match self.store.cache.capacity() {
                    0 => None,
                    _ => self.store.stale(sent.key),
                };
                let age = |w: &Waiter| match w {
                    Waiter::Request { ask, .. } => ask.max_age,
                    Waiter::Predictor => None,
                };
                let max_age = self.queue.waiters(sent.run).filter_map(age).min();
                out.push(Output::Send {
                    sent,
                    since,
                    max_age,
                });
            }
            if !self.preempts {
                return;
            }
            match self.queue.preempt() {
                Some(run) => out.push(Output::Cancel(run)),
                None => return,
            }
        }
    }

    /// Handles a response from upstream. Returns whether it was expected: responses to preempted requests are ignored.
    pub fn handle_response(
        &mut self,
        now: Time,
        run: Run,
        fetched: Fetched,
        paths: &Paths,
        out: &mut Vec<Output>,
    ) -> bool {
        let Some(request) = self.queue.key_of(run) else {
            return false;
        };
        let mut fetched = fetched;
        if self.log.conflicts(request, run, paths) {
            let tries = self.tries.entry(request).or_insert(0);
            *tries += 1;
            if *tries < TRIES {
                self.queue.requeue(run);
                self.poll(out);
                return true;
            }
            fetched = Fetched::Failed(Failure::Changing);
        }
        if !self.tries.is_empty() {
            self.tries.remove(&request);
        }
        let Some(over) = self.queue.complete(run) else {
            return false;
        };
        let is_prefetch = over.waiters.iter().any(|w| matches!(w, Waiter::Predictor));
        if is_prefetch && over.began != Class::Fetch {
            self.stats.prefetched += 1;
        } else if over.class == Class::Fetch {
            self.stats.fetched += 1;
        }
        let result = match fetched {
            Fetched::Answer(answer) => {
                let unused = is_prefetch && over.class != Class::Fetch;
                self.keep(request, &answer, unused, paths);
                Ok(answer)
            }
            Fetched::Unchanged(at, subscribed) => {
                let kept = self.store.confirm(request, at, subscribed);
                kept.ok_or_else(|| Failure::Origin("it says that nothing changed".into()))
            }
            Fetched::Failed(failure) => Err(failure),
        };
        if result.is_err() && is_prefetch {
            self.predictor.on_refused(request, paths);
        }
        let listed = request.wants == Wants::List && result.is_ok();
        self.notify(now, over, &result, paths, out);
        if listed {
            let view = TierView {
                store: &self.store,
                queue: &self.queue,
                paths,
                now,
            };
            let mut prefetches = std::mem::take(&mut self.prefetches);
            self.predictor
                .on_listing(request.path, &view, &mut prefetches);
            self.enqueue_prefetches(now, prefetches, paths, out);
        }
        self.poll(out);
        true
    }

    /// Caches an older answer from another source, as a fallback for clients that accept expired ones.
    pub fn restore(&mut self, request: Request, answer: &Answer, paths: &Paths) {
        if self.store.stale(request).is_none() {
            self.keep(request, answer, false, paths);
        }
    }

    fn keep(&mut self, request: Request, answer: &Answer, unused: bool, paths: &Paths) {
        let bytes = answer.listing.as_ref().map_or(0, |l| l.bytes());
        if unused && !self.predictor.keeps(bytes, self.store.cache.capacity()) {
            self.stats.prefetched_wasted += 1;
            self.predictor.on_wasted(request, paths);
            return;
        }
        let mut evicted = std::mem::take(&mut self.evicted);
        let predictor = &self.predictor;
        let spare = |path: PathId, unused: bool| predictor.spares(path, unused, paths);
        self.store
            .keep(request, answer, unused, paths, &spare, &mut evicted);
        self.report_evicted(evicted, paths);
    }

    fn notify(
        &mut self,
        now: Time,
        over: Completed<Request, Waiter>,
        result: &Result<Answer, Failure>,
        paths: &Paths,
        out: &mut Vec<Output>,
    ) {
        for waiter in over.waiters {
            let Waiter::Request { ask, at } = waiter else {
                continue;
            };
            let result = match result {
                Ok(answer) => {
                    let oldest = ask.max_age.map(|age| at.saturating_sub(age));
                    if oldest.is_some_and(|oldest| answer.at < oldest) {
                        // The request that it joined was sent too early for its maximum age.
                        let mut none = None;
                        let again =
                            self.queue
                                .enqueue(over.key, ask.class, Some(waiter), &mut none);
                        if again != Enqueued::Full {
                            continue;
                        }
                    }
                    Ok(answer.clone())
                }
                Err(failure) => {
                    let old = ask
                        .stale_if_error
                        .then(|| self.store.last_known(over.key, paths));
                    old.flatten().ok_or_else(|| failure.clone())
                }
            };
            debug_assert!(now >= at, "time goes forward");
            out.push(done(ask, result));
        }
    }

    /// Reports evicted prefetches to the predictor.
    fn report_evicted(&mut self, mut evicted: Evicted, paths: &Paths) {
        for (path, entry) in evicted.drain(..) {
            if entry.prefetched {
                self.stats.prefetched_wasted += 1;
                let wants = match entry.listing {
                    Some(_) => Wants::List,
                    None => Wants::Stat,
                };
                self.predictor.on_wasted(Request { path, wants }, paths);
            }
        }
        self.evicted = evicted;
    }

    /// Handles a change reported by the upstream tier or the origin; subscribed downstream tiers are notified.
    pub fn publish(&mut self, now: Time, change: &Change, paths: &Paths, out: &mut Vec<Output>) {
        self.change(now, change, true, paths, out);
    }

    /// Handles a change that a client makes through this tier, before the upstream tier knows. A deletion is not cached as an
    /// absence, because only a subscriber upstream would be notified when the path is created again.
    pub fn write_through(
        &mut self,
        now: Time,
        change: &Change,
        paths: &Paths,
        out: &mut Vec<Output>,
    ) {
        self.change(now, change, false, paths, out);
    }

    fn change(
        &mut self,
        now: Time,
        change: &Change,
        from_upstream: bool,
        paths: &Paths,
        out: &mut Vec<Output>,
    ) {
        self.log.note(change, self.queue.sent_until(), paths);
        if self.store.cache.capacity() > 0 {
            let mut evicted = std::mem::take(&mut self.evicted);
            self.store
                .change(change, now, from_upstream, paths, &mut evicted);
            self.report_evicted(evicted, paths);
        }
        let mut unsubscribed = None;
        let tiers = self
            .subscriptions
            .subscribers_of(change, paths, &mut unsubscribed);
        for to in tiers {
            let change = change.clone();
            out.push(Output::Notify { to, change });
        }
        notify_unsubscribed(unsubscribed, out);
    }

    /// Handles the loss of the upstream subscription: answers that relied on it expire like all others.
    pub fn lose_subscriptions(&mut self) {
        self.store.lose_subscriptions();
    }

    /// Removes a disconnected downstream tier and its subscriptions.
    pub fn drop_tier(&mut self, tier: u32) {
        self.subscriptions.drop_tier(tier);
    }

    /// Marks all paths whose numbers are in use, for [`Paths::sweep`].
    pub fn mark_used_paths(&self, mark: &mut dyn FnMut(PathId)) {
        self.store.cache.paths().for_each(&mut *mark);
        for path in self.store.cache.paths() {
            if let Some(listing) = self.store.cache.peek(path).and_then(|e| e.listing.as_ref()) {
                listing.children().iter().for_each(|c| mark(c.path));
            }
        }
        self.queue.keys().for_each(|request| mark(request.path));
        self.predictor.mark_used_paths(mark);
        self.subscriptions.mark_used_paths(mark);
        self.log.mark_used_paths(mark);
        self.tries.keys().for_each(|request| mark(request.path));
    }
}

fn notify_unsubscribed(unsubscribed: Option<(PathId, Subscribers)>, out: &mut Vec<Output>) {
    let Some((path, tiers)) = unsubscribed else {
        return;
    };
    for to in tiers.iter() {
        let kind = ChangeKind::Unsubscribed;
        let change = Change { path, kind };
        out.push(Output::Notify { to, change });
    }
}

fn done(ask: TierRequest, result: Result<Answer, Failure>) -> Output {
    Output::Done {
        requester: ask.requester,
        ticket: ask.ticket,
        result,
    }
}
