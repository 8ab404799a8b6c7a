//! The record of a call, from its admission to its end.

use super::event::{AuditEvent, EndedCall};
use super::queue::Audit;
use super::state::now_micros;
use super::{rows, shrink};
use crate::spans::status_of;
use esker_audit::{Outcome, Subject};
use esker_rpc::proto::reply::Reply;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A call in progress that will be recorded.
pub(crate) struct CallRecord {
    audit: Arc<Audit>,
    time: i64,
    request: u64,
    subject: Arc<Subject>,
    number: usize,
    /// The request, without what a record does not need.
    message: shrink::ShrunkRequest,
    rows: AtomicU64,
}

impl CallRecord {
    /// Begins the record of a call whose request is encoded.
    pub(crate) fn begin(
        audit: &Arc<Audit>,
        (request, number): (u64, usize),
        subject: Arc<Subject>,
        message: &[u8],
    ) -> Box<Self> {
        Box::new(Self {
            audit: Arc::clone(audit),
            time: now_micros(),
            request,
            subject,
            number,
            message: shrink::shrink(message),
            rows: AtomicU64::new(0),
        })
    }

    /// Counts rows of the answer.
    pub(crate) fn count_rows(&self, rows: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }

    /// Counts the rows of a piece of the answer.
    pub(crate) fn count_piece(&self, reply: &Reply) {
        self.count_rows(rows::rows_of(reply));
    }

    /// Passes the record of the ended call to the writer.
    pub(crate) fn end(self, reply: &Reply, took: Duration) {
        self.count_piece(reply);
        let outcome = match reply {
            Reply::Failure(failure) => Outcome::Failed(status_of(failure).0.to_owned()),
            _ => Outcome::Done,
        };
        let ended = EndedCall {
            time: self.time,
            request: self.request,
            subject: self.subject,
            number: self.number,
            message: self.message,
            rows: self.rows.into_inner(),
            micros: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            outcome,
        };
        self.audit.push(AuditEvent::Call(Box::new(ended)));
    }
}
