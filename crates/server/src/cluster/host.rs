//! The environment of a node: connections to the other servers, a clock, threads.

use super::config::ClusterConfig;
use super::shared::SharedFolder;
use crate::member::hub::{Hub, StoreAssignment};
use crate::spans;
use esker::{Database, Durability};
use esker_cluster::node::{BoxFuture, SharedFiles, Window};
use esker_cluster::peer::{PeerRequest, PeerResponse, Request};
use esker_cluster::{Host, ServerId};
use esker_model::wire::{decode, encode};
use esker_model::{Error, Result};
use esker_rpc::map::Map;
use esker_rpc::trace::TraceContext;
use esker_rpc::{Address, PeerLink, proto};
use esker_telemetry::Span;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// Time limit of a request with its transfer; a long read may take longer, if a ping at this interval succeeds.
const CALL_MAX: Duration = Duration::from_secs(10);
/// Time limit of another server's greeting.
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// Shortest and longest pause before connecting again to an unreachable server.
const RETRY_MIN: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_secs(1);

/// The host of a node in a server.
pub(super) struct ServerHost {
    me: ServerId,
    database: Database,
    runtime: Handle,
    /// Whether commits wait for the disk, or for checkpoints.
    commits_wait: bool,
    /// Other servers by number; `None` for this one.
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

/// Another server of the cluster.
struct Peer {
    id: ServerId,
    /// Address of the server in the configuration.
    address: Address,
    /// File with the server's present address, if another one has taken it over.
    map: Option<PathBuf>,
    /// Source of the server's address, where stores move.
    hub: Option<Arc<Hub>>,
    greeting: proto::Peer,
    link: Mutex<Option<(Address, u64, Arc<PeerLink>)>>,
    /// Locked by the task that connects.
    connecting: tokio::sync::Mutex<Option<FailedAttempt>>,
    /// Reason why the server cannot be reached, if it was tried.
    failure: Mutex<Option<String>>,
    calls: AtomicU64,
    failed: AtomicU64,
    micros: AtomicU64,
}

/// The last failed attempt to connect.
struct FailedAttempt {
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
        assignment: Option<&StoreAssignment>,
    ) -> Result<Arc<Self>> {
        // Servers authenticate each other with the host key that they share.
        let key = crate::access::host_key(&config.storage, &config.settings)?;
        let peer = |id: ServerId| {
            if id == me {
                return Ok(None);
            }
            // The address of a store that moves is looked up for each connection.
            let place = if assignment.is_some() {
                "localhost"
            } else {
                config.address(id)
            };
            let mut address = Address::parse(&format!("esker://{place}"))?;
            address.patience = CONNECT_MAX;
            address.trust.own = Some(key.clone());
            address.store = assignment.map(|_| id.0);
            Ok(Some(Arc::new(Peer {
                id,
                address,
                map: config.map(),
                hub: assignment.map(|assignment| Arc::clone(&assignment.hub)),
                greeting: config.greeting(me, id),
                link: Mutex::default(),
                connecting: tokio::sync::Mutex::default(),
                failure: Mutex::default(),
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
            commits_wait: config.durability == Durability::Sync || window.is_some(),
            peers,
            window,
            files,
        }))
    }

    /// Closes connections to servers that have lost their stores.
    pub(super) fn close_moved_links(&self) {
        self.peers
            .iter()
            .flatten()
            .for_each(|peer| peer.close_moved_link());
    }

    /// Reason why a server cannot be reached, if it was tried and failed.
    pub(super) fn failure(&self, server: ServerId) -> Option<String> {
        let peer = self.peers.get(server.0 as usize)?.as_ref()?;
        let failure = peer.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.clone()
    }

    /// Present addresses of the other servers, by number; `None` for this one.
    pub(super) fn other_addresses(&self) -> Vec<Option<Address>> {
        let each = self.peers.iter();
        each.map(|peer| {
            let peer = peer.as_ref()?;
            let place = peer.present_address().map(|(address, _)| address);
            Some(place.unwrap_or_else(|_| peer.address.clone()))
        })
        .collect()
    }

    /// Number of requests sent to a server, and of those without a response.
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
                "Requests sent to another server.",
                |p| p.calls.load(Ordering::Relaxed) as f64,
            ),
            (
                "esker_peer_failures_total",
                "Requests to another server that had no answer.",
                |p| p.failed.load(Ordering::Relaxed) as f64,
            ),
            (
                "esker_peer_seconds_total",
                "Time from requests to another server to their answers.",
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

/// Whether a request may take long if there is much data: any but a write.
fn may_take_long(request: &Request) -> bool {
    matches!(
        request,
        Request::Travel(_) | Request::Read(_) | Request::Objects(_) | Request::Copy { .. }
    )
}

impl Host for ServerHost {
    fn call(
        &self,
        to: ServerId,
        question: PeerRequest,
    ) -> BoxFuture<'static, Result<PeerResponse>> {
        let peer = self.peers.get(to.0 as usize).cloned().flatten();
        let span = spans::to_peer(question.request.name(), self.me.0, to.0);
        Box::pin(async move {
            match peer {
                Some(peer) => {
                    let answer = peer
                        .send_request(question, span.as_ref().map(Span::context))
                        .await;
                    if let (Some(span), Err(_)) = (&span, &answer) {
                        span.fail();
                    }
                    answer
                }
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

    fn run_blocking(&self, work: Box<dyn FnOnce() + Send>) {
        if self.commits_wait {
            self.runtime.spawn_blocking(work);
        } else {
            // A commit takes less time than waking a thread.
            work();
        }
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
    async fn send_request(
        &self,
        question: PeerRequest,
        trace: Option<TraceContext>,
    ) -> Result<PeerResponse> {
        let began = Instant::now();
        self.calls.fetch_add(1, Ordering::Relaxed);
        let is_there = may_take_long(&question.request).then_some(PeerRequest {
            from: question.from,
            incarnation: question.incarnation,
            clock: question.clock,
            newest: question.newest,
            request: Request::Ping,
        });
        let mut sending = pin!(async {
            let link = self.link().await?;
            link.request(encode(&question), trace).await
        });
        let answer = loop {
            if let Ok(answer) = tokio::time::timeout(CALL_MAX, sending.as_mut()).await {
                break answer.and_then(|answer| {
                    decode(&answer).map_err(|e| {
                        Error::OtherRelease(format!(
                            "malformed answer: {e}: use the same release on all servers"
                        ))
                    })
                });
            }
            // A long request is awaited as long as its server answers pings.
            if let Some(ping) = &is_there {
                let ping = async {
                    let link = self.link().await?;
                    link.request(encode(ping), None).await
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
                // The request will be as large the next time.
                Error::Limit { .. } => e,
                e => {
                    let at = self
                        .present_address()
                        .map(|(address, _)| address.authority());
                    let (id, at) = (self.id, at.unwrap_or_else(|why| why));
                    Error::Unavailable(format!("{id} ({at}) cannot be reached: {e}"))
                }
            }
        })
    }

    fn note(&self, failure: Option<String>) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }

    fn current_link(&self) -> Option<Arc<PeerLink>> {
        let link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, _, link) = link.as_ref().filter(|(_, _, l)| l.usable())?;
        Some(Arc::clone(link))
    }

    /// Closes the connection if the store has moved; requests waiting for a response fail.
    fn close_moved_link(&self) {
        let Some(hub) = &self.hub else { return };
        let place = hub.assignments().holder(self.id.0);
        let mut link_slot = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, epoch, link)) = link_slot.as_ref()
            && let Some((member, now)) = place
            && (now > *epoch || at.authority() != member)
        {
            link.close("its store has another server now");
            *link_slot = None;
        }
    }

    /// Present address of the store and the epoch of its claim (0 where stores do not move). The error says that no member has it.
    fn present_address(&self) -> std::result::Result<(Address, u64), String> {
        let Some(hub) = &self.hub else {
            return Ok((self.mapped_address(), 0));
        };
        let nobody = || format!("no server has store {} at the moment", self.id.0);
        let (member, epoch) = hub.assignments().holder(self.id.0).ok_or_else(nobody)?;
        let address = self.address.with_authority(&member).ok_or_else(nobody)?;
        Ok((address, epoch))
    }

    /// Present address of the server.
    fn mapped_address(&self) -> Address {
        let moved = self.map.as_deref().and_then(|map| {
            let map = Map::read(map)
                .inspect_err(|e| tracing::warn!(error = %e, "the cluster's map cannot be read"))
                .ok()?;
            self.address.with_authority(map.address(self.id.0)?)
        });
        moved.unwrap_or_else(|| self.address.clone())
    }

    /// Returns the connection, or a new one; fails while it is too early to try again.
    async fn link(&self) -> Result<Arc<PeerLink>> {
        if let Some(link) = self.current_link() {
            return Ok(link);
        }
        let mut failed = self.connecting.lock().await;
        if let Some(link) = self.current_link() {
            return Ok(link);
        }
        let (at, epoch) = self.present_address().map_err(|why| {
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
                let mut link_slot = self.link.lock().unwrap_or_else(PoisonError::into_inner);
                *link_slot = Some((at, epoch, Arc::clone(&link)));
                Ok(link)
            }
            Err(e) => {
                let before = failed.as_ref().map(|f| (f.pause, &f.why));
                let why = e.to_string();
                let new = before.is_none_or(|(_, last)| *last != why);
                if new && self.hub.is_some() {
                    // Stores move between members all the time.
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
                *failed = Some(FailedAttempt {
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
