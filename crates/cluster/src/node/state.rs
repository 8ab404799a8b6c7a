//! What a node has in memory.

use super::codec::Decision;
use super::hashed::{Map, Set};
use super::pending::Pending;
use super::replay::Replays;
use crate::peer::{FindId, TxId};
use crate::placement::{Growth, SplitState, Splits};
use crate::vnode::ServerId;
use esker_model::{Version, VertexId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::Waker;

/// Bitmaps learned of vertices elsewhere, counts of inserts, and the like are dropped when there are so many.
const REMEMBERED_MAX: usize = 1 << 20;
/// Refused batches that are remembered: what comes late is not as late as that.
const REFUSED_MAX: usize = 1 << 12;
/// Vertices whose partitions are counted.
const GROWING_MAX: usize = 1 << 16;

/// What a node has in memory.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Whether it answers others yet.
    pub(crate) serving: bool,
    /// What clients send again, while nothing else is taken.
    pub(crate) replays: Option<Replays>,
    /// As the highest that each other server was seen with.
    pub(crate) incarnations: Map<ServerId, u64>,
    /// The newest version that any change took, as others say.
    pub(crate) newest: Newest,
    /// Parts prepared here.
    pub(crate) pending: Pending,
    /// Transactions that this node coordinates.
    pub(crate) own: Own,
    /// Parts that are being done.
    pub(crate) committing: Set<TxId>,
    /// Parts of others' transactions that were done here and must not be done again, as stored.
    pub(crate) done: BTreeSet<TxId>,
    /// Searches whose pages are being made for other servers: set to stop one.
    pub(crate) finds: Map<FindId, Arc<AtomicBool>>,
    /// Searches that this node has coordinated since it was opened.
    pub(crate) finds_begun: u64,
    /// Numbered batches that were refused lately.
    pub(crate) refused: Refused,
    /// Markers of batches under way.
    pub(crate) markers: Set<Vec<u8>>,
    /// How often since the start that changed.
    pub(crate) moves: u64,
    /// Vertices that have split and have edges here, as stored.
    pub(crate) splits: Map<VertexId, SplitState>,
    /// What was learned of others, perhaps out of date.
    pub(crate) learned: Map<VertexId, Splits>,
    /// Vertices whose split is being made durable here: whoever read their edges looks again at how they have split.
    pub(crate) deciding: Set<VertexId>,
    /// Vertices that split now: nothing is prepared on their edges meanwhile.
    pub(crate) frozen: Set<VertexId>,
    /// Edges inserted since the node was opened, of vertices that are not in `growth`.
    pub(crate) inserted: Map<VertexId, u32>,
    /// Partitions counted.
    pub(crate) growth: Map<VertexId, Growth>,
    /// Entries of directories that have some here, by partition: counted since they were first many.
    pub(crate) entries: Map<VertexId, super::names::Counts>,
    /// Changes of the namespace that this server has asked others for.
    pub(crate) asked: super::names::Asked,
    /// What it has answered to others that asked it.
    pub(crate) calls: Map<ServerId, super::names::Calls>,
    /// What is known of all servers' files.
    pub(crate) known: crate::peer::KnownOfFiles,
    /// Tables of entries that go to other servers.
    pub(crate) giving: super::names::Giving,
    /// Who holds this server, for a copy of all servers' data.
    pub(crate) holding: super::hold::Holding,
    /// Splits that did not succeed, and when they may be tried again, in milliseconds.
    pub(crate) postponed: Map<VertexId, u64>,
    /// Whoever waits for something of the above to change.
    pub(crate) wakers: Vec<Waker>,
}

/// Numbered batches that were refused, and why. (Others may be meant to be tried again.)
#[derive(Debug, Default)]
pub(crate) struct Refused {
    why: Map<Vec<u8>, String>,
    order: VecDeque<Vec<u8>>,
}

impl Refused {
    pub(crate) fn get(&self, name: &[u8]) -> Option<&String> {
        self.why.get(name)
    }

    pub(crate) fn add(&mut self, name: &[u8], why: String) {
        if self.order.len() >= REFUSED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.why.remove(&oldest);
        }
        if self.why.insert(name.to_vec(), why).is_none() {
            self.order.push_back(name.to_vec());
        }
    }
}

/// A version that starts at zero.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Newest(pub(crate) Version);

impl Default for Newest {
    fn default() -> Self {
        Self(Version::ZERO)
    }
}

/// The transactions that a node coordinates.
#[derive(Debug, Default)]
pub(crate) struct Own {
    next: u64,
    active: BTreeSet<u64>,
    /// Decided, and not acknowledged by all: by incarnation and number.
    pub(crate) decided: BTreeMap<(u64, u64), Decided>,
    /// Rows of decisions that all have acknowledged.
    pub(crate) done: Vec<Vec<u8>>,
}

/// A decision that is on its way.
#[derive(Debug)]
pub(crate) struct Decided {
    pub(crate) decision: Arc<Decision>,
    /// Whether it is on disk: what is not may yet fail.
    pub(crate) durable: bool,
}

impl Own {
    /// A number for a new transaction.
    pub(crate) fn begin(&mut self) -> u64 {
        self.next += 1;
        self.active.insert(self.next);
        self.next
    }

    /// It is over everywhere.
    pub(crate) fn end(&mut self, number: u64) {
        self.active.remove(&number);
    }

    /// All numbers below are over.
    pub(crate) fn over(&self) -> u64 {
        self.active.first().copied().unwrap_or(self.next + 1)
    }
}

impl State {
    /// What is known of how a vertex has split; nothing for one that is whole, as far as is known.
    pub(crate) fn splits_of(&self, id: VertexId) -> Option<&Splits> {
        let own = self.splits.get(&id).map(SplitState::splits);
        let learned = self.learned.get(&id);
        match (own, learned) {
            // What was learned holds what is here: see `learn`.
            (_, Some(learned)) => Some(learned),
            (own, None) => own,
        }
    }

    /// Learns how a vertex has split; whether that was anything new.
    pub(crate) fn learn(&mut self, id: VertexId, splits: &Splits) -> bool {
        if self.learned.len() >= REMEMBERED_MAX {
            self.learned.clear();
        }
        let own = self.splits.get(&id).map(SplitState::splits);
        let known = self
            .learned
            .entry(id)
            .or_insert_with(|| own.cloned().unwrap_or_default());
        known.merge(splits)
    }

    /// A vertex with edges here has split so.
    pub(crate) fn set_splits(&mut self, id: VertexId, splits: SplitState) {
        if let Some(learned) = self.learned.get_mut(&id) {
            learned.merge(splits.splits());
        }
        self.splits.insert(id, splits);
        self.moves += 1;
        self.wake();
    }

    /// Counts an inserted edge; whether there are more than so many of that vertex.
    pub(crate) fn count_insert(&mut self, id: VertexId, many: u64) -> bool {
        if self.inserted.len() >= REMEMBERED_MAX {
            self.inserted.clear();
        }
        let count = self.inserted.entry(id).or_default();
        *count = count.saturating_add(1);
        u64::from(*count) > many
    }

    /// Room for one more vertex whose partitions are counted.
    pub(crate) fn room_for_growth(&mut self) {
        if self.growth.len() >= GROWING_MAX {
            self.growth.clear();
        }
    }

    /// Whoever waits looks again.
    pub(crate) fn wake(&mut self) {
        self.wakers.drain(..).for_each(Waker::wake);
    }

    /// Somebody wants to look again when something changes.
    pub(crate) fn wait(&mut self, waker: &Waker) {
        if !self.wakers.iter().any(|w| w.will_wake(waker)) {
            self.wakers.push(waker.clone());
        }
        self.pending.wait(waker);
    }
}
