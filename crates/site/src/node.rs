//! Runs the state machine of a tier: adds time, waiters and upstream requests.
//!
//! One lock guards the state machine, its paths and the waiters; it is never held while waiting. Each upstream request is a task of
//! its own, which delivers its answer through [`Node::answered`].

mod convert;

use crate::answer::{Refused, TierAnswer, digest};
use crate::clock::{Clock, micros};
use crate::config::Config;
use crate::disk::{Disk, StoredAnswer};
use crate::upstream::{Fetch, FetchResponse, Upstream, UpstreamEvent};
use convert::{answer, refused, tier_answer};
use esker_origin::{Notification, OriginUrl};
use esker_site_cache::entry::{Change, ChangeKind, Failure, Request, Time, Wants};
use esker_site_cache::path::{PathId, Paths};
use esker_site_cache::queue::{Class, Run};
use esker_site_cache::tier::{
    Fetched, Freshness, Output, Reply, Requester, Stats, Tier, TierExplanation, TierRequest,
    TierSettings,
};
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

/// Maximum number of origins of one tier.
const ORIGINS_MAX: usize = 1 << 16;
/// Minimum number of interned paths before unused ones are removed.
const SWEEP_LEAST: usize = 1 << 16;

/// A request to a tier.
#[derive(Debug, Clone, Copy)]
pub struct MetadataQuery<'a> {
    /// Origin, such as `sftp://host`, without a path.
    pub origin: &'a str,
    /// Absolute path below the origin.
    pub path: &'a [u8],
    /// Kind of the requested metadata.
    pub wants: Wants,
    /// Whether a client waits.
    pub class: Class,
    /// Maximum age of the answer; `None` leaves it to the tier.
    pub max_age: Option<Duration>,
    /// Whether an expired answer is acceptable if there is no other.
    pub stale_if_error: bool,
}

impl<'a> MetadataQuery<'a> {
    /// Creates a request for which a client waits.
    pub fn new(origin: &'a str, path: &'a [u8], wants: Wants) -> Self {
        Self {
            origin,
            path,
            wants,
            class: Class::Fetch,
            max_age: None,
            stale_if_error: false,
        }
    }
}

/// Message to a link.
#[derive(Debug)]
pub(crate) enum LinkMessage {
    /// Answer to one of its requests.
    Answer(u64, Result<TierAnswer, Refused>, Option<u64>),
    /// Notification of a change.
    Change(Arc<str>, Vec<u8>, ChangeKind),
    /// Loss of the upstream subscription: earlier answers are no longer covered by invalidations.
    SubscriptionsLost,
}

/// Callback for an answer that arrives later.
type Callback = Box<dyn FnOnce(Result<TierAnswer, Refused>) + Send>;

/// Figures of a running tier.
#[derive(Debug, Clone, Copy)]
pub struct Figures {
    /// Counters of the state machine.
    pub stats: Stats,
    /// Size of the cache in bytes.
    pub used: u64,
    /// Number of cached paths.
    pub kept: usize,
    /// Number of interned paths.
    pub known: usize,
    /// Number of requests that wait to be sent.
    pub waiting: usize,
    /// Number of requests in flight.
    pub running: usize,
    /// Number of linked tiers and clients.
    pub links: usize,
}

struct Core {
    tier: Tier,
    paths: Paths,
    /// Root of each origin, by the name in requests, and normalized name of each root.
    roots: HashMap<Box<str>, PathId>,
    names: HashMap<PathId, Arc<str>>,
    /// Time of each waiting request, and its callback.
    waiters: HashMap<u64, (Time, Callback)>,
    links: HashMap<u32, mpsc::UnboundedSender<LinkMessage>>,
    running: HashMap<Run, AbortHandle>,
    next: u64,
    next_link: u32,
    /// Number of losses of the upstream subscription, and time of the last one.
    losses: u64,
    lost_at: Time,
    out: Vec<Output>,
    sweep_at: usize,
}

/// A tier in a running process.
pub struct Node {
    core: Mutex<Core>,
    upstream: Arc<dyn Upstream>,
    clock: Clock,
    disk: Option<Disk>,
    /// Time to live of answers on disk without invalidations.
    ttl: Time,
}

fn settings(config: &Config) -> TierSettings {
    if let Some(services) = config.services {
        return TierSettings {
            freshness: freshness(config),
            ..TierSettings::cloud(services)
        };
    }
    TierSettings {
        capacity: config.memory_bytes,
        policy: config.policy,
        predictor: config.predictor.make(config.threshold),
        freshness: freshness(config),
        running_max: config.running,
        ..TierSettings::default()
    }
}

fn freshness(config: &Config) -> Freshness {
    Freshness::TimeToLive {
        least: micros(config.ttl),
        most: micros(config.ttl_most),
    }
}

impl Node {
    /// Opens a tier over `upstream`. Its disk cache, if configured, is opened and read.
    pub fn open(config: &Config, upstream: Arc<dyn Upstream>) -> io::Result<Arc<Self>> {
        let clock = Clock::new();
        let open = |folder: &PathBuf| {
            let opened = Disk::open(folder, config.disk_bytes, clock.now());
            let named =
                |e: io::Error| io::Error::new(e.kind(), format!("`{}`: {e}", folder.display()));
            opened.map_err(named)
        };
        let disk = config.disk.as_ref().map(open).transpose()?;
        Ok(Self::with(config, upstream, clock, disk))
    }

    /// Creates a tier over `upstream` without a disk cache.
    pub fn new(config: &Config, upstream: Arc<dyn Upstream>) -> Arc<Self> {
        Self::with(config, upstream, Clock::new(), None)
    }

    fn with(
        config: &Config,
        upstream: Arc<dyn Upstream>,
        clock: Clock,
        disk: Option<Disk>,
    ) -> Arc<Self> {
        let core = Core {
            tier: Tier::new(settings(config)),
            paths: Paths::new(),
            roots: HashMap::new(),
            names: HashMap::new(),
            waiters: HashMap::new(),
            links: HashMap::new(),
            running: HashMap::new(),
            next: 0,
            next_link: 0,
            losses: 0,
            lost_at: 0,
            out: Vec::new(),
            sweep_at: SWEEP_LEAST,
        };
        Arc::new(Self {
            core: Mutex::new(core),
            upstream,
            clock,
            disk,
            ttl: micros(config.ttl),
        })
    }

    /// Returns the size of the disk cache in bytes, and its number of paths.
    pub fn on_disk(&self) -> Option<(u64, usize)> {
        self.disk.as_ref().map(Disk::used)
    }

    fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the upstream of the tier.
    pub fn upstream(&self) -> &Arc<dyn Upstream> {
        &self.upstream
    }

    /// Sends a request for a client, whose stable number predictors learn from.
    pub async fn query(
        self: &Arc<Self>,
        client: u32,
        asked: MetadataQuery<'_>,
    ) -> Result<TierAnswer, Refused> {
        let (send, receive) = oneshot::channel();
        let then = move |result| drop(send.send(result));
        if let Some(result) = self.query_then(Requester::Client(client), &asked, then) {
            return result;
        }
        let gone = |_| Err(Refused::Origin("this tier ends".into()));
        receive.await.unwrap_or_else(gone)
    }

    /// Sends a request. Returns the answer if it is available, otherwise passes it to `then` later, which must not block.
    pub(crate) fn query_then(
        self: &Arc<Self>,
        requester: Requester,
        asked: &MetadataQuery<'_>,
        then: impl FnOnce(Result<TierAnswer, Refused>) + Send + 'static,
    ) -> Option<Result<TierAnswer, Refused>> {
        let mut core = self.lock();
        // The time is read under the lock, so that it is monotonic for the state machine.
        let now = self.clock.now();
        let core = &mut *core;
        let path = match self.path(core, asked.origin, asked.path) {
            Ok(path) => path,
            Err(refused) => return Some(Err(refused)),
        };
        let ticket = core.next;
        core.next += 1;
        let ask = TierRequest {
            requester,
            ticket,
            request: Request {
                path,
                wants: asked.wants,
            },
            class: asked.class,
            max_age: asked.max_age.map(micros),
            stale_if_error: asked.stale_if_error,
        };
        let mut out = std::mem::take(&mut core.out);
        let reply = core.tier.request(now, ask, &core.paths, &mut out);
        let result = match reply {
            Reply::Answer(answer) => Some(Ok(tier_answer(&answer, now, true, &core.paths))),
            Reply::Refused(failure) => Some(Err(refused(failure))),
            Reply::Wait => {
                core.waiters.insert(ticket, (now, Box::new(then)));
                None
            }
        };
        self.execute(core, out, now);
        Self::sweep(core);
        result
    }

    fn path(&self, core: &mut Core, origin: &str, path: &[u8]) -> Result<PathId, Refused> {
        let root = match core.roots.get(origin) {
            Some(root) => *root,
            None => self.root(core, origin)?,
        };
        let named = |e: esker_site_cache::Error| Refused::Named(e.to_string().into());
        core.paths.intern(root, path).map_err(named)
    }

    fn root(&self, core: &mut Core, origin: &str) -> Result<PathId, Refused> {
        let named = |e: esker_origin::Error| Refused::Named(e.to_string().into());
        let (place, path) = OriginUrl::parse(origin).map_err(named)?;
        if path != b"/" {
            return Err(Refused::Named(
                format!("`{origin}`: an origin has no path; give it as the path").into(),
            ));
        }
        let name = place.to_string();
        self.upstream.allows(&name)?;
        if core.roots.len() >= ORIGINS_MAX {
            return Err(Refused::Busy);
        }
        let root = core.paths.origin(&name);
        core.names.insert(root, name.into());
        core.roots.insert(origin.into(), root);
        Ok(root)
    }

    /// Executes the outputs of the state machine.
    fn execute(self: &Arc<Self>, core: &mut Core, mut out: Vec<Output>, now: Time) {
        for output in out.drain(..) {
            match output {
                Output::Send {
                    sent,
                    since,
                    max_age,
                } => {
                    let request = sent.key;
                    let Some((origin, path)) = origin_and_path(core, request.path) else {
                        continue;
                    };
                    let kept =
                        since.map(|s| digest(&tier_answer(&s, now, false, &core.paths).found));
                    let fetch = Fetch {
                        origin,
                        path: path.into(),
                        wants: request.wants,
                        class: sent.class,
                        max_age: max_age.map(Duration::from_micros),
                        kept,
                    };
                    let node = self.clone();
                    let run = sent.run;
                    let sending = Fetching {
                        run,
                        losses: core.losses,
                        lost_at: core.lost_at,
                    };
                    let task = tokio::spawn(node.fetch(sending, fetch));
                    core.running.insert(run, task.abort_handle());
                }
                Output::Cancel(run) => {
                    if let Some(task) = core.running.remove(&run) {
                        task.abort();
                    }
                }
                Output::Done { ticket, result, .. } => {
                    if let Some((asked, then)) = core.waiters.remove(&ticket) {
                        let result = result.map(|a| tier_answer(&a, asked, false, &core.paths));
                        then(result.map_err(refused));
                    }
                }
                Output::Notify { to, change } => {
                    let Some((origin, path)) = origin_and_path(core, change.path) else {
                        continue;
                    };
                    if let Some(link) = core.links.get(&to) {
                        // A disconnected link is removed by its owner.
                        drop(link.send(LinkMessage::Change(origin, path, change.kind)));
                    }
                }
            }
        }
        core.out = out;
    }

    /// Executes one upstream request: from the disk cache, then from upstream.
    async fn fetch(self: Arc<Self>, sent: Fetching, mut fetch: Fetch) {
        let began = self.clock.now();
        let Some(disk) = &self.disk else {
            let got = self.upstream.fetch(fetch).await;
            return self.answered(sent, began, got, None);
        };
        let old = disk.get(&fetch.origin, &fetch.path, fetch.wants, sent.lost_at);
        if let Some(old) = &old {
            let age = began.saturating_sub(old.at);
            let young = fetch.max_age.is_none_or(|most| age <= micros(most));
            if young && (old.subscribed || age <= self.ttl) {
                let got = FetchResponse::Found {
                    found: old.found.clone(),
                    age: Duration::from_micros(age),
                    subscribed: old.subscribed,
                };
                return self.answered(sent, began, Ok(got), None);
            }
        }
        let in_memory = fetch.kept.is_some();
        if !in_memory {
            fetch.kept = old.as_ref().map(StoredAnswer::digest);
        }
        let mut got = self.upstream.fetch(fetch.clone()).await;
        if let (Ok(FetchResponse::Unchanged { age, subscribed }), false, Some(old)) =
            (&got, in_memory, &old)
        {
            got = Ok(FetchResponse::Found {
                found: old.found.clone(),
                age: *age,
                subscribed: *subscribed,
            });
        }
        if let Ok(FetchResponse::Found {
            found,
            age,
            subscribed,
        }) = &got
        {
            let new = StoredAnswer {
                found: found.clone(),
                at: began.saturating_sub(micros(*age)),
                subscribed: *subscribed,
            };
            warn(disk.put(&fetch.origin, &fetch.path, fetch.wants, &new));
        }
        self.answered(sent, began, got, old);
    }

    /// Handles a response. `old` is the disk cache's answer, for clients that accept expired ones.
    fn answered(
        self: &Arc<Self>,
        sent: Fetching,
        began: Time,
        got: Result<FetchResponse, Refused>,
        old: Option<StoredAnswer>,
    ) {
        let run = sent.run;
        let mut core = self.lock();
        // The time is read under the lock, so that it is monotonic for the state machine.
        let now = self.clock.now();
        let core = &mut *core;
        core.running.remove(&run);
        let Some(request) = core.tier.running(run) else {
            return;
        };
        if let (Err(_), Some(old)) = (&got, old) {
            let answer = answer(request, old.found, old.at, &mut core.paths);
            core.tier.restore(request, &answer, &core.paths);
        }
        // The upstream subscription may have been lost meanwhile.
        let holds = sent.losses == core.losses;
        let at = |age: Duration| began.saturating_sub(micros(age));
        let fetched = match got {
            Ok(FetchResponse::Found {
                found,
                age,
                subscribed,
            }) => {
                let mut answer = answer(request, found, at(age), &mut core.paths);
                answer.subscribed = subscribed && holds;
                Fetched::Answer(answer)
            }
            Ok(FetchResponse::Unchanged { age, subscribed }) => {
                Fetched::Unchanged(at(age), subscribed && holds)
            }
            Err(Refused::Busy) => Fetched::Failed(Failure::Busy),
            Err(Refused::Changing) => Fetched::Failed(Failure::Changing),
            Err(Refused::Denied(why)) => Fetched::Failed(Failure::Denied(why)),
            Err(Refused::Named(why) | Refused::Origin(why)) => {
                Fetched::Failed(Failure::Origin(why))
            }
        };
        let mut out = std::mem::take(&mut core.out);
        core.tier
            .handle_response(now, run, fetched, &core.paths, &mut out);
        self.execute(core, out, now);
        Self::sweep(core);
    }

    /// Handles an unsolicited message from upstream.
    pub fn handle_event(self: &Arc<Self>, event: UpstreamEvent) {
        let mut core = self.lock();
        // The time is read under the lock, so that it is monotonic for the state machine.
        let now = self.clock.now();
        let core = &mut *core;
        let (origin, notification) = match event {
            UpstreamEvent::SubscriptionsLost
            | UpstreamEvent::Notified(_, Notification::SourceLost) => {
                core.tier.lose_subscriptions();
                core.losses += 1;
                core.lost_at = now;
                // A disconnected link is removed by its owner.
                core.links
                    .values()
                    .for_each(|l| drop(l.send(LinkMessage::SubscriptionsLost)));
                return;
            }
            UpstreamEvent::Notified(origin, notification) => (origin, notification),
        };
        let (path, kind) = match notification {
            Notification::Changed(path, attributes) => (path, ChangeKind::Changed(attributes)),
            Notification::Deleted(path) => (path, ChangeKind::Deleted),
            Notification::Missed(path) => (path, ChangeKind::Invalidated),
            Notification::SourceLost => return,
        };
        let Ok(path) = self.path(core, &origin, &path) else {
            return;
        };
        self.record_change(core, path, &kind, now);
        let change = Change { path, kind };
        let mut out = std::mem::take(&mut core.out);
        core.tier.publish(now, &change, &core.paths, &mut out);
        self.execute(core, out, now);
    }

    /// Handles a change that an upstream tier notified.
    pub(crate) fn changed(
        self: &Arc<Self>,
        origin: &str,
        path: &[u8],
        kind: ChangeKind,
    ) -> Result<(), Refused> {
        let mut core = self.lock();
        // The time is read under the lock, so that it is monotonic for the state machine.
        let now = self.clock.now();
        let core = &mut *core;
        let path = self.path(core, origin, path)?;
        self.record_change(core, path, &kind, now);
        let change = Change { path, kind };
        let mut out = std::mem::take(&mut core.out);
        core.tier.publish(now, &change, &core.paths, &mut out);
        self.execute(core, out, now);
        Ok(())
    }

    /// Records a change in the disk cache.
    fn record_change(&self, core: &Core, path: PathId, kind: &ChangeKind, now: Time) {
        if let (Some(disk), Some((origin, path))) = (&self.disk, origin_and_path(core, path)) {
            warn(disk.record_change(&origin, &path, kind, now));
        }
    }

    /// Handles that a path may have changed, as reported by a user or a downstream tier: it is invalidated here, downstream and upstream.
    pub fn invalidate(self: &Arc<Self>, origin: &str, path: &[u8]) -> Result<(), Refused> {
        self.changed(origin, path, ChangeKind::Invalidated)?;
        self.upstream.invalidate(origin, path);
        Ok(())
    }

    /// Registers the link of a downstream tier or a client; returns its number.
    pub(crate) fn join(&self, link: mpsc::UnboundedSender<LinkMessage>) -> u32 {
        let mut core = self.lock();
        let number = core.next_link;
        core.next_link += 1;
        core.links.insert(number, link);
        number
    }

    /// Removes a disconnected link.
    pub(crate) fn leave(&self, link: u32) {
        let mut core = self.lock();
        core.links.remove(&link);
        core.tier.drop_tier(link);
    }

    /// Returns the figures of the tier.
    pub fn figures(&self) -> Figures {
        let core = self.lock();
        let (waiting, running) = core.tier.pending();
        Figures {
            stats: core.tier.stats(),
            used: core.tier.used(),
            kept: core.tier.len(),
            known: core.paths.len(),
            waiting,
            running,
            links: core.links.len(),
        }
    }

    /// Explains the tier's state for a path, with the paths of the entries that answer for it, and the current time.
    pub fn explain(&self, origin: &str, path: &[u8]) -> Result<Explanation, Refused> {
        let mut core = self.lock();
        // The time is read under the lock, so that it is monotonic for the state machine.
        let now = self.clock.now();
        let core = &mut *core;
        let path = self.path(core, origin, path)?;
        let explained = core.tier.explain(now, path, &core.paths);
        let text = |p: Option<PathId>| p.map(|p| core.paths.text(p));
        Ok(Explanation {
            now,
            stat_by: text(explained.stat_by),
            list_by: text(explained.list_by),
            explained,
        })
    }

    /// Removes unused paths, once there are twice as many as remained after the last sweep.
    fn sweep(core: &mut Core) {
        if core.paths.len() < core.sweep_at {
            return;
        }
        let mut used = vec![false; core.paths.bound()];
        let mut mark = |path: PathId| used[path.index()] = true;
        core.names.keys().for_each(|root| mark(*root));
        core.tier.mark_used_paths(&mut mark);
        core.paths.sweep(|path| used[path.index()]);
        core.sweep_at = SWEEP_LEAST.max(2 * core.paths.len());
    }
}

/// Logs an error of the disk cache, which is optional: without it, answers are fetched.
fn warn(done: io::Result<()>) {
    if let Err(error) = done {
        tracing::warn!(%error, "the disk of the cache");
    }
}

/// An upstream request in flight, with the subscription state when it was sent.
#[derive(Debug, Clone, Copy)]
struct Fetching {
    run: Run,
    losses: u64,
    lost_at: Time,
}

/// Result of [`Node::explain`].
#[derive(Debug, Clone)]
pub struct Explanation {
    /// Current time, in microseconds like the times of `explained`.
    pub now: Time,
    /// Path whose entry answers for its attributes.
    pub stat_by: Option<String>,
    /// Path whose entry answers for its listing.
    pub list_by: Option<String>,
    /// State of the tier concerning the path.
    pub explained: TierExplanation,
}

/// Returns the origin of a path and the path below it.
fn origin_and_path(core: &Core, path: PathId) -> Option<(Arc<str>, Vec<u8>)> {
    let root = core.paths.upwards(path).last()?;
    let origin = core.names.get(&root)?.clone();
    Some((origin, core.paths.bytes(path)))
}
