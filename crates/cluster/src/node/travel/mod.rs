//! Traversals over all servers (GraphMeta, section 5; GraphTrek).
//!
//! A vertex that is reached is kept track of at its home. A step expands a frontier where its edges lie and tells the homes
//! of what they lead to: with DIDO that is mostly the same server. `coordinate` runs a chain step by step, `flow` without
//! steps; `step` is what a server does in one, `ahead` what it does while it waits for the next.

mod ahead;
mod assemble;
mod coordinate;
mod flow;
mod step;
mod walk;

use super::{BoxFuture, Node};
use crate::peer::{Request, Response, TravelCall, TravelId, TravelReply};
use crate::vnode::ServerId;
use esker_model::{Error, Result};
use flow::Flows;
use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, PoisonError};
use walk::Walk;

/// The traversals that run here.
#[derive(Debug, Default)]
pub(crate) struct Travels {
    /// Those that this server coordinates are counted.
    next: u64,
    /// By name, those that this server has a share in.
    walks: BTreeMap<TravelId, Arc<Walk>>,
    /// Asynchronous ones that this server coordinates.
    flows: Flows,
}

/// Traversals that a server has a share in at once.
const WALKS_MAX: usize = 1 << 12;

impl Node {
    fn travels(&self) -> MutexGuard<'_, Travels> {
        self.travels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn walk(&self, travel: TravelId) -> Option<Arc<Walk>> {
        self.travels().walks.get(&travel).cloned()
    }

    /// Keeps a walk; those of a coordinator that was started anew since are over.
    fn keep_walk(&self, walk: &Arc<Walk>) -> Result<()> {
        let id = walk.begin.travel;
        let mut travels = self.travels();
        travels
            .walks
            .retain(|t, _| t.server != id.server || t.incarnation >= id.incarnation);
        if travels.walks.len() >= WALKS_MAX {
            return Err(Error::Unavailable(format!(
                "{} has {WALKS_MAX} traversals under way; try again later",
                self.settings.id
            )));
        }
        travels.walks.entry(id).or_insert_with(|| Arc::clone(walk));
        Ok(())
    }

    /// Asks a server about a traversal, this one included. (Boxed, because what is asked here may ask further.)
    fn travel_at(
        self: &Arc<Self>,
        to: ServerId,
        call: TravelCall,
    ) -> BoxFuture<'static, Result<TravelReply>> {
        let node = Arc::clone(self);
        Box::pin(async move {
            if to == node.settings.id {
                return node.travel_here(to, call).await;
            }
            match node.ask(to, Request::Travel(call)).await? {
                Response::Travel(reply) => Ok(reply),
                _ => Err(super::peers::unexpected(to)),
            }
        })
    }

    /// This server's share in a traversal.
    pub(crate) async fn travel_here(
        self: &Arc<Self>,
        from: ServerId,
        call: TravelCall,
    ) -> Result<TravelReply> {
        let known = |travel| self.walk(travel);
        match call {
            TravelCall::Begin(begin) => self.begin_walk(begin).await,
            TravelCall::Step {
                hop,
                whole,
                next,
                left,
            } => match known(hop.travel) {
                Some(walk) => self.step(&walk, hop, whole, next, left).await,
                None => Ok(TravelReply::Unknown),
            },
            TravelCall::Expand {
                hop,
                vertices,
                left,
                credit,
                number,
            } => match known(hop.travel) {
                Some(walk) => {
                    let credit = (credit, Some((from, number)));
                    self.expand_for(&walk, hop, &vertices, left, credit).await
                }
                None => Ok(TravelReply::Unknown),
            },
            TravelCall::Reach { hop, reached } => match known(hop.travel) {
                Some(walk) => self.reach(&walk, hop, &reached).await,
                None => Ok(TravelReply::Unknown),
            },
            TravelCall::Go {
                hop,
                number,
                reached,
                credit,
            } => Ok(match known(hop.travel) {
                Some(walk) => {
                    self.go(&walk, (from, number), hop, reached, credit);
                    TravelReply::Done
                }
                None => TravelReply::Unknown,
            }),
            TravelCall::Credit {
                travel,
                number,
                credit,
                stopped,
                failed,
            } => Ok(self.credit_back(travel, (from, number), credit, stopped, failed)),
            TravelCall::MoreCredit { travel, number } => {
                Ok(self.more_credit(travel, (from, number)))
            }
            TravelCall::Alive { travel } => Ok(match known(travel) {
                Some(_) => TravelReply::Done,
                None => TravelReply::Unknown,
            }),
            TravelCall::Collect { travel, from } => Ok(match known(travel) {
                Some(walk) => walk.collect(from),
                None => TravelReply::Unknown,
            }),
            TravelCall::End { travel } => {
                if let Some(walk) = self.travels().walks.remove(&travel) {
                    walk.stop();
                }
                Ok(TravelReply::Done)
            }
        }
    }
}
