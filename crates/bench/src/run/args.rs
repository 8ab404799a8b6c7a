//! The command line of `esker bench run`.

use clap::Args;
use esker_terminal::args::FormatArgs;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(
    after_help = "The bare command, the same under `esker run`, and under `esker run --trace` take turns; RATIO is the time of the bare \
                  command divided by the time of the recorded command. Without --tree a C project of 60 files is made and built with make and cc.\n\nExamples:\n  \
                  esker bench run /scratch\n  \
                  esker bench run /scratch --tree zlib-1.3 --rounds 5 -- sh -c './configure >/dev/null && make -j2'"
)]
pub(crate) struct RunBenchArgs {
    /// Directory for the scratch folder, on the file system to be measured
    #[arg(value_name = "DIRECTORY", default_value = ".")]
    pub(super) directory: PathBuf,
    /// A source tree; a copy is built in each round
    #[arg(long, value_name = "DIR", requires = "command")]
    pub(super) tree: Option<PathBuf>,
    /// Number of executions of `true`, bare and recorded
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) starts: u32,
    /// Number of files that one traced program opens
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) files: u32,
    /// Number of tasks recorded concurrently without a server, and of runs delivered from a spool
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) tasks: u32,
    /// Number of measurements of the build; medians are printed
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(super) rounds: u32,
    /// Keep the scratch folder
    #[arg(long)]
    pub(super) keep: bool,
    /// Write all figures as JSON to this file, too
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    #[command(flatten)]
    pub(super) format: FormatArgs,
    /// Command that builds the tree
    #[arg(value_name = "COMMAND", last = true, requires = "tree")]
    pub(super) command: Vec<String>,
}
