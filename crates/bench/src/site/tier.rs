//! Stat requests per second that a tier on this machine answers from its cache, over links and over HTTP. Client and
//! server share the
//! processors.

use anyhow::Context as _;
use esker_origin::PathMetadata;
use esker_site::serve::RunningTier;
use esker_site::{Client, Config, MetadataQuery};
use esker_site_cache::entry::Wants;
use esker_site_cache::predict::PredictorKind;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// Number of requested files.
const FILES: usize = 10_000;
/// Time for warming up, which is not measured.
const WARM: Duration = Duration::from_millis(500);
/// The origin: folders of this machine have no host.
const ORIGIN: &str = "file://";

/// A tier with all files in its cache.
pub(crate) struct WarmTier {
    tier: Arc<RunningTier>,
    paths: Arc<Vec<Vec<u8>>>,
}

impl WarmTier {
    /// Creates files in a folder, starts a tier and fills its cache.
    pub(crate) async fn start(folder: &Path) -> anyhow::Result<Self> {
        let mut paths = Vec::with_capacity(FILES);
        for number in 0..FILES {
            let above = folder.join(format!("run{:03}", number / 100));
            if number % 100 == 0 {
                fs::create_dir_all(&above)?;
            }
            let path = above.join(format!("part-{number:06}.h5"));
            fs::write(&path, b"")?;
            paths.push(
                path.to_str()
                    .context("a folder with a name in UTF-8")?
                    .into(),
            );
        }
        let long = Duration::from_hours(1);
        let mut config = Config {
            listen: "127.0.0.1:0".into(),
            predictor: PredictorKind::Lru,
            ttl: long,
            ttl_most: long,
            ..Config::default()
        };
        config.rules.allow = vec![ORIGIN.into()];
        let tier = RunningTier::start(config).await?;
        let warm = Self {
            tier,
            paths: Arc::new(paths),
        };
        let client = Client::connect(&warm.tier.url, "bench").await?;
        for path in warm.paths.iter() {
            let given = client
                .query(MetadataQuery::new(ORIGIN, path, Wants::Stat))
                .await?;
            anyhow::ensure!(
                matches!(given.found, PathMetadata::Present(_)),
                "a file is not there"
            );
        }
        Ok(warm)
    }

    pub(crate) async fn stop(self) {
        self.tier.stop().await;
    }

    /// Returns the rate over `links` links with `in_flight` requests each.
    pub(crate) async fn links(
        &self,
        links: usize,
        in_flight: usize,
        time: Duration,
    ) -> anyhow::Result<f64> {
        let mut tasks = Vec::new();
        let counter = Counter::new(time);
        for _ in 0..links {
            let client = Client::connect(&self.tier.url, "bench").await?;
            for worker in 0..in_flight {
                let (client, paths, counter) =
                    (client.clone(), self.paths.clone(), counter.clone());
                tasks.push(tokio::spawn(async move {
                    let mut at = worker * 7919;
                    while counter.goes_on() {
                        at += 1;
                        let path = &paths[at % paths.len()];
                        let given = client
                            .query(MetadataQuery::new(ORIGIN, path, Wants::Stat))
                            .await?;
                        anyhow::ensure!(given.hit, "a question that was no hit");
                        counter.count();
                    }
                    Ok(())
                }));
            }
        }
        for task in tasks {
            task.await??;
        }
        Ok(counter.rate())
    }

    /// Returns the rate over `connections` persistent connections with one request in flight each.
    pub(crate) async fn http(&self, connections: usize, time: Duration) -> anyhow::Result<f64> {
        let at = self.tier.url.trim_start_matches("http://").to_owned();
        let counter = Counter::new(time);
        let tasks: Vec<_> = (0..connections)
            .map(|worker| {
                let (at, paths, counter) = (at.clone(), self.paths.clone(), counter.clone());
                tokio::spawn(async move {
                    let stream = TcpStream::connect(&at).await?;
                    stream.set_nodelay(true)?;
                    let mut stream = BufReader::new(stream);
                    let mut number = worker * 7919;
                    while counter.goes_on() {
                        number += 1;
                        let path = String::from_utf8_lossy(&paths[number % paths.len()]);
                        let request = format!(
                            "GET /v1/stat?origin={ORIGIN}&path={path} HTTP/1.1\r\nhost: {at}\r\n\r\n"
                        );
                        stream.write_all(request.as_bytes()).await?;
                        response(&mut stream).await?;
                        counter.count();
                    }
                    anyhow::Ok(())
                })
            })
            .collect();
        for task in tasks {
            task.await??;
        }
        Ok(counter.rate())
    }
}

/// Reads and discards one response.
async fn response(stream: &mut BufReader<TcpStream>) -> anyhow::Result<()> {
    let mut length = 0;
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    anyhow::ensure!(line.starts_with("HTTP/1.1 200"), "the tier says {line:?}");
    while line != "\r\n" {
        line.clear();
        let read = stream.read_line(&mut line).await?;
        anyhow::ensure!(read > 0, "an answer ends in its head");
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(())
}

/// Counts responses between the end of warming up and the end.
#[derive(Clone)]
struct Counter {
    from: Instant,
    until: Instant,
    count: Arc<AtomicU64>,
}

impl Counter {
    fn new(time: Duration) -> Self {
        let from = Instant::now() + WARM;
        Self {
            from,
            until: from + time,
            count: Arc::default(),
        }
    }

    fn goes_on(&self) -> bool {
        Instant::now() < self.until
    }

    fn count(&self) {
        let now = Instant::now();
        if now >= self.from && now < self.until {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn rate(&self) -> f64 {
        let time = self.until - self.from;
        self.count.load(Ordering::Relaxed) as f64 / time.as_secs_f64()
    }
}
