//! Arguments of `esker import` and `esker export`.

use super::{FormatArgs, Target};
use crate::times::{parse_as_of, parse_at};
use clap::{Args, Subcommand, ValueEnum};
use esker_import::table::Format;
use esker_model::Version;
use jiff::tz::TimeZone;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        esker import darshan lab.esker logs/\n  \
        sacct --json | esker import sacct lab.esker -"
)]
pub(crate) struct ImportArgs {
    #[command(subcommand)]
    pub(crate) command: ImportCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImportCommand {
    /// Import Darshan logs: jobs, users, executables, and the files that each job read and wrote
    Darshan(ImportDarshanArgs),
    /// Import the output of Slurm's sacct: jobs, their users and steps
    Sacct(ImportSacctArgs),
    /// Import OpenLineage events from files: runs, their jobs and datasets
    #[command(name = "openlineage")]
    OpenLineage(ImportOpenLineageArgs),
    /// Import W3C PROV: PROV-N, PROV-JSON, PROV-XML, PROV-O, and bags of `cwltool --provenance`
    Prov(super::prov::ImportProvArgs),
    /// Import vertices from tables
    Vertices(ImportTableArgs),
    /// Import edges from tables
    Edges(ImportTableArgs),
    /// Import a graph that `esker export graphar` has written
    Graphar(ImportGrapharArgs),
    /// Import the metadata of a directory tree of this machine into the namespace
    Tree(ImportTreeArgs),
}

#[derive(Debug, Args)]
#[command(
    after_help = "Only the metadata that lstat(2) returns is read. Entries that exist are compared, so that importing a tree again writes only \
                  its changes. Entries that are no longer in the tree are deleted from the database.\n\nExamples:\n  \
                  esker import tree lab.esker /project\n  \
                  esker import tree lab.esker /mnt/snapshot/project --as-path /project --rate 5k/s"
)]
pub(crate) struct ImportTreeArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The directory of this machine
    #[arg(value_name = "DIRECTORY")]
    pub(crate) directory: PathBuf,
    #[command(flatten)]
    pub(crate) tree: super::namespace::TreeOptions,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Importing it twice changes nothing. Data that other programs write in this layout is refused: it lacks names and versions.\n\n\
                  Examples:\n  esker import graphar copy.esker lab-graphar\n  \
                  esker import graphar esker://lab-server:7400 /scratch/lab-graphar --format json"
)]
pub(crate) struct ImportGrapharArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The folder to import
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Folders are searched recursively for files named *.darshan and *.darshan.gz. A log that has been imported before is skipped, so that an \
                  interrupted import continues where it stopped. What a log describes belongs to the job of its number, `job:77`, which `esker import sacct` \
                  describes. A damaged or unknown log is reported with the position of \
                  the error, the rest is imported, and the exit code is 1.\n\nExamples:\n  \
                  esker import darshan lab.esker logs/\n  \
                  esker import darshan lab.esker 2026-03-*.darshan --jobs 8 --processes"
)]
pub(crate) struct ImportDarshanArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Logs, and folders of logs
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// Number of threads that parse [default: number of cores]
    #[arg(long, short, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    /// Name of the cluster whose jobs the logs are part of, as for `import sacct --cluster`: `job:NAME/77`
    #[arg(long, value_name = "NAME")]
    pub(crate) cluster: Option<String>,
    /// Create a vertex for each rank that has records of its own, not only for the job
    #[arg(long)]
    pub(crate) processes: bool,
    /// Keep files that only the I/O library used (lock tests, shared-file-pointer files)
    #[arg(long)]
    pub(crate) keep_helpers: bool,
    /// Import logs again that have been imported before, for example with other options
    #[arg(long)]
    pub(crate) again: bool,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Takes what `sacct --parsable2` prints, with its heading, and what `sacct --json` prints, of Slurm 22.05 or newer; columns and \
                  unknown fields are kept. Job 77 becomes `job:77`, as $SLURM_JOB_ID has it. Malformed records are reported with \
                  file and line, the rest is imported, and the exit code is 1. Importing again changes nothing. Secrets in command lines \
                  and scripts are replaced by [redacted].\n\nExamples:\n  \
                  sacct --parsable2 --allusers --format=ALL -S 2026-03-01 | esker import sacct lab.esker -\n  \
                  esker import sacct lab.esker 2026-*.json --cluster frontier"
)]
pub(crate) struct ImportSacctArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Files with the output of sacct; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Name of the cluster, put before its job numbers if one database has jobs of several clusters: `job:NAME/77`
    #[arg(long, value_name = "NAME")]
    pub(crate) cluster: Option<String>,
    /// Time zone of times in tables, as Europe/Berlin or +02:00 [default: this machine's]
    #[arg(long, value_name = "ZONE", value_parser = zone)]
    pub(crate) zone: Option<TimeZone>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Takes what OpenLineage's file transport writes: an event a line, or lists of events, as JSON, also packed with gzip. A server takes \
                  them as they happen: OPENLINEAGE_URL=http://HOST:PORT for openlineage-python, dbt-ol, Airflow and Spark. A dataset of the namespace \
                  `file` is the file itself. Malformed events are reported with file and line, the rest is imported, and the exit code is 1. \
                  Importing again changes nothing.\n\nExamples:\n  \
                  esker import openlineage lab.esker events.ndjson\n  \
                  zcat events-2026-*.gz | esker import openlineage esker://login1:7400 -"
)]
pub(crate) struct ImportOpenLineageArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Files of events; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

fn zone(text: &str) -> Result<TimeZone, String> {
    if let Ok(zone) = TimeZone::get(text) {
        return Ok(zone);
    }
    let hours = || -> Option<TimeZone> {
        let (sign, rest) = text.split_at_checked(1)?;
        let (hours, minutes) = rest.split_once(':').unwrap_or((rest, "0"));
        let seconds = hours.parse::<i32>().ok()? * 3_600 + minutes.parse::<i32>().ok()? * 60;
        let seconds = match sign {
            "+" => seconds,
            "-" => -seconds,
            _ => return None,
        };
        Some(TimeZone::fixed(
            jiff::tz::Offset::from_seconds(seconds).ok()?,
        ))
    };
    hours().ok_or_else(|| {
        format!("expected a time zone such as UTC, Europe/Berlin or +02:00, not `{text}`")
    })
}

/// Format of a table's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableFormatArg {
    /// Comma-separated values with a header
    Csv,
    /// Tab-separated values with a header
    Tsv,
    /// One JSON object per line
    #[value(alias = "jsonl")]
    Ndjson,
    /// Apache Parquet
    Parquet,
    /// Two vertices per line, separated by blanks, tabs, commas or semicolons (import of edges only)
    Edges,
}

impl TableFormatArg {
    /// Returns the format as `esker_import` names it.
    pub(crate) fn format(self) -> Format {
        match self {
            Self::Csv => Format::Csv,
            Self::Tsv => Format::Tsv,
            Self::Ndjson => Format::Ndjson,
            Self::Parquet => Format::Parquet,
            Self::Edges => Format::EdgeList,
        }
    }
}

#[derive(Debug, Args)]
#[command(
    after_help = "The format follows from the ending: .csv, .tsv, .ndjson or .jsonl, .parquet, .txt for plain lists of \
                  edges. `-` is standard input. Vertices need a column `id`, edges `source`, `type` and `destination`; any \
                  other column is an attribute or a property. Malformed records are reported with file and line, the \
                  rest is imported, and the exit code is 1. Rows without a `version` are valid from the time that the file was \
                  last changed, so that importing a file twice changes nothing.\n\nExamples:\n  \
                  esker import vertices lab.esker files.csv\n  \
                  esker import edges lab.esker runs.parquet --bulk\n  \
                  generate | esker import edges lab.esker - --input-format ndjson"
)]
pub(crate) struct ImportTableArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Files of the tables to import
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Format of the files [default: by their ending]
    #[arg(long, alias = "input", value_enum, value_name = "FORMAT")]
    pub(crate) input_format: Option<TableFormatArg>,
    /// Vertex type of ids without one
    #[arg(long, value_name = "TYPE")]
    pub(crate) vertex_type: Option<String>,
    /// Edge type of rows without one
    #[arg(long, value_name = "EDGETYPE")]
    pub(crate) edge_type: Option<String>,
    /// Time from which rows without a version are valid
    #[arg(long, value_name = "TIME", value_parser = parse_at)]
    pub(crate) at: Option<Version>,
    /// Do not create vertices that edges lead to and that do not exist
    #[arg(long)]
    pub(crate) strict: bool,
    /// Write sorted tables and add them to the key-value store, bypassing its log: faster for large imports
    #[arg(long)]
    pub(crate) bulk: bool,
    /// Skips columns of single attributes; another column has all attributes of a row.
    #[arg(skip)]
    pub(crate) whole_only: bool,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        esker export vertices lab.esker files.parquet\n  \
        esker export prov lab.esker lab.ttl"
)]
pub(crate) struct ExportArgs {
    #[command(subcommand)]
    pub(crate) command: ExportCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ExportCommand {
    /// Export vertices with their attributes
    #[command(
        after_help = format!("{EXPORT}\n\nExamples:\n  \
                      esker export vertices lab.esker files.parquet --type File\n  \
                      esker export vertices lab.esker - --output-format ndjson --deleted | head")
    )]
    Vertices(ExportVerticesArgs),
    /// Export edges with their properties
    #[command(
        after_help = format!("{EXPORT}\nAn edge of a deleted vertex exists until it is deleted itself, and is \
                      written too; `export vertices --deleted` writes such vertices.\n\nExamples:\n  \
                      esker export edges lab.esker edges.csv --as-of 2026-03-01\n  \
                      esker export edges lab.esker - --output-format ndjson | head")
    )]
    Edges(ExportTableArgs),
    /// Export the graph in the layout of Apache GraphAr, for Spark and other engines
    #[command(
        after_help = "Parquet in chunks, with a file of YAML for each type, of one snapshot; `esker import graphar` reads it back, versions and \
                      tags included. Spark reads the folders of Parquet as they are.\n\nExamples:\n  esker export graphar lab.esker lab-graphar\n  \
                      esker export graphar esker://lab-server:7400 lab-march --as-of 2026-03-01 --chunk-size 65536"
    )]
    Graphar(ExportGrapharArgs),
    /// Export metadata of an item in the schema 4.6 of `DataCite`
    #[command(
        after_help = format!("{RECORD}\n\nExamples:\n  \
                      esker export datacite lab.esker object:1649186741772673025 energy.xml --set publisher='A centre'\n  \
                      esker export datacite lab.esker /scratch/run7 run7.json --base https://data.example.org")
    )]
    Datacite(super::catalogue::ExportDataciteArgs),
    /// Export metadata of an item as a data set of schema.org
    #[command(
        after_help = format!("{RECORD}\n\nExamples:\n  \
                      esker export schema-org lab.esker /scratch/run7/plot.png\n  \
                      esker export schema-org lab.esker job:4711 job.jsonld --set license=CC-BY-4.0")
    )]
    SchemaOrg(super::catalogue::ExportRecordArgs),
    /// Export metadata of an item as Croissant 1.0, for machine learning
    #[command(
        after_help = format!("{RECORD}\n\nExamples:\n  \
                      esker export croissant lab.esker /scratch/tables tables.json --checksums\n  \
                      esker export croissant lab.esker object:1649186741772673025 --set version=1.0.0")
    )]
    Croissant(super::catalogue::ExportRecordArgs),
    /// Export metadata of an item as DCAT-AP 3, in JSON-LD
    #[command(
        after_help = format!("{RECORD}\n\nExamples:\n  \
                      esker export dcat lab.esker /scratch/run7 run7.jsonld\n  \
                      esker export dcat lab.esker object:1649186741772673025 --set 'creator=Curie, Marie'")
    )]
    Dcat(super::catalogue::ExportRecordArgs),
    /// Export the lineage of a vertex as an RO-Crate, to publish or archive it
    #[command(
        after_help = "Workflow Run RO-Crate 0.5. `process` describes executions with their inputs and outputs; `workflow` is for a run that contains the others and whose \
                      program is a script; `provenance` adds the tools that it ran. Unknown values are left out.\n\nExamples:\n  \
                      esker export ro-crate lab.esker file:/scratch/plot.png plot-crate --files --license https://spdx.org/licenses/CC-BY-4.0\n  \
                      esker export ro-crate lab.esker job:4711 - --profile process"
    )]
    RoCrate(ExportRoCrateArgs),
    /// Export provenance as W3C PROV: PROV-N, PROV-JSON or PROV-O
    #[command(
        after_help = "Statements of imported documents are exported as they were. Data of this database are exported as activities, agents and entities; each write \
                      of a file is a version, an entity that is a specialization of the file.\n\nExamples:\n  \
                      esker export prov lab.esker lab.ttl\n  \
                      esker export prov lab.esker plot.provn file:/scratch/plot.png"
    )]
    Prov(super::prov::ExportProvArgs),
}

/// Profile of an RO-Crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CrateProfile {
    /// The most detailed profile that the data allows
    Auto,
    /// Process Run Crate: single executions
    Process,
    /// Workflow Run Crate: the run of a workflow
    Workflow,
    /// Provenance Run Crate: the run of a workflow with the runs of its tools
    Provenance,
}

#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
pub(crate) struct ExportRoCrateArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The file, object or run to describe, as TYPE:KEY or the path of a file
    #[arg(value_name = "VERTEX")]
    pub(crate) vertex: String,
    /// The folder to write, which must not exist; `-` writes the metadata to standard output
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// Copy the files into the crate that are on this machine and have their recorded size, after listing them. System files, files below
    /// dot-folders of home directories (~/.ssh), and targets of other users' links are left out
    #[arg(long)]
    pub(crate) files: bool,
    /// With --files: include system files and files below dot-folders of home directories
    #[arg(long, requires = "files")]
    pub(crate) files_from_anywhere: bool,
    /// With --files: include files whose size was never recorded
    #[arg(long, requires = "files")]
    pub(crate) files_without_size: bool,
    /// Profile of the crate
    #[arg(long, value_enum, default_value_t = CrateProfile::Auto)]
    pub(crate) profile: CrateProfile,
    /// Include the environment variables of executions; check them before you publish
    #[arg(long)]
    pub(crate) environment: bool,
    /// Licence of the crate
    #[arg(long, value_name = "URL")]
    pub(crate) license: Option<String>,
    /// Name of the crate
    #[arg(long, value_name = "TEXT")]
    pub(crate) name: Option<String>,
    /// Export the state as of this time
    #[arg(long, value_name = "TIME", value_parser = parse_as_of)]
    pub(crate) as_of: Option<Version>,
    /// Maximum number of jobs on a path
    #[arg(long, value_name = "N")]
    pub(crate) depth: Option<u32>,
    #[command(flatten)]
    pub(crate) principal: super::PrincipalArg,
}

#[derive(Debug, Args)]
pub(crate) struct ExportGrapharArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The folder to write; it must not exist
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// Export the state as of this time
    #[arg(long, value_name = "TIME", value_parser = parse_as_of)]
    pub(crate) as_of: Option<Version>,
    /// Vertices per file; files of edges have 16 times as many
    #[arg(long, value_name = "N", default_value_t = 1 << 18, value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    pub(crate) chunk_size: u32,
}

const RECORD: &str = "The fields are read from tags of the item: title, creator, license, doi and others. A run is described as the set of the files that it wrote. \
                      Unknown values are left out.";

const EXPORT: &str = "The format follows from the ending: .csv, .ndjson or .jsonl, .parquet. `-` is standard output. The \
                      file is of one snapshot, and `esker import` reads it back.";

#[derive(Debug, Args)]
pub(crate) struct ExportVerticesArgs {
    #[command(flatten)]
    pub(crate) table: ExportTableArgs,
    /// Include vertices that were deleted, marked as deleted
    #[arg(long)]
    pub(crate) deleted: bool,
}

/// Contents of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableKind {
    /// One vertex per row.
    Vertices,
    /// One edge per row.
    Edges,
}

#[derive(Debug, Args)]
pub(crate) struct ExportTableArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The file to write; it must not exist, unless --force is given
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Export only this type and the types that specialise it (may be given again)
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) types: Vec<String>,
    /// Export the state as of this time
    #[arg(long, value_name = "TIME", value_parser = parse_as_of)]
    pub(crate) as_of: Option<Version>,
    /// Format of the file [default: by its ending]
    #[arg(long, alias = "output", value_enum, value_name = "FORMAT")]
    pub(crate) output_format: Option<TableFormatArg>,
    /// Replace a file that exists
    #[arg(long)]
    pub(crate) force: bool,
}
