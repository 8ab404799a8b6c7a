//! What `esker bench cluster` can be asked.

use crate::args::{FormatArgs, kind_parser};
use crate::bench::source::GraphSource;
use crate::units::{parse_duration, parse_size};
use clap::{Args, Subcommand, ValueEnum};
use esker_cluster::Kind;
use esker_cluster::placement::{DIRECTORY_THRESHOLD_DEFAULT, THRESHOLD_DEFAULT};
use esker_cluster::vnode::VNODES_DEFAULT;
use esker_model::traversal::Strategy;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "The servers are processes that the benchmark starts on this machine (127.0.0.1, 127.0.0.2 and so on), with \
                  databases in a scratch folder; clients are threads with a connection each. All share this machine's cores: \
                  compare what is measured in one run, and processor time. docs/book/bench.md says what is counted, \
                  docs/book/paper-graphmeta.md has figures.\n\nExamples:\n  \
                  esker bench cluster insert --servers 1,2,4,8,16 --singles\n  \
                  esker bench cluster hot-vertex --servers 8 --inserts 1024\n  \
                  esker bench cluster failover --kills 50\n  \
                  esker bench cluster travel --engine sync,prefetch,async --steps 2,4,8 --plots figures/"
)]
pub(crate) struct ClusterBenchArgs {
    #[command(subcommand)]
    pub(crate) workload: Workload,
}

/// What is measured of a cluster.
#[derive(Debug, Subcommand)]
pub(crate) enum Workload {
    /// Insert a graph from many clients, into more and more servers (the paper's Figure 11)
    Insert(InsertArgs),
    /// Insert single edges at one vertex from many clients, beside edges at many vertices (Figure 17)
    HotVertex(HotArgs),
    /// Insert and scan a vertex's edges, by the threshold at which it splits (Figure 8)
    Threshold(ThresholdArgs),
    /// Traversals out of cold databases, by engine, placement and steps (Figures 10 and 16)
    Travel(TravelArgs),
    /// Scans of, and three steps from, vertices of every degree, by placement (Figures 12 to 15, by the clock)
    Scan(ScanArgs),
    /// Create files in one directory (Figure 18)
    Mdtest(MdtestArgs),
    /// Splits of a directory, its entries as a table on shared storage and in a message
    Splits(SplitsArgs),
    /// Kill servers whose stores move, again and again: how long until others answer for them, what clients notice
    Failover(FailoverArgs),
    /// Add a server while clients write: how much longer writes take, how even it is then
    Add(AddArgs),
    /// Faults of all kinds at random, for as long as one likes, while clients check every answer
    Soak(SoakArgs),
}

impl Workload {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Insert(_) => "cluster insert",
            Self::HotVertex(_) => "cluster hot-vertex",
            Self::Threshold(_) => "cluster threshold",
            Self::Travel(_) => "cluster travel",
            Self::Scan(_) => "cluster scan",
            Self::Mdtest(_) => "cluster mdtest",
            Self::Splits(_) => "cluster splits",
            Self::Failover(_) => "cluster failover",
            Self::Add(_) => "cluster add",
            Self::Soak(_) => "cluster soak",
        }
    }

    pub(super) fn shared(&self) -> &Shared {
        match self {
            Self::Insert(args) => &args.shared,
            Self::HotVertex(args) => &args.shared,
            Self::Threshold(args) => &args.shared,
            Self::Travel(args) => &args.shared,
            Self::Scan(args) => &args.shared,
            Self::Mdtest(args) => &args.shared,
            Self::Splits(args) => &args.shared,
            Self::Failover(args) => &args.moving.shared,
            Self::Add(args) => &args.moving.shared,
            Self::Soak(args) => &args.moving.shared,
        }
    }
}

/// Options of all of them.
#[derive(Debug, Clone, Args)]
pub(crate) struct Shared {
    /// Where to make the scratch folder: a directory on the file system that is to be measured
    #[arg(value_name = "DIRECTORY", default_value = ".")]
    pub(crate) directory: PathBuf,
    /// Virtual nodes, a power of two
    #[arg(long, value_name = "K", default_value_t = VNODES_DEFAULT)]
    pub(crate) vnodes: u32,
    /// Memory of each server for its caches and buffers [default: 64MiB; travel and scan: 16MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) server_memory: Option<u64>,
    /// Bytes of properties on each edge
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(0..=65_536))]
    pub(crate) property_bytes: u32,
    /// How often each case is measured; medians are printed
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: u32,
    /// Write the report as JSON to a file, too
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Draw what was measured as SVG files in a directory
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) plots: Option<PathBuf>,
    /// Leave the scratch folder behind, with the databases and logs of the cluster that was last
    #[arg(long)]
    pub(crate) keep: bool,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

/// How many servers there are: one number or several.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServerCounts {
    /// How many servers; several numbers are measured one after the other
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,2,4,8",
          value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) servers: Vec<u32>,
}

/// `--threshold` where it is one.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct SplitAt {
    /// A partition with more edges than that splits
    #[arg(long, value_name = "N", default_value_t = THRESHOLD_DEFAULT, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) threshold: u64,
}

#[derive(Debug, Args)]
pub(crate) struct InsertArgs {
    #[command(flatten)]
    pub(crate) shared: Shared,
    #[command(flatten)]
    pub(crate) counts: ServerCounts,
    #[command(flatten)]
    pub(crate) split: SplitAt,
    /// The graph: rmat:SCALE:EDGES[:SEED], copurchase[:SEED], or a file with a source and a destination on each line
    #[arg(long, value_name = "GRAPH", default_value = "rmat:16:200000")]
    pub(crate) graph: GraphSource,
    /// The placements to compare
    #[arg(long = "placement", value_name = "NAME", value_delimiter = ',', value_parser = kind_parser(), default_value = "dido")]
    pub(crate) placements: Vec<Kind>,
    /// Clients, all servers together
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) clients: u32,
    /// Edges in a batch
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) batch: u32,
    /// Insert single edges, too
    #[arg(long)]
    pub(crate) singles: bool,
    /// How many single edges
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) single_edges: u64,
}

#[derive(Debug, Args)]
pub(crate) struct HotArgs {
    #[command(flatten)]
    pub(crate) shared: Shared,
    /// How many servers; several numbers are measured one after the other
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "8", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) servers: Vec<u32>,
    #[command(flatten)]
    pub(crate) split: SplitAt,
    /// The placements to compare
    #[arg(long = "placement", value_name = "NAME", value_delimiter = ',', value_parser = kind_parser(),
          default_value = "dido,giga+,edge-cut,vertex-cut")]
    pub(crate) placements: Vec<Kind>,
    /// Clients, all servers together
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) clients: u32,
    /// Inserts of each client, one after the other
    #[arg(long, value_name = "N", default_value_t = 10_240, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) inserts: u32,
}

#[derive(Debug, Args)]
pub(crate) struct ThresholdArgs {
    #[command(flatten)]
    pub(crate) shared: Shared,
    /// How many servers
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) servers: u32,
    /// The thresholds
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "128,256,512,1024,2048,4096",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) sweep: Vec<u64>,
    /// Edges of the vertex
    #[arg(long, value_name = "N", default_value_t = 8192, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) edges: u32,
    /// Edges in a batch
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) batch: u32,
    /// The placement
    #[arg(long, value_name = "NAME", value_parser = kind_parser(), default_value = "dido")]
    pub(crate) placement: Kind,
}

#[derive(Debug, Args)]
pub(crate) struct TravelArgs {
    #[command(flatten)]
    pub(crate) shared: Shared,
    /// How many servers
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) servers: u32,
    #[command(flatten)]
    pub(crate) split: SplitAt,
    /// The graph: rmat:SCALE:EDGES[:SEED], copurchase[:SEED], or a file with a source and a destination on each line
    #[arg(long, value_name = "GRAPH", default_value = "copurchase")]
    pub(crate) graph: GraphSource,
    /// The placements to compare
    #[arg(long = "placement", value_name = "NAME", value_delimiter = ',', value_parser = kind_parser(), default_value = "dido")]
    pub(crate) placements: Vec<Kind>,
    /// How the servers go about it
    #[arg(
        long,
        value_name = "ENGINE",
        value_delimiter = ',',
        value_enum,
        default_value = "sync,prefetch,async"
    )]
    pub(crate) engine: Vec<EngineArg>,
    /// How many steps
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "2,4,8", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) steps: Vec<u32>,
    /// The number of the vertex that it starts from [default: 0 of the copurchase graph, else the busiest]
    #[arg(long, value_name = "N")]
    pub(crate) start: Option<u32>,
    /// Follow edges both ways
    #[arg(long)]
    pub(crate) both_ways: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ScanArgs {
    #[command(flatten)]
    pub(crate) shared: Shared,
    /// How many servers
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) servers: u32,
    #[command(flatten)]
    pub(crate) split: SplitAt,
    /// The graph: rmat:SCALE:EDGES[:SEED], copurchase[:SEED], or a file with a source and a destination on each line
    #[arg(long, value_name = "GRAPH", default_value = "rmat:13:200000")]
    pub(crate) graph: GraphSource,
    /// The placements to compare
    #[arg(long = "placement", value_name = "NAME", value_delimiter = ',', value_parser = kind_parser(),
          default_value = "dido,giga+,edge-cut,vertex-cut")]
    pub(crate) placements: Vec<Kind>,
    /// Vertices of each band of degrees, at most
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) samples: u32,
}

#[derive(Debug, Args)]
pub(crate) struct MdtestArgs {
    #[command(flatten)]
    pub(crate) shared: Shared,
    #[command(flatten)]
    pub(crate) counts: ServerCounts,
    #[command(flatten)]
    pub(crate) split: SplitAt,
    /// The placement
    #[arg(long, value_name = "NAME", value_parser = kind_parser(), default_value = "dido")]
    pub(crate) placement: Kind,
    /// Clients of each server
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=128))]
    pub(crate) clients_per_server: u32,
    /// Create them by path, as files of a directory that splits (GIGA+), not as vertices with an edge
    #[arg(long)]
    pub(crate) paths: bool,
    /// With --paths: a partition of the directory with more entries than that splits
    #[arg(long, value_name = "N", default_value_t = DIRECTORY_THRESHOLD_DEFAULT, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) directory_threshold: u64,
    /// With --paths: files in one call
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) batch: u32,
    /// With --paths: measure what tagging each of them takes, once they are there
    #[arg(long, requires = "paths")]
    pub(crate) tag: bool,
    /// With --paths: clients that do not learn which server has a file
    #[arg(long, requires = "paths")]
    pub(crate) no_cache: bool,
    /// Files that each client creates, one after the other
    #[arg(long, value_name = "N", default_value_t = 4000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) files: u32,
}

#[derive(Debug, Args)]
pub(crate) struct SplitsArgs {
    #[command(flatten)]
    pub(crate) shared: Shared,
    /// How many servers
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=64))]
    pub(crate) servers: u32,
    /// A partition of the directory with more entries than that splits; several numbers are measured one after the other
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [DIRECTORY_THRESHOLD_DEFAULT],
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) directory_threshold: Vec<u64>,
    /// Files that are created in the directory
    #[arg(long, value_name = "N", default_value_t = 60_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) files: u32,
}

/// Clusters whose stores move, and their clients.
#[derive(Debug, Args)]
pub(crate) struct MovingArgs {
    #[command(flatten)]
    pub(crate) shared: Shared,
    /// How many servers
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=32))]
    pub(crate) servers: u32,
    /// How many stores
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) stores: u32,
    /// After so long without a sign of life a server counts as gone
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    pub(crate) lease: Duration,
    /// Clients that write
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) writers: u32,
    /// Clients that only read
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=256))]
    pub(crate) readers: u32,
    /// How long a client rests between its rounds of calls
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = parse_duration)]
    pub(crate) rest: Duration,
    /// Another seed, other servers and faults
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

#[derive(Debug, Args)]
pub(crate) struct FailoverArgs {
    #[command(flatten)]
    pub(crate) moving: MovingArgs,
    /// How often a server is killed
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) kills: u32,
}

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    #[command(flatten)]
    pub(crate) moving: MovingArgs,
    /// How long is measured before and after
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = parse_duration)]
    pub(crate) phase: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct SoakArgs {
    #[command(flatten)]
    pub(crate) moving: MovingArgs,
    /// How long
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub(crate) minutes: u64,
    /// … and so many seconds more
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seconds: u64,
    /// Which faults
    #[arg(
        long,
        value_name = "FAULT",
        value_delimiter = ',',
        value_enum,
        default_value = "kill,pause,cut,etcd"
    )]
    pub(crate) faults: Vec<Fault>,
}

/// What is done to servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Fault {
    /// A server is killed, and started again
    Kill,
    /// A server stands still, and goes on
    Pause,
    /// A server and etcd do not hear each other
    Cut,
    /// etcd stands still, or is killed and started again
    Etcd,
}

impl Fault {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Pause => "pause",
            Self::Cut => "cut",
            Self::Etcd => "etcd",
        }
    }
}

/// `--engine` of traversals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineArg {
    /// Step by step
    Sync,
    /// Step by step; who waits for the next one reads ahead
    Prefetch,
    /// Without steps
    Async,
}

impl From<EngineArg> for Strategy {
    fn from(engine: EngineArg) -> Self {
        match engine {
            EngineArg::Sync => Self::Sync,
            EngineArg::Prefetch => Self::Prefetch,
            EngineArg::Async => Self::Async,
        }
    }
}
