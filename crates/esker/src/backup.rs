//! Backup and restore. A copy is written under a temporary name and renamed only after it is complete.

use crate::archive::FolderArchive;
use crate::folder::{Content, Folder, sync_folder};
use crate::modes;
use crate::options::OpenOptions;
use crate::owner::claim::{OwnerState, Registry};
use crate::owner::core::Core;
use crate::owner::process::{Liveness, Process};
use crate::session::open_engine;
use crate::store_engine::StoreEngine;
use esker_model::{Error, Flow, Result, Version};
use esker_store::{KeyRange, Store, StoreSettings, Table};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Prefix of the names of copies inside a database's own folder.
const COPY: &str = "backup-";
/// Number of copies that this process has made inside databases' own folders.
static COPIES: AtomicU64 = AtomicU64::new(0);

/// Size and extent of a finished backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BackupReport {
    /// Size of the copy in bytes.
    pub bytes: u64,
    /// Newest version in the copy; `None` if nothing was ever written.
    pub newest: Option<Version>,
}

esker_model::wire_struct!(BackupReport { bytes, newest });

/// A folder under construction next to its final name. Removed on drop unless it was finished.
struct Draft {
    path: PathBuf,
    target: PathBuf,
    finished: bool,
}

impl Draft {
    /// Creates the temporary folder; refuses a target that is not empty. The mode is that of `source` without the bits
    /// for all other users.
    fn new(target: &Path, what: &str, source: &Folder) -> Result<Self> {
        let shown = target.display();
        match std::fs::read_dir(target).map(|mut d| d.next().is_some()) {
            Ok(false) => {}
            Ok(true) => {
                return Err(Error::Target(format!(
                    "cannot {what} `{shown}`: the folder is not empty; name one that is empty or absent"
                )));
            }
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) if e.kind() == ErrorKind::NotADirectory => {
                return Err(Error::Target(format!(
                    "cannot {what} `{shown}`: it is a file; name a folder that is empty or absent"
                )));
            }
            Err(e) => return Err(Error::io(format!("reading `{shown}`"), e)),
        }
        let absolute =
            std::path::absolute(target).map_err(|e| Error::io(format!("making `{shown}`"), e))?;
        let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else {
            return Err(Error::Target(format!(
                "cannot {what} `{shown}`: that is not a name for a folder"
            )));
        };
        let path = parent.join(format!(
            "{}.partial-{}",
            name.to_string_lossy(),
            std::process::id()
        ));
        let made = modes::create(&path, modes::of_copy(&source.path));
        made.map_err(|e| match e.kind() {
            ErrorKind::NotFound => Error::Target(format!(
                "cannot {what} `{shown}`: its parent folder does not exist; make that first (mkdir -p)"
            )),
            _ => Error::io(format!("making `{}`", path.display()), e),
        })?;
        Ok(Self {
            path,
            target: absolute,
            finished: false,
        })
    }

    fn finish(mut self) -> Result<()> {
        let failed = |e| Error::io(format!("making `{}`", self.target.display()), e);
        sync_folder(&self.path).map_err(failed)?;
        std::fs::rename(&self.path, &self.target).map_err(failed)?;
        self.finished = true;
        let parent = self.target.parent().unwrap_or(Path::new("/"));
        sync_folder(parent).map_err(|e| Error::io(format!("making `{}`", self.target.display()), e))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.finished {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Refuses a target inside the database that is to be copied.
fn check_outside(database: &Path, directory: &Path) -> Result<()> {
    let inside = std::path::absolute(directory).is_ok_and(|d| {
        let own = std::fs::canonicalize(database);
        let parent = d.parent().and_then(|p| std::fs::canonicalize(p).ok());
        matches!((own, parent), (Ok(own), Some(parent)) if parent.starts_with(&own))
    });
    if inside {
        return Err(Error::Target(format!(
            "cannot back up to `{}`: it is inside the database; name a folder elsewhere",
            directory.display()
        )));
    }
    Ok(())
}

/// Copies an open database.
pub(crate) fn write(core: &Core, directory: &Path) -> Result<BackupReport> {
    check_outside(&core.folder.path, directory)?;
    let draft = Draft::new(directory, "back up to", &core.folder)?;
    let report = copy_into(core, &draft.path)?;
    draft.finish()?;
    Ok(report)
}

/// Copies an open database into its own folder. The requesting process moves the copy from there ([`take`]).
pub(crate) fn write_inside(core: &Core) -> Result<(PathBuf, BackupReport)> {
    let number = COPIES.fetch_add(1, Ordering::Relaxed);
    let name = format!("{COPY}{}-{number}", std::process::id());
    let path = std::path::absolute(&core.folder.path)
        .map(|folder| folder.join(name))
        .map_err(|e| core.folder.failed("finding", e))?;
    let failed = |e| Error::io(format!("making `{}`", path.display()), e);
    modes::create_private(&path).map_err(failed)?;
    match copy_into(core, &path) {
        Ok(report) => Ok((path, report)),
        Err(e) => {
            let _ = std::fs::remove_dir_all(&path);
            Err(e)
        }
    }
}

/// Asks the owner of a database for a copy in the database's folder, and moves that copy to `directory`.
pub(crate) fn take<E: From<Error>>(
    directory: &Path,
    database: &Path,
    request_copy: impl FnOnce() -> std::result::Result<(PathBuf, BackupReport), E>,
) -> std::result::Result<BackupReport, E> {
    check_outside(database, directory)?;
    let draft = Draft::new(directory, "back up to", &Folder::at(database))?;
    let (copy, report) = request_copy()?;
    let moved = move_tree(&copy, &draft.path);
    // Files that had to be copied are still there; if this process may not remove them, the owner does when it next
    // opens the database.
    let _ = std::fs::remove_dir_all(&copy);
    moved?;
    draft.finish()?;
    Ok(report)
}

/// Removes copies that were never taken because a process ended too early. Called only by the owner, before it accepts
/// connections.
pub(crate) fn remove_copies(folder: &Folder) {
    let entries = std::fs::read_dir(&folder.path).into_iter().flatten();
    for entry in entries.flatten() {
        if entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(COPY.as_bytes())
        {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Moves the contents of a folder into another one; copies what cannot be moved, for example to another file system.
fn move_tree(from: &Path, to: &Path) -> Result<()> {
    let failed = |e| Error::io(format!("reading `{}`", from.display()), e);
    for entry in std::fs::read_dir(from).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if std::fs::rename(&source, &target).is_ok() {
            continue;
        }
        if entry.file_type().map_err(failed)?.is_dir() {
            copy_tree(&source, &target)?;
        } else {
            copy_file(&source, &target)?;
        }
    }
    Ok(())
}

/// Copies an open database into an empty folder.
fn copy_into(core: &Core, folder: &Path) -> Result<BackupReport> {
    let copy = Folder::at(folder);
    share_alike(&core.folder, &copy)?;
    let newest = core.engine.stats()?.newest;
    // The store goes before the archive: versions move from the store to the archive, so none is missed.
    let mut bytes = core.store.checkpoint(&copy.store())?;
    modes::as_inside(&copy.store()).map_err(|e| copy.failed("making", e))?;
    bytes += core.archive.copy_to(&copy.archive())?;
    bytes += copy_rdf(&core.folder, &copy)?;
    let now = crate::engine::Clock::now_millis(&crate::clock::SystemClock);
    copy.write_format(core.store_engine, now)?;
    Ok(BackupReport { bytes, newest })
}

/// Copies the RDF data of a database; returns its size in bytes.
#[cfg(feature = "rdf")]
fn copy_rdf(from: &Folder, to: &Folder) -> Result<u64> {
    crate::rdf::disk::copy_to(&from.rdf(), &to.rdf())
}

/// Refuses a database that has RDF data.
#[cfg(not(feature = "rdf"))]
fn copy_rdf(from: &Folder, _to: &Folder) -> Result<u64> {
    if from.rdf().exists() {
        let what = format!("`{}` has RDF data", from.path.display());
        return Err(crate::left_out("rdf", &what));
    }
    Ok(0)
}

/// Copies a backup to a new folder and reads every row of the copy before it gets its name.
pub(crate) fn restore(backup: &Path, target: &Path) -> Result<()> {
    let source = Folder::at(backup);
    let engine = match source.content()? {
        Content::Database(engine) => engine,
        Content::Absent => {
            return Err(Error::Target(format!(
                "no backup at `{}`: there is no such folder",
                backup.display()
            )));
        }
        Content::Empty | Content::Unfinished => {
            return Err(Error::Target(format!(
                "no backup at `{}`: the folder holds no database",
                backup.display()
            )));
        }
    };
    if let Some(record) = Registry::new(&source).highest()?
        && let Some(owner) = record.owner
        && owner.state != OwnerState::Released
        && Process::current().liveness_of(&owner.process) != Liveness::Dead
    {
        return Err(Error::InUse(format!(
            "the backup `{}` is open in process {} on host {}: close it and repeat (to copy an open database, use \
             backup)",
            backup.display(),
            owner.process.pid,
            owner.process.host
        )));
    }
    let draft = Draft::new(target, "restore to", &source)?;
    let copy = Folder::at(&draft.path);
    share_alike(&source, &copy)?;
    copy_tree(&source.store(), &copy.store())?;
    copy_tree(&source.archive(), &copy.archive())?;
    copy_rdf(&source, &copy)?;
    copy_file(&backup.join("FORMAT"), &draft.path.join("FORMAT"))?;
    verify(&copy, engine).map_err(|e| match e {
        Error::Target(message) | Error::InUse(message) => Error::Target(message),
        e => Error::Target(format!(
            "the backup `{}` is damaged, nothing was restored: {e}",
            backup.display()
        )),
    })?;
    draft.finish()
}

/// Creates the `owner` folder of the copy for the group, if the group may attach to the owner of the original.
fn share_alike(from: &Folder, to: &Folder) -> Result<()> {
    let mode = modes::of_copy(&from.owner());
    if mode == modes::PRIVATE {
        return Ok(());
    }
    modes::create(&to.owner(), mode).map_err(|e| to.failed("making", e))
}

/// Opens a copy as a database and reads all of it.
fn verify(copy: &Folder, engine: StoreEngine) -> Result<()> {
    use crate::engine::{Engine, Settings};
    use esker_model::GraphRead;
    let settings = StoreSettings {
        memory_bytes: OpenOptions::new().memory_bytes / 2,
        ..StoreSettings::default()
    };
    let store: Arc<dyn Store> = open_engine(engine, &copy.store(), &settings, false)?;
    for table in Table::ALL {
        store.scan(table, &KeyRange::ALL, &mut |_, _| Flow::Continue(()))?;
    }
    #[cfg(feature = "rdf")]
    crate::rdf::Rdf::read(&copy.rdf())?;
    let archive = Arc::new(FolderArchive::open(&copy.archive())?);
    crate::engine::Archive::scan(&*archive, &KeyRange::ALL, &mut |_, _| Flow::Continue(()))?;
    let database = Engine::open(
        store,
        Arc::new(crate::clock::SystemClock),
        archive,
        Settings::default(),
    )?;
    database.counts()?;
    database.persist()
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    let failed = |e| Error::io(format!("copying `{}`", from.display()), e);
    modes::create_inside(to).map_err(failed)?;
    let entries = match std::fs::read_dir(from) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(failed(e)),
    };
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().map_err(failed)?.is_dir() {
            copy_tree(&source, &target)?;
        } else {
            copy_file(&source, &target)?;
        }
    }
    sync_folder(to).map_err(failed)
}

/// Copies one file so that it survives power failure; returns its bytes.
pub(crate) fn copy_file(from: &Path, to: &Path) -> Result<u64> {
    let copied =
        std::fs::copy(from, to).and_then(|bytes| File::open(to)?.sync_all().map(|()| bytes));
    copied.map_err(|e| {
        Error::io(
            format!("copying `{}` to `{}`", from.display(), to.display()),
            e,
        )
    })
}
