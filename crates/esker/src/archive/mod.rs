//! Superseded versions past the retention policy, as Parquet files that any tool reads.
//!
//! `archive/0000000000000001.parquet` and so on: each holds rows in key order, each with the parts of its key as
//! columns ([`file`]). A file is written under another name, synced, and renamed, so it is there whole or not at all;
//! only then does the engine remove the rows from the live store. A crash in between leaves rows in both, and a crash
//! in the middle of a merge leaves them in two files: reading gives each key once.

mod file;

use crate::engine::{Archive, HistoryRows};
use crate::folder::sync_folder;
use crate::limits::ARCHIVE_FILES_MAX;
use esker_model::{Error, Flow, Result};
use esker_store::KeyRange;
use file::{ArchiveFile, Rows, write};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

const SUFFIX: &str = ".parquet";
const NEW: &str = "new.parquet.part";

/// The archive of one database.
#[derive(Debug)]
pub(crate) struct ParquetArchive {
    folder: PathBuf,
    /// Oldest first, by number.
    files: RwLock<Vec<(u64, ArchiveFile)>>,
}

impl ParquetArchive {
    /// Opens the files in a folder, which may be absent: it is made with the first file.
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
                files.push((number, ArchiveFile::open(&entry.path())?));
            }
        }
        files.sort_by_key(|(number, _)| *number);
        Ok(Self {
            folder: folder.to_path_buf(),
            files: RwLock::new(files),
        })
    }

    fn files(&self) -> RwLockReadGuard<'_, Vec<(u64, ArchiveFile)>> {
        self.files.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn files_mut(&self) -> RwLockWriteGuard<'_, Vec<(u64, ArchiveFile)>> {
        self.files.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a file and gives it its name; `None` if there were no rows.
    fn write_file(
        &self,
        number: u64,
        rows: &mut HistoryRows<'_>,
    ) -> Result<Option<(u64, ArchiveFile)>> {
        let failed = |e| Error::io(format!("writing `{}`", self.folder.display()), e);
        std::fs::create_dir_all(&self.folder).map_err(failed)?;
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

    /// Merges all files into one once there are many, so that a history never looks into more than some.
    pub(crate) fn merge_if_many(&self) -> Result<()> {
        let mut files = self.files_mut();
        if files.len() <= ARCHIVE_FILES_MAX {
            return Ok(());
        }
        let number = files.last().map_or(0, |(n, _)| *n) + 1;
        let mut merged = Merge::new(files.iter().map(|(_, f)| f), &KeyRange::ALL)?;
        let file = self.write_file(
            number,
            &mut std::iter::from_fn(|| merged.next().transpose()),
        )?;
        drop(merged);
        let old: Vec<PathBuf> = files.iter().map(|(_, f)| f.path().to_path_buf()).collect();
        *files = file.into_iter().map(|(_, f)| (number, f)).collect();
        for path in old {
            std::fs::remove_file(&path)
                .map_err(|e| Error::io(format!("removing `{}`", path.display()), e))?;
        }
        Ok(())
    }

    /// Copies all files; returns their bytes. No file goes away meanwhile.
    pub(crate) fn copy_to(&self, folder: &Path) -> Result<u64> {
        let failed = |e| Error::io(format!("writing `{}`", folder.display()), e);
        std::fs::create_dir(folder).map_err(failed)?;
        let files = self.files();
        let mut bytes = 0;
        for (number, file) in files.iter() {
            bytes += crate::backup::copy_file(
                file.path(),
                &folder.join(format!("{number:016}{SUFFIX}")),
            )?;
        }
        sync_folder(folder).map_err(failed)?;
        Ok(bytes)
    }
}

impl Archive for ParquetArchive {
    fn append(&self, rows: &mut HistoryRows<'_>) -> Result<u64> {
        let mut files = self.files_mut();
        let number = files.last().map_or(0, |(n, _)| *n) + 1;
        let Some((written, file)) = self.write_file(number, rows)? else {
            return Ok(0);
        };
        files.push((number, file));
        Ok(written)
    }

    fn scan(&self, range: &KeyRange, sink: &mut dyn FnMut(&[u8], &[u8]) -> Flow) -> Result<()> {
        let files = self.files();
        let mut merge = Merge::new(files.iter().map(|(_, f)| f), range)?;
        while let Some((key, value)) = merge.next()? {
            if sink(&key, &value).is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// Rows of several files in key order, each key once.
struct Merge<'a> {
    rows: Vec<Rows<'a>>,
}

impl<'a> Merge<'a> {
    fn new(files: impl Iterator<Item = &'a ArchiveFile>, range: &KeyRange) -> Result<Self> {
        let mut rows = Vec::new();
        for file in files {
            let mut of_file = file.rows(range);
            if of_file.peek()?.is_some() {
                rows.push(of_file);
            }
        }
        Ok(Self { rows })
    }

    fn next(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let mut least: Option<Vec<u8>> = None;
        for rows in &mut self.rows {
            if let Some((key, _)) = rows.peek()?
                && least.as_ref().is_none_or(|l| key < l)
            {
                least = Some(key.clone());
            }
        }
        let Some(least) = least else { return Ok(None) };
        let mut row = None;
        for rows in &mut self.rows {
            if rows.peek()?.is_some_and(|(key, _)| *key == least) {
                row = rows.next()?;
            }
        }
        Ok(row)
    }
}

#[cfg(test)]
mod tests;
