//! One of a cluster's servers: what a [`Node`] needs of the world, and what it does for this server's clients.
//!
//! The node's futures read and write the store where they run, so the runtime has threads enough for that. A client's call
//! waits for the node in its thread of a lane.
//!
//! Suggested reading order: [`config`], `host`, `graph`, `names`, `questions`; `wire` turns what servers say into messages.

pub mod backup;
pub mod config;
pub mod derived;
mod graph;
mod host;
mod names;
mod placed;
mod questions;
mod shared;
mod storage;
mod wire;

pub(crate) use graph::{ClusterGraph, Graph, Names};
pub(crate) use names::ClusterNames;
pub(crate) use questions::Asker;
pub use storage::Switch;
pub(crate) use wire::how_in;

use crate::asked::Wish;
use crate::cluster::config::ClusterConfig;
use crate::member::gate::Gate;
use crate::member::hub::Seat;
use crate::metrics::Metrics;
use esker::{Database, Durability, WindowFigures};
use esker_cluster::node::Settings;
use esker_cluster::peer::Question;
use esker_cluster::{Host, Node, ServerId};
use esker_model::{Error, Result};
use esker_rpc::convert::counts_out;
use esker_rpc::map::Map;
use esker_rpc::proto;
use host::ServerHost;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::{Handle, Runtime};

/// Fewest threads of the runtime on which nodes work.
const THREADS_MIN: usize = 4;
/// The same where each commit waits for the disk.
const SYNC_THREADS_MIN: usize = 32;
/// The same for each of many stores in one process.
const SEATED_THREADS: usize = 2;
const SEATED_SYNC_THREADS: usize = 8;
/// Fewest threads for clients' calls: they wait for other servers.
pub(crate) const LANE_THREADS_MIN: usize = 64;

/// After so long a server that could not join the others tries again.
const JOIN_AGAIN: Duration = Duration::from_millis(200);

/// How often it is looked whether checkpoints are written.
const LOOK_AFTER: Duration = Duration::from_millis(500);

/// This server's place in its cluster.
pub(crate) struct Cluster {
    pub(crate) config: ClusterConfig,
    pub(crate) me: ServerId,
    pub(crate) node: Arc<Node>,
    host: Arc<ServerHost>,
    runtime: Handle,
    joining: Mutex<Joining>,
    /// Where stores move between processes: this process's hold on it.
    seat: Option<Seat>,
    /// Batches of clients that are under way.
    pub(crate) writes: AtomicUsize,
}

/// How far this server has come with joining the others.
#[derive(Debug, Default)]
struct Joining {
    waits_for: BTreeSet<ServerId>,
    joined: bool,
    failed: Option<String>,
}

/// How many threads the runtime has at least. What a node does between waits it does on them, as connections do: on threads of
/// its own each question would be handed from thread to thread twice more.
pub(crate) fn threads(config: &ClusterConfig) -> usize {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let least = match (config.durability, &config.checkpoint) {
        (Durability::Relaxed, None) => THREADS_MIN,
        (Durability::Sync, _) | (_, Some(_)) => SYNC_THREADS_MIN,
    };
    least.max(2 * cores)
}

/// The same where a process has many stores, and as many runtimes.
pub(crate) fn seated_threads(config: &ClusterConfig) -> usize {
    match config.durability {
        Durability::Relaxed => SEATED_THREADS,
        Durability::Sync => SEATED_SYNC_THREADS,
    }
}

impl Cluster {
    /// Opens the node over the engine of a database.
    pub(crate) fn open(
        database: &Database,
        config: ClusterConfig,
        me: ServerId,
        runtime: &Runtime,
        seat: Option<&Seat>,
    ) -> Result<Arc<Self>> {
        let host = ServerHost::new(&config, me, runtime.handle().clone(), database, seat)?;
        let (engine, clock) = database.engine()?;
        let settings = Settings {
            id: me,
            servers: config.ids().collect(),
            vnodes: config.vnodes,
            placement: config.placement,
            threshold: config.threshold,
            directory_threshold: config.directory_threshold,
            table_least: config.shared_least,
            replay_millis: config.checkpoint.as_ref().map_or(0, |c| {
                u64::try_from(c.replay.as_millis()).unwrap_or(u64::MAX)
            }),
            epoch: seat.map_or(0, |seat| seat.epoch),
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
            seat: seat.cloned(),
            writes: AtomicUsize::new(0),
        });
        if let Some(window) = database.window() {
            cluster.watch_window(window);
        }
        Ok(cluster)
    }

    fn joining(&self) -> MutexGuard<'_, Joining> {
        self.joining.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether answers may leave, where somebody else may take over.
    pub(crate) fn gate(&self) -> Option<Arc<Gate>> {
        self.seat.as_ref().map(|seat| Arc::clone(&seat.gate))
    }

    /// Where it is noted that this process is to stop, if it has several stores.
    pub(crate) fn wish(&self) -> Option<Arc<Wish>> {
        self.seat.as_ref().map(|seat| seat.hub.wish())
    }

    /// `HOST:PORT` of all members, where stores move between them.
    pub(crate) fn members(&self) -> Vec<String> {
        let seat = self.seat.as_ref();
        seat.map_or_else(Vec::new, |seat| seat.hub.places().members())
    }

    /// Whether another server that asks is the one that has its store now; and this one has its own.
    pub(crate) fn heeds(&self, question: &Question) -> bool {
        self.seat.as_ref().is_none_or(|seat| {
            seat.gate.open() && seat.hub.fences().pass(question.from, question.incarnation)
        })
    }

    /// Stores have moved.
    pub(crate) fn places_changed(&self) {
        self.host.let_go();
    }

    /// Where a server is, for messages.
    fn whereabouts(&self, server: ServerId) -> String {
        match &self.seat {
            None => self.config.address(server).to_owned(),
            Some(seat) => seat
                .hub
                .places()
                .of(server.0)
                .map_or_else(|| "with nobody".into(), |(member, _)| member),
        }
    }

    /// Says so when no storage takes checkpoints.
    fn watch_window(self: &Arc<Self>, window: esker::Window) {
        let cluster = Arc::downgrade(self);
        self.runtime.spawn(async move {
            let mut before = None;
            while cluster.strong_count() > 0 {
                let trouble = window.figures().trouble;
                match &trouble {
                    Some(why) if before != trouble => tracing::error!(error = why, "no checkpoint"),
                    None if before.is_some() => tracing::info!("checkpoints are written again"),
                    _ => {}
                }
                before = trouble;
                tokio::time::sleep(LOOK_AFTER).await;
            }
        });
    }

    /// Begins to join the others, who must be able to reach this server by now.
    pub(crate) fn join(self: &Arc<Self>) {
        let cluster = Arc::clone(self);
        self.runtime.spawn(async move {
            let waiting = |server: ServerId| {
                if cluster.joining().waits_for.insert(server) {
                    let address = cluster.whereabouts(server);
                    tracing::info!(server = server.0, address, "waiting for another server");
                }
            };
            let joined = loop {
                match cluster.node.join(&waiting).await {
                    // Another server is in the middle of something, or went away again.
                    Err(Error::Unavailable(why)) => {
                        tracing::info!(why, "not joined yet");
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

    /// Why clients cannot be served yet, if so.
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
                "{} was restored from its checkpoint and waits for what clients send again",
                self.me
            ));
        }
        let mut text = format!("{} waits for the other servers of the cluster", self.me);
        for (i, server) in joining.waits_for.iter().enumerate() {
            let lead = if i == 0 { ": " } else { ", " };
            // Writing to a String cannot fail.
            let _ = write!(text, "{lead}{server} ({})", self.whereabouts(*server));
            if let Some(why) = self.host.trouble(*server) {
                let _ = write!(text, ": {why}");
            }
        }
        Some(text)
    }

    /// Why it never will.
    pub(crate) fn failure(&self) -> Option<String> {
        self.joining().failed.clone()
    }

    /// Runs the node's work from a thread that may wait. Not to be called on threads of a runtime.
    pub(crate) fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// Runs work beside.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(work);
    }

    /// Whether what is acknowledged is on disk, or can be on request.
    pub(crate) fn is_sync(&self) -> bool {
        self.config.durability == Durability::Sync || self.has_window()
    }

    /// Whether the servers' stores die with their machines.
    pub(crate) fn has_window(&self) -> bool {
        self.config.checkpoint.is_some()
    }

    /// Which commits checkpoints hold, by server; with `persist`, all so far.
    pub(crate) fn windows(&self, persist: bool) -> Result<proto::WindowReply> {
        let servers = self.wait(self.node.windows(persist))?;
        Ok(proto::WindowReply {
            servers: servers.into_iter().map(wire::held_out).collect(),
        })
    }

    /// What cannot be asked of a cluster as a whole.
    pub(crate) fn refuse(&self, what: &str, instead: &str) -> Error {
        Error::Target(format!(
            "{what} is not for the servers of a cluster yet, and {} is one of `{}`: {instead}",
            self.whereabouts(self.me),
            self.config.name
        ))
    }

    /// What this server says of the cluster and of itself.
    pub(crate) fn report(
        &self,
        database: &Database,
        metrics: &Metrics,
    ) -> Result<proto::ClusterReply> {
        let stats = database.stats()?;
        let tables: u64 = stats.store.table_bytes.iter().map(|(_, bytes)| bytes).sum();
        let lately = metrics.lately();
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
            calls_lately: lately.calls,
            writes_lately: lately.writes,
            lately_ms: lately.millis,
        })
    }

    /// How the other servers are asked, by number; nothing for this one.
    pub(crate) fn others(&self) -> Vec<Option<esker_rpc::Address>> {
        self.host.others()
    }

    /// Where the servers are now.
    fn addresses(&self) -> Vec<String> {
        if let Some(seat) = &self.seat {
            let places = seat.hub.places();
            let at = |id: ServerId| {
                places
                    .of(id.0)
                    .map_or_else(String::new, |(member, _)| member)
            };
            return self.config.ids().map(at).collect();
        }
        let map = self.config.map().and_then(|file| Map::read(&file).ok());
        let map = map.unwrap_or_default();
        let at = |id: ServerId| map.address(id.0).unwrap_or_else(|| self.config.address(id));
        self.config.ids().map(|id| at(id).to_owned()).collect()
    }

    /// What Prometheus reads.
    pub(crate) fn metrics(&self, database: &Database, out: &mut String) {
        self.host.metrics(out);
        shared::metrics(&self.node.partitions_given(), out);
        if let Some(window) = database.window() {
            window_metrics(&window.figures(), out);
        }
    }
}

fn status_of(figures: &WindowFigures) -> proto::WindowStatus {
    let place = figures.place.as_ref();
    proto::WindowStatus {
        written: figures.written,
        persisted: figures.persisted,
        age_ms: u64::try_from(figures.age.as_millis()).unwrap_or(u64::MAX),
        segments: figures.segments,
        segment_bytes: figures.segment_bytes,
        bases: figures.bases,
        place: place.map_or_else(String::new, |p| p.to_string_lossy().into_owned()),
        trouble: figures.trouble.clone().unwrap_or_default(),
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
            "1 while no storage takes a checkpoint.",
            f64::from(u8::from(figures.trouble.is_some())),
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
