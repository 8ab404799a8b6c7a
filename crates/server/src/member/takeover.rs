//! Taking over a store's folder, safely even if its previous holder still writes to the old folder.
//!
//! ```text
//!  lab.cluster/
//!    server-5.e3/        store 5 as it was claimed for the third time
//!    server-5.e4.new/    incomplete copy of it for the fourth claim; unused until it is renamed
//! ```
//!
//! This relies neither on file system locks nor on the death of a process that seems dead. Each claim has its epoch, and each epoch its
//! folder: files that never change once written (sorted tables, archives) are linked, all others are copied and synced. If any of them
//! was written to meanwhile, the copy is repeated: a copy is of one instant. From then on, the older folder is not read. The copy has
//! everything that the last holder acknowledged, because a holder acknowledges nothing after the end of its lease, and the lease ended
//! before the claim.
//!
//! `server-5` without an epoch belongs to a cluster that had no etcd, and is older than any epoch.

use esker::modes::create_private;
use esker_model::{Error, Result};
use rustix::fs::{SeekFrom, seek};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Folders whose files never change once they have their names.
const IMMUTABLE: [&str; 2] = ["tables", "blobs"];
/// Folder of superseded versions: its files never change once they have a number.
const ARCHIVE: &str = "archive";
/// File of the process that has the database open.
const OWNER: &str = "owner";
/// File that marks a folder as a database.
const FORMAT: &str = "FORMAT";
/// Longest wait for the last holder to stop writing, before the attempt is given up for now.
const QUIET_MAX: Duration = Duration::from_secs(20);
/// Resolution of file times: a file written to more recently may be written to again without a change of its times.
const TIME_RESOLUTION: Duration = Duration::from_millis(30);
/// Bytes that are copied at a time.
const PIECE: usize = 1 << 20;

fn failed(what: &str, path: &Path, e: io::Error) -> Error {
    let why = match e.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            return Error::io(
                format!(
                    "{what} `{}`: no space left; free some, it is tried again",
                    path.display()
                ),
                e,
            );
        }
        _ => e,
    };
    Error::io(format!("{what} `{}`", path.display()), why)
}

/// Folder of a store at an epoch.
pub(crate) fn folder(storage: &Path, store: u32, epoch: u64) -> PathBuf {
    storage.join(format!("server-{store}.e{epoch}"))
}

/// The complete folders of a store, by epoch, and the incomplete ones.
fn folders(storage: &Path, store: u32) -> Result<(BTreeMap<u64, PathBuf>, Vec<(u64, PathBuf)>)> {
    let (mut complete, mut incomplete) = (BTreeMap::new(), Vec::new());
    let plain = format!("server-{store}");
    let entries = fs::read_dir(storage).map_err(|e| failed("reading", storage, e))?;
    for entry in entries {
        let entry = entry.map_err(|e| failed("reading", storage, e))?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let Some(rest) = name.strip_prefix(&plain) else {
            continue;
        };
        if rest.is_empty() {
            complete.insert(0, entry.path());
        } else if let Some(number) = rest.strip_prefix(".e") {
            match number.strip_suffix(".new") {
                None => {
                    if let Ok(epoch) = number.parse() {
                        complete.insert(epoch, entry.path());
                    }
                }
                Some(number) => {
                    if let Ok(epoch) = number.parse() {
                        incomplete.push((epoch, entry.path()));
                    }
                }
            }
        }
    }
    Ok((complete, incomplete))
}

/// Newest epoch at which a store has been taken over; 0 for none.
pub(crate) fn newest(storage: &Path, store: u32) -> Result<u64> {
    let (complete, _) = folders(storage, store)?;
    Ok(complete.last_key_value().map_or(0, |(epoch, _)| *epoch))
}

/// Creates the folder of a store at a new epoch from the newest existing one. Returns its path; the folder is empty if the store is new.
pub(crate) fn take_over(storage: &Path, store: u32, epoch: u64) -> Result<PathBuf> {
    let target = folder(storage, store, epoch);
    let (complete, incomplete) = folders(storage, store)?;
    if let Some((newer, _)) = complete
        .last_key_value()
        .filter(|(newest, _)| **newest >= epoch)
    {
        return Err(Error::InUse(format!(
            "store {store} was claimed at epoch {epoch}, and `{}` has it at epoch {newer} already: this claim is out of date",
            storage.display()
        )));
    }
    let source = complete.last_key_value().map(|(_, path)| path.as_path());
    // A folder in which nothing was stored has nothing to copy.
    let source = source.filter(|path| path.join(FORMAT).exists());
    for (older, path) in incomplete {
        if older <= epoch {
            remove(&path)?;
        }
    }
    let draft = storage.join(format!("server-{store}.e{epoch}.new"));
    if let Some(source) = source {
        if complete.len() == 1 && complete.contains_key(&0) {
            check_not_open(source)?;
        }
        copy_quiet(source, &draft)?;
    } else {
        create_private(&draft).map_err(|e| failed("making", &draft, e))?;
    }
    fs::rename(&draft, &target).map_err(|e| failed("making", &target, e))?;
    sync(storage).map_err(|e| failed("syncing", storage, e))?;
    Ok(target)
}

/// Checks that no process has a folder without an epoch open: it belongs to a server without leases.
fn check_not_open(folder: &Path) -> Result<()> {
    let lock = folder.join("store").join("lock");
    let held = File::open(&lock)
        .is_ok_and(|lock| matches!(lock.try_lock(), Err(fs::TryLockError::WouldBlock)));
    if held {
        return Err(Error::InUse(format!(
            "`{}` is open in a process that does not use etcd: stop the cluster that was started without `stores` and \
             `[etcd]`, then repeat",
            folder.display()
        )));
    }
    Ok(())
}

/// Removes the folders of a store before an epoch. A process that still has one open loses nothing that was acknowledged.
pub(crate) fn remove_older(storage: &Path, store: u32, epoch: u64) -> Result<()> {
    let (complete, incomplete) = folders(storage, store)?;
    let older = complete
        .into_iter()
        .chain(incomplete)
        .filter(|(e, _)| *e < epoch);
    older.into_iter().try_for_each(|(_, path)| remove(&path))
}

fn remove(path: &Path) -> Result<()> {
    // A process that has the folder open may be creating files in it.
    for _ in 0..5 {
        match fs::remove_dir_all(path) {
            Err(e) if e.kind() == ErrorKind::DirectoryNotEmpty => {}
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(failed("removing", path, e)),
            _ => return Ok(()),
        }
    }
    Ok(())
}

/// Metadata of a file; if they are equal, the file was not written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileState {
    inode: u64,
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileState {
    fn at(path: &Path) -> io::Result<Self> {
        let m = fs::symlink_metadata(path)?;
        Ok(Self {
            inode: m.ino(),
            length: m.len(),
            modified: (m.mtime(), m.mtime_nsec()),
            changed: (m.ctime(), m.ctime_nsec()),
        })
    }
}

/// Metadata of all files in a folder that may change.
fn file_states(folder: &Path) -> io::Result<BTreeMap<PathBuf, FileState>> {
    let mut all = BTreeMap::new();
    let mut rest = vec![PathBuf::new()];
    while let Some(below) = rest.pop() {
        for entry in fs::read_dir(folder.join(&below))? {
            let entry = entry?;
            let path = below.join(entry.file_name());
            if path == Path::new(OWNER) || is_immutable(&path) {
                continue;
            }
            if entry.file_type()?.is_dir() {
                rest.push(path);
            } else {
                let state = FileState::at(&entry.path())?;
                all.insert(path, state);
            }
        }
    }
    Ok(all)
}

/// Whether a file never changes once it exists.
fn is_immutable(path: &Path) -> bool {
    let parent = path.parent().and_then(Path::file_name);
    if parent.is_some_and(|name| name == ARCHIVE) {
        // Files of the archive are written under another name first.
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned());
        return name.is_some_and(|n| n.starts_with(|c: char| c.is_ascii_digit()));
    }
    parent.is_some_and(|name| IMMUTABLE.iter().any(|folder| name == *folder))
}

/// Copies a folder as of one instant.
fn copy_quiet(from: &Path, to: &Path) -> Result<()> {
    let reading = |e| failed("taking over", from, e);
    let until = Instant::now() + QUIET_MAX;
    loop {
        remove(to)?;
        let before = file_states(from);
        let copied = before.and_then(|before| {
            wait_for_quiet(&before, from)?;
            copy(from, Path::new(""), to)?;
            Ok(file_states(from)? == before)
        });
        match copied {
            Ok(true) => return Ok(()),
            // Files are being renamed and removed during the copy.
            Err(e) if e.kind() != ErrorKind::NotFound => {
                let _ = remove(to);
                return Err(reading(e));
            }
            Ok(false) | Err(_) => {}
        }
        if Instant::now() >= until {
            let _ = remove(to);
            return Err(Error::InUse(format!(
                "`{}` is still being written, although the lease of its member has ended: end the process that writes there \
                 (a member of another cluster, or a server without etcd). The takeover is repeated.",
                from.display()
            )));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until the last write is long enough ago that another write would change the file's times.
fn wait_for_quiet(file_states: &BTreeMap<PathBuf, FileState>, folder: &Path) -> io::Result<()> {
    let newest = file_states
        .values()
        .map(|l| l.changed.max(l.modified))
        .max();
    let Some((seconds, nanos)) = newest else {
        return Ok(());
    };
    // The time by the clock of the file system's server.
    let probe = folder.with_extension("probe");
    let state = {
        File::create(&probe)?.write_all(b"?")?;
        FileState::at(&probe)?
    };
    fs::remove_file(&probe)?;
    let nanos_of = |(s, n): (i64, i64)| i128::from(s) * 1_000_000_000 + i128::from(n);
    let since = nanos_of(state.modified) - nanos_of((seconds, nanos));
    if since < TIME_RESOLUTION.as_nanos() as i128 {
        std::thread::sleep(TIME_RESOLUTION);
    }
    Ok(())
}

fn copy(from: &Path, below: &Path, to: &Path) -> io::Result<()> {
    let (source, target) = (from.join(below), to.join(below));
    create_private(&target)?;
    for entry in fs::read_dir(&source)? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        if path == Path::new(OWNER) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            copy(from, &path, to)?;
        } else if is_immutable(&path) {
            link(&entry.path(), &to.join(&path))?;
        } else {
            copy_file(&entry.path(), &to.join(&path))?;
        }
    }
    sync(&target)
}

/// Links a file that never changes, where the file system supports links.
fn link(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Ok(()) => Ok(()),
        // A table that was merged into others meanwhile; the copied list of tables decides whether it is needed.
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        Err(_) => copy_file(from, to),
    }
}

/// Copies the data of a file without its holes: logs have space allocated in advance.
fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    let mut source = File::open(from)?;
    let length = source.metadata()?.len();
    let mut target = OpenOptions::new().write(true).create_new(true).open(to)?;
    target.set_len(length)?;
    let mut at = 0;
    let mut piece = vec![0; PIECE];
    while at < length {
        let Some((begins, ends)) = data_range(&source, at, length) else {
            break;
        };
        source.seek(io::SeekFrom::Start(begins))?;
        target.seek(io::SeekFrom::Start(begins))?;
        let mut left = usize::try_from(ends - begins).unwrap_or(usize::MAX);
        while left > 0 {
            let most = left.min(PIECE);
            let read = source.read(piece.get_mut(..most).unwrap_or_default())?;
            if read == 0 {
                break;
            }
            target.write_all(piece.get(..read).unwrap_or_default())?;
            left -= read;
        }
        at = ends;
    }
    target.sync_all()
}

/// The next range of a file that is not a hole. A file system without holes has one range.
fn data_range(file: &File, at: u64, length: u64) -> Option<(u64, u64)> {
    match seek(file, SeekFrom::Data(at)) {
        Ok(begins) => {
            let ends = seek(file, SeekFrom::Hole(begins)).unwrap_or(length);
            Some((begins, ends.min(length)))
        }
        Err(rustix::io::Errno::NXIO) => None,
        Err(_) => Some((at, length)),
    }
}

/// Syncs a folder, so that new files and names in it survive a power failure.
fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests;
