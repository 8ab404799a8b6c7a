//! The audit log of this process. Requests pass their records to a bounded queue; one thread formats and writes them.
//!
//! A record is passed when the request ends, by one push to a queue without a lock. Nothing of it is formatted on the request's thread.

mod call_record;
mod facts;
mod http_record;
mod rows;
mod shrink;
mod writer;

pub(crate) use call_record::CallRecord;
pub(crate) use http_record::{HttpRecord, RequestNote, with_request_id};

use crate::access::needs::{Needs, READ};
use crate::metrics::Counter;
use crate::settings::{AuditLevel, AuditSettings, FullQueue};
use call_record::EndedCall;
use esker_audit::{Entry, Log, Options, Outcome, Subject};
use esker_model::{Result, Schema};
use esker_rpc::failure::busy;
use esker_rpc::proto;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};
use writer::Writer;

/// Records that may wait for the writer.
const QUEUE: usize = 16_384;
/// Waiting records at which new requests are refused, if the settings say so. The rest is for requests in progress.
const REFUSE_AT: usize = QUEUE / 4 * 3;

/// Returns the schema in which types of vertices have names.
type SchemaSource = Box<dyn Fn() -> Option<Arc<Schema>> + Send>;

/// A record on its way to the writer.
enum AuditEvent {
    /// A call, whose request is still encoded.
    Call(Box<EndedCall>),
    /// A complete record.
    Entry(Box<Entry>),
    /// The server ends.
    End,
}

/// State that requests share with the writer.
#[derive(Default)]
struct QueueState {
    waiting: AtomicUsize,
    /// Requests without a record, in all and since the last record of it.
    lost: Counter,
    lost_now: AtomicU64,
    records: Counter,
    /// Whether the writer gives up if it cannot write.
    ending: AtomicBool,
    schema: Mutex<Option<SchemaSource>>,
}

struct AuditQueue {
    sender: SyncSender<AuditEvent>,
    state: Arc<QueueState>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The audit log of a process, and the numbers of its requests.
pub(crate) struct Audit {
    level: AuditLevel,
    full: FullQueue,
    queue: Option<AuditQueue>,
    requests: AtomicU64,
}

/// Current time in microseconds since 1970.
fn now_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(since.unwrap_or_default().as_micros()).unwrap_or(i64::MAX)
}

impl Audit {
    /// Opens the log in a folder, unless the settings turn it off. `server` describes this process.
    pub(crate) fn open(folder: &Path, settings: &AuditSettings, server: String) -> Result<Self> {
        let mut audit = Self {
            level: settings.log,
            full: settings.full,
            queue: None,
            requests: AtomicU64::new(0),
        };
        if settings.log == AuditLevel::Off {
            return Ok(audit);
        }
        let micros =
            |time: std::time::Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        let options = Options {
            segment_bytes: settings.segment_bytes as u64,
            keep_micros: settings.keep.map(micros),
            ..Options::new(
                settings.folder.clone().unwrap_or_else(|| folder.to_owned()),
                server,
            )
        };
        let log = Log::open(options, now_micros())?;
        let (sender, receiver) = sync_channel(QUEUE);
        let state = Arc::<QueueState>::default();
        let writer = Writer::new(log, receiver, Arc::clone(&state), settings.sync);
        let thread = std::thread::Builder::new()
            .name("esker-audit".into())
            .spawn(move || writer.run())
            .map_err(|e| esker_model::Error::io("starting the server's threads", e))?;
        audit.queue = Some(AuditQueue {
            sender,
            state,
            thread: Mutex::new(Some(thread)),
        });
        Ok(audit)
    }

    /// Sets where names of types come from.
    pub(crate) fn set_schema(&self, schema: impl Fn() -> Option<Arc<Schema>> + Send + 'static) {
        if let Some(queue) = &self.queue {
            let mut source = queue
                .state
                .schema
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            *source = Some(Box::new(schema));
        }
    }

    /// Number for a new request, unique in the life of this process.
    pub(crate) fn next_request(&self) -> u64 {
        self.requests.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Whether allowed requests that need that access are recorded.
    pub(crate) fn wants(&self, needs: Needs) -> bool {
        match self.level {
            AuditLevel::Off => false,
            AuditLevel::Refused => needs == Needs::Role(esker_access::Role::Admin),
            AuditLevel::Writes => !matches!(needs, Needs::Nothing | READ | Needs::Server),
            AuditLevel::All => !matches!(needs, Needs::Nothing | Needs::Server),
        }
    }

    /// Whether proofs of keys are recorded.
    pub(crate) fn wants_logins(&self) -> bool {
        matches!(self.level, AuditLevel::Writes | AuditLevel::All)
    }

    /// Whether refused requests and changes of access are recorded.
    pub(crate) fn is_on(&self) -> bool {
        self.queue.is_some()
    }

    /// Failure for a new request, if its record would have no place in the queue and the settings refuse it then.
    pub(crate) fn refusal(&self) -> Option<proto::Failure> {
        let queue = self.queue.as_ref()?;
        if self.full == FullQueue::Wait || queue.state.waiting.load(Ordering::Relaxed) < REFUSE_AT {
            return None;
        }
        queue.state.lose(1);
        Some(busy(
            "the server is busy: its audit log takes no more records; try again in 100 ms".into(),
            100,
        ))
    }

    /// Records the end of a request or a change of access.
    pub(crate) fn record(&self, mut entry: Entry) {
        if entry.time == 0 {
            entry.time = now_micros();
        }
        self.push(AuditEvent::Entry(Box::new(entry)));
    }

    /// Records a refused request.
    pub(crate) fn record_refusal(
        &self,
        call: String,
        subject: Arc<Subject>,
        request: u64,
        (why, reason): (&str, &str),
    ) {
        let protocol = if call.contains(' ') { "http" } else { "grpc" };
        let entry = Entry {
            request,
            protocol,
            outcome: Outcome::Refused {
                why: why.to_owned(),
                reason: reason.to_owned(),
            },
            ..Entry::new("refusal", call, subject)
        };
        self.record(entry);
    }

    fn push(&self, event: AuditEvent) {
        let Some(queue) = &self.queue else {
            return;
        };
        queue.state.waiting.fetch_add(1, Ordering::Relaxed);
        let left = match queue.sender.try_send(event) {
            Ok(()) => return,
            Err(TrySendError::Full(event)) if self.full == FullQueue::Wait => {
                // Slows the request down: a request without a record would be worse.
                queue.sender.send(event).is_err()
            }
            Err(_) => true,
        };
        if left {
            queue.state.waiting.fetch_sub(1, Ordering::Relaxed);
            queue.state.lose(1);
        }
    }

    /// Figures for metrics: records written, requests without a record, records that wait.
    pub(crate) fn figures(&self) -> [(&'static str, &'static str, &'static str, u64); 3] {
        let state = self.queue.as_ref().map(|queue| &queue.state);
        let of = |figure: fn(&QueueState) -> u64| state.map_or(0, |state| figure(state));
        [
            (
                "esker_audit_records_total",
                "counter",
                "Records in the audit log.",
                of(|s| s.records.get()),
            ),
            (
                "esker_audit_lost_total",
                "counter",
                "Requests without a record in the audit log.",
                of(|s| s.lost.get()),
            ),
            (
                "esker_audit_queue",
                "gauge",
                "Records that wait for the audit log's writer.",
                of(|s| s.waiting.load(Ordering::Relaxed) as u64),
            ),
        ]
    }

    /// Writes all records and closes the log. Later records are lost.
    pub(crate) fn close(&self) {
        let Some(queue) = &self.queue else {
            return;
        };
        let thread = queue
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            queue.state.ending.store(true, Ordering::Release);
            // If the writer is gone, it has said why.
            let _ = queue.sender.send(AuditEvent::End);
            let _ = thread.join();
        }
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.close();
    }
}

impl QueueState {
    /// Counts requests without a record; the next record says so.
    fn lose(&self, count: u64) {
        self.lost.add(count);
        self.lost_now.fetch_add(count, Ordering::Relaxed);
    }
}
