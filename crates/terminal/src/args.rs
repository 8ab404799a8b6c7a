//! Options that several programs and commands take.

use crate::units::{parse_duration, parse_size};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use esker::StoreEngine;
use esker_cluster::Kind;
use esker_model::object::Principal;
use std::str::FromStr as _;
use std::time::Duration;

/// Options that every command takes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
pub struct Globals {
    /// Memory for the database's caches and buffers
    #[arg(long, global = true, value_name = "SIZE", default_value = "512MiB", value_parser = parse_size)]
    pub memory: u64,

    /// Durability of a write that has succeeded: `sync`, it is on disk; `relaxed`, it survives the crash of any process and is on disk
    /// within 100 ms
    #[arg(long, global = true, value_enum, default_value_t = DurabilityArg::Relaxed)]
    pub durability: DurabilityArg,

    /// Stop after this time and print the results found so far, marked as partial (exit code 1)
    #[arg(long, global = true, value_name = "TIME", value_parser = parse_duration)]
    pub timeout: Option<Duration>,

    /// Print only results and errors, no progress and no summaries
    #[arg(long, short, global = true)]
    pub quiet: bool,

    /// Record the key of an unknown server instead of refusing the connection; a key that has changed is still refused
    #[arg(long, global = true)]
    pub trust_new_host: bool,

    /// Print long texts whole, even if the lines of a table become wider than the terminal
    #[arg(long, global = true)]
    pub wide: bool,

    /// Do not page through long output on a terminal (`$ESKER_PAGER`, `$PAGER`, else `less`)
    #[arg(long, global = true)]
    pub no_pager: bool,

    /// Use of colour in the output
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = Color::Auto)]
    pub color: Color,
}

/// Use of colour in the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless `NO_COLOR` or `CLICOLOR=0` is set; elsewhere if `CLICOLOR_FORCE` is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Durability of a write that has succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DurabilityArg {
    /// The write-ahead log is synced to disk
    Sync,
    /// The write-ahead log is in the system's buffers, and is synced within 100 ms
    Relaxed,
}

impl DurabilityArg {
    /// The word of the command line and of configuration files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Relaxed => "relaxed",
        }
    }
}

/// Output format of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RowFormat {
    /// Aligned columns
    Table,
    /// One JSON document
    Json,
    /// One JSON object per line
    Ndjson,
    /// Comma-separated values with a header
    Csv,
}

impl RowFormat {
    /// Whether the format is JSON, as one document or as lines.
    pub fn is_json(self) -> bool {
        matches!(self, Self::Json | Self::Ndjson)
    }
}

/// The option `--format` of commands that print rows.
#[derive(Debug, Clone, Copy, Args)]
pub struct FormatArgs {
    /// Output format of the rows
    #[arg(long, value_enum, default_value_t = RowFormat::Table)]
    pub format: RowFormat,
}

/// The database, the first argument of each command.
#[derive(Debug, Clone, Args)]
pub struct Target {
    /// The directory that holds the database, or a server: esker://HOST:PORT [default: `$ESKER_TARGET`, or `.esker` here or above]
    #[arg(value_name = "TARGET")]
    pub target: String,
}

/// The key-value store of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EngineArg {
    /// Pure Rust; in every build
    Fjall,
    /// RocksDB, C++; in builds with the feature `rocksdb`
    Rocksdb,
}

impl From<EngineArg> for StoreEngine {
    fn from(engine: EngineArg) -> Self {
        match engine {
            EngineArg::Fjall => Self::Fjall,
            EngineArg::Rocksdb => Self::RocksDb,
        }
    }
}

/// Returns the parser of a placement's name.
pub fn kind_parser() -> impl TypedValueParser<Value = Kind> {
    PossibleValuesParser::new(Kind::ALL.map(Kind::name)).try_map(|name| name.parse::<Kind>())
}

/// The principal for whom a command acts.
#[derive(Debug, Clone, Args)]
pub struct PrincipalArg {
    /// Act for this user and these groups; what they may not read is left out, as if it did not exist
    #[arg(long = "as", value_name = "UID[:GID,…]", value_parser = Principal::from_str)]
    pub principal: Option<Principal>,
}
