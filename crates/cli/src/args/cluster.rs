//! Arguments of the commands for a cluster of servers.

use super::{FormatArgs, LogFormat, Target};
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "A cluster is described by a TOML file, the same for all its servers; docs/book/cluster.md lists the keys. \
                  The shortest:\n\n  \
                  servers = 4\n\n\
                  Its servers lie at 127.0.0.1:7400, 127.0.0.2:7400 and so on then, their databases in FILE's folder.\n\n\
                  Examples:\n  \
                  esker cluster up lab.toml\n  \
                  esker cluster status esker://127.0.0.1:7400\n  \
                  esker cluster server lab.toml --id 2"
)]
pub(crate) struct ClusterArgs {
    #[command(subcommand)]
    pub(crate) command: ClusterCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Start all servers on this machine, and keep them running until it is told to stop
    Up(ClusterUpArgs),
    /// Stop what `esker cluster up` started
    Down(ClusterDownArgs),
    /// Run one of the servers: for clusters over several machines
    Server(ClusterServerArgs),
    /// Ask every server how it is
    Status(ClusterStatusArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ClusterUpArgs {
    /// The cluster, in TOML
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ClusterDownArgs {
    /// The cluster, in TOML
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ClusterServerArgs {
    /// The cluster, in TOML
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Which of the file's servers this is, from 0
    #[arg(long, value_name = "N")]
    pub(crate) id: u32,
    /// How to log, on stderr
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
    /// What to log: error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value = "info", env = "ESKER_LOG")]
    pub(crate) log: tracing_subscriber::filter::LevelFilter,
    /// Stop once standard input ends: whoever started it is gone
    #[arg(long, hide = true)]
    pub(crate) until_stdin_ends: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Exit code 1 if not all servers serve.")]
pub(crate) struct ClusterStatusArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}
