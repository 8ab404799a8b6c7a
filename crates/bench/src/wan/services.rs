//! Figures 4 and 5 of SMURF's paper: client, edge and cloud nearby, the origin remote, without caches and predictor. Measures the
//! latency of single fetches by the cloud's services, and the time of many prefetches.

use super::servers::Server;
use esker_origin::PathMetadata;
use esker_site::serve::RunningTier;
use esker_site::{Client, Config, MetadataQuery};
use esker_site_cache::entry::Wants;
use esker_site_cache::predict::PredictorKind;
use esker_site_cache::queue::Class;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Maximum number of open prefetches of a client: tiers refuse requests beyond their queues' capacity.
const OPEN_MAX: u32 = 20_000;

/// Edge and cloud, linked, and a client of the edge.
pub(crate) struct Tiers {
    cloud: Arc<RunningTier>,
    edge: Arc<RunningTier>,
    client: Client,
    origin: String,
}

impl Tiers {
    /// Starts the tiers with `services` services of `window` requests in flight each; 1 in the paper.
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
            predictor: PredictorKind::Lru,
            running: services * window,
            services: (window == 1).then_some(services),
            ..Config::default()
        };
        cloud.rules.allow = vec![origin.clone()];
        cloud.rules.settings.connections = services;
        cloud.rules.settings.in_flight = window;
        let cloud = RunningTier::start(cloud).await?;
        let edge = Config {
            name: "edge".into(),
            listen: "127.0.0.1:0".into(),
            parents: vec![cloud.url.clone()],
            memory_bytes: 0,
            predictor: PredictorKind::Lru,
            // Enough to keep the cloud busy, and few enough that none waits there for long.
            running: 2 * services * window + 64,
            ..Config::default()
        };
        let edge = RunningTier::start(edge).await?;
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

    /// Requests each file once, `at_once` concurrently; returns each request's latency.
    async fn request_all(
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
                        let asked = MetadataQuery {
                            class,
                            ..MetadataQuery::new(&origin, &path, Wants::Stat)
                        };
                        let began = Instant::now();
                        let given = client.query(asked).await?;
                        times.push(began.elapsed());
                        let present = matches!(given.found, PathMetadata::Present(_));
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

    /// Waits until the services have connected.
    pub(crate) async fn warm(&self, server: &Arc<Server>, services: usize) -> anyhow::Result<()> {
        let began = Instant::now();
        let mut connected = 0;
        while connected < services && began.elapsed() < Duration::from_secs(30) {
            let wide = services as u32 * 2;
            self.request_all(server, Class::Fetch, 0..wide * 4, wide)
                .await?;
            let status = self.cloud.node.upstream().status();
            let connections = &status["origins"][0]["connections"];
            connected = connections.as_u64().unwrap_or(0) as usize;
        }
        Ok(())
    }

    /// Figure 4: ascending latencies of single fetches, `at_once` concurrently.
    pub(crate) async fn fetch(
        &self,
        server: &Arc<Server>,
        count: u32,
        at_once: u32,
    ) -> anyhow::Result<Vec<Duration>> {
        self.request_all(server, Class::Fetch, 0..count, at_once)
            .await
    }

    /// Figure 5: total time of `count` prefetches.
    pub(crate) async fn prefetch(
        &self,
        server: &Arc<Server>,
        count: u32,
    ) -> anyhow::Result<Duration> {
        let began = Instant::now();
        self.request_all(server, Class::Prefetch(4), 0..count, OPEN_MAX)
            .await?;
        Ok(began.elapsed())
    }
}
