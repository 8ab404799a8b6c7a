//! The directory cache: resolves paths without reading each row again.

use esker_model::namespace::{
    Errno, FileError, Inode, Kind, Name, PATH_BYTES_MAX, display, hash_of, id_with_home, root,
};
use esker_model::object::Principal;
use esker_model::sharded_lock::ShardedLock;
use esker_model::{Result, VertexId, file_home};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::borrow::Cow;
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

/// Location of a directory.
#[derive(Debug)]
enum Location {
    /// Its path, without symbolic links.
    Path(Box<[u8]>),
    /// Its name in its parent, if its path is longer than [`PATH_BYTES_MAX`]. The paths of a deep tree together would
    /// need memory that grows with the square of the depth.
    Deep(Name),
}

/// A directory with its ancestors.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) id: VertexId,
    location: Location,
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
        Self::without_ancestors(root(), inode)
    }

    /// Creates a directory without path and ancestors, for an open directory.
    pub(crate) fn detached(inode: Inode) -> Self {
        Self::without_ancestors(inode.id, inode)
    }

    fn without_ancestors(id: VertexId, inode: Inode) -> Self {
        Self {
            id,
            location: Location::Path((*b"/").into()),
            home: 0,
            inode,
            parent: None,
            naming: OnceLock::new(),
            departed: AtomicBool::new(false),
        }
    }

    pub(crate) fn child(self: &Arc<Self>, name: &Name, inode: Inode) -> Self {
        let location = match self.short_path() {
            Some(path) if path.len() + 1 + name.as_bytes().len() <= PATH_BYTES_MAX => {
                Location::Path(self.path_of(name).into())
            }
            _ => Location::Deep(name.clone()),
        };
        Self {
            id: inode.id,
            location,
            home: file_home::in_directory(self.home, hash_of(name)),
            inode,
            parent: Some(Arc::clone(self)),
            naming: OnceLock::new(),
            departed: AtomicBool::new(false),
        }
    }

    /// Returns the path without symbolic links, unless it is longer than [`PATH_BYTES_MAX`].
    pub(crate) fn short_path(&self) -> Option<&[u8]> {
        match &self.location {
            Location::Path(path) => Some(path),
            Location::Deep(_) => None,
        }
    }

    /// Returns the path without symbolic links, of any length.
    pub(crate) fn path(&self) -> Cow<'_, [u8]> {
        if let Some(path) = self.short_path() {
            return Cow::Borrowed(path);
        }
        let above: Vec<&Self> = self.with_ancestors().collect();
        let mut out = Vec::new();
        for directory in above.into_iter().rev() {
            match &directory.location {
                Location::Path(path) => out = path.to_vec(),
                Location::Deep(name) => {
                    out.push(b'/');
                    out.extend_from_slice(name.as_bytes());
                }
            }
        }
        Cow::Owned(out)
    }

    /// Returns the name in the parent directory; `None` for the root.
    pub(crate) fn name(&self) -> Result<Option<Name>, FileError> {
        match &self.location {
            Location::Path(path) => {
                let name = path.rsplit(|b| *b == b'/').next().unwrap_or_default();
                (!name.is_empty()).then(|| Name::new(name)).transpose()
            }
            Location::Deep(name) => Ok(Some(name.clone())),
        }
    }

    /// Returns the path of an entry.
    pub(crate) fn path_of(&self, name: &Name) -> Vec<u8> {
        let above = self.path();
        let mut path = Vec::with_capacity(above.len() + 1 + name.as_bytes().len());
        if self.parent.is_some() {
            path.extend_from_slice(&above);
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
        Err(Errno::Access.at(display(&self.path())))
    }
}

impl Drop for Directory {
    /// Frees the ancestors that only this directory has, one after the other: a deep tree would exhaust the stack.
    fn drop(&mut self) {
        let mut next = self.parent.take();
        while let Some(mut directory) = next.and_then(Arc::into_inner) {
            next = directory.parent.take();
        }
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
        self.table.find(hash, |d| d.short_path() == Some(path))
    }

    fn keep(&mut self, directory: &Arc<Directory>) {
        let Self { table, hasher } = self;
        let path = directory.short_path();
        if path.is_none() {
            return;
        }
        if table.len() >= DIRECTORIES_MAX {
            table.clear();
        }
        let hash = |d: &Arc<Directory>| hasher.hash_one(d.short_path().unwrap_or_default());
        match table.entry(hash(directory), |d| d.short_path() == path, hash) {
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
