//! Connections: accepted, counted, served until they end.

use crate::access::{Access, Asking, Caller, table};
use crate::limits::{HEAD_MAX, REFUSED_CONNECTIONS_MAX};
use crate::service::Service as Esker;
use crate::settings::Settings;
use axum::Router;
use axum::body::Body;
use esker_access::tls::{FIRST_BYTE, exporter};
use esker_model::Result;
use esker_rpc::limits::{
    CONNECTION_WINDOW_BYTES, HTTP2_FRAME_BYTES, KEEP_ALIVE, STREAM_WINDOW_BYTES,
};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
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
    let full = refusing(service.settings.limits.connections);
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
        let open = usize::try_from(service.metrics.connections.get()).unwrap_or(0);
        let most = service.settings.limits.connections;
        if open >= most + REFUSED_CONNECTIONS_MAX {
            service.metrics.connections_refused.add(1);
            continue;
        }
        let routes = if open >= most {
            service.metrics.connections_refused.add(1);
            full.clone()
        } else {
            routes.clone()
        };
        service.metrics.connections.add(1);
        let (service, door, stop) = (Arc::clone(&service), door.clone(), stop.clone());
        tokio::spawn(async move {
            serve(stream, from, &door, routes, stop).await;
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
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = reached(&mut stop, Phase::Draining) => return,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let open = usize::try_from(service.metrics.connections.get()).unwrap_or(0);
        if open >= service.settings.limits.connections {
            service.metrics.connections_refused.add(1);
            continue;
        }
        service.metrics.connections.add(1);
        let user = stream.peer_cred().ok().map(|c| c.uid());
        let routes = From {
            routes: routes.clone(),
            peer: None,
            access: Arc::clone(&service.access),
            caller: Caller::local(user),
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

/// Answers everything with "there are too many connections".
fn refusing(most: usize) -> Router {
    let message = format!(
        "the server has {most} connections, the most it may: close some, or try again in 1 s"
    );
    Router::new().fallback(move |request: http::Request<Body>| {
        let message = message.clone();
        async move {
            let grpc = request
                .headers()
                .get(http::header::CONTENT_TYPE)
                .is_some_and(|t| t.as_bytes().starts_with(b"application/grpc"));
            if grpc {
                tonic::Status::resource_exhausted(message).into_http::<Body>()
            } else {
                crate::http::failure(http::StatusCode::TOO_MANY_REQUESTS, &message, Some(1_000))
            }
        }
    })
}

/// The address of who asks, among a request's extensions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// The routes for one connection: they learn who asks, and get only what those may ask.
#[derive(Clone)]
struct From {
    routes: Router,
    peer: Option<Peer>,
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
        let asking = Asking::of(&self.caller, &request);
        let path = request.uri().path();
        let needs = table::of_path(request.method().as_str(), path);
        if let Err(denied) = self.access.admit(&asking, needs, path) {
            let response = denied.response(&request);
            return Box::pin(std::future::ready(Ok(response)));
        }
        if let Some(peer) = self.peer {
            request.extensions_mut().insert(peer);
        }
        request.extensions_mut().insert(asking);
        Box::pin(self.routes.call(request))
    }
}

/// How connections are begun, and who asks by them.
#[derive(Clone)]
pub(crate) struct Door {
    pub(crate) access: Arc<Access>,
    pub(crate) tls: TlsAcceptor,
    /// Whether what is not TLS is heard at all.
    pub(crate) plain: bool,
}

impl Door {
    pub(crate) fn new(access: &Arc<Access>, settings: &Settings) -> Result<Self> {
        Ok(Self {
            access: Arc::clone(access),
            tls: access.acceptor(settings)?,
            // A server with a certificate speaks nothing but TLS.
            plain: settings.tls.is_none(),
        })
    }
}

/// One connection, until it ends.
pub(crate) async fn serve(
    stream: TcpStream,
    from: SocketAddr,
    door: &Door,
    routes: Router,
    stop: watch::Receiver<Phase>,
) {
    let _ = stream.set_nodelay(true);
    let user = match stream.local_addr() {
        Ok(here) => esker_access::peer::user_of(from, here),
        Err(_) => None,
    };
    let routes = |encrypted, exporter| From {
        routes,
        peer: Some(Peer(from.ip())),
        access: Arc::clone(&door.access),
        caller: Caller::remote(from, user, encrypted, exporter),
    };
    let begins = match tokio::time::timeout(HEAD_MAX, first_byte(&stream)).await {
        Ok(Some(byte)) => byte,
        Ok(None) => return,
        Err(_) => {
            tracing::debug!(%from, "a client said nothing in time");
            return;
        }
    };
    if door.plain && begins != FIRST_BYTE {
        talk(stream, routes(false, None), stop).await;
        return;
    }
    match tokio::time::timeout(HEAD_MAX, door.tls.accept(stream)).await {
        Ok(Ok(stream)) => {
            let exporter = exporter(stream.get_ref().1);
            talk(stream, routes(true, exporter), stop).await;
        }
        Ok(Err(e)) => {
            door.access.count_refused("tls");
            tracing::warn!(peer = %from, error = %e, "refused: a client failed to agree on TLS");
        }
        Err(_) => tracing::debug!(%from, "a client did not begin TLS in time"),
    }
}

/// What a connection begins with: TLS or not.
async fn first_byte(stream: &TcpStream) -> Option<u8> {
    let mut byte = [0; 1];
    match stream.peek(&mut byte).await {
        Ok(1) => Some(byte[0]),
        _ => None,
    }
}

async fn talk(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    routes: From,
    mut stop: watch::Receiver<Phase>,
) {
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
        .max_send_buf_size(1 << 20)
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE);
    let connection =
        builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = reached(&mut stop, Phase::Ending) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(e) = ended {
        tracing::debug!(error = %e, "a connection ended");
    }
}
