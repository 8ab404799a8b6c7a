//! In-memory state of a node: data only, for the modules that change it.

use super::codec::{Decision, decided_key};
use super::hashed::{Map, Set};
use super::pending::Pending;
use crate::peer::{FindId, NamesReply, TxId};
use crate::placement::{Growth, Partition, SplitState, Splits};
use crate::vnode::ServerId;
use esker_model::wire::{decode, encode};
use esker_model::{Batch, Commit, Error, Result, Version, VertexId};
use futures_channel::oneshot;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::Waker;

/// Size at which learned bitmaps, insert counts and similar caches are cleared.
const REMEMBERED_MAX: usize = 1 << 20;
/// Number of refused batches that are remembered; longer than any late duplicate takes.
const REFUSED_MAX: usize = 1 << 12;
/// Number of vertices whose partitions are counted.
const GROWING_MAX: usize = 1 << 16;

/// In-memory state of a node.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Whether the node answers other servers yet.
    pub(crate) serving: bool,
    /// Batches that clients send again, while nothing else is accepted.
    pub(crate) replays: Option<Replays>,
    /// Highest known incarnation of each other server.
    pub(crate) incarnations: Map<ServerId, u64>,
    /// Newest version of any change, as reported by other servers.
    pub(crate) newest: Newest,
    /// Transactions prepared here and not decided.
    pub(crate) pending: Pending,
    /// Transactions that this node coordinates.
    pub(crate) own: CoordinatedTransactions,
    /// Transactions whose parts are being applied.
    pub(crate) committing: Set<TxId>,
    /// Transactions of other coordinators that were applied here and must not be applied again, as stored.
    pub(crate) done: BTreeSet<TxId>,
    /// Stop flags of searches whose pages are being computed for other servers.
    pub(crate) finds: Map<FindId, Arc<AtomicBool>>,
    /// Number of searches that this node has coordinated since it was opened.
    pub(crate) finds_begun: u64,
    /// Numbered batches that were refused recently.
    pub(crate) refused: Refused,
    /// Idempotency keys of batches in progress.
    pub(crate) keys_in_progress: Set<Vec<u8>>,
    /// Transactions of this node that another server decides and whose outcome is unknown here.
    pub(crate) in_doubt: Map<TxId, InDoubt>,
    /// Number of changes of `splits` since the start.
    pub(crate) moves: u64,
    /// Vertices that have split and have edges here, as stored.
    pub(crate) splits: Map<VertexId, SplitState>,
    /// Splits learned from other servers, possibly out of date.
    pub(crate) learned: Map<VertexId, Splits>,
    /// Vertices whose split is being made durable here; a read of their edges waits to learn how they have split.
    pub(crate) deciding: Set<VertexId>,
    /// Vertices that are splitting; no transaction is prepared on their edges meanwhile.
    pub(crate) frozen: Set<VertexId>,
    /// Number of edges inserted since the node was opened, for vertices that are not in `growth`.
    pub(crate) inserted: Map<VertexId, u32>,
    /// Partition sizes of vertices that were counted.
    pub(crate) growth: Map<VertexId, Growth>,
    /// Entries of directories by partition, counted from the time they were first many.
    pub(crate) entries: Map<VertexId, EntryCounts>,
    /// Namespace changes that this server has requested from others.
    pub(crate) outgoing_calls: OutgoingCalls,
    /// Results of changes that other servers requested.
    pub(crate) incoming_calls: Map<ServerId, IncomingCalls>,
    /// Known flags about all servers' files.
    pub(crate) flags: crate::peer::ClusterFlags,
    /// Tables of entries that are moving to other servers.
    pub(crate) table_transfers: TableTransfers,
    /// Pause of this server, for a copy of all servers' data.
    pub(crate) pausing: PauseState,
    /// Earliest time of the next attempt of splits that failed, in milliseconds.
    pub(crate) postponed: Map<VertexId, u64>,
    /// Wakers of tasks that wait for a change of this state.
    pub(crate) wakers: Vec<Waker>,
}

/// Numbered batches that were refused, and why. (Clients may intend to retry batches without a number.)
#[derive(Debug, Default)]
pub(crate) struct Refused {
    /// Errors as messages have them, so that a repetition gets an equal one.
    why: Map<Vec<u8>, Vec<u8>>,
    order: VecDeque<Vec<u8>>,
}

impl Refused {
    pub(crate) fn get(&self, name: &[u8]) -> Option<Error> {
        decode(self.why.get(name)?).ok()
    }

    pub(crate) fn add(&mut self, name: &[u8], why: &Error) {
        if self.order.len() >= REFUSED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.why.remove(&oldest);
        }
        if self.why.insert(name.to_vec(), encode(why)).is_none() {
            self.order.push_back(name.to_vec());
        }
    }
}

/// A version whose default is zero.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Newest(pub(crate) Version);

impl Default for Newest {
    fn default() -> Self {
        Self(Version::ZERO)
    }
}

/// A transaction whose outcome its coordinator does not know.
#[derive(Debug)]
pub(crate) struct InDoubt {
    /// Server that decides the transaction.
    pub(crate) agent: ServerId,
    /// Idempotency key of the batch.
    pub(crate) idempotency_key: Vec<u8>,
    /// Its name in [`State::keys_in_progress`], which stays in progress until the outcome is known.
    pub(crate) request: Vec<u8>,
}

/// The transactions that a node coordinates or decides.
#[derive(Debug, Default)]
pub(crate) struct CoordinatedTransactions {
    next: u64,
    active: BTreeSet<u64>,
    /// Transactions that this node decided and that some participant has not acknowledged. Of another coordinator's
    /// transactions, that participant is the coordinator.
    pub(crate) decided: BTreeMap<TxId, PendingDecision>,
    /// Keys of the rows of decisions that all participants have acknowledged.
    pub(crate) done: Vec<Vec<u8>>,
}

/// A decision that is being delivered.
#[derive(Debug)]
pub(crate) struct PendingDecision {
    pub(crate) decision: Arc<Decision>,
    /// Whether the decision is on disk; otherwise it may still fail.
    pub(crate) durable: bool,
}

impl CoordinatedTransactions {
    /// Returns the number of a new transaction.
    pub(crate) fn begin(&mut self) -> u64 {
        self.next += 1;
        self.active.insert(self.next);
        self.next
    }

    /// Records that the transaction has ended everywhere.
    pub(crate) fn end(&mut self, number: u64) {
        self.active.remove(&number);
    }

    /// Returns the number below which all transactions have ended.
    pub(crate) fn over(&self) -> u64 {
        self.active.first().copied().unwrap_or(self.next + 1)
    }
}

impl State {
    /// Returns the known splits of a vertex; `None` if it has not split as far as is known.
    pub(crate) fn splits_of(&self, id: VertexId) -> Option<&Splits> {
        let own = self.splits.get(&id).map(SplitState::splits);
        let learned = self.learned.get(&id);
        match (own, learned) {
            // Learned splits include the stored ones: see `learn`.
            (_, Some(learned)) => Some(learned),
            (own, None) => own,
        }
    }

    /// Learns how a vertex has split; returns whether anything was new.
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

    /// Sets the splits of a vertex with edges here.
    pub(crate) fn set_splits(&mut self, id: VertexId, splits: SplitState) {
        if let Some(learned) = self.learned.get_mut(&id) {
            learned.merge(splits.splits());
        }
        self.splits.insert(id, splits);
        self.moves += 1;
        self.wake();
    }

    /// Counts an inserted edge; returns whether the vertex now has more than `many`.
    pub(crate) fn count_insert(&mut self, id: VertexId, many: u64) -> bool {
        if self.inserted.len() >= REMEMBERED_MAX {
            self.inserted.clear();
        }
        let count = self.inserted.entry(id).or_default();
        *count = count.saturating_add(1);
        u64::from(*count) > many
    }

    /// Clears the counted partition sizes if there are too many vertices.
    pub(crate) fn limit_growth(&mut self) {
        if self.growth.len() >= GROWING_MAX {
            self.growth.clear();
        }
    }

    /// Records that all transactions of a coordinator below a number have ended, and forgets those of them that were
    /// decided here. Their rows are removed with a later decision.
    pub(crate) fn learn_ended(&mut self, server: ServerId, incarnation: u64, below: u64) {
        self.pending.learn(server, incarnation, below);
        let tx = |incarnation, number| TxId {
            server,
            incarnation,
            number,
        };
        let ended = self
            .own
            .decided
            .range(tx(0, 0)..tx(incarnation, below))
            .map(|(tx, _)| *tx);
        for tx in ended.collect::<Vec<_>>() {
            self.own.decided.remove(&tx);
            self.own.done.push(decided_key(tx));
        }
    }

    /// Wakes all waiting tasks.
    pub(crate) fn wake(&mut self) {
        self.wakers.drain(..).for_each(Waker::wake);
    }

    /// Registers a waker to be called at the next change.
    pub(crate) fn wait(&mut self, waker: &Waker) {
        if !self.wakers.iter().any(|w| w.will_wake(waker)) {
            self.wakers.push(waker.clone());
        }
        self.pending.wait(waker);
    }
}

/// Calls to other servers that are not answered yet.
#[derive(Debug, Default)]
pub(crate) struct OutgoingCalls {
    pub(crate) next: u64,
    pub(crate) open: BTreeSet<u64>,
}

/// Responses to one server's calls, kept as long as it may repeat them.
#[derive(Debug, Default)]
pub(crate) struct IncomingCalls {
    pub(crate) incarnation: u64,
    pub(crate) below: u64,
    /// Responses by call number; `None` while the call is in progress.
    pub(crate) answers: BTreeMap<u64, Option<NamesReply>>,
}

/// Tables that this server writes for other servers.
#[derive(Debug, Default)]
pub(crate) struct TableTransfers {
    /// Number of tables begun.
    pub(crate) begun: u64,
    /// Receivers that could not read a table, or this server if it could not write one, and when to try again, in milliseconds.
    pub(crate) pauses: Vec<(ServerId, u64)>,
}

impl TableTransfers {
    pub(crate) fn pauses(&mut self, server: ServerId, now: u64) -> bool {
        self.pauses.retain(|(_, until)| *until > now);
        self.pauses.iter().any(|(id, _)| *id == server)
    }
}

/// Number of entries in each partition that a directory has here.
pub(crate) type EntryCounts = Map<Partition, u64>;

/// State of pauses: who paused this server, and what is being decided.
#[derive(Debug, Default)]
pub(crate) struct PauseState {
    pub(crate) paused_by: Option<u64>,
    pub(crate) changing: usize,
    /// Later decisions must take later versions than this.
    pub(crate) copy_version: u64,
}

/// Batches that wait for earlier ones, by the version at which they were acknowledged.
#[derive(Debug, Default)]
pub(crate) struct Replays {
    pub(crate) waiting: BTreeMap<(Version, u64), (Batch, oneshot::Sender<Result<Commit>>)>,
    pub(crate) next: u64,
}
