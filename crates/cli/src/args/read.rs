//! Arguments of the commands that read.

use super::namespace::TreeOptions;
use super::{FormatArgs, PrincipalArg, Target};
use crate::times::{parse_as_of, parse_range};
use clap::{Args, ValueEnum};
use esker_model::{Version, VersionRange};

const TIMES: &str = "Times: 2026-03-01T12:00:00Z, 2026-03-01 (its end, UTC), @SECONDS, or a version as Esker prints it.";

#[derive(Debug, Args)]
#[command(
    after_help = format!("{TIMES}\n\nExamples:\n  esker get lab.esker file:/scratch/a.h5\n  \
        esker get lab.esker job:4711 user:1001 --as-of 2026-03-01 --format json")
)]
pub(crate) struct GetArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Vertices to read, as TYPE:KEY or the path of a file
    #[arg(required = true, value_name = "VERTEX")]
    pub(crate) vertices: Vec<String>,
    /// Read the state as of this time
    #[arg(long, value_name = "TIME", value_parser = parse_as_of)]
    pub(crate) as_of: Option<Version>,
    /// Print only this attribute (may be given again)
    #[arg(long = "attribute", value_name = "NAME")]
    pub(crate) attributes: Vec<String>,
    #[command(flatten)]
    pub(crate) principal: PrincipalArg,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = format!("{TIMES}\n\nExamples:\n  esker edges lab.esker job:4711\n  \
        esker edges lab.esker job:4711 read write --format csv\n  \
        esker edges lab.esker file:/scratch/a.h5 write --inverse       the jobs that wrote it\n  \
        esker edges lab.esker file:/scratch/a.h5 --versions 2026-01-01..2026-02-01")
)]
pub(crate) struct EdgesArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Source vertex of the edges, as TYPE:KEY or the path of a file
    #[arg(value_name = "VERTEX")]
    pub(crate) vertex: String,
    /// Edge types [default: all]
    #[arg(value_name = "EDGETYPE")]
    pub(crate) edge_types: Vec<String>,
    /// Read the state as of this time
    #[arg(long, value_name = "TIME", value_parser = parse_as_of, conflicts_with = "versions")]
    pub(crate) as_of: Option<Version>,
    /// Print all versions in this range, including deletions
    #[arg(long, value_name = "FROM..UNTIL", value_parser = parse_range)]
    pub(crate) versions: Option<VersionRange>,
    /// Stop after this many edges
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// Follow the inverses of the edge types given; without types, print only inverse edges
    #[arg(long)]
    pub(crate) inverse: bool,
    #[command(flatten)]
    pub(crate) principal: PrincipalArg,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

/// The former command that is now `edges` and `import tree`.
#[derive(Debug, Args)]
pub(crate) struct ScanArgs {
    #[command(flatten)]
    pub(crate) edges: EdgesArgs,
    #[command(flatten)]
    pub(crate) tree: TreeOptions,
}

#[derive(Debug, Args)]
#[command(
    after_help = format!("Newest first, archived versions included.\n\n{TIMES}\n\nExamples:\n  \
        esker history lab.esker file:/scratch/a.h5\n  \
        esker history lab.esker job:4711 write file:/scratch/a.h5")
)]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// A vertex, or the source of an edge, as TYPE:KEY or the path of a file
    #[arg(value_name = "VERTEX")]
    pub(crate) vertex: String,
    /// The type of the edge
    #[arg(value_name = "EDGETYPE", requires = "destination")]
    pub(crate) edge_type: Option<String>,
    /// The destination of the edge, as TYPE:KEY or the path of a file
    #[arg(value_name = "DESTINATION")]
    pub(crate) destination: Option<String>,
    /// Print only versions in this range
    #[arg(long, value_name = "FROM..UNTIL", value_parser = parse_range)]
    pub(crate) versions: Option<VersionRange>,
    #[command(flatten)]
    pub(crate) principal: PrincipalArg,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TopBy {
    /// Number of edges that leave a vertex
    Degree,
    /// Bytes of directories, with everything below them
    Dir,
    /// Bytes of each directory directly below --under, with everything below it, where each such directory is a project
    Project,
    /// Bytes of files, by owner
    User,
    /// Bytes of files, by group
    Group,
    /// Bytes of files, by the ending of their names
    Type,
    /// Bytes of files, by kind: file, directory, symlink …
    Kind,
    /// Bytes of files, by the day of their last change, the oldest first
    Age,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Degrees are exact, and counted for each edge type.\n\nExamples:\n  esker top lab.esker --by degree\n  \
                  esker top lab.esker --by degree --type wasReadBy --limit 20\n  \
                  esker top lab.esker --by dir --min 1GiB --under /project\n  \
                  esker top lab.esker --by project --under /project\n  \
                  esker top lab.esker --by user"
)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Key of the ranking
    #[arg(long, value_enum, default_value_t = TopBy::Degree)]
    pub(crate) by: TopBy,
    /// Count only edges of this type
    #[arg(long = "type", value_name = "EDGETYPE")]
    pub(crate) edge_type: Option<String>,
    /// Number of rows to show
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) limit: usize,
    /// Show only rows with at least this many bytes
    #[arg(long, value_name = "SIZE", value_parser = esker_terminal::units::parse_size)]
    pub(crate) min: Option<u64>,
    /// With --by dir: show only directories below this one; with --by project: the directory that has the projects' directories
    #[arg(long, value_name = "PATH")]
    pub(crate) under: Option<std::ffi::OsString>,
    #[command(flatten)]
    pub(crate) principal: PrincipalArg,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "A run is the number of a job, execution:ID or ID as `esker log` shows it, `last`, or `last~1` for the one before it. \
                  Settings, arguments, programs, inputs with their versions, outputs, modules, git, environment, host \
                  and exit status are compared. `esker changes` compares two times.\n\n\
                  Examples:\n  esker diff lab.esker 4711 4698\n  \
                  export ESKER_TARGET=lab.esker; esker diff last~1 last"
)]
pub(crate) struct DiffArgs {
    /// The database [default: `$ESKER_TARGET`, or `.esker` here or above], then two runs
    #[arg(value_name = "[TARGET] ONE OTHER", required = true, num_args = 2..=3)]
    pub(crate) words: Vec<String>,
    /// Show equal values too, and differences that any two runs have
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = format!("{TIMES}\n\nExamples:\n  esker changes lab.esker 2026-02-01\n  \
        esker changes lab.esker 2026-02-01 2026-03-01 --format ndjson")
)]
pub(crate) struct ChangesArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The earlier of the two times
    #[arg(value_name = "FROM", value_parser = parse_as_of)]
    pub(crate) from: Version,
    /// The later of the two times
    #[arg(value_name = "UNTIL", value_parser = parse_as_of, default_value = "now")]
    pub(crate) until: Version,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}
