//! Arguments of the commands that search objects, tag what they find, and look after indexes.

use super::object::AskerArg;
use super::{FarArgs, FormatArgs, Target};
use crate::share::parse_share;
use crate::times::parse_as_of;
use crate::values::TagArg;
use clap::{Args, Subcommand, ValueEnum};
use esker_model::Version;
use esker_model::object::Share;
use std::path::PathBuf;

const FILTERS: &str = "A filter compares attributes and tags: = != < <= > >=, BETWEEN, IN, LIKE, MATCHES, CONTAINS, EXISTS, AND, OR, \
    NOT (docs/book/filters.md). Sizes and times have units: size > 1GiB, modified > 30d ago.";

/// How objects are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FindFormat {
    /// Columns for people
    Table,
    /// One JSON document
    Json,
    /// One JSON object a line
    Ndjson,
    /// Comma-separated values with a header
    Csv,
    /// Apache Parquet
    Parquet,
}

#[derive(Debug, Args)]
#[command(
    after_help = format!("{FILTERS}\n\nClients that search together each receive a share of the answer, no object twice and none \
        missing: with --share RANK/OF, or with --collective in programs started by mpirun or srun.\n\nExamples:\n  \
        esker find lab.esker \"name = 'VPIC' AND Conf = 1 AND step BETWEEN 10 AND 20 AND note LIKE 'run%'\"\n  \
        esker find lab.esker \"EXISTS Conf_0\" --select name,step,energy --format parquet -o conf0.parquet\n  \
        esker find lab.esker \"size > 1GiB\" --count\n  \
        mpirun -n 4 esker find lab.esker \"app = 'vpic'\" --collective -o part-%r.csv\n  \
        esker find lab.esker \"size > 1MiB\" --type File\n  \
        esker find lab.esker /project \"size > 1GiB AND modified > 30d ago\"       files below a directory\n  \
        esker find sftp://data.example.org/run7 \"size > 1GiB\" --via http://edge:7500       far files\n  \
        esker find lab.esker \"Conf = 1\" --as-of 2026-03-01 --count")
)]
#[expect(clippy::struct_excessive_bools, reason = "flags, as they can be typed")]
pub(crate) struct FindArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// What must hold of an object; nothing for all. A path, which begins with /: search the files below it
    #[arg(value_name = "FILTER|PATH", default_value = "")]
    pub(crate) filter: String,
    /// Behind a path: what must hold of a file
    #[arg(value_name = "FILTER")]
    pub(crate) of_files: Option<String>,
    /// Only these attributes and tags, a column each
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) select: Option<Vec<String>>,
    /// Stop after that many
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// Only what comes behind that object in the order of an earlier answer
    #[arg(long, value_name = "ID")]
    pub(crate) after: Option<String>,
    /// Only count them
    #[arg(long)]
    pub(crate) count: bool,
    /// Only show how it would be answered
    #[arg(long, conflicts_with = "count")]
    pub(crate) explain: bool,
    /// Show, behind the answer, how it was found
    #[arg(long, conflicts_with = "explain")]
    pub(crate) profile: bool,
    /// A name that no object has is no mistake
    #[arg(long)]
    pub(crate) lenient: bool,
    #[command(flatten)]
    pub(crate) asker: AskerArg,
    #[command(flatten)]
    pub(crate) far: FarArgs,
    /// Only the share of client RANK, from 0, of OF clients that search together
    #[arg(long, value_name = "RANK/OF", value_parser = parse_share, conflicts_with = "collective")]
    pub(crate) share: Option<Share>,
    /// The same, with rank and number from the MPI or SLURM launcher
    #[arg(long)]
    pub(crate) collective: bool,
    /// Search vertices of that type rather than objects: a scan
    #[arg(long = "type", value_name = "TYPE", default_value = "Object")]
    pub(crate) vertex_type: String,
    /// As they were then: a scan
    #[arg(long, value_name = "TIME", value_parser = parse_as_of)]
    pub(crate) as_of: Option<Version>,
    /// How to print [default: table, or what the ending of --output says]
    #[arg(long, value_enum)]
    pub(crate) format: Option<FindFormat>,
    /// Write to that file; `%r` in its name is the rank
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct TagArgs {
    #[command(subcommand)]
    pub(crate) command: TagCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TagCommand {
    /// Give tags to objects that lack them
    #[command(
        after_help = "What an object has stays as it is; `esker tag set` changes it.\n\nExamples:\n  \
        esker tag add lab.esker --where \"app = 'vpic' AND energy > 2.5\" Conf_0 checked=2026\n  \
        esker tag add lab.esker --object 1649186741772673025 Conf_0"
    )]
    Add(TagChangeArgs),
    /// Give tags to objects, whether they have them or not
    #[command(
        after_help = "Example:\n  esker tag set lab.esker --where \"Conf = 1\" energy=2.5 --dry-run"
    )]
    Set(TagChangeArgs),
    /// Take tags from objects
    #[command(
        after_help = "Example:\n  esker tag remove lab.esker --where \"EXISTS Conf_0\" Conf_0"
    )]
    Remove(TagRemoveArgs),
    /// Show all names that objects have values under
    #[command(after_help = "Example:\n  esker tag list lab.esker --as 1001:100,200")]
    List(TagListArgs),
}

/// Whose tags.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct TagWhom {
    /// All objects that this holds of
    #[arg(long = "where", value_name = "FILTER")]
    pub(crate) filter: Option<String>,
    /// That object (may be given again)
    #[arg(long = "object", value_name = "ID")]
    pub(crate) objects: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct TagChangeArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) whom: TagWhom,
    /// Tags: a NAME alone has no value
    #[arg(value_name = "TAG[=VALUE]", required = true, value_parser = TagArg::parse)]
    pub(crate) tags: Vec<TagArg>,
    #[command(flatten)]
    pub(crate) how: TagHow,
}

#[derive(Debug, Args)]
pub(crate) struct TagRemoveArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) whom: TagWhom,
    /// Tags
    #[arg(value_name = "TAG", required = true)]
    pub(crate) tags: Vec<String>,
    #[command(flatten)]
    pub(crate) how: TagHow,
}

/// What all changes of tags take.
#[derive(Debug, Args)]
pub(crate) struct TagHow {
    /// Only count
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) asker: AskerArg,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
pub(crate) struct TagListArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) asker: AskerArg,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct IndexArgs {
    #[command(subcommand)]
    pub(crate) command: IndexCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum IndexCommand {
    /// Show which attributes and tags of objects have an index
    #[command(after_help = "Example:\n  esker index list lab.esker")]
    List(IndexListArgs),
    /// Let searches use an index on a tag or an attribute
    #[command(
        after_help = "It is built by the first search that wants it, and kept from then on.\n\nExample:\n  esker index add lab.esker energy"
    )]
    Add(IndexChangeArgs),
    /// Forbid searches to use an index on a tag or an attribute
    #[command(
        after_help = "Searches look at all values then.\n\nExample:\n  esker index drop lab.esker energy"
    )]
    Drop(IndexChangeArgs),
}

#[derive(Debug, Args)]
pub(crate) struct IndexListArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
pub(crate) struct IndexChangeArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The tag or the attribute
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}
