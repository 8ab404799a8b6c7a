//! Arguments of the namespace's commands, which name files by path.

use super::{FormatArgs, PrincipalArg, RemoteArgs, Target};
use clap::{Args, Subcommand};
use std::ffi::OsString;

const PATHS: &str = "Paths begin with / and belong to the database's namespace, not to this machine's file systems.";

#[derive(Debug, Args)]
#[command(after_help = format!("{PATHS}\n\nExamples:\n  esker ls lab.esker /project\n  esker ls lab.esker /project -l --as 1001:100"))]
pub(crate) struct LsArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Directories to list, or files to show
    #[arg(value_name = "PATH", default_value = "/")]
    pub(crate) paths: Vec<OsString>,
    /// Show mode, links, owner, group, size and time, too
    #[arg(long, short)]
    pub(crate) long: bool,
    /// Do not sort by name, so that large directories begin to print at once
    #[arg(long, short = 'U')]
    pub(crate) unsorted: bool,
    #[command(flatten)]
    pub(crate) principal: PrincipalArg,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  esker stat lab.esker /project/run7/out.h5 --format json\n  esker stat sftp://data.example.org/run7/out.h5 --via esker://edge:7500"
)]
pub(crate) struct StatArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Files and directories to show
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<OsString>,
    /// Show the target of a symbolic link, not the link
    #[arg(long, short = 'L')]
    pub(crate) follow: bool,
    #[command(flatten)]
    pub(crate) principal: PrincipalArg,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        esker mkdir lab.esker -p /project/run7 --mode 2775\n  \
        esker mkdir lab.esker /scratch/run7 /scratch/run8 --as 1001:100")]
pub(crate) struct MkdirArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Paths of the directories to create
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<OsString>,
    /// Create missing parent directories, and accept directories that exist
    #[arg(long, short)]
    pub(crate) parents: bool,
    /// Permissions, in octal [default: 777 without the process's umask]
    #[arg(long, short, value_name = "MODE", value_parser = parse_mode)]
    pub(crate) mode: Option<u32>,
    #[command(flatten)]
    pub(crate) principal: PrincipalArg,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        esker touch lab.esker /project/run7/done\n  \
        esker touch lab.esker /project/run7/a.h5 /project/run7/b.h5 --mode 640 --as 1001:100")]
pub(crate) struct TouchArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Files to create, or whose times to set
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<OsString>,
    /// Permissions of new files, in octal [default: 666 without the process's umask]
    #[arg(long, short, value_name = "MODE", value_parser = parse_mode)]
    pub(crate) mode: Option<u32>,
    #[command(flatten)]
    pub(crate) principal: PrincipalArg,
}

#[derive(Debug, Args)]
#[command(
    after_help = "A file or directory keeps its vertex, and with it tags, lineage and history. If the last PATH is a \
        directory, the others are moved into it.\n\nExamples:\n  esker mv lab.esker /scratch/run7 /project/run7\n  esker mv lab.esker /a.h5 /b.h5 /archive"
)]
pub(crate) struct MvArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Files or directories to move, then the new path or the directory to move them into
    #[arg(required = true, num_args = 2.., value_name = "PATH")]
    pub(crate) paths: Vec<OsString>,
    /// Do not replace existing files
    #[arg(long, short)]
    pub(crate) no_clobber: bool,
    /// Exchange two files or directories: each gets the path of the other
    #[arg(long, conflicts_with = "no_clobber")]
    pub(crate) exchange: bool,
    #[command(flatten)]
    pub(crate) principal: PrincipalArg,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The files' earlier versions stay in their history.\n\nExamples:\n  esker rm lab.esker /scratch/a.h5\n  \
        esker rm lab.esker -r /scratch/run7"
)]
pub(crate) struct RmArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Paths of the files to remove
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<OsString>,
    /// Remove directories and everything below them
    #[arg(long, short)]
    pub(crate) recursive: bool,
    /// Remove empty directories, too
    #[arg(long, short)]
    pub(crate) dir: bool,
    /// Ignore files that do not exist
    #[arg(long, short)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) principal: PrincipalArg,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  esker ln lab.esker /a.h5 /b.h5\n  esker ln lab.esker -s ../data /project/run7/data"
)]
pub(crate) struct LnArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The existing file; with --symbolic, the text of the link
    #[arg(value_name = "FROM")]
    pub(crate) from: OsString,
    /// The new name or the path of the link
    #[arg(value_name = "TO")]
    pub(crate) to: OsString,
    /// Create a symbolic link
    #[arg(long, short)]
    pub(crate) symbolic: bool,
    #[command(flatten)]
    pub(crate) principal: PrincipalArg,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  esker chmod lab.esker 640 /project/a.h5\n  esker chmod lab.esker -R 2770 /project/run7"
)]
pub(crate) struct ChmodArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// New permissions, in octal
    #[arg(value_name = "MODE", value_parser = parse_mode)]
    pub(crate) mode: u32,
    /// Paths of the files to change
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<OsString>,
    /// Change directories with everything below them
    #[arg(long, short = 'R')]
    pub(crate) recursive: bool,
    #[command(flatten)]
    pub(crate) principal: PrincipalArg,
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
    /// Paths of the files to change
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<OsString>,
    /// Change directories with everything below them
    #[arg(long, short = 'R')]
    pub(crate) recursive: bool,
    #[command(flatten)]
    pub(crate) principal: PrincipalArg,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Sums are updated with each change, so this reads directories only. A file with several names counts in the directory of its \
        first one.\n\nExamples:\n  esker du lab.esker /project\n  esker du lab.esker /project --depth 1"
)]
pub(crate) struct DuArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Paths of the directories to measure
    #[arg(value_name = "PATH", default_value = "/")]
    pub(crate) paths: Vec<OsString>,
    /// Show subdirectories down to this many levels, too
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) depth: usize,
    #[command(flatten)]
    pub(crate) principal: PrincipalArg,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Sums are updated with each change, so nothing is searched.\n\nExamples:\n  \
        esker df lab.esker\n  esker df esker://lab-server:7400 --format json"
)]
pub(crate) struct DfArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        esker namespace explain lab.esker /project\n  \
        esker namespace explain lab.esker /project --all"
)]
pub(crate) struct NamespaceArgs {
    #[command(subcommand)]
    pub(crate) command: NamespaceCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NamespaceCommand {
    /// Show how a directory is stored: its id, sums and partitions
    #[command(after_help = "Examples:\n  \
            esker namespace explain lab.esker /project/run7\n  \
            esker namespace explain esker://lab-server:7400 /project/run7 --all --format json")]
    Explain(NamespaceExplainArgs),
}

#[derive(Debug, Args)]
pub(crate) struct NamespaceExplainArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The directory to explain
    #[arg(value_name = "PATH")]
    pub(crate) path: OsString,
    /// Show all partitions, not only the first 32
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

/// Options of a scan of a directory tree.
#[derive(Debug, Args)]
#[command(next_help_heading = "Directory trees")]
pub(crate) struct TreeOptions {
    /// Path of the tree in the namespace [default: its own path]
    #[arg(long, alias = "at", value_name = "PATH")]
    pub(crate) as_path: Option<OsString>,
    /// Maximum number of entries per second, as 5k/s
    #[arg(long, value_name = "N/s", value_parser = parse_rate)]
    pub(crate) rate: Option<u64>,
    /// Number of threads that read the tree
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) workers: u16,
    /// Do not cross into other file systems
    #[arg(long, short = 'x')]
    pub(crate) one_file_system: bool,
    /// Skip files and directories with this name (may be given again)
    #[arg(long, value_name = "NAME")]
    pub(crate) exclude: Vec<OsString>,
    /// Store extended attributes whose names match a pattern, as 'user.*' (may be given again)
    #[arg(long, value_name = "PATTERN")]
    pub(crate) xattrs: Vec<String>,
    /// Store project ids; this opens each file
    #[arg(long)]
    pub(crate) project_ids: bool,
    /// Domain whose names in access lists of `NFSv4` are users of this machine [default: that of idmapd.conf, else the host's]
    #[arg(long, value_name = "DOMAIN")]
    pub(crate) nfs4_domain: Option<String>,
    /// Continue an interrupted import. Every import does: entries that exist are compared, and written only if they changed
    #[arg(long)]
    pub(crate) resume: bool,
}

/// Owner and group, either or both.
pub(crate) type Owner = (Option<u32>, Option<u32>);

fn parse_owner(text: &str) -> Result<Owner, String> {
    let (uid, gid) = text.split_once(':').unwrap_or((text, ""));
    let number = |text: &str| -> Result<Option<u32>, String> {
        if text.is_empty() {
            return Ok(None);
        }
        let n = text.parse().map(Some);
        n.map_err(|_| {
            format!("`{text}` is not a number: expected UID, UID:GID or :GID, as in 1001:100")
        })
    };
    let owner = (number(uid)?, number(gid)?);
    if owner == (None, None) {
        return Err("expected UID, UID:GID or :GID, as in 1001:100".into());
    }
    Ok(owner)
}

/// Reads permission bits in octal.
pub(crate) fn parse_mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|m| *m <= 0o7777);
    mode.ok_or_else(|| {
        format!("`{text}` is not a mode: expected octal digits up to 7777, as in 640")
    })
}

/// Reads a rate in entries per second: `5k/s`, `200000/s`, `5000`.
fn parse_rate(text: &str) -> Result<u64, String> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    let bad =
        || format!("`{text}` is not a rate: expected entries a second, as in 5k/s or 200000/s");
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
