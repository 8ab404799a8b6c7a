//! Batches that several threads make and write.

use super::machine;
use esker_terminal::interrupt::Interrupt;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Number of items to write, and the split into batches and threads.
pub(super) struct Batches<'a> {
    pub(super) items: usize,
    /// Number of items per batch.
    pub(super) size: usize,
    pub(super) threads: usize,
    pub(super) interrupt: &'a Interrupt,
}

impl Batches<'_> {
    /// Makes and writes all batches. Returns the longest time that a thread spent in writing, in seconds, and the
    /// processor time of
    /// making the batches.
    pub(super) fn run<B>(
        &self,
        make: &(dyn Fn(Range<usize>) -> B + Sync),
        write: &(dyn Fn(B) -> esker_model::Result<()> + Sync),
    ) -> anyhow::Result<(f64, f64)> {
        let next = AtomicUsize::new(0);
        let work = || {
            let (mut wall, mut making) = (0.0, 0.0);
            loop {
                let start = next.fetch_add(self.size, Ordering::Relaxed);
                if start >= self.items {
                    return Ok((wall, making));
                }
                if self.interrupt.stopped().is_some() {
                    return Err(esker_model::Error::Interrupted);
                }
                let cpu = machine::thread_seconds();
                let batch = make(start..(start + self.size).min(self.items));
                making += machine::thread_seconds() - cpu;
                let began = Instant::now();
                write(batch)?;
                wall += began.elapsed().as_secs_f64();
            }
        };
        let spent: Vec<esker_model::Result<(f64, f64)>> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.threads).map(|_| scope.spawn(work)).collect();
            workers
                .into_iter()
                .map(|worker| {
                    worker
                        .join()
                        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                })
                .collect()
        });
        let mut total = (0.0_f64, 0.0);
        for spent in spent {
            let (wall, making) = spent?;
            total = (total.0.max(wall), total.1 + making);
        }
        Ok(total)
    }
}
