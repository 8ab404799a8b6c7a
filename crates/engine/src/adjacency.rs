//! The adjacency cache: who is next to whom, decoded, so that hot traversals pay no seek a vertex.
//!
//! Vertices get dense numbers, so that a frontier is a `Vec<u32>`, "seen before" is an array look-up, and a list of
//! neighbours is four bytes an edge.
//!
//! **Why a list in the cache is true.** A traversal reads one snapshot; it may use a list if the vertex's edges are
//! the same in the list and in the snapshot. Vertices fall into shards, and each shard has a stamp: the number of
//! writes that ended in it, and of those under way.
//! - A writer marks the shards it touches ([`Adjacency::begin_write`]), commits, drops the lists it touched, and
//!   moves the stamps on ([`Adjacency::end_write`]).
//! - A reader notes all stamps *before* it takes its snapshot ([`Adjacency::view`]), and uses a list only while its
//!   shard's stamp is the one noted and no write was under way: then nothing was written to the shard since, so what
//!   is in the cache now is what the snapshot has.
//! - A loader adds a list that it read from its snapshot under the same condition.
//!
//! The stamps are noted before the generation is: a list left behind in an old generation is never newer than them.

use crate::spare::Spare;
use esker_model::{EdgeTypeId, Version, VertexId};
use foldhash::fast::FixedState;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

const SHARDS: usize = 1024;

/// One vertex's neighbours over one edge type, in key order.
#[derive(Debug)]
pub(crate) struct List {
    /// Dense numbers.
    pub(crate) targets: Box<[u32]>,
    /// When each edge took its properties.
    pub(crate) versions: ListVersions,
    /// The newest version of any row of that range, deletions included: as of it or later, the list holds.
    pub(crate) newest: Version,
    /// How many edges were read for it, those deleted or filtered out included.
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

/// Dense numbers and the lists over them. Replaced as a whole when it outgrows its budget; traversals under way keep
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
    /// Where eviction goes on: (edge type, dense number).
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
    /// The dense number of a vertex, given now if it has none.
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

    /// A list, whether or not the reader may use it: see [`Adjacency::holds`].
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

    /// Drops lists, in turn, until `bytes_max` is kept or none are left.
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

/// What the cache holds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Figures {
    pub(crate) lists: u64,
    pub(crate) edges: u64,
    pub(crate) bytes: u64,
}

/// The cache.
#[derive(Debug)]
pub(crate) struct Adjacency {
    generation: RwLock<Arc<Generation>>,
    bytes_max: u64,
    /// What is not taken, which others may use meanwhile.
    spare: Arc<Spare>,
    /// By shard: the number of writes that ended in it, plus 2^48 for each that is under way.
    stamps: Vec<AtomicU64>,
}

const UNDER_WAY: u64 = 1 << 48;

fn shard(id: VertexId) -> usize {
    usize::from(u16::from_be_bytes([id.0[14], id.0[15]])) % SHARDS
}

/// Shards marked dirty by one write.
#[must_use]
pub(crate) struct Dirty(Vec<usize>);

/// What a reader noted before it took its snapshot.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) generation: Arc<Generation>,
    stamps: Vec<u64>,
}

impl Adjacency {
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self {
            generation: RwLock::default(),
            bytes_max,
            spare: Arc::new(Spare::of(bytes_max)),
            stamps: (0..SHARDS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// What is not taken.
    pub(crate) fn spare(&self) -> Arc<Spare> {
        Arc::clone(&self.spare)
    }

    fn generation(&self) -> Arc<Generation> {
        Arc::clone(
            &self
                .generation
                .read()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }

    pub(crate) fn figures(&self) -> Figures {
        let generation = self.generation();
        let inner = generation
            .inner
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        Figures {
            lists: inner.count,
            edges: inner.edges,
            bytes: inner.bytes,
        }
    }

    /// Before a commit: from now on nobody uses or adds a list of these shards.
    pub(crate) fn begin_write(&self, touched: &[(VertexId, EdgeTypeId)]) -> Dirty {
        let mut shards: Vec<usize> = touched.iter().map(|(id, _)| shard(*id)).collect();
        shards.sort_unstable();
        shards.dedup();
        for s in &shards {
            self.stamps[*s].fetch_add(UNDER_WAY, Ordering::SeqCst);
        }
        Dirty(shards)
    }

    /// Before a write that may touch anything.
    pub(crate) fn begin_write_everywhere(&self) -> Dirty {
        for stamp in &self.stamps {
            stamp.fetch_add(UNDER_WAY, Ordering::SeqCst);
        }
        Dirty((0..SHARDS).collect())
    }

    /// After a write that may have touched anything.
    pub(crate) fn end_write_everywhere(&self, dirty: Dirty) {
        *self
            .generation
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Arc::default();
        self.spare.set(self.bytes_max);
        self.end_write(dirty, &[]);
    }

    /// After a commit, whether or not it succeeded.
    pub(crate) fn end_write(&self, dirty: Dirty, touched: &[(VertexId, EdgeTypeId)]) {
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
            // One more ended, one less under way.
            self.stamps[s].fetch_sub(UNDER_WAY - 1, Ordering::SeqCst);
        }
    }

    /// What a reader must note before it takes its snapshot.
    pub(crate) fn view(&self) -> View {
        let stamps = self
            .stamps
            .iter()
            .map(|s| s.load(Ordering::SeqCst))
            .collect();
        View {
            generation: self.generation(),
            stamps,
        }
    }

    /// Whether the lists of a vertex are, at this moment, those of the snapshot taken after the view.
    pub(crate) fn holds(&self, view: &View, id: VertexId) -> bool {
        let s = shard(id);
        let stamp = self.stamps[s].load(Ordering::SeqCst);
        stamp == view.stamps[s] && stamp < UNDER_WAY
    }

    /// Adds lists that were loaded from the view's snapshot, unless a write came in between.
    pub(crate) fn add(&self, view: &View, loaded: &[Loaded]) {
        let mut inner = view
            .generation
            .inner
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        for Loaded {
            number,
            edge_type,
            list,
        } in loaded
        {
            // Checked under the lock that `end_write` takes before it moves the stamp on.
            let id = inner.ids.get(*number as usize).copied();
            if id.is_some_and(|id| self.holds(view, id)) {
                inner.insert(*edge_type, *number, Arc::clone(list));
            }
        }
        if inner.bytes > self.bytes_max {
            inner.evict(self.bytes_max - self.bytes_max / 8);
            if inner.bytes > self.bytes_max {
                // Numbers alone are too many: begin anew. Traversals under way keep the old ones.
                *self
                    .generation
                    .write()
                    .unwrap_or_else(PoisonError::into_inner) = Arc::default();
                self.spare.set(self.bytes_max);
                return;
            }
        }
        self.spare.set(self.bytes_max.saturating_sub(inner.bytes));
    }
}

/// A list read from the store.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) number: u32,
    pub(crate) edge_type: EdgeTypeId,
    pub(crate) list: Arc<List>,
}
