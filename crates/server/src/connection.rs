//! Connections from their acceptance to their end.

use crate::access::table::route_of;
use crate::access::{Access, Admitted, Caller, Requester};
use crate::audit::{HttpRecord, with_request_id};
use crate::http::is_grpc;
use crate::limits::STREAMS_MAX;
use crate::security_headers::with_security_headers;
use crate::settings::{Limits, Settings};
use crate::spans;
use crate::work::CLIENT;
use axum::Router;
use axum::body::Body;
use esker_access::slots::{HEAD_MAX, Slot, Slots, Source};
use esker_access::tls::{self, Accepted, NotAccepted};
use esker_audit::Subject;
use esker_model::Result;
use esker_rpc::limits::{
    CONNECTION_WINDOW_BYTES, HTTP2_FRAME_BYTES, KEEP_ALIVE, STREAM_WINDOW_BYTES,
};
use esker_telemetry::Span;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
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

/// Waits until a stop has reached a phase, or the server is gone.
pub(crate) async fn wait_for_phase(stop: &mut watch::Receiver<Phase>, phase: Phase) {
    let _ = stop.wait_for(|reached| *reached >= phase).await;
}

/// The response to a request, which is being made.
type Answering =
    Pin<Box<dyn Future<Output = std::result::Result<http::Response<Body>, Infallible>> + Send>>;

/// Routes of one connection: each request gets its caller as an extension and is refused if the caller may not make it.
#[derive(Clone)]
pub(crate) struct ConnectionRoutes {
    pub(crate) routes: Router,
    pub(crate) access: Arc<Access>,
    pub(crate) caller: Arc<Caller>,
}

impl Service<http::Request<Incoming>> for ConnectionRoutes {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<std::result::Result<(), Infallible>> {
        <Router as Service<http::Request<Incoming>>>::poll_ready(&mut self.routes, context)
    }

    fn call(&mut self, request: http::Request<Incoming>) -> Self::Future {
        let mut requester = Requester::of(&self.access, &self.caller, &request);
        let Some(checking) = requester.check_login(&self.access) else {
            return self.answer(requester, request);
        };
        let mut routes = self.clone();
        Box::pin(async move {
            requester.set_login(checking.await);
            routes.answer(requester, request).await
        })
    }
}

impl ConnectionRoutes {
    /// Answers a request, or refuses it if its sender may not make it.
    fn answer(&mut self, requester: Requester, mut request: http::Request<Incoming>) -> Answering {
        let admitted = match self.access.admit_request(&requester, &request) {
            Ok(admitted) => admitted,
            Err(mut response) => {
                // HTTP/2 rejects an answer to HEAD that has a body.
                if request.method() == http::Method::HEAD {
                    *response.body_mut() = Body::empty();
                }
                let response = with_security_headers(response);
                let response = if is_grpc(&request) {
                    response
                } else {
                    with_request_id(response, requester.request)
                };
                return Box::pin(std::future::ready(Ok(response)));
            }
        };
        let number = (!is_grpc(&request)).then_some(requester.request);
        let record = match self.record(&request, &requester, &admitted) {
            Ok(record) => record,
            Err(response) => return Box::pin(std::future::ready(Ok(response))),
        };
        let client = self.access.client_of(&requester, &admitted);
        let span = self.span_of(&request);
        request.extensions_mut().insert(requester);
        request.extensions_mut().insert(admitted.bound());
        request.extensions_mut().insert(admitted);
        let answering = CLIENT.scope(client, self.routes.call(request));
        let answering = esker_telemetry::scope(span.clone(), answering);
        Box::pin(async move {
            let mut response = answering.await.map(with_security_headers)?;
            if let Some(record) = record {
                record.answered(&response);
            }
            if let Some(number) = number {
                response = with_request_id(response, number);
            }
            Ok(spans::answered(span, response))
        })
    }

    /// Begins the record of an admitted request, or refuses it because the audit log takes no more. Calls of gRPC have records of their
    /// own.
    #[expect(
        clippy::result_large_err,
        reason = "the refusal is the response that is sent"
    )]
    fn record<B>(
        &self,
        request: &http::Request<B>,
        requester: &Requester,
        admitted: &Admitted,
    ) -> std::result::Result<Option<HttpRecord>, http::Response<Body>> {
        let audit = self.access.audit();
        if !audit.is_on() || is_grpc(request) {
            return Ok(None);
        }
        let Some(route) = route_of(request.method().as_str(), request.uri().path()) else {
            return Ok(None);
        };
        if audit.wants(route.1)
            && let Some(full) = audit.refusal()
        {
            let response = crate::http::failed(&full);
            let response = with_security_headers(response);
            return Err(with_request_id(response, requester.request));
        }
        let sender = (
            requester.clone(),
            Arc::clone(&self.access),
            admitted.clone(),
        );
        let subject: Box<dyn Fn() -> Arc<Subject> + Send> = Box::new(move || {
            let (requester, access, admitted) = &sender;
            requester.subject(access, admitted)
        });
        let sender = (subject, requester.request, Arc::clone(&requester.note));
        let target = (request.method(), request.uri());
        Ok(Some(HttpRecord::begin(audit, sender, target, route)))
    }

    /// Begins the span of an admitted request, if it is traced. Calls of gRPC have spans of their own.
    fn span_of<B>(&self, request: &http::Request<B>) -> Option<Span> {
        if !esker_telemetry::is_on() || is_grpc(request) {
            return None;
        }
        let route = route_of(request.method().as_str(), request.uri().path())?;
        spans::of_request(request, route, self.caller.encrypted())
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

pub(crate) fn slots(limits: &Limits) -> Arc<Slots> {
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

pub(crate) async fn serve_http(
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
