//! The namespace: files by path (GIGA+ and TableFS; `docs/internals/namespace.md`).
//!
//! [`directory`] has the directory cache, [`rows`] reads single rows, [`resolve`] finds the row at a path, [`change`] and its
//! sibling modules write, [`space`] maintains sums, [`read`] answers requests.

mod attributes;
mod batching;
mod change;
mod dedup;
mod directory;
mod distributed_read;
mod distributed_write;
mod file_visibility;
mod filter;
mod ingest;
mod lease;
mod open;
mod read;
mod remote_rows;
mod remove;
mod rename;
mod resolve;
mod retain;
mod rows;
pub(crate) mod space;
mod subtree;
pub(crate) mod vertex_paths;
mod vertices;
mod watch;

pub(crate) use rows::{CommittedRows, corrupt as corrupt_names, find, location_record};
pub(crate) use vertices::file_kind;
pub use vertices::show_tags;

use crate::Engine;
use crate::counts::PendingCounters;
use crate::txn::{Effects, Overlay, Txn, Writer, clone_error};
use batching::{ChangeSet, Outcomes, SetStatus};
use directory::{Directories, Directory};
pub use distributed_read::{RawEntry, path_of};
pub use distributed_write::{ChangePlan, LocalOutcome, LocalStop, PlannedRow};
use esker_model::{Error, Result};
pub use file_visibility::{FileVisibility, MaybeFile};
pub(crate) use filter::Filters;
use foldhash::fast::FixedState;
pub use ingest::IngestedRows;
pub use lease::LEASE_MAX;
pub(crate) use lease::Leases;
pub use read::sums_of;
use remote_rows::PartialStore;
pub use remote_rows::{DirectorySums, Need, RemoteData, RowLocation, RowPlacement, RunResult};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use subtree::{SubtreeRows, unmark};
use watch::NameWatches;
pub use watch::{EntryChange, NamesChange, NamesListener};

/// In-memory state of the namespace.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) directories: Directories,
    /// Rows are distributed over several engines: local reads alone are incomplete, and their results must not be cached.
    distributed: AtomicBool,
    /// Whether there are any rows; without them, no vertex is looked up in the namespace.
    any: AtomicBool,
    /// Whether the graph has, or had, vertices of files; without them, no file has tags.
    vertices: AtomicBool,
    /// Leases granted on files' states.
    pub(crate) leases: Leases,
    /// Subscriptions to changes of the namespace.
    pub(crate) watch: NameWatches,
}

impl Names {
    /// Whether rows are distributed over several engines.
    pub(crate) fn is_distributed(&self) -> bool {
        self.distributed.load(Ordering::Acquire)
    }

    /// Whether the namespace has any rows.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Notes that the namespace has rows. Must be called before the first of them can be read.
    pub(crate) fn note_any(&self) {
        if !self.any() {
            self.any.store(true, Ordering::Release);
        }
    }

    /// Whether files may have vertices.
    pub(crate) fn has_vertices(&self) -> bool {
        self.vertices.load(Ordering::Acquire)
    }

    /// Notes that files may have vertices. Must be called before the first such vertex is committed.
    pub(crate) fn note_vertices(&self) {
        if !self.has_vertices() {
            self.vertices.store(true, Ordering::Release);
        }
    }
}

/// Directories read or made by the present commit only.
#[derive(Debug, Default)]
pub(crate) struct LocalDirectories(RefCell<HashMap<Box<[u8]>, Arc<Directory>, FixedState>>);

impl LocalDirectories {
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

/// Changes of the namespace that go into one commit.
pub(crate) struct NamesTxn<'n> {
    names: &'n Names,
    pending: &'n Mutex<PendingCounters>,
    filters: &'n mut Filters,
    /// Access to rows of other engines, if the namespace is distributed.
    partial: Option<&'n PartialStore<'n>>,
    local: LocalDirectories,
    /// The directory cache is invalid once this is committed: a directory was moved or removed, or its permissions changed.
    structural: bool,
    /// Changes of the space used by files in this commit, by counter.
    space: space::Differences,
    /// Changes of space counters by the change that is being applied.
    current: Vec<(esker_model::key::Counter, i64)>,
    /// Number of changes so far: distinguishes files of one name made in one commit.
    salt: u64,
    /// Rows of a subtree, to be bulk-loaded before the commit.
    subtree_rows: SubtreeRows,
    /// Row count from which a subtree is bulk-loaded; below it, its rows go into the commit batch.
    bulk_load_rows_min: usize,
}

impl NamesTxn<'_> {
    /// The directory cache, unless this commit invalidates it.
    fn cached_directories(&self) -> Option<&Directories> {
        (!self.structural).then_some(&self.names.directories)
    }

    /// Stops using the directory cache: from now on only rows that this commit read or wrote count.
    fn invalidate_cache(&mut self) {
        self.structural = true;
        self.local.clear();
    }
}

impl Engine {
    /// Applies changes of several callers in order, each atomically; those that succeed form one commit. Caller holds the write lock.
    pub(crate) fn change_names_locked(
        &self,
        writer: &mut Writer,
        sets: &[ChangeSet<'_>],
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
            partial: None,
            local: LocalDirectories::default(),
            structural: false,
            space: space::Differences::default(),
            current: Vec::new(),
            salt: 0,
            subtree_rows: SubtreeRows::default(),
            bulk_load_rows_min: self.settings.bulk_load_rows_min,
        };
        writer.producers.begin();
        let mut total = Effects::default();
        let mut answers = Vec::with_capacity(sets.len());
        for set in sets {
            let numbered = match self.admit_set(set, &mut writer.producers, now_millis) {
                Ok(SetStatus::New(numbered)) => numbered,
                Ok(SetStatus::Applied(outcomes)) => {
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
                    &mut writer.producers,
                    version,
                    now_millis,
                );
                let outcome = txn.change_name(&mut names, set.principal, change);
                let effects = txn.effects;
                names.salt += 1;
                match &outcome {
                    Ok(_) => {
                        total.absorb(effects);
                        names.keep_differences();
                    }
                    Err(e) => {
                        overlay.undo();
                        names.current.clear();
                        names.local.clear();
                        if !matches!(e, Error::File(_)) {
                            names.invalidate_cache();
                            names.filters.clear();
                        }
                    }
                }
                outcomes.push(outcome);
            }
            // A set that changed nothing is not recorded; a repetition may be decided differently.
            if let Some(numbered) = numbered
                && outcomes.iter().any(Result::is_ok)
            {
                let answer = dedup::encode(version, &outcomes);
                writer.producers.answered(&numbered, now_millis, answer);
            }
            answers.push(Ok(outcomes));
        }
        for (counter, change) in names.space.iter() {
            total.changes.add(counter, change);
        }
        self.names.note_any();
        let structural = names.structural;
        total.moves_paths = structural;
        let mut subtree_rows = std::mem::take(&mut names.subtree_rows);
        // Paths of all descendants may have changed, and bulk-loaded rows bypass the commit: the feed cannot report either.
        let untold = structural || !subtree_rows.is_empty() && self.names.has_vertices();
        let writing = self.begin_changes(&overlay, structural);
        let ended = match (&writing, untold) {
            (Ok(_), true) => self.end_persistent_feed(),
            _ => Ok(()),
        };
        let committed = match (&writing, ended) {
            (Err(e), _) => Err(clone_error(e)),
            (_, Err(e)) => Err(e),
            _ if subtree_rows.is_empty() => self.commit_group(writer, overlay, &mut total),
            _ => self.commit_subtree(writer, overlay, &mut total, &mut subtree_rows),
        };
        writer.producers.end(committed.is_ok());
        if structural || committed.is_err() {
            self.names.directories.clear();
        }
        if untold || committed.is_err() {
            self.feed.invalidate();
        }
        if committed.is_err() {
            writer.filters.clear();
        }
        committed?;
        Ok(answers)
    }

    /// Commits a subtree after bulk-loading its rows; on any failure, all its rows are removed.
    fn commit_subtree(
        &self,
        writer: &mut Writer,
        mut overlay: Overlay<'_>,
        total: &mut Effects,
        subtree_rows: &mut SubtreeRows,
    ) -> Result<()> {
        // Rows of an earlier subtree that failed and could not be removed.
        self.recover_subtree()?;
        unmark(&mut overlay);
        let committed = self
            .write_subtree(writer, subtree_rows)
            .and_then(|()| self.commit_group(writer, overlay, total));
        if committed.is_err() {
            // If this fails, the rows are removed when the database is opened.
            let _ = self.recover_subtree();
        }
        committed
    }
}
