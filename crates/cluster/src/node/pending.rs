//! Transactions that are prepared and not yet decided here, and the reads that wait for them.
//!
//! A prepared part will take a version no earlier than its floor. So a read as of a version waits for the parts that
//! touch what it reads and may take an earlier version; then no later write can change what the read saw. (Clock-SI,
//! Du et al., SRDS 2013, does the same.)

use super::hashed::Map;
use crate::peer::{Change, Part, TxId};
use crate::vnode::ServerId;
use esker_model::{Version, VertexId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::task::Waker;

/// A prepared part of a transaction.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) floor: Version,
    pub(crate) part: Arc<Part>,
    /// Statement of the coordinator with this part: all its transactions below that number have ended everywhere.
    over: u64,
    vertices: Vec<VertexId>,
    /// Items that no other transaction may have prepared meanwhile.
    exclusive: Vec<VertexId>,
    /// Whether the transaction may touch anything.
    all: bool,
    /// Whether the part concerns the namespace, and whether it excludes all other namespace operations.
    names: bool,
    structure: bool,
}

/// The prepared parts of a server.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    entries: Map<TxId, Entry>,
    /// Number of entries that touch a vertex.
    vertices: Map<VertexId, u32>,
    /// Holders of exclusive items ([`Change::exclusive`]).
    exclusive: Map<VertexId, TxId>,
    /// Number of entries that may touch anything.
    all: u32,
    /// Number of entries that move or remove directories, or change their permissions.
    structures: u32,
    /// By coordinator: its incarnation, the number below which all transactions have ended, and the ended ones above it.
    over: BTreeMap<ServerId, EndedTransactions>,
    wakers: Vec<Waker>,
}

#[derive(Debug, Default)]
struct EndedTransactions {
    incarnation: u64,
    below: u64,
    numbers: BTreeSet<u64>,
}

impl Pending {
    /// Adds a part, unless its transaction has ended or its coordinator was restarted.
    pub(crate) fn add(&mut self, tx: TxId, floor: Version, part: Arc<Part>, over: u64) -> bool {
        if self.is_over(tx) {
            return false;
        }
        let mut vertices = Vec::with_capacity(part.ops.len());
        let mut exclusive = Vec::new();
        for op in &part.ops {
            op.change.touches(&mut |id| vertices.push(id));
            op.change.exclusive(&mut |id| exclusive.push(id));
        }
        vertices.sort_unstable();
        vertices.dedup();
        // Rows from another server count at every version.
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
            exclusive,
            all: false,
            names,
            structure,
        };
        self.structures += u32::from(structure);
        for id in &entry.vertices {
            *self.vertices.entry(*id).or_default() += 1;
        }
        for id in &entry.exclusive {
            self.exclusive.insert(*id, tx);
        }
        if let Some(before) = self.entries.insert(tx, entry) {
            // The message arrived twice.
            self.structures -= u32::from(before.structure);
            self.forget(&before.vertices);
        }
        true
    }

    /// Adds a transaction of this server that may touch anything, at that version.
    pub(crate) fn add_all(&mut self, tx: TxId, version: Version) {
        self.all += 1;
        let entry = Entry {
            floor: version,
            part: Arc::default(),
            over: 0,
            vertices: Vec::new(),
            exclusive: Vec::new(),
            all: true,
            names: false,
            structure: false,
        };
        self.entries.insert(tx, entry);
    }

    /// Known ended transactions of a coordinator at an incarnation; `None` if it has been restarted since.
    fn over_of(&mut self, server: ServerId, incarnation: u64) -> Option<&mut EndedTransactions> {
        let over = self.over.entry(server).or_default();
        if incarnation > over.incarnation {
            *over = EndedTransactions {
                incarnation,
                ..EndedTransactions::default()
            };
        }
        (incarnation == over.incarnation).then_some(over)
    }

    /// Records that all transactions of a coordinator below a number have ended.
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

    /// Whether the transaction has ended here.
    pub(crate) fn is_over(&self, tx: TxId) -> bool {
        self.over.get(&tx.server).is_some_and(|over| {
            tx.incarnation < over.incarnation
                || tx.incarnation == over.incarnation
                    && (tx.number < over.below || over.numbers.contains(&tx.number))
        })
    }

    /// Returns the prepared part; it stays pending until [`Self::end`].
    pub(crate) fn part(&self, tx: TxId) -> Option<Arc<Part>> {
        self.entries.get(&tx).map(|e| Arc::clone(&e.part))
    }

    /// Ends a transaction, applied or aborted.
    pub(crate) fn end(&mut self, tx: TxId) {
        // A transaction may end before its part arrives at all.
        if let Some(over) = self.over_of(tx.server, tx.incarnation)
            && tx.number >= over.below
        {
            over.numbers.insert(tx.number);
        }
        if let Some(entry) = self.entries.remove(&tx) {
            self.all -= u32::from(entry.all);
            self.structures -= u32::from(entry.structure);
            self.forget(&entry.vertices);
            for id in &entry.exclusive {
                if self.exclusive.get(id) == Some(&tx) {
                    self.exclusive.remove(id);
                }
            }
        }
        self.wake();
    }

    /// Ends undecided transactions of earlier incarnations of a restarted coordinator: they will never be decided.
    /// `is_decided` tells which of them this server has decided itself.
    pub(crate) fn end_before(
        &mut self,
        server: ServerId,
        incarnation: u64,
        is_decided: impl Fn(TxId) -> bool,
    ) {
        let stale = self.entries.keys().copied();
        let stale = stale
            .filter(|tx| tx.server == server && tx.incarnation < incarnation && !is_decided(*tx));
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

    /// Registers a waker to be called after the next end of a transaction.
    pub(crate) fn wait(&mut self, waker: &Waker) {
        if !self.wakers.iter().any(|w| w.will_wake(waker)) {
            self.wakers.push(waker.clone());
        }
    }

    /// Returns a transaction for which a read of these vertices (or of any, for `None`) as of `at` must wait.
    pub(crate) fn blocker(&self, vertices: Option<&[VertexId]>, at: Version) -> Option<TxId> {
        self.blocker_except(None, vertices, at)
    }

    /// Returns a transaction for which such a read must wait, other than `but`.
    pub(crate) fn blocker_except(
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

    /// Returns another transaction that has prepared items which the part needs exclusively.
    pub(crate) fn conflict(&self, tx: TxId, part: &Part) -> Option<TxId> {
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
        if self.exclusive.is_empty() {
            return None;
        }
        let mut holder = None;
        for op in &part.ops {
            op.change.exclusive(&mut |id| {
                let other = self.exclusive.get(&id).filter(|other| **other != tx);
                holder = holder.or(other.copied());
            });
        }
        holder
    }

    /// Whether a transaction holds the item exclusively.
    pub(crate) fn is_locked(&self, what: impl FnOnce() -> VertexId) -> bool {
        !self.exclusive.is_empty() && self.exclusive.contains_key(&what())
    }

    /// Whether directories are being moved or removed, or their permissions changed.
    pub(crate) fn structure_changes(&self) -> bool {
        self.structures > 0
    }

    /// Returns the number below which the coordinator's transactions had ended when it sent this part.
    pub(crate) fn over_before(&self, tx: TxId) -> Option<u64> {
        self.entries.get(&tx).map(|e| e.over)
    }

    /// Whether a partition of the vertex is moving to this server.
    pub(crate) fn adopts(&self, id: VertexId) -> bool {
        self.vertices.contains_key(&id)
            && self
                .entries
                .values()
                .any(|e| e.floor == Version::ZERO && e.vertices.contains(&id))
    }

    /// Whether a prepared part touches the vertex.
    pub(crate) fn touches(&self, id: VertexId) -> bool {
        self.vertices.contains_key(&id)
    }

    /// Returns the number of prepared parts.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}
