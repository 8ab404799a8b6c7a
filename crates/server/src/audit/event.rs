//! Records on their way to the writer.

use super::state::now_micros;
use super::{rows, shrink};
use esker_audit::{Entry, Outcome, Subject};
use esker_rpc::proto::reply::Reply;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A record on its way to the writer.
pub(super) enum AuditEvent {
    /// A call, whose request is still encoded.
    Call(Box<CallRecord>),
    /// A complete record.
    Entry(Box<Entry>),
    /// The server ends.
    End,
}

/// A call that will be recorded, from its admission to the writer.
pub(crate) struct CallRecord {
    pub(super) time: i64,
    pub(super) request: u64,
    pub(super) subject: Arc<Subject>,
    pub(super) number: usize,
    /// The request, without what a record does not need.
    pub(super) message: shrink::ShrunkRequest,
    pub(super) rows: AtomicU64,
    pub(super) micros: u64,
    pub(super) outcome: Outcome,
}

impl CallRecord {
    /// Begins the record of a call whose request is encoded.
    pub(crate) fn begin(
        (request, number): (u64, usize),
        subject: Arc<Subject>,
        message: &[u8],
    ) -> Self {
        Self {
            time: now_micros(),
            request,
            subject,
            number,
            message: shrink::shrink(message),
            rows: AtomicU64::new(0),
            micros: 0,
            outcome: Outcome::Done,
        }
    }

    /// Counts rows of the answer.
    pub(crate) fn count_rows(&self, rows: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }

    /// Counts the rows of a piece of the answer.
    pub(crate) fn count_piece(&self, reply: &Reply) {
        self.count_rows(rows::rows_of(reply));
    }
}
