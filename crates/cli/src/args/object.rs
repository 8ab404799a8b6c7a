//! Arguments of `esker object`.

use super::{FormatArgs, PrincipalArg, TableFormatArg, Target};
use crate::values::{Assignment, TagArg, parse_mode};
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        esker object create lab.esker --name energy --step 7\n  \
        esker object get lab.esker 1649186741772673025"
)]
pub(crate) struct ObjectArgs {
    #[command(subcommand)]
    pub(crate) command: ObjectCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ObjectCommand {
    /// Create an object and print its number
    Create(Box<ObjectCreateArgs>),
    /// Create objects from CSV, NDJSON or Parquet tables
    Import(ObjectImportArgs),
    /// Read objects by number or by their four ID attributes
    Get(ObjectGetArgs),
    /// Change predefined attributes of an object
    Update(ObjectUpdateArgs),
    /// Delete objects; their earlier versions remain readable
    Delete(ObjectDeleteArgs),
    /// Change the ID attributes of an object; its tags, edges and history stay with it
    Move(ObjectMoveArgs),
}

/// Objects by number, or one by its ID attributes.
#[derive(Debug, Clone, Args)]
pub(crate) struct ObjectNames {
    /// Objects, by the number that `create` and `find` print, with or without `object:` in front
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<String>,
    #[command(flatten)]
    pub(crate) identity: IdentityArgs,
}

/// The four ID attributes.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct IdentityArgs {
    /// ID attribute: the object's name
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// ID attribute: the application that made it
    #[arg(long, value_name = "APPLICATION")]
    pub(crate) app: Option<String>,
    /// ID attribute: the user id of its owner
    #[arg(long, value_name = "UID", allow_negative_numbers = true)]
    pub(crate) owner: Option<i64>,
    /// ID attribute: the time step
    #[arg(long, value_name = "STEP", allow_negative_numbers = true)]
    pub(crate) step: Option<i64>,
}

const TAGS: &str = "The kind of a tag's value follows from its form (42, 0.5, true, 2026-03-01T12:00:00Z, [1,2], else text); \
    NAME:KIND=VALUE sets it (run:string=42). A NAME alone is a tag without a value.";

#[derive(Debug, Args)]
#[command(
    after_help = format!("Name, application, owner and time step identify an object: if one with the same four exists, \
        nothing is created. Defaults: no application, your own user id, step 0.\n{TAGS}\n\nExamples:\n  \
        esker object create lab.esker --name energy --app vpic --owner 1001 --step 7 --location /scratch/vpic/7.h5 --tag Conf=0\n  \
        esker object create lab.esker --name plate --size 2GiB --tag survey=boss --tag checked --format json\n  \
        id=$(esker object create lab.esker --name energy --step 8 --mode 0640 --gid 200)")
)]
pub(crate) struct ObjectCreateArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) identity: IdentityArgs,
    /// Path or URL of the object's data
    #[arg(long, value_name = "PATH")]
    pub(crate) location: Option<String>,
    /// Permissions of the object, in octal as for files [default: 0644]
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    pub(crate) mode: Option<i64>,
    /// Group of the object
    #[arg(long, value_name = "GID")]
    pub(crate) gid: Option<i64>,
    /// Size of the object's data
    #[arg(long, value_name = "SIZE", value_parser = esker_terminal::units::parse_size)]
    pub(crate) size: Option<u64>,
    /// A tag (may be given again)
    #[arg(long = "tag", value_name = "NAME[=VALUE]", value_parser = TagArg::parse)]
    pub(crate) tags: Vec<TagArg>,
    /// Another predefined attribute (may be given again)
    #[arg(long = "attribute", value_name = "NAME=VALUE", value_parser = Assignment::parse)]
    pub(crate) attributes: Vec<Assignment>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "All four ID attributes name one object; `esker find` searches by some of them.\n\nExamples:\n  \
        esker object get lab.esker 1649186741772673025\n  \
        esker object get lab.esker --name energy --app vpic --owner 1001 --step 7 --format json\n  \
        esker object get lab.esker 1649186741772673025 --touch"
)]
pub(crate) struct ObjectGetArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) objects: ObjectNames,
    /// Set the access time `atime` to now, at most once a day
    #[arg(long)]
    pub(crate) touch: bool,
    #[command(flatten)]
    pub(crate) principal: PrincipalArg,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Predefined attributes only: `esker object move` changes ID attributes, `esker tag` tags. The mode is in \
        octal, as for files.\n\nExamples:\n  \
        esker object update lab.esker 1649186741772673025 --set size=4096 --set mode=0640\n  \
        esker object update lab.esker --name energy --app vpic --owner 1001 --step 7 --remove location"
)]
pub(crate) struct ObjectUpdateArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) objects: ObjectNames,
    /// An attribute to set (may be given again)
    #[arg(long, value_name = "NAME=VALUE", value_parser = Assignment::parse, required_unless_present = "remove")]
    pub(crate) set: Vec<Assignment>,
    /// An attribute to remove (may be given again)
    #[arg(long, value_name = "NAME")]
    pub(crate) remove: Vec<String>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "A deletion is a version: `esker history lab.esker object:ID` still shows the earlier versions. The ID \
        attributes can be used again.\n\nExamples:\n  \
        esker object delete lab.esker 1649186741772673025\n  \
        esker object delete lab.esker --where \"app = 'vpic' AND step < 10\" --dry-run"
)]
pub(crate) struct ObjectDeleteArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) objects: ObjectNames,
    /// Delete all objects that match this filter
    #[arg(long = "where", value_name = "FILTER", conflicts_with_all = ["ids", "name", "app", "owner", "step"])]
    pub(crate) filter: Option<String>,
    /// Print only the number of objects, and delete nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Refused if there is an object with the new ID attributes.\n\nExamples:\n  \
        esker object move lab.esker 1649186741772673025 --name energy_total --step 8\n  \
        esker object move lab.esker 1649186741772673025 --app vpic --owner 1002 --format json"
)]
pub(crate) struct ObjectMoveArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The object, by the number that `create` and `find` print
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// New name of the object
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// New application of the object
    #[arg(long, value_name = "APPLICATION")]
    pub(crate) app: Option<String>,
    /// New owner of the object
    #[arg(long, value_name = "UID", allow_negative_numbers = true)]
    pub(crate) owner: Option<i64>,
    /// New time step of the object
    #[arg(long, value_name = "STEP", allow_negative_numbers = true)]
    pub(crate) step: Option<i64>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

/// Treatment of a row whose object exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnDuplicate {
    /// Report the row as a bad record and skip it
    Fail,
    /// Skip the row
    Skip,
    /// Update the object with the row's attributes and tags
    Update,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The format follows from the ending: .csv, .tsv, .ndjson or .jsonl, .parquet; \
        text may be packed (.gz). `-` is standard input. --id says which columns hold the ID \
        attributes: columns in the order name, application, owner, step; or ATTRIBUTE=COLUMN, and \
        ATTRIBUTE=:TEXT for a value that is the same in all rows. Defaults: no application, the \
        owner of --owner, step 0. A column with the name of a predefined attribute (location, \
        size, mode, gid, …) is that attribute, any other is a tag; NAME:KIND as a heading gives \
        the kind of its cells. An empty cell is not a tag; in NDJSON, null is a tag without a \
        value.\n\nMalformed records are reported with file and line, the rest is imported, and the \
        exit code is 1. Reading and writing run concurrently, in batches; an import that was \
        stopped continues after its last batch when it is started again with the same \
        options.\n\nExamples:\n  esker object import lab.esker objects.csv --id \
        name,app,owner,step\n  esker object import lab.esker boss.parquet --id \
        name=plate,app=:boss,owner=:1001,step=mjd --on-duplicate skip\n  zcat big.ndjson.gz | \
        esker object import lab.esker - --input-format ndjson --id name --tags energy,Conf"
)]
pub(crate) struct ObjectImportArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Files of the tables to import
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Columns of the ID attributes
    #[arg(long, value_name = "COLUMNS")]
    pub(crate) id: String,
    /// Owner of objects whose rows name none [default: your own user id]
    #[arg(long, value_name = "UID")]
    pub(crate) owner: Option<i64>,
    /// Import only these columns as tags
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',')]
    pub(crate) tags: Option<Vec<String>>,
    /// Column with the location of the data [default: location, if there is one]
    #[arg(long, value_name = "COLUMN")]
    pub(crate) location: Option<String>,
    /// Treatment of a row whose object exists
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = OnDuplicate::Fail)]
    pub(crate) on_duplicate: OnDuplicate,
    /// Objects per batch; a batch is created completely or not at all
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) batch: u32,
    /// Number of batches to write at once [default: 1, or 4 to a server]; with several, rows with the same ID attributes take effect in
    /// any order
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) jobs: Option<u32>,
    /// Import batches again that have been imported before
    #[arg(long)]
    pub(crate) again: bool,
    /// Format of the files [default: by their ending]
    #[arg(long, alias = "input", value_enum, value_name = "FORMAT")]
    pub(crate) input_format: Option<TableFormatArg>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}
