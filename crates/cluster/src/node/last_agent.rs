//! Transactions that the only other participant decides, not the coordinator: the last-agent optimization of two-phase
//! commit (Samaras, Britton, Citron and Mohan, "Two-Phase Commit Optimizations in a Commercial Distributed
//! Environment", Distributed and Parallel Databases 3, 1995).
//!
//! ```text
//!  coordinator                                         agent
//!   │ prepares its part in memory                        │
//!   │ Decide(vote, both parts, idempotency key) ────────►│ prepares its part
//!   │                                                    │ ONE commit: its part, the coordinator's part   ◄── decided
//!   │◄──────────────────────────────────── Decided ──────│
//!   │ commit: its part, idempotency key                  │
//! ```
//!
//! So one message replaces Prepare and Commit. The agent keeps the coordinator's part until it learns, from the number
//! below which all transactions of the coordinator have ended, that it was applied. A coordinator that is restarted
//! receives it in the answer to its hello. One that gets no answer asks for the outcome; until it knows, its part stays
//! prepared and the batch's idempotency key in progress.

use super::coordinate::request_name;
use super::participate::Committing;
use super::peers::unexpected;
use super::state::{InDoubt, State};
use super::transaction::{
    Attempt, CoordinatorWork, DecidedTransaction, Parts, PreparedTransaction, Transaction,
};
use super::{Host, Node};
use crate::peer::{Change, Decided, Delegated, Part, Prepared, Request, Response, TxId};
use crate::vnode::ServerId;
use esker_engine::SideWrites;
use esker_model::idempotency::ProducerKey;
use esker_model::limits::SMALL_BATCH_MUTATIONS_MAX;
use esker_model::{Commit, Error, Result};
use std::sync::Arc;

/// Longest wait of an agent for a decision in progress, in milliseconds.
const DECIDING_MAX: u64 = 5_000;
/// First and longest pause between questions for an outcome, in milliseconds.
const ASK_FIRST: u64 = 20;
const ASK_LAST: u64 = 200;
/// Time for which a client's call waits for an outcome, in milliseconds.
const OUTCOME_WAIT_MAX: u64 = 10_000;

/// The server that decides a transaction, and its incarnation.
#[derive(Debug, Clone, Copy)]
pub(super) struct LastAgent {
    server: ServerId,
    incarnation: u64,
}

/// A transaction that was sent to its agent. If it is dropped before its outcome is known, a task finds that out.
struct Delegation {
    node: Arc<Node>,
    tx: TxId,
    agent: ServerId,
    idempotency_key: Vec<u8>,
    settled: bool,
}

impl Drop for Delegation {
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        let idempotency_key = std::mem::take(&mut self.idempotency_key);
        let doubt = InDoubt {
            agent: self.agent,
            request: request_name(&idempotency_key).unwrap_or_default(),
            idempotency_key,
        };
        let tx = self.tx;
        self.node.state().in_doubt.insert(tx, doubt);
        self.node.spawn(|node| node.settle_later(tx));
    }
}

impl Node {
    /// Returns the server that may decide a transaction instead of this one. It is the only other one with a part; this
    /// server's part can be applied again after a restart, and repetitions of the batch come to this server.
    pub(super) fn last_agent(
        &self,
        mine: &Part,
        parts: &Parts,
        work: &CoordinatorWork<'_>,
    ) -> Option<LastAgent> {
        let ((server, _), 1) = (parts.first_key_value()?, parts.len()) else {
            return None;
        };
        let repeatable = |change: &Change| {
            matches!(change, Change::Vertex(_) | Change::Edge { .. }) && !change.must_not_repeat()
        };
        let numbered = matches!(ProducerKey::parse(work.idempotency_key?), Ok(Some(_)));
        let fits = numbered
            && work.splits.is_none()
            && work.side_writes.rows.is_empty()
            && self.window.is_none()
            && mine.ops.len() <= SMALL_BATCH_MUTATIONS_MAX
            && mine.ops.iter().all(|op| repeatable(&op.change));
        if !fits {
            return None;
        }
        let incarnation = *self.state().incarnations.get(server)?;
        Some(LastAgent {
            server: *server,
            incarnation,
        })
    }

    /// Has the agent decide a transaction whose part `mine` is prepared here with `prepared`, and applies that part.
    pub(super) async fn attempt_by_agent(
        self: &Arc<Self>,
        mut transaction: Transaction,
        over: u64,
        prepared: Prepared,
        (mine, mut parts): (Arc<Part>, Parts),
        agent: LastAgent,
        work: CoordinatorWork<'_>,
    ) -> Result<Attempt> {
        let tx = transaction.tx;
        let _changing = self.begin_change().await?;
        let mut delegation = Delegation {
            node: Arc::clone(self),
            tx,
            agent: agent.server,
            idempotency_key: work.idempotency_key.unwrap_or_default().to_vec(),
            settled: false,
        };
        let request = Request::Decide(Delegated {
            tx,
            over,
            seen: work.seen,
            incarnation: agent.incarnation,
            prepared,
            coordinators: mine,
            part: parts.remove(&agent.server).unwrap_or_default(),
            idempotency_key: work.idempotency_key.map(<[u8]>::to_vec),
        });
        // From here on only the agent knows whether the transaction is decided.
        transaction.decided = true;
        let (answer, refused) = match self.call_peer(agent.server, request).await {
            Ok(answer) => match answer.outcome {
                Ok(answer) => (answer, None),
                // A server that is starting, say, may still receive the request a second time.
                Err(e) => (self.outcome_of(tx, agent.server).await?, Some(e)),
            },
            Err(_) => (self.outcome_of(tx, agent.server).await?, None),
        };
        if let Response::Decided {
            version,
            later,
            vertices_created,
            edges_created,
            unchanged,
        } = answer
        {
            let newest = later.iter().map(|(_, at)| *at).max();
            let decided = Decided {
                tx,
                version,
                later,
                part: None,
                idempotency_key: Some(delegation.idempotency_key.clone()),
            };
            let applied = self.commit(decided).await;
            let Ok(Response::Committed {
                vertices_created: vertices,
                edges_created: edges,
                unchanged: unchanged_here,
            }) = applied
            else {
                let why = applied.err().unwrap_or_else(|| unexpected(agent.server));
                return Err(Error::Undecided(format!(
                    "the batch is decided and will be applied on {}, which cannot do so now: {why}",
                    self.settings.id
                )));
            };
            delegation.settled = true;
            self.state().own.end(tx.number);
            let commit = Commit {
                version: newest.map_or(version, |at| at.max(version)),
                applied: true,
                vertices_created: vertices_created + vertices,
                edges_created: edges_created + edges,
                unchanged: unchanged + unchanged_here,
            };
            return Ok(Attempt::Done(commit, true));
        }
        let attempt = match answer {
            Response::Moved(splits) => {
                self.learn_splits(agent.server, &splits)?;
                Attempt::Retry
            }
            Response::Over => Attempt::Retry,
            Response::Unknown => Attempt::Unread,
            _ => return Err(unexpected(agent.server)),
        };
        delegation.settled = true;
        transaction.decided = false;
        refused.map_or(Ok(attempt), Err)
    }

    /// Asks the agent for the outcome of a transaction until it answers, for up to [`OUTCOME_WAIT_MAX`].
    async fn outcome_of(&self, tx: TxId, agent: ServerId) -> Result<Response> {
        let (mut pause, mut waited) = (ASK_FIRST, 0);
        loop {
            match self.request(agent, Request::Outcome { tx }).await {
                Ok(answer) => return Ok(answer),
                Err(_) if waited < OUTCOME_WAIT_MAX => {}
                Err(e) => {
                    return Err(Error::Undecided(format!(
                        "{agent} decides this batch and does not answer ({e}); ask again for its outcome"
                    )));
                }
            }
            self.host.sleep(pause).await;
            waited += pause;
            pause = (2 * pause).min(ASK_LAST);
        }
    }

    /// Finds out the outcome of a transaction in doubt and ends it here.
    async fn settle_later(self: Arc<Self>, tx: TxId) {
        let (me, host): (_, Arc<dyn Host>) = (self.me.clone(), Arc::clone(&self.host));
        drop(self);
        let mut pause = ASK_FIRST;
        loop {
            let Some(node) = me.upgrade() else { return };
            if node.settle(tx).await.is_ok() {
                return;
            }
            drop(node);
            host.sleep(pause).await;
            pause = (2 * pause).min(ASK_LAST);
        }
    }

    async fn settle(self: &Arc<Self>, tx: TxId) -> Result<()> {
        let (agent, idempotency_key) = {
            let state = self.state();
            let Some(doubt) = state.in_doubt.get(&tx) else {
                return Ok(());
            };
            (doubt.agent, doubt.idempotency_key.clone())
        };
        match self.request(agent, Request::Outcome { tx }).await? {
            Response::Decided { version, later, .. } => {
                let decided = Decided {
                    tx,
                    version,
                    later,
                    part: None,
                    idempotency_key: Some(idempotency_key),
                };
                // A part that is not prepared any more must not be forgotten in silence.
                let Response::Committed { .. } = self.commit(decided).await? else {
                    return Err(unexpected(self.settings.id));
                };
            }
            Response::Over => {}
            _ => return Err(unexpected(agent)),
        }
        let mut state = self.state();
        state.pending.end(tx);
        state.own.end(tx.number);
        if let Some(doubt) = state.in_doubt.remove(&tx) {
            state.keys_in_progress.remove(&doubt.request);
        }
        state.wake();
        Ok(())
    }

    /// Decides a transaction for its coordinator.
    pub(crate) async fn decide_for(self: &Arc<Self>, delegated: Delegated) -> Result<Response> {
        let Delegated {
            tx,
            over,
            seen,
            incarnation,
            prepared,
            coordinators,
            part,
            idempotency_key,
        } = delegated;
        if incarnation != self.incarnation {
            return Ok(Response::Over);
        }
        // A request that arrives twice is decided once.
        let claim = |state: &mut State| {
            let known = state.own.decided.contains_key(&tx) || state.pending.is_over(tx);
            (known || state.committing.insert(tx)).then_some(known)
        };
        match self.wait_until(DECIDING_MAX, claim).await {
            Some(false) => {}
            Some(true) => return self.outcome(tx).await,
            None => {
                return Err(Error::Busy(format!(
                    "{} is already deciding this batch; try again",
                    self.settings.id
                )));
            }
        }
        let _claimed = Committing { node: self, tx };
        // Dropping it ends the transaction here, so that the request is refused if it arrives again.
        let transaction = Transaction::new(self, tx);
        let vote = match self.prepare(tx, over, seen, Arc::clone(&part)).await? {
            Response::Prepared(vote) => vote,
            refused => return Ok(refused),
        };
        // A coordinator that waits for a pause here would itself hold up its pause.
        let Some(_changing) = self.try_begin_change() else {
            return Ok(Response::Over);
        };
        let transaction = PreparedTransaction {
            transaction,
            part,
            parts: Parts::from([(tx.server, coordinators)]),
            votes: vec![vote, prepared],
            incarnations: vec![(tx.server, tx.incarnation)],
        };
        let work = CoordinatorWork {
            side_writes: SideWrites::default(),
            splits: None,
            idempotency_key: None,
            seen,
        };
        let Some(done) = self.decide(transaction, work, idempotency_key).await? else {
            return Ok(Response::Over);
        };
        let DecidedTransaction { commit, decision } = done;
        Ok(Response::Decided {
            version: decision.version,
            later: decision.later.clone(),
            vertices_created: commit.vertices_created,
            edges_created: commit.edges_created,
            unchanged: commit.unchanged,
        })
    }

    /// Returns whether a transaction was decided here. One that was not never will be.
    pub(crate) async fn outcome(&self, tx: TxId) -> Result<Response> {
        let settled = |state: &mut State| {
            let Some(decided) = state.own.decided.get(&tx) else {
                state.pending.end(tx);
                return Some(None);
            };
            let decision = Arc::clone(&decided.decision);
            decided.durable.then_some(Some(decision))
        };
        match self.wait_until(DECIDING_MAX, settled).await {
            Some(Some(decision)) => Ok(Response::Decided {
                version: decision.version,
                later: decision.later.clone(),
                vertices_created: 0,
                edges_created: 0,
                unchanged: 0,
            }),
            Some(None) => Ok(Response::Over),
            None => Err(Error::Busy(format!(
                "{} has not decided this batch yet; ask again",
                self.settings.id
            ))),
        }
    }
}

#[cfg(test)]
mod tests;
