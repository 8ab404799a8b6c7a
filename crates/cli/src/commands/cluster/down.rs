//! `esker cluster down`: stops what `esker cluster up` started, from another terminal.

use super::pid_file;
use crate::args::ClusterDownArgs;
use crate::context::Context;
use crate::exit::Outcome;
use anyhow::Context as _;
use esker_server::ClusterConfig;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use std::time::{Duration, Instant};

/// What stopping may take beyond the servers' drain time.
const STOP_MAX: Duration = Duration::from_secs(30);

pub(super) fn run(args: &ClusterDownArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let config = ClusterConfig::from_file(&args.file)?;
    let file = pid_file(&config);
    let missing = || {
        format!(
            "cluster `{}` was not started by `esker cluster up` on this machine, or is down already: there is no `{}`",
            config.name,
            file.display()
        )
    };
    let text = std::fs::read_to_string(&file).with_context(missing)?;
    let number: u32 = text
        .trim()
        .parse()
        .with_context(|| format!("`{}` holds no process number", file.display()))?;
    let pid = i32::try_from(number).ok().and_then(Pid::from_raw);
    let Some(pid) = pid.filter(|_| is_up(number)) else {
        let _ = std::fs::remove_file(&file);
        context.note(&format!(
            "process {number} is gone: cluster `{}` is down",
            config.name
        ));
        return Ok(Outcome::Done);
    };
    kill_process(pid, Signal::TERM).with_context(|| format!("telling process {number} to stop"))?;
    let until = Instant::now() + config.settings.drain + STOP_MAX;
    while test_kill_process(pid).is_ok() && file.exists() {
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

/// Whether that process is an `esker cluster up` still, and not another one that got its number.
fn is_up(pid: u32) -> bool {
    let Ok(line) = std::fs::read(format!("/proc/{pid}/cmdline")) else {
        return false;
    };
    let mut words = line.split(|b| *b == 0);
    words.any(|w| w == b"cluster") && words.any(|w| w == b"up")
}
