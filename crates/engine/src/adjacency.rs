//! The adjacency cache: decoded neighbours of vertices, so that hot traversals need no seek per vertex.
//!
//! Vertices get dense numbers, so that a frontier is a `Vec<u32>`, the visited check is an array look-up, and a list of
//! neighbours takes four bytes per edge.
//!
//! **Correctness.** A traversal reads one snapshot; it may use a cached list only if the vertex's edges are the same in the
//! list and in the snapshot. Vertices are divided into shards, and each shard has a stamp: the number of writes that ended
//! in it, and of those in progress.
//! - A writer marks the shards it touches ([`Adjacency::begin_write`]), commits, drops the lists it touched, and
//!   advances the stamps ([`Adjacency::end_write`]).
//! - A reader records all stamps *before* it takes its snapshot ([`Adjacency::view`]), and uses a list only while its
//!   shard's stamp equals the recorded one and had no write in progress: then nothing was written to the shard since, so
//!   the cached list equals the snapshot.
//! - A loader adds a list that it read from its snapshot under the same condition.
//!
//! The stamps are recorded before the generation is: a list left behind in an old generation is never newer than they are.

use crate::free_memory::FreeMemory;
use esker_model::{EdgeTypeId, Version, VertexId};
use foldhash::fast::FixedState;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

const SHARDS: usize = 1024;

/// One vertex's neighbours over one edge type, in key order.
#[derive(Debug)]
pub(crate) struct List {
    /// Dense numbers of the neighbours.
    pub(crate) targets: Box<[u32]>,
    /// Version at which each edge got its properties.
    pub(crate) versions: ListVersions,
    /// Newest version of any row of the range, including tombstones: the list is valid as of it or later.
    pub(crate) newest: Version,
    /// Number of edges read to build the list, including those that filters dropped.
    pub(crate) looked_at: u64,
}

/// Versions of a list's edges: bulk loads give many edges one version.
#[derive(Debug)]
pub(crate) enum ListVersions {
    Same(Version),
    Each(Box<[Version]>),
}

impl ListVersions {
    pub(crate) fn of(versions: Vec<Version>) -> Self {
        match versions.first() {
            Some(first) if versions.iter().all(|v| v == first) => Self::Same(*first),
            None => Self::Same(Version::ZERO),
            Some(_) => Self::Each(versions.into()),
        }
    }

    pub(crate) fn get(&self, i: usize) -> Version {
        match self {
            Self::Same(version) => *version,
            Self::Each(versions) => versions.get(i).copied().unwrap_or(Version::ZERO),
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Same(_) => 0,
            Self::Each(versions) => 8 * versions.len() as u64,
        }
    }
}

/// Dense numbers and the lists over them. Replaced entirely when it outgrows its budget; traversals in progress keep
/// the one they began with.
#[derive(Debug, Default)]
pub(crate) struct Generation {
    pub(crate) inner: RwLock<Inner>,
}

#[derive(Debug, Default)]
pub(crate) struct Inner {
    numbers: HashMap<VertexId, u32, FixedState>,
    pub(crate) ids: Vec<VertexId>,
    /// By edge type, then by dense number.
    lists: Vec<Vec<Option<Arc<List>>>>,
    bytes: u64,
    count: u64,
    edges: u64,
    /// Position from which eviction continues: (edge type, dense number).
    hand: (usize, usize),
}

const VERTEX_BYTES: u64 = 16 + 16 + 8 + 4;
const LIST_BYTES: u64 = 64;

impl List {
    fn bytes(&self) -> u64 {
        LIST_BYTES + 4 * self.targets.len() as u64 + self.versions.bytes()
    }
}

impl Inner {
    /// Returns the dense number of a vertex; assigns one if it has none.
    pub(crate) fn number(&mut self, id: VertexId) -> u32 {
        if let Some(number) = self.numbers.get(&id) {
            return *number;
        }
        let number = self.ids.len() as u32;
        self.numbers.insert(id, number);
        self.ids.push(id);
        self.bytes += VERTEX_BYTES;
        number
    }

    /// Returns a list, whether or not the reader may use it: see [`Adjacency::is_valid`].
    pub(crate) fn list(&self, edge_type: EdgeTypeId, number: u32) -> Option<&Arc<List>> {
        self.lists
            .get(usize::from(edge_type.0))?
            .get(number as usize)?
            .as_ref()
    }

    fn insert(&mut self, edge_type: EdgeTypeId, number: u32, list: Arc<List>) {
        let t = usize::from(edge_type.0);
        if self.lists.len() <= t {
            self.lists.resize_with(t + 1, Vec::new);
        }
        let of_type = &mut self.lists[t];
        if of_type.len() <= number as usize {
            let grown = (number as usize + 1).next_power_of_two();
            self.bytes += (grown - of_type.len()) as u64 * size_of::<Option<Arc<List>>>() as u64;
            of_type.resize_with(grown, || None);
        }
        self.bytes += list.bytes();
        self.count += 1;
        self.edges += list.targets.len() as u64;
        let old = of_type[number as usize].replace(list);
        self.forget(old);
    }

    fn remove(&mut self, edge_type: EdgeTypeId, number: u32) {
        let slot = self
            .lists
            .get_mut(usize::from(edge_type.0))
            .and_then(|t| t.get_mut(number as usize));
        let old = slot.and_then(Option::take);
        self.forget(old);
    }

    fn forget(&mut self, list: Option<Arc<List>>) {
        if let Some(list) = list {
            self.bytes -= list.bytes();
            self.count -= 1;
            self.edges -= list.targets.len() as u64;
        }
    }

    /// Drops lists in rotation until at most `bytes_max` are used or none are left.
    fn evict(&mut self, bytes_max: u64) {
        let slots: usize = self.lists.iter().map(Vec::len).sum();
        for _ in 0..slots {
            if self.bytes <= bytes_max {
                return;
            }
            let (t, n) = self.hand;
            match self.lists.get(t).map(Vec::len) {
                None => self.hand = (0, 0),
                Some(len) if n >= len => self.hand = (t + 1, 0),
                Some(_) => {
                    self.remove(EdgeTypeId(t as u16), n as u32);
                    self.hand = (t, n + 1);
                }
            }
        }
    }
}

/// Size of the cache's content.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AdjacencyStats {
    pub(crate) lists: u64,
    pub(crate) edges: u64,
    pub(crate) bytes: u64,
}

/// The cache of adjacency lists.
#[derive(Debug)]
pub(crate) struct Adjacency {
    generation: RwLock<Arc<Generation>>,
    bytes_max: u64,
    /// Unused memory, which other caches may borrow.
    free_memory: Arc<FreeMemory>,
    /// By shard: the number of writes that ended in it, plus 2^48 for each in progress.
    stamps: Vec<AtomicU64>,
}

const UNDER_WAY: u64 = 1 << 48;

fn shard(id: VertexId) -> usize {
    usize::from(u16::from_be_bytes([id.0[14], id.0[15]])) % SHARDS
}

/// Shards marked dirty by one write.
#[must_use]
pub(crate) struct DirtyShards(Vec<usize>);

/// Stamps and generation that a reader recorded before it took its snapshot.
#[derive(Debug)]
pub(crate) struct CacheView {
    pub(crate) generation: Arc<Generation>,
    stamps: Vec<u64>,
}

impl Adjacency {
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self {
            generation: RwLock::default(),
            bytes_max,
            free_memory: Arc::new(FreeMemory::of(bytes_max)),
            stamps: (0..SHARDS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// The unused memory of this cache.
    pub(crate) fn free_memory(&self) -> Arc<FreeMemory> {
        Arc::clone(&self.free_memory)
    }

    fn generation(&self) -> Arc<Generation> {
        Arc::clone(
            &self
                .generation
                .read()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }

    pub(crate) fn stats(&self) -> AdjacencyStats {
        let generation = self.generation();
        let inner = generation
            .inner
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        AdjacencyStats {
            lists: inner.count,
            edges: inner.edges,
            bytes: inner.bytes,
        }
    }

    /// Marks shards before a commit: until `end_write` no reader uses or adds a list of these shards.
    pub(crate) fn begin_write(&self, touched: &[(VertexId, EdgeTypeId)]) -> DirtyShards {
        let mut shards: Vec<usize> = touched.iter().map(|(id, _)| shard(*id)).collect();
        shards.sort_unstable();
        shards.dedup();
        for s in &shards {
            self.stamps[*s].fetch_add(UNDER_WAY, Ordering::SeqCst);
        }
        DirtyShards(shards)
    }

    /// Marks all shards before a write that may touch anything.
    pub(crate) fn begin_write_everywhere(&self) -> DirtyShards {
        for stamp in &self.stamps {
            stamp.fetch_add(UNDER_WAY, Ordering::SeqCst);
        }
        DirtyShards((0..SHARDS).collect())
    }

    /// Ends a write that may have touched anything: drops all lists.
    pub(crate) fn end_write_everywhere(&self, dirty: DirtyShards) {
        *self
            .generation
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Arc::default();
        self.free_memory.set(self.bytes_max);
        self.end_write(dirty, &[]);
    }

    /// Ends a commit, whether or not it succeeded: drops the touched lists and advances the stamps.
    pub(crate) fn end_write(&self, dirty: DirtyShards, touched: &[(VertexId, EdgeTypeId)]) {
        let generation = self.generation();
        let any = generation
            .inner
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .count
            > 0;
        if any {
            let mut inner = generation
                .inner
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            for (id, edge_type) in touched {
                if let Some(number) = inner.numbers.get(id).copied() {
                    inner.remove(*edge_type, number);
                }
            }
        }
        for s in dirty.0 {
            // One more ended, one less in progress.
            self.stamps[s].fetch_sub(UNDER_WAY - 1, Ordering::SeqCst);
        }
    }

    /// Records the stamps and the generation; must be called before the reader takes its snapshot.
    pub(crate) fn view(&self) -> CacheView {
        let stamps = self
            .stamps
            .iter()
            .map(|s| s.load(Ordering::SeqCst))
            .collect();
        CacheView {
            generation: self.generation(),
            stamps,
        }
    }

    /// Whether the cached lists of a vertex are, now, those of the snapshot taken after the view.
    pub(crate) fn is_valid(&self, view: &CacheView, id: VertexId) -> bool {
        let s = shard(id);
        let stamp = self.stamps[s].load(Ordering::SeqCst);
        stamp == view.stamps[s] && stamp < UNDER_WAY
    }

    /// Adds lists that were loaded from the view's snapshot, unless a write has happened since.
    pub(crate) fn add(&self, view: &CacheView, loaded: &[LoadedList]) {
        let mut inner = view
            .generation
            .inner
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        for LoadedList {
            number,
            edge_type,
            list,
        } in loaded
        {
            // Checked under the lock that `end_write` takes before it advances the stamp.
            let id = inner.ids.get(*number as usize).copied();
            if id.is_some_and(|id| self.is_valid(view, id)) {
                inner.insert(*edge_type, *number, Arc::clone(list));
            }
        }
        if inner.bytes > self.bytes_max {
            inner.evict(self.bytes_max - self.bytes_max / 8);
            if inner.bytes > self.bytes_max {
                // The dense numbers alone exceed the budget: start a new generation. Traversals in progress keep the old one.
                *self
                    .generation
                    .write()
                    .unwrap_or_else(PoisonError::into_inner) = Arc::default();
                self.free_memory.set(self.bytes_max);
                return;
            }
        }
        self.free_memory
            .set(self.bytes_max.saturating_sub(inner.bytes));
    }
}

/// An adjacency list read from the store.
#[derive(Debug)]
pub(crate) struct LoadedList {
    pub(crate) number: u32,
    pub(crate) edge_type: EdgeTypeId,
    pub(crate) list: Arc<List>,
}
