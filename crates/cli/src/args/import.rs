//! Arguments of import and export.

use super::{FormatArgs, Target};
use crate::times::{parse_as_of, parse_at};
use clap::{Args, Subcommand, ValueEnum};
use esker_import::table::Format;
use esker_model::Version;
use jiff::tz::TimeZone;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct ImportArgs {
    #[command(subcommand)]
    pub(crate) command: ImportCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImportCommand {
    /// Read Darshan logs: jobs, users, executables, and what each job read and wrote
    Darshan(ImportDarshanArgs),
    /// Read what Slurm's sacct prints: jobs, their users and steps
    Sacct(ImportSacctArgs),
    /// Read events of OpenLineage from files: runs, their jobs and datasets
    #[command(name = "openlineage")]
    OpenLineage(ImportOpenLineageArgs),
    /// Read provenance of W3C PROV: PROV-N, PROV-JSON, PROV-XML, PROV-O, and bags of `cwltool --provenance`
    Prov(super::prov::ImportProvArgs),
    /// Read vertices from tables
    Vertices(ImportTableArgs),
    /// Read edges from tables
    Edges(ImportTableArgs),
    /// Read a whole graph that `esker export graphar` has written
    Graphar(ImportGrapharArgs),
}

#[derive(Debug, Args)]
#[command(
    after_help = "Importing it twice changes nothing. Data that other programs write in this layout is refused: it lacks names and versions.\n\n\
                  Example:\n  esker import graphar copy.esker lab-graphar"
)]
pub(crate) struct ImportGrapharArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The folder
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Folders are searched recursively. A log that has been imported before is skipped, so that an \
                  interrupted import goes on where it stopped. A log that is damaged or foreign is named with the byte \
                  where it went wrong, the rest is imported, and the exit code is 1.\n\nExamples:\n  \
                  esker import darshan lab.esker logs/\n  \
                  esker import darshan lab.esker 2026-03-*.darshan --jobs 8 --processes"
)]
pub(crate) struct ImportDarshanArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Logs, and folders of logs
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// Parse on that many threads [default: one a core]
    #[arg(long, short, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    /// A vertex for each rank that has records of its own, not only for the job
    #[arg(long)]
    pub(crate) processes: bool,
    /// Keep files that only the I/O library used (lock tests, shared-file-pointer files)
    #[arg(long)]
    pub(crate) keep_helpers: bool,
    /// Import logs that have been imported before once more, for example with other options
    #[arg(long)]
    pub(crate) again: bool,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Takes what `sacct --parsable2` prints, with its heading, and what `sacct --json` prints, of Slurm 22.05 or newer; columns and \
                  fields that nobody knows are kept. Job 77 becomes `job:77`, as $SLURM_JOB_ID has it. Records that make no sense are named by \
                  file and line, the rest is imported, and the exit code is 1. Importing again changes nothing. Secrets in command lines \
                  and scripts are replaced by [redacted].\n\nExamples:\n  \
                  sacct --parsable2 --allusers --format=ALL -S 2026-03-01 | esker import sacct lab.esker -\n  \
                  esker import sacct lab.esker 2026-*.json --cluster frontier"
)]
pub(crate) struct ImportSacctArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// What sacct printed; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Goes before the jobs' numbers, where jobs of several clusters come into one database: `job:NAME/77`
    #[arg(long, value_name = "NAME")]
    pub(crate) cluster: Option<String>,
    /// The time zone of times in tables, as Europe/Berlin or +02:00 [default: this machine's]
    #[arg(long, value_name = "ZONE", value_parser = zone)]
    pub(crate) zone: Option<TimeZone>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Takes what OpenLineage's file transport writes: an event a line, or lists of events, as JSON, also packed with gzip. A server takes \
                  them as they happen: OPENLINEAGE_URL=http://HOST:PORT for openlineage-python, dbt-ol, Airflow and Spark. A dataset of the namespace \
                  `file` is the file itself. Events that make no sense are named by file and line, the rest is imported, and the exit code is 1. \
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

/// The format of a table's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableFormatArg {
    /// Comma-separated values with a header
    Csv,
    /// The same with tabs
    Tsv,
    /// One JSON object a line
    #[value(alias = "jsonl")]
    Ndjson,
    /// Apache Parquet
    Parquet,
    /// Two ends a line, parted by blanks, tabs, commas or semicolons (import of edges only)
    Edges,
}

impl TableFormatArg {
    /// As the tables know it.
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
    after_help = "The format is told by the ending: .csv, .tsv, .ndjson or .jsonl, .parquet, .txt for plain lists of \
                  edges. `-` is standard input. Vertices need a column `id`, edges `source`, `type` and `destination`; any \
                  other column is an attribute or a property. Records that make no sense are named by file and line, the \
                  rest is imported, and the exit code is 1. Rows without a `version` hold from the time that the file was \
                  last changed, so that importing a file twice changes nothing.\n\nExamples:\n  \
                  esker import vertices lab.esker files.csv\n  \
                  esker import edges lab.esker runs.parquet --bulk\n  \
                  generate | esker import edges lab.esker - --input ndjson"
)]
pub(crate) struct ImportTableArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Tables
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The format of the files, where their ending does not tell
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) input: Option<TableFormatArg>,
    /// The vertex type of ids that are written without one
    #[arg(long, value_name = "TYPE")]
    pub(crate) vertex_type: Option<String>,
    /// The edge type of rows without one
    #[arg(long, value_name = "EDGETYPE")]
    pub(crate) edge_type: Option<String>,
    /// Rows without a version hold from then on
    #[arg(long, value_name = "TIME", value_parser = parse_at)]
    pub(crate) at: Option<Version>,
    /// Do not create the missing ends of edges
    #[arg(long)]
    pub(crate) strict: bool,
    /// Write sorted tables and hand them to the store whole: faster for a lot of data
    #[arg(long)]
    pub(crate) bulk: bool,
    /// Pass over columns of single attributes: others say it all.
    #[arg(skip)]
    pub(crate) whole_only: bool,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct ExportArgs {
    #[command(subcommand)]
    pub(crate) command: ExportCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ExportCommand {
    /// Write vertices with their attributes
    #[command(
        after_help = format!("{EXPORT}\n\nExamples:\n  \
                      esker export vertices lab.esker files.parquet --type File\n  \
                      esker export vertices lab.esker - --output ndjson --deleted | head")
    )]
    Vertices(ExportVerticesArgs),
    /// Write edges with their properties
    #[command(
        after_help = format!("{EXPORT}\nAn edge of a deleted vertex is one as long as it is not deleted itself, and is \
                      written too; `export vertices --deleted` writes such vertices.\n\nExamples:\n  \
                      esker export edges lab.esker edges.csv --as-of 2026-03-01\n  \
                      esker export edges lab.esker - --output ndjson | head")
    )]
    Edges(ExportTableArgs),
    /// Write the whole graph in the layout of Apache GraphAr, for Spark and other engines
    #[command(
        after_help = "Parquet in chunks, with a file of YAML for each type, as of one moment; `esker import graphar` reads it back, versions and \
                      tags included. Spark reads the folders of Parquet as they are.\n\nExample:\n  esker export graphar lab.esker lab-graphar"
    )]
    Graphar(ExportGrapharArgs),
    /// Write how something came to be as an RO-Crate, to publish or to archive it
    #[command(
        after_help = "Workflow Run RO-Crate 0.5. `process` tells of executions with their inputs and outputs; `workflow` if one run has the others in it and its \
                      program is a script; `provenance` with the tools that it ran. What is not known is left out, and not made up.\n\nExamples:\n  \
                      esker export ro-crate lab.esker file:/scratch/plot.png plot-crate --files --license https://spdx.org/licenses/CC-BY-4.0\n  \
                      esker export ro-crate lab.esker job:4711 - --profile process"
    )]
    RoCrate(ExportRoCrateArgs),
    /// Write what is known as provenance of W3C PROV: PROV-N, PROV-JSON or PROV-O
    #[command(
        after_help = "What documents said comes out as they said it. What this database knows itself comes as activities, agents and entities; each write \
                      of a file made a version, an entity that is a specialization of the file.\n\nExamples:\n  \
                      esker export prov lab.esker lab.ttl\n  \
                      esker export prov lab.esker plot.provn file:/scratch/plot.png"
    )]
    Prov(super::prov::ExportProvArgs),
}

/// How much a crate tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CrateProfile {
    /// The most that is known
    Auto,
    /// Executions
    Process,
    /// The run of a workflow
    Workflow,
    /// With the runs of its tools
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
    /// What it is about, as TYPE:KEY: a file, an object, a run
    #[arg(value_name = "VERTEX")]
    pub(crate) vertex: String,
    /// The folder to write, which must not exist; `-` writes the metadata to standard output
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// Put the files in it, those that are on this machine and have the size that is known of them; they are listed first. Those of
    /// the system, those below dot-folders of homes (~/.ssh), and what links of other users lead to are left out
    #[arg(long)]
    pub(crate) files: bool,
    /// With --files: also those of the system, and those below dot-folders of homes
    #[arg(long, requires = "files")]
    pub(crate) files_from_anywhere: bool,
    /// With --files: also those of which no size was ever recorded
    #[arg(long, requires = "files")]
    pub(crate) files_without_size: bool,
    /// How much it tells
    #[arg(long, value_enum, default_value_t = CrateProfile::Auto)]
    pub(crate) profile: CrateProfile,
    /// Tell the environment variables of executions, too; look at them before you publish
    #[arg(long)]
    pub(crate) environment: bool,
    /// Its licence
    #[arg(long, value_name = "URL")]
    pub(crate) license: Option<String>,
    /// Its name
    #[arg(long, value_name = "TEXT")]
    pub(crate) name: Option<String>,
    /// As it was then
    #[arg(long, value_name = "TIME", value_parser = parse_as_of)]
    pub(crate) as_of: Option<Version>,
    /// Go through that many jobs at most
    #[arg(long, value_name = "N")]
    pub(crate) depth: Option<u32>,
    #[command(flatten)]
    pub(crate) asker: super::object::AskerArg,
}

#[derive(Debug, Args)]
pub(crate) struct ExportGrapharArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The folder to write; it must not exist
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// As it was then
    #[arg(long, value_name = "TIME", value_parser = parse_as_of)]
    pub(crate) as_of: Option<Version>,
    /// Vertices in a file; edges are 16 times as many
    #[arg(long, value_name = "N", default_value_t = 1 << 18, value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    pub(crate) chunk_size: u32,
}

const EXPORT: &str = "The format is told by the ending: .csv, .ndjson or .jsonl, .parquet. `-` is standard output. The \
                      file is as of one moment, and `esker import` reads it back.";

#[derive(Debug, Args)]
pub(crate) struct ExportVerticesArgs {
    #[command(flatten)]
    pub(crate) table: ExportTableArgs,
    /// Also those that were deleted by then, marked as such
    #[arg(long)]
    pub(crate) deleted: bool,
}

/// What a table holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableKind {
    /// A vertex a row.
    Vertices,
    /// An edge a row.
    Edges,
}

#[derive(Debug, Args)]
pub(crate) struct ExportTableArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The file to write; it must not exist, unless --force is given
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Only that type and those that specialise it (may be given again)
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) types: Vec<String>,
    /// As it was then
    #[arg(long, value_name = "TIME", value_parser = parse_as_of)]
    pub(crate) as_of: Option<Version>,
    /// The format of the file, where its ending does not tell
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) output: Option<TableFormatArg>,
    /// Replace a file that exists
    #[arg(long)]
    pub(crate) force: bool,
}
