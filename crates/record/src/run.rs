//! What is known of a run.

use esker_model::namespace::NamePath;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// A run of a program. Times are nanoseconds since 1970.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Run {
    /// What it is known by: `execution:ID` in the graph. See [`new_id`].
    pub id: String,
    /// The database that it is for: a folder, or `esker://HOST:PORT`.
    pub target: String,
    /// What its user calls it; else the program's name.
    pub name: String,
    /// The program and its arguments, without secrets.
    pub command: Vec<String>,
    /// The program's file, if it was found.
    pub program: Option<String>,
    /// Where it was started.
    pub cwd: String,
    /// On which machine.
    pub host: String,
    /// By whom.
    pub uid: u32,
    /// Their name, if the environment says it.
    pub user: Option<String>,
    /// The process that records it: one that is gone without an end was killed.
    pub pid: u32,
    /// When that process was started, in ticks since its machine was: another one may have its number later.
    pub pid_began: Option<u64>,
    /// When it began.
    pub start: i64,
    /// Variables of its environment, by name, without secrets.
    pub environment: BTreeMap<String, String>,
    /// Modules that were loaded (Lmod, Environment Modules, Spack).
    pub modules: Vec<String>,
    /// What its user says of it: settings.
    pub params: BTreeMap<String, String>,
    /// What its user says of it: tags.
    pub tags: BTreeMap<String, String>,
    /// The run that started it, by its id.
    pub parent: Option<String>,
    /// The job that it is a part of.
    pub slurm: Option<Slurm>,
    /// The source that it was started in.
    pub git: Option<Git>,
    /// The files of programs that were run, in the order in which they were first, with what they were then.
    pub programs: Vec<Use>,
    /// Files that it read.
    pub inputs: Vec<Use>,
    /// Files that it wrote.
    pub outputs: Vec<Use>,
    /// How it ended; nothing while it goes on, or if nobody lived to see it.
    pub ended: Option<Ended>,
}

/// How a run ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ended {
    /// When.
    pub at: i64,
    /// Its exit code, if it ended by itself.
    pub exit: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Why nothing else is known: it was not started, or whoever recorded it was killed.
    pub why: Option<String>,
}

/// A job of Slurm.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Slurm {
    /// `$SLURM_JOB_ID`.
    pub job: String,
    /// `$SLURM_STEP_ID`.
    pub step: Option<String>,
    /// `$SLURM_ARRAY_JOB_ID`.
    pub array: Option<String>,
    /// `$SLURM_ARRAY_TASK_ID`.
    pub task: Option<String>,
    /// `$SLURM_PROCID`.
    pub rank: Option<String>,
    /// `$SLURM_CLUSTER_NAME`.
    pub cluster: Option<String>,
}

/// A state of a source tree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Git {
    /// The commit.
    pub commit: String,
    /// The branch, if one is checked out.
    pub branch: Option<String>,
    /// Whether files that it knows were changed since.
    pub dirty: Option<bool>,
    /// Where its first remote is, without a password.
    pub remote: Option<String>,
}

/// A file that a run read or wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Use {
    /// Its whole path.
    pub path: String,
    /// How large it was.
    pub size: Option<u64>,
    /// When it was last changed.
    pub mtime: Option<i64>,
    /// Tags that its run gives it.
    pub tags: BTreeMap<String, String>,
    /// Whether an instrument saw it, rather than a user or a program said it.
    #[serde(default)]
    pub observed: bool,
}

/// A name for a run: its start in milliseconds, and 40 bits of host, process, time and user, both in letters that sort as numbers do. The user is
/// a part of it, so that nobody gives a run the name of another user's.
pub fn new_id(start: i64, host: &str, pid: u32, uid: u32) -> String {
    const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let letters = |number: u64, count: u32| -> String {
        (0..count)
            .rev()
            .map(|n| {
                let letter = (number >> (5 * n)) & 31;
                char::from(LETTERS.get(letter as usize).copied().unwrap_or(b'0'))
            })
            .collect()
    };
    let mut hasher = blake3::Hasher::new();
    hasher.update(host.as_bytes());
    hasher.update(&pid.to_be_bytes());
    hasher.update(&start.to_be_bytes());
    hasher.update(&uid.to_be_bytes());
    let hash = hasher.finalize();
    let short = hash.as_bytes().iter().take(5);
    let short = short.fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    let millis = u64::try_from(start / 1_000_000).unwrap_or(0);
    format!("{}{}", letters(millis, 9), letters(short, 8))
}

/// The path of a file from the root, without links, `.` and `..` in the folders above it; by its text alone where those are not there.
fn whole(path: &Path) -> PathBuf {
    if let Ok(whole) = std::fs::canonicalize(path) {
        return whole;
    }
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    if let (Some(folder), Some(name)) = (absolute.parent(), absolute.file_name())
        && let Ok(folder) = std::fs::canonicalize(folder)
    {
        return folder.join(name);
    }
    let plain = NamePath::parse(absolute.as_os_str().as_bytes());
    plain.map_or(absolute, |plain| {
        PathBuf::from(OsStr::from_bytes(plain.as_bytes()))
    })
}

impl Use {
    /// What is to be said of a file now: its whole path, its size and time if it is there.
    pub fn of(path: &Path) -> Self {
        let whole = whole(path);
        let metadata = std::fs::metadata(&whole).ok();
        let mtime = metadata.as_ref().and_then(|m| m.modified().ok());
        let mtime = mtime.and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
        Self {
            path: whole.to_string_lossy().into_owned(),
            size: metadata.map(|m| m.len()),
            mtime: mtime.and_then(|d| i64::try_from(d.as_nanos()).ok()),
            tags: BTreeMap::new(),
            observed: false,
        }
    }
}
