//! One server of a cluster: its engine, what it knows of other servers, and what it does for clients and for its peers.
//!
//! Everything that waits is a future, run by the [`Host`]: threads and sockets in a server, a simulated network and
//! clock in tests. This module starts no threads and reads no clock.
//!
//! `docs/internals/consistency.md` explains how distributed batches commit, `docs/internals/traversal.md` how
//! traversals run. Suggested reading order: `state`, `coordinate`, `transaction`, `participate`, `last_agent` and `group_commit` (writing),
//! `recover`, `read` and `local` (reading), `objects` and `find` (objects), `split`, `travel`.

mod clock;
pub(crate) mod codec;
mod commit_queue;
mod coordinate;
pub(crate) mod define;
mod deliver;
mod diff;
mod fan_out;
mod files;
mod find;
mod group_commit;
pub(crate) mod hashed;
mod last_agent;
mod local;
pub(crate) mod names;
mod objects;
mod page;
mod participate;
mod pause;
mod peers;
mod pending;
mod read;
mod recover;
mod replay;
mod route;
mod scan;
mod split;
mod state;
pub(crate) mod tagging;
mod transaction;
mod travel;
mod visibility;
mod window;

pub use deliver::deliver_decisions;
pub use page::PAGE_ROWS;
pub use read::{BlockOn, ClusterGraph};
pub use recover::incarnation_at;
pub use visibility::Caller;
pub(crate) use visibility::Visibility;

use crate::peer::{PeerRequest, PeerResponse, Request, Response};
use crate::placement::{Kind, Order, Placement};
use crate::vnode::{ServerId, VnodeMap, Vnodes};
use clock::{Clock as Hybrid, STRIDE};
use commit_queue::CommitQueue;
use esker_engine::{Clock, Engine};
use esker_model::{Error, Result, Version};
pub use files::{MoveStats, PartitionMoveStats, SharedFiles};
use state::State;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use travel::Traversals;
pub use window::Window;

/// A boxed future that can be sent between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Services that a node needs from its environment.
pub trait Host: Send + Sync {
    /// Sends a request to another server and returns its response. Fails with [`esker_model::Error::Unavailable`] without
    /// a response; the request may have arrived nevertheless. A host limits how long it waits.
    fn call(&self, to: ServerId, question: PeerRequest)
    -> BoxFuture<'static, Result<PeerResponse>>;

    /// Completes after `millis` milliseconds.
    fn sleep(&self, millis: u64) -> BoxFuture<'static, ()>;

    /// Runs a future concurrently with the others.
    fn spawn(&self, task: BoxFuture<'static, ()>);

    /// Runs work that waits for the disk. Futures must be able to continue meanwhile, unless the store does not wait; by
    /// default, the work runs at once.
    fn run_blocking(&self, work: Box<dyn FnOnce() + Send>) {
        work();
    }

    /// Returns storage that all servers share, if there is any.
    fn files(&self) -> Option<Arc<dyn SharedFiles>> {
        None
    }

    /// Copies the engine's store, as it is now, to this server's subfolder of a folder; returns the size of the copy in bytes.
    fn copy(&self, _to: String) -> BoxFuture<'static, Result<u64>> {
        Box::pin(async {
            Err(Error::Invalid(
                "this server cannot copy its store: backups of the cluster are not supported here"
                    .into(),
            ))
        })
    }

    /// Returns the window of an ephemeral store: commits that no checkpoint contains yet.
    fn window(&self) -> Option<Arc<dyn Window>> {
        None
    }
}

/// Settings of a cluster; except for `id` and `epoch`, they are the same on all its servers.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Id of this server.
    pub id: ServerId,
    /// All servers, this one included: up to [`SERVERS_MAX`].
    pub servers: Vec<ServerId>,
    /// Number of vnodes; must be a power of two.
    pub vnodes: u32,
    /// Placement rule of edges.
    pub placement: Kind,
    /// Split threshold: largest number of edges of a partition.
    pub threshold: u64,
    /// Split threshold of directories: largest number of entries of a partition.
    pub directory_threshold: u64,
    /// Number of rows from which moving entries are passed on as a sorted table on shared storage; fewer go in a message.
    pub table_min_rows: u64,
    /// Largest number of edges, vertices or differences that another server sends in one page.
    pub page_rows: u32,
    /// Ephemeral stores: how long a restored server accepts only what clients send again, in milliseconds.
    pub replay_millis: u64,
    /// Number of takeovers of this server's store, where servers take over each other's stores; otherwise 0. Of two processes
    /// that have had the store, the later one has the larger number, whatever either wrote.
    pub epoch: u64,
}

/// Largest number of servers of a cluster: each issues versions of its own residue.
pub const SERVERS_MAX: usize = STRIDE as usize;

/// Longest wait of a read for a write that is prepared and not decided, in milliseconds.
const UNDECIDED_MAX: u64 = 10_000;

/// Largest lead of a version that a client says it has seen over this machine's clock, in milliseconds.
const CLIENT_LEAD_MILLIS: u64 = 3_600_000;

/// A server of a cluster.
pub struct Node {
    settings: Settings,
    engine: Arc<Engine>,
    time: Arc<dyn Clock>,
    host: Arc<dyn Host>,
    map: VnodeMap,
    placement: Box<dyn Placement>,
    clock: Hybrid,
    incarnation: u64,
    window: Option<Arc<dyn Window>>,
    /// Storage that all servers share.
    files: Option<Arc<dyn SharedFiles>>,
    moved: files::MoveCounters,
    state: Mutex<State>,
    commits: CommitQueue,
    /// Held while a vertex's splits are written: each writer writes what the previous one wrote, and more.
    splits_write: Mutex<()>,
    travels: Mutex<Traversals>,
    /// For tasks that outlive calls: they must not keep a closed node alive.
    me: Weak<Node>,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Node {
    /// Opens a node over its engine. It serves once [`Self::join`] has returned.
    pub fn open(
        engine: Arc<Engine>,
        time: Arc<dyn Clock>,
        host: Arc<dyn Host>,
        settings: Settings,
    ) -> Result<Arc<Self>> {
        let invalid = |e: String| Error::Invalid(e);
        let vnodes = Vnodes::new(settings.vnodes).map_err(|e| invalid(e.to_string()))?;
        let map = VnodeMap::first(vnodes, &settings.servers).map_err(|e| invalid(e.to_string()))?;
        let placement = settings
            .placement
            .over(vnodes.count(), Order::Numbers)
            .map_err(|e| invalid(e.to_string()))?;
        let index = map.servers().iter().position(|s| *s == settings.id);
        let index = index
            .ok_or_else(|| invalid(format!("{} is not a server of this cluster", settings.id)))?;
        if map.servers().len() > SERVERS_MAX {
            return Err(invalid(format!(
                "{} servers are too many; a cluster has up to {SERVERS_MAX}",
                map.servers().len()
            )));
        }
        engine.partial_namespace().set_distributed();
        let (incarnation, mut state) = recover::load(&engine, &map, settings.epoch)?;
        let window = host.window();
        if let Some(window) = &window {
            // No server may learn of an incarnation that a later start has forgotten.
            window.harden()?;
            state.serving &= !window.may_have_lost();
        }
        // An ephemeral store keeps nothing for other servers.
        let files = host.files().filter(|_| window.is_none());
        let clock = Hybrid::new(index as u64, engine.newest_assigned());
        let node = Arc::new_cyclic(|me| Self {
            settings,
            engine,
            time,
            host,
            map,
            placement,
            clock,
            incarnation,
            window,
            files,
            moved: files::MoveCounters::default(),
            state: Mutex::new(state),
            commits: CommitQueue::default(),
            splits_write: Mutex::default(),
            travels: Mutex::default(),
            me: me.clone(),
        });
        node.load_flags();
        Ok(node)
    }

    /// Handles a request from another server. Never panics; errors are in the response.
    pub async fn handle(self: &Arc<Self>, question: PeerRequest) -> PeerResponse {
        let outcome = self.answer(question).await;
        // The order matters, as in `read_version`.
        let newest = self.newest_known();
        PeerResponse {
            incarnation: self.incarnation,
            clock: self.newest(),
            newest,
            moves: self.state().moves,
            persisted: self.persisted(),
            outcome,
        }
    }

    async fn answer(self: &Arc<Self>, question: PeerRequest) -> Result<Response> {
        let from = question.from;
        if from == self.settings.id || !self.map.servers().contains(&from) {
            return Err(Error::Invalid(format!(
                "{from} is not another server of this cluster"
            )));
        }
        self.witness(from, question.incarnation, question.clock, question.newest);
        match question.request {
            Request::Hello { decided } => self.hello(from, question.incarnation, decided).await,
            Request::Ping => {
                self.wait_for_split_publication().await?;
                Ok(Response::Done)
            }
            Request::Persist => {
                self.try_harden()?;
                Ok(Response::Done)
            }
            Request::Resume { id } => {
                self.resume(id);
                Ok(Response::Done)
            }
            // Servers that start together exchange flags before any of them serves.
            Request::Names(call @ crate::peer::NamesCall::ExchangeFlags(_)) => {
                self.answer_names(from, call).await.map(Response::Names)
            }
            request => {
                if let Request::Apply { batch, how, .. } = &request
                    && let Some(at) = how.acknowledged_at
                    && let Some(done) = self.replay(batch, at).await
                {
                    let (commit, position) = done?;
                    return Ok(Response::Batch(commit, position));
                }
                self.check_serving()?;
                match request {
                    Request::Prepare {
                        tx,
                        over,
                        seen,
                        part,
                    } => {
                        let answer = self.prepare(tx, over, seen, part).await?;
                        // The vote may depend on commits that only the window has.
                        self.try_harden()?;
                        Ok(answer)
                    }
                    Request::Apply { batch, seen, how } => {
                        self.observe_client_version(seen);
                        let (commit, position) = self.apply_here(batch, seen, how.retained).await?;
                        Ok(Response::Batch(commit, position))
                    }
                    Request::Commit(decided) => self.commit(decided).await,
                    Request::Decide(delegated) => self.decide_for(delegated).await,
                    Request::Outcome { tx } => self.outcome(tx).await,
                    Request::Abort { tx } => {
                        self.state().pending.end(tx);
                        Ok(Response::Done)
                    }
                    Request::Define { changes } => self.define_from(from, &changes).await,
                    Request::Schema => Ok(Response::Schema(define::as_changes(
                        &*esker_model::GraphRead::schema(&*self.engine)?,
                    ))),
                    Request::Splits { of } => {
                        Ok(Response::Splits(self.encoded_splits(&self.state(), &of)))
                    }
                    Request::Read(read) => {
                        let answer = self.read_here(read).await;
                        self.wait_for_split_publication().await?;
                        answer
                    }
                    Request::Travel(call) => {
                        self.travel_here(from, call).await.map(Response::Travel)
                    }
                    Request::Objects(call) => self.objects_here(call).await.map(Response::Objects),
                    Request::Names(call) => {
                        self.answer_names(from, call).await.map(Response::Names)
                    }
                    Request::Pause { id } => self.pause(id).await.map(|()| Response::Done),
                    Request::Copy { id, version, to } => {
                        let bytes = self.copy(id, version, to).await?;
                        Ok(Response::Copied { bytes })
                    }
                    Request::Hello { .. }
                    | Request::Ping
                    | Request::Persist
                    | Request::Resume { .. } => Ok(Response::Done),
                }
            }
        }
    }

    /// Returns the time by this server's clock; nothing that a client has seen from this server is later.
    pub fn newest(&self) -> Version {
        // The engine numbers its commits, and the numbers count as versions when it reports the newest one. A clock
        // behind them would look as if data dated in the future were stored.
        self.clock.witness(self.engine.newest_commit());
        self.clock.now(self.time.now_millis())
    }

    /// Returns the map of vnodes to servers.
    pub fn map(&self) -> &VnodeMap {
        &self.map
    }

    /// Returns the settings of the node.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the number of vertices that have split and have edges here, and of directories with entries here.
    pub fn split_vertices(&self) -> usize {
        self.state().splits.len()
    }

    /// Returns the engine of this server.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change of the state is complete before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn writing_splits(&self) -> MutexGuard<'_, ()> {
        self.splits_write
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn check_serving(&self) -> Result<()> {
        {
            let state = self.state();
            if state.serving {
                return Ok(());
            }
            if replay::is_restoring(&state) {
                return Err(window::restoring(self.settings.id));
            }
        }
        Err(Error::Unavailable(format!(
            "{} is starting: it waits for the other servers to send what it missed; try again",
            self.settings.id
        )))
    }

    /// Advances the clock to a version that a client says it has seen, unless that is more than [`CLIENT_LEAD_MILLIS`]
    /// ahead of this machine: then the client has read data dated in the future, or it lies, and the clock must not follow.
    pub fn observe_client_version(&self, seen: Version) {
        let latest = self.time.now_millis().saturating_add(CLIENT_LEAD_MILLIS);
        if seen <= Version::new(latest, 0) {
            self.clock.witness(seen);
        }
    }

    /// Records another server's clock, newest version and incarnation.
    fn witness(&self, server: ServerId, incarnation: u64, clock: Version, newest: Version) {
        self.clock.witness(clock);
        let mut state = self.state();
        state.newest.0 = state.newest.0.max(newest);
        let known = state.incarnations.entry(server).or_default();
        *known = (*known).max(incarnation);
    }

    /// Newest version of any change anywhere, as far as this server knows.
    fn newest_known(&self) -> Version {
        self.state().newest.0.max(self.engine.newest_stored())
    }
}
