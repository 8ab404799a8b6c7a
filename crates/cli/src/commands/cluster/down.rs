//! `esker cluster down`: stops what `esker cluster up` started, from another terminal.

use super::{failed, keeper};
use crate::args::ClusterDownArgs;
use crate::context::Context;
use crate::exit::Outcome;
use esker_server::ClusterConfig;
use rustix::process::{Pid, Signal, kill_process};
use std::time::{Duration, Instant};

/// What stopping may take beyond the servers' drain time.
const STOP_MAX: Duration = Duration::from_secs(30);

pub(super) fn run(args: &ClusterDownArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let config = ClusterConfig::from_file(&args.file)?;
    if config.etcd.is_some() {
        return super::moving::down::run(&config, context);
    }
    let Some(number) = keeper(&config) else {
        context.note(&format!(
            "cluster `{}` is down already, or was not started by `esker cluster up` on this machine",
            config.name
        ));
        return Ok(Outcome::Done);
    };
    let pid = i32::try_from(number).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| anyhow::anyhow!("there is no process {number}"))?;
    kill_process(pid, Signal::TERM)
        .map_err(|e| failed(format!("telling process {number} to stop"), e))?;
    let until = Instant::now() + config.settings.drain + STOP_MAX;
    while keeper(&config) == Some(number) {
        if Instant::now() >= until {
            anyhow::bail!(
                "process {number} was told to stop and runs still: its servers may have much to finish"
            );
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    context.note(&format!("cluster `{}` is down", config.name));
    Ok(Outcome::Done)
}
