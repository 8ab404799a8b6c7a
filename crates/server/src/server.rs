//! A running server: started, stopped in good order.

use crate::exchange::{Exchange, Outboxes};
use crate::limits::FLUSH_MAX;
use crate::outbox::Outbox;
use crate::service::Service;
use crate::settings::Settings;
use crate::{http, listen, tls, unary};
use esker::{Database, Role};
use esker_model::{Error, Result};
use esker_rpc::proto;
use prost::Message as _;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// A server that runs. [`Server::stop`] ends it in good order; dropping it cuts off what is under way.
pub struct Server {
    // `Some` until it is stopped.
    running: Option<Running>,
    address: SocketAddr,
}

struct Running {
    runtime: Runtime,
    service: Arc<Service>,
    outboxes: Outboxes,
    writer: JoinHandle<()>,
    stop: watch::Sender<bool>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Starts to serve a database that this process owns.
    pub fn start(database: Database, settings: Settings) -> Result<Self> {
        match database.role() {
            Role::Owner => {}
            Role::Attached { pid } => {
                return Err(Error::Unavailable(format!(
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
        let tls = settings.tls.as_ref().map(tls::acceptor).transpose()?;
        let failed = |e| Error::io(format!("listening at `{}`", settings.listen), e);
        let listener = std::net::TcpListener::bind(&settings.listen).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(settings.threads)
            .thread_name("esker-net")
            .enable_all()
            .build()
            .map_err(|e| Error::io("starting the server's threads", e))?;
        let service = Arc::new(Service::new(database, settings)?);
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
        let routes = http::routes(&service)
            .route_service("/esker.v1.Esker/Exchange", exchange)
            .route_service("/esker.v1.Esker/{call}", unary::routes(&service));
        let (stop, stopped) = watch::channel(false);
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener).map_err(|e| Error::io("listening", e))?
        };
        runtime.spawn(listen::accept(
            listener,
            Arc::clone(&service),
            routes,
            tls,
            stopped,
        ));
        Ok(Self {
            running: Some(Running {
                runtime,
                service,
                outboxes,
                writer,
                stop,
            }),
            address,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops: no new connections and calls, what is under way is finished for as long as the settings say and then cut
    /// off, the last answers are sent, the database is closed. True if nothing had to be cut off.
    pub fn stop(mut self) -> Result<bool> {
        self.running.take().map_or(Ok(true), Running::stop)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.service.cut.store(true, Ordering::Release);
            // Nobody is left to hear of a failure; what was acknowledged is in the log in any case.
            let _ = running.stop();
        }
    }
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

impl Running {
    fn outboxes(&self) -> Vec<Arc<Outbox>> {
        let outboxes = self.outboxes.lock().unwrap_or_else(PoisonError::into_inner);
        outboxes
            .iter()
            .filter_map(std::sync::Weak::upgrade)
            .collect()
    }

    fn stop(self) -> Result<bool> {
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
        // Answered, and now on their way.
        wait(FLUSH_MAX, || self.outboxes().iter().all(|o| o.is_empty()));
        for outbox in self.outboxes() {
            outbox.finish();
        }
        let _ = self.stop.send(true);
        wait(Duration::from_millis(200), || {
            service.metrics.connections.get() == 0
        });
        self.service.writer.stop();
        let _ = self.writer.join();
        self.service.readers.stop();
        self.service.scanners.stop();
        self.runtime.shutdown_timeout(FLUSH_MAX);
        let database = match Arc::into_inner(self.service) {
            Some(service) => service.database,
            None => return Ok(false),
        };
        database.close()?;
        Ok(finished)
    }
}
