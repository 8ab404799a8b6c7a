//! The directory cache: resolves paths without reading each row again.

use esker_model::namespace::{
    Errno, FileError, Inode, Kind, Name, display, hash_of, id_with_home, root,
};
use esker_model::object::Principal;
use esker_model::sharded_lock::ShardedLock;
use esker_model::{Result, VertexId, file_home};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

/// Maximum number of cached directories.
const DIRECTORIES_MAX: usize = 1 << 16;

/// Derivation of the ids of a directory's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Naming {
    /// From their paths: vertices recorded earlier for these paths become those of the files.
    Path,
    /// From the directory's id and their names: other files may be known by these paths.
    Within,
}

/// A directory with its ancestors.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) id: VertexId,
    /// Path without symbolic links.
    pub(crate) path: Box<[u8]>,
    /// Hash of the path, from which the ids of its entries are derived.
    home: u16,
    pub(crate) inode: Inode,
    pub(crate) parent: Option<Arc<Self>>,
    /// Set when a file is first created in the directory.
    pub(crate) naming: OnceLock<Naming>,
    /// Whether an entry has left the directory, so that an id derived from a path may be taken.
    pub(crate) departed: AtomicBool,
}

impl Directory {
    pub(crate) fn root(inode: Inode) -> Self {
        Self {
            id: root(),
            path: (*b"/").into(),
            home: 0,
            inode,
            parent: None,
            naming: OnceLock::new(),
            departed: AtomicBool::new(false),
        }
    }

    /// Creates a directory without path and ancestors, for an open directory.
    pub(crate) fn detached(inode: Inode) -> Self {
        Self {
            id: inode.id,
            ..Self::root(inode)
        }
    }

    pub(crate) fn child(self: &Arc<Self>, name: &Name, inode: Inode) -> Self {
        Self {
            id: inode.id,
            path: self.path_of(name).into(),
            home: file_home::in_directory(self.home, hash_of(name)),
            inode,
            parent: Some(Arc::clone(self)),
            naming: OnceLock::new(),
            departed: AtomicBool::new(false),
        }
    }

    /// Returns the path of an entry.
    pub(crate) fn path_of(&self, name: &Name) -> Vec<u8> {
        let mut path = Vec::with_capacity(self.path.len() + 1 + name.as_bytes().len());
        if self.parent.is_some() {
            path.extend_from_slice(&self.path);
        }
        path.push(b'/');
        path.extend_from_slice(name.as_bytes());
        path
    }

    /// Returns the id of an entry with that name and hash, if ids are derived from paths.
    pub(crate) fn id_at(&self, kind: Kind, name: &Name, hash: u64) -> VertexId {
        let home = file_home::in_directory(self.home, hash);
        id_with_home(kind, &self.path_of(name), home)
    }

    /// This directory and its ancestors.
    pub(crate) fn with_ancestors(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |d| d.parent.as_deref())
    }

    /// Whether the principal may search this directory and all its ancestors.
    pub(crate) fn may_search(&self, principal: Option<&Principal>) -> bool {
        principal.is_none_or(|a| a.uid == 0)
            || self.with_ancestors().all(|d| d.inode.allows(principal, 1))
    }

    /// Fails unless [`Self::may_search`].
    pub(crate) fn demand_search(&self, principal: Option<&Principal>) -> Result<(), FileError> {
        if self.may_search(principal) {
            return Ok(());
        }
        Err(Errno::Access.at(display(&self.path)))
    }
}

/// Cached directories by path. The whole cache is cleared when one is moved, removed or given other permissions, which is rare.
#[derive(Debug, Default)]
pub(crate) struct Directories {
    shared: RwLock<DirectoryTable>,
    /// Copies of the entries of `known` that threads of a lane have read.
    per_thread: ShardedLock<DirectoryTable>,
    epoch: AtomicU64,
}

/// Directories by path, bounded in number.
#[derive(Debug, Default)]
struct DirectoryTable {
    table: HashTable<Arc<Directory>>,
    hasher: FixedState,
}

impl DirectoryTable {
    fn get(&self, path: &[u8]) -> Option<&Arc<Directory>> {
        let hash = self.hasher.hash_one(path);
        self.table.find(hash, |d| &*d.path == path)
    }

    fn keep(&mut self, directory: &Arc<Directory>) {
        let Self { table, hasher } = self;
        if table.len() >= DIRECTORIES_MAX {
            table.clear();
        }
        let hash = |d: &Arc<Directory>| hasher.hash_one(&*d.path);
        match table.entry(hash(directory), |d| d.path == directory.path, hash) {
            Entry::Occupied(mut present) => *present.get_mut() = Arc::clone(directory),
            Entry::Vacant(place) => {
                place.insert(Arc::clone(directory));
            }
        }
    }
}

impl Directories {
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    pub(crate) fn get(&self, path: &[u8]) -> Option<Arc<Directory>> {
        let known = self.shared.read().unwrap_or_else(PoisonError::into_inner);
        known.get(path).cloned()
    }

    /// Passes the cached directory at a path to `look`. Except at the first call it writes no memory that other processors read, not even a
    /// reference count.
    pub(crate) fn look<T>(&self, path: &[u8], look: impl Fn(&Directory) -> T) -> Option<T> {
        if let Some(seen) = self
            .per_thread
            .read(|known| known.get(path).map(|d| look(d)))
        {
            return Some(seen);
        }
        let epoch = self.epoch();
        let directory = self.get(path)?;
        self.per_thread.write_shard(|known| {
            // `clear` first advances the epoch, and then clears all lanes.
            if self.epoch() == epoch {
                known.keep(&directory);
            }
        });
        Some(look(&directory))
    }

    /// Adds a directory that was read in that epoch.
    pub(crate) fn keep(&self, directory: &Arc<Directory>, epoch: u64) {
        let mut known = self.shared.write().unwrap_or_else(PoisonError::into_inner);
        if self.epoch() == epoch {
            known.keep(directory);
        }
    }

    /// Clears the cache. Must be called after the change is committed.
    pub(crate) fn clear(&self) {
        {
            let mut known = self.shared.write().unwrap_or_else(PoisonError::into_inner);
            self.epoch.fetch_add(1, Ordering::AcqRel);
            known.table.clear();
        }
        self.per_thread.write(|known| known.table.clear());
    }
}
