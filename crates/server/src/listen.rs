//! Connections: accepting, counting and serving them.

use crate::access::{Access, Caller, Requester};
use crate::limits::STREAMS_MAX;
use crate::service::Service as Esker;
use crate::settings::{Limits, Settings};
use crate::work::CLIENT;
use axum::Router;
use axum::body::Body;
use esker_access::slots::{HEAD_MAX, Slot, Slots, Source};
use esker_access::tls::{self, Accepted, NotAccepted};
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

/// Progress of a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// The stop has not begun.
    Running,
    /// No new connections are accepted.
    Draining,
    /// Connections end once no request is in progress on them.
    Ending,
}

/// Accepts connections until a stop begins; then the port is free.
pub(crate) async fn accept(
    listener: TcpListener,
    service: Arc<Esker>,
    routes: Router,
    acceptor: Acceptor,
    mut stop: watch::Receiver<Phase>,
) {
    loop {
        // Yield, so that a flood of connections is accepted one by one between other work; otherwise a hundred are accepted while
        // requests wait.
        tokio::task::yield_now().await;
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
        let Some((stream, connection)) = acceptor.admit(stream, from) else {
            service.metrics.connections_refused.add(1);
            continue;
        };
        let refused = connection.slot.refusal().is_some();
        service.metrics.connections_refused.add(u64::from(refused));
        service.metrics.connections.add(1);
        let (service, acceptor, stop) = (Arc::clone(&service), acceptor.clone(), stop.clone());
        let routes = routes.clone();
        tokio::spawn(async move {
            serve(stream, &acceptor, connection, routes, stop).await;
            service.metrics.connections.add(-1);
        });
    }
}

/// Accepts connections from processes of this machine, at a socket in the database's folder, until a stop begins.
pub(crate) async fn accept_local(
    listener: UnixListener,
    service: Arc<Esker>,
    routes: Router,
    mut stop: watch::Receiver<Phase>,
) {
    // Separate from the port's slots, so that connections there cannot exhaust these.
    let slots = slots(&service.settings.limits);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = wait_for_phase(&mut stop, Phase::Draining) => return,
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
        let routes = ConnectionRoutes {
            routes: routes.clone(),
            access: Arc::clone(&service.access),
            caller: Caller::local(user, slot),
        };
        let (service, stop) = (Arc::clone(&service), stop.clone());
        tokio::spawn(async move {
            serve_http(stream, routes, stop).await;
            service.metrics.connections.add(-1);
        });
    }
}

/// Waits until a stop has reached a phase, or the server is gone.
pub(crate) async fn wait_for_phase(stop: &mut watch::Receiver<Phase>, phase: Phase) {
    let _ = stop.wait_for(|reached| *reached >= phase).await;
}

/// Routes of one connection: each request gets its caller as an extension and is refused if the caller may not make it.
#[derive(Clone)]
struct ConnectionRoutes {
    routes: Router,
    access: Arc<Access>,
    caller: Arc<Caller>,
}

impl Service<http::Request<Incoming>> for ConnectionRoutes {
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
        let requester = Requester::of(&self.access, &self.caller, &request);
        let bound = match self.access.admit_request(&requester, &request) {
            Ok(bound) => bound,
            Err(mut response) => {
                // HTTP/2 rejects an answer to HEAD that has a body.
                if request.method() == http::Method::HEAD {
                    *response.body_mut() = Body::empty();
                }
                let response = crate::http::with_security_headers(response);
                return Box::pin(std::future::ready(Ok(response)));
            }
        };
        let client = requester.client(&self.access);
        request.extensions_mut().insert(requester);
        request.extensions_mut().insert(bound);
        let answering = CLIENT.scope(client, self.routes.call(request));
        Box::pin(async move { answering.await.map(crate::http::with_security_headers) })
    }
}

/// Setup of new connections: access rules, TLS and connection slots.
#[derive(Clone)]
pub(crate) struct Acceptor {
    pub(crate) access: Arc<Access>,
    pub(crate) tls: TlsAcceptor,
    /// Whether connections without TLS are accepted.
    pub(crate) plain: bool,
    slots: Arc<Slots>,
}

/// An accepted connection that has a slot.
pub(crate) struct AcceptedConnection {
    from: SocketAddr,
    user: Option<u32>,
    pub(crate) slot: Slot,
}

impl Acceptor {
    pub(crate) fn new(access: &Arc<Access>, settings: &Settings) -> Result<Self> {
        Ok(Self {
            access: Arc::clone(access),
            tls: access.acceptor(settings)?,
            // A server with a certificate accepts only TLS.
            plain: settings.tls.is_none(),
            slots: slots(&settings.limits),
        })
    }

    /// Takes a slot for a connection; if all slots are in use, the connection is closed after a while, without an answer.
    pub(crate) fn admit(
        &self,
        stream: TcpStream,
        from: SocketAddr,
    ) -> Option<(TcpStream, AcceptedConnection)> {
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
        Some((stream, AcceptedConnection { from, user, slot }))
    }
}

fn slots(limits: &Limits) -> Arc<Slots> {
    Slots::new("server", limits.connections, limits.connections_each)
}

/// Serves one connection until it ends.
pub(crate) async fn serve(
    stream: TcpStream,
    acceptor: &Acceptor,
    connection: AcceptedConnection,
    routes: Router,
    stop: watch::Receiver<Phase>,
) {
    let _ = stream.set_nodelay(true);
    let AcceptedConnection { from, user, slot } = connection;
    let routes = |encrypted, exporter| ConnectionRoutes {
        routes,
        access: Arc::clone(&acceptor.access),
        caller: Caller::remote(from, user, encrypted, exporter, slot),
    };
    match tls::accept(stream, Some(&acceptor.tls), acceptor.plain).await {
        Ok(Accepted::Plain(stream)) => serve_http(stream, routes(false, None), stop).await,
        Ok(Accepted::Encrypted(stream)) => {
            let exporter = tls::exporter(stream.get_ref().1);
            serve_http(stream, routes(true, exporter), stop).await;
        }
        Err(NotAccepted::Tls(e)) => {
            acceptor.access.count_refused("tls");
            tracing::warn!(peer = %from, error = %e, "refused: a client failed to agree on TLS");
        }
        Err(NotAccepted::Silent) => tracing::debug!(%from, "a client said nothing in time"),
    }
}

async fn serve_http(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    routes: ConnectionRoutes,
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
            tracing::debug!(peer = %caller.address_text(), "the client did not authenticate in time");
            return;
        }
        () = wait_for_phase(&mut stop, Phase::Ending) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(e) = ended {
        tracing::debug!(error = %e, "a connection ended");
    }
}
