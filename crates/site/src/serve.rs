//! Tier as a server: links for tiers and Esker's clients, and HTTP, at one port or socket.

use crate::access::{Access, Caller, by_http, service};
use crate::config::Config;
use crate::http;
use crate::listen::{Listener, Listening, Stream};
use crate::node::Node;
use crate::upstream::{
    Event, Origins, Parents, PoolConfig, Upstream, UpstreamEvent, follow, register,
};
use crate::wire::Links;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::routing::post;
use esker_access::peer::is_own_or_root;
use esker_access::slots::{HEAD_MAX, Slot, Slots, Source};
use esker_access::tls::{self, Accepted, NotAccepted};
use esker_rpc::proto::site_server::SiteServer;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio_rustls::TlsAcceptor;

/// Interval and timeout of keep-alive probes on an idle link.
const ALIVE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(10));
/// Time for connections to end when the tier stops.
const END: Duration = Duration::from_secs(2);
/// Maximum number of concurrent requests of one connection.
const STREAMS_MAX: u32 = 1024;
/// Maximum size of the headers of one request, in bytes.
const HEADS_BYTES_MAX: u32 = 64 << 10;

/// A tier that serves clients.
pub struct RunningTier {
    /// State of the tier.
    pub node: Arc<Node>,
    /// Configuration of the tier.
    pub config: Config,
    /// Address of the tier.
    pub url: String,
    /// Start time of the tier.
    pub since: Instant,
    origins: Option<Arc<Origins>>,
    stop: watch::Sender<bool>,
}

impl RunningTier {
    /// Starts to serve, until [`RunningTier::stop`].
    pub async fn start(config: Config) -> io::Result<Arc<Self>> {
        let at = |e: io::Error| {
            io::Error::new(e.kind(), format!("listening at `{}`: {e}", config.listen))
        };
        let listener = Listener::bind(&config.listen).await.map_err(at)?;
        let listening = listener.listening()?;
        let hears_others = match &listening {
            Listening::Tcp(address) => !address.ip().to_canonical().is_loopback(),
            Listening::Unix(_) => false,
        };
        let access = Arc::new(Access::open(&config, hears_others)?);
        let tls = access.acceptor(&tls::names(&config.listen))?;
        let url = config.url(&listening);
        let (stop, stopped) = watch::channel(false);
        let pool = config.pool.clone().map(|pool| PoolConfig {
            etcd: config.etcd.clone(),
            trust: config.etcd_trust.clone(),
            pool,
        });
        let asks_origins = config.services.is_some() || pool.is_none();
        let (node, origins) = if config.parents.is_empty() && asks_origins {
            if let Some(pool_config) = pool {
                tokio::spawn(register(pool_config, url.clone(), stopped.clone()));
            }
            let (origins, events) = Origins::new(config.rules.clone());
            let node = Node::open(&config, origins.clone() as Arc<dyn Upstream>)?;
            tokio::spawn(forward_events(Arc::downgrade(&node), events));
            (node, Some(origins))
        } else {
            // The upstream tier's own timeout towards the origin is shorter.
            let patience = config.rules.settings.patience + Duration::from_secs(5);
            let keys = config.keys.clone();
            let (parents, events) = Parents::new(&config.name, &config.parents, patience, keys);
            if let Some(pool_config) = pool {
                tokio::spawn(follow(pool_config, Arc::downgrade(&parents)));
            }
            let node = Node::open(&config, parents as Arc<dyn Upstream>)?;
            tokio::spawn(forward_link_events(Arc::downgrade(&node), events));
            (node, None)
        };
        let tier = Arc::new(Self {
            node,
            config,
            url,
            since: Instant::now(),
            origins,
            stop,
        });
        let links = Links {
            node: tier.node.clone(),
            access: access.clone(),
            stopped: stopped.clone(),
        };
        let site = SiteServer::new(links).max_decoding_message_size(64 << 20);
        let proofs = access.clone();
        let router = tonic::service::Routes::new(site)
            .add_service(service(&access))
            .into_axum_router()
            .reset_fallback()
            .merge(http::router(tier.clone()))
            .route(
                "/api/v1/prove",
                post(move |request| by_http(proofs.clone(), request)),
            );
        let config = &tier.config;
        let context = ConnectionContext {
            router,
            access,
            tls,
            slots: Slots::new("tier", config.connections, config.connections_each),
        };
        tokio::spawn(accept(listener, Arc::new(context), stopped));
        Ok(tier)
    }

    /// Stops the tier: no new connections are accepted, and existing ones end soon.
    pub async fn stop(&self) {
        self.stop.send_replace(true);
        if let Some(origins) = &self.origins {
            origins.close().await;
        }
    }
}

/// Forwards notifications from origins to the tier.
pub(crate) async fn forward_events(
    node: std::sync::Weak<Node>,
    mut events: mpsc::UnboundedReceiver<UpstreamEvent>,
) {
    while let Some(event) = events.recv().await {
        let Some(node) = node.upgrade() else { return };
        node.handle_event(event);
    }
}

async fn forward_link_events(
    node: std::sync::Weak<Node>,
    mut events: mpsc::UnboundedReceiver<Event>,
) {
    while let Some(event) = events.recv().await {
        let Some(node) = node.upgrade() else { return };
        match event {
            Event::Change(origin, path, kind) => {
                if let Err(refused) = node.changed(&origin, &path, kind) {
                    tracing::warn!(%origin, %refused, "a change that cannot be");
                    node.handle_event(UpstreamEvent::SubscriptionsLost);
                }
            }
            Event::SubscriptionsLost | Event::Disconnected => {
                node.handle_event(UpstreamEvent::SubscriptionsLost);
            }
        }
    }
}

/// Completes when the tier is to stop.
pub(crate) async fn ended(stopped: &mut watch::Receiver<bool>) {
    // A dropped sender also means stop.
    drop(stopped.wait_for(|s| *s).await.map(|_| ()));
}

/// Context shared by all connections.
struct ConnectionContext {
    router: Router,
    access: Arc<Access>,
    /// TLS acceptor; `None` without TLS.
    tls: Option<TlsAcceptor>,
    slots: Arc<Slots>,
}

async fn accept(
    listener: Listener,
    context: Arc<ConnectionContext>,
    mut stopped: watch::Receiver<bool>,
) {
    loop {
        // During a flood of connections, other tasks of the thread get their turn.
        tokio::task::yield_now().await;
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = ended(&mut stopped) => return,
        };
        match accepted {
            Ok((stream, user)) => {
                let source = Source::new(stream.ip(), user);
                let own = user.is_some_and(is_own_or_root);
                let Some(slot) = context.slots.take(source, own) else {
                    tracing::debug!(%source, "a connection too many is closed");
                    context.slots.close_later(stream);
                    continue;
                };
                let (context, stopped) = (context.clone(), stopped.clone());
                tokio::spawn(async move {
                    match stream {
                        Stream::Unix(stream) => {
                            serve_connection(stream, &context, Caller::local(user, slot), stopped)
                                .await;
                        }
                        Stream::Tcp(stream, from) => {
                            serve_tcp(stream, from, user, slot, &context, stopped).await;
                        }
                    }
                });
            }
            Err(error) => {
                // Usually a temporary lack of file descriptors.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Serves a TCP connection: with TLS, if its first byte says so and the tier supports it.
async fn serve_tcp(
    stream: TcpStream,
    from: std::net::SocketAddr,
    user: Option<u32>,
    slot: Slot,
    context: &ConnectionContext,
    stopped: watch::Receiver<bool>,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY");
    }
    match tls::accept(stream, context.tls.as_ref(), true).await {
        Ok(Accepted::Plain(stream)) => {
            let caller = Caller::remote(from, user, false, None, slot);
            serve_connection(stream, context, caller, stopped).await;
        }
        Ok(Accepted::Encrypted(stream)) => {
            let exporter = tls::exporter(stream.get_ref().1);
            let caller = Caller::remote(from, user, true, exporter, slot);
            serve_connection(stream, context, caller, stopped).await;
        }
        Err(NotAccepted::Tls(error)) => tracing::warn!(%from, %error, "no agreement on TLS"),
        Err(NotAccepted::Silent) => tracing::debug!(%from, "a client said nothing in time"),
    }
}

async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    context: &ConnectionContext,
    caller: Arc<Caller>,
    mut stopped: watch::Receiver<bool>,
) {
    let (access, asks) = (context.access.clone(), caller.clone());
    let admit = move |mut request: Request<Body>, next: Next| {
        let sender = access.admit(&asks, &request);
        async move {
            match sender {
                Ok(sender) => {
                    request.extensions_mut().insert(sender);
                    next.run(request).await
                }
                Err(response) => *response,
            }
        }
    };
    let router = context.router.clone().layer(from_fn(admit));
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(ALIVE.0)
        .keep_alive_timeout(ALIVE.1)
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADS_BYTES_MAX)
        .initial_stream_window_size(4 << 20)
        .initial_connection_window_size(16 << 20);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_MAX);
    let service = TowerToHyperService::new(router);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => {
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended");
            }
        }
        () = caller.slot().overdue() => {
            tracing::debug!(peer = %caller.ip(), "a connection without access is closed");
        }
        () = ended(&mut stopped) => {
            connection.as_mut().graceful_shutdown();
            // Links never end by themselves.
            drop(tokio::time::timeout(END, connection).await);
        }
    }
}
