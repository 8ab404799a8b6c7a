//! Arguments of the commands that show where edges lie.

use super::Target;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use esker_cluster::Kind;
use esker_cluster::placement::{Order, THRESHOLD_DEFAULT};

#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct PlacementArgs {
    #[command(subcommand)]
    pub(crate) command: PlacementCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PlacementCommand {
    /// A vertex's partition tree, its bitmap, and where each part of its edges lies
    Explain(ExplainArgs),
}

#[derive(Debug, Args)]
#[command(
    after_help = "An embedded database lies on no servers: what is shown is how its edges, inverse ones among them, would \
                  lie on N servers, S1 to SN. Of a cluster, what is: its own placement, and the splits that were \
                  made; the options for them are not looked at. S1 is server 0.\n\nExamples:\n  \
                  esker placement explain lab.esker user:1001\n  \
                  esker placement explain lab.esker user:1001 --servers 8 --threshold 16\n  \
                  esker placement explain lab.esker user:1001 --vnodes 1024 --format json"
)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The vertex, as TYPE:KEY
    #[arg(value_name = "VERTEX")]
    pub(crate) vertex: String,
    /// The placement
    #[arg(long, value_name = "NAME", value_parser = kind_parser(), default_value = "dido")]
    pub(crate) placement: Kind,
    /// Over that many servers
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) servers: u32,
    /// A partition with more edges than that splits
    #[arg(long, value_name = "N", default_value_t = THRESHOLD_DEFAULT, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) threshold: u64,
    /// Spread edges over that many virtual nodes, a power of two, which are dealt out to the servers [default: none]
    #[arg(long, value_name = "K")]
    pub(crate) vnodes: Option<u32>,
    /// How to print
    #[arg(long, value_enum, default_value_t = ExplainFormat::Table)]
    pub(crate) format: ExplainFormat,
}

/// How an explanation is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExplainFormat {
    /// A tree and a table for people
    Table,
    /// One JSON document
    Json,
}

/// In which order a tree's nodes get right children.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TreeArg {
    /// From left to right, as in Figure 6 of the paper
    Paper,
    /// By partition number: what virtual nodes need
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

/// Reads a placement's name.
pub(crate) fn kind_parser() -> impl TypedValueParser<Value = Kind> {
    PossibleValuesParser::new(Kind::ALL.map(Kind::name)).try_map(|name| name.parse::<Kind>())
}
