//! Delivery of undelivered decisions between servers that have all stopped, before their data is redistributed.

use super::{BoxFuture, Host, Node, Settings};
use crate::peer::{PeerRequest, PeerResponse};
use crate::vnode::ServerId;
use esker_engine::{Clock, Engine};
use esker_model::{Error, Result};
use futures_util::FutureExt as _;
use std::sync::Arc;

/// A host without a network.
struct NoHost;

impl Host for NoHost {
    fn call(
        &self,
        to: ServerId,
        _question: PeerRequest,
    ) -> BoxFuture<'static, Result<PeerResponse>> {
        Box::pin(async move { Err(not_running(to)) })
    }

    fn sleep(&self, _millis: u64) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }

    fn spawn(&self, _task: BoxFuture<'static, ()>) {
        // No-op: the only spawned tasks are splits (deferred) and deliveries (done by [`deliver_decisions`]).
    }
}

fn not_running(id: ServerId) -> Error {
    Error::Unavailable(format!("{id} is not running"))
}

/// Applies on each server's engine what other servers had decided and not delivered; returns the number of decisions.
/// Repeating it changes nothing. `settings` are those of the first server; the engines are in the order of the
/// servers.
pub fn deliver_decisions(
    engines: &[Arc<Engine>],
    time: &Arc<dyn Clock>,
    settings: &Settings,
) -> Result<usize> {
    let nodes = settings.servers.iter().zip(engines).map(|(id, engine)| {
        let settings = Settings {
            id: *id,
            ..settings.clone()
        };
        Node::open(
            Arc::clone(engine),
            Arc::clone(time),
            Arc::new(NoHost),
            settings,
        )
    });
    let nodes: Vec<Arc<Node>> = nodes.collect::<Result<_>>()?;
    let mut delivered = 0;
    for node in &nodes {
        for other in &nodes {
            if node.settings.id == other.settings.id {
                continue;
            }
            for decided in node.undelivered_to(other.settings.id)? {
                // A commit does not wait here: the host runs blocking work at once.
                let done = other.commit(decided).now_or_never();
                done.unwrap_or_else(|| Err(not_running(other.settings.id)))?;
                delivered += 1;
            }
        }
    }
    // Rows given away as tables would otherwise be found on both servers.
    for node in &nodes {
        node.remove_all_transferred()?;
    }
    Ok(delivered)
}
