//! The namespace: files by path (GIGA+ and TableFS; `docs/internals/namespace.md`).
//!
//! [`directory`] has the directory cache, [`rows`] reads single rows, [`resolve`] finds the row at a path, [`change`] and its
//! sibling modules write, [`space`] maintains sums, [`read`] answers requests.

mod apply;
mod attributes;
mod batching;
mod change;
mod dedup;
mod directory;
mod filter;
mod ingest;
mod inode_view;
mod lease;
mod local_rows;
mod open;
mod partial_namespace;
mod partial_rows;
mod past;
mod plan;
mod read;
mod reader;
mod remove;
mod rename;
mod resolve;
mod retain;
mod rows;
mod source;
pub(crate) mod space;
mod subtree;
mod usage_tree;
pub(crate) mod vertex_paths;
mod vertices;
mod watch;

pub(crate) use rows::{CommittedRows, corrupt as corrupt_names, find, location_record};
pub(crate) use vertex_paths::file_kind;
pub use vertices::show_tags;

use crate::Engine;
pub(crate) use directory::Directories;
use directory::Directory;
use esker_model::VertexId;
pub(crate) use filter::Filters;
use foldhash::fast::FixedState;
pub(crate) use ingest::IngestLoad;
pub use ingest::IngestedRows;
pub use lease::LEASE_MAX;
pub(crate) use lease::{LeaseBlock, Leases};
pub use partial_namespace::PartialNamespace;
pub use partial_rows::{
    DirectorySums, EntriesFrom, EntriesPage, ListCursor, Need, PlannedRow, RawEntry, RemoteData,
    RowLocation, RowPlacement, RunResult,
};
pub use plan::ChangePlan;
pub use read::sums_of;
pub use reader::{DirectoryUsage, FileVisibility, MaybeFile, NamesReader};
pub(crate) use rows::NameRows;
use source::RowSource;
pub use source::{LocalOutcome, LocalStop};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use subtree::SubtreeRows;
pub use usage_tree::UsageTree;
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
        if let Some(path) = directory.short_path() {
            let mut map = self.0.borrow_mut();
            map.insert(path.into(), Arc::clone(directory));
        }
    }

    fn clear(&self) {
        self.0.borrow_mut().clear();
    }
}

/// Changes of the namespace that go into one commit.
pub(crate) struct NamesTxn<'n> {
    names: &'n Names,
    filters: &'n mut Filters,
    /// Committed rows.
    source: &'n dyn RowSource,
    local: LocalDirectories,
    /// The directory cache is invalid once this is committed: a directory was moved or removed, or its permissions changed.
    structural: bool,
    /// Changes of the space used by files in this commit, by counter.
    space: space::Differences,
    /// Changes of space counters by the change that is being applied.
    current: Vec<(esker_model::key::Counter, i64)>,
    /// Entries put by the change that is being applied, as directory and hash of the name.
    put: Vec<(VertexId, u64)>,
    /// Number of changes so far: distinguishes files of one name made in one commit.
    salt: u64,
    /// Rows of a subtree, to be bulk-loaded before the commit.
    subtree_rows: SubtreeRows,
    /// Row count from which a subtree is bulk-loaded; below it, its rows go into the commit batch.
    bulk_load_rows_min: usize,
}

impl<'n> NamesTxn<'n> {
    fn new(engine: &'n Engine, filters: &'n mut Filters, source: &'n dyn RowSource) -> Self {
        Self {
            names: &engine.names,
            filters,
            source,
            local: LocalDirectories::default(),
            structural: false,
            space: space::Differences::default(),
            current: Vec::new(),
            put: Vec::new(),
            salt: 0,
            subtree_rows: SubtreeRows::default(),
            bulk_load_rows_min: engine.settings.bulk_load_rows_min,
        }
    }
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
