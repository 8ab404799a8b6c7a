//! Taking over a store's folder, so that whoever had it before can do what it likes with what is left.
//!
//! ```text
//!  lab.cluster/
//!    server-5.e3/        store 5 as it was claimed for the third time
//!    server-5.e4.new/    being made of it, for the fourth; of no use until it has its name
//! ```
//!
//! Nobody trusts locks of file systems, nor that a process that seems dead is. Each claim has its epoch, and each epoch its
//! folder: what never changes once it is written (sorted tables, archives) is linked, everything else is copied and synced. If anything
//! was written to meanwhile, it is done again: a copy is of one moment. From then on the older folder is read by nobody.
//! What its last holder had acknowledged is in the copy, because it acknowledges nothing once its lease has ended, and
//! the lease ended before the claim.
//!
//! `server-5` without an epoch is one of a cluster that had no etcd, and older than any.

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
const FIXED: [&str; 2] = ["tables", "blobs"];
/// Superseded versions: files that never change once they have a number.
const ARCHIVE: &str = "archive";
/// Belongs to the process that had it open.
const OWNER: &str = "owner";
/// Says that a folder holds a database.
const FORMAT: &str = "FORMAT";
/// How long whoever had it last may go on writing before it is given up for now.
const QUIET_MAX: Duration = Duration::from_secs(20);
/// Files that were written to less long ago may be written to again unseen: times of files are that coarse.
const COARSE: Duration = Duration::from_millis(30);
/// How much is copied at a time.
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

/// The folder of a store at an epoch.
pub(crate) fn folder(storage: &Path, store: u32, epoch: u64) -> PathBuf {
    storage.join(format!("server-{store}.e{epoch}"))
}

/// The folders of a store that are whole, by epoch, and those that are not.
fn folders(storage: &Path, store: u32) -> Result<(BTreeMap<u64, PathBuf>, Vec<(u64, PathBuf)>)> {
    let (mut whole, mut cut_short) = (BTreeMap::new(), Vec::new());
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
            whole.insert(0, entry.path());
        } else if let Some(number) = rest.strip_prefix(".e") {
            match number.strip_suffix(".new") {
                None => {
                    if let Ok(epoch) = number.parse() {
                        whole.insert(epoch, entry.path());
                    }
                }
                Some(number) => {
                    if let Ok(epoch) = number.parse() {
                        cut_short.push((epoch, entry.path()));
                    }
                }
            }
        }
    }
    Ok((whole, cut_short))
}

/// The newest epoch that a store has been taken over at; 0 for none.
pub(crate) fn newest(storage: &Path, store: u32) -> Result<u64> {
    let (whole, _) = folders(storage, store)?;
    Ok(whole.last_key_value().map_or(0, |(epoch, _)| *epoch))
}

/// Makes the folder of a store at a new epoch, from the newest that there is. Gives its path; it is empty if the store is new.
pub(crate) fn take(storage: &Path, store: u32, epoch: u64) -> Result<PathBuf> {
    let place = folder(storage, store, epoch);
    let (whole, cut_short) = folders(storage, store)?;
    if let Some((newer, _)) = whole
        .last_key_value()
        .filter(|(newest, _)| **newest >= epoch)
    {
        return Err(Error::Unavailable(format!(
            "store {store} was claimed at epoch {epoch}, and `{}` has it at epoch {newer} already: this claim is out of date",
            storage.display()
        )));
    }
    let source = whole.last_key_value().map(|(_, path)| path.as_path());
    // One in which nothing was ever stored has nothing to give.
    let source = source.filter(|path| path.join(FORMAT).exists());
    for (older, path) in cut_short {
        if older <= epoch {
            remove(&path)?;
        }
    }
    let draft = storage.join(format!("server-{store}.e{epoch}.new"));
    if let Some(source) = source {
        if whole.len() == 1 && whole.contains_key(&0) {
            check_alone(source)?;
        }
        copy_quiet(source, &draft)?;
    } else {
        create_private(&draft).map_err(|e| failed("making", &draft, e))?;
    }
    fs::rename(&draft, &place).map_err(|e| failed("making", &place, e))?;
    sync(storage).map_err(|e| failed("syncing", storage, e))?;
    Ok(place)
}

/// A folder without an epoch is that of a server without leases: while that one runs, it is its.
fn check_alone(folder: &Path) -> Result<()> {
    let lock = folder.join("store").join("lock");
    let held = File::open(&lock)
        .is_ok_and(|lock| matches!(lock.try_lock(), Err(fs::TryLockError::WouldBlock)));
    if held {
        return Err(Error::Unavailable(format!(
            "a process has `{}` open that knows nothing of etcd: stop the cluster as it was before",
            folder.display()
        )));
    }
    Ok(())
}

/// Removes what a store was before that epoch. Whoever has it open still loses nothing that counts.
pub(crate) fn remove_older(storage: &Path, store: u32, epoch: u64) -> Result<()> {
    let (whole, cut_short) = folders(storage, store)?;
    let older = whole
        .into_iter()
        .chain(cut_short)
        .filter(|(e, _)| *e < epoch);
    older.into_iter().try_for_each(|(_, path)| remove(&path))
}

fn remove(path: &Path) -> Result<()> {
    // Whoever had it open may be making files in it.
    for _ in 0..5 {
        match fs::remove_dir_all(path) {
            Err(e) if e.kind() == ErrorKind::DirectoryNotEmpty => {}
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(failed("removing", path, e)),
            _ => return Ok(()),
        }
    }
    Ok(())
}

/// What a file looks like from outside; where that is the same, it was not written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Look {
    inode: u64,
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Look {
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

/// Everything in a folder that may change, as it looks now.
fn looks(folder: &Path) -> io::Result<BTreeMap<PathBuf, Look>> {
    let mut all = BTreeMap::new();
    let mut rest = vec![PathBuf::new()];
    while let Some(below) = rest.pop() {
        for entry in fs::read_dir(folder.join(&below))? {
            let entry = entry?;
            let path = below.join(entry.file_name());
            if path == Path::new(OWNER) || fixed(&path) {
                continue;
            }
            if entry.file_type()?.is_dir() {
                rest.push(path);
            } else {
                let look = Look::at(&entry.path())?;
                all.insert(path, look);
            }
        }
    }
    Ok(all)
}

/// Whether a file never changes once it is there: it lies in a folder of such.
fn fixed(path: &Path) -> bool {
    let parent = path.parent().and_then(Path::file_name);
    if parent.is_some_and(|name| name == ARCHIVE) {
        // Files of the archive are written under another name first.
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned());
        return name.is_some_and(|n| n.starts_with(|c: char| c.is_ascii_digit()));
    }
    parent.is_some_and(|name| FIXED.iter().any(|fixed| name == *fixed))
}

/// Copies a folder as it was at one moment.
fn copy_quiet(from: &Path, to: &Path) -> Result<()> {
    let reading = |e| failed("taking over", from, e);
    let until = Instant::now() + QUIET_MAX;
    loop {
        remove(to)?;
        let before = looks(from);
        let copied = before.and_then(|before| {
            settle(&before, from)?;
            copy(from, Path::new(""), to)?;
            Ok(looks(from)? == before)
        });
        match copied {
            Ok(true) => return Ok(()),
            // Somebody renames and removes what is being read.
            Err(e) if e.kind() != ErrorKind::NotFound => {
                let _ = remove(to);
                return Err(reading(e));
            }
            Ok(false) | Err(_) => {}
        }
        if Instant::now() >= until {
            let _ = remove(to);
            return Err(Error::Unavailable(format!(
                "`{}` is written to all the time, though the lease of whoever had it has ended: is its process in another \
                 cluster's, or one without etcd? End it; it is tried again",
                from.display()
            )));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until what was written last is so long ago that another write would show.
fn settle(looks: &BTreeMap<PathBuf, Look>, folder: &Path) -> io::Result<()> {
    let newest = looks.values().map(|l| l.changed.max(l.modified)).max();
    let Some((seconds, nanos)) = newest else {
        return Ok(());
    };
    // By the clock of whoever keeps the files.
    let probe = folder.with_extension("probe");
    let look = {
        File::create(&probe)?.write_all(b"?")?;
        Look::at(&probe)?
    };
    fs::remove_file(&probe)?;
    let nanos_of = |(s, n): (i64, i64)| i128::from(s) * 1_000_000_000 + i128::from(n);
    let since = nanos_of(look.modified) - nanos_of((seconds, nanos));
    if since < COARSE.as_nanos() as i128 {
        std::thread::sleep(COARSE);
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
        } else if fixed(&path) {
            link(&entry.path(), &to.join(&path))?;
        } else {
            copy_file(&entry.path(), &to.join(&path))?;
        }
    }
    sync(&target)
}

/// What never changes is linked, where the file system can.
fn link(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Ok(()) => Ok(()),
        // A table that was merged into others meanwhile; the list that is copied tells whether it is missed.
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        Err(_) => copy_file(from, to),
    }
}

/// A log has room for what is to come: only what is in it is copied.
fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    let mut source = File::open(from)?;
    let length = source.metadata()?.len();
    let mut target = OpenOptions::new().write(true).create_new(true).open(to)?;
    target.set_len(length)?;
    let mut at = 0;
    let mut piece = vec![0; PIECE];
    while at < length {
        let Some((begins, ends)) = data(&source, at, length) else {
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

/// The next stretch of a file that is not a hole. A file system that knows no holes has none.
fn data(file: &File, at: u64, length: u64) -> Option<(u64, u64)> {
    match seek(file, SeekFrom::Data(at)) {
        Ok(begins) => {
            let ends = seek(file, SeekFrom::Hole(begins)).unwrap_or(length);
            Some((begins, ends.min(length)))
        }
        Err(rustix::io::Errno::NXIO) => None,
        Err(_) => Some((at, length)),
    }
}

/// Makes new files and names in a folder survive power failure.
fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests;
