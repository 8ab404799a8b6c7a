//! Superseded versions past the retention policy, as Parquet files that any tool can read. The engine reads them for
//! queries
//! about their time.
//!
//! Files are named `archive/0000000000000001.parquet` and so on. Each has rows in key order, with the parts of the key as
//! columns ([`file`]); [`cursor`] reads all files at once. A file is written under a temporary name, synced and renamed, so
//! it is complete or absent; only then does the engine remove the rows from the live store. A crash in between leaves rows
//! in both, and a crash during a merge leaves rows in two files: readers return each key once.

mod cursor;
mod file;

use crate::engine::{Archive, ArchiveCursor as _, ArchiveView, HistoryRows};
use crate::folder::sync_folder;
use crate::limits::ARCHIVE_FILES_MAX;
use cursor::{Numbered, View};
use esker_model::{Error, Result, VersionRange};
use esker_store::{Cursor as _, KeyRange};
use file::{ArchiveFile, write};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

const SUFFIX: &str = ".parquet";
const NEW: &str = "new.parquet.part";

/// The archive of one database.
#[derive(Debug)]
pub(crate) struct FolderArchive {
    folder: PathBuf,
    /// Archive files by number, oldest first. Readers clone the list and release the lock.
    files: RwLock<View>,
    /// Lock for adding or removing files, or for keeping the set of files fixed.
    change_lock: Mutex<()>,
}

impl FolderArchive {
    /// Opens the files in a folder. The folder may be absent; the first file creates it.
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        let failed = |e| Error::io(format!("reading `{}`", folder.display()), e);
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries
                .collect::<std::io::Result<Vec<_>>>()
                .map_err(failed)?,
            Err(e) if e.kind() == ErrorKind::NotFound => Vec::new(),
            Err(e) => return Err(failed(e)),
        };
        let mut files = Vec::new();
        for entry in entries {
            let name = entry.file_name();
            let number = name
                .to_str()
                .and_then(|n| n.strip_suffix(SUFFIX))
                .and_then(|n| n.parse().ok());
            if let Some(number) = number {
                files.push((number, Arc::new(ArchiveFile::open(&entry.path())?)));
            }
        }
        files.sort_by_key(|(number, _)| *number);
        Ok(Self {
            folder: folder.to_path_buf(),
            files: RwLock::new(View(files.into())),
            change_lock: Mutex::new(()),
        })
    }

    fn now(&self) -> View {
        self.files
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn replace(&self, files: Vec<Numbered>) {
        *self.files.write().unwrap_or_else(PoisonError::into_inner) = View(files.into());
    }

    fn change_lock(&self) -> MutexGuard<'_, ()> {
        self.change_lock
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a file and gives it its name; `None` if there were no rows.
    fn write_file(
        &self,
        number: u64,
        rows: &mut HistoryRows<'_>,
    ) -> Result<Option<(u64, ArchiveFile)>> {
        let failed = |e| Error::io(format!("writing `{}`", self.folder.display()), e);
        crate::modes::create_inside(&self.folder).map_err(failed)?;
        let draft = self.folder.join(NEW);
        let written = match write(&draft, rows) {
            Ok(written) => written,
            Err(e) => {
                let _ = std::fs::remove_file(&draft);
                return Err(e);
            }
        };
        if written == 0 {
            std::fs::remove_file(&draft).map_err(failed)?;
            return Ok(None);
        }
        let path = self.folder.join(format!("{number:016}{SUFFIX}"));
        std::fs::rename(&draft, &path)
            .and_then(|()| sync_folder(&self.folder))
            .map_err(failed)?;
        ArchiveFile::open(&path).map(|file| Some((written, file)))
    }

    /// Merges all files into one once there are more than [`ARCHIVE_FILES_MAX`], which bounds the files that one query
    /// reads.
    pub(crate) fn merge_if_many(&self) -> Result<()> {
        let _changing = self.change_lock();
        let files = self.now();
        if files.0.len() <= ARCHIVE_FILES_MAX {
            return Ok(());
        }
        let mut merged = files.rows(VersionRange::ALL);
        merged.seek(&KeyRange::ALL);
        let mut next = || -> Result<_> {
            let more = merged.advance()?;
            Ok(more.then(|| (merged.key().to_vec(), merged.value().to_vec())))
        };
        let number = files.next_number();
        let file = self.write_file(number, &mut std::iter::from_fn(|| next().transpose()))?;
        self.replace(
            file.into_iter()
                .map(|(_, f)| (number, Arc::new(f)))
                .collect(),
        );
        for (_, old) in files.0.iter() {
            let path = old.path();
            std::fs::remove_file(path)
                .map_err(|e| Error::io(format!("removing `{}`", path.display()), e))?;
        }
        Ok(())
    }

    /// Copies all files while no file can be removed; returns their size in bytes.
    pub(crate) fn copy_to(&self, folder: &Path) -> Result<u64> {
        let failed = |e| Error::io(format!("writing `{}`", folder.display()), e);
        crate::modes::create_inside(folder).map_err(failed)?;
        let _changing = self.change_lock();
        let mut bytes = 0;
        for (number, file) in self.now().0.iter() {
            bytes += crate::backup::copy_file(
                file.path(),
                &folder.join(format!("{number:016}{SUFFIX}")),
            )?;
        }
        sync_folder(folder).map_err(failed)?;
        Ok(bytes)
    }
}

impl Archive for FolderArchive {
    fn append(&self, rows: &mut HistoryRows<'_>) -> Result<u64> {
        let _changing = self.change_lock();
        let files = self.now();
        let number = files.next_number();
        let Some((written, file)) = self.write_file(number, rows)? else {
            return Ok(0);
        };
        let mut files = files.0.to_vec();
        files.push((number, Arc::new(file)));
        self.replace(files);
        Ok(written)
    }

    fn view(&self) -> Result<Box<dyn ArchiveView + '_>> {
        Ok(Box::new(self.now()))
    }
}

#[cfg(test)]
mod tests;
