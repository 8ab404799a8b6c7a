//! Arguments of the commands that walk the graph.

use super::Target;
use super::object::AskerArg;
use crate::times::{parse_as_of, parse_at};
use crate::units::parse_size;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use esker_model::Version;
use esker_model::traversal::Strategy;
use std::path::PathBuf;

/// How a graph is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GraphFormat {
    /// A tree for people
    #[value(alias = "tree")]
    Table,
    /// One JSON document
    Json,
    /// One JSON object a line: vertices, then edges, then a summary
    Ndjson,
    /// The edges as comma-separated values
    Csv,
    /// A graph for Graphviz
    Dot,
}

const WALK: &str = "Exit code 1 if the search did not come to its end (--timeout, --max-edges, --memory, Ctrl-C). \
                    --made-by and --used name edge types of the schema; several with commas, or given again.";

/// What `lineage` and `impact` have in common.
#[derive(Debug, Args)]
pub(crate) struct WalkArgs {
    /// The directory that holds the database, or a server: esker://HOST:PORT; or, alone, a path below a mount
    #[arg(value_name = "TARGET")]
    pub(crate) target: String,
    /// The vertex, as TYPE:KEY
    #[arg(value_name = "VERTEX")]
    pub(crate) vertex: Option<String>,
    /// As it was then
    #[arg(long, value_name = "TIME", value_parser = parse_as_of)]
    pub(crate) as_of: Option<Version>,
    /// Go through that many jobs at most
    #[arg(long, value_name = "N")]
    pub(crate) depth: Option<u32>,
    /// Find that many vertices at most
    #[arg(long, value_name = "N")]
    pub(crate) max_vertices: Option<u64>,
    /// Look at that many edges at most
    #[arg(long, value_name = "N")]
    pub(crate) max_edges: Option<u64>,
    /// Edge types from data to what made it
    #[arg(
        long,
        value_name = "EDGETYPE",
        value_delimiter = ',',
        default_value = "wasWrittenBy"
    )]
    pub(crate) made_by: Vec<String>,
    /// Edge types from what made data to the data that it used
    #[arg(
        long,
        value_name = "EDGETYPE",
        value_delimiter = ',',
        default_value = "read"
    )]
    pub(crate) used: Vec<String>,
    #[command(flatten)]
    pub(crate) asker: AskerArg,
    /// How to print
    #[arg(long, value_enum, default_value_t = GraphFormat::Table)]
    pub(crate) format: GraphFormat,
}

#[derive(Debug, Args)]
#[command(
    after_help = format!("{WALK}\n\nExamples:\n  \
                  esker lineage lab.esker file:/scratch/plot.png\n  \
                  esker lineage lab.esker file:/scratch/plot.png --as-of 2026-03-01 --depth 2\n  \
                  esker lineage lab.esker dataset:v2 --made-by wasWrittenBy,derivedBy --used read,cites\n  \
                  esker lineage lab.esker file:/scratch/plot.png --format dot | dot -Tsvg > plot.svg")
)]
pub(crate) struct LineageArgs {
    #[command(flatten)]
    pub(crate) walk: WalkArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = format!("{WALK}\n\nExamples:\n  \
                  esker impact lab.esker file:/scratch/raw.h5\n  \
                  esker impact lab.esker file:/scratch/raw.h5 --since 2026-03-01 --max-vertices 1000")
)]
pub(crate) struct ImpactArgs {
    #[command(flatten)]
    pub(crate) walk: WalkArgs,
    /// Leave out who read it before then and saw only what was older
    #[arg(long, value_name = "TIME", value_parser = parse_at)]
    pub(crate) since: Option<Version>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "A chain begins with v(\"TYPE:KEY\", ...) or v(type=\"TYPE\"), then goes on with e(TYPE, ...), v(), \
                  va(ATTRIBUTE, EQ|IN|RANGE, VALUE, ...), ea(...), rtn(), return_fp(), repeat() or repeat(max=N), \
                  as_of(TIME), versions(TIME1, TIME2), limit(N).\n\n\
                  Examples:\n  \
                  esker travel lab.esker 'v(\"user:1001\").e(\"run\").v().e(\"write\").v()'\n  \
                  esker travel lab.esker 'v(\"file:/C\").e(\"wasWrittenBy\").v().e(\"read\").v().repeat().return_fp()'\n  \
                  esker travel lab.esker -f chain.txt --profile"
)]
pub(crate) struct TravelArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The chain
    #[arg(
        value_name = "CHAIN",
        required_unless_present = "file",
        conflicts_with = "file"
    )]
    pub(crate) chain: Option<String>,
    #[command(flatten)]
    pub(crate) asker: AskerArg,
    /// Read the chain from a file, or from standard input with `-`
    #[arg(long, short, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Print the plan and do not run it
    #[arg(long, conflicts_with = "profile")]
    pub(crate) explain: bool,
    /// Run it, and print what each step did on stderr (in JSON: as `profile`)
    #[arg(long)]
    pub(crate) profile: bool,
    /// Run it, and draw the time that each server of a cluster spent in each step
    #[arg(long, value_name = "FILE", conflicts_with = "explain")]
    pub(crate) profile_svg: Option<PathBuf>,
    /// How the servers of a cluster go about it: step by step, the same while those that wait read ahead, or without steps.
    /// What comes out is the same
    #[arg(long, value_name = "NAME", value_parser = strategy_parser(), default_value = "prefetch")]
    pub(crate) engine: Strategy,
    /// Take that many steps at most, counted through repeats
    #[arg(long, value_name = "N")]
    pub(crate) depth: Option<u32>,
    /// Look at that many edges at most
    #[arg(long, value_name = "N")]
    pub(crate) max_edges: Option<u64>,
    /// Hold working sets and paths of that many bytes at most
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) max_memory: Option<u64>,
    /// With `return_fp()`: print that many paths at most; 0 for all. JSON and DOT show the graph of all paths
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) paths: u64,
    /// How to print
    #[arg(long, value_enum, default_value_t = GraphFormat::Table)]
    pub(crate) format: GraphFormat,
}

/// Reads a strategy's name.
fn strategy_parser() -> impl TypedValueParser<Value = Strategy> {
    PossibleValuesParser::new(Strategy::ALL.map(Strategy::name)).try_map(|name| {
        let found = Strategy::ALL.into_iter().find(|s| s.name() == name);
        found.ok_or("no such engine")
    })
}
