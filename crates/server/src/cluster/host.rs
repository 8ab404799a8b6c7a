//! What a node needs of the world: connections to the other servers, a clock that ticks, threads.

use super::config::ClusterConfig;
use super::shared::SharedFolder;
use super::wire;
use crate::member::hub::{Hub, Seat};
use esker::Database;
use esker_cluster::node::{BoxFuture, SharedFiles, Window};
use esker_cluster::peer::{Answer, Question, Request};
use esker_cluster::{Host, ServerId};
use esker_model::{Error, Result};
use esker_rpc::map::Map;
use esker_rpc::{Address, PeerLink, proto};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// How long a question may take, its way included; what reads much may take longer, and is looked after that often.
const CALL_MAX: Duration = Duration::from_secs(10);
/// How long another server may take to greet.
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// The shortest and the longest time after which a server that could not be reached is tried again.
const RETRY_MIN: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_secs(1);

/// The host of a node in a server.
pub(super) struct ServerHost {
    me: ServerId,
    database: Database,
    runtime: Handle,
    /// By number; `None` for this one.
    peers: Vec<Option<Arc<Peer>>>,
    window: Option<Arc<dyn Window>>,
    files: Option<Arc<dyn SharedFiles>>,
}

/// The window of a server's store.
struct StoreWindow(esker::Window);

impl Window for StoreWindow {
    fn written(&self) -> u64 {
        self.0.written()
    }

    fn persisted(&self) -> u64 {
        self.0.persisted()
    }

    fn harden(&self) -> Result<()> {
        self.0.harden()
    }

    fn try_harden(&self) -> Result<()> {
        self.0.try_harden()
    }

    fn may_have_lost(&self) -> bool {
        self.0.may_have_lost()
    }
}

/// Another server.
struct Peer {
    id: ServerId,
    /// Where it belongs.
    address: Address,
    /// The file that says if it is elsewhere.
    map: Option<PathBuf>,
    /// Who knows where it is, where stores move.
    hub: Option<Arc<Hub>>,
    greeting: proto::Peer,
    link: Mutex<Option<(Address, u64, Arc<PeerLink>)>>,
    /// Held by whoever connects.
    connecting: tokio::sync::Mutex<Option<Failed>>,
    /// Why it cannot be reached, if so.
    trouble: Mutex<Option<String>>,
    calls: AtomicU64,
    failed: AtomicU64,
    micros: AtomicU64,
}

/// The last attempt to connect, if it failed.
struct Failed {
    at: Address,
    why: String,
    pause: Duration,
    until: Instant,
}

impl ServerHost {
    pub(super) fn new(
        config: &ClusterConfig,
        me: ServerId,
        runtime: Handle,
        database: &Database,
        seat: Option<&Seat>,
    ) -> Result<Arc<Self>> {
        // The servers know each other by the key that all of them have.
        let key = crate::access::host_key(&config.storage, &config.settings)?;
        let peer = |id: ServerId| {
            if id == me {
                return Ok(None);
            }
            // Where stores move, their places are looked up each time.
            let place = if seat.is_some() {
                "localhost"
            } else {
                config.address(id)
            };
            let mut address = Address::parse(&format!("esker://{place}"))?;
            address.patience = CONNECT_MAX;
            address.trust.own = Some(key.clone());
            address.store = seat.map(|_| id.0);
            Ok(Some(Arc::new(Peer {
                id,
                address,
                map: config.map(),
                hub: seat.map(|seat| Arc::clone(&seat.hub)),
                greeting: config.greeting(me, id),
                link: Mutex::default(),
                connecting: tokio::sync::Mutex::default(),
                trouble: Mutex::default(),
                calls: AtomicU64::new(0),
                failed: AtomicU64::new(0),
                micros: AtomicU64::new(0),
            })))
        };
        let peers = config.ids().map(peer).collect::<Result<_>>()?;
        let window = database
            .window()
            .map(|w| Arc::new(StoreWindow(w)) as Arc<dyn Window>);
        let shared = config.shared.clone();
        let files = shared.map(|folder| {
            let folder = SharedFolder::new(folder, runtime.clone());
            Arc::new(folder) as Arc<dyn SharedFiles>
        });
        Ok(Arc::new(Self {
            me,
            database: database.clone(),
            runtime,
            peers,
            window,
            files,
        }))
    }

    /// Lets go of links to servers that have lost their stores.
    pub(super) fn let_go(&self) {
        self.peers.iter().flatten().for_each(|peer| peer.let_go());
    }

    /// Why that server cannot be reached, if it was tried and could not.
    pub(super) fn trouble(&self, server: ServerId) -> Option<String> {
        let peer = self.peers.get(server.0 as usize)?.as_ref()?;
        let trouble = peer.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.clone()
    }

    /// Where the other servers are now, by number; nothing for this one.
    pub(super) fn others(&self) -> Vec<Option<Address>> {
        let each = self.peers.iter();
        each.map(|peer| {
            let peer = peer.as_ref()?;
            let place = peer.place().map(|(address, _)| address);
            Some(place.unwrap_or_else(|_| peer.address.clone()))
        })
        .collect()
    }

    /// How many questions that server was asked, and how many had no answer.
    pub(super) fn figures(&self, server: ServerId) -> (u64, u64) {
        match self.peers.get(server.0 as usize) {
            Some(Some(peer)) => (
                peer.calls.load(Ordering::Relaxed),
                peer.failed.load(Ordering::Relaxed),
            ),
            _ => (0, 0),
        }
    }

    pub(super) fn metrics(&self, out: &mut String) {
        type Figure = fn(&Peer) -> f64;
        let figures: [(&str, &str, Figure); 3] = [
            (
                "esker_peer_calls_total",
                "Questions asked of another server.",
                |p| p.calls.load(Ordering::Relaxed) as f64,
            ),
            (
                "esker_peer_failures_total",
                "Questions to another server that had no answer.",
                |p| p.failed.load(Ordering::Relaxed) as f64,
            ),
            (
                "esker_peer_seconds_total",
                "Time from questions to another server to their answers.",
                |p| p.micros.load(Ordering::Relaxed) as f64 / 1e6,
            ),
        ];
        for (name, help, figure) in figures {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} counter");
            for peer in self.peers.iter().flatten() {
                let _ = writeln!(out, "{name}{{server=\"{}\"}} {}", peer.id.0, figure(peer));
            }
        }
    }
}

/// Whether a question may take long where there is much data: all but what writes.
fn may_take_long(request: &Request) -> bool {
    matches!(
        request,
        Request::Travel(_) | Request::Read(_) | Request::Objects(_) | Request::Copy { .. }
    )
}

impl Host for ServerHost {
    fn call(&self, to: ServerId, question: Question) -> BoxFuture<'static, Result<Answer>> {
        let peer = self.peers.get(to.0 as usize).cloned().flatten();
        Box::pin(async move {
            match peer {
                Some(peer) => peer.ask(question).await,
                None => Err(Error::Unavailable(format!(
                    "{to} is not another server of this cluster"
                ))),
            }
        })
    }

    fn sleep(&self, millis: u64) -> BoxFuture<'static, ()> {
        Box::pin(async move { tokio::time::sleep(Duration::from_millis(millis)).await })
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.runtime.spawn(task);
    }

    fn files(&self) -> Option<Arc<dyn SharedFiles>> {
        self.files.clone()
    }

    fn copy(&self, to: String) -> BoxFuture<'static, Result<u64>> {
        let place = Path::new(&to).join(format!("server-{}", self.me.0));
        let database = self.database.clone();
        let copying = self
            .runtime
            .spawn_blocking(move || database.backup(&place).map(|done| done.bytes));
        Box::pin(async move {
            let copied = copying.await;
            copied.unwrap_or_else(|_| {
                Err(Error::Unavailable(
                    "copying was cut short: the server is stopping".into(),
                ))
            })
        })
    }

    fn window(&self) -> Option<Arc<dyn Window>> {
        self.window.clone()
    }
}

impl Peer {
    async fn ask(&self, question: Question) -> Result<Answer> {
        let began = Instant::now();
        self.calls.fetch_add(1, Ordering::Relaxed);
        let is_there = may_take_long(&question.request).then_some(Question {
            from: question.from,
            incarnation: question.incarnation,
            clock: question.clock,
            newest: question.newest,
            request: Request::Ping,
        });
        let mut asked = pin!(async {
            let link = self.link().await?;
            link.ask(wire::question_out(question)).await
        });
        let answer = loop {
            if let Ok(answer) = tokio::time::timeout(CALL_MAX, asked.as_mut()).await {
                break answer.and_then(|a| Ok(wire::answer_in(a)?));
            }
            // What takes long is waited for as long as its server is there.
            if let Some(ping) = &is_there {
                let ping = async {
                    let link = self.link().await?;
                    link.ask(wire::question_out(ping.clone())).await
                };
                if let Ok(Ok(_)) = tokio::time::timeout(CALL_MAX, ping).await {
                    continue;
                }
            }
            break Err(Error::Unavailable(format!(
                "no answer within {} s: its process may be stopped or overloaded",
                CALL_MAX.as_secs()
            )));
        };
        let micros = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Ordering::Relaxed);
        answer.map_err(|e| {
            self.failed.fetch_add(1, Ordering::Relaxed);
            match e {
                // It will not be smaller the next time.
                Error::Limit { .. } => e,
                e => {
                    let at = self.place().map(|(address, _)| address.authority());
                    let (id, at) = (self.id, at.unwrap_or_else(|why| why));
                    Error::Unavailable(format!("{id} ({at}) cannot be asked: {e}"))
                }
            }
        })
    }

    fn note(&self, trouble: Option<String>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    fn held(&self) -> Option<Arc<PeerLink>> {
        let link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, _, link) = link.as_ref().filter(|(_, _, l)| l.usable())?;
        Some(Arc::clone(link))
    }

    /// The store is elsewhere by now: nothing is asked any more where it was, and whoever waits for an answer waits no longer.
    fn let_go(&self) {
        let Some(hub) = &self.hub else { return };
        let place = hub.places().of(self.id.0);
        let mut held = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, epoch, link)) = held.as_ref()
            && let Some((member, now)) = place
            && (now > *epoch || at.authority() != member)
        {
            link.close("its store has another server now");
            *held = None;
        }
    }

    /// Where it is now; in an error who is looked for, where nobody has it. With the epoch at which it is there, where stores move.
    fn place(&self) -> std::result::Result<(Address, u64), String> {
        let Some(hub) = &self.hub else {
            return Ok((self.whereabouts(), 0));
        };
        let nobody = || format!("store {} is with nobody just now", self.id.0);
        let (member, epoch) = hub.places().of(self.id.0).ok_or_else(nobody)?;
        let address = self.address.moved(&member).ok_or_else(nobody)?;
        Ok((address, epoch))
    }

    /// Where it is now.
    fn whereabouts(&self) -> Address {
        let moved = self.map.as_deref().and_then(|map| {
            let map = Map::read(map)
                .inspect_err(|e| tracing::warn!(error = %e, "the cluster's map cannot be read"))
                .ok()?;
            self.address.moved(map.address(self.id.0)?)
        });
        moved.unwrap_or_else(|| self.address.clone())
    }

    /// The connection, or a new one; none while it is too early to try again.
    async fn link(&self) -> Result<Arc<PeerLink>> {
        if let Some(link) = self.held() {
            return Ok(link);
        }
        let mut failed = self.connecting.lock().await;
        if let Some(link) = self.held() {
            return Ok(link);
        }
        let (at, epoch) = self.place().map_err(|why| {
            self.note(Some(why.clone()));
            Error::Unavailable(why)
        })?;
        if let Some(failed) = &*failed
            && failed.at == at
            && Instant::now() < failed.until
        {
            return Err(Error::Unavailable(failed.why.clone()));
        }
        match PeerLink::open(&at, self.greeting.clone()).await {
            Ok(link) => {
                *failed = None;
                self.note(None);
                let mut held = self.link.lock().unwrap_or_else(PoisonError::into_inner);
                *held = Some((at, epoch, Arc::clone(&link)));
                Ok(link)
            }
            Err(e) => {
                let before = failed.as_ref().map(|f| (f.pause, &f.why));
                let why = e.to_string();
                let new = before.is_none_or(|(_, last)| *last != why);
                if new && self.hub.is_some() {
                    // Stores are on their way from one to another all the time.
                    tracing::debug!(
                        store = self.id.0,
                        error = why,
                        "another store cannot be reached"
                    );
                } else if new {
                    tracing::warn!(
                        server = self.id.0,
                        error = why,
                        "another server cannot be reached"
                    );
                }
                self.note(Some(why.clone()));
                let pause = before.map_or(RETRY_MIN, |(p, _)| (2 * p).min(RETRY_MAX));
                *failed = Some(Failed {
                    at,
                    why: why.clone(),
                    pause,
                    until: Instant::now() + pause,
                });
                Err(Error::Unavailable(why))
            }
        }
    }
}
