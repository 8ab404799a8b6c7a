//! Stats a second that a tier on this machine answers out of its cache, over links and over HTTP. Asking and answering share the
//! processors.

use anyhow::Context as _;
use esker_origin::Found;
use esker_site::serve::Standing;
use esker_site::{Asked, Client, Config};
use esker_site_cache::entry::Wants;
use esker_site_cache::predict::Choice;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// Files that are asked about.
const FILES: usize = 10_000;
/// Answers come for a while that are not counted.
const WARM: Duration = Duration::from_millis(500);
/// What is asked, since folders of this machine have no host.
const ORIGIN: &str = "file://";

/// A tier with everything in its cache.
pub(crate) struct Warm {
    tier: Arc<Standing>,
    paths: Arc<Vec<Vec<u8>>>,
}

impl Warm {
    /// Makes files in a folder, starts a tier and lets it learn of them.
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
            predictor: Choice::Lru,
            ttl: long,
            ttl_most: long,
            ..Config::default()
        };
        config.rules.allow = vec![ORIGIN.into()];
        let tier = Standing::start(config).await?;
        let warm = Self {
            tier,
            paths: Arc::new(paths),
        };
        let client = Client::connect(&warm.tier.url, "bench").await?;
        for path in warm.paths.iter() {
            let given = client.ask(Asked::new(ORIGIN, path, Wants::Stat)).await?;
            anyhow::ensure!(
                matches!(given.found, Found::Present(_)),
                "a file is not there"
            );
        }
        Ok(warm)
    }

    pub(crate) async fn stop(self) {
        self.tier.stop().await;
    }

    /// Over so many links with so many questions in flight on each.
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
                        let given = client.ask(Asked::new(ORIGIN, path, Wants::Stat)).await?;
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

    /// Over so many connections that are kept, with one request at a time on each.
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

/// Reads one answer and throws it away.
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

/// Counts what comes between the warming and the end.
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
