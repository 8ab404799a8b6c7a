//! Records on their way to the writer.

use super::shrink::ShrunkRequest;
use esker_audit::{Entry, Outcome, Subject};
use std::sync::Arc;

/// A record on its way to the writer.
pub(super) enum AuditEvent {
    /// A call, whose request is still encoded.
    Call(Box<EndedCall>),
    /// A complete record.
    Entry(Box<Entry>),
    /// The server ends.
    End,
}

/// Facts of an ended call, for the writer.
pub(super) struct EndedCall {
    pub(super) time: i64,
    pub(super) request: u64,
    pub(super) subject: Arc<Subject>,
    pub(super) number: usize,
    pub(super) message: ShrunkRequest,
    pub(super) rows: u64,
    pub(super) micros: u64,
    pub(super) outcome: Outcome,
}
