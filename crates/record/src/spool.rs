//! Folder in which runs wait for a database: one small file per run, written by the recorder and removed by the delivery.
//!
//! A file begins with a line written at the start, and gets a second line at the end, each preceded by its hash. The file's name has
//! place and time: `START-HOST-PID.run` while the run is active, `….done` afterwards. Thousands of tasks can thus share a folder
//! without a lock, torn files are detected by the hash, and a run whose process is gone without a second line is known to have been
//! killed.
//!
//! Other users may be able to write to the folder, too. [`crate::SpoolReader`] reads it without trusting it.

use crate::read::{SpoolFile, SpoolReader, SpoolSelection};
use crate::run::Run;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

pub(crate) const RUN: &str = "run";
pub(crate) const DONE: &str = "done";
/// Subfolder of a spool for unreadable files.
const ASIDE: &str = "aside";

/// A spool folder of runs.
#[derive(Debug, Clone)]
pub struct Spool {
    folder: PathBuf,
    /// Whether the folder must belong to this user and be inaccessible to others.
    private: bool,
}

/// A run that is being recorded.
#[derive(Debug)]
pub struct Entry {
    file: File,
    path: PathBuf,
}

pub(crate) fn line_of(run: &Run) -> io::Result<Vec<u8>> {
    let json = serde_json::to_vec(run).map_err(io::Error::other)?;
    Ok(sealed(&json))
}

/// Formats a line of a file: a hash, then the JSON.
pub(crate) fn sealed(json: &[u8]) -> Vec<u8> {
    let hash = blake3::hash(json).to_hex();
    let mut line = hash.get(..16).unwrap_or_default().as_bytes().to_vec();
    line.push(b' ');
    line.extend(json);
    line.push(b'\n');
    line
}

/// Identity of a file: device, inode and the time of its last status change in seconds and nanoseconds.
pub type FileId = (u64, u64, i64, i64);

pub(crate) fn file_id(stat: &Stat) -> FileId {
    let nanos = i64::try_from(stat.st_ctime_nsec).unwrap_or(0);
    (stat.st_dev, stat.st_ino, stat.st_ctime, nanos)
}

impl Spool {
    /// Returns the spool in a folder, which is created with mode 0700 at the first run.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            private: false,
        }
    }

    /// Returns the default spool: `$ESKER_SPOOL`, else a folder in the user's state (`$XDG_STATE_HOME`, `~/.local/state`), else one in the
    /// folder for temporary files. Any user can create a folder there, so that one is used only if it belongs to this user and is
    /// inaccessible to others.
    pub fn usual() -> Self {
        let folder = |name: &str| {
            std::env::var_os(name)
                .filter(|v| !v.is_empty())
                .map(PathBuf::from)
        };
        if let Some(spool) = folder("ESKER_SPOOL") {
            return Self::new(std::path::absolute(&spool).unwrap_or(spool));
        }
        let state = folder("XDG_STATE_HOME").filter(|folder| folder.is_absolute());
        // Some users have no home folder, and some nodes lack it.
        let home = folder("HOME").filter(|home| home.is_dir());
        let state = state.or_else(|| Some(home?.join(".local/state")));
        if let Some(state) = state {
            return Self::new(state.join("esker/spool"));
        }
        let user = rustix::process::getuid().as_raw();
        Self {
            folder: std::env::temp_dir().join(format!("esker-spool-{user}")),
            private: true,
        }
    }

    /// Returns the path of the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Records that a run has begun.
    pub fn begin(&self, run: &Run) -> io::Result<Entry> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)?;
        if self.private {
            self.open()?;
        }
        let host: String = run
            .host
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .take(64)
            .collect();
        let path = self
            .folder
            .join(format!("{}-{host}-{}.{RUN}", run.id, run.pid));
        // In a group's shared folder, the group may read the file.
        let shared = fs::metadata(&self.folder)?.mode() & 0o020 != 0;
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(if shared { 0o640 } else { 0o600 })
            .open(&path)?;
        if let Err(e) = file.write_all(&line_of(run)?) {
            // A partial file is useless.
            let _ = fs::remove_file(&path);
            return Err(e);
        }
        Ok(Entry { file, path })
    }

    /// Opens the folder.
    ///
    /// # Errors
    /// Fails if it cannot be opened, or has to be private and is not.
    pub(crate) fn open(&self) -> io::Result<OwnedFd> {
        let mut flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        flags.set(OFlags::NOFOLLOW, self.private);
        let folder = rustix::fs::open(&self.folder, flags, Mode::empty())?;
        if self.private {
            let stat = rustix::fs::fstat(&folder)?;
            let user = rustix::process::getuid().as_raw();
            if stat.st_uid != user || stat.st_mode & 0o077 != 0 {
                return Err(io::Error::new(
                    io::ErrorKind::PermissionDenied,
                    format!(
                        "this folder is user {}'s with mode {:o}; expected one of user {user} with mode 700: name another one by --spool \
                         or ESKER_SPOOL",
                        stat.st_uid,
                        stat.st_mode & 0o7777
                    ),
                ));
            }
        }
        Ok(folder)
    }

    /// Reads all files, oldest first.
    pub fn read(&self) -> io::Result<Vec<SpoolFile>> {
        Ok(self.files(SpoolSelection::All)?.collect())
    }

    /// Reads the runs that have ended, oldest first; files of other runs are not opened.
    pub fn ended(&self) -> io::Result<Vec<SpoolFile>> {
        Ok(self.files(SpoolSelection::Ended)?.collect())
    }

    /// Iterates over the files, oldest first. A missing folder is empty.
    pub fn files(&self, which: SpoolSelection) -> io::Result<SpoolReader> {
        let folder = match self.open() {
            Ok(folder) => folder,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(SpoolReader::nothing()),
            Err(e) => return Err(e),
        };
        let mut names: Vec<OsString> = Vec::new();
        for entry in Dir::read_from(&folder)? {
            let name = OsString::from_vec(entry?.file_name().to_bytes().to_vec());
            let extension = Path::new(&name).extension();
            if extension.is_some_and(|e| which.extensions().iter().any(|k| e == *k)) {
                names.push(name);
            }
        }
        names.sort();
        Ok(SpoolReader::new(folder, self.folder.clone(), names))
    }

    /// Moves an unreadable file to the subfolder `aside`, which is created if missing; returns its new path.
    ///
    /// # Errors
    /// Returns `NotFound` if the file is gone. Fails if `aside` is a symbolic link, or a folder of a user other than this one and root.
    pub fn set_aside(&self, path: &Path) -> io::Result<PathBuf> {
        let name = name_of(path)?;
        let folder = self.open()?;
        match rustix::fs::mkdirat(&folder, ASIDE, Mode::RWXU) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(e) => return Err(e.into()),
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let aside = rustix::fs::openat(&folder, ASIDE, flags, Mode::empty())?;
        let owner = rustix::fs::fstat(&aside)?.st_uid;
        if owner != 0 && owner != rustix::process::geteuid().as_raw() {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("the folder `{ASIDE}` is user {owner}'s"),
            ));
        }
        rustix::fs::renameat(&folder, name, &aside, name)?;
        Ok(self.folder.join(ASIDE).join(name))
    }

    /// Returns the identity of the file that has this path now.
    pub fn file(&self, path: &Path) -> Option<FileId> {
        let folder = self.open().ok()?;
        let name = name_of(path).ok()?;
        let stat = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(file_id(&stat))
    }

    /// Removes a file, if it is still the one that was read.
    ///
    /// # Errors
    /// Fails if it cannot be removed. A missing or replaced file is no error.
    pub(crate) fn remove(folder: &Path, path: &Path, file: FileId) -> io::Result<()> {
        let name = name_of(path)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(folder, flags, Mode::empty())?;
        let done = match rustix::fs::statat(folder.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if file_id(&stat) == file => {
                rustix::fs::unlinkat(&folder, name, AtFlags::empty())
            }
            Ok(_) => Ok(()),
            Err(e) => Err(e),
        };
        match done {
            Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }
}

fn name_of(path: &Path) -> io::Result<&OsStr> {
    path.file_name().ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("`{}` has no name in a folder", path.display()),
        )
    })
}

/// Returns the type of a file that is not regular.
pub(crate) fn other_kind(stat: &Stat) -> Option<&'static str> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => None,
        FileType::Symlink => Some("a symbolic link"),
        FileType::Directory => Some("a folder"),
        FileType::Fifo => Some("a named pipe"),
        FileType::Socket => Some("a socket"),
        _ => Some("a device"),
    }
}

/// Returns the start of a process, in ticks since the machine's boot.
pub(crate) fn began(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may contain spaces.
    let (_, rest) = text.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

impl Entry {
    /// Returns the path of the file while the run is active.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Records the end of the run: it is durable once this returns.
    pub fn end(mut self, run: &Run) -> io::Result<PathBuf> {
        self.file.write_all(&line_of(run)?)?;
        self.file.sync_data()?;
        let done = self.path.with_extension(DONE);
        fs::rename(&self.path, &done)?;
        Ok(done)
    }
}
