//! One port for all stores of a process: a request names a store, or is answered by any.
//!
//! A request for a store that is not here is refused with the list of members ([`esker_rpc::members`]); a client then asks them.

use super::gate::{Assignments, Fences, Gate};
use crate::access::Access;
use crate::connection::{Acceptor, Phase, serve, wait_for_phase};
use crate::service::{Service, ThreadPools};
use crate::settings::Settings;
use crate::stop_request::StopFlag;
use axum::Router;
use axum::body::Body;
use esker_model::{Error, Result};
use esker_rpc::members::{MEMBERS_KEY, STORE_KEY};
use http::{Request, Response, StatusCode, header};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, Weak};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// A store's assignment to this process.
#[derive(Clone)]
pub(crate) struct StoreAssignment {
    pub(crate) hub: Arc<Hub>,
    /// Epoch at which the store was claimed.
    pub(crate) epoch: u64,
    /// Gate that holds back its answers.
    pub(crate) gate: Arc<Gate>,
}

/// A store that is served here.
struct ServedStore {
    routes: Router,
    service: Weak<Service>,
}

/// The port of a process, with the state that its stores share.
pub(crate) struct Hub {
    address: SocketAddr,
    /// Name by which other members know this one.
    name: String,
    lanes: ThreadPools,
    /// Setup of connections, with the access rules of all stores.
    acceptor: Acceptor,
    assignments: Assignments,
    /// Request to stop or restart the process.
    stop_flag: Arc<StopFlag>,
    fences: Fences,
    served: RwLock<BTreeMap<u32, ServedStore>>,
    /// Counter for taking turns among stores, for requests that name none.
    next: AtomicUsize,
    /// Reason why the process as a whole is not ready, if there is one.
    problem: RwLock<Option<String>>,
}

impl Hub {
    pub(crate) fn new(
        name: &str,
        address: SocketAddr,
        settings: &Settings,
        access: &Arc<Access>,
    ) -> Result<Arc<Self>> {
        Ok(Arc::new(Self {
            address,
            name: name.to_owned(),
            lanes: ThreadPools::new(settings),
            acceptor: Acceptor::new(access, settings)?,
            assignments: Assignments::default(),
            stop_flag: Arc::default(),
            fences: Fences::default(),
            served: RwLock::default(),
            next: AtomicUsize::new(0),
            problem: RwLock::new(Some("it has no lease yet".into())),
        }))
    }

    pub(crate) fn access(&self) -> Arc<Access> {
        Arc::clone(&self.acceptor.access)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn lanes(&self) -> ThreadPools {
        self.lanes.clone()
    }

    pub(crate) fn stop_flag(&self) -> Arc<StopFlag> {
        Arc::clone(&self.stop_flag)
    }

    pub(crate) fn assignments(&self) -> &Assignments {
        &self.assignments
    }

    pub(crate) fn fences(&self) -> &Fences {
        &self.fences
    }

    fn served(&self) -> RwLockReadGuard<'_, BTreeMap<u32, ServedStore>> {
        self.served.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to answer for a store.
    pub(crate) fn add(&self, service: &Arc<Service>, routes: Router) {
        let Some(cluster) = &service.cluster else {
            return;
        };
        let served = ServedStore {
            routes,
            service: Arc::downgrade(service),
        };
        let mut all = self.served.write().unwrap_or_else(PoisonError::into_inner);
        all.insert(cluster.me.0, served);
    }

    /// Stops answering for a store.
    pub(crate) fn remove(&self, service: &Arc<Service>) {
        let Some(cluster) = &service.cluster else {
            return;
        };
        let mut all = self.served.write().unwrap_or_else(PoisonError::into_inner);
        let same = |served: &ServedStore| served.service.as_ptr() == Arc::as_ptr(service);
        if all.get(&cluster.me.0).is_some_and(same) {
            all.remove(&cluster.me.0);
        }
    }

    /// Closes connections to the previous holders of stores that have moved.
    pub(crate) fn assignments_changed(&self) {
        let services: Vec<_> = self
            .served()
            .values()
            .filter_map(|s| s.service.upgrade())
            .collect();
        for service in services {
            if let Some(cluster) = &service.cluster {
                cluster.assignments_changed();
            }
        }
    }

    pub(crate) fn note(&self, problem: Option<String>) {
        *self.problem.write().unwrap_or_else(PoisonError::into_inner) = problem;
    }

    /// Reason why clients are not served yet, if there is one.
    fn not_yet(&self) -> Option<String> {
        let problem = self.problem.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(why) = problem.as_ref() {
            return Some(why.clone());
        }
        drop(problem);
        match self.assignments.missing() {
            0 => {}
            n => return Some(format!("no server has {n} of the stores yet")),
        }
        let mine = self.assignments.stores_of(&self.name);
        if let Some(store) = mine.iter().find(|s| !self.served().contains_key(s)) {
            return Some(format!("store {store} is being opened"));
        }
        let services: Vec<_> = self
            .served()
            .values()
            .filter_map(|s| s.service.upgrade())
            .collect();
        services.iter().find_map(|s| s.cluster.as_ref()?.not_yet())
    }

    /// Routes of the given store, or of any.
    fn pick(&self, wanted_store: Option<u32>) -> Option<Router> {
        let served = self.served();
        if let Some(store) = wanted_store {
            return Some(served.get(&store)?.routes.clone());
        }
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        let nth = next.checked_rem(served.len())?;
        Some(served.values().nth(nth)?.routes.clone())
    }

    fn refuse(&self, wanted_store: Option<u32>, grpc: bool) -> Response<Body> {
        let why = match wanted_store {
            Some(store) => match self.assignments.holder(store) {
                Some((member, _)) if member == self.name => {
                    format!("{member} is about to serve store {store}: try again")
                }
                Some((member, _)) => {
                    format!("store {store} is with {member}, not with {}", self.address)
                }
                None => format!("no server has store {store} at the moment: try again"),
            },
            None => format!(
                "{} has no store at the moment: ask another member",
                self.address
            ),
        };
        if grpc {
            let mut status = tonic::Status::unavailable(why);
            let members = self.assignments.members().join(" ");
            if let Ok(members) = members.parse() {
                status.metadata_mut().insert(MEMBERS_KEY, members);
            }
            return status.into_http();
        }
        crate::http::failure(StatusCode::SERVICE_UNAVAILABLE, &why, Some(200))
    }

    /// The routes of the port.
    fn routes(self: &Arc<Self>) -> Router {
        let ready = {
            let hub = Arc::clone(self);
            move || {
                let hub = Arc::clone(&hub);
                async move {
                    match hub.not_yet() {
                        None => (StatusCode::OK, "ready\n".to_owned()),
                        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
                    }
                }
            }
        };
        Router::new()
            .route("/readyz", axum::routing::get(ready))
            .fallback_service(StoreRouter(Arc::clone(self)))
    }

    /// Accepts connections until a stop begins.
    pub(crate) async fn accept(
        self: Arc<Self>,
        listener: TcpListener,
        mut stop: watch::Receiver<Phase>,
    ) {
        let routes = self.routes();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = wait_for_phase(&mut stop, Phase::Draining) => return,
            };
            let (stream, from) = match accepted {
                Ok(accepted) => accepted,
                Err(e) => {
                    // Most likely out of file descriptors: other connections may close theirs.
                    tracing::warn!(error = %e, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let Some((stream, connection)) = self.acceptor.admit(stream, from) else {
                continue;
            };
            let (hub, routes, stop) = (Arc::clone(&self), routes.clone(), stop.clone());
            tokio::spawn(async move {
                serve(stream, &hub.acceptor, connection, routes, stop).await;
            });
        }
    }
}

/// Listens at an address.
pub(crate) fn bind(listen: &str) -> Result<(std::net::TcpListener, SocketAddr)> {
    let failed = |e| Error::io(format!("listening at `{listen}`"), e);
    let listener = std::net::TcpListener::bind(listen).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok((listener, address))
}

/// Passes a request to the store that it is for.
#[derive(Clone)]
struct StoreRouter(Arc<Hub>);

impl tower_service::Service<Request<Body>> for StoreRouter {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let headers = request.headers();
        let wanted_store = headers.get(STORE_KEY).and_then(|v| v.to_str().ok());
        // A query parameter, for addresses written by hand, such as in Prometheus.
        let mut query = request.uri().query().unwrap_or_default().split('&');
        let asked = query.find_map(|q| q.strip_prefix("store="));
        let wanted_store = wanted_store.or(asked).and_then(|store| store.parse().ok());
        let grpc = headers
            .get(header::CONTENT_TYPE)
            .is_some_and(|t| t.as_bytes().starts_with(b"application/grpc"));
        match self.0.pick(wanted_store) {
            Some(mut routes) => Box::pin(routes.call(request)),
            None => Box::pin(std::future::ready(Ok(self.0.refuse(wanted_store, grpc)))),
        }
    }
}
