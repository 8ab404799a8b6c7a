//! The audit log of this process. Requests pass their records to a bounded queue; one thread formats and writes them.
//!
//! A record is passed when the request ends, by one push to a queue without a lock. Nothing of it is formatted on the request's thread.

mod event;
mod facts;
mod http_record;
mod queue;
mod rows;
mod shrink;
mod state;
mod writer;

pub(crate) use event::CallRecord;
pub(crate) use http_record::{HttpRecord, RequestNote, with_request_id};
pub(crate) use queue::Audit;
