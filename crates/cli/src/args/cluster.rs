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
                  Its servers are then at 127.0.0.1:7400, 127.0.0.2:7400 and so on, and their databases in FILE's folder. With `stores = 16` \
                  there are 16 servers that move between members, as etcd assigns them: those of a member that fails go to the others.\n\n\
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
    /// Start all servers on this machine, and run until interrupted
    Up(ClusterUpArgs),
    /// Stop the servers of a cluster
    Down(ClusterDownArgs),
    /// Run one of the servers, for clusters over several machines
    Server(ClusterServerArgs),
    /// Redistribute the data of a stopped cluster over another number of servers
    Resize(ClusterResizeArgs),
    /// Show the state of every server
    Status(ClusterStatusArgs),
    /// Start one more member on this machine; it takes over its share of the servers
    Add(ClusterAddArgs),
    /// Move all servers off a member, so that it can be stopped
    Drain(ClusterDrainArgs),
    /// Distribute the servers evenly over the members
    Rebalance(ClusterRebalanceArgs),
    /// Restart the members one after the other while clients continue
    Restart(ClusterRestartArgs),
    /// Verify every server's data, and compare what must agree between servers
    Check(ClusterCheckArgs),
}

#[derive(Debug, Args)]
#[command(
    after_help = "In a Slurm job, --slurm starts one server on each node of the job (beside the application's processes), or with --dedicated \
                  on some nodes of their own. The number of servers may differ from job to job: the data in the storage are \
                  redistributed first.\n\n\
                  Examples:\n  \
                  esker cluster up lab.toml\n  \
                  esker cluster up lab.toml -- ./workflow.sh\n  \
                  sbatch -N4 --wrap 'esker cluster up --slurm --storage $SCRATCH/esker -- ./workflow.sh'\n  \
                  sbatch -N5 --wrap 'esker cluster up --slurm --dedicated 1 --storage $SCRATCH/esker -- \\\n      \
                      sh -c \"srun -w \\$ESKER_APP_NODES ./app \\$ESKER_TARGET\"'"
)]
pub(crate) struct ClusterUpArgs {
    /// The cluster's file, in TOML
    #[arg(value_name = "FILE", required_unless_present = "slurm")]
    pub(crate) file: Option<PathBuf>,
    /// Start the servers on the nodes of the current Slurm job
    #[arg(long, requires = "storage")]
    pub(crate) slurm: bool,
    /// Folder of the servers' databases, which all nodes can access
    #[arg(long, value_name = "FOLDER", requires = "slurm")]
    pub(crate) storage: Option<PathBuf>,
    /// Reserve the last N nodes of the job for the servers [default: one server on each node, beside the application]
    #[arg(long, value_name = "N", requires = "slurm")]
    pub(crate) dedicated: Option<u32>,
    /// TCP port of the servers
    #[arg(long, value_name = "PORT", requires = "slurm", default_value_t = esker::rpc::address::DEFAULT_PORT)]
    pub(crate) port: u16,
    /// Command to run once the servers answer; they stop when it ends. Its environment has their address as `ESKER_TARGET`
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "With a FILE it stops the servers on this machine; with an address all servers on all machines, which needs the role `admin` \
                  there.\n\nExamples:\n  \
                  esker cluster down lab.toml\n  esker cluster down esker://10.0.0.1:7400"
)]
pub(crate) struct ClusterDownArgs {
    /// The cluster's file, in TOML, or the address of one of its servers
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        esker cluster server lab.toml --id 2\n  \
        esker cluster server lab.toml --listen 10.0.0.3:7400 --log-format json")]
pub(crate) struct ClusterServerArgs {
    /// The cluster's file, in TOML
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Number of this server in the file, from 0
    #[arg(long, value_name = "N", required_unless_present = "listen")]
    pub(crate) id: Option<u32>,
    /// Address of this member, if the file does not name it; only for clusters with `stores`
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "id")]
    pub(crate) listen: Option<String>,
    /// Format of log lines, on stderr
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
    /// Lowest level to log: error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value = "info", env = "ESKER_LOG")]
    pub(crate) log: tracing_subscriber::filter::LevelFilter,
    /// Stop when standard input ends, because the process that started this one has ended
    #[arg(long, hide = true)]
    pub(crate) until_stdin_ends: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The cluster must be stopped. Its data stay unchanged until the new databases are complete and verified; then these \
                  replace the old ones. If the command is interrupted, repeat it.\n\n\
                  Examples:\n  \
                  esker cluster resize lab.toml --servers 2\n  \
                  esker cluster resize lab.toml                       (the file says how many)\n  \
                  esker cluster resize lab.toml --from lab.esker      (a new cluster with a database's data)"
)]
pub(crate) struct ClusterResizeArgs {
    /// The cluster's file, in TOML
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// New number of servers [default: the number in the file]
    #[arg(long, value_name = "N")]
    pub(crate) servers: Option<u32>,
    /// Create a new cluster from a database that is not part of one; that database is not changed
    #[arg(long, value_name = "FOLDER")]
    pub(crate) from: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "With a cluster's file instead of an address, it shows the assignment in etcd: which member runs which server, and its epoch.\n\n\
                  Examples:\n  \
                  esker cluster status esker://127.0.0.1:7400\n  \
                  esker cluster status lab.toml --members\n\n\
                  Exit code 1 if not all servers serve."
)]
pub(crate) struct ClusterStatusArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// List the members instead of their servers; needs the cluster's file
    #[arg(long)]
    pub(crate) members: bool,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        esker cluster add lab.toml\n  \
        esker cluster add lab.toml --listen 127.0.0.9:7400")]
pub(crate) struct ClusterAddArgs {
    /// The cluster's file, in TOML
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Address of the member [default: the next address or port after those in the file]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) listen: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        esker cluster drain lab.toml 127.0.0.2:7400\n  \
        esker cluster drain lab.toml 127.0.0.2:7400 --undo")]
pub(crate) struct ClusterDrainArgs {
    /// The cluster's file, in TOML
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Address of the member, as `cluster status FILE --members` shows it
    #[arg(value_name = "HOST:PORT")]
    pub(crate) member: String,
    /// Allow the member to run servers again
    #[arg(long)]
    pub(crate) undo: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Only for clusters with `stores`. Each member hands its servers to the others and ends; its supervisor (`esker cluster up`, a \
                  service manager) starts it again, from the program that is installed by then; the next one follows when all servers answer. \
                  This needs the role `admin`.\n\nExamples:\n  \
                  esker cluster restart lab.toml\n  esker cluster restart lab.toml --wait 10m"
)]
pub(crate) struct ClusterRestartArgs {
    /// The cluster's file, in TOML
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Longest time that a member may take to be started again
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = esker_terminal::units::parse_duration)]
    pub(crate) wait: std::time::Duration,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Checks a running cluster through its servers, and a stopped one in its folders (with a FILE). Exit code 1 if something is wrong.\n\n\
                  Examples:\n  \
                  esker cluster check lab.toml\n  esker cluster check esker://127.0.0.1:7400 --format json"
)]
pub(crate) struct ClusterCheckArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Rebuild counters and indexes that are wrong
    #[arg(long)]
    pub(crate) repair: bool,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        esker cluster rebalance lab.toml\n  \
        esker cluster drain lab.toml 127.0.0.2:7400 --undo && esker cluster rebalance lab.toml")]
pub(crate) struct ClusterRebalanceArgs {
    /// The cluster's file, in TOML
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}
