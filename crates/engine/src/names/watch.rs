//! Changes of names as they are committed, for those who keep answers elsewhere: who watches a directory is told which of its
//! entries came, changed or went.
//!
//! Nothing is remembered here but which directories are watched, by how many. A host has one ear ([`Engine::hear_names`]), is
//! called with what a commit changed once it is there, and shares it out. It must not be long: the writer waits.

use super::file_kind;
use super::places::{Known, Places};
use super::rows::Committed;
use crate::Engine;
use crate::counts::Changes;
use crate::txn::lock;
use esker_model::key::RowKey;
use esker_model::namespace::record::{Dentry, DentryInode, decode_dentry_key, is_dentry};
use esker_model::namespace::{Kind, Name};
use esker_model::{GraphRead as _, Result, Version, VertexId};
use esker_store::{Read, Table, WriteBatch};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Where a row of the namespace says where an inode is.
const WHEREABOUTS: u8 = 2;

/// What a commit did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamesNews {
    /// An entry of a watched directory.
    Entry {
        /// The directory.
        directory: VertexId,
        /// The entry's name.
        name: Name,
        /// What became of it.
        now: NameNow,
    },
    /// Something came or went in a watched directory: its own times are others.
    Times(VertexId),
    /// Something is said anew of a vertex, or of an inode that has, or had, several names: [`Engine::paths_of`] tells which.
    Touched(VertexId),
    /// Nobody knows what: anything may have changed.
    Anything,
}

/// What an entry is after a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameNow {
    /// It was not there before, or is another one.
    Made,
    /// The same, and a directory or a symbolic link is or was there: paths through it lead elsewhere now.
    Remade,
    /// It is what it was, with other attributes.
    Changed,
    /// It is gone.
    Gone,
}

/// Whoever is told.
pub type NamesEar = Arc<dyn Fn(&[NamesNews]) + Send + Sync>;

/// Who watches what.
#[derive(Default)]
pub(crate) struct Watch {
    /// Directories that are watched: while there are none, commits look no further.
    count: AtomicUsize,
    directories: RwLock<HashMap<VertexId, usize>>,
    ear: Mutex<Option<NamesEar>>,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch")
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

/// An entry before and after a commit.
#[derive(Default)]
struct Entry {
    before: Option<(VertexId, Kind)>,
    after: Option<(VertexId, Kind)>,
}

/// Whether paths go on behind it.
fn leads(kind: Kind) -> bool {
    matches!(kind, Kind::Directory | Kind::Symlink)
}

impl Watch {
    fn watches(&self, directory: VertexId) -> bool {
        let directories = self
            .directories
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        directories.contains_key(&directory)
    }

    /// What a commit is about to change that somebody watches; `files` are its rows of the namespace.
    pub(crate) fn gather(
        &self,
        files: Option<&WriteBatch>,
        (rest, tags): (&WriteBatch, bool),
        changes: &Changes,
        store: &dyn Read,
    ) -> Vec<NamesNews> {
        if self.count.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        let mut entries = BTreeMap::<(VertexId, Name), Entry>::new();
        let mut news = Vec::new();
        let of = |row: &[u8]| {
            let dentry = Dentry::decode(row).ok()?;
            let kind = match &dentry.inode {
                DentryInode::Here(inode) => inode.kind(),
                DentryInode::Elsewhere(kind) => *kind,
            };
            Some((dentry.name, (dentry.id, kind)))
        };
        for write in files.into_iter().flat_map(WriteBatch::iter) {
            if write.key.first() == Some(&WHEREABOUTS) {
                let id = write.key.get(1..17).and_then(|id| id.try_into().ok());
                news.extend(id.map(|id| NamesNews::Touched(VertexId(id))));
            }
            if !is_dentry(write.key) {
                continue;
            }
            let Ok((directory, ..)) = decode_dentry_key(write.key) else {
                continue;
            };
            if !self.watches(directory) {
                continue;
            }
            // An entry may come to lie under another number of the same hash: so it is by names.
            match store.get(Table::Names, write.key) {
                Ok(row) => {
                    if let Some((name, was)) = row.as_deref().and_then(of) {
                        entries.entry((directory, name)).or_default().before = Some(was);
                    }
                }
                Err(_) => news.push(NamesNews::Anything),
            }
            if let Some((name, is)) = write.value.and_then(of) {
                entries.entry((directory, name)).or_default().after = Some(is);
            }
        }
        if tags {
            let rows = rest.iter().filter(|w| w.table == Table::Rows);
            let ids = rows.filter_map(|w| match RowKey::decode(w.key) {
                Ok(RowKey::Vertex(id)) => Some(NamesNews::Touched(id)),
                _ => None,
            });
            news.extend(ids);
            news.dedup();
        }
        let directories: BTreeSet<VertexId> = changes.directories().collect();
        let watched = directories.into_iter().filter(|d| self.watches(*d));
        news.extend(watched.map(NamesNews::Times));
        news.extend(entries.into_iter().map(|((directory, name), e)| {
            let now = match (e.before, e.after) {
                (Some((was, _)), Some((is, _))) if was == is => NameNow::Changed,
                (was, Some((_, kind)))
                    if leads(kind) || was.is_some_and(|(_, kind)| leads(kind)) =>
                {
                    NameNow::Remade
                }
                (_, Some(_)) => NameNow::Made,
                (_, None) => NameNow::Gone,
            };
            NamesNews::Entry {
                directory,
                name,
                now,
            }
        }));
        news
    }

    /// The commit is there, or nobody knows.
    pub(crate) fn tell(&self, mut news: Vec<NamesNews>, committed: bool) {
        if news.is_empty() {
            return;
        }
        if !committed {
            news = vec![NamesNews::Anything];
        }
        let ear = lock(&self.ear).clone();
        if let Some(ear) = ear {
            ear(&news);
        }
    }
}

impl Engine {
    /// From now on that one is told of changes in watched directories. There is one ear.
    pub fn hear_names(&self, ear: NamesEar) {
        *lock(&self.names.watch.ear) = Some(ear);
    }

    /// Watches directories: what is read after this returns changes no more without its being told.
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
        // A commit that is under way did not look yet, or is over once this lock is had.
        drop(lock(&self.writer));
    }

    /// Takes back as many watches of directories.
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

    /// Under which paths the files are now that these are: none of what is no file, or gone.
    pub fn paths_of(&self, ids: &[VertexId]) -> Result<Vec<Vec<u8>>> {
        let vertices = self.read_vertices(ids, Version::MAX)?;
        let schema = self.schema_now();
        let snapshot = self.store.snapshot()?;
        let rows = Committed(&*snapshot);
        let places = Places::new(&rows);
        let mut paths = Vec::new();
        for (id, vertex) in ids.iter().zip(vertices) {
            let known = match vertex {
                Some(vertex) => match file_kind(&schema, vertex.type_id) {
                    Some(kind) => places.of(*id, kind, &vertex.key)?,
                    None => continue,
                },
                None => places.by_whereabouts(*id)?.unwrap_or(Known::Nothing),
            };
            if let Known::Here(place) = known {
                paths.extend(place.paths());
            }
        }
        Ok(paths)
    }
}
