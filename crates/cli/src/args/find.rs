//! Arguments of the commands that search objects, tag the matches, and maintain indexes.

use super::{FormatArgs, PrincipalArg, RemoteArgs, Target};
use crate::share::parse_share;
use crate::times::parse_as_of;
use crate::values::TagArg;
use clap::{Args, Subcommand, ValueEnum};
use esker_model::Version;
use esker_model::object::Share;
use std::path::PathBuf;

const FILTERS: &str = "A filter compares attributes and tags: = != < <= > >=, BETWEEN, IN, LIKE, MATCHES, CONTAINS, EXISTS, AND, OR, \
    NOT (docs/book/filters.md). Sizes and times have units: size > 1GiB, modified > 30d ago.";

/// Output format of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FindFormat {
    /// Aligned columns
    Table,
    /// One JSON document
    Json,
    /// One JSON object per line
    Ndjson,
    /// Comma-separated values with a header
    Csv,
    /// Apache Parquet
    Parquet,
}

#[derive(Debug, Args)]
#[command(
    after_help = format!("{FILTERS}\n\nIn a collective search each client receives a share of the answer, no object twice and none \
        missing: with --share RANK/OF, or with --collective in programs started by mpirun or srun.\n\nExamples:\n  \
        esker find lab.esker \"name = 'VPIC' AND Conf = 1 AND step BETWEEN 10 AND 20 AND note LIKE 'run%'\"\n  \
        esker find lab.esker \"EXISTS Conf_0\" --select name,step,energy --format parquet -o conf0.parquet\n  \
        esker find lab.esker \"size > 1GiB\" --count\n  \
        mpirun -n 4 esker find lab.esker \"app = 'vpic'\" --collective -o part-%r.csv\n  \
        esker find lab.esker \"size > 1MiB\" --type File\n  \
        esker find lab.esker /project \"size > 1GiB AND modified > 30d ago\"       files below a directory\n  \
        esker find sftp://data.example.org/run7 \"size > 1GiB\" --via esker://edge:7500       remote files\n  \
        esker find lab.esker \"Conf = 1\" --as-of 2026-03-01 --count")
)]
#[expect(clippy::struct_excessive_bools, reason = "flags, as they can be typed")]
pub(crate) struct FindArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Filter that objects must match, empty for all objects; or a path, which begins with /, to search the files below it
    #[arg(value_name = "FILTER|PATH", default_value = "")]
    pub(crate) filter: String,
    /// After a path: filter that files must match
    #[arg(value_name = "FILTER")]
    pub(crate) of_files: Option<String>,
    /// Print only these attributes and tags, one column each
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) select: Option<Vec<String>>,
    /// Stop after this many matches
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// Print only objects after this one, in the order of an earlier answer
    #[arg(long, value_name = "ID")]
    pub(crate) after: Option<String>,
    /// Print only the number of matches
    #[arg(long)]
    pub(crate) count: bool,
    /// Print the plan of the search, and do not run it
    #[arg(long, conflicts_with = "count")]
    pub(crate) explain: bool,
    /// Print the plan of the search with its times after the answer
    #[arg(long, conflicts_with = "explain")]
    pub(crate) profile: bool,
    /// Accept names that no object has
    #[arg(long)]
    pub(crate) lenient: bool,
    #[command(flatten)]
    pub(crate) principal: PrincipalArg,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
    /// Return only the share of client RANK, from 0, of OF clients that search together
    #[arg(long, value_name = "RANK/OF", value_parser = parse_share, conflicts_with = "collective")]
    pub(crate) share: Option<Share>,
    /// Return only the share of this process, with rank and number of processes from the MPI or Slurm launcher
    #[arg(long)]
    pub(crate) collective: bool,
    /// Search vertices of this type instead of objects, by a scan
    #[arg(long = "type", value_name = "TYPE", default_value = "Object")]
    pub(crate) vertex_type: String,
    /// Search the objects as of this time, by a scan
    #[arg(long, value_name = "TIME", value_parser = parse_as_of)]
    pub(crate) as_of: Option<Version>,
    /// Output format [default: table, or the format of --output's ending]
    #[arg(long, value_enum)]
    pub(crate) format: Option<FindFormat>,
    /// Write to this file; `%r` in its name is replaced by the rank
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        esker tag add lab.esker --where \"app = 'vpic'\" checked\n  \
        esker tag list lab.esker"
)]
pub(crate) struct TagArgs {
    #[command(subcommand)]
    pub(crate) command: TagCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TagCommand {
    /// Add tags to objects that lack them
    #[command(
        after_help = "Existing tags keep their values; `esker tag set` changes them.\n\nExamples:\n  \
        esker tag add lab.esker --where \"app = 'vpic' AND energy > 2.5\" Conf_0 checked=2026\n  \
        esker tag add lab.esker --object 1649186741772673025 Conf_0"
    )]
    Add(TagChangeArgs),
    /// Set tags of objects, whether they have them or not
    #[command(after_help = "Examples:\n  \
            esker tag set lab.esker --where \"Conf = 1\" energy=2.5 --dry-run\n  \
            esker tag set lab.esker --object 1649186741772673025 run:string=42 checked")]
    Set(TagChangeArgs),
    /// Remove tags from objects
    #[command(after_help = "Examples:\n  \
            esker tag remove lab.esker --where \"EXISTS Conf_0\" Conf_0\n  \
            esker tag remove lab.esker --object 1649186741772673025 Conf_0 checked --as 1001:100")]
    Remove(TagRemoveArgs),
    /// List the names of all tags and attributes of objects, with the number of objects
    #[command(after_help = "Examples:\n  \
            esker tag list lab.esker\n  \
            esker tag list esker://lab-server:7400 --as 1001:100,200 --format json")]
    List(TagListArgs),
}

/// The objects whose tags change.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct TagSelection {
    /// All objects that match this filter
    #[arg(long = "where", value_name = "FILTER")]
    pub(crate) filter: Option<String>,
    /// This object (may be given again)
    #[arg(long = "object", value_name = "ID")]
    pub(crate) objects: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct TagChangeArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) selection: TagSelection,
    /// Tags to give; a NAME alone has no value
    #[arg(value_name = "TAG[=VALUE]", required = true, value_parser = TagArg::parse)]
    pub(crate) tags: Vec<TagArg>,
    #[command(flatten)]
    pub(crate) options: TagOptions,
}

#[derive(Debug, Args)]
pub(crate) struct TagRemoveArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) selection: TagSelection,
    /// Names of the tags to remove
    #[arg(value_name = "TAG", required = true)]
    pub(crate) tags: Vec<String>,
    #[command(flatten)]
    pub(crate) options: TagOptions,
}

/// Options of all changes of tags.
#[derive(Debug, Args)]
pub(crate) struct TagOptions {
    /// Print only the number of objects, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) principal: PrincipalArg,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
pub(crate) struct TagListArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) principal: PrincipalArg,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        esker index list lab.esker\n  \
        esker index add lab.esker energy"
)]
pub(crate) struct IndexArgs {
    #[command(subcommand)]
    pub(crate) command: IndexCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum IndexCommand {
    /// List the attributes and tags of objects that have an index
    #[command(after_help = "Examples:\n  \
            esker index list lab.esker\n  \
            esker index list esker://lab-server:7400 --format csv")]
    List(IndexListArgs),
    /// Allow searches to use an index on a tag or an attribute
    #[command(
        after_help = "The index is built by the first search that can use it, and kept from then on.\n\nExamples:\n  \
        esker index add lab.esker energy\n  \
        esker index add esker://lab-server:7400 size --format json"
    )]
    Add(IndexChangeArgs),
    /// Forbid searches to use an index on a tag or an attribute
    #[command(after_help = "Searches then read all values.\n\nExamples:\n  \
        esker index drop lab.esker energy\n  \
        esker index drop esker://lab-server:7400 size --format json")]
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
    /// The tag or attribute to index
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}
