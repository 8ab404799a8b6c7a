//! Reading a spool that other users can write to, too.
//!
//! A name there may be a link to a device, a pipe that nobody writes to, or another file by the time that it is opened. So a file is opened
//! below the folder's descriptor, follows no link and waits for nobody; whose it is and how large are asked of the open file; and what is read
//! is bounded, however much the file grows meanwhile.

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

/// A file with more bytes is none of ours.
const BYTES_MAX: u64 = 64 << 20;
/// A run of another machine that has not ended after so long is given up: nanoseconds, 30 days.
const GIVEN_UP: i64 = 30 * 86_400 * 1_000_000_000;
/// A file that was changed less than so many seconds ago may be one that is being written.
const FRESH: u64 = 60;

/// A run that waits in a spool, and its file.
#[derive(Debug)]
pub struct Waiting {
    /// The run. One that was killed has an end that says so.
    pub run: Box<Run>,
    /// Its file.
    pub path: PathBuf,
    /// The user whose the file is, as the open file said when it was read.
    pub owner: u32,
    /// How many bytes the file has.
    pub bytes: u64,
    /// Which file it is.
    pub file: FileId,
}

impl Waiting {
    /// Whether the file is of the user who ran it, or of root: nobody says what another one has done.
    ///
    /// # Errors
    /// Why not, as a sentence.
    pub fn check_owner(&self) -> Result<(), String> {
        if self.owner == self.run.uid || self.owner == 0 {
            return Ok(());
        }
        Err(format!(
            "it says that user {} ran it, but its file is user {}'s",
            self.run.uid, self.owner
        ))
    }

    /// Removes its file, unless there is another one by that name now.
    ///
    /// # Errors
    /// If the file stays.
    pub fn remove(&self) -> io::Result<()> {
        let folder = self.path.parent().unwrap_or_else(|| Path::new("."));
        Spool::remove(folder, &self.path, self.file)
    }
}

/// What lies in a spool.
#[derive(Debug)]
pub enum Found {
    /// A run that waits.
    Run(Waiting),
    /// One that goes on.
    GoesOn(PathBuf),
    /// A file from which nothing can be made, and why.
    Broken(PathBuf, String),
    /// A file of another user, which was not opened ([`Look::only_of`]).
    Other(PathBuf, u32),
}

/// Which files of a spool are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// All.
    All,
    /// Those of runs that have ended.
    Ended,
}

impl Which {
    pub(crate) const fn extensions(self) -> &'static [&'static str] {
        match self {
            Self::All => &[RUN, DONE],
            Self::Ended => &[DONE],
        }
    }
}

/// A look at what lies in a spool: each file is read when its turn comes.
#[derive(Debug)]
pub struct Look {
    folder: Option<OwnedFd>,
    path: PathBuf,
    names: std::vec::IntoIter<OsString>,
    only: Option<u32>,
    left_out: HashSet<FileId>,
}

impl Look {
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

    /// The same, but files of other users are not opened.
    #[must_use]
    pub fn only_of(mut self, user: u32) -> Self {
        self.only = Some(user);
        self
    }

    /// The same without files that are known already.
    #[must_use]
    pub fn without(mut self, files: HashSet<FileId>) -> Self {
        self.left_out = files;
        self
    }

    /// Nothing if the file is one to be left out.
    fn read(&self, folder: &OwnedFd, name: &OsStr) -> io::Result<Option<Found>> {
        let path = self.path.join(name);
        let broken = |why: String| Ok(Some(Found::Broken(path.clone(), why)));
        // Opening a device may do something: what is no file is not opened.
        let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if self.left_out.contains(&file_id(&stat)) {
            return Ok(None);
        }
        if let Some(kind) = other_kind(&stat) {
            return broken(format!("it is {kind}, and no regular file"));
        }
        if self.only.is_some_and(|user| user != stat.st_uid) {
            return Ok(Some(Found::Other(path, stat.st_uid)));
        }
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(folder, name, flags, Mode::empty())?);
        let stat = rustix::fs::fstat(&file)?;
        if let Some(kind) = other_kind(&stat) {
            return broken(format!("it is {kind}, and no regular file"));
        }
        if self.only.is_some_and(|user| user != stat.st_uid) {
            return Ok(Some(Found::Other(path, stat.st_uid)));
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
            State::Waits(run) => Found::Run(Waiting {
                run,
                path,
                owner: stat.st_uid,
                bytes: bytes.len() as u64,
                file: file_id(&stat),
            }),
            State::GoesOn => Found::GoesOn(path),
            State::Broken(why) => Found::Broken(path, why),
        }))
    }
}

impl Iterator for Look {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        loop {
            let name = self.names.next()?;
            let folder = self.folder.as_ref()?;
            match self.read(folder, &name) {
                Ok(Some(found)) => return Some(found),
                Ok(None) => {}
                // Somebody else has delivered it meanwhile.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Some(Found::Broken(self.path.join(name), e.to_string())),
            }
        }
    }
}

/// All bytes of a file, unless they are more than `most`.
fn bounded(file: impl Read, most: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    Ok(Some(bytes).filter(|bytes| bytes.len() as u64 <= most))
}

/// What a file's bytes say.
pub(crate) enum State {
    Waits(Box<Run>),
    GoesOn,
    Broken(String),
}

fn run_of_line(line: &[u8]) -> Result<Run, String> {
    let (hash, json) = line.split_at_checked(17).ok_or("it is cut off")?;
    let wanted = blake3::hash(json).to_hex();
    if hash.get(..16) != wanted.get(..16).map(str::as_bytes) {
        return Err("it was torn: its hash is another one".into());
    }
    serde_json::from_slice(json).map_err(|e| format!("column {}: {e}", e.column() + 17))
}

pub(crate) fn run_of_file(bytes: &[u8], is_run: bool, changed: SystemTime) -> State {
    let mut whole = None;
    let mut wrong = None;
    for line in bytes.split_inclusive(|b| *b == b'\n') {
        match line
            .strip_suffix(b"\n")
            .ok_or_else(|| "it is cut off".to_owned())
            .and_then(run_of_line)
        {
            Ok(run) => whole = Some(run),
            Err(e) => wrong = Some(e),
        }
    }
    let Some(mut run) = whole else {
        // One that is being written is looked at again.
        let fresh = changed.elapsed().is_ok_and(|age| age.as_secs() < FRESH);
        return if fresh && is_run {
            State::GoesOn
        } else {
            State::Broken(wrong.unwrap_or_else(|| "it is empty".into()))
        };
    };
    if run.ended.is_none() {
        let here = run.host == crate::host_name();
        let began = crate::spool::began(run.pid);
        let lives = here && began.is_some_and(|b| run.pid_began.is_none_or(|was| was == b));
        let given_up = now().saturating_sub(run.start) > GIVEN_UP;
        if lives || (!here && !given_up) {
            return State::GoesOn;
        }
        let at = changed.duration_since(UNIX_EPOCH).unwrap_or_default();
        run.ended = Some(Ended {
            at: i64::try_from(at.as_nanos())
                .unwrap_or(run.start)
                .max(run.start),
            why: Some("killed, or its end could not be written down".into()),
            ..Ended::default()
        });
    }
    State::Waits(Box::new(run))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that grows while it is read is as one that was too large before.
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
