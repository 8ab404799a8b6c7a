//! The command line of `esker bench namespace`.

use super::disk::FileSystemKind;
use clap::{Args, ValueEnum};
use esker_terminal::args::{EngineArg, FormatArgs};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(
    after_help = "All files lie in one directory. RAW is the file system that the note names, given the same calls in the same run by \
                  as many threads; RATIO is Esker's speed as a part of its. What Esker creates in batches is put beside what a file \
                  system creates one by one. tmpfs keeps nothing; ext4 is one with a journal in a file, mounted by a loop device, \
                  which needs user 0.\n\nExamples:\n  \
                  esker bench namespace --files 1000000\n  \
                  esker bench namespace --mdtest-like --files 100000\n  \
                  esker bench namespace --clients 4 --files 200000 --bulk 50000\n  \
                  esker bench namespace --case stat,chmod,utime --random 2000000 --disk --forget 100000\n  \
                  esker bench namespace --grow --files 20000000 --memory 4GiB --json grow.json"
)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct NamespaceBenchArgs {
    /// Directory for the scratch folder, on the file system to be measured
    #[arg(value_name = "DIRECTORY", default_value = ".")]
    pub(super) directory: PathBuf,
    /// The operations to measure
    #[arg(
        long = "case",
        value_name = "CASE",
        value_delimiter = ',',
        value_enum,
        default_value = "create,single,stat,chmod,utime,list,unlink"
    )]
    pub(super) cases: Vec<FileCase>,
    /// Number of files to create
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1000..=200_000_000))]
    pub(super) files: u32,
    /// Number of concurrent threads
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) threads: u16,
    /// Files created per batch
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) batch: u32,
    /// File systems to compare with Esker
    #[arg(
        long,
        value_name = "FS",
        value_delimiter = ',',
        value_enum,
        default_value = "tmpfs,ext4"
    )]
    pub(super) beside: Vec<FileSystemKind>,
    /// Measure no file system, only Esker
    #[arg(long, conflicts_with = "beside")]
    pub(super) alone: bool,
    /// Only create files, all in one directory, and print the rate of each ten seconds
    #[arg(long)]
    pub(super) grow: bool,
    /// With `--grow`: draw the rates as SVG in this file
    #[arg(long, value_name = "FILE", requires = "grow")]
    pub(super) plot: Option<PathBuf>,
    /// Repeat the work of mdtest (`-u -b 8 -z 2`) instead: this number of directories and files, over all threads,
    /// created, stat'ed,
    /// read and removed one by one in a directory tree for each thread
    #[arg(long, conflicts_with_all = ["grow", "clients", "cases"])]
    pub(super) mdtest_like: bool,
    /// With `--mdtest-like`: bytes in each file
    #[arg(long, value_name = "N", default_value_t = 0, requires = "mdtest_like", value_parser = clap::value_parser!(u16).range(0..=4096))]
    pub(super) bytes: u16,
    /// Number of random files to stat and change [default: the number of files]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1000..))]
    pub(super) random: Option<u32>,
    /// Count bytes read from and written to disk, too; for ext4, as counted by its device
    #[arg(long)]
    pub(super) disk: bool,
    /// Simulate a machine with little memory: after this number of random files, each side drops its caches (Esker is
    /// reopened, ext4
    /// remounted, pages of their files are dropped; tmpfs has no caches to drop). The time counts only for `--disk`,
    /// not for the rates
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1000..), conflicts_with_all = ["grow", "clients", "mdtest_like"])]
    pub(super) forget: Option<u32>,
    /// Measure through a server, with this number of clients with one request in flight each; file systems are not measured
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=64))]
    pub(super) clients: u16,
    /// With `--clients`: create files in private subtrees of this size, too, which are then merged
    #[arg(long, value_name = "N", default_value_t = 0, requires = "clients", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub(super) bulk: u32,
    /// Number of measurements of each side; medians are printed
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(super) rounds: u32,
    /// The key-value store below Esker
    #[arg(long, value_enum, default_value_t = EngineArg::Fjall)]
    pub(super) engine: EngineArg,
    /// Keep the scratch folder
    #[arg(long)]
    pub(super) keep: bool,
    /// Write all figures as JSON to this file, too
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    #[command(flatten)]
    pub(super) format: FormatArgs,
}

impl NamespaceBenchArgs {
    /// The file systems to compare with Esker.
    pub(super) fn compared(&self) -> &[FileSystemKind] {
        if self.alone { &[] } else { &self.beside }
    }
}

/// The measured operations on files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum FileCase {
    /// Create in batches
    Create,
    /// Create one by one
    Single,
    /// Stat, in random order
    Stat,
    /// Change permissions, in random order
    Chmod,
    /// Change times, in random order
    Utime,
    /// List with all attributes
    List,
    /// Remove files
    Unlink,
}

impl FileCase {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Create => "create, in batches",
            Self::Single => "create, one by one",
            Self::Stat => "stat, at random",
            Self::Chmod => "chmod, at random",
            Self::Utime => "utime, at random",
            Self::List => "list with attributes",
            Self::Unlink => "unlink",
        }
    }
}
