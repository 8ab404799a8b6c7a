//! Directories in memory: where a path leads, without reading each row on the way again.

use esker_model::lanes::Lanes;
use esker_model::namespace::{Errno, FileError, Inode, Name, display, root};
use esker_model::object::Asker;
use esker_model::{Result, VertexId};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

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
            inode,
            parent: None,
            naming: OnceLock::new(),
            departed: AtomicBool::new(false),
        }
    }

    pub(crate) fn child(self: &Arc<Self>, name: &Name, inode: Inode) -> Self {
        Self {
            id: inode.id,
            path: self.path_of(name).into(),
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
    /// All lanes have the same, but for a moment.
    lanes: Lanes<HashTable<Arc<Directory>>>,
    hasher: FixedState,
    epoch: AtomicU64,
}

impl Directories {
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    pub(crate) fn get(&self, path: &[u8]) -> Option<Arc<Directory>> {
        self.look(path, Arc::clone)
    }

    /// Shows the directory of that path to `look`, if it is known: nothing is written, not even a count of who has it.
    pub(crate) fn look<T>(
        &self,
        path: &[u8],
        look: impl FnOnce(&Arc<Directory>) -> T,
    ) -> Option<T> {
        let hash = self.hasher.hash_one(path);
        self.lanes
            .read(|known| known.find(hash, |d| &*d.path == path).map(look))
    }

    /// Keeps what was read since that epoch began.
    pub(crate) fn keep(&self, directory: &Arc<Directory>, epoch: u64) {
        let path = &*directory.path;
        let hash = self.hasher.hash_one(path);
        self.lanes.write(|known| {
            // Who forgets counts first, and comes through all lanes after that.
            if self.epoch() != epoch {
                return;
            }
            if known.len() >= KEPT_MAX {
                known.clear();
            }
            let rehash = |d: &Arc<Directory>| self.hasher.hash_one(&*d.path);
            match known.entry(hash, |d| &*d.path == path, rehash) {
                Entry::Occupied(mut present) => *present.get_mut() = Arc::clone(directory),
                Entry::Vacant(place) => {
                    place.insert(Arc::clone(directory));
                }
            }
        });
    }

    /// Forgets all. To be called once what changes is committed.
    pub(crate) fn clear(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        self.lanes.write(HashTable::clear);
    }
}
