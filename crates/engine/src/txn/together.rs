//! Batches that one caller has gathered from many: one group, however the others come in between.

use super::{Slot, Ticket, lock, lost, take_answer};
use crate::Engine;
use esker_model::limits::BATCH_MUTATIONS_MAX;
use esker_model::{Batch, Commit, Error, Result};
use std::sync::{Arc, Mutex};

impl Engine {
    /// Applies a batch if nobody writes just now; else gives it back. For callers that must not wait for others.
    pub fn apply_now(&self, batch: Batch) -> std::result::Result<Result<Commit>, Batch> {
        match self.writer.try_lock() {
            // Who stands in the queue was there first.
            Ok(mut writer)
                if lock(&self.queue.0).is_empty() && batch.len() <= BATCH_MUTATIONS_MAX =>
            {
                Ok(self.apply_holding(&mut writer, batch))
            }
            _ => Err(batch),
        }
    }

    /// Applies batches in one group commit, each whole or not at all. The answers are in the order of the batches.
    pub fn apply_together(&self, batches: Vec<Batch>) -> Vec<Result<Commit>> {
        let slot = |batch: Batch| match batch.len() {
            n if n > BATCH_MUTATIONS_MAX => Slot::Done(Err(Error::Limit {
                what: "a batch's number of mutations".into(),
                got: n as u64,
                limit: BATCH_MUTATIONS_MAX as u64,
            })),
            _ => Slot::Waiting(batch),
        };
        let tickets: Vec<Ticket> = batches
            .into_iter()
            .map(|batch| Arc::new(Mutex::new(slot(batch))))
            .collect();
        lock(&self.queue.0).extend(tickets.iter().cloned());
        let mut writer = lock(&self.writer);
        // They stand in the queue together, and whoever takes one takes all.
        let waiting = |ticket: &Ticket| matches!(*lock(ticket), Slot::Waiting(_));
        if tickets.iter().any(waiting) {
            let group = std::mem::take(&mut *lock(&self.queue.0));
            self.apply_group(&mut writer, &group);
        }
        drop(writer);
        let answer = |ticket: &Ticket| take_answer(ticket).unwrap_or_else(|| Err(lost()));
        tickets.iter().map(answer).collect()
    }
}
