//! One server of a cluster: its own engine, what it knows of the others, and what it does for clients and for its peers.
//!
//! Everything that waits is a future; whoever runs it is the [`Host`]: threads and sockets in a server, a simulated network
//! and clock in tests. Nothing here starts a thread or looks at a clock.
//!
//! `docs/internals/consistency.md` tells how batches over several servers commit, `docs/internals/traversal.md` how a
//! chain runs. Suggested reading order: [`state`], `coordinate`, `transaction` and `participate` (writing), `recover`, `read` and
//! `local` (reading), `objects` and `find` (objects), `split`, `travel`.

mod clock;
pub(crate) mod codec;
mod coordinate;
pub(crate) mod define;
mod files;
mod find;
pub(crate) mod hashed;
mod hold;
mod local;
pub(crate) mod names;
mod objects;
mod participate;
mod peers;
mod pending;
mod read;
mod recover;
mod replay;
mod route;
mod scan;
mod settle;
mod sight;
mod split;
mod state;
pub(crate) mod tagging;
mod transaction;
mod travel;
mod window;

pub use recover::incarnation_at;
pub use settle::settle;
pub use sight::Caller;
pub(crate) use sight::Sight;

use crate::peer::{Answer, Question, Request, Response};
use crate::placement::{Kind, Order, Placement};
use crate::vnode::{ServerId, VnodeMap, Vnodes};
use clock::{Clock as Hybrid, STRIDE};
use esker_engine::{Clock, Engine};
use esker_model::{Error, Result, Version};
pub use files::{MovedBy, MovedFigures, SharedFiles};
use state::State;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use travel::Travels;
pub use window::Window;

/// A future on the heap.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a node needs of the world.
pub trait Host: Send + Sync {
    /// Carries a question to another server and the answer back. Fails with [`esker_model::Error::Unavailable`] if there is
    /// none: nobody knows then whether the question arrived. A host bounds how long it waits.
    fn call(&self, to: ServerId, question: Question) -> BoxFuture<'static, Result<Answer>>;

    /// Ends after so many milliseconds.
    fn sleep(&self, millis: u64) -> BoxFuture<'static, ()>;

    /// Runs a future beside the others.
    fn spawn(&self, task: BoxFuture<'static, ()>);

    /// Storage that all servers see, if there is such.
    fn files(&self) -> Option<Arc<dyn SharedFiles>> {
        None
    }

    /// Copies the engine's store, as it is now, to this server's place in a folder; bytes of the copy.
    fn copy(&self, _to: String) -> BoxFuture<'static, Result<u64>> {
        Box::pin(async { Err(Error::Invalid("this host makes no copies".into())) })
    }

    /// What no checkpoint holds yet, if the engine's store dies with its machine.
    fn window(&self) -> Option<Arc<dyn Window>> {
        None
    }
}

/// What can be chosen about a cluster; the same on all its servers.
#[derive(Debug, Clone)]
pub struct Settings {
    /// This server.
    pub id: ServerId,
    /// All of them, this one included: up to [`SERVERS_MAX`].
    pub servers: Vec<ServerId>,
    /// How many vnodes there are: a power of two.
    pub vnodes: u32,
    /// Where edges lie.
    pub placement: Kind,
    /// Edges that a partition holds at most before it splits.
    pub threshold: u64,
    /// Entries that a partition of a directory holds at most before it splits.
    pub directory_threshold: u64,
    /// Entries that go to another server are passed on as a sorted table by its name, where servers share storage, from so many
    /// rows on; fewer go in a message.
    pub table_least: u64,
    /// Where stores die with their machines: for how long a server that was restored takes only what clients send again, in
    /// milliseconds.
    pub replay_millis: u64,
    /// Where servers take over each other's stores: how often this one was taken over; else 0. Of two processes that have had the
    /// store, the later one has the larger number, whatever either wrote.
    pub epoch: u64,
}

/// Most servers of a cluster: each gives versions of its own residue.
pub const SERVERS_MAX: usize = STRIDE as usize;

/// How long a read waits for a write that is prepared and not decided, in milliseconds.
const UNDECIDED_MAX: u64 = 10_000;

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
    /// Storage that all servers see.
    files: Option<Arc<dyn SharedFiles>>,
    moved: files::Moved,
    state: Mutex<State>,
    /// Held while it is written how a vertex has split: one writes what another has written, and more.
    splits_write: Mutex<()>,
    travels: Mutex<Travels>,
    /// For tasks that go on beside calls: they must not keep a node that was closed.
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
    /// Opens a node over its engine. It serves once [`Self::join`] has ended.
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
        let place = map.servers().iter().position(|s| *s == settings.id);
        let place =
            place.ok_or_else(|| invalid(format!("{} is not one of the cluster's", settings.id)))?;
        if map.servers().len() > SERVERS_MAX {
            return Err(invalid(format!(
                "{} servers are too many; a cluster has up to {SERVERS_MAX}",
                map.servers().len()
            )));
        }
        engine.spread_names();
        let (incarnation, mut state) = recover::load(&engine, &map, settings.epoch)?;
        let window = host.window();
        if let Some(window) = &window {
            // Nobody must ever hear of an incarnation that a later start forgets.
            window.harden()?;
            state.serving &= !window.may_have_lost();
        }
        // A store that dies with its machine keeps nothing for others.
        let files = host.files().filter(|_| window.is_none());
        let clock = Hybrid::new(place as u64, engine.newest_given());
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
            moved: files::Moved::default(),
            state: Mutex::new(state),
            splits_write: Mutex::default(),
            travels: Mutex::default(),
            me: me.clone(),
        });
        node.look_at_names();
        Ok(node)
    }

    /// Answers another server. Never panics; what is wrong is in the answer.
    pub async fn handle(self: &Arc<Self>, question: Question) -> Answer {
        let outcome = self.answer(question).await;
        // In this order, as in `moment`.
        let newest = self.newest_known();
        Answer {
            incarnation: self.incarnation,
            clock: self.newest(),
            newest,
            moves: self.state().moves,
            persisted: self.persisted(),
            outcome,
        }
    }

    async fn answer(self: &Arc<Self>, question: Question) -> Result<Response> {
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
                self.splits_known_here().await?;
                Ok(Response::Done)
            }
            Request::Persist => {
                self.try_harden()?;
                Ok(Response::Done)
            }
            Request::Release { id } => {
                self.release(id);
                Ok(Response::Done)
            }
            // Servers that start together tell each other before any of them serves.
            Request::Names(call @ crate::peer::NamesCall::Know(_)) => {
                self.answer_names(from, call).await.map(Response::Names)
            }
            request => {
                if let Request::Apply { batch, how, .. } = &request
                    && let Some(at) = how.again_at
                    && let Some(done) = self.replay(batch, at).await
                {
                    let (commit, held) = done?;
                    return Ok(Response::Batch(commit, held));
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
                        // That it can be done may follow from what only the window holds.
                        self.try_harden()?;
                        Ok(answer)
                    }
                    Request::Apply { batch, seen, how } => {
                        self.clock.witness(seen);
                        let (commit, held) = self.apply_here(batch, seen, how.hold).await?;
                        Ok(Response::Batch(commit, held))
                    }
                    Request::Commit(decided) => self.commit(decided),
                    Request::Abort { tx } => {
                        self.state().pending.end(tx);
                        Ok(Response::Done)
                    }
                    Request::Define { changes } => self.define_from(from, &changes).await,
                    Request::Schema => Ok(Response::Schema(define::as_changes(
                        &*esker_model::GraphRead::schema(&*self.engine)?,
                    ))),
                    Request::Splits { of } => {
                        Ok(Response::Splits(self.known_splits(&self.state(), &of)))
                    }
                    Request::Read(read) => {
                        let answer = self.read_here(read).await;
                        self.splits_known_here().await?;
                        answer
                    }
                    Request::Travel(call) => {
                        self.travel_here(from, call).await.map(Response::Travel)
                    }
                    Request::Objects(call) => self.objects_here(call).await.map(Response::Objects),
                    Request::Names(call) => {
                        self.answer_names(from, call).await.map(Response::Names)
                    }
                    Request::Hold { id } => self.hold(id).await.map(|()| Response::Done),
                    Request::Copy { id, version, to } => {
                        let bytes = self.copy(id, version, to).await?;
                        Ok(Response::Copied { bytes })
                    }
                    Request::Hello { .. }
                    | Request::Ping
                    | Request::Persist
                    | Request::Release { .. } => Ok(Response::Done),
                }
            }
        }
    }

    /// The time by this server's clock: what a client has seen of this server is not later.
    pub fn newest(&self) -> Version {
        // The engine numbers its commits, and its numbers count as versions when it says what is newest. Behind them this clock would
        // be taken for one that runs behind data from the future.
        self.clock.witness(self.engine.newest_commit());
        self.clock.now(self.time.now_millis())
    }

    /// Who has which vertices.
    pub fn map(&self) -> &VnodeMap {
        &self.map
    }

    /// What was chosen.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Vertices that have split and have edges here, and directories with entries here.
    pub fn split_vertices(&self) -> usize {
        self.state().splits.len()
    }

    /// Its own engine.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change of the state is whole before anything can panic.
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
            "{} is starting: it waits for the others to tell it what it missed; try again",
            self.settings.id
        )))
    }

    /// Takes note of another server's clock, data and starts.
    fn witness(&self, server: ServerId, incarnation: u64, clock: Version, newest: Version) {
        self.clock.witness(clock);
        let mut state = self.state();
        state.newest.0 = state.newest.0.max(newest);
        let known = state.incarnations.entry(server).or_default();
        *known = (*known).max(incarnation);
    }

    /// The newest version that any change took anywhere, as far as is known here.
    fn newest_known(&self) -> Version {
        self.state().newest.0.max(self.engine.newest_stored())
    }
}
