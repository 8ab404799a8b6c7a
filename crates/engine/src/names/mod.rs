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
use crate::txn::{CommitKind, Group, Writer};
use batching::{ChangeSet, Outcomes, SetStatus};
pub(crate) use directory::Directories;
use directory::Directory;
pub use distributed_read::{RawEntry, path_of};
pub use distributed_write::{ChangePlan, LocalOutcome, LocalStop, PlannedRow};
use esker_model::{Error, Result, Version};
pub use file_visibility::{FileVisibility, MaybeFile};
pub(crate) use filter::Filters;
use foldhash::fast::FixedState;
pub(crate) use ingest::IngestLoad;
pub use ingest::IngestedRows;
pub use lease::LEASE_MAX;
pub(crate) use lease::{LeaseBlock, Leases};
pub use read::sums_of;
use remote_rows::PartialStore;
pub use remote_rows::{DirectorySums, Need, RemoteData, RowLocation, RowPlacement, RunResult};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use subtree::{SubtreeLoad, SubtreeRows};
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
        // Lost unless the commit succeeds: they may have names that do not exist.
        let mut filters = std::mem::take(&mut writer.filters);
        let done = self.commit(writer, CommitKind::Local, &*self.store, |commit| {
            let names = &mut NamesTxn {
                names: &self.names,
                pending: &self.counters,
                filters: &mut filters,
                partial: None,
                local: LocalDirectories::default(),
                structural: false,
                space: space::Differences::default(),
                current: Vec::new(),
                salt: 0,
                subtree_rows: SubtreeRows::default(),
                bulk_load_rows_min: self.settings.bulk_load_rows_min,
            };
            let count: usize = sets.iter().map(|s| s.changes.len()).sum();
            if count > 16 {
                commit.overlay.reserve(count + 8);
            }
            let version = commit.tick();
            let answers = sets.iter();
            let answers = answers.map(|set| self.apply_set(commit, names, set, version));
            let answers = answers.collect();
            for (counter, change) in names.space.iter() {
                commit.effects.changes.add(counter, change);
            }
            commit.effects.moves_paths = names.structural;
            let rows = std::mem::take(&mut names.subtree_rows);
            if !rows.is_empty() {
                commit.effects.bypasses_feed = self.names.has_vertices();
                commit.bulk_load(SubtreeLoad::new(self, rows));
            }
            Ok(answers)
        });
        if done.is_ok() {
            writer.filters = filters;
        } else {
            // They may contain directories that do not exist.
            self.names.directories.clear();
        }
        done
    }

    /// Applies the changes of one caller, unless they were applied before.
    fn apply_set(
        &self,
        commit: &mut Group<'_, '_>,
        names: &mut NamesTxn<'_>,
        set: &ChangeSet<'_>,
        version: Version,
    ) -> Result<Outcomes> {
        let now_millis = self.clock.now_millis();
        let numbered = match self.admit_set(set, commit.producers, now_millis)? {
            SetStatus::New(numbered) => numbered,
            SetStatus::Applied(outcomes) => return Ok(outcomes),
        };
        let mut outcomes = Vec::with_capacity(set.changes.len());
        for change in set.changes {
            let outcome =
                commit.change(version, |txn| txn.change_name(names, set.principal, change));
            names.salt += 1;
            match &outcome {
                Ok(_) => names.keep_differences(),
                Err(e) => {
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
            commit.producers.answered(&numbered, now_millis, answer);
        }
        Ok(outcomes)
    }
}
