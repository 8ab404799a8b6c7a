//! A folder where runs wait for a database: one small file each, written by whoever records, taken away by whoever delivers.
//!
//! A file begins with what is known at the start, and gets a second line at the end, each with a hash of itself before it. Its name says where and
//! when: `START-HOST-PID.run` while it goes on, `….done` once it is over. So thousands of tasks share a folder without a lock, a file that was
//! torn is told by its hash, and a run whose process is gone without a second line is known to have been killed.

use crate::now;
use crate::run::{Ended, Run};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

const RUN: &str = "run";
const DONE: &str = "done";
/// A file that is larger is none of ours.
const BYTES_MAX: u64 = 64 << 20;
/// One of another machine that has not ended after so long is given up: nanoseconds, 30 days.
const GIVEN_UP: i64 = 30 * 86_400 * 1_000_000_000;

/// A folder of runs.
#[derive(Debug, Clone)]
pub struct Spool {
    folder: PathBuf,
}

/// A run that is being recorded.
#[derive(Debug)]
pub struct Entry {
    file: File,
    path: PathBuf,
}

/// What lies in a spool.
#[derive(Debug)]
pub enum Found {
    /// A run, and its file, to be removed once it is delivered. One that was killed has an end that says so.
    Run(Box<Run>, PathBuf),
    /// One that goes on.
    GoesOn(PathBuf),
    /// A file from which nothing can be made, and why.
    Broken(PathBuf, String),
}

fn line_of(run: &Run) -> io::Result<Vec<u8>> {
    let json = serde_json::to_vec(run).map_err(io::Error::other)?;
    let hash = blake3::hash(&json).to_hex();
    let mut line = hash.get(..16).unwrap_or_default().as_bytes().to_vec();
    line.push(b' ');
    line.extend(json);
    line.push(b'\n');
    Ok(line)
}

fn run_of(line: &[u8]) -> Result<Run, String> {
    let (hash, json) = line.split_at_checked(17).ok_or("it is cut off")?;
    let wanted = blake3::hash(json).to_hex();
    if hash.get(..16) != wanted.get(..16).map(str::as_bytes) {
        return Err("it was torn: its hash is another one".into());
    }
    serde_json::from_slice(json).map_err(|e| format!("column {}: {e}", e.column() + 17))
}

/// Where runs wait if nothing else is said: `$ESKER_SPOOL`, else below the user's state (`$XDG_STATE_HOME`, `~/.local/state`), else
/// below the folder for temporary files.
pub fn usual_folder() -> PathBuf {
    let folder = |name: &str| {
        std::env::var_os(name)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
    };
    if let Some(spool) = folder("ESKER_SPOOL") {
        return std::path::absolute(&spool).unwrap_or(spool);
    }
    let state = folder("XDG_STATE_HOME").filter(|folder| folder.is_absolute());
    // Some users have no home, and some nodes lack it.
    let home = folder("HOME").filter(|home| home.is_dir());
    let state = state.or_else(|| Some(home?.join(".local/state")));
    state.map_or_else(
        || {
            let user = rustix::process::getuid().as_raw();
            std::env::temp_dir().join(format!("esker-spool-{user}"))
        },
        |state| state.join("esker/spool"),
    )
}

impl Spool {
    /// The spool in a folder, which is made, for its user alone, when something is put there.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes down that a run has begun.
    pub fn begin(&self, run: &Run) -> io::Result<Entry> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)?;
        let host: String = run
            .host
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .take(64)
            .collect();
        let path = self
            .folder
            .join(format!("{}-{host}-{}.{RUN}", run.id, run.pid));
        // In a folder that a group shares, whoever serves the group may read it.
        let shared = fs::metadata(&self.folder)?.mode() & 0o020 != 0;
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(if shared { 0o640 } else { 0o600 })
            .open(&path)?;
        if let Err(e) = file.write_all(&line_of(run)?) {
            // Half a file helps nobody.
            let _ = fs::remove_file(&path);
            return Err(e);
        }
        Ok(Entry { file, path })
    }

    /// Everything that lies there, oldest first.
    pub fn read(&self) -> io::Result<Vec<Found>> {
        self.read_some(&[RUN, DONE])
    }

    /// Runs that have ended, oldest first; of the others not even the files are opened.
    pub fn ended(&self) -> io::Result<Vec<Found>> {
        self.read_some(&[DONE])
    }

    fn read_some(&self, kinds: &[&str]) -> io::Result<Vec<Found>> {
        let mut paths: Vec<PathBuf> = match fs::read_dir(&self.folder) {
            Ok(entries) => entries.filter_map(|e| Some(e.ok()?.path())).collect(),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(e) => return Err(e),
        };
        paths.retain(|p| p.extension().is_some_and(|e| kinds.iter().any(|k| e == *k)));
        paths.sort();
        let found = paths.into_iter().filter_map(|path| match look(&path) {
            // Somebody else has delivered it meanwhile.
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => Some(Found::Broken(path, e.to_string())),
            Ok(found) => Some(found),
        });
        Ok(found.collect())
    }
}

fn look(path: &Path) -> io::Result<Found> {
    if fs::metadata(path)?.len() > BYTES_MAX {
        return Ok(Found::Broken(path.to_owned(), "it is too large".into()));
    }
    let bytes = fs::read(path)?;
    let mut whole = None;
    let mut wrong = None;
    for line in bytes.split_inclusive(|b| *b == b'\n') {
        match line
            .strip_suffix(b"\n")
            .ok_or_else(|| "it is cut off".to_owned())
            .and_then(run_of)
        {
            Ok(run) => whole = Some(run),
            Err(e) => wrong = Some(e),
        }
    }
    let Some(mut run) = whole else {
        let why = wrong.unwrap_or_else(|| "it is empty".into());
        // One that is being written is looked at again.
        let fresh = fs::metadata(path)?
            .modified()?
            .elapsed()
            .is_ok_and(|age| age.as_secs() < 60);
        return Ok(if fresh && path.extension().is_some_and(|e| e == RUN) {
            Found::GoesOn(path.to_owned())
        } else {
            Found::Broken(path.to_owned(), why)
        });
    };
    if run.ended.is_none() {
        let here = run.host == crate::host_name();
        let lives =
            here && began(run.pid).is_some_and(|b| run.pid_began.is_none_or(|was| was == b));
        let given_up = now().saturating_sub(run.start) > GIVEN_UP;
        if lives || (!here && !given_up) {
            return Ok(Found::GoesOn(path.to_owned()));
        }
        let changed = fs::metadata(path)?.modified()?;
        let at = changed
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        run.ended = Some(Ended {
            at: i64::try_from(at.as_nanos())
                .unwrap_or(run.start)
                .max(run.start),
            why: Some("killed, or its end could not be written down".into()),
            ..Ended::default()
        });
    }
    Ok(Found::Run(Box::new(run), path.to_owned()))
}

/// When a process was started, in ticks since its machine was.
pub(crate) fn began(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in brackets, may hold blanks.
    let (_, rest) = text.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

impl Entry {
    /// Its file, as long as the run goes on.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes down how it ended: once this has returned, the machine may fail.
    pub fn end(mut self, run: &Run) -> io::Result<PathBuf> {
        self.file.write_all(&line_of(run)?)?;
        self.file.sync_data()?;
        let done = self.path.with_extension(DONE);
        fs::rename(&self.path, &done)?;
        Ok(done)
    }
}
