//! `esker cluster`: starts, runs and queries the servers of a cluster.

mod check;
mod down;
mod failover;
mod membership;
mod resize;
mod server;
mod slurm;
mod status;
mod stores;
mod up;

use crate::args::ClusterCommand;
use esker_server::{ClusterConfig, StopRequest};
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use std::path::PathBuf;

pub(crate) fn run(command: &ClusterCommand, context: &mut Context) -> anyhow::Result<Outcome> {
    match command {
        ClusterCommand::Up(args) => up::run(args, context),
        ClusterCommand::Down(args) => down::run(args, context),
        ClusterCommand::Server(args) => server::run(args, context),
        ClusterCommand::Resize(args) => resize::run(args, context),
        ClusterCommand::Status(args) => status::run(args, context),
        ClusterCommand::Add(args) => membership::add::run(args, context),
        ClusterCommand::Drain(args) => membership::drain::run(args, context),
        ClusterCommand::Rebalance(args) => membership::rebalance::run(args, context),
        ClusterCommand::Restart(args) => membership::restart::run(args, context),
        ClusterCommand::Check(args) => check::run(args, context),
    }
}

/// Exit codes of a member that was asked to be restarted, and to stay down, for its supervisor.
const EXIT_RESTART: u8 = 75;
const EXIT_STOP: u8 = 76;

/// Returns the exit code of a server that was asked to stop.
fn stop_exit_code(asked: Option<StopRequest>, kept: bool) -> Option<u8> {
    match asked? {
        StopRequest::Restart => Some(EXIT_RESTART),
        StopRequest::Stop => kept.then_some(EXIT_STOP),
    }
}

/// Returns the file with the process id of the `cluster up` of a cluster.
fn pid_file(config: &ClusterConfig) -> PathBuf {
    config.storage.join("up.pid")
}

/// Returns the process id of a running `cluster up` on this machine.
fn up_process(config: &ClusterConfig) -> Option<u32> {
    let text = std::fs::read_to_string(pid_file(config)).ok()?;
    let pid = text.trim().parse().ok()?;
    // The number may belong to another process by now.
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut words = line.split(|b| *b == 0);
    (words.any(|w| w == b"cluster") && words.any(|w| w == b"up")).then_some(pid)
}

/// Creates an I/O error with the failed operation.
fn io_failure(doing: impl std::fmt::Display, cause: impl Into<std::io::Error>) -> anyhow::Error {
    esker_model::Error::io(doing.to_string(), cause.into()).into()
}
