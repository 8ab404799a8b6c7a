//! Writes that are sent now and waited for later, so that one thread can keep many in flight.

use super::connection::Sent;
use super::{Broken, Client, Wait};
use crate::convert;
use crate::marker;
use crate::proto;
use crate::proto::reply::Reply;
use crate::proto::request::Call;
use esker_model::{Batch, Commit, Result};
use std::ops::ControlFlow;
use std::time::{SystemTime, UNIX_EPOCH};

/// A batch that was sent. Dropping it does not take it back.
#[derive(Debug)]
pub struct Pending {
    client: Client,
    request: proto::Request,
    sent: Option<Sent>,
    /// The marker is the client's, so that a batch which turns out to be applied was applied by this call.
    ours: bool,
}

impl Client {
    /// Sends a batch, which gets a marker if it has none; with `sync`, it is answered once it survives a power failure.
    pub fn submit(&self, mut batch: Batch, sync: bool) -> Result<Pending> {
        let ours = batch.once.is_none();
        if ours {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            batch.once = Some(marker::new(now.unwrap_or_default().as_millis() as u64)?);
        }
        let request = proto::Request {
            call: Some(Call::Apply(convert::batch_out(&batch, sync))),
        };
        let connection = self.connection();
        let sent = connection.and_then(|c| c.send(&request, self.newest(), 0));
        let sent = match sent {
            Ok(sent) => Some(sent),
            Err(Broken::Failed(e)) => return Err(e),
            // The wait sends it.
            Err(Broken::Lost(_) | Broken::Busy { .. }) => None,
        };
        Ok(Pending {
            client: self.clone(),
            request,
            sent,
            ours,
        })
    }
}

impl Pending {
    /// Waits for the answer; sends the batch again if the connection goes away meanwhile.
    pub fn wait(self) -> Result<Commit> {
        let Self {
            client,
            request,
            mut sent,
            ours,
        } = self;
        let mut repeated = false;
        let commit = client.run(None, |connection| {
            let mut commit = None;
            let mut receive = |reply| match reply {
                Reply::Apply(reply) => {
                    commit = Some(convert::commit_in(&reply));
                    Ok(ControlFlow::Continue(()))
                }
                _ => Err(client.stray()),
            };
            let outcome = match sent.take() {
                Some(sent) => client.receive(&sent, Wait::default(), &mut receive),
                None => client.exchange(connection, &request, Wait::default(), &mut receive),
            };
            // What a busy server refused was not applied.
            repeated |= matches!(outcome, Err(Broken::Lost(_)));
            outcome?;
            commit.ok_or_else(|| Broken::Failed(client.stray()))
        })?;
        client.saw(commit.version);
        let applied_before = ours && repeated && !commit.applied;
        Ok(Commit {
            applied: commit.applied || applied_before,
            ..commit
        })
    }
}
