//! New files on their way into the database, many at once: as a subtree, whose directories nobody looks into.

use esker::{Database, Result};
use esker_model::Error;
use esker_model::namespace::{Change, NamePath, Namespace as _, SubtreeBuilder};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// So many files at most, and for so long: a scan that is killed has lost no more.
const FILES_MAX: u64 = 1 << 16;
const BYTES_MAX: usize = 16 << 20;
const AGE_MAX: Duration = Duration::from_secs(1);

/// New files.
pub(super) struct Gather {
    builder: SubtreeBuilder,
    /// Directories of it, by their numbers.
    made: HashMap<NamePath, u64>,
    began: Option<Instant>,
    /// Subtrees are taken one by one: on a cluster, files lie on many servers anyway.
    off: bool,
}

impl Gather {
    pub(super) fn new(off: bool) -> Self {
        Self {
            builder: SubtreeBuilder::default(),
            made: HashMap::new(),
            began: None,
            off,
        }
    }

    /// Takes in what one directory needs, if that is nothing but new files in it.
    pub(super) fn take(&mut self, changes: Vec<Change>) -> std::result::Result<(), Vec<Change>> {
        let makes = |change: &Change| matches!(change, Change::Make(..));
        if self.off || !changes.iter().all(makes) {
            return Err(changes);
        }
        if changes.is_empty() {
            return Ok(());
        }
        self.began.get_or_insert_with(Instant::now);
        let mut place = None;
        for change in &changes {
            let Change::Make(path, make) = change else {
                continue;
            };
            let Some((_, name)) = path.split() else {
                continue;
            };
            let parent = path.parent();
            if place.as_ref() != Some(&parent) {
                match self.made.get(&parent) {
                    Some(number) => self.builder.made(*number),
                    None => self.builder.existing(&parent),
                }
                place = Some(parent);
            }
            if let Some(number) = self.builder.entry(&name, make, false) {
                self.made.insert(path.clone(), number);
            }
        }
        Ok(())
    }

    /// Whether it is time to write them.
    pub(super) fn is_due(&self) -> bool {
        self.builder.entries() >= FILES_MAX
            || self.builder.bytes() >= BYTES_MAX
            || self.began.is_some_and(|began| began.elapsed() >= AGE_MAX)
    }

    /// Writes them. How many were made, and what is to be done one by one because not all of it can be.
    pub(super) fn write(&mut self, database: &Database) -> Result<(u64, Vec<Change>)> {
        let files = self.builder.entries();
        if files == 0 {
            return Ok((0, Vec::new()));
        }
        let gathered = std::mem::replace(self, Self::new(self.off));
        let subtree = gathered.builder.finish()?;
        let done = database.change(None, &[Change::Merge(subtree.clone())])?;
        match done.into_iter().next() {
            Some(Ok(_)) => Ok((files, Vec::new())),
            Some(Err(Error::File(_) | Error::Invalid(_) | Error::Limit { .. })) => {
                Ok((0, subtree.changes()?))
            }
            Some(Err(e)) => Err(e),
            None => Err(Error::Unavailable(
                "the files of a scan were sent, and not answered; scan again".into(),
            )),
        }
    }
}
