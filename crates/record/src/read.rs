//! Reader of a spool to which other users may write.
//!
//! A name may refer to a device, to a pipe without a writer, or to another file by the time that it is opened. A file is therefore opened
//! relative to the folder's descriptor, without following links or blocking; owner and size are read from the open file; and the
//! amount read is bounded, even if the file grows meanwhile.

use crate::now;
use crate::run::{Ended, Run};
use crate::spool::{DONE, FileId, RUN, Spool, file_id, other_kind};
use rustix::fs::{AtFlags, Mode, OFlags};
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Maximum size of a file, in bytes.
const BYTES_MAX: u64 = 64 << 20;
/// Time after which a run of another machine without an end counts as killed: nanoseconds, 30 days.
const KILLED_AFTER_NANOS: i64 = 30 * 86_400 * 1_000_000_000;
/// Seconds since its last change during which an incomplete file may still be being written.
const RECENT_SECONDS: u64 = 60;

/// A run in a spool that waits for delivery, with its file.
#[derive(Debug)]
pub struct SpooledRun {
    /// The run. A killed run has an end that says so.
    pub run: Box<Run>,
    /// Path of its file.
    pub path: PathBuf,
    /// Owner of the file, read from the open file.
    pub owner: u32,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Identity of the file.
    pub file: FileId,
}

impl SpooledRun {
    /// Checks that the file belongs to the user who ran it, or to root: users cannot record runs of others.
    ///
    /// # Errors
    /// The error is a sentence.
    pub fn check_owner(&self) -> Result<(), String> {
        if self.owner == self.run.uid || self.owner == 0 {
            return Ok(());
        }
        Err(format!(
            "it says that user {} ran it, but its file is user {}'s",
            self.run.uid, self.owner
        ))
    }

    /// Removes the file, unless another file has its name now.
    ///
    /// # Errors
    /// Fails if the file remains.
    pub fn remove(&self) -> io::Result<()> {
        let folder = self.path.parent().unwrap_or_else(|| Path::new("."));
        Spool::remove(folder, &self.path, self.file)
    }
}

/// A file in a spool.
#[derive(Debug)]
pub enum SpoolFile {
    /// A run to deliver.
    Run(SpooledRun),
    /// A run that has not ended.
    Active(PathBuf),
    /// An unreadable file, and why.
    Broken(PathBuf, String),
    /// A file of another user, which was not opened ([`SpoolReader::only_of`]).
    OtherUser(PathBuf, u32),
}

/// Selection of files in a spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpoolSelection {
    /// All files.
    All,
    /// Files of runs that have ended.
    Ended,
}

impl SpoolSelection {
    pub(crate) const fn extensions(self) -> &'static [&'static str] {
        match self {
            Self::All => &[RUN, DONE],
            Self::Ended => &[DONE],
        }
    }
}

/// Iterator over a spool that reads each file when it is reached.
#[derive(Debug)]
pub struct SpoolReader {
    folder: Option<OwnedFd>,
    path: PathBuf,
    names: std::vec::IntoIter<OsString>,
    only: Option<u32>,
    left_out: HashSet<FileId>,
}

impl SpoolReader {
    pub(crate) fn nothing() -> Self {
        Self {
            folder: None,
            path: PathBuf::new(),
            names: Vec::new().into_iter(),
            only: None,
            left_out: HashSet::new(),
        }
    }

    pub(crate) fn new(folder: OwnedFd, path: PathBuf, names: Vec<OsString>) -> Self {
        Self {
            folder: Some(folder),
            path,
            names: names.into_iter(),
            ..Self::nothing()
        }
    }

    /// Skips opening files of users other than `user`.
    #[must_use]
    pub fn only_of(mut self, user: u32) -> Self {
        self.only = Some(user);
        self
    }

    /// Skips the given files.
    #[must_use]
    pub fn without(mut self, files: HashSet<FileId>) -> Self {
        self.left_out = files;
        self
    }

    /// Reads a file; `None` if it is to be skipped.
    fn read(&self, folder: &OwnedFd, name: &OsStr) -> io::Result<Option<SpoolFile>> {
        let path = self.path.join(name);
        let broken = |why: String| Ok(Some(SpoolFile::Broken(path.clone(), why)));
        // Opening a device may have effects: only regular files are opened.
        let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if self.left_out.contains(&file_id(&stat)) {
            return Ok(None);
        }
        if let Some(kind) = other_kind(&stat) {
            return broken(format!("it is {kind}, not a regular file"));
        }
        if self.only.is_some_and(|user| user != stat.st_uid) {
            return Ok(Some(SpoolFile::OtherUser(path, stat.st_uid)));
        }
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(folder, name, flags, Mode::empty())?);
        let stat = rustix::fs::fstat(&file)?;
        if let Some(kind) = other_kind(&stat) {
            return broken(format!("it is {kind}, not a regular file"));
        }
        if self.only.is_some_and(|user| user != stat.st_uid) {
            return Ok(Some(SpoolFile::OtherUser(path, stat.st_uid)));
        }
        let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
        let bytes = match size {
            ..=BYTES_MAX => bounded(&file, BYTES_MAX)?,
            _ => None,
        };
        let Some(bytes) = bytes else {
            return broken(format!("it is too large: more than {BYTES_MAX} bytes"));
        };
        let changed = file.metadata()?.modified()?;
        let is_run = path.extension().is_some_and(|e| e == RUN);
        Ok(Some(match run_of_file(&bytes, is_run, changed) {
            State::Waits(run) => SpoolFile::Run(SpooledRun {
                run,
                path,
                owner: stat.st_uid,
                bytes: bytes.len() as u64,
                file: file_id(&stat),
            }),
            State::Active => SpoolFile::Active(path),
            State::Broken(why) => SpoolFile::Broken(path, why),
        }))
    }
}

impl Iterator for SpoolReader {
    type Item = SpoolFile;

    fn next(&mut self) -> Option<SpoolFile> {
        loop {
            let name = self.names.next()?;
            let folder = self.folder.as_ref()?;
            match self.read(folder, &name) {
                Ok(Some(found)) => return Some(found),
                Ok(None) => {}
                // Another process has delivered it meanwhile.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Some(SpoolFile::Broken(self.path.join(name), e.to_string())),
            }
        }
    }
}

/// Reads all bytes of a file; `None` if there are more than `most`.
fn bounded(file: impl Read, most: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    Ok(Some(bytes).filter(|bytes| bytes.len() as u64 <= most))
}

/// Parsed content of a spool file.
pub(crate) enum State {
    Waits(Box<Run>),
    Active,
    Broken(String),
}

fn run_of_line(line: &[u8]) -> Result<Run, String> {
    let (hash, json) = line.split_at_checked(17).ok_or("it is cut off")?;
    let expected = blake3::hash(json).to_hex();
    if hash.get(..16) != expected.get(..16).map(str::as_bytes) {
        return Err("it is damaged: its hash does not match".into());
    }
    serde_json::from_slice(json).map_err(|e| format!("column {}: {e}", e.column() + 17))
}

pub(crate) fn run_of_file(bytes: &[u8], is_run: bool, changed: SystemTime) -> State {
    let mut complete = None;
    let mut wrong = None;
    for line in bytes.split_inclusive(|b| *b == b'\n') {
        match line
            .strip_suffix(b"\n")
            .ok_or_else(|| "it is cut off".to_owned())
            .and_then(run_of_line)
        {
            Ok(run) => complete = Some(run),
            Err(e) => wrong = Some(e),
        }
    }
    let Some(mut run) = complete else {
        // A file that is being written is read again later.
        let recent = changed
            .elapsed()
            .is_ok_and(|age| age.as_secs() < RECENT_SECONDS);
        return if recent && is_run {
            State::Active
        } else {
            State::Broken(wrong.unwrap_or_else(|| "it is empty".into()))
        };
    };
    if run.ended.is_none() {
        let here = run.host == crate::host_name();
        let began = crate::spool::began(run.pid);
        let lives = here && began.is_some_and(|b| run.pid_began.is_none_or(|was| was == b));
        let counts_as_killed = now().saturating_sub(run.start) > KILLED_AFTER_NANOS;
        if lives || (!here && !counts_as_killed) {
            return State::Active;
        }
        let at = changed.duration_since(UNIX_EPOCH).unwrap_or_default();
        run.ended = Some(Ended {
            at: i64::try_from(at.as_nanos())
                .unwrap_or(run.start)
                .max(run.start),
            why: Some("killed, or its end could not be recorded".into()),
            ..Ended::default()
        });
    }
    State::Waits(Box::new(run))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that grows while it is read counts as too large.
    #[test]
    fn what_is_read_is_bounded_whatever_the_size_was() {
        assert_eq!(bounded(io::repeat(b'x'), 1000).unwrap(), None);
        assert_eq!(
            bounded(&b"abc"[..], 3).unwrap().as_deref(),
            Some(&b"abc"[..])
        );
        assert_eq!(bounded(&b"abcd"[..], 3).unwrap(), None);
    }
}
