//! A transaction over several servers, at its coordinator.
//!
//! Two phases, with versions as in Clock-SI (Du et al., SRDS 2013) and hybrid clocks: each server that has a part
//! prepares it in memory and answers with a floor; the version is the largest floor, so that it is later than anything that
//! anybody has read there. The decision is one commit of the coordinator's own engine, with the parts of the others in it:
//! they have nothing to write before they do their part, and who forgot its part is sent it again.

use super::Node;
use super::codec::{Decision, decided_key, split_key};
use super::peers::unexpected;
use super::state::Decided as OwnDecided;
use crate::peer::{Adopt, Change, Decided, Part, PartOp, Prepared, Request, Response, TxId};
use crate::placement::SplitState;
use crate::vnode::ServerId;
use esker_engine::Beside;
use esker_model::{Commit, Error, Result, Version, VertexId};
use esker_store::Table;
use futures_util::future::join_all;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Pauses between attempts to reach a server that does not answer, in milliseconds.
const RETRY_FIRST: u64 = 20;
const RETRY_LAST: u64 = 1_000;

/// The parts of a batch by server.
pub(super) type Parts = BTreeMap<ServerId, Arc<Part>>;

/// What the coordinator itself does with a decision.
pub(super) struct Aside<'a> {
    /// Rows of its own.
    pub(super) beside: Beside,
    /// A vertex that splits, and how it has split then.
    pub(super) splits: Option<(VertexId, SplitState)>,
    /// The batch's marker.
    pub(super) marker: Option<&'a [u8]>,
    /// The highest version that its client has seen.
    pub(super) seen: Version,
}

/// What became of an attempt.
pub(super) enum Attempt {
    /// Whether a checkpoint holds it, too.
    Done(Commit, bool),
    /// Something is known now that was not: try again.
    Again,
    /// Nothing was done: a file that has the rows of a part cannot be read by who is to take them.
    Unread,
}

impl Node {
    /// Prepares, decides and does a transaction. `beside` is done here with the decision.
    pub(super) async fn attempt(
        self: &Arc<Self>,
        mut parts: Parts,
        aside: Aside<'_>,
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
        let mut transaction = Transaction {
            node: Arc::clone(self),
            tx,
            asked: Vec::new(),
            decided: false,
        };
        // Here first: what cannot be done here is not asked of others.
        let here = match self
            .prepare(tx, over, aside.seen, Arc::clone(&mine))
            .await?
        {
            Response::Prepared(prepared) => prepared,
            Response::Moved(_) | Response::Over => return Ok(Attempt::Again),
            _ => return Err(unexpected(self.settings.id)),
        };
        transaction.asked = parts.keys().copied().collect();
        let prepare = parts.iter().map(|(server, part)| {
            let request = Request::Prepare {
                tx,
                over,
                seen: aside.seen,
                part: Arc::clone(part),
            };
            self.ask_at(*server, request)
        });
        let answers = join_all(prepare).await;
        let mut prepared = vec![here];
        let mut incarnations = Vec::with_capacity(answers.len());
        let (mut again, mut unread) = (false, false);
        let mut failure = None;
        for (server, answer) in parts.keys().zip(answers) {
            match answer {
                Ok((Response::Prepared(part), incarnation)) => {
                    incarnations.push((*server, incarnation));
                    prepared.push(part);
                }
                Ok((Response::Moved(splits), _)) => {
                    self.learn_splits(*server, &splits)?;
                    again = true;
                }
                Ok((Response::Over, _)) => again = true,
                Ok((Response::Unknown, _)) => unread = true,
                Ok(_) => failure = Some(unexpected(*server)),
                Err(e) => {
                    // What cannot be done at all says more than who could not be asked.
                    if failure
                        .as_ref()
                        .is_none_or(|f| matches!(f, Error::Unavailable(_)))
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
            return Ok(Attempt::Again);
        }
        self.decide(transaction, (mine, parts), &prepared, &incarnations, aside)
            .await
    }

    /// Everybody is prepared: decides, unless somebody has been started anew and forgotten it.
    async fn decide(
        self: &Arc<Self>,
        mut transaction: Transaction,
        (mine, parts): (Arc<Part>, Parts),
        prepared: &[Prepared],
        incarnations: &[(ServerId, u64)],
        aside: Aside<'_>,
    ) -> Result<Attempt> {
        let Aside {
            mut beside,
            splits,
            marker,
            seen: _,
        } = aside;
        let tx = transaction.tx;
        let changing = self.begin_change().await?;
        // The first is this server's own.
        let floors = || prepared.iter().map(|p| p.floor);
        let own = floors().next().unwrap_or(Version::ZERO);
        // Nobody has a copy as of a version that something is decided at afterwards.
        let latest = floors().max().unwrap_or(own).max(self.after_cut());
        let version = self.clock.decide(own, latest, self.time.now_millis());
        let later = versions_later(prepared, version);
        let decision = Arc::new(Decision {
            version,
            later,
            parts,
        });
        let slot = (tx.incarnation, tx.number);
        {
            let mut state = self.state();
            let state = &mut *state;
            let started_anew = |(server, incarnation): &(ServerId, u64)| {
                state.incarnations.get(server) > Some(incarnation)
            };
            if incarnations.iter().any(started_anew) {
                return Ok(Attempt::Again);
            }
            if !decision.parts.is_empty() {
                let key = decided_key(tx.incarnation, tx.number);
                beside
                    .rows
                    .push((Table::Meta, key, Some(decision.encode())));
                let decided = OwnDecided {
                    decision: Arc::clone(&decision),
                    durable: false,
                };
                state.own.decided.insert(slot, decided);
            }
            if let Some((id, _)) = &splits {
                state.deciding.insert(*id);
            }
            for done in state.own.done.drain(..) {
                beside.rows.push((Table::Meta, done, None));
            }
        }
        beside.once = marker.map(<[u8]>::to_vec);
        // The others hear of it.
        let told = splits.is_some() || !decision.parts.is_empty();
        let mut commit = {
            let _writing = splits.as_ref().map(|_| self.writing_splits());
            let splits = splits.map(|(id, splits)| (id, self.with_stored(id, splits)));
            if let Some((id, splits)) = &splits {
                beside
                    .rows
                    .push((Table::Meta, split_key(*id), Some(splits.encode())));
            }
            let mut done = self.do_part(&mine, version, &decision.later, beside);
            if told {
                // The decision is this commit.
                done = done.and_then(|commit| self.harden().map(|()| commit));
            }
            let mut state = self.state();
            if let Some((id, splits)) = splits {
                state.deciding.remove(&id);
                if done.is_ok() {
                    state.set_splits(id, splits);
                }
            }
            if done.is_err() {
                state.own.decided.remove(&slot);
            }
            state.wake();
            done?
        };
        if !commit.applied {
            // The same batch was applied meanwhile, and this one was not.
            self.state().own.decided.remove(&slot);
            return Ok(Attempt::Done(commit, false));
        }
        transaction.decided = true;
        {
            let mut state = self.state();
            if let Some(decided) = state.own.decided.get_mut(&slot) {
                decided.durable = true;
            }
            state.pending.end(tx);
            state.wake();
        }
        drop(transaction);
        drop(changing);
        self.deliver(tx, decision, &mut commit).await;
        Ok(Attempt::Done(commit, told))
    }

    /// Tells everybody. Who does not answer is told again until it does; the caller does not wait for that.
    async fn deliver(self: &Arc<Self>, tx: TxId, decision: Arc<Decision>, commit: &mut Commit) {
        let servers: Vec<ServerId> = decision.parts.keys().copied().collect();
        let tell = servers
            .iter()
            .map(|server| self.tell(*server, tx, Arc::clone(&decision)));
        let mut left = Vec::new();
        for (server, told) in servers.iter().zip(join_all(tell).await) {
            match told {
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

    /// Goes on telling those that did not answer.
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
                if node.tell(server, tx, Arc::clone(&decision)).await.is_err() {
                    still.push(server);
                }
            }
            left = still;
            if left.is_empty() && node.delivered(tx).is_ok() {
                return;
            }
        }
    }

    /// All have acknowledged it: nobody needs it any more. If its rows cannot be removed it stays as it is.
    pub(crate) fn delivered(&self, tx: TxId) -> Result<()> {
        let slot = (tx.incarnation, tx.number);
        let decision = {
            let state = self.state();
            let decided = state.own.decided.get(&slot);
            decided.map(|d| Arc::clone(&d.decision))
        };
        let gone = decision.map_or(Ok(false), |decision| self.remove_given(tx, &decision))?;
        let mut state = self.state();
        let known = state.own.decided.remove(&slot);
        if known.is_some() && !gone {
            state.own.done.push(decided_key(tx.incarnation, tx.number));
        }
        if tx.incarnation == self.incarnation {
            state.own.end(tx.number);
        }
        state.wake();
        Ok(())
    }

    /// Tells one server to do its part; what was new there.
    async fn tell(
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
            })
        };
        let part = decision.parts.get(&server).cloned().unwrap_or_default();
        if part.ops.iter().any(|op| op.change.is_table()) {
            // Who takes rows takes them for good: no failure of the power here may leave them in two places.
            self.engine.persist()?;
        }
        let mut answer = self.ask(server, decided(None)).await?;
        if answer == Response::Unknown {
            let part = self.with_kept(&part)?;
            answer = self.ask(server, decided(Some(part))).await?;
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

    /// Moves a partition: the receiver's part, and what is done here with the decision.
    pub(super) async fn move_partition(
        self: &Arc<Self>,
        to: ServerId,
        part: Part,
        beside: Beside,
        splits: (VertexId, SplitState),
    ) -> Result<Attempt> {
        let beside = Aside {
            beside,
            splits: Some(splits),
            marker: None,
            seen: Version::ZERO,
        };
        self.attempt(Parts::from([(to, Arc::new(part))]), beside)
            .await
    }

    /// Takes back what was prepared, wherever that may be.
    async fn give_up(self: Arc<Self>, tx: TxId, asked: Vec<ServerId>) {
        let me = self.me.clone();
        let host = Arc::clone(&self.host);
        let mut left = asked;
        drop(self);
        let mut pause = RETRY_FIRST;
        loop {
            let Some(node) = me.upgrade() else { return };
            let mut still = Vec::new();
            for server in left {
                // One that was started anew has forgotten it, and must hear that it is over: what it was asked may still be on its way.
                if node.ask(server, Request::Abort { tx }).await.is_err() {
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

/// A transaction until it is decided: if it ends before (a failure, a caller that is gone), it is given up everywhere.
struct Transaction {
    node: Arc<Node>,
    tx: TxId,
    asked: Vec<ServerId>,
    decided: bool,
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
            if self.asked.is_empty() {
                state.own.end(self.tx.number);
                return;
            }
        }
        let (tx, asked) = (self.tx, std::mem::take(&mut self.asked));
        node.spawn(|node| node.give_up(tx, asked));
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

/// Changes that must take a later version than the transaction's, by place: the same one in all their parts.
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
