//! State shared by everything that serves one database: the database, the thread pools, the limits.

use crate::access::Access;
use crate::call::{Call, CallState};
use crate::calls::{CALLS, number_named};
use crate::cluster::Cluster;
use crate::http::Console;
use crate::member::gate::Gate;
use crate::metrics::Metrics;
use crate::settings::{QuotaKind, Settings};
use crate::shares::InlineUse;
use crate::spans;
use crate::stop_request::StopFlag;
use crate::storage_quota::{Holdings, StorageUse};
use crate::watch::Watchers;
use crate::work::{CLIENT, Lane, LaneOptions, QueueFull};
use crate::writer::Writer;
use esker::Database;
use esker_model::{Error, Result, Version};
use esker_rpc::failure::{busy, failure_out};
use esker_rpc::proto;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};

pub(crate) const APPLY: usize = number_named("apply");
const CLUSTER: usize = number_named("cluster");
const WINDOW: usize = number_named("window");
const SHUTDOWN: usize = number_named("shutdown");
pub(crate) const WATCH_FILES: usize = number_named("watch_files");
/// Time after which a client repeats a query that its quota refused, in milliseconds.
const QUERY_RETRY_MS: u32 = 200;
/// Call number of requests from other servers, which arrive at `exchange`.
pub(crate) const PEER: usize = number_named("peer");

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
    /// Use of the network threads by clients; `None` if shares are not fair.
    pub(crate) inline_use: Option<InlineUse>,
    /// Number of queries in progress per client.
    pub(crate) queries: ClientCounts,
    /// Entries of users, groups and projects; `None` if no limit depends on them.
    pub(crate) storage: Option<StorageUse>,
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
        let by_count = !settings.shares.fair;
        let scans = LaneOptions {
            reserved: settings.scanners / 4,
            background: true,
            by_count,
            ..LaneOptions::default()
        };
        let sparql = LaneOptions {
            reserved: settings.sparql.threads / 4,
            stack: Some(esker::rdf::STACK),
            background: true,
            by_count,
        };
        let short = LaneOptions {
            by_count,
            ..LaneOptions::default()
        };
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
        let limits_storage = access.clients().quotas().limits_storage();
        if limits_storage && cluster.is_some() {
            return Err(Error::Invalid(
                "the servers of a cluster have no limits on `entries` and `bytes`: leave them out of [quotas]".into(),
            ));
        }
        let storage = limits_storage.then(StorageUse::default);
        let newest = database.stats()?.newest.unwrap_or(Version::ZERO);
        let waiting = settings.limits.waiting;
        Ok(Self {
            readers: lanes.readers,
            scanners: lanes.scanners,
            sparql: lanes.sparql,
            own_lanes,
            inline_use: settings.shares.fair.then(InlineUse::new),
            queries: ClientCounts::default(),
            storage,
            sparql_clients: ClientCounts::default(),
            sparql_memory: MemoryPool::default(),
            writer: Writer::new(waiting, !settings.shares.fair),
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
        let slot = self.begin_query(number)?;
        let state = CallState::new(self.deadline_of(number, None), Arc::clone(&self.cut));
        let _abandon = Abandon(Arc::clone(&state));
        let (tell, told) = oneshot::channel();
        let (service, began) = (Arc::clone(self), Instant::now());
        let span = spans::of_work(number);
        let under_way = InFlight::new(&self.metrics);
        let job = Box::new(move || {
            let outcome = esker_telemetry::sync_scope(span, || work(&service, &state));
            if number > 0 {
                service.metrics.answered(number, began.elapsed(), false);
            }
            drop(service);
            drop((under_way, slot));
            let _ = tell.send(outcome);
        });
        if let Err(full) = self.lane(number).submit(job) {
            self.metrics.shed.add(1);
            return Err(full.failure());
        }
        let outcome = told.await.map_err(|_| {
            failure_out(&Error::Undecided(
                "the server could not finish this call; its log says more".into(),
            ))
        })?;
        // A late answer may be out of date.
        match self.gate() {
            Some(gate) if !gate.is_open() => Err(failure_out(&crate::call::lease_ended_error())),
            _ => Ok(outcome),
        }
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
        let call = CALLS.get(number);
        let timeout = if call.is_some_and(|call| call.long) {
            Self::query_time(timeout)
        } else {
            timeout
        };
        if call.is_some_and(|call| call.moves_all) {
            return timeout.and_then(|t| Instant::now().checked_add(t));
        }
        self.deadline(timeout)
    }

    /// Shortens the timeout of a query to the quota of the client whose request is being accepted.
    pub(crate) fn query_time(timeout: Option<Duration>) -> Option<Duration> {
        let limit = CLIENT.try_with(|client| {
            let limit = client.limit(QuotaKind::QueryTime);
            limit.map(|limit| Duration::from_millis(limit.most))
        });
        match (timeout, limit.ok().flatten()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Admits what a call creates, or answers the call with the limit that it would exceed.
    pub(crate) fn admit_storage(&self, call: Call, new: impl FnOnce() -> Holdings) -> Option<Call> {
        let Some(storage) = &self.storage else {
            return Some(call);
        };
        let table = self.access.clients().quotas();
        match storage.admit(new(), table, call.state.client()) {
            Ok(()) => Some(call),
            Err(exceeded) => {
                call.over_quota(exceeded.kind, exceeded.message);
                None
            }
        }
    }

    /// Thread pool for calls of this number.
    pub(crate) fn lane(&self, number: usize) -> &Arc<Lane> {
        if CALLS.get(number).is_some_and(|call| call.long) {
            &self.scanners
        } else {
            &self.readers
        }
    }

    /// Counts one more query of the client whose request is being accepted, if calls of this number are queries; an error if the client
    /// has too many in progress.
    pub(crate) fn begin_query(&self, number: usize) -> Result<Option<ClientSlot>, proto::Failure> {
        if CALLS.get(number).is_some_and(|call| call.long) {
            self.count_query()
        } else {
            Ok(None)
        }
    }

    /// Counts one more query of the client whose request is being accepted, like [`Self::begin_query`].
    pub(crate) fn count_query(&self) -> Result<Option<ClientSlot>, proto::Failure> {
        let Ok(client) = CLIENT.try_with(Arc::clone) else {
            return Ok(None);
        };
        let limit = client.limit(QuotaKind::Queries);
        let most = limit.map_or(usize::MAX, |limit| limit.most as usize);
        let slot = self.queries.acquire(&client.share.client, most);
        match (slot, limit) {
            (None, Some(limit)) => {
                self.metrics.quota_refused(QuotaKind::Queries);
                let message = client.too_many_queries(limit);
                Err(busy(message, QUERY_RETRY_MS))
            }
            (slot, _) => Ok(slot),
        }
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

/// Number of requests in progress per client.
#[derive(Debug, Default, Clone)]
pub(crate) struct ClientCounts(Arc<Mutex<HashMap<Arc<str>, usize>>>);

/// One request in progress; dropping it ends the request.
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
    /// Number of requests of a client in progress.
    pub(crate) fn of(&self, client: &str) -> usize {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.get(client).copied().unwrap_or(0)
    }

    /// Number of requests in progress by client.
    pub(crate) fn all(&self) -> Vec<(Arc<str>, usize)> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let each = counts.iter().map(|(client, n)| (Arc::clone(client), *n));
        each.collect()
    }

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
