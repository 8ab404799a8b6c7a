//! Writes that are sent now and waited for later, so that one thread can keep many in flight.

use super::connection::Sent;
use super::driver::Driver;
use super::window::Kept;
use super::{Broken, Client, Wait};
use crate::convert;
use crate::marker::Number;
use crate::proto;
use crate::proto::reply::Reply;
use crate::proto::request::Call;
use esker_model::{Batch, Commit, Result};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

/// A batch that was sent. Dropping it does not take it back.
#[derive(Debug)]
pub struct Pending {
    client: Client,
    request: proto::Request,
    sent: Option<Sent>,
    /// The marker if it is the client's, so that a batch which turns out to be applied was applied by this call.
    number: Option<Number>,
}

/// A call that does nothing, sent.
#[derive(Debug)]
pub struct Ping {
    client: Client,
    sent: Sent,
}

/// What was sent goes out though nobody waits for its answer yet.
pub(super) fn nudge() {
    if let Ok(driver) = Driver::get() {
        driver.nudge();
    }
}

impl Ping {
    /// Waits for the answer.
    pub fn wait(self) -> Result<()> {
        let answered = self.client.receive(&self.sent, Wait::default(), &mut |_| {
            Ok(ControlFlow::Continue(()))
        });
        answered.map_err(Broken::into_error)
    }
}

impl Client {
    /// Sends a call that does nothing; what many of them at once cost can be measured so.
    pub fn submit_ping(&self) -> Result<Ping> {
        let request = proto::Request {
            call: Some(Call::Ping(proto::PingRequest {})),
        };
        let connection = self.connection().map_err(Broken::into_error)?;
        let sent = connection.send(&request, 0, 0);
        nudge();
        Ok(Ping {
            client: self.clone(),
            sent: sent.map_err(Broken::into_error)?,
        })
    }

    /// Sends a batch, which gets a marker if it has none; with `sync`, it is answered once it survives a power failure.
    pub fn submit(&self, batch: Batch, sync: bool) -> Result<Pending> {
        let pending = self.begin(batch, sync)?;
        nudge();
        Ok(pending)
    }

    /// The same for those who wait for the answer at once.
    pub(super) fn begin(&self, mut batch: Batch, sync: bool) -> Result<Pending> {
        let connection = match self.connection() {
            Err(Broken::Failed(e)) => return Err(e),
            other => other,
        };
        let mut number = None;
        if batch.once.is_none() {
            let next = self.shared.sender.next(self.server_millis())?;
            batch.once = Some(next.marker());
            number = Some(next);
        }
        // What is to survive when it is answered is not kept.
        let hold = !sync && self.shared.windows.on.load(Ordering::Acquire);
        let request = proto::Request {
            call: Some(Call::Apply(proto::ApplyRequest {
                hold,
                ..convert::batch_out(&batch, sync)
            })),
        };
        let sent = connection.and_then(|c| c.send(&request, self.newest(), 0));
        let sent = match sent {
            Ok(sent) => Some(sent),
            Err(Broken::Failed(e)) => {
                // It was not sent.
                if let Some(number) = number {
                    number.settle();
                }
                return Err(e);
            }
            // The wait sends it.
            Err(Broken::Lost(_) | Broken::Busy { .. } | Broken::Elsewhere { .. }) => None,
        };
        Ok(Pending {
            client: self.clone(),
            request,
            sent,
            number,
        })
    }
}

/// Whoever is told that a batch failed may write it anew, and must not find that one applied too later.
fn settle(number: Option<Number>) {
    if let Some(number) = number {
        number.settle();
    }
}

impl Pending {
    /// Waits for the answer; sends the batch again if the connection goes away meanwhile.
    pub fn wait(self) -> Result<Commit> {
        let Self {
            client,
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
                _ => Err(client.stray()),
            };
            // The disk may take its time; a server that is gone is noticed by the connection.
            let wait = Wait {
                cancel: None,
                long: true,
            };
            let outcome = match sent.take() {
                Some(sent) => client.receive(&sent, wait, &mut receive),
                None => client.exchange(connection, &request, wait, &mut receive),
            };
            // What a busy server refused was not applied.
            repeated |= matches!(outcome, Err(Broken::Lost(_)));
            outcome?;
            commit.ok_or_else(|| Broken::Failed(client.stray()))
        });
        let applied_by_us = repeated && number.is_some();
        let commit = match answer {
            Ok(reply) => {
                let commit = convert::commit_in(&reply);
                match reply.held {
                    Some(held) => client.keep(Kept::new(request, &reply, held, number)),
                    None => settle(number),
                }
                commit
            }
            Err(e) => {
                settle(number);
                return Err(e);
            }
        };
        client.saw(commit.version);
        let applied_before = applied_by_us && !commit.applied;
        Ok(Commit {
            applied: commit.applied || applied_before,
            ..commit
        })
    }
}
