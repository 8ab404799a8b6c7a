//! State shared by everything that serves one database: the database, the thread pools, the limits. Every call enters at
//! [`Service::call`], whatever protocol it arrived by.

use crate::access::Access;
use crate::answer;
use crate::call::{Call, CallState};
use crate::cluster::Cluster;
use crate::http::Console;
use crate::limits::{INLINE_DECODE_BYTES, INLINE_REQUEST_BYTES, INLINE_WRITE_MUTATIONS};
use crate::member::gate::Gate;
use crate::metrics::Metrics;
use crate::names;
use crate::objects;
use crate::settings::Settings;
use crate::stop_request::StopFlag;
use crate::watch::Watchers;
use crate::work::{Lane, LaneOptions, QueueFull};
use crate::writer::Writer;
use bytes::Bytes;
use esker::Database;
use esker_cluster::peer::ApplyOptions;
use esker_model::namespace::FileRefResolver;
use esker_model::{Batch, Error, Result, Schema, Version, VertexName};
use esker_rpc::convert::{batch_in, find_in};
use esker_rpc::failure::{busy, failure_out};
use esker_rpc::frame::call_number;
use esker_rpc::proto;
use esker_rpc::proto::reply::Reply;
use esker_rpc::proto::request::Call as Request;
use prost::Message as _;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};

/// Numbers of calls in `Request` that have a special path.
const PING: usize = 1;
const APPLY: usize = 16;
const READ_OBJECTS: usize = 25;
const FIND: usize = 26;
const STAT_FILE: usize = 32;
const CHANGE_FILES: usize = 35;
const CLUSTER: usize = 23;
const WINDOW: usize = 30;
const SHUTDOWN: usize = 45;
pub(crate) const WATCH_FILES: usize = 44;
/// Call number of requests from other servers, which arrive at `exchange`.
pub(crate) const PEER: usize = 22;

/// The running server, shared by all its connections.
pub(crate) struct Service {
    pub(crate) database: Database,
    /// This server's part in a cluster; `None` for a single server.
    pub(crate) cluster: Option<Arc<Cluster>>,
    pub(crate) settings: Settings,
    pub(crate) metrics: Arc<Metrics>,
    /// Request to stop or restart this process.
    pub(crate) stop_flag: Arc<StopFlag>,
    /// Authentication and access rules.
    pub(crate) access: Arc<Access>,
    /// Bytes of requests and answers in memory.
    pub(crate) memory: Arc<AtomicUsize>,
    pub(crate) readers: Arc<Lane>,
    pub(crate) scanners: Arc<Lane>,
    /// Thread pool for SPARQL queries, with stacks large enough for any query.
    pub(crate) sparql: Arc<Lane>,
    /// Whether the thread pools belong to this service alone.
    pub(crate) own_lanes: bool,
    /// Number of SPARQL requests in progress per client.
    pub(crate) sparql_clients: ClientCounts,
    /// Memory that SPARQL queries use.
    pub(crate) sparql_memory: MemoryPool,
    pub(crate) writer: Writer,
    /// State from which the console's pages are answered.
    pub(crate) console: Console,
    /// Clients that are notified of changes to files.
    pub(crate) watchers: Watchers,
    /// Newest version that a client may have seen.
    newest: AtomicU64,
    /// Whether new calls are refused.
    closing: AtomicBool,
    /// Whether calls in progress are cut off.
    pub(crate) cut: Arc<AtomicBool>,
    /// Signal that ends all streams.
    streams_ended: watch::Sender<bool>,
}

/// Whether a call runs on the threads for long calls.
fn is_long_call(number: usize) -> bool {
    // Scans, differences, traversals, top degrees, histories with archives, check, compact, backup; searches for objects, lists of tags,
    // tagging, indexes; listings, walks and sums of files; every call on behalf of a principal.
    matches!(
        number,
        6 | 7 | 8 | 9 | 11 | 13 | 14 | 18 | 19 | 21 | 26..=29 | 33 | 34 | 36..=38 | 41 | 42
    )
}

/// Whether a call moves or repairs all data. Such calls have no time limit by default.
fn moves_all(number: usize) -> bool {
    // Scan of all vertices, check, compact, persist, backup, window, walk through all files, watch.
    matches!(number, 7 | 18..=21 | WINDOW | 34 | WATCH_FILES)
}

/// Thread pools for clients' calls.
#[derive(Clone)]
pub(crate) struct ThreadPools {
    readers: Arc<Lane>,
    scanners: Arc<Lane>,
    sparql: Arc<Lane>,
}

impl ThreadPools {
    pub(crate) fn new(settings: &Settings) -> Self {
        let waiting = settings.limits.waiting;
        let scans = LaneOptions {
            reserved: settings.scanners / 4,
            background: true,
            ..LaneOptions::default()
        };
        let sparql = LaneOptions {
            stack: Some(esker::rdf::STACK),
            background: true,
            ..LaneOptions::default()
        };
        let short = LaneOptions::default();
        Self {
            readers: Lane::new("esker-read", settings.readers, waiting, short),
            scanners: Lane::new("esker-scan", settings.scanners, waiting, scans),
            sparql: Lane::new("esker-sparql", settings.sparql.threads, waiting, sparql),
        }
    }

    /// Stops the thread pools; none of their jobs may be running.
    pub(crate) fn stop(&self) {
        self.readers.stop();
        self.scanners.stop();
        self.sparql.stop();
    }
}

impl Service {
    /// Gate that holds back answers once another process may have this store.
    pub(crate) fn gate(&self) -> Option<Arc<Gate>> {
        self.cluster.as_ref()?.gate()
    }

    pub(crate) fn new(
        database: Database,
        cluster: Option<Arc<Cluster>>,
        settings: Settings,
        lanes: Option<ThreadPools>,
        access: Arc<Access>,
        metrics: Arc<Metrics>,
    ) -> Result<Self> {
        let own_lanes = lanes.is_none();
        let lanes = lanes.unwrap_or_else(|| ThreadPools::new(&settings));
        let newest = database.stats()?.newest.unwrap_or(Version::ZERO);
        let waiting = settings.limits.waiting;
        Ok(Self {
            readers: lanes.readers,
            scanners: lanes.scanners,
            sparql: lanes.sparql,
            own_lanes,
            sparql_clients: ClientCounts::default(),
            sparql_memory: MemoryPool::default(),
            writer: Writer::new(waiting),
            console: Console::default(),
            watchers: Watchers::default(),
            stop_flag: cluster
                .as_ref()
                .and_then(|c| c.stop_flag())
                .unwrap_or_default(),
            metrics,
            access,
            memory: Arc::new(AtomicUsize::new(0)),
            newest: AtomicU64::new(newest.0),
            closing: AtomicBool::new(false),
            cut: Arc::new(AtomicBool::new(false)),
            streams_ended: watch::channel(false).0,
            database,
            cluster,
            settings,
        })
    }

    /// Notes a version that is sent to a client.
    pub(crate) fn note_version(&self, version: Version) {
        if version != Version::MAX {
            self.newest.fetch_max(version.0, Ordering::AcqRel);
        }
    }

    /// Whether the database has a version, as far as is known without a read.
    pub(crate) fn has(&self, version: Version) -> bool {
        version.0 <= self.newest.load(Ordering::Acquire)
    }

    /// Refuses new calls from now on.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Release);
    }

    /// Ends all streams, including those on threads that continue.
    pub(crate) fn end_streams(&self) {
        self.streams_ended.send_replace(true);
    }

    /// Receiver that becomes true when streams have to end.
    pub(crate) fn streams_ended(&self) -> watch::Receiver<bool> {
        self.streams_ended.subscribe()
    }

    pub(crate) fn closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Returns the failure for a call that cannot be accepted now, if there is a reason.
    pub(crate) fn refusal(&self, number: usize) -> Option<proto::Failure> {
        if let Some(cluster) = &self.cluster
            && !matches!(number, CLUSTER | WINDOW | SHUTDOWN)
            // Replaying acknowledged batches comes before all else.
            && !(number == APPLY && cluster.node.replaying())
            && let Some(why) = cluster.not_yet()
        {
            return Some(busy(format!("{why}; try again in 200 ms"), 200));
        }
        if self.closing() {
            let error = Error::Unavailable(
                "the server is stopping and takes no more calls: try again once it is back".into(),
            );
            return Some(proto::Failure {
                code: "closing".into(),
                ..failure_out(&error)
            });
        }
        let (memory, most) = (
            self.memory.load(Ordering::Acquire),
            self.settings.limits.memory_bytes,
        );
        (memory > most).then(|| {
            let message = format!(
                "the server is busy: requests and answers in memory take {memory} bytes, and the \
                 limit is {most}; try again in 50 ms"
            );
            busy(message, 50)
        })
    }

    pub(crate) fn reject(&self, call: Call, full: &QueueFull) {
        self.metrics.shed.add(1);
        call.done(Reply::Failure(full.failure()));
    }

    /// Takes a call whose request is not decoded yet.
    pub(crate) fn call(self: &Arc<Self>, request: Bytes, number: usize, call: Call) {
        if number == PEER {
            let error = Error::Invalid("only servers of a cluster send each other that".into());
            call.failed(&error);
            return;
        }
        if let Some(refusal) = self.refusal(number) {
            self.metrics.shed.add(u64::from(refusal.retry_after_ms > 0));
            call.done(Reply::Failure(refusal));
            return;
        }
        if number == PING {
            call.done(answer::ping_reply());
            return;
        }
        if matches!(number, APPLY | CHANGE_FILES) && request.len() <= INLINE_DECODE_BYTES {
            self.decode(request, call);
            return;
        }
        // Reading from memory takes less time than waking another thread.
        if request.len() <= INLINE_REQUEST_BYTES
            && self.can_answer_inline(number, &call)
            && let Some(reply) = self.answer_inline(&request, &call)
        {
            call.done(reply);
            return;
        }
        let lane = if is_long_call(number) {
            &self.scanners
        } else {
            &self.readers
        };
        self.submit(lane, call, move |service, call| {
            service.decode(request, call);
        });
    }

    /// Whether a read of objects, which are in memory, or of one row of a file will probably not block.
    fn can_answer_inline(&self, number: usize, call: &Call) -> bool {
        matches!(number, READ_OBJECTS | FIND | STAT_FILE)
            && self.cluster.is_none()
            && self.has(call.options.at_least.0)
            && self.writer.is_idle()
    }

    /// Returns the complete answer to a request about objects, if it is small and computed sooner than another thread is woken. Must not
    /// block, neither on other threads nor on the client. A failed request returns `None` and is repeated where errors are reported.
    fn answer_inline(&self, request: &Bytes, call: &Call) -> Option<Reply> {
        let graph = self.graph(call.options.at_least.0, None);
        match proto::Request::decode(request.clone()).ok()?.call? {
            Request::ReadObjects(request) => objects::read_inline(&*graph, request, call),
            Request::Find(request) => {
                let find = find_in(request, objects::now_nanos()).ok()?;
                let short = self.database.finds_few(&find);
                short
                    .then(|| objects::find_inline(&*graph, &find, call))
                    .flatten()
            }
            // A watched `StatFile` waits for the writer.
            Request::StatFile(request) if request.watcher != 0 => None,
            Request::StatFile(request) => names::stat_single(&self.database, &request).ok(),
            _ => None,
        }
    }

    /// Whether a write of `changes` mutations runs on this thread: it is small, no other write is in progress and it needs no sync.
    pub(crate) fn can_write_inline(&self, changes: usize, sync: bool, call: &Call) -> bool {
        let small = changes <= INLINE_WRITE_MUTATIONS && call.bytes() <= INLINE_REQUEST_BYTES;
        small && !sync && self.cluster.is_none() && self.writer.is_idle()
    }

    /// Writes a small batch on this thread, if no other write is in progress and no sync is needed; else returns the batch and the call.
    fn write_inline(&self, batch: Batch, sync: bool, call: Call) -> Option<(Batch, Call)> {
        if !self.can_write_inline(batch.len(), sync, &call) {
            return Some((batch, call));
        }
        let count = batch.len() as u64;
        match self.database.try_apply(batch) {
            Ok(commit) => {
                self.metrics.groups.record(1);
                self.metrics.batches.record(count);
                crate::writer::respond(self, call, commit);
                None
            }
            Err(batch) => Some((batch, call)),
        }
    }

    /// Runs a closure on a thread pool.
    fn submit(
        self: &Arc<Self>,
        lane: &Arc<Lane>,
        call: Call,
        run: impl FnOnce(&Arc<Self>, Call) + Send + 'static,
    ) {
        // The call must come back if the queue is full.
        let held = Arc::new(Mutex::new(Some(call)));
        let (service, inner) = (Arc::clone(self), Arc::clone(&held));
        let take =
            |held: &Mutex<Option<Call>>| held.lock().unwrap_or_else(PoisonError::into_inner).take();
        let job = Box::new(move || {
            if let Some(call) = take(&inner) {
                run(&service, call);
            }
        });
        if let Err(full) = lane.submit(job)
            && let Some(call) = take(&held)
        {
            self.reject(call, &full);
        }
    }

    fn decode(self: &Arc<Self>, request: Bytes, call: Call) {
        match proto::Request::decode(request) {
            Ok(proto::Request { call: Some(request) }) => self.answer(request, call),
            Ok(proto::Request { call: None }) => call.failed(&Error::Invalid(
                "malformed message: `request.call`: expected one of its fields to be set (is the server older than \
                 the client?)"
                    .into(),
            )),
            Err(e) => call.failed(&Error::Invalid(format!("malformed message: `request`: {e}"))),
        }
    }

    /// Answers a request on this thread, or passes a batch to the writer.
    fn answer(self: &Arc<Self>, request: Request, call: Call) {
        match request {
            Request::Apply(request) if crate::text::names_paths(&request) => {
                // Path lookups may block.
                self.submit(&self.readers, call, move |service, call| {
                    service.apply_text(request, call);
                });
            }
            Request::Apply(request) => {
                let how = crate::cluster::apply_options_in(&request);
                let batch = self
                    .schema()
                    .and_then(|schema| Ok(batch_in(request, &schema)?));
                match batch {
                    Ok((batch, sync)) => {
                        if let Some((batch, call)) = self.write_inline(batch, sync, call) {
                            self.write(batch, sync, how, call);
                        }
                    }
                    Err(e) => call.failed(&e),
                }
            }
            Request::ChangeFiles(request) => self.change_names(request, call),
            Request::WatchFiles(request) => names::watch(self, request, call),
            request => answer::answer(self, request, call),
        }
    }

    /// Replaces paths in a batch by the files that they name now.
    pub(crate) fn resolve_paths(
        &self,
        batch: &mut Batch,
        schema: &Schema,
        paths: &[VertexName],
        seen: Version,
    ) -> Result<()> {
        let mut resolver = FileRefResolver::default();
        resolver.resolve_names(&*self.names(seen), schema, paths)?;
        resolver.substitute(&mut batch.mutations);
        Ok(())
    }

    /// Passes a batch to the writer.
    pub(crate) fn write(self: &Arc<Self>, batch: Batch, sync: bool, how: ApplyOptions, call: Call) {
        let taken = match &self.cluster {
            None => self.writer.submit(batch.into(), sync, call),
            Some(cluster) => self.write_to_cluster(cluster, batch, sync, how, call),
        };
        if let Err((call, full)) = taken {
            self.reject(call, &full);
        }
    }

    /// Runs a closure on the thread pool for calls of this number and awaits it. If the future is dropped, the work is cancelled.
    pub(crate) async fn work<T: Send + 'static>(
        self: &Arc<Self>,
        number: usize,
        work: impl FnOnce(&Self, &CallState) -> T + Send + 'static,
    ) -> Result<T, proto::Failure> {
        struct Abandon(Arc<CallState>);
        impl Drop for Abandon {
            fn drop(&mut self) {
                self.0.abandon();
            }
        }
        if let Some(refusal) = self.refusal(number) {
            self.metrics.shed.add(u64::from(refusal.retry_after_ms > 0));
            return Err(refusal);
        }
        let state = CallState::new(self.deadline_of(number, None), Arc::clone(&self.cut));
        let _abandon = Abandon(Arc::clone(&state));
        let (tell, told) = oneshot::channel();
        let (service, began) = (Arc::clone(self), Instant::now());
        let under_way = InFlight::new(&self.metrics);
        let job = Box::new(move || {
            let outcome = work(&service, &state);
            if number > 0 {
                service.metrics.answered(number, began.elapsed(), false);
            }
            drop(service);
            drop(under_way);
            let _ = tell.send(outcome);
        });
        let lane = if is_long_call(number) {
            &self.scanners
        } else {
            &self.readers
        };
        if let Err(full) = lane.submit(job) {
            self.metrics.shed.add(1);
            return Err(full.failure());
        }
        let outcome = told.await.map_err(|_| {
            failure_out(&Error::Unavailable(
                "the server could not finish this call; its log says more".into(),
            ))
        })?;
        // A late answer may be out of date.
        match self.gate() {
            Some(gate) if !gate.is_open() => Err(failure_out(&crate::call::lease_ended_error())),
            _ => Ok(outcome),
        }
    }

    /// Takes a call whose request is decoded.
    pub(crate) fn request(self: &Arc<Self>, request: Request, number: usize, call: Call) {
        if let Some(refusal) = self.refusal(number) {
            self.metrics.shed.add(u64::from(refusal.retry_after_ms > 0));
            call.done(Reply::Failure(refusal));
            return;
        }
        let lane = if is_long_call(number) {
            &self.scanners
        } else {
            &self.readers
        };
        self.submit(lane, call, move |service, call| {
            service.answer(request, call);
        });
    }

    /// Largest message of a client in bytes: one call, or several small ones.
    pub(crate) fn message_bytes_max(&self) -> usize {
        let one = self.settings.limits.request_bytes;
        one.max(crate::limits::MESSAGE_BYTES_LEAST)
    }

    /// Deadline of a call that asks for this timeout.
    pub(crate) fn deadline(&self, timeout: Option<Duration>) -> Option<Instant> {
        let limit = match (timeout, self.settings.limits.time) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        limit.and_then(|t| Instant::now().checked_add(t))
    }

    /// Deadline of a call of this number.
    pub(crate) fn deadline_of(&self, number: usize, timeout: Option<Duration>) -> Option<Instant> {
        if moves_all(number) {
            return timeout.and_then(|t| Instant::now().checked_add(t));
        }
        self.deadline(timeout)
    }
}

impl QueueFull {
    /// Returns the failure that tells a rejected client when to try again.
    pub(crate) fn failure(&self) -> proto::Failure {
        let millis = u32::try_from(self.after.as_millis()).unwrap_or(u32::MAX);
        let message = format!(
            "the server is busy: {} requests wait, the most that may; try again in {millis} ms",
            self.waiting
        );
        busy(message, millis)
    }
}

/// Counter of a request in progress; dropping it ends the request.
pub(crate) struct InFlight(Arc<Metrics>);

impl InFlight {
    pub(crate) fn new(metrics: &Arc<Metrics>) -> Self {
        metrics.in_flight.add(1);
        Self(Arc::clone(metrics))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.add(-1);
    }
}

/// Number of SPARQL requests in progress per client.
#[derive(Debug, Default, Clone)]
pub(crate) struct ClientCounts(Arc<Mutex<HashMap<Arc<str>, usize>>>);

/// One SPARQL request in progress; dropping it ends the request.
#[derive(Debug)]
pub(crate) struct ClientSlot {
    clients: ClientCounts,
    client: Arc<str>,
}

impl ClientCounts {
    /// Counts one more request of a client; `None` if `most` are in progress.
    pub(crate) fn acquire(&self, client: &Arc<str>, most: usize) -> Option<ClientSlot> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(Arc::clone(client)).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(ClientSlot {
            clients: self.clone(),
            client: Arc::clone(client),
        })
    }
}

impl ClientCounts {
    /// Number of requests in progress over all clients, at least 1.
    pub(crate) fn busy(&self) -> usize {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.values().sum::<usize>().max(1)
    }
}

impl Drop for ClientSlot {
    fn drop(&mut self) {
        let mut counts = self
            .clients
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.client) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(&self.client);
            }
        }
    }
}

/// Bytes of memory that all SPARQL queries use together.
#[derive(Debug, Default)]
pub(crate) struct MemoryPool(AtomicUsize);

/// Bytes of the pool that one query uses; dropping it returns them.
#[derive(Debug)]
pub(crate) struct MemoryReservation<'a> {
    pool: &'a MemoryPool,
    bytes: AtomicUsize,
}

impl MemoryPool {
    pub(crate) fn reserve(&self) -> MemoryReservation<'_> {
        MemoryReservation {
            pool: self,
            bytes: AtomicUsize::new(0),
        }
    }
}

impl MemoryReservation<'_> {
    /// Grows this query's share to `bytes`; false if all queries together then exceed `most`.
    pub(crate) fn grow(&self, bytes: usize, most: usize) -> bool {
        let before = self.bytes.fetch_max(bytes, Ordering::AcqRel);
        let more = bytes.saturating_sub(before);
        self.pool.0.fetch_add(more, Ordering::AcqRel) + more <= most
    }
}

impl Drop for MemoryReservation<'_> {
    fn drop(&mut self) {
        let bytes = *self.bytes.get_mut();
        self.pool.0.fetch_sub(bytes, Ordering::AcqRel);
    }
}

/// Number of the call in an encoded request; 0 for an unknown call.
pub(crate) fn number_of(request: &[u8]) -> usize {
    match call_number(request) {
        Some(number) if (number as usize) < crate::metrics::CALLS.len() => number as usize,
        _ => 0,
    }
}
