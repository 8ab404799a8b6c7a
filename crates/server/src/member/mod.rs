//! A member of a cluster whose stores move: a process with a lease in etcd, and servers for the stores that it has claimed.
//!
//! [`esker_cluster::member::Machine`] decides what to do and when; this module does it: it talks to etcd (`etcd`), takes over folders
//! (`take`), starts and stops servers behind one port (`hub`), and holds back answers after the end of the lease (`gate`).
//! `docs/internals/membership.md` explains why that is safe.

mod etcd;
pub(crate) mod gate;
pub(crate) mod hub;
mod identity;
mod membership;
mod run;
pub(crate) mod takeover;

pub use membership::{MemberStatus, MembershipClient, StoreStatus};

use crate::access::Access;
use crate::audit::Audit;
use crate::cluster::config::ClusterConfig;
use crate::connection::Phase;
use crate::limits::FLUSH_MAX;
use crate::metrics::Metrics;
use esker::OpenOptions;
use esker_cluster::member::Input;
use esker_model::{Error, Result};
use etcd::Etcd;
use hub::Hub;
use run::{Host, Progress};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};

/// Longest wait for etcd when a process starts.
const ETCD_MAX: Duration = Duration::from_secs(20);
/// Longest time for leaving, beyond the drain time of the stores.
const LEAVE_MAX: Duration = Duration::from_secs(20);
/// Fewest bytes for a store's caches and buffers.
const MEMORY_LEAST: u64 = 32 << 20;
/// Fewest threads for network I/O and for talking to etcd.
const THREADS_MIN: usize = 4;

/// A running member. [`Member::stop`] first hands its stores to the other members; after a drop they wait for the end of its lease.
pub struct Member {
    runtime: Option<Runtime>,
    hub: Arc<Hub>,
    inputs: mpsc::UnboundedSender<Input>,
    progress: Arc<Mutex<Progress>>,
    stop: watch::Sender<Phase>,
    drain: Duration,
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Member")
            .field("address", &self.hub.address())
            .finish_non_exhaustive()
    }
}

impl Member {
    /// Starts a member that listens at `listen`, which is also its name.
    pub fn start(
        config: &ClusterConfig,
        listen: &str,
        options: &OpenOptions,
        memory: u64,
    ) -> Result<Self> {
        let etcd = config.etcd_config()?.clone();
        let endpoints = config.etcd_endpoints()?;
        let trust = config.etcd_trust()?;
        let parts = u64::from(etcd.stores.div_ceil(config.servers.len().max(1) as u32));
        let options = options
            .clone()
            .memory_bytes((memory / parts).max(MEMORY_LEAST))
            .durability(config.durability)
            .create(true);
        let (listener, address) = hub::bind(listen)?;
        if address.ip().is_unspecified() {
            return Err(Error::Invalid(format!(
                "`{listen}` means all addresses, but a server's address is also its name: give the \
                 one at which clients and the other servers reach it"
            )));
        }
        let mut settings = config.settings.clone();
        settings.readers = settings.readers.max(crate::cluster::LANE_THREADS_MIN);
        settings.scanners = settings.scanners.max(crate::cluster::LANE_THREADS_MIN);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(settings.threads.max(THREADS_MIN))
            .thread_name("esker-net")
            .enable_all()
            .build()
            .map_err(|e| Error::io("starting the server's threads", e))?;
        let connected = runtime.block_on(async {
            let until = Instant::now() + ETCD_MAX;
            loop {
                match Etcd::connect(&endpoints, &trust, &config.name, etcd::ANSWER_MAX).await {
                    Err(e) if Instant::now() < until => {
                        tracing::warn!(error = %e, "waiting for etcd");
                        tokio::time::sleep(Duration::from_millis(300)).await;
                    }
                    done => return done,
                }
            }
        })?;
        runtime.block_on(identity::check(config, &connected))?;
        // Members share their storage and their settings.
        let own = format!(
            "{}-{}",
            esker_audit::FOLDER,
            listen.replace([':', '/'], "-")
        );
        let folder = settings.audit.folder.as_ref();
        let folder = folder.unwrap_or(&config.storage).join(own);
        let server = format!("esker {}, {listen}", env!("CARGO_PKG_VERSION"));
        let audit = Audit::open(&folder, &settings.audit, server)?;
        let metrics = Arc::new(Metrics::new());
        let access = Access::open(&config.storage, &settings, metrics, Arc::new(audit))?;
        access.set_listen_address(listen, address.port());
        let hub = Hub::new(listen, address, &settings, &Arc::new(access))?;
        let (stop, stopped) = watch::channel(Phase::Running);
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener).map_err(|e| Error::io("listening", e))?
        };
        runtime.spawn(Arc::clone(&hub).accept(listener, stopped));
        let (inputs, received) = mpsc::unbounded_channel();
        let progress = Arc::<Mutex<Progress>>::default();
        let host = Host::new(
            config.clone(),
            listen.to_owned(),
            options,
            connected,
            Arc::clone(&hub),
            inputs.clone(),
            Arc::clone(&progress),
        );
        runtime.spawn(host.run(received));
        Ok(Self {
            runtime: Some(runtime),
            hub,
            inputs,
            progress,
            stop,
            drain: config.settings.drain,
        })
    }

    /// Request of an owner to stop or restart this process, if there is one.
    pub fn stop_request(&self) -> Option<crate::StopRequest> {
        self.hub.stop_flag().requested()
    }

    /// Socket address at which the member listens.
    pub fn address(&self) -> SocketAddr {
        self.hub.address()
    }

    fn progress(&self) -> Progress {
        self.progress
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Hands all stores to other members and ends. True if that succeeded.
    pub fn stop(mut self) -> bool {
        let _ = self.inputs.send(Input::Leave);
        let until = Instant::now() + self.drain + LEAVE_MAX;
        let whole = loop {
            if self.progress().left {
                break true;
            }
            if Instant::now() >= until {
                break false;
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        self.end();
        whole
    }

    fn end(&mut self) {
        let _ = self.stop.send(Phase::Ending);
        self.hub.lanes().stop();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(FLUSH_MAX);
        }
        self.hub.access().audit().close();
    }
}
