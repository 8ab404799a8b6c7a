//! Arguments of what records runs and tells of them.

use super::FormatArgs;
use crate::times::parse_at;
use clap::{Args, Subcommand};
use esker_model::Version;
use std::path::PathBuf;

/// Where runs wait for their database.
#[derive(Debug, Clone, Args)]
pub(crate) struct SpoolArg {
    /// The folder where runs wait until they are delivered [default: ~/.local/state/esker/spool]
    #[arg(long, env = "ESKER_SPOOL", value_name = "DIR")]
    pub(crate) spool: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The command's input, output, exit code and signals are its own: recording never fails or delays it. What is known \
                  of the run (command, folder, host, user, modules, git commit, Slurm job, variables that say how programs run, \
                  without secrets) goes to a small file first, and from there to the database, in the background: what cannot \
                  be delivered now is later, by the next run, `esker log` or `esker spool deliver`. The run is \
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
    /// The database: a folder, or esker://HOST:PORT
    #[arg(
        long,
        short,
        env = "ESKER_TARGET",
        value_name = "TARGET",
        required_unless_present = "leave"
    )]
    pub(crate) target: Option<String>,
    /// What the run is called [default: the program's name]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// A file that it reads
    #[arg(long = "in", value_name = "FILE")]
    pub(crate) inputs: Vec<PathBuf>,
    /// A file that it writes
    #[arg(long = "out", value_name = "FILE")]
    pub(crate) outputs: Vec<PathBuf>,
    /// A setting of it
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) params: Vec<(String, String)>,
    /// A tag of the run
    #[arg(long = "tag", value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) tags: Vec<(String, String)>,
    /// A variable of the environment to keep beside those that are known to matter
    #[arg(long = "keep", value_name = "VARIABLE")]
    pub(crate) keep: Vec<String>,
    /// Keep `[redacted]` in the place of what that regular expression matches, beside what looks like a secret anyway; of one with a
    /// group `(?P<s>…)` in the place of that group
    #[arg(long, value_name = "REGEX", value_parser = pattern)]
    pub(crate) redact: Vec<String>,
    /// Follow the program and all that it starts, and record the files that they open and the programs that they run
    #[arg(long)]
    pub(crate) trace: bool,
    /// With --trace: a folder whose files are of no interest, beside the system's (/usr, /etc, /proc …)
    #[arg(long, value_name = "DIR", requires = "trace")]
    pub(crate) trace_ignore: Vec<PathBuf>,
    /// With --trace: the system's files, too
    #[arg(long, requires = "trace")]
    pub(crate) trace_system: bool,
    /// Deliver before this command ends
    #[arg(long)]
    pub(crate) wait: bool,
    /// Leave it in the spool, for a server with `--spool` or `esker spool deliver`
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
    after_help = "What waits in the spool for this database is delivered first.\n\nExamples:\n  \
                  esker log lab.esker --mine --last\n  \
                  esker log lab.esker --failed --since 2026-03-01 --format json"
)]
pub(crate) struct LogArgs {
    /// The database: a folder, or esker://HOST:PORT
    #[arg(env = "ESKER_TARGET", value_name = "TARGET")]
    pub(crate) target: String,
    /// Only runs of whoever asks
    #[arg(long, conflicts_with = "user")]
    pub(crate) mine: bool,
    /// Only runs of that user, by name or number
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<String>,
    /// Only the latest
    #[arg(long, conflicts_with = "limit")]
    pub(crate) last: bool,
    /// Only runs that began at that time or later
    #[arg(long, value_name = "TIME", value_parser = parse_at)]
    pub(crate) since: Option<Version>,
    /// Only runs that did not end with exit code 0
    #[arg(long)]
    pub(crate) failed: bool,
    /// So many at most, the latest
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) spool: SpoolArg,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct SpoolArgs {
    #[command(subcommand)]
    pub(crate) command: SpoolCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SpoolCommand {
    /// Show the runs that wait, and what is wrong with those that cannot be delivered
    List(SpoolListArgs),
    /// Bring the runs that wait to their databases
    Deliver(SpoolDeliverArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SpoolListArgs {
    #[command(flatten)]
    pub(crate) spool: SpoolArg,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "A run that is delivered leaves the spool; delivering it twice changes nothing. Only the user's own files are read. Nothing is sent \
                  to a database because a file there names it: without a target, what waits is told, with the command that brings it. The \
                  exit code is 1 if some are left.\n\nExamples:\n  \
                  esker spool deliver --target lab.esker\n  \
                  esker spool deliver --target esker://login1:7400 --spool /scratch/spool --watch &"
)]
pub(crate) struct SpoolDeliverArgs {
    #[command(flatten)]
    pub(crate) spool: SpoolArg,
    /// The database to bring runs to that are for it, or that name none: a folder, or esker://HOST:PORT
    #[arg(long, short, env = "ESKER_TARGET", value_name = "TARGET")]
    pub(crate) target: Option<String>,
    /// Go on, and deliver what comes, until interrupted
    #[arg(long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "A line for each part: ok; absent, which only those miss who use it; note or warning, which is open to others: why that matters, and how to close it; or wrong, with what to do. The exit code is 0 if nothing is \
                  wrong, else 1. Nothing is changed.\n\nExamples:\n  \
                  esker doctor\n  \
                  esker doctor esker://login1:7400 --format json"
)]
pub(crate) struct DoctorArgs {
    /// The database: a folder, or esker://HOST:PORT
    #[arg(env = "ESKER_TARGET", value_name = "TARGET")]
    pub(crate) target: Option<String>,
    #[command(flatten)]
    pub(crate) spool: SpoolArg,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}
