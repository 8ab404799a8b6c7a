//! Doing what servers that have all stopped had decided together and not delivered: before what they hold is dealt out anew.

use super::{BoxFuture, Host, Node, Settings};
use crate::peer::{Answer, Question};
use crate::vnode::ServerId;
use esker_engine::{Clock, Engine};
use esker_model::{Error, Result};
use std::sync::Arc;

/// There is nobody to talk to.
struct NoHost;

impl Host for NoHost {
    fn call(&self, to: ServerId, _question: Question) -> BoxFuture<'static, Result<Answer>> {
        Box::pin(async move { Err(Error::Unavailable(format!("{to} does not run"))) })
    }

    fn sleep(&self, _millis: u64) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }

    fn spawn(&self, _task: BoxFuture<'static, ()>) {
        // Splits, which can be made later, and telling others what is told them here.
    }
}

/// Does on each server's engine what others had decided for it and had no answer to; how much that was. Doing it again does
/// nothing. `settings` are those of the first server; the engines are in the order of the servers.
pub fn settle(
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
                other.commit(decided)?;
                delivered += 1;
            }
        }
    }
    // What was given as a table would be found twice.
    for node in &nodes {
        node.remove_all_given()?;
    }
    Ok(delivered)
}
