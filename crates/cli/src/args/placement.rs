//! Arguments of the commands that show how edges are distributed.

use super::{Target, kind_parser};
use clap::{Args, Subcommand, ValueEnum};
use esker_cluster::Kind;
use esker_cluster::placement::THRESHOLD_DEFAULT;

#[derive(Debug, Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        esker placement explain lab.esker user:1001\n  \
        esker placement explain lab.esker user:1001 --servers 8"
)]
pub(crate) struct PlacementArgs {
    #[command(subcommand)]
    pub(crate) command: PlacementCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PlacementCommand {
    /// Show a vertex's partition tree, its bitmap, and the server of each partition of its edges
    Explain(ExplainArgs),
}

#[derive(Debug, Args)]
#[command(
    after_help = "For an embedded database, the command shows how its edges, including inverse ones, would be distributed over \
                  N servers, S1 to SN. For a cluster, it shows the actual placement and splits, and ignores the options for \
                  them. S1 is server 0.\n\nExamples:\n  \
                  esker placement explain lab.esker user:1001\n  \
                  esker placement explain lab.esker user:1001 --servers 8 --threshold 16\n  \
                  esker placement explain lab.esker user:1001 --vnodes 1024 --format json"
)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The vertex, as TYPE:KEY or the path of a file
    #[arg(value_name = "VERTEX")]
    pub(crate) vertex: String,
    /// Placement strategy of the edges
    #[arg(long, value_name = "NAME", value_parser = kind_parser(), default_value = "dido")]
    pub(crate) placement: Kind,
    /// Number of servers of the assumed cluster
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) servers: u32,
    /// Split threshold: a partition with more edges splits
    #[arg(long, value_name = "N", default_value_t = THRESHOLD_DEFAULT, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) threshold: u64,
    /// Number of virtual nodes, a power of two, which are distributed over the servers [default: none]
    #[arg(long, value_name = "K")]
    pub(crate) vnodes: Option<u32>,
    /// Output format of the explanation
    #[arg(long, value_enum, default_value_t = ExplainFormat::Table)]
    pub(crate) format: ExplainFormat,
}

/// Output format of an explanation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExplainFormat {
    /// A tree and a table
    Table,
    /// One JSON document
    Json,
}
