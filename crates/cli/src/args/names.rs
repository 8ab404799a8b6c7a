//! Arguments of the namespace's commands: files by path.

use super::object::AskerArg;
use super::{FarArgs, FormatArgs, Target};
use clap::{Args, Subcommand};
use std::ffi::OsString;

const PATHS: &str = "Paths begin with / and are the database's own: nothing is looked up in this machine's file systems.";

#[derive(Debug, Args)]
#[command(after_help = format!("{PATHS}\n\nExamples:\n  esker ls lab.esker /project\n  esker ls lab.esker /project -l --as 1001:100"))]
pub(crate) struct LsArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Directories to list, or files to show
    #[arg(value_name = "PATH", default_value = "/")]
    pub(crate) paths: Vec<OsString>,
    /// Mode, links, owner, group, size and time, too
    #[arg(long, short)]
    pub(crate) long: bool,
    /// As they lie, not by name: the first ones come at once, however many there are
    #[arg(long, short = 'U')]
    pub(crate) unsorted: bool,
    #[command(flatten)]
    pub(crate) asker: AskerArg,
    #[command(flatten)]
    pub(crate) far: FarArgs,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  esker stat lab.esker /project/run7/out.h5 --format json\n  esker stat sftp://data.example.org/run7/out.h5 --via http://edge:7500"
)]
pub(crate) struct StatArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Files
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<OsString>,
    /// What a symbolic link leads to, not the link
    #[arg(long, short = 'L')]
    pub(crate) follow: bool,
    #[command(flatten)]
    pub(crate) asker: AskerArg,
    #[command(flatten)]
    pub(crate) far: FarArgs,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  esker mkdir lab.esker -p /project/run7 --mode 2775")]
pub(crate) struct MkdirArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Directories to make
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<OsString>,
    /// Those above them, too; one that is there is no mistake
    #[arg(long, short)]
    pub(crate) parents: bool,
    /// Permissions, in octal; else 777 without the process's umask
    #[arg(long, short, value_name = "MODE", value_parser = parse_mode)]
    pub(crate) mode: Option<u32>,
    #[command(flatten)]
    pub(crate) asker: AskerArg,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  esker touch lab.esker /project/run7/done")]
pub(crate) struct TouchArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Files to make, or to give the present time
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<OsString>,
    /// Permissions of new ones, in octal; else 666 without the process's umask
    #[arg(long, short, value_name = "MODE", value_parser = parse_mode)]
    pub(crate) mode: Option<u32>,
    #[command(flatten)]
    pub(crate) asker: AskerArg,
}

#[derive(Debug, Args)]
#[command(
    after_help = "A file or directory keeps its vertex, and with it tags, lineage and history. If TO is a directory, FROM comes to \
        lie in it.\n\nExamples:\n  esker mv lab.esker /scratch/run7 /project/run7\n  esker mv lab.esker /a.h5 /b.h5 /archive"
)]
pub(crate) struct MvArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// What to rename, then its new path or the directory to move it into
    #[arg(required = true, num_args = 2.., value_name = "PATH")]
    pub(crate) paths: Vec<OsString>,
    /// Replace nothing
    #[arg(long, short)]
    pub(crate) no_clobber: bool,
    #[command(flatten)]
    pub(crate) asker: AskerArg,
}

#[derive(Debug, Args)]
#[command(
    after_help = "What was known of the files stays in their history.\n\nExamples:\n  esker rm lab.esker /scratch/a.h5\n  \
        esker rm lab.esker -r /scratch/run7"
)]
pub(crate) struct RmArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Files to remove
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<OsString>,
    /// Directories, and all that is in them
    #[arg(long, short)]
    pub(crate) recursive: bool,
    /// Empty directories
    #[arg(long, short)]
    pub(crate) dir: bool,
    /// What is not there is no mistake
    #[arg(long, short)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) asker: AskerArg,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  esker ln lab.esker /a.h5 /b.h5\n  esker ln lab.esker -s ../data /project/run7/data"
)]
pub(crate) struct LnArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The file; with --symbolic, whatever the link is to say
    #[arg(value_name = "FROM")]
    pub(crate) from: OsString,
    /// Its further name
    #[arg(value_name = "TO")]
    pub(crate) to: OsString,
    /// A symbolic link
    #[arg(long, short)]
    pub(crate) symbolic: bool,
    #[command(flatten)]
    pub(crate) asker: AskerArg,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  esker chmod lab.esker 640 /project/a.h5\n  esker chmod lab.esker -R 2770 /project/run7"
)]
pub(crate) struct ChmodArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Permissions, in octal
    #[arg(value_name = "MODE", value_parser = parse_mode)]
    pub(crate) mode: u32,
    /// Files
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<OsString>,
    /// Directories with all that is in them
    #[arg(long, short = 'R')]
    pub(crate) recursive: bool,
    #[command(flatten)]
    pub(crate) asker: AskerArg,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  esker chown lab.esker 1001:100 /project/a.h5\n  esker chown lab.esker -R :100 /project/run7"
)]
pub(crate) struct ChownArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Owner, group or both, as numbers
    #[arg(value_name = "UID[:GID]", value_parser = parse_owner)]
    pub(crate) owner: Owner,
    /// Files
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<OsString>,
    /// Directories with all that is in them
    #[arg(long, short = 'R')]
    pub(crate) recursive: bool,
    #[command(flatten)]
    pub(crate) asker: AskerArg,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Sums are kept with each change, so this reads directories only. A file with several names counts where its first one \
        is.\n\nExamples:\n  esker du lab.esker /project\n  esker du lab.esker /project --depth 1"
)]
pub(crate) struct DuArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Directories
    #[arg(value_name = "PATH", default_value = "/")]
    pub(crate) paths: Vec<OsString>,
    /// Those in them, too, so many levels down
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) depth: usize,
    #[command(flatten)]
    pub(crate) asker: AskerArg,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Sums are kept with each change: nothing is searched.\n\nExample:\n  esker df lab.esker"
)]
pub(crate) struct DfArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct NamespaceArgs {
    #[command(subcommand)]
    pub(crate) command: NamespaceCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NamespaceCommand {
    /// How a directory is kept: its id, its sums, its partitions
    #[command(after_help = "Example:\n  esker namespace explain lab.esker /project/run7")]
    Explain(NamespaceExplainArgs),
}

#[derive(Debug, Args)]
pub(crate) struct NamespaceExplainArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The directory
    #[arg(value_name = "PATH")]
    pub(crate) path: OsString,
    /// All partitions, not the first 32
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

/// How a tree is scanned.
#[derive(Debug, Args)]
#[command(next_help_heading = "Of a directory tree")]
pub(crate) struct ScanTreeHow {
    /// Where it comes to lie in the database [default: at its own path]
    #[arg(long, value_name = "PATH")]
    pub(crate) at: Option<OsString>,
    /// At most so many entries a second, as 5k/s
    #[arg(long, value_name = "N/s", value_parser = parse_rate)]
    pub(crate) rate: Option<u64>,
    /// Threads that read the tree
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) workers: u16,
    /// Stay in the file system where the directory is
    #[arg(long, short = 'x')]
    pub(crate) one_file_system: bool,
    /// Leave out what has such a name (may be given again)
    #[arg(long, value_name = "NAME")]
    pub(crate) exclude: Vec<OsString>,
    /// Go on where a scan was interrupted. Each scan does: what is there already is compared, and not written again
    #[arg(long)]
    pub(crate) resume: bool,
}

/// An owner and a group, either or both.
pub(crate) type Owner = (Option<u32>, Option<u32>);

fn parse_owner(text: &str) -> Result<Owner, String> {
    let (uid, gid) = text.split_once(':').unwrap_or((text, ""));
    let number = |text: &str| -> Result<Option<u32>, String> {
        if text.is_empty() {
            return Ok(None);
        }
        let n = text.parse().map(Some);
        n.map_err(|_| {
            format!("`{text}` is no number: expected UID, UID:GID or :GID, as in 1001:100")
        })
    };
    let owner = (number(uid)?, number(gid)?);
    if owner == (None, None) {
        return Err("expected UID, UID:GID or :GID, as in 1001:100".into());
    }
    Ok(owner)
}

/// Reads permission bits.
pub(crate) fn parse_mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|m| *m <= 0o7777);
    mode.ok_or_else(|| format!("`{text}` is no mode: expected octal digits up to 7777, as in 640"))
}

/// Reads `5k/s`, `200000/s`, `5000`.
fn parse_rate(text: &str) -> Result<u64, String> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    let bad = || format!("`{text}` is no rate: expected entries a second, as in 5k/s or 200000/s");
    let (digits, factor) = match number.char_indices().last() {
        Some((i, 'k' | 'K')) => (number.get(..i).unwrap_or_default(), 1_000),
        Some((i, 'M' | 'm')) => (number.get(..i).unwrap_or_default(), 1_000_000),
        _ => (number, 1),
    };
    let n: u64 = digits.parse().map_err(|_| bad())?;
    n.checked_mul(factor).filter(|n| *n > 0).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_owners_and_rates() {
        assert_eq!(
            (parse_mode("640"), parse_mode("2775")),
            (Ok(0o640), Ok(0o2775))
        );
        assert!(
            parse_mode("8").is_err() && parse_mode("10000").is_err() && parse_mode("").is_err()
        );
        assert_eq!(parse_owner("1:2"), Ok((Some(1), Some(2))));
        assert_eq!(
            (parse_owner(":2"), parse_owner("1")),
            (Ok((None, Some(2))), Ok((Some(1), None)))
        );
        assert!(parse_owner("").is_err() && parse_owner("ada").is_err());
        assert_eq!(
            (parse_rate("5k/s"), parse_rate("70"), parse_rate("2M/s")),
            (Ok(5_000), Ok(70), Ok(2_000_000))
        );
        assert!(parse_rate("fast").is_err() && parse_rate("0").is_err());
    }
}
