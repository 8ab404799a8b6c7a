//! `esker cluster`: the servers of a cluster started, run, asked.

mod check;
mod child;
mod down;
mod failover;
pub(crate) mod moving;
mod resize;
mod server;
mod slurm;
pub(crate) mod status;
mod stores;
mod up;

use crate::args::ClusterCommand;
use crate::context::Context;
use crate::exit::Outcome;
use esker_server::{Asked, ClusterConfig};
use std::path::PathBuf;

pub(crate) fn run(command: &ClusterCommand, context: &mut Context) -> anyhow::Result<Outcome> {
    match command {
        ClusterCommand::Up(args) => up::run(args, context),
        ClusterCommand::Down(args) => down::run(args, context),
        ClusterCommand::Server(args) => server::run(args, context),
        ClusterCommand::Resize(args) => resize::run(args, context),
        ClusterCommand::Status(args) => status::run(args, context),
        ClusterCommand::Add(args) => moving::add::run(args, context),
        ClusterCommand::Drain(args) => moving::drain::run(args, context),
        ClusterCommand::Rebalance(args) => moving::rebalance::run(args, context),
        ClusterCommand::Restart(args) => moving::restart::run(args, context),
        ClusterCommand::Check(args) => check::run(args, context),
    }
}

/// How a server ends that an owner has asked to be started again, and to stay down, for whoever keeps it.
const AGAIN: u8 = 75;
const FOR_GOOD: u8 = 76;

/// The exit code of a server that an owner has asked to stop.
fn asked_code(asked: Option<Asked>, kept: bool) -> Option<u8> {
    match asked? {
        Asked::Restart => Some(AGAIN),
        Asked::Stop => kept.then_some(FOR_GOOD),
    }
}

/// This program, also where another one has taken its place since it was started.
fn program() -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe().map_err(|e| failed("finding this program's own file", e))?;
    let text = path.to_string_lossy();
    // So Linux calls a file that was replaced.
    Ok(match text.strip_suffix(" (deleted)") {
        Some(newer) if !path.exists() => PathBuf::from(newer),
        _ => path,
    })
}

/// Holds the process that keeps a cluster up.
fn pid_file(config: &ClusterConfig) -> PathBuf {
    config.storage.join("up.pid")
}

/// The process that keeps a cluster up on this machine, if one does.
fn keeper(config: &ClusterConfig) -> Option<u32> {
    let text = std::fs::read_to_string(pid_file(config)).ok()?;
    let pid = text.trim().parse().ok()?;
    // Another process may have got its number since.
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut words = line.split(|b| *b == 0);
    (words.any(|w| w == b"cluster") && words.any(|w| w == b"up")).then_some(pid)
}

/// An I/O failure, with what was being done.
fn failed(doing: impl std::fmt::Display, cause: impl Into<std::io::Error>) -> anyhow::Error {
    esker_model::Error::io(doing.to_string(), cause.into()).into()
}
