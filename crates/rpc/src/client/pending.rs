//! Writes that are sent now and awaited later, so that one thread can keep many in flight.

use super::connection::SentCall;
use super::driver::Driver;
use super::route::Destination;
use super::window::KeptBatch;
use super::{CallError, Client, Wait};
use crate::convert;
use crate::producer::BatchNumber;
use crate::proto;
use crate::proto::reply::Reply;
use crate::proto::request::Call;
use esker_model::{Batch, Commit, Result};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

/// A batch that was sent. Dropping it does not cancel the batch.
#[derive(Debug)]
pub struct Pending {
    /// Client of the server that got the batch.
    client: Client,
    /// Client of the caller, if that is another one.
    caller: Option<Client>,
    request: proto::Request,
    sent: Option<SentCall>,
    /// Number of an idempotency key that the client has made: a repeated batch that was applied before was then applied
    /// by this call.
    number: Option<BatchNumber>,
}

/// A call without effect that was sent.
#[derive(Debug)]
pub struct Ping {
    client: Client,
    sent: SentCall,
}

/// Makes sure that queued messages are sent although no caller waits for a response.
pub(super) fn nudge() {
    if let Ok(driver) = Driver::get() {
        driver.nudge();
    }
}

impl Ping {
    /// Waits for the response.
    pub fn wait(self) -> Result<()> {
        let answered = self.client.receive(&self.sent, Wait::default(), &mut |_| {
            Ok(ControlFlow::Continue(()))
        });
        answered.map_err(CallError::into_error)
    }
}

impl Client {
    /// Sends a call without effect, for measuring the cost of many calls in flight.
    pub fn submit_ping(&self) -> Result<Ping> {
        let request = proto::Request {
            call: Some(Call::Ping(proto::PingRequest {})),
        };
        let connection = self.connection().map_err(CallError::into_error)?;
        let sent = connection.send(&request, 0, 0);
        nudge();
        Ok(Ping {
            client: self.clone(),
            sent: sent.map_err(CallError::into_error)?,
        })
    }

    /// Sends a batch, with an idempotency key if it has none; with `sync`, the response comes once the batch survives a
    /// power failure.
    pub fn submit(&self, batch: Batch, sync: bool) -> Result<Pending> {
        let pending = self.begin(batch, sync)?;
        nudge();
        Ok(pending)
    }

    /// Sends a batch for a caller that waits for the response at once.
    pub(super) fn begin(&self, batch: Batch, sync: bool) -> Result<Pending> {
        // Batches that are kept for a while are kept by server, of which the client knows its own.
        if self.shared.kept_batches.on.load(Ordering::Acquire) {
            return self.begin_here(batch, sync);
        }
        match self.destination_of_batch(&batch) {
            Destination::Own => self.begin_here(batch, sync),
            Destination::To(client) => Ok(Pending {
                caller: Some(self.clone()),
                ..client.begin_here(batch, sync)?
            }),
        }
    }

    /// Sends a batch to this client's server.
    fn begin_here(&self, mut batch: Batch, sync: bool) -> Result<Pending> {
        let connection = match self.connection() {
            Err(CallError::Failed(e)) => return Err(e),
            other => other,
        };
        let mut number = None;
        if batch.idempotency_key.is_none() {
            let next = self.shared.producer.next(self.server_millis())?;
            batch.idempotency_key = Some(next.idempotency_key());
            number = Some(next);
        }
        // A batch that must be durable when it is answered need not be kept.
        let keep_until_checkpoint = !sync && self.shared.kept_batches.on.load(Ordering::Acquire);
        let request = proto::Request {
            call: Some(Call::Apply(proto::ApplyRequest {
                keep_until_checkpoint,
                ..convert::batch_out(&batch, sync)
            })),
        };
        let sent = connection.and_then(|c| c.send(&request, self.newest(), 0));
        let sent = match sent {
            Ok(sent) => Some(sent),
            Err(CallError::Failed(e)) => {
                // The batch was not sent.
                if let Some(number) = number {
                    number.settle();
                }
                return Err(e);
            }
            // `Pending::wait` sends it.
            Err(CallError::Lost(_) | CallError::Busy { .. } | CallError::Moved { .. }) => None,
        };
        Ok(Pending {
            client: self.clone(),
            caller: None,
            request,
            sent,
            number,
        })
    }
}

/// A caller that gets an error may write the batch anew; this one must not be applied later as well.
fn settle(number: Option<BatchNumber>) {
    if let Some(number) = number {
        number.settle();
    }
}

impl Pending {
    /// Waits for the response; sends the batch again if the connection is lost meanwhile.
    pub fn wait(self) -> Result<Commit> {
        let Self {
            client,
            caller,
            request,
            mut sent,
            number,
        } = self;
        let mut repeated = false;
        let answer = client.run(None, |connection| {
            let mut commit = None;
            let mut receive = |reply| match reply {
                Reply::Apply(reply) => {
                    commit = Some(reply);
                    Ok(ControlFlow::Continue(()))
                }
                _ => Err(client.wrong_reply()),
            };
            // A sync may take long; a dead server is detected by the connection.
            let wait = Wait {
                cancel: None,
                long: true,
            };
            let outcome = match sent.take() {
                Some(sent) => client.receive(&sent, wait, &mut receive),
                None => client.exchange(connection, &request, wait, &mut receive),
            };
            // A batch that a busy server refused was not applied.
            repeated |= matches!(outcome, Err(CallError::Lost(_)));
            outcome?;
            commit.ok_or_else(|| CallError::Failed(client.wrong_reply()))
        });
        let applied_by_us = repeated && number.is_some();
        let commit = match answer {
            Ok(reply) => {
                let commit = convert::commit_in(&reply);
                match reply.window_position {
                    Some(position) => {
                        client.keep(KeptBatch::new(request, &reply, position, number));
                    }
                    None => settle(number),
                }
                commit
            }
            Err(e) => {
                settle(number);
                return Err(e);
            }
        };
        client.record_version(commit.version);
        if let Some(caller) = caller {
            caller.record_version(commit.version);
        }
        let applied_before = applied_by_us && !commit.applied;
        Ok(Commit {
            applied: commit.applied || applied_before,
            ..commit
        })
    }
}
