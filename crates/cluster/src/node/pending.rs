//! What is prepared and not yet decided here, and who waits for it.
//!
//! A prepared part will take a version no earlier than its floor. So a read of what was at a time waits for the parts that
//! touch what it reads and may fall before that time; then no later write can change what it saw. (Clock-SI, Du et al.,
//! SRDS 2013, does the same.)

use super::hashed::Map;
use crate::peer::{Change, Part, TxId};
use crate::vnode::ServerId;
use esker_model::{Version, VertexId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::task::Waker;

/// A prepared part.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) floor: Version,
    pub(crate) part: Arc<Part>,
    /// What its coordinator said then: all its transactions below that number are over, everywhere.
    over: u64,
    vertices: Vec<VertexId>,
    /// What no other may have prepared meanwhile.
    alone: Vec<VertexId>,
    /// Whether it may touch anything.
    all: bool,
    /// Whether it concerns the namespace, and whether nothing else of that may be under way.
    names: bool,
    structure: bool,
}

/// The prepared parts of a server.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    entries: Map<TxId, Entry>,
    /// How many entries touch a vertex.
    vertices: Map<VertexId, u32>,
    /// Who has what only one may have ([`Change::alone`]).
    alone: Map<VertexId, TxId>,
    /// How many entries may touch anything.
    all: u32,
    /// How many entries move or remove directories, or give them other permissions.
    structures: u32,
    /// By coordinator: its incarnation, the number below which all are over, and those above it that are over.
    over: BTreeMap<ServerId, Over>,
    wakers: Vec<Waker>,
}

#[derive(Debug, Default)]
struct Over {
    incarnation: u64,
    below: u64,
    numbers: BTreeSet<u64>,
}

impl Pending {
    /// Takes a part, unless its transaction is over or its coordinator was started anew.
    pub(crate) fn add(&mut self, tx: TxId, floor: Version, part: Arc<Part>, over: u64) -> bool {
        if self.is_over(tx) {
            return false;
        }
        let mut vertices = Vec::with_capacity(part.ops.len());
        let mut alone = Vec::new();
        for op in &part.ops {
            op.change.touches(&mut |id| vertices.push(id));
            op.change.alone(&mut |id| alone.push(id));
        }
        vertices.sort_unstable();
        vertices.dedup();
        // Rows that come from another server count at whatever time.
        let adopts = part
            .ops
            .iter()
            .any(|op| matches!(op.change, Change::Adopt(_)));
        let names = part.ops.iter().any(|op| op.change.is_names());
        let structure = part.ops.iter().any(|op| op.change.is_structure());
        let entry = Entry {
            floor: if adopts { Version::ZERO } else { floor },
            part,
            over,
            vertices,
            alone,
            all: false,
            names,
            structure,
        };
        self.structures += u32::from(structure);
        for id in &entry.vertices {
            *self.vertices.entry(*id).or_default() += 1;
        }
        for id in &entry.alone {
            self.alone.insert(*id, tx);
        }
        if let Some(before) = self.entries.insert(tx, entry) {
            // It came twice.
            self.structures -= u32::from(before.structure);
            self.forget(&before.vertices);
        }
        true
    }

    /// Something of this server's own that may touch anything is to be done at that version.
    pub(crate) fn add_all(&mut self, tx: TxId, version: Version) {
        self.all += 1;
        let entry = Entry {
            floor: version,
            part: Arc::default(),
            over: 0,
            vertices: Vec::new(),
            alone: Vec::new(),
            all: true,
            names: false,
            structure: false,
        };
        self.entries.insert(tx, entry);
    }

    /// What is known to be over of a coordinator that has been started so often; nothing of one that has been since.
    fn over_of(&mut self, server: ServerId, incarnation: u64) -> Option<&mut Over> {
        let over = self.over.entry(server).or_default();
        if incarnation > over.incarnation {
            *over = Over {
                incarnation,
                ..Over::default()
            };
        }
        (incarnation == over.incarnation).then_some(over)
    }

    /// Notes that all transactions of a coordinator below a number are over.
    pub(crate) fn learn(&mut self, server: ServerId, incarnation: u64, below: u64) {
        let Some(over) = self.over_of(server, incarnation) else {
            return;
        };
        if below <= over.below {
            return;
        }
        over.below = below;
        over.numbers = over.numbers.split_off(&below);
        let stale = self.entries.keys().copied();
        let stale = stale
            .filter(|tx| tx.server == server && tx.incarnation == incarnation && tx.number < below);
        for tx in stale.collect::<Vec<_>>() {
            self.end(tx);
        }
    }

    /// Whether the transaction is over here.
    pub(crate) fn is_over(&self, tx: TxId) -> bool {
        self.over.get(&tx.server).is_some_and(|over| {
            tx.incarnation < over.incarnation
                || tx.incarnation == over.incarnation
                    && (tx.number < over.below || over.numbers.contains(&tx.number))
        })
    }

    /// The part, for as long as it is being done: it is pending until [`Self::end`].
    pub(crate) fn part(&self, tx: TxId) -> Option<Arc<Part>> {
        self.entries.get(&tx).map(|e| Arc::clone(&e.part))
    }

    /// The transaction is over, whichever way.
    pub(crate) fn end(&mut self, tx: TxId) {
        // It may come to an end before it comes here at all.
        if let Some(over) = self.over_of(tx.server, tx.incarnation)
            && tx.number >= over.below
        {
            over.numbers.insert(tx.number);
        }
        if let Some(entry) = self.entries.remove(&tx) {
            self.all -= u32::from(entry.all);
            self.structures -= u32::from(entry.structure);
            self.forget(&entry.vertices);
            for id in &entry.alone {
                if self.alone.get(id) == Some(&tx) {
                    self.alone.remove(id);
                }
            }
        }
        self.wake();
    }

    /// A coordinator was started anew: what it had prepared before and has not decided never will be.
    pub(crate) fn end_before(&mut self, server: ServerId, incarnation: u64) {
        let stale = self.entries.keys().copied();
        let stale = stale.filter(|tx| tx.server == server && tx.incarnation < incarnation);
        for tx in stale.collect::<Vec<_>>() {
            self.end(tx);
        }
    }

    fn forget(&mut self, vertices: &[VertexId]) {
        for id in vertices {
            if let Some(count) = self.vertices.get_mut(id) {
                *count -= 1;
                if *count == 0 {
                    self.vertices.remove(id);
                }
            }
        }
    }

    fn wake(&mut self) {
        self.wakers.drain(..).for_each(Waker::wake);
    }

    /// Somebody wants to look again after the next end.
    pub(crate) fn wait(&mut self, waker: &Waker) {
        if !self.wakers.iter().any(|w| w.will_wake(waker)) {
            self.wakers.push(waker.clone());
        }
    }

    /// A transaction that a read as of that time has to wait for: of these vertices, or of any.
    pub(crate) fn blocks(&self, vertices: Option<&[VertexId]>, at: Version) -> Option<TxId> {
        self.blocks_but(None, vertices, at)
    }

    /// The same, but for one.
    pub(crate) fn blocks_but(
        &self,
        but: Option<TxId>,
        vertices: Option<&[VertexId]>,
        at: Version,
    ) -> Option<TxId> {
        if self.entries.is_empty() {
            return None;
        }
        if self.all == 0
            && let Some(ids) = vertices
            && ids.iter().all(|id| !self.vertices.contains_key(id))
        {
            return None;
        }
        let touches = |e: &Entry| match vertices {
            _ if e.all => true,
            None => true,
            Some([id]) => e.vertices.binary_search(id).is_ok(),
            Some(ids) => ids.iter().any(|id| e.vertices.binary_search(id).is_ok()),
        };
        let mut entries = self.entries.iter();
        let found = entries.find(|(tx, e)| e.floor <= at && but != Some(**tx) && touches(e));
        found.map(|(tx, _)| *tx)
    }

    /// Another transaction that has prepared what only one may.
    pub(crate) fn held(&self, tx: TxId, part: &Part) -> Option<TxId> {
        let structure = part.ops.iter().any(|op| op.change.is_structure());
        let others = || self.entries.iter().filter(|(other, _)| **other != tx);
        if structure && let Some((other, _)) = others().find(|(_, e)| e.names) {
            return Some(*other);
        }
        if self.structures > 0
            && part.ops.iter().any(|op| op.change.is_names())
            && let Some((other, _)) = others().find(|(_, e)| e.structure)
        {
            return Some(*other);
        }
        if self.alone.is_empty() {
            return None;
        }
        let mut holder = None;
        for op in &part.ops {
            op.change.alone(&mut |id| {
                let other = self.alone.get(&id).filter(|other| **other != tx);
                holder = holder.or(other.copied());
            });
        }
        holder
    }

    /// Whether only one transaction may have something, and one has.
    pub(crate) fn is_locked(&self, what: impl FnOnce() -> VertexId) -> bool {
        !self.alone.is_empty() && self.alone.contains_key(&what())
    }

    /// Whether directories are moved or removed now, or get other permissions.
    pub(crate) fn structure_changes(&self) -> bool {
        self.structures > 0
    }

    /// Below which number the coordinator had said that all are over when it sent this part to be prepared.
    pub(crate) fn over_before(&self, tx: TxId) -> Option<u64> {
        self.entries.get(&tx).map(|e| e.over)
    }

    /// Whether a partition of a vertex is on its way to here.
    pub(crate) fn adopts(&self, id: VertexId) -> bool {
        self.vertices.contains_key(&id)
            && self
                .entries
                .values()
                .any(|e| e.floor == Version::ZERO && e.vertices.contains(&id))
    }

    /// Whether a part that is prepared touches a vertex.
    pub(crate) fn touches(&self, id: VertexId) -> bool {
        self.vertices.contains_key(&id)
    }

    /// How many parts are prepared.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}
