//! Checkpoints: copies of the database that open by themselves, which fjall does not offer.
//!
//! Once everything is flushed and writers are blocked, a database consists of its immutable table files and, for each
//! table, a small list of them. The files are linked (copied if the file system has no links or the directory is on
//! another one), and the lists are copied. A merge may continue meanwhile: it changes which files contain the rows, not
//! the rows. While a table's list is locked, no merge of that table ends and no file in the list is removed. Files that
//! are in no list are removed when the copy is opened.

use crate::engine::{Engine, LOCK_FILE, TREES_FOLDER, VERSION_FILE};
use crate::error::disk;
use esker_model::Result;
use esker_store::{Table, prepare_checkpoint};
use fjall::AbstractTree;
use std::fs::{self, File};
use std::io;
use std::path::Path;

/// An empty log. Without one, fjall would number the copy's commits from zero again, below those in its tables.
const LOG_FILE: &str = "0.jnl";
/// Folders of a tree that contain immutable files.
const FIXED: [&str; 2] = ["tables", "blobs"];

/// Writes the checkpoint. The caller has flushed everything and blocks writers. Returns the bytes of the copy.
pub(crate) fn write(engine: &Engine, directory: &Path) -> Result<u64> {
    prepare_checkpoint(directory)?;
    copy(engine, directory).map_err(|e| disk("writing the checkpoint", directory, e))
}

fn copy(engine: &Engine, directory: &Path) -> io::Result<u64> {
    let trees = directory.join(TREES_FOLDER);
    fs::create_dir(&trees)?;
    // The tree of names and settings changes only when a table is created.
    let mut bytes = copy_tree(&engine.path.join(TREES_FOLDER).join("0"), &trees.join("0"))?;
    for table in Table::ALL {
        let keyspace = engine.table(table);
        let from = keyspace.path();
        let name = from
            .file_name()
            .ok_or_else(|| io::Error::other("a table without a folder"))?;
        let _list = keyspace.tree.get_version_history_lock();
        bytes += copy_tree(from, &trees.join(name))?;
    }
    sync(&trees)?;
    File::create_new(directory.join(LOG_FILE))?.sync_all()?;
    File::create_new(directory.join(LOCK_FILE))?.sync_all()?;
    // Written last, as fjall does: the version file makes the directory a database.
    bytes += fs::copy(engine.path.join(VERSION_FILE), directory.join(VERSION_FILE))?;
    File::open(directory.join(VERSION_FILE))?.sync_all()?;
    sync(directory)?;
    Ok(bytes)
}

/// Copies one tree's folder; immutable files are linked.
fn copy_tree(from: &Path, to: &Path) -> io::Result<u64> {
    fs::create_dir(to)?;
    let mut bytes = 0;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            let fixed = FIXED.iter().any(|name| entry.file_name() == *name);
            fs::create_dir(&target)?;
            for file in fs::read_dir(entry.path())? {
                let file = file?;
                let target = target.join(file.file_name());
                bytes += match copy_file(&file.path(), &target, fixed) {
                    // A file of an older list that nobody reads any more.
                    Err(e) if e.kind() == io::ErrorKind::NotFound => 0,
                    other => other?,
                };
            }
            sync(&target)?;
        } else {
            bytes += copy_file(&entry.path(), &target, false)?;
        }
    }
    sync(to)?;
    Ok(bytes)
}

fn copy_file(from: &Path, to: &Path, link: bool) -> io::Result<u64> {
    if link {
        match fs::hard_link(from, to) {
            Ok(()) => return Ok(fs::metadata(to)?.len()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(e),
            Err(_) => {}
        }
    }
    let bytes = fs::copy(from, to)?;
    File::open(to)?.sync_all()?;
    Ok(bytes)
}

fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
