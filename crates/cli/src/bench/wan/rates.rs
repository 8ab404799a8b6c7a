//! How many stats a second a server answers over so many connections, with so many in flight.

use super::servers::Server;
use esker_origin::{Found, Pool, Question, Settings};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Connections, and questions in flight on each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) connections: usize,
    pub(crate) in_flight: usize,
}

impl Load {
    /// What the round trip allows.
    pub(crate) fn limit(self, round_trip: Duration) -> f64 {
        (self.connections * self.in_flight) as f64 / round_trip.as_secs_f64()
    }
}

/// What came out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate {
    /// Stats a second.
    pub(crate) each_second: f64,
    /// Connections that stood.
    pub(crate) connections: usize,
    /// Questions that had to be asked again.
    pub(crate) again: u64,
}

/// How long connections may take to come about before it is measured with those that stand.
const READY: Duration = Duration::from_secs(20);
/// Then answers come for a while that are not counted.
const WARM: Duration = Duration::from_millis(500);

/// Asks for `time`, as fast as it goes.
pub(crate) async fn rate(
    server: &Server,
    files: u32,
    load: Load,
    time: Duration,
) -> anyhow::Result<Rate> {
    let settings = Settings {
        connections: load.connections,
        in_flight: load.in_flight,
        ..Settings::default()
    };
    let pool = Pool::new(server.connect(), settings);
    let found = pool.ask(Question::stat(&server.path(0))).await?;
    anyhow::ensure!(
        matches!(found, Found::Present(_)),
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
                    match pool.ask(Question::stat(path)).await? {
                        Found::Present(_) => answered.fetch_add(1, Ordering::Relaxed),
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
        again: report.again,
    })
}
