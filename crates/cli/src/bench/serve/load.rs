//! Work dealt out to threads, each with so many operations in flight, and how long each of them took.

use super::{Window, own_cpu};
use std::sync::Barrier;
use std::time::Instant;

/// What each thread is to do.
pub(in crate::bench) struct Load<B> {
    pub(in crate::bench) parts: Vec<Vec<B>>,
    pub(in crate::bench) window: usize,
}

/// Microseconds of each operation, then seconds: of the wall, of this process, of the server.
type Spent = esker_model::Result<(Vec<u32>, f64, f64, f64)>;

/// What one round took.
#[derive(Debug, Clone, Copy)]
pub(in crate::bench) struct Measured {
    /// Seconds from when all threads begin to when the last one ends.
    pub(in crate::bench) wall: f64,
    /// Microseconds from sending to the answer, in the middle and for all but one of a hundred.
    pub(in crate::bench) p50: f64,
    pub(in crate::bench) p99: f64,
    /// Processor time of this process.
    pub(in crate::bench) client_cpu: f64,
    /// Of the server's.
    pub(in crate::bench) server_cpu: f64,
}

impl<B: Send> Load<B> {
    /// Does it. `begin` is given the thread's number.
    pub(in crate::bench) fn run<T>(
        self,
        begin: &(dyn Fn(usize, B) -> esker_model::Result<T> + Sync),
        finish: &(dyn Fn(T) -> esker_model::Result<()> + Sync),
        server_cpu: impl Fn() -> f64,
    ) -> anyhow::Result<Measured> {
        let barrier = Barrier::new(self.parts.len() + 1);
        let window = self.window;
        let (mut latencies, wall, own, server) = std::thread::scope(|scope| -> Spent {
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
        Ok(Measured {
            wall,
            p50: at(0.5),
            p99: at(0.99),
            client_cpu: own,
            server_cpu: server,
        })
    }
}

/// One thread's part; the microseconds that each operation took.
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
