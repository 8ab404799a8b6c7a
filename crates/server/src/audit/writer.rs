//! The thread that writes the audit log.

use super::event::AuditEvent;
use super::facts;
use super::state::{QueueState, now_micros};
use crate::settings::AuditSync;
use esker_audit::Log;
use esker_model::{Result, Schema};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Records between two writes to the file.
const GROUP: usize = 4_096;
/// Time for which records gather, so that the thread is not woken for each.
const GATHER: Duration = Duration::from_millis(5);
/// Time between looks at the age of the segment while there are no records.
const IDLE: Duration = Duration::from_mins(1);
/// Time after which a failed write is repeated.
const RETRY: Duration = Duration::from_secs(1);
/// Failed writes between two messages about them.
const SAID_EVERY: u64 = 60;

/// Owner of the log.
pub(super) struct LogWriter {
    log: Log,
    events: Receiver<AuditEvent>,
    state: Arc<QueueState>,
    sync: AuditSync,
    synced: Instant,
    /// Whether records were written since the last sync.
    dirty: bool,
}

impl LogWriter {
    pub(super) fn new(
        log: Log,
        events: Receiver<AuditEvent>,
        state: Arc<QueueState>,
        sync: AuditSync,
    ) -> Self {
        Self {
            log,
            events,
            state,
            sync,
            synced: Instant::now(),
            dirty: false,
        }
    }

    /// Writes records until the server ends.
    pub(super) fn run(mut self) {
        let mut ended = false;
        while !ended {
            match self.events.recv_timeout(self.wait()) {
                Ok(event) => {
                    ended = self.group(event);
                    self.persist();
                    if !ended && self.interval().is_some() {
                        std::thread::sleep(GATHER);
                    }
                }
                Err(RecvTimeoutError::Timeout) => self.persist(),
                Err(RecvTimeoutError::Disconnected) => ended = true,
            }
        }
        if let Err(e) = self.log.close(now_micros()) {
            tracing::error!(error = %e, "the audit log is not complete");
        }
    }

    /// Time between two syncs; `None` for one after each group.
    fn interval(&self) -> Option<Duration> {
        match self.sync {
            AuditSync::Always => None,
            AuditSync::Every(time) => Some(time),
        }
    }

    fn wait(&self) -> Duration {
        match self.interval() {
            Some(interval) if self.dirty => interval.saturating_sub(self.synced.elapsed()),
            _ => IDLE,
        }
    }

    /// Adds a record and those that wait behind it; returns whether the server ends.
    fn group(&mut self, first: AuditEvent) -> bool {
        let schema = self.schema();
        let mut next = Some(first);
        let (mut taken, mut ended) = (0, false);
        while let Some(event) = next {
            let entry = match event {
                AuditEvent::End => {
                    ended = true;
                    break;
                }
                AuditEvent::Entry(entry) => *entry,
                AuditEvent::Call(call) => facts::entry_of(*call, schema.as_deref()),
            };
            self.log.append(&entry);
            self.state.waiting.fetch_sub(1, Ordering::Relaxed);
            self.state.records.add(1);
            taken += 1;
            next = if taken < GROUP {
                self.events.try_recv().ok()
            } else {
                None
            };
        }
        let lost = self.state.lost_now.swap(0, Ordering::Relaxed);
        if lost > 0 {
            self.log.record_lost(lost, now_micros());
        }
        self.dirty = true;
        ended
    }

    fn schema(&self) -> Option<Arc<Schema>> {
        let source = self
            .state
            .schema
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        source.as_ref().and_then(|source| source())
    }

    fn is_sync_due(&self) -> bool {
        self.dirty
            && self
                .interval()
                .is_none_or(|interval| self.synced.elapsed() >= interval)
    }

    fn try_persist(&mut self) -> Result<()> {
        self.log.flush(now_micros())?;
        if self.is_sync_due() {
            self.log.sync()?;
            self.synced = Instant::now();
            self.dirty = false;
        }
        Ok(())
    }

    /// Writes what is in memory. While that fails, records stay in the queue.
    fn persist(&mut self) {
        let mut failures: u64 = 0;
        while let Err(e) = self.try_persist() {
            if failures.is_multiple_of(SAID_EVERY) {
                tracing::error!(error = %e, "the audit log cannot be written; its records wait");
            }
            if self.state.ending.load(Ordering::Acquire) {
                tracing::error!(
                    bytes = self.log.pending_bytes(),
                    "records of the audit log were not written"
                );
                return;
            }
            failures += 1;
            std::thread::sleep(RETRY);
        }
        if failures > 0 {
            tracing::info!("the audit log is written again");
        }
    }
}
