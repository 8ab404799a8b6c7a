//! Entry points for callers that collect batches of several clients into one group commit.

use super::{Ticket, TicketState, lock, lost_write, take_answer};
use crate::Engine;
use esker_model::limits::BATCH_MUTATIONS_MAX;
use esker_model::{Batch, Commit, Error, Result};
use std::sync::{Arc, Mutex};

impl Engine {
    /// Applies batches in one group commit, each atomically, if the write lock is free; otherwise returns the batches. The results are in
    /// the order of the batches. For callers that must not block.
    pub fn try_apply_all(
        &self,
        batches: Vec<Batch>,
    ) -> std::result::Result<Vec<Result<Commit>>, Vec<Batch>> {
        let small = batches.iter().all(|b| b.len() <= BATCH_MUTATIONS_MAX);
        match self.writer.try_lock() {
            // Queued batches take precedence.
            Ok(mut writer) if small && lock(&self.queue.0).is_empty() => {
                let waiting = |batch| Arc::new(Mutex::new(TicketState::Waiting(batch)));
                let tickets: Vec<Ticket> = batches.into_iter().map(waiting).collect();
                self.apply_group(&mut writer, &tickets);
                drop(writer);
                Ok(answers(&tickets))
            }
            _ => Err(batches),
        }
    }

    /// Applies batches in one group commit, each atomically. The results are in the order of the batches.
    pub fn apply_all(&self, batches: Vec<Batch>) -> Vec<Result<Commit>> {
        let slot = |batch: Batch| match batch.len() {
            n if n > BATCH_MUTATIONS_MAX => TicketState::Done(Err(Error::Limit {
                what: "a batch's number of mutations".into(),
                got: n as u64,
                limit: BATCH_MUTATIONS_MAX as u64,
            })),
            _ => TicketState::Waiting(batch),
        };
        let tickets: Vec<Ticket> = batches
            .into_iter()
            .map(|batch| Arc::new(Mutex::new(slot(batch))))
            .collect();
        lock(&self.queue.0).extend(tickets.iter().cloned());
        let mut writer = lock(&self.writer);
        // They were queued under one lock, so the writer that takes one takes all.
        let waiting = |ticket: &Ticket| matches!(*lock(ticket), TicketState::Waiting(_));
        if tickets.iter().any(waiting) {
            let group = std::mem::take(&mut *lock(&self.queue.0));
            self.apply_group(&mut writer, &group);
        }
        drop(writer);
        answers(&tickets)
    }
}

fn answers(tickets: &[Ticket]) -> Vec<Result<Commit>> {
    let answer = |ticket: &Ticket| take_answer(ticket).unwrap_or_else(|| Err(lost_write()));
    tickets.iter().map(answer).collect()
}
