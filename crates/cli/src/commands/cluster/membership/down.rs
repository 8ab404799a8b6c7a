//! `esker cluster down` of a cluster whose servers move: stops the members that `up` and `add` have started on this machine.

use super::super::{io_failure, up_process};
use esker_launch::stop;
use esker_server::ClusterConfig;
use esker_server::member::MembershipClient;
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use std::time::{Duration, Instant};

/// Time for a stop beyond the members' drain time.
const STOP_MAX: Duration = Duration::from_secs(40);

/// Whether a process is a member of a cluster.
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
    let up_process = up_process(config);
    // Members of `cluster add` are no children of `cluster up`; only etcd lists them.
    let members = MembershipClient::connect(config).and_then(|client| Ok(client.status()?.0));
    let members = members.unwrap_or_default();
    let here = members
        .iter()
        .filter(|m| m.host == host.trim() && serves(m.pid));
    let pids: Vec<u32> = here.map(|m| m.pid).collect();
    if up_process.is_none() && pids.is_empty() {
        context.note(&format!(
            "cluster `{}` is down already, or was not started on this machine",
            config.name
        ));
        return Ok(Outcome::Done);
    }
    let until = Instant::now() + config.settings.drain + STOP_MAX;
    // Added members stop first, while etcd still runs.
    if let Some(up_process) = up_process {
        pids.iter()
            .filter(|pid| parent(**pid) != Some(up_process))
            .for_each(|pid| stop(*pid));
        let gone = |pid: &u32| parent(*pid) == Some(up_process) || !serves(*pid);
        wait(until, || pids.iter().all(gone))?;
        stop(up_process);
        wait(until, || {
            super::super::up_process(config).is_none() && pids.iter().all(|pid| !serves(*pid))
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
            return Err(io_failure(
                "stopping the cluster",
                std::io::Error::other(
                    "its servers were asked to stop and are still running: they may have much to finish",
                ),
            ));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
