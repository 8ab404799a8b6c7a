//! Arguments of the commands that traverse the graph.

use super::PrincipalArg;
use super::Target;
use crate::times::{parse_as_of, parse_at};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use esker_model::Version;
use esker_model::traversal::Strategy;
use esker_terminal::units::parse_size;
use std::path::PathBuf;

/// Output format of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GraphFormat {
    /// A tree
    #[value(alias = "tree")]
    Table,
    /// One JSON document
    Json,
    /// One JSON object per line: vertices, then edges, then a summary
    Ndjson,
    /// The edges as comma-separated values
    Csv,
    /// A graph for Graphviz
    Dot,
}

const WALK: &str = "Exit code 1 if the search did not complete (--timeout, --max-edges, --memory, Ctrl-C). \
                    --made-by and --used name edge types of the schema; separate several by commas, or give the option again.";

/// Options of both `lineage` and `impact`.
#[derive(Debug, Args)]
pub(crate) struct DerivationArgs {
    /// The directory that holds the database, or a server: esker://HOST:PORT; or, without a vertex, a path below a mount [default: `$ESKER_TARGET`, or
    /// `.esker` here or above]
    #[arg(value_name = "TARGET")]
    pub(crate) target: String,
    /// The vertex, as TYPE:KEY or the path of a file
    #[arg(value_name = "VERTEX")]
    pub(crate) vertex: Option<String>,
    /// Read the state as of this time
    #[arg(long, value_name = "TIME", value_parser = parse_as_of)]
    pub(crate) as_of: Option<Version>,
    /// Maximum number of jobs on a path
    #[arg(long, value_name = "N")]
    pub(crate) depth: Option<u32>,
    /// Maximum number of vertices to find
    #[arg(long, value_name = "N")]
    pub(crate) max_vertices: Option<u64>,
    /// Maximum number of edges to read
    #[arg(long, value_name = "N")]
    pub(crate) max_edges: Option<u64>,
    /// Edge types from data to the job that made it
    #[arg(
        long,
        value_name = "EDGETYPE",
        value_delimiter = ',',
        default_value = "wasWrittenBy"
    )]
    pub(crate) made_by: Vec<String>,
    /// Edge types from a job to the data that it used
    #[arg(
        long,
        value_name = "EDGETYPE",
        value_delimiter = ',',
        default_value = "read"
    )]
    pub(crate) used: Vec<String>,
    #[command(flatten)]
    pub(crate) principal: PrincipalArg,
    /// Output format of the graph
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
    pub(crate) options: DerivationArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = format!("{WALK}\n\nExamples:\n  \
                  esker impact lab.esker file:/scratch/raw.h5\n  \
                  esker impact lab.esker file:/scratch/raw.h5 --since 2026-03-01 --max-vertices 1000")
)]
pub(crate) struct ImpactArgs {
    #[command(flatten)]
    pub(crate) options: DerivationArgs,
    /// Leave out jobs that read the file before this time and saw only older versions
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
    /// The traversal, as a chain of steps
    #[arg(
        value_name = "CHAIN",
        required_unless_present = "file",
        conflicts_with = "file"
    )]
    pub(crate) chain: Option<String>,
    #[command(flatten)]
    pub(crate) principal: PrincipalArg,
    /// File with the chain; `-` is standard input
    #[arg(long, short, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Print the plan and do not run the traversal
    #[arg(long, conflicts_with = "profile")]
    pub(crate) explain: bool,
    /// Run the traversal, and print on stderr what each step did (in JSON: as `profile`)
    #[arg(long)]
    pub(crate) profile: bool,
    /// Run the traversal, and draw the time that each server of a cluster spent in each step into this file
    #[arg(long, value_name = "FILE", conflicts_with = "explain")]
    pub(crate) profile_svg: Option<PathBuf>,
    /// Execution by the servers of a cluster: in synchronous steps, in steps with read-ahead by servers that wait, or
    /// asynchronously. The result is the same
    #[arg(long, value_name = "NAME", value_parser = strategy_parser(), default_value = "prefetch")]
    pub(crate) engine: Strategy,
    /// Maximum number of steps, counted through repeats
    #[arg(long, value_name = "N")]
    pub(crate) depth: Option<u32>,
    /// Maximum number of edges to read
    #[arg(long, value_name = "N")]
    pub(crate) max_edges: Option<u64>,
    /// Maximum size of working sets and paths
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) max_memory: Option<u64>,
    /// With `return_fp()`: maximum number of paths to print; 0 for all. JSON and DOT show the graph of all paths
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) paths: u64,
    /// Output format of the graph
    #[arg(long, value_enum, default_value_t = GraphFormat::Table)]
    pub(crate) format: GraphFormat,
}

/// Returns the parser of a strategy's name.
fn strategy_parser() -> impl TypedValueParser<Value = Strategy> {
    PossibleValuesParser::new(Strategy::ALL.map(Strategy::name)).try_map(|name| {
        let found = Strategy::ALL.into_iter().find(|s| s.name() == name);
        found.ok_or("no such engine")
    })
}
