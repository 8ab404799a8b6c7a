//! Arguments of the commands that read.

use super::names::ScanTreeHow;
use super::object::AskerArg;
use super::{FormatArgs, Target};
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
    /// Vertices, as TYPE:KEY
    #[arg(required = true, value_name = "VERTEX")]
    pub(crate) vertices: Vec<String>,
    /// As it was then
    #[arg(long, value_name = "TIME", value_parser = parse_as_of)]
    pub(crate) as_of: Option<Version>,
    /// Only that attribute (may be given again)
    #[arg(long = "attribute", value_name = "NAME")]
    pub(crate) attributes: Vec<String>,
    #[command(flatten)]
    pub(crate) asker: AskerArg,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = format!("{TIMES}\n\nExamples:\n  esker scan lab.esker job:4711\n  \
        esker scan lab.esker job:4711 read write --format csv\n  \
        esker scan lab.esker file:/scratch/a.h5 write --inverse       who wrote it\n  \
        esker scan lab.esker file:/scratch/a.h5 --versions 2026-01-01..2026-02-01\n\n\
        Of a directory tree of this machine, only metadata is read: what lstat(2) says. What is in the database already is \
        compared, so that a tree that was scanned before, or in part, costs no more writes than it has changes. What is gone \
        from the tree goes from the database.\n\nExamples:\n  esker scan lab.esker /project\n  \
        esker scan lab.esker /mnt/snapshot/project --at /project --rate 5k/s")
)]
pub(crate) struct ScanArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The vertex that the edges leave, as TYPE:KEY; or a directory of this machine, whose tree comes into the namespace
    #[arg(value_name = "VERTEX|DIRECTORY")]
    pub(crate) vertex: String,
    /// Edge types; none for all
    #[arg(value_name = "EDGETYPE")]
    pub(crate) edge_types: Vec<String>,
    /// As it was then
    #[arg(long, value_name = "TIME", value_parser = parse_as_of, conflicts_with = "versions")]
    pub(crate) as_of: Option<Version>,
    /// All versions in that range, deletions among them
    #[arg(long, value_name = "FROM..UNTIL", value_parser = parse_range)]
    pub(crate) versions: Option<VersionRange>,
    /// Stop after that many edges
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// The inverses of the edge types named; without names, only inverse types
    #[arg(long)]
    pub(crate) inverse: bool,
    #[command(flatten)]
    pub(crate) tree: ScanTreeHow,
    #[command(flatten)]
    pub(crate) asker: AskerArg,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
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
    /// A vertex, or the source of an edge, as TYPE:KEY
    #[arg(value_name = "VERTEX")]
    pub(crate) vertex: String,
    /// The type of the edge
    #[arg(value_name = "EDGETYPE", requires = "destination")]
    pub(crate) edge_type: Option<String>,
    /// The destination of the edge, as TYPE:KEY
    #[arg(value_name = "DESTINATION")]
    pub(crate) destination: Option<String>,
    /// Only what happened in that range
    #[arg(long, value_name = "FROM..UNTIL", value_parser = parse_range)]
    pub(crate) versions: Option<VersionRange>,
    #[command(flatten)]
    pub(crate) asker: AskerArg,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TopBy {
    /// The number of edges that leave a vertex
    Degree,
    /// Bytes in directories, with all below them
    Dir,
    /// Bytes in the directories directly below --under, with all below them: of each project, where projects are directories
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
    after_help = "Degrees are exact and of each edge type apart.\n\nExamples:\n  esker top lab.esker --by degree\n  \
                  esker top lab.esker --by degree --type wasReadBy --limit 20\n  \
                  esker top lab.esker --by dir --min 1GiB --under /project\n  \
                  esker top lab.esker --by project --under /project\n  \
                  esker top lab.esker --by user"
)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// What to order by
    #[arg(long, value_enum, default_value_t = TopBy::Degree)]
    pub(crate) by: TopBy,
    /// Only edges of that type
    #[arg(long = "type", value_name = "EDGETYPE")]
    pub(crate) edge_type: Option<String>,
    /// How many to show
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) limit: usize,
    /// Only what holds so many bytes
    #[arg(long, value_name = "SIZE", value_parser = crate::units::parse_size)]
    pub(crate) min: Option<u64>,
    /// With --by dir: only directories below that one; with --by project: where the projects' directories are
    #[arg(long, value_name = "PATH")]
    pub(crate) under: Option<std::ffi::OsString>,
    #[command(flatten)]
    pub(crate) asker: AskerArg,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = format!("Two runs: the number of a job, execution:ID or ID as `esker log` shows it, `last`, or `last~1` for the one before it. \
                          Settings, arguments, programs, inputs with their versions, outputs, modules, git, environment, host \
                          and how they ended are laid beside each other.\n\n\
                          Two times: {TIMES}\n\nExamples:\n  \
                          esker diff lab.esker 4711 4698\n  \
                          export ESKER_TARGET=lab.esker; esker diff last~1 last\n  \
                          esker diff lab.esker 2026-02-01 2026-03-01")
)]
pub(crate) struct DiffArgs {
    /// The database (or `$ESKER_TARGET`), then two runs, or two times of which the second may be `now`
    #[arg(value_name = "[TARGET] ONE OTHER", required = true, num_args = 2..=3)]
    pub(crate) words: Vec<String>,
    /// Of two runs: what is the same, too, and what differs between any two
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}
