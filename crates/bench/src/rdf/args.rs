//! The command line of `esker bench rdf`.

use clap::Args;
use esker_terminal::args::FormatArgs;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(
    after_help = "Without --data it makes runs, files and people of its own and asks its own queries. Times are of the \
                  processors: medians of warm runs in this process, answers written as JSON. RAW is the fastest peer's, RATIO how \
                  many times faster Esker is.\n\nA peer is a command. It finds in its environment ESKER_BENCH_DATA and \
                  ESKER_BENCH_QUERIES (paths, one a line), ESKER_BENCH_RUNS and ESKER_BENCH_SECONDS (limit of a query), and prints \
                  one JSON object a line:\n  \
                  {\"load\": true, \"cpu_s\": 6.6, \"quads\": 1272575}\n  \
                  {\"query\": \"q2\", \"rows\": 28, \"cpu_ms\": 898.1}      (or \"error\": \"why\" in place of the figures)\n\nExamples:\n  \
                  esker bench rdf\n  \
                  esker bench rdf --data lubm10.nt --query queries/ --peer oxigraph='python peer.py'\n  \
                  esker bench rdf --functions 1000000 --threads 1 --peer oxigraph='python scripts/peers/oxigraph.py'\n  \
                  esker bench rdf --runs-of 1000000 --threads 1 --format json\n  \
                  esker bench rdf --updates 100000 --clients 8\n  \
                  esker bench rdf --workers 2"
)]
pub(crate) struct RdfBenchArgs {
    /// Directory for the scratch folder
    #[arg(value_name = "DIRECTORY", default_value = ".")]
    pub(super) directory: PathBuf,
    /// RDF files to load; without it, generated data
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(super) data: Vec<PathBuf>,
    /// Query files that end in .rq, or folders of them
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "data")]
    pub(super) query: Vec<PathBuf>,
    /// Number of runs that the generated data describes, about 20 triples each
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(100..=20_000_000), conflicts_with = "data")]
    pub(super) runs_of: u32,
    /// Call each SPARQL function with this number of generated literals instead
    #[arg(long, value_name = "ROWS", conflicts_with_all = ["data", "workers"], value_parser = clap::value_parser!(u32).range(100..=20_000_000))]
    pub(super) functions: Option<u32>,
    /// Number of executions of each query, after one for warming up
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) runs: u32,
    /// Threads per query [default: number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) threads: Option<u16>,
    /// Another store for comparison: its name and a command
    #[arg(long = "peer", value_name = "NAME=COMMAND", value_parser = peer)]
    pub(super) peers: Vec<(String, String)>,
    /// Time limit of a query in seconds
    #[arg(long, alias = "limit", value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(super) query_timeout: u32,
    /// Send this number of single updates through a server's HTTP interface instead, with concurrent reads
    #[arg(long, value_name = "N", conflicts_with_all = ["data", "query", "peers", "functions"], value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub(super) updates: Option<u32>,
    /// Connections that send updates
    #[arg(long, value_name = "N", default_value_t = 8, requires = "updates", value_parser = clap::value_parser!(u16).range(1..=60))]
    pub(super) clients: u16,
    /// Query this number of worker processes instead, each with a part of the data; RAW is this process alone, times
    /// are wall times
    #[arg(long, value_name = "N", conflicts_with_all = ["updates", "peers"], value_parser = clap::value_parser!(u16).range(2..=64))]
    pub(super) workers: Option<u16>,
    /// Write the report as JSON to this file, too
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Keep the scratch folder
    #[arg(long)]
    pub(super) keep: bool,
    #[command(flatten)]
    pub(super) format: FormatArgs,
}

fn peer(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, command)) if !name.is_empty() && !command.is_empty() => {
            Ok((name.to_owned(), command.to_owned()))
        }
        _ => Err("expected NAME=COMMAND, as in oxigraph='python peer.py'".to_owned()),
    }
}
