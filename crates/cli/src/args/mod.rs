//! What can be typed. One file for each family of commands; the help texts are here, and only here.
//!
//! Every command takes its target first. A new command is a variant of [`Command`], a struct here and a file under
//! `commands/`.

mod access;
mod admin;
mod cluster;
mod console;
mod far;
mod find;
mod harvest;
mod import;
mod mcp;
mod mount;
mod names;
mod object;
mod placement;
mod prov;
mod rdf;
mod read;
mod run;
mod serve;
mod site;
mod walk;
mod write;

pub(crate) use access::{GrantArgs, RevokeArgs};
pub(crate) use admin::{
    BackupArgs, CheckArgs, CompactArgs, CompletionsArgs, EngineArg, InitArgs, ManArgs, RestoreArgs,
    ShellArgs, StatsArgs, UpgradeArgs,
};
pub(crate) use cluster::{
    ClusterAddArgs, ClusterArgs, ClusterCheckArgs, ClusterCommand, ClusterDownArgs,
    ClusterDrainArgs, ClusterRebalanceArgs, ClusterResizeArgs, ClusterRestartArgs,
    ClusterServerArgs, ClusterStatusArgs, ClusterUpArgs,
};
pub(crate) use console::ConsoleArgs;
pub(crate) use far::FarArgs;
pub(crate) use find::{
    FindArgs, FindFormat, IndexArgs, IndexChangeArgs, IndexCommand, IndexListArgs, TagArgs,
    TagChangeArgs, TagCommand, TagHow, TagListArgs, TagRemoveArgs, TagWhom,
};
pub(crate) use harvest::HarvestArgs;
pub(crate) use import::{
    CrateProfile, ExportArgs, ExportCommand, ExportGrapharArgs, ExportRoCrateArgs, ExportTableArgs,
    ImportArgs, ImportCommand, ImportDarshanArgs, ImportGrapharArgs, ImportOpenLineageArgs,
    ImportSacctArgs, ImportTableArgs, TableFormatArg, TableKind,
};
pub(crate) use mcp::McpArgs;
pub(crate) use mount::{MountArgs, UmountArgs};
pub(crate) use names::{
    ChmodArgs, ChownArgs, DfArgs, DuArgs, LnArgs, LsArgs, MkdirArgs, MvArgs, NamespaceArgs,
    NamespaceCommand, NamespaceExplainArgs, RmArgs, StatArgs, TouchArgs,
};
pub(crate) use object::{
    IdentityArgs, ObjectArgs, ObjectCommand, ObjectCreateArgs, ObjectDeleteArgs, ObjectGetArgs,
    ObjectImportArgs, ObjectMoveArgs, ObjectNames, ObjectUpdateArgs, OnDuplicate,
};
pub(crate) use placement::{
    ExplainArgs, ExplainFormat, PlacementArgs, PlacementCommand, TreeArg, kind_parser,
};
pub(crate) use prov::{ExportProvArgs, ImportProvArgs, ProvEncoding, ProvOutput};
pub(crate) use rdf::{
    Algorithm, AnswerFormat, DumpFormat, InferRules, RdfAlgorithmArgs, RdfArgs, RdfCommand,
    RdfDumpArgs, RdfLoadArgs, RdfPlainArgs, RdfStatsArgs, RdfWorkerArgs, SparqlArgs,
};
pub(crate) use read::{DiffArgs, GetArgs, HistoryArgs, ScanArgs, TopArgs, TopBy};
pub(crate) use run::{
    DoctorArgs, LogArgs, RunArgs, SpoolArg, SpoolArgs, SpoolCommand, SpoolDeliverArgs,
    SpoolListArgs,
};
pub(crate) use serve::{LogFormat, ServeArgs};
pub(crate) use site::{
    CacheSize, SiteArgs, SiteCommand, SitePathArgs, SiteRecordArgs, SiteReplayArgs, SiteServeArgs,
    SiteStatusArgs, SiteTraceArgs, SiteWarmArgs,
};
pub(crate) use walk::{GraphFormat, ImpactArgs, LineageArgs, TravelArgs, WalkArgs};
pub(crate) use write::{DeleteArgs, LinkArgs, PutArgs, SchemaArgs, SchemaCommand, SetArgs};

use crate::units::{parse_duration, parse_size};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::time::Duration;

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "esker",
    version,
    about = "Provenance of scientific data: what made a file, from what, by whom, when",
    long_about = "Esker keeps the metadata of scientific computing - files, jobs, users, runs and how they relate - as a \
                  versioned property graph, and answers where a result came from.\n\n\
                  Every command takes a target first: the directory that holds the database, or esker://HOST:PORT where \
                  `esker serve` serves one. Vertices are written TYPE:KEY, as in file:/scratch/a.h5, job:4711 or user:1001.",
    after_help = "Examples:\n  \
        esker import darshan lab.esker logs/             read Darshan logs into a (new) database\n  \
        esker lineage lab.esker file:/scratch/plot.png   how that file came to be\n  \
        esker impact lab.esker file:/scratch/raw.h5      everything derived from it\n  \
        esker shell lab.esker                            all of it, interactively\n\n\
        Exit codes: 0 done; 1 something was found wrong, or only a part was done; 2 bad usage or input.",
    arg_required_else_help = true,
    disable_help_subcommand = false,
    propagate_version = true,
    max_term_width = 110
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) globals: Globals,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options that every command takes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Globals {
    /// Memory that the database may use for its caches and buffers
    #[arg(long, global = true, value_name = "SIZE", default_value = "512MiB", value_parser = parse_size)]
    pub(crate) memory: u64,

    /// What a successful write means: `sync`, it is on disk; `relaxed`, it survives the death of any process and is on
    /// disk a moment later
    #[arg(long, global = true, value_enum, default_value_t = DurabilityArg::Relaxed)]
    pub(crate) durability: DurabilityArg,

    /// Stop after that long and give what was found, marked as partial (exit code 1)
    #[arg(long, global = true, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) timeout: Option<Duration>,

    /// No progress, no summaries: only results and errors
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,

    /// Write down the key of a server that is not known yet, instead of refusing it; one that has changed is refused still
    #[arg(long, global = true)]
    pub(crate) trust_new_host: bool,

    /// When to use colour
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = Color::Auto)]
    pub(crate) color: Color,
}

/// When to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless `NO_COLOR` is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// What a successful write means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DurabilityArg {
    /// It is on disk
    Sync,
    /// It is in the log's buffer
    Relaxed,
}

/// How rows are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RowFormat {
    /// Columns for people
    Table,
    /// One JSON document
    Json,
    /// One JSON object a line
    Ndjson,
    /// Comma-separated values with a header
    Csv,
}

impl RowFormat {
    /// Whether it is JSON, in one document or in lines.
    pub(crate) fn is_json(self) -> bool {
        matches!(self, Self::Json | Self::Ndjson)
    }
}

/// `--format` of a command that prints rows.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct FormatArgs {
    /// How to print
    #[arg(long, value_enum, default_value_t = RowFormat::Table)]
    pub(crate) format: RowFormat,
}

/// The database, first of all arguments.
#[derive(Debug, Clone, Args)]
pub(crate) struct Target {
    /// The directory that holds the database, or a server: esker://HOST:PORT
    #[arg(value_name = "TARGET")]
    pub(crate) target: String,
}

/// All commands, in the order of `esker --help`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create an empty database
    Init(InitArgs),
    /// Read Darshan logs, or vertices and edges from CSV, NDJSON or Parquet
    Import(ImportArgs),
    /// Write vertices or edges to CSV, NDJSON or Parquet
    Export(ExportArgs),
    /// Run a program and record it: settings, inputs, outputs, how it ended
    Run(Box<RunArgs>),
    /// List the latest runs that were recorded
    Log(LogArgs),
    /// Look after runs that wait for their database
    Spool(SpoolArgs),
    /// Whether this machine and a database are ready: what is wrong, and what to do
    Doctor(DoctorArgs),
    /// How a file came to be: the jobs, inputs, executables and users behind it
    Lineage(LineageArgs),
    /// What was derived from a file, grouped by user
    Impact(ImpactArgs),
    /// Read vertices with their attributes
    Get(GetArgs),
    /// Read the edges of a vertex; or take in the metadata of a directory tree
    Scan(ScanArgs),
    /// All that happened to a vertex or an edge
    History(HistoryArgs),
    /// Insert a vertex
    Put(PutArgs),
    /// Insert an edge
    Link(LinkArgs),
    /// Set or remove attributes of a vertex
    Set(SetArgs),
    /// Delete a vertex or an edge; its past stays
    Delete(DeleteArgs),
    /// Run a traversal
    Travel(TravelArgs),
    /// Create, import, read and change objects: data with a number, ID attributes and tags
    Object(ObjectArgs),
    /// Read the headers of FITS, HDF5, netCDF and Zarr files into tags of objects
    Harvest(HarvestArgs),
    /// Search objects by attributes and tags, or files below a path
    Find(Box<FindArgs>),
    /// Tag objects, alone or all that a filter holds of
    Tag(TagArgs),
    /// Which tags and attributes searches have an index on
    Index(IndexArgs),
    /// List directories of the namespace
    Ls(LsArgs),
    /// All about files, by path
    Stat(StatArgs),
    /// Make directories
    Mkdir(MkdirArgs),
    /// Make empty files, or give files the present time
    Touch(TouchArgs),
    /// Rename files and directories, or move them
    Mv(MvArgs),
    /// Remove files and directories
    Rm(RmArgs),
    /// Give a file another name, or make a symbolic link
    Ln(LnArgs),
    /// Change permissions
    Chmod(ChmodArgs),
    /// Change owners and groups
    Chown(ChownArgs),
    /// What the whole namespace holds
    Df(DfArgs),
    /// What directories hold, with all below them
    Du(DuArgs),
    /// How the namespace keeps a directory
    Namespace(NamespaceArgs),
    /// Give any program the namespace, as a file system of this machine
    Mount(MountArgs),
    /// End a mount
    Umount(UmountArgs),
    /// Ask RDF data, or change it, by SPARQL
    Sparql(SparqlArgs),
    /// Load, dump and look after RDF data
    Rdf(RdfArgs),
    /// Show or extend the schema
    Schema(SchemaArgs),
    /// Counts, sizes and cache figures
    Stats(StatsArgs),
    /// The vertices with the most edges; or who takes most space
    Top(TopArgs),
    /// What differs between two runs, or between two times
    Diff(DiffArgs),
    /// Verify that the database is whole
    Check(CheckArgs),
    /// Move old versions to the archive and give space back
    Compact(CompactArgs),
    /// Copy a database while it is in use
    Backup(BackupArgs),
    /// Make a database from a backup
    Restore(RestoreArgs),
    /// Bring a database of an earlier Esker up to this one's format
    Upgrade(UpgradeArgs),
    /// Serve a database to other machines, by gRPC and HTTP
    Serve(ServeArgs),
    /// Open the console in a browser: lineage, runs, space, tags, queries, the servers
    Console(ConsoleArgs),
    /// Open the address on standard input in a browser
    #[command(hide = true)]
    OpenAddress,
    /// Let an assistant ask: tools that only read, by the Model Context Protocol
    Mcp(McpArgs),
    /// Let somebody use a database through its server, by their key of SSH; or see who may
    Grant(GrantArgs),
    /// Take somebody's rights
    Revoke(RevokeArgs),
    /// Run several servers as one database
    Cluster(ClusterArgs),
    /// Caches of remote metadata: play traces, record them, make them
    Site(SiteArgs),
    /// Work interactively, with completion and history; or run a script from standard input
    Shell(ShellArgs),
    /// Where a vertex's edges lie on many servers
    Placement(PlacementArgs),
    /// Measure this machine, Esker next to its bare store engine; and what placements cost
    Bench(crate::bench::BenchArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Print manual pages, or write them to a directory
    Man(ManArgs),
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use clap::CommandFactory as _;

    #[test]
    fn the_definitions_do_not_contradict_each_other() {
        Cli::command().debug_assert();
    }
}
