//! State that requests share with the writer of the audit log.

use crate::metrics::Counter;
use esker_model::Schema;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes of a path and its query string that are recorded.
pub(super) const PATH_BYTES_MAX: usize = 4 << 10;

/// Returns the schema in which types of vertices have names.
pub(super) type SchemaSource = Box<dyn Fn() -> Option<Arc<Schema>> + Send>;

/// State that requests share with the writer.
#[derive(Default)]
pub(super) struct QueueState {
    pub(super) waiting: AtomicUsize,
    /// Requests without a record, in all and since the last record of it.
    pub(super) lost: Counter,
    pub(super) lost_now: AtomicU64,
    pub(super) records: Counter,
    /// Whether the writer gives up if it cannot write.
    pub(super) ending: AtomicBool,
    pub(super) schema: Mutex<Option<SchemaSource>>,
}

impl QueueState {
    /// Counts requests without a record; the next record says so.
    pub(super) fn lose(&self, count: u64) {
        self.lost.add(count);
        self.lost_now.fetch_add(count, Ordering::Relaxed);
    }
}

/// Current time in microseconds since 1970.
pub(super) fn now_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(since.unwrap_or_default().as_micros()).unwrap_or(i64::MAX)
}
