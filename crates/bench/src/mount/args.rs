//! The command line of `esker bench mount`.

use clap::Args;
use esker_terminal::args::FormatArgs;
use esker_terminal::units::parse_size;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(
    after_help = "Needs root, or fusermount3. RATIO is the mount's rate as a part of the other side's in the same run. Contents are \
                  counted in MiB.\n\nExamples:\n  \
                  esker bench mount /scratch --files 100000 --rounds 3\n  \
                  esker bench mount /scratch --target esker://127.0.0.1:7400"
)]
pub(crate) struct MountBenchArgs {
    /// Directory for the scratch folder, on the file system to be measured
    #[arg(value_name = "DIRECTORY", default_value = ".")]
    pub(super) directory: PathBuf,
    /// Number of empty files, over all ranks
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(4..=10_000_000))]
    pub(super) files: u32,
    /// Number of concurrent ranks
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) ranks: u16,
    /// Threads that serve the kernel's requests, of the mount and of the null file system
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) threads: u16,
    /// Size of the large file
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = parse_size)]
    pub(super) large: u64,
    /// Mount this database instead of one in the scratch folder; files are created below `/esker-bench-mount`
    #[arg(long, value_name = "TARGET")]
    pub(super) target: Option<String>,
    /// Measure a mount with --record, too
    #[arg(long)]
    pub(super) record: bool,
    /// Number of measurements of each side; medians are printed
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(super) rounds: u32,
    /// Keep the scratch folder
    #[arg(long)]
    pub(super) keep: bool,
    /// Write all figures as JSON to this file, too
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    #[command(flatten)]
    pub(super) format: FormatArgs,
}
