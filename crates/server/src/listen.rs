//! Connections: accepted, counted, served until they end.

use crate::access::{Access, Asking, Caller};
use crate::limits::STREAMS_MAX;
use crate::service::Service as Esker;
use crate::settings::{Limits, Settings};
use crate::work::CLIENT;
use axum::Router;
use axum::body::Body;
use esker_access::slots::{HEAD_MAX, Slot, Slots, Source};
use esker_access::tls::{self, Begun, NotBegun};
use esker_model::Result;
use esker_rpc::limits::{
    CONNECTION_WINDOW_BYTES, HTTP2_FRAME_BYTES, KEEP_ALIVE, STREAM_WINDOW_BYTES,
};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tower_service::Service;

/// How far a stop has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// It has not begun.
    Running,
    /// No new connections.
    Draining,
    /// Connections end once nothing is under way on them.
    Ending,
}

/// Accepts until a stop begins; then the port is free.
pub(crate) async fn accept(
    listener: TcpListener,
    service: Arc<Esker>,
    routes: Router,
    door: Door,
    mut stop: watch::Receiver<Phase>,
) {
    loop {
        // A flood of connections is taken one by one between what else the thread does; else a hundred are, and requests wait for them.
        tokio::task::yield_now().await;
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
        let Some((stream, taken)) = door.take(stream, from) else {
            service.metrics.connections_refused.add(1);
            continue;
        };
        let refused = taken.slot.refusal().is_some();
        service.metrics.connections_refused.add(u64::from(refused));
        service.metrics.connections.add(1);
        let (service, door, stop) = (Arc::clone(&service), door.clone(), stop.clone());
        let routes = routes.clone();
        tokio::spawn(async move {
            serve(stream, &door, taken, routes, stop).await;
            service.metrics.connections.add(-1);
        });
    }
}

/// The same for processes of this machine, at a socket in the database's folder.
pub(crate) async fn accept_local(
    listener: UnixListener,
    service: Arc<Esker>,
    routes: Router,
    mut stop: watch::Receiver<Phase>,
) {
    // What is at the port takes none of these.
    let slots = slots(&service.settings.limits);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = reached(&mut stop, Phase::Draining) => return,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let user = stream.peer_cred().ok().map(|c| c.uid());
        let source = Source::new(Ipv4Addr::LOCALHOST.into(), user);
        let owner = user.is_some_and(|user| service.access.is_owner(user));
        let Some(slot) = slots.take(source, owner) else {
            service.metrics.connections_refused.add(1);
            slots.close_later(stream);
            continue;
        };
        let refused = slot.refusal().is_some();
        service.metrics.connections_refused.add(u64::from(refused));
        service.metrics.connections.add(1);
        let routes = From {
            routes: routes.clone(),
            access: Arc::clone(&service.access),
            caller: Caller::local(user, slot),
        };
        let (service, stop) = (Arc::clone(&service), stop.clone());
        tokio::spawn(async move {
            talk(stream, routes, stop).await;
            service.metrics.connections.add(-1);
        });
    }
}

/// Until a stop has come that far, or the server is gone.
pub(crate) async fn reached(stop: &mut watch::Receiver<Phase>, phase: Phase) {
    let _ = stop.wait_for(|reached| *reached >= phase).await;
}

/// The routes for one connection: they learn who asks, and get only what those may ask.
#[derive(Clone)]
struct From {
    routes: Router,
    access: Arc<Access>,
    caller: Arc<Caller>,
}

impl Service<http::Request<Incoming>> for From {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future =
        Pin<Box<dyn Future<Output = std::result::Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<std::result::Result<(), Infallible>> {
        <Router as Service<http::Request<Incoming>>>::poll_ready(&mut self.routes, context)
    }

    fn call(&mut self, mut request: http::Request<Incoming>) -> Self::Future {
        let asking = Asking::of(&self.access, &self.caller, &request);
        let bound = match self.access.admit_request(&asking, &request) {
            Ok(bound) => bound,
            Err(mut response) => {
                // An answer to HEAD that has a body is one that HTTP/2 does not take.
                if request.method() == http::Method::HEAD {
                    *response.body_mut() = Body::empty();
                }
                let response = crate::http::guarded(response);
                return Box::pin(std::future::ready(Ok(response)));
            }
        };
        let client = asking.client(&self.access);
        request.extensions_mut().insert(asking);
        request.extensions_mut().insert(bound);
        let answering = CLIENT.scope(client, self.routes.call(request));
        Box::pin(async move { answering.await.map(crate::http::guarded) })
    }
}

/// How connections are begun, and who asks by them.
#[derive(Clone)]
pub(crate) struct Door {
    pub(crate) access: Arc<Access>,
    pub(crate) tls: TlsAcceptor,
    /// Whether what is not TLS is heard at all.
    pub(crate) plain: bool,
    slots: Arc<Slots>,
}

/// What is known of a connection that has a slot.
pub(crate) struct Taken {
    from: SocketAddr,
    user: Option<u32>,
    pub(crate) slot: Slot,
}

impl Door {
    pub(crate) fn new(access: &Arc<Access>, settings: &Settings) -> Result<Self> {
        Ok(Self {
            access: Arc::clone(access),
            tls: access.acceptor(settings)?,
            // A server with a certificate speaks nothing but TLS.
            plain: settings.tls.is_none(),
            slots: slots(&settings.limits),
        })
    }

    /// A slot for a connection; one that gets none is closed after a while, without a word.
    pub(crate) fn take(&self, stream: TcpStream, from: SocketAddr) -> Option<(TcpStream, Taken)> {
        let user = match stream.local_addr() {
            Ok(here) => esker_access::peer::user_of(from, here),
            Err(_) => None,
        };
        let source = Source::new(from.ip(), user);
        let owner = user.is_some_and(|user| self.access.is_owner(user));
        let Some(slot) = self.slots.take(source, owner) else {
            self.slots.close_later(stream);
            return None;
        };
        Some((stream, Taken { from, user, slot }))
    }
}

fn slots(limits: &Limits) -> Arc<Slots> {
    Slots::new("server", limits.connections, limits.connections_each)
}

/// One connection, until it ends.
pub(crate) async fn serve(
    stream: TcpStream,
    door: &Door,
    taken: Taken,
    routes: Router,
    stop: watch::Receiver<Phase>,
) {
    let _ = stream.set_nodelay(true);
    let Taken { from, user, slot } = taken;
    let routes = |encrypted, exporter| From {
        routes,
        access: Arc::clone(&door.access),
        caller: Caller::remote(from, user, encrypted, exporter, slot),
    };
    match tls::begin(stream, Some(&door.tls), door.plain).await {
        Ok(Begun::Plain(stream)) => talk(stream, routes(false, None), stop).await,
        Ok(Begun::Encrypted(stream)) => {
            let exporter = tls::exporter(stream.get_ref().1);
            talk(stream, routes(true, exporter), stop).await;
        }
        Err(NotBegun::Tls(e)) => {
            door.access.count_refused("tls");
            tracing::warn!(peer = %from, error = %e, "refused: a client failed to agree on TLS");
        }
        Err(NotBegun::Silent) => tracing::debug!(%from, "a client said nothing in time"),
    }
}

async fn talk(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    routes: From,
    mut stop: watch::Receiver<Phase>,
) {
    let caller = Arc::clone(&routes.caller);
    let overdue = caller.slot().overdue();
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_frame_size(HTTP2_FRAME_BYTES)
        .max_concurrent_streams(STREAMS_MAX)
        .max_send_buf_size(1 << 20)
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE);
    let connection =
        builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = overdue => {
            tracing::debug!(peer = %caller.place(), "nobody said in time who they are");
            return;
        }
        () = reached(&mut stop, Phase::Ending) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(e) = ended {
        tracing::debug!(error = %e, "a connection ended");
    }
}
