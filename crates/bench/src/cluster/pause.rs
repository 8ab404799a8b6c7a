//! Pauses of processes, as by jobs that share a machine with servers.

use crate::random::Random;
use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Pauses or continues a process.
pub(super) fn pause_process(pid: u32, paused: bool) -> anyhow::Result<()> {
    let signal = if paused { Signal::STOP } else { Signal::CONT };
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let raw = raw.with_context(|| format!("there is no process {pid}"))?;
    kill_process(raw, signal).with_context(|| format!("pausing process {pid}"))
}

/// Runs `work` while one of the processes after the other, chosen at random, is paused for `pause` each (GraphTrek's
/// stragglers). Pauses nothing if there is no `pause`.
pub(super) fn with_stragglers<T>(
    pids: &[u32],
    pause: Option<Duration>,
    seed: u64,
    work: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let Some(pause) = pause else { return work() };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stragglers = scope.spawn(|| {
            let mut random = Random::new(seed);
            while !over.load(Ordering::Acquire) {
                let chosen = random.next_below(pids.len().max(1) as u64);
                let Some(pid) = pids.get(chosen as usize) else {
                    break;
                };
                pause_process(*pid, true)?;
                std::thread::sleep(pause);
                pause_process(*pid, false)?;
            }
            anyhow::Ok(())
        });
        let done = work();
        over.store(true, Ordering::Release);
        match stragglers.join() {
            Ok(paused) => paused?,
            Err(_) => anyhow::bail!("the thread that pauses servers has panicked"),
        }
        done
    })
}
