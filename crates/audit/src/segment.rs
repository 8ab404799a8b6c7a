//! The files of a log: names, the list of segments, their modes.

use esker_model::{Error, Result};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Name of the file with the head.
pub(crate) const HEAD: &str = "head.json";
const HEAD_NEW: &str = "head.json.new";
/// Name of the file that the server of the log locks.
const LOCK: &str = "lock";
const ENDING: &str = ".jsonl";

/// Converts an error of the file system.
pub(crate) fn failed(doing: &str, path: &Path, e: io::Error) -> Error {
    Error::io(format!("{doing} `{}`", path.display()), e)
}

/// Path of a segment.
pub(crate) fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:08}{ENDING}"))
}

/// Path of the bytes that were cut off the end of a segment.
pub(crate) fn torn_path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:08}.torn"))
}

/// Numbers of the segments in a folder, in ascending order.
pub(crate) fn list(folder: &Path) -> Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder).map_err(|e| failed("reading", folder, e))? {
        let name = entry.map_err(|e| failed("reading", folder, e))?.file_name();
        let number = name.to_str().and_then(|n| n.strip_suffix(ENDING));
        let number = number.and_then(|n| n.parse().ok());
        // Another spelling of a number would hide a segment.
        numbers.extend(number.filter(|n| path(folder, *n).ends_with(&name)));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Creates the folder of a log, if it is absent, and locks it for one server.
pub(crate) fn lock(folder: &Path) -> Result<File> {
    let made = fs::DirBuilder::new().mode(0o700).create(folder);
    match made {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
            return Err(failed("making", folder, e));
        }
        _ => {}
    }
    let file = folder.join(LOCK);
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(false).mode(0o600);
    let locked = options
        .open(&file)
        .map_err(|e| failed("opening", &file, e))?;
    flock(&locked, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        Error::InUse(format!(
            "another server writes the audit log in `{}`: each server needs a folder of its own (audit.folder)",
            folder.display()
        ))
    })?;
    Ok(locked)
}

/// Makes changes of a folder's entries durable.
pub(crate) fn sync_folder(folder: &Path) -> Result<()> {
    let synced = File::open(folder).and_then(|f| f.sync_all());
    synced.map_err(|e| failed("syncing", folder, e))
}

/// Creates the file of a segment.
pub(crate) fn create(folder: &Path, number: u64) -> Result<File> {
    let path = path(folder, number);
    let mut options = OpenOptions::new();
    let options = options.append(true).create(true).mode(0o600);
    let file = options
        .open(&path)
        .map_err(|e| failed("making", &path, e))?;
    sync_folder(folder)?;
    Ok(file)
}

/// Makes a sealed segment read-only.
pub(crate) fn protect(file: &File, path: &Path) -> Result<()> {
    file.set_permissions(fs::Permissions::from_mode(0o400))
        .map_err(|e| failed("protecting", path, e))
}

/// Writes a file durably and puts it in the place of another one.
pub(crate) fn write_head(folder: &Path, text: &str) -> Result<()> {
    let (new, path) = (folder.join(HEAD_NEW), folder.join(HEAD));
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    let written = options.open(&new).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_data()
    });
    written.map_err(|e| failed("writing", &new, e))?;
    fs::rename(&new, &path).map_err(|e| failed("renaming", &new, e))
}

/// Opens a file without following a link.
pub(crate) fn open(path: &Path) -> Result<File> {
    let opened = rustix::fs::open(
        path,
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    );
    opened
        .map(File::from)
        .map_err(|e| failed("opening", path, e.into()))
}

/// Reads a file; `None` if it does not exist.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(failed("reading", path, e)),
    }
}
