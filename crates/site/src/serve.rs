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
use esker_access::tls::{FIRST_BYTE, exporter};
use esker_rpc::proto::site_server::SiteServer;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio_rustls::TlsAcceptor;

/// How often a silent link is asked for a sign of life, and how long that may take.
const ALIVE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(10));
/// How long connections have to end when the tier does.
const END: Duration = Duration::from_secs(2);
/// How long a client may take to begin, to agree on TLS, and for the head of a request.
const HEAD_MAX: Duration = Duration::from_secs(10);
/// How long a connection lasts on which nobody has shown that they may ask.
const UNKNOWN_MAX: Duration = Duration::from_secs(30);
/// Connections that only the owner's processes get.
const OWN_CONNECTIONS: usize = 16;
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
        let tls = access.acceptor(&esker_access::tls::names(&config.listen))?;
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
        let connections = standing.config.connections;
        let served = Served {
            router,
            access,
            tls,
            all: Arc::new(Semaphore::new(connections + OWN_CONNECTIONS)),
            others: Arc::new(Semaphore::new(connections)),
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
    /// Places for connections, and those of them that others than the owner get.
    all: Arc<Semaphore>,
    others: Arc<Semaphore>,
}

/// A connection's places, for as long as it lasts.
struct Places {
    _one: OwnedSemaphorePermit,
    _of_others: Option<OwnedSemaphorePermit>,
}

impl Served {
    /// Places for a connection, if there are any: others than the owner leave some of them free.
    fn places(&self, own: bool) -> Option<Places> {
        let of_others = if own {
            None
        } else {
            Some(self.others.clone().try_acquire_owned().ok()?)
        };
        Some(Places {
            _one: self.all.clone().try_acquire_owned().ok()?,
            _of_others: of_others,
        })
    }
}

async fn accept(listener: Listener, served: Arc<Served>, mut stopped: watch::Receiver<bool>) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = ended(&mut stopped) => return,
        };
        match accepted {
            Ok((stream, user)) => {
                let own = user.is_some_and(is_own_or_root);
                let Some(places) = served.places(own) else {
                    tracing::warn!(user, "a connection too many is closed");
                    continue;
                };
                let (served, stopped) = (served.clone(), stopped.clone());
                tokio::spawn(async move {
                    match stream {
                        Stream::Unix(stream) => {
                            talk(stream, &served, Caller::local(user), own, stopped).await;
                        }
                        Stream::Tcp(stream, from) => {
                            begin(stream, from, user, own, &served, stopped).await;
                        }
                    }
                    drop(places);
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

/// What a connection begins with.
async fn first_byte(stream: &TcpStream) -> Option<u8> {
    let mut byte = [0; 1];
    match stream.peek(&mut byte).await {
        Ok(1) => Some(byte[0]),
        _ => None,
    }
}

/// A connection over TCP: with TLS, if it begins so and the tier speaks it.
async fn begin(
    stream: TcpStream,
    from: std::net::SocketAddr,
    user: Option<u32>,
    own: bool,
    served: &Served,
    stopped: watch::Receiver<bool>,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY");
    }
    // A process of the owner's may wait with its first word.
    let first = if own {
        first_byte(&stream).await
    } else {
        let first = tokio::time::timeout(HEAD_MAX, first_byte(&stream)).await;
        first.ok().flatten()
    };
    match (first, &served.tls) {
        (None, _) => {}
        (Some(FIRST_BYTE), Some(tls)) => {
            match tokio::time::timeout(HEAD_MAX, tls.accept(stream)).await {
                Ok(Ok(stream)) => {
                    let exporter = exporter(stream.get_ref().1);
                    let caller = Caller::remote(from, user, true, exporter);
                    talk(stream, served, caller, own, stopped).await;
                }
                Ok(Err(error)) => tracing::warn!(%from, %error, "no agreement on TLS"),
                Err(_) => tracing::debug!(%from, "no agreement on TLS in time"),
            }
        }
        _ => {
            let caller = Caller::remote(from, user, false, None);
            talk(stream, served, caller, own, stopped).await;
        }
    }
}

async fn talk(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    served: &Served,
    caller: Arc<Caller>,
    own: bool,
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
    let unknown = async {
        if own {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(UNKNOWN_MAX).await;
        if caller.is_known() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        ended = connection.as_mut() => {
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended");
            }
        }
        () = unknown => {
            tracing::debug!(peer = %caller.ip(), "a connection without a right to ask is closed");
        }
        () = ended(&mut stopped) => {
            connection.as_mut().graceful_shutdown();
            // Links never end by themselves.
            drop(tokio::time::timeout(END, connection).await);
        }
    }
}
