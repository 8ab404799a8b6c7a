//! Arguments of `esker mount` and `esker umount`.

use super::{FarArgs, Target};
use crate::units::{parse_duration, parse_size};
use clap::Args;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
#[command(
    after_help = "Runs until it is unmounted, or told to stop by Ctrl-C. Contents up to --inline lie in the database, larger ones \
                  in the folders of --data, where programs read and write them directly; the folders are made if they are not \
                  there, and are to be given to each mount of the same target. docs/book/mount.md says what programs may rely \
                  on.\n\nUsers other than root need fusermount3 (package fuse3).\n\nExamples:\n  \
                  esker mount lab.esker /mnt/lab --data /scratch/.esker-data\n  \
                  esker mount esker://meta1:7400 /mnt/lab --data /scratch/.esker-data,/gpfs2/.esker-data --allow-other --background\n  \
                  setfattr -n user.esker.campaign -v winter24 /mnt/lab/run7/out.nc\n  \
                  esker mount lab.esker /mnt/lab --data /scratch/.esker-data --record     # then: esker lineage /mnt/lab/run7/out.nc\n  \
                  esker mount --origin sftp://store.example.org/data /mnt/far"
)]
pub(crate) struct MountArgs {
    /// The directory that holds the database, or a server: esker://HOST:PORT; with --origin the directory to mount it on
    #[arg(value_name = "TARGET")]
    pub(crate) first: String,
    /// The directory to mount it on
    #[arg(
        value_name = "DIRECTORY",
        required_unless_present = "origin",
        conflicts_with = "origin"
    )]
    pub(crate) at: Option<PathBuf>,
    /// Show a far server's files from there on, as `sftp://HOST/PATH`; nothing can be changed, and contents are not read
    #[arg(long, value_name = "URL")]
    pub(crate) origin: Option<String>,
    #[command(flatten)]
    pub(crate) far: FarArgs,
    /// Folders for large contents; without any, contents over --inline are refused
    #[arg(long, value_name = "DIR", value_delimiter = ',')]
    pub(crate) data: Vec<PathBuf>,
    /// Nothing can be changed through it
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Other users may use it, too, each with their own rights
    #[arg(long)]
    pub(crate) allow_other: bool,
    /// Threads that answer the kernel
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) threads: u16,
    /// For how long the kernel may answer for names and attributes itself
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    pub(crate) attr_timeout: Duration,
    /// For how long it may answer that a name is not there: so long, what is made elsewhere is not seen
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_duration)]
    pub(crate) negative_timeout: Duration,
    /// The largest content that lies in the database, up to 4KiB
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = parse_size)]
    pub(crate) inline: u64,
    /// All contents go through this process, also where the kernel could read and write them itself
    #[arg(long)]
    pub(crate) no_passthrough: bool,
    /// Who opens which file to read or to write becomes edges of their process and job, for `esker lineage`
    #[arg(long, conflicts_with = "origin")]
    pub(crate) record: bool,
    /// Mount nothing, which answers at once: to measure against
    #[arg(long, hide = true)]
    pub(crate) null: bool,
    /// Return once it is mounted, and go on in the background
    #[arg(long)]
    pub(crate) background: bool,
}

impl MountArgs {
    /// What is mounted, as it was named.
    pub(crate) fn source(&self) -> &str {
        self.origin.as_deref().unwrap_or(&self.first)
    }

    /// The database.
    pub(crate) fn target(&self) -> Target {
        Target {
            target: self.first.clone(),
        }
    }

    /// Where it is mounted.
    pub(crate) fn place(&self) -> &Path {
        self.at.as_deref().unwrap_or(Path::new(&self.first))
    }
}

#[derive(Debug, Args)]
#[command(
    after_help = "Also removes what is left of a mount whose process has died.\n\nExamples:\n  \
                  esker umount /mnt/lab\n  esker umount --lazy /mnt/lab"
)]
pub(crate) struct UmountArgs {
    /// The directory that it is mounted on
    #[arg(value_name = "DIRECTORY")]
    pub(crate) at: PathBuf,
    /// Also while programs use it: nobody finds it any more, and it ends once nobody uses it
    #[arg(long, conflicts_with = "force")]
    pub(crate) lazy: bool,
    /// The same, and all that programs wait for fails: for a mount that does not answer
    #[arg(long)]
    pub(crate) force: bool,
}
