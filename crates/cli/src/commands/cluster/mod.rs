//! `esker cluster`: the servers of a cluster started, run, asked.

mod child;
mod down;
mod server;
mod status;
mod up;

use crate::args::ClusterCommand;
use crate::context::Context;
use crate::exit::Outcome;
use esker_server::ClusterConfig;
use std::path::PathBuf;

pub(crate) fn run(command: &ClusterCommand, context: &mut Context) -> anyhow::Result<Outcome> {
    match command {
        ClusterCommand::Up(args) => up::run(args, context),
        ClusterCommand::Down(args) => down::run(args, context),
        ClusterCommand::Server(args) => server::run(args, context),
        ClusterCommand::Status(args) => status::run(args, context),
    }
}

/// Holds the process that keeps a cluster up.
fn pid_file(config: &ClusterConfig) -> PathBuf {
    config.storage.join("up.pid")
}
