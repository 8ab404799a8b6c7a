//! One call under way: whether its answer is wanted still, how much of it the client can take, where it goes.

use crate::access::Asking;
use crate::limits;
use crate::member::gate::Gate;
use crate::metrics::Metrics;
use crate::outbox::Outbox;
use crate::service::Service;
use esker_model::traversal::StopReason;
use esker_model::{Cancel, Error, ErrorKind, Version};
use esker_rpc::convert::Form;
use esker_rpc::failure::{AGAIN, failure_out};
use esker_rpc::limits::CREDIT_BYTES;
use esker_rpc::proto;
use esker_rpc::proto::reply::Reply;
use prost::Message as _;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// How long an answer waits for a client that does not take it in; tests wait less.
const STALL_MAX: Duration = if cfg!(test) {
    Duration::from_secs(5)
} else {
    limits::STALL_MAX
};

/// What came with a call.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Terms {
    /// The answer sees this version.
    pub(crate) at_least: Version0,
    /// After which the answer is of no use.
    pub(crate) deadline: Option<Instant>,
    /// How properties and values are to travel.
    pub(crate) form: Form,
}

/// A version that starts at zero.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Version0(pub(crate) Version);

impl Default for Version0 {
    fn default() -> Self {
        Self(Version::ZERO)
    }
}

/// Whether the answer to a call is wanted, and how much of it may be sent. Shared by the connection and the worker.
#[derive(Debug)]
pub(crate) struct Watch {
    /// 0, or why it is not wanted: 1 interrupted, 2 time-out.
    stopped: AtomicU8,
    /// The client is gone: there is nobody to answer.
    gone: AtomicBool,
    /// The client took nothing for too long: what it has is not the whole answer.
    stalled: AtomicBool,
    /// Bytes that may be sent still.
    credit: Mutex<i64>,
    changed: Condvar,
    deadline: Option<Instant>,
    /// The server waits no longer.
    cut: Arc<AtomicBool>,
}

impl Watch {
    pub(crate) fn new(deadline: Option<Instant>, cut: Arc<AtomicBool>) -> Arc<Self> {
        Arc::new(Self {
            stopped: AtomicU8::new(0),
            gone: AtomicBool::new(false),
            stalled: AtomicBool::new(false),
            credit: Mutex::new(CREDIT_BYTES as i64),
            changed: Condvar::new(),
            deadline,
            cut,
        })
    }

    /// The client wants it no more.
    pub(crate) fn stop(&self, reason: StopReason) {
        let code = if reason == StopReason::TimeOut { 2 } else { 1 };
        self.stopped.store(code, Ordering::Release);
        self.changed.notify_all();
    }

    /// The client is gone.
    pub(crate) fn abandon(&self) {
        self.gone.store(true, Ordering::Release);
        self.stop(StopReason::Interrupted);
    }

    /// Whether the server cut the call off, because it stops.
    pub(crate) fn cut_off(&self) -> bool {
        self.cut.load(Ordering::Acquire)
    }

    /// Whether the server gave up sending an answer, because nobody took it in.
    pub(crate) fn stalled(&self) -> bool {
        self.stalled.load(Ordering::Acquire)
    }

    /// The client has taken in so many bytes.
    pub(crate) fn credit(&self, bytes: u64) {
        let mut credit = self.credit.lock().unwrap_or_else(PoisonError::into_inner);
        *credit = credit.saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX));
        drop(credit);
        self.changed.notify_all();
    }

    /// Waits until the client can take more; false if it does not for too long, or is gone.
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

impl Cancel for Watch {
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

/// The calls of one stream that can be stopped.
pub(crate) type Watched = Arc<Mutex<HashMap<u64, Arc<Watch>>>>;

/// Where answers go.
pub(crate) enum Sink {
    /// A stream of many calls.
    Stream {
        outbox: Arc<Outbox>,
        id: u64,
        /// Where the call is listed until it is answered.
        watched: Option<Watched>,
        /// How many calls of the stream are under way.
        open: Arc<AtomicUsize>,
    },
    /// A call of its own.
    Channel(mpsc::Sender<proto::Reply>),
}

/// A call from its arrival to its last answer. However it ends, it is answered and counted.
pub(crate) struct Call {
    pub(crate) watch: Arc<Watch>,
    pub(crate) terms: Terms,
    sink: Sink,
    number: usize,
    began: Instant,
    metrics: Arc<Metrics>,
    memory: Charge,
    answered: bool,
    /// Who asks, where the answer may take as long as they like: they may have been let in no longer.
    pub(crate) asking: Option<Asking>,
    /// Whether answers may leave, where somebody else may take over.
    gate: Option<Arc<Gate>>,
}

/// Bytes that count as in memory until it is dropped.
pub(crate) struct Charge {
    memory: Arc<AtomicUsize>,
    bytes: usize,
}

impl Charge {
    pub(crate) fn new(memory: &Arc<AtomicUsize>, bytes: usize) -> Self {
        memory.fetch_add(bytes, Ordering::AcqRel);
        Self {
            memory: Arc::clone(memory),
            bytes,
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.memory.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

/// What is said instead of an answer that comes too late.
pub(crate) fn moved() -> Error {
    Error::Unavailable(
        "the server's lease has ended and another one may have these data by now: ask again".into(),
    )
}

/// The client does not take answers any more.
#[derive(Debug)]
pub(crate) struct Gone;

impl Call {
    pub(crate) fn new(
        service: &Service,
        number: usize,
        bytes: usize,
        terms: Terms,
        watch: Arc<Watch>,
        sink: Sink,
    ) -> Self {
        service.metrics.in_flight.add(1);
        Self {
            watch,
            terms,
            sink,
            number,
            began: Instant::now(),
            metrics: Arc::clone(&service.metrics),
            memory: Charge::new(&service.memory, bytes),
            answered: false,
            asking: None,
            gate: service.gate(),
        }
    }

    /// How many bytes its request took.
    pub(crate) fn bytes(&self) -> usize {
        self.memory.bytes
    }

    /// Sends a piece of the answer, and more will follow. Waits for a client that is slow.
    pub(crate) fn piece(&self, reply: Reply) -> Result<(), Gone> {
        if self.withheld() {
            return Err(Gone);
        }
        let reply = proto::Reply { reply: Some(reply) };
        match &self.sink {
            Sink::Stream { outbox, id, .. } => {
                let answer = proto::Answer {
                    id: *id,
                    more: true,
                    reply: Some(reply),
                };
                if !self.watch.spend(answer.encoded_len()) {
                    return Err(Gone);
                }
                outbox.answer(&answer);
                Ok(())
            }
            Sink::Channel(channel) => self.hand_over(channel, reply),
        }
    }

    /// Waits for room in a channel, but not for ever: a client that takes nothing in would keep the thread.
    fn hand_over(
        &self,
        channel: &mpsc::Sender<proto::Reply>,
        mut reply: proto::Reply,
    ) -> Result<(), Gone> {
        let until = Instant::now() + STALL_MAX;
        loop {
            reply = match channel.try_send(reply) {
                Ok(()) => return Ok(()),
                Err(mpsc::error::TrySendError::Closed(_)) => return Err(Gone),
                Err(mpsc::error::TrySendError::Full(reply)) => reply,
            };
            if Instant::now() >= until || self.watch.cut.load(Ordering::Acquire) {
                self.watch.stalled.store(true, Ordering::Release);
                return Err(Gone);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The answer, or the last piece of it.
    pub(crate) fn done(mut self, reply: Reply) {
        self.end(reply);
    }

    /// It failed.
    pub(crate) fn failed(self, error: &Error) {
        self.done(Reply::Failure(failure_out(error)));
    }

    /// It failed, and may not if it is asked again: a server that it needs is away.
    pub(crate) fn failed_for_now(self, error: &Error) {
        let mut failure = failure_out(error);
        if error.kind() == ErrorKind::Unavailable {
            AGAIN.clone_into(&mut failure.code);
        }
        self.done(Reply::Failure(failure));
    }

    /// It was cut off in the middle: the server stops. Asked again once there is one, it may be answered.
    pub(crate) fn cut_off(self) {
        let error = Self::stopping();
        self.failed_for_now(&error);
    }

    fn stopping() -> Error {
        Error::Unavailable(
            "the server stopped in the middle of this call: ask again once it is back".into(),
        )
    }

    /// Whether it is too late for an answer: somebody else may have the store by now. To be asked after the work was done.
    fn withheld(&self) -> bool {
        self.gate.as_ref().is_some_and(|gate| !gate.open())
    }

    fn end(&mut self, reply: Reply) {
        self.answered = true;
        let reply = if self.withheld() {
            Reply::Failure(proto::Failure {
                code: AGAIN.to_owned(),
                ..failure_out(&moved())
            })
        } else {
            reply
        };
        let failed = matches!(reply, Reply::Failure(_));
        self.metrics
            .answered(self.number, self.began.elapsed(), failed);
        let reply = proto::Reply { reply: Some(reply) };
        match &self.sink {
            Sink::Stream { outbox, id, .. } => outbox.answer(&proto::Answer {
                id: *id,
                more: false,
                reply: Some(reply),
            }),
            Sink::Channel(channel) => {
                // One that took nothing for long sees by the watch that this was not all.
                if !self.watch.stalled() {
                    let _ = self.hand_over(channel, reply);
                }
            }
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.answered {
            let failure = if self.watch.cut_off() {
                proto::Failure {
                    code: AGAIN.to_owned(),
                    ..failure_out(&Self::stopping())
                }
            } else {
                // A panic on the way, or a client that took no more.
                failure_out(&Error::Unavailable(
                    "the server could not finish this call; its log says more".into(),
                ))
            };
            self.end(Reply::Failure(failure));
        }
        if let Sink::Stream {
            id, watched, open, ..
        } = &self.sink
        {
            open.fetch_sub(1, Ordering::AcqRel);
            if let Some(watched) = watched {
                watched
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
            watch: Watch::new(None, Arc::default()),
            terms: Terms::default(),
            sink,
            number: 0,
            began: Instant::now(),
            metrics: Arc::new(Metrics::new()),
            memory: Charge::new(&Arc::default(), 0),
            answered: false,
            asking: None,
            gate: None,
        }
    }

    fn ping() -> Reply {
        Reply::Ping(proto::PingReply::default())
    }

    /// Whoever takes nothing in loses the rest of the answer and is told so; the thread goes on.
    #[test]
    fn an_answer_does_not_wait_for_ever() {
        let (sender, mut pieces) = mpsc::channel(2);
        let call = call(Sink::Channel(sender));
        let watch = Arc::clone(&call.watch);
        for _ in 0..2 {
            assert!(call.piece(ping()).is_ok());
        }
        assert!(!watch.stalled());
        assert!(call.piece(ping()).is_err());
        drop(call);
        assert!(watch.stalled());
        for _ in 0..2 {
            assert!(pieces.blocking_recv().is_some());
        }
        assert!(pieces.blocking_recv().is_none(), "no end that looks whole");
    }

    /// One that is slow gets all of it.
    #[test]
    fn an_answer_waits_for_a_slow_client() {
        let (sender, mut pieces) = mpsc::channel(1);
        let call = call(Sink::Channel(sender));
        let watch = Arc::clone(&call.watch);
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
        assert!(!watch.stalled());
    }
}
