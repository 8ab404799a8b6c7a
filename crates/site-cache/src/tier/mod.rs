//! A tier: cache, queue, predictor and subscriptions joined to one state machine.
//!
//! The host calls [`Tier::ask`] for each request of a client or of a tier below, [`Tier::poll`] whenever something may be
//! sent, [`Tier::answered`] with what came from above, and [`Tier::publish`] with changes. What it is to do comes back as
//! [`Output`]s. A cloud service is a tier without a cache whose queue is as wide as it has services.

mod explain;
mod log;
mod store;
mod subscribe;

pub use explain::{Explained, Kept};
pub use store::Freshness;

use crate::cache::Policy;
use crate::entry::{Answer, Change, Failure, Happened, Listing, Request, Time, Wants};
use crate::path::{PathId, Paths};
use crate::predict::{Access, Nothing, Outcome, Predictor, View, Wish};
use crate::queue::{Class, Enqueued, Over, Queue, Run, Sent, Waiters};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use log::Log;
use std::sync::Arc;
use store::{Found, Gone, Store};
use subscribe::{Subscribers, Subscriptions};

/// How a tier is set up.
#[derive(Debug)]
pub struct Settings {
    /// Bytes of metadata that it keeps.
    pub capacity: u64,
    /// Which metadata goes when there is too much.
    pub policy: Policy,
    /// How long answers are believed.
    pub freshness: Freshness,
    /// What prefetches.
    pub predictor: Box<dyn Predictor>,
    /// Requests that may wait to be sent.
    pub waiting_max: usize,
    /// Requests that may be on their way at once.
    pub running_max: usize,
    /// Directories of which it is known who fetched something there.
    pub subscribed_max: usize,
    /// Whether a fetch takes the place of a prefetch that is on its way, where there is no other place.
    pub preempts: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            capacity: 64 << 20,
            policy: Policy::Lru,
            freshness: Freshness::Published,
            predictor: Box::new(Nothing),
            waiting_max: 1 << 16,
            running_max: 4096,
            subscribed_max: 1 << 20,
            preempts: false,
        }
    }
}

impl Settings {
    /// Of a cloud service: no cache, so many services with one request each.
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

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// A client, by a number that stays the same: predictors learn from it.
    Client(u32),
    /// A tier below.
    Tier(u32),
}

/// A request to a tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// Who asks.
    pub who: Who,
    /// Comes back with the answer.
    pub ticket: u64,
    /// What for.
    pub request: Request,
    /// Whether somebody waits.
    pub class: Class,
    /// How old an answer may be at most, in microseconds; whatever the tier believes if nothing is said.
    pub max_age: Option<Time>,
    /// Whether an answer that is not believed any more will do if there is no other.
    pub stale_if_error: bool,
}

/// What is said at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The answer.
    Answer(Answer),
    /// It comes later, as [`Output::Done`].
    Wait,
    /// It does not come.
    Refused(Failure),
}

/// What the host is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Send a request to the tier above or to the origin.
    Send {
        /// What, how urgently, and this time of sending.
        sent: Sent<Request>,
        /// The age of what is kept of it: the origin may say that nothing has changed since.
        since: Option<Answer>,
        /// How old the answer may be, in microseconds, if somebody who waits has said so.
        max_age: Option<Time>,
    },
    /// Take a request back that was sent: its answer is not wanted any more.
    Cancel(Run),
    /// Give an answer to who asked.
    Done {
        /// Who asked.
        who: Who,
        /// As it was asked.
        ticket: u64,
        /// The answer.
        result: Result<Answer, Failure>,
    },
    /// Tell a tier below of a change.
    Tell {
        /// Which tier.
        to: u32,
        /// Of what.
        change: Change,
    },
}

/// What came from above.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fetched {
    /// An answer.
    Answer(Answer),
    /// What is kept is still true, as of then; and whether who says so tells of changes.
    Unchanged(Time, bool),
    /// Nothing.
    Failed(Failure),
}

/// What a tier has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Requests for which somebody waited.
    pub asked: u64,
    /// Of these, answered at once.
    pub hits: u64,
    /// Of the hits, answered by a listing.
    pub by_listing: u64,
    /// Of the hits, that there is nothing.
    pub absent: u64,
    /// Requests that joined a prefetch of the same.
    pub late: u64,
    /// Requests sent because somebody waited.
    pub fetched: u64,
    /// Requests sent because the predictor wished so.
    pub prefetched: u64,
    /// Of these, of use to somebody.
    pub prefetched_used: u64,
    /// Of these, gone without use.
    pub prefetched_wasted: u64,
    /// Wishes that were there already, or found the queue full.
    pub refused: u64,
}

#[derive(Debug, Clone, Copy)]
enum Waiter {
    /// The predictor wished it; nobody waits.
    Wish,
    Asked {
        ask: Ask,
        at: Time,
    },
}

/// Times that a request is sent again because its answer was overtaken by a change.
const TRIES: u8 = 16;

/// A tier.
#[derive(Debug)]
pub struct Tier {
    store: Store,
    queue: Queue<Request, Waiter>,
    predictor: Box<dyn Predictor>,
    subscriptions: Subscriptions,
    log: Log,
    tries: HashMap<Request, u8, FixedState>,
    preempts: bool,
    stats: Stats,
    wishes: Vec<Wish>,
    gone: Gone,
}

/// What the predictor may look at.
struct Sight<'a> {
    store: &'a Store,
    queue: &'a Queue<Request, Waiter>,
    paths: &'a Paths,
    now: Time,
}

impl View for Sight<'_> {
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

    fn on_its_way(&self, request: Request) -> bool {
        self.queue.has(request)
    }

    fn capacity(&self) -> u64 {
        self.store.cache.capacity()
    }
}

impl Tier {
    /// An empty tier.
    pub fn new(settings: Settings) -> Self {
        Self {
            store: Store::new(settings.capacity, settings.policy, settings.freshness),
            queue: Queue::new(settings.waiting_max, settings.running_max),
            predictor: settings.predictor,
            subscriptions: Subscriptions::new(settings.subscribed_max),
            log: Log::new(),
            tries: HashMap::with_hasher(FixedState::with_seed(3)),
            preempts: settings.preempts,
            stats: Stats::default(),
            wishes: Vec::new(),
            gone: Vec::new(),
        }
    }

    /// What it has counted.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Bytes that are kept.
    pub fn used(&self) -> u64 {
        self.store.cache.used()
    }

    /// Paths that are kept.
    pub fn len(&self) -> usize {
        self.store.cache.len()
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.store.cache.is_empty()
    }

    /// Requests that wait, and that are on their way.
    pub fn pending(&self) -> (usize, usize) {
        (self.queue.waiting(), self.queue.running())
    }

    /// Which request that is, as long as it is on its way.
    pub fn running(&self, run: Run) -> Option<Request> {
        self.queue.key_of(run)
    }

    /// What it would answer at once; nothing is counted or moved by that.
    pub fn look(&self, now: Time, request: Request, paths: &Paths) -> Option<Answer> {
        let found = self.store.find(request, now, None, paths)?;
        Some(found.answer)
    }

    /// Lets the predictor learn from a request without asking anything: training.
    pub fn train(&mut self, access: Access, paths: &Paths) {
        let sight = Sight {
            store: &self.store,
            queue: &self.queue,
            paths,
            now: 0,
        };
        self.predictor.learn(access, &sight);
    }

    /// Training is over.
    pub fn trained(&mut self) {
        self.predictor.trained();
    }

    /// A request of a client or of a tier below.
    pub fn ask(&mut self, now: Time, ask: Ask, paths: &Paths, out: &mut Vec<Output>) -> Reply {
        let request = ask.request;
        if let Who::Tier(tier) = ask.who {
            self.subscribe(tier, request, paths, out);
        }
        let waits = ask.class == Class::Fetch;
        self.stats.asked += u64::from(waits);
        let found = match self.store.cache.capacity() {
            0 => None,
            _ => self.store.find(request, now, ask.max_age, paths),
        };
        if let Some(found) = found {
            return self.hit(now, ask, found, paths, out);
        }
        let waiter = Waiter::Asked { ask, at: now };
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
                self.stats.late += 1;
                self.stats.prefetched_used += u64::from(running);
                Outcome::Late(request.path)
            }
            _ => Outcome::Miss,
        };
        if waits {
            self.consult(now, ask, outcome, paths, out);
        }
        self.poll(out);
        Reply::Wait
    }

    fn hit(
        &mut self,
        now: Time,
        ask: Ask,
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
            self.consult(now, ask, outcome, paths, out);
        }
        if first {
            self.poll(out);
        }
        Reply::Answer(found.answer)
    }

    fn subscribe(&mut self, tier: u32, request: Request, paths: &Paths, out: &mut Vec<Output>) {
        let mut forgotten = None;
        self.subscriptions.add(tier, request, paths, &mut forgotten);
        tell_forgotten(forgotten, out);
    }

    /// Tells the predictor how a request went, and asks it what to prefetch.
    fn consult(
        &mut self,
        now: Time,
        ask: Ask,
        outcome: Outcome,
        paths: &Paths,
        out: &mut Vec<Output>,
    ) {
        let client = match ask.who {
            Who::Client(client) => client,
            Who::Tier(tier) => u32::MAX - tier,
        };
        let access = Access {
            client,
            request: ask.request,
            outcome,
        };
        let sight = Sight {
            store: &self.store,
            queue: &self.queue,
            paths,
            now,
        };
        if ask.class == Class::Fetch {
            self.predictor.learn(access, &sight);
        }
        if outcome != Outcome::Hit {
            let mut wishes = std::mem::take(&mut self.wishes);
            self.predictor.predict(access, &sight, &mut wishes);
            self.wish(now, wishes, paths, out);
        }
    }

    fn wish(&mut self, now: Time, mut wishes: Vec<Wish>, paths: &Paths, out: &mut Vec<Output>) {
        for wish in wishes.drain(..) {
            let request = wish.request;
            if self.queue.has(request) || self.store.has_own(request, now) {
                self.stats.refused += 1;
                self.predictor.refused(request, paths);
                continue;
            }
            let mut displaced = None;
            let class = Class::Prefetch(wish.priority);
            let enqueued = self
                .queue
                .enqueue(request, class, Some(Waiter::Wish), &mut displaced);
            self.displaced(displaced, paths, out);
            if enqueued == Enqueued::Full {
                self.stats.refused += 1;
                self.predictor.refused(request, paths);
            }
        }
        self.wishes = wishes;
    }

    /// Tells those whose prefetch had to give way.
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
                Waiter::Wish => {
                    self.stats.refused += 1;
                    self.predictor.refused(request, paths);
                }
                Waiter::Asked { ask, .. } => out.push(done(ask, Err(Failure::Busy))),
            }
        }
    }

    /// Sends what may be sent.
    pub fn poll(&mut self, out: &mut Vec<Output>) {
        loop {
            while let Some(sent) = self.queue.send() {
                let since = match self.store.cache.capacity() {
                    0 => None,
                    _ => self.store.stale(sent.key),
                };
                let age = |w: &Waiter| match w {
                    Waiter::Asked { ask, .. } => ask.max_age,
                    Waiter::Wish => None,
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

    /// What came from above. Whether it was wanted: what was taken back comes for nothing.
    pub fn answered(
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
        if self.log.touched(request, run, paths) {
            let tries = self.tries.entry(request).or_insert(0);
            *tries += 1;
            if *tries < TRIES {
                self.queue.again(run);
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
        let wished = over.waiters.iter().any(|w| matches!(w, Waiter::Wish));
        if wished && over.began != Class::Fetch {
            self.stats.prefetched += 1;
        } else if over.class == Class::Fetch {
            self.stats.fetched += 1;
        }
        let result = match fetched {
            Fetched::Answer(answer) => {
                let unused = wished && over.class != Class::Fetch;
                self.keep(request, &answer, unused, paths);
                Ok(answer)
            }
            Fetched::Unchanged(at, told) => {
                let kept = self.store.confirm(request, at, told);
                kept.ok_or_else(|| Failure::Origin("it says that nothing changed".into()))
            }
            Fetched::Failed(failure) => Err(failure),
        };
        if result.is_err() && wished {
            self.predictor.refused(request, paths);
        }
        let listed = request.wants == Wants::List && result.is_ok();
        self.notify(now, over, &result, paths, out);
        if listed {
            let sight = Sight {
                store: &self.store,
                queue: &self.queue,
                paths,
                now,
            };
            let mut wishes = std::mem::take(&mut self.wishes);
            self.predictor.listed(request.path, &sight, &mut wishes);
            self.wish(now, wishes, paths, out);
        }
        self.poll(out);
        true
    }

    /// An older answer, from elsewhere, for those who take one where there is no other. It is no newer than it says.
    pub fn recall(&mut self, request: Request, answer: &Answer, paths: &Paths) {
        if self.store.stale(request).is_none() {
            self.keep(request, answer, false, paths);
        }
    }

    fn keep(&mut self, request: Request, answer: &Answer, unused: bool, paths: &Paths) {
        let bytes = answer.listing.as_ref().map_or(0, |l| l.bytes());
        if unused && !self.predictor.keeps(bytes, self.store.cache.capacity()) {
            self.stats.prefetched_wasted += 1;
            self.predictor.wasted(request, paths);
            return;
        }
        let mut gone = std::mem::take(&mut self.gone);
        let predictor = &self.predictor;
        let spare = |path: PathId, unused: bool| predictor.spares(path, unused, paths);
        self.store
            .keep(request, answer, unused, paths, &spare, &mut gone);
        self.lost(gone, paths);
    }

    fn notify(
        &mut self,
        now: Time,
        over: Over<Request, Waiter>,
        result: &Result<Answer, Failure>,
        paths: &Paths,
        out: &mut Vec<Output>,
    ) {
        for waiter in over.waiters {
            let Waiter::Asked { ask, at } = waiter else {
                continue;
            };
            let result = match result {
                Ok(answer) => {
                    let oldest = ask.max_age.map(|age| at.saturating_sub(age));
                    if oldest.is_some_and(|oldest| answer.at < oldest) {
                        // It joined a request that was sent too early for it.
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

    /// Tells the predictor of what went without use.
    fn lost(&mut self, mut gone: Gone, paths: &Paths) {
        for (path, entry) in gone.drain(..) {
            if entry.prefetched {
                self.stats.prefetched_wasted += 1;
                let wants = match entry.listing {
                    Some(_) => Wants::List,
                    None => Wants::Stat,
                };
                self.predictor.wasted(Request { path, wants }, paths);
            }
        }
        self.gone = gone;
    }

    /// A change, as the tier above or the origin says it. Tiers below that fetched it are told.
    pub fn publish(&mut self, now: Time, change: &Change, paths: &Paths, out: &mut Vec<Output>) {
        self.change(now, change, true, paths, out);
    }

    /// A change that a client makes through this tier, before the tier above knows. That something is gone is not kept: only
    /// who is told so from above is told as well when it comes back.
    pub fn written(&mut self, now: Time, change: &Change, paths: &Paths, out: &mut Vec<Output>) {
        self.change(now, change, false, paths, out);
    }

    fn change(
        &mut self,
        now: Time,
        change: &Change,
        told: bool,
        paths: &Paths,
        out: &mut Vec<Output>,
    ) {
        self.log.note(change, self.queue.sent_until(), paths);
        if self.store.cache.capacity() > 0 {
            let mut gone = std::mem::take(&mut self.gone);
            self.store.change(change, now, told, paths, &mut gone);
            self.lost(gone, paths);
        }
        let mut forgotten = None;
        let tiers = self.subscriptions.concerned(change, paths, &mut forgotten);
        for to in tiers {
            let change = change.clone();
            out.push(Output::Tell { to, change });
        }
        tell_forgotten(forgotten, out);
    }

    /// Whoever promised to tell of changes cannot any more: what rests on that is believed no longer than other answers.
    pub fn cut(&mut self) {
        self.store.cut();
    }

    /// A tier below is gone: nobody tells it anything any more.
    pub fn drop_tier(&mut self, tier: u32) {
        self.subscriptions.drop_tier(tier);
    }

    /// Names all paths whose numbers it holds, for [`Paths::sweep`].
    pub fn held(&self, mark: &mut dyn FnMut(PathId)) {
        self.store.cache.paths().for_each(&mut *mark);
        for path in self.store.cache.paths() {
            if let Some(listing) = self.store.cache.peek(path).and_then(|e| e.listing.as_ref()) {
                listing.children().iter().for_each(|c| mark(c.path));
            }
        }
        self.queue.keys().for_each(|request| mark(request.path));
        self.predictor.held(mark);
        self.subscriptions.held(mark);
        self.log.held(mark);
        self.tries.keys().for_each(|request| mark(request.path));
    }
}

fn tell_forgotten(forgotten: Option<(PathId, Subscribers)>, out: &mut Vec<Output>) {
    let Some((path, tiers)) = forgotten else {
        return;
    };
    for to in tiers.iter() {
        let happened = Happened::Forgotten;
        let change = Change { path, happened };
        out.push(Output::Tell { to, change });
    }
}

fn done(ask: Ask, result: Result<Answer, Failure>) -> Output {
    Output::Done {
        who: ask.who,
        ticket: ask.ticket,
        result,
    }
}
