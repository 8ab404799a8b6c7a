//! Figures 4 and 5 of SMURF's paper: client, edge and cloud near, the origin far, no caches and no predictor. How long single
//! fetches take when the cloud has so many services, and how long many prefetches.

use super::servers::Server;
use esker_origin::Found;
use esker_site::serve::Standing;
use esker_site::{Asked, Client, Config};
use esker_site_cache::entry::Wants;
use esker_site_cache::predict::Choice;
use esker_site_cache::queue::Class;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Prefetches that a client has open at most: tiers refuse what is too much for their queues.
const OPEN_MAX: u32 = 20_000;

/// Edge and cloud, linked, and a client at the edge.
pub(crate) struct Tiers {
    cloud: Arc<Standing>,
    edge: Arc<Standing>,
    client: Client,
    origin: String,
}

impl Tiers {
    /// With so many services that have `window` requests each in flight; the paper's have one.
    pub(crate) async fn start(
        server: &Server,
        services: usize,
        window: usize,
    ) -> anyhow::Result<Self> {
        let origin = server.place.to_string();
        let mut cloud = Config {
            name: "cloud".into(),
            listen: "127.0.0.1:0".into(),
            memory_bytes: 0,
            predictor: Choice::Lru,
            running: services * window,
            services: (window == 1).then_some(services),
            ..Config::default()
        };
        cloud.rules.allow = vec![origin.clone()];
        cloud.rules.settings.connections = services;
        cloud.rules.settings.in_flight = window;
        let cloud = Standing::start(cloud).await?;
        let edge = Config {
            name: "edge".into(),
            listen: "127.0.0.1:0".into(),
            parents: vec![cloud.url.clone()],
            memory_bytes: 0,
            predictor: Choice::Lru,
            // Enough for the cloud to have something to do at any time, and little enough that none waits there for long.
            running: 2 * services * window + 64,
            ..Config::default()
        };
        let edge = Standing::start(edge).await?;
        let client = Client::connect(&edge.url, "bench").await?;
        Ok(Self {
            cloud,
            edge,
            client,
            origin,
        })
    }

    pub(crate) async fn stop(self) {
        self.edge.stop().await;
        self.cloud.stop().await;
    }

    /// Requests for the files, so many at once, each file once; each request's time.
    async fn ask(
        &self,
        server: &Arc<Server>,
        class: Class,
        files: std::ops::Range<u32>,
        at_once: u32,
    ) -> anyhow::Result<Vec<Duration>> {
        let next = Arc::new(AtomicU32::new(files.start));
        let end = files.end;
        let tasks: Vec<_> = (0..at_once.min(files.end - files.start))
            .map(|_| {
                let (client, origin) = (self.client.clone(), self.origin.clone());
                let (next, server) = (next.clone(), server.clone());
                tokio::spawn(async move {
                    let mut times = Vec::new();
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= end {
                            return anyhow::Ok(times);
                        }
                        let path = server.path(number);
                        let asked = Asked {
                            class,
                            ..Asked::new(&origin, &path, Wants::Stat)
                        };
                        let began = Instant::now();
                        let given = client.ask(asked).await?;
                        times.push(began.elapsed());
                        let present = matches!(given.found, Found::Present(_));
                        anyhow::ensure!(present, "file {number} is not there");
                    }
                })
            })
            .collect();
        let mut times = Vec::new();
        for task in tasks {
            times.extend(task.await??);
        }
        times.sort_unstable();
        Ok(times)
    }

    /// Lets the services connect.
    pub(crate) async fn warm(&self, server: &Arc<Server>, services: usize) -> anyhow::Result<()> {
        let began = Instant::now();
        let mut stand = 0;
        while stand < services && began.elapsed() < Duration::from_secs(30) {
            let wide = services as u32 * 2;
            self.ask(server, Class::Fetch, 0..wide * 4, wide).await?;
            let status = self.cloud.node.above().status();
            let connections = &status["origins"][0]["connections"];
            stand = connections.as_u64().unwrap_or(0) as usize;
        }
        Ok(())
    }

    /// Figure 4: times of single fetches, ascending, with so many asked for at once.
    pub(crate) async fn fetch(
        &self,
        server: &Arc<Server>,
        count: u32,
        at_once: u32,
    ) -> anyhow::Result<Vec<Duration>> {
        self.ask(server, Class::Fetch, 0..count, at_once).await
    }

    /// Figure 5: how long so many prefetches take altogether.
    pub(crate) async fn prefetch(
        &self,
        server: &Arc<Server>,
        count: u32,
    ) -> anyhow::Result<Duration> {
        let began = Instant::now();
        self.ask(server, Class::Prefetch(4), 0..count, OPEN_MAX)
            .await?;
        Ok(began.elapsed())
    }
}
