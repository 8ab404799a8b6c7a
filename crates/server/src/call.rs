//! A call in progress: its cancellation, its flow control, and the destination of its answer.

use crate::access::Requester;
use crate::audit::{Audit, CallRecord};
use crate::client::Client;
use crate::limits;
use crate::member::gate::Gate;
use crate::metrics::Metrics;
use crate::outbox::Outbox;
use crate::service::{ClientSlot, Service};
use crate::settings::QuotaKind;
use crate::spans;
use crate::work::CLIENT;
use esker_model::traversal::StopReason;
use esker_model::{Cancel, Error, ErrorKind, Version};
use esker_rpc::convert::Form;
use esker_rpc::failure::{RETRY, failure_out, over_quota};
use esker_rpc::limits::CREDIT_BYTES;
use esker_rpc::proto;
use esker_rpc::proto::reply::Reply;
use esker_telemetry::Span;
use prost::Message as _;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Longest wait for a client that does not read its answer; shorter in tests.
const STALL_MAX: Duration = if cfg!(test) {
    Duration::from_secs(5)
} else {
    limits::STALL_MAX
};

/// Options that came with a call.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CallOptions {
    /// Version that the answer must include.
    pub(crate) at_least: AtLeast,
    /// Time after which the answer is of no use.
    pub(crate) deadline: Option<Instant>,
    /// Encoding of properties and values in the answer.
    pub(crate) form: Form,
}

/// A version whose default is zero.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AtLeast(pub(crate) Version);

impl Default for AtLeast {
    fn default() -> Self {
        Self(Version::ZERO)
    }
}

/// Cancellation and flow control of a call, shared by the connection and the worker.
#[derive(Debug)]
pub(crate) struct CallState {
    /// 0, or why the answer is not wanted: 1 interrupted, 2 time-out.
    stopped: AtomicU8,
    /// Whether the client is gone, so that an answer has no recipient.
    gone: AtomicBool,
    /// Whether the client received nothing for too long, so that its answer is incomplete.
    stalled: AtomicBool,
    /// Bytes that may still be sent.
    credit: Mutex<i64>,
    changed: Condvar,
    deadline: Option<Instant>,
    began: Instant,
    /// Client of the call.
    client: Arc<Client>,
    /// Whether the server is stopping and waits no longer.
    cut: Arc<AtomicBool>,
}

impl CallState {
    pub(crate) fn new(deadline: Option<Instant>, cut: Arc<AtomicBool>) -> Arc<Self> {
        let client = CLIENT.try_with(Arc::clone);
        Arc::new(Self {
            began: Instant::now(),
            client: client.unwrap_or_default(),
            stopped: AtomicU8::new(0),
            gone: AtomicBool::new(false),
            stalled: AtomicBool::new(false),
            credit: Mutex::new(CREDIT_BYTES as i64),
            changed: Condvar::new(),
            deadline,
            cut,
        })
    }

    /// Client of the call.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Returns a memory limit in bytes, lowered to the quota of the client.
    pub(crate) fn memory_within(&self, most: usize) -> usize {
        let quota = self.client.limit(QuotaKind::QueryMemory);
        quota.map_or(most, |quota| most.min(quota.most as usize))
    }

    /// Message for a query that has taken longer than its client's quota allows, if it has.
    pub(crate) fn over_time(&self) -> Option<String> {
        let limit = self.client.limit(QuotaKind::QueryTime)?;
        let is_over = self.began.elapsed() >= Duration::from_millis(limit.most);
        is_over.then(|| self.client.too_long(limit))
    }

    /// Cancels the call at the client's request.
    pub(crate) fn stop(&self, reason: StopReason) {
        let code = if reason == StopReason::TimeOut { 2 } else { 1 };
        self.stopped.store(code, Ordering::Release);
        self.changed.notify_all();
    }

    /// Cancels the call because the client is gone.
    pub(crate) fn abandon(&self) {
        self.gone.store(true, Ordering::Release);
        self.stop(StopReason::Interrupted);
    }

    /// Whether the server cut the call off because it is stopping.
    pub(crate) fn cut_off(&self) -> bool {
        self.cut.load(Ordering::Acquire)
    }

    /// Whether the server gave up sending an answer because the client did not read it.
    pub(crate) fn stalled(&self) -> bool {
        self.stalled.load(Ordering::Acquire)
    }

    /// Adds `bytes` that the client has received to the credit.
    pub(crate) fn credit(&self, bytes: u64) {
        let mut credit = self.credit.lock().unwrap_or_else(PoisonError::into_inner);
        *credit = credit.saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX));
        drop(credit);
        self.changed.notify_all();
    }

    /// Waits until the client can receive more; false if it does not for too long, or is gone.
    fn spend(&self, bytes: usize) -> bool {
        let mut credit = self.credit.lock().unwrap_or_else(PoisonError::into_inner);
        let until = Instant::now() + STALL_MAX;
        while *credit <= 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero()
                || self.gone.load(Ordering::Acquire)
                || self.cut.load(Ordering::Acquire)
            {
                return false;
            }
            let waited = self
                .changed
                .wait_timeout(credit, left.min(Duration::from_millis(100)));
            credit = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *credit -= i64::try_from(bytes).unwrap_or(i64::MAX);
        true
    }
}

impl Cancel for CallState {
    fn cancelled(&self) -> bool {
        self.stopped.load(Ordering::Acquire) != 0
            || self.cut.load(Ordering::Relaxed)
            || self.deadline.is_some_and(|d| Instant::now() >= d)
    }

    fn reason(&self) -> StopReason {
        let late = self.deadline.is_some_and(|d| Instant::now() >= d);
        if late || self.stopped.load(Ordering::Acquire) == 2 {
            StopReason::TimeOut
        } else {
            StopReason::Interrupted
        }
    }
}

/// The calls of one stream that can be cancelled, by id.
pub(crate) type OpenCalls = Arc<Mutex<HashMap<u64, Arc<CallState>>>>;

/// Destination of a call's answers.
pub(crate) enum Sink {
    /// A stream of many calls.
    Stream {
        outbox: Arc<Outbox>,
        id: u64,
        /// The list that has the call until it is answered.
        open_calls: Option<OpenCalls>,
        /// Number of calls of the stream in progress.
        open: Arc<AtomicUsize>,
    },
    /// A channel for this call alone.
    Channel(mpsc::Sender<proto::Reply>),
}

/// A call from its arrival to its last answer. However it ends, it is answered and counted.
pub(crate) struct Call {
    pub(crate) state: Arc<CallState>,
    pub(crate) options: CallOptions,
    sink: Sink,
    number: usize,
    began: Instant,
    metrics: Arc<Metrics>,
    memory: MemoryCharge,
    answered: bool,
    /// The caller, set where the answer may last indefinitely: the access may be revoked meanwhile.
    pub(crate) requester: Option<Requester>,
    /// Gate for answers, where another process may take over the store.
    gate: Option<Arc<Gate>>,
    /// Span of the call, if it is traced.
    span: Option<Span>,
    /// Record of the call and its log, if it is recorded.
    record: Option<(Arc<Audit>, Box<CallRecord>)>,
    /// The call among its client's queries in progress, if it is one.
    pub(crate) slot: Option<ClientSlot>,
}

/// Bytes that count as in memory until this is dropped.
pub(crate) struct MemoryCharge {
    memory: Arc<AtomicUsize>,
    bytes: usize,
}

impl MemoryCharge {
    pub(crate) fn new(memory: &Arc<AtomicUsize>, bytes: usize) -> Self {
        memory.fetch_add(bytes, Ordering::AcqRel);
        Self {
            memory: Arc::clone(memory),
            bytes,
        }
    }
}

impl Drop for MemoryCharge {
    fn drop(&mut self) {
        self.memory.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

/// Error that replaces an answer that comes after the end of the lease.
pub(crate) fn lease_ended_error() -> Error {
    Error::Unavailable(
        "the server's lease has ended and another server may have these data by now: try again"
            .into(),
    )
}

/// Error: the client receives no more answers.
#[derive(Debug)]
pub(crate) struct ClientGone;

impl Call {
    pub(crate) fn new(
        service: &Service,
        number: usize,
        bytes: usize,
        options: CallOptions,
        state: Arc<CallState>,
        sink: Sink,
    ) -> Self {
        service.metrics.in_flight.add(1);
        Self {
            state,
            options,
            sink,
            number,
            began: Instant::now(),
            metrics: Arc::clone(&service.metrics),
            memory: MemoryCharge::new(&service.memory, bytes),
            answered: false,
            requester: None,
            gate: service.gate(),
            span: spans::of_work(number),
            record: None,
            slot: None,
        }
    }

    /// Sets the span of a call from outside of this process.
    pub(crate) fn trace(&mut self, span: Option<Span>) {
        self.span = span;
    }

    /// Sets the record of an admitted call.
    pub(crate) fn audit(&mut self, audit: &Arc<Audit>, record: Box<CallRecord>) {
        self.record = Some((Arc::clone(audit), record));
    }

    /// Counts rows of an answer whose pieces are encoded.
    pub(crate) fn count_rows(&self, rows: u64) {
        if let Some((_, record)) = &self.record {
            record.count_rows(rows);
        }
    }

    /// Span of the call, if it is traced.
    pub(crate) fn span(&self) -> Option<Span> {
        self.span.clone()
    }

    /// Size of the request in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.memory.bytes
    }

    /// Sends a piece of the answer, with more to follow. Waits for a slow client.
    pub(crate) fn piece(&self, reply: Reply) -> Result<(), ClientGone> {
        if self.withheld() {
            return Err(ClientGone);
        }
        if let Some((_, record)) = &self.record {
            record.count_piece(&reply);
        }
        let reply = proto::Reply { reply: Some(reply) };
        match &self.sink {
            Sink::Stream { outbox, id, .. } => {
                let answer = proto::Answer {
                    id: *id,
                    more: true,
                    reply: Some(reply),
                };
                if !self.state.spend(answer.encoded_len()) {
                    return Err(ClientGone);
                }
                outbox.answer(&answer);
                Ok(())
            }
            Sink::Channel(channel) => self.send_with_timeout(channel, reply),
        }
    }

    /// Waits for room in a channel, for a limited time: a client that reads nothing would block the thread.
    fn send_with_timeout(
        &self,
        channel: &mpsc::Sender<proto::Reply>,
        mut reply: proto::Reply,
    ) -> Result<(), ClientGone> {
        let until = Instant::now() + STALL_MAX;
        loop {
            reply = match channel.try_send(reply) {
                Ok(()) => return Ok(()),
                Err(mpsc::error::TrySendError::Closed(_)) => return Err(ClientGone),
                Err(mpsc::error::TrySendError::Full(reply)) => reply,
            };
            if Instant::now() >= until || self.state.cut.load(Ordering::Acquire) {
                self.state.stalled.store(true, Ordering::Release);
                return Err(ClientGone);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Sends the answer, or the last piece of it.
    pub(crate) fn done(mut self, reply: Reply) {
        self.end(reply);
    }

    /// Answers with an error.
    pub(crate) fn failed(self, error: &Error) {
        self.done(Reply::Failure(failure_out(error)));
    }

    /// Answers with an error that a retry may avoid: a server that the call needs is unreachable.
    pub(crate) fn failed_for_now(self, error: &Error) {
        let mut failure = failure_out(error);
        let elsewhere = matches!(error, Error::InUse(_) | Error::OtherRelease(_));
        if error.kind() == ErrorKind::Unavailable && failure.retry_after_ms == 0 && !elsewhere {
            RETRY.clone_into(&mut failure.code);
        }
        self.done(Reply::Failure(failure));
    }

    /// Answers that a quota refuses or ends the call.
    pub(crate) fn over_quota(self, kind: QuotaKind, message: String) {
        self.metrics.quota_refused(kind);
        self.done(Reply::Failure(over_quota(message)));
    }

    /// Answers that the server stopped during the call. A retry on the restarted server may succeed.
    pub(crate) fn cut_off(self) {
        let error = Self::stopping();
        self.failed_for_now(&error);
    }

    fn stopping() -> Error {
        Error::Unavailable(
            "the server stopped in the middle of this call: try again once it is back".into(),
        )
    }

    /// Whether it is too late for an answer, because another process may have the store. To be called after the work is done.
    fn withheld(&self) -> bool {
        self.gate.as_ref().is_some_and(|gate| !gate.is_open())
    }

    fn end(&mut self, reply: Reply) {
        self.answered = true;
        // A client with sequential queries must never seem to have two in progress.
        self.slot = None;
        let reply = if self.withheld() {
            Reply::Failure(proto::Failure {
                code: RETRY.to_owned(),
                ..failure_out(&lease_ended_error())
            })
        } else {
            reply
        };
        let failed = matches!(reply, Reply::Failure(_));
        self.metrics
            .answered(self.number, self.began.elapsed(), failed);
        if let Some(span) = &self.span {
            spans::end_call(span, &reply);
        }
        if let Some((audit, record)) = self.record.take() {
            audit.end_call(record, &reply, self.began.elapsed());
        }
        let reply = proto::Reply { reply: Some(reply) };
        match &self.sink {
            Sink::Stream { outbox, id, .. } => outbox.answer(&proto::Answer {
                id: *id,
                more: false,
                reply: Some(reply),
            }),
            Sink::Channel(channel) => {
                // A client that stalled learns from the state of the call that the answer is incomplete.
                if !self.state.stalled() {
                    let _ = self.send_with_timeout(channel, reply);
                }
            }
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.answered {
            let failure = if self.state.cut_off() {
                proto::Failure {
                    code: RETRY.to_owned(),
                    ..failure_out(&Self::stopping())
                }
            } else {
                // A panic, or a client that received no more.
                failure_out(&Error::Undecided(
                    "the server could not finish this call; its log says more".into(),
                ))
            };
            self.end(Reply::Failure(failure));
        }
        if let Sink::Stream {
            id,
            open_calls,
            open,
            ..
        } = &self.sink
        {
            open.fetch_sub(1, Ordering::AcqRel);
            if let Some(open_calls) = open_calls {
                open_calls
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .remove(id);
            }
        }
        self.metrics.in_flight.add(-1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(sink: Sink) -> Call {
        Call {
            state: CallState::new(None, Arc::default()),
            options: CallOptions::default(),
            sink,
            number: 0,
            began: Instant::now(),
            metrics: Arc::new(Metrics::new()),
            memory: MemoryCharge::new(&Arc::default(), 0),
            answered: false,
            requester: None,
            gate: None,
            span: None,
            record: None,
            slot: None,
        }
    }

    fn ping() -> Reply {
        Reply::Ping(proto::PingReply::default())
    }

    /// A client that reads nothing loses the rest of the answer and is told so; the thread continues.
    #[test]
    fn an_answer_does_not_wait_for_ever() {
        let (sender, mut pieces) = mpsc::channel(2);
        let call = call(Sink::Channel(sender));
        let state = Arc::clone(&call.state);
        for _ in 0..2 {
            assert!(call.piece(ping()).is_ok());
        }
        assert!(!state.stalled());
        assert!(call.piece(ping()).is_err());
        drop(call);
        assert!(state.stalled());
        for _ in 0..2 {
            assert!(pieces.blocking_recv().is_some());
        }
        assert!(pieces.blocking_recv().is_none(), "no end that looks whole");
    }

    /// A slow client gets the complete answer.
    #[test]
    fn an_answer_waits_for_a_slow_client() {
        let (sender, mut pieces) = mpsc::channel(1);
        let call = call(Sink::Channel(sender));
        let state = Arc::clone(&call.state);
        let client = std::thread::spawn(move || {
            let mut taken = 0;
            while pieces.blocking_recv().is_some() {
                taken += 1;
                std::thread::sleep(Duration::from_millis(5));
            }
            taken
        });
        for _ in 0..20 {
            assert!(call.piece(ping()).is_ok());
        }
        call.done(ping());
        assert_eq!(client.join().unwrap(), 21);
        assert!(!state.stalled());
    }
}
