//! Namespace: paths, directories, attributes of files.

use crate::cancel::work;
use esker::Database;
use esker_model::namespace::{Change, NamePath, Namespace as _, NewFile};
use esker_model::{Cancel as _, Result};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ops::ControlFlow;

const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
/// Mask of the file type bits in a mode.
const KIND: u32 = 0o170_000;

fn path_of(text: &str) -> Result<NamePath> {
    Ok(NamePath::parse(text.as_bytes())?)
}

fn change(database: &Database, change: Change) -> Result<()> {
    database
        .change(None, &[change])?
        .into_iter()
        .try_for_each(|done| done.map(drop))
}

pub(crate) fn stat<'py>(
    py: Python<'py>,
    database: &Database,
    path: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let inode = work(py, |_| database.stat(None, &path_of(path)?, true))?;
    let dict = PyDict::new(py);
    dict.set_item("mode", inode.mode)?;
    dict.set_item("uid", inode.uid)?;
    dict.set_item("gid", inode.gid)?;
    dict.set_item("links", inode.links)?;
    dict.set_item("size", inode.size)?;
    dict.set_item("atime_ns", inode.atime)?;
    dict.set_item("mtime_ns", inode.mtime)?;
    dict.set_item("version", inode.version.0)?;
    dict.set_item("is_dir", inode.mode & KIND == DIRECTORY)?;
    Ok(dict)
}

pub(crate) fn listdir(py: Python<'_>, database: &Database, path: &str) -> PyResult<Vec<String>> {
    work(py, |signals| {
        let mut names = Vec::new();
        database.list(None, &path_of(path)?, None, &mut |_, entry| {
            names.push(String::from_utf8_lossy(entry.name.as_bytes()).into_owned());
            if signals.cancelled() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        names.sort_unstable();
        Ok(names)
    })
}

pub(crate) fn make(
    py: Python<'_>,
    database: &Database,
    path: &str,
    directory: bool,
    mode: u32,
) -> PyResult<()> {
    work(py, |_| {
        let ids = own_ids();
        let kind = if directory { DIRECTORY } else { REGULAR };
        change(
            database,
            Change::Create(
                path_of(path)?,
                NewFile::new(kind | (mode & 0o7777), ids.0, ids.1),
            ),
        )
    })
}

/// Returns user and group of this process.
fn own_ids() -> (u32, u32) {
    (
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    )
}

pub(crate) fn remove(py: Python<'_>, database: &Database, path: &str) -> PyResult<()> {
    work(py, |_| {
        let path = path_of(path)?;
        let is_directory = database.stat(None, &path, false)?.mode & KIND == DIRECTORY;
        change(
            database,
            if is_directory {
                Change::Rmdir(path)
            } else {
                Change::Unlink(path)
            },
        )
    })
}

pub(crate) fn rename(py: Python<'_>, database: &Database, path: &str, to: &str) -> PyResult<()> {
    work(py, |_| {
        let (from, to) = (path_of(path)?, path_of(to)?);
        change(
            database,
            Change::Rename {
                from,
                to,
                no_replace: false,
            },
        )
    })
}
