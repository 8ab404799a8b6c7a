//! A tier's state machine in a process: time, those who wait, and those who are asked.
//!
//! One lock guards the state machine, its paths and the waiters; nothing waits under it. Each request upwards is a task of
//! its own, which brings its answer back through [`Node::answered`].

mod convert;

use crate::above::{Above, Fetch, Got, News};
use crate::clock::{Clock, micros};
use crate::config::Config;
use crate::disk::{Disk, Old};
use crate::given::{Given, Refused, digest};
use convert::{answer, given, refused};
use esker_origin::{Place, Told};
use esker_site_cache::entry::{Change, Failure, Happened, Request, Time, Wants};
use esker_site_cache::path::{PathId, Paths};
use esker_site_cache::queue::{Class, Run};
use esker_site_cache::tier::{
    Ask, Explained, Fetched, Freshness, Output, Reply, Settings, Stats, Tier, Who,
};
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

/// Origins that one tier knows at most.
const ORIGINS_MAX: usize = 1 << 16;
/// Paths that are known without being held before they are looked through.
const SWEEP_LEAST: usize = 1 << 16;

/// A question to a tier.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// `sftp://host`, without a path.
    pub origin: &'a str,
    /// Absolute below it.
    pub path: &'a [u8],
    /// What is asked of it.
    pub wants: Wants,
    /// Whether somebody waits.
    pub class: Class,
    /// How old the answer may be at most; whatever the tier believes if nothing is said.
    pub max_age: Option<Duration>,
    /// Whether an answer that is not believed any more will do if there is no other.
    pub stale_if_error: bool,
}

impl<'a> Asked<'a> {
    /// A question for which somebody waits.
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

/// What a tier below is sent without having asked just then.
#[derive(Debug)]
pub(crate) enum Down {
    /// An answer to its question.
    Answer(u64, Result<Given, Refused>, Option<u64>),
    /// Something happened.
    Change(Arc<str>, Vec<u8>, Happened),
    /// Nothing that was told so far is promised any more.
    Cut,
}

/// What is called with an answer that comes later.
type Then = Box<dyn FnOnce(Result<Given, Refused>) + Send>;

/// Figures of a tier.
#[derive(Debug, Clone, Copy)]
pub struct Figures {
    /// What it has counted.
    pub stats: Stats,
    /// Bytes that are kept.
    pub used: u64,
    /// Paths that are kept.
    pub kept: usize,
    /// Paths that are known.
    pub known: usize,
    /// Requests that wait to be sent.
    pub waiting: usize,
    /// Requests that are on their way.
    pub running: usize,
    /// Tiers and clients with a link.
    pub links: usize,
}

struct Core {
    tier: Tier,
    paths: Paths,
    /// Origins as they were given, the numbers of their roots and their names.
    roots: HashMap<Box<str>, PathId>,
    names: HashMap<PathId, Arc<str>>,
    /// When each asked, and what it is told by.
    waiters: HashMap<u64, (Time, Then)>,
    links: HashMap<u32, mpsc::UnboundedSender<Down>>,
    running: HashMap<Run, AbortHandle>,
    next: u64,
    next_link: u32,
    /// How often promises to tell of changes were lost, and when last.
    cuts: u64,
    cut_at: Time,
    out: Vec<Output>,
    sweep_at: usize,
}

/// A tier that runs.
pub struct Node {
    core: Mutex<Core>,
    above: Arc<dyn Above>,
    clock: Clock,
    disk: Option<Disk>,
    /// How long what is on disk is believed if nobody tells of changes.
    ttl: Time,
}

fn settings(config: &Config) -> Settings {
    if let Some(services) = config.services {
        return Settings {
            freshness: freshness(config),
            ..Settings::cloud(services)
        };
    }
    Settings {
        capacity: config.memory_bytes,
        policy: config.policy,
        predictor: config.predictor.make(config.threshold),
        freshness: freshness(config),
        running_max: config.running,
        ..Settings::default()
    }
}

fn freshness(config: &Config) -> Freshness {
    Freshness::TimeToLive {
        least: micros(config.ttl),
        most: micros(config.ttl_most),
    }
}

impl Node {
    /// A tier that asks `above`. Its folder on disk, if it has one, is opened, and read through.
    pub fn open(config: &Config, above: Arc<dyn Above>) -> io::Result<Arc<Self>> {
        let clock = Clock::new();
        let open = |folder: &PathBuf| {
            let opened = Disk::open(folder, config.disk_bytes, clock.now());
            let named =
                |e: io::Error| io::Error::new(e.kind(), format!("`{}`: {e}", folder.display()));
            opened.map_err(named)
        };
        let disk = config.disk.as_ref().map(open).transpose()?;
        Ok(Self::with(config, above, clock, disk))
    }

    /// A tier that asks `above` and keeps nothing on disk.
    pub fn new(config: &Config, above: Arc<dyn Above>) -> Arc<Self> {
        Self::with(config, above, Clock::new(), None)
    }

    fn with(config: &Config, above: Arc<dyn Above>, clock: Clock, disk: Option<Disk>) -> Arc<Self> {
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
            cuts: 0,
            cut_at: 0,
            out: Vec::new(),
            sweep_at: SWEEP_LEAST,
        };
        Arc::new(Self {
            core: Mutex::new(core),
            above,
            clock,
            disk,
            ttl: micros(config.ttl),
        })
    }

    /// Bytes on disk, and paths there.
    pub fn on_disk(&self) -> Option<(u64, usize)> {
        self.disk.as_ref().map(Disk::used)
    }

    fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who is asked.
    pub fn above(&self) -> &Arc<dyn Above> {
        &self.above
    }

    /// Asks for a client with a number of its own: predictors learn from it.
    pub async fn ask(self: &Arc<Self>, client: u32, asked: Asked<'_>) -> Result<Given, Refused> {
        let (send, receive) = oneshot::channel();
        let then = move |result| drop(send.send(result));
        if let Some(result) = self.ask_then(Who::Client(client), &asked, then) {
            return result;
        }
        let gone = |_| Err(Refused::Origin("this tier ends".into()));
        receive.await.unwrap_or_else(gone)
    }

    /// Asks. The answer comes at once, or is given to `then` later, which must not wait.
    pub(crate) fn ask_then(
        self: &Arc<Self>,
        who: Who,
        asked: &Asked<'_>,
        then: impl FnOnce(Result<Given, Refused>) + Send + 'static,
    ) -> Option<Result<Given, Refused>> {
        let mut core = self.lock();
        // Looked at under the lock: what comes later is later.
        let now = self.clock.now();
        let core = &mut *core;
        let path = match self.path(core, asked.origin, asked.path) {
            Ok(path) => path,
            Err(refused) => return Some(Err(refused)),
        };
        let ticket = core.next;
        core.next += 1;
        let ask = Ask {
            who,
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
        let reply = core.tier.ask(now, ask, &core.paths, &mut out);
        let result = match reply {
            Reply::Answer(answer) => Some(Ok(given(&answer, now, true, &core.paths))),
            Reply::Refused(failure) => Some(Err(refused(failure))),
            Reply::Wait => {
                core.waiters.insert(ticket, (now, Box::new(then)));
                None
            }
        };
        self.carry(core, out, now);
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
        let (place, path) = Place::parse(origin).map_err(named)?;
        if path != b"/" {
            return Err(Refused::Named(
                format!("`{origin}`: an origin has no path; give it as the path").into(),
            ));
        }
        let name = place.to_string();
        self.above.allows(&name)?;
        if core.roots.len() >= ORIGINS_MAX {
            return Err(Refused::Busy);
        }
        let root = core.paths.origin(&name);
        core.names.insert(root, name.into());
        core.roots.insert(origin.into(), root);
        Ok(root)
    }

    /// Does what the state machine said.
    fn carry(self: &Arc<Self>, core: &mut Core, mut out: Vec<Output>, now: Time) {
        for output in out.drain(..) {
            match output {
                Output::Send {
                    sent,
                    since,
                    max_age,
                } => {
                    let request = sent.key;
                    let Some((origin, path)) = whole(core, request.path) else {
                        continue;
                    };
                    let kept = since.map(|s| digest(&given(&s, now, false, &core.paths).found));
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
                    let sending = Sending {
                        run,
                        cuts: core.cuts,
                        cut_at: core.cut_at,
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
                        let result = result.map(|a| given(&a, asked, false, &core.paths));
                        then(result.map_err(refused));
                    }
                }
                Output::Tell { to, change } => {
                    let Some((origin, path)) = whole(core, change.path) else {
                        continue;
                    };
                    if let Some(link) = core.links.get(&to) {
                        // A link that is gone is taken away by whoever holds it.
                        drop(link.send(Down::Change(origin, path, change.happened)));
                    }
                }
            }
        }
        core.out = out;
    }

    /// One request: the disk, then whoever is above.
    async fn fetch(self: Arc<Self>, sent: Sending, mut fetch: Fetch) {
        let began = self.clock.now();
        let Some(disk) = &self.disk else {
            let got = self.above.fetch(fetch).await;
            return self.answered(sent, began, got, None);
        };
        let old = disk.get(&fetch.origin, &fetch.path, fetch.wants, sent.cut_at);
        if let Some(old) = &old {
            let age = began.saturating_sub(old.at);
            let young = fetch.max_age.is_none_or(|most| age <= micros(most));
            if young && (old.told || age <= self.ttl) {
                let got = Got::Found {
                    found: old.found.clone(),
                    age: Duration::from_micros(age),
                    told: old.told,
                };
                return self.answered(sent, began, Ok(got), None);
            }
        }
        let in_memory = fetch.kept.is_some();
        if !in_memory {
            fetch.kept = old.as_ref().map(Old::digest);
        }
        let mut got = self.above.fetch(fetch.clone()).await;
        if let (Ok(Got::Same { age, told }), false, Some(old)) = (&got, in_memory, &old) {
            got = Ok(Got::Found {
                found: old.found.clone(),
                age: *age,
                told: *told,
            });
        }
        if let Ok(Got::Found { found, age, told }) = &got {
            let new = Old {
                found: found.clone(),
                at: began.saturating_sub(micros(*age)),
                told: *told,
            };
            warn(disk.put(&fetch.origin, &fetch.path, fetch.wants, &new));
        }
        self.answered(sent, began, got, old);
    }

    /// `old` is what the disk had, for those who take old answers where there is no other.
    fn answered(
        self: &Arc<Self>,
        sent: Sending,
        began: Time,
        got: Result<Got, Refused>,
        old: Option<Old>,
    ) {
        let run = sent.run;
        let mut core = self.lock();
        // Looked at under the lock: what comes later is later.
        let now = self.clock.now();
        let core = &mut *core;
        core.running.remove(&run);
        let Some(request) = core.tier.running(run) else {
            return;
        };
        if let (Err(_), Some(old)) = (&got, old) {
            let answer = answer(request, old.found, old.at, &mut core.paths);
            core.tier.recall(request, &answer, &core.paths);
        }
        // Who promised to tell of changes may be gone by now.
        let holds = sent.cuts == core.cuts;
        let at = |age: Duration| began.saturating_sub(micros(age));
        let fetched = match got {
            Ok(Got::Found { found, age, told }) => {
                let mut answer = answer(request, found, at(age), &mut core.paths);
                answer.told = told && holds;
                Fetched::Answer(answer)
            }
            Ok(Got::Same { age, told }) => Fetched::Unchanged(at(age), told && holds),
            Err(Refused::Busy) => Fetched::Failed(Failure::Busy),
            Err(Refused::Changing) => Fetched::Failed(Failure::Changing),
            Err(Refused::Denied(why)) => Fetched::Failed(Failure::Denied(why)),
            Err(Refused::Named(why) | Refused::Origin(why)) => {
                Fetched::Failed(Failure::Origin(why))
            }
        };
        let mut out = std::mem::take(&mut core.out);
        core.tier.answered(now, run, fetched, &core.paths, &mut out);
        self.carry(core, out, now);
        Self::sweep(core);
    }

    /// What somebody above tells without having been asked.
    pub fn news(self: &Arc<Self>, news: News) {
        let mut core = self.lock();
        // Looked at under the lock: what comes later is later.
        let now = self.clock.now();
        let core = &mut *core;
        let (origin, told) = match news {
            News::Cut | News::Told(_, Told::Cut) => {
                core.tier.cut();
                core.cuts += 1;
                core.cut_at = now;
                // A link that is gone is taken away by whoever holds it.
                core.links.values().for_each(|l| drop(l.send(Down::Cut)));
                return;
            }
            News::Told(origin, told) => (origin, told),
        };
        let (path, happened) = match told {
            Told::Changed(path, attributes) => (path, Happened::Changed(attributes)),
            Told::Deleted(path) => (path, Happened::Deleted),
            Told::Missed(path) => (path, Happened::Doubted),
            Told::Cut => return,
        };
        let Ok(path) = self.path(core, &origin, &path) else {
            return;
        };
        self.note(core, path, &happened, now);
        let change = Change { path, happened };
        let mut out = std::mem::take(&mut core.out);
        core.tier.publish(now, &change, &core.paths, &mut out);
        self.carry(core, out, now);
    }

    /// What a tier above told, with the words of tiers.
    pub(crate) fn changed(
        self: &Arc<Self>,
        origin: &str,
        path: &[u8],
        happened: Happened,
    ) -> Result<(), Refused> {
        let mut core = self.lock();
        // Looked at under the lock: what comes later is later.
        let now = self.clock.now();
        let core = &mut *core;
        let path = self.path(core, origin, path)?;
        self.note(core, path, &happened, now);
        let change = Change { path, happened };
        let mut out = std::mem::take(&mut core.out);
        core.tier.publish(now, &change, &core.paths, &mut out);
        self.carry(core, out, now);
        Ok(())
    }

    /// The disk hears of a change.
    fn note(&self, core: &Core, path: PathId, happened: &Happened, now: Time) {
        if let (Some(disk), Some((origin, path))) = (&self.disk, whole(core, path)) {
            warn(disk.happened(&origin, &path, happened, now));
        }
    }

    /// A person, or a tier below, says that a path may have changed: it is forgotten here, below and above.
    pub fn doubt(self: &Arc<Self>, origin: &str, path: &[u8]) -> Result<(), Refused> {
        self.changed(origin, path, Happened::Doubted)?;
        self.above.doubt(origin, path);
        Ok(())
    }

    /// A tier below, or a client, has a link.
    pub(crate) fn join(&self, link: mpsc::UnboundedSender<Down>) -> u32 {
        let mut core = self.lock();
        let number = core.next_link;
        core.next_link += 1;
        core.links.insert(number, link);
        number
    }

    /// Its link is gone.
    pub(crate) fn leave(&self, link: u32) {
        let mut core = self.lock();
        core.links.remove(&link);
        core.tier.drop_tier(link);
    }

    /// What it counts.
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

    /// What is known of a path, with the paths of those entries that answer for it, and the present time.
    pub fn explain(&self, origin: &str, path: &[u8]) -> Result<Explanation, Refused> {
        let mut core = self.lock();
        // Looked at under the lock: what comes later is later.
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

    /// Forgets paths that nobody holds, once there are twice as many as were held the last time.
    fn sweep(core: &mut Core) {
        if core.paths.len() < core.sweep_at {
            return;
        }
        let mut held = vec![false; core.paths.bound()];
        let mut mark = |path: PathId| held[path.index()] = true;
        core.names.keys().for_each(|root| mark(*root));
        core.tier.held(&mut mark);
        core.paths.sweep(|path| held[path.index()]);
        core.sweep_at = SWEEP_LEAST.max(2 * core.paths.len());
    }
}

/// The disk is a help only: without it all is fetched.
fn warn(done: io::Result<()>) {
    if let Err(error) = done {
        tracing::warn!(%error, "the disk of the cache");
    }
}

/// A request on its way, and what was promised when it was sent.
#[derive(Debug, Clone, Copy)]
struct Sending {
    run: Run,
    cuts: u64,
    cut_at: Time,
}

/// What [`Node::explain`] tells.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// The present, in microseconds as `explained` has its times.
    pub now: Time,
    /// Which path's entry answers for its attributes.
    pub stat_by: Option<String>,
    /// Which path's entry answers for its listing.
    pub list_by: Option<String>,
    /// What is known.
    pub explained: Explained,
}

/// A path's origin, and how it is called there.
fn whole(core: &Core, path: PathId) -> Option<(Arc<str>, Vec<u8>)> {
    let root = core.paths.upwards(path).last()?;
    let origin = core.names.get(&root)?.clone();
    Some((origin, core.paths.bytes(path)))
}
