//! The command line of `esker bench`.

use super::all::AllBenchArgs;
use super::boss::BossBenchArgs;
use super::cluster::ClusterBenchArgs;
use super::mount::MountBenchArgs;
use super::namespace::NamespaceBenchArgs;
use super::objects::ObjectsBenchArgs;
use super::placement::PlacementBenchArgs;
use super::rdf::RdfBenchArgs;
use super::run::RunBenchArgs;
use super::serve::ServeBenchArgs;
use super::site::SiteBenchArgs;
use super::source::GraphSource;
use super::tree::TreeBenchArgs;
use super::wan::WanBenchArgs;
use clap::{Args, Parser, Subcommand};
use esker_terminal::args::{EngineArg, FormatArgs, Globals};
use std::path::PathBuf;

/// The complete command line.
#[derive(Debug, Parser)]
#[command(
    name = "esker-bench",
    bin_name = "esker bench",
    version,
    about = "Measure Esker and its key-value store on this machine",
    arg_required_else_help = true,
    subcommand_required = true,
    propagate_version = true,
    max_term_width = 110,
    after_help = "Both sides, Esker and the bare key-value store, get the same keys and values in the same run, in turn. RATIO is \
                  Esker's speed divided by that of the bare store: 1 is par, more is better.\n\nExamples:\n  \
                  esker bench ingest --bulk\n  \
                  esker bench hot-vertex --threads 4\n  \
                  esker bench travel /scratch --graph rmat:20:4000000 --memory 2GiB --format json\n  \
                  esker bench serve --connections 8\n  \
                  esker bench placement --graph rmat:17:2000000\n  \
                  esker bench cluster insert --servers 1,2,4\n  \
                  esker bench objects --case create,search"
)]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    pub(crate) globals: Globals,
    #[command(subcommand)]
    pub(crate) workload: Workload,
}

/// The subcommands of `esker bench`.
#[derive(Debug, Subcommand)]
pub(crate) enum Workload {
    #[command(flatten)]
    Timed(Timed),
    /// Run all workloads one after the other, and print one table
    All(AllBenchArgs),
    /// Count the communication and reads of scans and traversals under each edge placement
    Placement(PlacementBenchArgs),
    /// Measure a cluster of servers on this machine
    Cluster(ClusterBenchArgs),
    /// Create, search, update and delete objects, as in SoMeta's figures
    Objects(ObjectsBenchArgs),
    /// The metadata of a sky survey (SoMeta's BOSS case), compared with other databases
    Boss(BossBenchArgs),
    /// Create, stat, change and list files, compared with tmpfs and ext4
    Namespace(NamespaceBenchArgs),
    /// Files through a mount, compared with a FUSE file system that does no work
    Mount(MountBenchArgs),
    /// Import a directory tree, compared with a walk that only reads the metadata
    Tree(TreeBenchArgs),
    /// Overhead of recording a command, with and without tracing its file accesses, and the rate of delivering a spool
    Run(RunBenchArgs),
    /// Load RDF and answer SPARQL queries, compared with other stores
    Rdf(RdfBenchArgs),
    /// Hit rate and latency of the site cache, and the rate of trace replay
    Site(SiteBenchArgs),
    /// Request metadata from real FTP, SFTP and GridFTP servers over a simulated long distance, with and without tiers in between
    Wan(WanBenchArgs),
}

/// Workloads that compare a database with its key-value store by time.
#[derive(Debug, Subcommand)]
pub(crate) enum Timed {
    /// Insert edges in batches; with --bulk, as sorted tables too
    Ingest(IngestArgs),
    /// Insert single edges at one vertex from several threads
    HotVertex(HotVertexArgs),
    /// Read vertices with their attributes
    #[command(after_help = "Examples:\n  \
                      esker bench read\n  \
                      esker bench read /scratch --graph rmat:20:4000000 --memory 2GiB")]
    Read(Common),
    /// Read the edges of vertices
    #[command(after_help = "Examples:\n  \
                      esker bench scan\n  \
                      esker bench scan --graph copurchase --property-bytes 0 --format json")]
    Scan(Common),
    /// Traverse edges, step by step
    #[command(after_help = "Examples:\n  \
                      esker bench travel --graph rmat:16:1000000\n  \
                      esker bench travel /scratch --graph rmat:20:4000000 --memory 2GiB --format json")]
    Travel(Common),
    /// Open a database
    #[command(after_help = "Examples:\n  \
                      esker bench open --graph rmat:22:10000000\n  \
                      esker bench open /scratch --rounds 10 --json open.json")]
    Open(Common),
    /// Read the present where each edge has many versions
    Versions(VersionsArgs),
    /// Call a server, and insert through connections to it
    #[command(after_help = "Examples:\n  \
                      esker bench serve --connections 8\n  \
                      esker bench serve --access\n  \
                      esker bench serve --hostile 1000 --seconds 30")]
    Serve(ServeBenchArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  esker bench ingest --bulk\n  \
                  esker bench ingest --graph rmat:20:4000000 --threads 4 --json ingest.json")]
pub(crate) struct IngestArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Load the same edges as sorted tables, too
    #[arg(long)]
    pub(crate) bulk: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  esker bench hot-vertex --degree 10000000\n  \
                  esker bench hot-vertex --edges 2000 --durability sync",
    mut_arg("edges", |argument| argument.help("Number of edges to insert [default: 100000]")),
    mut_arg("threads", |argument| argument.help("Writing threads [default: 4]")))]
pub(crate) struct HotVertexArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Then grow the vertex to this number of edges in batches and print a rate for each million
    #[arg(long, value_name = "N")]
    pub(crate) degree: Option<u64>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "RAW is a database in which each edge has one version; RATIO is the speed with many versions \
                  divided by the speed with one version.\n\nExamples:\n  \
                  esker bench versions\n  \
                  esker bench versions --versions 1000 --edges 5000",
    mut_arg("edges", |argument| argument.help("Number of the graph's edges to use [default: 20000]"))
)]
pub(crate) struct VersionsArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Number of versions of each edge
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(2..=100_000))]
    pub(crate) versions: u32,
}

/// Options of all timed workloads.
#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    /// Directory for the scratch folder, on the file system to be measured
    #[arg(value_name = "DIRECTORY", default_value = ".")]
    pub(crate) directory: PathBuf,
    /// The graph: rmat:SCALE:EDGES[:SEED], copurchase[:SEED] (262,111 vertices with up to 5 edges, mostly to similar
    /// vertices), or a file with a source and a destination per line
    #[arg(long, value_name = "GRAPH", default_value = "rmat:18:1000000")]
    pub(crate) graph: GraphSource,
    /// Number of the graph's edges to use [default: all]
    #[arg(long, value_name = "N")]
    pub(crate) edges: Option<u64>,
    /// Number of edges per batch
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) batch: u32,
    /// Writing threads [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: Option<u16>,
    /// Bytes of properties per edge
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(0..=65_536))]
    pub(crate) property_bytes: u32,
    /// Number of measurements of each side; medians are printed
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: u32,
    /// Write the report as JSON to this file, too
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// The key-value store, both below Esker and on its own
    #[arg(long, value_enum, default_value_t = EngineArg::Fjall)]
    pub(crate) engine: EngineArg,
    /// Keep the scratch folder
    #[arg(long)]
    pub(crate) keep: bool,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

impl Common {
    /// The settings for the JSON report; `memory` is in bytes.
    pub(crate) fn settings(&self, memory: u64) -> serde_json::Value {
        serde_json::json!({
            "graph": self.graph.name(),
            "edges": self.edges,
            "batch": self.batch,
            "threads": self.threads,
            "property_bytes": self.property_bytes,
            "rounds": self.rounds,
            "memory_bytes": memory,
            "raw": "fjall",
        })
    }
}

impl Timed {
    pub(crate) fn common(&self) -> &Common {
        match self {
            Self::Ingest(args) => &args.common,
            Self::HotVertex(args) => &args.common,
            Self::Serve(args) => &args.common,
            Self::Versions(args) => &args.common,
            Self::Read(common) | Self::Scan(common) | Self::Travel(common) | Self::Open(common) => {
                common
            }
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Ingest(_) => "ingest",
            Self::HotVertex(_) => "hot-vertex",
            Self::Read(_) => "read",
            Self::Scan(_) => "scan",
            Self::Travel(_) => "travel",
            Self::Open(_) => "open",
            Self::Serve(_) => "serve",
            Self::Versions(_) => "versions",
        }
    }
}
