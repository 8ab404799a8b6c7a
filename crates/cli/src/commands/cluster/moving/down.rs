//! `esker cluster down`, where stores move: what `up` and `add` have started on this machine.

use super::super::{failed, keeper};
use super::process::stop;
use crate::context::Context;
use crate::exit::Outcome;
use esker_server::ClusterConfig;
use esker_server::member::Look;
use std::time::{Duration, Instant};

/// What stopping may take beyond the servers' drain time.
const STOP_MAX: Duration = Duration::from_secs(40);

/// Whether a process is a server of a cluster.
fn serves(pid: u32) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<&[u8]> = line.split(|b| *b == 0).collect();
    words.contains(&&b"cluster"[..]) && words.contains(&&b"server"[..])
}

pub(in super::super) fn run(
    config: &ClusterConfig,
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let keeper = keeper(config);
    // Whoever was added is no child of the keeper; without etcd nobody knows of them.
    let members = Look::at(config).and_then(|look| Ok(look.now()?.0));
    let members = members.unwrap_or_default();
    let here = members
        .iter()
        .filter(|m| m.host == host.trim() && serves(m.pid));
    let pids: Vec<u32> = here.map(|m| m.pid).collect();
    if keeper.is_none() && pids.is_empty() {
        context.note(&format!(
            "cluster `{}` is down already, or was not started on this machine",
            config.name
        ));
        return Ok(Outcome::Done);
    }
    let until = Instant::now() + config.settings.drain + STOP_MAX;
    // Those that were added first, while etcd is there still.
    if let Some(keeper) = keeper {
        pids.iter()
            .filter(|pid| parent(**pid) != Some(keeper))
            .for_each(|pid| stop(*pid));
        let gone = |pid: &u32| parent(*pid) == Some(keeper) || !serves(*pid);
        wait(until, || pids.iter().all(gone))?;
        stop(keeper);
        wait(until, || {
            super::super::keeper(config).is_none() && pids.iter().all(|pid| !serves(*pid))
        })?;
    } else {
        pids.iter().for_each(|pid| stop(*pid));
        wait(until, || pids.iter().all(|pid| !serves(*pid)))?;
    }
    context.note(&format!("cluster `{}` is down", config.name));
    Ok(Outcome::Done)
}

fn parent(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("PPid:"))?;
    line.trim().parse().ok()
}

fn wait(until: Instant, done: impl Fn() -> bool) -> anyhow::Result<()> {
    while !done() {
        if Instant::now() >= until {
            return Err(failed(
                "stopping the cluster",
                std::io::Error::other(
                    "its servers were told to stop and run still: they may have much to finish",
                ),
            ));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
