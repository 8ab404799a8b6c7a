//! The command line of `esker bench objects`.

use super::shape::Names;
use clap::{Args, ValueEnum};
use esker_terminal::args::{EngineArg, FormatArgs};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(
    after_help = "Objects are created as in SoMeta's three workloads: all of one name, of four names, each of its own. RAW is \
                  the bare store engine with the same objects as rows, in the same batches and the same run, or what the note \
                  says; RATIO is Esker's speed as a part of its. docs/papers/someta.md has figures beside the paper's.\n\nExamples:\n  \
                  esker bench objects --case create,served\n  \
                  esker bench objects --case search --workload unique --rounds 1\n  \
                  esker bench objects --case indexed --indexed-objects 10000000"
)]
pub(crate) struct ObjectsBenchArgs {
    /// Directory for the scratch folder, on the file system to be measured
    #[arg(value_name = "DIRECTORY", default_value = ".")]
    pub(super) directory: PathBuf,
    /// The operations to measure
    #[arg(
        long = "case",
        value_name = "CASE",
        value_delimiter = ',',
        value_enum,
        default_value = "create,served,memory,search,change,scan,indexed,balance,duplicates"
    )]
    pub(super) cases: Vec<ObjectCase>,
    /// Number of objects to create
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1000..=100_000_000))]
    pub(super) objects: u32,
    /// Names of the objects
    #[arg(
        long = "workload",
        value_name = "NAMES",
        value_delimiter = ',',
        value_enum,
        default_value = "one,four,unique"
    )]
    pub(super) workloads: Vec<Names>,
    /// Number of objects per batch
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) batch: u32,
    /// Threads that write to a database in this process
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) threads: u16,
    /// Connections to a server
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(super) clients: u16,
    /// Number of objects in the case `indexed`
    #[arg(long, value_name = "N", default_value_t = 10_000_000, value_parser = clap::value_parser!(u32).range(1000..=100_000_000))]
    pub(super) indexed_objects: u32,
    /// Numbers of objects in the case `duplicates`
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1000000,10000000",
          value_parser = clap::value_parser!(u32).range(1000..=200_000_000))]
    pub(super) hashed: Vec<u32>,
    /// Number of measurements of each side; medians are printed
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(super) rounds: u32,
    /// Write the report as JSON to this file, too
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// The key-value store, both below Esker and on its own
    #[arg(long, value_enum, default_value_t = EngineArg::Fjall)]
    pub(super) engine: EngineArg,
    /// Keep the scratch folder
    #[arg(long)]
    pub(super) keep: bool,
    #[command(flatten)]
    pub(super) format: FormatArgs,
}

/// The measured operations on objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ObjectCase {
    /// Create in this process, compared with the key-value store (Figures 4 to 6)
    Create,
    /// Create through a server
    Served,
    /// Memory of a server, disk space, checkpoint, restart (Table IV, Figures 14 and 15)
    Memory,
    /// Search by identity and by a tag (Figures 7 and 8)
    Search,
    /// Update and delete (Figures 9 and 10)
    Change,
    /// Search by tags without an index
    Scan,
    /// Find 100 objects among very many with an index
    Indexed,
    /// Distribution over 128 vnodes (Table III)
    Balance,
    /// Error rate of the duplicate check
    Duplicates,
}
