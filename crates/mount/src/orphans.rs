//! Consistency check of data folders and namespace: objects to which no file refers, files whose object is missing,
//! files that refer to another file's object.
//!
//! An object gets its name before its inode is published, and an inode loses its last name before its object is
//! removed: a crash may leave an extra object, never a missing one. Files that were removed without the mount (`esker
//! rm`) leave their objects, too.

use crate::data::{Folders, id_of};
use crate::write_journal::recover;
use esker_model::graph::{Cancel, Flow};
use esker_model::namespace::{Content, NamePath, Namespace};
use esker_model::{Error, Result, VertexId};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Findings of the check.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Number of files whose content is an object of these folders.
    pub files: u64,
    /// Number of objects in the folders.
    pub objects: u64,
    /// Objects and temporary files to which nothing refers, sorted.
    pub orphans: Vec<PathBuf>,
    /// Total size of the orphans in bytes.
    pub orphan_bytes: u64,
    /// Number of orphans that were removed.
    pub removed: u64,
    /// Files whose object is missing, with the path of the object.
    pub missing: Vec<(NamePath, PathBuf)>,
    /// Files that refer to something in these folders other than their own object, with its path. A mount opens none of
    /// them.
    pub mismatched: Vec<(NamePath, PathBuf)>,
    /// Objects that a killed process wrote and whose present size is not published, with `repair` until now; sorted.
    pub unpublished: Vec<PathBuf>,
}

/// Options of the check.
#[derive(Debug, Clone, Copy)]
pub struct Search {
    /// Whether to remove orphans.
    pub repair: bool,
    /// Minimum age of orphans: a younger file may be about to get its object name.
    pub older: Duration,
}

/// Checks a whole namespace and its data folders.
pub fn check(
    names: &dyn Namespace,
    folders: &Folders,
    search: Search,
    cancel: &dyn Cancel,
) -> Result<Report> {
    let mut report = Report::default();
    let roots: Vec<PathBuf> = folders.paths().map(Path::to_path_buf).collect();
    let root_path = NamePath::root();
    let mut led_to: HashSet<VertexId> = HashSet::new();
    names.walk(None, &root_path, cancel, &mut |path, inode| -> Flow {
        if let Content::Object(object) = &inode.content {
            let object = Path::new(OsStr::from_bytes(object));
            let within = roots.iter().find_map(|root| object.strip_prefix(root).ok());
            if let Some(within) = within {
                report.files += 1;
                if id_of(within) != Some(inode.id) {
                    let found = (path.clone(), object.to_path_buf());
                    report.mismatched.push(found);
                    return ControlFlow::Continue(());
                }
                led_to.insert(inode.id);
                if !object.is_file() {
                    report.missing.push((path.clone(), object.to_path_buf()));
                }
            }
        }
        ControlFlow::Continue(())
    })?;
    report.unpublished = recover(names, folders, search.repair)?;
    report.unpublished.sort();
    let journals: Vec<PathBuf> = folders.journals().collect();
    for root in &roots {
        look_through((&led_to, &journals), root, search, cancel, &mut report)
            .map_err(|e| folder_error(root, e))??;
    }
    report.orphans.sort();
    report.missing.sort();
    report.mismatched.sort();
    Ok(report)
}

fn folder_error(root: &Path, source: io::Error) -> Error {
    Error::Io {
        context: format!("data folder {}", root.display()),
        source,
    }
}

fn look_through(
    (led_to, journals): (&HashSet<VertexId>, &[PathBuf]),
    root: &Path,
    search: Search,
    cancel: &dyn Cancel,
    report: &mut Report,
) -> io::Result<Result<()>> {
    for directory in std::fs::read_dir(root)? {
        let directory = directory?.path();
        if !directory.is_dir() || journals.contains(&directory) {
            continue;
        }
        for object in std::fs::read_dir(&directory)? {
            if cancel.cancelled() {
                return Ok(Err(Error::Interrupted));
            }
            let object = object?.path();
            report.objects += 1;
            let meta = match object.symlink_metadata() {
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                meta => meta?,
            };
            let id = object.strip_prefix(root).ok().and_then(id_of);
            if id.is_some_and(|id| led_to.contains(&id)) {
                continue;
            }
            // Getting a name changes this time, being written to does not.
            let changed = Duration::new(meta.ctime().max(0).cast_unsigned(), 0);
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            if now.unwrap_or_default().saturating_sub(changed) < search.older {
                continue;
            }
            report.orphan_bytes += meta.len();
            if search.repair {
                std::fs::remove_file(&object)?;
                report.removed += 1;
            }
            report.orphans.push(object);
        }
    }
    Ok(Ok(()))
}
