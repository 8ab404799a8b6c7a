//! Cursors over the archive: rows in key order from all files at once.

use super::file::{ArchiveFile, Row};
use crate::engine::{ArchiveCursor, ArchiveView};
use esker_model::{Result, VersionRange};
use esker_store::{Cursor, KeyRange};
use std::sync::Arc;

/// The files of the archive at one time. A file that is merged away later stays readable, because it is open.
#[derive(Debug, Clone)]
pub(super) struct View(pub(super) Arc<[Numbered]>);

/// An archive file with its number.
pub(super) type Numbered = (u64, Arc<ArchiveFile>);

impl View {
    /// Number for the next file.
    pub(super) fn next_number(&self) -> u64 {
        self.0.last().map_or(0, |(number, _)| *number) + 1
    }

    /// A cursor over all files; empty until the first `seek`.
    pub(super) fn rows(&self, versions: VersionRange) -> Merge<'_> {
        let files = self
            .0
            .iter()
            .map(|(_, file)| FileCursor::new(file, versions));
        Merge {
            files: files.collect(),
            current: None,
        }
    }
}

impl ArchiveView for View {
    fn cursor(&self, versions: VersionRange) -> Result<Box<dyn ArchiveCursor + '_>> {
        Ok(Box::new(self.rows(versions)))
    }
}

/// Rows of several files in key order, each key once.
pub(super) struct Merge<'a> {
    /// Cursors by age of the file, oldest first.
    files: Vec<FileCursor<'a>>,
    /// Index of the file with the current row.
    current: Option<usize>,
}

impl ArchiveCursor for Merge<'_> {
    fn seek(&mut self, range: &KeyRange) {
        self.current = None;
        self.files.iter_mut().for_each(|file| file.seek(range));
    }
}

impl Cursor for Merge<'_> {
    fn advance(&mut self) -> Result<bool> {
        if let Some(current) = self.current.take() {
            self.skip(current);
        }
        for i in 0..self.files.len() {
            if !self.files.get_mut(i).map_or(Ok(false), FileCursor::find)? {
                continue;
            }
            match self.current {
                Some(least) if self.key_of(least) < self.key_of(i) => {}
                // In both files after a crash: the newer file counts.
                Some(least) if self.key_of(least) == self.key_of(i) => {
                    self.skip(least);
                    self.current = Some(i);
                }
                _ => self.current = Some(i),
            }
        }
        Ok(self.current.is_some())
    }

    fn key(&self) -> &[u8] {
        self.current.map_or(&[], |i| self.key_of(i))
    }

    fn value(&self) -> &[u8] {
        let row = self.current.and_then(|i| self.files.get(i)?.row());
        row.map_or(&[], |(_, value)| value)
    }
}

impl Merge<'_> {
    fn key_of(&self, file: usize) -> &[u8] {
        let row = self.files.get(file).and_then(FileCursor::row);
        row.map_or(&[], |(key, _)| key)
    }

    fn skip(&mut self, file: usize) {
        if let Some(file) = self.files.get_mut(file) {
            file.at += 1;
        }
    }
}

/// Rows of one file, read one row group at a time.
struct FileCursor<'a> {
    file: &'a ArchiveFile,
    versions: VersionRange,
    range: KeyRange,
    /// Row group of the current row, or of the next candidate.
    group: usize,
    /// Whether `at` is valid for row group `group`, which is then the one in `read`.
    at_is_valid: bool,
    at: usize,
    /// The last row group read, kept for the next range.
    read: Option<(usize, Vec<Row>)>,
}

impl<'a> FileCursor<'a> {
    fn new(file: &'a ArchiveFile, versions: VersionRange) -> Self {
        Self {
            file,
            versions,
            range: KeyRange::ALL,
            group: file.groups(),
            at_is_valid: false,
            at: 0,
            read: None,
        }
    }

    fn seek(&mut self, range: &KeyRange) {
        self.range.clone_from(range);
        self.group = self.file.first_group(&range.from);
        self.at_is_valid = false;
    }

    fn row(&self) -> Option<&Row> {
        self.read.as_ref()?.1.get(self.at)
    }

    /// Moves to the next row of the range unless already at one; false at the end.
    fn find(&mut self) -> Result<bool> {
        loop {
            if self.at_is_valid {
                if let Some((key, _)) = self.row() {
                    return Ok(self.range.until.as_ref().is_none_or(|until| key < until));
                }
                self.group += 1;
                self.at_is_valid = false;
            }
            if self.group >= self.file.groups() || self.file.is_behind(self.group, &self.range) {
                return Ok(false);
            }
            if !self.file.may_hold(self.group, &self.range, self.versions) {
                self.group += 1;
                continue;
            }
            let rows = match self.read.take() {
                Some((group, rows)) if group == self.group => rows,
                _ => self.file.read_group(self.group)?,
            };
            self.at = rows.partition_point(|(key, _)| *key < self.range.from);
            self.at_is_valid = true;
            self.read = Some((self.group, rows));
        }
    }
}
