//! What `esker bench objects` can be asked.

use super::shape::Names;
use crate::args::{EngineArg, FormatArgs};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(
    after_help = "Objects are created as in SoMeta's three workloads: all of one name, of four names, each of its own. RAW is \
                  the bare store engine with the same objects as rows, in the same batches and the same run, or what the note \
                  says; RATIO is Esker's speed as a part of its. docs/objects.md has figures beside the paper's.\n\nExamples:\n  \
                  esker bench objects --case create,served\n  \
                  esker bench objects --case search --workload unique --rounds 1\n  \
                  esker bench objects --case indexed --indexed-objects 10000000"
)]
pub(crate) struct ObjectsBenchArgs {
    /// Where to make the scratch folder: a directory on the file system that is to be measured
    #[arg(value_name = "DIRECTORY", default_value = ".")]
    pub(super) directory: PathBuf,
    /// What to measure
    #[arg(
        long = "case",
        value_name = "CASE",
        value_delimiter = ',',
        value_enum,
        default_value = "create,served,memory,search,change,scan,indexed,balance,duplicates"
    )]
    pub(super) cases: Vec<Case>,
    /// Objects
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1000..=100_000_000))]
    pub(super) objects: u32,
    /// Which names they have
    #[arg(
        long = "workload",
        value_name = "NAMES",
        value_delimiter = ',',
        value_enum,
        default_value = "one,four,unique"
    )]
    pub(super) workloads: Vec<Names>,
    /// Objects in a batch
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) batch: u32,
    /// Threads that write into a database of this process
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) threads: u16,
    /// Connections to a server
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(super) clients: u16,
    /// Objects of the case `indexed`
    #[arg(long, value_name = "N", default_value_t = 10_000_000, value_parser = clap::value_parser!(u32).range(1000..=100_000_000))]
    pub(super) indexed_objects: u32,
    /// Objects of the case `duplicates`
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1000000,10000000",
          value_parser = clap::value_parser!(u32).range(1000..=200_000_000))]
    pub(super) hashed: Vec<u32>,
    /// How often each side is measured; medians are printed
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(super) rounds: u32,
    /// Write the report as JSON to a file, too
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// The store engine under Esker, and bare beside it
    #[arg(long, value_enum, default_value_t = EngineArg::Fjall)]
    pub(super) engine: EngineArg,
    /// Leave the scratch folder behind
    #[arg(long)]
    pub(super) keep: bool,
    #[command(flatten)]
    pub(super) format: FormatArgs,
}

/// What is measured of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Case {
    /// Creating them in this process, beside the bare engine (Figures 4 to 6)
    Create,
    /// Creating them through a server
    Served,
    /// Memory of a server and disk, checkpoint, restart (Table IV, Figures 14 and 15)
    Memory,
    /// Searching by identity and by a tag (Figures 7 and 8)
    Search,
    /// Updating and deleting (Figures 9 and 10)
    Change,
    /// Searching by tags without an index
    Scan,
    /// 100 objects among very many, by an index
    Indexed,
    /// How evenly they lie over 128 vnodes (Table III)
    Balance,
    /// How often the check for duplicates errs
    Duplicates,
}
