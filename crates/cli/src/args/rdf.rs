//! Arguments of `esker sparql` and `esker rdf`.

use super::object::AskerArg;
use super::{FormatArgs, Target};
use clap::{Args, Subcommand, ValueEnum};
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
    esker sparql lab.esker --update 'INSERT DATA { <http://example.org/x> a <http://example.org/Run> }'"
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
    /// Show how the query was answered instead of its answer (it is run)
    #[arg(long, conflicts_with = "update")]
    pub(crate) explain: bool,
    /// Say on stderr what took how long
    #[arg(long)]
    pub(crate) profile: bool,
    /// A graph that is a part of the default graph, instead of FROM
    #[arg(long, value_name = "IRI")]
    pub(crate) default_graph: Vec<String>,
    /// A graph that GRAPH may ask, instead of FROM NAMED
    #[arg(long, value_name = "IRI")]
    pub(crate) named_graph: Vec<String>,
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
    esker rdf load lab.esker univ-bench.owl data.nt --infer owl-rl"
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
