//! One server of a cluster: the environment of a [`Node`], and its service to this server's clients.
//!
//! The node's futures read and write the store on the thread that runs them, so the runtime has enough threads for that. A client's call
//! waits for the node on its thread of a lane.
//!
//! Suggested reading order: [`config`], `host`, `graph`, `names`, `peer_requests`; `wire` converts messages between servers.

pub mod backup;
pub mod config;
mod convert;
pub mod derived_config;
mod graph;
mod host;
mod names;
mod peer_requests;
mod placement;
mod shared;
mod storage;

pub(crate) use convert::apply_options_in;
pub(crate) use graph::{Graph, Names};
pub(crate) use names::ClusterNames;
pub(crate) use peer_requests::PeerServer;
pub use storage::Switch;

use crate::cluster::config::ClusterConfig;
use crate::member::gate::Gate;
use crate::member::hub::StoreAssignment;
use crate::metrics::Metrics;
use crate::stop_request::StopFlag;
use esker::{Database, Durability, WindowFigures};
use esker_cluster::node::BoxFuture;
use esker_cluster::node::{PAGE_ROWS, Settings};
use esker_cluster::peer::PeerRequest;
use esker_cluster::{Host, Node, ServerId};
use esker_model::{Error, ErrorKind, Result};
use esker_rpc::convert::counts_out;
use esker_rpc::map::Map;
use esker_rpc::proto;
use host::ServerHost;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::runtime::{Handle, Runtime};

/// Fewest threads of the runtime on which nodes work.
const THREADS_MIN: usize = 4;
/// Fewest threads of the runtime if each commit waits for the disk.
const SYNC_THREADS_MIN: usize = 32;
/// Threads of the runtime of each store, if a process has many stores.
const PER_STORE_THREADS: usize = 2;
const PER_STORE_SYNC_THREADS: usize = 8;
/// Fewest threads for clients' calls, which wait for other servers.
pub(crate) const LANE_THREADS_MIN: usize = 64;

/// Pause before a server that could not join the others tries again.
const JOIN_AGAIN: Duration = Duration::from_millis(200);

/// Interval at which the writing of checkpoints is checked.
const CHECKPOINT_POLL: Duration = Duration::from_millis(500);

/// This server as a part of its cluster.
pub(crate) struct Cluster {
    pub(crate) config: ClusterConfig,
    pub(crate) me: ServerId,
    pub(crate) node: Arc<Node>,
    host: Arc<ServerHost>,
    runtime: Handle,
    joining: Mutex<JoinProgress>,
    /// Assignment of this server's store to the process, where stores move between processes.
    assignment: Option<StoreAssignment>,
    /// Number of clients' batches in progress.
    pub(crate) writes: AtomicUsize,
}

/// Progress of this server in joining the others.
#[derive(Debug, Default)]
struct JoinProgress {
    waits_for: BTreeSet<ServerId>,
    joined: bool,
    failed: Option<String>,
}

/// Fewest threads of the runtime. The node's work between waits runs on them, like connections: on separate threads each request would
/// pass between threads twice more.
pub(crate) fn threads(config: &ClusterConfig) -> usize {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let least = match (config.durability, &config.checkpoint) {
        (Durability::Relaxed, None) => THREADS_MIN,
        (Durability::Sync, _) | (_, Some(_)) => SYNC_THREADS_MIN,
    };
    least.max(2 * cores)
}

/// Threads of each runtime if a process has many stores, each with its own runtime.
pub(crate) fn threads_per_store(config: &ClusterConfig) -> usize {
    match config.durability {
        Durability::Relaxed => PER_STORE_THREADS,
        Durability::Sync => PER_STORE_SYNC_THREADS,
    }
}

impl Cluster {
    /// Opens the node over the engine of a database.
    pub(crate) fn open(
        database: &Database,
        config: ClusterConfig,
        me: ServerId,
        runtime: &Runtime,
        assignment: Option<&StoreAssignment>,
    ) -> Result<Arc<Self>> {
        let host = ServerHost::new(&config, me, runtime.handle().clone(), database, assignment)?;
        let (engine, clock) = database.engine()?;
        let settings = Settings {
            id: me,
            servers: config.ids().collect(),
            vnodes: config.vnodes,
            placement: config.placement,
            threshold: config.threshold,
            directory_threshold: config.directory_threshold,
            table_min_rows: config.shared_least,
            page_rows: PAGE_ROWS,
            replay_millis: config.checkpoint.as_ref().map_or(0, |c| {
                u64::try_from(c.replay.as_millis()).unwrap_or(u64::MAX)
            }),
            epoch: assignment.map_or(0, |assignment| assignment.epoch),
        };
        let outside: Arc<dyn Host> = Arc::clone(&host) as Arc<dyn Host>;
        let node = {
            let _inside = runtime.enter();
            Node::open(engine, clock, outside, settings)?
        };
        let cluster = Arc::new(Self {
            config,
            me,
            node,
            host,
            runtime: runtime.handle().clone(),
            joining: Mutex::default(),
            assignment: assignment.cloned(),
            writes: AtomicUsize::new(0),
        });
        if let Some(window) = database.window() {
            cluster.watch_window(window);
        }
        Ok(cluster)
    }

    fn joining(&self) -> MutexGuard<'_, JoinProgress> {
        self.joining.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gate for answers, where another process may take over the store.
    pub(crate) fn gate(&self) -> Option<Arc<Gate>> {
        self.assignment
            .as_ref()
            .map(|assignment| Arc::clone(&assignment.gate))
    }

    /// Request to stop or restart this process, if it has several stores.
    pub(crate) fn stop_flag(&self) -> Option<Arc<StopFlag>> {
        self.assignment
            .as_ref()
            .map(|assignment| assignment.hub.stop_flag())
    }

    /// `HOST:PORT` of all members, where stores move between them.
    pub(crate) fn members(&self) -> Vec<String> {
        let assignment = self.assignment.as_ref();
        assignment.map_or_else(Vec::new, |assignment| {
            assignment.hub.assignments().members()
        })
    }

    /// Whether to answer a request of another server: both it and this one must be the present holders of their stores.
    pub(crate) fn accepts(&self, question: &PeerRequest) -> bool {
        self.assignment.as_ref().is_none_or(|assignment| {
            assignment.gate.is_open()
                && assignment
                    .hub
                    .fences()
                    .pass(question.from, question.incarnation)
        })
    }

    /// Closes connections to the previous holders of stores that have moved.
    pub(crate) fn assignments_changed(&self) {
        self.host.close_moved_links();
    }

    /// Address of a server, for messages.
    fn address_text(&self, server: ServerId) -> String {
        match &self.assignment {
            None => self.config.address(server).to_owned(),
            Some(assignment) => assignment
                .hub
                .assignments()
                .holder(server.0)
                .map_or_else(|| "no member".into(), |(member, _)| member),
        }
    }

    /// Logs an error when no storage accepts checkpoints.
    fn watch_window(self: &Arc<Self>, window: esker::Window) {
        let cluster = Arc::downgrade(self);
        self.runtime.spawn(async move {
            let mut before = None;
            while cluster.strong_count() > 0 {
                let failure = window.figures().write_error;
                match &failure {
                    Some(why) if before != failure => tracing::error!(error = why, "no checkpoint"),
                    None if before.is_some() => tracing::info!("checkpoints are written again"),
                    _ => {}
                }
                before = failure;
                tokio::time::sleep(CHECKPOINT_POLL).await;
            }
        });
    }

    /// Begins to join the other servers, which must be able to reach this one by now.
    pub(crate) fn join(self: &Arc<Self>) {
        let cluster = Arc::clone(self);
        self.runtime.spawn(async move {
            let waiting = |server: ServerId| {
                if cluster.joining().waits_for.insert(server) {
                    let address = cluster.address_text(server);
                    tracing::info!(server = server.0, address, "waiting for another server");
                }
            };
            let joined = loop {
                match cluster.node.join(&waiting).await {
                    // Another server is busy with a change, or went away again.
                    Err(e) if e.kind() == ErrorKind::Unavailable => {
                        tracing::info!(why = %e, "not joined yet");
                        tokio::time::sleep(JOIN_AGAIN).await;
                    }
                    joined => break joined,
                }
            };
            let mut joining = cluster.joining();
            joining.waits_for.clear();
            match joined {
                Ok(()) => {
                    joining.joined = true;
                    tracing::info!(
                        servers = cluster.config.parts(),
                        cluster = cluster.config.name,
                        "joined the others"
                    );
                }
                Err(e) => {
                    tracing::error!(error = %e, "could not join the others");
                    joining.failed = Some(e.to_string());
                }
            }
        });
    }

    /// Reason why clients cannot be served yet, if there is one.
    pub(crate) fn not_yet(&self) -> Option<String> {
        let joining = self.joining();
        if joining.joined {
            return None;
        }
        if let Some(why) = &joining.failed {
            return Some(format!("{} could not join the others: {why}", self.me));
        }
        if self.node.replaying() {
            return Some(format!(
                "{} was restored from its checkpoint and waits for clients to send writes again",
                self.me
            ));
        }
        let mut text = format!("{} waits for the other servers of the cluster", self.me);
        for (i, server) in joining.waits_for.iter().enumerate() {
            let lead = if i == 0 { ": " } else { ", " };
            // Writing to a String cannot fail.
            let _ = write!(text, "{lead}{server} ({})", self.address_text(*server));
            if let Some(why) = self.host.failure(*server) {
                let _ = write!(text, ": {why}");
            }
        }
        Some(text)
    }

    /// Reason why clients will never be served, if there is one.
    pub(crate) fn failure(&self) -> Option<String> {
        self.joining().failed.clone()
    }

    /// Runs the node's work from a thread that may block. Must not be called on threads of a runtime.
    pub(crate) fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// Runs a task on this thread until it has to wait; the rest runs on the runtime. Passing a task to another thread takes longer than
    /// most of its steps. Must be called on a thread that the task may block as a thread of the runtime.
    pub(crate) fn run(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut work: BoxFuture<'static, ()> = Box::pin(work);
        let _inside = self.runtime.enter();
        // Its next poll, in the runtime, registers a waker that has an effect.
        let mut context = Context::from_waker(Waker::noop());
        let poll = std::panic::AssertUnwindSafe(|| work.as_mut().poll(&mut context));
        // A panic concerns only the task, as it would in the runtime.
        if let Ok(Poll::Pending) = std::panic::catch_unwind(poll) {
            self.runtime.spawn(work);
        }
    }

    /// Spawns a task on the runtime.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(work);
    }

    /// Whether acknowledged writes are on disk, or can be on request.
    pub(crate) fn is_sync(&self) -> bool {
        self.config.durability == Durability::Sync || self.has_window()
    }

    /// Whether the servers' stores are ephemeral.
    pub(crate) fn has_window(&self) -> bool {
        self.config.checkpoint.is_some()
    }

    /// Commits that checkpoints contain, by server; with `persist`, writes checkpoints of all commits first.
    pub(crate) fn windows(&self, persist: bool) -> Result<proto::WindowReply> {
        let servers = self.wait(self.node.windows(persist))?;
        Ok(proto::WindowReply {
            servers: servers.into_iter().map(convert::position_out).collect(),
        })
    }

    /// Error for an operation that a cluster does not support.
    pub(crate) fn refuse(&self, what: &str, instead: &str) -> Error {
        Error::Target(format!(
            "{what} is not supported for the servers of a cluster yet, and {} is one of `{}`: {instead}",
            self.address_text(self.me),
            self.config.name
        ))
    }

    /// Status of the cluster and of this server.
    pub(crate) fn report(
        &self,
        database: &Database,
        metrics: &Metrics,
    ) -> Result<proto::ClusterReply> {
        let stats = database.stats()?;
        let tables: u64 = stats.store.table_bytes.iter().map(|(_, bytes)| bytes).sum();
        let recent = metrics.recent_activity();
        let (calls, calls_failed) = self
            .config
            .ids()
            .map(|server| self.host.figures(server))
            .unzip();
        Ok(proto::ClusterReply {
            name: self.config.name.clone(),
            server: self.me.0,
            servers: self.addresses(),
            placement: self.config.placement.name().to_owned(),
            vnodes: self.config.vnodes,
            threshold: self.config.threshold,
            serving: self.not_yet().is_none(),
            counts: Some(counts_out(&stats.counts)),
            newest: self.node.newest().0,
            calls,
            calls_failed,
            window: database.window().map(|w| status_of(&w.figures())),
            vnodes_here: self.node.map().vnodes_of(self.me).count() as u32,
            bytes: tables + stats.objects_disk_bytes,
            split_vertices: self.node.split_vertices() as u64,
            recent_calls: recent.calls,
            recent_writes: recent.writes,
            recent_ms: recent.millis,
            vnode_owners: self.node.map().owners().map(|server| server.0).collect(),
        })
    }

    /// Addresses of the other servers, by number; `None` for this one.
    pub(crate) fn other_addresses(&self) -> Vec<Option<esker_rpc::Address>> {
        self.host.other_addresses()
    }

    /// Present addresses of all servers.
    fn addresses(&self) -> Vec<String> {
        if let Some(assignment) = &self.assignment {
            let assignments = assignment.hub.assignments();
            let at = |id: ServerId| {
                assignments
                    .holder(id.0)
                    .map_or_else(String::new, |(member, _)| member)
            };
            return self.config.ids().map(at).collect();
        }
        let map = self.config.map().and_then(|file| Map::read(&file).ok());
        let map = map.unwrap_or_default();
        let at = |id: ServerId| map.address(id.0).unwrap_or_else(|| self.config.address(id));
        self.config.ids().map(|id| at(id).to_owned()).collect()
    }

    /// Writes metrics for Prometheus.
    pub(crate) fn metrics(&self, database: &Database, out: &mut String) {
        self.host.metrics(out);
        shared::metrics(&self.node.partition_moves(), out);
        if let Some(window) = database.window() {
            window_metrics(&window.figures(), out);
        }
    }
}

fn status_of(figures: &WindowFigures) -> proto::WindowStatus {
    let place = figures.last_folder.as_ref();
    proto::WindowStatus {
        written: figures.written,
        persisted: figures.persisted,
        age_ms: u64::try_from(figures.age.as_millis()).unwrap_or(u64::MAX),
        segments: figures.segments,
        segment_bytes: figures.segment_bytes,
        bases: figures.bases,
        folder: place.map_or_else(String::new, |p| p.to_string_lossy().into_owned()),
        problem: figures.write_error.clone().unwrap_or_default(),
    }
}

fn window_metrics(figures: &WindowFigures, out: &mut String) {
    let waiting = figures.written.saturating_sub(figures.persisted);
    let all = [
        (
            "esker_window_writes",
            "gauge",
            "Writes that no checkpoint holds yet.",
            waiting as f64,
        ),
        (
            "esker_window_age_seconds",
            "gauge",
            "For how long the oldest of them has waited.",
            figures.age.as_secs_f64(),
        ),
        (
            "esker_window_stuck",
            "gauge",
            "1 while no storage accepts a checkpoint.",
            f64::from(u8::from(figures.write_error.is_some())),
        ),
        (
            "esker_checkpoint_segments_total",
            "counter",
            "Checkpoints of windows.",
            figures.segments as f64,
        ),
        (
            "esker_checkpoint_segment_bytes_total",
            "counter",
            "Their bytes.",
            figures.segment_bytes as f64,
        ),
        (
            "esker_checkpoint_bases_total",
            "counter",
            "Checkpoints of all rows.",
            figures.bases as f64,
        ),
    ];
    for (name, kind, help, value) in all {
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}"
        );
    }
}
