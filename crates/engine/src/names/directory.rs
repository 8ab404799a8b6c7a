//! Directories in memory: where a path leads, without reading each row on the way again.

use esker_model::namespace::{
    Errno, FileError, Inode, Kind, Name, display, hash_of, id_at_place, root,
};
use esker_model::object::Asker;
use esker_model::{Result, VertexId, place};
use foldhash::fast::FixedState;
use std::collections::HashMap;
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

    /// The id of what has that name in it, if it has its path's.
    pub(crate) fn id_at(&self, kind: Kind, name: &Name) -> VertexId {
        let place = place::within(self.place, hash_of(name));
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

type Map = HashMap<Box<[u8]>, Arc<Directory>, FixedState>;

/// Directories by their paths. Dropped, all of them, when one is moved or removed or gets another mode: that is rare.
#[derive(Debug, Default)]
pub(crate) struct Directories {
    map: RwLock<Map>,
    epoch: AtomicU64,
}

impl Directories {
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    pub(crate) fn get(&self, path: &[u8]) -> Option<Arc<Directory>> {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        map.get(path).cloned()
    }

    /// Keeps what was read since that epoch began.
    pub(crate) fn keep(&self, directory: &Arc<Directory>, epoch: u64) {
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        if self.epoch() != epoch {
            return;
        }
        if map.len() >= KEPT_MAX {
            map.clear();
        }
        map.insert(directory.path.clone(), Arc::clone(directory));
    }

    /// Forgets all. To be called once what changes is committed.
    pub(crate) fn clear(&self) {
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        self.epoch.fetch_add(1, Ordering::AcqRel);
        map.clear();
    }
}
