//! The command line of `esker bench cluster`.

use crate::source::GraphSource;
use clap::{Args, Subcommand, ValueEnum};
use esker_cluster::Kind;
use esker_cluster::placement::{DIRECTORY_THRESHOLD_DEFAULT, THRESHOLD_DEFAULT};
use esker_cluster::vnode::VNODES_DEFAULT;
use esker_model::traversal::Strategy;
use esker_terminal::args::{FormatArgs, kind_parser};
use esker_terminal::units::{parse_duration, parse_size};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "The servers are processes that the benchmark starts on this machine (127.0.0.1, 127.0.0.2 and so on), with \
                  databases in a scratch folder; clients are threads with a connection each. All share this machine's cores: \
                  compare what is measured in one run, and processor time. docs/book/bench.md says what is counted, \
                  docs/papers/graphmeta.md has figures.\n\nExamples:\n  \
                  esker bench cluster insert --servers 1,2,4,8,16 --singles\n  \
                  esker bench cluster hot-vertex --servers 8 --inserts 1024\n  \
                  esker bench cluster failover --kills 50\n  \
                  esker bench cluster travel --engine sync,prefetch,async --steps 2,4,8 --plots figures/"
)]
pub(crate) struct ClusterBenchArgs {
    #[command(subcommand)]
    pub(crate) workload: ClusterWorkload,
}

/// The subcommands of `esker bench cluster`.
#[derive(Debug, Subcommand)]
pub(crate) enum ClusterWorkload {
    /// Insert a graph from many clients, with increasing numbers of servers (the paper's Figure 11)
    Insert(InsertArgs),
    /// Insert single edges at one vertex from many clients, compared with edges at many vertices (Figure 17)
    HotVertex(HotArgs),
    /// Insert and scan a vertex's edges, by split threshold (Figure 8)
    Threshold(ThresholdArgs),
    /// Traversals of cold databases, by engine, placement and steps (Figures 10 and 16)
    Travel(ClusterTravelArgs),
    /// Scans of, and three steps from, vertices of every degree, by placement (Figures 12 to 15, as times)
    Scan(ClusterScanArgs),
    /// Create files in one directory (Figure 18)
    Mdtest(MdtestArgs),
    /// Splits of a directory, with its entries as a table on shared storage and in a message
    Splits(SplitsArgs),
    /// Kill servers whose stores move, repeatedly: time until others serve the stores, and delays for clients
    Failover(FailoverArgs),
    /// Add a server while clients write: slowdown of writes, and balance afterwards
    Add(AddArgs),
    /// Random faults of all kinds for a chosen time while clients check every answer
    Soak(SoakArgs),
}

impl ClusterWorkload {
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

/// Options of all cluster workloads.
#[derive(Debug, Clone, Args)]
pub(crate) struct Shared {
    /// Directory for the scratch folder, on the file system to be measured
    #[arg(value_name = "DIRECTORY", default_value = ".")]
    pub(crate) directory: PathBuf,
    /// Virtual nodes, a power of two
    #[arg(long, value_name = "K", default_value_t = VNODES_DEFAULT)]
    pub(crate) vnodes: u32,
    /// Memory of each server for its caches and buffers [default: 64MiB; travel and scan: 16MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) server_memory: Option<u64>,
    /// Bytes of properties per edge
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(0..=65_536))]
    pub(crate) property_bytes: u32,
    /// Number of measurements of each case; medians are printed
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: u32,
    /// Write the report as JSON to this file, too
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Draw the results as SVG files in this directory
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) plots: Option<PathBuf>,
    /// Keep the scratch folder, with the databases and logs of the last cluster
    #[arg(long)]
    pub(crate) keep: bool,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

/// The numbers of servers to measure.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServerCounts {
    /// Number of servers; several numbers are measured one after the other
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,2,4,8",
          value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) servers: Vec<u32>,
}

/// The split threshold of workloads with a single one.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct SplitAt {
    /// Split a partition with more edges than this
    #[arg(long, value_name = "N", default_value_t = THRESHOLD_DEFAULT, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) threshold: u64,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  esker bench cluster insert --servers 1,2,4,8,16 --clients 32 --singles\n  \
                  esker bench cluster insert --placement dido,giga+,edge-cut,vertex-cut --graph rmat:16:100000 --plots figures/\n  \
                  esker bench cluster insert --servers 3 --clients 1,8,64,512 --batch 1 --graph rmat:14:8000 --durability sync")]
pub(crate) struct InsertArgs {
    #[command(flatten)]
    pub(crate) shared: Shared,
    #[command(flatten)]
    pub(crate) counts: ServerCounts,
    #[command(flatten)]
    pub(crate) split: SplitAt,
    /// The graph: rmat:SCALE:EDGES[:SEED], copurchase[:SEED], or a file with a source and a destination per line
    #[arg(long, value_name = "GRAPH", default_value = "rmat:16:200000")]
    pub(crate) graph: GraphSource,
    /// The placements to compare
    #[arg(long = "placement", value_name = "NAME", value_delimiter = ',', value_parser = kind_parser(), default_value = "dido")]
    pub(crate) placements: Vec<Kind>,
    /// Total number of clients; several numbers are measured one after the other
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "32", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) clients: Vec<u32>,
    /// Number of edges per batch
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) batch: u32,
    /// Insert single edges, too
    #[arg(long)]
    pub(crate) singles: bool,
    /// Number of single edges
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) single_edges: u64,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  esker bench cluster hot-vertex --servers 8 --inserts 1024\n  \
                  esker bench cluster hot-vertex --servers 1,2,4,8 --placement dido,edge-cut --inserts 256")]
pub(crate) struct HotArgs {
    #[command(flatten)]
    pub(crate) shared: Shared,
    /// Number of servers; several numbers are measured one after the other
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "8", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) servers: Vec<u32>,
    #[command(flatten)]
    pub(crate) split: SplitAt,
    /// The placements to compare
    #[arg(long = "placement", value_name = "NAME", value_delimiter = ',', value_parser = kind_parser(),
          default_value = "dido,giga+,edge-cut,vertex-cut")]
    pub(crate) placements: Vec<Kind>,
    /// Total number of clients
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) clients: u32,
    /// Inserts per client, one after the other
    #[arg(long, value_name = "N", default_value_t = 10_240, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) inserts: u32,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  esker bench cluster threshold --sweep 128,256,512,1024,2048,4096\n  \
                  esker bench cluster threshold --placement giga+ --edges 65536 --batch 1000 --rounds 1")]
pub(crate) struct ThresholdArgs {
    #[command(flatten)]
    pub(crate) shared: Shared,
    /// Number of servers to start
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) servers: u32,
    /// The thresholds to measure
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "128,256,512,1024,2048,4096",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) sweep: Vec<u64>,
    /// Edges of the vertex
    #[arg(long, value_name = "N", default_value_t = 8192, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) edges: u32,
    /// Number of edges per batch
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) batch: u32,
    /// The placement to measure
    #[arg(long, value_name = "NAME", value_parser = kind_parser(), default_value = "dido")]
    pub(crate) placement: Kind,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  esker bench cluster travel --steps 2,4,8 --placement dido,edge-cut\n  \
                  esker bench cluster travel --graph rmat:16:200000 --engine sync,async --both-ways\n  \
                  esker bench cluster travel --engine sync,async --stragglers 50ms")]
pub(crate) struct ClusterTravelArgs {
    #[command(flatten)]
    pub(crate) shared: Shared,
    /// Number of servers to start
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) servers: u32,
    #[command(flatten)]
    pub(crate) split: SplitAt,
    /// The graph: rmat:SCALE:EDGES[:SEED], copurchase[:SEED], or a file with a source and a destination per line
    #[arg(long, value_name = "GRAPH", default_value = "copurchase")]
    pub(crate) graph: GraphSource,
    /// The placements to compare
    #[arg(long = "placement", value_name = "NAME", value_delimiter = ',', value_parser = kind_parser(), default_value = "dido")]
    pub(crate) placements: Vec<Kind>,
    /// The traversal engines to compare
    #[arg(
        long,
        value_name = "ENGINE",
        value_delimiter = ',',
        value_enum,
        default_value = "sync,prefetch,async"
    )]
    pub(crate) engine: Vec<TraversalEngineArg>,
    /// Numbers of traversal steps
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "2,4,8", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) steps: Vec<u32>,
    /// Number of the start vertex [default: 0 in the copurchase graph, else the vertex of the highest degree]
    #[arg(long, value_name = "N")]
    pub(crate) start: Option<u32>,
    /// Follow edges in both directions
    #[arg(long)]
    pub(crate) both_ways: bool,
    /// During a traversal, pause one random server after the other for this time, as other jobs on their machines would
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) stragglers: Option<Duration>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  esker bench cluster scan --graph rmat:12:60000\n  \
                  esker bench cluster scan --placement dido,edge-cut --samples 16 --plots figures/")]
pub(crate) struct ClusterScanArgs {
    #[command(flatten)]
    pub(crate) shared: Shared,
    /// Number of servers to start
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) servers: u32,
    #[command(flatten)]
    pub(crate) split: SplitAt,
    /// The graph: rmat:SCALE:EDGES[:SEED], copurchase[:SEED], or a file with a source and a destination per line
    #[arg(long, value_name = "GRAPH", default_value = "rmat:13:200000")]
    pub(crate) graph: GraphSource,
    /// The placements to compare
    #[arg(long = "placement", value_name = "NAME", value_delimiter = ',', value_parser = kind_parser(),
          default_value = "dido,giga+,edge-cut,vertex-cut")]
    pub(crate) placements: Vec<Kind>,
    /// Maximum number of vertices per degree band
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) samples: u32,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  esker bench cluster mdtest --servers 1,2,4,8 --files 250\n  \
                  esker bench cluster mdtest --paths --servers 1,2,4,8 --clients-per-server 2 --files 40000 --batch 1000")]
pub(crate) struct MdtestArgs {
    #[command(flatten)]
    pub(crate) shared: Shared,
    #[command(flatten)]
    pub(crate) counts: ServerCounts,
    #[command(flatten)]
    pub(crate) split: SplitAt,
    /// The placement to measure
    #[arg(long, value_name = "NAME", value_parser = kind_parser(), default_value = "dido")]
    pub(crate) placement: Kind,
    /// Number of clients per server
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=128))]
    pub(crate) clients_per_server: u32,
    /// Create files by path in a directory that splits (GIGA+), not as vertices with an edge
    #[arg(long)]
    pub(crate) paths: bool,
    /// With --paths: split a partition of the directory with more entries than this
    #[arg(long, value_name = "N", default_value_t = DIRECTORY_THRESHOLD_DEFAULT, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) directory_threshold: u64,
    /// With --paths: files per call
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) batch: u32,
    /// With --paths: then measure tagging each file
    #[arg(long, requires = "paths")]
    pub(crate) tag: bool,
    /// With --paths: clients do not cache which server has a file
    #[arg(long, requires = "paths")]
    pub(crate) no_cache: bool,
    /// Files per client, created one after the other
    #[arg(long, value_name = "N", default_value_t = 4000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) files: u32,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  esker bench cluster splits --directory-threshold 8192,65536\n  \
                  esker bench cluster splits /scratch --servers 8 --files 500000 --json splits.json")]
pub(crate) struct SplitsArgs {
    #[command(flatten)]
    pub(crate) shared: Shared,
    /// Number of servers to start
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=64))]
    pub(crate) servers: u32,
    /// Split a partition of the directory with more entries than this; several numbers are measured one after the other
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [DIRECTORY_THRESHOLD_DEFAULT],
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) directory_threshold: Vec<u64>,
    /// Number of files created in the directory
    #[arg(long, value_name = "N", default_value_t = 60_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) files: u32,
}

/// Options of clusters whose stores move, and of their clients.
#[derive(Debug, Args)]
pub(crate) struct MovingArgs {
    #[command(flatten)]
    pub(crate) shared: Shared,
    /// Number of servers to start
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=32))]
    pub(crate) servers: u32,
    /// Number of stores in total
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) stores: u32,
    /// Time without a sign of life after which a server is considered dead
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    pub(crate) lease: Duration,
    /// Number of clients that write
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) writers: u32,
    /// Number of clients that only read
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=256))]
    pub(crate) readers: u32,
    /// Pause of each client between its rounds of calls
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = parse_duration)]
    pub(crate) rest: Duration,
    /// Seed for the choice of servers and faults
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  esker bench cluster failover --kills 50 --lease 5s /dev/shm\n  \
                  esker bench cluster failover --servers 8 --stores 40 --writers 16 --kills 10")]
pub(crate) struct FailoverArgs {
    #[command(flatten)]
    pub(crate) moving: MovingArgs,
    /// Number of servers to kill, one after the other
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) kills: u32,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  esker bench cluster add --stores 40 --rest 0ms\n  \
                  esker bench cluster add --servers 8 --stores 64 --phase 60s --json add.json")]
pub(crate) struct AddArgs {
    #[command(flatten)]
    pub(crate) moving: MovingArgs,
    /// Time of each measurement, before and after
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = parse_duration)]
    pub(crate) phase: Duration,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  esker bench cluster soak --minutes 30 --faults kill,pause,cut,etcd --seed 1\n  \
                  esker bench cluster soak /dev/shm --minutes 0 --seconds 90 --faults kill")]
pub(crate) struct SoakArgs {
    #[command(flatten)]
    pub(crate) moving: MovingArgs,
    /// Duration of the test in minutes
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub(crate) minutes: u64,
    /// Seconds added to the minutes
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seconds: u64,
    /// Kinds of faults
    #[arg(
        long,
        value_name = "FAULT",
        value_delimiter = ',',
        value_enum,
        default_value = "kill,pause,cut,etcd"
    )]
    pub(crate) faults: Vec<Fault>,
}

/// Faults of the soak test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Fault {
    /// Kill a server and restart it
    Kill,
    /// Pause a server and resume it
    Pause,
    /// Cut the network between a server and etcd
    Cut,
    /// Pause etcd, or kill and restart it
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

/// The engine of traversals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TraversalEngineArg {
    /// Step by step
    Sync,
    /// Step by step; servers that wait for the next step read ahead
    Prefetch,
    /// Asynchronous, without steps
    Async,
}

impl From<TraversalEngineArg> for Strategy {
    fn from(engine: TraversalEngineArg) -> Self {
        match engine {
            TraversalEngineArg::Sync => Self::Sync,
            TraversalEngineArg::Prefetch => Self::Prefetch,
            TraversalEngineArg::Async => Self::Async,
        }
    }
}
