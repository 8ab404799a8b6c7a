//! A tier as a server: links for tiers and Esker's clients, HTTP for everybody who may ask, at one port or socket.

use crate::above::{Above, Event, Kept, News, Origins, Parents, follow, register};
use crate::access::{Access, Caller, by_http, service};
use crate::config::Config;
use crate::http;
use crate::listen::{Listener, Listening, Stream};
use crate::node::Node;
use crate::wire::Links;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::routing::post;
use esker_access::peer::is_own_or_root;
use esker_access::slots::{HEAD_MAX, Slot, Slots, Source};
use esker_access::tls::{self, Begun, NotBegun};
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

/// How often a silent link is asked for a sign of life, and how long that may take.
const ALIVE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(10));
/// How long connections have to end when the tier does.
const END: Duration = Duration::from_secs(2);
/// Requests of one connection that are under way at once.
const STREAMS_MAX: u32 = 1024;
/// Bytes of the heads of one request.
const HEADS_BYTES_MAX: u32 = 64 << 10;

/// A tier that serves.
pub struct Standing {
    /// The tier.
    pub node: Arc<Node>,
    /// How it was set up.
    pub config: Config,
    /// Where it is.
    pub url: String,
    /// Since when.
    pub since: Instant,
    origins: Option<Arc<Origins>>,
    stop: watch::Sender<bool>,
}

impl Standing {
    /// Begins to serve. It goes on until [`Standing::stop`].
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
        let pool = config.pool.clone().map(|pool| Kept {
            etcd: config.etcd.clone(),
            trust: config.etcd_trust.clone(),
            pool,
        });
        let asks_origins = config.services.is_some() || pool.is_none();
        let (node, origins) = if config.parents.is_empty() && asks_origins {
            if let Some(kept) = pool {
                tokio::spawn(register(kept, url.clone(), stopped.clone()));
            }
            let (origins, news) = Origins::new(config.rules.clone());
            let node = Node::open(&config, origins.clone() as Arc<dyn Above>)?;
            tokio::spawn(tell(Arc::downgrade(&node), news));
            (node, Some(origins))
        } else {
            // Whoever asks origins for this tier gives up first.
            let patience = config.rules.settings.patience + Duration::from_secs(5);
            let keys = config.keys.clone();
            let (parents, events) = Parents::new(&config.name, &config.parents, patience, keys);
            if let Some(kept) = pool {
                tokio::spawn(follow(kept, Arc::downgrade(&parents)));
            }
            let node = Node::open(&config, parents as Arc<dyn Above>)?;
            tokio::spawn(tell_events(Arc::downgrade(&node), events));
            (node, None)
        };
        let standing = Arc::new(Self {
            node,
            config,
            url,
            since: Instant::now(),
            origins,
            stop,
        });
        let links = Links {
            node: standing.node.clone(),
            access: access.clone(),
            stopped: stopped.clone(),
        };
        let site = SiteServer::new(links).max_decoding_message_size(64 << 20);
        let proofs = access.clone();
        let router = tonic::service::Routes::new(site)
            .add_service(service(&access))
            .into_axum_router()
            .reset_fallback()
            .merge(http::router(standing.clone()))
            .route(
                "/api/v1/prove",
                post(move |request| by_http(proofs.clone(), request)),
            );
        let config = &standing.config;
        let served = Served {
            router,
            access,
            tls,
            slots: Slots::new("tier", config.connections, config.connections_each),
        };
        tokio::spawn(accept(listener, Arc::new(served), stopped));
        Ok(standing)
    }

    /// Ends: no new connections, and those there are end soon.
    pub async fn stop(&self) {
        self.stop.send_replace(true);
        if let Some(origins) = &self.origins {
            origins.close().await;
        }
    }
}

/// Hands on what origins tell.
pub(crate) async fn tell(node: std::sync::Weak<Node>, mut news: mpsc::UnboundedReceiver<News>) {
    while let Some(news) = news.recv().await {
        let Some(node) = node.upgrade() else { return };
        node.news(news);
    }
}

async fn tell_events(node: std::sync::Weak<Node>, mut events: mpsc::UnboundedReceiver<Event>) {
    while let Some(event) = events.recv().await {
        let Some(node) = node.upgrade() else { return };
        match event {
            Event::Change(origin, path, happened) => {
                if let Err(refused) = node.changed(&origin, &path, happened) {
                    tracing::warn!(%origin, %refused, "a change that cannot be");
                    node.news(News::Cut);
                }
            }
            Event::Cut | Event::Gone => node.news(News::Cut),
        }
    }
}

/// Until the tier is to end.
pub(crate) async fn ended(stopped: &mut watch::Receiver<bool>) {
    // Whoever could say so is gone: that is an end, too.
    drop(stopped.wait_for(|s| *s).await.map(|_| ()));
}

/// What connections are served with.
struct Served {
    router: Router,
    access: Arc<Access>,
    /// None: the tier does not speak TLS.
    tls: Option<TlsAcceptor>,
    slots: Arc<Slots>,
}

async fn accept(listener: Listener, served: Arc<Served>, mut stopped: watch::Receiver<bool>) {
    loop {
        // A flood of connections is taken one by one between what else the thread does.
        tokio::task::yield_now().await;
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = ended(&mut stopped) => return,
        };
        match accepted {
            Ok((stream, user)) => {
                let source = Source::new(stream.ip(), user);
                let own = user.is_some_and(is_own_or_root);
                let Some(slot) = served.slots.take(source, own) else {
                    tracing::debug!(%source, "a connection too many is closed");
                    served.slots.close_later(stream);
                    continue;
                };
                let (served, stopped) = (served.clone(), stopped.clone());
                tokio::spawn(async move {
                    match stream {
                        Stream::Unix(stream) => {
                            talk(stream, &served, Caller::local(user, slot), stopped).await;
                        }
                        Stream::Tcp(stream, from) => {
                            begin(stream, from, user, slot, &served, stopped).await;
                        }
                    }
                });
            }
            Err(error) => {
                // Out of descriptors, mostly: it passes.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// A connection over TCP: with TLS, if it begins so and the tier speaks it.
async fn begin(
    stream: TcpStream,
    from: std::net::SocketAddr,
    user: Option<u32>,
    slot: Slot,
    served: &Served,
    stopped: watch::Receiver<bool>,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY");
    }
    match tls::begin(stream, served.tls.as_ref(), true).await {
        Ok(Begun::Plain(stream)) => {
            let caller = Caller::remote(from, user, false, None, slot);
            talk(stream, served, caller, stopped).await;
        }
        Ok(Begun::Encrypted(stream)) => {
            let exporter = tls::exporter(stream.get_ref().1);
            let caller = Caller::remote(from, user, true, exporter, slot);
            talk(stream, served, caller, stopped).await;
        }
        Err(NotBegun::Tls(error)) => tracing::warn!(%from, %error, "no agreement on TLS"),
        Err(NotBegun::Silent) => tracing::debug!(%from, "a client said nothing in time"),
    }
}

async fn talk(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    served: &Served,
    caller: Arc<Caller>,
    mut stopped: watch::Receiver<bool>,
) {
    let (access, asks) = (served.access.clone(), caller.clone());
    let admit = move |mut request: Request<Body>, next: Next| {
        let asking = access.admit(&asks, &request);
        async move {
            match asking {
                Ok(asking) => {
                    request.extensions_mut().insert(asking);
                    next.run(request).await
                }
                Err(response) => *response,
            }
        }
    };
    let router = served.router.clone().layer(from_fn(admit));
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
            tracing::debug!(peer = %caller.ip(), "a connection without a right to ask is closed");
        }
        () = ended(&mut stopped) => {
            connection.as_mut().graceful_shutdown();
            // Links never end by themselves.
            drop(tokio::time::timeout(END, connection).await);
        }
    }
}
