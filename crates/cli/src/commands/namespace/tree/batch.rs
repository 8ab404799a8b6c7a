//! Batches of new files, sent to the database as subtrees, which need no lookups of directories.

use esker::{Database, Result};
use esker_model::Error;
use esker_model::namespace::{Change, NamePath, Namespace as _, SubtreeBuilder};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Limits of a batch; an interrupted scan loses at most one.
const FILES_MAX: u64 = 1 << 16;
const BYTES_MAX: usize = 16 << 20;
const AGE_MAX: Duration = Duration::from_secs(1);

/// A batch of new files.
pub(super) struct FileBatch {
    builder: SubtreeBuilder,
    /// New directories in the batch, with their numbers.
    made: HashMap<NamePath, u64>,
    began: Option<Instant>,
    /// Whether batches are disabled: in a cluster, files are on many servers, so a subtree saves nothing.
    disabled: bool,
}

impl FileBatch {
    pub(super) fn new(disabled: bool) -> Self {
        Self {
            builder: SubtreeBuilder::default(),
            made: HashMap::new(),
            began: None,
            disabled,
        }
    }

    /// Adds the changes of one directory, if all of them create files; else returns them.
    pub(super) fn add(&mut self, changes: Vec<Change>) -> std::result::Result<(), Vec<Change>> {
        let makes = |change: &Change| matches!(change, Change::Create(..));
        if self.disabled || !changes.iter().all(makes) {
            return Err(changes);
        }
        if changes.is_empty() {
            return Ok(());
        }
        self.began.get_or_insert_with(Instant::now);
        let mut place = None;
        for change in &changes {
            let Change::Create(path, make) = change else {
                continue;
            };
            let Some((_, name)) = path.split() else {
                continue;
            };
            let parent = path.parent();
            if place.as_ref() != Some(&parent) {
                match self.made.get(&parent) {
                    Some(number) => self.builder.in_new_directory(*number),
                    None => self.builder.in_existing_directory(&parent),
                }
                place = Some(parent);
            }
            if let Some(number) = self.builder.entry(&name, make, false) {
                self.made.insert(path.clone(), number);
            }
        }
        Ok(())
    }

    /// Whether the batch has reached a limit.
    pub(super) fn is_due(&self) -> bool {
        self.builder.entries() >= FILES_MAX
            || self.builder.bytes() >= BYTES_MAX
            || self.began.is_some_and(|began| began.elapsed() >= AGE_MAX)
    }

    /// Sends the batch. Returns the number of created files, and the changes to send one by one if the batch was refused.
    pub(super) fn send(&mut self, database: &Database) -> Result<(u64, Vec<Change>)> {
        let files = self.builder.entries();
        if files == 0 {
            return Ok((0, Vec::new()));
        }
        let gathered = std::mem::replace(self, Self::new(self.disabled));
        let subtree = gathered.builder.finish()?;
        let done = database.change(None, &[Change::Merge(subtree.clone())])?;
        match done.into_iter().next() {
            Some(Ok(_)) => Ok((files, Vec::new())),
            Some(Err(Error::File(_) | Error::Invalid(_) | Error::Limit { .. })) => {
                Ok((0, subtree.changes()?))
            }
            Some(Err(e)) => Err(e),
            None => Err(Error::Undecided(
                "the files of a scan were sent, but got no answer; scan again".into(),
            )),
        }
    }
}
