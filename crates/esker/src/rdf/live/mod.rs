//! RDF data held in memory by one process for many clients. Queries use snapshots; one thread makes updates in order, and
//! waiting updates are written to the log as a group.
//!
//! ```text
//!  update ─► queue ─► writer: a group on a copy ─► log (one write, one fsync) ─► the copy becomes the snapshot ─► responses
//!                       │
//!                       └── if the log is long: a thread writes an image of the snapshot, then the writer switches to it
//!  query ──► the snapshot (without waiting)
//! ```

#[cfg(test)]
mod tests;
mod work;

use super::meta::{Meta, MetaGraphs, RequestedGraphs, graphs_in};
use super::stack::STACK;
use super::{Rules, UpdateCounts, disk, now_and_seed};
use crate::database::Database;
use esker_model::object::Principal;
use esker_model::{Error, Result};
use esker_rdf::{Dataset, Graphs, Solutions, Update};
use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, mpsc};
use std::thread::JoinHandle;
use work::WriterThread;

/// Maximum of updates in the queue.
const WAITING_MAX: usize = 65_536;

/// Callback for the result of a task.
pub type Callback<T> = Box<dyn FnOnce(Result<T>) + Send>;
/// Cancellation check, called repeatedly; returns the reason to stop.
pub type StopCheck = Arc<dyn Fn() -> Option<&'static str> + Send + Sync>;

/// Update to be executed, as text or parsed.
#[derive(Debug)]
pub enum UpdateRequest {
    /// Text of a SPARQL update.
    Text(String),
    /// A parsed SPARQL update.
    Parsed(Box<Update>),
}

/// Options of an update.
#[derive(Clone)]
pub struct UpdateOptions {
    /// Dataset of the patterns, instead of the one that the text names.
    pub graphs: Option<Graphs>,
    /// Cancellation check of the update.
    pub stop: StopCheck,
    /// Whether the change must survive a power failure.
    pub sync: bool,
    /// Whether `LOAD` may read files of this machine.
    pub files: bool,
    /// Maximum bytes of an intermediate result.
    pub memory: usize,
    /// Metadata graphs that the update reads: [`Live::meta_of`].
    pub meta: MetaGraphs,
    /// Results of the `SERVICE` calls of the update, fetched in advance.
    pub service_results: Arc<ServiceResults>,
    /// Documents of the update's `LOAD` operations, in order, read in advance; empty if none was.
    pub documents: Arc<Vec<std::result::Result<Dataset, String>>>,
    /// Principal whose rights on graphs apply.
    pub principal: Option<Principal>,
}

/// Results of other endpoints, by endpoint and query.
pub type ServiceResults = HashMap<(String, String), std::result::Result<Solutions, String>>;

impl Default for UpdateOptions {
    fn default() -> Self {
        Self {
            graphs: None,
            stop: Arc::new(|| None),
            sync: false,
            files: true,
            memory: 4 << 30,
            meta: MetaGraphs::new(),
            service_results: Arc::default(),
            documents: Arc::default(),
            principal: None,
        }
    }
}

impl std::fmt::Debug for UpdateOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("How")
            .field("graphs", &self.graphs)
            .field("sync", &self.sync)
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

/// Quads to add, and the graph that they replace.
#[derive(Debug, Default)]
pub struct AddQuads {
    /// Quads that are added to the data.
    pub data: Dataset,
    /// Graph that is cleared first: its IRI, or `Some(None)` for the default graph.
    pub instead_of: Option<Option<String>>,
    /// Graph whose former existence is reported.
    pub into: Option<String>,
    /// Inference rules from now on.
    pub infer: Rules,
    /// Whether the change must survive a power failure.
    pub sync: bool,
    /// Principal whose rights on graphs apply.
    pub principal: Option<Principal>,
}

/// Result of adding quads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddReport {
    /// Whether the graph had quads before.
    pub existed: bool,
    /// Number of new quads; a quad that replaces an equal one is not counted.
    pub new: usize,
    /// Number of quads before.
    pub before: usize,
}

enum Task {
    Update(UpdateRequest, UpdateOptions, Callback<UpdateCounts>),
    AddQuads(Box<AddQuads>, Callback<AddReport>),
    Checkpoint(Callback<u64>),
    Drop(Callback<usize>),
    /// Hands out the dataset, to be returned with more terms in its dictionary.
    Lend(mpsc::SyncSender<Dataset>, mpsc::Receiver<Dataset>),
    /// The separately written image with this number is complete or has failed.
    Image(u64, Result<u64>),
}

#[derive(Default)]
struct TaskQueue {
    tasks: VecDeque<Task>,
    stopped: bool,
}

struct LiveShared {
    folder: PathBuf,
    present: RwLock<Arc<Dataset>>,
    state: Mutex<TaskQueue>,
    more: Condvar,
    seeds: AtomicU64,
    log_bytes: AtomicU64,
}

/// RDF data of a folder, open in this process. Dropping it ends the writer thread.
pub struct Live {
    shared: Arc<LiveShared>,
    /// Metadata graphs derived from the database of the same folder.
    meta: Mutex<Meta>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live")
            .field("folder", &self.shared.folder)
            .finish_non_exhaustive()
    }
}

impl LiveShared {
    fn state(&self) -> MutexGuard<'_, TaskQueue> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn snapshot(&self) -> Arc<Dataset> {
        Arc::clone(&self.present.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn publish(&self, data: Dataset, log_bytes: u64) {
        self.log_bytes.store(log_bytes, Ordering::Release);
        let new = Arc::new(data);
        let old = {
            let mut present = self.present.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *present, new)
        };
        drop(old);
    }

    /// Takes the next task; `None` once stopped and the queue is empty.
    fn next(&self, wait: bool) -> Option<Task> {
        let mut state = self.state();
        loop {
            if let Some(task) = state.tasks.pop_front() {
                return Some(task);
            }
            if state.stopped || !wait {
                return None;
            }
            state = self
                .more
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    #[allow(
        clippy::result_large_err,
        reason = "a refused task goes back whole, to be answered"
    )]
    fn push(&self, task: Task) -> Result<(), Task> {
        let mut state = self.state();
        if state.stopped || state.tasks.len() >= WAITING_MAX && !matches!(task, Task::Image(..)) {
            return Err(task);
        }
        state.tasks.push_back(task);
        // The writer empties the queue before it sleeps.
        let first = state.tasks.len() == 1;
        drop(state);
        if first {
            self.more.notify_one();
        }
        Ok(())
    }

    fn seed(&self) -> u64 {
        self.seeds
            .fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed)
    }
}

fn busy() -> Error {
    Error::Busy(
        "too many updates of RDF data wait, or the database is being closed; try again later"
            .into(),
    )
}

impl Live {
    /// Opens the data of a folder, and makes this process its only writer. With `sync`, all changes survive a power
    /// failure;
    /// otherwise only those that ask for it.
    pub(crate) fn open(folder: &Path, sync: bool) -> Result<Self> {
        super::part::check_complete(folder)?;
        let mut disk = disk::lock(folder)?;
        let opened = disk::read(folder)?;
        disk.begin(opened.number, opened.log_bytes)?;
        if opened.number == 0 {
            disk.checkpoint(&opened.data)?;
        }
        let (_, seed) = now_and_seed();
        let shared = Arc::new(LiveShared {
            folder: folder.to_path_buf(),
            present: RwLock::new(Arc::new(opened.data)),
            state: Mutex::default(),
            more: Condvar::new(),
            seeds: AtomicU64::new(seed),
            log_bytes: AtomicU64::new(disk.log_bytes),
        });
        let mut work = WriterThread::new(Arc::clone(&shared), disk, sync);
        let thread = std::thread::Builder::new()
            .name("esker-rdf".into())
            .stack_size(STACK)
            .spawn(move || work.run())
            .map_err(|e| Error::io("starting the thread that updates RDF data", e))?;
        Ok(Self {
            shared,
            meta: Mutex::default(),
            thread: Some(thread),
        })
    }

    /// Snapshot of the data.
    pub fn snapshot(&self) -> Arc<Dataset> {
        self.shared.snapshot()
    }

    /// Snapshot of the data with metadata graphs of the database. Building a graph takes a while, during which updates
    /// wait.
    /// Requests for graphs that are up to date wait only for other requests for such graphs.
    pub fn with_meta(
        &self,
        database: &Database,
        requested: &RequestedGraphs,
        stop: &(dyn Fn() -> Option<&'static str> + Sync),
    ) -> Result<Arc<Dataset>> {
        if requested.is_empty() {
            return Ok(self.snapshot());
        }
        let mut meta = self.meta.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ready) = meta.ready(&self.snapshot(), database, requested)? {
            return Ok(Arc::new(ready));
        }
        // The graph's terms get numbers in the dictionary, which only the writer may change.
        let (give, take) = (mpsc::sync_channel(1), mpsc::sync_channel(1));
        let lend = Task::Lend(give.0, take.1);
        if self.shared.push(lend).is_err() {
            return Err(busy());
        }
        let mut data = give.1.recv().map_err(|_| busy())?;
        let snapshot = meta.snapshot(&mut data, database, requested, stop);
        // Unused terms do no harm.
        let _ = take.0.send(data);
        snapshot.map(Arc::new)
    }

    /// Number of triples of the metadata graph, if it was built.
    pub fn meta_len(&self) -> Option<usize> {
        self.meta.try_lock().ok()?.triples()
    }

    /// Builds the metadata graphs that an update reads.
    pub fn meta_of(
        &self,
        database: &Database,
        update: &Update,
        graphs: Option<&Graphs>,
        stop: &(dyn Fn() -> Option<&'static str> + Sync),
    ) -> Result<MetaGraphs> {
        let requested = RequestedGraphs::of_update(update, graphs)?;
        if requested.is_empty() {
            return Ok(MetaGraphs::new());
        }
        Ok(graphs_in(&*self.with_meta(database, &requested, stop)?))
    }

    /// Folder of the RDF data.
    pub fn folder(&self) -> &Path {
        &self.shared.folder
    }

    /// Bytes of the log since the image.
    pub fn log_bytes(&self) -> u64 {
        self.shared.log_bytes.load(Ordering::Acquire)
    }

    /// A new random seed for each request.
    pub fn seed(&self) -> u64 {
        self.shared.seed()
    }

    /// Queues an update and calls `done` once it is durable. A refused update calls `done` on this thread.
    pub fn submit(&self, request: UpdateRequest, how: UpdateOptions, done: Callback<UpdateCounts>) {
        if let Err(Task::Update(_, _, done)) = self.shared.push(Task::Update(request, how, done)) {
            done(Err(busy()));
        }
    }

    /// Makes an update and waits for its result.
    pub fn update(&self, request: UpdateRequest, how: UpdateOptions) -> Result<UpdateCounts> {
        wait(|done| self.submit(request, how, done))
    }

    /// Queues quads to add and calls `done` once they are durable.
    pub fn submit_add(&self, add: AddQuads, done: Callback<AddReport>) {
        if let Err(Task::AddQuads(_, done)) = self.shared.push(Task::AddQuads(Box::new(add), done))
        {
            done(Err(busy()));
        }
    }

    /// Adds quads and waits for the result.
    pub fn add(&self, add: AddQuads) -> Result<AddReport> {
        wait(|done| self.submit_add(add, done))
    }

    /// Writes an image of all data while updates continue; returns its bytes.
    pub fn checkpoint(&self) -> Result<u64> {
        wait(|done| {
            if let Err(Task::Checkpoint(done)) = self.shared.push(Task::Checkpoint(done)) {
                done(Err(busy()));
            }
        })
    }

    /// Deletes all RDF data; returns the number of quads deleted.
    pub fn drop_all(&self) -> Result<usize> {
        wait(|done| {
            if let Err(Task::Drop(done)) = self.shared.push(Task::Drop(done)) {
                done(Err(busy()));
            }
        })
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.shared.state().stopped = true;
        self.shared.more.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn wait<T: Send + 'static>(ask: impl FnOnce(Callback<T>)) -> Result<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    ask(Box::new(move |result| {
        // The caller may no longer be waiting.
        let _ = sender.send(result);
    }));
    receiver.recv().unwrap_or_else(|_| {
        Err(Error::Undecided(
            "the thread that updates RDF data could not finish this; whether it was done is not known".into(),
        ))
    })
}
