//! Distributed traversals (GraphMeta, section 5; GraphTrek).
//!
//! The home of each vertex keeps track of whether it was reached. A step expands a frontier where its edges are and
//! reports reached vertices to their homes, which with DIDO are mostly on the same server. `coordinate` runs a chain
//! step by step, `asynchronous` without steps; `step` is a server's part in one step, `prefetch` what it loads while
//! it waits for the next.

mod assemble;
mod asynchronous;
mod coordinate;
mod prefetch;
mod share;
mod step;

use super::{BoxFuture, Node};
use crate::peer::{Request, Response, TraversalCall, TraversalId, TraversalReply};
use crate::vnode::ServerId;
use asynchronous::AsyncTraversals;
use esker_model::{Error, Result};
use share::TraversalShare;
use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, PoisonError};

/// The traversals that run on this server.
#[derive(Debug, Default)]
pub(crate) struct Traversals {
    /// Number of traversals that this server has coordinated.
    next: u64,
    /// Traversals in which this server participates, by id.
    shares: BTreeMap<TraversalId, Arc<TraversalShare>>,
    /// Asynchronous traversals that this server coordinates.
    asynchronous: AsyncTraversals,
}

/// Largest number of traversals in which a server participates at once.
const SHARES_MAX: usize = 1 << 12;

impl Node {
    fn travels(&self) -> MutexGuard<'_, Traversals> {
        self.travels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn share(&self, travel: TraversalId) -> Option<Arc<TraversalShare>> {
        self.travels().shares.get(&travel).cloned()
    }

    /// Adds a traversal, and removes those of earlier incarnations of its coordinator.
    fn keep_share(&self, share: &Arc<TraversalShare>) -> Result<()> {
        let id = share.begin.travel;
        let mut travels = self.travels();
        travels
            .shares
            .retain(|t, _| t.server != id.server || t.incarnation >= id.incarnation);
        if travels.shares.len() >= SHARES_MAX {
            return Err(Error::Busy(format!(
                "{} has {SHARES_MAX} traversals in progress; try again later",
                self.settings.id
            )));
        }
        travels
            .shares
            .entry(id)
            .or_insert_with(|| Arc::clone(share));
        Ok(())
    }

    /// Sends a traversal call to a server, this one included. (Boxed, because a call may cause further calls.)
    fn travel_at(
        self: &Arc<Self>,
        to: ServerId,
        call: TraversalCall,
    ) -> BoxFuture<'static, Result<TraversalReply>> {
        let node = Arc::clone(self);
        Box::pin(async move {
            if to == node.settings.id {
                return node.travel_here(to, call).await;
            }
            match node.request(to, Request::Travel(call)).await? {
                Response::Travel(reply) => Ok(reply),
                _ => Err(super::peers::unexpected(to)),
            }
        })
    }

    /// Handles a traversal call.
    pub(crate) async fn travel_here(
        self: &Arc<Self>,
        from: ServerId,
        call: TraversalCall,
    ) -> Result<TraversalReply> {
        let known = |travel| self.share(travel);
        match call {
            TraversalCall::Begin(begin) => self.begin_share(begin).await,
            TraversalCall::Step {
                hop,
                whole,
                next,
                left,
            } => match known(hop.travel) {
                Some(share) => self.step(&share, hop, whole, next, left).await,
                None => Ok(TraversalReply::Unknown),
            },
            TraversalCall::Expand {
                hop,
                vertices,
                left,
                credit,
                number,
            } => match known(hop.travel) {
                Some(share) => {
                    let credit = (credit, Some((from, number)));
                    self.expand_for(&share, hop, &vertices, left, credit).await
                }
                None => Ok(TraversalReply::Unknown),
            },
            TraversalCall::Reach { hop, reached } => match known(hop.travel) {
                Some(share) => self.reach(&share, hop, &reached).await,
                None => Ok(TraversalReply::Unknown),
            },
            TraversalCall::Continue {
                hop,
                number,
                reached,
                credit,
            } => Ok(match known(hop.travel) {
                Some(share) => {
                    self.continue_from(&share, (from, number), hop, reached, credit);
                    TraversalReply::Done
                }
                None => TraversalReply::Unknown,
            }),
            TraversalCall::Credit {
                travel,
                number,
                credit,
                stopped,
                failed,
            } => Ok(self.credit_back(travel, (from, number), credit, stopped, failed)),
            TraversalCall::MoreCredit { travel, number } => {
                Ok(self.more_credit(travel, (from, number)))
            }
            TraversalCall::Alive { travel } => Ok(match known(travel) {
                Some(_) => TraversalReply::Done,
                None => TraversalReply::Unknown,
            }),
            TraversalCall::Collect { travel, from } => Ok(match known(travel) {
                Some(share) => share.collect(from),
                None => TraversalReply::Unknown,
            }),
            TraversalCall::End { travel } => {
                if let Some(share) = self.travels().shares.remove(&travel) {
                    share.stop();
                }
                Ok(TraversalReply::Done)
            }
        }
    }
}
