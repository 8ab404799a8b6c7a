//! A tier as a server: links for tiers and Esker's clients, HTTP for everybody, on one port.

use crate::above::{Above, Event, News, Origins, Parents, follow, register};
use crate::config::Config;
use crate::http;
use crate::node::Node;
use crate::wire::Links;
use axum::Router;
use axum::extract::ConnectInfo;
use esker_rpc::proto::site_server::SiteServer;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

/// How often a silent link is asked for a sign of life, and how long that may take.
const ALIVE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(10));
/// How long connections have to end when the tier does.
const END: Duration = Duration::from_secs(2);

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
        let listener = TcpListener::bind(&config.listen).await.map_err(at)?;
        let url = config.url(listener.local_addr()?);
        let (stop, stopped) = watch::channel(false);
        let pool = config.pool.clone().map(|pool| (config.etcd.clone(), pool));
        let asks_origins = config.services.is_some() || pool.is_none();
        let (node, origins) = if config.parents.is_empty() && asks_origins {
            if let Some((etcd, pool)) = pool {
                tokio::spawn(register(etcd, pool, url.clone(), stopped.clone()));
            }
            let (origins, news) = Origins::new(config.rules.clone());
            let node = Node::open(&config, origins.clone() as Arc<dyn Above>)?;
            tokio::spawn(tell(Arc::downgrade(&node), news));
            (node, Some(origins))
        } else {
            // Whoever asks origins for this tier gives up first.
            let patience = config.rules.settings.patience + Duration::from_secs(5);
            let (parents, events) = Parents::new(&config.name, &config.parents, patience);
            if let Some((etcd, pool)) = pool {
                tokio::spawn(follow(etcd, pool, Arc::downgrade(&parents)));
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
            stopped: stopped.clone(),
        };
        let site = SiteServer::new(links).max_decoding_message_size(64 << 20);
        let router = tonic::service::Routes::new(site)
            .into_axum_router()
            .reset_fallback()
            .merge(http::router(standing.clone()));
        tokio::spawn(accept(listener, router, stopped));
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

async fn accept(listener: TcpListener, router: Router, mut stopped: watch::Receiver<bool>) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = ended(&mut stopped) => return,
        };
        match accepted {
            Ok((stream, from)) => {
                tokio::spawn(serve(stream, from, router.clone(), stopped.clone()));
            }
            Err(error) => {
                // Out of descriptors, mostly: it passes.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn serve(
    stream: TcpStream,
    from: SocketAddr,
    router: Router,
    mut stopped: watch::Receiver<bool>,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY");
    }
    let router = router.layer(axum::Extension(ConnectInfo(from)));
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(ALIVE.0)
        .keep_alive_timeout(ALIVE.1)
        .initial_stream_window_size(4 << 20)
        .initial_connection_window_size(16 << 20);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(10));
    let service = TowerToHyperService::new(router);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => {
            if let Err(error) = ended {
                tracing::debug!(%from, %error, "a connection ended");
            }
        }
        () = ended(&mut stopped) => {
            connection.as_mut().graceful_shutdown();
            // Links never end by themselves.
            drop(tokio::time::timeout(END, connection).await);
        }
    }
}
