//! What a server is to all that serve it: the database, the threads, the limits. Every call comes in at
//! [`Service::call`], whichever way it came.

use crate::access::Access;
use crate::answer;
use crate::asked::Wish;
use crate::call::{Call, Watch};
use crate::cluster::Cluster;
use crate::http::Console;
use crate::limits::{ANSWER_HERE_BYTES, DECODE_HERE_BYTES, WRITE_HERE_MUTATIONS};
use crate::member::gate::Gate;
use crate::metrics::Metrics;
use crate::names;
use crate::objects;
use crate::settings::Settings;
use crate::watch::Watchers;
use crate::work::{Full, Lane, LaneOptions};
use crate::writer::Writer;
use bytes::Bytes;
use esker::Database;
use esker_cluster::peer::Applying;
use esker_model::namespace::Settled;
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

/// The numbers of calls in `Request` that are treated apart.
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
/// Questions of other servers, which come in at `exchange`.
pub(crate) const PEER: usize = 22;

/// The running server, shared by all its connections.
pub(crate) struct Service {
    pub(crate) database: Database,
    /// Its place among others, if it does not stand alone.
    pub(crate) cluster: Option<Arc<Cluster>>,
    pub(crate) settings: Settings,
    pub(crate) metrics: Arc<Metrics>,
    /// Whether the process is to stop.
    pub(crate) wish: Arc<Wish>,
    /// Who may do what.
    pub(crate) access: Arc<Access>,
    /// Bytes of requests and answers in memory.
    pub(crate) memory: Arc<AtomicUsize>,
    pub(crate) readers: Arc<Lane>,
    pub(crate) scanners: Arc<Lane>,
    /// Queries of SPARQL, on stacks that are large enough for any.
    pub(crate) sparql: Arc<Lane>,
    /// Whether nobody else's calls run on those threads.
    pub(crate) own_lanes: bool,
    /// What each client has under way there.
    pub(crate) sparql_clients: Clients,
    /// The memory of those queries.
    pub(crate) sparql_memory: Pool,
    pub(crate) writer: Writer,
    /// What the console's pages are answered from.
    pub(crate) console: Console,
    /// Who is told what happens to files.
    pub(crate) watchers: Watchers,
    /// The newest version that a client may have seen.
    newest: AtomicU64,
    /// No new calls.
    closing: AtomicBool,
    /// What is under way is cut off.
    pub(crate) cut: Arc<AtomicBool>,
    /// Streams end.
    gone: watch::Sender<bool>,
}

/// Which threads a call is for.
fn is_long(number: usize) -> bool {
    // Scans, differences, traversals, top degrees, histories with archives, check, compact, backup; searches for objects,
    // what tags there are, tagging, indexes; listings, walks and sums of files; whatever is asked on somebody's behalf.
    matches!(
        number,
        6 | 7 | 8 | 9 | 11 | 13 | 14 | 18 | 19 | 21 | 26..=29 | 33 | 34 | 36..=38 | 41 | 42
    )
}

/// Calls that move or mend all data: how long they take says nothing of who asks.
fn moves_all(number: usize) -> bool {
    // All vertices, check, compact, persist, backup, window, a walk through all files, watching.
    matches!(number, 7 | 18..=21 | WINDOW | 34 | WATCH_FILES)
}

/// Threads for clients' calls.
#[derive(Clone)]
pub(crate) struct Lanes {
    readers: Arc<Lane>,
    scanners: Arc<Lane>,
    sparql: Arc<Lane>,
}

impl Lanes {
    pub(crate) fn new(settings: &Settings) -> Self {
        let waiting = settings.limits.waiting;
        let scans = LaneOptions {
            kept: settings.scanners / 4,
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

    /// Ends them; none of their jobs may be under way.
    pub(crate) fn stop(&self) {
        self.readers.stop();
        self.scanners.stop();
        self.sparql.stop();
    }
}

impl Service {
    /// Whether answers may leave still: not once somebody else may have this store.
    pub(crate) fn gate(&self) -> Option<Arc<Gate>> {
        self.cluster.as_ref()?.gate()
    }

    pub(crate) fn new(
        database: Database,
        cluster: Option<Arc<Cluster>>,
        settings: Settings,
        lanes: Option<Lanes>,
        access: Arc<Access>,
        metrics: Arc<Metrics>,
    ) -> Result<Self> {
        let own_lanes = lanes.is_none();
        let lanes = lanes.unwrap_or_else(|| Lanes::new(&settings));
        let newest = database.stats()?.newest.unwrap_or(Version::ZERO);
        let waiting = settings.limits.waiting;
        Ok(Self {
            readers: lanes.readers,
            scanners: lanes.scanners,
            sparql: lanes.sparql,
            own_lanes,
            sparql_clients: Clients::default(),
            sparql_memory: Pool::default(),
            writer: Writer::new(waiting),
            console: Console::default(),
            watchers: Watchers::default(),
            wish: cluster.as_ref().and_then(|c| c.wish()).unwrap_or_default(),
            metrics,
            access,
            memory: Arc::new(AtomicUsize::new(0)),
            newest: AtomicU64::new(newest.0),
            closing: AtomicBool::new(false),
            cut: Arc::new(AtomicBool::new(false)),
            gone: watch::channel(false).0,
            database,
            cluster,
            settings,
        })
    }

    /// Notes a version that goes to a client.
    pub(crate) fn saw(&self, version: Version) {
        if version != Version::MAX {
            self.newest.fetch_max(version.0, Ordering::AcqRel);
        }
    }

    /// Whether the database has that version, as far as is known without asking it.
    pub(crate) fn has(&self, version: Version) -> bool {
        version.0 <= self.newest.load(Ordering::Acquire)
    }

    /// Takes no new calls from now on.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Release);
    }

    /// All streams end, also those that run on threads which go on.
    pub(crate) fn leave(&self) {
        self.gone.send_replace(true);
    }

    /// Ends when streams are to.
    pub(crate) fn gone(&self) -> watch::Receiver<bool> {
        self.gone.subscribe()
    }

    pub(crate) fn closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Why a call cannot be taken on, if so.
    pub(crate) fn refusal(&self, number: usize) -> Option<proto::Failure> {
        if let Some(cluster) = &self.cluster
            && !matches!(number, CLUSTER | WINDOW | SHUTDOWN)
            // What was acknowledged before comes first.
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
                "the server is busy: requests and answers in memory take {memory} bytes, the most they may is {most}; \
                 try again in 50 ms"
            );
            busy(message, 50)
        })
    }

    pub(crate) fn turn_away(&self, call: Call, full: &Full) {
        self.metrics.shed.add(1);
        call.done(Reply::Failure(full.failure()));
    }

    /// Takes a call whose request is bytes still.
    pub(crate) fn call(self: &Arc<Self>, request: Bytes, number: usize, call: Call) {
        if number == PEER {
            let error = Error::Invalid("only servers of a cluster ask each other that".into());
            call.failed(&error);
            return;
        }
        if let Some(refusal) = self.refusal(number) {
            self.metrics.shed.add(u64::from(refusal.retry_after_ms > 0));
            call.done(Reply::Failure(refusal));
            return;
        }
        if number == PING {
            call.done(answer::pong());
            return;
        }
        if matches!(number, APPLY | CHANGE_FILES) && request.len() <= DECODE_HERE_BYTES {
            self.decode(request, call);
            return;
        }
        // What is in memory is answered sooner than another thread is woken.
        if request.len() <= ANSWER_HERE_BYTES
            && self.at_rest(number, &call)
            && let Some(reply) = self.answer_here(&request, &call)
        {
            call.done(reply);
            return;
        }
        let lane = if is_long(number) {
            &self.scanners
        } else {
            &self.readers
        };
        self.submit(lane, call, move |service, call| {
            service.decode(request, call);
        });
    }

    /// Whether a look at objects, which are in memory, or at one row of a file waits for nobody, as far as can be told.
    fn at_rest(&self, number: usize, call: &Call) -> bool {
        matches!(number, READ_OBJECTS | FIND | STAT_FILE)
            && self.cluster.is_none()
            && self.has(call.terms.at_least.0)
            && self.writer.is_idle()
    }

    /// The whole answer to a question about objects, if it is over before another thread is woken, and small: nothing here
    /// may wait, neither for others nor for the client. What fails is asked again where it is reported.
    fn answer_here(&self, request: &Bytes, call: &Call) -> Option<Reply> {
        let graph = self.graph(call.terms.at_least.0, None);
        match proto::Request::decode(request.clone()).ok()?.call? {
            Request::ReadObjects(request) => objects::read_here(&*graph, request, call),
            Request::Find(request) => {
                let find = find_in(request, objects::now_nanos()).ok()?;
                let short = self.database.finds_few(&find);
                short
                    .then(|| objects::find_here(&*graph, &find, call))
                    .flatten()
            }
            // It waits for the writer.
            Request::StatFile(request) if request.watcher != 0 => None,
            Request::StatFile(request) => names::stat_own(&self.database, &request).ok(),
            _ => None,
        }
    }

    /// Whether so many changes are to be made on this thread: they are few, nobody writes just now and nobody waits for the
    /// disk.
    pub(crate) fn writes_here(&self, changes: usize, sync: bool, call: &Call) -> bool {
        let small = changes <= WRITE_HERE_MUTATIONS && call.bytes() <= ANSWER_HERE_BYTES;
        small && !sync && self.cluster.is_none() && self.writer.is_idle()
    }

    /// Writes a small batch on this thread, if nobody writes just now and nobody waits for the disk; else gives it back.
    fn write_here(&self, batch: Batch, sync: bool, call: Call) -> Option<(Batch, Call)> {
        if !self.writes_here(batch.len(), sync, &call) {
            return Some((batch, call));
        }
        let count = batch.len() as u64;
        match self.database.apply_now(batch) {
            Ok(commit) => {
                self.metrics.groups.record(1);
                self.metrics.batches.record(count);
                crate::writer::tell(self, call, commit);
                None
            }
            Err(batch) => Some((batch, call)),
        }
    }

    /// Runs something on the threads of a lane.
    fn submit(
        self: &Arc<Self>,
        lane: &Arc<Lane>,
        call: Call,
        run: impl FnOnce(&Arc<Self>, Call) + Send + 'static,
    ) {
        // The call has to come back if there is no room for it.
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
            self.turn_away(call, &full);
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

    /// Answers a request on this thread, or hands a batch to the writer.
    fn answer(self: &Arc<Self>, request: Request, call: Call) {
        match request {
            Request::Apply(request) if crate::text::names_paths(&request) => {
                // Looking paths up may wait for others.
                self.submit(&self.readers, call, move |service, call| {
                    service.apply_text(request, call);
                });
            }
            Request::Apply(request) => {
                let how = crate::cluster::how_in(&request);
                let batch = self
                    .schema()
                    .and_then(|schema| Ok(batch_in(request, &schema)?));
                match batch {
                    Ok((batch, sync)) => {
                        if let Some((batch, call)) = self.write_here(batch, sync, call) {
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

    /// Turns a batch that names files by paths to the files that are there now.
    pub(crate) fn settle(
        &self,
        batch: &mut Batch,
        schema: &Schema,
        paths: &[VertexName],
        seen: Version,
    ) -> Result<()> {
        let mut settled = Settled::default();
        settled.learn(&*self.names(seen), schema, paths)?;
        settled.turn(&mut batch.mutations);
        Ok(())
    }

    /// Hands a batch to the writer.
    pub(crate) fn write(self: &Arc<Self>, batch: Batch, sync: bool, how: Applying, call: Call) {
        let taken = match &self.cluster {
            None => self.writer.submit(batch.into(), sync, call),
            Some(cluster) => self.write_everywhere(cluster, batch, sync, how, call),
        };
        if let Err((call, full)) = taken {
            self.turn_away(call, &full);
        }
    }

    /// Runs something on the threads that a call of that number has, and waits for it. If whoever waits goes away, the
    /// work is told.
    pub(crate) async fn work<T: Send + 'static>(
        self: &Arc<Self>,
        number: usize,
        work: impl FnOnce(&Self, &Watch) -> T + Send + 'static,
    ) -> Result<T, proto::Failure> {
        struct Abandon(Arc<Watch>);
        impl Drop for Abandon {
            fn drop(&mut self) {
                self.0.abandon();
            }
        }
        if let Some(refusal) = self.refusal(number) {
            self.metrics.shed.add(u64::from(refusal.retry_after_ms > 0));
            return Err(refusal);
        }
        let watch = Watch::new(self.deadline_of(number, None), Arc::clone(&self.cut));
        let _abandon = Abandon(Arc::clone(&watch));
        let (tell, told) = oneshot::channel();
        let (service, began) = (Arc::clone(self), Instant::now());
        let under_way = UnderWay::new(&self.metrics);
        let job = Box::new(move || {
            let outcome = work(&service, &watch);
            if number > 0 {
                service.metrics.answered(number, began.elapsed(), false);
            }
            drop(service);
            drop(under_way);
            let _ = tell.send(outcome);
        });
        let lane = if is_long(number) {
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
        // What is answered late may be out of date.
        match self.gate() {
            Some(gate) if !gate.open() => Err(failure_out(&crate::call::moved())),
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
        let lane = if is_long(number) {
            &self.scanners
        } else {
            &self.readers
        };
        self.submit(lane, call, move |service, call| {
            service.answer(request, call);
        });
    }

    /// Bytes that a client's message may have: one call, or several that are small.
    pub(crate) fn message_bytes_max(&self) -> usize {
        let one = self.settings.limits.request_bytes;
        one.max(crate::limits::MESSAGE_BYTES_LEAST)
    }

    /// The deadline of a call that may take so long.
    pub(crate) fn deadline(&self, timeout: Option<Duration>) -> Option<Instant> {
        let limit = match (timeout, self.settings.limits.time) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        limit.and_then(|t| Instant::now().checked_add(t))
    }

    /// The deadline of a call of that number.
    pub(crate) fn deadline_of(&self, number: usize, timeout: Option<Duration>) -> Option<Instant> {
        if moves_all(number) {
            return timeout.and_then(|t| Instant::now().checked_add(t));
        }
        self.deadline(timeout)
    }
}

impl Full {
    /// What a client that is turned away is told.
    pub(crate) fn failure(&self) -> proto::Failure {
        let millis = u32::try_from(self.after.as_millis()).unwrap_or(u32::MAX);
        let message = format!(
            "the server is busy: {} requests wait, the most that may; try again in {millis} ms",
            self.waiting
        );
        busy(message, millis)
    }
}

/// A request that counts as under way until it is dropped.
pub(crate) struct UnderWay(Arc<Metrics>);

impl UnderWay {
    pub(crate) fn new(metrics: &Arc<Metrics>) -> Self {
        metrics.in_flight.add(1);
        Self(Arc::clone(metrics))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.in_flight.add(-1);
    }
}

/// How many requests of SPARQL each client has under way.
#[derive(Debug, Default, Clone)]
pub(crate) struct Clients(Arc<Mutex<HashMap<Arc<str>, usize>>>);

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    clients: Clients,
    client: Arc<str>,
}

impl Clients {
    /// One more of that client, unless it has so many.
    pub(crate) fn turn(&self, client: &Arc<str>, most: usize) -> Option<Turn> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(Arc::clone(client)).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Turn {
            clients: self.clone(),
            client: Arc::clone(client),
        })
    }
}

impl Clients {
    /// How many there are of all clients, at least one.
    pub(crate) fn busy(&self) -> usize {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.values().sum::<usize>().max(1)
    }
}

impl Drop for Turn {
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

/// The memory that all queries of SPARQL have together.
#[derive(Debug, Default)]
pub(crate) struct Pool(AtomicUsize);

/// A query's part of it, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Part<'a> {
    pool: &'a Pool,
    bytes: AtomicUsize,
}

impl Pool {
    pub(crate) fn part(&self) -> Part<'_> {
        Part {
            pool: self,
            bytes: AtomicUsize::new(0),
        }
    }
}

impl Part<'_> {
    /// Makes the part so large, if all together then have no more than `most`.
    pub(crate) fn grow(&self, bytes: usize, most: usize) -> bool {
        let before = self.bytes.fetch_max(bytes, Ordering::AcqRel);
        let more = bytes.saturating_sub(before);
        self.pool.0.fetch_add(more, Ordering::AcqRel) + more <= most
    }
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        let bytes = *self.bytes.get_mut();
        self.pool.0.fetch_sub(bytes, Ordering::AcqRel);
    }
}

/// Which call a request is; 0 if it is none of those known.
pub(crate) fn number_of(request: &[u8]) -> usize {
    match call_number(request) {
        Some(number) if (number as usize) < crate::metrics::CALLS.len() => number as usize,
        _ => 0,
    }
}
