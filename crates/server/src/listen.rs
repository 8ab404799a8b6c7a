//! Connections: accepted, counted, served until they end.

use crate::access::{Access, Asking, Caller};
use crate::limits::{CLOSE_AFTER, CLOSING_MAX, HEAD_MAX, STREAMS_MAX};
use crate::service::Service as Esker;
use crate::settings::{Limits, Settings};
use crate::slots::{Full, Slot, Slots, Source};
use crate::work::CLIENT;
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
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::{Semaphore, watch};
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
        let Some(taken) = door.take(&stream, from, &routes) else {
            service.metrics.connections_refused.add(1);
            door.close_later(stream);
            continue;
        };
        service
            .metrics
            .connections_refused
            .add(u64::from(taken.refused));
        service.metrics.connections.add(1);
        let (service, door, stop) = (Arc::clone(&service), door.clone(), stop.clone());
        tokio::spawn(async move {
            serve(stream, from, &door, taken, stop).await;
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
    let limits = &service.settings.limits;
    let slots = Slots::new(limits.connections, limits.each());
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
        let Ok(slot) = slots.take(source, owner, false) else {
            service.metrics.connections_refused.add(1);
            continue;
        };
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

/// Answers everything with "there are too many connections".
fn refusing(message: String) -> Router {
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
            Err(response) => {
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
    /// How many more connections without a slot may wait to be closed.
    closing: Arc<Semaphore>,
}

/// A connection that has a slot.
pub(crate) struct Taken {
    user: Option<u32>,
    slot: Slot,
    routes: Router,
    /// Whether it is only told that there is no room.
    pub(crate) refused: bool,
}

impl Door {
    pub(crate) fn new(access: &Arc<Access>, settings: &Settings) -> Result<Self> {
        Ok(Self {
            access: Arc::clone(access),
            tls: access.acceptor(settings)?,
            // A server with a certificate speaks nothing but TLS.
            plain: settings.tls.is_none(),
            slots: slots(&settings.limits),
            closing: Arc::new(Semaphore::new(CLOSING_MAX)),
        })
    }

    /// Closes a connection that got no slot after a while: whoever connects again as soon as a connection is closed does so less often. If many
    /// wait already, it is closed at once.
    fn close_later(&self, stream: TcpStream) {
        if let Ok(place) = Arc::clone(&self.closing).try_acquire_owned() {
            tokio::spawn(async move {
                tokio::time::sleep(CLOSE_AFTER).await;
                drop((stream, place));
            });
        }
    }

    /// A slot for a connection; none if it is to be closed without a word.
    pub(crate) fn take(
        &self,
        stream: &TcpStream,
        from: SocketAddr,
        routes: &Router,
    ) -> Option<Taken> {
        let user = match stream.local_addr() {
            Ok(here) => esker_access::peer::user_of(from, here),
            Err(_) => None,
        };
        let source = Source::new(from.ip(), user);
        let owner = user.is_some_and(|user| self.access.is_owner(user));
        let hindered = self.access.hinders(source);
        let (slot, routes, refused) = match self.slots.take(source, owner, hindered) {
            Ok(slot) => (slot, routes.clone(), false),
            Err(Full::Told(words)) => (self.slots.refuse(source), refusing(words), true),
            Err(Full::Closed) => return None,
        };
        Some(Taken {
            user,
            slot,
            routes,
            refused,
        })
    }
}

fn slots(limits: &Limits) -> Arc<Slots> {
    Slots::new(limits.connections, limits.each())
}

/// One connection, until it ends.
pub(crate) async fn serve(
    stream: TcpStream,
    from: SocketAddr,
    door: &Door,
    taken: Taken,
    stop: watch::Receiver<Phase>,
) {
    let _ = stream.set_nodelay(true);
    let Taken {
        user, slot, routes, ..
    } = taken;
    let routes = |encrypted, exporter| From {
        routes,
        access: Arc::clone(&door.access),
        caller: Caller::remote(from, user, encrypted, exporter, slot),
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
