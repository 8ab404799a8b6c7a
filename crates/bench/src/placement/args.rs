//! The command line of `esker bench placement`.

use crate::source::GraphSource;
use clap::{Args, ValueEnum};
use esker_cluster::Kind;
use esker_cluster::placement::Order;
use esker_terminal::args::FormatArgs;
use esker_terminal::args::kind_parser;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(
    after_help = "Nothing is stored and nothing is timed: it counts, on a list of edges, what each placement would cost \
                  (GraphMeta, section 6.4.2). StatComm is communication between servers, StatReads the edges that the \
                  busiest server of a step reads; of one vertex of every out-degree, for a scan of its edges and for a \
                  traversal of 3 steps. docs/book/bench.md says exactly what is counted.\n\nExamples:\n  \
                  esker bench placement --graph rmat:17:12800000\n  \
                  esker bench placement --graph edges.bin --home modulo --json out.json\n  \
                  esker bench placement --graph edges.tsv --placement dido,edge-cut --vnodes 1024 --plot figures/"
)]
pub(crate) struct PlacementBenchArgs {
    /// The graph: rmat:SCALE:EDGES[:SEED], copurchase[:SEED], or a file. FILE.bin has pairs of little-endian 32-bit
    /// numbers, source
    /// and destination, in the order of insertion; any other file has one pair per line, as text
    #[arg(long, value_name = "GRAPH", default_value = "rmat:17:2000000")]
    pub(crate) graph: GraphSource,
    /// The placements to compare
    #[arg(long = "placement", value_name = "NAME", value_delimiter = ',', value_parser = kind_parser(),
          default_value = "dido,giga+,edge-cut,vertex-cut")]
    pub(crate) placements: Vec<Kind>,
    /// Number of servers to simulate
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) servers: u32,
    /// Split a partition with more edges than this
    #[arg(long, value_name = "N", default_value_t = esker_cluster::placement::THRESHOLD_DEFAULT,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) threshold: u64,
    /// Distribute edges over this number of virtual nodes, a power of two, which are assigned to the servers [default: none]
    #[arg(long, value_name = "K")]
    pub(crate) vnodes: Option<u32>,
    /// DIDO's partition tree [default: paper; with --vnodes: numbers]
    #[arg(long, value_enum, value_name = "TREE")]
    pub(crate) tree: Option<TreeArg>,
    /// Choice of vertices' home servers
    #[arg(long, value_enum, default_value_t = HomeArg::Hash)]
    pub(crate) home: HomeArg,
    /// Seed for the graph and for hashing vertices [default: that of --graph, else 1]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Write the figures of each sampled vertex to this file, one JSON object per line
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Draw the paper's Figures 12 to 15 as SVG files in this directory
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) plot: Option<PathBuf>,
    /// Write the graph to this file as 32-bit pairs, for independent checks
    #[arg(long, value_name = "FILE")]
    pub(crate) write_graph: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

/// The choice of a vertex's home server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum HomeArg {
    /// By the high bits of its id, as in a database
    Hash,
    /// Vertex i on server i mod N
    Modulo,
}

/// The order in which a tree's nodes get right children.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TreeArg {
    /// From left to right, as in Figure 6 of the paper
    Paper,
    /// By partition number, as virtual nodes need it
    Numbers,
}

impl TreeArg {
    pub(crate) fn order(self) -> Order {
        match self {
            Self::Paper => Order::Nodes,
            Self::Numbers => Order::Numbers,
        }
    }
}
