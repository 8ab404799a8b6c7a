//! The coordinator's side of a distributed transaction.
//!
//! Two-phase commit, with versions as in Clock-SI (Du et al., SRDS 2013) and hybrid clocks: each participant prepares
//! its part in memory and answers with a floor; the version is the largest floor, so that it is later than any
//! version read on the participants. The decision is one commit of the coordinator's engine, which includes the other
//! participants' parts. They need not write anything before they apply their parts; a participant that forgot its
//! part receives it again. `last_agent` saves a message where only one other server has a part.

use super::Node;
use super::codec::{Decision, decided_key};
use super::commit_queue::DecidedPart;
use super::peers::unexpected;
use super::state::PendingDecision;
use crate::peer::{Adopt, Change, Decided, Part, PartOp, Prepared, Request, Response, TxId};
use crate::placement::SplitState;
use crate::vnode::ServerId;
use esker_engine::SideWrites;
use esker_model::{Commit, ErrorKind, Result, Version, VertexId};
use esker_store::Table;
use futures_util::future::join_all;
use std::collections::BTreeMap;
use std::sync::Arc;

/// First and longest pause between attempts to reach a server that does not answer, in milliseconds.
const RETRY_FIRST: u64 = 20;
const RETRY_LAST: u64 = 1_000;

/// The parts of a batch by server.
pub(super) type Parts = BTreeMap<ServerId, Arc<Part>>;

/// The coordinator's own work with a decision.
pub(super) struct CoordinatorWork<'a> {
    /// Rows of the coordinator itself.
    pub(super) side_writes: SideWrites,
    /// A vertex that splits, and its new splits.
    pub(super) splits: Option<(VertexId, SplitState)>,
    /// Idempotency key of the batch.
    pub(super) idempotency_key: Option<&'a [u8]>,
    /// Highest version that the client has seen.
    pub(super) seen: Version,
}

/// A transaction whose parts are all prepared.
pub(super) struct PreparedTransaction {
    pub(super) transaction: Transaction,
    /// The part of this server, which decides.
    pub(super) part: Arc<Part>,
    /// The parts of other servers.
    pub(super) parts: Parts,
    /// The votes; the first one is this server's.
    pub(super) votes: Vec<Prepared>,
    /// Incarnations of the other servers when they voted.
    pub(super) incarnations: Vec<(ServerId, u64)>,
}

/// A decision that this server has made and applied.
pub(super) struct DecidedTransaction {
    pub(super) commit: Commit,
    pub(super) decision: Arc<Decision>,
}

/// Outcome of an attempt to commit.
pub(super) enum Attempt {
    /// Committed; whether a checkpoint contains it, too.
    Done(Commit, bool),
    /// Routing information was out of date: try again.
    Retry,
    /// No part was applied: a participant cannot read the file with the rows of its part.
    Unread,
}

impl Node {
    /// Prepares, decides and applies a transaction. The rows in `aside` are written with the decision.
    pub(super) async fn attempt(
        self: &Arc<Self>,
        mut parts: Parts,
        aside: CoordinatorWork<'_>,
    ) -> Result<Attempt> {
        let (number, over) = {
            let mut state = self.state();
            let number = state.own.begin();
            (number, state.own.over())
        };
        let tx = TxId {
            server: self.settings.id,
            incarnation: self.incarnation,
            number,
        };
        let mine = parts.remove(&self.settings.id).unwrap_or_default();
        let mut transaction = Transaction::new(self, tx);
        // This server first: what fails here need not be sent to others.
        let here = match self
            .prepare(tx, over, aside.seen, Arc::clone(&mine))
            .await?
        {
            Response::Prepared(prepared) => prepared,
            Response::Moved(_) | Response::Over => return Ok(Attempt::Retry),
            _ => return Err(unexpected(self.settings.id)),
        };
        if let Some(agent) = self.last_agent(&mine, &parts, &aside) {
            return self
                .attempt_by_agent(transaction, over, here, (mine, parts), agent, aside)
                .await;
        }
        transaction.participants = parts.keys().copied().collect();
        let prepare = parts.iter().map(|(server, part)| {
            let request = Request::Prepare {
                tx,
                over,
                seen: aside.seen,
                part: Arc::clone(part),
            };
            self.request_with_incarnation(*server, request)
        });
        let answers = join_all(prepare).await;
        let mut votes = vec![here];
        let mut incarnations = Vec::with_capacity(answers.len());
        let (mut again, mut unread) = (false, false);
        let mut failure = None;
        for (server, answer) in parts.keys().zip(answers) {
            match answer {
                Ok((Response::Prepared(part), incarnation)) => {
                    incarnations.push((*server, incarnation));
                    votes.push(part);
                }
                Ok((Response::Moved(splits), _)) => {
                    self.learn_splits(*server, &splits)?;
                    again = true;
                }
                Ok((Response::Over, _)) => again = true,
                Ok((Response::Unknown, _)) => unread = true,
                Ok(_) => failure = Some(unexpected(*server)),
                Err(e) => {
                    // A permanent error says more than an unreachable server.
                    if failure
                        .as_ref()
                        .is_none_or(|f| f.kind() == ErrorKind::Unavailable)
                    {
                        failure = Some(e);
                    }
                }
            }
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        if unread {
            return Ok(Attempt::Unread);
        }
        if again {
            return Ok(Attempt::Retry);
        }
        let changing = self.begin_change().await?;
        let published = aside.splits.is_some() || !parts.is_empty();
        let prepared = PreparedTransaction {
            transaction,
            part: mine,
            parts,
            votes,
            incarnations,
        };
        let Some(decided) = self.decide(prepared, aside, None).await? else {
            return Ok(Attempt::Retry);
        };
        drop(changing);
        let DecidedTransaction {
            mut commit,
            decision,
        } = decided;
        if !commit.applied {
            return Ok(Attempt::Done(commit, false));
        }
        self.deliver(tx, decision, &mut commit).await;
        Ok(Attempt::Done(commit, published))
    }

    /// Decides once all are prepared; `None` if a participant has been restarted and has forgotten its part, or if the
    /// transaction has ended here. The caller must have begun a change ([`Self::begin_change`]). `coordinators_key` is
    /// the idempotency key that another coordinator stores with its part.
    pub(super) async fn decide(
        self: &Arc<Self>,
        prepared: PreparedTransaction,
        aside: CoordinatorWork<'_>,
        coordinators_key: Option<Vec<u8>>,
    ) -> Result<Option<DecidedTransaction>> {
        let PreparedTransaction {
            mut transaction,
            part: mine,
            parts,
            votes,
            incarnations,
        } = prepared;
        let CoordinatorWork {
            mut side_writes,
            splits,
            idempotency_key,
            seen: _,
        } = aside;
        let tx = transaction.tx;
        // The first floor is this server's own.
        let floors = || votes.iter().map(|p| p.floor);
        let own = floors().next().unwrap_or(Version::ZERO);
        // No transaction may be decided at a version as of which a copy exists.
        let latest = floors()
            .max()
            .unwrap_or(own)
            .max(self.min_version_after_copy());
        let version = self.clock.decide(own, latest, self.time.now_millis());
        let later = versions_later(&votes, version);
        let decision = Arc::new(Decision {
            version,
            later,
            idempotency_key: coordinators_key,
            parts,
        });
        {
            let mut state = self.state();
            let state = &mut *state;
            let started_anew = |(server, incarnation): &(ServerId, u64)| {
                state.incarnations.get(server) > Some(incarnation)
            };
            if incarnations.iter().any(started_anew) || state.pending.is_over(tx) {
                return Ok(None);
            }
            if !decision.parts.is_empty() {
                let key = decided_key(tx);
                side_writes
                    .rows
                    .push((Table::Meta, key, Some(decision.encode())));
                let decided = PendingDecision {
                    decision: Arc::clone(&decision),
                    durable: false,
                };
                state.own.decided.insert(tx, decided);
            }
            if let Some((id, _)) = &splits {
                state.deciding.insert(*id);
            }
            for done in state.own.done.drain(..) {
                side_writes.rows.push((Table::Meta, done, None));
            }
        }
        side_writes.idempotency_key = idempotency_key.map(<[u8]>::to_vec);
        // Other servers learn of the decision.
        let published = splits.is_some() || !decision.parts.is_empty();
        let splitting = splits.as_ref().map(|(id, _)| *id);
        let decided = DecidedPart {
            part: mine,
            version,
            later: decision.later.clone(),
            side_writes,
            published,
        };
        // This commit is the decision. If the call is cancelled from here on, it may be in the store: it must not be aborted.
        transaction.decided = true;
        let done = if splits.is_some() {
            let apply = |node: &Arc<Self>| node.apply_with_splits(decided, splits);
            self.blocking(apply).await.and_then(|done| done)
        } else {
            self.commit_part(decided).await
        };
        transaction.decided = done.as_ref().is_ok_and(|commit| commit.applied);
        {
            let mut state = self.state();
            if let Some(id) = splitting {
                state.deciding.remove(&id);
            }
            if done.is_err() {
                state.own.decided.remove(&tx);
            }
            state.wake();
        }
        let commit = done?;
        let mut state = self.state();
        if commit.applied {
            if let Some(decided) = state.own.decided.get_mut(&tx) {
                decided.durable = true;
            }
            state.pending.end(tx);
            state.wake();
        } else {
            // An equal batch was applied meanwhile, so this one was not.
            state.own.decided.remove(&tx);
        }
        drop(state);
        Ok(Some(DecidedTransaction { commit, decision }))
    }

    /// Delivers the decision to all participants. Those that do not answer get it again later; the caller does not
    /// wait for them.
    async fn deliver(self: &Arc<Self>, tx: TxId, decision: Arc<Decision>, commit: &mut Commit) {
        let servers: Vec<ServerId> = decision.parts.keys().copied().collect();
        let tell = servers
            .iter()
            .map(|server| self.send_decision(*server, tx, Arc::clone(&decision)));
        let mut left = Vec::new();
        for (server, result) in servers.iter().zip(join_all(tell).await) {
            match result {
                Ok((vertices, edges, unchanged)) => {
                    commit.vertices_created += vertices;
                    commit.edges_created += edges;
                    commit.unchanged += unchanged;
                }
                Err(_) => left.push(*server),
            }
        }
        for (_, version) in &decision.later {
            commit.version = commit.version.max(*version);
        }
        if left.is_empty() && self.delivered(tx).is_ok() {
            return;
        }
        self.spawn(|node| node.deliver_later(tx, decision, left));
    }

    /// Continues the delivery to participants that did not answer.
    async fn deliver_later(
        self: Arc<Self>,
        tx: TxId,
        decision: Arc<Decision>,
        mut left: Vec<ServerId>,
    ) {
        let me = self.me.clone();
        let host = Arc::clone(&self.host);
        let mut pause = RETRY_FIRST;
        drop(self);
        loop {
            host.sleep(pause).await;
            pause = (2 * pause).min(RETRY_LAST);
            let Some(node) = me.upgrade() else { return };
            let mut still = Vec::new();
            for server in left {
                if node
                    .send_decision(server, tx, Arc::clone(&decision))
                    .await
                    .is_err()
                {
                    still.push(server);
                }
            }
            left = still;
            if left.is_empty() && node.delivered(tx).is_ok() {
                return;
            }
        }
    }

    /// Forgets a decision that all have acknowledged. If its rows cannot be removed, it stays.
    pub(crate) fn delivered(&self, tx: TxId) -> Result<()> {
        let decision = {
            let state = self.state();
            let decided = state.own.decided.get(&tx);
            decided.map(|d| Arc::clone(&d.decision))
        };
        let deleted =
            decision.map_or(Ok(false), |decision| self.remove_transferred(tx, &decision))?;
        let mut state = self.state();
        let known = state.own.decided.remove(&tx);
        if known.is_some() && !deleted {
            state.own.done.push(decided_key(tx));
        }
        if tx.incarnation == self.incarnation {
            state.own.end(tx.number);
        }
        state.wake();
        Ok(())
    }

    /// Sends the decision to one participant; returns the numbers of new vertices, new edges and unchanged items.
    async fn send_decision(
        &self,
        server: ServerId,
        tx: TxId,
        decision: Arc<Decision>,
    ) -> Result<(u64, u64, u64)> {
        let decided = |part: Option<Arc<Part>>| {
            Request::Commit(Decided {
                tx,
                version: decision.version,
                later: decision.later.clone(),
                part,
                idempotency_key: None,
            })
        };
        let part = decision.parts.get(&server).cloned().unwrap_or_default();
        if part.ops.iter().any(|op| op.change.is_table()) {
            // The receiver keeps the rows permanently; persist our removal first, or a power failure leaves them on
            // both servers.
            self.engine.persist()?;
        }
        let mut answer = self.request(server, decided(None)).await?;
        if answer == Response::Unknown {
            let part = self.with_stored_rows(&part)?;
            answer = self.request(server, decided(Some(part))).await?;
        }
        match answer {
            Response::Committed {
                vertices_created,
                edges_created,
                unchanged,
            } => Ok((vertices_created, edges_created, unchanged)),
            _ => Err(unexpected(server)),
        }
    }

    /// Moves a partition: the receiver's part, and the coordinator's rows with the decision.
    pub(super) async fn move_partition(
        self: &Arc<Self>,
        to: ServerId,
        part: Part,
        side_writes: SideWrites,
        splits: (VertexId, SplitState),
    ) -> Result<Attempt> {
        let side_writes = CoordinatorWork {
            side_writes,
            splits: Some(splits),
            idempotency_key: None,
            seen: Version::ZERO,
        };
        self.attempt(Parts::from([(to, Arc::new(part))]), side_writes)
            .await
    }

    /// Aborts prepared parts on all participants.
    async fn abort_everywhere(self: Arc<Self>, tx: TxId, participants: Vec<ServerId>) {
        let me = self.me.clone();
        let host = Arc::clone(&self.host);
        let mut left = participants;
        drop(self);
        let mut pause = RETRY_FIRST;
        loop {
            let Some(node) = me.upgrade() else { return };
            let mut still = Vec::new();
            for server in left {
                // A restarted participant has forgotten its part and must be notified nevertheless: the prepare
                // request may still arrive.
                if node.request(server, Request::Abort { tx }).await.is_err() {
                    still.push(server);
                }
            }
            left = still;
            if left.is_empty() {
                node.state().own.end(tx.number);
                return;
            }
            drop(node);
            host.sleep(pause).await;
            pause = (2 * pause).min(RETRY_LAST);
        }
    }
}

/// An undecided transaction: if it is dropped before the decision (by a failure or a cancelled call), it is aborted everywhere.
pub(super) struct Transaction {
    node: Arc<Node>,
    pub(super) tx: TxId,
    participants: Vec<ServerId>,
    /// Whether the transaction may have been decided, so that it must not be aborted here.
    pub(super) decided: bool,
}

impl Transaction {
    pub(super) fn new(node: &Arc<Node>, tx: TxId) -> Self {
        Self {
            node: Arc::clone(node),
            tx,
            participants: Vec::new(),
            decided: false,
        }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if self.decided {
            return;
        }
        let node = &self.node;
        {
            let mut state = node.state();
            state.pending.end(self.tx);
            state.wake();
            if self.participants.is_empty() {
                if self.tx.server == node.settings.id {
                    state.own.end(self.tx.number);
                }
                return;
            }
        }
        let (tx, participants) = (self.tx, std::mem::take(&mut self.participants));
        node.spawn(|node| node.abort_everywhere(tx, participants));
    }
}

/// The receiver's part of a partition's move.
pub(super) fn adoption(adopt: Adopt) -> Part {
    Part {
        ops: vec![PartOp {
            index: 0,
            at: None,
            change: Change::Adopt(adopt),
        }],
    }
}

/// Changes that must take a later version than the transaction's, by index: one version in all their parts.
fn versions_later(prepared: &[Prepared], version: Version) -> Vec<(u32, Version)> {
    let mut later = BTreeMap::<u32, Version>::new();
    for (index, at) in prepared.iter().flat_map(|p| &p.later) {
        if *at > version {
            let at = later.get(index).copied().unwrap_or(*at).max(*at);
            later.insert(*index, at);
        }
    }
    later.into_iter().collect()
}
