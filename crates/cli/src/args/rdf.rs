//! Arguments of `esker sparql` and `esker rdf`.

use super::{FormatArgs, PrincipalArg, ProgramArgs, Target};
use clap::{Args, Subcommand, ValueEnum};
use esker_rdf::Part;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        esker rdf load lab.esker data.ttl\n  \
        esker rdf stats lab.esker")]
pub(crate) struct RdfArgs {
    #[command(subcommand)]
    pub(crate) command: RdfCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RdfCommand {
    /// Load RDF files, all or none
    Load(RdfLoadArgs),
    /// Write all RDF data as one image, which opens without reading the log
    #[command(after_help = "Examples:\n  \
            esker rdf checkpoint lab.esker\n  \
            esker rdf checkpoint esker://lab-server:7400 --format json")]
    Checkpoint(RdfPlainArgs),
    /// Write RDF data to standard output
    Dump(RdfDumpArgs),
    /// Show counts and sizes
    Stats(RdfStatsArgs),
    /// Compute ranks, components, communities, shortest paths and more of a graph that a CONSTRUCT selects
    Algorithm(RdfAlgorithmArgs),
    /// Answer queries for one part of RDF data that several processes hold together
    #[command(
        disable_help_flag = true,
        after_help = "Workers are a program of their own, `esker-workers`, beside `esker` or on PATH.\n\nExamples:\n  \
            esker rdf worker part1.esker --listen 127.0.0.1:7611\n  \
            esker rdf worker --help"
    )]
    Worker(ProgramArgs),
    /// Remove all RDF data
    #[command(after_help = "Examples:\n  \
            esker rdf drop lab.esker\n  \
            esker rdf dump lab.esker > before.nq && esker rdf drop lab.esker")]
    Drop(RdfPlainArgs),
}

/// Rules by which triples are inferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InferRules {
    /// Subclasses, subproperties, domains, ranges
    Rdfs,
    /// OWL 2 RL: the rules of rdfs, and equivalence, inverses, transitivity, restrictions and more
    OwlRl,
    /// No rules: inferred triples are removed
    None,
}

#[derive(Debug, Args)]
#[command(
    after_help = "N-Triples, N-Quads, Turtle, TriG, RDF/XML and JSON-LD, by the names' endings: .nt .nq .ttl .trig .rdf .owl .xml \
    .jsonld, each also with .gz or .zst. Folders are read recursively.\n\n\
    Examples:\n  \
    esker rdf load lab.esker data.nt.zst more.ttl dir/\n  \
    esker rdf load lab.esker people.ttl --graph http://example.org/people\n  \
    esker rdf load lab.esker univ-bench.owl data.nt --infer owl-rl\n  \
    esker rdf load part2.esker data.nt --part 2/4"
)]
pub(crate) struct RdfLoadArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Files and folders to load
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Graph of triples that name none
    #[arg(long, value_name = "IRI")]
    pub(crate) graph: Option<String>,
    /// Skip malformed lines, and list them
    #[arg(long)]
    pub(crate) lenient: bool,
    /// Keep inferred triples beside the data, now and after each change [default: as at the last load]
    #[arg(long, value_enum, value_name = "RULES")]
    pub(crate) infer: Option<InferRules>,
    /// Load only the Kth of N parts, by the hash of the subject, for workers with one part each
    #[arg(long, value_name = "K/N", conflicts_with = "infer")]
    pub(crate) part: Option<Part>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RdfPlainArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

/// Output format of RDF data.
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
#[command(after_help = "Examples:\n  \
        esker rdf dump lab.esker --inferred > all.nq\n  \
        esker rdf dump lab.esker --graph http://example.org/people --format ttl > people.ttl")]
pub(crate) struct RdfDumpArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Dump only this graph; `default` is the default graph
    #[arg(long, value_name = "IRI")]
    pub(crate) graph: Option<String>,
    /// Include inferred triples, too
    #[arg(long)]
    pub(crate) inferred: bool,
    #[command(flatten)]
    pub(crate) principal: PrincipalArg,
    /// Output format of the data
    #[arg(long, value_enum, default_value_t = DumpFormat::Nq)]
    pub(crate) format: DumpFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        esker rdf stats lab.esker\n  \
        esker rdf stats esker://lab-server:7400 --format json")]
pub(crate) struct RdfStatsArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

/// Algorithm to run on a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Algorithm {
    /// `PageRank`, along the edges
    Pagerank,
    /// Connected components, regardless of the edges' directions
    Components,
    /// Communities by the Louvain method, regardless of the edges' directions
    Communities,
    /// Share of all shortest paths that pass through each vertex
    Betweenness,
    /// Number of triangles of each vertex, regardless of the edges' directions
    Triangles,
    /// All shortest paths from one vertex to another
    StPaths,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The graph's edges are the triples of the CONSTRUCT, from subject to object; \
    triples with the same ends are one edge, literals are not vertices.\n\nExamples:\n  esker rdf \
    algorithm lab.esker pagerank --top 10\n  esker rdf algorithm lab.esker communities --pattern \
    'PREFIX : <http://example.org/> CONSTRUCT { ?a :with ?b } WHERE { ?p :author ?a, ?b }'\n  \
    esker rdf algorithm lab.esker st-paths --from http://example.org/a --to \
    http://example.org/b\n  esker rdf algorithm lab.esker pagerank --into http://example.org/ranks"
)]
pub(crate) struct RdfAlgorithmArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The algorithm to run
    #[arg(value_enum)]
    pub(crate) algorithm: Algorithm,
    /// CONSTRUCT query that selects the graph [default: all triples of the default graph]
    #[arg(long, value_name = "CONSTRUCT")]
    pub(crate) pattern: Option<String>,
    /// Follow edges in both directions (pagerank, betweenness, st-paths)
    #[arg(long)]
    pub(crate) undirected: bool,
    /// Print only the first rows, those with the largest values
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,
    /// Write the results as triples of this graph, replacing its contents
    #[arg(long, value_name = "IRI")]
    pub(crate) into: Option<String>,
    /// pagerank: probability of following an edge
    #[arg(long, value_name = "P", default_value_t = 0.85)]
    pub(crate) damping: f64,
    /// pagerank: sum of all changes below which the iteration ends
    #[arg(long, value_name = "X", default_value_t = 1e-9)]
    pub(crate) tolerance: f64,
    /// pagerank: maximum number of rounds
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) iterations: usize,
    /// components: join only vertices that reach each other along the edges' directions
    #[arg(long)]
    pub(crate) strong: bool,
    /// betweenness: follow paths from N vertices only, and scale the result
    #[arg(long, value_name = "N")]
    pub(crate) samples: Option<usize>,
    /// betweenness: seed of the random choice of samples
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// st-paths: vertex where paths begin
    #[arg(long, value_name = "IRI")]
    pub(crate) from: Option<String>,
    /// st-paths: vertex where paths end
    #[arg(long, value_name = "IRI")]
    pub(crate) to: Option<String>,
    /// st-paths: maximum number of paths
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) principal: PrincipalArg,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}
