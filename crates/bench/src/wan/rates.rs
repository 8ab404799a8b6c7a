//! Stats per second of a server, by the number of connections and requests in flight.

use super::servers::Server;
use esker_origin::{MetadataRequest, PathMetadata, Pool, Settings};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Connections, and requests in flight on each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Concurrency {
    pub(crate) connections: usize,
    pub(crate) in_flight: usize,
}

impl Concurrency {
    /// The maximum rate for a round-trip time.
    pub(crate) fn limit(self, round_trip: Duration) -> f64 {
        (self.connections * self.in_flight) as f64 / round_trip.as_secs_f64()
    }
}

/// The result of a rate measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate {
    /// Number of stats per second.
    pub(crate) each_second: f64,
    /// Number of open connections.
    pub(crate) connections: usize,
    /// Number of retried requests.
    pub(crate) retries: u64,
}

/// Time limit for connecting, after which the open connections are measured.
const READY: Duration = Duration::from_secs(20);
/// Time for warming up, which is not measured.
const WARM: Duration = Duration::from_millis(500);

/// Sends requests for `time` as fast as possible.
pub(crate) async fn rate(
    server: &Server,
    files: u32,
    load: Concurrency,
    time: Duration,
) -> anyhow::Result<Rate> {
    let settings = Settings {
        connections: load.connections,
        in_flight: load.in_flight,
        ..Settings::default()
    };
    let pool = Pool::new(server.connect(), settings);
    let found = pool.request(MetadataRequest::stat(&server.path(0))).await?;
    anyhow::ensure!(
        matches!(found, PathMetadata::Present(_)),
        "{} does not see the files",
        server.kind.name()
    );
    let answered = Arc::new(AtomicU64::new(0));
    let over = Arc::new(AtomicBool::new(false));
    let workers = load.connections * load.in_flight;
    let tasks: Vec<_> = (0..workers as u32)
        .map(|worker| {
            let (pool, answered, over) = (pool.clone(), answered.clone(), over.clone());
            let paths: Vec<_> = (0..64)
                .map(|i| server.path((worker * 64 + i).wrapping_mul(7919) % files))
                .collect();
            tokio::spawn(async move {
                for path in paths.iter().cycle() {
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                    match pool.request(MetadataRequest::stat(path)).await? {
                        PathMetadata::Present(_) => answered.fetch_add(1, Ordering::Relaxed),
                        other => anyhow::bail!("a file is {other:?}"),
                    };
                }
                Ok(())
            })
        })
        .collect();
    let began = Instant::now();
    while pool.report().connections < load.connections && began.elapsed() < READY {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(WARM).await;
    let (from, began) = (answered.load(Ordering::Relaxed), Instant::now());
    tokio::time::sleep(time).await;
    let (count, took) = (answered.load(Ordering::Relaxed) - from, began.elapsed());
    let report = pool.report();
    over.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await??;
    }
    pool.close().await;
    Ok(Rate {
        each_second: count as f64 / took.as_secs_f64(),
        connections: report.connections,
        retries: report.retries,
    })
}
