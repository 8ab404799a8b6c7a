//! Arguments of `esker sparql` and `esker rdf`.

use super::object::AskerArg;
use super::{FormatArgs, Target};
use clap::{Args, Subcommand, ValueEnum};
use esker_rdf::Part;
use std::path::PathBuf;

/// How an answer is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AnswerFormat {
    /// Columns for people; graphs as Turtle
    Table,
    /// SPARQL 1.1 Query Results JSON
    Json,
    /// SPARQL Query Results XML
    Xml,
    /// Comma-separated values: texts only
    Csv,
    /// Tab-separated values: terms as in Turtle
    Tsv,
    /// Turtle, for CONSTRUCT and DESCRIBE
    Ttl,
    /// N-Triples, for CONSTRUCT and DESCRIBE
    Nt,
    /// RDF/XML, for CONSTRUCT and DESCRIBE
    Rdf,
    /// JSON-LD, for CONSTRUCT and DESCRIBE
    Jsonld,
}

#[derive(Debug, Args)]
#[command(
    after_help = "A query sees the default graph; GRAPH asks the named ones. An update is done whole or not at all.\n\n\
    Examples:\n  \
    esker sparql lab.esker 'SELECT * { ?s ?p ?o } LIMIT 10'\n  \
    esker sparql lab.esker -f query.rq --format json\n  \
    esker sparql lab.esker --update 'INSERT DATA { <http://example.org/x> a <http://example.org/Run> }'\n  \
    esker sparql workers://127.0.0.1:7611,127.0.0.1:7612 -f query.rq"
)]
pub(crate) struct SparqlArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The query, or the update
    #[arg(
        value_name = "QUERY",
        required_unless_present = "file",
        conflicts_with = "file"
    )]
    pub(crate) query: Option<String>,
    /// A file that holds it; - is standard input
    #[arg(long, short, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// It is an update
    #[arg(long, short)]
    pub(crate) update: bool,
    /// How to print
    #[arg(long, value_enum, default_value_t = AnswerFormat::Table)]
    pub(crate) format: AnswerFormat,
    /// Show how the query would be answered, with estimates, and do not run it
    #[arg(long, conflicts_with = "update")]
    pub(crate) explain: bool,
    /// Say on stderr how the query was answered, with estimates and counts, and what took how long
    #[arg(long)]
    pub(crate) profile: bool,
    /// A graph that is a part of the default graph, instead of FROM
    #[arg(long, value_name = "IRI")]
    pub(crate) default_graph: Vec<String>,
    /// A graph that GRAPH may ask, instead of FROM NAMED
    #[arg(long, value_name = "IRI")]
    pub(crate) named_graph: Vec<String>,
    /// Let SERVICE ask endpoints whose IRIs begin so; a server has its own list
    #[arg(long, value_name = "IRI")]
    pub(crate) allow_service: Vec<String>,
    /// With workers://HOST:PORT,… as the target: a file with their secret
    #[arg(long, value_name = "FILE", env = "ESKER_SECRET_FILE")]
    pub(crate) secret_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) asker: AskerArg,
}

#[derive(Debug, Args)]
pub(crate) struct RdfArgs {
    #[command(subcommand)]
    pub(crate) command: RdfCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RdfCommand {
    /// Add files of RDF, all or nothing
    Load(RdfLoadArgs),
    /// Write all RDF data as one image, so that opening it needs no log
    Checkpoint(RdfPlainArgs),
    /// Write RDF data to standard output
    Dump(RdfDumpArgs),
    /// Counts and sizes
    Stats(RdfStatsArgs),
    /// Ranks, components, communities and more of a graph that a CONSTRUCT gives
    Algorithm(RdfAlgorithmArgs),
    /// Answer for one part of RDF data that several processes hold together
    Worker(RdfWorkerArgs),
    /// Forget all RDF data
    Drop(RdfPlainArgs),
}

/// By which rules triples are inferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InferRules {
    /// Subclasses, subproperties, domains, ranges
    Rdfs,
    /// OWL 2 RL: those, and equivalence, inverses, transitivity, restrictions and more
    OwlRl,
    /// None: what was inferred is forgotten
    None,
}

#[derive(Debug, Args)]
#[command(
    after_help = "N-Triples, N-Quads, Turtle, TriG, RDF/XML and JSON-LD, by the names' endings: .nt .nq .ttl .trig .rdf .owl .xml \
    .jsonld, each also with .gz or .zst. Folders are read with all below them.\n\n\
    Examples:\n  \
    esker rdf load lab.esker data.nt.zst more.ttl dir/\n  \
    esker rdf load lab.esker people.ttl --graph http://example.org/people\n  \
    esker rdf load lab.esker univ-bench.owl data.nt --infer owl-rl\n  \
    esker rdf load part2.esker data.nt --part 2/4"
)]
pub(crate) struct RdfLoadArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Files and folders
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// The graph for triples that name none
    #[arg(long, value_name = "IRI")]
    pub(crate) graph: Option<String>,
    /// Pass over broken lines, and list them
    #[arg(long)]
    pub(crate) lenient: bool,
    /// Keep what follows from the data beside it, from now on; without it as at the last load
    #[arg(long, value_enum, value_name = "RULES")]
    pub(crate) infer: Option<InferRules>,
    /// Load the Kth of N parts only, by the hash of the subject, for workers that hold one each
    #[arg(long, value_name = "K/N", conflicts_with = "infer")]
    pub(crate) part: Option<Part>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Each worker holds the part that `esker rdf load --part` put into its folder, in memory, as it is when the worker starts. \
    Workers ask each other: every one must reach every other by the addresses that queries name. Who knows the secret may ask; \
    without one, processes of the worker's user and of root on the same machine. With one, all is encrypted.\n\n\
    Examples:\n  \
    esker rdf load part1.esker data.nt --part 1/2; esker rdf load part2.esker data.nt --part 2/2\n  \
    esker rdf worker part1.esker --listen 127.0.0.1:7611 &\n  \
    esker rdf worker part2.esker --listen 127.0.0.1:7612 &\n  \
    esker sparql workers://127.0.0.1:7611,127.0.0.1:7612 'SELECT * { ?s ?p ?o } LIMIT 10'"
)]
pub(crate) struct RdfWorkerArgs {
    /// The directory that holds the part
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: String,
    /// Where to listen; port 0 lets the system choose. An address that others reach needs a secret
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7611")]
    pub(crate) listen: String,
    /// A file (mode 0600) whose first line all workers and those who ask them know: at least 20 characters that cannot be guessed
    #[arg(long, value_name = "FILE", env = "ESKER_SECRET_FILE")]
    pub(crate) secret_file: Option<PathBuf>,
    /// Write the address into that file once the worker answers, as HOST:PORT and a newline
    #[arg(long, value_name = "FILE")]
    pub(crate) port_file: Option<PathBuf>,
    /// Threads for each star of a query [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
}

#[derive(Debug, Args)]
pub(crate) struct RdfPlainArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

/// How RDF data is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DumpFormat {
    /// N-Quads
    Nq,
    /// Turtle with graphs (`TriG`)
    Trig,
    /// N-Triples: one graph only
    Nt,
    /// Turtle: one graph only
    Ttl,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  esker rdf dump lab.esker --graph http://example.org/people --format ttl > people.ttl"
)]
pub(crate) struct RdfDumpArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// That graph only; `default` is the default graph
    #[arg(long, value_name = "IRI")]
    pub(crate) graph: Option<String>,
    /// Write inferred triples too
    #[arg(long)]
    pub(crate) inferred: bool,
    #[command(flatten)]
    pub(crate) asker: AskerArg,
    /// How to write
    #[arg(long, value_enum, default_value_t = DumpFormat::Nq)]
    pub(crate) format: DumpFormat,
}

#[derive(Debug, Args)]
pub(crate) struct RdfStatsArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

/// What is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Algorithm {
    /// `PageRank`, along the edges
    Pagerank,
    /// Connected components, whatever the edges' directions
    Components,
    /// Communities by the method of Louvain, whatever the directions
    Communities,
    /// Which part of all shortest paths leads through a vertex
    Betweenness,
    /// In how many triangles a vertex is, whatever the directions
    Triangles,
    /// All shortest paths from one vertex to another
    StPaths,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The graph's edges are the triples of the CONSTRUCT, from subject to object; triples with the same ends are one edge, \
    literals are no vertices.\n\n\
    Examples:\n  \
    esker rdf algorithm lab.esker pagerank --top 10\n  \
    esker rdf algorithm lab.esker communities --pattern 'PREFIX : <http://example.org/> CONSTRUCT { ?a :with ?b } WHERE { ?p :author ?a, ?b }'\n  \
    esker rdf algorithm lab.esker st-paths --from http://example.org/a --to http://example.org/b\n  \
    esker rdf algorithm lab.esker pagerank --into http://example.org/ranks"
)]
pub(crate) struct RdfAlgorithmArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// What to compute
    #[arg(value_enum)]
    pub(crate) algorithm: Algorithm,
    /// The CONSTRUCT that gives the graph; without it all triples of the default graph
    #[arg(long, value_name = "CONSTRUCT")]
    pub(crate) pattern: Option<String>,
    /// Let edges lead both ways (pagerank, betweenness, st-paths)
    #[arg(long)]
    pub(crate) undirected: bool,
    /// The first rows only: the largest values
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,
    /// Write the results as triples of this graph, in place of what it holds
    #[arg(long, value_name = "IRI")]
    pub(crate) into: Option<String>,
    /// pagerank: with which probability an edge is followed
    #[arg(long, value_name = "P", default_value_t = 0.85)]
    pub(crate) damping: f64,
    /// pagerank: the sum of all changes below which it is done
    #[arg(long, value_name = "X", default_value_t = 1e-9)]
    pub(crate) tolerance: f64,
    /// pagerank: rounds after which it gives up
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) iterations: usize,
    /// components: only vertices that reach each other along the edges are together
    #[arg(long)]
    pub(crate) strong: bool,
    /// betweenness: follow paths from N vertices only, and scale
    #[arg(long, value_name = "N")]
    pub(crate) samples: Option<usize>,
    /// betweenness: what chooses the samples
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// st-paths: where paths begin
    #[arg(long, value_name = "IRI")]
    pub(crate) from: Option<String>,
    /// st-paths: where they end
    #[arg(long, value_name = "IRI")]
    pub(crate) to: Option<String>,
    /// st-paths: how many at most
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) asker: AskerArg,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}
