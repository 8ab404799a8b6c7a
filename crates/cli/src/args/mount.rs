//! Arguments of `esker mount` and `esker umount`.

use super::{RemoteArgs, Target};
use crate::times::parse_as_of;
use clap::Args;
use esker_model::Version;
use esker_terminal::units::{parse_duration, parse_size};
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
#[command(
    after_help = "Runs until it is unmounted, or interrupted by Ctrl-C. Contents up to --inline are stored in the database, larger ones \
                  in the folders of --data, where programs read and write them directly; the folders are created if they do not \
                  exist, and must be given to each mount of the same target. docs/book/mount.md describes the guarantees to \
                  programs.\n\nUsers other than root need fusermount3 (package fuse3).\n\nExamples:\n  \
                  esker mount lab.esker /mnt/lab --data /scratch/.esker-data\n  \
                  esker mount esker://meta1:7400 /mnt/lab --data /scratch/.esker-data,/gpfs2/.esker-data --allow-other --background\n  \
                  setfattr -n user.esker.campaign -v winter24 /mnt/lab/run7/out.nc\n  \
                  esker mount lab.esker /mnt/lab --data /scratch/.esker-data --record     # then: esker lineage /mnt/lab/run7/out.nc\n  \
                  esker mount lab.esker /mnt/march --as-of 2026-03-01 --data /scratch/.esker-data\n  \
                  esker mount --origin sftp://store.example.org/data /mnt/far"
)]
pub(crate) struct MountArgs {
    /// The directory that holds the database, or a server: esker://HOST:PORT; with --origin the directory to mount on
    #[arg(value_name = "TARGET")]
    pub(crate) first: String,
    /// The directory to mount on
    #[arg(
        value_name = "DIRECTORY",
        required_unless_present = "origin",
        conflicts_with = "origin"
    )]
    pub(crate) at: Option<PathBuf>,
    /// Mount the remote files below this URL, as `sftp://HOST/PATH`, read-only and without their contents
    #[arg(long, value_name = "URL")]
    pub(crate) origin: Option<String>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
    /// Folders for large contents; without any, contents over --inline are refused
    #[arg(long, value_name = "DIR", value_delimiter = ',')]
    pub(crate) data: Vec<PathBuf>,
    /// Mount read-only: programs cannot change anything
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Mount read-only the files as they were at this time (RFC 3339, a date, @SECONDS or #VERSION)
    #[arg(long, value_name = "TIME", value_parser = parse_as_of, conflicts_with_all = ["origin", "record"])]
    pub(crate) as_of: Option<Version>,
    /// Allow other users to use the mount, each with their own rights
    #[arg(long)]
    pub(crate) allow_other: bool,
    /// Number of threads that answer the kernel
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) threads: u16,
    /// Time for which the kernel may cache names and attributes
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    pub(crate) attr_timeout: Duration,
    /// Time for which the kernel may cache that a name does not exist; files created elsewhere are invisible for as long
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_duration)]
    pub(crate) negative_timeout: Duration,
    /// Largest content to store in the database, up to 4KiB
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = parse_size)]
    pub(crate) inline: u64,
    /// Pass all contents through this process, even where the kernel could read and write them itself
    #[arg(long)]
    pub(crate) no_passthrough: bool,
    /// Record which process and job opens which file for reading or writing, for `esker lineage`
    #[arg(long, conflicts_with = "origin")]
    pub(crate) record: bool,
    /// Mount an empty file system that answers at once, as a baseline of measurements
    #[arg(long, hide = true)]
    pub(crate) null: bool,
    /// Return once the file system is mounted, and continue in the background
    #[arg(long)]
    pub(crate) background: bool,
}

impl MountArgs {
    /// Returns the mounted target or origin as the user wrote it.
    pub(crate) fn source(&self) -> &str {
        self.origin.as_deref().unwrap_or(&self.first)
    }

    /// Returns the target, the database to mount.
    pub(crate) fn target(&self) -> Target {
        Target {
            target: self.first.clone(),
        }
    }

    /// Returns the directory to mount on.
    pub(crate) fn mount_point(&self) -> &Path {
        self.at.as_deref().unwrap_or(Path::new(&self.first))
    }
}

#[derive(Debug, Args)]
#[command(
    after_help = "Also removes the remains of a mount whose process has died.\n\nExamples:\n  \
                  esker umount /mnt/lab\n  esker umount --lazy /mnt/lab"
)]
pub(crate) struct UmountArgs {
    /// The directory of the mount
    #[arg(value_name = "DIRECTORY")]
    pub(crate) at: PathBuf,
    /// Unmount even if programs use it: it disappears from the directory tree, and ends with its last use
    #[arg(long, conflicts_with = "force")]
    pub(crate) lazy: bool,
    /// Unmount like --lazy and fail all pending requests, for a mount that does not answer
    #[arg(long)]
    pub(crate) force: bool,
}
