//! One port for all stores that a process has: whoever asks says which one is meant, or takes any.
//!
//! A request for a store that is not here is refused with the members that there are ([`esker_rpc::members`]); a
//! client then asks them.

use super::gate::{Fences, Gate, Places};
use crate::access::Access;
use crate::asked::Wish;
use crate::listen::{Door, Phase, reached, serve};
use crate::service::{Lanes, Service};
use crate::settings::Settings;
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

/// What a store's server holds of the process that has it.
#[derive(Clone)]
pub(crate) struct Seat {
    pub(crate) hub: Arc<Hub>,
    /// At which epoch it was claimed.
    pub(crate) epoch: u64,
    /// Whether its answers may leave.
    pub(crate) gate: Arc<Gate>,
}

/// A store that is served here.
struct Served {
    routes: Router,
    service: Weak<Service>,
}

/// The port of a process, and what its stores have in common.
pub(crate) struct Hub {
    address: SocketAddr,
    /// What others call it.
    name: String,
    lanes: Lanes,
    /// Who may do what: the same for all stores.
    door: Door,
    places: Places,
    /// Whether the process is to stop.
    wish: Arc<Wish>,
    fences: Fences,
    served: RwLock<BTreeMap<u32, Served>>,
    /// Whoever does not care which store answers is sent to one after the other.
    turn: AtomicUsize,
    /// Why the process as a whole is not ready, if so.
    trouble: RwLock<Option<String>>,
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
            lanes: Lanes::new(settings),
            door: Door::new(access, settings)?,
            places: Places::default(),
            wish: Arc::default(),
            fences: Fences::default(),
            served: RwLock::default(),
            turn: AtomicUsize::new(0),
            trouble: RwLock::new(Some("it has no lease yet".into())),
        }))
    }

    pub(crate) fn access(&self) -> Arc<Access> {
        Arc::clone(&self.door.access)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn lanes(&self) -> Lanes {
        self.lanes.clone()
    }

    pub(crate) fn wish(&self) -> Arc<Wish> {
        Arc::clone(&self.wish)
    }

    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    pub(crate) fn fences(&self) -> &Fences {
        &self.fences
    }

    fn served(&self) -> RwLockReadGuard<'_, BTreeMap<u32, Served>> {
        self.served.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on that store answers here.
    pub(crate) fn add(&self, service: &Arc<Service>, routes: Router) {
        let Some(cluster) = &service.cluster else {
            return;
        };
        let served = Served {
            routes,
            service: Arc::downgrade(service),
        };
        let mut all = self.served.write().unwrap_or_else(PoisonError::into_inner);
        all.insert(cluster.me.0, served);
    }

    /// It does no longer.
    pub(crate) fn remove(&self, service: &Arc<Service>) {
        let Some(cluster) = &service.cluster else {
            return;
        };
        let mut all = self.served.write().unwrap_or_else(PoisonError::into_inner);
        let same = |served: &Served| served.service.as_ptr() == Arc::as_ptr(service);
        if all.get(&cluster.me.0).is_some_and(same) {
            all.remove(&cluster.me.0);
        }
    }

    /// Stores have moved: links to where they were are let go.
    pub(crate) fn places_changed(&self) {
        let services: Vec<_> = self
            .served()
            .values()
            .filter_map(|s| s.service.upgrade())
            .collect();
        for service in services {
            if let Some(cluster) = &service.cluster {
                cluster.places_changed();
            }
        }
    }

    pub(crate) fn note(&self, trouble: Option<String>) {
        *self.trouble.write().unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    /// Why clients are not served as they should be, if so.
    fn not_yet(&self) -> Option<String> {
        let trouble = self.trouble.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(why) = trouble.as_ref() {
            return Some(why.clone());
        }
        drop(trouble);
        match self.places.missing() {
            0 => {}
            n => return Some(format!("{n} stores are with nobody yet")),
        }
        let mine = self.places.with(&self.name);
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

    /// Who answers a request for that store, or for any.
    fn pick(&self, wish: Option<u32>) -> Option<Router> {
        let served = self.served();
        if let Some(store) = wish {
            return Some(served.get(&store)?.routes.clone());
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let nth = turn.checked_rem(served.len())?;
        Some(served.values().nth(nth)?.routes.clone())
    }

    fn refuse(&self, wish: Option<u32>, grpc: bool) -> Response<Body> {
        let why = match wish {
            Some(store) => match self.places.of(store) {
                Some((member, _)) if member == self.name => {
                    format!("{member} is about to serve store {store}: ask again")
                }
                Some((member, _)) => {
                    format!("store {store} is with {member}, not with {}", self.address)
                }
                None => format!("store {store} is with nobody just now: ask again"),
            },
            None => format!("{} has no store just now: ask another member", self.address),
        };
        if grpc {
            let mut status = tonic::Status::unavailable(why);
            let members = self.places.members().join(" ");
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
            .fallback_service(Front(Arc::clone(self)))
    }

    /// Accepts until it is told to stop.
    pub(crate) async fn accept(
        self: Arc<Self>,
        listener: TcpListener,
        mut stop: watch::Receiver<Phase>,
    ) {
        let routes = self.routes();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = reached(&mut stop, Phase::Draining) => return,
            };
            let (stream, from) = match accepted {
                Ok(accepted) => accepted,
                Err(e) => {
                    // Out of descriptors, most likely: others may close theirs.
                    tracing::warn!(error = %e, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let Some((stream, taken)) = self.door.take(stream, from) else {
                continue;
            };
            let (hub, routes, stop) = (Arc::clone(&self), routes.clone(), stop.clone());
            tokio::spawn(async move {
                serve(stream, &hub.door, taken, routes, stop).await;
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

/// Hands a request to the store that it is for.
#[derive(Clone)]
struct Front(Arc<Hub>);

impl tower_service::Service<Request<Body>> for Front {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let headers = request.headers();
        let wish = headers.get(STORE_KEY).and_then(|v| v.to_str().ok());
        // For those who write addresses by hand, such as Prometheus.
        let mut query = request.uri().query().unwrap_or_default().split('&');
        let asked = query.find_map(|q| q.strip_prefix("store="));
        let wish = wish.or(asked).and_then(|store| store.parse().ok());
        let grpc = headers
            .get(header::CONTENT_TYPE)
            .is_some_and(|t| t.as_bytes().starts_with(b"application/grpc"));
        match self.0.pick(wish) {
            Some(mut routes) => Box::pin(routes.call(request)),
            None => Box::pin(std::future::ready(Ok(self.0.refuse(wish, grpc)))),
        }
    }
}
