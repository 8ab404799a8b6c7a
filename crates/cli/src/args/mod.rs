//! The command line: one file for each family of commands. The help texts are here, and only here.
//!
//! Most commands take their target first. A new command is a variant of [`Command`], a struct here and a file under `commands/`.

mod access;
mod admin;
mod audit;
mod catalogue;
mod cluster;
mod console;
mod default_target;
mod demo;
mod find;
mod groups;
mod harvest;
mod import;
mod login;
mod mcp;
mod mount;
mod namespace;
mod object;
mod placement;
mod prov;
mod quota;
mod rdf;
mod read;
mod remote;
mod run;
mod serve;
mod site;
mod traversal;
mod version;
mod write;

pub(crate) use access::{GrantArgs, RevokeArgs, ShareArgs};
pub(crate) use admin::{
    BackupArgs, CheckArgs, CompactArgs, CompletionsArgs, InitArgs, ManArgs, RestoreArgs, ShellArgs,
    StatsArgs, UpgradeArgs,
};
pub(crate) use audit::{
    AuditArgs, AuditCommand, AuditExportArgs, AuditForm, AuditHeadArgs, AuditShowArgs,
    AuditVerifyArgs, SelectionArgs,
};
pub(crate) use catalogue::{DataciteEncoding, ExportDataciteArgs, ExportRecordArgs};
pub(crate) use cluster::{
    ClusterAddArgs, ClusterArgs, ClusterCheckArgs, ClusterCommand, ClusterDownArgs,
    ClusterDrainArgs, ClusterRebalanceArgs, ClusterResizeArgs, ClusterRestartArgs,
    ClusterServerArgs, ClusterStatusArgs, ClusterUpArgs,
};
pub(crate) use console::ConsoleArgs;
pub(crate) use default_target::{DefaultTarget, TargetPosition, add_default};
pub(crate) use demo::DemoArgs;
pub(crate) use find::{
    FindArgs, FindFormat, IndexArgs, IndexChangeArgs, IndexCommand, IndexListArgs, TagArgs,
    TagChangeArgs, TagCommand, TagListArgs, TagOptions, TagRemoveArgs, TagSelection,
};
pub(crate) use groups::{command, parse};
pub(crate) use harvest::HarvestArgs;
pub(crate) use import::{
    CrateProfile, ExportArgs, ExportCommand, ExportGrapharArgs, ExportRoCrateArgs, ExportTableArgs,
    ImportArgs, ImportCommand, ImportDarshanArgs, ImportGrapharArgs, ImportOpenLineageArgs,
    ImportSacctArgs, ImportTableArgs, ImportTreeArgs, TableFormatArg, TableKind,
};
pub(crate) use login::{LoginArgs, LogoutArgs};
pub(crate) use mcp::McpArgs;
pub(crate) use mount::{MountArgs, UmountArgs};
pub(crate) use namespace::{
    ChmodArgs, ChownArgs, DfArgs, DuArgs, LnArgs, LsArgs, MkdirArgs, MvArgs, NamespaceArgs,
    NamespaceCommand, NamespaceExplainArgs, RmArgs, StatArgs, TouchArgs, TreeOptions,
};
pub(crate) use object::{
    IdentityArgs, ObjectArgs, ObjectCommand, ObjectCreateArgs, ObjectDeleteArgs, ObjectGetArgs,
    ObjectImportArgs, ObjectMoveArgs, ObjectNames, ObjectUpdateArgs, OnDuplicate,
};
pub(crate) use placement::{ExplainArgs, ExplainFormat, PlacementArgs, PlacementCommand};
pub(crate) use prov::{ExportProvArgs, ImportProvArgs, ProvEncoding, ProvOutput};
pub(crate) use quota::QuotaArgs;
pub(crate) use rdf::{
    Algorithm, DumpFormat, InferRules, RdfAlgorithmArgs, RdfArgs, RdfCommand, RdfDumpArgs,
    RdfLoadArgs, RdfPlainArgs, RdfStatsArgs,
};
pub(crate) use read::{
    ChangesArgs, DiffArgs, EdgesArgs, GetArgs, HistoryArgs, ScanArgs, TopArgs, TopBy,
};
pub(crate) use remote::RemoteArgs;
pub(crate) use run::{
    DoctorArgs, LogArgs, RunArgs, SpoolArg, SpoolArgs, SpoolCommand, SpoolDeliverArgs,
    SpoolListArgs,
};
pub(crate) use serve::{LogFormat, ServeArgs};
pub(crate) use site::{
    CacheSize, SiteArgs, SiteCommand, SitePathArgs, SiteRecordArgs, SiteReplayArgs, SiteServeArgs,
    SiteStatusArgs, SiteTraceArgs, SiteWarmArgs,
};
pub(crate) use traversal::{DerivationArgs, GraphFormat, ImpactArgs, LineageArgs, TravelArgs};
pub(crate) use write::{DeleteArgs, LinkArgs, PutArgs, SchemaArgs, SchemaCommand, SetArgs};

pub(crate) use esker_terminal::args::{
    DurabilityArg, EngineArg, FormatArgs, Globals, PrincipalArg, RowFormat, Target, kind_parser,
};
pub(crate) use esker_terminal::sparql::{AnswerFormat, SparqlArgs};

use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

/// The complete command line.
#[derive(Debug, Parser)]
#[command(
    name = "esker",
    version,
    long_version = version::long_version(),
    about = "Provenance of scientific data: what made a file, from what, by whom, when",
    long_about = "Esker keeps the metadata of scientific computing - files, jobs, users, runs and how they relate - as a \
                  versioned property graph, and answers where a result came from.\n\n\
                  The first argument of most commands is the target: the directory that holds the database, or \
                  esker://HOST:PORT where `esker serve` serves one. It can be left out where $ESKER_TARGET names a target, and \
                  in folders at or below one that has a database `.esker`, which `esker init` creates.\n\n\
                  Vertices are written TYPE:KEY, as in file:/scratch/a.h5, job:4711 or user:1001.",
    after_help = "Examples:\n  \
        esker demo                                       the first answer, from logs that are part of this program\n  \
        esker import darshan lab.esker logs/             read Darshan logs into a (new) database\n  \
        esker lineage lab.esker file:/scratch/plot.png   how that file came to be\n  \
        esker impact lab.esker file:/scratch/raw.h5      everything derived from it\n  \
        esker shell lab.esker                            all of it, interactively\n\n\
        Exit codes: 0 done; 1 a problem was found, or the work is incomplete; 2 bad usage or input.",
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

/// All commands, in the order of `esker --help`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Import small logs that this program contains; show a lineage
    Demo(DemoArgs),
    /// Create an empty database
    Init(InitArgs),
    /// Import Darshan logs, Slurm accounts, OpenLineage, PROV or tables
    Import(ImportArgs),
    /// Export tables, the graph, PROV, RO-Crates or catalogue records
    Export(ExportArgs),
    /// Run a program and record its inputs, outputs and exit code
    Run(Box<RunArgs>),
    /// List the latest recorded runs
    Log(LogArgs),
    /// List and deliver runs that wait for their database
    Spool(SpoolArgs),
    /// Check this machine and a database, and say how to fix problems
    Doctor(DoctorArgs),
    /// Show how a file was made: its jobs, inputs, executables and users
    Lineage(LineageArgs),
    /// Show everything that was derived from a file, grouped by user
    Impact(ImpactArgs),
    /// Read vertices with their attributes
    Get(GetArgs),
    /// Print the edges of a vertex
    Edges(EdgesArgs),
    /// The former spelling of `edges` and `import tree`
    #[command(hide = true)]
    Scan(ScanArgs),
    /// Show all versions of a vertex or an edge
    History(HistoryArgs),
    /// Insert a vertex
    Put(PutArgs),
    /// Insert an edge
    Link(LinkArgs),
    /// Set or remove attributes of a vertex
    Set(SetArgs),
    /// Delete a vertex or an edge; its earlier versions remain readable
    Delete(DeleteArgs),
    /// Run a traversal
    Travel(TravelArgs),
    /// Create, import, read, change and delete objects
    Object(ObjectArgs),
    /// Import headers of FITS, HDF5, netCDF and Zarr files as tags
    Harvest(HarvestArgs),
    /// Search objects by attributes and tags, or files below a path
    Find(Box<FindArgs>),
    /// Add, change, remove and list tags of objects
    Tag(TagArgs),
    /// Choose which tags and attributes searches keep an index on
    Index(IndexArgs),
    /// List directories of the namespace
    Ls(LsArgs),
    /// Show all attributes of files
    Stat(StatArgs),
    /// Create directories
    Mkdir(MkdirArgs),
    /// Create empty files, or set the times of files to now
    Touch(TouchArgs),
    /// Rename or move files and directories
    Mv(MvArgs),
    /// Remove files and directories
    Rm(RmArgs),
    /// Give a file another name, or create a symbolic link
    Ln(LnArgs),
    /// Change permissions
    Chmod(ChmodArgs),
    /// Change owners and groups
    Chown(ChownArgs),
    /// Show the totals of the namespace: files, directories and bytes
    Df(DfArgs),
    /// Show the totals of directories, with everything below them
    Du(DuArgs),
    /// Show how the namespace stores a directory
    Namespace(NamespaceArgs),
    /// Mount the namespace as a file system of this machine
    Mount(MountArgs),
    /// Unmount a namespace
    Umount(UmountArgs),
    /// Query or update RDF data with SPARQL
    Sparql(SparqlArgs),
    /// Load, dump, measure and remove RDF data
    Rdf(RdfArgs),
    /// Show or extend the schema
    Schema(SchemaArgs),
    /// Show counts, sizes and cache figures
    Stats(StatsArgs),
    /// List the vertices with most edges, or the largest users of space
    Top(TopArgs),
    /// Compare two runs
    Diff(DiffArgs),
    /// List the differences between two times
    Changes(ChangesArgs),
    /// Verify that the database is consistent
    Check(CheckArgs),
    /// Move old versions to the archive and free their space
    Compact(CompactArgs),
    /// Copy a database while it is in use
    Backup(BackupArgs),
    /// Restore a database from a backup
    Restore(RestoreArgs),
    /// Upgrade a database of an earlier Esker to the format of this one
    Upgrade(UpgradeArgs),
    /// Serve a database to other machines over gRPC and HTTP
    Serve(ServeArgs),
    /// Open the web console of a database in a browser
    Console(ConsoleArgs),
    /// Open the address on standard input in a browser
    #[command(hide = true)]
    OpenAddress,
    /// Decode the Munge credentials on standard input, for a server in a sandbox
    #[command(hide = true)]
    DecodeMunge {
        /// Socket of munged
        #[arg(long)]
        socket: Option<PathBuf>,
    },
    /// Serve read-only tools to AI assistants (Model Context Protocol)
    Mcp(McpArgs),
    /// Give a key or a token rights on a database, or list the rights
    Grant(GrantArgs),
    /// Revoke the rights of a key, a token or a session
    Revoke(RevokeArgs),
    /// Show, verify and export the audit log of a server
    Audit(AuditArgs),
    /// Show a lineage to users from whom permissions hide it
    Share(Box<ShareArgs>),
    /// Show limits of users, groups and projects, and their use
    Quota(QuotaArgs),
    /// Log in at a server by its OpenID provider
    Login(LoginArgs),
    /// Forget a login
    Logout(LogoutArgs),
    /// Run several servers as one database
    Cluster(ClusterArgs),
    /// Run a cache of remote metadata; make and replay its traces
    Site(SiteArgs),
    /// Start an interactive shell, or run a script from standard input
    Shell(ShellArgs),
    /// Show how a vertex's edges are distributed over servers
    Placement(PlacementArgs),
    /// Measure Esker and its key-value store on this machine
    #[command(
        disable_help_flag = true,
        after_help = "The measurements are a program of their own, `esker-bench`, beside `esker` or on PATH.\n\nExamples:\n  \
                      esker bench ingest --bulk\n  \
                      esker bench --help"
    )]
    Bench(ProgramArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Print manual pages, or write them to a directory
    Man(ManArgs),
}

/// The command line of another program, which parses it.
#[derive(Debug, Args)]
pub(crate) struct ProgramArgs {
    /// The arguments of the program
    #[arg(
        value_name = "ARGUMENTS",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) arguments: Vec<OsString>,
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
