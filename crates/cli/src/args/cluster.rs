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
                  Its servers lie at 127.0.0.1:7400, 127.0.0.2:7400 and so on then, their databases in FILE's folder. With `stores = 16` \
                  the data move between servers, as etcd says: those of one that dies go to the others.\n\n\
                  Examples:\n  \
                  esker cluster up lab.toml\n  \
                  esker cluster status esker://127.0.0.1:7400\n  \
                  esker cluster server lab.toml --id 2\n  \
                  esker cluster drain lab.toml 127.0.0.2:7400"
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
    /// Deal out what a stopped cluster holds anew, among another number of servers
    Resize(ClusterResizeArgs),
    /// Ask every server how it is
    Status(ClusterStatusArgs),
    /// Start one more server on this machine, which takes its share of the stores
    Add(ClusterAddArgs),
    /// Take all stores from a server, so that it can be stopped
    Drain(ClusterDrainArgs),
    /// Share the stores out evenly
    Rebalance(ClusterRebalanceArgs),
    /// End the servers and start them again, one after the other, while clients go on
    Restart(ClusterRestartArgs),
    /// Read every store and compare what must agree
    Check(ClusterCheckArgs),
}

#[derive(Debug, Args)]
#[command(
    after_help = "In a Slurm job, --slurm starts one server on each node of the job (beside the application's processes), or with --dedicated \
                  on some nodes of their own. The number of servers may differ from job to job: what the storage holds is dealt out \
                  anew first.\n\n\
                  Examples:\n  \
                  esker cluster up lab.toml\n  \
                  sbatch -N4 --wrap 'esker cluster up --slurm --storage $SCRATCH/esker -- ./workflow.sh'\n  \
                  sbatch -N5 --wrap 'esker cluster up --slurm --dedicated 1 --storage $SCRATCH/esker -- \\\n      \
                      sh -c \"srun -w \\$ESKER_APP_NODES ./app \\$ESKER_TARGET\"'"
)]
pub(crate) struct ClusterUpArgs {
    /// The cluster, in TOML
    #[arg(value_name = "FILE", required_unless_present = "slurm")]
    pub(crate) file: Option<PathBuf>,
    /// Start the servers on the nodes of the Slurm job that this runs in
    #[arg(long, requires = "storage")]
    pub(crate) slurm: bool,
    /// Where the servers' databases lie: a folder that all nodes see
    #[arg(long, value_name = "FOLDER", requires = "slurm")]
    pub(crate) storage: Option<PathBuf>,
    /// Give the servers the last N nodes of the job for themselves; without it there is one on each node
    #[arg(long, value_name = "N", requires = "slurm")]
    pub(crate) dedicated: Option<u32>,
    /// The servers' port
    #[arg(long, value_name = "PORT", requires = "slurm", default_value_t = esker::rpc::address::DEFAULT_PORT)]
    pub(crate) port: u16,
    /// Run this once the servers serve, and stop them when it ends; it finds their address in its environment, as `ESKER_TARGET`
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "With a FILE it ends what runs on this machine; with an address all servers, wherever they are, and whoever asks needs the \
                  role `admin` there.\n\nExamples:\n  \
                  esker cluster down lab.toml\n  esker cluster down esker://10.0.0.1:7400"
)]
pub(crate) struct ClusterDownArgs {
    /// The cluster, in TOML, or the address of one of its servers
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ClusterServerArgs {
    /// The cluster, in TOML
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Which of the file's servers this is, from 0
    #[arg(long, value_name = "N", required_unless_present = "listen")]
    pub(crate) id: Option<u32>,
    /// Where it answers, if it is none of those that the file names; only where stores move
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "id")]
    pub(crate) listen: Option<String>,
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
#[command(
    after_help = "The cluster must be stopped. Its data stay as they are until new databases are whole and were read again; then \
                  these take their places. If it is cut short, repeat it.\n\n\
                  Examples:\n  \
                  esker cluster resize lab.toml --servers 2\n  \
                  esker cluster resize lab.toml                       (the file says how many)\n  \
                  esker cluster resize lab.toml --from lab.esker      (a new cluster with a database's data)"
)]
pub(crate) struct ClusterResizeArgs {
    /// The cluster, in TOML
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// How many servers there are to be; default: as many as the file says
    #[arg(long, value_name = "N")]
    pub(crate) servers: Option<u32>,
    /// Make a new cluster of a database that stands alone; it stays as it is
    #[arg(long, value_name = "FOLDER")]
    pub(crate) from: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "With a cluster's file rather than an address, it says what etcd has: which stores are where, at which epoch.\n\n\
                  Examples:\n  \
                  esker cluster status esker://127.0.0.1:7400\n  \
                  esker cluster status lab.toml --members\n\n\
                  Exit code 1 if not all servers serve."
)]
pub(crate) struct ClusterStatusArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// List the members rather than their stores; with a cluster's file
    #[arg(long)]
    pub(crate) members: bool,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: esker cluster add lab.toml --listen 127.0.0.9:7400")]
pub(crate) struct ClusterAddArgs {
    /// The cluster, in TOML
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Where it answers; default: the next address or port behind those that the file names
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) listen: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: esker cluster drain lab.toml 127.0.0.2:7400")]
pub(crate) struct ClusterDrainArgs {
    /// The cluster, in TOML
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Which server, as `cluster status FILE --members` names it
    #[arg(value_name = "HOST:PORT")]
    pub(crate) member: String,
    /// Let it have stores again
    #[arg(long)]
    pub(crate) undo: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Where stores move. Each server gives its stores to the others and ends; whoever keeps it (`esker cluster up`, a service \
                  manager) starts it again, from the program that is there by then; and the next one follows when all stores are served. \
                  Whoever asks needs the role `admin`.\n\nExample: esker cluster restart lab.toml"
)]
pub(crate) struct ClusterRestartArgs {
    /// The cluster, in TOML
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// How long a server may take to be started again
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = crate::units::parse_duration)]
    pub(crate) wait: std::time::Duration,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Through its servers while they run, in its folders while it is down (and a FILE is given). Exit code 1 if something is wrong.\n\n\
                  Examples:\n  \
                  esker cluster check lab.toml\n  esker cluster check esker://127.0.0.1:7400 --format json"
)]
pub(crate) struct ClusterCheckArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Rebuild counters and indexes where they are wrong
    #[arg(long)]
    pub(crate) repair: bool,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ClusterRebalanceArgs {
    /// The cluster, in TOML
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}
