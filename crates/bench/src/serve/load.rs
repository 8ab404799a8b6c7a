//! Operations distributed over threads, each with several in flight, and their latencies.

use super::{Window, own_cpu};
use std::sync::Barrier;
use std::time::Instant;

/// The operations of each thread.
pub(crate) struct OperationLoad<B> {
    pub(crate) parts: Vec<Vec<B>>,
    pub(crate) window: usize,
}

/// Latencies in microseconds, then seconds: wall time, processor time of this process, and of the server.
type OperationTimes = esker_model::Result<(Vec<u32>, f64, f64, f64)>;

/// The measurements of one round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RoundResult {
    /// Seconds from the common start of all threads to the end of the last one.
    pub(crate) wall: f64,
    /// Median latency in microseconds.
    pub(crate) p50: f64,
    /// 99th percentile of the latency in microseconds.
    pub(crate) p99: f64,
    /// Processor time of this process, in seconds.
    pub(crate) client_cpu: f64,
    /// Processor time of the server, in seconds.
    pub(crate) server_cpu: f64,
}

impl<B: Send> OperationLoad<B> {
    /// Runs the operations; `begin` gets the thread's number.
    pub(crate) fn run<T>(
        self,
        begin: &(dyn Fn(usize, B) -> esker_model::Result<T> + Sync),
        finish: &(dyn Fn(T) -> esker_model::Result<()> + Sync),
        server_cpu: impl Fn() -> f64,
    ) -> anyhow::Result<RoundResult> {
        let barrier = Barrier::new(self.parts.len() + 1);
        let window = self.window;
        let (mut latencies, wall, own, server) = std::thread::scope(|scope| -> OperationTimes {
            let workers: Vec<_> = self
                .parts
                .into_iter()
                .enumerate()
                .map(|(thread, part)| {
                    let barrier = &barrier;
                    scope.spawn(move || {
                        barrier.wait();
                        work(thread, part, window, begin, finish)
                    })
                })
                .collect();
            barrier.wait();
            let (began, own, server) = (Instant::now(), own_cpu(), server_cpu());
            let mut latencies = Vec::new();
            for worker in workers {
                let done = worker
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                latencies.extend(done?);
            }
            let wall = began.elapsed().as_secs_f64();
            Ok((latencies, wall, own_cpu() - own, server_cpu() - server))
        })?;
        latencies.sort_unstable();
        let at = |part: f64| {
            let index = (latencies.len() as f64 * part) as usize;
            f64::from(latencies.get(index).copied().unwrap_or(0))
        };
        Ok(RoundResult {
            wall,
            p50: at(0.5),
            p99: at(0.99),
            client_cpu: own,
            server_cpu: server,
        })
    }
}

/// Runs one thread's part; returns the latencies in microseconds.
fn work<B, T>(
    thread: usize,
    part: Vec<B>,
    window: usize,
    begin: &(dyn Fn(usize, B) -> esker_model::Result<T> + Sync),
    finish: &(dyn Fn(T) -> esker_model::Result<()> + Sync),
) -> esker_model::Result<Vec<u32>> {
    let mut latencies = Vec::with_capacity(part.len());
    let mut open: Window<T> = Window::new();
    let mut end = |open: &mut Window<T>| -> esker_model::Result<()> {
        if let Some((began, operation)) = open.pop_front() {
            finish(operation)?;
            latencies.push(u32::try_from(began.elapsed().as_micros()).unwrap_or(u32::MAX));
        }
        Ok(())
    };
    for item in part {
        if open.len() >= window {
            end(&mut open)?;
        }
        open.push_back((Instant::now(), begin(thread, item)?));
    }
    while !open.is_empty() {
        end(&mut open)?;
    }
    Ok(latencies)
}
