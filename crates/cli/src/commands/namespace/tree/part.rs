//! Changes that a reader found in a directory.

use super::compare::FileMetadata;
use esker_model::namespace::{Change, Name, NamePath};

/// Changes of a directory, or of a part of it, in the order in which they are applied.
pub(super) struct DirectoryPart {
    pub(super) directory: NamePath,
    pub(super) changes: Vec<Change>,
    pub(super) new: Vec<(Name, FileMetadata)>,
    /// The changes of the directory's own attributes.
    pub(super) last: Vec<Change>,
    /// Size of the extended attributes in bytes.
    pub(super) attribute_bytes: usize,
    /// Number of entries read since the thread's message before.
    pub(super) entries: u64,
}

impl DirectoryPart {
    pub(super) fn of(directory: &NamePath) -> Self {
        Self {
            directory: directory.clone(),
            changes: Vec::new(),
            new: Vec::new(),
            last: Vec::new(),
            attribute_bytes: 0,
            entries: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.changes.len() + self.new.len() + self.last.len()
    }

    pub(super) fn into_changes(self) -> impl Iterator<Item = Change> {
        let directory = self.directory;
        let new = self
            .new
            .into_iter()
            .map(move |(name, found)| Change::Create(directory.join(&name), found.into_new_file()));
        self.changes.into_iter().chain(new).chain(self.last)
    }
}
