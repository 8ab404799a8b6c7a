//! Arguments of the commands that record runs and report on them.

use super::FormatArgs;
use crate::times::parse_at;
use clap::{Args, Subcommand};
use esker_model::Version;
use std::path::PathBuf;

/// The folder where runs wait for their database.
#[derive(Debug, Clone, Args)]
pub(crate) struct SpoolArg {
    /// Folder where runs wait until they are delivered [default: ~/.local/state/esker/spool]
    #[arg(long, env = "ESKER_SPOOL", value_name = "DIR")]
    pub(crate) spool: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The command's input, output, exit code and signals are its own: recording never fails or delays it. The \
                  record of the run (command, folder, host, user, modules, git commit, Slurm job, variables that say how programs run, \
                  without secrets) goes to a small file first, and from there to the database, in the background: a record that cannot \
                  be delivered now is delivered later, by the next run, `esker log` or `esker spool deliver`. The run is \
                  the vertex execution:ID.\n\nExamples:\n  \
                  esker run --target lab.esker --in raw.nc --out clean.nc --param k=3 -- ./preprocess raw.nc clean.nc\n  \
                  esker run --target lab.esker --trace -- make -j8\n  \
                  export ESKER_TARGET=esker://login1:7400; esker run -- srun ./wrf.exe namelist.input"
)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
pub(crate) struct RunArgs {
    /// The database: a folder, or esker://HOST:PORT [default: `$ESKER_TARGET`, or `.esker` here or above]
    #[arg(long, short, value_name = "TARGET")]
    pub(crate) target: Option<String>,
    /// Name of the run [default: the program's name]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// File that the run reads (may be given again)
    #[arg(long = "in", value_name = "FILE")]
    pub(crate) inputs: Vec<PathBuf>,
    /// File that the run writes (may be given again)
    #[arg(long = "out", value_name = "FILE")]
    pub(crate) outputs: Vec<PathBuf>,
    /// Setting of the run (may be given again)
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) params: Vec<(String, String)>,
    /// Tag of the run (may be given again)
    #[arg(long = "tag", value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) tags: Vec<(String, String)>,
    /// Environment variable to record, in addition to the known ones (may be given again)
    #[arg(long = "keep", value_name = "VARIABLE")]
    pub(crate) keep: Vec<String>,
    /// Replace matches of this regular expression by `[redacted]`, in addition to everything that looks like a secret; if it has a group
    /// `(?P<s>…)`, only that group is replaced
    #[arg(long, value_name = "REGEX", value_parser = pattern)]
    pub(crate) redact: Vec<String>,
    /// Trace the program and its descendants, and record the files that they open and the programs that they run
    #[arg(long)]
    pub(crate) trace: bool,
    /// With --trace: folder whose files are not recorded, in addition to the system's (/usr, /etc, /proc …)
    #[arg(long, value_name = "DIR", requires = "trace")]
    pub(crate) trace_ignore: Vec<PathBuf>,
    /// With --trace: record the system's files, too
    #[arg(long, requires = "trace")]
    pub(crate) trace_system: bool,
    /// Deliver the run before this command ends
    #[arg(long)]
    pub(crate) wait: bool,
    /// Leave the run in the spool, for a server with `--spool` or `esker spool deliver`
    #[arg(long, conflicts_with = "wait")]
    pub(crate) leave: bool,
    #[command(flatten)]
    pub(crate) spool: SpoolArg,
    /// The program and its arguments
    #[arg(
        value_name = "COMMAND",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) command: Vec<String>,
}

fn pattern(text: &str) -> Result<String, String> {
    esker_record::Redactor::new([text])?;
    Ok(text.to_owned())
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().into(), value.into())),
        _ => Err(format!("expected NAME=VALUE, not `{text}`")),
    }
}

#[derive(Debug, Args)]
#[command(
    after_help = "Runs that wait in the spool for this database are delivered first.\n\nExamples:\n  \
                  esker log lab.esker --mine --last\n  \
                  esker log lab.esker --failed --since 2026-03-01 --format json"
)]
pub(crate) struct LogArgs {
    /// The database: a folder, or esker://HOST:PORT [default: `$ESKER_TARGET`, or `.esker` here or above]
    #[arg(value_name = "TARGET")]
    pub(crate) target: String,
    /// Show only your own runs
    #[arg(long, conflicts_with = "user")]
    pub(crate) mine: bool,
    /// Show only runs of this user, by name or number
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<String>,
    /// Show only the latest run
    #[arg(long, conflicts_with = "limit")]
    pub(crate) last: bool,
    /// Show only runs that began at this time or later
    #[arg(long, value_name = "TIME", value_parser = parse_at)]
    pub(crate) since: Option<Version>,
    /// Show only runs that did not end with exit code 0
    #[arg(long)]
    pub(crate) failed: bool,
    /// Maximum number of runs, the latest ones
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) spool: SpoolArg,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        esker spool list\n  \
        esker spool deliver --target lab.esker"
)]
pub(crate) struct SpoolArgs {
    #[command(subcommand)]
    pub(crate) command: SpoolCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SpoolCommand {
    /// List the waiting runs, and the problems of those that cannot be delivered
    List(SpoolListArgs),
    /// Deliver the waiting runs to their databases
    Deliver(SpoolDeliverArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        esker spool list\n  \
        esker spool list --spool /scratch/spool --format json")]
pub(crate) struct SpoolListArgs {
    #[command(flatten)]
    pub(crate) spool: SpoolArg,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "A run that is delivered leaves the spool; delivering it twice changes nothing. Only the user's own files are read. A run is not sent \
                  to a database only because its file names it: without a target, the command lists the waiting runs and the commands that deliver them. The \
                  exit code is 1 if some are left.\n\nExamples:\n  \
                  esker spool deliver --target lab.esker\n  \
                  esker spool deliver --target esker://login1:7400 --spool /scratch/spool --watch &"
)]
pub(crate) struct SpoolDeliverArgs {
    #[command(flatten)]
    pub(crate) spool: SpoolArg,
    /// Database for the runs that are meant for it or name none: a folder, or esker://HOST:PORT
    #[arg(long, short, env = "ESKER_TARGET", value_name = "TARGET")]
    pub(crate) target: Option<String>,
    /// Continue to deliver new runs until interrupted
    #[arg(long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Prints a line for each part: ok; absent, which matters only to those who use it; note or warning, for something that is open to others, with why that matters and how to close it; or wrong, with how to fix it. The exit code is 0 if nothing is \
                  wrong, else 1. Nothing is changed.\n\nExamples:\n  \
                  esker doctor\n  \
                  esker doctor esker://login1:7400 --format json"
)]
pub(crate) struct DoctorArgs {
    /// The database: a folder, or esker://HOST:PORT [default: `$ESKER_TARGET`, or `.esker` here or above]
    #[arg(value_name = "TARGET")]
    pub(crate) target: Option<String>,
    #[command(flatten)]
    pub(crate) spool: SpoolArg,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}
