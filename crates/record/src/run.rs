//! Description of a recorded run.

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
    /// Id of the run, the key of its vertex `execution:ID`. See [`new_id`].
    pub id: String,
    /// Database of the run: a folder, or `esker://HOST:PORT`.
    pub target: String,
    /// Name given by the user; the program's name by default.
    pub name: String,
    /// Program and arguments, without secrets.
    pub command: Vec<String>,
    /// File of the program, if it was found.
    pub program: Option<String>,
    /// Working directory at the start.
    pub cwd: String,
    /// Name of the machine.
    pub host: String,
    /// User id of the run.
    pub uid: u32,
    /// User name, if the environment has it.
    pub user: Option<String>,
    /// Process that records the run: if it is gone without an end, the run was killed.
    pub pid: u32,
    /// Start of that process, in ticks since the machine's boot: detects reuse of the process id.
    pub pid_began: Option<u64>,
    /// Start time of the run.
    pub start: i64,
    /// Environment variables by name, without secrets.
    pub environment: BTreeMap<String, String>,
    /// Loaded modules (Lmod, Environment Modules, Spack).
    pub modules: Vec<String>,
    /// Settings given by the user.
    pub params: BTreeMap<String, String>,
    /// Tags given by the user.
    pub tags: BTreeMap<String, String>,
    /// Id of the run that started it.
    pub parent: Option<String>,
    /// Slurm job that contains it.
    pub slurm: Option<Slurm>,
    /// Source tree in which it was started.
    pub git: Option<Git>,
    /// Executed program files in the order of first execution, with their state then.
    pub programs: Vec<Use>,
    /// Files that it read.
    pub inputs: Vec<Use>,
    /// Files that it wrote.
    pub outputs: Vec<Use>,
    /// End of the run; `None` while it runs, or if no end was recorded.
    pub ended: Option<Ended>,
}

/// End of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ended {
    /// End time of the run.
    pub at: i64,
    /// Exit code, if it exited by itself.
    pub exit: Option<i32>,
    /// Signal that killed it.
    pub signal: Option<i32>,
    /// Why nothing else is known: it was not started, or its recorder was killed.
    pub why: Option<String>,
}

/// Slurm job of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Slurm {
    /// Job id, `$SLURM_JOB_ID`.
    pub job: String,
    /// Step id, `$SLURM_STEP_ID`.
    pub step: Option<String>,
    /// Job id of the array, `$SLURM_ARRAY_JOB_ID`.
    pub array: Option<String>,
    /// Task number in the array, `$SLURM_ARRAY_TASK_ID`.
    pub task: Option<String>,
    /// Rank of the process, `$SLURM_PROCID`.
    pub rank: Option<String>,
    /// Name of the cluster, `$SLURM_CLUSTER_NAME`.
    pub cluster: Option<String>,
}

/// State of a source tree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Git {
    /// Hash of the commit.
    pub commit: String,
    /// Branch, if one is checked out.
    pub branch: Option<String>,
    /// Whether tracked files were changed since the commit.
    pub dirty: Option<bool>,
    /// URL of the first remote, without a password.
    pub remote: Option<String>,
}

/// A file that a run read or wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Use {
    /// Absolute path of the file.
    pub path: String,
    /// Size of the file in bytes.
    pub size: Option<u64>,
    /// Time of its last modification.
    pub mtime: Option<i64>,
    /// Tags that the run gives to the file.
    pub tags: BTreeMap<String, String>,
    /// Whether an instrument observed the access, rather than a user or a program declaring it.
    #[serde(default)]
    pub observed: bool,
}

/// Returns an id for a run: its start in milliseconds, and 40 bits of a hash of host, process, time and user, both in letters that
/// sort like numbers. The user is included so that a run cannot take the id of another user's run.
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

/// Returns the absolute path of a file, with links, `.` and `..` of its folders resolved; lexically if the folders do not exist.
pub fn absolute_path(path: &Path) -> PathBuf {
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
    /// Describes a file as it is now: its absolute path, and its size and time if it exists.
    pub fn of(path: &Path) -> Self {
        let whole = absolute_path(path);
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
