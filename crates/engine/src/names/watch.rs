//! Notifications of committed changes of the namespace, for caches elsewhere: a listener learns which entries of watched directories
//! were created, changed or removed.
//!
//! Only the watched directories and their numbers of watches are stored here. The host sets one listener
//! ([`Engine::set_names_listener`]), which is called after each commit with its changes and distributes them. It must return quickly:
//! the writer waits.

use super::rows::CommittedRows;
use super::vertex_paths::{FileState, VertexPaths};
use crate::Engine;
use crate::commit::ChangedRow;
use crate::counts::Changes;
use crate::txn::lock;
use esker_model::namespace::record::{Dentry, DentryInode, decode_dentry_key};
use esker_model::namespace::{Kind, Name};
use esker_model::{GraphRead as _, Result, Version, VertexId};
use esker_store::{Store, Table};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// A change of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamesChange {
    /// A change of an entry of a watched directory.
    Entry {
        /// The watched directory.
        directory: VertexId,
        /// Name of the entry.
        name: Name,
        /// Kind of the change.
        now: EntryChange,
    },
    /// An entry of a watched directory was added or removed: the directory's own times changed.
    Times(VertexId),
    /// A vertex, or an inode that has or had several names, changed: [`Engine::paths_of`] returns its paths.
    Touched(VertexId),
    /// Anything may have changed: the extent is unknown.
    Anything,
}

/// Change of an entry by a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryChange {
    /// The entry is new, or is a different file.
    Made,
    /// The entry is new or a different file, and one of both is a directory or a symbolic link: paths through it changed.
    Remade,
    /// The entry is the same file with other attributes.
    Changed,
    /// The entry was removed.
    Gone,
}

/// Callback that receives changes.
pub type NamesListener = Arc<dyn Fn(&[NamesChange]) + Send + Sync>;

/// Watched directories, and the listener.
#[derive(Default)]
pub(crate) struct NameWatches {
    /// Number of watched directories; while it is zero, commits skip all work here.
    count: AtomicUsize,
    directories: RwLock<HashMap<VertexId, usize>>,
    listener: Mutex<Option<NamesListener>>,
}

impl std::fmt::Debug for NameWatches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch")
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

/// An entry before and after a commit.
#[derive(Default)]
struct EntryStates {
    before: Option<(VertexId, Kind)>,
    after: Option<(VertexId, Kind)>,
}

/// Whether paths may continue through a file of this kind.
fn leads(kind: Kind) -> bool {
    matches!(kind, Kind::Directory | Kind::Symlink)
}

/// Collects the changes of watched directories in a commit.
pub(crate) struct WatchCollector<'s> {
    watches: &'s NameWatches,
    store: &'s dyn Store,
    file_vertices: bool,
    entries: BTreeMap<(VertexId, Name), EntryStates>,
    news: Vec<NamesChange>,
}

/// Decodes the name, the id and the kind of an entry.
fn entry_of(row: &[u8]) -> Option<(Name, (VertexId, Kind))> {
    let dentry = Dentry::decode(row).ok()?;
    let kind = match &dentry.inode {
        DentryInode::Inline(inode) => inode.kind(),
        DentryInode::Linked(kind) => *kind,
    };
    Some((dentry.name, (dentry.id, kind)))
}

impl WatchCollector<'_> {
    /// Adds the change of a row.
    pub(crate) fn add(&mut self, row: ChangedRow<'_>) {
        match row {
            ChangedRow::Location(id) => self.news.push(NamesChange::Touched(id)),
            ChangedRow::Dentry(key, row) => self.add_dentry(key, row),
            ChangedRow::Vertex(id) if self.file_vertices => {
                let touched = NamesChange::Touched(id);
                if self.news.last() != Some(&touched) {
                    self.news.push(touched);
                }
            }
            _ => {}
        }
    }

    fn add_dentry(&mut self, key: &[u8], row: Option<&[u8]>) {
        let Ok((directory, ..)) = decode_dentry_key(key) else {
            return;
        };
        if !self.watches.watches(directory) {
            return;
        }
        // An entry may get another number of the same hash, so entries are compared by name.
        match self.store.get(Table::Names, key) {
            Ok(before) => {
                if let Some((name, was)) = before.as_deref().and_then(entry_of) {
                    self.entries.entry((directory, name)).or_default().before = Some(was);
                }
            }
            Err(_) => self.news.push(NamesChange::Anything),
        }
        if let Some((name, is)) = row.and_then(entry_of) {
            self.entries.entry((directory, name)).or_default().after = Some(is);
        }
    }

    /// Returns the changes of the commit, with those of directories' times.
    pub(crate) fn finish(self, changes: &Changes) -> Vec<NamesChange> {
        let Self {
            watches,
            entries,
            mut news,
            ..
        } = self;
        let directories: BTreeSet<VertexId> = changes.directories().collect();
        let watched = directories.into_iter().filter(|d| watches.watches(*d));
        news.extend(watched.map(NamesChange::Times));
        news.extend(entries.into_iter().map(|((directory, name), e)| {
            let now = match (e.before, e.after) {
                (Some((was, _)), Some((is, _))) if was == is => EntryChange::Changed,
                (was, Some((_, kind)))
                    if leads(kind) || was.is_some_and(|(_, kind)| leads(kind)) =>
                {
                    EntryChange::Remade
                }
                (_, Some(_)) => EntryChange::Made,
                (_, None) => EntryChange::Gone,
            };
            NamesChange::Entry {
                directory,
                name,
                now,
            }
        }));
        news
    }
}

impl NameWatches {
    fn watches(&self, directory: VertexId) -> bool {
        let directories = self
            .directories
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        directories.contains_key(&directory)
    }

    /// Begins to collect the changes of watched directories in a commit before it happens; `None` if no directory is watched.
    /// `file_vertices` tells whether files may have vertices.
    pub(crate) fn collect<'s>(
        &'s self,
        store: &'s Arc<dyn Store>,
        file_vertices: bool,
    ) -> Option<WatchCollector<'s>> {
        let any = self.count.load(Ordering::Acquire) > 0;
        any.then(|| WatchCollector {
            watches: self,
            store: &**store,
            file_vertices,
            entries: BTreeMap::new(),
            news: Vec::new(),
        })
    }

    /// Notifies the listener after the commit, or after one of unknown outcome.
    pub(crate) fn notify(&self, mut news: Vec<NamesChange>, committed: bool) {
        if news.is_empty() {
            return;
        }
        if !committed {
            news = vec![NamesChange::Anything];
        }
        let listener = lock(&self.listener).clone();
        if let Some(listener) = listener {
            listener(&news);
        }
    }
}

impl Engine {
    /// Sets the listener for changes of watched directories, replacing the previous one.
    pub fn set_names_listener(&self, listener: NamesListener) {
        *lock(&self.names.watch.listener) = Some(listener);
    }

    /// Watches directories: all changes after this returns are notified.
    pub fn watch_directories(&self, directories: &[VertexId]) {
        let watch = &self.names.watch;
        {
            let mut all = watch
                .directories
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            for directory in directories {
                *all.entry(*directory).or_default() += 1;
            }
            watch.count.store(all.len(), Ordering::Release);
        }
        // A commit in progress has not collected its changes yet, or has ended once this lock is taken.
        drop(lock(&self.writer));
    }

    /// Removes one watch of each directory.
    pub fn unwatch_directories(&self, directories: &[VertexId]) {
        let watch = &self.names.watch;
        let mut all = watch
            .directories
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        for directory in directories {
            if let Some(count) = all.get_mut(directory) {
                *count -= 1;
                if *count == 0 {
                    all.remove(directory);
                }
            }
        }
        watch.count.store(all.len(), Ordering::Release);
    }

    /// Returns the present paths of those vertices that are live files.
    pub fn paths_of(&self, ids: &[VertexId]) -> Result<Vec<Vec<u8>>> {
        let vertices = self.read_vertices(ids, Version::MAX)?;
        let schema = self.schema_now();
        let snapshot = self.store.snapshot()?;
        let rows = CommittedRows(&*snapshot);
        let locations = VertexPaths::new(&rows);
        let mut paths = Vec::new();
        for (id, vertex) in ids.iter().zip(vertices) {
            let vertex = vertex.as_ref().map(|v| (v.type_id, v.key.as_str()));
            if let FileState::Live(place) = locations.state(&schema, *id, vertex)? {
                paths.extend(place.paths());
            }
        }
        Ok(paths)
    }
}
