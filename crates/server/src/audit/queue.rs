//! The bounded queue of records, and what is put into it.

use super::event::{AuditEvent, CallRecord};
use super::state::{PATH_BYTES_MAX, QueueState, now_micros};
use super::writer::LogWriter;
use crate::access::needs::{ADMIN, Needs, READ, SHARE};
use crate::settings::{AuditLevel, AuditSettings, FullQueue};
use crate::spans::status_of;
use esker_audit::record::cut;
use esker_audit::{Entry, Log, Options, Outcome, Subject};
use esker_model::{Result, Schema};
use esker_rpc::failure::busy;
use esker_rpc::proto;
use esker_rpc::proto::reply::Reply;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Records that may wait for the writer.
const QUEUE: usize = 16_384;
/// Waiting records at which new requests are refused, if the settings say so. The rest is for requests in progress.
const REFUSE_AT: usize = QUEUE / 4 * 3;

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
        let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        let options = Options {
            segment_bytes: settings.segment_bytes as u64,
            keep_micros: settings.keep.map(micros),
            ..Options::new(folder.to_owned(), server)
        };
        let log = Log::open(options, now_micros())?;
        let (sender, receiver) = sync_channel(QUEUE);
        let state = Arc::<QueueState>::default();
        let writer = LogWriter::new(log, receiver, Arc::clone(&state), settings.sync);
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
            // A share changes who may see data.
            AuditLevel::Refused => matches!(needs, ADMIN | SHARE),
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

    /// Records the end of a call.
    pub(crate) fn end_call(&self, mut record: Box<CallRecord>, reply: &Reply, took: Duration) {
        record.count_piece(reply);
        record.micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        if let Reply::Failure(failure) = reply {
            record.outcome = Outcome::Failed(status_of(failure).0.to_owned());
        }
        self.push(AuditEvent::Call(record));
    }

    /// Records a refused request.
    pub(crate) fn record_refusal(
        &self,
        call: &str,
        subject: Arc<Subject>,
        request: u64,
        (why, reason): (&str, &str),
    ) {
        let protocol = if call.contains(" /") { "http" } else { "grpc" };
        let entry = Entry {
            request,
            protocol,
            outcome: Outcome::Refused {
                why: why.to_owned(),
                reason: reason.to_owned(),
            },
            ..Entry::new("refusal", cut(call, PATH_BYTES_MAX), subject)
        };
        self.record(entry);
    }

    pub(super) fn push(&self, event: AuditEvent) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use esker_audit::Reader;
    use std::sync::mpsc::Receiver;

    /// An audit log whose writer has not begun.
    fn waiting(full: FullQueue) -> (Audit, Receiver<AuditEvent>) {
        let (sender, receiver) = sync_channel(QUEUE);
        let queue = AuditQueue {
            sender,
            state: Arc::default(),
            thread: Mutex::default(),
        };
        let audit = Audit {
            level: AuditLevel::All,
            full,
            queue: Some(queue),
            requests: AtomicU64::new(0),
        };
        (audit, receiver)
    }

    fn refuse(audit: &Audit) {
        let subject = Subject {
            who: "user 7".into(),
            name: None,
            uid: Some(7),
            gids: Vec::new(),
            proof: "none",
            role: "",
            peer: "unix".into(),
        };
        let request = audit.next_request();
        let why = ("user", "not the owner");
        audit.record_refusal("apply", Arc::new(subject), request, why);
    }

    /// Runs the writer until the queue is empty, and returns the events of the log and the lost records that it names.
    fn written(audit: &Audit, receiver: Receiver<AuditEvent>) -> (u64, u64) {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("audit");
        let log = Log::open(Options::new(folder.clone(), "test".into()), 1).unwrap();
        let queue = audit.queue.as_ref().unwrap();
        let state = Arc::clone(&queue.state);
        let sync = crate::settings::AuditSync::Always;
        let writer = LogWriter::new(log, receiver, state, sync);
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| writer.run());
            queue.sender.send(AuditEvent::End).unwrap();
            thread.join().unwrap();
        });
        let (mut refusals, mut lost) = (0, 0);
        let mut reader = Reader::new(&folder);
        let read = reader.lines(&mut |line| {
            let line = esker_audit::record::ParsedLine::parse(line).unwrap();
            match line.event() {
                "refusal" => refusals += 1,
                "lost" => lost += line.number("records").unwrap(),
                _ => {}
            }
            true
        });
        read.unwrap();
        assert!(esker_audit::verify(&folder, &[]).unwrap().is_intact());
        (refusals, lost)
    }

    #[test]
    fn a_full_queue_refuses_requests_and_counts_those_without_a_record() {
        let (audit, receiver) = waiting(FullQueue::Refuse);
        for _ in 0..REFUSE_AT {
            assert!(audit.refusal().is_none());
            refuse(&audit);
        }
        assert!(audit.refusal().is_some());
        for _ in REFUSE_AT..QUEUE + 3 {
            refuse(&audit);
        }
        let [_, lost, waiting] = audit.figures().map(|(.., figure)| figure);
        assert_eq!((lost, waiting), (4, QUEUE as u64));
        assert_eq!(written(&audit, receiver), (QUEUE as u64, 4));
        let [records, lost, waiting] = audit.figures().map(|(.., figure)| figure);
        assert_eq!((records, lost, waiting), (QUEUE as u64, 4, 0));
    }

    #[test]
    fn requests_wait_while_the_queue_is_full() {
        let (audit, receiver) = waiting(FullQueue::Wait);
        for _ in 0..QUEUE {
            refuse(&audit);
        }
        assert!(audit.refusal().is_none());
        std::thread::scope(|scope| {
            let more = scope.spawn(|| (0..10).for_each(|_| refuse(&audit)));
            let dir = tempfile::tempdir().unwrap();
            let log = Log::open(Options::new(dir.path().join("audit"), "test".into()), 1).unwrap();
            let queue = audit.queue.as_ref().unwrap();
            let state = Arc::clone(&queue.state);
            let every = crate::settings::AuditSync::Every(Duration::from_secs(1));
            let writer = LogWriter::new(log, receiver, state, every);
            let thread = scope.spawn(|| writer.run());
            more.join().unwrap();
            queue.sender.send(AuditEvent::End).unwrap();
            thread.join().unwrap();
        });
        let [records, lost, waiting] = audit.figures().map(|(.., figure)| figure);
        assert_eq!((records, lost, waiting), (QUEUE as u64 + 10, 0, 0));
    }

    #[test]
    fn levels_name_the_access_that_is_recorded() {
        let admin = Needs::Role(esker_access::Role::Admin);
        let ingest = Needs::Role(esker_access::Role::Ingest);
        let all = [
            READ,
            ingest,
            crate::access::needs::WRITE,
            admin,
            Needs::Nothing,
            Needs::Server,
        ];
        for (level, expected) in [
            (AuditLevel::Off, [false; 6]),
            (
                AuditLevel::Refused,
                [false, false, false, true, false, false],
            ),
            (AuditLevel::Writes, [false, true, true, true, false, false]),
            (AuditLevel::All, [true, true, true, true, false, false]),
        ] {
            let (mut audit, _receiver) = waiting(FullQueue::Wait);
            audit.level = level;
            assert_eq!(all.map(|needs| audit.wants(needs)), expected, "{level:?}");
        }
    }
}
