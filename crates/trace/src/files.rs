//! Collects the opened files of a run: those read, written and executed.

use crate::{Observed, ObservedFile, Options};
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Maximum number of files kept; others are only counted.
const FILES_MAX: usize = 100_000;
/// Resolution of the kernel's clock for file times.
const TICK: Duration = Duration::from_millis(20);
/// Suffix of a deleted file's name in `/proc`.
const DELETED_SUFFIX: &[u8] = b" (deleted)";

#[derive(Debug, Clone, Default)]
struct State {
    /// State at its first read, before this run wrote it.
    read: Option<ObservedFile>,
    written: bool,
    /// Whether all its content was written by this run.
    made: bool,
}

/// Files by path, collected during the run.
#[derive(Debug)]
pub(crate) struct Files {
    ignore: Vec<PathBuf>,
    start: SystemTime,
    by_path: BTreeMap<PathBuf, State>,
    programs: Vec<ObservedFile>,
    seen_programs: HashSet<PathBuf>,
    opens: u64,
    left_out: u64,
}

fn observed_file(path: PathBuf, of: &Metadata) -> ObservedFile {
    ObservedFile {
        path,
        size: of.len(),
        mtime: of.mtime().saturating_mul(1_000_000_000) + of.mtime_nsec(),
    }
}

impl Files {
    pub(crate) fn new(options: &Options) -> Self {
        let whole = |path: &PathBuf| fs::canonicalize(path).unwrap_or_else(|_| path.clone());
        Self {
            ignore: options.ignore.iter().map(whole).collect(),
            start: options.start,
            by_path: BTreeMap::new(),
            programs: Vec::new(),
            seen_programs: HashSet::new(),
            opens: 0,
            left_out: 0,
        }
    }

    fn is_ignored(&self, path: &Path) -> bool {
        self.ignore.iter().any(|folder| path.starts_with(folder))
    }

    /// Records the files inherited from the shell: `< in.nc > out.nc`.
    pub(crate) fn inherited(&mut self) {
        let me = std::process::id();
        self.opened(me, 0, 0);
        for fd in [1, 2] {
            self.opened(me, fd, u64::from(libc::O_WRONLY.cast_unsigned()));
        }
        self.opens = 0;
    }

    /// Records that a process has opened a file as descriptor `fd`.
    pub(crate) fn opened(&mut self, pid: u32, fd: i64, flags: u64) {
        self.opens += 1;
        let flags = flags as i32;
        if flags & libc::O_PATH != 0 {
            return;
        }
        let link = format!("/proc/{pid}/fd/{fd}");
        let Ok(path) = fs::read_link(&link) else {
            return;
        };
        // Pipes and sockets have no path; deleted files cannot be described.
        if !path.is_absolute() || path.as_os_str().as_bytes().ends_with(DELETED_SUFFIX) {
            return;
        }
        if self.is_ignored(&path) {
            return;
        }
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
        let reads = flags & libc::O_ACCMODE != libc::O_WRONLY && flags & libc::O_TRUNC == 0;
        let known = self.by_path.get(&path);
        let is_recorded = known.is_some_and(|state| {
            (!writes || state.written) && (!reads || state.read.is_some() || state.made)
        });
        if is_recorded {
            return;
        }
        let Ok(metadata) = fs::metadata(&link) else {
            return;
        };
        if !metadata.is_file() {
            return;
        }
        let is_new = writes && self.was_made_since(&metadata);
        let Some(state) = self.state(&path) else {
            return;
        };
        if reads && !is_new && !state.made && state.read.is_none() {
            state.read = Some(observed_file(path, &metadata));
        }
        state.written |= writes;
        state.made |= is_new || (writes && flags & libc::O_TRUNC != 0);
    }

    fn was_made_since(&self, metadata: &Metadata) -> bool {
        let start = self.start.checked_sub(TICK).unwrap_or(self.start);
        metadata.created().is_ok_and(|at| at >= start)
    }

    fn state(&mut self, path: &Path) -> Option<&mut State> {
        if self.by_path.len() >= FILES_MAX && !self.by_path.contains_key(path) {
            self.left_out += 1;
            return None;
        }
        Some(self.by_path.entry(path.to_owned()).or_default())
    }

    /// Records that a file has been written, by its name.
    pub(crate) fn wrote(&mut self, path: &Path) {
        let whole = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if !self.is_ignored(&whole)
            && let Some(state) = self.state(&whole)
        {
            state.written = true;
        }
    }

    /// Records a new name of an existing file.
    fn made(&mut self, path: &Path) {
        self.wrote(path);
        if let Some(state) = self.by_path.get_mut(path) {
            state.made = true;
        }
    }

    fn read_by_name(&mut self, path: &Path, as_it_is: &Metadata) {
        if !self.is_ignored(path)
            && let Some(state) = self.state(path)
            && !state.made
            && state.read.is_none()
        {
            state.read = Some(observed_file(path.to_owned(), as_it_is));
        }
    }

    /// Records that a file has got a second name.
    pub(crate) fn linked(&mut self, old: &Path, new: &Path) {
        let Ok(metadata) = fs::symlink_metadata(new) else {
            return;
        };
        if metadata.is_file() {
            if old.is_absolute() && !old.as_os_str().as_bytes().ends_with(DELETED_SUFFIX) {
                self.read_by_name(old, &metadata);
            }
            self.made(new);
        }
    }

    /// Records that a file, or a folder with its subtree, has been renamed.
    pub(crate) fn renamed(&mut self, old: &Path, new: &Path) {
        let Ok(metadata) = fs::symlink_metadata(new) else {
            return;
        };
        let moved = self.take(old);
        // The file that had the new name is gone; the run may have read it.
        let replaced = self.by_path.remove(new).and_then(|state| state.read);
        if moved.is_empty() && metadata.is_file() {
            self.read_by_name(old, &metadata);
            self.made(new);
        }
        for (below, state) in moved {
            let read = state.read.clone();
            let to = if below.as_os_str().is_empty() {
                new.to_owned()
            } else {
                new.join(&below)
            };
            if let Some(at) = self.state(&to)
                && (state.written || metadata.is_file())
            {
                at.written = true;
                at.made = state.made;
            }
            // A file that was read is reported under its name at that time.
            if let Some(read) = read
                && let Some(at) = self.state(&read.path.clone())
            {
                at.read = Some(read);
            }
        }
        if let Some(read) = replaced
            && let Some(at) = self.state(new)
        {
            at.read.get_or_insert(read);
        }
    }

    /// Records that two files have exchanged their names.
    pub(crate) fn exchanged(&mut self, one: &Path, other: &Path) {
        for path in [one, other] {
            if fs::symlink_metadata(path).is_ok_and(|m| m.is_file()) {
                self.wrote(path);
            }
        }
    }

    /// Removes a path and its subtree; returns the states by relative path.
    fn take(&mut self, path: &Path) -> Vec<(PathBuf, State)> {
        let below: Vec<PathBuf> = self
            .by_path
            .range::<Path, _>((std::ops::Bound::Included(path), std::ops::Bound::Unbounded))
            .map(|(p, _)| p)
            .take_while(|p| p.starts_with(path))
            .cloned()
            .collect();
        below
            .into_iter()
            .filter_map(|p| {
                let state = self.by_path.remove(&p)?;
                Some((p.strip_prefix(path).ok()?.to_owned(), state))
            })
            .collect()
    }

    /// Records that a process has executed a program.
    pub(crate) fn ran(&mut self, pid: u32) {
        let link = format!("/proc/{pid}/exe");
        let Ok(path) = fs::read_link(&link) else {
            return;
        };
        if self.seen_programs.len() >= FILES_MAX || !self.seen_programs.insert(path.clone()) {
            return;
        }
        if let Ok(metadata) = fs::metadata(&link) {
            let name = path.as_os_str().as_bytes();
            let name = name.strip_suffix(DELETED_SUFFIX).unwrap_or(name);
            let path = PathBuf::from(OsStr::from_bytes(name));
            self.programs.push(observed_file(path, &metadata));
        }
    }

    /// Returns the collected files.
    pub(crate) fn finish(self) -> Observed {
        let start = self.start.checked_sub(TICK).unwrap_or(self.start);
        let start = start.duration_since(SystemTime::UNIX_EPOCH);
        let start = start.unwrap_or_default();
        let changed = |path: &Path| {
            fs::symlink_metadata(path).is_ok_and(|m| {
                let at = (m.ctime(), m.ctime_nsec());
                let from = (
                    start.as_secs().cast_signed(),
                    i64::from(start.subsec_nanos()),
                );
                m.is_file() && at >= from
            })
        };
        let mut out = Observed {
            programs: self.programs,
            opens: self.opens,
            left_out: self.left_out,
            ..Observed::default()
        };
        for (path, state) in self.by_path {
            if state.written && changed(&path) {
                out.outputs.push(path);
            }
            out.inputs.extend(state.read);
        }
        out
    }
}
