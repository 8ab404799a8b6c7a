//! What `esker bench namespace` can be asked.

use super::disk::Kind;
use crate::args::{EngineArg, FormatArgs};
use clap::{Args, ValueEnum};
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
    /// Where to make the scratch folder: a directory on the file system that is to be measured
    #[arg(value_name = "DIRECTORY", default_value = ".")]
    pub(super) directory: PathBuf,
    /// What to measure
    #[arg(
        long = "case",
        value_name = "CASE",
        value_delimiter = ',',
        value_enum,
        default_value = "create,single,stat,chmod,utime,list,unlink"
    )]
    pub(super) cases: Vec<Case>,
    /// Files
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1000..=200_000_000))]
    pub(super) files: u32,
    /// Threads
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) threads: u16,
    /// Files created at once
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) batch: u32,
    /// File systems to put beside Esker
    #[arg(
        long,
        value_name = "FS",
        value_delimiter = ',',
        value_enum,
        default_value = "tmpfs,ext4"
    )]
    pub(super) beside: Vec<Kind>,
    /// No file system beside
    #[arg(long, conflicts_with = "beside")]
    pub(super) alone: bool,
    /// Only create, all files in one directory, and print the rate of each ten seconds
    #[arg(long)]
    pub(super) grow: bool,
    /// With `--grow`: draw the rates into that file, as SVG
    #[arg(long, value_name = "FILE", requires = "grow")]
    pub(super) plot: Option<PathBuf>,
    /// What mdtest does instead (`-u -b 8 -z 2`): directories and files, so many of each over all threads, made, asked for, read
    /// and removed one by one in a tree of directories of each thread's own
    #[arg(long, conflicts_with_all = ["grow", "clients", "cases"])]
    pub(super) mdtest_like: bool,
    /// With `--mdtest-like`: bytes in each file
    #[arg(long, value_name = "N", default_value_t = 0, requires = "mdtest_like", value_parser = clap::value_parser!(u16).range(0..=4096))]
    pub(super) bytes: u16,
    /// So many random files are asked for and changed; as many as there are files if it is not said
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1000..))]
    pub(super) random: Option<u32>,
    /// Count what is read from disk and written to it, too; of ext4, what its device counts
    #[arg(long)]
    pub(super) disk: bool,
    /// As on a machine whose memory holds little of the files: after so many random ones, each side forgets what it has read and
    /// comes back to it (Esker is opened again, ext4 mounted again, pages of their files dropped; tmpfs has nowhere to forget
    /// to). That takes no part in the rates, and counts in `--disk`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1000..), conflicts_with_all = ["grow", "clients", "mdtest_like"])]
    pub(super) forget: Option<u32>,
    /// Through a server, by so many clients with one request in flight each; what the file systems do is left out
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=64))]
    pub(super) clients: u16,
    /// With `--clients`: files are made in private subtrees of so many, too, which are merged
    #[arg(long, value_name = "N", default_value_t = 0, requires = "clients", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub(super) bulk: u32,
    /// How often each side is measured; medians are printed
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(super) rounds: u32,
    /// The store engine
    #[arg(long, value_enum, default_value_t = EngineArg::Fjall)]
    pub(super) engine: EngineArg,
    /// Leave the scratch folder
    #[arg(long)]
    pub(super) keep: bool,
    /// Write all figures to that file, too, as JSON
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    #[command(flatten)]
    pub(super) format: FormatArgs,
}

impl NamespaceBenchArgs {
    /// The file systems beside Esker.
    pub(super) fn beside(&self) -> &[Kind] {
        if self.alone { &[] } else { &self.beside }
    }
}

/// What is done to files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Case {
    /// Created in batches
    Create,
    /// Created one by one
    Single,
    /// Asked for, in random order
    Stat,
    /// Given other permissions, in random order
    Chmod,
    /// Given other times, in random order
    Utime,
    /// Listed with all attributes
    List,
    /// Removed
    Unlink,
}

impl Case {
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
