//! Directories in memory: where a path leads, without reading each row on the way again.

use esker_model::lanes::Lanes;
use esker_model::namespace::{
    Errno, FileError, Inode, Kind, Name, display, hash_of, id_at_place, root,
};
use esker_model::object::Asker;
use esker_model::{Result, VertexId, place};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

/// So many directories are kept.
const KEPT_MAX: usize = 1 << 16;

/// How a directory's files get their ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Naming {
    /// From their paths: what others have said of a file at that path is said of it.
    Path,
    /// From the directory's id and their names: others may be known by those paths.
    Within,
}

/// A directory on the way to something.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) id: VertexId,
    /// Without symbolic links.
    pub(crate) path: Box<[u8]>,
    /// The place of that path: ids of what is in it are made from it.
    place: u16,
    pub(crate) inode: Inode,
    pub(crate) parent: Option<Arc<Self>>,
    /// For those who make files.
    pub(crate) naming: OnceLock<Naming>,
    /// Something left it: an id made from a path may be taken.
    pub(crate) departed: AtomicBool,
}

impl Directory {
    pub(crate) fn root(inode: Inode) -> Self {
        Self {
            id: root(),
            path: (*b"/").into(),
            place: 0,
            inode,
            parent: None,
            naming: OnceLock::new(),
            departed: AtomicBool::new(false),
        }
    }

    /// One of which nothing but itself is asked: an open one.
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
            place: place::within(self.place, hash_of(name)),
            inode,
            parent: Some(Arc::clone(self)),
            naming: OnceLock::new(),
            departed: AtomicBool::new(false),
        }
    }

    /// The path of an entry.
    pub(crate) fn path_of(&self, name: &Name) -> Vec<u8> {
        let mut path = Vec::with_capacity(self.path.len() + 1 + name.as_bytes().len());
        if self.parent.is_some() {
            path.extend_from_slice(&self.path);
        }
        path.push(b'/');
        path.extend_from_slice(name.as_bytes());
        path
    }

    /// The id of what has that name, with that hash, in it, if it has its path's.
    pub(crate) fn id_at(&self, kind: Kind, name: &Name, hash: u64) -> VertexId {
        let place = place::within(self.place, hash);
        id_at_place(kind, &self.path_of(name), place)
    }

    /// Itself, and the directories above it.
    pub(crate) fn upwards(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |d| d.parent.as_deref())
    }

    /// Whether someone gets here and may look names up.
    pub(crate) fn may_search(&self, asker: Option<&Asker>) -> bool {
        asker.is_none_or(|a| a.uid == 0) || self.upwards().all(|d| d.inode.allows(asker, 1))
    }

    /// The same, as a refusal.
    pub(crate) fn demand_search(&self, asker: Option<&Asker>) -> Result<(), FileError> {
        if self.may_search(asker) {
            return Ok(());
        }
        Err(Errno::Access.at(display(&self.path)))
    }
}

/// Directories by their paths. Dropped, all of them, when one is moved or removed or gets another mode: that is rare.
#[derive(Debug, Default)]
pub(crate) struct Directories {
    known: RwLock<Known>,
    /// Those of `known` that threads of a lane have asked for.
    asked: Lanes<Known>,
    epoch: AtomicU64,
}

/// Directories by their paths, not too many.
#[derive(Debug, Default)]
struct Known {
    table: HashTable<Arc<Directory>>,
    hasher: FixedState,
}

impl Known {
    fn get(&self, path: &[u8]) -> Option<&Arc<Directory>> {
        let hash = self.hasher.hash_one(path);
        self.table.find(hash, |d| &*d.path == path)
    }

    fn keep(&mut self, directory: &Arc<Directory>) {
        let Self { table, hasher } = self;
        if table.len() >= KEPT_MAX {
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
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.get(path).cloned()
    }

    /// Shows the directory of that path to `look`, if it is known: nothing is written that other processors read, not even a count of who has
    /// it, but for the first time.
    pub(crate) fn look<T>(&self, path: &[u8], look: impl Fn(&Directory) -> T) -> Option<T> {
        if let Some(seen) = self.asked.read(|known| known.get(path).map(|d| look(d))) {
            return Some(seen);
        }
        let epoch = self.epoch();
        let directory = self.get(path)?;
        self.asked.write_own(|known| {
            // Who forgets counts first, and comes through all lanes after that.
            if self.epoch() == epoch {
                known.keep(&directory);
            }
        });
        Some(look(&directory))
    }

    /// Keeps what was read since that epoch began.
    pub(crate) fn keep(&self, directory: &Arc<Directory>, epoch: u64) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if self.epoch() == epoch {
            known.keep(directory);
        }
    }

    /// Forgets all. To be called once what changes is committed.
    pub(crate) fn clear(&self) {
        {
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            self.epoch.fetch_add(1, Ordering::AcqRel);
            known.table.clear();
        }
        self.asked.write(|known| known.table.clear());
    }
}
