//! Recovery after a start: decided transactions are applied, undecided ones are forgotten, on all servers.

use super::Node;
use super::codec::{DECIDED, DONE, Decision, INCARNATION, SPLIT, parse_transaction_key};
use super::state::{PendingDecision, State};
use crate::peer::{Decided, Request, Response, TxId};
use crate::placement::SplitState;
use crate::vnode::{ServerId, VnodeMap};
use esker_engine::{Engine, SideWrites};
use esker_model::codec::Reader;
use esker_model::{Error, Flow, Result, VertexId};
use esker_store::{KeyRange, Table};
use futures_util::future::join_all;
use std::sync::Arc;

/// Longest wait of a started server for decisions that are being made, and the pause between attempts, in milliseconds.
const DECIDING_MAX: u64 = 10_000;
const RETRY: u64 = 100;

/// Returns the lowest incarnation of a node at an epoch; higher than any at an earlier epoch.
pub const fn incarnation_at(epoch: u64) -> u64 {
    epoch.saturating_mul(1 << 20)
}

/// Loads the node's state from its engine and increments the incarnation.
pub(crate) fn load(engine: &Engine, map: &VnodeMap, epoch: u64) -> Result<(u64, State)> {
    let store = engine.store();
    let corrupt = |e| Error::corrupt("a row of table `meta` that a cluster's server keeps", e);
    let before = store.get(Table::Meta, INCARNATION)?;
    let before = before.map(|b| Reader::new(&b).u64("how often the server was started"));
    let incarnation = before.transpose().map_err(corrupt)?.unwrap_or(0) + 1;
    // Another process may have had the store and counted a start that was not yet stored when the store was taken over.
    let incarnation = incarnation.max(incarnation_at(epoch));
    let mut state = State::default();
    let mut failure = None;
    store.scan(
        Table::Meta,
        &KeyRange::prefix(DECIDED),
        &mut |key, value| {
            // The value first: it says which release wrote the row.
            let decoded = Decision::decode(value);
            let decoded = decoded.and_then(|d| Ok((parse_transaction_key(DECIDED, key)?, d)));
            match decoded {
                Ok((tx, decision)) => {
                    let decided = PendingDecision {
                        decision: Arc::new(decision),
                        durable: true,
                    };
                    state.own.decided.insert(tx, decided);
                    Flow::Continue(())
                }
                Err(e) => {
                    failure = Some(corrupt(e));
                    Flow::Break(())
                }
            }
        },
    )?;
    store.scan(Table::Meta, &KeyRange::prefix(DONE), &mut |key, _| {
        match parse_transaction_key(DONE, key) {
            Ok(tx) => {
                state.done.insert(tx);
            }
            Err(e) => failure = Some(corrupt(e)),
        }
        Flow::Continue(())
    })?;
    store.scan(Table::Meta, &KeyRange::prefix(SPLIT), &mut |key, value| {
        let id = key.get(SPLIT.len()..).and_then(|id| id.try_into().ok());
        match (id, SplitState::decode(value)) {
            (Some(id), Ok(splits)) => {
                state.splits.insert(VertexId(id), splits);
            }
            (_, Err(e)) => failure = Some(corrupt(e)),
            (None, _) => failure = Some(corrupt(Reader::new(key).error("a vertex id"))),
        }
        Flow::Continue(())
    })?;
    if let Some(failure) = failure {
        return Err(failure);
    }
    let row = (
        Table::Meta,
        INCARNATION.to_vec(),
        Some(incarnation.to_be_bytes().to_vec()),
    );
    let side_writes = SideWrites {
        rows: vec![row],
        ..SideWrites::default()
    };
    engine.apply_part(
        engine.newest_assigned(),
        &[],
        esker_engine::Absent::Refuse,
        side_writes,
    )?;
    // A single server has no peers to wait for.
    state.serving = map.servers().len() == 1;
    Ok((incarnation, state))
}

impl Node {
    /// Announces this server to all others, and learns what was decided while it was down. Waits as long as it takes
    /// for servers that do not answer, and reports them to `waiting`.
    pub async fn join(self: &Arc<Self>, waiting: &(dyn Fn(ServerId) + Sync)) -> Result<()> {
        let others = self.map.servers().iter().copied();
        let others: Vec<ServerId> = others.filter(|s| *s != self.settings.id).collect();
        self.sweep_tables().await;
        let hellos = others.iter().map(|to| self.say_hello(*to, waiting));
        for done in join_all(hellos).await {
            done?;
        }
        self.catch_up_schema().await?;
        self.announce_all_flags().await;
        // All have applied what an earlier incarnation had decided: it was in the hellos that they answered. The rows
        // are removed with the first commit, so that a server that receives a later decision may forget having
        // applied these.
        let earlier: Vec<TxId> = {
            let state = self.state();
            let own = state.own.decided.keys().copied();
            own.filter(|tx| tx.server == self.settings.id && tx.incarnation < self.incarnation)
                .collect()
        };
        for tx in earlier {
            self.delivered(tx)?;
        }
        self.replay_all().await?;
        let mut state = self.state();
        state.serving = true;
        state.wake();
        Ok(())
    }

    /// Exchanges undelivered decisions with one other server.
    async fn say_hello(
        self: &Arc<Self>,
        to: ServerId,
        waiting: &(dyn Fn(ServerId) + Sync),
    ) -> Result<()> {
        loop {
            let decided = self.undelivered_to(to)?;
            match self.request(to, Request::Hello { decided }).await {
                Ok(Response::Undelivered {
                    decided,
                    incarnation,
                    over,
                }) => {
                    for decided in decided {
                        self.commit(decided).await?;
                    }
                    self.state().learn_ended(to, incarnation, over);
                    if self.exchange_flags(to, 0).await.is_ok() {
                        return Ok(());
                    }
                    waiting(to);
                }
                // A permanent refusal will not change; an unreachable server will come back.
                Err(e @ (Error::Invalid(_) | Error::Corrupt { .. })) => return Err(e),
                Ok(_) | Err(_) => waiting(to),
            }
            self.host.sleep(RETRY).await;
        }
    }

    /// Handles the start of another server: applies what it had decided, drops what it had not, and returns what was
    /// decided here.
    pub(crate) async fn hello(
        self: &Arc<Self>,
        from: ServerId,
        incarnation: u64,
        decided: Vec<Decided>,
    ) -> Result<Response> {
        for decided in decided {
            self.commit(decided).await?;
        }
        {
            let mut state = self.state();
            let State { pending, own, .. } = &mut *state;
            pending.end_before(from, incarnation, |tx| own.decided.contains_key(&tx));
            state.wake();
        }
        // A decision that is being written may still fail; a later one takes account of the start.
        let settled = |state: &mut State| {
            let open = |d: &PendingDecision| !d.durable && d.decision.parts.contains_key(&from);
            (!state.own.decided.values().any(open)).then_some(())
        };
        if self.wait_until(DECIDING_MAX, settled).await.is_none() {
            return Err(Error::Busy(format!(
                "{} has decisions that are not durable yet; try again",
                self.settings.id
            )));
        }
        let over = self.state().own.over();
        Ok(Response::Undelivered {
            decided: self.undelivered_to(from)?,
            incarnation: self.incarnation,
            over,
        })
    }

    pub(crate) fn undelivered_to(&self, server: ServerId) -> Result<Vec<Decided>> {
        let mut all = self.decided_for(server);
        for decided in &mut all {
            if let Some(part) = &mut decided.part
                && part.ops.iter().any(|op| op.change.is_table())
            {
                // The rows must be on disk first, as in `send_decision`.
                self.engine.persist()?;
                *part = self.with_stored_rows(part)?;
            }
        }
        Ok(all)
    }

    fn decided_for(&self, server: ServerId) -> Vec<Decided> {
        let state = self.state();
        let decided = state.own.decided.iter().filter(|(_, d)| d.durable);
        let decided = decided.filter_map(|(tx, d)| {
            Some(Decided {
                tx: *tx,
                version: d.decision.version,
                later: d.decision.later.clone(),
                part: Some(Arc::clone(d.decision.parts.get(&server)?)),
                idempotency_key: d.decision.idempotency_key.clone(),
            })
        });
        decided.collect()
    }
}
