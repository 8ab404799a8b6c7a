//! Arguments of the commands that create and maintain a database.

use super::{EngineArg, FormatArgs, Target};
use clap::Args;
use esker_terminal::units::parse_duration;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(
    after_help = "The folder is its owner's alone (mode 0700), whatever the umask is.\n\nExamples:\n  \
                  esker init lab.esker\n  esker init /project/abc/lab.esker --group",
    mut_arg("target", |argument| argument.help(
        "The folder to create, on the machine that will hold the database [default: `$ESKER_TARGET`, or `.esker`]"
    ))
)]
pub(crate) struct InitArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Key-value store of the database
    #[arg(long, value_enum, default_value_t = EngineArg::Fjall)]
    pub(crate) engine: EngineArg,
    /// Create the folder with mode 0750: members of its group attach to the process that has it open, with the rights that file
    /// permissions give them
    #[arg(long)]
    pub(crate) group: bool,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Databases are readable for as long as docs/book/format-stability.md says. No other process may have the database \
        open meanwhile. With --check, exit code 1 if an upgrade is needed.\n\nExamples:\n  \
        esker upgrade lab.esker --check\n  esker backup lab.esker before && esker upgrade lab.esker"
)]
pub(crate) struct UpgradeArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Only report whether an upgrade is needed
    #[arg(long)]
    pub(crate) check: bool,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        esker stats lab.esker\n  \
        esker stats esker://lab-server:7400 --format json")]
pub(crate) struct StatsArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Reads every row; exit code 1 if something is wrong.\n\nExamples:\n  \
                  esker check lab.esker\n  esker check lab.esker --repair\n  esker check lab.esker --data /scratch/.esker-data"
)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Rebuild derived rows (indexes, counts, inverse edges) where they are wrong
    #[arg(long)]
    pub(crate) repair: bool,
    /// Data folders of the database's mounts, to search for contents without a file and files without contents; --repair removes contents
    /// without a file that are at least ten minutes old
    #[arg(long, value_name = "DIR", value_delimiter = ',')]
    pub(crate) data: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Reads as of a past time return the same as before; those of an archived time take longer.\n\nExamples:\n  \
                  esker compact lab.esker\n  esker compact lab.esker --retain 90d"
)]
pub(crate) struct CompactArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Move versions to the archive that were superseded longer ago than this
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) retain: Option<Duration>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The database may be in use meanwhile. The backup, also that of a cluster, is of one snapshot. A cluster's file says with \
                  `backups` below which folder its backups may be.\n\nExamples:\n  \
                  esker backup lab.esker /backup/lab-2026-03-01\n  \
                  esker backup esker://10.0.0.1:7400 /pfs/backups/monday"
)]
pub(crate) struct BackupArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The directory to write; it must be empty or not exist
    #[arg(value_name = "DIRECTORY")]
    pub(crate) directory: PathBuf,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        esker restore /backup/lab-2026-03-01 lab.esker\n  \
        esker restore /backup/lab-2026-03-01 /scratch/copy.esker --format json")]
pub(crate) struct RestoreArgs {
    /// The directory that `esker backup` wrote
    #[arg(value_name = "DIRECTORY")]
    pub(crate) directory: PathBuf,
    /// The database to create; it must not exist
    #[arg(value_name = "TARGET")]
    pub(crate) target: PathBuf,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "In the shell, commands are typed without `esker` and without the target. `help` lists them.\n\n\
                  Examples:\n  esker shell lab.esker\n  esker shell lab.esker < script"
)]
pub(crate) struct ShellArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// In a script, stop at the first command that fails
    #[arg(long)]
    pub(crate) stop_on_error: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  esker completions bash > ~/.local/share/bash-completion/completions/esker\n  \
                  esker completions zsh > ~/.zfunc/_esker\n  \
                  esker completions fish > ~/.config/fish/completions/esker.fish"
)]
pub(crate) struct CompletionsArgs {
    /// The shell to print the script for
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  esker man | man -l -\n  esker man --dir ~/.local/share/man/man1"
)]
pub(crate) struct ManArgs {
    /// Write one page per command into this directory
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) dir: Option<PathBuf>,
}
