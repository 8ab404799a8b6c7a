//! The namespace: files by path (GIGA+ and TableFS; `docs/internals/namespace.md`).
//!
//! [`directory`] is what is kept in memory, [`rows`] reads single rows, [`resolve`] goes from a path to a row, [`change`]
//! and its neighbours write, [`space`] sums up, [`read`] answers.

mod again;
mod apart;
mod arrive;
mod ask;
mod attributes;
mod change;
mod directory;
mod filter;
mod open;
pub(crate) mod places;
mod promise;
mod read;
mod remove;
mod rename;
mod resolve;
mod retain;
mod rows;
mod shown;
pub(crate) mod space;
mod spread;
mod subtree;
mod together;
mod vertices;
mod watch;

pub(crate) use rows::{Committed, corrupt as corrupt_names, find, whereabouts};
pub(crate) use vertices::file_kind;
pub use vertices::show_tags;

use crate::Engine;
use crate::counts::PendingCounters;
use crate::txn::{Effects, Overlay, Txn, Writer, repeat};
use apart::Apart;
pub use apart::{DirectorySums, Fetched, Need, Placed, Ran, RowPlace};
pub use arrive::Arriving;
pub use ask::{RawEntry, path_of};
use directory::{Directories, Directory};
use esker_model::{Error, Result};
pub(crate) use filter::Filters;
use foldhash::fast::FixedState;
pub use promise::PROMISE_MAX;
pub(crate) use promise::Promises;
pub use read::sums_of;
pub use shown::{MaybeFile, Shown};
pub use spread::{Here, Plan, PlannedRow, Stopped};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use subtree::{NewRows, unmark};
use together::{Admitted, Outcomes, Set};
use watch::Watch;
pub use watch::{NameNow, NamesEar, NamesNews};

/// What the engine keeps of the namespace in memory.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) directories: Directories,
    /// Rows lie on other engines, too: what this one has says little by itself, and is not to be remembered.
    spread: AtomicBool,
    /// There are rows: until then, nobody asks where a vertex is.
    any: AtomicBool,
    /// The graph has, or had, vertices of files: until then, nobody asks for their tags.
    vertices: AtomicBool,
    /// What somebody was told will stay so.
    pub(crate) promises: Promises,
    /// Who is told of changes.
    pub(crate) watch: Watch,
}

impl Names {
    /// Whether rows lie on other engines, too.
    pub(crate) fn is_spread(&self) -> bool {
        self.spread.load(Ordering::Acquire)
    }

    /// Whether there is a namespace at all.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// From now on there is one. To be called before the first rows of it can be read.
    pub(crate) fn note_any(&self) {
        if !self.any() {
            self.any.store(true, Ordering::Release);
        }
    }

    /// Whether files may have vertices.
    pub(crate) fn has_vertices(&self) -> bool {
        self.vertices.load(Ordering::Acquire)
    }

    /// From now on they may. To be called before the first one is committed.
    pub(crate) fn note_vertices(&self) {
        if !self.has_vertices() {
            self.vertices.store(true, Ordering::Release);
        }
    }
}

/// Directories that only the present commit knows.
#[derive(Debug, Default)]
pub(crate) struct Local(RefCell<HashMap<Box<[u8]>, Arc<Directory>, FixedState>>);

impl Local {
    fn get(&self, path: &[u8]) -> Option<Arc<Directory>> {
        self.0.borrow().get(path).cloned()
    }

    fn keep(&self, directory: &Arc<Directory>) {
        let mut map = self.0.borrow_mut();
        map.insert(directory.path.clone(), Arc::clone(directory));
    }

    fn clear(&self) {
        self.0.borrow_mut().clear();
    }
}

/// Changes of the namespace on their way into one commit.
pub(crate) struct NamesTxn<'n> {
    names: &'n Names,
    pending: &'n Mutex<PendingCounters>,
    filters: &'n mut Filters,
    /// Where the namespace is spread over many engines: how the rest of it is seen.
    apart: Option<&'n Apart<'n>>,
    local: Local,
    /// Directories in memory may be wrong once this is committed: one was moved or removed, or has another mode.
    structural: bool,
    /// What files took before this commit and take after it: differences, by counter.
    space: space::Differences,
    /// Those of the change that is being applied.
    present: Vec<(esker_model::key::Counter, i64)>,
    /// How many changes there were: tells files of one name made in one commit apart.
    salt: u64,
    /// Rows of a subtree that are to be in the table before this is committed.
    fresh: NewRows,
    /// From how many on: else the commit brings them.
    sorted_least: usize,
}

impl NamesTxn<'_> {
    /// Directories known before this commit, if they are still as they were.
    fn known(&self) -> Option<&Directories> {
        (!self.structural).then_some(&self.names.directories)
    }

    /// From here on only what this commit has read or written counts.
    fn restructure(&mut self) {
        self.structural = true;
        self.local.clear();
    }
}

impl Engine {
    /// Applies changes of several callers one after the other, each whole or not at all; those that succeed are one commit.
    pub(crate) fn change_holding(
        &self,
        writer: &mut Writer,
        sets: &[Set<'_>],
    ) -> Result<Vec<Result<Outcomes>>> {
        let schema = self.schema_now();
        let mut overlay = Overlay::new(&*self.store);
        let count: usize = sets.iter().map(|s| s.changes.len()).sum();
        if count > 16 {
            overlay.reserve(count + 8);
        }
        let now_millis = self.clock.now_millis();
        let version = writer.clock.tick(now_millis);
        let mut names = NamesTxn {
            names: &self.names,
            pending: &self.counters,
            filters: &mut writer.filters,
            apart: None,
            local: Local::default(),
            structural: false,
            space: space::Differences::default(),
            present: Vec::new(),
            salt: 0,
            fresh: NewRows::default(),
            sorted_least: self.settings.sorted_least,
        };
        writer.senders.begin();
        let mut total = Effects::default();
        let mut answers = Vec::with_capacity(sets.len());
        for set in sets {
            let numbered = match self.admit_set(set, &mut writer.senders, now_millis) {
                Ok(Admitted::Now(numbered)) => numbered,
                Ok(Admitted::Before(outcomes)) => {
                    answers.push(Ok(outcomes));
                    continue;
                }
                Err(e) => {
                    answers.push(Err(e));
                    continue;
                }
            };
            let mut outcomes = Vec::with_capacity(set.changes.len());
            for change in set.changes {
                overlay.savepoint();
                let mut txn = Txn::begin(
                    self,
                    &mut overlay,
                    &schema,
                    &mut writer.senders,
                    version,
                    now_millis,
                );
                let outcome = txn.change_name(&mut names, set.asker, change);
                let effects = txn.effects;
                names.salt += 1;
                match &outcome {
                    Ok(_) => {
                        total.absorb(effects);
                        names.keep_differences();
                    }
                    Err(e) => {
                        overlay.undo();
                        names.present.clear();
                        names.local.clear();
                        if !matches!(e, Error::File(_)) {
                            names.restructure();
                            names.filters.clear();
                        }
                    }
                }
                outcomes.push(outcome);
            }
            // What changed nothing may be decided anew.
            if let Some(numbered) = numbered
                && outcomes.iter().any(Result::is_ok)
            {
                let answer = again::encode(version, &outcomes);
                writer.senders.answered(&numbered, now_millis, answer);
            }
            answers.push(Ok(outcomes));
        }
        for (counter, change) in names.space.iter() {
            total.changes.add(counter, change);
        }
        self.names.note_any();
        let structural = names.structural;
        let mut fresh = std::mem::take(&mut names.fresh);
        // Paths of all that is below them may have changed; rows of a table are in no commit.
        let untold = structural || !fresh.is_empty() && self.names.has_vertices();
        let writing = self.begin_changes(&overlay, structural);
        let ended = match (&writing, untold) {
            (Ok(_), true) => self.end_feed(),
            _ => Ok(()),
        };
        let committed = match (&writing, ended) {
            (Err(e), _) => Err(repeat(e)),
            (_, Err(e)) => Err(e),
            _ if fresh.is_empty() => self.commit_group(writer, overlay, &mut total),
            _ => self.commit_subtree(writer, overlay, &mut total, &mut fresh),
        };
        writer.senders.end(committed.is_ok());
        if structural || committed.is_err() {
            self.names.directories.clear();
        }
        if untold || committed.is_err() {
            self.feed.lose();
        }
        if committed.is_err() {
            writer.filters.clear();
        }
        committed?;
        Ok(answers)
    }

    /// Commits a subtree whose rows become a table first; whatever fails, nothing of it stays.
    fn commit_subtree(
        &self,
        writer: &mut Writer,
        mut overlay: Overlay<'_>,
        total: &mut Effects,
        fresh: &mut NewRows,
    ) -> Result<()> {
        // One that failed, and could not be taken out.
        self.recover_subtree()?;
        unmark(&mut overlay);
        let committed = self
            .write_subtree(writer, fresh)
            .and_then(|()| self.commit_group(writer, overlay, total));
        if committed.is_err() {
            // Else it is done when the database is opened.
            let _ = self.recover_subtree();
        }
        committed
    }
}
