//! What `esker bench run` can be asked.

use crate::args::FormatArgs;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(
    after_help = "The bare command, the same under `esker run`, and under `esker run --trace` take turns; RATIO is the bare command's time as a part \
                  of the recorded one's. Without --tree a C project of 60 files is made and built with make and cc.\n\nExamples:\n  \
                  esker bench run /scratch\n  \
                  esker bench run /scratch --tree zlib-1.3 --rounds 5 -- sh -c './configure >/dev/null && make -j2'"
)]
pub(crate) struct RunBenchArgs {
    /// Where to make the scratch folder: a directory on the file system that is to be measured
    #[arg(value_name = "DIRECTORY", default_value = ".")]
    pub(super) directory: PathBuf,
    /// A source tree; a copy of it is built each time
    #[arg(long, value_name = "DIR", requires = "command")]
    pub(super) tree: Option<PathBuf>,
    /// Starts of `true`, bare and recorded
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) starts: u32,
    /// Files that one program opens, observed
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) files: u32,
    /// Tasks that record at once, without a server; and runs that are delivered
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) tasks: u32,
    /// How often the build is measured; medians are printed
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(super) rounds: u32,
    /// Leave the scratch folder
    #[arg(long)]
    pub(super) keep: bool,
    /// Write all figures to that file, too, as JSON
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    #[command(flatten)]
    pub(super) format: FormatArgs,
    /// How the tree is built
    #[arg(value_name = "COMMAND", last = true, requires = "tree")]
    pub(super) command: Vec<String>,
}
