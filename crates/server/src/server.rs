//! A running server, with an orderly start and stop.

use crate::access::Access;
use crate::audit::Audit;
use crate::cluster::config::ClusterConfig;
use crate::cluster::{self, Cluster};
use crate::connection::{Acceptor, Phase};
use crate::exchange::{Exchange, Outboxes};
use crate::limits::FLUSH_MAX;
use crate::member::hub::{Hub, StoreAssignment};
use crate::metrics::Metrics;
use crate::outbox::Outbox;
use crate::service::Service;
use crate::settings::Settings;
use crate::spans::ClientCalls;
use crate::spool::Merger;
use crate::{access, http, listen, unary};
use axum::routing::post_service;
use esker::{Database, HttpSocket, Role};
use esker_cluster::ServerId;
use esker_model::{Error, GraphRead as _, Result};
use esker_rpc::map::Map;
use esker_rpc::{Address, proto};
use prost::Message as _;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// A running server. [`Server::stop`] ends it in good order; dropping it cuts off calls in progress.
pub struct Server {
    // `Some` until the server is stopped.
    running: Option<RunningServer>,
    address: SocketAddr,
}

struct RunningServer {
    runtime: Runtime,
    service: Arc<Service>,
    outboxes: Outboxes,
    writer: JoinHandle<()>,
    stop: watch::Sender<Phase>,
    /// Socket for processes on this machine.
    socket: Option<HttpSocket>,
    /// Thread that merges recorded runs from spools.
    merger: Option<Merger>,
    /// Registry of the process's stores, if it serves several.
    hub: Option<Arc<Hub>>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// Starts the traces of this process, if the settings or the environment name a collector.
fn start_traces(settings: &Settings) -> Result<()> {
    let Some(endpoint) = settings.tracing.endpoint()? else {
        return Ok(());
    };
    let options = esker_telemetry::Options {
        endpoint,
        sample: settings.tracing.sample,
        version: env!("CARGO_PKG_VERSION"),
    };
    esker_telemetry::start(&options)
        .map_err(|why| Error::Invalid(format!("traces cannot be sent: {why}")))?;
    esker_rpc::trace::set_tracer(Box::new(ClientCalls));
    Ok(())
}

impl Server {
    /// Starts to serve a database that this process owns.
    pub fn start(database: Database, settings: Settings) -> Result<Self> {
        Self::start_as(database, None, settings)
    }

    /// Starts one of a cluster's servers over its part of the data. It serves clients once all other servers have answered.
    pub fn start_in(database: Database, config: &ClusterConfig, id: u32) -> Result<Self> {
        let server = Self::start_in_at(database, config, id, config.address(ServerId(id)))?;
        if let Some(map) = config.map() {
            // The process that has the folder is the one that records its address.
            Map::set(&map, id, None)?;
        }
        Ok(server)
    }

    /// Starts server `id` on the machine of server `proxy`, at any free port: the proxy's process takes over for a failed server. The map
    /// then has the new address.
    pub fn take_over(
        database: Database,
        config: &ClusterConfig,
        id: u32,
        proxy: u32,
    ) -> Result<Self> {
        let map = config.map().ok_or_else(|| {
            Error::Invalid(
                "no server takes over for another: `failover.proxy_after` is not set".into(),
            )
        })?;
        let mut at = Address::parse(&format!("esker://{}", config.address(ServerId(proxy))))?;
        at.port = 0;
        let server = Self::start_in_at(database, config, id, &at.authority())?;
        at.port = server.address().port();
        Map::set(&map, id, Some(&at.authority()))?;
        Ok(server)
    }

    fn start_in_at(
        database: Database,
        config: &ClusterConfig,
        id: u32,
        listen: &str,
    ) -> Result<Self> {
        let mut settings = config.settings.clone();
        listen.clone_into(&mut settings.listen);
        settings.readers = settings.readers.max(cluster::LANE_THREADS_MIN);
        settings.scanners = settings.scanners.max(cluster::LANE_THREADS_MIN);
        if id as usize >= config.servers.len() {
            return Err(Error::Invalid(format!(
                "there is no server {id} in cluster `{}`: its {} servers are numbered from 0",
                config.name,
                config.servers.len()
            )));
        }
        Self::start_as(database, Some((config.clone(), ServerId(id))), settings)
    }

    /// Starts to serve a store that is assigned to this process, at the port of the process.
    pub(crate) fn start_assigned(
        database: Database,
        config: &ClusterConfig,
        store: u32,
        assignment: StoreAssignment,
    ) -> Result<Self> {
        let mut settings = config.settings.clone();
        settings.readers = settings.readers.max(cluster::LANE_THREADS_MIN);
        settings.scanners = settings.scanners.max(cluster::LANE_THREADS_MIN);
        let cluster_part = Some((config.clone(), ServerId(store)));
        Self::start_at(database, cluster_part, settings, Some(assignment))
    }

    fn start_as(
        database: Database,
        cluster_part: Option<(ClusterConfig, ServerId)>,
        settings: Settings,
    ) -> Result<Self> {
        Self::start_at(database, cluster_part, settings, None)
    }

    fn start_at(
        database: Database,
        cluster_part: Option<(ClusterConfig, ServerId)>,
        settings: Settings,
        assignment: Option<StoreAssignment>,
    ) -> Result<Self> {
        match database.role() {
            Role::Owner => {}
            Role::Attached { pid } => {
                return Err(Error::InUse(format!(
                    "process {pid} has the database open: a server must be the one that opens it first; end that process, \
                     or wait until it is done, and repeat"
                )));
            }
            Role::Client { .. } => {
                return Err(Error::Target(
                    "a server serves a folder, not another server: give the folder of a database"
                        .into(),
                ));
            }
        }
        start_traces(&settings)?;
        // In an ephemeral store, the record of leases would be lost with it.
        if cluster_part
            .as_ref()
            .is_none_or(|(config, _)| config.checkpoint.is_none())
        {
            database.enable_leases(settings.lease)?;
        }
        let metrics = Arc::new(Metrics::new());
        let open_audit = || {
            let folder = match (&settings.audit.folder, &cluster_part) {
                (None, _) => database.directory().join(esker_audit::FOLDER),
                (Some(folder), None) => folder.clone(),
                // The servers of a cluster share its settings.
                (Some(folder), Some((_, id))) => folder.join(format!("server-{}", id.0)),
            };
            let server = format!("esker {}, {}", env!("CARGO_PKG_VERSION"), settings.listen);
            Audit::open(&folder, &settings.audit, server).map(Arc::new)
        };
        let access = match (&assignment, &cluster_part) {
            // The process authenticates connections for all its stores.
            (Some(assignment), _) => assignment.hub.access(),
            // The servers of a cluster share one set of access rules.
            (None, Some((config, _))) => {
                let metrics = Arc::clone(&metrics);
                Access::open(&config.storage, &settings, metrics, open_audit()?).map(Arc::new)?
            }
            (None, None) => {
                let folder = database.directory();
                let metrics = Arc::clone(&metrics);
                Access::open(folder, &settings, metrics, open_audit()?).map(Arc::new)?
            }
        };
        // Invalid settings must be reported before anything has started.
        let acceptor = match &assignment {
            Some(_) => None,
            None => Some(Acceptor::new(&access, &settings)?),
        };
        let failed = |e| Error::io(format!("listening at `{}`", settings.listen), e);
        let (listener, address) = match &assignment {
            None => {
                let listener = std::net::TcpListener::bind(&settings.listen).map_err(failed)?;
                let address = listener.local_addr().map_err(failed)?;
                listener.set_nonblocking(true).map_err(failed)?;
                (Some(listener), address)
            }
            // The process listens for all its stores.
            Some(assignment) => (None, assignment.hub.address()),
        };
        if assignment.is_none() {
            access.set_listen_address(&settings.listen, address.port());
        }
        let threads = match &cluster_part {
            // One process may have many stores.
            Some((config, _)) if assignment.is_some() => cluster::threads_per_store(config),
            Some((config, _)) => settings.threads.max(cluster::threads(config)),
            None => settings.threads,
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("esker-net")
            .enable_all()
            .build()
            .map_err(|e| Error::io("starting the server's threads", e))?;
        let cluster = cluster_part
            .map(|(config, me)| Cluster::open(&database, config, me, &runtime, assignment.as_ref()))
            .transpose()?;
        let merger = match settings.spools.as_slice() {
            [] => None,
            folders => Some(Merger::start(
                database.clone(),
                folders,
                Arc::clone(&metrics),
            )?),
        };
        let lanes = assignment.as_ref().map(|assignment| assignment.hub.lanes());
        let service = Arc::new(Service::new(
            database, cluster, settings, lanes, access, metrics,
        )?);
        let _ = service.console.address.set(address);
        let known = Arc::downgrade(&service);
        let schema = move || known.upgrade()?.database.schema().ok();
        service.access.audit().set_schema(schema);
        let writer = {
            let service = Arc::clone(&service);
            std::thread::Builder::new()
                .name("esker-write".into())
                .spawn(move || service.writer.work(&service))
                .map_err(|e| Error::io("starting the server's threads", e))?
        };
        let outboxes = Outboxes::default();
        let exchange = Exchange {
            service: Arc::clone(&service),
            outboxes: Arc::clone(&outboxes),
        };
        let routes = with_grpc_methods(http::routes(&service), &service, &exchange);
        let (stop, stopped) = watch::channel(Phase::Running);
        let socket = match service.cluster {
            None => Some(serve_socket(
                &service,
                &runtime,
                routes.clone(),
                stopped.clone(),
            )?),
            Some(_) => None,
        };
        match (listener.zip(acceptor), &assignment) {
            (Some((listener, acceptor)), _) => {
                let listener = {
                    let _inside = runtime.enter();
                    tokio::net::TcpListener::from_std(listener)
                        .map_err(|e| Error::io("listening", e))?
                };
                runtime.spawn(listen::accept(
                    listener,
                    Arc::clone(&service),
                    routes,
                    acceptor,
                    stopped,
                ));
            }
            (None, Some(assignment)) => assignment.hub.add(&service, routes),
            (None, None) => {}
        }
        if let Some(cluster) = &service.cluster {
            cluster.join();
        }
        runtime.spawn(http::sample(Arc::downgrade(&service)));
        if service.storage.is_some() {
            runtime.spawn(recount(Arc::downgrade(&service)));
        }
        Ok(Self {
            running: Some(RunningServer {
                runtime,
                service,
                outboxes,
                writer,
                stop,
                socket,
                merger,
                hub: assignment.map(|assignment| assignment.hub),
            }),
            address,
        })
    }

    /// Socket address at which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Fingerprint of the host key by which clients on other machines know the server, as `ssh-keygen -l` prints it.
    pub fn host_key(&self) -> String {
        let running = self.running.as_ref();
        running.map_or_else(String::new, |r| r.service.access.fingerprint())
    }

    /// URL of the console.
    pub fn console_url(&self) -> String {
        let running = self.running.as_ref();
        let is_tls = running.is_some_and(|r| r.service.settings.tls.is_some());
        let scheme = if is_tls { "https" } else { "http" };
        let mut at = self.address;
        if at.ip().is_unspecified() {
            at.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
        }
        format!("{scheme}://{at}/")
    }

    /// Whether [`Server::console_url`] suffices for a browser of the user who started this server, on this machine: the kernel tells the
    /// server the user of a connection.
    pub fn knows_own_user(&self) -> bool {
        let running = self.running.as_ref();
        running.is_some_and(|r| r.service.access.knows_own_user())
    }

    /// Returns a URL that opens the console once, within two minutes, with the admin role: for the user who started this server. It is a
    /// secret: it must not appear in a list of processes or in a log.
    pub fn console_link(&self) -> Result<String> {
        let running = self.running.as_ref();
        let running = running.ok_or_else(|| Error::Closed("the server has stopped".into()))?;
        let user = esker_access::peer::own_user();
        let ticket = running.service.access.sessions().ticket(
            format!("the user who started the server (user {user})"),
            esker_access::Role::Admin,
            access::ClientIdentity::User(user),
            Some(user),
        );
        let ticket = ticket.map_err(Error::Unavailable)?;
        Ok(format!("{}#/enter?ticket={ticket}", self.console_url()))
    }

    /// Request of an owner to stop or restart this process, if there is one.
    pub fn stop_request(&self) -> Option<crate::StopRequest> {
        self.running.as_ref()?.service.stop_flag.requested()
    }

    /// Whether the store accepts no writes until it is opened again, most likely because its disk was full.
    pub(crate) fn store_failed(&self) -> bool {
        let running = self.running.as_ref();
        running.is_some_and(|r| r.service.database.stats().is_ok_and(|s| s.store.failed))
    }

    /// Whether the server serves clients.
    pub fn serves(&self) -> bool {
        let running = self.running.as_ref();
        let cluster = running.and_then(|r| r.service.cluster.as_ref());
        running.is_some() && cluster.is_none_or(|c| c.not_yet().is_none())
    }

    /// Reason why the server will never serve, if it could not join its cluster.
    pub fn failure(&self) -> Option<String> {
        let cluster = self.running.as_ref()?.service.cluster.as_ref()?;
        cluster.failure()
    }

    /// Stops the server: refuses new connections and calls, waits for calls in progress for the time in the settings and then cuts them
    /// off, sends the last answers and closes the database. True if no call was cut off.
    pub fn stop(mut self) -> Result<bool> {
        self.running.take().map_or(Ok(true), RunningServer::stop)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.service.cut.store(true, Ordering::Release);
            // No caller is left to report a failure to; acknowledged writes are in the log in any case.
            let _ = running.stop();
        }
    }
}

/// Adds the methods of the gRPC services to the routes.
fn with_grpc_methods(
    routes: axum::Router,
    service: &Arc<Service>,
    exchange: &Exchange,
) -> axum::Router {
    let (calls, proving) = (unary::routes(service), access::routes(service));
    access::table::grpc_methods().fold(routes, |routes, (path, _)| {
        let method = if path.ends_with("/Exchange") {
            post_service(exchange.clone())
        } else if path.starts_with("/esker.v1.Access/") {
            post_service(proving.clone())
        } else {
            post_service(calls.clone())
        };
        routes.route(&path, method)
    })
}

/// Answers processes of this machine at a socket in the database's folder.
fn serve_socket(
    service: &Arc<Service>,
    runtime: &Runtime,
    routes: axum::Router,
    stopped: watch::Receiver<Phase>,
) -> Result<HttpSocket> {
    let (listener, socket) = service.database.listen_http()?;
    let failed = |e| Error::io("listening", e);
    listener.set_nonblocking(true).map_err(failed)?;
    let listener = {
        let _inside = runtime.enter();
        tokio::net::UnixListener::from_std(listener).map_err(failed)?
    };
    runtime.spawn(listen::accept_local(
        listener,
        Arc::clone(service),
        routes,
        stopped,
    ));
    Ok(socket)
}

fn wait(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + limit;
    while !done() {
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}

impl RunningServer {
    fn outboxes(&self) -> Vec<Arc<Outbox>> {
        let outboxes = self.outboxes.lock().unwrap_or_else(PoisonError::into_inner);
        outboxes.iter().filter_map(Weak::upgrade).collect()
    }

    fn stop(mut self) -> Result<bool> {
        // The process's log goes on for its other stores.
        let audit = match self.hub {
            None => Some(Arc::clone(self.service.access.audit())),
            Some(_) => None,
        };
        if let Some(merger) = self.merger.take() {
            merger.stop();
        }
        if let Some(hub) = self.hub.take() {
            hub.remove(&self.service);
        }
        let _ = self.stop.send(Phase::Draining);
        drop(self.socket.take());
        self.service.close();
        let farewell = proto::ToClient {
            closing: true,
            ..Default::default()
        };
        for outbox in self.outboxes() {
            outbox.push(farewell.encode_to_vec());
        }
        let service = &self.service;
        let idle = || service.metrics.in_flight.get() == 0;
        let drain = if service.cut.load(Ordering::Acquire) {
            Duration::ZERO
        } else {
            service.settings.drain
        };
        let finished = wait(drain, idle);
        if !finished {
            service.cut.store(true, Ordering::Release);
            wait(FLUSH_MAX, idle);
        }
        // Wait until the answers have been sent.
        wait(FLUSH_MAX, || self.outboxes().iter().all(|o| o.is_empty()));
        for outbox in self.outboxes() {
            outbox.finish();
        }
        self.service.end_streams();
        let _ = self.stop.send(Phase::Ending);
        wait(Duration::from_millis(200), || {
            service.metrics.connections.get() == 0
        });
        self.service.writer.stop();
        let _ = self.writer.join();
        if self.service.own_lanes {
            self.service.readers.stop();
            self.service.scanners.stop();
            self.service.sparql.stop();
        }
        self.runtime.shutdown_timeout(FLUSH_MAX);
        if let Some(audit) = audit {
            audit.close();
        }
        // Wait until threads of the process drop their references.
        wait(FLUSH_MAX, || Arc::strong_count(&self.service) == 1);
        let database = match Arc::into_inner(self.service) {
            Some(service) => {
                // The node drops its reference to the engine.
                drop(service.cluster);
                service.database
            }
            None => return Ok(false),
        };
        database.close()?;
        Ok(finished)
    }
}

/// Time after which a failed count of what users own is repeated.
const RECOUNT_RETRY: Duration = Duration::from_secs(30);

/// Counts what users, groups and projects own, again and again.
async fn recount(service: Weak<Service>) {
    while let Some(running) = service.upgrade() {
        let counted = tokio::task::spawn_blocking(move || {
            let storage = running.storage.as_ref();
            storage.map(|storage| storage.recount(&running.database))
        });
        let wait = match counted.await {
            Ok(Some(Ok(wait))) => wait,
            Ok(Some(Err(e))) => {
                tracing::warn!(error = %e, "the files and objects of users are not counted for quotas");
                RECOUNT_RETRY
            }
            Ok(None) | Err(_) => return,
        };
        tokio::time::sleep(wait).await;
    }
}
